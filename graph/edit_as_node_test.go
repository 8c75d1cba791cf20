package graph_test

import (
	"context"
	"strconv"
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
				equal(t, "interrupted", len(snap.Interrupts) > 0, true)
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

// Several tasks of a node wait: an edit completes the one that it names, and the others
// run on what they were sent.
func TestAnEditCompletesTheTaskThatItNames(t *testing.T) {
	b := graph.New[trail]("g")
	work := graph.AddTask(b, "work", func(ctx context.Context, s *trail, n int) error {
		if _, err := graph.Interrupt[bool](ctx, "ok", n); err != nil {
			return err
		}
		s.Ran.Add(strconv.Itoa(n))
		return nil
	})
	b.AddCommandNode("split", func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(work.Send(1), work.Send(2), work.Send(3)), nil
	}).AddEdge(graph.Start, "split")
	g := compile(t, b, stored()...)
	th := g.Thread("t")
	snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	second := snap.Tasks[1].ID
	edits := []graph.Edit[trail]{{AsNode: "work", Task: second, Apply: func(s *trail) error { s.Ran.Add("edited"); return nil }}}
	snap = must[*graph.Snapshot[trail]](t)(th.BulkEdit(bg, edits))
	var status []string
	for _, task := range snap.Tasks {
		status = append(status, task.Status)
	}
	equalSlice(t, "status", status, []string{"interrupted", "done", "interrupted"})
	for _, task := range []string{second, "nonsense"} { // it is done, or there is none
		_, err := th.BulkEdit(bg, []graph.Edit[trail]{{AsNode: "work", Task: task}})
		equal(t, "task", wantErr[*graph.InvalidEdgeError](t, err).Target, task)
	}
	_, err := th.BulkEdit(bg, []graph.Edit[trail]{{AsNode: "split", Task: snap.Tasks[0].ID}})
	wantErr[*graph.InvalidEdgeError](t, err)
	answers := graph.Answers{}
	for _, q := range snap.Interrupts {
		answers[q.ID] = true
	}
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(answers)))
	equal(t, "ran", snap.State.ran(), "edited 1 3")
	equal(t, "done", snap.Done(), true)
}
