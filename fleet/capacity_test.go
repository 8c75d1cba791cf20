package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// writes counts what is written to a store.
type writes struct {
	checkpoint.Store
	n atomic.Int64
}

func (w *writes) Write(ctx context.Context, r *checkpoint.Write) (checkpoint.Written, error) {
	w.n.Add(1)
	return w.Store.Write(ctx, r)
}

// run runs a thread by workers with a store, and returns how often they wrote.
func (w *writes) run(t testing.TB, d *fleet.Local, g *graph.Graph[fleettest.State], thread string) int64 {
	t.Helper()
	th := g.Thread(thread)
	req := th.Input(func(*fleettest.State) error { return nil })
	if err := fleet.Submit(t.Context(), th, req); err != nil {
		t.Fatal(err)
	}
	before := w.n.Load()
	run, err := (&fleet.Client{Dispatcher: d, Store: w.Store}).Wake(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := run.Wait(t.Context()); err != nil || p.Status != fleet.RunEnded {
		t.Fatalf("%+v, %v", p, err)
	}
	return w.n.Load() - before
}

func (w *writes) worker(t testing.TB, g graph.Runnable, o fleet.LocalOptions) *fleet.Local {
	t.Helper()
	fw, err := fleet.NewWorker(w, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fleet.NewLocal(fw, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// chain is a graph of n supersteps of a task each.
func chain(t testing.TB, store checkpoint.Store, n int) *graph.Graph[fleettest.State] {
	t.Helper()
	b := graph.New[fleettest.State]("chain")
	b.AddNode("step", func(_ context.Context, s *fleettest.State) error { s.N.Add(1); return nil })
	b.AddConditionalEdges("step", func(_ context.Context, s *fleettest.State) (graph.Command, error) {
		if s.N.Get() >= n {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("step"), nil
	}, "step", graph.End)
	g, err := b.AddEdge(graph.Start, "step").Compile(graph.WithCheckpointer(store), graph.MaxSteps(n+1))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What docs/fleet.md reckons with: a run writes at least twice for its claim and its end,
// three times for a superstep of one task, and of many at most once for each task and once
// for each batch beside that.
func TestTheWritesOfARunAreThoseOfTheModel(t *testing.T) {
	w := &writes{Store: checkpoint.NewMemory()}
	for _, n := range []int64{1, 10, 100} {
		g := chain(t, w.Store, int(n))
		d := w.worker(t, g, fleet.LocalOptions{})
		got := w.run(t, d, g, fmt.Sprint("chain ", n))
		d.Close()
		if most := 3*n + 2; got > most || got < 2*n {
			t.Errorf("a chain of %d supersteps wrote %d times, the model says %d at most", n, got, most)
		}
	}
	for _, n := range []int64{10, 100, 1000} {
		g, err := fleettest.Wide(w.Store, int(n), 0)
		if err != nil {
			t.Fatal(err)
		}
		d := w.worker(t, g, fleet.LocalOptions{Batch: 50})
		got := w.run(t, d, g, fmt.Sprint("wide ", n))
		d.Close()
		t.Logf("%d sends: %d writes", n, got)
		if most := 3*2 + n + (n+49)/50 + 1 + 2; got > most {
			t.Errorf("%d sends and a join wrote %d times, the model says %d at most", n, got, most)
		}
	}
}

// What one process and PostgreSQL do a second.
func BenchmarkCapacity(b *testing.B) {
	store, err := stores.Open(b.Context(), servertest.Postgres(b))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	w := &writes{Store: store}
	runs := new(atomic.Int64)
	for _, bench := range []struct {
		name           string
		threads, tasks int
		graph          func() *graph.Graph[fleettest.State]
	}{
		{"a chain of 50 on one thread", 1, 50, func() *graph.Graph[fleettest.State] { return chain(b, store, 50) }},
		{"chains of 50 on 16 threads", 16, 16 * 50, func() *graph.Graph[fleettest.State] { return chain(b, store, 50) }},
		{"a thousand sends", 1, 1002, func() *graph.Graph[fleettest.State] {
			g, err := fleettest.Wide(store, 1000, 0)
			if err != nil {
				b.Fatal(err)
			}
			return g
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			g := bench.graph()
			d := w.worker(b, g, fleet.LocalOptions{Workers: 16})
			defer d.Close()
			before := w.n.Load()
			for b.Loop() {
				var wg sync.WaitGroup
				for range bench.threads {
					wg.Go(func() { w.run(b, d, g, fmt.Sprint(b.Name(), runs.Add(1), b.N)) })
				}
				wg.Wait()
			}
			tasks := float64(b.N * bench.tasks)
			b.ReportMetric(tasks/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric(float64(w.n.Load()-before)/tasks, "writes/task")
			b.ReportMetric(float64(w.n.Load()-before)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
