package graph_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Of tasks that two edits of one superstep have folded, the later one's Ephemeral is
// for what follows: it was written later than what the first edit has folded.
func TestAnEphemeralThatALaterEditFoldsReplacesThatOfAnEarlierOne(t *testing.T) {
	store := checkpoint.NewMemory()
	runs := new(calls)
	b := graph.New[passing]("g")
	b.AddNode("a", func(_ context.Context, s *passing) error { s.Once.Set("from a"); s.Ran.Add("a"); return nil })
	for _, name := range []string{"b", "c"} {
		b.AddNode(name, func(ctx context.Context, s *passing) error {
			if _, err := graph.Interrupt[int](ctx, name, nil); err != nil {
				return err
			}
			runs.add(name)
			s.Ran.Add(name)
			if name == "b" {
				s.Once.Set("from b")
			}
			return nil
		})
	}
	b.AddNode("after", func(_ context.Context, s *passing) error {
		s.Ran.Add("after sees [" + s.Once.Get() + "]")
		return nil
	})
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddEdge(graph.Start, "c").AddEdge("a", "after")
	g := compile(t, b, graph.WithCheckpointer(store))
	must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Input(func(*passing) error { return nil })))
	must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, func(s *passing) error {
		s.Note = "1"
		return nil
	}))
	must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"b": 1})))
	for _, note := range []string{"2", "3"} {
		snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, func(s *passing) error {
			s.Note = note
			return nil
		}))
		equal(t, "what is seen", snap.State.Once.Get(), "from b")
		equal(t, "next", strings.Join(snap.Next, " "), "c")
	}
	snap := must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{"c": 1})))
	equal(t, "ran", strings.Join(snap.State.Ran.Slice(), " "), "a b c after sees [from b]")
	equal(t, "runs of b", runs.of("b"), 1)
	same(t, g, taped(t, store, "t"))
}
