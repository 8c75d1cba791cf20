package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/tool"
)

func calculator(t *testing.T) tool.Tool {
	return tool.New("calculator", "Evaluate a math expression", func(_ context.Context, in struct {
		Expression string `json:"expression"`
	}) (float64, error) {
		if in.Expression != "6 * 7" {
			t.Errorf("evaluated %q", in.Expression)
		}
		return 42, nil
	})
}

// workflow is the guide's.
func workflow(m model.Model, tools ...tool.Tool) *graph.Builder[graph.SchemaState] {
	b := graph.NewSchemaGraph("demo", agent.MessagesSchema().AddField("final_output", graph.FieldOf("", nil)))
	graph.AddMapNode(b, "prepare", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{agent.KeyUserInput: strings.TrimSpace(fmt.Sprint(s[agent.KeyUserInput]))}, nil
	})
	agent.AddSchemaLLM(b, "ask", agent.LLM[agent.State]{Model: m, Instruction: "You are a careful assistant.", Tools: tools})
	agent.AddSchemaTools(b, "tools", agent.Tools[agent.State]{Tools: tools})
	graph.AddMapNode(b, "fallback", func(context.Context, graph.MapState) (any, error) {
		return graph.MapState{agent.KeyLastResponse: "No tools required; answer directly"}, nil
	})
	graph.AddMapNode(b, "finish", func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"final_output": fmt.Sprint(s[agent.KeyLastResponse])}, nil
	})
	b.SetEntryPoint("prepare").AddEdge("prepare", "ask")
	agent.AddSchemaToolsEdges(b, "ask", "tools", "fallback")
	return b.AddEdge("tools", "ask").AddEdge("fallback", "finish").SetFinishPoint("finish")
}

func careful() *scripted.Model {
	return scripted.New(scripted.Call("calculator", `{"expression":"6 * 7"}`), scripted.Text("6 * 7 is 42."), scripted.Text("You asked what 6 * 7 is."))
}

// TRPC-10, 49: the guide's minimal program, a graph whose state is a map in a runner,
// says what its nodes answer and keeps the conversation in the session.
func TestTheGuidesMinimalProgramRunsInARunner(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"without a checkpointer": nil, "with one": {graph.WithCheckpointer(checkpoint.NewMemory())}} {
		m := careful()
		g, err := workflow(m, calculator(t)).Compile(opts...)
		if err != nil {
			t.Fatal(err)
		}
		app, err := session.NewSchemaRunner("app", g)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, question := range []string{" What is 6 * 7? ", "What did I ask?"} {
			for ev, err := range app.Run(t.Context(), "user", "session", chat.User(question)) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Author == "ask" && ev.Kind == session.KindModel && ev.Message.Text() != "" {
					said = append(said, ev.Message.Text())
				}
				if ev.Kind == session.KindCompletion && (ev.Message == nil || ev.Message.Text() != "No tools required; answer directly") {
					t.Errorf("%s: the answer is %v", name, ev.Message)
				}
			}
		}
		if want := []string{"6 * 7 is 42.", "You asked what 6 * 7 is."}; !slices.Equal(said, want) {
			t.Errorf("%s: the model said %q", name, said)
		}
		if got := transcript(m.Last().Messages); strings.Count(got, "What is 6 * 7?") != 1 || strings.Count(got, "6 * 7 is 42.") != 1 || !strings.HasSuffix(got, "user: What did I ask?\n") {
			t.Errorf("%s: the last request is\n%s", name, got)
		}
		sess, err := app.Service().Get(t.Context(), session.Key{App: "app", User: "user", ID: "session"}, session.Window{})
		var kept []string
		for _, e := range sess.Events {
			if e.Kind == session.KindInput {
				kept = append(kept, e.Message.Text())
			}
			if e.Kind == session.KindMessage {
				t.Errorf("%s: what the user said is kept twice: %v", name, e.Message)
			}
		}
		if err != nil || len(kept) != 2 {
			t.Errorf("%s: %v, kept %q", name, err, kept)
		}
	}
}

// A graph whose state is a map is an agent like another: as a node, in a chain, as a
// tool.
func TestAGraphOverAMapIsAnAgent(t *testing.T) {
	sub := func() *agent.Agent {
		g, err := workflow(careful(), calculator(t)).Compile()
		if err != nil {
			t.Fatal(err)
		}
		return agent.OfSchema(g, "Calculates.")
	}
	c, err := agent.Chain("c", []*agent.Agent{sub(), member(t, "echo", says("e"))}, memory())
	snap := invoke(t, c, err, "What is 6 * 7?", "t")
	if got := snap.State.LastResponse.Get(); got != "e(No tools required; answer directly)" {
		t.Errorf("the chain says %q", got)
	}
	if got, _ := snap.State.NodeResponses.Get("demo/ask"); got != "6 * 7 is 42." {
		t.Errorf("the node inside said %q", got)
	}
	g := react(t, agent.ReAct[state]{Model: script(scripted.Call("demo", `{"task":"What is 6 * 7?"}`), scripted.Text("done")), Tools: []tool.Tool{agent.AsTool(sub())}})
	if s, err := g.Invoke(t.Context(), ask("go")); err != nil || !strings.Contains(messages(s), "No tools required") {
		t.Errorf("%v\n%s", err, messages(s))
	}
	b := graph.NewSchemaGraph("outer", agent.MessagesSchema().AddField("topic", graph.FieldOf("", nil)))
	agent.AddSchemaAgent(b, "calc", sub(), agent.SubAgent[agent.State]{})
	outer := compile(t, b.AddEdge(graph.Start, "calc"))
	s, err := outer.Invoke(t.Context(), set(graph.MapState{agent.KeyUserInput: "What is 6 * 7?"}))
	if err != nil || s.State.Get(agent.KeyLastResponse) != "No tools required; answer directly" {
		t.Errorf("%v, %v", err, s)
	}
}

// TRPC-23: an agent that is a node gets the user's input as its message, and the state
// of the graph around it to read, of either kind; what it answers stands in the last
// response and that of its node, and its events in the stream around it.
func TestASubAgentSeesTheStateAroundIt(t *testing.T) {
	b := graph.New[agent.State]("sub").AddNode("echo", func(ctx context.Context, s *agent.State) error {
		around := "nothing"
		if p, ok := agent.ParentState[state](ctx); ok {
			around = p.Topic + " " + strings.Join(p.Notes.Slice(), ",")
			p.Notes.Add("written inside")
		}
		if p, ok := agent.ParentState[graph.SchemaState](ctx); ok {
			around = fmt.Sprint(p.Get("topic"), " ", p.Get(agent.KeyUserInput))
		}
		s.LastResponse.Add(s.UserInput + " about " + around)
		return nil
	})
	sub := agent.Of(compile(t, b.AddEdge(graph.Start, "echo")), "")
	typed := graph.New[state]("typed").AddNode("prepare", func(_ context.Context, s *state) error {
		s.Topic = "cats"
		s.Notes.Add("n1")
		return nil
	})
	agent.AddAgent(typed, "first", sub, agent.SubAgent[state]{})
	agent.AddAgent(typed, "second", sub, agent.SubAgent[state]{})
	g := compile(t, typed.AddSequence("prepare", "first", "second").AddEdge(graph.Start, "prepare"), memory())
	inside := 0
	for ev, err := range g.Thread("t").Stream(t.Context(), g.Input(ask("hi")), graph.Modes(graph.ModeTasks)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == graph.EventTaskEnd && ev.Node == "echo" && len(ev.Path) == 1 {
			inside++
		}
	}
	s, err := g.Thread("t").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, _ := s.State.NodeResponses.Get("first")
	second, _ := s.State.NodeResponses.Get("second")
	if first != "hi about cats n1" || second != first+" about cats n1" || s.State.LastResponse.Get() != second || inside != 2 || s.State.Notes.Len() != 1 {
		t.Errorf("%q, %q, last %q, %d events inside, notes %v", first, second, s.State.LastResponse.Get(), inside, s.State.Notes)
	}
	schema := graph.NewSchemaGraph("mapped", agent.MessagesSchema().AddField("topic", graph.FieldOf("", nil)))
	agent.AddSchemaAgent(schema, "sub", sub, agent.SubAgent[agent.State]{})
	m, err := compile(t, schema.AddEdge(graph.Start, "sub")).Invoke(t.Context(), set(graph.MapState{"topic": "dogs", agent.KeyUserInput: "hi"}))
	if err != nil || m.State.Get(agent.KeyLastResponse) != "hi about dogs hi" {
		t.Errorf("%v, %v", err, m)
	}
	if _, ok := agent.ParentState[state](t.Context()); ok {
		t.Error("there is a state around nothing")
	}
}
