package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// research is a graph with a subgraph "ask" in its subgraph "research", whose node "a"
// runs fn, and with "other" beside it, which runs it as well.
func research(t *testing.T, fn func(context.Context, *trail) error, opts ...graph.Option) *graph.Builder[trail] {
	note := graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Note += c.Note; p.N += c.N }}
	ask := compile(t, one(fn), opts...)
	middle := graph.AddSubgraph(graph.New[trail]("middle"), "ask", ask, note).AddEdge(graph.Start, "ask")
	b := graph.AddSubgraph(graph.New[trail]("outer"), "research", compile(t, middle), note)
	graph.AddSubgraph(b, "other", ask, note)
	return b.AddSequence(graph.Start, "research", "other")
}

func TestOptionsForAGraphInsideHoldThereAlone(t *testing.T) {
	type who string
	fn := func(ctx context.Context, s *trail) error {
		d, _ := graph.Deps[who](ctx)
		m, err := graph.Configured[manner](ctx)
		s.Note = string(d) + " " + m.Tone + " " + strings.Join(graph.Info(ctx).Path, "/") + "; "
		return err
	}
	run := func(b *graph.Builder[trail], opts []graph.Option, call ...graph.RunOption) string {
		t.Helper()
		return must[*graph.Snapshot[trail]](t)(compile(t, b, opts...).Invoke(bg, nil, call...)).State.Note
	}
	tone := func(s string) graph.SubgraphOption { return graph.Configure(func(m *manner) { m.Tone = s + m.Tone }) }
	b := research(t, fn, graph.Configurable(plainly()))
	equal(t, "none", run(b, nil), " plain research/ask;  plain other; ")
	equal(t, "the innermost", run(b, nil, graph.UseDeps(who("root")), graph.For("research/ask", graph.UseDeps(who("ann")), tone("dry "))), "ann dry plain research/ask; root plain other; ")
	equal(t, "in it and what is inside", run(b, nil, graph.For("research", graph.UseDeps(who("ann")))), "ann plain research/ask;  plain other; ")
	equal(t, "For in For", run(b, nil, graph.For("research", graph.For("ask", tone("dry ")))), " dry plain research/ask;  plain other; ")
	equal(t, "a call goes over Compile", run(b, []graph.Option{graph.For("other", graph.UseDeps(who("ann")), tone("dry "))}, graph.For("other", graph.UseDeps(who("bob")), tone("very "))), " plain research/ask; bob very dry plain other; ")
	equal(t, "over the run's configuration", run(b, []graph.Option{graph.Configurable(plainly())}, tone("loud "), graph.For("other", tone("very "))), " loud plain research/ask;  very loud plain other; ")

	// What the middle graph was compiled with gives way to what the outer one says.
	inner := graph.AddSubgraph(graph.New[trail]("middle"), "ask", compile(t, one(fn), graph.Configurable(plainly())), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Note = c.Note }})
	middle := compile(t, inner.AddEdge(graph.Start, "ask"), graph.For("ask", graph.UseDeps(who("own")), tone("own ")))
	outer := graph.AddSubgraph(graph.New[trail]("outer"), "research", middle, graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.Note = c.Note }}).AddEdge(graph.Start, "research")
	equal(t, "its own", run(outer, nil), "own own plain research/ask; ")
	equal(t, "the outer one's", run(outer, nil, graph.For("research/ask", graph.UseDeps(who("ann")))), "ann own plain research/ask; ")
}

func TestLimitsForAGraphInside(t *testing.T) {
	inner := graph.New[trail]("inner")
	inner.AddNode("a", func(_ context.Context, s *trail) error { s.N++; return nil })
	inner.AddEdge(graph.Start, "a")
	inner.AddConditionalEdges("a", func(_ context.Context, s *trail) (graph.Command, error) {
		if s.N < 5 {
			return graph.Goto("a"), nil
		}
		return graph.EndRun(), nil
	}, "a")
	b := graph.AddSubgraph(graph.New[trail]("outer"), "sub", compile(t, inner, graph.MaxSteps(2)), graph.Mapping[trail, trail]{Out: func(c, p *trail) { p.N = c.N }})
	g := compile(t, b.AddEdge(graph.Start, "sub"), stored()...)
	th := g.Thread("t")
	_, err := th.Invoke(bg, g.Input(func(*trail) error { return nil }))
	wantErr[*graph.LimitError](t, err)
	_, err = th.Invoke(bg, g.Continue(), graph.For("sub", graph.MaxSteps(9), graph.AtMostSteps(3)))
	wantErr[*graph.LimitError](t, err)
	equal(t, "N", must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Continue(), graph.For("sub", graph.MaxSteps(9)))).State.N, 5)
}

func TestBreakpointsInAGraphInside(t *testing.T) {
	b := research(t, func(_ context.Context, s *trail) error { s.N++; return nil })
	g := compile(t, b, stored()...)
	th := g.Thread("t", graph.For("research/ask", graph.InterruptBefore("a")))
	snap := must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Input(func(*trail) error { return nil })))
	equal(t, "interrupts", len(snap.Interrupts), 1)
	equal(t, "where", strings.Join(append(snap.Interrupts[0].Path, snap.Interrupts[0].Node, snap.Interrupts[0].When), "/"), "research/ask/a/before")
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Answer(nil), graph.For("other", graph.InterruptAfter("*"))))
	equal(t, "then", strings.Join(append(snap.Interrupts[0].Path, snap.Interrupts[0].Node, snap.Interrupts[0].When), "/"), "other/a/after")
	snap = must[*graph.Snapshot[trail]](t)(th.Invoke(bg, g.Answer(nil)))
	equal(t, "N", snap.State.N, 2)
	equal(t, "done", snap.Done(), true)
}

func TestAPathToNoGraphInsideIsAnErrorWithTheNearest(t *testing.T) {
	b := research(t, func(context.Context, *trail) error { return nil })
	g := compile(t, b)
	for path, near := range map[string]string{"reserch/ask": "research/ask", "research/aks": "research/ask", "oter": "other", "": "", "other/a": ""} {
		_, err := g.Invoke(bg, nil, graph.For(path, graph.MaxSteps(3)))
		e := wantErr[*graph.InvalidEdgeError](t, err)
		if e.Target != path || near != "" && e.Near != near || !strings.Contains(err.Error(), "which is not a subgraph") {
			t.Errorf("%q: %v, near %q", path, err, e.Near)
		}
	}
	for name, o := range map[string]graph.SubgraphOption{
		"not a subgraph": graph.For("reserch", graph.MaxSteps(3)), "positive": graph.For("research", graph.MaxSteps(0)),
		`names "b"`: graph.For("research/ask", graph.InterruptBefore("b")), `names "asc"`: graph.For("research", graph.For("asc")),
	} {
		_, err := b.Compile(o)
		if ce := (*graph.CompileError)(nil); !errors.As(err, &ce) || !strings.Contains(err.Error(), name) {
			t.Errorf("Compile: %s: %v", name, err)
		}
		if _, err := g.Thread("t", o).Invoke(bg, g.Continue()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Thread: %s: %v", name, err)
		}
	}
	if _, err := g.Invoke(bg, nil, graph.For("other", graph.InterruptBefore("a"))); !errors.Is(err, graph.ErrNoCheckpointer) {
		t.Errorf("a breakpoint without a store: %v", err)
	}
}
