package graph_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

type hinted struct {
	Hint graph.Ephemeral[string]
	Ran  graph.List[string]
}

// An Ephemeral that is over inside a subgraph with shared state is over for the graph
// that contains it; one that the subgraph's last superstep sets is for what follows.
func TestAnEphemeralOfASharedSubgraphEndsWithItsStep(t *testing.T) {
	saw := func(name string, s *hinted) { s.Ran.Add(fmt.Sprintf("%s:%s", name, s.Hint.Get())) }
	for name, stop := range map[string]bool{"in one run": false, "resumed inside": true} {
		t.Run(name, func(t *testing.T) {
			inner := graph.New[hinted]("inner").AddNode("a", func(_ context.Context, s *hinted) error {
				saw("a", s)
				s.Hint.Set("of a")
				return nil
			}).AddNode("b", func(ctx context.Context, s *hinted) error {
				if stop {
					if _, err := graph.Interrupt[bool](ctx, "go", nil); err != nil {
						return err
					}
				}
				saw("b", s)
				return nil
			}).AddNode("c", func(_ context.Context, s *hinted) error {
				saw("c", s)
				if s.Ran.Len() > 5 {
					s.Hint.Set("of c")
				}
				return nil
			}).AddSequence("a", "b", "c").SetEntryPoint("a")
			b := graph.New[hinted]("outer")
			sub := compile(t, inner)
			part := func(s *hinted) *hinted { return s }
			graph.AddShared(b, "first", sub, part)
			graph.AddShared(b, "second", sub, part)
			for _, name := range []string{"x", "y"} {
				b.AddNode(name, func(_ context.Context, s *hinted) error { saw(name, s); return nil })
			}
			b.AddSequence("first", "x", "second", "y").SetEntryPoint("first")
			store := checkpoint.NewMemory()
			g := compile(t, b, graph.WithCheckpointer(store))
			snap := must[*graph.Snapshot[hinted]](t)(g.Thread("t").Invoke(bg, g.Input(func(*hinted) error { return nil })))
			for len(snap.Interrupts) > 0 {
				snap = must[*graph.Snapshot[hinted]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
			}
			equal(t, "what was readable", fmt.Sprint(snap.State.Ran), "[a: b:of a c: x: a: b:of a c: y:of c]")
			same(t, g, taped(t, store, "t"))
		})
	}
}
