package graph_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type hearing struct{ Word string }

// hears returns a graph whose node fails once, if it is told to, and then waits
// for an event.
func hears(fail func() error) *graph.Builder[hearing] {
	b := graph.New[hearing]("hears")
	b.AddNode("hear", func(ctx context.Context, s *hearing) (err error) {
		if err := fail(); err != nil {
			return err
		}
		s.Word, err = graph.WaitFor[string](ctx, "", "go")
		return err
	})
	return b.AddEdge(graph.Start, "hear")
}

// detached is a store as another process has it: its runs are not in line with
// those of this one. Before a claim it calls a function, once.
type detached struct {
	checkpoint.Store
	checkpoint.Scheduler
	once   sync.Once
	before func()
	fail   func() error // of Head, after the claim
	claims int
}

func (s *detached) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if w.Claim {
		s.once.Do(s.before)
		s.claims++
	}
	return s.Store.Write(ctx, w)
}

func (s *detached) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if s.claims > 0 && s.fail != nil {
		if err := s.fail(); err != nil {
			return nil, 0, err
		}
	}
	return s.Store.Head(ctx, log)
}

func isDue(t *testing.T, s checkpoint.Scheduler, thread checkpoint.ThreadID) bool {
	t.Helper()
	for w, err := range s.Due(t.Context(), time.Now(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if w.Thread == thread {
			return true
		}
	}
	return false
}

// A run that claims a thread and then finds that another one has been there
// gives it up; the event that came meanwhile still wakes the thread.
func TestW1ABusyRunDoesNotSwallowAnEvent(t *testing.T) {
	ctx, mem := t.Context(), checkpoint.NewMemory()
	broken := errors.New("broken")
	fail := func() error { err := broken; broken = nil; return err }
	here := hears(fail).MustCompile(graph.WithCheckpointer(mem))
	if _, err := here.Thread("t").Invoke(ctx, here.Input(func(*hearing) error { return nil })); err == nil {
		t.Fatal("the node did not fail")
	}
	late := &detached{Store: mem, Scheduler: mem, before: func() {
		if snap, err := here.Thread("t").Invoke(ctx, here.Continue()); err != nil || len(snap.Waits) != 1 {
			t.Fatalf("%+v, %v", snap, err)
		}
		if err := here.Thread("t").SendEvent(ctx, "go", "word"); err != nil {
			t.Fatal(err)
		}
	}}
	there := hears(fail).MustCompile(graph.WithCheckpointer(late))
	if _, err := there.Thread("t").Invoke(ctx, there.Continue()); !errors.Is(err, graph.ErrThreadBusy) {
		t.Fatalf("got %v, want ErrThreadBusy", err)
	}
	if !isDue(t, mem, "t") {
		t.Fatal("the thread is not due, and the event is never received")
	}
	r, err := graph.NewRunner(mem, graph.RunnerOptions{}, here)
	if err == nil {
		err = r.Sweep(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := here.Thread("t").State(ctx); err != nil || !snap.Done() || snap.State.Word != "word" {
		t.Fatalf("%+v, %v", snap, err)
	}
	if isDue(t, mem, "t") {
		t.Error("a thread that has ended is due")
	}
}

// What a runner was about to continue when the store failed, or when it was
// stopped itself, is continued by the next one.
func TestARunnerThatIsCutShortLeavesTheThreadToTheNext(t *testing.T) {
	for _, how := range []string{"store", "stop"} {
		t.Run(how, func(t *testing.T) {
			ctx, mem := t.Context(), checkpoint.NewMemory()
			stopped, stop := context.WithCancel(ctx)
			fail := func() error { return nil }
			here := hears(func() error { return fail() }).MustCompile(graph.WithCheckpointer(mem))
			if _, err := here.Thread("t").Invoke(ctx, here.Input(func(*hearing) error { return nil })); err != nil {
				t.Fatal(err)
			}
			if err := here.Thread("t").SendEvent(ctx, "go", "word"); err != nil {
				t.Fatal(err)
			}
			bad := &detached{Store: mem, Scheduler: mem, before: func() {}}
			switch how {
			case "store":
				bad.fail = func() error { bad.fail = nil; return errors.New("away") }
			case "stop":
				fail = func() error { stop(); <-stopped.Done(); return stopped.Err() }
			}
			var reports []graph.RunnerReport
			var mu sync.Mutex
			report := func(r graph.RunnerReport) { mu.Lock(); reports = append(reports, r); mu.Unlock() }
			r, err := graph.NewRunner(bad, graph.RunnerOptions{Report: report}, here)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Sweep(stopped)
			if !slices.ContainsFunc(reports, func(r graph.RunnerReport) bool { return r.Err != nil }) {
				t.Fatalf("the run did not fail: %+v", reports)
			}
			fail = func() error { return nil }
			if r, err = graph.NewRunner(mem, graph.RunnerOptions{}, here); err == nil {
				err = r.Sweep(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			if snap, err := here.Thread("t").State(ctx); err != nil || !snap.Done() {
				t.Fatalf("%+v, %v", snap, err)
			}
			if isDue(t, mem, "t") {
				t.Error("a thread that has ended is due")
			}
			stop()
		})
	}
}

// stale is a scheduler that still lists a thread which has been taken up.
type stale struct {
	checkpoint.Store
	checkpoint.Scheduler
}

func (stale) Abandoned(context.Context, int) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) { yield(checkpoint.Waiting{Thread: "t"}, nil) }
}

// A thread whose first run is just beginning is none of a runner's business.
func TestARunnerLeavesAThreadThatIsJustBeginning(t *testing.T) {
	ctx, mem := t.Context(), checkpoint.NewMemory()
	if _, err := mem.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true, Lease: time.Minute, Holder: "another run"}); err != nil {
		t.Fatal(err)
	}
	g := hears(func() error { return nil }).MustCompile(graph.WithCheckpointer(mem))
	r, err := graph.NewRunner(stale{mem, mem}, graph.RunnerOptions{Report: func(r graph.RunnerReport) { t.Errorf("%+v", r) }}, g)
	if err == nil {
		err = r.Sweep(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A runner whose runs are drained takes up no more threads and ends when those that it has
// have come to the end of their superstep; what they had left is due.
func TestARunnerThatIsDrainedEndsWithTheSuperstep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, mem := t.Context(), checkpoint.NewMemory()
		b := visits(graph.New[trail]("g"), "last")
		b.AddNode("nap", func(ctx context.Context, s *trail) error {
			return graph.Sleep(ctx, "nap", time.Duration(s.N)*time.Second)
		})
		b.AddNode("long", func(ctx context.Context, s *trail) error {
			select {
			case <-time.After(time.Minute):
				s.Ran.Add("long")
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		g := compile(t, b.AddEdge(graph.Start, "nap").AddEdge("nap", "long").AddEdge("long", "last"), graph.WithCheckpointer(mem))
		for thread, wait := range map[string]int{"now": 1, "later": 40} {
			if _, err := g.Thread(thread).Invoke(ctx, g.Input(func(s *trail) error { s.N = wait; return nil })); err != nil {
				t.Fatal(err)
			}
		}
		run := func(o graph.RunnerOptions) (begun time.Time, _ error) {
			r, err := graph.NewRunner(mem, o, g)
			if err != nil {
				t.Fatal(err)
			}
			return time.Now(), r.Run(ctx)
		}
		drain := make(chan struct{})
		time.AfterFunc(30*time.Second, func() { close(drain) })
		begun, err := run(graph.RunnerOptions{Options: []graph.RunOption{graph.Drain(drain)}, Report: func(graph.RunnerReport) {}})
		if !errors.Is(err, graph.ErrDrained) || time.Since(begun) != 61*time.Second {
			t.Errorf("it ended with %v after %v", err, time.Since(begun))
		}
		for thread, ran := range map[string][]string{"now": {"long"}, "later": nil} {
			snap, err := g.Thread(thread).State(ctx)
			if err != nil || !slices.Equal(snap.State.Ran.Slice(), ran) {
				t.Errorf("thread %s: %+v, %v", thread, snap, err)
			}
			if !isDue(t, mem, checkpoint.ThreadID(thread)) {
				t.Errorf("thread %s is not due", thread)
			}
		}
		r, err := graph.NewRunner(mem, graph.RunnerOptions{}, g)
		if err == nil {
			err = r.Sweep(ctx)
		}
		if snap, serr := g.Thread("now").State(ctx); err != nil || serr != nil || !snap.Done() {
			t.Errorf("%+v, %v, %v", snap, err, serr)
		}
	})
}
