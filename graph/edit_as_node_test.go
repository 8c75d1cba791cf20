package graph_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// What an edit as a node leads to and waits already runs once, on what the edit wrote,
// whatever is done to the thread before the superstep ends.
func TestEditAsANodeWhoseSuccessorsWait(t *testing.T) {
	t.Run("edges", func(t *testing.T) {
		for name, between := range map[string]func(t *testing.T, g *graph.Graph[trail]){
			"nothing": func(*testing.T, *graph.Graph[trail]) {},
			"an edit": func(t *testing.T, g *graph.Graph[trail]) {
				must[*graph.Snapshot[trail]](t)(g.Thread("t").Edit(bg, func(s *trail) error {
					s.N = 5
					return nil
				}))
			},
			"an input": func(t *testing.T, g *graph.Graph[trail]) {
				must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *trail) error {
					s.N = 5
					return nil
				})))
			},
		} {
			t.Run(name, func(t *testing.T) {
				b := visits(graph.New[trail]("g"), "a", "b", "z").AddNode("c", func(ctx context.Context, s *trail) error {
					_, err := graph.Interrupt[bool](ctx, "q", nil)
					s.Ran.Add("c")
					return err
				})
				b.AddEdge(graph.Start, "a").AddEdge("a", "b").AddEdge("a", "c").AddEdge("b", "z")
				g := compile(t, b, append(stored(), graph.InterruptBefore("b", "c"))...)
				must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
				must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "a", func(s *trail) error {
					s.Ran.Add("edit")
					return nil
				}))
				snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(nil)))
				equal(t, "interrupted", snap.Interrupted(), true)
				between(t, g)
				snap = must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
				equal(t, "done", snap.Done(), true)
				equal(t, "state", snap.State.ran(), "a edit b c z")
			})
		}
	})
	t.Run("a deferred node", func(t *testing.T) {
		b := visits(graph.New[trail]("g"), "a").AddNode("d", visit("d"), graph.Defer())
		b.AddEdge(graph.Start, "a").AddEdge("a", "d")
		equal(t, "state", editedAsA(t, b, "d"), "a edit d")
	})
	t.Run("a join", func(t *testing.T) {
		b := visits(graph.New[trail]("g"), "a", "b", "j")
		b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddJoin([]string{"a", "b"}, "j")
		equal(t, "state", editedAsA(t, b, "j"), "a b edit j")
	})
}

// editedAsA runs a graph up to a node, edits the thread as "a", and runs it to its end.
func editedAsA(t *testing.T, b *graph.Builder[trail], before string) string {
	t.Helper()
	g := compile(t, b, append(stored(), graph.InterruptBefore(before))...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	must[*graph.Snapshot[trail]](t)(g.Thread("t").EditAs(bg, "a", func(s *trail) error {
		s.Ran.Add("edit")
		return nil
	}))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Continue()))
	equal(t, "done", snap.Done(), true)
	return snap.State.ran()
}
