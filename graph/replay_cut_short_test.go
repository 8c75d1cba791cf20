package graph_test

import (
	"context"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// A node that failed, or was cut short, beside one that asked has not ended: that it
// asks when it runs again is no difference.
func TestReplayOfANodeThatFailedBesideAQuestion(t *testing.T) {
	fails := true
	store := checkpoint.NewMemory()
	b := graph.New[trail]("g")
	for _, name := range []string{"a", "b"} {
		b.AddNode(name, func(ctx context.Context, s *trail) error {
			if name == "b" && fails {
				return errors.New("boom")
			}
			if _, err := graph.Interrupt[int](ctx, name, nil); err != nil {
				return err
			}
			s.Ran.Add(name)
			return nil
		}).AddEdge(graph.Start, name)
	}
	g := compile(t, b, graph.WithCheckpointer(store), graph.Concurrency(1))
	_, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.NodeError](t, err)
	fails = false
	same(t, g, taped(t, store, "t"))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	same(t, g, taped(t, store, "t"))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"a": 1, "b": 1})))
	equal(t, "ran", snap.State.ran(), "a b")
	same(t, g, taped(t, store, "t"))
}
