// Package drawtest holds the graphs on which drawings are tested.
package drawtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/superstep-dev/superstep/draw"
)

// A Sample is a named graph.
type Sample struct {
	Name  string
	Graph *draw.Graph
}

func nodes(names ...string) []draw.Node {
	list := make([]draw.Node, len(names))
	for i, n := range names {
		list[i].ID = n
	}
	return list
}

func edge(from, to string) draw.Edge { return draw.Edge{From: from, To: to} }

func cond(from, label, to string) draw.Edge {
	return draw.Edge{From: from, To: to, Kind: draw.EdgeConditional, Label: label}
}

func join(to string, from ...string) []draw.Edge {
	var list []draw.Edge
	for _, f := range from {
		list = append(list, draw.Edge{From: f, To: to, Kind: draw.EdgeJoin})
	}
	return list
}

// Linear is a, then b.
func Linear() *draw.Graph {
	return &draw.Graph{
		Name:  "linear",
		Nodes: nodes("a", "b"),
		Edges: []draw.Edge{edge(draw.StartID, "a"), edge("a", "b"), edge("b", draw.EndID)},
	}
}

// ReAct is the loop of an agent and its tools.
func ReAct() *draw.Graph {
	return &draw.Graph{
		Name:  "react",
		Nodes: nodes("agent", "tools"),
		Edges: []draw.Edge{
			edge(draw.StartID, "agent"),
			cond("agent", "tools", "tools"),
			cond("agent", draw.EndID, draw.EndID),
			edge("tools", "agent"),
		},
	}
}

// ReActKinds is ReAct with the kinds of its nodes.
func ReActKinds() *draw.Graph {
	g := ReAct()
	g.Nodes[0].Kind, g.Nodes[1].Kind = draw.KindLLM, draw.KindTool
	return g
}

// OpenRouter has a router without a path map.
func OpenRouter() *draw.Graph {
	return &draw.Graph{
		Name:  "open",
		Nodes: []draw.Node{{ID: "agent", OpenRouter: true}, {ID: "tools"}},
		Edges: []draw.Edge{edge(draw.StartID, "agent"), edge("tools", "agent")},
	}
}

// Diamond forks and joins, with a deferred node at the end.
func Diamond() *draw.Graph {
	g := &draw.Graph{
		Name: "diamond",
		Nodes: []draw.Node{
			{ID: "split"}, {ID: "left"}, {ID: "right"},
			{ID: "merge", Kind: draw.KindJoin},
			{ID: "report", Deferred: true, PauseBefore: true},
		},
		Edges: []draw.Edge{
			edge(draw.StartID, "split"), edge("split", "left"), edge("split", "right"),
		},
	}
	g.Edges = append(g.Edges, join("merge", "left", "right")...)
	g.Edges = append(g.Edges, edge("merge", "report"), edge("report", draw.EndID))
	return g
}

// MapReduce sends work to a worker.
func MapReduce() *draw.Graph {
	return &draw.Graph{
		Name: "map-reduce",
		Nodes: []draw.Node{
			{ID: "plan", Label: "Plan topics", Kind: draw.KindLLM},
			{ID: "joke", Label: "Write a joke", Kind: draw.KindLLM, Visits: 12},
			{ID: "best", Label: "Pick the best", Kind: draw.KindAgent},
		},
		Edges: []draw.Edge{
			edge(draw.StartID, "plan"),
			{From: "plan", To: "joke", Kind: draw.EdgeDynamic, Label: "send"},
			edge("joke", "best"),
			edge("best", draw.EndID),
		},
	}
}

// Nested has subgraphs in a subgraph, open and closed ones.
func Nested() *draw.Graph {
	return &draw.Graph{
		Name: "nested",
		Nodes: []draw.Node{
			{ID: "intake"},
			{ID: "research", Label: "Research team", Kind: draw.KindSubgraph, Sub: &draw.Graph{
				Nodes: []draw.Node{
					{ID: "supervisor", Kind: draw.KindRouter},
					{ID: "web", Kind: draw.KindSubgraph, Sub: ReActKinds()},
					{ID: "library", Kind: draw.KindSubgraph},
				},
				Edges: []draw.Edge{
					edge(draw.StartID, "supervisor"),
					cond("supervisor", "web", "web"),
					cond("supervisor", "library", "library"),
					cond("supervisor", "done", draw.EndID),
					edge("web", "supervisor"),
					edge("library", "supervisor"),
				},
			}},
			{ID: "write", Kind: draw.KindLLM, PauseAfter: true},
		},
		Edges: []draw.Edge{
			edge(draw.StartID, "intake"), edge("intake", "research"),
			edge("research", "write"), edge("write", draw.EndID),
			cond("write", "revise", "research"),
		},
	}
}

// Failed is a run that failed in a loop.
func Failed() *draw.Graph {
	return &draw.Graph{
		Name: "failed run",
		Nodes: []draw.Node{
			{ID: draw.StartID, Status: draw.StatusVisited},
			{ID: "classify", Kind: draw.KindLLM, Status: draw.StatusVisited, Visits: 1},
			{ID: "search", Kind: draw.KindTool, Status: draw.StatusFailed, Visits: 3},
			{ID: "approve", Status: draw.StatusInterrupted, Visits: 1, PauseBefore: true},
			{ID: "draft", Kind: draw.KindLLM, Status: draw.StatusCurrent, Visits: 2},
			{ID: "answer", Kind: draw.KindLLM},
		},
		Edges: []draw.Edge{
			{From: draw.StartID, To: "classify", Visits: 1},
			{From: "classify", To: "search", Kind: draw.EdgeConditional, Label: "needs facts", Visits: 1},
			{From: "classify", To: "approve", Kind: draw.EdgeConditional, Label: "sensitive", Visits: 1},
			{From: "classify", To: "draft", Kind: draw.EdgeConditional, Label: "simple", Visits: 1},
			{From: "search", To: "search", Kind: draw.EdgeConditional, Label: "retry", Visits: 2},
			edge("search", "answer"), edge("approve", "answer"), edge("draft", "answer"),
			edge("answer", draw.EndID),
		},
	}
}

// NastyNames are names that every format has trouble with.
var NastyNames = []string{
	"plain", "two words", "two_words", "two-words", `say "hi"`, "a|b", "line\nbreak", `line\nbreak`, "x]y", "x[y", "back`tick",
	"end", "End", "graph", "subgraph", "日本語の名前", "naïve 🙂", "<b>&amp;</b>", "a;b", "#35;", "%% comment", "1. list",
	"- dash", "direction LR", "style a:b #fff;", `back\slash`, `quote\"`, "tab\there", "a -> b", "a --> b", "a\x00b", "a\x01b", "\xff\xfe",
	"???", " leading", "]]>", "$HOME", "{x}", "(y)", "/*z*/", "o", "x", "v", "\u202eright to left", "a,b", "click", "-", "--",
}

// Nasty is a ring of nasty names, which are labels as well.
func Nasty() *draw.Graph {
	g := &draw.Graph{Name: "nasty \"<&>\"\n", Nodes: nodes(NastyNames...)}
	for i, n := range NastyNames {
		next := NastyNames[(i+1)%len(NastyNames)]
		g.Edges = append(g.Edges, edge(n, next), cond(n, n, next))
	}
	g.Edges = append(g.Edges, edge(draw.StartID, NastyNames[0]))
	return g
}

// Long has long names and labels.
func Long() *draw.Graph {
	a := "summarise_the_conversation_so_far_and_extract_the_open_questions_for_the_next_turn_of_the_dialogue_with_the_user"
	b := "Ask the customer whether the delivery address that we have on file is still the right one"
	c := "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
	return &draw.Graph{
		Name:  "long names",
		Nodes: nodes(a, b, c, "ok"),
		Edges: []draw.Edge{
			edge(draw.StartID, a), edge(a, b), cond(b, "the customer says that it is the wrong address entirely", c),
			cond(b, "ok", "ok"), edge(c, a), edge("ok", draw.EndID),
		},
	}
}

// Service is a graph of thirty nodes as one would meet it in earnest.
func Service() *draw.Graph {
	g := &draw.Graph{Name: "customer service"}
	add := func(kind draw.NodeKind, names ...string) {
		for _, n := range names {
			g.Nodes = append(g.Nodes, draw.Node{ID: n, Kind: kind})
		}
	}
	add(draw.KindPlain, "receive", "authenticate", "load_profile")
	add(draw.KindLLM, "classify")
	add(draw.KindRouter, "route")
	add(draw.KindAgent, "billing", "technical", "sales", "returns")
	add(draw.KindTool, "invoice_lookup", "refund", "diagnostics", "knowledge_base", "catalogue", "quote", "order_lookup", "label_printer")
	add(draw.KindLLM, "billing_answer", "technical_answer", "sales_answer", "returns_answer")
	add(draw.KindPlain, "approve_refund", "escalate", "human")
	add(draw.KindJoin, "collect")
	add(draw.KindLLM, "tone_check", "translate", "reply")
	add(draw.KindPlain, "survey", "archive")
	g.Edges = []draw.Edge{
		edge(draw.StartID, "receive"), edge("receive", "authenticate"), edge("receive", "load_profile"),
	}
	g.Edges = append(g.Edges, join("classify", "authenticate", "load_profile")...)
	g.Edges = append(g.Edges,
		edge("classify", "route"),
		cond("route", "billing", "billing"), cond("route", "technical", "technical"),
		cond("route", "sales", "sales"), cond("route", "returns", "returns"), cond("route", "angry", "escalate"),
		edge("billing", "invoice_lookup"), edge("billing", "refund"), edge("refund", "approve_refund"),
		edge("invoice_lookup", "billing_answer"), edge("approve_refund", "billing_answer"),
		edge("technical", "diagnostics"), edge("technical", "knowledge_base"),
		edge("diagnostics", "technical_answer"), edge("knowledge_base", "technical_answer"),
		cond("technical_answer", "try again", "technical"),
		edge("sales", "catalogue"), edge("catalogue", "quote"), edge("quote", "sales_answer"),
		edge("returns", "order_lookup"), edge("order_lookup", "label_printer"), edge("label_printer", "returns_answer"),
		edge("escalate", "human"), edge("human", "collect"),
		edge("billing_answer", "collect"), edge("technical_answer", "collect"),
		edge("sales_answer", "collect"), edge("returns_answer", "collect"),
		edge("collect", "tone_check"), cond("tone_check", "rude", "collect"), cond("tone_check", "fine", "translate"),
		edge("translate", "reply"), edge("reply", "survey"), edge("reply", "archive"),
		cond("reply", "new question", "classify"),
		edge("survey", draw.EndID), edge("archive", draw.EndID),
	)
	return g
}

// Odd has loops on one node, parallel edges, unconnected nodes, names that no
// node bears and a node that is declared twice.
func Odd() *draw.Graph {
	return &draw.Graph{
		Name:  "odd",
		Nodes: nodes("a", "b", "alone", "apart", "a", "c", "d"),
		Edges: []draw.Edge{
			edge("a", "a"), cond("a", "again", "a"), edge("a", "b"), edge("a", "b"), cond("a", "x", "b"), cond("a", "y", "b"),
			edge("b", "a"), edge("b", "ghost"), edge("c", "d"), edge("d", "c"), edge("d", "d"),
		},
	}
}

// Samples are all graphs of this package.
func Samples() []Sample {
	return []Sample{
		{"empty", &draw.Graph{}},
		{"linear", Linear()},
		{"react", ReAct()},
		{"react_kinds", ReActKinds()},
		{"open_router", OpenRouter()},
		{"diamond", Diamond()},
		{"map_reduce", MapReduce()},
		{"nested", Nested()},
		{"failed", Failed()},
		{"nasty", Nasty()},
		{"long", Long()},
		{"service", Service()},
		{"odd", Odd()},
	}
}

// Random is a graph of n nodes and about m edges of all kinds, mostly forward.
func Random(seed uint64, n, m int) *draw.Graph {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &draw.Graph{Name: fmt.Sprintf("random %d", seed)}
	for i := range n {
		g.Nodes = append(g.Nodes, draw.Node{ID: fmt.Sprintf("node_%d", i)})
	}
	kinds := []draw.EdgeKind{draw.EdgeStatic, draw.EdgeStatic, draw.EdgeConditional, draw.EdgeDynamic, draw.EdgeJoin}
	for i := range n {
		if i > 0 {
			g.Edges = append(g.Edges, edge(g.Nodes[max(0, i-1-r.IntN(8))].ID, g.Nodes[i].ID))
		}
	}
	for range m - n {
		a, b := r.IntN(n), r.IntN(n)
		if r.IntN(10) > 0 {
			a, b = min(a, b), max(a, b)
			b = min(b, a+12)
		}
		g.Edges = append(g.Edges, draw.Edge{From: g.Nodes[a].ID, To: g.Nodes[b].ID, Kind: kinds[r.IntN(len(kinds))]})
	}
	if n > 0 {
		g.Edges = append(g.Edges, edge(draw.StartID, g.Nodes[0].ID), edge(g.Nodes[n-1].ID, draw.EndID))
	}
	return g
}
