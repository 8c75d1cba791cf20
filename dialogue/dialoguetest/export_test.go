package dialoguetest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

// talkWithTheBank returns what happened when somebody said these things, a minute and a
// half apart.
func talkWithTheBank(t *testing.T, thread string, says ...string) (*program.Program, []assistant.Turn) {
	t.Helper()
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	patterns, err := banking.Patterns()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	a, err := assistant.New(assistant.Config{Program: p, Actions: code, Understanding: patterns, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range says {
		if _, err := a.Say(t.Context(), thread, dialogue.Message{Text: text}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(90 * time.Second)
	}
	turns, err := assistant.Turns(t.Context(), a.Graph().Thread(thread), p, assistant.TurnQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return p, turns
}

var transfer = []string{
	"Send 15000 euros to Maria Garcia", "NOTANIBAN", "ES91 2100 0418 4502 0005 1332", "012345", "What's my savings balance?", "Investment fund",
	"savings", "no, make it 9000", "yes", "Hello",
}

var update = os.Getenv("UPDATE") != ""

func TestAConversationBecomesATestOfTheBank(t *testing.T) {
	p, turns := talkWithTheBank(t, "chat-1", transfer...)
	x, err := dialoguetest.Export("chat-1", p, turns)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range x.Failures {
		t.Error(f)
	}
	for _, secret := range []string{"ES91", "0418", "012345", "NOTANIBAN"} {
		if strings.Contains(x.Text, secret) {
			t.Errorf("it tells %s", secret)
		}
	}
	golden := filepath.Join("testdata", "exported.yaml")
	if update {
		if err := os.WriteFile(golden, []byte(x.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != x.Text {
		t.Errorf("%v, the file is not %s:\n%s", err, golden, x.Text)
	}
	// With the assistant's files, and nothing of the bank's code, it holds in every way; and
	// it would not if the bank answered otherwise.
	list, err := dialoguetest.Parse([]byte(x.Text))
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(r *dialoguetest.Runner){
		"once": func(*dialoguetest.Runner) {}, "restart": func(r *dialoguetest.Runner) { r.Restart = true },
		"twice": func(r *dialoguetest.Runner) { r.Twice = true }, "beside": func(r *dialoguetest.Runner) { r.Beside = true },
	} {
		r := runner(t)
		r.Actions = nil
		set(r)
		for _, f := range r.Run(list[0], list) {
			t.Errorf("%s: %s", name, f)
		}
	}
	other, err := dialoguetest.Parse([]byte(strings.Replace(x.Text, "balance: 15230", "balance: 1", 1)))
	if err != nil {
		t.Fatal(err)
	}
	r := runner(t)
	r.Actions = nil
	if failures := r.Run(other[0], other); len(failures) == 0 {
		t.Error("it holds with another balance")
	}
}
