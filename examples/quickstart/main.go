// Quickstart puts an agent together node by node:
//
//	prepare -> ask -> tools (as often as the model likes)
//	              -> fallback -> finish
//
// The agent's nodes work on the state of the graph, which embeds theirs. Each
// step is a checkpoint, if there is a checkpointer, and the tokens of the node
// ask are printed as they come.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/expr-lang/expr"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// State is the conversation, and what becomes of it.
type State struct {
	agent.State
	FinalOutput string `json:"final_output"`
}

func prepare(_ context.Context, s *State) error {
	s.UserInput = strings.TrimSpace(s.UserInput)
	return nil
}

// fallback is where the graph goes when no tool is called: mostly because there
// is an answer, which must stay then.
func fallback(_ context.Context, s *State) error {
	if s.Messages.Last().Text() == "" {
		s.LastResponse.Add("I don't know what to say.")
	}
	return nil
}

func finish(_ context.Context, s *State) error {
	s.FinalOutput = s.LastResponse.Get()
	return nil
}

type formula struct {
	Expression string `json:"expression" jsonschema:"such as 3 * (4 + 5)"`
}

func calculate(_ context.Context, in formula) (any, error) { return expr.Eval(in.Expression, nil) }

// say is what the scripted model makes of the tool's result.
func say(_ context.Context, req *model.Request) (chat.Message, error) {
	return chat.Assistant("6 times 7 is " + req.Messages[len(req.Messages)-1].Text() + "."), nil
}

func main() {
	m := demo.Model(
		scripted.Call("calculate", `{"expression": "6 * 7"}`).When(scripted.Says("6 times 7")),
		scripted.Func(say).When(scripted.Returned("calculate")),
		scripted.Text("Hello! What shall I calculate?"),
	)
	tools := []tool.Tool{tool.New("calculate", "Calculates the value of an expression.", calculate)}

	b := graph.New[State]("quickstart")
	b.AddNode("prepare", prepare)
	agent.AddLLM(b, "ask", agent.LLM[State]{Model: m, Tools: tools, Instruction: "You are a calculator with manners."})
	agent.AddTools(b, "tools", agent.Tools[State]{Tools: tools, OnError: agent.TellModelAll})
	b.AddNode("fallback", fallback)
	b.AddNode("finish", finish)
	b.AddSequence(graph.Start, "prepare", "ask")
	agent.AddToolsConditionalEdges(b, "ask", "tools", "fallback")
	b.AddEdge("tools", "ask")
	b.AddSequence("fallback", "finish", graph.End)
	g, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}

	for _, question := range []string{" What is 6 times 7? ", "Hello!"} {
		var final, message string
		for ev, err := range g.Stream(context.Background(), agent.Ask[State](question), graph.Modes(graph.ModeMessages, graph.ModeValues)) {
			if err != nil {
				log.Fatal(err)
			}
			if chunk, ok := ev.Value.(chat.Chunk); ok && ev.Node == "ask" && chunk.Text != "" {
				if chunk.ID != message { // the first of its message
					message = chunk.ID
					fmt.Print("LLM: ")
				}
				fmt.Print(chunk.Text)
			}
			if s, ok := graph.StateOf[State](ev); ok {
				final = s.FinalOutput
			}
		}
		fmt.Println("\nfinal output:", final)
	}
}
