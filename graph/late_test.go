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
	for name, write := range map[string]func(s *trail) error{
		"N": func(s *trail) error {
			s.N = 7
			return nil
		},
		"Ran": func(s *trail) error {
			s.Ran.Add("late")
			return nil
		},
		"Total": func(s *trail) error {
			s.Total.Add(7)
			return nil
		},
		"": func(*trail) error { return nil },
	} {
		for _, opts := range [][]graph.ThreadOption{{graph.CheckMutations()}, {graph.CheckMutations(), graph.WithCheckpointer(checkpoint.NewMemory())}} {
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
				if err := write(kept); err != nil {
					return err
				} // as a goroutine would that "a" left behind
				return nil
			})
			b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("b", "c").AddEdge("b", "d")
			g := compile(t, b)
			snap, err := g.Thread("t", opts...).Invoke(bg, g.Input(func(s *trail) error {
				s.N = 1
				return nil
			}))
			equal(t, "N", snap.State.N, 2)
			equal(t, "ran", snap.State.ran(), "a b c d")
			if name == "" {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			late := wantErr[*graph.MutationError](t, err)
			equal(t, "where", late.Node+"."+late.Field+" "+late.Kind, "a."+name+" late")
		}
	}
}
