package serve_test

import (
	"context"
	"fmt"
	"os"

	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/temporal"
	"github.com/superstep-dev/superstep/temporal/serve"
)

type Report struct {
	Parts graph.List[string]
}

// commands has a program be a server whose runs go by Temporal, if it is told, and which is a
// worker: serve --store postgres://… --temporal temporal:7233.
func commands(g *graph.Graph[Report]) []cli.Option {
	return []cli.Option{
		cli.Graph(g),
		serve.OnTemporal(temporal.Options{TaskQueue: "reports-2"}, worker.Options{MaxConcurrentActivityExecutionSize: 16}),
	}
}

func ExampleOnTemporal() {
	b := graph.New[Report]("report")
	b.AddNode("write", func(_ context.Context, r *Report) error {
		r.Parts.Add("the beginning")
		return nil
	})
	g := b.AddEdge(graph.Start, "write").MustCompile()
	code := cli.Run(context.Background(), []string{"serve", "--store", "memory", "--temporal", "localhost"}, os.Stdin, os.Stdout, os.Stdout, append(commands(g), cli.Program("reports", ""))...)
	fmt.Println(code == cli.ExitUsage)
	// Output:
	// reports: --temporal is "localhost", which is no HOST:PORT
	//   for example: --temporal localhost:7233
	// true
}
