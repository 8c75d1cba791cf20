package graph_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// numeral counts how often one is read.
type numeral struct{ n int }

var numeralsRead int

func (n numeral) MarshalJSON() ([]byte, error) { return json.Marshal(n.n) }

func (n *numeral) UnmarshalJSON(data []byte) error {
	numeralsRead++
	return json.Unmarshal(data, &n.n)
}

// What a thread has recorded is folded whole, but of a value that is set again and again
// only the last one is decoded.
func TestOfAValueThatWasReplacedSinceNothingIsDecoded(t *testing.T) {
	type state struct {
		Last  graph.Value[*numeral]
		All   graph.List[numeral]
		Step  int
		Heard graph.Ephemeral[int]
	}
	store := checkpoint.NewMemory()
	build := func() *graph.Graph[state] {
		b := graph.New[state]("count")
		b.AddNode("count", func(_ context.Context, s *state) error {
			s.Step++
			s.Last.Set(&numeral{s.Step})
			s.All.Add(numeral{s.Step})
			s.Heard.Set(s.Step)
			return nil
		})
		b.AddEdge(graph.Start, "count")
		b.AddConditionalEdges("count", func(_ context.Context, s *state) (graph.Command, error) {
			if s.Step%20 == 0 {
				return graph.Goto(graph.End), nil
			}
			return graph.Goto("count"), nil
		}, "count", graph.End)
		return compile(t, b, graph.WithCheckpointer(store))
	}
	g := build()
	for turn := range 3 {
		if _, err := g.Thread("t").Invoke(bg, g.Input(func(s *state) error { s.Last.Set(&numeral{-1}); return nil })); err != nil {
			t.Fatal(err)
		}
		for _, of := range []*graph.Graph[state]{g, build()} {
			numeralsRead = 0
			snap, err := of.Thread("t").State(bg)
			if err != nil {
				t.Fatal(err)
			}
			s, n := snap.State, 20*(turn+1)
			if s.Last.Get().n != n || s.Step != n || s.All.Len() != n || s.All.Last().n != n || s.Heard.Get() != n {
				t.Errorf("after %d steps the state is %+v", n, s)
			}
			if most := s.All.Len() + 1; numeralsRead > most {
				t.Errorf("%d numerals were read, want %d at most: those of the list, and the last", numeralsRead, most)
			}
		}
	}
}
