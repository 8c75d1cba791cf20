package graph_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// What is written to the state of a subgraph's node is found when the run ends, even if
// the subgraph had ended before; the error names the node with those above it.
func TestWritesAfterASubgraphHasEndedAreFound(t *testing.T) {
	same := graph.Mapping[trail, trail]{
		In:  func(p, c *trail) { c.N = p.N },
		Out: func(c, p *trail) { p.N = c.N },
	}
	for _, late := range []bool{true, false} {
		var kept *trail
		inner := graph.New[trail]("inner")
		inner.AddNode("a", func(_ context.Context, s *trail) error {
			kept = s
			s.N++
			return nil
		})
		middle := graph.New[trail]("middle")
		graph.AddSubgraph(middle, "deep", compile(t, inner.AddEdge(graph.Start, "a")), same)
		b := graph.New[trail]("g")
		graph.AddSubgraph(b, "own", compile(t, middle.AddEdge(graph.Start, "deep")), same)
		b.AddNode("after", func(_ context.Context, s *trail) error {
			s.Ran.Add("after")
			if late {
				kept.N = 7 // as a goroutine would that "a" left behind
			}
			return nil
		})
		b.AddEdge(graph.Start, "own").AddEdge("own", "after")
		snap, err := compile(t, b).Invoke(bg, func(s *trail) error {
			s.N = 1
			return nil
		}, graph.CheckMutations())
		equal(t, "N", snap.State.N, 2)
		equal(t, "ran", snap.State.ran(), "after")
		if !late {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		e := wantErr[*graph.MutationError](t, err)
		equal(t, "where", e.Node+"."+e.Field+" "+e.Kind, "own/deep/a.N late")
	}
}
