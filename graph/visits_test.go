package graph_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// A node whose changes an edit has folded, and whose Ephemeral waits for the
// superstep's end, has run once.
func TestANodeThatAnEditHasFoldedIsVisitedOnce(t *testing.T) {
	g := passingBeside(t, checkpoint.NewMemory())
	must[*graph.Snapshot[passing]](t)(g.UpdateState(bg, func(s *passing) { s.Note = "edited" }))
	snap := must[*graph.Snapshot[passing]](t)(g.Resume(bg, 1))
	var told []string
	for _, ev := range must[[]graph.Event](t)(collect(g.Stream(bg, nil, graph.Modes(graph.ModeUpdates), graph.Since("")))) {
		if ev.Node == "a" {
			told = append(told, string(ev.Update))
		}
	}
	equalSlice(t, "told of a", told, []string{`{"Once":"from a","Ran":["a"]}`})
	history := entriesOf(t, g)
	for _, n := range g.Drawing(graph.Overlay(history, snap)).Nodes {
		if n.ID == "a" {
			equal(t, "visits of a", n.Visits, 1)
		}
	}
	var nodes []string
	for _, e := range history {
		nodes = append(nodes, e.Nodes...)
	}
	equal(t, "a in the history", strings.Count(" "+strings.Join(nodes, " ")+" ", " a "), 1)
}
