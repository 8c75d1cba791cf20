// Mcptools gives an agent the tools of a server that speaks the Model Context
// Protocol, in a process of its own.
//
// The server is this same program, started with -serve. Any other does as well,
// whatever language it is written in, and a client other than this agent could
// use ours.
//
//	go run ./examples/mcptools
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/examples/internal/demo"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

type text struct {
	Text string `json:"text" minLength:"1"`
}

func count(_ context.Context, in text) (int, error) { return len(strings.Fields(in.Text)), nil }

func longest(_ context.Context, in text) (string, error) {
	best := ""
	for word := range strings.FieldsSeq(in.Text) {
		if len(word) > len(best) {
			best = word
		}
	}
	return best, nil
}

// serve is the server: it answers on standard output, so nothing else may be
// printed there.
func serve(ctx context.Context) error {
	server, err := mcp.NewServer("words", "1.0",
		tool.New("count_words", "Counts the words of a text.", count),
		tool.New("longest_word", "Returns the longest word of a text.", longest))
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx)
}

func run(ctx context.Context) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	client, err := mcp.Connect(ctx, mcp.Config{
		Transport: mcp.Command{Path: program, Args: []string{"-serve"}, Env: []string{}, Stderr: os.Stderr}, // it needs no keys of ours
		Prefix:    "words_",                                                                                 // tools of other servers may have the same names
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }() // ends the process
	tools, err := client.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		fmt.Printf("%s: %s\n", t.Spec().Name, t.Spec().Description)
	}

	a, err := agent.New(agent.ReAct[agent.State]{
		Model: demo.Model(
			scripted.Call("words_count_words", `{"text": "to be or not to be"}`),
			scripted.Call("words_longest_word", `{}`),
			scripted.Call("words_longest_word", `{"text": "to be or not to be"}`),
			scripted.Text("It has 6 words, and the longest is \"not\"."),
		),
		Tools:   tools,
		OnError: agent.TellModelAll, // the server checks arguments, and says what is wrong
	})
	if err != nil {
		return err
	}
	snap, err := a.Invoke(ctx, agent.Ask[agent.State](`How many words has "to be or not to be", and which is the longest?`))
	if err != nil {
		return err
	}
	fmt.Print(snap.State.Messages)
	return nil
}

func main() {
	server := flag.Bool("serve", false, "be the server")
	flag.Parse()
	do := run
	if *server {
		do = serve
	}
	if err := do(context.Background()); err != nil {
		log.Fatal(err)
	}
}
