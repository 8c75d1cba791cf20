package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// crashTasks is how many tasks [Crash] has run.
const crashTasks = 600

// Wide returns a graph of n tasks that are sent side by side, each of which takes some time,
// and a join: with [Crash], processes have one.
func Wide(store checkpoint.Store, n int, each time.Duration) (*graph.Graph[State], error) {
	b := graph.New[State]("wide")
	work := graph.AddTask(b, "work", func(ctx context.Context, s *State, i int) error {
		if each > 0 {
			select {
			case <-time.After(each):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		s.N.Add(i)
		s.Log.Add(fmt.Sprint(i))
		return nil
	})
	b.AddCommandNode("split", func(context.Context, *State) (graph.Command, error) {
		sends := make([]graph.Send, n)
		for i := range sends {
			sends[i] = work.Send(i)
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("work"))
	b.AddNode("join", func(_ context.Context, s *State) error { s.Last = "joined"; return nil })
	b.AddEdge(graph.Start, "split").AddEdge("work", "join")
	return b.Compile(graph.WithCheckpointer(store), graph.MaxConcurrency(4))
}

// CrashGraph returns the graph that the processes of [Crash] have, by the store that they
// share.
func CrashGraph(store checkpoint.Store) (*graph.Graph[State], error) {
	return Wide(store, crashTasks, 20*time.Millisecond)
}

// Crash starts processes, which are workers that have [CrashGraph], gives them 600 tasks, and
// kills the first of them in the middle: the others do the rest, and each task counts once.
func Crash(t *testing.T, c *fleet.Client, workers ...*exec.Cmd) {
	t.Helper()
	ctx := t.Context()
	for _, w := range workers {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	}
	g, err := CrashGraph(c.Store)
	if err != nil {
		t.Fatal(err)
	}
	run, err := fleet.Start(ctx, c, g.Thread("t"), g.Input(func(*State) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	log := checkpoint.Log{Thread: "t"}
	for recorded := 0; recorded < crashTasks/3; time.Sleep(20 * time.Millisecond) {
		head, _, err := c.Store.Head(ctx, log)
		if err != nil {
			t.Fatal(err)
		}
		results, err := c.Store.Results(ctx, log, head.Branch, head.Epoch)
		if err != nil {
			t.Fatal(err)
		}
		recorded = len(slices.DeleteFunc(results, func(r checkpoint.Result) bool { return r.Kind != checkpoint.KindChanges }))
	}
	killed := time.Now()
	if err := workers[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p, err := run.Wait(ctx)
	if err = errors.Join(err, p.Err); err != nil || p.Status != fleet.RunEnded {
		t.Fatalf("%+v, %v", p, err)
	}
	t.Logf("over %.1f s after the kill", time.Since(killed).Seconds())
	snap, err := g.Thread("t").State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !snap.Done() || snap.State.Last != "joined" || snap.State.Log.Len() != crashTasks || snap.State.N.Get() != crashTasks*(crashTasks-1)/2 {
		t.Errorf("%d tasks, the sum %d, %q", snap.State.Log.Len(), snap.State.N.Get(), snap.State.Last)
	}
	for i, said := range snap.State.Log.Slice() {
		if said != fmt.Sprint(i) {
			t.Fatalf("task %d: %q", i, said)
		}
	}
}
