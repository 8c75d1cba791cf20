package graph_test

import (
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestPruningByANewerProgramMigratesOnce(t *testing.T) {
	store := checkpoint.NewMemory()
	build := func(opts ...graph.Option) *graph.Graph[trail] {
		b := visits(graph.New[trail]("g"), "a", "b")
		b.AddEdge(graph.Start, "a").AddEdge("a", "b")
		return compile(t, b, append(opts, graph.WithCheckpointer(store))...)
	}
	old := build()
	must[*graph.Snapshot[trail]](t)(old.Thread("t").Invoke(bg, old.Input(func(s *trail) error {
		s.N = 5
		return nil
	})))
	must[*graph.Snapshot[trail]](t)(old.Thread("t").Invoke(bg, old.Input(func(*trail) error { return nil })))
	g := build(graph.SchemaVersion(1), graph.Migrate(1, func(fields map[string]json.RawMessage) error {
		if n, ok := fields["N"]; ok {
			fields["N"] = append(n, "00"...)
		}
		return nil
	}))
	equal(t, "before", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.N, 500)
	must[graph.Pruned](t)(g.Thread("t").Prune(bg, graph.Keep{Last: 2}))
	equal(t, "after", must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.N, 500)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "a turn later", snap.State.N, 500)
	for _, e := range entriesOf(t, g.Thread("t")) {
		equal(t, "in the history", must[trail](t)(e.State(bg)).N, 500)
	}
}
