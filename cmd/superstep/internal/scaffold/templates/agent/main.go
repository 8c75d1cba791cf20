// The command runs the agent: go run . chat
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model/models"
	"github.com/superstep-dev/superstep/otel"

	"github.com/superstep-dev/superstep/cmd/superstep/internal/scaffold/templates/agent/helper"
)

func main() { os.Exit(run()) }

func run() int {
	m, err := models.FromEnv() // SUPERSTEP_MODEL=openai:gpt-5, and OPENAI_API_KEY
	if errors.Is(err, models.ErrUnset) {
		m, err = helper.Offline(), nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	tel, err := otel.New(otel.Options{}) // traces go to OpenTelemetry's global provider: see the README
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	g, err := helper.New(tel.Model(m, otel.ModelInfo{Name: os.Getenv(models.Variable)}), tel.Observe())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr,
		cli.Graph(g, cli.Describe("Tells customers where their orders are, and cancels them."),
			cli.ExampleInput(`{"user_input": "Where is order A-17?"}`)),
		cli.Evaluation(cli.Evaluations{Judge: models.Open})) // of eval, and of the studio's page Tests
}
