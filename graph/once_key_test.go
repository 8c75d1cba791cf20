package graph_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// charges has a node that charges, and one that charges and asks: in the graph itself or
// in subgraphs of it.
func charges(t *testing.T, deep int, ran *calls, opts ...graph.Option) *graph.Graph[trail] {
	charge := func(ctx context.Context, s *trail, name string) error {
		_, err := graph.Once(ctx, name, func(_ context.Context, key string) (string, error) {
			ran.add(name)
			ran.add(key)
			return key, nil
		})
		return err
	}
	b := graph.New[trail]("g")
	b.AddNode("first", func(ctx context.Context, s *trail) error { return charge(ctx, s, "deposit") })
	b.AddNode("second", func(ctx context.Context, s *trail) error {
		if err := charge(ctx, s, "charge"); err != nil {
			return err
		}
		ok, err := graph.Interrupt[bool](ctx, "ok", nil)
		if ok {
			s.N++
		}
		return err
	})
	b.AddEdge(graph.Start, "first").AddEdge("first", "second")
	if deep == 0 {
		return compile(t, b, opts...)
	}
	g := compile(t, b)
	for i := range deep {
		out := graph.New[trail]("out")
		graph.AddSubgraph(out, "sub", g, graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.N = c.N }})
		out.AddEdge(graph.Start, "sub")
		if i < deep-1 {
			g = compile(t, out)
			continue
		}
		g = compile(t, out, opts...)
	}
	return g
}

// Wherever a thread is taken back to, and though a step is begun anew, an effect is
// made once for its task while the thread's superstep is open, in subgraphs too.
func TestAnEffectHasOneKeyATaskForEver(t *testing.T) {
	type graphOf = *graph.Graph[trail]
	again := map[string]func(g graphOf, at string) (*graph.Snapshot[trail], error){
		"continue from": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			return g.Thread("t").At(at).Invoke(bg, g.Continue())
		},
		"restart step": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			return g.Thread("t").Invoke(bg, g.RestartStep())
		},
		"both": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			return g.Thread("t").At(at).Invoke(bg, g.RestartStep())
		},
		"twice": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			snap, err := g.Thread("t").At(at).Invoke(bg, g.Continue())
			if err != nil {
				return nil, err
			}
			return g.Thread("t").At(snap.Checkpoint).Invoke(bg, g.Continue())
		},
		"restart twice": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			if _, err := g.Thread("t").Invoke(bg, g.RestartStep()); err != nil {
				return nil, err
			}
			return g.Thread("t").Invoke(bg, g.RestartStep())
		},
		"input from": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			return g.Thread("t").At(at).Invoke(bg, g.Input(func(s *trail) error {
				s.Note = "x"
				return nil
			}))
		},
		"resume from": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			return g.Thread("t").At(at).Invoke(bg, g.Answer(false))
		},
		"fork": func(g graphOf, at string) (*graph.Snapshot[trail], error) {
			snap, err := g.Thread("t").At(at).Fork(bg)
			if err != nil {
				return nil, err
			}
			return g.Thread("t").At(snap.Checkpoint).Invoke(bg, g.Continue())
		},
	}
	for name, redo := range again {
		for deep := range 3 {
			for _, recorded := range []bool{false, true} {
				ran := &calls{}
				store := checkpoint.NewMemory()
				opts := []graph.Option{graph.WithCheckpointer(store)}
				if recorded {
					opts = append(opts, graph.RecordOnce())
				}
				snap := must[*graph.Snapshot[trail]](t)(charges(t, deep, ran, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
				// Another process has the store alone.
				g := charges(t, deep, ran, opts...)
				snap = must[*graph.Snapshot[trail]](t)(redo(g, snap.Checkpoint))
				if len(snap.Interrupts) > 0 {
					snap = must[*graph.Snapshot[trail]](t)(charges(t, deep, ran, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(true)))
					equal(t, name+": answered", snap.State.N, 1)
				}
				if !snap.Done() {
					t.Errorf("%s, %d deep: not done", name, deep)
				}
				equal(t, name+": deposits", ran.of("deposit"), 1)
				equal(t, name+": charges", ran.of("charge"), 1)
			}
		}
	}
}

// A superstep that was committed has no results of Once any more; its tasks keep their
// keys.
func TestAnEffectKeepsItsKeyWhenItsStepIsTakenBack(t *testing.T) {
	for deep := range 3 {
		ran := &calls{}
		g := charges(t, deep, ran, graph.WithCheckpointer(checkpoint.NewMemory()))
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		at := snap.Checkpoint
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
		must[*graph.Snapshot[trail]](t)(g.Thread("t").At(at).Invoke(bg, g.Continue()))
		all := ran.all()
		equal(t, "charges", ran.of("charge"), 2)
		for i, what := range all {
			if what == "charge" {
				equal(t, "calls with its key", ran.of(all[i+1]), 2)
			}
		}
	}
}

// A task of a subgraph that begins anew is the same only if it is planned as it was:
// another payload is another effect.
func TestASubgraphsTaskWithAnotherPayloadHasAnotherKey(t *testing.T) {
	ran := &calls{}
	first := "a"
	inner := graph.New[trail]("inner")
	work := graph.AddTask(inner, "work", func(ctx context.Context, s *trail, in string) error {
		if _, err := graph.Once(ctx, "charge", func(_ context.Context, key string) (string, error) {
			ran.add(in)
			ran.add(key)
			return key, nil
		}); err != nil {
			return err
		}
		_, err := graph.Interrupt[bool](ctx, "ok "+in, nil)
		return err
	})
	inner.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(work.Send(first), work.Send("b")), nil
	})
	inner.AddEdge(graph.Start, "split")
	b := graph.AddSubgraph(graph.New[trail]("g"), "sub", compile(t, inner), graph.Mapping[trail, trail]{})
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	first = "c"
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.RestartStep()))
	for _, who := range []string{"a", "b", "c"} {
		equal(t, "charges of "+who, ran.of(who), 1)
	}
	for _, what := range ran.all() {
		equal(t, "calls of "+what, ran.of(what), 1)
	}
}

// What was done on a branch is not done again on another that goes on with the same
// superstep: where a thread is taken back to the same checkpoint more than once, each
// branch finds what the ones before have recorded.
func TestAnEffectOfABranchIsNotRepeatedOnTheNext(t *testing.T) {
	type threadOf = *graph.Thread[trail]
	back := map[string]func(th threadOf, at string) error{
		"answer": func(th threadOf, at string) error {
			_, err := th.At(at).Invoke(bg, graph.Requests[trail]{}.Answer(graph.Answers{"ok": true}))
			return err
		},
		"fork": func(th threadOf, at string) error {
			if _, err := th.At(at).Fork(bg); err != nil {
				return err
			}
			_, err := th.Invoke(bg, graph.Requests[trail]{}.Answer(graph.Answers{"ok": true}))
			return err
		},
		"edit": func(th threadOf, at string) error {
			if _, err := th.At(at).Edit(bg, func(s *trail) error { s.Note = "x"; return nil }); err != nil {
				return err
			}
			_, err := th.Invoke(bg, graph.Requests[trail]{}.Answer(graph.Answers{"ok": true}))
			return err
		},
		"restart step": func(th threadOf, at string) error {
			if _, err := th.At(at).Invoke(bg, graph.Requests[trail]{}.RestartStep()); err != nil {
				return err
			}
			_, err := th.Invoke(bg, graph.Requests[trail]{}.Answer(graph.Answers{"ok": true}))
			return err
		},
	}
	for kind, open := range localStores {
		for name, again := range back {
			for _, nested := range []bool{false, true} {
				ran, store := &calls{}, open(t)
				ask := func(key string) func(context.Context, *trail) error {
					return func(ctx context.Context, _ *trail) error {
						_, err := graph.Interrupt[bool](ctx, key, nil)
						return err
					}
				}
				pay := func(ctx context.Context, s *trail) error {
					if err := ask("ok")(ctx, s); err != nil {
						return err
					}
					_, err := graph.Once(ctx, "charge", func(context.Context, string) (int, error) { return ran.add("charge"), nil })
					return err
				}
				// Until the gate opens the superstep is open.
				b := graph.New[trail]("g").AddNode("gate", ask("gate")).AddEdge(graph.Start, "gate")
				if nested {
					inner := compile(t, graph.New[trail]("inner").AddNode("pay", pay).AddEdge(graph.Start, "pay"))
					graph.AddSubgraph(b, "pay", inner, graph.Mapping[trail, trail]{})
				} else {
					b.AddNode("pay", pay)
				}
				b.AddEdge(graph.Start, "pay")
				thread := func() threadOf { return compile(t, b, graph.WithCheckpointer(store)).Thread("t") }
				snap := must[*graph.Snapshot[trail]](t)(thread().Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
				what := kind + ", " + name
				for range 3 {
					if err := again(thread(), snap.Checkpoint); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				snap = must[*graph.Snapshot[trail]](t)(thread().Invoke(bg, graph.Requests[trail]{}.Answer(true)))
				equal(t, what+": done", snap.Done(), true)
				equal(t, what+": charges", ran.of("charge"), 1)
				same(t, compile(t, b), taped(t, store, "t"))
			}
		}
	}
}
