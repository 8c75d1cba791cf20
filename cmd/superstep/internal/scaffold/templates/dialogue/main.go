// The command talks with the assistant: go run . dialogue chat tables --patterns patterns.yaml
package main

import (
	"context"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/model/models"

	"github.com/superstep-dev/superstep/cmd/superstep/internal/scaffold/templates/dialogue/tables"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr,
		cli.Dialogue(cli.Dialogues{
			Code:  []action.Part{tables.Book()},
			Model: models.Open, Variable: models.Variable, // with --model, instead of patterns
		}),
		cli.Evaluation(cli.Evaluations{Judge: models.Open}))) // of eval, and of the studio's page Tests
}
