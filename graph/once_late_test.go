package graph_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// An attempt whose context has ended begins nothing more, whatever ended it and
// whatever context it passes.
func TestAnAttemptThatIsOverBeginsNothing(t *testing.T) {
	child := compile(t, visits(graph.New[trail]("child"), "c").AddEdge(graph.Start, "c"))
	for name, c := range map[string]struct {
		node []graph.NodeOption
		call []graph.RunOption
	}{
		"node timeout":   {[]graph.NodeOption{graph.Timeout(time.Second)}, nil},
		"step timeout":   {nil, []graph.RunOption{graph.StepTimeout(time.Second)}},
		"run timeout":    {nil, []graph.RunOption{graph.RunTimeout(time.Second)}},
		"cancelled call": {nil, nil},
		"failed sibling": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := &calls{}
				b := graph.New[trail]("g")
				b.AddNode("deaf", func(ctx context.Context, _ *trail) error {
					time.Sleep(time.Minute)
					ctx = context.WithoutCancel(ctx)
					_, err := graph.Once(ctx, "charge", func(context.Context, string) (int, error) { return ran.add("charge"), nil })
					emitted := graph.Emit(ctx, "x")
					_, called := graph.Call(ctx, "", child, func(*trail) error {
						ran.add("call")
						return nil
					})
					for _, err := range []error{err, emitted, called} {
						if errors.Is(err, graph.ErrLate) {
							ran.add("late")
						}
					}
					return nil
				}, c.node...)
				b.AddNode("sibling", func(ctx context.Context, _ *trail) error {
					if time.Sleep(time.Second); name == "failed sibling" {
						return errBoom
					}
					return nil
				})
				b.AddEdge(graph.Start, "deaf").AddEdge(graph.Start, "sibling")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if name == "cancelled call" {
					time.AfterFunc(time.Second, cancel)
				}
				_, err := compile(t, b, stored()...).Thread("t").Invoke(ctx, graph.Requests[trail]{}.Input(func(*trail) error { return nil }), c.call...)
				if err == nil {
					t.Error("no error")
				}
				time.Sleep(2 * time.Minute)
				equal(t, "charged", ran.of("charge"), 0)
				equal(t, "called", ran.of("call"), 0)
				equal(t, "told so", ran.of("late"), 3)
			})
		})
	}
}

// While an effect is under way that a run has left behind, the thread stays the run's:
// who continues it afterwards finds the result.
func TestAThreadIsHeldWhileAnEffectIsUnderWay(t *testing.T) {
	pay := func(ran *calls) func(context.Context, *trail) error {
		return func(ctx context.Context, s *trail) (err error) {
			s.N, err = graph.Once(ctx, "charge", func(context.Context, string) (int, error) {
				time.Sleep(time.Minute)
				return ran.add("charge"), nil
			})
			return err
		}
	}
	same := graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.N = c.N }}
	for name, build := range map[string]func(*calls) *graph.Builder[trail]{
		"node": func(ran *calls) *graph.Builder[trail] { return graph.New[trail]("g").AddNode("a", pay(ran)) },
		"subgraph": func(ran *calls) *graph.Builder[trail] {
			inner := graph.New[trail]("inner").AddNode("a", pay(ran)).AddEdge(graph.Start, "a")
			return graph.AddSubgraph(graph.New[trail]("g"), "a", compile(t, inner), same)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := &calls{}
				g := compile(t, build(ran).AddEdge(graph.Start, "a"), stored()...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := g.Thread("t").Invoke(ctx, g.Input(func(*trail) error { return nil })); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				if _, err := g.Thread("t").Invoke(bg, g.Continue()); !errors.Is(err, graph.ErrThreadBusy) {
					t.Errorf("while the effect is under way: %v", err)
				}
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue(), graph.WhenBusy(graph.BusyQueue)))
				equal(t, "charged", ran.of("charge"), 1)
				equal(t, "result", snap.State.N, 1)
			})
		})
	}
}

// An effect that an attempt has begun is the next one's too, in a subgraph as well.
func TestAnEffectThatOutlivesItsAttemptIsTheNextOnes(t *testing.T) {
	for name, opts := range map[string][]graph.Option{"stored": stored(), "not stored": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := &calls{}
				inner := graph.New[trail]("inner").AddNode("a", func(ctx context.Context, s *trail) (err error) {
					s.N, err = graph.Once(ctx, "charge", func(context.Context, string) (int, error) {
						time.Sleep(1500 * time.Millisecond)
						return ran.add("charge"), nil
					})
					return err
				}).AddEdge(graph.Start, "a")
				b := graph.AddSubgraph(graph.New[trail]("g"), "a", compile(t, inner), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.N = c.N }},
					graph.Timeout(time.Second), graph.Retry(graph.RetryPolicy{Initial: 1}))
				snap := must[*graph.Snapshot[trail]](t)(compile(t, b.AddEdge(graph.Start, "a"), opts...).Thread("t").Invoke(t.Context(), graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
				equal(t, "charged", ran.of("charge"), 1)
				equal(t, "result", snap.State.N, 1)
			})
		})
	}
}

// onceStore fails to store results of Once.
type onceStore struct {
	checkpoint.Store
	fail bool
}

func (s *onceStore) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	for _, r := range w.Results {
		if r.Kind == checkpoint.KindOnce && s.fail {
			return checkpoint.Written{}, errBoom
		}
	}
	return s.Store.Write(ctx, w)
}

// When the result of an effect can't be stored, the run ends: no other attempt, no
// error handler and no node that looks away repeats the effect or goes on.
func TestAResultOfOnceThatCannotBeStoredEndsTheRun(t *testing.T) {
	retry := graph.Retry(graph.RetryPolicy{MaxAttempts: 4, Initial: 1})
	handle := graph.OnError(func(context.Context, *trail, *graph.NodeError) (graph.Command, error) { return graph.Command{}, nil })
	for _, looksAway := range []bool{false, true} {
		for _, nested := range []bool{false, true} {
			for _, d := range []graph.Durability{graph.Sync, graph.Async} {
				ran := &calls{}
				node := func(ctx context.Context, s *trail) error {
					_, err := graph.Once(ctx, "charge", func(_ context.Context, key string) (string, error) {
						ran.add("charge")
						ran.add(key)
						return key, nil
					})
					if looksAway {
						return nil
					}
					return err
				}
				b := graph.New[trail]("g")
				if nested {
					inner := graph.New[trail]("inner").AddNode("a", node, retry, handle).AddEdge(graph.Start, "a")
					graph.AddSubgraph(b, "a", compile(t, inner), graph.Mapping[trail, trail]{}, retry, handle)
				} else {
					b.AddNode("a", node, retry, handle)
				}
				visits(b, "b").AddEdge(graph.Start, "a").AddEdge("a", "b")
				store := &onceStore{Store: checkpoint.NewMemory(), fail: true}
				g := compile(t, b, graph.WithCheckpointer(store), graph.WithDurability(d))
				snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
				e := wantErr[*graph.CheckpointError](t, err)
				equal(t, "operation", e.Op, "save")
				equal(t, "effects", ran.of("charge"), 1)
				equal(t, "ran", snap.State.ran(), "")
				store.fail = false
				snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
				equal(t, "ran", snap.State.ran(), "b")
				equal(t, "effects under one key", ran.of(ran.all()[1]), 2)
			}
		}
	}
}
