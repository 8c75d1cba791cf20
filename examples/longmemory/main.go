// Longmemory is an agent that knows, in a new conversation, what it was told in
// an earlier one.
//
// There are two kinds of memory. A thread is one conversation, with all its
// messages; here there is none, so each run begins a new one. Beside the threads
// is a store of facts about each user, with tools by which the model keeps them
// and finds them.
//
//	go run ./examples/longmemory -db /tmp/memory.db -user kim "I am allergic to nuts."
//	go run ./examples/longmemory -db /tmp/memory.db -user kim "What shall I cook?"
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/sqlite"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// cook looks for what it should know, and answers by what it finds.
func cook(_ context.Context, req *model.Request) (chat.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	switch _, found := last.ToolResult(); {
	case !found:
		return chat.Assistant("", chat.ToolCall{Name: memory.SearchTool, Args: `{"query": "allergic likes food"}`}), nil
	case strings.Contains(last.Text(), "nuts"):
		return chat.Assistant("Rice with vegetables, and no nuts."), nil
	}
	return chat.Assistant("Rice with vegetables and peanuts."), nil
}

// user is who talks.
type user string

// namespace keeps the users apart. The user comes from the program and not from
// the model, which could be talked into another's.
func namespace(ctx context.Context) ([]string, error) {
	u, err := graph.Deps[user](ctx)
	return []string{"users", string(u)}, err
}

func main() {
	path := flag.String("db", "memory.db", "SQLite database")
	name := flag.String("user", "kim", "who is talking")
	flag.Parse()

	store, err := sqlite.Open(*path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Call(memory.SaveTool, `{"content": "The user is allergic to nuts."}`).When(scripted.Says("I am allergic")),
			scripted.Text("I'll keep that in mind.").When(scripted.Returned(memory.SaveTool)),
			scripted.Func(cook).Repeat(),
		),
		Instruction: "You help with cooking. Save what the user tells you about themselves, and search your memories before you give advice.",
		Tools:       memory.Tools(namespace),
		OnError:     agent.TellModelAll,
	}, memory.Use(store))
	if err != nil {
		log.Fatal(err)
	}
	snap, err := a.Invoke(context.Background(), agent.Ask[agent.State](strings.Join(flag.Args(), " ")), graph.UseDeps(user(*name)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(snap.State.Messages)
}
