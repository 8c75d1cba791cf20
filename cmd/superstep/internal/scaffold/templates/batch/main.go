// The command runs the batch: go run . run words --input '{"dir": "."}'
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/otel"

	"github.com/superstep-dev/superstep/cmd/superstep/internal/scaffold/templates/batch/words"
)

func main() { os.Exit(run()) }

func run() int {
	tel, err := otel.New(otel.Options{}) // traces go to OpenTelemetry's global provider: see the README
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	g, err := words.Builder().Compile(tel.Observe())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr,
		cli.Graph(g, cli.Describe("Counts the words of a folder's text files."), cli.ExampleInput(`{"dir": "."}`)))
}
