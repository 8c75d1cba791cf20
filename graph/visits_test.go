package graph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

// A node whose changes an edit has folded, and whose Ephemeral waits for the
// superstep's end, has run once.
func TestANodeThatAnEditHasFoldedIsVisitedOnce(t *testing.T) {
	g := passingBeside(t, checkpoint.NewMemory())
	must[*graph.Snapshot[passing]](t)(g.Thread("t").Edit(bg, func(s *passing) error {
		s.Note = "edited"
		return nil
	}))
	must[*graph.Snapshot[passing]](t)(g.Thread("t").Invoke(bg, g.Answer(1)))
	var told []string
	for _, ev := range must[[]graph.Event](t)(collect(g.Thread("t").Stream(bg, g.Continue(), graph.Modes(graph.ModeUpdates), graph.Since("")))) {
		if ev.Node == "a" {
			told = append(told, string(ev.Update))
		}
	}
	equalSlice(t, "told of a", told, []string{`{"Ran":["a"],"Once":"from a"}`})
	history := entriesOf(t, g.Thread("t"))
	for _, n := range must[*draw.Graph](t)(g.Thread("t").Drawing(bg, 0)).Nodes {
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

// What a node did under its former name is drawn over the node.
func TestRunsOfOlderProgramsAreDrawnOverRenamedNodes(t *testing.T) {
	opts := stored()
	build := func(first, second string) *graph.Graph[trail] {
		b := graph.New[trail]("g")
		formerly := func(old, name string) []graph.NodeOption {
			if old == name {
				return nil
			}
			return []graph.NodeOption{graph.Formerly(old)}
		}
		b.AddNode(first, visit(first), formerly("first", first)...)
		b.AddNode(second, func(ctx context.Context, s *trail) error {
			_, err := graph.Interrupt[int](ctx, "n", nil)
			return err
		}, formerly("second", second)...)
		return compile(t, b.AddEdge(graph.Start, first).AddEdge(first, second), opts...)
	}
	must[*graph.Snapshot[trail]](t)(build("first", "second").Thread("t").Invoke(bg, graph.Requests[trail]{}.Input(func(*trail) error { return nil })))
	g := build("one", "two")
	var drawn []string
	for _, n := range must[*draw.Graph](t)(g.Thread("t").Drawing(bg, 0)).Nodes {
		drawn = append(drawn, fmt.Sprint(n.ID, " ", n.Status, " ", n.Visits))
	}
	equalSlice(t, "drawn", drawn[1:3], []string{"one visited 1", "two interrupted 0"})
}
