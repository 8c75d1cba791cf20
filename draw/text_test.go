package draw_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/draw/internal/drawtest"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares a drawing with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs from its golden file (run with -update and look at the diff); got:\n%s", name, got)
	}
}

func TestGolden(t *testing.T) {
	for _, s := range drawtest.Samples() {
		t.Run(s.Name, func(t *testing.T) {
			golden(t, s.Name+".mmd", []byte(draw.Mermaid(s.Graph, nil)))
			golden(t, s.Name+".dot", []byte(draw.DOT(s.Graph)))
			golden(t, s.Name+".styled.dot", []byte(draw.StyledDOT(s.Graph, nil)))
			golden(t, s.Name+".ascii", []byte(draw.ASCII(s.Graph)))
			golden(t, s.Name+".diagram", []byte(draw.Diagram(s.Graph, nil)))
			golden(t, s.Name+".svg", draw.SVG(s.Graph, nil))
		})
	}
	golden(t, "react.lr.mmd", []byte(draw.Mermaid(drawtest.ReAct(), &draw.MermaidOptions{Direction: draw.LeftToRight})))
	golden(t, "react.ascii.diagram", []byte(draw.Diagram(drawtest.ReAct(), &draw.DiagramOptions{ASCII: true})))
	golden(t, "service.lr.svg", draw.SVG(drawtest.Service(), &draw.SVGOptions{Layout: draw.LayoutOptions{Direction: draw.LeftToRight}}))
	golden(t, "diamond.options.dot", []byte(draw.StyledDOT(drawtest.Diamond(), &draw.DOTOptions{
		Direction: draw.TopDown, Label: "My \"graph\"", HideStartEnd: true,
	})))
	layout, err := json.MarshalIndent(draw.NewLayout(drawtest.Nested(), nil), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "nested.layout.json", append(layout, '\n'))
}

// The texts that the requirements give to the byte.
func TestExact(t *testing.T) { // SYN-31 to 34
	conditional := &draw.Graph{
		Nodes: []draw.Node{{ID: "b"}, {ID: "a"}},
		Edges: []draw.Edge{
			{From: draw.StartID, To: "a"},
			{From: "a", To: draw.EndID, Kind: draw.EdgeConditional, Label: "done"},
			{From: "a", To: "b", Kind: draw.EdgeConditional, Label: "x"},
			{From: "a", To: "b", Kind: draw.EdgeConditional, Label: "more"},
			{From: "b", To: "a"},
		},
	}
	for _, test := range []struct{ name, got, want string }{
		{"SYN-31", draw.Mermaid(drawtest.ReAct(), nil), `graph TD
    __start__(["__start__"])
    agent["agent"]
    tools["tools"]
    __end__(["__end__"])
    __start__ --> agent
    tools --> agent
    agent -.-> |tools| tools
    agent -.-> |__end__| __end__`},
		{"SYN-31 order", draw.Mermaid(conditional, nil), `graph TD
    __start__(["__start__"])
    a["a"]
    b["b"]
    __end__(["__end__"])
    __start__ --> a
    b --> a
    a -.-> |more| b
    a -.-> |x| b
    a -.-> |done| __end__`},
		{"SYN-31 open", draw.Mermaid(drawtest.OpenRouter(), nil), `graph TD
    __start__(["__start__"])
    agent["agent"]
    tools["tools"]
    __end__(["__end__"])
    __start__ --> agent
    tools --> agent
    %% agent has conditional edge (path_map not provided)`},
		{"SYN-32 linear", draw.ASCII(drawtest.Linear()), `Graph:
  Nodes: a, b
  Entry: __start__ -> a
  Edges:
    a -> b
    b -> __end__`},
		{"SYN-32 conditional", draw.ASCII(drawtest.ReAct()), `Graph:
  Nodes: agent, tools
  Entry: __start__ -> agent
  Edges:
    tools -> agent
    agent -> __end__ | tools  [conditional]`},
		{"SYN-32 open", draw.ASCII(drawtest.OpenRouter()), `Graph:
  Nodes: agent, tools
  Entry: __start__ -> agent
  Edges:
    tools -> agent
    agent -> ???  [conditional]`},
		{"SYN-34 linear", draw.DOT(drawtest.Linear()), `digraph G {
    rankdir=TD;
    "__start__" [shape=oval];
    "a" [shape=box];
    "b" [shape=box];
    "__end__" [shape=oval];
    "__start__" -> "a" [style=solid];
    "a" -> "b" [style=solid];
    "b" -> "__end__" [style=solid];
}`},
		{"SYN-34 conditional", draw.DOT(conditional), `digraph G {
    rankdir=TD;
    "__start__" [shape=oval];
    "a" [shape=box];
    "b" [shape=box];
    "__end__" [shape=oval];
    "__start__" -> "a" [style=solid];
    "b" -> "a" [style=solid];
    "a" -> "b" [style=dashed, label="more"];
    "a" -> "b" [style=dashed, label="x"];
    "a" -> "__end__" [style=dashed, label="done"];
}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", test.got, test.want)
			}
		})
	}
}

// names draws distinct names that are hard on every format.
func names() *rapid.Generator[[]string] {
	name := rapid.OneOf(
		rapid.SampledFrom(drawtest.NastyNames),
		rapid.String(),
		rapid.StringMatching("[a\"'`|\\[\\](){}<>&;:#%\\\\/ \n\t-]{1,8}"),
		rapid.StringMatching("[a-c][_ -]?[a-c]"),
	)
	return rapid.Custom(func(t *rapid.T) []string {
		list := rapid.SliceOfNDistinct(name, 1, 8, rapid.ID).Draw(t, "names")
		return slices.DeleteFunc(list, func(s string) bool { return s == "" || s == draw.StartID || s == draw.EndID })
	})
}

// namedGraph is a graph of nasty names and labels, with a subgraph.
func namedGraph(t *rapid.T) *draw.Graph {
	list := names().Draw(t, "outer")
	g := &draw.Graph{Name: rapid.String().Draw(t, "name")}
	for _, n := range list {
		g.Nodes = append(g.Nodes, draw.Node{ID: n, Description: n, Status: draw.StatusVisited})
	}
	kinds := []draw.EdgeKind{draw.EdgeStatic, draw.EdgeConditional, draw.EdgeDynamic, draw.EdgeJoin}
	for i := range list {
		g.Edges = append(g.Edges, draw.Edge{
			From:  list[i],
			To:    rapid.SampledFrom(list).Draw(t, "to"),
			Kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
			Label: rapid.SampledFrom(list).Draw(t, "label"),
		})
	}
	if len(list) > 1 && rapid.Bool().Draw(t, "nested") {
		inner := names().Draw(t, "inner")
		sub := &draw.Graph{}
		for _, n := range inner {
			sub.Nodes = append(sub.Nodes, draw.Node{ID: n, OpenRouter: true})
		}
		g.Nodes[0].Sub = sub
	}
	return g
}

var (
	mermaidNode = regexp.MustCompile(`^ +([A-Za-z0-9_-]+)(\(\["|\[\["|\[")([^"\[\]|{}\x60<>]|<br/>)*("\]\)|"\]\]|"\])$`)
	mermaidSub  = regexp.MustCompile(`^ +subgraph ([A-Za-z0-9_-]+)\["([^"\[\]|{}\x60<>]|<br/>)*"\]$`)
	mermaidEdge = regexp.MustCompile(`^ +([A-Za-z0-9_-]+) (-->|-\.->|==>) (\|([\p{L}0-9_]+|"([^"\[\]|{}\x60<>]|<br/>)*")\| )?([A-Za-z0-9_-]+)$`)
)

// Every line of a flowchart is one that Mermaid can read, whatever the names,
// and every node has an identifier of its own.
func TestMermaidNames(t *testing.T) { // SYN-08
	check := func(t interface{ Fatalf(string, ...any) }, g *draw.Graph) {
		text := draw.Mermaid(g, nil)
		ids := map[string]bool{}
		var used []string
		for i, line := range strings.Split(text, "\n") {
			node, sub := mermaidNode.FindStringSubmatch(line), mermaidSub.FindStringSubmatch(line)
			edge := mermaidEdge.FindStringSubmatch(line)
			trimmed := strings.TrimSpace(line)
			switch {
			case i == 0 && line == "graph TD", trimmed == "end", strings.HasPrefix(trimmed, "%% "):
			case strings.HasPrefix(trimmed, "classDef "), strings.HasPrefix(trimmed, "class "):
			case edge != nil:
				used = append(used, edge[1], edge[6])
			case node != nil, sub != nil:
				id := append(node, sub...)[1]
				if ids[id] {
					t.Fatalf("%s is two nodes:\n%s", id, text)
				}
				if strings.EqualFold(id, "end") || id == "graph" || id == "subgraph" {
					t.Fatalf("%s is a keyword:\n%s", id, text)
				}
				ids[id] = true
			default:
				t.Fatalf("line %d is not Mermaid: %q\n%s", i+1, line, text)
			}
		}
		for _, id := range used {
			if !ids[id] {
				t.Fatalf("an edge names %s, which no node has:\n%s", id, text)
			}
		}
		want := 2 + len(g.Nodes)
		for _, n := range g.Nodes {
			if n.Sub != nil {
				want += 2 + len(n.Sub.Nodes)
			}
		}
		if len(ids) != want {
			t.Fatalf("%d nodes drawn, want %d:\n%s", len(ids), want, text)
		}
	}
	check(t, drawtest.Nasty())
	rapid.Check(t, func(t *rapid.T) { check(t, namedGraph(t)) })
}

func TestMermaidPlainNamesStay(t *testing.T) {
	for _, name := range []string{"agent", "call_model", "Step1", "human-review", "_x", "__private__"} {
		g := &draw.Graph{Nodes: []draw.Node{{ID: name}}}
		if text := draw.Mermaid(g, nil); !strings.Contains(text, "\n    "+name+`["`+name+`"]`+"\n") {
			t.Errorf("%s was changed:\n%s", name, text)
		}
	}
}

// dotStrings splits DOT text into its quoted strings and the rest.
func dotStrings(text string) (quoted []string, rest string, ok bool) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '"')
		if i < 0 {
			b.WriteString(text)
			return quoted, b.String(), true
		}
		b.WriteString(text[:i])
		text = text[i+1:]
		j := 0
		for j < len(text) && text[j] != '"' {
			if text[j] == '\\' {
				j++
			}
			j++
		}
		if j >= len(text) {
			return nil, "", false
		}
		quoted = append(quoted, text[:j])
		b.WriteByte('@')
		text = text[j+1:]
	}
}

var dotRest = regexp.MustCompile(`^digraph G \{\n( +([a-zA-Z]+=[@a-zA-Z]+;|(node|edge) \[.*\];|subgraph @ \{|\}|@( -> @)? \[[a-zA-Z]+=[@a-z0-9.]+(, [a-zA-Z]+=[@a-z0-9.]+)*\];)\n)*\}$`)

func TestDOTNames(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, g *draw.Graph) {
		for _, text := range []string{draw.DOT(g), draw.StyledDOT(g, nil)} {
			quoted, rest, ok := dotStrings(text)
			if !ok || !dotRest.MatchString(rest) {
				t.Fatalf("not DOT:\n%s\n%s", text, rest)
			}
			for _, s := range quoted {
				if strings.ContainsFunc(s, unicode.IsControl) {
					t.Fatalf("control character in %q", s)
				}
			}
		}
	}
	check(t, drawtest.Nasty())
	rapid.Check(t, func(t *rapid.T) { check(t, namedGraph(t)) })
}

// An SVG document is well-formed whatever the names and holds them.
func TestSVGNames(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, g *draw.Graph) {
		doc := draw.SVG(g, nil)
		d := xml.NewDecoder(strings.NewReader(string(doc)))
		var text strings.Builder
		for {
			tok, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in:\n%s", err, doc)
			}
			if c, ok := tok.(xml.CharData); ok {
				text.Write(c)
			}
		}
		for _, n := range g.Nodes {
			plain := !strings.ContainsFunc(n.ID, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar || r == '\u00a0' })
			if plain && !strings.Contains(text.String(), n.ID) {
				t.Fatalf("%q is not in:\n%s", n.ID, doc)
			}
		}
	}
	check(t, drawtest.Nasty())
	rapid.Check(t, func(t *rapid.T) { check(t, namedGraph(t)) })
}

func TestDiagramAndASCIINames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := namedGraph(t)
		for _, text := range []string{draw.Diagram(g, nil), draw.Diagram(g, &draw.DiagramOptions{ASCII: true}), draw.ASCII(g)} {
			for _, line := range strings.Split(text, "\n") {
				if strings.ContainsFunc(line, unicode.IsControl) {
					t.Fatalf("control character in %q", line)
				}
			}
		}
	})
	if s := draw.Diagram(drawtest.Service(), &draw.DiagramOptions{ASCII: true}); strings.ContainsFunc(s, func(r rune) bool { return r > '~' }) {
		t.Errorf("not ASCII:\n%s", s)
	}
}

func TestDrawingChangesNothing(t *testing.T) {
	for _, s := range drawtest.Samples() {
		before, err := json.Marshal(s.Graph)
		if err != nil {
			t.Fatal(err)
		}
		draw.Mermaid(s.Graph, nil)
		draw.DOT(s.Graph)
		draw.StyledDOT(s.Graph, nil)
		draw.ASCII(s.Graph)
		draw.Diagram(s.Graph, nil)
		draw.SVG(s.Graph, nil)
		if after, _ := json.Marshal(s.Graph); string(before) != string(after) {
			t.Errorf("%s was changed", s.Name)
		}
	}
}

func TestNilAndRecursiveGraphs(t *testing.T) {
	loop := &draw.Graph{Name: "loop", Nodes: []draw.Node{{ID: "self"}}}
	loop.Nodes[0].Sub = loop
	for _, g := range []*draw.Graph{nil, loop} {
		for _, text := range []string{
			draw.Mermaid(g, nil), draw.DOT(g), draw.StyledDOT(g, nil), draw.ASCII(g), draw.Diagram(g, nil) + "-", string(draw.SVG(g, nil)),
		} {
			if text == "" {
				t.Error("nothing drawn")
			}
		}
	}
	if err := loop.Validate(); err == nil || !strings.Contains(err.Error(), "contains itself") {
		t.Errorf("Validate: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, s := range drawtest.Samples() {
		err := s.Graph.Validate()
		if s.Name == "odd" {
			want := "draw: node \"a\" is declared twice\ndraw: edge \"b\" -> \"ghost\" names no node \"ghost\""
			if err == nil || err.Error() != want {
				t.Errorf("odd: %v", err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	sub := &draw.Graph{Nodes: []draw.Node{{ID: "s", Sub: &draw.Graph{Nodes: []draw.Node{{}}}}}}
	if err := sub.Validate(); err == nil || err.Error() != `draw: in "s": node 0 has no name` {
		t.Errorf("sub: %v", err)
	}
}

func TestDOTOptions(t *testing.T) {
	g := drawtest.ReAct()
	if got := draw.StyledDOT(g, &draw.DOTOptions{Plain: true}); got != draw.DOT(g) {
		t.Errorf("plain differs:\n%s", got)
	}
	if got := draw.StyledDOT(g, nil); !strings.Contains(got, "rankdir=LR;") {
		t.Errorf("not left to right:\n%s", got)
	}
	m := drawtest.MapReduce()
	if got := draw.StyledDOT(m, nil); !strings.Contains(got, "style=dotted") {
		t.Errorf("no dotted edge:\n%s", got)
	}
	if got := draw.StyledDOT(m, &draw.DOTOptions{HideDynamic: true, HideStartEnd: true}); strings.Contains(got, "dotted") ||
		strings.Contains(got, draw.StartID) || strings.Contains(got, draw.EndID) {
		t.Errorf("not hidden:\n%s", got)
	}
}

func TestSVGOptions(t *testing.T) {
	g := drawtest.Failed()
	auto := string(draw.SVG(g, nil))
	dark := string(draw.SVG(g, &draw.SVGOptions{Theme: draw.ThemeDark, Transparent: true, Title: "A & B"}))
	if !strings.Contains(auto, "prefers-color-scheme:dark") || !strings.Contains(auto, "<title>failed run</title>") ||
		!strings.Contains(auto, "search: failed.") {
		t.Errorf("auto:\n%s", auto)
	}
	if strings.Contains(dark, "prefers-color-scheme") || !strings.Contains(dark, "<title>A &amp; B</title>") ||
		strings.Contains(dark, `class="canvas"`) {
		t.Errorf("dark:\n%s", dark)
	}
}

// Every edge of a diagram has an arrow of its own.
func TestDiagramArrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, 0)
		text := draw.Diagram(g, nil)
		arrows, loops := strings.Count(text, "▼")+strings.Count(text, "▲"), strings.Count(text, "↺")
		for _, e := range g.Edges {
			if e.From == e.To {
				loops--
			} else {
				arrows--
			}
		}
		if arrows != 0 || loops != 0 {
			t.Fatalf("%d arrows and %d loops too many:\n%s", arrows, loops, text)
		}
	})
}
