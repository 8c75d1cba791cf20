package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

func react(t *testing.T, a agent.ReAct[state], opts ...graph.Option) *graph.Graph[state] {
	t.Helper()
	g, err := agent.New(a, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAnAgentCallsToolsUntilItHasAnAnswer(t *testing.T) { // W7-35, SYN-01, W5-14, W5-15
	n := 0
	m := script(
		scripted.Call("multiply", `{"a":6,"b":7}`).ID("m1"),
		calls(call("c2", "multiply", `{"a":42,"b":2}`)),
		scripted.Text("It is 84."),
	)
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, Instruction: "Be brief."}, memory())
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("6*7*2?")))
	if err != nil {
		t.Fatal(err)
	}
	if n != 2 || len(m.Requests()) != 3 || snap.State.LastResponse.Get() != "It is 84." || snap.State.Stopped.Get() != agent.StopAnswer || snap.State.UserInput != "" {
		t.Errorf("%d calls, %d requests, %q, %s", n, len(m.Requests()), snap.State.LastResponse.Get(), snap.State.Stopped.Get())
	}
	id := snap.State.Messages.Slice()[1].ToolCalls()[0].ID
	same(t, "the third request", transcript(m.Requests()[2].Messages), `
		system: Be brief.
		user: 6*7*2?
		assistant: [`+id+` multiply{"a":6,"b":7}]
		tool: 42 (`+id+`)
		assistant: [c2 multiply{"a":42,"b":2}]
		tool: 84 (c2)
		`)
	for _, r := range m.Requests() {
		if len(r.Tools) != 1 || r.Tools[0].Name != "multiply" || strings.Contains(r.Messages[0].Text(), "multiply") {
			t.Errorf("tools %v, system %q", r.Tools, r.Messages[0].Text())
		}
	}
}

// Each answer of the model and each round of tools is a checkpoint, and a second
// turn on the thread sees the first.
func TestAnAgentIsCheckpointedAtEachStep(t *testing.T) {
	n := 0
	m := script(scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Text("42"), scripted.Text("I said 42."))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}}, memory())
	for _, text := range []string{"6*7?", "what?"} {
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(ask(text))); err != nil {
			t.Fatal(err)
		}
	}
	var nexts []string
	for e, err := range g.Thread("t").History(t.Context(), graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		nexts = append(nexts, strings.Join(e.Next, "+"))
	}
	slices.Reverse(nexts)
	if got := strings.Join(nexts, " "); got != "agent tools agent  agent " {
		t.Errorf("next nodes: %q", got)
	}
	if got := transcript(m.Last().Messages); !strings.Contains(got, "user: 6*7?\n") || !strings.HasSuffix(got, "user: what?\n") {
		t.Error(got)
	}
}

func TestAnAgentStopsAtItsLimit(t *testing.T) { // W5-13, 16, 17, 18; Q-03
	for name, c := range map[string]struct {
		limit    int
		opts     []graph.RunOption
		requests int
	}{
		"the default is 12":  {0, nil, 12},
		"a limit of its own": {3, nil, 3},
		"the run's limit of supersteps, of which a call takes two": {12, []graph.RunOption{graph.MaxSteps(5)}, 3},
	} {
		n, requests := 0, 0
		inner := loop()
		m := model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
			requests++
			return inner.Generate(ctx, r)
		})
		g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, MaxIterations: c.limit})
		snap, err := g.Invoke(t.Context(), ask("go"), c.opts...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		last := snap.State.Messages.Last()
		if requests != c.requests || n != c.requests-1 || snap.State.Stopped.Get() != agent.StopMaxIterations || snap.State.LastResponse.Get() != "" || !strings.Contains(last.Text(), "not called: the limit") {
			t.Errorf("%s: %d requests, %d calls, stopped for %q, %q, last %q", name, requests, n, snap.State.Stopped.Get(), snap.State.LastResponse.Get(), last.Text())
		}
	}
}

// An agent that was interrupted doesn't get its model calls again.
func TestALimitHoldsOverAResume(t *testing.T) { // W5-18
	n, requests := 0, 0
	inner := loop()
	m := model.Func(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		requests++
		return inner.Generate(ctx, r)
	})
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, MaxIterations: 6}, memory(), graph.InterruptBefore(agent.NodeModel))
	snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go")))
	for err == nil && !snap.Done() {
		snap, err = g.Thread("t").Invoke(t.Context(), g.Continue())
	}
	if err != nil || requests != 6 || snap.State.Stopped.Get() != agent.StopMaxIterations {
		t.Errorf("%v, %d requests, %s", err, requests, snap.State.Stopped.Get())
	}
}

func TestAnAgentThatFails(t *testing.T) { // W7-35
	for name, c := range map[string]struct {
		policy agent.ErrorPolicy
		reply  scripted.Reply
		want   string // of the answer; empty: an error
	}{
		"fail fast":       {agent.FailFast, calls(call("1", "f", "")), ""},
		"the model told":  {agent.TellModel, calls(call("1", "f", "")), "ok"},
		"a broken call":   {agent.TellModel, calls(call("1", "f", "{")), ""},
		"told of those":   {agent.TellModelAll, calls(call("1", "f", "{")), "ok"},
		"an unknown tool": {agent.TellModel, calls(call("1", "g", "{}")), ""},
	} {
		g := react(t, agent.ReAct[state]{Model: script(c.reply, scripted.Text("ok")), Tools: []tool.Tool{failing("f")}, OnError: c.policy})
		snap, err := g.Invoke(t.Context(), ask("go"))
		var te *tool.Error
		if snap.State.LastResponse.Get() != c.want || (c.want == "") != errors.As(err, &te) {
			t.Errorf("%s: %q, %v", name, snap.State.LastResponse.Get(), err)
		}
	}
}

func TestHooksOfAnAgent(t *testing.T) {
	n := 0
	m := script(scripted.Call("multiply", `{"a":1,"b":2}`), scripted.Text("2"))
	g := react(t, agent.ReAct[state]{
		Model: m, Tools: []tool.Tool{counted(&n)},
		Use: nodes(func(_ context.Context, s *state) error { s.Notes.Add("pre"); return nil },
			func(_ context.Context, s *state) error { s.Notes.Add("post"); return nil }),
	})
	snap, err := g.Invoke(t.Context(), ask("go"))
	if got := fmt.Sprint(snap.State.Notes.Slice()); err != nil || got != "[pre post pre post]" || n != 1 {
		t.Errorf("%v, %s", err, got)
	}
}

func TestAStructuredAnswerOfAnAgent(t *testing.T) {
	type answer struct {
		Value int `json:"value"`
	}
	out, err := model.OutputOf[answer]()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	m := script(scripted.Call("multiply", `{"a":6,"b":7}`), scripted.Text("It is 42."), scripted.Text(`{"value":42}`))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, Output: out})
	snap, err := g.Invoke(t.Context(), ask("6*7?"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := agent.Structured[answer](&snap.State.State); err != nil || a.Value != 42 || snap.State.LastResponse.Get() != "It is 42." {
		t.Errorf("%+v, %v, %q", a, err, snap.State.LastResponse.Get())
	}
	if last := m.Last(); last.Output == nil || len(last.Tools) != 0 {
		t.Errorf("the last request: %+v", last)
	}
}

// An agent without tools is one call of the model.
func TestAnAgentWithoutTools(t *testing.T) {
	g := react(t, agent.ReAct[state]{Model: script(scripted.Text("hi"))})
	snap, err := g.Invoke(t.Context(), ask("hello"))
	if err != nil || snap.State.LastResponse.Get() != "hi" {
		t.Errorf("%v, %q", err, snap.State.LastResponse.Get())
	}
}

func TestMistakesInAnAgent(t *testing.T) { // W5-11, 12
	n := 0
	_, err := agent.New(agent.ReAct[state]{Tools: []tool.Tool{counted(&n), counted(&n)}, MaxIterations: -1, Approve: agent.Approve("mul")})
	var ce *graph.CompileError
	if !errors.As(err, &ce) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"needs a Model", "multiply", "MaxIterations is -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %q in %v", want, err)
		}
	}
}

// A turn whose history has unanswered calls at the limit can be continued.
func TestAfterALimitTheNextTurnIsSound(t *testing.T) {
	n := 0
	m := script(scripted.Call("multiply", `{"a":1,"b":1}`), scripted.Text("fine"))
	g := react(t, agent.ReAct[state]{Model: m, Tools: []tool.Tool{counted(&n)}, MaxIterations: 1}, memory())
	for _, text := range []string{"go", "and now?"} {
		if _, err := g.Thread("t").Invoke(t.Context(), g.Input(ask(text))); err != nil {
			t.Fatal(err)
		}
	}
	open := map[string]bool{}
	for _, msg := range m.Last().Messages {
		for _, c := range msg.ToolCalls() {
			open[c.ID] = true
		}
		if r, ok := msg.ToolResult(); ok {
			delete(open, r.CallID)
		}
	}
	if len(open) > 0 || n != 0 {
		t.Errorf("calls without results: %v", open)
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
