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
	th := "t"
	snap, err := g.Thread(th).Invoke(t.Context(), g.Input(func(s *outer) error {
		s.Text = "x"
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ns := ""
	for ns = range snap.Tasks[0].Subgraphs {
	}
	part, err := g.Thread(th, graph.WithCheckpointer(checkpoint.NewMemory())).Inside(ns).State(t.Context())
	if !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("in another store: %v, %v", part, err)
	}
	if part, err = g.Thread(th).Inside(ns).State(t.Context()); err != nil || string(part.State) != `{"text":"x"}` {
		t.Fatalf("%v, %v", part, err)
	}
	for ns = range part.Tasks[0].Subgraphs {
	}
	sub := g.Thread(th).Inside(ns)
	if part, err = sub.Edit(t.Context(), graph.UpdateWith([]byte(`{"word":"y"}`))); err != nil || string(part.State) != `{"word":"y"}` {
		t.Fatalf("%v, %v", part, err)
	}
	for e, err := range sub.History(t.Context(), graph.HistoryQuery{Limit: 1}) {
		if err != nil || e.Source != "update" {
			t.Errorf("its newest checkpoint is of source %q, %v", e.Source, err)
		}
	}
	if _, err := sub.Invoke(t.Context(), sub.Continue()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a subgraph's run is continued by itself: %v", err)
	}
	if _, err = sub.Edit(t.Context(), graph.UpdateWith([]byte(`{"wort":"y"}`))); err == nil || !strings.Contains(err.Error(), "wort") {
		t.Errorf("a field that there isn't: %v", err)
	}
	if snap, err = g.Thread(th).Invoke(t.Context(), g.Answer("a")); err != nil || snap.State.Text != "ay" {
		t.Errorf("after an edit inside, the answer leads to %q, %v", snap.State.Text, err)
	}
	for _, none := range []string{"", "sub", "|su", "|sub2", "|sub:1|other", "|sub|deep:1|more"} {
		if snap, err := g.Thread(th).Inside(none).State(t.Context()); err == nil || errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("in %q there is %v, %v", none, snap, err)
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
	g := compile(t, tb, stored()...)
	snap := must[*graph.Snapshot[top]](t)(g.Thread("t").Invoke(bg, g.Input(func(s *top) error {
		s.Title = "t"
		s.Items.Add("in")
		return nil
	})))

	inside := func(tasks []graph.TaskState) string {
		for ns := range tasks[0].Subgraphs {
			return ns
		}
		t.Fatal("no subgraph")
		return ""
	}
	look := func(ns string) *graph.Snapshot[json.RawMessage] {
		return must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(ns).State(bg))
	}
	m := look(inside(snap.Tasks))
	equal(t, "middle", string(m.State), `{"Items":["in","a saw 1","before saw 2"],"Depth":1}`)
	ns := inside(m.Tasks)
	equal(t, "leaf", string(look(ns).State), `{"Items":["in","a saw 1","before saw 2","first saw 3"]}`)

	edited := must[*graph.Snapshot[json.RawMessage]](t)(g.Thread("t").Inside(ns).Edit(bg, graph.UpdateWith(json.RawMessage(`{"Items":["edited"]}`))))
	equal(t, "edited leaf", string(edited.State), `{"Items":["in","a saw 1","before saw 2","first saw 3","edited"]}`)
	snap = must[*graph.Snapshot[top]](t)(g.Thread("t").Invoke(bg, g.Answer(true)))
	equal(t, "items", strings.Join(snap.State.Items.Slice(), ", "), "in, a saw 1, before saw 2, first saw 3, edited, ask saw 5")
}

// A thread is read with all that is open inside of it, at any checkpoint as it was there.
func TestAThreadIsReadWithWhatIsInsideOfIt(t *testing.T) {
	type inner struct{ Word string }
	type outer struct {
		trail
		Word string
	}
	deep := graph.New[inner]("deep")
	deep.AddNode("ask", func(ctx context.Context, s *inner) error {
		first, err := graph.Interrupt[string](ctx, "first", nil)
		if err != nil {
			return err
		}
		s.Word = first
		return nil
	})
	deep.AddNode("again", func(ctx context.Context, s *inner) error {
		second, err := graph.Interrupt[string](ctx, "second", nil)
		s.Word += second
		return err
	})
	deep.AddEdge(graph.Start, "ask").AddEdge("ask", "again")
	shared := visits(graph.New[trail]("shared"), "one").AddEdge(graph.Start, "one").AddEdge("one", "call")
	shared.AddNode("call", func(ctx context.Context, s *trail) error {
		s.Note = "calling"
		for _, key := range []string{"a", "b"} {
			in, err := graph.Call(ctx, key, deep.MustCompile(), func(c *inner) error { c.Word = key; return nil })
			if err != nil {
				return err
			}
			s.Ran.Add(in.Word)
		}
		return nil
	}, graph.Contains(deep.MustCompile()))
	b := graph.New[outer]("outer")
	graph.AddShared(b, "sub", shared.MustCompile(), func(s *outer) *trail { return &s.trail })
	b.AddNode("beside", func(_ context.Context, s *outer) error { s.Word = "done"; return nil })
	b.AddEdge(graph.Start, "sub").AddEdge(graph.Start, "beside")
	g := compile(t, b, graph.WithCheckpointer(checkpoint.NewMemory()))
	th := g.Thread("t")

	// look returns what the deepest open graph has, and its questions.
	look := func(th *graph.Thread[outer]) string {
		t.Helper()
		snap, err := th.Nested(bg)
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Tasks) == 0 {
			return "ended"
		}
		if len(snap.Tasks) != 2 || len(snap.Tasks[0].States) != 1 || snap.Tasks[1].States != nil {
			t.Fatalf("got %+v", snap.Tasks)
		}
		for ns, sub := range snap.Tasks[0].States {
			var mid trail
			if err := json.Unmarshal(sub.State, &mid); err != nil || mid.ran() != "one" || sub.Namespace != ns {
				t.Fatalf("got %+v, %v", sub, err)
			}
			text := ""
			for _, d := range sub.Tasks[0].States {
				if _, ok := sub.Tasks[0].Subgraphs[d.Namespace]; !ok {
					t.Errorf("%s is not in %v", d.Namespace, sub.Tasks[0].Subgraphs)
				}
				if d.Done() {
					continue
				}
				var in inner
				if err := json.Unmarshal(d.State, &in); err != nil {
					t.Fatal(err)
				}
				text += fmt.Sprint(in.Word, " asks ", d.Interrupts[0].Key)
			}
			return text
		}
		return ""
	}
	snap, err := th.Invoke(bg, g.Input(func(*outer) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	first := snap.Checkpoint
	if got := look(th); got != "a asks first" {
		t.Fatalf("got %q", got)
	}
	for i, want := range []string{"x asks second", "b asks first", "x asks second", "ended"} {
		if snap, err = th.Invoke(bg, g.Answer([]string{"x", "y", "x", "z"}[i])); err != nil {
			t.Fatal(err)
		}
		if got := look(th); got != want {
			t.Errorf("after answer %d: got %q, want %q", i+1, got, want)
		}
		if got := look(th.At(first)); got != "a asks first" {
			t.Errorf("after answer %d, where it stood first: got %q", i+1, got)
		}
	}
	if got := snap.State.ran(); got != "one xy xz" {
		t.Errorf("ended with %q", got)
	}
	// A branch of what waited shows its own, whatever the other branch has come to.
	if _, err := th.At(first).Fork(bg); err != nil {
		t.Fatal(err)
	}
	if got := look(th); got != "a asks first" {
		t.Errorf("a fork: got %q", got)
	}
	if _, err := g.Thread("none").Nested(bg); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
