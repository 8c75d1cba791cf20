package graph_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// What a task says of its subgraph's log before it calls it comes true, also when its
// first try was given up and the superstep begins again, and also inside of another
// subgraph.
func TestATaskNamesTheLogOfItsSubgraphBeforeItCallsIt(t *testing.T) {
	type state struct{ Text string }
	same := graph.Mapping[state, state]{In: func(p, c *state) { *c = *p }, Out: func(c, p *state) { *p = *c }}
	ask := graph.New[state]("ask")
	ask.AddNode("ask", func(ctx context.Context, s *state) error {
		_, err := graph.Interrupt[string](ctx, "q", s.Text)
		return err
	}).AddEdge(graph.Start, "ask")
	middle := graph.New[state]("middle")
	graph.AddSubgraph(middle, "deep", ask.MustCompile(), same)
	middle.AddEdge(graph.Start, "deep")
	b := graph.New[state]("outer")
	graph.AddSubgraph(b, "own", middle.MustCompile(), same)
	graph.AddShared(b, "shared", ask.MustCompile(graph.KeepState()), func(s *state) *state { return s })
	graph.AddSubgraph(b, "keeping", ask.MustCompile(graph.KeepState()), same)
	b.AddNode("plain", func(context.Context, *state) error { return nil })
	for _, n := range []string{"own", "shared", "keeping", "plain"} {
		b.AddEdge(graph.Start, n)
	}
	store := graph.WithCheckpointer(checkpoint.NewMemory())
	g := b.MustCompile(store)
	th := "t"
	named := func(snap *graph.Snapshot[state]) map[string]string {
		out := map[string]string{}
		for _, task := range snap.Tasks {
			out[task.Node] = task.Inside
			for ns := range task.Subgraphs {
				if ns != task.Inside {
					t.Errorf("%s is in %s, and says %s", task.Node, ns, task.Inside)
				}
			}
		}
		return out
	}
	snap, err := g.Thread(th).Invoke(t.Context(), g.Input(func(s *state) error {
		s.Text = "x"
		return nil
	}), graph.InterruptBefore("*"))
	if err != nil {
		t.Fatal(err)
	}
	before := named(snap)
	if before["plain"] != "" || before["keeping"] != "|keeping" || before["own"] == "" {
		t.Errorf("before: %v", before)
	}
	if snap, err = g.Thread(th).Invoke(t.Context(), g.Continue()); err != nil {
		t.Fatal(err)
	}
	waiting := named(snap)
	for _, task := range snap.Tasks {
		if task.Node != "plain" && (len(task.Subgraphs) != 1 || task.Inside != before[task.Node]) {
			t.Errorf("%s is in %v, and said %s", task.Node, task.Subgraphs, before[task.Node])
		}
	}
	part, err := g.Thread(th).Inside(waiting["own"]).State(t.Context())
	if err != nil || len(part.Tasks) != 1 || part.Tasks[0].Subgraphs[part.Tasks[0].Inside] == "" {
		t.Errorf("inside of it: %+v, %v", part, err)
	}
	// The superstep begins again.
	if snap, err = g.Thread(th).Invoke(t.Context(), g.RestartStep(), graph.InterruptBefore("*")); err != nil {
		t.Fatal(err)
	}
	again := named(snap)
	if again["own"] == waiting["own"] || again["keeping"] != "|keeping" {
		t.Errorf("the second time: %v, after %v", again, waiting)
	}
	if snap, err = g.Thread(th).Invoke(t.Context(), g.Continue()); err != nil {
		t.Fatal(err)
	}
	if got := named(snap); got["own"] != again["own"] || len(snap.Tasks[0].Subgraphs) != 1 {
		t.Errorf("it said %v, and is in %v", again, got)
	}
}

// The breakpoints of a handle are nodes of its graph, not of the graphs inside.
func TestInsideAHandleWithBreakpoints(t *testing.T) {
	inner := compile(t, visits(graph.New[trail]("inner"), "x").AddEdge(graph.Start, "x"), graph.InterruptBefore("x"))
	b := graph.New[trail]("outer")
	graph.AddShared(b, "sub", inner, func(s *trail) *trail { return s })
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	th := g.Thread("t", graph.InterruptBefore("sub"), graph.InterruptAfter("sub"))
	must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Input(func(*trail) error { return nil })))
	snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, th.Answer(nil)))
	equalSlice(t, "next inside", must[*graph.Snapshot[json.RawMessage]](t)(th.Inside(snap.Tasks[0].Inside).State(bg)).Next, []string{"x"})
}
