package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// A subgraph that keeps its state inside of another is replayed each time it runs.
func TestReplayOfASubgraphThatKeepsItsStateInsideAnother(t *testing.T) {
	inner := visits(graph.New[trail]("inner"), "a", "b").AddSequence("a", "b").AddEdge(graph.Start, "a")
	middle := graph.New[trail]("middle")
	graph.AddSubgraph(middle, "keeps", compile(t, inner, graph.KeepState()), graph.Mapping[trail, trail]{
		Out: func(c, p *trail) { p.Ran.Overwrite(c.Ran.Slice()...) },
	})
	middle.AddEdge(graph.Start, "keeps").AddConditionalEdges("keeps", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.Ran.Len() < 6 {
			return graph.Goto("keeps"), nil
		}
		return graph.Goto(graph.End), nil
	}, "keeps", graph.End)
	b := graph.New[trail]("outer")
	graph.AddSubgraph(b, "own", compile(t, middle), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }})
	store := checkpoint.NewMemory()
	g := compile(t, b.AddEdge(graph.Start, "own"), graph.WithCheckpointer(store))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "ran", snap.State.ran(), "a b a b a b")
	same(t, g, taped(t, store, "t"))
}

// A subgraph that had begun when the state was edited, its own or that around it, is
// taken as it was recorded: run again from its beginning it would see the edit too soon.
func TestReplayOfASubgraphThatWaitedWhileTheStateWasEdited(t *testing.T) {
	c := func(t *testing.T) *graph.Graph[Shared] {
		b := graph.New[Shared]("child")
		see := func(ctx context.Context, s *Shared) error {
			s.Items.Add(fmt.Sprint("saw ", s.Items.Len(), s.Last))
			return nil
		}
		b.AddNode("first", see)
		b.AddNode("ask", func(ctx context.Context, s *Shared) error {
			if _, err := graph.Interrupt[string](ctx, "q", s.Items.Len()); err != nil {
				return err
			}
			return see(ctx, s)
		})
		return compile(t, b.AddSequence("first", "ask").AddEdge(graph.Start, "first"))
	}
	for _, mapped := range []bool{false, true} {
		for _, inside := range []bool{false, true} {
			b := graph.New[parentState]("parent")
			if mapped {
				graph.AddSubgraph(b, "sub", c(t), graph.Mapping[parentState, Shared]{
					In:  func(p *parentState, c *Shared) { c.Last = p.Topic; c.Items.Add(p.Items.Slice()...) },
					Out: func(c *Shared, p *parentState) { p.Items.Add(c.Items.Slice()...) },
				})
			} else {
				graph.AddShared(b, "sub", c(t), func(p *parentState) *Shared { return &p.Shared })
			}
			store := checkpoint.NewMemory()
			g := compile(t, b.AddEdge(graph.Start, "sub"), graph.WithCheckpointer(store))
			snap := must[*graph.Snapshot[parentState]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *parentState) error {
				s.Items.Add("in")
				return nil
			})))
			if inside {
				ns := snap.Tasks[0].Inside
				must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(ns).Edit(bg, graph.UpdateWith([]byte(`{"Items": ["edited"]}`))))
			} else {
				must[*graph.Snapshot[parentState]](t)(g.Thread("t").Edit(bg, func(s *parentState) error {
					s.Topic = "new"
					s.Items.Add("edited")
					return nil
				}))
			}
			same(t, g, taped(t, store, "t"))
			must[*graph.Snapshot[parentState]](t)(g.Thread("t").Invoke(bg, g.Answer("yes")))
			same(t, g, taped(t, store, "t"))
		}
	}
}

// Where a thread was forked while a subgraph inside a subgraph waited, each branch is
// replayed with what was said on it.
func TestReplayOfForksInsideNestedSubgraphs(t *testing.T) {
	pass := graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }}
	inner := graph.New[trail]("inner")
	for _, name := range []string{"p", "q"} {
		inner.AddNode(name, func(ctx context.Context, s *trail) error {
			v, err := graph.Interrupt[string](ctx, name, s.ran())
			s.Ran.Add(name + " heard " + v)
			return err
		})
	}
	b := inner.AddSequence("p", "q").AddEdge(graph.Start, "p")
	for range 2 {
		outer := graph.New[trail]("outer")
		graph.AddSubgraph(outer, "own", compile(t, b), pass)
		b = outer.AddEdge(graph.Start, "own")
	}
	store := checkpoint.NewMemory()
	g := compile(t, b, graph.WithCheckpointer(store))
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))).Checkpoint
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("one")))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").At(asked).Invoke(bg, g.Answer("two")))
	same(t, g, taped(t, store, "t"))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("three")))
	equal(t, "ran", snap.State.ran(), "p heard two q heard three")
	same(t, g, taped(t, store, "t"))
}
