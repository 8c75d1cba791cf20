// Parallelagents asks several agents the same thing at once, and has another
// make one answer of theirs.
//
// Agents are graphs, and so are a chain and a group of parallel ones: each can
// be a part of another.
//
//	go run ./examples/parallelagents
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// member returns an agent with a role.
func member(m model.Model, name, role string) *agent.Agent {
	g, err := agent.New(agent.ReAct[agent.State]{Name: name, Model: m, Instruction: role})
	if err != nil {
		log.Fatal(err)
	}
	return agent.Of(g, role)
}

func main() {
	// The agents ask at the same time, so the script goes by who asks.
	m := demo.Model(
		scripted.Text("Everybody can think in peace.").When(scripted.System("advantages")),
		scripted.Text("Meetings will fill the other four days.").When(scripted.System("risks")),
		scripted.Text("It costs nothing to try.").When(scripted.System("money")),
		scripted.Text("Try it for a month, and count the meetings.").When(scripted.System("decision")),
	)
	panel, err := agent.Parallel("panel", []*agent.Agent{
		member(m, "optimist", "You name advantages, in one sentence."),
		member(m, "sceptic", "You name risks, in one sentence."),
		member(m, "accountant", "You think of the money, in one sentence."),
	})
	if err != nil {
		log.Fatal(err)
	}

	// The chair is given what all of them said.
	g, err := agent.Chain("council", []*agent.Agent{
		agent.Of(panel, ""),
		member(m, "chair", "You make a decision of what others say, in one sentence."),
	})
	if err != nil {
		log.Fatal(err)
	}
	snap, err := g.Invoke(context.Background(), agent.Ask[agent.State]("Shall we have a day without meetings?"))
	if err != nil {
		log.Fatal(err)
	}
	views, _ := snap.State.NodeResponses.Get("panel")
	fmt.Printf("%s\n\nchair: %s\n", views, snap.State.LastResponse)
}
