package temporal

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/graph"
)

// steps is how long the chains are.
const steps = 100

// A chain of supersteps beside one of activities that do nothing.
func BenchmarkChain(b *testing.B) {
	s := onServer(b)
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N*steps), "ms/step")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("activities", func(b *testing.B) {
		o := client.StartWorkflowOptions{TaskQueue: fmt.Sprint(b.Name(), time.Now().UnixNano())}
		w := worker.New(s.c, o.TaskQueue, worker.Options{})
		w.RegisterWorkflow(bare)
		w.RegisterActivityWithOptions(func(_ context.Context, said string) (string, error) { return said, nil }, activity.RegisterOptions{Name: "bare"})
		if err := w.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(w.Stop)
		for b.Loop() {
			run, err := s.c.ExecuteWorkflow(b.Context(), o, bare, steps)
			if err == nil {
				err = run.Get(b.Context(), nil)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
	for _, to := range stores {
		for how, fuse := range []time.Duration{1, 0} {
			b.Run("supersteps/"+to.name+"/"+[]string{"each an activity", "fused"}[how], func(b *testing.B) {
				store := to.open(b)
				g := chain(b, store)
				_, c := s.fleet(b, Options{Fuse: fuse}, store, g)
				for i := 0; b.Loop(); i++ {
					th := g.Thread(fmt.Sprint(i))
					if snap, err := fleet.Invoke(b.Context(), c, th, th.Input(func(*fleettest.State) error { return nil })); err != nil || snap.Step != steps {
						b.Fatal(snap, err)
					}
				}
				each(b)
			})
		}
	}
}

// A thousand sends and a join.
func BenchmarkSends(b *testing.B) {
	s := onServer(b)
	for _, to := range stores {
		b.Run(to.name, func(b *testing.B) {
			store := to.open(b)
			g, err := fleettest.Wide(store, 1000, 0)
			if err != nil {
				b.Fatal(err)
			}
			d, c := s.fleet(b, Options{}, store, g)
			n := 0
			for ; b.Loop(); n++ {
				th := g.Thread(fmt.Sprint(n))
				if snap, err := fleet.Invoke(b.Context(), c, th, th.Input(func(*fleettest.State) error { return nil })); err != nil || snap.State.Log.Len() != 1000 {
					b.Fatal(snap, err)
				}
			}
			events, bytes := s.size(b, d, fmt.Sprint(n-1))
			b.ReportMetric(float64(events), "events")
			b.ReportMetric(float64(bytes), "B-of-history")
		})
	}
}

var stores = []struct {
	name string
	open func(testing.TB) checkpoint.Store
}{
	{"in memory", func(testing.TB) checkpoint.Store { return checkpoint.NewMemory() }},
	{"SQLite", func(t testing.TB) checkpoint.Store {
		store, err := sqlite.Open(filepath.Join(t.TempDir(), "threads.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}},
}

// bare calls an activity after the other.
func bare(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for said := "hello"; n > 0; n-- {
		if err := workflow.ExecuteActivity(ctx, "bare", said).Get(ctx, &said); err != nil {
			return err
		}
	}
	return nil
}

// chain returns a graph whose node runs in as many supersteps.
func chain(t testing.TB, store checkpoint.Store) *graph.Graph[fleettest.State] {
	b := graph.New[fleettest.State]("chain")
	b.AddNode("count", func(_ context.Context, s *fleettest.State) error { s.N.Add(1); return nil })
	b.AddEdge(graph.Start, "count").AddConditionalEdges("count", func(_ context.Context, s *fleettest.State) (graph.Command, error) {
		if s.N.Get() >= steps {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("count"), nil
	}, "count", graph.End)
	g, err := b.Compile(graph.WithCheckpointer(store), graph.MaxSteps(steps+1))
	if err != nil {
		t.Fatal(err)
	}
	return g
}
