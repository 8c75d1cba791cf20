package dialoguetest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

func runner(t *testing.T) *dialoguetest.Runner {
	t.Helper()
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	return &dialoguetest.Runner{
		Assistant: func(name string) ([]program.File, error) {
			if name != "" {
				return nil, fmt.Errorf("there is no assistant %q", name)
			}
			return program.ReadDir(banking.Files)
		},
		Actions: code,
	}
}

func scenarios(t *testing.T, file string) []dialoguetest.Scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := dialoguetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEveryScenarioHolds(t *testing.T) {
	ways := map[string]func(*dialoguetest.Runner){
		"at once":                func(*dialoguetest.Runner) {},
		"restarted at each step": func(r *dialoguetest.Runner) { r.Restart = true },
		"every message twice":    func(r *dialoguetest.Runner) { r.Twice = true },
		"beside another user":    func(r *dialoguetest.Runner) { r.Beside = true },
	}
	list := append(scenarios(t, "testdata/scenarios.yaml"), scenarios(t, "testdata/more.yaml")...)
	for way, set := range ways {
		r := runner(t)
		set(r)
		for _, s := range list {
			t.Run(way+"/"+s.ID, func(t *testing.T) {
				for _, f := range r.Run(s, list) {
					t.Error(f)
				}
			})
		}
	}
}
