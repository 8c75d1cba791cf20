package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// What waits inside of subgraphs is read and edited by its namespace, whatever
// its type.
func TestSubgraphsAreReachedByTheirNamespace(t *testing.T) {
	type inner struct {
		Word string `json:"word"`
	}
	type outer struct {
		Text string `json:"text"`
	}
	in := graph.New[inner]("inner")
	in.AddNode("ask", func(ctx context.Context, s *inner) error {
		word, err := graph.Interrupt[string](ctx, "word", s.Word)
		s.Word = word + s.Word
		return err
	})
	in.AddEdge(graph.Start, "ask")
	middle := graph.New[outer]("middle")
	graph.AddSubgraph(middle, "deep", in.MustCompile(), graph.Mapping[outer, inner]{
		In:  func(p *outer, c *inner) { c.Word = p.Text },
		Out: func(c *inner, p *outer) { p.Text = c.Word },
	})
	middle.AddEdge(graph.Start, "deep")
	out := graph.New[outer]("outer")
	graph.AddSubgraph(out, "sub", middle.MustCompile(), graph.Mapping[outer, outer]{
		In:  func(p, c *outer) { c.Text = p.Text },
		Out: func(c, p *outer) { p.Text = c.Text },
	})
	out.AddEdge(graph.Start, "sub")
	store := graph.WithCheckpointer(checkpoint.NewMemory())
	g := out.MustCompile(store)
	th := graph.Thread("t")
	snap, err := g.Invoke(t.Context(), func(s *outer) { s.Text = "x" }, th)
	if err != nil {
		t.Fatal(err)
	}
	ns := ""
	for ns = range snap.Tasks[0].Subgraphs {
	}
	sub, ok := g.SubgraphIn(ns)
	if !ok || sub.Name() != "middle" {
		t.Fatalf("in %q there is %v", ns, sub)
	}
	part, err := sub.StateJSON(t.Context(), th, graph.WithCheckpointer(checkpoint.NewMemory()), graph.Namespace(ns))
	if !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("in another store: %v, %v", part, err)
	}
	if part, err = sub.StateJSON(t.Context(), th, store, graph.Namespace(ns)); err != nil || string(part.State) != `{"text":"x"}` {
		t.Fatalf("%v, %v", part, err)
	}
	for ns = range part.Tasks[0].Subgraphs {
	}
	if sub, ok = g.SubgraphIn(ns); !ok || sub.Name() != "inner" {
		t.Fatalf("in %q there is %v", ns, sub)
	}
	if part, err = sub.UpdateStateJSON(t.Context(), []byte(`{"word":"y"}`), th, store, graph.Namespace(ns)); err != nil || string(part.State) != `{"word":"y"}` {
		t.Fatalf("%v, %v", part, err)
	}
	if _, err = sub.UpdateStateJSON(t.Context(), []byte(`{"wort":"y"}`), th, store, graph.Namespace(ns)); err == nil || !strings.Contains(err.Error(), "wort") {
		t.Errorf("a field that there isn't: %v", err)
	}
	if snap, err = g.Resume(t.Context(), "a", th); err != nil || snap.State.Text != "ay" {
		t.Errorf("after an edit inside, the answer leads to %q, %v", snap.State.Text, err)
	}
	for _, none := range []string{"", "sub", "/su", "/sub2", "/sub:1/other", "/sub/deep:1/more"} {
		if sub, ok := g.SubgraphIn(none); ok {
			t.Errorf("in %q there is %s", none, sub.Name())
		}
	}
	if sub, ok := g.Subgraph("sub", "deep"); !ok || sub.Name() != "inner" {
		t.Errorf("by its path it is %v", sub)
	}
	if _, ok := g.Subgraph(); ok {
		t.Error("no path leads somewhere")
	}
}
