package agent_test

import (
	"context"
	"fmt"
	"maps"
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

// W7-39: one run streams all seven kinds of events: a node entered and left, a token, a
// call of a tool and its result, a saved checkpoint, a question; each with its node and
// superstep.
func TestOneRunStreamsAllSevenKindsOfEvents(t *testing.T) {
	m := scripted.New(scripted.Message(chat.Assistant("I look. ", call("1", "look", "{}"))), scripted.Calls(call("2", "pay", "{}")))
	g, err := agent.New(agent.ReAct[S]{Model: m, Tools: []tool.Tool{logs("look", new([]string)), logs("pay", new([]string))}, Approve: agent.Approve("pay")}, mem())
	kinds := map[graph.EventType]int{}
	modes := graph.Modes(graph.ModeTasks, graph.ModeMessages, graph.ModeTools, graph.ModeCheckpoints, graph.ModeUpdates)
	for ev, err := range ok(t, g, err).Thread(th).Stream(t.Context(), input("go"), modes) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[ev.Type]++
		if ev.Type != graph.EventCheckpoint && (ev.Node == "" || ev.Step == 0) {
			t.Errorf("%v of node %q in step %d", ev.Type, ev.Node, ev.Step)
		}
		if ev.Type == graph.EventCheckpoint && ev.Checkpoint == "" {
			t.Errorf("%+v", ev)
		}
	}
	for _, kind := range []graph.EventType{graph.EventTaskStart, graph.EventTaskEnd, graph.EventMessage, graph.EventToolCall, graph.EventToolResult, graph.EventCheckpoint, graph.EventInterrupt} {
		if kinds[kind] == 0 {
			t.Errorf("there is no %v among %v", kind, slices.Collect(maps.Keys(kinds)))
		}
	}
}

// watching notes what it sees of the nodes of an agent inside.
type watching struct{ saw []string }

func (w *watching) note(what string, ev graph.Event) {
	if len(ev.Path) > 0 {
		w.saw = append(w.saw, fmt.Sprint(what, " ", strings.Join(ev.Path, "/"), "/", ev.Node))
	}
}

func (w *watching) OnNodeEnter(ev graph.Event)  { w.note("enter", ev) }
func (w *watching) OnNodeExit(ev graph.Event)   { w.note("exit", ev) }
func (w *watching) OnError(ev graph.Event)      { w.note("error", ev) }
func (*watching) OnInterrupt(graph.Event)       {}
func (*watching) OnCheckpointSaved(graph.Event) {}

// TRPC-47: the settings of a node that asks a model reach the request; its callbacks and
// those of the tools observe, answer and replace; an observer sees each event of an agent
// that is a node.
func TestSettingsReachTheRequestCallbacksReplaceAndAnObserverSeesAnAgentInside(t *testing.T) {
	half, tokens := 0.5, 77
	m := scripted.New(scripted.Call("x", "{}"), scripted.Text("the model's"))
	var called []string
	sub, err := agent.New(agent.ReAct[S]{Name: "sub", Model: m, Tools: []tool.Tool{logs("x", &called)}, Config: model.Config{Temperature: &half, MaxTokens: tokens},
		Use: append(aroundModel(nil, func(_ context.Context, _ *S, _ *model.Request, resp *model.Response, err error) (*model.Response, error) {
			if err == nil && len(resp.Message.ToolCalls()) == 0 {
				return &model.Response{Message: chat.Assistant("the callback's")}, nil
			}
			return nil, err
		}), aroundTools[S](func(context.Context, *chat.ToolCall) (*tool.Result, error) {
			r := tool.Text("short cut")
			return &r, nil
		}, func(_ context.Context, _ chat.ToolCall, r *tool.Result, err error) (*tool.Result, error) {
			replaced := tool.Text(r.Text() + ", replaced")
			return &replaced, err
		}))})
	b := graph.New[S]("g")
	agent.AddAgent(b, "node", agent.Of(ok(t, sub, err), ""), agent.SubAgent[S]{})
	seen := &watching{}
	s, err := compile(t, b.AddEdge(graph.Start, "node"), graph.Observe(seen)).Invoke(t.Context(), agent.Ask[S]("go"))
	if err != nil || s.State.LastResponse.Get() != "the callback's" || len(called) != 0 {
		t.Errorf("%v, %q, called %v", err, s.State.LastResponse.Get(), called)
	}
	for _, r := range m.Requests() {
		if r.Temperature == nil || *r.Temperature != half || r.MaxTokens != tokens {
			t.Errorf("the request has the settings %+v", r.Config)
		}
	}
	if last := m.Last().Messages; last[len(last)-1].Text() != "short cut, replaced" {
		t.Errorf("the tool's result is %q", last[len(last)-1].Text())
	}
	want := []string{"enter node/agent", "exit node/agent", "enter node/tools", "exit node/tools", "enter node/agent", "exit node/agent"}
	if !slices.Equal(seen.saw, want) {
		t.Errorf("seen are %q", seen.saw)
	}
}
