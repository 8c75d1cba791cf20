package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// localStores are the stores that need no server.
var localStores = map[string]func(t *testing.T) checkpoint.Store{
	"memory": func(t *testing.T) checkpoint.Store { return closing(t, checkpoint.NewMemory()) },
	"file": func(t *testing.T) checkpoint.Store {
		return closing(t, must[*file.Store](t)(file.Open(t.TempDir(), file.Options{})))
	},
	"sqlite": func(t *testing.T) checkpoint.Store {
		return closing(t, must[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "t.db"))))
	},
}

// stopping is a graph whose node "call" runs, deep levels down, a child of two nodes.
// While stop is set it comes to nothing: the child fails, or the node after it, or a
// sibling of the node does while the child runs.
func stopping(t *testing.T, ran *calls, how string, deep int, keep bool, stop *bool, opts ...graph.Option) *graph.Graph[trail] {
	began := make(chan struct{}, 1)
	b := graph.New[trail]("child").AddNode("first", func(_ context.Context, s *trail) error {
		ran.add("first")
		s.Ran.Add("first")
		return nil
	})
	b.AddNode("second", func(ctx context.Context, s *trail) error {
		ran.add("second")
		switch {
		case *stop && how == "failed":
			return errBoom
		case *stop && how == "cancelled":
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		s.Ran.Add("second")
		return nil
	})
	b.AddEdge(graph.Start, "first").AddEdge("first", "second")
	var copts []graph.Option
	if keep {
		copts = append(copts, graph.KeepState())
	}
	g := compile(t, b, copts...)
	for range deep {
		out := graph.New[trail]("between")
		graph.AddSubgraph(out, "inner", g, graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }})
		g = compile(t, out.AddEdge(graph.Start, "inner"), copts...)
	}
	b = graph.New[trail]("parent").AddNode("before", visit("before"))
	b.AddNode("call", func(ctx context.Context, s *trail) error {
		c, err := graph.Call(ctx, "", g, nil)
		if err != nil {
			return err
		}
		if *stop && how == "finished" {
			return errBoom
		}
		s.Ran.Add(c.Ran.Slice()...)
		s.Ran.Add(s.Note)
		return nil
	})
	b.AddNode("sibling", func(context.Context, *trail) error {
		if *stop && how == "cancelled" {
			<-began
			return errBoom
		}
		return nil
	})
	b.AddEdge(graph.Start, "before").AddEdge("before", "call").AddEdge("before", "sibling")
	return compile(t, b, opts...)
}

// A subgraph that has failed, was cancelled or finished in a node that then failed goes
// on where it stood, on a branch too.
func TestABranchGoesOnInsideASubgraphThatWasCutShort(t *testing.T) {
	type graphOf = *graph.Graph[trail]
	branch := map[string]func(g graphOf, at string) (*graph.Snapshot[trail], error){
		"continue": func(g graphOf, at string) (*graph.Snapshot[trail], error) { return g.Thread("t").State(bg) },
		"fork":     func(g graphOf, at string) (*graph.Snapshot[trail], error) { return g.Thread("t").At(at).Fork(bg) },
		"edit": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			return g.Thread("t").At(at).Edit(bg, func(s *trail) error {
				s.Note = "edited"
				return nil
			})
		},
		"edit of a fork": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			snap, err := g.Thread("t").At(at).Fork(bg)
			if err != nil {
				return nil, err
			}
			return g.Thread("t").At(snap.Checkpoint).Edit(bg, func(s *trail) error {
				s.Note = "edited"
				return nil
			})
		},
		"fork before an edit": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			if _, err := g.Thread("t").Edit(bg, func(s *trail) error {
				s.Note = "edited"
				return nil
			}); err != nil {
				return nil, err
			}
			return g.Thread("t").At(at).Fork(bg)
		},
		"fork after the fork has gone on": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			snap, err := g.Thread("t").At(at).Fork(bg)
			if err != nil {
				return nil, err
			}
			if _, err := g.Thread("t").Invoke(bg, g.Continue()); err == nil {
				return nil, errors.New("nothing has stopped it")
			}
			return g.Thread("t").At(snap.Checkpoint).Fork(bg)
		},
	}
	// In a bubble no machine is so slow that the run gives up a task that is about to return.
	synctest.Test(t, func(t *testing.T) {
		for store, open := range localStores {
			for _, how := range []string{"failed", "cancelled", "finished"} {
				for name, take := range branch {
					for _, mode := range []graph.Durability{graph.Sync, graph.Async, graph.Exit} {
						for deep := range 2 {
							for _, keep := range []bool{false, true} {
								if store != "memory" && (mode != graph.Sync || deep > 0 || keep) {
									continue
								}
								what := fmt.Sprintf("%s/%s/%s/mode %d/%d deep/keep %v", store, how, name, mode, deep, keep)
								ran, stop := &calls{}, true
								opts := []graph.Option{graph.WithCheckpointer(open(t)), graph.WithDurability(mode)}
								g := stopping(t, ran, how, deep, keep, &stop, opts...)
								if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
									t.Fatal(what, err)
								}
								failed := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
								equal(t, what+": logs of subgraphs", len(failed.Tasks[0].Subgraphs), 1)
								snap := must[*graph.Snapshot[trail]](t)(take(stopping(t, ran, how, deep, keep, &stop, opts...), failed.Checkpoint))
								equal(t, what+": status", snap.Tasks[0].Status, failed.Tasks[0].Status)
								if name != "fork after the fork has gone on" { // it has failed once more
									equal(t, what+": error", snap.Tasks[0].Error, failed.Tasks[0].Error)
								}
								stop = false
								snap = must[*graph.Snapshot[trail]](t)(stopping(t, ran, how, deep, keep, &stop, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue()))
								equal(t, what+": ran", snap.State.ran(), "before first second "+snap.State.Note)
								equal(t, what+": runs of first", ran.of("first"), 1)
								if how == "finished" {
									equal(t, what+": runs of second", ran.of("second"), 1)
								}
								if t.Failed() {
									return
								}
							}
						}
					}
				}
			}
		}
	})
}

// What an attempt has called is known when a later one has not called it.
func TestABranchGoesOnInsideASubgraphOfAnEarlierAttempt(t *testing.T) {
	for _, mode := range []graph.Durability{graph.Sync, graph.Async} {
		ran, stop, attempts := &calls{}, true, 0
		child := compile(t, graph.New[trail]("child").AddNode("first", func(context.Context, *trail) error { ran.add("first"); return nil }).
			AddEdge(graph.Start, "first"))
		b := graph.New[trail]("parent").AddNode("a", func(ctx context.Context, s *trail) error {
			if attempts++; attempts == 2 {
				return errBoom
			}
			if _, err := graph.Call(ctx, "", child, nil); err != nil || stop {
				return errors.Join(errBoom, err)
			}
			return nil
		}, graph.Retry(graph.RetryPolicy{MaxAttempts: 2, Initial: 1})).AddEdge(graph.Start, "a")
		g := compile(t, b, append(stored(), graph.WithDurability(mode))...)
		_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
		wantErr[*graph.NodeError](t, err)
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
		must[*graph.Snapshot[trail]](t)(g.Thread("t").At(snap.Checkpoint).Fork(bg))
		stop = false
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
		equal(t, "runs of first", ran.of("first"), 1)
	}
}

// A fork from a checkpoint goes on where the subgraph stood there, not where an edit has
// put it since.
func TestAForkBeforeAnEditInsideAFailedSubgraph(t *testing.T) {
	ran, stop := &calls{}, true
	child := graph.New[trail]("child").AddNode("first", visit("first")).AddNode("second", func(_ context.Context, s *trail) error {
		if ran.add("second"); stop {
			return errBoom
		}
		s.Ran.Add("second sees " + s.Note)
		return nil
	}).AddEdge(graph.Start, "first").AddEdge("first", "second")
	b := graph.New[trail]("parent")
	graph.AddSubgraph(b, "sub", compile(t, child), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }})
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.NodeError](t, err)
	failed := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	sub := g.Thread("t").Inside(failed.Tasks[0].Inside)
	must[*graph.Snapshot[json.RawMessage]](t)(sub.Edit(bg, graph.UpdateWith([]byte(`{"Note":"the edit"}`))))
	edited := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	stop = false
	must[*graph.Snapshot[trail]](t)(g.Thread("t").At(failed.Checkpoint).Fork(bg))
	equal(t, "ran before the edit", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue())).State.ran(), "first second sees ")
	must[*graph.Snapshot[trail]](t)(g.Thread("t").At(edited.Checkpoint).Fork(bg))
	equal(t, "ran after it", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue())).State.ran(), "first second sees the edit")
	equal(t, "runs of second", ran.of("second"), 3)
}

// What only the result of a task that has failed points to is reached: pruning keeps it.
func TestPruneKeepsTheLogsOfAFailedSubgraph(t *testing.T) {
	for store, open := range localStores {
		for _, finished := range []bool{false, true} {
			ran, stop := &calls{}, true
			opts := []graph.Option{graph.WithCheckpointer(open(t))}
			how := "failed"
			if finished {
				how = "finished"
			}
			g := stopping(t, ran, how, 2, true, &stop, opts...)
			_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
			wantErr[*graph.NodeError](t, err)
			must[*graph.Snapshot[trail]](t)(g.Thread("t").At(must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).Checkpoint).Fork(bg))
			if _, err := g.Thread("t").Prune(bg, graph.Keep{Last: 1, DropForks: true}); err != nil {
				t.Fatal(err)
			}
			stop = false
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
			equal(t, store+": ran", snap.State.ran(), "before first second ")
			equal(t, store+": runs of first", ran.of("first"), 1)
		}
	}
}

// Calls of one node that run at once may all ask, whichever begins first.
func TestCallsThatRunAtOnceMayAllAsk(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		store := checkpoint.NewMemory()
		child := compile(t, graph.New[trail]("child").AddNode("ask", func(ctx context.Context, s *trail) error {
			answer, err := graph.Interrupt[string](ctx, "ok "+s.Note, nil)
			s.Note = answer
			return err
		}).AddEdge(graph.Start, "ask"))
		b := graph.New[trail]("parent").AddNode("a", func(ctx context.Context, s *trail) error {
			var wg sync.WaitGroup
			answers, errs := make([]string, 3), make([]error, 3)
			for i := range answers {
				call := func() {
					c, err := graph.Call(ctx, fmt.Sprint(i), child, func(c *trail) error {
						c.Note = fmt.Sprint(i)
						return nil
					})
					if errs[i] = err; err == nil {
						answers[i] = c.Note
					}
				}
				if wg.Go(call); sequential {
					wg.Wait()
				}
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			s.Ran.Add(answers...)
			return nil
		}).AddEdge(graph.Start, "a")
		g := compile(t, b, graph.WithCheckpointer(store))
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		equal(t, "questions", len(snap.Interrupts), 3)
		snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"ok 1": "one"})))
		equal(t, "questions left", len(snap.Interrupts), 2)
		snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"ok 0": "zero", "ok 2": "two"})))
		equal(t, "answers", snap.State.ran(), "zero one two")
		same(t, g, taped(t, store, "t"))
	}
}
