package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// deployment is a version of a graph with workers and a watch of its own.
type deployment struct {
	t      *testing.T
	g      *graph.Graph[trip]
	c      *fleet.Client
	cancel context.CancelFunc
	over   chan error

	mu      sync.Mutex
	reports []error
}

func deploy(t *testing.T, store checkpoint.Store, version, node string, opts ...graph.Option) *deployment {
	t.Helper()
	b := graph.New[trip]("trip")
	b.AddNode(node, func(ctx context.Context, s *trip) error {
		s.Log.Add(node)
		return graph.Sleep(ctx, "nap", 10*time.Second)
	})
	g, err := b.AddEdge(graph.Start, node).Compile(append(opts, graph.WithCheckpointer(store))...)
	if err != nil {
		t.Fatal(err)
	}
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	l, err := fleet.NewLocal(w, fleet.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{t: t, g: g, c: &fleet.Client{Dispatcher: l, Store: store, Version: func(string) string { return version }}, over: make(chan error)}
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = func() { cancel(); l.Close() }
	go func() {
		d.over <- d.c.Watch(ctx, graph.RunnerOptions{Report: func(r graph.RunnerReport) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if r.Err != nil {
				d.reports = append(d.reports, r.Err)
			}
		}})
	}()
	return d
}

func begun(s *trip) error { s.Log.Add("begun"); return nil }

// end ends the deployment and returns what its watch has reported.
func (d *deployment) end() []error {
	d.t.Helper()
	d.cancel()
	if err := <-d.over; !errors.Is(err, context.Canceled) {
		d.t.Errorf("the watch ended with %v", err)
	}
	return d.reports
}

// The old deployment looks first, each time.
func TestWhatADeploymentCannotReadIsLeftToAnother(t *testing.T) {
	cannot := map[string]struct {
		node string
		opts []graph.Option
		is   func(error) bool
	}{
		"a newer schema":  {"walk", []graph.Option{graph.SchemaVersion(2)}, is[*graph.VersionError]},
		"an unknown node": {"ride", nil, is[*graph.UnknownNodeError]},
	}
	for name, newer := range cannot {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := checkpoint.NewMemory()
				before := deploy(t, store, "1", "walk")
				synctest.Wait()
				time.Sleep(time.Millisecond)
				after := deploy(t, store, "2", newer.node, newer.opts...)
				synctest.Wait()
				var threads []*graph.Thread[trip]
				for i := range 5 {
					th := after.g.Thread(fmt.Sprint(i))
					if err := fleet.Submit(t.Context(), th, th.Input(begun)); err != nil {
						t.Fatal(err)
					}
					threads = append(threads, th)
				}
				time.Sleep(12 * time.Second)
				for _, th := range threads {
					if snap := state(t, th); !snap.Done() {
						t.Errorf("thread %s stands: %+v", th.ID(), snap)
					}
				}
				if got := after.end(); len(got) > 0 {
					t.Errorf("who can read the threads reports %v", got)
				}
				got := before.end()
				if len(got) < len(threads) {
					t.Errorf("%d reports of %d threads", len(got), len(threads))
				}
				for _, err := range got {
					if !newer.is(err) {
						t.Errorf("reported is %v", err)
					}
				}
			})
		})
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestAWatchRestsWithWhatNobodyCanRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := checkpoint.NewMemory()
		after := deploy(t, store, "2", "walk", graph.SchemaVersion(2))
		th := after.g.Thread("t")
		if err := fleet.Submit(t.Context(), th, th.Input(begun)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		after.end()
		before := deploy(t, store, "1", "walk")
		time.Sleep(10 * time.Minute)
		due := 0
		for _, err := range store.Due(t.Context(), time.Now(), 0) {
			if due++; err != nil {
				t.Error(err)
			}
		}
		if due != 1 {
			t.Errorf("%d threads are due", due)
		}
		if n := len(before.end()); n < 10 || n > 20 { // after 1, 2, 4 ... seconds, and then each minute
			t.Errorf("%d reports in ten minutes", n)
		}
		after = deploy(t, store, "2", "walk", graph.SchemaVersion(2))
		time.Sleep(11 * time.Second)
		if snap := state(t, th); !snap.Done() {
			t.Errorf("%+v", snap)
		}
		after.end()
	})
}
