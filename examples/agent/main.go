// Agent is a model that calls tools until it has an answer. It has one tool, a
// calculator: models are bad at arithmetic, and know it.
//
// The answer is printed as it comes, piece by piece.
//
//	go run ./examples/agent
//	SUPERSTEP_MODEL=openai:gpt-5 go run ./examples/agent "What is the square root of 2 to the 31st?"
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/expr-lang/expr"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// formula is what the model is told about the tool's arguments.
type formula struct {
	Expression string `json:"expression" jsonschema:"arithmetic with + - * / ** and parentheses, such as (3 + 4) * 2 ** 10"`
}

func calculate(_ context.Context, in formula) (any, error) {
	return expr.Eval(in.Expression, nil)
}

func main() {
	flag.Parse()
	question := flag.Arg(0)
	if question == "" {
		question = "How many minutes has a leap year?"
	}

	a, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Call("calculate", `{"expression": "366 * 24 * 60"}`),
			scripted.Text("A leap year has 527,040 minutes."),
		),
		Instruction: "You answer in one sentence. Leave all arithmetic to the calculator.",
		Tools:       []tool.Tool{tool.New("calculate", "Calculates the value of an expression.", calculate)},
		OnError:     agent.TellModelAll, // of a typing error in an expression, for one
	})
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(question)
	modes := graph.Modes(graph.ModeMessages, graph.ModeTools)
	for ev, err := range a.Stream(context.Background(), agent.Ask[agent.State](question), modes) {
		if err != nil {
			log.Fatal(err)
		}
		switch v := ev.Value.(type) {
		case tool.Started:
			fmt.Printf("[%s %s", v.Name, v.Args)
		case tool.Ended:
			fmt.Printf(" -> %s]\n", chat.ToolResult{Content: v.Result.Content}.Text())
		case chat.Chunk:
			fmt.Print(v.Text)
		}
	}
	fmt.Println()
}
