package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// An edit as a node of a subgraph that waits takes its question from the thread, and
// the thread goes on behind that node, how deep it may be and however it is mounted.
func TestEditAsTheNodeThatAsksInASubgraph(t *testing.T) {
	part := func(s *trail) *trail { return s }
	mapped := graph.Mapping[trail, trail]{
		In:  func(p, c *trail) { c.Ran.Add(p.Ran.Slice()...) },
		Out: func(c, p *trail) { p.Ran.Overwrite(c.Ran.Slice()...) },
	}
	mount := map[string]func(b *graph.Builder[trail], name string, sub *graph.Builder[trail]){
		"shared": func(b *graph.Builder[trail], name string, sub *graph.Builder[trail]) {
			graph.AddShared(b, name, compile(t, sub), part)
		},
		"mapped": func(b *graph.Builder[trail], name string, sub *graph.Builder[trail]) {
			graph.AddSubgraph(b, name, compile(t, sub), mapped)
		},
		"kept": func(b *graph.Builder[trail], name string, sub *graph.Builder[trail]) {
			graph.AddSubgraph(b, name, compile(t, sub, graph.KeepState()), mapped)
		},
	}
	for kind, add := range mount {
		for _, deep := range []bool{false, true} {
			for _, others := range []bool{false, true} {
				for _, from := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, deep %v, others ask %v, from the checkpoint %v", kind, deep, others, from), func(t *testing.T) {
						ask := func(name string) func(context.Context, *trail) error {
							return func(ctx context.Context, s *trail) error {
								answer, err := graph.Interrupt[string](ctx, name, nil)
								if err != nil {
									return err
								}
								s.Ran.Add(name + " " + answer)
								return nil
							}
						}
						sub := graph.New[trail]("sub").AddNode("ask", ask("ask")).AddNode("then", visit("then"))
						sub.AddEdge(graph.Start, "ask").AddEdge("ask", "then")
						if others {
							sub.AddNode("other", ask("other")).AddEdge(graph.Start, "other")
						}
						if deep {
							middle := graph.New[trail]("middle").AddNode("before", visit("before")).AddNode("behind", visit("behind"))
							add(middle, "sub", sub)
							middle.AddSequence("before", "sub", "behind").SetEntryPoint("before")
							sub = middle
						}
						b := graph.New[trail]("g")
						add(b, "sub", sub)
						b.AddNode("end", visit("end")).AddSequence("sub", "end").SetEntryPoint("sub")
						store := checkpoint.NewMemory()
						g := compile(t, b, graph.WithCheckpointer(store))
						snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
						ns := ""
						for tasks := snap.Tasks; len(tasks) == 1 && len(tasks[0].Subgraphs) > 0; {
							for ns = range tasks[0].Subgraphs {
							}
							tasks = must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(ns).State(bg)).Tasks
						}
						run := g.Thread("t").Inside(ns)
						if from {
							run = run.At(must[*graph.Snapshot[json.RawMessage]](t)(run.State(bg)).Checkpoint)
						}
						must[*graph.Snapshot[json.RawMessage]](t)(run.EditAs(bg, "ask", graph.UpdateWith([]byte(`{"Ran": ["edited"]}`))))
						snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
						var open []string
						for _, q := range snap.Interrupts {
							open = append(open, q.Key)
						}
						want := "edited then"
						if others {
							equal(t, "what is asked still", fmt.Sprint(open), "[other]")
							equal(t, "next", fmt.Sprint(snap.Next), "[sub]")
							snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("b")))
							want = "edited other b then"
						} else {
							equal(t, "what is asked still", fmt.Sprint(open), "[]")
							equal(t, "next", fmt.Sprint(snap.Next), "[sub]")
							snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
						}
						if want += " end"; deep {
							want = "before " + want[:len(want)-len(" end")] + " behind end"
						}
						got := snap.State.Ran.Slice()
						if !snap.Done() || fmt.Sprint(got) != fmt.Sprintf("[%s]", want) {
							t.Errorf("done %v, ran %v, want %s", snap.Done(), got, want)
						}
					})
				}
			}
		}
	}
}

// The state that a subgraph keeps is edited between turns, and its next run begins
// with the edit: at the root, inside another that keeps its state, and while a sibling
// of the task that called it still asks.
func TestEditOfAStateThatASubgraphKeeps(t *testing.T) {
	count := func(_ context.Context, s *trail) error { s.Ran.Add(fmt.Sprint("run ", s.Ran.Len())); return nil }
	mapped := graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Overwrite(c.Ran.Slice()...) }}
	for _, deep := range []bool{false, true} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("deep %v, a sibling asks %v", deep, open), func(t *testing.T) {
				sub := graph.New[trail]("kept").AddNode("count", count).AddEdge(graph.Start, "count")
				ns := "|kept"
				if deep {
					middle := graph.New[trail]("middle")
					graph.AddSubgraph(middle, "kept", compile(t, sub, graph.KeepState()), mapped).AddEdge(graph.Start, "kept")
					sub, ns = middle, "|kept|kept"
				}
				b := graph.New[trail]("g")
				graph.AddSubgraph(b, "kept", compile(t, sub, graph.KeepState()), mapped).AddEdge(graph.Start, "kept")
				if open {
					b.AddNode("ask", func(ctx context.Context, s *trail) error {
						_, err := graph.Interrupt[bool](ctx, "go", nil)
						return err
					}).AddEdge(graph.Start, "ask")
				}
				store := checkpoint.NewMemory()
				g := compile(t, b, graph.WithCheckpointer(store))
				must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
				must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(ns).Edit(bg, graph.UpdateWith([]byte(`{"Ran": ["edited"]}`))))
				if open {
					must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
				}
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
				if open {
					snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
				}
				equal(t, "what the kept state has come to", fmt.Sprint(snap.State.Ran), "[run 0 edited run 2]")
			})
		}
	}
}

// A fork of a thread that waits in a subgraph goes on behind an edit inside that was
// made before or after it where it stands, and no node is given an answer that nobody
// gave: not if the other branch has gone on, nor if the edit was made on that one.
func TestEditInASubgraphOfAFork(t *testing.T) {
	type thread struct {
		*graph.Graph[trail]
		asked *graph.Snapshot[trail] // where a and b are asked
		edit  func(node, at string)
	}
	for name, c := range map[string]struct {
		story      func(th thread)
		asks, runs string
	}{
		"edit, fork": {func(th thread) {
			th.edit("b", "")
			must[*graph.Snapshot[trail]](t)(th.Thread("t").At(must[*graph.Snapshot[trail]](t)(th.Thread("t").State(bg)).Checkpoint).Fork(bg))
		}, "[a]", "edited a 1 then end"},
		"fork, edit": {func(th thread) {
			must[*graph.Snapshot[trail]](t)(th.Thread("t").At(th.asked.Checkpoint).Fork(bg))
			th.edit("b", "")
		}, "[a]", "edited a 1 then end"},
		"the other branch goes on, fork, edit": {func(th thread) {
			must[*graph.Snapshot[trail]](t)(th.Thread("t").Invoke(bg, th.Answer(graph.Answers{th.asked.Interrupts[0].ID: "0", th.asked.Interrupts[1].ID: "0"})))
			must[*graph.Snapshot[trail]](t)(th.Thread("t").At(th.asked.Checkpoint).Fork(bg))
			for _, at := range th.asked.Tasks[0].Subgraphs {
				th.edit("b", at)
			}
		}, "[a]", "edited a 1 then end"},
		"the other branch was edited, fork, edit of the other": {func(th thread) {
			th.edit("", "")
			must[*graph.Snapshot[trail]](t)(th.Thread("t").At(th.asked.Checkpoint).Fork(bg))
			th.edit("b", "")
		}, "[a b]", "a 1 b 2 then end"},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, its state is kept %v", name, keep), func(t *testing.T) {
				ask := func(name string) func(context.Context, *trail) error {
					return func(ctx context.Context, s *trail) error {
						answer, err := graph.Interrupt[string](ctx, name, nil)
						if err == nil {
							s.Ran.Add(name + " " + answer)
						}
						return err
					}
				}
				sub := graph.New[trail]("sub").AddNode("a", ask("a")).AddNode("b", ask("b")).AddNode("then", visit("then"))
				sub.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge("b", "then")
				var kept []graph.Option
				if keep {
					kept = append(kept, graph.KeepState())
				}
				b := graph.New[trail]("g").AddNode("end", visit("end"))
				graph.AddSubgraph(b, "sub", compile(t, sub, kept...), graph.Mapping[trail, trail]{
					Out: func(c, p *trail) { p.Ran.Overwrite(c.Ran.Slice()...) },
				})
				b.AddSequence("sub", "end").SetEntryPoint("sub")
				store := checkpoint.NewMemory()
				g := compile(t, b, graph.WithCheckpointer(store))
				asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
				c.story(thread{g, asked, func(node, at string) {
					for ns := range asked.Tasks[0].Subgraphs {
						edit := graph.Edit[json.RawMessage]{Apply: graph.UpdateWith([]byte(`{"Ran": ["edited"]}`)), AsNode: node}
						must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(ns).At(at).BulkEdit(bg, []graph.Edit[json.RawMessage]{edit}))
					}
				}})
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
				var open []string
				answers := graph.Answers{}
				for i, q := range snap.Interrupts {
					open = append(open, q.Key)
					answers[q.ID] = fmt.Sprint(i + 1)
				}
				equal(t, "what is asked", fmt.Sprint(open), c.asks)
				snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(answers)))
				equal(t, "what ran", snap.State.ran(), c.runs)
				same(t, g, taped(t, store, "t"))
			})
		}
	}
}

// A graph that shares the state of the one around it goes on from that as it is now,
// edited while the graph waited, however often it was read before.
func TestASharedSubgraphGoesOnFromAnEditedState(t *testing.T) {
	ask := func(key string) func(context.Context, *trail) error {
		return func(ctx context.Context, s *trail) error {
			if _, err := graph.Interrupt[bool](ctx, key, nil); err != nil {
				return err
			}
			s.Ran.Add(fmt.Sprint(key, " with ", s.N))
			return nil
		}
	}
	inner := graph.New[trail]("inner").AddNode("one", ask("one")).AddNode("two", ask("two")).AddNode("three", ask("three"))
	b := graph.New[trail]("outer")
	graph.AddShared(b, "sub", compile(t, inner.AddSequence(graph.Start, "one", "two", "three")), func(s *trail) *trail { return s })
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	th := g.Thread("t")
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	for n := range 3 {
		snap := must[*graph.Snapshot[trail]](t)(th.Edit(bg, func(s *trail) error { s.N = n; return nil }))
		for range 2 {
			must[*graph.Snapshot[json.RawMessage]](t)(th.Inside(snap.Tasks[0].Inside).State(bg))
		}
		must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(true)))
	}
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(th.State(bg)).State.ran(), "one with 0 two with 1 three with 2")
}
