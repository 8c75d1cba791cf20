package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// What once went wrong with what agents send, and with what callbacks return.

// A callback may return the same answer again and again, to several runs at once.
func TestAnAnswerOfACallbackIsNotAltered(t *testing.T) {
	canned := &model.Response{Message: chat.Assistant("no")}
	for name, l := range map[string]agent.LLM[S]{
		"Before": {Model: scripted.New(), Use: aroundModel(func(context.Context, *S, *model.Request) (*model.Response, error) { return canned, nil }, nil)},
		"After": {Model: scripted.New(scripted.Text("x").Repeat()), Use: aroundModel(nil, func(context.Context, *S, *model.Request, *model.Response, error) (*model.Response, error) {
			return canned, nil
		})},
	} {
		b := graph.New[S]("g")
		agent.AddLLM(b, "a", l)
		g, err := b.AddEdge(graph.Start, "a").Compile(mem())
		g = ok(t, g, err)
		for _, text := range []string{"one", "two"} {
			if _, err := g.Thread(th).Invoke(t.Context(), input(text)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := g.Thread(th).State(t.Context())
		if err != nil || s.State.Messages.String() != "user: one\nassistant: no\nuser: two\nassistant: no\n" {
			t.Errorf("%s: %v\n%s", name, err, s.State.Messages)
		}
		if canned.Message.ID != "" {
			t.Errorf("%s: the answer got the ID %q", name, canned.Message.ID)
		}
	}
}

// Providers take a conversation that ends with the model's answer for the
// beginning of the next one, or refuse it.
func TestTheFormOfAnAnswerIsAskedForByAMessageOfTheUser(t *testing.T) {
	form, err := model.OutputOf[struct{ N int }]()
	if err != nil {
		t.Fatal(err)
	}
	m := scripted.New(scripted.Text("It is 1."), scripted.Text(`{"N":1}`))
	g, err := agent.New(agent.ReAct[S]{Model: m, Output: form})
	s, err := ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
	if err != nil {
		t.Fatal(err)
	}
	if ms := m.Last().Messages; ms[len(ms)-1].Role != chat.RoleUser || len(ms) != 3 {
		t.Errorf("the request is %v", ms)
	}
	if s.State.Messages.Len() != 2 {
		t.Errorf("the conversation is\n%s", s.State.Messages)
	}
}

// A provider that signs its thoughts wants them back with the calls that they led
// to, and a model wants to see the picture that it asked for.
func TestASingleNodeSendsBackAllThatWasSaid(t *testing.T) {
	thought := chat.Reasoning{Text: "I look.", Signature: "c2ln"}
	picture := chat.Image{Source: chat.Source{Data: []byte("png"), MIME: "image/png"}}
	look := tool.New("look", "l", func(context.Context, none) (chat.Part, error) { return picture, nil })
	fail := tool.New("fail", "f", func(context.Context, none) (string, error) { return "", errors.New("no") })
	said := chat.Message{Parts: []chat.Part{thought, call("1", "look", "{}"), call("2", "fail", "{}")}}
	m := scripted.New(scripted.Message(said), scripted.Text("ok"))
	b := graph.New[report]("g")
	agent.AddReAct(b, "a", agent.ReActNode{Model: m, Tools: []tool.Tool{look, fail}, OnError: agent.TellModel})
	g, err := b.AddEdge(graph.Start, "a").Compile()
	if err == nil {
		_, err = g.Invoke(t.Context(), question("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	ms := m.Last().Messages
	if len(ms) != 5 {
		t.Fatalf("sent %v", ms)
	}
	r1, _ := ms[3].ToolResult()
	r2, _ := ms[4].ToolResult()
	if !reflect.DeepEqual(ms[2].Parts, said.Parts) || !reflect.DeepEqual(r1.Content, []chat.Part{picture}) || !r2.IsError {
		t.Errorf("sent %+v", ms[2:])
	}
}

// What a human or the tool has to say to the model is no answer for the user.
func TestADirectToolThatFailsIsToldToTheModel(t *testing.T) {
	failing := tool.New("buy", "b", func(_ context.Context, in struct{ N int }) (string, error) {
		if in.N == 0 {
			return "", errors.New("none left")
		}
		return fmt.Sprint("bought ", in.N), nil
	})
	for name, c := range map[string]struct {
		approve  []agent.Approval
		first    string
		decision agent.Decision
	}{
		"the tool fails":      {first: `{"N":0}`},
		"the arguments":       {first: `{"N":"x"}`},
		"the user rejects it": {first: `{"N":9}`, approve: agent.Approve("buy"), decision: agent.Decision{Type: agent.RejectCall, Message: "not 9"}},
	} {
		m := scripted.New(scripted.Call("buy", c.first), scripted.Text("sorry"))
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{failing}, Direct: []string{"buy"}, OnError: agent.TellModel, Approve: c.approve}, mem())
		s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
		if c.approve != nil && err == nil {
			s, err = g.Thread(th).Invoke(t.Context(), g.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{c.decision}}))
		}
		if err != nil || s.State.LastResponse.Get() != "sorry" || s.State.Stopped.Get() != agent.StopAnswer {
			t.Errorf("%s: %v, answered %q, stopped %q", name, err, s.State.LastResponse.Get(), s.State.Stopped.Get())
		}
	}
}

func TestANegativeLimitIsAMistake(t *testing.T) {
	m := scripted.New()
	_, err := agent.NewSupervisor(agent.Supervisor{Model: m, Agents: []*agent.Agent{echo("a")}, MaxIterations: -1})
	_, err2 := agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{{ReAct: agent.ReAct[S]{Name: "a", Model: m}}}, MaxIterations: -1})
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "MaxIterations is -1") {
			t.Errorf("got %v", err)
		}
	}
}

// nothing is a tool that returns what can't be stored.
type nothing struct{}

func (nothing) Spec() chat.ToolSpec { return chat.ToolSpec{Name: "nothing"} }
func (nothing) Call(context.Context, json.RawMessage) (tool.Result, error) {
	return tool.Result{Content: []chat.Part{nil}}, nil
}

func TestAResultThatIsNoneIsTheToolsFailure(t *testing.T) {
	m := scripted.New(scripted.Call("nothing", "{}"), scripted.Text("ok"))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{nothing{}}, OnError: agent.TellModel}, mem())
	s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
	if err != nil || s.State.LastResponse.Get() != "ok" {
		t.Errorf("%v\n%s", err, s.State.Messages)
	}
}

// A callback that names another tool has approvals and the record speak of one
// and the model of another.
func TestACallbackMayNotMakeACallAnother(t *testing.T) {
	for _, change := range []func(c *chat.ToolCall){func(c *chat.ToolCall) { c.Name = "b" }, func(c *chat.ToolCall) { c.ID = "2" }} {
		var called []string
		m := scripted.New(scripted.Calls(call("1", "a", "{}")), scripted.Text("ok"))
		g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("a", &called), logs("b", &called)}, OnError: agent.TellModelAll,
			Use: []agent.Middleware[S]{aroundTools[S](func(_ context.Context, c *chat.ToolCall) (*tool.Result, error) { change(c); return nil, nil }, nil)}})
		_, err = ok(t, g, err).Invoke(t.Context(), agent.Ask[S]("go"))
		if err == nil || !strings.Contains(err.Error(), "may change the arguments alone") || len(called) > 0 {
			t.Errorf("%v: called %v", err, called)
		}
	}
}

type chatty struct {
	Messages chat.History
	Rate     float64
}

// A summary that was written before the conversation changed is not that of the
// conversation as it is now: what came since would be lost.
func TestASummaryIsOfWhatIsThere(t *testing.T) {
	var asked []string
	m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		asked = append(asked, r.Messages[1].Text())
		return &model.Response{Message: chat.Assistant(fmt.Sprint("summary ", len(asked)))}, nil
	})
	broken := true
	b := graph.New[chatty]("g")
	agent.AddSummary(b, "sum", agent.Summary{Model: m, MaxTokens: 3, KeepTokens: 1, Count: func(chat.Message) int { return 1 }}, func(s *chatty) *chat.History {
		if s.Rate = 0; broken {
			s.Rate = math.NaN() // which can't be committed
		}
		return &s.Messages
	})
	g, err := b.AddEdge(graph.Start, "sum").Compile(mem())
	if err != nil {
		t.Fatal(err)
	}
	say := func(texts ...string) func(*chatty) error {
		return func(s *chatty) error {
			for _, text := range texts {
				s.Messages.Add(chat.User(text))
			}
			return nil
		}
	}
	if _, err := g.Thread(th).Invoke(t.Context(), g.Input(say("1", "2", "3", "4"))); err == nil {
		t.Fatal("it didn't fail")
	}
	broken = false
	if _, err := g.Thread(th).Edit(t.Context(), say("5", "6")); err != nil {
		t.Fatal(err)
	}
	s, err := g.Thread(th).Invoke(t.Context(), g.Continue())
	if err != nil || len(asked) != 2 || !strings.Contains(asked[1], "5") {
		t.Errorf("%v: asked %q\n%s", err, asked, s.State.Messages)
	}
}

// A tool may read a file in Latin-1, and a model may cut a character in two.
func TestBytesThatAreNoTextDoNotFailTheAgent(t *testing.T) {
	read := tool.New("read", "r", func(context.Context, none) (string, error) { return "caf\xe9", nil })
	for want, direct := range map[string][]string{"o\ufffdk": nil, "caf\ufffd": {"read"}} {
		m := scripted.New(scripted.Call("read", "{}"), scripted.Text("o\xe9k"))
		a, err := agent.New(agent.ReAct[S]{Tools: []tool.Tool{read}, Direct: direct, Model: m}, mem())
		live, err := ok(t, a, err).Thread(th).Invoke(t.Context(), input("go"))
		if err != nil || live.State.LastResponse.Get() != want {
			t.Errorf("%v: answered %q", err, live.State.LastResponse.Get())
			continue
		}
		stored, err := a.Thread(th).State(t.Context())
		if err != nil || !reflect.DeepEqual(live.State.Messages.Slice(), stored.State.Messages.Slice()) {
			t.Errorf("%v: live\n%s\nstored\n%s", err, live.State.Messages, stored.State.Messages)
		}
	}
}
