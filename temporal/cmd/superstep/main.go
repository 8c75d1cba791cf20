// The command superstep is that of the engine's own module with Temporal:
//
//	superstep serve --demo --store postgres://… --temporal localhost:7233
//	superstep dialogue serve assistant.yaml --store postgres://… --temporal localhost:7233
//
// serve runs, one as many times as there is work for. A program with graphs of its own has
// the flags by package temporal/serve.
package main

import (
	"context"
	"os"

	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/cmd/superstep/program"
	"github.com/superstep-dev/superstep/temporal"
	"github.com/superstep-dev/superstep/temporal/serve"
)

func main() {
	os.Exit(program.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, serve.OnTemporal(temporal.Options{}, worker.Options{})))
}
