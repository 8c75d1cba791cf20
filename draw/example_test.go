package draw_test

import (
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/draw"
)

// react is the loop of an agent and its tools.
func react() *draw.Graph {
	return &draw.Graph{
		Name: "react",
		Nodes: []draw.Node{
			{ID: "agent", Kind: draw.KindLLM},
			{ID: "tools", Kind: draw.KindTool},
		},
		Edges: []draw.Edge{
			{From: draw.StartID, To: "agent"},
			{From: "agent", To: "tools", Kind: draw.EdgeConditional, Label: "tools"},
			{From: "agent", To: draw.EndID, Kind: draw.EdgeConditional},
			{From: "tools", To: "agent"},
		},
	}
}

func ExampleMermaid() {
	fmt.Println(draw.Mermaid(react(), nil))
	// Output:
	// graph TD
	//     __start__(["__start__"])
	//     agent["agent"]
	//     tools["tools"]
	//     __end__(["__end__"])
	//     __start__ --> agent
	//     tools --> agent
	//     agent -.-> |tools| tools
	//     agent -.-> |__end__| __end__
}

func ExampleASCII() {
	fmt.Println(draw.ASCII(react()))
	// Output:
	// Graph:
	//   Nodes: agent, tools
	//   Entry: __start__ -> agent
	//   Edges:
	//     tools -> agent
	//     agent -> __end__ | tools  [conditional]
}

func ExampleDOT() {
	fmt.Println(draw.DOT(react()))
	// Output:
	// digraph G {
	//     rankdir=TD;
	//     "__start__" [shape=oval];
	//     "agent" [shape=box];
	//     "tools" [shape=box];
	//     "__end__" [shape=oval];
	//     "__start__" -> "agent" [style=solid];
	//     "tools" -> "agent" [style=solid];
	//     "agent" -> "tools" [style=dashed, label="tools"];
	//     "agent" -> "__end__" [style=dashed, label="__end__"];
	// }
}

func ExampleDiagram() {
	g := react()
	g.Nodes[0].Status = draw.StatusCurrent
	g.Nodes[0].Visits = 2
	fmt.Printf("%s:\n%s\n", g.Name, draw.Diagram(g, nil))
	// Output:
	// react:
	//       ╭───────╮
	//       │ start │
	//       ╰───┬───╯
	//           │
	//           │
	//           ▼
	//    ┌─────────────┐
	//    │ ▶ agent ×2  │
	//    └─┬─────────┬─┘
	//      ╎    ▲    ╎
	//     ╭╯    │    ╰╮
	//     ╎     │     ╎
	//   tools   │     ╎
	//     ╎     │     ╎
	//     ╎ ╭───╯     ╎
	//     ▼ │         ▼
	// ┌─────┴─┐    ╭─────╮
	// │ tools │    │ end │
	// └───────┘    ╰─────╯
}

func ExampleSVG() {
	svg := draw.SVG(react(), &draw.SVGOptions{Layout: draw.LayoutOptions{Direction: draw.LeftToRight}})
	fmt.Println(strings.HasPrefix(string(svg), "<svg "))
	// Output: true
}

func ExampleNewLayout() {
	l := draw.NewLayout(react(), nil)
	for _, n := range l.Nodes {
		fmt.Println(n.ID, n.X, n.Y, n.W, n.H)
	}
	// Output:
	// __start__ 71.44 20 66 30
	// agent 66.44 102 76 40
	// tools 20 213 76 40
	// __end__ 132 218 66 30
}
