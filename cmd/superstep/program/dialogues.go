package program

import (
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/models"
)

// dialogues is what assistants in YAML get from this program: models, and a bank to talk
// with that needs none.
func dialogues() cli.Option {
	return cli.Dialogue(cli.Dialogues{
		Model: func(name string) (model.Model, error) {
			if name == demoModel {
				return nil, cli.Hint(cli.Usage("the demonstration model understands no dialogues"), "the example that needs no key is --demo")
			}
			m, err := openModel(name)
			if err != nil {
				return nil, err
			}
			return model.Retry(m, model.RetryPolicy{}), nil
		},
		Variable: models.Variable,
		Demo:     bank,
	})
}

// bank is the assistant of examples/banking.
func bank() (assistant.Config, error) {
	p, err := flows.Load(banking.Files)
	if err != nil {
		return assistant.Config{}, err
	}
	code, err := new(banking.Bank).Code()
	if err != nil {
		return assistant.Config{}, err
	}
	understanding, err := banking.Patterns()
	if err != nil {
		return assistant.Config{}, err
	}
	return assistant.Config{Program: p, Actions: code, Understanding: understanding}, nil
}
