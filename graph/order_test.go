package graph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

func TestW4LiveAndStoredOrderAreOne(t *testing.T) {
	b := graph.New[trail]("g")
	names := strings.Split("hgfedcba", "")
	for _, n := range names {
		b.AddNode(n, visit(n)).AddEdge(graph.Start, n)
	}
	g := compile(t, b, stored()...)
	for turn := 1; turn <= 40; turn++ { // far enough for snapshots
		live := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil }))).State.ran()
		read := must[*graph.Snapshot[trail]](t)(g.Thread("t").State(bg)).State.ran()
		equal(t, "live", live, strings.TrimSpace(strings.Repeat(strings.Join(names, " ")+" ", turn)))
		equal(t, "stored", read, live)
	}
}

func TestW4AnEditOfThePastStaysOnItsBranch(t *testing.T) {
	g := abc(t)
	end := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	old := entriesOf(t, g.Thread("t"))[2]
	edited := must[*graph.Snapshot[trail]](t)(g.Thread("t").At(old.Checkpoint).Edit(bg, func(s *trail) error {
		s.Ran.Add("edit")
		return nil
	}))
	equal(t, "the edit's branch", edited.State.ran(), "a edit")
	equal(t, "the other branch", must[*graph.Snapshot[trail]](t)(g.Thread("t").At(end.Checkpoint).State(bg)).State.ran(), "a b c")
	for _, e := range entriesOf(t, g.Thread("t").At(end.Checkpoint)) {
		s := must[trail](t)(e.State(bg))
		if strings.Contains(s.ran(), "edit") {
			t.Errorf("checkpoint of step %d shows %q", e.Step, s.ran())
		}
	}
}

func TestW4ListsInsideASubgraphAreReadBack(t *testing.T) {
	ran := &calls{}
	store := checkpoint.NewMemory()
	c := childGraph(t, ran, true)
	g := mounted(t, c, ran, graph.WithCheckpointer(store))
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	for ns := range snap.Tasks[0].Subgraphs {
		inner := must[*graph.Snapshot[child]](t)(c.Thread("t", graph.WithCheckpointer(store), graph.Namespace(ns)).State(bg))
		equal(t, "list", fmt.Sprint(inner.State.Log), "[first hi]")
	}
}

func TestW18AFastBranchDoesNotWaitForASlowSibling(t *testing.T) {
	// Nodes of one superstep wait for each other; a branch that is to run at
	// its own pace is a subgraph.
	done := make(chan struct{})
	fast := visits(graph.New[trail]("fast"), "one", "two")
	fast.AddNode("three", func(_ context.Context, s *trail) error { close(done); s.Ran.Add("three"); return nil })
	fast.AddEdge(graph.Start, "one").AddSequence("one", "two", "three")
	b := graph.New[trail]("g")
	b.AddNode("slow", func(ctx context.Context, s *trail) error {
		<-done // a deadlock if the fast branch waited for this superstep
		s.Ran.Add("slow")
		return nil
	})
	graph.AddSubgraph(b, "branch", compile(t, fast), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Ran.Add(c.Ran.Slice()...) }})
	b.AddEdge(graph.Start, "slow").AddEdge(graph.Start, "branch")
	g := compile(t, b)
	equal(t, "ran", must[*graph.Snapshot[trail]](t)(g.Invoke(bg, nil)).State.ran(), "slow one two three")
}

func TestW18TheEndOfAFastTaskIsToldAtOnce(t *testing.T) {
	told := make(chan struct{})
	b := graph.New[trail]("g")
	b.AddNode("slow", func(context.Context, *trail) error { <-told; return nil })
	b.AddNode("fast", visit("fast"))
	b.AddEdge(graph.Start, "slow").AddEdge(graph.Start, "fast")
	for ev, err := range compile(t, b).Stream(bg, nil, graph.Modes(graph.ModeTasks), graph.LiveOrder()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == graph.EventTaskEnd && ev.Node == "fast" {
			close(told)
		}
	}
}
