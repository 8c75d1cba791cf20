package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// effectsOf collects what tools do, from several goroutines.
type effectsOf struct {
	mu   sync.Mutex
	did  []string
	keys map[string]bool
}

func (e *effectsOf) tool(name string, before func(ctx context.Context) error) tool.Tool {
	return tool.New(name, name, func(ctx context.Context, _ none) (string, error) {
		if before != nil {
			if err := before(ctx); err != nil {
				return "", err
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.keys == nil {
			e.keys = map[string]bool{}
		}
		e.did, e.keys[tool.InfoOf(ctx).IdempotencyKey] = append(e.did, name), true
		return name + " done", nil
	})
}

func (e *effectsOf) sorted() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(e.did)), " ")
}

func told(s *graph.Snapshot[S]) string {
	var lines []string
	for m := range s.State.Messages.All() {
		lines = append(lines, fmt.Sprintf("%s: %s", m.Role, m.Text()))
		for _, c := range m.ToolCalls() {
			lines[len(lines)-1] += "[" + c.ID + "]"
		}
		if r, ok := m.ToolResult(); ok {
			lines[len(lines)-1] = fmt.Sprintf("tool %s: %s", r.CallID, r.Text())
		}
	}
	return strings.Join(lines, "; ")
}

// Three calls of a message: one succeeds, one asks and the process dies in one. Each is a
// task with its own ID, status, events and record; only those that had not ended run again,
// and the results stand in the order of the calls.
func TestEachCallIsATask(t *testing.T) {
	store := checkpoint.NewMemory()
	first := &mortal{Store: store}
	ctx, kill := context.WithCancel(t.Context())
	effects, asked, paid := &effectsOf{}, make(chan struct{}), make(chan struct{})
	dies := true
	made := func(s checkpoint.Store) *graph.Graph[S] {
		g, err := agent.New(agent.ReAct[S]{
			Model: scripted.New(
				scripted.Text("all is done").When(scripted.Returned("send")),
				scripted.Calls(call("1", "pay", "{}"), call("2", "ask", "{}"), call("3", "send", "{}")),
			),
			Tools: []tool.Tool{
				effects.tool("pay", nil),
				effects.tool("ask", func(ctx context.Context) error {
					_, err := graph.Interrupt[bool](ctx, "sure", "sure?")
					if dies {
						close(asked)
					}
					return err
				}),
				effects.tool("send", func(context.Context) error {
					if dies {
						<-asked
						<-paid
						first.dead.Store(true)
						kill()
						return errDead
					}
					return nil
				}),
			},
			TaskPerCall: true,
		}, graph.WithCheckpointer(s))
		return ok(t, g, err)
	}
	ended := map[string]string{}
	var started []string
	g := made(first)
	for ev, err := range g.Thread(th).Stream(ctx, input("go"), graph.Modes(graph.ModeTasks)) {
		if err != nil {
			break
		}
		if ev.Node != agent.NodeTools {
			continue
		}
		switch ev.Type {
		case graph.EventTaskStart:
			started = append(started, string(ev.Input))
		case graph.EventTaskEnd:
			ended[ev.Task] = string(ev.Update)
			close(paid)
		}
	}
	slices.Sort(started)
	if want := []string{`{"calls":["1"]}`, `{"calls":["2"]}`, `{"calls":["3"]}`}; !slices.Equal(started, want) {
		t.Errorf("tasks started: %v", started)
	}
	if len(ended) != 1 {
		t.Errorf("tasks ended: %v", ended)
	}
	dies = false
	g = made(store)
	s, err := g.Thread(th).State(t.Context())
	if err != nil || len(s.Tasks) != 3 {
		t.Fatalf("%v %+v", err, s)
	}
	for i, task := range s.Tasks {
		if _, done := ended[task.ID]; task.Node != agent.NodeTools || !task.Sent || (task.Status == "done") != (i == 0) || done != (i == 0) {
			t.Errorf("task %d: %+v", i, task)
		}
	}
	s, err = g.Thread(th).Invoke(t.Context(), g.Continue())
	if err != nil || len(s.Interrupts) != 1 || s.Interrupts[0].Key != "sure" || effects.sorted() != "pay send" {
		t.Fatalf("%v %+v, did %s", err, s.Interrupts, effects.sorted())
	}
	if s.Tasks[1].Status != "interrupted" || s.Tasks[2].Status != "done" {
		t.Errorf("tasks: %+v", s.Tasks)
	}
	s, err = g.Thread(th).Invoke(t.Context(), g.Answer(true))
	if err != nil || effects.sorted() != "ask pay send" || len(effects.keys) != 3 {
		t.Fatalf("%v, did %s with the keys %v", err, effects.sorted(), effects.keys)
	}
	if got, want := told(s), "user: go; assistant: [1][2][3]; tool 1: pay done; tool 2: ask done; tool 3: send done; assistant: all is done"; got != want {
		t.Errorf("the conversation: %s\nwant %s", got, want)
	}
	var sources []string
	for e, err := range g.Thread(th).History(t.Context(), graph.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Source == "loop" {
			sources = append(sources, fmt.Sprint(e.Next))
		}
	}
	slices.Reverse(sources)
	if got := strings.Join(sources, " "); got != "[tools tools tools] [agent] []" {
		t.Errorf("history: %s", got)
	}
}

// However calls are run, the same follows from them.
func TestWhatHoldsOfOneTaskHoldsOfATaskPerCall(t *testing.T) {
	fails := tool.New("fails", "", func(context.Context, none) (string, error) { return "", errFate })
	leads := agent.NewStateTool("leads", "", func(_ context.Context, s *S, _ none) (string, graph.Command, error) {
		s.Rounds++
		return fmt.Sprint("round ", s.Rounds), graph.Goto(graph.End), nil
	})
	counts := agent.NewStateTool("counts", "", func(_ context.Context, s *S, _ none) (string, graph.Command, error) {
		s.Rounds++
		return fmt.Sprint("round ", s.Rounds), graph.Command{}, nil
	})
	approve := agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.RejectCall}, {Type: agent.ApproveCall}, {Type: agent.EditCall, Edited: &agent.EditedAction{Name: "b", Args: json.RawMessage("{}")}}}}
	for name, c := range map[string]struct {
		calls  string
		with   agent.ReAct[S]
		answer any
		want   string
		did    string
		steps  int // of the tools, beyond one a round
	}{
		"one call":                        {calls: "a", want: "tool a1: a done; assistant: re", did: "a"},
		"several":                         {calls: "b a b", want: "tool b1: b done; tool a2: a done; tool b3: b done; assistant: re", did: "a b b"},
		"one fails":                       {calls: "a fails", with: agent.ReAct[S]{OnError: agent.TellModel}, want: "tool a1: a done; tool fails2: [TOOL ERROR] fails: this goes wrong; assistant: re", did: "a"},
		"one is unknown":                  {calls: "a x", with: agent.ReAct[S]{OnError: agent.TellModelAll}, want: `tool a1: a done; tool x2: [TOOL ERROR] x: unknown tool: the tools are "a", "b", "fails", "leads", "counts"; assistant: re`, did: "a"},
		"one result is the answer":        {calls: "a", with: agent.ReAct[S]{Direct: []string{"a"}}, want: "tool a1: a done", did: "a"},
		"all results are the answer":      {calls: "a b", with: agent.ReAct[S]{Direct: []string{"a", "b"}}, want: "tool a1: a done; tool b2: b done", did: "a b", steps: 1},
		"an answer fails":                 {calls: "a fails", with: agent.ReAct[S]{Direct: []string{"a", "fails"}, OnError: agent.TellModel}, want: "tool a1: a done; tool fails2: [TOOL ERROR] fails: this goes wrong; assistant: re", did: "a", steps: 1},
		"not all results are the answer":  {calls: "a b", with: agent.ReAct[S]{Direct: []string{"a"}}, want: "tool a1: a done; tool b2: b done; assistant: re", did: "a b"},
		"the state is taken by turns":     {calls: "a counts b counts a", want: "tool a1: a done; tool counts2: round 1; tool b3: b done; tool counts4: round 2; tool a5: a done; assistant: re", did: "a a b"},
		"one says what follows":           {calls: "a leads b", want: "tool a1: a done; tool leads2: round 1; tool b3: b done", did: "a b"},
		"some are decided about, at once": {calls: "a b a", with: agent.ReAct[S]{Approve: agent.Approve("*")}, answer: approve, want: "tool a1: The user rejected the call of a.; tool b2: b done; tool a3: b done; assistant: re", did: "b b", steps: 1},
		"one of them is decided about":    {calls: "a b", with: agent.ReAct[S]{Approve: agent.Approve("b")}, answer: agent.ApprovalAnswer{Decisions: approve.Decisions[1:2]}, want: "tool a1: a done; tool b2: b done; assistant: re", did: "a b", steps: 1},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a task per call %v", name, own), func(t *testing.T) {
				effects := &effectsOf{}
				var cs []chat.ToolCall
				for i, name := range strings.Fields(c.calls) {
					cs = append(cs, call(fmt.Sprint(name, i+1), name, "{}"))
				}
				a := c.with
				a.Model, a.TaskPerCall = scripted.New(scripted.Calls(cs...), scripted.Text("re")), own
				a.Tools = []tool.Tool{effects.tool("a", nil), effects.tool("b", nil), fails, leads, counts}
				g, err := agent.New(a, mem())
				s, err := ok(t, g, err).Thread(th).Invoke(t.Context(), input("go"))
				if c.answer != nil {
					if err != nil || len(s.Interrupts) != 1 {
						t.Fatalf("%v, %+v", err, s)
					}
					s, err = g.Thread(th).Invoke(t.Context(), g.Answer(c.answer))
				}
				if err != nil || !s.Done() {
					t.Fatalf("%v, %+v", err, s)
				}
				_, got, _ := strings.Cut(told(s), "]; ")
				if got != c.want || effects.sorted() != c.did {
					t.Errorf("%s, did %s\nwant %s, did %s", got, effects.sorted(), c.want, c.did)
				}
				steps := 2 + strings.Count(c.want, "assistant")
				if own {
					steps += c.steps
				}
				if s.Step != steps {
					t.Errorf("%d supersteps, want %d", s.Step, steps)
				}
			})
		}
	}
}

// Agents that are tools are declared on the tools node; a call that is a task of its own
// has the namespace of the task, in events and where its state and history are read.
func TestAnAgentCalledInATaskOfItsOwnHasTheNamespaceOfTheTask(t *testing.T) {
	sub := func(name string) tool.Tool {
		ask := tool.New("ask", "", func(ctx context.Context, _ none) (bool, error) { return graph.Interrupt[bool](ctx, "sure", name) })
		g, err := agent.New(agent.ReAct[S]{Name: name, Model: scripted.New(scripted.Call("ask", "{}"), scripted.Text(name+" is done")), Tools: []tool.Tool{ask}, TaskPerCall: true})
		return agent.AsTool(agent.Of(ok(t, g, err), name))
	}
	g, err := agent.New(agent.ReAct[S]{
		Model: scripted.New(scripted.Calls(call("1", "poet", `{"task":"a poem"}`), call("2", "critic", `{"task":"a review"}`)), scripted.Text("both are done")),
		Tools: []tool.Tool{sub("poet"), sub("critic")}, TaskPerCall: true,
	}, mem())
	if text := draw.Mermaid(ok(t, g, err).Drawing(-1), nil); !strings.Contains(text, "poet") || !strings.Contains(text, "critic") {
		t.Errorf("drawing: %s", text)
	}
	if inner, found := g.Subgraph(agent.NodeTools, "critic"); !found || inner.Name() != "critic" {
		t.Error("the tools node has no graph critic")
	}
	within := map[string]string{}
	for ev, err := range g.Thread(th).Stream(t.Context(), input("go"), graph.Modes(graph.ModeTasks)) {
		if err != nil {
			t.Fatal(err)
		}
		if len(ev.Within) == 1 {
			within[ev.Graph] = ev.Within[0]
		}
	}
	s, err := g.Thread(th).Nested(t.Context())
	if err != nil || len(s.Tasks) != 2 || len(s.Interrupts) != 2 {
		t.Fatalf("%v, %+v", err, s)
	}
	for i, name := range []string{"poet", "critic"} {
		task := s.Tasks[i]
		if want := "tools:" + task.ID; within[name] != want || task.Inside != "|"+want {
			t.Errorf("%s runs in %q, in state in %q, want %q", name, within[name], task.Inside, want)
		}
		if in := task.States[task.Inside]; in == nil || !strings.Contains(string(in.State), `"a `) {
			t.Errorf("the state of %s: %+v", name, in)
		}
		n := 0
		for _, err := range g.Thread(th).Inside(task.Inside).History(t.Context(), graph.HistoryQuery{}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n < 3 {
			t.Errorf("%s has %d entries of history", name, n)
		}
	}
	s, err = g.Thread(th).Invoke(t.Context(), g.Answer(graph.Answers{s.Interrupts[0].ID: true}))
	if err != nil || len(s.Interrupts) != 1 || s.Tasks[0].Status != "done" || s.Tasks[1].Status != "interrupted" {
		t.Fatalf("one was answered: %v, %+v", err, s)
	}
	s, err = g.Thread(th).Invoke(t.Context(), g.Answer(true))
	if want := "user: go; assistant: [1][2]; tool 1: poet is done; tool 2: critic is done; assistant: both are done"; err != nil || told(s) != want {
		t.Errorf("%v, %s, want %s", err, told(s), want)
	}
}
