package graph_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// What is written to a state after its node has returned is lost; with
// CheckMutations the run says so, whatever kind of field it is, and without changes
// nothing is said.
func TestWritesAfterANodeHasReturnedAreFound(t *testing.T) {
	for name, write := range map[string]func(s *trail){
		"N":     func(s *trail) { s.N = 7 },
		"Ran":   func(s *trail) { s.Ran.Add("late") },
		"Total": func(s *trail) { s.Total.Add(7) },
		"":      func(*trail) {},
	} {
		for _, opts := range [][]graph.Option{{graph.CheckMutations()}, {graph.CheckMutations(), graph.WithCheckpointer(checkpoint.NewMemory()), graph.Thread("t")}} {
			var kept *trail
			b := visits(graph.New[trail]("g"), "c", "d")
			b.AddNode("a", func(_ context.Context, s *trail) error {
				kept = s
				s.N++
				s.Ran.Add("a")
				return nil
			})
			b.AddNode("b", func(_ context.Context, s *trail) error {
				s.Ran.Add("b")
				write(kept) // as a goroutine would that "a" left behind
				return nil
			})
			b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "c").AddEdge("b", "d")
			g := compile(t, b)
			snap, err := g.Invoke(bg, func(s *trail) { s.N = 1 }, opts...)
			equal(t, "N", snap.State.N, 2)
			equal(t, "ran", snap.State.ran(), "a b c d")
			if name == "" {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			late := wantErr[*graph.LateWriteError](t, err)
			equal(t, "node and field", late.Node+"."+late.Field, "a."+name)
		}
	}
}
