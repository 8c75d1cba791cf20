package fleettest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// unreleased is what a blocking graph's State says last if its node is not to be released.
const unreleased = "unreleased"

// blocking is a graph whose node waits for a release, or for the end of its context.
func blocking(t *testing.T, store checkpoint.Store) (g *graph.Graph[State], begun, release chan struct{}) {
	begun, release = make(chan struct{}, 8), make(chan struct{})
	b := graph.New[State]("g")
	b.AddNode("wait", func(ctx context.Context, s *State) error {
		released := release
		if s.Last == unreleased {
			released = nil
		}
		begun <- struct{}{}
		select {
		case <-released:
			s.Last = "released"
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	b.AddEdge(graph.Start, "wait")
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	return g, begun, release
}

// await waits until a node has begun.
func await(t *testing.T, begun <-chan struct{}) {
	t.Helper()
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("the node did not begin within a minute")
	}
}

// A run that is cancelled ends its nodes' contexts, and its thread can be continued.
func (s *Suite) cancel(t *testing.T) {
	ctx, store := t.Context(), s.Store(t)
	g, begun, release := blocking(t, store)
	c, th := s.client(t, g, store), g.Thread("t")
	run, err := fleet.Start(ctx, c, th, g.Input(func(*State) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	await(t, begun)
	if err := c.Dispatcher.Cancel(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if p, err := run.Wait(ctx); !errors.Is(err, fleet.ErrCancelled) {
		t.Fatalf("got %+v, %v; want ErrCancelled", p, err)
	}
	if err := c.Dispatcher.Cancel(ctx, "t"); err != nil {
		t.Errorf("cancelled without a run: %v", err)
	}
	close(release)
	if snap, err := fleet.Invoke(ctx, c, th, g.Continue()); err != nil || snap.State.Last != "released" {
		t.Errorf("continued: %+v, %v", snap, err)
	}
}

// Threads whose names are alike, or patterns of each other in some database, have nothing
// to do with each other.
func (s *Suite) cancelOne(t *testing.T) {
	ctx, store := t.Context(), s.Store(t)
	g, begun, release := blocking(t, store)
	c := s.client(t, g, store)
	start := func(thread, what string) fleet.Run {
		run, err := fleet.Start(ctx, c, g.Thread(thread), g.Input(func(s *State) error { s.Last = what; return nil }))
		if err != nil {
			t.Fatal(err)
		}
		await(t, begun)
		return run
	}
	for _, two := range [][2]string{{"a_b", "axb"}, {"a b", "a20b"}, {"a", "a/b"}} {
		stays := start(two[1], "")
		for range 2 { // so that who looks from time to time whether it is to stop has looked
			run := start(two[0], unreleased) // it may learn late that it is cancelled
			if err := c.Dispatcher.Cancel(ctx, two[0]); err != nil {
				t.Fatal(err)
			}
			if p, err := run.Wait(ctx); !errors.Is(err, fleet.ErrCancelled) {
				t.Errorf("thread %q: %+v, %v; want ErrCancelled", two[0], p, err)
			}
		}
		select {
		case release <- struct{}{}:
		case <-time.After(time.Minute):
			t.Errorf("thread %q does not wait any more", two[1])
		}
		if p, err := stays.Wait(ctx); err != nil || p.Status != fleet.RunEnded {
			t.Errorf("thread %q: %+v, %v; only %q was cancelled", two[1], p, err, two[0])
		}
	}
}

// A thread has one run, by whomever.
func (s *Suite) busy(t *testing.T) {
	ctx, store := t.Context(), s.Store(t)
	g, begun, release := blocking(t, store)
	c, th := s.client(t, g, store), g.Thread("t")
	run, err := fleet.Start(ctx, c, th, g.Input(func(*State) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	await(t, begun)
	if _, err := th.Invoke(ctx, g.Continue()); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("invoked while the fleet has it: %v", err)
	}
	if _, err := th.Edit(ctx, func(*State) error { return nil }); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("edited while the fleet has it: %v", err)
	}
	if _, err := fleet.Start(ctx, c, th, g.Continue()); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("started while the fleet has it: %v", err)
	}
	release <- struct{}{}
	if p, err := run.Wait(ctx); err != nil || p.Status != fleet.RunEnded {
		t.Fatalf("%+v, %v", p, err)
	}
	ended := make(chan error)
	go func() {
		_, err := th.Invoke(ctx, g.Input(func(*State) error { return nil }))
		ended <- err
	}()
	await(t, begun)
	run, err = c.Wake(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := run.Wait(ctx); !errors.Is(err, graph.ErrThreadBusy) {
		t.Errorf("woken while another run has it: %+v, %v", p, err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the other run: %v", err)
	}
	if run, err = c.Wake(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if p, err := run.Wait(ctx); err != nil || p.Status != fleet.RunEnded {
		t.Errorf("woken when nobody has it any more: %+v, %v", p, err)
	}
}

// A version that no worker has is an error that says so, and the thread goes on elsewhere.
func (s *Suite) unknown(t *testing.T) {
	ctx, store := t.Context(), s.Store(t)
	g, _, release := blocking(t, store)
	close(release)
	c, th := s.client(t, g, store), g.Thread("t")
	c.Version = func(string) string { return "v9" }
	run, err := fleet.Start(ctx, c, th, g.Input(func(*State) error { return nil }))
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if unknown, ok := errors.AsType[*fleet.ProgramError](err); !ok || unknown.Version != "v9" || !strings.Contains(err.Error(), "v1") {
		t.Fatalf("got %v; want a ProgramError that names both versions", err)
	}
	if snap, err := th.Invoke(ctx, g.Continue()); err != nil || snap.State.Last != "released" {
		t.Errorf("here: %+v, %v", snap, err)
	}
}

// unreadable is a thread of a newer program, which none of the workers can read: its run ends,
// and it is due for others.
func (s *Suite) unreadable(t *testing.T) {
	ctx, store := t.Context(), s.Store(t)
	program := func(opts ...graph.Option) *graph.Graph[State] {
		b := graph.New[State]("g").AddNode("a", func(_ context.Context, s *State) error { s.Last += " a"; return nil })
		g, err := b.AddEdge(graph.Start, "a").Compile(append(opts, graph.WithCheckpointer(store))...)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	newer := program(graph.SchemaVersion(2))
	c, th := s.client(t, program(), store), newer.Thread("t")
	if err := fleet.Submit(ctx, th, th.Input(func(s *State) error { s.Last = "begun"; return nil })); err != nil {
		t.Fatal(err)
	}
	run, err := c.Wake(ctx, "t")
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v; want an error that names the version", err)
	}
	due := 0
	for _, err := range store.(checkpoint.Scheduler).Due(ctx, time.Time{}, 0) {
		if due++; err != nil {
			t.Fatal(err)
		}
	}
	if due != 1 {
		t.Errorf("%d threads are due", due)
	}
	if snap, err := th.Invoke(ctx, newer.Continue()); err != nil || snap.State.Last != "begun a" {
		t.Errorf("by the newer program: %+v, %v", snap, err)
	}
}

// killed is a store that is out of order for its user now and then: a write is not done,
// or is done and nobody is told, as if the process had died before or after it.
type killed struct {
	checkpoint.Store
	every  int64
	writes atomic.Int64
}

var errKilled = errors.New("the connection is gone")

func (k *killed) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	n := k.writes.Add(1)
	if n%k.every != 0 {
		return k.Store.Write(ctx, w)
	}
	if n/k.every%2 == 0 {
		if _, err := k.Store.Write(ctx, w); err != nil {
			return checkpoint.Written{}, err
		}
	}
	return checkpoint.Written{}, errKilled
}

// What workers were at when they were cut off from the store is done again, and what is
// recorded is neither lost nor done twice.
func (s *Suite) killed(t *testing.T) {
	for _, every := range []int64{3, 4, 7} {
		ctx, store := t.Context(), s.Store(t)
		b := graph.New[State]("g")
		var twice atomic.Int64
		work := graph.AddTask(b, "work", func(ctx context.Context, s *State, n int) error {
			if id := graph.Info(ctx).Task; recorded(ctx, store, id) {
				twice.Add(1)
			}
			s.N.Add(n)
			s.Log.Add("work")
			return nil
		})
		b.AddCommandNode("split", func(context.Context, *State) (graph.Command, error) {
			var sends []graph.Send
			for n := range 30 {
				sends = append(sends, work.Send(n))
			}
			return graph.Dispatch(sends...), nil
		}, graph.Destinations("work"))
		b.AddNode("join", func(_ context.Context, s *State) error { s.Last = "joined"; return nil })
		b.AddEdge(graph.Start, "split").AddEdge("work", "join")
		g, err := b.Compile(graph.WithCheckpointer(store))
		if err != nil {
			t.Fatal(err)
		}
		w, err := fleet.NewWorker(&killed{Store: store, every: every}, fleet.Options{}, fleet.Program{Graph: g})
		if err != nil {
			t.Fatal(err)
		}
		c := &fleet.Client{Dispatcher: s.New(t, w), Store: store}
		snap, err := fleet.Invoke(ctx, c, g.Thread("t"), g.Input(func(*State) error { return nil }))
		if err != nil || !snap.Done() || snap.State.N.Get() != 29*30/2 || snap.State.Log.Len() != 30 || snap.State.Last != "joined" || snap.Step != 3 {
			t.Fatalf("every %d: %v: %+v", every, err, snap)
		}
		if n := twice.Load(); n > 0 {
			t.Errorf("every %d: %d tasks ran that were recorded", every, n)
		}
	}
}

// recorded reports whether what a task wrote is recorded already.
func recorded(ctx context.Context, store checkpoint.Store, task string) bool {
	log := checkpoint.Log{Thread: "t"}
	head, _, err := store.Head(ctx, log)
	if err != nil {
		return false
	}
	results, err := store.Results(ctx, log, head.Branch, head.Epoch)
	return err == nil && slices.ContainsFunc(results, func(r checkpoint.Result) bool {
		return r.Kind == checkpoint.KindChanges && strings.HasSuffix(task, "."+strconv.Itoa(r.Task))
	})
}
