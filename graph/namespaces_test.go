package graph_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// TRPC-56: deleting a thread removes all of its namespaces and nothing of another
// thread; a namespace is a name of the user's own.
func TestDeletingAThreadRemovesItsNamespacesAndNoOtherThread(t *testing.T) {
	store := checkpoint.NewMemory()
	g := compile(t, visits(graph.New[trail]("g"), "a").AddEdge(graph.Start, "a"), graph.WithCheckpointer(store))
	names := []string{"", "svc:prod:flowX", "svc:prod:flowY"}
	for _, id := range []string{"one", "two"} {
		for _, ns := range names {
			th := g.Thread(id, graph.Namespace(ns))
			must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput)))
		}
	}
	if err := g.Thread("one").Delete(bg); err != nil {
		t.Fatal(err)
	}
	for _, ns := range names {
		if _, err := g.Thread("one", graph.Namespace(ns)).State(bg); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("namespace %q of the deleted thread: %v", ns, err)
		}
		snap := must[*graph.Snapshot[trail]](t)(g.Thread("two", graph.Namespace(ns)).State(bg))
		equal(t, "the other thread in "+ns, snap.State.ran(), "a")
	}
	same := func(a, b *graph.Thread[trail]) bool { return reflect.DeepEqual(a.ID(), b.ID()) }
	if !same(g.Thread("two"), g.Thread("two", graph.Namespace("svc:prod:flowX"))) {
		t.Error("handles of one thread name different ones")
	}
}
