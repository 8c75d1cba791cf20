package graph_test

import (
	"context"
	"encoding/json"
	"errors"
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

// A subgraph that waited while the state was edited, its own or that around it, is not
// run as if it had seen the edit before it was made.
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

// A subgraph's log is replayed by itself: each of its nodes runs once for each record, a
// difference is told once, where it is, and what calls the subgraph goes on with what
// was recorded.
func TestAReplayTellsADifferenceInsideASubgraphOnce(t *testing.T) {
	ran := 0
	build := func(word string, in int, opts ...graph.Option) *graph.Graph[trail] {
		child := graph.New[trail]("child")
		child.AddNode("first", func(_ context.Context, s *trail) error {
			ran++
			s.Note = word
			return nil
		})
		child.AddNode("ask", func(ctx context.Context, s *trail) error {
			heard, err := graph.Interrupt[string](ctx, "q", nil)
			s.Ran.Add(s.Note + " " + heard)
			return err
		})
		child.AddSequence("first", "ask").AddEdge(graph.Start, "first")
		b := graph.New[trail]("parent")
		graph.AddSubgraph(b, "sub", compile(t, child), graph.Mapping[trail, trail]{
			In:  func(_, c *trail) { c.N = in },
			Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) },
		})
		return compile(t, b.AddEdge(graph.Start, "sub"), opts...)
	}
	store := checkpoint.NewMemory()
	g := build("old", 1, graph.WithCheckpointer(store))
	asked := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer("yes")))
	equal(t, "ran", snap.State.ran(), "old yes")
	rec := taped(t, store, "t")

	ran = 0
	same(t, g, rec)
	equal(t, "times that the first node ran", ran, 1)
	var ds []graph.Difference
	for d, err := range build("new", 1).Replay(bg, rec, graph.ReplayOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
	if len(ds) != 1 {
		t.Fatalf("differences are %v, want one", ds)
	}
	d := ds[0]
	equal(t, "namespace", d.Namespace, asked.Tasks[0].Inside)
	equal(t, "difference", fmt.Sprint(d.Step, d.SubStep, d.Path, d.Node, d.Field, d.Want, d.Got), `1 1 [sub]firstNote"old""new"`)
	equal(t, "checkpoint", string(d.Checkpoint), asked.Checkpoint)
	equalSlice(t, "of another input", differences(t, build("old", 2), rec), []string{"1 sub/ state N: 1 | 2"})
}

// No record stands for what a subgraph was about when it failed.
func TestAReplayTellsOfASubgraphWhoseFailureItsCallerHandles(t *testing.T) {
	build := func(word string, opts ...graph.Option) *graph.Graph[trail] {
		in := graph.New[trail]("inner")
		in.AddNode("w", func(_ context.Context, s *trail) error { s.Note = word; return nil })
		inner := compile(t, in.AddEdge(graph.Start, "w"))
		mid := graph.New[trail]("mid")
		mid.AddNode("m", func(ctx context.Context, s *trail) error {
			if _, err := graph.Call(ctx, "i", inner, func(*trail) error { return nil }); err != nil {
				return err
			}
			return errors.New("no luck")
		}, graph.Contains(inner))
		middle := compile(t, mid.AddEdge(graph.Start, "m"))
		b := graph.New[trail]("root")
		b.AddNode("n", func(ctx context.Context, s *trail) error {
			if _, err := graph.Call(ctx, "a", middle, func(*trail) error { return nil }); err != nil {
				s.Ran.Add("handled")
			}
			return nil
		}, graph.Contains(middle))
		return compile(t, b.AddEdge(graph.Start, "n"), opts...)
	}
	store := checkpoint.NewMemory()
	g := build("old", graph.WithCheckpointer(store))
	if _, err := g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })); err != nil {
		t.Fatal(err)
	}
	rec := taped(t, store, "t")
	same(t, g, rec)
	equalSlice(t, "differences", differences(t, build("new"), rec), []string{`1 n/m/w state Note: "old" | "new"`})
}
