// Supervisor has a model hand tasks to agents, each with an instruction and tools
// of its own, and answer the user with what they bring.
//
// The agents don't see the conversation, only their task. Those that are given
// tasks in one message work at the same time.
//
//	go run ./examples/supervisor
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/expr-lang/expr"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type formula struct {
	Expression string `json:"expression" jsonschema:"such as 3 * (4 + 5)"`
}

func calculate(_ context.Context, in formula) (any, error) { return expr.Eval(in.Expression, nil) }

type route struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func distance(_ context.Context, in route) (string, error) {
	return fmt.Sprintf("from %s to %s it is 125 km", in.From, in.To), nil
}

func member(a agent.ReAct[agent.State], description string) *agent.Agent {
	a.OnError = agent.TellModelAll
	g, err := agent.New(a)
	if err != nil {
		log.Fatal(err)
	}
	return agent.Of(g, description)
}

func main() {
	m := demo.Model(
		// What the supervisor says,
		scripted.Calls(
			chat.ToolCall{Name: "guide", Args: `{"task": "How far is it from Bern to Zurich?"}`},
			chat.ToolCall{Name: "accountant", Args: `{"task": "A litre costs 1.80. What do 7.5 litres cost?"}`},
		).When(scripted.System("trips")),
		scripted.Call("accountant", `{"task": "13.50 for 125 km: what is that for 100 km?"}`).When(scripted.System("trips")),
		scripted.Text("The trip of 125 km costs 13.50, that is 10.80 for 100 km.").When(scripted.System("trips")),
		// and what the agents say.
		scripted.Call("distance", `{"from": "Bern", "to": "Zurich"}`).When(scripted.Offers("distance")),
		scripted.Text("125 km.").When(scripted.Offers("distance")),
		scripted.Call("calculate", `{"expression": "1.80 * 7.5"}`).When(scripted.Says("A litre")),
		scripted.Text("13.50.").When(scripted.Says("A litre")),
		scripted.Call("calculate", `{"expression": "13.50 / 125 * 100"}`).When(scripted.Says("13.50 for")),
		scripted.Text("10.80.").When(scripted.Says("13.50 for")),
	)
	g, err := agent.NewSupervisor(agent.Supervisor{
		Model:       m,
		Instruction: "You plan trips. You leave distances and arithmetic to your agents.",
		OnError:     agent.TellModelAll,
		Agents: []*agent.Agent{
			member(agent.ReAct[agent.State]{
				Name: "guide", Model: m, Instruction: "You know roads.",
				Tools: []tool.Tool{tool.New("distance", "Says how far it is from a town to another.", distance)},
			}, "Knows how far it is from one town to another."),
			member(agent.ReAct[agent.State]{
				Name: "accountant", Model: m, Instruction: "You calculate.",
				Tools: []tool.Tool{tool.New("calculate", "Calculates the value of an expression.", calculate)},
			}, "Is good at arithmetic."),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	snap, err := g.Invoke(context.Background(), agent.Ask[agent.State]("What does it cost to drive from Bern to Zurich with 7.5 litres at 1.80, and for 100 km?"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(snap.State.Messages)
}
