package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// oneNode is a graph of one node that notes what it does.
func oneNode(t testing.TB, store checkpoint.Store, node func(ctx context.Context, s *turns) error, opts ...graph.Option) *graph.Graph[turns] {
	t.Helper()
	b := graph.New[turns]("waits")
	b.AddNode("node", node)
	b.AddEdge(graph.Start, "node")
	b.AddEdge("node", graph.End)
	return compile(t, b, append([]graph.Option{graph.WithCheckpointer(store)}, opts...)...)
}

// running starts a runner that ends with the test's bubble.
func running(t *testing.T, store checkpoint.Store, graphs ...graph.Runnable) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := graph.NewRunner(store, graph.RunnerOptions{Poll: time.Minute, Report: func(r graph.RunnerReport) {
		if r.Err != nil && !errors.Is(r.Err, context.Canceled) {
			t.Errorf("runner: %+v", r)
		}
	}}, graphs...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	return func() { cancel(); <-done }
}

func TestSleepParksTheThreadUntilARunnerWakesIt(t *testing.T) { // W22
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		began := time.Now()
		g := oneNode(t, store, func(ctx context.Context, s *turns) error {
			for _, nap := range []struct {
				key string
				d   time.Duration
			}{{"short", time.Hour}, {"long", 30 * 24 * time.Hour}} {
				if err := graph.Sleep(ctx, nap.key, nap.d); err != nil {
					return err
				}
				s.Said.Add(fmt.Sprint(nap.key, " ", time.Since(began)))
			}
			return nil
		})
		snap, err := g.Thread("t").Invoke(t.Context(), g.Input(say("night")))
		if err != nil || snap.Done() || len(snap.Interrupts) != 0 || snap.Err() != nil {
			t.Fatalf("got %+v, %v; want a thread that waits and asks nobody", snap, err)
		}
		if len(snap.Waits) != 1 || snap.Waits[0].Key != "short" || !snap.Waits[0].Until.Equal(began.Add(time.Hour)) {
			t.Fatalf("waits for %+v", snap.Waits)
		}
		stop := running(t, store, g)
		time.Sleep(40 * 24 * time.Hour)
		stop()
		snap, err = g.Thread("t").State(t.Context())
		if err != nil || !snap.Done() {
			t.Fatalf("got %+v, %v", snap, err)
		}
		// The node ran again for each, and noted the first nap's end twice in
		// vain: what it writes before it waits is dropped.
		if got := said(&snap.State); got != "night short 721h0m0s long 721h0m0s" {
			t.Fatalf("got %q", got)
		}
	})
}

func TestSleepThatIsOverDoesNotPark(t *testing.T) {
	store := checkpoint.NewMemory()
	g := oneNode(t, store, func(ctx context.Context, s *turns) error {
		if err := graph.Sleep(ctx, "past", -time.Hour); err != nil {
			return err
		}
		if err := graph.Sleep(ctx, "none", 0); err != nil {
			return err
		}
		s.Said.Add("up")
		return nil
	})
	snap, err := g.Thread("t").Invoke(bg, g.Input(say("a")))
	if err != nil || said(&snap.State) != "a up" {
		t.Fatalf("got %q, %v", said(&snap.State), err)
	}
}

func TestSleepWithoutACheckpointerWaitsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := graph.New[turns]("waits")
		b.AddNode("node", func(ctx context.Context, s *turns) error { return graph.Sleep(ctx, "nap", time.Hour) })
		b.AddEdge(graph.Start, "node")
		g := compile(t, b)
		began := time.Now()
		if _, err := g.Invoke(t.Context(), say("a")); err != nil || time.Since(began) != time.Hour {
			t.Fatalf("got %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := g.Invoke(ctx, say("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the end of the context", err)
		}
	})
}

func TestDeadlineOfAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := oneNode(t, store, func(ctx context.Context, s *turns) error {
			ok, err := graph.Interrupt[bool](ctx, "approve", "send it?", graph.Deadline(48*time.Hour))
			var late *graph.DeadlineError
			if errors.As(err, &late) {
				s.Said.Add("nobody answered " + late.Key)
				return nil
			}
			if err == nil {
				s.Said.Add(fmt.Sprint("answered ", ok))
			}
			return err
		})
		for i, want := range []string{"answered true", "nobody answered approve"} {
			thread := fmt.Sprint("t", i)
			snap, err := g.Thread(thread).Invoke(t.Context(), g.Input(nil2))
			if err != nil || len(snap.Interrupts) != 1 || !snap.Interrupts[0].Deadline.Equal(time.Now().Add(48*time.Hour)) {
				t.Fatalf("got %+v, %v", snap.Interrupts, err)
			}
			stop := running(t, store, g)
			time.Sleep(47 * time.Hour)
			if i == 0 {
				if _, err := g.Thread(thread).Invoke(t.Context(), g.Answer(true)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Hour)
			stop()
			snap, err = g.Thread(thread).State(t.Context())
			if err != nil || said(&snap.State) != want {
				t.Fatalf("got %q, %v, want %q", said(&snap.State), err, want)
			}
		}
		if _, err := g.Thread("t1").Invoke(t.Context(), g.Answer(true)); !errors.Is(err, graph.ErrNothingToResume) {
			t.Fatalf("got %v for an answer that came too late", err)
		}
	})
}

func nil2(*turns) error { return nil }

func TestEventsWakeWhoWaitsForThem(t *testing.T) {
	node := func(ctx context.Context, s *turns) error {
		for i := range 2 {
			who, err := graph.WaitFor[string](ctx, fmt.Sprint("guest", i), "arrival")
			if err != nil {
				return err
			}
			s.Said.Add(who)
		}
		return nil
	}
	for name, send := range map[string]func(t *testing.T, g *graph.Graph[turns], store checkpoint.Store){
		"sent while the thread is parked": func(t *testing.T, g *graph.Graph[turns], store checkpoint.Store) {
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
			stop := running(t, store, g)
			for _, who := range []string{"ann", "bob"} {
				time.Sleep(time.Hour)
				if err := g.Thread("t").SendEvent(t.Context(), "arrival", who); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Minute)
			stop()
		},
		"sent both at once, and the thread continued by hand": func(t *testing.T, g *graph.Graph[turns], store checkpoint.Store) {
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
			for _, who := range []string{"ann", "bob"} {
				if err := g.Thread("t").SendEvent(t.Context(), "arrival", who); err != nil {
					t.Fatal(err)
				}
			}
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Continue()))
		},
		"sent before anybody waits": func(t *testing.T, g *graph.Graph[turns], store checkpoint.Store) {
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Edit(t.Context(), nil2))
			for _, who := range []string{"ann", "bob"} {
				if err := g.Thread("t").SendEvent(t.Context(), "arrival", who); err != nil {
					t.Fatal(err)
				}
			}
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
		},
		"given as an answer": func(t *testing.T, g *graph.Graph[turns], store checkpoint.Store) {
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Answer(graph.Answers{"guest0": "ann"})))
			must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Answer(graph.Answers{"guest1": "bob"})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := checkpoint.NewMemory()
				g := oneNode(t, store, node)
				send(t, g, store)
				snap, err := g.Thread("t").State(t.Context())
				if err != nil || !snap.Done() || said(&snap.State) != "ann bob" {
					t.Fatalf("got %q, %+v, %v", said(&snap.State), snap.Waits, err)
				}
				left, err := store.Results(t.Context(), checkpoint.Log{Thread: "t"}, "", "events")
				if err != nil || len(left) != 0 {
					t.Fatalf("%v, %v is left of the events", left, err)
				}
			})
		})
	}
}

func TestAnEventOfAnotherNameWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		runs := 0
		g := oneNode(t, store, func(ctx context.Context, s *turns) error {
			runs++
			_, err := graph.WaitFor[int](ctx, "", "paid", graph.Deadline(time.Hour))
			var late *graph.DeadlineError
			if errors.As(err, &late) && late.Event == "paid" {
				s.Said.Add("too late")
				return nil
			}
			return err
		})
		must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
		stop := running(t, store, g)
		if err := g.Thread("t").SendEvent(t.Context(), "shipped", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if runs != 1 {
			t.Fatalf("the node ran %d times before its time", runs)
		}
		for range store.Due(t.Context(), time.Now(), 0) {
			t.Fatal("the thread is still due after the runner looked at it")
		}
		time.Sleep(time.Hour)
		stop()
		snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").State(t.Context()))
		if said(&snap.State) != "too late" || runs != 2 {
			t.Fatalf("got %q after %d runs", said(&snap.State), runs)
		}
	})
}

func TestWaitsInASubgraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		inner := oneNode(t, store, func(ctx context.Context, s *turns) error {
			if err := graph.Sleep(ctx, "nap", time.Hour); err != nil {
				return err
			}
			_, err := graph.WaitFor[int](ctx, "", "go", graph.Deadline(time.Hour))
			var late *graph.DeadlineError
			if !errors.As(err, &late) {
				return fmt.Errorf("no deadline: %w", err)
			}
			s.Said.Add("late")
			return nil
		})
		b := graph.New[turns]("outer")
		graph.AddShared(b, "inner", inner, func(s *turns) *turns { return s })
		b.AddEdge(graph.Start, "inner")
		g := compile(t, b, graph.WithCheckpointer(store))
		snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(say("a"))))
		if len(snap.Waits) != 1 || strings.Join(snap.Waits[0].Path, "/") != "inner" {
			t.Fatalf("waits for %+v", snap.Waits)
		}
		stop := running(t, store, g)
		time.Sleep(3 * time.Hour)
		stop()
		snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").State(t.Context()))
		if said(&snap.State) != "a late" || !snap.Done() {
			t.Fatalf("got %q, %v", said(&snap.State), snap.Waits)
		}
	})
}

func TestPositionalAnswersPassWaitsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		b := graph.New[turns]("waits")
		b.AddNode("nap", func(ctx context.Context, s *turns) error {
			if err := graph.Sleep(ctx, "nap", time.Hour); err != nil {
				return err
			}
			s.Said.Add("rested")
			return nil
		})
		b.AddNode("ask", func(ctx context.Context, s *turns) error {
			name, err := graph.Interrupt[string](ctx, "name", "who?")
			s.Said.Add(name)
			return err
		})
		b.AddEdge(graph.Start, "nap").AddEdge(graph.Start, "ask")
		g := compile(t, b, graph.WithCheckpointer(store))
		snap := must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
		if len(snap.Interrupts) != 1 || len(snap.Waits) != 1 {
			t.Fatalf("got %+v and %+v", snap.Interrupts, snap.Waits)
		}
		snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Answer("ann")))
		if snap.Done() || len(snap.Interrupts) != 0 {
			t.Fatalf("got %+v", snap)
		}
		var bad *graph.AnswerError
		if _, err := g.Thread("t").Invoke(t.Context(), g.Answer("again")); !errors.As(err, &bad) {
			t.Fatalf("got %v, want an AnswerError: nobody is asked", err)
		}
		time.Sleep(time.Hour)
		snap = must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Continue()))
		if !snap.Done() || said(&snap.State) != "rested ann" {
			t.Fatalf("got %q", said(&snap.State))
		}
	})
}

func TestWaitMisuse(t *testing.T) {
	store := checkpoint.NewMemory()
	try := func(node func(ctx context.Context) error, opts ...graph.Option) error {
		t.Helper()
		_, err := oneNode(t, store, func(ctx context.Context, _ *turns) error { return node(ctx) }, opts...).Thread(string(checkpoint.NewRunID())).Invoke(bg, graph.Requests[turns]{}.Input(nil2))
		return err
	}
	var twice error
	_ = try(func(ctx context.Context) (err error) {
		_, err = graph.WaitFor[int](ctx, "", "e")
		_, twice = graph.WaitFor[int](ctx, "", "e")
		return err
	})
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"no key":       {try(func(ctx context.Context) error { return graph.Sleep(ctx, "", time.Hour) }), "needs a key"},
		"no event":     {try(func(ctx context.Context) error { _, err := graph.WaitFor[int](ctx, "", ""); return err }), "needs the name of an event"},
		"a key twice":  {twice, "twice"},
		"a namespace":  {try(func(ctx context.Context) error { return graph.Sleep(ctx, "k", time.Hour) }, graph.Namespace("n")), "empty namespace"},
		"outside":      {graph.Sleep(bg, "k", time.Hour), "does not come from a node"},
		"no thread":    {oneNode(t, store, nil3).Thread("").SendEvent(bg, "e", 1), "thread"},
		"no such one":  {oneNode(t, store, nil3).Thread("nobody").SendEvent(bg, "e", 1), "not found"},
		"no name":      {oneNode(t, store, nil3).Thread("t").SendEvent(bg, "", 1), "name of an event"},
		"not for JSON": {oneNode(t, store, nil3).Thread("t").SendEvent(bg, "e", func() {}), "unsupported type"},
		"inside Once": {try(func(ctx context.Context) error {
			_, err := graph.Once(ctx, "x", func(ctx context.Context, _ string) (int, error) { return 0, graph.Sleep(ctx, "k", time.Hour) })
			return err
		}), "sleep"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one that says %q", what, c.err, c.want)
		}
	}
}

func nil3(context.Context, *turns) error { return nil }

func TestARunnerContinuesRunsThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		ran := map[string]int{}
		die := true
		b := graph.New[turns]("steps")
		for _, n := range []string{"a", "b", "c"} {
			b.AddNode(n, func(ctx context.Context, s *turns) error {
				ran[n]++
				if n == "b" && die {
					<-ctx.Done() // killed here, and never heard of again
					return ctx.Err()
				}
				s.Said.Add(n)
				return nil
			})
		}
		b.AddEdge(graph.Start, "a").AddSequence("a", "b", "c")
		dead := &dying{Store: store}
		g := compile(t, b, graph.WithCheckpointer(dead))
		go func() { _, _ = g.Thread("t").Invoke(t.Context(), g.Input(nil2)) }()
		synctest.Wait()
		dead.gone.Store(true) // its process can't write any more
		die = false
		alive := compile(t, b, graph.WithCheckpointer(store))
		recovered := func() (reports []graph.RunnerReport) {
			r := must[*graph.Runner](t)(graph.NewRunner(store, graph.RunnerOptions{Report: func(rep graph.RunnerReport) { reports = append(reports, rep) }}, alive))
			if err := r.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			return reports
		}
		equal(t, "recovered while the lease runs", len(recovered()), 0)
		time.Sleep(16 * time.Second)
		equalSlice(t, "recovered", recovered(), []graph.RunnerReport{{Thread: "t", Graph: "steps", Died: true}})
		snap := must[*graph.Snapshot[turns]](t)(alive.Thread("t").State(t.Context()))
		if said(&snap.State) != "a b c" || ran["a"] != 1 || ran["b"] != 2 || ran["c"] != 1 {
			t.Fatalf("got %q, ran %v", said(&snap.State), ran)
		}
		equal(t, "recovered a second time", len(recovered()), 0)
	})
}

func TestRunnerLeavesThreadsOfOtherGraphsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		g := oneNode(t, store, func(ctx context.Context, _ *turns) error { return graph.Sleep(ctx, "k", time.Hour) })
		must[*graph.Snapshot[turns]](t)(g.Thread("t").Invoke(t.Context(), g.Input(nil2)))
		time.Sleep(2 * time.Hour)
		b := graph.New[turns]("wait")
		b.AddNode("n", nil3)
		b.AddEdge(graph.Start, "n")
		var reports []graph.RunnerReport
		r, err := graph.NewRunner(store, graph.RunnerOptions{Report: func(r graph.RunnerReport) { reports = append(reports, r) }}, compile(t, b))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // reported once, not at each look
			if err := r.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(reports) != 1 || !errors.Is(reports[0].Err, graph.ErrUnknownGraph) || reports[0].Graph != "waits" || !strings.Contains(reports[0].Err.Error(), `"wait"`) || reports[0].Thread != "t" {
			t.Fatalf("got %+v", reports)
		}
	})
}

func TestRunnerMisuse(t *testing.T) {
	store := checkpoint.NewMemory()
	g := oneNode(t, store, nil3)
	for what, c := range map[string]struct {
		store  checkpoint.Store
		o      graph.RunnerOptions
		graphs []graph.Runnable
	}{
		"no store":        {nil, graph.RunnerOptions{}, []graph.Runnable{g}},
		"no scheduler":    {elsewhere{store}, graph.RunnerOptions{}, []graph.Runnable{g}},
		"no graph":        {store, graph.RunnerOptions{}, nil},
		"nil graph":       {store, graph.RunnerOptions{}, []graph.Runnable{nil}},
		"a graph twice":   {store, graph.RunnerOptions{}, []graph.Runnable{g, g}},
		"a negative poll": {store, graph.RunnerOptions{Poll: -1}, []graph.Runnable{g}},
	} {
		if _, err := graph.NewRunner(c.store, c.o, c.graphs...); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
