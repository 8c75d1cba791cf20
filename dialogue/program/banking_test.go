package program_test

import (
	"os"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

func TestTheBankingAssistantCompilesWithoutAFinding(t *testing.T) {
	p, err := program.Load(os.DirFS("../../examples/banking"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range p.Warnings {
		t.Error(w)
	}
	if len(p.Order) != 13 {
		t.Errorf("flows: %v", p.Order)
	}
}
