package graph_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// TRPC-58: a node can look whether its question has an answer without asking: it is
// absent, present, of a wrong type, and used up when the node has succeeded.
func TestANodeLooksWhetherItsQuestionIsAnswered(t *testing.T) {
	var log []string
	b := graph.New[trail]("g").AddNode("ask", func(ctx context.Context, s *trail) error {
		v, has, err := graph.Answered[string](ctx, "ok")
		_, _, wrong := graph.Answered[int](ctx, "ok")
		var refused *graph.AnswerError
		log = append(log, fmt.Sprintf("%q %v %v, as a number: %v", v, has, err, errors.As(wrong, &refused)))
		if _, has, err := graph.Answered[string](ctx, "other"); has || err != nil {
			log = append(log, "other is there")
		}
		if !has {
			v = "default"
		}
		s.Note = v
		_, err = graph.Interrupt[string](ctx, "ok", "fine?")
		s.N++
		return err
	})
	b.AddEdge(graph.Start, "ask")
	b.AddConditionalEdges("ask", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.N < 2 {
			return graph.Goto("ask"), nil
		}
		return graph.Goto(graph.End), nil
	}, "ask", graph.End)
	th := compile(t, b, stored()...).Thread("t")
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput)))
	for _, answer := range []string{"yes", "again"} {
		must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(answer)))
	}
	equalSlice(t, "log", log, []string{
		`"" false <nil>, as a number: false`, `"yes" true <nil>, as a number: true`,
		`"" false <nil>, as a number: false`, `"again" true <nil>, as a number: true`,
	})
	if _, _, err := graph.Answered[string](bg, "ok"); !errors.Is(err, graph.ErrNotInNode) {
		t.Error(err)
	}
}

// TRPC-55: the snapshot of an interrupted run has its checkpoint, metadata and parent,
// and what the parallel sibling that finished has written.
func TestASnapshotHasWhatAFinishedSiblingWroteBesideAQuestion(t *testing.T) {
	b := graph.New[trail]("g").AddNode("good", visit("good")).AddNode("asks", func(ctx context.Context, _ *trail) error {
		_, err := graph.Interrupt[bool](ctx, "ok", "fine?")
		return err
	})
	g := compile(t, b.AddEdge(graph.Start, "good").AddEdge(graph.Start, "asks"), stored()...)
	th := g.Thread("lineage", graph.Namespace("svc:prod:flowX"))
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(noInput), graph.Metadata("by", "anna")))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("lineage", graph.Namespace("svc:prod:flowX")).State(bg))
	equal(t, "written by the sibling", snap.State.ran(), "good")
	equal(t, "namespace", snap.Namespace, "svc:prod:flowX")
	if snap.Checkpoint == "" || snap.Parent == "" || snap.Parent == snap.Checkpoint || snap.CreatedAt.IsZero() || snap.Metadata["by"] != "anna" {
		t.Errorf("%+v", snap)
	}
	equal(t, "status of the sibling", snap.Tasks[0].Status, "done")
	equal(t, "question", snap.Interrupts[0].Node, "asks")
	at := must[*graph.Snapshot[trail]](t)(th.At(snap.Checkpoint).State(bg))
	equal(t, "the same by its checkpoint", at.State.ran(), "good")
}
