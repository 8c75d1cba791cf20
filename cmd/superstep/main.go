// The command superstep runs a few example graphs, looks at their threads, and
// begins programs ("superstep init"). "superstep chat" talks with a model that reads
// files, calculates, and asks before it writes a file; "--model demo" tries it without
// a key, and a conversation goes on where it was after the process was killed.
//
// A program with graphs of its own gets the same commands from package cli.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model/models"
)

func main() {
	os.Exit(run())
}

// run is main for tests.
func run() int {
	ctx := context.Background()
	t, err := tracing(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "superstep:", err)
		return cli.ExitUsage
	}
	return cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, options(t)...)
}

// options are what the program has.
func options(t *traces) []cli.Option {
	return append(t.options(),
		cli.Program("superstep", "Run workflow graphs and look at their threads."),
		greeting(cli.Unserved()), buying(cli.Unserved()),
		cli.Graph(chatGraph(t), cli.Describe("Talks with a model that has tools. Start it with: superstep chat."), cli.ExampleInput(`{"user_input": "what is 6*7", "model": "demo"}`), cli.Unserved()),
		demoGraphs(), cli.Embedders(models.OpenEmbedder), dialogues(), cli.Evaluation(cli.Evaluations{Judge: judge}),
		documentation(), cli.Command(initCommand(), chatCommand(), docsCommand()),
	)
}
