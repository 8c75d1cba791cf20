package program_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

func TestACaseThatContinuesLeadsWhereTheBranchDoes(t *testing.T) {
	p, err := program.Compile(program.File{Name: "a.yaml", Text: []byte(`version: "2.0"
slots: {n: {type: integer, ask: {text: N?}}}
flows:
  a:
    description: A.
    steps:
    - collect: n
    - {step: which, branch: [{when: n > 1, then: continue}, {else: last}], next: last}
    - {step: between, say: {text: Between.}}
    - {step: last, say: {text: Last.}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	f := p.Flows["a"]
	which, _ := f.Step("which")
	for _, w := range f.Ways(which) {
		if w.Step == program.End || f.Steps[w.Step].Name != "last" {
			t.Errorf("%s %d leads to %d", w.Kind, w.Case, w.Step)
		}
	}
}

func TestTheFailureOfAModelIsAWayPastAConfirm(t *testing.T) {
	_, err := program.Compile(program.File{Name: "a.yaml", Text: []byte(`version: "2.0"
slots: {n: {type: integer, ask: {text: N?}}}
actions: {pay: {effect: irreversible, inputs: [n]}}
flows:
  a:
    description: A.
    on_error: paid
    steps:
    - collect: n
    - generate: {instruction: Say something.}
    - {confirm: n, ask: {text: "Pay {n}?"}}
    - {step: paid, action: pay}
`)})
	if want := `action "pay" is irreversible and no confirm stands on every path to it`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
