package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

func TestWhatIsWrongWithAWorkerIsSaid(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, store, "g", func(context.Context, *trip) error { return nil })
	for want, programs := range map[string][]fleet.Program{
		"needs a program":                     nil,
		"without a graph":                     {{}},
		`two programs are graph "g" in versi`: {{Graph: g, Version: "1"}, {Graph: g}, {Graph: g, Version: "1"}},
	} {
		if _, err := fleet.NewWorker(store, fleet.Options{}, programs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := fleet.NewWorker(nil, fleet.Options{}, fleet.Program{Graph: g}); err == nil {
		t.Error("a worker without a store")
	}
	if _, err := fleet.NewLocal(nil, fleet.LocalOptions{}); err == nil {
		t.Error("a dispatcher without a worker")
	}
}

func TestOperationsRefuseWhatTheyCanNotDo(t *testing.T) {
	ctx, store := t.Context(), checkpoint.NewMemory()
	node := func(context.Context, *trip) error { return nil }
	g := compile(t, store, "g", node)
	guarded := compile(t, store, "guarded", node, graph.StrictCycleGuard(3))
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g}, fleet.Program{Graph: guarded})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.NewRef(ctx, store, "t"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a thread that is not there: %v", err)
	}
	if err := fleet.Submit(ctx, g.Thread("t"), g.Continue()); !errors.Is(err, graph.ErrNothingToResume) {
		t.Errorf("a new thread is continued: %v", err)
	}
	if err := fleet.Submit(ctx, g.Thread("t", graph.Namespace("other")), g.Input(nothing)); err == nil {
		t.Error("a thread in a namespace was submitted")
	}
	if err := fleet.Submit(ctx, g.Thread("t"), g.Input(nothing)); err != nil {
		t.Fatal(err)
	}
	if snap := state(t, g.Thread("t")); len(snap.Next) != 1 {
		t.Fatalf("%+v", snap)
	}
	ref, err := fleet.NewRef(ctx, store, "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.RunTasks(ctx, ref, 0, 1); err == nil || !strings.Contains(err.Error(), "call Advance") {
		t.Errorf("tasks of a run that has not begun: %v", err)
	}
	for what, change := range map[string]func(*fleet.Ref){
		"a run's ID":   func(r *fleet.Ref) { r.Run = "mine" },
		"a graph":      func(r *fleet.Ref) { r.Graph = "h" },
		"a version":    func(r *fleet.Ref) { r.Version = "2" },
		"no thread":    func(r *fleet.Ref) { r.Thread = "" },
		"another one":  func(r *fleet.Ref) { r.Thread = "u" },
		"cycle guards": func(r *fleet.Ref) { r.Graph = "guarded" },
		"an old fence": func(r *fleet.Ref) { r.Fence -= 5 },
	} {
		r := ref
		change(&r)
		if p, err := w.Advance(ctx, r); err == nil || fleet.Retryable(err) {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	p, err := w.Advance(ctx, ref)
	if err != nil || p.From != 0 || p.To != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := w.RunTasks(ctx, p.Ref, 0, 2); err == nil || fleet.Retryable(err) {
		t.Errorf("tasks that there are not: %v", err)
	}
	if err := fleet.Submit(ctx, g.Thread("t"), g.Continue()); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("submitted while a run has the thread: %v", err)
	}
	if err := w.GiveUp(ctx, p.Ref); err != nil {
		t.Fatal(err)
	}
	if snap, err := g.Thread("t").Invoke(ctx, g.Continue()); err != nil || !snap.Done() {
		t.Errorf("%+v, %v", snap, err)
	}
	if err := w.RunTasks(ctx, p.Ref, 0, 1); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("tasks of a run that has lost its thread: %v", err)
	}
}

// Engines tell a run that it is cancelled when they can: its tasks may be at work, and an
// operation may come, after it was given up.
func TestNothingOfARunThatWasGivenUpHoldsItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), checkpoint.NewMemory()
		begun, release := make(chan struct{}, 2), make(chan struct{})
		g := compile(t, store, "g", func(ctx context.Context, _ *trip) error {
			begun <- struct{}{}
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
		if err != nil {
			t.Fatal(err)
		}
		if err := fleet.Submit(ctx, g.Thread("t"), g.Input(nothing)); err != nil {
			t.Fatal(err)
		}
		unbegun, err := fleet.NewRef(ctx, store, "t")
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.Advance(ctx, unbegun)
		if err != nil {
			t.Fatal(err)
		}
		atWork := make(chan error, 1)
		go func() { atWork <- w.RunTasks(ctx, p.Ref, p.From, p.To) }()
		<-begun
		if err := w.GiveUp(ctx, p.Ref); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-atWork:
			if !errors.Is(err, graph.ErrThreadBusy) {
				t.Errorf("the task that was at work: %v", err)
			}
		case <-time.After(time.Hour):
			t.Error("the task goes on, and so does the lease")
			close(release)
			return
		}
		for what, op := range map[string]func() error{
			"its tasks":   func() error { return w.RunTasks(ctx, p.Ref, p.From, p.To) },
			"its advance": func() error { _, err := w.Advance(ctx, p.Ref); return err },
			"its begin":   func() error { _, err := w.Advance(ctx, unbegun); return err },
			"giving up":   func() error { return w.GiveUp(ctx, p.Ref) },
		} {
			if err := op(); !errors.Is(err, graph.ErrThreadBusy) {
				t.Errorf("%s, late: %v", what, err)
			}
		}

		// One that has begun, of which nobody was told.
		if unbegun, err = fleet.NewRef(ctx, store, "t"); err != nil {
			t.Fatal(err)
		}
		if _, err = w.Advance(ctx, unbegun); err != nil {
			t.Fatal(err)
		}
		if err := w.GiveUp(ctx, unbegun); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Advance(ctx, unbegun); !errors.Is(err, graph.ErrThreadBusy) {
			t.Errorf("begun after it was given up: %v", err)
		}
		close(release)
		if snap, err := g.Thread("t").Invoke(ctx, g.Continue()); err != nil || !snap.Done() {
			t.Errorf("%+v, %v", snap, err)
		}
	})
}

// holding is a store whose first claim waits until its context ends.
type holding struct {
	checkpoint.Store
	claims chan struct{}
	first  atomic.Bool
}

func (h *holding) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if w.Claim && !h.first.Swap(true) {
		h.claims <- struct{}{}
		<-ctx.Done()
		return checkpoint.Written{}, ctx.Err()
	}
	return h.Store.Write(ctx, w)
}

func TestWhatHasNotBegunStaysDueUnlessItIsCancelled(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, store := t.Context(), checkpoint.NewMemory()
			held := &holding{Store: store, claims: make(chan struct{}, 1)}
			g := compile(t, store, "g", func(context.Context, *trip) error { return nil })
			c, d := local(t, store, held, g)
			run, err := fleet.Start(ctx, c, g.Thread("t"), g.Input(nothing))
			if err != nil {
				t.Fatal(err)
			}
			<-held.claims
			if cancelled {
				err = d.Cancel(ctx, "t")
			} else {
				err = d.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(ctx); !errors.Is(err, fleet.ErrCancelled) {
				t.Errorf("cancelled %v: %v", cancelled, err)
			}
			var due []checkpoint.ThreadID
			for w, err := range store.Due(ctx, time.Time{}, 0) {
				if err != nil {
					t.Fatal(err)
				}
				due = append(due, w.Thread)
			}
			if cancelled == (len(due) == 1) {
				t.Errorf("cancelled %v: %q are due", cancelled, due)
			}
			if snap, err := g.Thread("t").Invoke(ctx, g.Continue()); err != nil || !snap.Done() {
				t.Errorf("cancelled %v: %+v, %v", cancelled, snap, err)
			}
			d.Close()
		})
	}
}

func TestADispatcherThatIsClosedTakesNothing(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, store, "g", func(context.Context, *trip) error { return nil })
	c, d := local(t, store, store, g)
	d.Close()
	if _, err := fleet.Start(t.Context(), c, g.Thread("t"), g.Input(nothing)); err == nil {
		t.Error("it took a run")
	}
	if snap := state(t, g.Thread("t")); len(snap.Next) != 1 {
		t.Errorf("what was submitted is lost: %+v", snap)
	}
}

func TestAWatchTakesNoOptionsOfRuns(t *testing.T) {
	c := &fleet.Client{Store: checkpoint.NewMemory()}
	if err := c.Watch(t.Context(), graph.RunnerOptions{Options: []graph.RunOption{graph.MaxSteps(3)}}); err == nil || !strings.Contains(err.Error(), "NewWorker") {
		t.Errorf("got %v", err)
	}
	if err := new(fleet.Client).Watch(t.Context(), graph.RunnerOptions{}); !errors.Is(err, graph.ErrNoCheckpointer) {
		t.Errorf("without a store: %v", err)
	}
}

// Between the last task of a superstep and what closes it nothing is to be run, and the
// thread has not ended.
func TestAThreadHasNotEndedBeforeItsSuperstepIsClosed(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, store, "g", func(_ context.Context, s *trip) error { s.Log.Add("node"); return nil })
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	if err := fleet.Submit(t.Context(), th, g.Input(nothing)); err != nil {
		t.Fatal(err)
	}
	ref, err := fleet.NewRef(t.Context(), store, "t")
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Advance(t.Context(), ref)
	for err == nil && !p.Status.Over() {
		if err = w.RunTasks(t.Context(), p.Ref, p.From, p.To); err != nil {
			break
		}
		if snap := state(t, th); snap.Done() {
			t.Errorf("in superstep %d it has ended: %+v", snap.Step, snap)
		}
		p, err = w.Advance(t.Context(), p.Ref)
	}
	if snap := state(t, th); err != nil || !snap.Done() {
		t.Errorf("%+v, %v", snap, err)
	}
}
