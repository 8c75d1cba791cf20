package graph_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// down is a store that can be unreachable.
type down struct {
	*checkpoint.Memory
	is bool
}

func (d *down) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if d.is {
		return nil, 0, fmt.Errorf("no connection: %w", io.ErrUnexpectedEOF)
	}
	return d.Memory.Head(ctx, log)
}

// A node that takes a SpawnError for the end of the other thread may say so in the state.
func TestARunThatIsStoppedOrHasNoStoreIsNoFailureOfWhatItSpawns(t *testing.T) {
	for name, c := range map[string]struct {
		when func(stop func(), store *down)
		want error
	}{
		"stopped":  {func(stop func(), _ *down) { stop() }, context.Canceled},
		"no store": {func(_ func(), store *down) { store.is = true }, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			store := &down{Memory: checkpoint.NewMemory()}
			child := graph.New[tally]("child").AddNode("add", add).AddEdge(graph.Start, "add").MustCompile(graph.WithCheckpointer(store))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var got error
			b := graph.New[tally]("parent")
			b.AddNode("spawn", func(ctx context.Context, s *tally) error {
				c.when(stop, store)
				_, got = graph.Spawn(ctx, "k", child.Thread("c"), child.Input(func(*tally) error { return nil }))
				return got
			}).AddEdge(graph.Start, "spawn")
			th := b.MustCompile(graph.WithCheckpointer(store)).Thread("p")
			_, _ = th.Invoke(ctx, th.Input(func(*tally) error { return nil }))
			if _, failed := errors.AsType[*graph.SpawnError](got); failed || !errors.Is(got, c.want) {
				t.Error(got)
			}
		})
	}
}
