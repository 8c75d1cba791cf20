package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// elsewhere hides what a store knows of the runs of this process, as if each
// handle were in a process of its own.
type elsewhere struct{ checkpoint.Store }

// turns is a state that lists what was said.
type turns struct{ Said graph.List[string] }

func say(text string) func(*turns) error {
	return func(s *turns) error {
		s.Said.Add(text)
		return nil
	}
}

func said(s *turns) string { return strings.Join(s.Said.Slice(), " ") }

// talker is a graph whose node waits as long as wait says before it answers.
func talker(t *testing.T, store checkpoint.Store, wait func(ctx context.Context, last string) error, opts ...graph.Option) *graph.Graph[turns] {
	t.Helper()
	b := graph.New[turns]("talk")
	b.AddNode("answer", func(ctx context.Context, s *turns) error {
		last := s.Said.Last()
		if err := wait(ctx, last); err != nil {
			return err
		}
		s.Said.Add(strings.ToUpper(last))
		return nil
	})
	b.AddEdge(graph.Start, "answer")
	b.AddEdge("answer", graph.End)
	return compile(t, b, append([]graph.Option{graph.WithCheckpointer(store)}, opts...)...)
}

func never(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }

// eachReach runs a test for runs that see each other, and for runs that meet in
// the store alone.
func eachReach(t *testing.T, test func(t *testing.T, open func() checkpoint.Store)) {
	t.Run("in one process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			test(t, func() checkpoint.Store { return store })
		})
	})
	t.Run("in several processes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			test(t, func() checkpoint.Store { return elsewhere{store} })
		})
	})
}

func TestBusyThreadIsRejected(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		release := make(chan struct{})
		hold := func(ctx context.Context, _ string) error { <-release; return nil }
		g := talker(t, open(), hold)
		done := make(chan error)
		go func() { _, err := g.Thread("t").Invoke(t.Context(), g.Input(say("a"))); done <- err }()
		synctest.Wait()
		time.Sleep(time.Hour) // the lease is renewed
		_, err := talker(t, open(), hold).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
		var busy *checkpoint.BusyError
		if !errors.Is(err, graph.ErrThreadBusy) || !errors.As(err, &busy) || !strings.Contains(busy.Lease.Holder, " pid ") {
			t.Fatalf("got %v, want ErrThreadBusy with the holder", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		snap, err := talker(t, open(), hold).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
		if err != nil || said(&snap.State) != "a A b B" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
	})
}

func TestBusyThreadIsQueuedFor(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		slow := func(ctx context.Context, _ string) error { time.Sleep(time.Minute); return nil }
		var wg sync.WaitGroup
		for i := range 5 {
			g := talker(t, open(), slow, graph.WhenBusy(graph.BusyQueue))
			wg.Go(func() {
				if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say(fmt.Sprint("q", i)))); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := talker(t, open(), slow, graph.WhenBusy(graph.BusyQueue)).Thread("t").Invoke(ctx, graph.Requests[turns]{}.Input(say("impatient")))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("got %v, want the end of its context and why it waited", err)
		}
		wg.Wait()
		snap, err := talker(t, open(), slow).Thread("t").State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := said(&snap.State)
		if _, one := open().(*checkpoint.Memory); one && got != "q0 Q0 q1 Q1 q2 Q2 q3 Q3 q4 Q4" {
			t.Fatalf("got %q, want the order of the calls", got)
		}
		for i := range 5 { // each turn is whole
			if !strings.Contains(got, fmt.Sprintf("q%d Q%d", i, i)) {
				t.Fatalf("got %q", got)
			}
		}
	})
}

func TestBusyThreadIsInterrupted(t *testing.T) {
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		done := make(chan error)
		go func() {
			_, err := talker(t, open(), never).Thread("t").Invoke(bg, graph.Requests[turns]{}.Input(say("a")))
			done <- err
		}()
		synctest.Wait()
		quick := func(context.Context, string) error { return nil }
		snap, err := talker(t, open(), quick, graph.WhenBusy(graph.BusyInterrupt)).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
		if err != nil || said(&snap.State) != "a b B" {
			t.Fatalf("got %q, %v; want the first run's input and the second's turn", said(&snap.State), err)
		}
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("the first run returned %v, want ErrThreadBusy", err)
		}
		snap, err = talker(t, open(), quick).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("c")))
		if err != nil || said(&snap.State) != "a b B c C" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
	})
}

func TestBusyThreadIsRolledBack(t *testing.T) {
	quick := func(context.Context, string) error { return nil }
	eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
		if _, err := talker(t, open(), quick).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("first"))); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := talker(t, open(), never).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("a")))
			done <- err
		}()
		synctest.Wait()
		snap, err := talker(t, open(), quick, graph.WhenBusy(graph.BusyRollback)).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
		if err != nil || said(&snap.State) != "first FIRST b B" {
			t.Fatalf("got %q, %v; want no trace of the run that was stopped", said(&snap.State), err)
		}
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("the first run returned %v, want ErrThreadBusy", err)
		}
		n := 0
		for _, err := range talker(t, open(), quick).Thread("t").History(t.Context(), graph.HistoryQuery{AllBranches: true}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 5 {
			t.Fatalf("%d checkpoints, want the two of each run that ended and the input that was rolled back", n)
		}
	})
	t.Run("a run that began the thread", func(t *testing.T) {
		eachReach(t, func(t *testing.T, open func() checkpoint.Store) {
			done := make(chan error)
			go func() {
				_, err := talker(t, open(), never).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("a")))
				done <- err
			}()
			synctest.Wait()
			snap, err := talker(t, open(), quick, graph.WhenBusy(graph.BusyRollback)).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("b")))
			if err != nil || said(&snap.State) != "b B" {
				t.Fatalf("got %q, %v", said(&snap.State), err)
			}
			if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
				t.Fatalf("the first run returned %v, want ErrThreadBusy", err)
			}
		})
	})
	t.Run("nothing to roll back", func(t *testing.T) {
		g := talker(t, checkpoint.NewMemory(), quick, graph.WhenBusy(graph.BusyRollback))
		for _, text := range []string{"a", "b"} {
			if _, err := g.Thread("t").Invoke(t.Context(), g.Input(say(text))); err != nil {
				t.Fatal(err)
			}
		}
		snap, err := g.Thread("t").State(t.Context())
		if err != nil || said(&snap.State) != "a A b B" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
	})
}

// stalled is a store whose renewals of leases don't get through.
type stalled struct{ checkpoint.Store }

var errStalled = errors.New("stalled")

func (s stalled) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if w.Lease > 0 && !w.Claim {
		return checkpoint.Written{}, errStalled
	}
	return s.Store.Write(ctx, w)
}

func TestStalledRunCannotWriteAfterAnotherTookOver(t *testing.T) { // W1
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		deaf := make(chan struct{})
		slow := talker(t, stalled{store}, func(context.Context, string) error { <-deaf; return nil })
		done := make(chan error)
		go func() { _, err := slow.Thread("t").Invoke(t.Context(), slow.Input(say("a"))); done <- err }()
		synctest.Wait()
		quick := talker(t, elsewhere{store}, func(context.Context, string) error { return nil })
		if _, err := quick.Thread("t").Invoke(t.Context(), quick.Continue()); !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("got %v before the lease ran out, want ErrThreadBusy", err)
		}
		time.Sleep(16 * time.Second)
		snap, err := quick.Thread("t").Invoke(t.Context(), quick.Continue())
		if err != nil || said(&snap.State) != "a A" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
		close(deaf)
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) {
			t.Fatalf("the stalled run returned %v, want ErrThreadBusy", err)
		}
		snap, err = quick.Thread("t").State(t.Context())
		if err != nil || said(&snap.State) != "a A" {
			t.Fatalf("got %q, %v", said(&snap.State), err)
		}
	})
}

func TestRunThatLostItsThreadIsStopped(t *testing.T) { // W1
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		done := make(chan error)
		go func() {
			_, err := talker(t, elsewhere{store}, never).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("a")))
			done <- err
		}()
		synctest.Wait()
		_, err := store.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true, Steal: holder(t, store)})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := <-done; !errors.Is(err, graph.ErrThreadBusy) || time.Since(start) > 5*time.Second {
			t.Fatalf("got %v after %v, want ErrThreadBusy within a third of the lease", err, time.Since(start))
		}
	})
}

// holder returns who holds the thread.
func holder(t *testing.T, store *checkpoint.Memory) string {
	t.Helper()
	for info, err := range store.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		return info.Lease.Holder
	}
	return ""
}

func TestThreadIsFreeWhenTheRunIsOver(t *testing.T) {
	store := checkpoint.NewMemory()
	outcomes := map[string]func(ctx context.Context, _ string) error{
		"success":   func(context.Context, string) error { return nil },
		"failure":   func(context.Context, string) error { return errStalled },
		"interrupt": func(ctx context.Context, _ string) error { _, err := graph.Interrupt[bool](ctx, "q", nil); return err },
	}
	for what, wait := range outcomes {
		_, err := talker(t, elsewhere{store}, wait).Thread("t").Invoke(t.Context(), graph.Requests[turns]{}.Input(say("a")))
		if err != nil && !errors.Is(err, errStalled) {
			t.Fatal(err)
		}
		if h := holder(t, store); h != "" {
			t.Fatalf("%s holds the thread after a run that ended with %s", h, what)
		}
	}
}

// dying is a store that its process has lost: nothing gets through any more.
type dying struct {
	checkpoint.Store
	gone atomic.Bool
}

func (s *dying) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if s.gone.Load() {
		return checkpoint.Written{}, errStalled
	}
	return s.Store.Write(ctx, w)
}
