package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/plan"
)

func nodes(names ...string) []plan.NodeSpec {
	var ns []plan.NodeSpec
	for _, n := range names {
		n, attr, _ := strings.Cut(n, ":")
		ns = append(ns, plan.NodeSpec{Name: n, Task: attr == "task", Command: attr == "command", Nil: attr == "nil", Defer: attr == "defer"})
	}
	return ns
}

func edges(list ...string) []plan.EdgeSpec {
	var es []plan.EdgeSpec
	for _, e := range list {
		from, to, _ := strings.Cut(e, ">")
		es = append(es, plan.EdgeSpec{From: name(from), To: name(to)})
	}
	return es
}

func name(s string) string {
	switch s {
	case "start":
		return plan.Start
	case "end":
		return plan.End
	}
	return s
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name string
		spec plan.Spec
		want []string // kind | node | text; fix
	}{
		{"no nodes", plan.Spec{},
			[]string{`no entry||the graph has no nodes; add a node with AddNode`}},
		{"empty name", plan.Spec{Nodes: nodes("a", ""), Edges: edges("start>a")},
			[]string{`bad name||a node has an empty name; give it a name`}},
		{"duplicate", plan.Spec{Nodes: nodes("a", "a"), Edges: edges("start>a")},
			[]string{`duplicate node|a|node "a" is added twice; rename or remove one of them`}},
		{"reserved", plan.Spec{Nodes: nodes("a", plan.Start, plan.End, "*"), Edges: edges("start>a")},
			[]string{
				`reserved name|__start__|"__start__" is reserved and can't be added as a node; choose another name; the entry and the end need not be added`,
				`reserved name|__end__|"__end__" is reserved and can't be added as a node; choose another name; the entry and the end need not be added`,
				`reserved name|*|"*" means every node in a list of breakpoints and can't be a node's name; choose another name`,
			}},
		{"nil function", plan.Spec{Nodes: nodes("a:nil"), Edges: edges("start>a")},
			[]string{`nil function|a|node "a" has a nil function; pass the node's function`}},
		{"nil router", plan.Spec{Nodes: nodes("a"), Edges: edges("start>a"), Conditionals: []plan.ConditionalSpec{{From: "a", Nil: true}}},
			[]string{`nil function|a|conditional edge of "a" has a nil router; pass the router`}},
		{"no entry", plan.Spec{Nodes: nodes("a")},
			[]string{`no entry||the graph has no entry; add AddEdge(graph.Start, "a")`}},
		{"two entries", plan.Spec{Nodes: nodes("a", "b"), Entries: []string{"b", "a", "a"}},
			[]string{`two entries||the entry point is set to "a", "b"; keep one, or use AddEdge(Start, ...) for several first nodes`}},
		{"entry and edge", plan.Spec{Nodes: nodes("a", "b"), Entries: []string{"a"}, Edges: edges("start>b")},
			[]string{`two entries|a|the entry point is set to "a" and there is also an edge from Start to "b"; use one of the two forms`}},
		{"unknown entry", plan.Spec{Nodes: nodes("first"), Entries: []string{"frist"}},
			[]string{`unknown node|frist|edge "__start__" to "frist" leads to "frist", which is not a node; did you mean "first"?`}},
		{"unknown nodes", plan.Spec{Nodes: nodes("fetch"), Edges: edges("start>fetch", "fetch>parse", "ftech>end")},
			[]string{
				`unknown node|parse|edge "fetch" to "parse" leads to "parse", which is not a node; add it with AddNode("parse", ...)`,
				`unknown node|ftech|edge "ftech" to "__end__" begins at "ftech", which is not a node; did you mean "fetch"?`,
			}},
		{"edges at the ends", plan.Spec{Nodes: nodes("a"), Edges: edges("start>a", "start>end", "a>start", "end>a")},
			[]string{
				`bad edge||edge from Start leads straight to End; lead it to the first node`,
				`bad edge|__start__|edge "a" to "__start__" leads to "__start__", which nothing can lead to; lead it to the first node instead`,
				`bad edge|__end__|edge "__end__" to "a" begins at "__end__", after which nothing runs; remove it`,
			}},
		{"joins", plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a", "start>b"), Joins: []plan.JoinSpec{
			{nil, "b"}, {[]string{"a", "a"}, "b"}, {[]string{plan.Start, "a"}, "b"}, {[]string{"a"}, plan.End}, {[]string{"a", "c"}, "b"}, {[]string{"a"}, "zz"},
		}},
			[]string{
				`join cannot complete|b|join into "b" waits for nothing; name the nodes to wait for`,
				`join cannot complete|a|join of "a", "a" into "b" names "a" twice; name it once`,
				`join cannot complete|__start__|join of "__start__", "a" into "b" waits for Start; a node that follows Start needs no join`,
				`join cannot complete|__end__|join of "a" into "__end__" leads to End; join into a node`,
				`unknown node|c|join of "a", "c" into "b" begins at "c", which is not a node; add it with AddNode("c", ...)`,
				`unknown node|zz|join of "a" into "zz" leads to "zz", which is not a node; add it with AddNode("zz", ...)`,
			}},
		{"payloads", plan.Spec{Nodes: nodes("a", "b", "w:task"), Edges: edges("start>a", "start>w", "a>b", "a>w"), Joins: []plan.JoinSpec{{[]string{"a", "b"}, "w"}},
			Conditionals: []plan.ConditionalSpec{{From: "b", Labels: []plan.Label{{"more", "w"}, {"done", plan.End}}}}},
			[]string{
				`bad edge|w|edge "__start__" to "w" leads to "w", a task that needs a payload; send to it with the Send method of its task`,
				`bad edge|w|edge "a" to "w" leads to "w", a task that needs a payload; send to it with the Send method of its task`,
				`bad edge|w|join of "a", "b" into "w" leads to "w", a task that needs a payload; send to it with the Send method of its task`,
				`bad edge|w|conditional edge of "b", label "more", leads to "w", a task that needs a payload; send to it with the Send method of its task`,
			}},
		{"conditionals", plan.Spec{Nodes: nodes("alpha"), Edges: edges("start>alpha"), Conditionals: []plan.ConditionalSpec{
			{From: "alhpa", Destinations: []string{"alpha"}},
			{From: "alpha", Destinations: []string{"alpa", plan.Start}},
			{From: "alpha", Labels: []plan.Label{{"yes", "nowhere"}}},
			{From: plan.End},
		}},
			[]string{
				`unknown node|alhpa|conditional edge of "alhpa" begins at "alhpa", which is not a node; did you mean "alpha"?`,
				`unknown node|alpa|conditional edge of "alpha" leads to "alpa", which is not a node; did you mean "alpha"?`,
				`bad edge|__start__|conditional edge of "alpha" leads to "__start__", which nothing can lead to; lead it to the first node instead`,
				`unknown node|nowhere|conditional edge of "alpha", label "yes", leads to "nowhere", which is not a node; add it with AddNode("nowhere", ...)`,
				`bad edge|__end__|conditional edge of "__end__" begins at "__end__", after which nothing runs; remove it`,
			}},
		{"declared destinations", plan.Spec{Nodes: []plan.NodeSpec{{Name: "a", Command: true, Destinations: []string{"b"}}, {Name: "sub", ParentDestinations: []string{"subb"}}}, Edges: edges("start>a", "a>sub")},
			[]string{
				`unknown node|b|declared destination of "a" leads to "b", which is not a node; add it with AddNode("b", ...)`,
				`unknown node|subb|destination of a node inside subgraph "sub" leads to "subb", which is not a node; did you mean "sub"?`,
			}},
		{"breakpoints", plan.Spec{Nodes: nodes("review"), Edges: edges("start>review"), Before: []string{"*", "reviw"}, After: []string{"x"}},
			[]string{
				`unknown breakpoint|reviw|interrupt before names "reviw", which is not a node; did you mean "review"?`,
				`unknown breakpoint|x|interrupt after names "x", which is not a node; add it with AddNode("x", ...)`,
			}},
		{"names that no node can have", plan.Spec{Nodes: nodes("a"), Edges: edges("start>a", "a>", ">a", "a>\xff\xfe", "a>*"), Joins: []plan.JoinSpec{{[]string{"a", ""}, "a"}}, After: []string{""}},
			[]string{
				`unknown node||edge "a" to "" leads to "", which is not a node; give the name of a node`,
				`unknown node||edge "" to "a" begins at "", which is not a node; give the name of a node`,
				"unknown node|\xff\xfe|" + `edge "a" to "\xff\xfe" leads to "\xff\xfe", which is not a node; give the name of a node, which is valid UTF-8`,
				`unknown node|*|edge "a" to "*" leads to "*", which is not a node; give the names of the nodes: "*" means every node in a list of breakpoints alone`,
				`unknown node||join of "a", "" into "a" begins at "", which is not a node; give the name of a node`,
				`unknown breakpoint||interrupt after names "", which is not a node; give the name of a node`,
			}},
		{"an unknown node that may be any of the others", plan.Spec{Nodes: nodes("a", "b", "c", "d"), Edges: edges("start>a", "a>second", "b>c"), Joins: []plan.JoinSpec{{[]string{"a", "c"}, "d"}}},
			[]string{`unknown node|second|edge "a" to "second" leads to "second", which is not a node; add it with AddNode("second", ...)`}},
		{"an unknown node that is surely one", plan.Spec{Nodes: nodes("a", "second", "third"), Edges: edges("start>a", "a>secnd")},
			[]string{
				`unknown node|secnd|edge "a" to "secnd" leads to "secnd", which is not a node; did you mean "second"?`,
				`unreachable node|third|nothing leads to node "third"; lead an edge to it, or declare it as a destination of the node that goes to it`,
			}},
		{"unreachable", plan.Spec{Nodes: nodes("a", "b", "c"), Edges: edges("start>a", "b>c")},
			[]string{
				`unreachable node|b|nothing leads to node "b"; lead an edge to it, or declare it as a destination of the node that goes to it`,
				`unreachable node|c|nothing leads to node "c"; lead an edge to it, or declare it as a destination of the node that goes to it`,
			}},
		{"join that can't complete", plan.Spec{Nodes: nodes("a", "b", "c", "d", "e"), Edges: edges("start>a", "d>e"), Joins: []plan.JoinSpec{{[]string{"a", "b", "c"}, "d"}}},
			[]string{
				`join cannot complete|d|join of "a", "b", "c" into "d" can't complete: nothing leads to "b", "c"; lead an edge to them or remove them from the join`,
				`unreachable node|b|nothing leads to node "b"; lead an edge to it, or declare it as a destination of the node that goes to it`,
				`unreachable node|c|nothing leads to node "c"; lead an edge to it, or declare it as a destination of the node that goes to it`,
				`unreachable node|e|nothing leads to node "e"; lead an edge to it, or declare it as a destination of the node that goes to it`,
			}},
		{"join that waits for a node that never goes there", plan.Spec{Nodes: nodes("a", "b", "c", "d"), Edges: edges("start>a", "start>b", "start>c"),
			Joins: []plan.JoinSpec{{[]string{"a", "b", "c"}, "d"}}, Conditionals: []plan.ConditionalSpec{{From: "a", Labels: []plan.Label{{"x", "c"}}, Chooses: true}, {From: "b"}}},
			[]string{`join cannot complete|a|join of "a", "b", "c" into "d" waits for "a", which never goes there: its router always chooses another way; join the nodes that it leads to, or let its router go on to the join: that of AddConditionalEdges does with the zero Command`}},
		{"join that waits for itself", plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a"), Joins: []plan.JoinSpec{{[]string{"a", "b"}, "b"}}},
			[]string{`join cannot complete|b|join of "a", "b" into "b" can't complete: nothing leads to "b"; lead an edge to them or remove them from the join`}},
		{"all at once", plan.Spec{Nodes: nodes("a", "a", "b:nil"), Edges: edges("a>c"), Joins: []plan.JoinSpec{{nil, "b"}}, Conditionals: []plan.ConditionalSpec{{From: "d"}}, Before: []string{"e"}},
			[]string{
				`duplicate node|a|node "a" is added twice; rename or remove one of them`,
				`nil function|b|node "b" has a nil function; pass the node's function`,
				`no entry||the graph has no entry; add AddEdge(graph.Start, "a")`,
				`unknown node|c|edge "a" to "c" leads to "c", which is not a node; add it with AddNode("c", ...)`,
				`join cannot complete|b|join into "b" waits for nothing; name the nodes to wait for`,
				`unknown node|d|conditional edge of "d" begins at "d", which is not a node; add it with AddNode("d", ...)`,
				`unknown breakpoint|e|interrupt before names "e", which is not a node; add it with AddNode("e", ...)`,
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, problems, _ := plan.Compile(c.spec)
			if g != nil {
				t.Error("a graph with problems was compiled")
			}
			var got []string
			for _, p := range problems {
				got = append(got, p.Kind+"|"+p.Name+"|"+p.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// Graphs in which everything can be reached, each in another way.
func TestReachable(t *testing.T) {
	for _, c := range []struct {
		name string
		spec plan.Spec
	}{
		{"edges", plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a", "a>b", "b>end")}},
		{"entry point", plan.Spec{Nodes: nodes("a", "b"), Entries: []string{"a", "a"}, Edges: edges("a>b", "start>a")}},
		{"join", plan.Spec{Nodes: nodes("a", "b", "c"), Edges: edges("start>a", "start>b"), Joins: []plan.JoinSpec{{[]string{"a", "b"}, "c"}}}},
		{"join in a loop", plan.Spec{Nodes: nodes("a", "b", "c"), Edges: edges("start>a", "a>b", "c>a", "c>end"), Joins: []plan.JoinSpec{{[]string{"a", "b"}, "c"}}}},
		{"labels", plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a"), Conditionals: []plan.ConditionalSpec{{From: "a", Labels: []plan.Label{{"x", "b"}}}}}},
		{"router with destinations", plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a"), Conditionals: []plan.ConditionalSpec{{From: "a", Destinations: []string{"b"}}}}},
		{"router without", plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a"), Conditionals: []plan.ConditionalSpec{{From: "a"}}}},
		{"router at the start", plan.Spec{Nodes: nodes("a"), Conditionals: []plan.ConditionalSpec{{From: plan.Start, Destinations: []string{"a"}}}}},
		{"command", plan.Spec{Nodes: nodes("a:command", "b"), Edges: edges("start>a")}},
		{"command with destinations", plan.Spec{Nodes: append(nodes("b"), plan.NodeSpec{Name: "a", Command: true, Destinations: []string{"b"}}), Edges: edges("start>a")}},
		{"subgraph that goes to its parent", plan.Spec{Nodes: append(nodes("b"), plan.NodeSpec{Name: "a", ParentDestinations: []string{"b"}}), Edges: edges("start>a")}},
		{"what follows a task", plan.Spec{Nodes: nodes("a", "w:task", "b", "c"), Edges: edges("start>a", "w>b"), Joins: []plan.JoinSpec{{[]string{"a", "w"}, "c"}},
			Conditionals: []plan.ConditionalSpec{{From: "a", Destinations: []string{"w"}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, problems, _ := plan.Compile(c.spec)
			if g == nil || len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
		})
	}
}

// A destination that is declared but not taken doesn't make other nodes
// reachable.
func TestDeclaredDestinationsBound(t *testing.T) {
	for _, spec := range []plan.Spec{
		{Nodes: nodes("a", "b", "c"), Edges: edges("start>a"), Conditionals: []plan.ConditionalSpec{{From: "a", Destinations: []string{"b"}}}},
		{Nodes: nodes("a", "b", "c"), Edges: edges("start>a"), Conditionals: []plan.ConditionalSpec{{From: "a", Labels: []plan.Label{{"b", "b"}}}}},
		{Nodes: append(nodes("b", "c"), plan.NodeSpec{Name: "a", Command: true, Destinations: []string{"b"}}), Edges: edges("start>a")},
		{Nodes: append(nodes("b", "c"), plan.NodeSpec{Name: "a", Command: true, Destinations: []string{}}), Edges: edges("start>a", "a>b")},
	} {
		g, problems, _ := plan.Compile(spec)
		if g != nil || len(problems) != 1 || problems[0].Kind != plan.Unreachable || problems[0].Name != "c" {
			t.Errorf("problems are %v, want that c is unreachable", problems)
		}
	}
}

func TestAdvice(t *testing.T) {
	g, problems, advice := plan.Compile(plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a", "a>b", "b>a")})
	if g == nil || len(problems) != 0 || len(advice) != 1 {
		t.Fatalf("compile gives %v, %v, %v, want a graph with advice", g, problems, advice)
	}
	if got, want := advice[0].String(), "every node leads to another: the run ends only at the step limit or by an interrupt or command"; got != want {
		t.Errorf("advice is %q, want %q", got, want)
	}
	g, problems, advice = plan.Compile(plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a", "a>b", "b>a", "b>end")})
	if g == nil || len(problems)+len(advice) != 0 {
		t.Errorf("compile gives %v, %v for a loop that may end", problems, advice)
	}
}

func TestIndex(t *testing.T) {
	spec := plan.Spec{
		Name: "g", Nodes: nodes("a", "b:defer", "c:command", "w:task"),
		Edges: edges("start>b", "start>a", "a>c", "a>end", "a>c", "start>a"),
		Joins: []plan.JoinSpec{{[]string{"b", "a"}, "c"}, {[]string{"a", "b"}, "c"}, {[]string{"b", "a"}, "c"}},
		Conditionals: []plan.ConditionalSpec{
			{From: "a", Destinations: []string{"w"}}, {From: "a", Destinations: []string{"b"}}, {From: plan.Start, Destinations: []string{"a"}},
		},
		Before: []string{"c"}, After: []string{"*"},
	}
	g, problems, _ := plan.Compile(spec)
	if g == nil {
		t.Fatal(problems)
	}
	if !slices.Equal(g.Names(), []string{"a", "b", "c", "w"}) || g.Name != "g" {
		t.Errorf("graph %q has nodes %q", g.Name, g.Names())
	}
	if !slices.Equal(g.Entry, []int{1, 0}) {
		t.Errorf("entry is %v", g.Entry)
	}
	a, b, c, w := g.Nodes[0], g.Nodes[1], g.Nodes[2], g.Nodes[3]
	if !slices.Equal(a.Edges, []int{2, plan.ToEnd}) || a.Routers != 2 || !slices.Equal(a.Joins, []int{0, 1}) {
		t.Errorf("node a is %+v", a)
	}
	if !b.Defer || !c.Command || !w.Task || a.Defer || a.Command || a.Task {
		t.Errorf("nodes are %+v", g.Nodes)
	}
	// A join that is declared twice is one.
	if len(g.Joins) != 2 || g.JoinByID("b+a->c") != 0 || g.JoinByID("a+b->c") != 1 || g.JoinByID("a->c") != -1 {
		t.Errorf("joins are %+v", g.Joins)
	}
	if !slices.Equal(g.Before, []bool{false, false, true, false}) || !slices.Equal(g.After, []bool{true, true, true, true}) {
		t.Errorf("breakpoints are %v and %v", g.Before, g.After)
	}
	if i, ok := g.Node("c"); i != 2 || !ok {
		t.Errorf("node c is %d, %v", i, ok)
	}
	if _, ok := g.Node("x"); ok {
		t.Error("node x is known")
	}
	if g.NameOf(1) != "b" || g.NameOf(plan.ToEnd) != plan.End {
		t.Errorf("names are %q and %q", g.NameOf(1), g.NameOf(plan.ToEnd))
	}
}

// Joins of names that look alike are told apart in records.
func TestJoinIDs(t *testing.T) {
	joins := []plan.JoinSpec{
		{[]string{"a", "b"}, "c"}, {[]string{"a+b"}, "c"}, {[]string{`a\`, "b"}, "c"}, {[]string{"a"}, "b->c"}, {[]string{"a->b"}, "c"},
	}
	g, problems, _ := plan.Compile(plan.Spec{
		Nodes: nodes("a:command", "b", "a+b", "c", `a\`, "b->c", "a->b"), Edges: edges("start>a"), Joins: joins,
	})
	if g == nil {
		t.Fatal(problems)
	}
	if len(g.Joins) != len(joins) {
		t.Fatalf("%d joins were compiled to %+v", len(joins), g.Joins)
	}
	for k, j := range g.Joins {
		if g.JoinByID(j.ID) != k {
			t.Errorf("join %d has the ID %s of join %d", k, j.ID, g.JoinByID(j.ID))
		}
	}
	if g.Joins[0].ID != "a+b->c" {
		t.Errorf("the ID of a plain join is %s", g.Joins[0].ID)
	}
}

func TestBreakpoints(t *testing.T) {
	g, _, _ := plan.Compile(plan.Spec{Nodes: nodes("a", "b"), Edges: edges("start>a", "a>b")})
	for _, c := range []struct {
		names   []string
		set     []bool
		unknown []string
	}{
		{nil, nil, nil},
		{[]string{"b"}, []bool{false, true}, nil},
		{[]string{"*"}, []bool{true, true}, nil},
		{[]string{"x", "a", "y"}, []bool{true, false}, []string{"x", "y"}},
	} {
		set, unknown := g.Breakpoints(c.names)
		if !slices.Equal(set, c.set) || (set == nil) != (c.set == nil) || !slices.Equal(unknown, c.unknown) {
			t.Errorf("breakpoints %q are %v, unknown %q", c.names, set, unknown)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name  string
		names []string
		want  string
	}{
		{"reveiw", []string{"write", "review"}, "review"},
		{"Review", []string{"review"}, "review"},
		{"rev", []string{"review"}, ""},
		{"", []string{"a"}, ""},
		{"a", []string{"b"}, ""},
		{"ab", []string{"b"}, "b"},
		{"node1", []string{"node3", "node2"}, "node3"}, // the first of equals
		{"größe", []string{"grösse", "große"}, "große"},
		{"x", nil, ""},
	} {
		if got := plan.Nearest(c.name, c.names); got != c.want {
			t.Errorf("nearest to %q among %q is %q, want %q", c.name, c.names, got, c.want)
		}
	}
}
