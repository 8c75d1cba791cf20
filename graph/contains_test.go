package graph_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

// pet is the state of a graph that asks whether an animal may stay.
type pet struct {
	Animal string
	Stays  bool
}

func keeper(t testing.TB, name string, opts ...graph.Option) *graph.Graph[pet] {
	return compile(t, graph.New[pet](name).AddNode("ask", func(ctx context.Context, s *pet) (err error) {
		s.Stays, err = graph.Interrupt[bool](ctx, "stay", name+": may it stay?")
		return err
	}).AddEdge(graph.Start, "ask"), opts...)
}

// house has a node that keeps animals, each by the graph that its payload names.
func house(t testing.TB, opts ...graph.Option) *graph.Graph[trail] {
	cats, dogs := keeper(t, "cats"), childGraph(t, &calls{}, true)
	b := graph.New[trail]("house")
	keep := graph.AddCommandTask(b, "keep", func(ctx context.Context, s *trail, with string) (graph.Command, error) {
		if with == "child" {
			_, err := graph.Call(ctx, "", dogs, func(c *child) error { c.In = "dog"; return nil })
			s.Ran.Add(with)
			return graph.Command{}, err
		}
		_, err := graph.Call(ctx, "", cats, func(c *pet) error { c.Animal = "cat"; return nil })
		s.Ran.Add(with)
		return graph.Command{}, err
	}, graph.Contains(cats), graph.Contains(dogs))
	b.AddConditionalEdges(graph.Start, func(context.Context, *trail) (graph.Command, error) {
		return graph.Dispatch(keep.Send("cats"), keep.Send("child")), nil
	}, "keep")
	return compile(t, b, opts...)
}

// A node that runs one of several graphs: each run is found by its namespace, with the state
// of the graph that has it, and may be edited there.
func TestRunsOfANodeThatContainsSeveralGraphsAreFound(t *testing.T) {
	g := house(t, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(noInput)))
	equal(t, "questions", len(snap.Interrupts), 2)
	nested := must[*graph.Snapshot[trail]](t)(g.Thread("t").Nested(bg))
	for i, want := range []string{`{"Animal":"cat","Stays":false}`, `{"In":"dog","Log":["first dog"],"Runs":1}`} {
		task := nested.Tasks[i]
		equal(t, "namespace", task.Inside, "|keep:"+task.ID)
		if s := task.States[task.Inside]; s == nil || string(s.State) != want {
			t.Errorf("state inside task %d: %+v, want %s", i, s, want)
		}
		at := g.Thread("t").Inside(task.Inside)
		equal(t, "state", string(must[*graph.Snapshot[json.RawMessage]](t)(at.State(bg)).State), want)
		entries := 0
		for e, err := range at.History(bg, graph.HistoryQuery{}) {
			if err != nil || e.Checkpoint == "" {
				t.Fatal(e, err)
			}
			entries++
		}
		if entries < 2 {
			t.Errorf("history inside task %d has %d entries", i, entries)
		}
	}
	edited := must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(nested.Tasks[1].Inside).Edit(bg, graph.UpdateWith(json.RawMessage(`{"Log":["edited"]}`))))
	if !strings.Contains(string(edited.State), `"first dog","edited"`) {
		t.Errorf("edited: %s", edited.State)
	}
	if _, err := g.Thread("t").Inside(nested.Tasks[0].Inside + "|nothing:1").State(bg); err == nil {
		t.Error("a namespace that no graph of the node has is taken")
	}
	done := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Answer(graph.Answers{snap.Interrupts[0].ID: true, snap.Interrupts[1].ID: "yes"})))
	equal(t, "ran", done.State.ran(), "cats child")
}

func TestSeveralGraphsOfANodeHaveTheirNamesInPaths(t *testing.T) {
	g := house(t, stored()...)
	if _, ok := g.Subgraph("keep"); ok {
		t.Error("the node alone says which graph it is")
	}
	cats, ok := g.Subgraph("keep", "cats")
	if !ok || cats.Name() != "cats" {
		t.Error("no graph cats")
	}
	if text := draw.Mermaid(g.Drawing(-1), nil); !strings.Contains(text, "cats") || !strings.Contains(text, "second") {
		t.Error(text)
	}
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(noInput), graph.For("keep/child", graph.InterruptBefore("second"))))
	paused := slices.ContainsFunc(snap.Interrupts, func(i graph.Interrupted) bool { return i.When == "before" && i.Node == "second" })
	if !paused || len(snap.Interrupts) != 2 {
		t.Errorf("%+v", snap.Interrupts)
	}
	_, err := g.Thread("u").Invoke(bg, g.Input(noInput), graph.For("keep", graph.InterruptBefore("second")))
	wantErr[*graph.InvalidEdgeError](t, err)
}

// A payload that is a pointer may be missing.
func TestAnEdgeLeadsToATaskWhosePayloadMayBeMissing(t *testing.T) {
	b := graph.New[trail]("g")
	each := graph.AddTask(b, "each", func(_ context.Context, s *trail, in *string) error {
		if in == nil {
			in = new(string)
		}
		s.Ran.Add("each(" + *in + ")")
		return nil
	})
	b.AddEdge(graph.Start, "each").AddConditionalEdges("each", func(_ context.Context, s *trail) (graph.Command, error) {
		switch s.Ran.Len() {
		case 1:
			return graph.Dispatch(each.Send(new("a")), each.Send(new("b"))), nil
		case 2:
			return graph.Goto("each"), nil
		}
		return graph.Goto(graph.End), nil
	}, "each", graph.End)
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(noInput)))
	equal(t, "ran", snap.State.ran(), "each() each(a) each(b) each()")
}
