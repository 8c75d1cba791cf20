package nlu_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/examples/banking"
	"github.com/superstep-dev/superstep/graph"
)

// What a user says may be sensitive, and so may what the model is told.
func TestWhatADialogueAsksItsModelIsRecordedOnlyThroughAHook(t *testing.T) {
	recorded := func(opts ...graph.Option) (n int) {
		t.Helper()
		m, bank, store := &obedient{}, new(banking.Bank), checkpoint.NewMemory()
		code, err := bank.Code()
		if err != nil {
			t.Fatal(err)
		}
		a, err := assistant.New(assistant.Config{Program: load(t), Understanding: nlu.New(m.model(), nlu.Options{}), Actions: code, Store: store}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Say(t.Context(), "thread", dialogue.Message{Text: "my code is 000000"}); err != nil {
			t.Fatal(err)
		}
		if len(m.asked) == 0 {
			t.Fatal("the model wasn't asked")
		}
		for _, err := range calls.List(t.Context(), store, "thread", calls.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if n := recorded(); n != 0 {
		t.Errorf("%d calls are recorded", n)
	}
	if n := recorded(calls.Redact(func(context.Context, *calls.Call) bool { return true })); n == 0 {
		t.Error("no call is recorded through a hook")
	}
}
