// Swarm has agents hand a conversation over to each other. Other than under a
// supervisor they share it: each reads all that was said, and the one that has
// it goes on talking with the user, in later turns too.
//
//	go run ./examples/swarm
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type order struct {
	Number int `json:"number"`
}

func status(_ context.Context, in order) (string, error) {
	return fmt.Sprintf("order %d left the warehouse on Monday", in.Number), nil
}

func main() {
	m := demo.Model(
		scripted.Text("Welcome! What can I do for you?").When(scripted.Says("Hello")),
		scripted.Call(agent.HandOffTool("support"), `{}`).When(scripted.System("front desk")),
		scripted.Call("order_status", `{"number": 7}`).When(scripted.Says("my order")),
		scripted.Text("It left on Monday, so it should be there tomorrow.").When(scripted.Returned("order_status")),
		scripted.Text("You're welcome.").When(scripted.System("orders")),
	)
	g, err := agent.NewSwarm(agent.Swarm{Agents: []agent.SwarmAgent{
		{
			ReAct:       agent.ReAct[agent.State]{Name: "desk", Model: m, Instruction: "You are the front desk of a shop. Hand over what others know better."},
			Description: "Greets and finds out what is wanted.",
		},
		{
			ReAct: agent.ReAct[agent.State]{
				Name: "support", Model: m, Instruction: "You look after orders.", OnError: agent.TellModelAll,
				Tools: []tool.Tool{tool.New("order_status", "Says where an order is.", status)},
			},
			Description: "Knows where orders are.",
		},
	}}, graph.WithCheckpointer(checkpoint.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}
	t := g.Thread("customer-1")
	for _, text := range []string{"Hello!", "Where is my order number 7?", "Thanks!"} {
		snap, err := t.Invoke(context.Background(), t.Input(agent.Ask[agent.State](text)))
		if err != nil {
			log.Fatal(err)
		}
		who := snap.State.Active
		if who == "" { // nobody has handed over yet
			who = "desk"
		}
		fmt.Printf("user:    %s\n%-8s %s\n", text, who+":", snap.State.LastResponse)
	}
}
