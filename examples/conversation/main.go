// Conversation talks with a user, one turn for each line of input, and goes on
// where it was when it is started again.
//
// A conversation is a thread: the agent's state, with all messages, is stored
// after each step under the thread's name. Each turn is a run on that state.
//
//	go run ./examples/conversation -db /tmp/chat.db
//	go run ./examples/conversation -db /tmp/chat.db -thread another
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// recall answers from the conversation that it is given: the model itself
// remembers nothing.
func recall(_ context.Context, req *model.Request) (chat.Message, error) {
	for _, m := range req.Messages {
		if name, ok := strings.CutPrefix(m.Text(), "I am "); ok && m.Role == chat.RoleUser {
			return chat.Assistant("You are " + name), nil
		}
	}
	return chat.Assistant("You haven't told me."), nil
}

func main() {
	path := flag.String("db", "conversation.db", "SQLite database")
	thread := flag.String("thread", "default", "conversation to go on with")
	flag.Parse()

	store, err := sqlite.Open(*path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Text("Pleased to meet you.").When(scripted.Says("I am ")).Repeat(),
			scripted.Func(recall).Repeat(),
		),
		Instruction: "You are a friendly partner for a chat. Answer in one sentence.",
		// Long conversations would outgrow what the model can take. The model is
		// sent the last turns; the thread keeps everything.
		Use: []agent.Middleware[agent.State]{agent.OnRequest("trim", func(_ context.Context, _ *agent.State, req *model.Request) error {
			req.Messages = chat.TrimTurns(req.Messages, 20)
			return nil
		})},
	}, graph.WithCheckpointer(store))
	if err != nil {
		log.Fatal(err)
	}

	t := a.Thread(*thread)
	fmt.Printf("conversation %q\n", *thread)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Printf("you:   %s\nagent: ", in.Text())
		ask := agent.Ask[agent.State](in.Text())
		for ev, err := range t.Stream(context.Background(), t.Input(ask), graph.Modes(graph.ModeMessages)) {
			if err != nil {
				log.Fatal(err)
			}
			if chunk, ok := ev.Value.(chat.Chunk); ok {
				fmt.Print(chunk.Text)
			}
		}
		fmt.Println()
	}
}
