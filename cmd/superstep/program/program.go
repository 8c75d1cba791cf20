// Package program is the command superstep, for commands that are that and something more:
// temporal/cmd/superstep has its runs done by Temporal, if it is told.
package program

import (
	"context"
	"fmt"
	"io"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model/models"
)

// Run runs the command with these arguments and streams, and with options beside its own, and
// returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, more ...cli.Option) int {
	t, err := tracing(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "superstep:", err)
		return cli.ExitUsage
	}
	return cli.Run(ctx, args, stdin, stdout, stderr, append(options(t), more...)...)
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
