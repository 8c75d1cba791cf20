// Agentrecovery is an agent whose process goes away twice in the middle of its
// work: once since a person has to decide, and once since it crashes. Nothing is
// done twice, and nothing is forgotten.
//
//	go run ./examples/agentrecovery -db /tmp/bills.db                          # asks, and ends
//	go run ./examples/agentrecovery -db /tmp/bills.db -answer approve -crash   # pays, and dies
//	go run ./examples/agentrecovery -db /tmp/bills.db                          # does the rest
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

type payment struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

// pay must not happen twice. What a tool has returned is recorded at once, and
// not asked for again. For a crash before it is recorded, tool.InfoOf has a key to
// give to the bank: it is the same when the call is made once more.
func pay(_ context.Context, in payment) (string, error) {
	fmt.Printf("paying %d to %s\n", in.Amount, in.To)
	return "paid", nil
}

type mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

func main() {
	path := flag.String("db", "bills.db", "SQLite database")
	answer := flag.String("answer", "reject", "approve or reject, if there is a question")
	crash := flag.Bool("crash", false, "die while a mail is being sent")
	flag.Parse()

	send := func(_ context.Context, in mail) (string, error) {
		if *crash {
			fmt.Println("crash!")
			os.Exit(1) // no deferred function runs, nothing is tidied up
		}
		fmt.Printf("telling %s: %s\n", in.To, in.Text)
		return "sent", nil
	}
	store, err := sqlite.Open(*path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Text("The electricity is paid, and Kim knows.").When(scripted.Returned("send_mail")),
			scripted.Calls(
				chat.ToolCall{Name: "pay", Args: `{"to": "Electricity Ltd", "amount": 120}`},
				chat.ToolCall{Name: "send_mail", Args: `{"to": "Kim", "text": "The electricity is paid."}`},
			),
		),
		Tools:   []tool.Tool{tool.New("pay", "Pays a bill.", pay), tool.New("send_mail", "Sends a mail.", send)},
		Approve: agent.Approve("pay"),
		// A process that died may seem to hold the thread for some seconds.
	}, graph.WithCheckpointer(store), graph.WhenBusy(graph.BusyQueue))
	if err != nil {
		log.Fatal(err)
	}

	// What is to be done follows from where the thread is.
	ctx := context.Background()
	t := a.Thread("bills")
	snap, err := t.State(ctx)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		snap, err = t.Invoke(ctx, t.Input(agent.Ask[agent.State]("Pay 120 to Electricity Ltd and tell Kim.")))
	case err != nil:
		log.Fatal(err)
	case len(snap.Interrupts) > 0:
		decision := agent.Decision{Type: agent.DecisionType(*answer)}
		snap, err = t.Invoke(ctx, t.Answer(agent.ApprovalAnswer{Decisions: []agent.Decision{decision}}))
	case !snap.Done():
		snap, err = t.Invoke(ctx, t.Continue())
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, question := range snap.Interrupts {
		var asked agent.ApprovalRequest
		if err := json.Unmarshal(question.Raw, &asked); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("waiting for an answer: %s %s?\n", asked.Actions[0].Name, asked.Actions[0].Args)
	}
	if snap.Done() {
		fmt.Println(snap.State.LastResponse)
	}
}
