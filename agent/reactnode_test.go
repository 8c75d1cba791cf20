package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// report is a user's state with an agent's scratchpad in it.
type report struct {
	agent.Scratch
	Notes graph.List[string]
}

func single(t *testing.T, r agent.ReActNode, opts ...graph.Option) *graph.Graph[report] {
	t.Helper()
	b := graph.New[report]("g")
	agent.AddReAct(b, "agent", r)
	return compile(t, b.AddEdge(graph.Start, "agent"), opts...)
}

func question(text string) func(*report) error {
	return func(s *report) error {
		s.UserInput = text
		return nil
	}
}

func kinds(s *graph.Snapshot[report]) string {
	var all []string
	for _, step := range s.State.Scratchpad.All() {
		all = append(all, string(step.Kind))
	}
	return strings.Join(all, " ")
}

func TestASingleNodeIsAnAgent(t *testing.T) { // W5-01, 07, 08, 09, 14, 15, 22, 23
	n := 0
	m := script(
		scripted.Message(chat.Assistant("I multiply.", call("1", "multiply", `{"a":6,"b":7}`), call("2", "multiply", `{"a":2,"b":2}`))),
		calls(call("1", "multiply", `{"a":42,"b":1}`)), // the ID of another round
		scripted.Text("It is 42."),
	)
	b := graph.New[report]("g").
		AddNode("before", func(_ context.Context, s *report) error { s.Notes.Add("before"); return nil }).
		AddNode("after", func(_ context.Context, s *report) error { s.Notes.Add("after: " + s.FinalOutput); return nil })
	agent.AddReAct(b, "agent", agent.ReActNode{Model: m, Tools: []tool.Tool{counted(&n)}, Instruction: "Think."})
	g := compile(t, b.AddSequence("before", "agent", "after").AddEdge(graph.Start, "before"), memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(question("  6*7? ")))
	if err != nil {
		t.Fatal(err)
	}
	s := &snap.State
	if got := kinds(snap); got != "thought action action observation observation action observation final_answer" {
		t.Error(got)
	}
	if s.FinalOutput != "It is 42." || !reflect.DeepEqual(s.Scratchpad.Last(), agent.FinalAnswer("It is 42.")) || s.Stopped != agent.StopAnswer || s.Iterations != 3 || n != 3 {
		t.Errorf("%+v, %d calls", s, n)
	}
	if got := s.Notes.Slice(); !slices.Equal(got, []string{"before", "after: It is 42."}) {
		t.Error(got)
	}
	same(t, "the third request", transcript(m.Last().Messages), "system: Think.\nuser:   6*7? \n"+
		"assistant: I multiply.[1 multiply{\"a\":6,\"b\":7}][2 multiply{\"a\":2,\"b\":2}]\ntool: 42 (1)\ntool: 4 (2)\n"+
		"assistant: [1 multiply{\"a\":42,\"b\":1}]\ntool: 42 (1)\n")
	for i, r := range m.Requests() {
		if len(r.Tools) != 1 || strings.Contains(r.Messages[0].Text(), "multiply") {
			t.Errorf("request %d has the tools %v and the system text %q", i, r.Tools, r.Messages[0].Text())
		}
	}
	checkpoints := 0
	for _, err := range g.Thread("t").History(t.Context(), graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		checkpoints++
	}
	if checkpoints != 4 { // the input and a node each
		t.Errorf("%d checkpoints", checkpoints)
	}
}

func TestStepsSurviveJSON(t *testing.T) { // W5-10
	c := chat.ToolCall{ID: "1", Name: "f", Args: `{"a":`, Signature: "s"}
	for _, s := range []agent.Step{
		agent.Thought("t"), agent.Action(c), agent.FinalAnswer("a"), agent.ErrorStep("e"),
		agent.Observation(c, json.RawMessage(`{"a":[1]}`)), agent.Observation(c, json.RawMessage(`[1,"x"]`)),
		agent.Observation(c, json.RawMessage(`4.5`)), agent.Observation(c, json.RawMessage(`null`)), agent.Observation(c, json.RawMessage(`"x"`)),
	} {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back agent.Step
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(s, back) {
			t.Errorf("%s: %+v, %v", data, back, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"kind":"dream"}`), new(agent.Step)); err == nil {
		t.Error("an unknown kind was taken")
	}
}

func TestLimitsOfASingleNode(t *testing.T) { // W5-13, 16, 17, 18; Q-03; T-20
	for name, c := range map[string]struct {
		limit, before int
		opts          []graph.RunOption
		requests      int
	}{
		"12 by default":                     {0, 0, nil, 12},
		"its own":                           {5, 0, nil, 5},
		"the run's budget, if smaller":      {12, 0, []graph.RunOption{graph.MaxSteps(3)}, 3},
		"what was done before counts":       {6, 5, nil, 1},
		"nothing is left":                   {6, 6, nil, 0},
		"a resumed run's budget is its own": {12, 2, []graph.RunOption{graph.MaxSteps(3)}, 3},
	} {
		n, requests := 0, 0
		inner := loop()
		m := model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
			requests++
			return inner.Generate(ctx, r)
		})
		snap, err := single(t, agent.ReActNode{Model: m, Tools: []tool.Tool{counted(&n)}, MaxIterations: c.limit}).Invoke(t.Context(), func(s *report) error {
			s.UserInput, s.Iterations = "go", c.before
			for range c.before {
				s.Scratchpad.Add(agent.Action(call("x", "multiply", "{}")), agent.Observation(call("x", "multiply", "{}"), json.RawMessage("1")))
			}
			return nil
		}, c.opts...)
		if err != nil || requests != c.requests || snap.State.Stopped != agent.StopMaxIterations || snap.State.FinalOutput != "" || snap.State.Iterations != c.before+c.requests {
			t.Errorf("%s: %v; %d requests, %q, %q, %d iterations", name, err, requests, snap.State.Stopped, snap.State.FinalOutput, snap.State.Iterations)
		}
		if c.requests > 0 && n != c.requests-1 {
			t.Errorf("%s: %d calls", name, n)
		}
	}
}

func TestANewQuestionBeginsANewScratchpad(t *testing.T) {
	m := script(scripted.Text("one"), scripted.Text("two"))
	g := single(t, agent.ReActNode{Model: m}, memory())
	for _, q := range []string{"1?", "2?"} {
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(question(q))); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil || kinds(snap) != "final_answer" || snap.State.FinalOutput != "two" || snap.State.Iterations != 1 {
		t.Errorf("%v, %s, %+v", err, kinds(snap), snap.State)
	}
	if got := m.Last().Messages; len(got) != 2 || got[1].Text() != "2?" {
		t.Error(transcript(got))
	}
}

func TestFailuresOfASingleNode(t *testing.T) { // W5-04, 19, 20, 21
	after := 0
	later := tool.New("later", "", func(context.Context, struct{}) (string, error) { after++; return "ok", nil })
	run := func(policy agent.ErrorPolicy, c chat.ToolCall) (last []chat.Message, err error) {
		after = 0
		m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
			if last = r.Messages; len(last) > 2 {
				return &model.Response{Message: chat.Assistant("done")}, nil
			}
			return &model.Response{Message: chat.Assistant("", c, call("2", "later", "{}"))}, nil
		})
		_, err = single(t, agent.ReActNode{Model: m, Tools: []tool.Tool{failing("f"), later}, OnError: policy}).Invoke(t.Context(), question("go"))
		return last, err
	}
	for _, policy := range []agent.ErrorPolicy{agent.FailFast, agent.TellModel} {
		for name, c := range map[string]chat.ToolCall{
			"an unknown tool": call("1", "g", "{}"), "arguments that don't parse": call("1", "f", "{"), "no ID": call("", "f", "{}"), "an ID twice": call("2", "f", "{}"),
		} {
			_, err := run(policy, c)
			var re *agent.ReActError
			var te *tool.Error
			if !errors.As(err, &re) || !errors.As(err, &te) || re.Steps[len(re.Steps)-1].Kind != agent.StepError || after != 0 {
				t.Errorf("%s, policy %d: %v", name, policy, err)
			}
		}
	}
	_, err := run(agent.FailFast, call("1", "f", "{}"))
	var re *agent.ReActError
	if !errors.As(err, &re) || !strings.Contains(err.Error(), `"f"`) || !strings.Contains(err.Error(), "no luck") || after != 0 {
		t.Errorf("fail fast: %v; the later tool was called %d times", err, after)
	}
	last, err := run(agent.TellModel, call("1", "f", "{}"))
	if err != nil || after != 1 || !strings.Contains(transcript(last), "tool: [TOOL ERROR] f: no luck (1) failed\ntool: ok (2)\n") {
		t.Errorf("tell the model: %v\n%s", err, transcript(last))
	}
}

// A tool that asks makes the node run again: nothing is done twice.
func TestASingleNodeThatAsks(t *testing.T) {
	n, requests := 0, 0
	asks := tool.New("asks", "", func(ctx context.Context, _ struct{}) (string, error) { return graph.Interrupt[string](ctx, "k", "?") })
	inner := script(calls(call("1", "multiply", `{"a":2,"b":3}`)), calls(call("1", "asks", "{}")), scripted.Text("done"))
	m := model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		requests++
		return inner.Generate(ctx, r)
	})
	g := single(t, agent.ReActNode{Model: m, Tools: []tool.Tool{counted(&n), asks}}, memory())
	if snap, err := g.Thread("t").Invoke(t.Context(), g.Input(question("go"))); err != nil || len(snap.Interrupts) == 0 {
		t.Fatal(err)
	}
	snap, err := g.Thread("t").Invoke(t.Context(), g.Answer("yes"))
	if err != nil || n != 1 || requests != 3 || snap.State.FinalOutput != "done" {
		t.Errorf("%v; %d calls, %d requests, %q", err, n, requests, snap.State.FinalOutput)
	}
}

func TestMistakesInASingleNode(t *testing.T) {
	n := 0
	b := graph.New[report]("g")
	agent.AddReAct(b, "agent", agent.ReActNode{Tools: []tool.Tool{counted(&n), counted(&n)}, MaxIterations: -2})
	_, err := b.AddEdge(graph.Start, "agent").Compile()
	var ce *graph.CompileError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "needs a Model") || !strings.Contains(err.Error(), "multiply") || !strings.Contains(err.Error(), "-2") {
		t.Error(err)
	}
	if _, err := single(t, agent.ReActNode{Model: script()}).Invoke(t.Context(), nil); !errors.Is(err, agent.ErrNoMessages) {
		t.Error(fmt.Sprint("without a question: ", err))
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
