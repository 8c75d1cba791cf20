package graph_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestW2RouterErrorLeavesNodeDoneAndRoutingPending(t *testing.T) {
	ran := &calls{}
	fail := true
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error {
		ran.add("a")
		s.Ran.Add("a")
		return nil
	})
	visits(b, "b")
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(_ context.Context, s *trail) (graph.Command, error) {
		ran.add("router")
		if fail {
			return graph.Command{}, errBoom
		}
		return graph.Goto("b"), nil
	}, "b")
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	equal(t, "shown", snap.State.ran(), "a")
	equalSlice(t, "next", snap.Next, []string{"a"})
	fail = false
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "a b")
	equal(t, "runs of a", ran.of("a"), 1)
	equal(t, "runs of the router", ran.of("router"), 2)
}

func TestFailedTaskKeepsFinishedSiblings(t *testing.T) {
	ran := &calls{}
	fail := true
	finished := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("good", func(_ context.Context, s *trail) error {
		ran.add("good")
		s.Ran.Add("good")
		close(finished)
		return nil
	})
	b.AddNode("bad", func(_ context.Context, s *trail) error {
		if fail {
			<-finished
			time.Sleep(10 * time.Millisecond) // good's report is in
			return errBoom
		}
		s.Ran.Add("bad")
		return nil
	})
	b.AddEdge(graph.Start, "good").AddEdge(graph.Start, "bad")
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	ne := wantErr[*graph.NodeError](t, err)
	equal(t, "node", ne.Node, "bad")
	if !errors.Is(err, errBoom) {
		t.Error("the cause is lost")
	}
	equal(t, "shown", snap.State.ran(), "good")
	equal(t, "task error", snap.Tasks[1].Error != "", true)
	read := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
	equal(t, "status", snap.Tasks[1].Status, "failed")
	equal(t, "status as read", read.Tasks[1].Status, "failed")
	equal(t, "task error as read", read.Tasks[1].Error, snap.Tasks[1].Error)
	fail = false
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "good bad")
	equal(t, "runs of good", ran.of("good"), 1)
}

func TestSeveralFailuresAreJoinedInPlanOrder(t *testing.T) {
	for range 50 {
		b := graph.New[trail]("g")
		gate := make(chan struct{})
		for _, n := range []string{"one", "two"} {
			b.AddNode(n, func(context.Context, *trail) error {
				if n == "one" {
					<-gate
				} else {
					defer close(gate)
				}
				return errors.New(n)
			})
			b.AddEdge(graph.Start, n)
		}
		_, err := compile(t, b).Invoke(bg, nil)
		equal(t, "first failed node", wantErr[*graph.NodeError](t, err).Node, "one")
		if !strings.Contains(err.Error(), "two") {
			t.Fatalf("the second failure is not told: %v", err)
		}
	}
}

func TestPanicInANodeIsANodeErrorWithItsStack(t *testing.T) { // W7-41, W7-42
	b := graph.New[trail]("g")
	b.AddNode("a", func(context.Context, *trail) error { panic(errBoom) })
	b.AddEdge(graph.Start, "a")
	_, err := compile(t, b).Invoke(bg, nil)
	equal(t, "node", wantErr[*graph.NodeError](t, err).Node, "a")
	pe := wantErr[*graph.PanicError](t, err)
	if !errors.Is(err, errBoom) || !strings.Contains(string(pe.Stack), "failure_test.go") {
		t.Errorf("%v\n%s", err, pe.Stack)
	}
}

func TestW9UnknownDestinationsAreErrors(t *testing.T) {
	for name, c := range map[string]graph.Command{
		"goto":   graph.Goto("nowhere"),
		"parent": graph.GotoParent("b"),
	} {
		b := graph.New[trail]("g")
		b.AddCommandNode("a", func(context.Context, *trail) (graph.Command, error) { return c, nil })
		visits(b, "b")
		b.AddEdge(graph.Start, "a")
		g := compile(t, b, stored()...)
		_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
		e := wantErr[*graph.InvalidEdgeError](t, err)
		equal(t, name+": source", e.Source, "a")
	}
}

func TestW7_14UnknownRouteNamesLabelAndSource(t *testing.T) { // W7-14
	b := visits(graph.New[trail]("g"), "a", "approve")
	b.AddEdge(graph.Start, "a")
	b.AddRoutes("a", func(context.Context, *trail) (string, error) { return "nope", nil }, map[string]string{"yes": "approve"})
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	e := wantErr[*graph.InvalidEdgeError](t, err)
	equal(t, "target", e.Target, "nope")
	equal(t, "source", e.Source, "a")
	equalSlice(t, "allowed", e.Allowed, []string{"yes"})
	equal(t, "state after the node is kept", snap.State.ran(), "a")
}

func TestW9JoinThatCannotCompleteIsAnError(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c", "d")
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) { return graph.Goto("b"), nil }, "b", "c")
	b.AddJoin([]string{"b", "c"}, "d")
	_, err := compile(t, b).Invoke(bg, nil)
	e := wantErr[*graph.JoinError](t, err)
	equalSlice(t, "missing", e.Missing, []string{"c"})
	equalSlice(t, "arrived", e.Arrived, []string{"b"})
}

func TestAJoinTellsSourcesThatWereLedElsewhere(t *testing.T) {
	for name, elsewhere := range map[string]func(b *graph.Builder[trail]){
		"command": func(b *graph.Builder[trail]) {
			b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) {
				if s.Ran.Add("a"); s.N == 0 {
					return graph.Goto("other"), nil
				}
				return graph.Command{}, nil
			})
		},
		"router": func(b *graph.Builder[trail]) {
			visits(b, "a").AddConditionalEdges("a", func(_ context.Context, s *trail) (graph.Command, error) {
				if s.N == 0 {
					return graph.Goto("other"), nil
				}
				return graph.Command{}, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := visits(graph.New[trail]("g"), "b", "other", "c", "d")
			elsewhere(b)
			b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge("d", "c").AddJoin([]string{"a", "b", "c"}, "d")
			_, err := compile(t, b).Invoke(bg, nil)
			e := wantErr[*graph.JoinError](t, err)
			equalSlice(t, "arrived", e.Arrived, []string{"b"})
			equalSlice(t, "led elsewhere", e.Elsewhere, []string{"a"})
			equalSlice(t, "did not run", e.Missing, []string{"c"})

			_, err = compile(t, b).Invoke(bg, func(s *trail) error {
				s.N = 1
				return nil
			})
			e = wantErr[*graph.JoinError](t, err)
			equalSlice(t, "the zero command arrives", e.Arrived, []string{"a", "b"})
			equalSlice(t, "did not run then", e.Missing, []string{"c"})
		})
	}
}

// It stays what stopped the thread until an edit or an input says otherwise.
func TestAJoinThatCannotCompleteIsToldUntilItIsResolved(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c", "d")
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.N > 0 {
			return graph.Goto("b", "c"), nil
		}
		return graph.Goto("b"), nil
	}, "b", "c")
	b.AddJoin([]string{"b", "c"}, "d")
	store := checkpoint.NewMemory()
	stopped := func() *graph.Graph[trail] {
		g := compile(t, b, graph.WithCheckpointer(store))
		_, err := g.Thread("t").Invoke(bg, g.Restart(func(*trail) error { return nil }))
		wantErr[*graph.JoinError](t, err)
		return compile(t, b, graph.WithCheckpointer(store)) // as in another process
	}
	g := stopped()
	for name, call := range map[string]func() error{
		"continue": func() error { _, err := g.Thread("t").Invoke(bg, g.Continue()); return err },
		"resume":   func() error { _, err := g.Thread("t").Invoke(bg, g.Answer(true)); return err },
		"state":    func() error { return must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).Err() },
	} {
		e := wantErr[*graph.JoinError](t, call())
		equalSlice(t, name+": missing", e.Missing, []string{"c"})
	}
	must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "c", func(s *trail) error {
		s.Ran.Add("c")
		return nil
	}))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "after an edit", snap.State.ran(), "a b c d")
	if err := snap.Err(); err != nil {
		t.Error(err)
	}
	g = stopped()
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
		s.N = 1
		return nil
	})))
	if err := snap.Err(); err != nil || !snap.Done() {
		t.Errorf("after an input: %v", err)
	}
}

func TestW9ConflictNamesFieldAndNodesAndDoesNotPoisonTheThread(t *testing.T) {
	second := 2
	b := graph.New[trail]("g")
	b.AddNode("x", func(_ context.Context, s *trail) error { s.N = 1; s.Ran.Add("x"); return nil })
	b.AddNode("y", func(_ context.Context, s *trail) error { s.N = second; s.Ran.Add("y"); return nil })
	b.AddEdge(graph.Start, "x").AddEdge(graph.Start, "y")
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	e := wantErr[*graph.ConflictError](t, err)
	equal(t, "field", e.Field, "N")
	equal(t, "nodes", e.With+" "+e.Node, "x y")
	equal(t, "source", snap.Source, "void")
	second = 1 // equal values are no conflict
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "ran", snap.State.ran(), "x y")
	equal(t, "N", snap.State.N, 1)
}

func TestReplacedFieldIsAnError(t *testing.T) {
	for name, spoil := range map[string]func(s *trail) error{
		"state assigned": func(s *trail) error {
			*s = trail{N: 1}
			return nil
		},
		"field zeroed": func(s *trail) error {
			s.Ran = graph.List[string]{}
			s.Ran.Add("x")
			return nil
		},
		"field from another": func(s *trail) error {
			var o trail
			o.Ran.Add("o")
			s.Ran = o.Ran
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := graph.New[trail]("g")
			b.AddNode("a", func(_ context.Context, s *trail) error {
				if err := spoil(s); err != nil {
					return err
				}
				return nil
			})
			b.AddEdge(graph.Start, "a")
			_, err := compile(t, b).Invoke(bg, func(s *trail) error {
				s.Ran.Add("start")
				return nil
			})
			if !errors.Is(err, graph.ErrFieldReplaced) {
				t.Fatal(err)
			}
			if name != "state assigned" && !strings.Contains(err.Error(), "Ran") {
				t.Errorf("the field is not named: %v", err)
			}
		})
	}
}

func TestRouterMayNotWrite(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddEdge(graph.Start, "a")
	b.AddConditionalEdges("a", func(_ context.Context, s *trail) (graph.Command, error) {
		s.N = 99
		return graph.Goto("b"), nil
	}, "b")
	_, err := compile(t, b).Invoke(bg, nil)
	e := wantErr[*graph.MutationError](t, err)
	equal(t, "where", e.Node+"."+e.Field+" "+e.Kind, "a.N router")
}

func TestRouterSeesItsOwnTaskOnly(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "end")
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
	saw := ""
	b.AddConditionalEdges("b", func(_ context.Context, s *trail) (graph.Command, error) {
		saw = s.ran()
		return graph.Goto("end"), nil
	}, "end")
	must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil))
	equal(t, "router saw", saw, "b")
}

// failingStore fails writes or reads on demand.
type failingStore struct {
	checkpoint.Store
	writes  int
	failAt  int
	failGet bool
	block   chan struct{}
}

func (f *failingStore) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if w.Record != nil {
		f.writes++
		if f.writes == f.failAt {
			if f.block != nil {
				<-ctx.Done()
				return checkpoint.Written{}, ctx.Err()
			}
			return checkpoint.Written{}, errBoom
		}
	}
	return f.Store.Write(ctx, w)
}

func (f *failingStore) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if f.failGet {
		return nil, 0, errBoom
	}
	return f.Store.Head(ctx, log)
}

func TestFailedSaveStopsBeforeTheNextNode(t *testing.T) { // W7-24
	// In a bubble the background writer has its turn before time goes on.
	synctest.Test(t, failedSave)
}

func failedSave(t *testing.T) {
	for _, d := range []graph.Durability{graph.Sync, graph.Async} {
		ran := &calls{}
		b := graph.New[trail]("g")
		for _, n := range []string{"1", "2", "3", "4", "5"} {
			b.AddNode(n, func(_ context.Context, s *trail) error {
				ran.add(n)
				time.Sleep(2 * time.Millisecond) // lets the background writer fail
				s.Ran.Add(n)
				return nil
			})
		}
		b.AddEdge(graph.Start, "1").AddSequence("1", "2", "3", "4", "5")
		store := &failingStore{Store: checkpoint.NewMemory(), failAt: 3} // the input, node 1, node 2
		g := compile(t, b, graph.WithCheckpointer(store), graph.WithDurability(d))
		_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
		wantErr[*graph.CheckpointError](t, err)
		if !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		got := strings.Join(ran.all(), " ")
		// In the background the failure may be known before node 3 starts or
		// while it runs; node 4 never starts.
		if got != "1 2" && (d == graph.Sync || got != "1 2 3") {
			t.Errorf("durability %d: ran %s", d, got)
		}
		// The thread can go on from what was stored.
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
		equal(t, "ran", snap.State.ran(), "1 2 3 4 5")
	}
}

func TestFailedLoadRunsNothing(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("a", func(context.Context, *trail) error { ran.add("a"); return nil })
	b.AddEdge(graph.Start, "a")
	g := compile(t, b, graph.WithCheckpointer(&failingStore{Store: checkpoint.NewMemory(), failGet: true}))
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.CheckpointError](t, err)
	equal(t, "runs", ran.of("a"), 0)
}

func TestSaveTimeout(t *testing.T) { // TRPC-45
	b := visits(graph.New[trail]("g"), "a")
	b.AddEdge(graph.Start, "a")
	store := &failingStore{Store: checkpoint.NewMemory(), failAt: 2, block: make(chan struct{})}
	g := compile(t, b, graph.WithCheckpointer(store), graph.SaveTimeout(20*time.Millisecond))
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.CheckpointError](t, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestValuesThatCannotBeStoredNameTheField(t *testing.T) { // W7-03, SONI-55
	type state struct {
		Any graph.Value[any]
	}
	b := graph.New[state]("g")
	b.AddNode("a", func(_ context.Context, s *state) error { s.Any.Set(make(chan int)); return nil })
	b.AddEdge(graph.Start, "a")
	_, err := compile(t, b, stored()...).Thread("t").Invoke(bg, graph.Requests[state]{}.Input(func(*state) error { return nil }))
	wantErr[*graph.CheckpointError](t, err)
	if !strings.Contains(err.Error(), "Any") {
		t.Errorf("the field is not named: %v", err)
	}
}

func TestW8EditDuringAPartlyFinishedStepKeepsFinishedWork(t *testing.T) {
	ran := &calls{}
	b := graph.New[trail]("g")
	b.AddNode("a", func(_ context.Context, s *trail) error {
		ran.add("a")
		s.Ran.Add("a")
		return nil
	})
	b.AddNode("b", func(ctx context.Context, s *trail) error {
		v, err := graph.Interrupt[string](ctx, "k", nil)
		if err != nil {
			return err
		}
		s.Ran.Add("b:" + v)
		return nil
	})
	visits(b, "c")
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddJoin([]string{"a", "b"}, "c")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "b", func(s *trail) error {
		s.Ran.Add("b by hand")
		return nil
	}))
	equal(t, "state", snap.State.ran(), "a b by hand")
	equalSlice(t, "next", snap.Next, []string{"c"})
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "state", snap.State.ran(), "a b by hand c")
	equal(t, "runs of a", ran.of("a"), 1)
}

func TestEditAsNodeOfAFinishedThread(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b")
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
		s.Ran.Add("edit")
		return nil
	}))
	equal(t, "done", snap.Done(), true)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "a", func(s *trail) error {
		s.Ran.Add("as a")
		return nil
	}))
	equalSlice(t, "next", snap.Next, []string{"b"})
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "state", snap.State.ran(), "a b edit as a b")
}

func TestRestartStepRunsAllTasksAgainAndKeepsOnce(t *testing.T) {
	ran := &calls{}
	fail := true
	done := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		ran.add("a")
		_, err := graph.Once(ctx, "pay", func(context.Context, string) (int, error) { ran.add("pay"); return 1, nil })
		s.Ran.Add("a")
		if fail {
			defer close(done)
		}
		return err
	})
	b.AddNode("b", func(_ context.Context, s *trail) error {
		if fail {
			<-done
			time.Sleep(10 * time.Millisecond)
			return errBoom
		}
		s.Ran.Add("b")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
	g := compile(t, b, stored()...)
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); err == nil {
		t.Fatal("no error")
	}
	fail = false
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.RestartStep()))
	equal(t, "state", snap.State.ran(), "a b")
	equal(t, "runs of a", ran.of("a"), 2)
	equal(t, "payments", ran.of("pay"), 1)
}

func TestQ07NodeRemovedWhileAThreadWaits(t *testing.T) {
	store := checkpoint.NewMemory()
	g := asker(t, graph.WithCheckpointer(store))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	b := visits(graph.New[trail]("asker"), "a", "bb")
	b.AddEdge(graph.Start, "a").AddEdge("a", "bb")
	_, err := compile(t, b, graph.WithCheckpointer(store)).Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer("x"))
	e := wantErr[*graph.UnknownNodeError](t, err)
	equal(t, "node", e.Node, "b")
	equal(t, "thread", e.Thread, "t")
}

func TestCancelledContextKeepsFinishedWork(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	b := visits(graph.New[trail]("g"), "a")
	b.AddNode("b", func(ctx context.Context, s *trail) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, stored()...)
	snap, err := g.Thread("t").Invoke(ctx, g.Input(func(*trail) error { return nil }))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	equal(t, "state", snap.State.ran(), "a")
	equalSlice(t, "next", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).Next, []string{"b"})
}

// slowStore counts the tasks that have ended and are not stored.
type slowStore struct {
	checkpoint.Store
	finished *atomic.Int64
	stored   int64
	most     int64
}

func (s *slowStore) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	time.Sleep(time.Millisecond)
	written, err := s.Store.Write(ctx, w)
	for _, r := range w.Results {
		if r.Kind == checkpoint.KindChanges {
			s.stored++
		}
	}
	s.most = max(s.most, s.finished.Load()-s.stored)
	return written, err
}

func TestNoMoreTasksAreUnrecordedThanRunAtATime(t *testing.T) {
	var finished atomic.Int64
	b := graph.New[trail]("g")
	work := graph.AddTask(b, "work", func(_ context.Context, s *trail, in int) error {
		finished.Add(1)
		s.Total.Add(in)
		return nil
	})
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		sends := make([]graph.Send, 100)
		for i := range sends {
			sends[i] = work.Send(1)
		}
		return graph.Dispatch(sends...), nil
	})
	b.AddEdge(graph.Start, "split")
	store := &slowStore{Store: checkpoint.NewMemory(), finished: &finished}
	g := compile(t, b, graph.WithCheckpointer(store), graph.Concurrency(4))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "total", snap.State.Total.Get(), 100)
	if store.most > 4 {
		t.Errorf("%d tasks had ended and were not stored", store.most)
	}
}
