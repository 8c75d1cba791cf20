package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// A run of a graph that shares its parent's state shows the whole of it, what the
// parent and the graphs around it wrote before and what was edited since.
func TestARunThatSharesItsParentsStateShowsIt(t *testing.T) {
	type leaf struct{ Items graph.List[string] }
	type middle struct {
		leaf
		Depth int
	}
	type top struct {
		middle
		Title string
	}
	add := func(items *graph.List[string], what string) { items.Add(fmt.Sprint(what, " saw ", items.Len())) }
	lb := graph.New[leaf]("leaf")
	lb.AddNode("first", func(_ context.Context, s *leaf) error { add(&s.Items, "first"); return nil })
	lb.AddNode("ask", func(ctx context.Context, s *leaf) error {
		_, err := graph.Interrupt[bool](ctx, "go", nil)
		add(&s.Items, "ask")
		return err
	})
	lb.AddEdge(graph.Start, "first").AddEdge("first", "ask")
	mb := graph.New[middle]("middle")
	mb.AddNode("before", func(_ context.Context, s *middle) error { add(&s.Items, "before"); s.Depth = 1; return nil })
	graph.AddShared(mb, "leaf", compile(t, lb), func(p *middle) *leaf { return &p.leaf })
	mb.AddEdge(graph.Start, "before").AddEdge("before", "leaf")
	tb := graph.New[top]("top")
	tb.AddNode("a", func(_ context.Context, s *top) error { add(&s.Items, "a"); return nil })
	graph.AddShared(tb, "middle", compile(t, mb), func(p *top) *middle { return &p.middle })
	tb.AddEdge(graph.Start, "a").AddEdge("a", "middle")
	opts := stored()
	g := compile(t, tb, opts...)
	snap := must[*graph.Snapshot[top]](t)(g.Invoke(bg, func(s *top) { s.Title = "t"; s.Items.Add("in") }))

	inside := func(tasks []graph.TaskState) string {
		for ns := range tasks[0].Subgraphs {
			return ns
		}
		t.Fatal("no subgraph")
		return ""
	}
	look := func(ns string) *graph.Snapshot[json.RawMessage] {
		sub, ok := g.SubgraphIn(ns)
		if !ok {
			t.Fatalf("no graph in %q", ns)
		}
		return must[*graph.Snapshot[json.RawMessage]](t)(sub.StateJSON(bg, append(opts, graph.Namespace(ns))...))
	}
	m := look(inside(snap.Tasks))
	equal(t, "middle", string(m.State), `{"Items":["in","a saw 1","before saw 2"],"Depth":1}`)
	ns := inside(m.Tasks)
	equal(t, "leaf", string(look(ns).State), `{"Items":["in","a saw 1","before saw 2","first saw 3"]}`)

	sub, _ := g.SubgraphIn(ns)
	edited := must[*graph.Snapshot[json.RawMessage]](t)(sub.UpdateStateJSON(bg, json.RawMessage(`{"Items":["edited"]}`), append(opts, graph.Namespace(ns))...))
	equal(t, "edited leaf", string(edited.State), `{"Items":["in","a saw 1","before saw 2","first saw 3","edited"]}`)
	snap = must[*graph.Snapshot[top]](t)(g.Resume(bg, true))
	equal(t, "items", strings.Join(snap.State.Items.Slice(), ", "), "in, a saw 1, before saw 2, first saw 3, edited, ask saw 5")
}
