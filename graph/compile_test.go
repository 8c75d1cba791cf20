package graph_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

func TestCompileReportsEverythingAtOnce(t *testing.T) { // SYN-14, TRPC-04, SYN-09
	b := visits(graph.New[trail]("bad"), "a", "b", "a", "", graph.Start, "*", "island", "j")
	b.AddNode("nothing", nil)
	b.AddEdge("a", "bb").AddEdge("ghost", "b").AddEdge(graph.End, "a").AddEdge("a", graph.Start)
	b.AddRoutes("a", func(context.Context, *trail) (string, error) { return "", nil }, map[string]string{"yes": "nowhere"})
	b.AddConditionalEdges("b", nil, "nirvana")
	b.AddJoin([]string{"a", "a"}, "j").AddJoin(nil, "j").AddJoin([]string{"a"}, "gone")
	_, err := b.Compile(graph.InterruptBefore("brk"), graph.MaxSteps(-1))
	e := wantErr[*graph.CompileError](t, err)
	for _, want := range []string{
		`node "a" is added twice`, "empty name", `"__start__" is reserved`, `"*" means every node`, `"nothing" has a nil function`,
		"no entry", `"bb", which is not a node; did you mean "b"?`, `"ghost"`, `"nowhere"`, "nil router", `"nirvana"`, `names "a" twice`,
		"waits for nothing", `"gone"`, `"brk"`, "MaxSteps(-1)",
	} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q is not reported in\n%v", want, e)
		}
	}
}

func TestCompileFindsWhatCannotBeReached(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "island", "j")
	b.AddEdge(graph.Start, "a").AddJoin([]string{"a", "island"}, "j")
	_, err := b.Compile()
	e := wantErr[*graph.CompileError](t, err)
	if len(e.Problems) != 2 || !strings.Contains(e.Error(), "can't complete") || !strings.Contains(e.Error(), `nothing leads to node "island"`) {
		t.Error(e)
	}
}

func TestCompileRefusesJoinsOfNodesThatAlwaysChoose(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c", "d")
	b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddJoin([]string{"a", "b"}, "d")
	b.AddRoutes("a", func(context.Context, *trail) (string, error) { return "d", nil }, map[string]string{"c": "c", "d": "d"})
	_, err := b.Compile()
	refused := func(err error) {
		t.Helper()
		e := wantErr[*graph.CompileError](t, err)
		if p := e.Problems[0]; len(e.Problems) != 1 || p.Name != "a" || !strings.Contains(p.Text, `"a", "b" into "d"`) || !strings.Contains(p.Fix, "zero Command") {
			t.Error(e)
		}
	}
	refused(err)

	labels := map[string]string{"c": "c", "d": "d"}
	schema := func(add func(b *graph.Builder[graph.SchemaState])) error {
		b := graph.NewSchemaGraph("g", graph.NewSchema())
		for _, n := range []string{"a", "b", "c", "d"} {
			graph.AddMapNode(b, n, func(context.Context, graph.MapState) (any, error) { return nil, nil })
		}
		b.AddEdge(graph.Start, "a").AddEdge(graph.Start, "b").AddJoin([]string{"a", "b"}, "d")
		add(b)
		_, err := b.Compile()
		return err
	}
	refused(schema(func(b *graph.Builder[graph.SchemaState]) {
		b.AddRoutes("a", func(context.Context, *graph.SchemaState) (string, error) { return "c", nil }, labels)
	}))
	if err := schema(func(b *graph.Builder[graph.SchemaState]) {
		b.AddConditionalEdges("a", func(context.Context, *graph.SchemaState) (graph.Command, error) { return graph.Command{}, nil }, "c", "d")
	}); err != nil {
		t.Error(err)
	}
}

func TestCompileReportsWhatCannotBeReachedBesideOtherMistakes(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "island", "j")
	b.AddEdge(graph.Start, "a").AddJoin([]string{"a", "island"}, "j").AddNode("nothing", nil).AddEdge("a", "nothing")
	_, err := b.Compile(graph.InterruptBefore("aa"))
	e := wantErr[*graph.CompileError](t, err)
	if len(e.Problems) != 4 || !strings.Contains(e.Error(), "can't complete") || !strings.Contains(e.Error(), `nothing leads to node "island"`) {
		t.Error(e)
	}
}

func TestCompileReportsNothingThatFollowsFromAnotherMistake(t *testing.T) {
	for name, wrong := range map[string]func(b *graph.Builder[trail]){
		"a target misspelt":   func(b *graph.Builder[trail]) { b.AddEdge(graph.Start, "first").AddEdge("first", "secnd") },
		"a source misspelt":   func(b *graph.Builder[trail]) { b.AddEdge(graph.Start, "first").AddEdge("frst", "second") },
		"no entry":            func(b *graph.Builder[trail]) { b.AddEdge("second", "first") },
		"an entry misspelt":   func(b *graph.Builder[trail]) { b.AddEdge(graph.Start, "fist").AddEdge("first", "second") },
		"an entry of another": func(b *graph.Builder[trail]) { b.AddEdge(graph.Start, "other").AddEdge("first", "second") },
		"a join misspelt": func(b *graph.Builder[trail]) {
			b.AddEdge(graph.Start, "first").AddJoin([]string{"first", "third"}, "second")
		},
		"a label misspelt": func(b *graph.Builder[trail]) {
			b.AddEdge(graph.Start, "first").AddRoutes("first", func(context.Context, *trail) (string, error) { return "", nil }, map[string]string{"x": "sekond"})
		},
		"a router misplaced": func(b *graph.Builder[trail]) {
			b.AddEdge(graph.Start, "first").AddConditionalEdges("frist", func(context.Context, *trail) (graph.Command, error) { return graph.Command{}, nil })
		},
	} {
		b := visits(graph.New[trail]("g"), "first", "second")
		wrong(b)
		_, err := b.Compile()
		if e := wantErr[*graph.CompileError](t, err); len(e.Problems) != 1 {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestCompileExplainsFieldTypes(t *testing.T) {
	type bad struct {
		Names []string
		Ages  map[string]int
		Next  *int
		inner int
		Any   any
	}
	_ = bad{}.inner
	b := graph.New[bad]("g")
	b.AddNode("a", func(context.Context, *bad) error { return nil }).AddEdge(graph.Start, "a")
	_, err := b.Compile()
	e := wantErr[*graph.CompileError](t, err)
	equal(t, "problems", len(e.Problems), 5)
	for _, want := range []string{"graph.List[string]", "graph.Map[string, int]", "graph.Value", "inner"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q is not in\n%v", want, e)
		}
	}
	n := graph.New[int]("g")
	n.AddNode("a", func(context.Context, *int) error { return nil }).AddEdge(graph.Start, "a")
	_, err = n.Compile()
	wantErr[*graph.CompileError](t, err)
}

func TestLargePlainStateIsAWarning(t *testing.T) {
	type big struct{ A [8192]byte }
	b := graph.New[big]("g")
	b.AddNode("a", func(context.Context, *big) error { return nil }).AddEdge(graph.Start, "a")
	equal(t, "warnings", len(compile(t, b).Warnings()), 1)
}

func TestCompilingTwiceGivesIndependentGraphs(t *testing.T) { // W20
	b := visits(graph.New[trail]("g"), "a")
	b.AddEdge(graph.Start, "a")
	compile(t, b, graph.MaxSteps(1))
	compile(t, b, graph.MaxSteps(2))
}

func TestNodeNamesAreArbitraryStrings(t *testing.T) { // SYN-08
	names := []string{"two words", `quo"ted`, "ünï→code", "pi|pe", "new\nline", "end", "a]b", "`tick`", "<b>"}
	b := visits(graph.New[trail](`name "of" it`), names...)
	b.AddEdge(graph.Start, names[0]).AddSequence(names...)
	g := compile(t, b, stored()...)
	snap := must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	equalSlice(t, "ran", snap.State.Ran.Slice(), names)
	for _, d := range []string{draw.Mermaid(g.Drawing(0), nil), draw.DOT(g.Drawing(0)), g.String(), string(draw.SVG(g.Drawing(0), nil))} {
		if d == "" {
			t.Error("no drawing")
		}
	}
	es := entriesOf(t, g.Thread("t"))
	equalSlice(t, "nodes", es[0].Nodes, []string{"<b>"})
}

func TestDrawingsOfTheReActGraph(t *testing.T) { // SYN-31 to 34, SYN-13, SYN-01
	b := visits(graph.New[trail]("react"), "agent", "tools")
	b.SetEntryPoint("agent").AddEdge("tools", "agent")
	b.AddRoutes("agent", func(context.Context, *trail) (string, error) { return "tools", nil }, map[string]string{"tools": "tools", graph.End: graph.End})
	g := compile(t, b)
	equal(t, "mermaid", strings.TrimSpace(draw.Mermaid(g.Drawing(0), nil)), strings.TrimSpace(`
graph TD
    __start__(["__start__"])
    agent["agent"]
    tools["tools"]
    __end__(["__end__"])
    __start__ --> agent
    tools --> agent
    agent -.-> |tools| tools
    agent -.-> |__end__| __end__
`))
	equal(t, "text", g.String(), strings.TrimSpace(`
Graph:
  Nodes: agent, tools
  Entry: __start__ -> agent
  Edges:
    tools -> agent
    agent -> __end__ | tools  [conditional]
`))
	if dot := draw.DOT(g.Drawing(0)); !strings.HasPrefix(dot, "digraph G {\n    rankdir=TD;") || !strings.Contains(dot, `[style=dashed, label="tools"]`) {
		t.Error(dot)
	}
	open := visits(graph.New[trail]("open"), "agent", "tools")
	open.SetEntryPoint("agent").AddEdge("tools", "agent")
	open.AddConditionalEdges("agent", func(context.Context, *trail) (graph.Command, error) { return graph.Goto("tools"), nil })
	g = compile(t, open)
	if !strings.Contains(draw.Mermaid(g.Drawing(0), nil), "%% agent has conditional edge (path_map not provided)") || !strings.Contains(g.String(), "agent -> ???  [conditional]") {
		t.Error(draw.Mermaid(g.Drawing(0), nil), g.String())
	}
}

func TestJoinsIntoOneNodeAreDrawnApart(t *testing.T) {
	b := visits(graph.New[trail]("g"), "a", "b", "c", "z")
	for _, n := range []string{"a", "b", "c"} {
		b.AddEdge(graph.Start, n)
	}
	b.AddJoin([]string{"a", "b"}, "z").AddJoin([]string{"a", "c"}, "z")
	if s := compile(t, b).String(); !strings.Contains(s, "    a + b -> z  [join]\n    a + c -> z  [join]") {
		t.Error(s)
	}
}

func TestDrawingARunAndSubgraphs(t *testing.T) {
	ran := &calls{}
	g := mounted(t, childGraph(t, ran, true), ran, stored()...)
	must[*graph.Snapshot[trail]](t)(g.Thread("t").Invoke(bg, g.Input(func(*trail) error { return nil })))
	d := must[*draw.Graph](t)(g.Thread("t").Drawing(bg, -1))
	status := map[string]string{}
	for _, n := range d.Nodes {
		status[n.ID] = string(n.Status)
		if n.ID == "sub" && n.Sub == nil {
			t.Error("the subgraph is drawn closed")
		}
	}
	equal(t, "visited", status["before"], "visited")
	equal(t, "waiting", status["sub"], "interrupted")
	equal(t, "not yet", status["after"], "")
}

func TestAGraphDoesNotChangeWithWhatItWasMadeFrom(t *testing.T) {
	sources, ways := []string{"b", "c"}, []string{"a", "b"}
	b := visits(graph.New[trail]("made"), "a", "b", "c", "d")
	b.AddEdge("a", "b").AddEdge("a", "c").AddJoin(sources, "d").AddConditionalEdges("a", func(context.Context, *trail) (graph.Command, error) { return graph.Command{}, nil }, ways...)
	b.SetEntryPoint("a")
	g := b.MustCompile()
	drawn := draw.Mermaid(g.Drawing(0), nil)
	sources[0], ways[0] = "x", "x"
	visits(b, "e").AddEdge("d", "e").AddEdge("e", "a").AddJoin([]string{"d", "e"}, "a").SetEntryPoint("b")
	equal(t, "drawing", draw.Mermaid(g.Drawing(0), nil), drawn)
	snap, err := g.Invoke(t.Context(), nil)
	equal(t, "error", err, nil)
	equal(t, "ran", strings.Join(snap.Recent, " "), "a b c d")
}
