// The command answers questions: go run . chat handbook "When is the library open?"
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model/models"
	"github.com/superstep-dev/superstep/otel"

	"github.com/superstep-dev/superstep/cmd/superstep/internal/scaffold/templates/rag/handbook"
)

func main() { os.Exit(run()) }

func run() int {
	ctx := context.Background()
	m, err := models.FromEnv() // SUPERSTEP_MODEL=openai:gpt-5, and OPENAI_API_KEY
	if errors.Is(err, models.ErrUnset) {
		m, err = handbook.Offline(), nil
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
	g, err := handbook.New(ctx, tel.Model(m, otel.ModelInfo{Name: os.Getenv(models.Variable)}), tel.Observe())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr,
		cli.Graph(g, cli.Describe("Answers questions from the pages of a handbook."),
			cli.ExampleInput(`{"user_input": "When is the library open on Saturdays?"}`)),
		cli.Evaluation(cli.Evaluations{Judge: models.Open})) // of eval, and of the studio's page Tests
}
