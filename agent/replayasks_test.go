package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// A conversation in which tools asked by themselves is replayed, however they are
// called, with its questions and without an effect of the tools.
func TestAConversationWithToolsThatAskIsReplayed(t *testing.T) {
	silent := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return nil, fmt.Errorf("the model was called in a replay")
	})
	var effects atomic.Int64 // tools may be called in parallel
	// Two questions, with an effect between them and after.
	asking := tool.New("order", "", func(ctx context.Context, in struct {
		What string `json:"what"`
	}) (string, error) {
		size, err := graph.Interrupt[string](ctx, "size", in.What)
		if err != nil {
			return "", err
		}
		price, err := graph.Once(ctx, "price", func(context.Context, string) (int, error) { effects.Add(1); return len(size), nil })
		if err != nil {
			return "", err
		}
		sure, err := graph.Interrupt[bool](ctx, "sure", price)
		if err != nil || !sure {
			return "not ordered", err
		}
		_, err = graph.Once(ctx, "order", func(context.Context, string) (bool, error) { effects.Add(1); return true, nil })
		return fmt.Sprint("ordered ", in.What, " ", size), err
	})
	stating := agent.NewStateTool("note", "", func(ctx context.Context, s *state, _ struct{}) (string, graph.Command, error) {
		what, err := graph.Interrupt[string](ctx, "note", nil)
		if err == nil {
			s.Notes.Add(what)
		}
		return what, graph.Command{}, err
	})
	plain := tool.New("plain", "", func(context.Context, struct{}) (string, error) { effects.Add(1); return "ok", nil })
	pick := func(live bool, replies ...scripted.Reply) model.Model {
		if live {
			return script(replies...)
		}
		return silent
	}
	one, two := call("1", "order", `{"what":"tea"}`), call("2", "order", `{"what":"milk"}`)
	answers := map[string]any{"size": "big", "sure": true, "note": "n"}
	for name, build := range map[string]func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state]{
		"one after the other": func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state] {
			return react(t, agent.ReAct[state]{
				Model: pick(live, calls(call("0", "plain", "{}"), one, two), calls(one), scripted.Text("done")), Tools: []tool.Tool{asking, plain},
			}, opts...)
		},
		"in parallel": func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state] {
			return react(t, agent.ReAct[state]{
				Parallel: 4, Model: pick(live, calls(one, call("0", "plain", "{}"), two), scripted.Text("done")), Tools: []tool.Tool{asking, plain},
			}, opts...)
		},
		"with an approval before": func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state] {
			return react(t, agent.ReAct[state]{
				Approve: agent.Approve("order"), Model: pick(live, calls(one), scripted.Text("done")), Tools: []tool.Tool{asking, plain},
			}, opts...)
		},
		"with a state": func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state] {
			return react(t, agent.ReAct[state]{
				Model: pick(live, calls(call("0", "plain", "{}"), call("1", "note", "{}"), one), scripted.Text("done")), Tools: []tool.Tool{stating, plain, asking},
			}, opts...)
		},
		"in an agent that is a tool": func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state] {
			sub, err := agent.New(agent.ReAct[agent.State]{Name: "sub", Model: pick(live, calls(one, call("0", "plain", "{}")), scripted.Text("half")), Tools: []tool.Tool{asking, plain}})
			if err != nil {
				t.Fatal(err)
			}
			return react(t, agent.ReAct[state]{
				Model: pick(live, calls(call("s", "sub", `{"task":"x"}`)), scripted.Text("done")), Tools: []tool.Tool{agent.AsTool(agent.Of(sub, ""))},
			}, opts...)
		},
		"in an agent that is a node": func(t *testing.T, live bool, opts ...graph.Option) *graph.Graph[state] {
			sub, err := agent.New(agent.ReAct[agent.State]{Name: "sub", Model: pick(live, calls(one, call("0", "plain", "{}")), scripted.Text("half")), Tools: []tool.Tool{asking, plain}})
			if err != nil {
				t.Fatal(err)
			}
			b := graph.New[state]("g")
			agent.AddAgent(b, "sub", agent.Of(sub, ""), agent.SubAgent[state]{})
			return compile(t, b.AddEdge(graph.Start, "sub"), opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			g := build(t, true, graph.WithCheckpointer(store), graph.RecordOnce())
			snap, err := g.Thread("t").Invoke(t.Context(), g.Input(ask("go")))
			asked := 0
			for err == nil && len(snap.Interrupts) > 0 && asked < 20 {
				given := graph.Answers{}
				for _, q := range snap.Interrupts {
					asked++
					if given[q.ID] = answers[q.Key]; q.Key == agent.ApprovalKey {
						given[q.ID] = agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}
					}
				}
				snap, err = g.Thread("t").Invoke(t.Context(), g.Answer(given))
			}
			if err != nil || !snap.Done() || asked < 2 {
				t.Fatalf("%v, asked %d times, %v", err, asked, snap)
			}
			path := filepath.Join(t.TempDir(), "t.jsonl")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(recording.Export(t.Context(), store, "t", f), f.Close()); err != nil {
				t.Fatal(err)
			}
			before := effects.Load()
			graphtest.Replay(t, build(t, false), path)
			if effects.Load() != before {
				t.Errorf("%d effects in the replay", effects.Load()-before)
			}
		})
	}
}

func TestASingleNodeWhoseToolAsksIsReplayed(t *testing.T) {
	effects := 0
	asking := tool.New("sure", "", func(ctx context.Context, _ struct{}) (string, error) {
		answer, err := graph.Interrupt[string](ctx, "sure", "?")
		if err == nil {
			effects++
		}
		return answer, err
	})
	store := checkpoint.NewMemory()
	build := func(m model.Model, opts ...graph.Option) *graph.Graph[report] {
		return single(t, agent.ReActNode{Model: m, Tools: []tool.Tool{asking}, Approve: agent.Approve("sure")}, opts...)
	}
	g := build(script(calls(call("1", "sure", "{}")), calls(call("1", "sure", "{}")), scripted.Text("done")), graph.WithCheckpointer(store), graph.RecordOnce())
	_, err := g.Thread("t").Invoke(t.Context(), g.Input(question("go")))
	for _, answer := range []any{
		agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}, "yes",
		agent.ApprovalAnswer{Decisions: []agent.Decision{{Type: agent.ApproveCall}}}, "no",
	} {
		if err == nil {
			_, err = g.Thread("t").Invoke(t.Context(), g.Answer(answer))
		}
	}
	if err != nil || effects != 2 {
		t.Fatal(err, effects)
	}
	path := filepath.Join(t.TempDir(), "t.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(recording.Export(t.Context(), store, "t", f), f.Close()); err != nil {
		t.Fatal(err)
	}
	graphtest.Replay(t, build(script()), path)
	if effects != 2 {
		t.Errorf("%d effects in the replay", effects-2)
	}
}
