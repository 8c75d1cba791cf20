package graph_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// What goes wrong in other engines (the field notes) and must not here. Notes
// that are not here stand beside the feature that they are about.

// gated is a graph whose first node waits at the gate once it has begun.
func gated(begun chan<- struct{}, gate <-chan struct{}) *graph.Builder[trail] {
	b := graph.New[trail]("gated")
	b.AddNode("a", func(_ context.Context, s *trail) error {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-gate
		s.Total.Add(1)
		return nil
	})
	b.AddNode("b", func(_ context.Context, s *trail) error { s.Total.Add(1); return nil })
	return b.AddEdge(graph.Start, "a").AddEdge("a", "b")
}

func open[S checkpoint.Store](t *testing.T) func(s S, err error) checkpoint.Store {
	return func(s S, err error) checkpoint.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

func TestW1ConcurrentRunsOnOneThread(t *testing.T) {
	for name, store := range map[string]checkpoint.Store{
		"memory": checkpoint.NewMemory(),
		"sqlite": open[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "t.db"))),
	} {
		t.Run(name, func(t *testing.T) {
			begun, gate := make(chan struct{}, 1), make(chan struct{})
			g := compile(t, gated(begun, gate), graph.WithCheckpointer(store))
			invoke := func(name string) error {
				_, err := g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
					s.Ran.Add(name)
					return nil
				}))
				return err
			}
			first := make(chan error)
			go func() { first <- invoke("first") }()
			<-begun
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					if err := invoke(fmt.Sprint(i)); !errors.Is(err, graph.ErrThreadBusy) {
						t.Errorf("a second run is not refused: %v", err)
					}
					if _, err := g.Thread("t").Edit(bg, func(s *trail) error {
						s.N = 1
						return nil
					}); !errors.Is(err, graph.ErrThreadBusy) {
						t.Errorf("an edit is not refused: %v", err)
					}
				})
			}
			wg.Wait()
			close(gate)
			if err := <-first; err != nil {
				t.Fatal(err)
			}
			for i := range 3 { // one after the other they all run
				if err := invoke(fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg))
			equal(t, "state", snap.State.ran(), "first 0 1 2")
			equal(t, "nodes run", snap.State.Total.Get(), 8)
		})
	}
}

// Two handles on one store are like two processes: nobody sees the other's
// locks, and what one writes the other finds.
func TestW1TwoHandlesNeverLoseAnUpdate(t *testing.T) {
	for name, openStore := range map[string]func(dir string) checkpoint.Store{
		"sqlite": func(dir string) checkpoint.Store {
			return open[*sqlite.Store](t)(sqlite.Open(filepath.Join(dir, "t.db")))
		},
		"file": func(dir string) checkpoint.Store {
			return open[*file.Store](t)(file.Open(dir, file.Options{Sync: file.SyncNever}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gate := make(chan struct{})
			close(gate)
			var wg sync.WaitGroup
			var mu sync.Mutex
			var done []string
			for h := range 2 {
				store := openStore(dir)
				g := compile(t, gated(nil, gate), graph.WithCheckpointer(store))
				for k := range 2 {
					wg.Go(func() {
						for i := range 8 {
							name := fmt.Sprintf("%d.%d.%d", h, k, i)
							_, err := g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
								s.Ran.Add(name)
								return nil
							}))
							if err == nil {
								mu.Lock()
								done = append(done, name)
								mu.Unlock()
							} else if !errors.Is(err, graph.ErrThreadBusy) {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			store := openStore(dir)
			g := compile(t, gated(nil, gate), graph.WithCheckpointer(store))
			snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue())) // what a refused run has left
			if !snap.Done() {
				t.Fatalf("pending: %v", snap.Next)
			}
			if len(done) == 0 {
				t.Error("no run has succeeded")
			}
			for _, name := range done {
				if n := strings.Count(" "+snap.State.ran()+" ", " "+name+" "); n != 1 {
					t.Errorf("the run %s succeeded, and its input is there %d times", name, n)
				}
			}
			steps, head := 0, (*checkpoint.Record)(nil)
			for r, err := range store.Records(bg, checkpoint.Query{Log: checkpoint.Log{Thread: "t"}, AllBranches: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if head != nil && (r.Seq != head.Seq+1 || r.Parent != head.ID) || r.Branch != "" {
					t.Errorf("record %d does not follow record %d", r.Seq, head.Seq)
				}
				if r.Source == checkpoint.SourceLoop {
					steps++
				}
				head = r
			}
			equal(t, "updates of nodes", snap.State.Total.Get(), steps)
		})
	}
}

// atWrite calls a function before the n-th write.
type atWrite struct {
	checkpoint.Store
	n  int
	fn func()
}

func (s *atWrite) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.n--; s.n == 0 {
		s.fn()
	}
	return s.Store.Write(ctx, w)
}

// A run reads the thread, then another commits, then the first claims it.
func TestW1AClaimOfAThreadThatHasMovedOnIsRefused(t *testing.T) {
	store := checkpoint.NewMemory()
	ran := &calls{}
	fail := true
	b := visits(graph.New[trail]("g"), "a")
	b.AddNode("b", func(_ context.Context, s *trail) error {
		if fail {
			return errBoom
		}
		ran.add("b")
		s.Ran.Add("b")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge("a", "b")
	g := compile(t, b, graph.WithCheckpointer(&atWrite{Store: store})) // without a lock, as another process is
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	fail = false
	_, err := g.Thread("t", graph.WithCheckpointer(&atWrite{Store: store, n: 1, fn: func() {
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	}})).Invoke(bg, g.Continue())
	if !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("the stale run is not refused: %v", err)
	}
	equal(t, "runs of b", ran.of("b"), 1)
	equal(t, "state", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran(), "a b")
}

// A run reads the thread, then another records the result of a task, then the
// first claims it: the task must not run again.
func TestW1ATakeoverKeepsResultsRecordedMeanwhile(t *testing.T) {
	for name, resume := range map[string]bool{"continue": false, "resume": true} {
		t.Run(name, func(t *testing.T) {
			store := checkpoint.NewMemory()
			ran := &calls{}
			failA, failB := true, true
			a := func(_ context.Context, s *trail) error {
				if failA {
					return errBoom
				}
				ran.add("a")
				s.Ran.Add("a")
				return nil
			}
			b := graph.New[trail]("g")
			if !resume {
				b.AddNode("a", a)
			}
			b.AddNode("b", func(ctx context.Context, s *trail) error {
				if resume {
					if _, err := graph.Interrupt[bool](ctx, "go", nil); err != nil {
						return err
					}
				} else if failB {
					return errBoom
				}
				s.Ran.Add("b")
				return nil
			})
			if resume { // b asks before a fails
				b.AddNode("a", a)
			}
			b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b")
			g := compile(t, b, graph.WithCheckpointer(&atWrite{Store: store}), graph.Concurrency(1))
			if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			failA = false
			other := func() { // finishes a and stops at b
				_, err := g.Thread("t").Invoke(bg, g.Continue())
				if resume && err != nil || !resume && !errors.Is(err, errBoom) {
					t.Error(err)
				}
				equal(t, "runs of a by the other", ran.of("a"), 1)
				failB = false
			}
			opt := graph.WithCheckpointer(&atWrite{Store: store, n: 1, fn: other})
			var snap *graph.Snapshot[trail]
			var err error
			if resume {
				snap, err = g.Thread("t", opt).Invoke(bg, g.Answer(true))
			} else {
				snap, err = g.Thread("t", opt).Invoke(bg, g.Continue())
			}
			if err != nil {
				t.Fatal(err)
			}
			want := "a b"
			if resume {
				want = "b a"
			}
			equal(t, "state", snap.State.ran(), want)
			equal(t, "runs of a", ran.of("a"), 1)
		})
	}
}

// What a task wrote before its router failed must be in later snapshots.
func TestW2ItemsOfATaskWhoseRouterFailedOutliveASnapshot(t *testing.T) {
	fail := true
	b := graph.New[trail]("g")
	b.AddNode("a", visit("a"))
	b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) {
		if fail {
			return graph.Command{}, errBoom
		}
		return graph.Goto("count"), nil
	}, "count")
	b.AddNode("count", func(_ context.Context, s *trail) error {
		s.N++
		s.Note = strings.Repeat(fmt.Sprint(s.N), 1000) // soon there is a snapshot
		return nil
	})
	b.AddConditionalEdges("count", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.N < 9 {
			return graph.Goto("count"), nil
		}
		return graph.Goto("end"), nil
	}, "count", "end")
	visits(b, "end").AddEdge(graph.Start, "a")
	g := compile(t, b, stored()...)
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	fail = false
	equal(t, "live", must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue())).State.ran(), "a end")
	equal(t, "read back", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran(), "a end")
}

func TestW6FinishedNodesOfASubgraphDontRunAgainWithTheirParent(t *testing.T) {
	ran := &calls{}
	fail := true
	cb := graph.New[trail]("child")
	cb.AddNode("first", func(context.Context, *trail) error { ran.add("first"); return nil })
	cb.AddNode("flaky", func(context.Context, *trail) error {
		ran.add("flaky")
		if fail {
			fail = false
			return errBoom
		}
		return nil
	})
	cb.AddNode("ask", func(ctx context.Context, s *trail) error {
		note, err := graph.Interrupt[string](ctx, "note", nil)
		s.Note = note
		return err
	})
	cb.AddNode("last", func(context.Context, *trail) error { ran.add("last"); return nil })
	cb.AddEdge(graph.Start, "first").AddSequence("first", "flaky", "ask", "last")
	c := compile(t, cb)
	b := graph.New[trail]("parent")
	b.AddNode("call", func(ctx context.Context, s *trail) error {
		ran.add("call")
		if _, err := graph.Once(ctx, "before", func(context.Context, string) (int, error) { ran.add("once"); return 1, nil }); err != nil {
			return err
		}
		out, err := graph.Call(ctx, "", c, nil)
		if err != nil {
			return err
		}
		s.Note = out.Note
		if ran.of("call") == 3 { // with the subgraph finished
			return errBoom
		}
		return nil
	}, graph.Retry(graph.RetryPolicy{Initial: 1}))
	b.AddEdge(graph.Start, "call")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("answered")))
	equal(t, "note", snap.State.Note, "answered")
	// The parent runs four times: its subgraph fails, asks, ends, and it fails itself.
	equal(t, "calls", fmt.Sprint(ran.of("call"), ran.of("once"), ran.of("first"), ran.of("flaky"), ran.of("last")), "4 1 1 2 1")
}

// fanOut is a linear part, a fan-out with a join, and an end.
func fanOut(ran *calls) *graph.Builder[trail] {
	b := graph.New[trail]("g")
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		b.AddNode(n, func(_ context.Context, s *trail) error {
			ran.add(n)
			s.Ran.Add(n)
			return nil
		})
	}
	b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("a", "c").AddEdge("a", "d")
	return b.AddJoin([]string{"b", "c", "d"}, "e")
}

func TestW7ACrashAtTheFirstCheckpoint(t *testing.T) {
	for _, after := range []bool{false, true} {
		ran := &calls{}
		store := graphtest.NewStore(checkpoint.NewMemory(), graphtest.StoreFault{Write: 1, Effect: graphtest.Crash, After: after})
		g := compile(t, fanOut(ran), graph.WithCheckpointer(store))
		_, err := g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
			s.Note = "accepted"
			return nil
		}))
		wantErr[*graph.CheckpointError](t, err)
		equal(t, "nodes run", len(ran.all()), 0)
		store.Restart()
		snap, err := g.Thread("t").Invoke(bg, g.Continue())
		if !after { // the caller knows that it was not accepted, and nothing is there
			if !errors.Is(err, graph.ErrNothingToResume) {
				t.Fatal(err)
			}
			snap, err = g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
				s.Note = "accepted"
				return nil
			}))
		}
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "note", snap.State.Note, "accepted")
		equal(t, "state", snap.State.ran(), "a b c d e")
	}
}

// Each write fails once, whatever it holds: the run stops before the next
// superstep, and goes on without a finished and recorded task running again.
func TestW7AFailedWriteStopsTheRunBeforeItsNextSuperstep(t *testing.T) {
	level := map[string]int{"a": 1, "b": 2, "c": 2, "d": 2, "e": 3}
	for write := 1; ; write++ {
		ran := &calls{}
		store := graphtest.NewStore(checkpoint.NewMemory(), graphtest.StoreFault{Write: write})
		// One task at a time leaves a write for each.
		g := compile(t, fanOut(ran), graph.WithCheckpointer(store), graph.Concurrency(1))
		_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
		if store.Fired() == 0 {
			if err != nil || write < 4 {
				t.Errorf("%d writes, %v", write-1, err)
			}
			return
		}
		wantErr[*graph.CheckpointError](t, err)
		before := ran.all()
		committed := 0
		if snap, err := g.Thread("t").State(bg); err == nil {
			committed = snap.Step
		}
		for _, n := range before {
			if level[n] > committed+1 {
				t.Errorf("write %d failed after step %d, and node %s ran", write, committed, n)
			}
		}
		recorded := map[string]bool{}
		if snap, err := g.Thread("t").State(bg); err == nil {
			for _, n := range snap.State.Ran.Slice() {
				recorded[n] = true
			}
		}
		snap, err := g.Thread("t").Invoke(bg, g.Continue())
		if write == 1 {
			snap, err = g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
		}
		if err != nil {
			t.Fatal(err)
		}
		equal(t, fmt.Sprintf("write %d: state", write), snap.State.ran(), "a b c d e")
		for _, n := range ran.all()[len(before):] {
			if recorded[n] {
				t.Errorf("write %d: node %s ran again after it was recorded", write, n)
			}
		}
	}
}

func TestW11AllocationsPerTaskDontGrowWithTheFanOut(t *testing.T) {
	type state struct {
		Done graph.Sum[int]
	}
	measure := func(n int, opts ...graph.Option) (allocs, size float64) {
		b := graph.New[state]("g")
		work := graph.AddTask(b, "work", func(_ context.Context, s *state, in int) error { s.Done.Add(in); return nil })
		b.AddCommandNode("split", func(context.Context, *state) (graph.Command, error) {
			sends := make([]graph.Send, n)
			for i := range sends {
				sends[i] = work.Send(1)
			}
			return graph.Dispatch(sends...), nil
		})
		b.AddNode("join", func(context.Context, *state) error { return nil })
		b.AddEdge(graph.Start, "split").AddEdge("work", "join")
		g := compile(t, b, opts...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		snap := must[*graph.Snapshot[state]](t)(g.Thread("t").Invoke(bg, g.Input(func(*state) error { return nil })))
		runtime.ReadMemStats(&after)
		equal(t, "done", snap.State.Done.Get(), n)
		return float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	for name, opts := range map[string]func() []graph.Option{
		"without a store": func() []graph.Option { return nil },
		"with a store":    stored,
	} {
		t.Run(name, func(t *testing.T) {
			measure(100, opts()...) // what is allocated once
			a1, s1 := measure(1_000, opts()...)
			a20, s20 := measure(20_000, opts()...)
			t.Logf("allocations per task: %.1f at 1,000, %.1f at 20,000; bytes: %.0f, %.0f", a1, a20, s1, s20)
			// Slices that grow step by step cost up to three times more when
			// they are long; work for each pair of tasks costs twenty times more.
			if a20 > 2*a1 {
				t.Errorf("allocations per task grow from %.1f to %.1f", a1, a20)
			}
			if s20 > 3*s1 {
				t.Errorf("bytes per task grow from %.0f to %.0f", s1, s20)
			}
		})
	}
}

// In a bubble of synctest a deadlock is an error.
func TestW12ParentsDontHoldThePlacesOfTheirChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var active, most, ran atomic.Int32
		leaf := func(context.Context, *trail) error {
			now := active.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			time.Sleep(time.Second)
			active.Add(-1)
			ran.Add(1)
			return nil
		}
		two := func(name string, add func(b *graph.Builder[trail], node string)) *graph.Graph[trail] {
			b := graph.New[trail](name)
			for _, n := range []string{"x", "y"} {
				add(b, n)
				b.AddEdge(graph.Start, n)
			}
			return compile(t, b)
		}
		bottom := two("bottom", func(b *graph.Builder[trail], n string) { b.AddNode(n, leaf) })
		middle := two("middle", func(b *graph.Builder[trail], n string) {
			graph.AddSubgraph(b, n, bottom, graph.Mapping[trail, trail]{})
		})
		top := two("top", func(b *graph.Builder[trail], n string) {
			b.AddNode(n, func(ctx context.Context, s *trail) error {
				_, err := graph.Call(ctx, "", middle, nil)
				return err
			})
		})
		start := time.Now()
		must[*graph.Snapshot[trail]](t)(top.Invoke(bg, nil, graph.MaxConcurrency(2)))
		equal(t, "leaves run", ran.Load(), 8)
		equal(t, "at most at a time", most.Load(), 2)
		equal(t, "time for 8 leaves, two at a time", time.Since(start), 4*time.Second)
	})
}

func TestW12AnErrorHandlerHasTheNodesTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := graph.New[trail]("g")
		b.AddNode("a", func(context.Context, *trail) error { return errBoom },
			graph.Timeout(time.Second),
			graph.OnError(func(ctx context.Context, s *trail, _ *graph.NodeError) (graph.Command, error) {
				s.Ran.Add("late")
				<-ctx.Done()
				return graph.Command{}, ctx.Err()
			}))
		b.AddEdge(graph.Start, "a")
		start := time.Now()
		ctx, cancel := context.WithTimeout(bg, time.Hour)
		defer cancel()
		_, err := compile(t, b).Invoke(ctx, nil)
		te := wantErr[*graph.TimeoutError](t, err)
		equal(t, "node", te.Node, "a")
		equal(t, "time", time.Since(start), time.Second)
	})
}

func TestW13CallsOfOneTaskAreIndependent(t *testing.T) {
	cb := graph.New[trail]("child")
	cb.AddNode("count", func(_ context.Context, s *trail) error { s.N++; s.Total.Add(s.N); return nil })
	cb.AddEdge(graph.Start, "count")
	c := compile(t, cb)
	b := graph.New[trail]("parent")
	b.AddNode("calls", func(ctx context.Context, s *trail) error {
		totals := make([]int, 4)
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range totals {
			wg.Go(func() {
				out, err := graph.Call(ctx, fmt.Sprint("call ", i), c, func(s *trail) error {
					s.N = 10 * i
					return nil
				})
				if errs[i] = err; err == nil {
					totals[i] = out.Total.Get()
				}
			})
		}
		wg.Wait()
		s.Note = fmt.Sprint(totals)
		return errors.Join(errs...)
	})
	b.AddNode("twice", func(ctx context.Context, s *trail) error {
		if _, err := graph.Call(ctx, "same", c, nil); err != nil {
			return err
		}
		_, err := graph.Call(ctx, "same", c, nil)
		return err
	})
	b.AddEdge(graph.Start, "calls").AddEdge("calls", "twice")
	for name, opts := range map[string][]graph.Option{"stored": stored(), "not stored": nil} {
		snap, err := compile(t, b, opts...).Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil }))
		equal(t, name+": totals", snap.State.Note, "[1 11 21 31]")
		if e := wantErr[*graph.NodeError](t, err); e.Node != "twice" || !strings.Contains(err.Error(), "give each call its own key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestW19TheLimitCountsSuperstepsOnly(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c")
	b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
	g := compile(t, b, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.MaxSteps(3))) // no step for the start or the end
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }), graph.MaxSteps(2))
	e := wantErr[*graph.LimitError](t, err)
	equal(t, "reached", e.Reached, 2)
	equalSlice(t, "next", e.Next, []string{"c"})
	if n := len(e.Recent); n < 2 || !slices.Equal(e.Recent[n-2:], []string{"a", "b"}) {
		t.Errorf("recent nodes are %v", e.Recent)
	}
	_, err = g.Thread("t").Invoke(bg, g.Continue(), graph.MaxSteps(2)) // going on is no way around it
	wantErr[*graph.LimitError](t, err)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue(), graph.MaxSteps(3)))
	equal(t, "ran", snap.State.ran(), "a b c a b c")
}

func TestW20ErrorHandlersSeeTheSameErrorLiveAndAfterAResume(t *testing.T) {
	store := checkpoint.NewMemory()
	var seen []string
	refuse := true
	b := graph.New[trail]("g")
	b.AddNode("a", func(ctx context.Context, s *trail) error {
		if _, err := graph.Interrupt[bool](ctx, "go", nil); err != nil {
			return err
		}
		return fmt.Errorf("wrapped: %w", errBoom)
	}, graph.OnError(func(_ context.Context, s *trail, err *graph.NodeError) (graph.Command, error) {
		seen = append(seen, fmt.Sprintf("%s %d %v %v", err.Node, err.Step, err.Err, errors.Is(err, errBoom)))
		if refuse {
			return graph.Command{}, err
		}
		s.Note = "handled"
		return graph.Command{}, nil
	}))
	b.AddEdge(graph.Start, "a")
	b.NodeDefaults(graph.WithCallbacks(graph.Callbacks[trail]{OnError: func(context.Context, *trail, error) {}}))
	compileAgain := func() *graph.Graph[trail] { return compile(t, b, graph.WithCheckpointer(store)) }
	must[*graph.Snapshot[trail]](t)(compileAgain().Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	equal(t, "a question is no error", len(seen), 0)
	if _, err := compileAgain().Thread("t").Invoke(bg, graph.Requests[trail]{}.Answer(true)); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	refuse = false
	snap := must[*graph.Snapshot[trail]](t)(compileAgain().Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue())) // as another process does
	equal(t, "note", snap.State.Note, "handled")
	want := "a 1 wrapped: boom true"
	equalSlice(t, "seen", seen, []string{want, want})
}

func TestW26ZeroCommandsAndEmptyAnswers(t *testing.T) {
	b := graph.New[trail]("g")
	b.AddCommandNode("a", func(_ context.Context, s *trail) (graph.Command, error) { s.Ran.Add("a"); return graph.Command{}, nil })
	b.AddNode("ask", func(ctx context.Context, s *trail) error {
		v, err := graph.Interrupt[*string](ctx, "k", nil)
		if err != nil {
			return err
		}
		s.Ran.Add(fmt.Sprint("asked ", v == nil))
		return nil
	})
	visits(b, "end")
	b.AddEdge(graph.Start, "a").AddSequence("a", "ask", "end")
	b.AddConditionalEdges("end", func(context.Context, *trail) (graph.Command, error) { return graph.Command{}, nil }, "a")
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "a")
	for name, empty := range map[string]graph.Answers{"empty": {}, "nil": nil} {
		snap, err := g.Thread("t").Invoke(bg, g.Answer(empty))
		if err != nil {
			t.Fatalf("%s answers: %v", name, err)
		}
		equal(t, name+" answers: still asked", len(snap.Interrupts), 1)
	}
	if _, err := g.Thread("t").Invoke(bg, g.Restart(nil, graph.Command{})); err == nil {
		t.Error("Restart takes a zero command")
	}
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(nil))) // null is an answer
	equal(t, "ran", snap.State.ran(), "a asked true end")
	equal(t, "done", snap.Done(), true)
	snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "a", nil, graph.Command{}))
	equalSlice(t, "a zero command as a node's follows its edges", snap.Next, []string{"ask"})
	equal(t, "adding nothing to nothing", graph.Command{}.And().IsZero(), true)
}

// slowResults is a store that takes its time for results without a record.
type slowResults struct{ checkpoint.Store }

func (s slowResults) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if w.Record == nil && len(w.Results) > 0 {
		time.Sleep(time.Second)
	}
	return s.Store.Write(ctx, w)
}

// What a task wrote is recorded on its own while its router is slow. That must
// not arrive after the superstep's record has dropped it, to stay for ever.
func TestNothingStaysBesideTheLogAfterASlowRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		b := visits(graph.New[trail]("g"), "a", "b")
		b.AddEdge(graph.Start, "a")
		b.AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) {
			time.Sleep(100 * time.Millisecond)
			return graph.Goto("b"), nil
		}, "b")
		g := compile(t, b, graph.WithCheckpointer(slowResults{store}))
		must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
		time.Sleep(time.Minute)
		records := 0
		for r, err := range store.Records(bg, checkpoint.Query{Log: checkpoint.Log{Thread: "t"}}) {
			if err != nil {
				t.Fatal(err)
			}
			records++
			results, err := store.Results(bg, r.Log, r.Branch, r.Epoch)
			if err != nil || len(results) > 0 {
				t.Errorf("beside record %d: %v, %v", r.Seq, results, err)
			}
		}
		equal(t, "records", records, 3)
	})
}
