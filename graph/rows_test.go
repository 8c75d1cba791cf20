package graph_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
)

// Requirements that no other test is about.

// order is a state that has nothing to do with chat. (SYN-02)
type order struct {
	ID       string
	Status   string
	Lines    graph.List[string]
	Prices   graph.Map[string, int]
	Attempts graph.Sum[int]
	Note     graph.Value[[]string]
}

func TestBuiltInReducersTogether(t *testing.T) { // W7-09, W7-10, SYN-02, SYN-03, SYN-05
	b := graph.New[order]("order")
	b.AddNode("one", func(_ context.Context, s *order) error {
		s.Lines.Add("apple")
		s.Prices.Put("apple", 3)
		s.Attempts.Add(1)
		s.Status = "open"
		return nil
	})
	b.AddNode("two", func(_ context.Context, s *order) error {
		s.Lines.Add("pear", "plum")
		s.Prices.Put("apple", 4)
		s.Attempts.Add(2)
		s.Status = "paid"
		return nil
	})
	b.AddNode("three", func(_ context.Context, s *order) error {
		s.Prices.Delete("apple")
		s.Prices.Put("pear", 5)
		s.Note.Set([]string{"done"})
		return nil
	})
	b.AddEdge(graph.Start, "one").AddSequence("one", "two", "three")
	snap := must[*graph.Snapshot[order]](t)(compile(t, b).Invoke(bg, func(s *order) error {
		s.ID = "o-1"
		return nil
	}))
	s := &snap.State
	equal(t, "state", fmt.Sprint(s.ID, " ", s.Status, s.Lines, s.Prices, s.Attempts, s.Note), "o-1 paid[apple pear plum] map[pear:5] 3 [done]")
}

func TestWithoutAReducerTheLastWriteWins(t *testing.T) { // W7-08
	b := graph.New[order]("order")
	for _, n := range []string{"first", "second"} {
		b.AddNode(n, func(_ context.Context, s *order) error { s.Status = n; return nil })
	}
	b.AddEdge(graph.Start, "first").AddEdge("first", "second")
	equal(t, "status", must[*graph.Snapshot[order]](t)(compile(t, b).Invoke(bg, nil)).State.Status, "second")
}

func TestNodesAreTestedWithoutAGraph(t *testing.T) {
	s := &trail{}
	if err := visit("a")(bg, s); err != nil || s.ran() != "a" {
		t.Error(err, s.ran())
	}
}

func TestStoppedRunGoesOnWithAnotherGraphOnTheSameStore(t *testing.T) { // W7-01, SYN-19, SONI-03
	for name, open := range map[string]func() graph.Option{
		"sqlite": func() graph.Option {
			return graph.WithCheckpointer(closing(t, must[*sqlite.Store](t)(sqlite.Open(filepath.Join(t.TempDir(), "t.db")))))
		},
		"file": func() graph.Option {
			return graph.WithCheckpointer(closing(t, must[*file.Store](t)(file.Open(t.TempDir(), file.Options{}))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ran := &calls{}
			store := open()
			crash := true
			build := func() *graph.Graph[trail] {
				b := graph.New[trail]("g")
				for _, n := range []string{"one", "two", "three"} {
					b.AddNode(n, func(_ context.Context, s *trail) error {
						ran.add(n)
						if n == "three" {
							if s.N++; s.N == 3 && crash {
								return errBoom
							}
						}
						s.Ran.Add(n)
						return nil
					})
				}
				b.AddEdge(graph.Start, "one").AddSequence("one", "two", "three")
				b.AddConditionalEdges("three", func(_ context.Context, s *trail) (graph.Command, error) {
					if s.N == 5 {
						return graph.Goto(graph.End), nil
					}
					return graph.Goto("one"), nil
				}, "one", graph.End)
				return compile(t, b, store)
			}
			if _, err := build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })); !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			crash = false
			snap := must[*graph.Snapshot[trail]](t)(build().Thread("t").Invoke(bg, graph.Requests[trail]{}.Continue()))
			equal(t, "ran", snap.State.ran(), strings.TrimSpace(strings.Repeat("one two three ", 5)))
			equal(t, "runs of one", ran.of("one"), 5)
			equal(t, "runs of three", ran.of("three"), 6)
		})
	}
}

// closing closes a store when the test ends.
func closing[T checkpoint.Store](t *testing.T, store T) T {
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
