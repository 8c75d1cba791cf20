package graph_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Where a question was open it can be answered otherwise, also while the superstep is
// open in which it was answered.
func TestAQuestionIsAnsweredOtherwiseWhereItWasOpen(t *testing.T) {
	store := checkpoint.NewMemory()
	b := graph.New[trail]("g")
	for _, name := range []string{"c", "d"} {
		b.AddNode(name, func(ctx context.Context, s *trail) error {
			answer, err := graph.Interrupt[int](ctx, name, nil)
			if err != nil {
				return err
			}
			s.Ran.Add(fmt.Sprint(name, answer))
			return nil
		}).AddEdge(graph.Start, name)
	}
	g := compile(t, b, graph.WithCheckpointer(store), graph.Thread("t"), graph.Sequential())
	asked := must[*graph.Snapshot[trail]](t)(g.Invoke(bg, func(*trail) {}))
	must[*graph.Snapshot[trail]](t)(g.Resume(bg, graph.Answers{"c": 1}))
	then := must[*graph.Snapshot[trail]](t)(g.State(bg, graph.From(asked.Checkpoint)))
	equal(t, "what was open", fmt.Sprint(then.Next, len(then.Interrupts), then.State.Ran), "[c d] 2 []")
	forked := must[*graph.Snapshot[trail]](t)(g.Fork(bg, asked.Parent)) // before anything was asked
	equal(t, "what is stored of the fork", fmt.Sprint(must[*graph.Snapshot[trail]](t)(g.State(bg)).State.Ran), fmt.Sprint(forked.State.Ran))
	snap := must[*graph.Snapshot[trail]](t)(g.Resume(bg, graph.Answers{"c": 2, "d": 2}, graph.From(asked.Checkpoint)))
	equal(t, "ran", snap.State.ran(), "c2 d2")
	same(t, g, taped(t, store, "t"))
}
