package dialogue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
)

const secrets = `
version: "2.0"
languages: {default: de}
session: {pin: {sensitive: true}}
slots:
  iban: {format: iban, sensitive: true, ask: {text: "IBAN?"}}
  limit: {type: number, sensitive: true, ask: {text: "Limit?"}}
  born: {type: date, sensitive: true, ask: {text: "Born?"}}
  note: {ask: {text: "Note?"}}
actions: {save: {effect: irreversible, inputs: [iban, limit, born], outputs: {receipt: string}}}
flows:
  account:
    description: An account.
    outputs: [iban]
    steps:
    - collect: [iban, limit, born]
    - set: {session.pin: "{limit}77123"}
    - {confirm: [iban, limit, born], ask: {text: "{iban}, {limit:number}, {born:date}?"}}
    - {action: save, on_error: continue}
    - {say: {text: "Saved {iban} and {iban:lower} until {limit:money}."}}
`

// shows returns which of the secrets can be read in a state.
func shows(t *testing.T, s dialogue.State) []string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, secret := range []string{"ES9121000418450200051332", "es9121000418450200051332", "ES91 2100", "1234567", "1.234.567", "1990-12-31", "31.12.1990"} {
		if strings.Contains(string(text), secret) {
			out = append(out, secret)
		}
	}
	return out
}

// TestWhatIsSensitive: rows Q-09 and "sensitive slots" of the reference.
func TestWhatIsSensitiveCanBeReadInNoViewOfAStateAndStaysNoLongerThanItIsNeeded(t *testing.T) {
	p := compile(t, secrets)
	s := dialogue.New("t")
	now := time.Unix(1e9, 0)
	var replies []dialogue.Reply
	say := func(id, text string, cmds ...dialogue.Command) {
		t.Helper()
		inputs := []dialogue.Input{dialogue.Message{ID: id, Text: text, Time: now}}
		for len(inputs) > 0 {
			next, effects, err := dialogue.Advance(p, s, inputs[0])
			if err != nil {
				t.Fatal(err)
			}
			s, inputs = next, inputs[1:]
			if got := shows(t, s.Masked(p)); len(got) > 0 {
				t.Errorf("%q, in the turn: the masked state shows %q", text, got)
			}
			for _, e := range effects {
				switch {
				case e.Understand != nil:
					inputs = append(inputs, dialogue.Understood{Commands: cmds})
				case e.Action != nil:
					inputs = append(inputs, dialogue.Result{ID: e.Action.ID, Error: &dialogue.Failure{Type: "boom", Message: "no account ES91 2100 0418 4502 0005 1332"}})
				case e.Reply != nil:
					replies = append(replies, *e.Reply)
				}
			}
		}
		if again, ok := s.Answer(id); !ok || again.Text != replies[len(replies)-1].Text {
			t.Errorf("%q delivered again at once: %q, %v, was %q", text, again.Text, ok, replies[len(replies)-1].Text)
		}
		for _, x := range []any{s.Messages, s.Trace, s.NLUResult, s.UserMessage, s.LastResponse, s.Metadata.Machine.Answered, s.Metadata.CompletedFlows, s.Metadata.Error} {
			kept, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"ES9121", "es9121", "ES91 2100", "1234567", "1.234.567", "1990-12-31", "31.12.1990"} {
				if strings.Contains(string(kept), secret) {
					t.Errorf("%q: %s is kept in %s", text, secret, kept)
				}
			}
		}
	}
	give := func(slot string, v expr.Value, span string) dialogue.Command {
		return dialogue.Command{Type: dialogue.SetSlot, Slot: slot, Value: v, Span: span}
	}
	say("1", "an account", start("account")...)
	say("2", "it is ES91 2100 0418 4502 0005 1332, thanks", give("iban", expr.Str("ES9121000418450200051332"), ""))
	say("3", "1.234.567", give("limit", expr.Num(1234567), ""))
	say("4", "am 31.12.1990", give("born", expr.Str("1990-12-31"), "31.12.1990"))
	if want := "ES9121000418450200051332, 1.234.567, 31.12.1990?"; replies[3].Text != want {
		t.Fatalf("the confirm says %q, want %q", replies[3].Text, want)
	}
	if len(shows(t, s)) == 0 {
		t.Error("an open flow keeps no value: the test shows nothing")
	}
	say("5", "what?", dialogue.Command{Type: dialogue.Repeat})
	if !strings.Contains(replies[4].Text, "ES9121000418450200051332") {
		t.Errorf("what is repeated is masked: %q", replies[4].Text)
	}
	say("6", "ja", dialogue.Command{Type: dialogue.Affirm})
	if want := "Saved ES9121000418450200051332 and es9121000418450200051332 until 1234567,00."; replies[5].Text != want {
		t.Errorf("the user is told %q, want %q", replies[5].Text, want)
	}
	say("7", "bye", dialogue.Command{Type: dialogue.Chitchat})
	if got := shows(t, s); len(got) > 1 { // the session keeps a value
		t.Errorf("a turn after the flow ended the state still shows %q", got)
	}
	if old, ok := s.Answer("6"); !ok || old.Text != "Saved ********************1332 and ********************1332 until ******7,00." {
		t.Errorf("an older message delivered again is answered %q, %v", old.Text, ok)
	}
}
