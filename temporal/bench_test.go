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
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
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
	for _, to := range where {
		for how, fuse := range []time.Duration{1, 0} {
			b.Run("supersteps/"+to.name+"/"+[]string{"each an activity", "fused"}[how], func(b *testing.B) {
				store := to.open(b)
				g := chain(b, store, steps)
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
	for _, to := range where {
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

// A thousand sends and a join on three processes, with PostgreSQL.
func BenchmarkSendsOnThreeProcesses(b *testing.B) {
	s, url := onServer(b), servertest.Postgres(b)
	store, err := stores.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	g, err := thousand(store)
	if err != nil {
		b.Fatal(err)
	}
	d := s.dispatcher(b, Options{})
	for range 3 {
		w := s.worker(d, url, "thousand")
		if err := w.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	}
	c := &fleet.Client{Dispatcher: d, Store: store}
	th := func(n int) *graph.Thread[fleettest.State] { return g.Thread(fmt.Sprint(d.o.TaskQueue, n)) }
	run := func(n int) {
		t := th(n)
		if snap, err := fleet.Invoke(b.Context(), c, t, t.Input(func(*fleettest.State) error { return nil })); err != nil || snap.State.Log.Len() != 1000 {
			b.Fatal(snap, err)
		}
	}
	for n := range 3 { // until the processes have begun, and know each other's connections
		run(-1 - n)
	}
	n := 0
	for ; b.Loop(); n++ {
		run(n)
	}
	events, bytes := s.size(b, d, th(n-1).ID())
	b.ReportMetric(float64(events), "events")
	b.ReportMetric(float64(bytes), "B-of-history")
}

// Ten thousand supersteps in one thread, with PostgreSQL.
func BenchmarkTenThousandSupersteps(b *testing.B) {
	s := onServer(b)
	for how, fuse := range []time.Duration{0, 1} {
		b.Run([]string{"fused", "each an activity"}[how], func(b *testing.B) {
			store, err := stores.Open(b.Context(), servertest.Postgres(b))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { store.Close() })
			g := chain(b, store, 10_000)
			d, c := s.fleet(b, Options{Fuse: fuse}, store, g)
			n := 0
			id := func() string { return fmt.Sprint(d.o.TaskQueue, n) }
			for ; b.Loop(); n++ {
				th := g.Thread(id())
				if snap, err := fleet.Invoke(b.Context(), c, th, th.Input(func(*fleettest.State) error { return nil })); err != nil || snap.Step != 10_000 {
					b.Fatal(snap, err)
				}
			}
			n--
			workflows, most := 0, 0
			for run := ""; ; workflows++ {
				h := s.history(b, d.o.Prefix+id(), run)
				most = max(most, len(h.Events))
				if run = h.Events[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId; run == "" {
					break
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N)/10_000, "ms/step")
			b.ReportMetric(float64(workflows+1), "workflows")
			b.ReportMetric(float64(most), "events-at-most")
		})
	}
}

var where = []struct {
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
func chain(t testing.TB, store checkpoint.Store, steps int) *graph.Graph[fleettest.State] {
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
