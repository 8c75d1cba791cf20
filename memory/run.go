package memory

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
)

// Use gives runs their long-term memory, where [From] and [Tools] find it: as a default at
// Compile, or in a call. A server and the commands of package cli give theirs to the graphs
// that they run, so that what nodes get is what clients see; they refuse a graph that was
// compiled with another ([CheckGraph]).
func Use(s Store) graph.SubgraphOption { return graph.UseDeps(s) }

// From returns the long-term memory of the run that a node, or a tool of an agent, is part
// of. Without one the error is a [graph.MissingDepsError], which ends the run;
// graph.RequireDeps[memory.Store] at Compile makes it end before the first task.
func From(ctx context.Context) (Store, error) {
	s, err := graph.Deps[Store](ctx)
	if err != nil {
		return nil, fmt.Errorf("memory: the run has no long-term memory: give it one with memory.Use, or with UseMemory of package server or cli: %w", err)
	}
	return s, nil
}

// CheckGraph reports that a graph was compiled with a memory of its own. Who gives runs a
// memory and shows it refuses such a graph: it would use another one in silence.
func CheckGraph[S any](g *graph.Graph[S]) error {
	if graph.Provides[Store](g) {
		return fmt.Errorf("memory: graph %q was compiled with a memory of its own, which is not the one that clients see: leave memory.Use out of Compile, and give it to UseMemory of package server or cli", g.Name())
	}
	return nil
}
