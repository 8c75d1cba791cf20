package dialogue_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

const cards = `
version: "2.0"
languages: {default: en, also: [de]}
settings: {rephrase: {enabled: true}}
slots:
  card:  {type: string, sensitive: true, ask: {text: "Which card?"}}
  days:  {type: integer, format: digits, required: false, ask: {text: "For how many days? {limit} at most, {{ limit - 1 }} is usual.", rephrase: true}}
  limit: {type: number}
actions:
  cards: {effect: read, outputs: {list: list}}
flows:
  pause_card:
    description: Pause a card.
    examples: ["Pause my card for {days} days"]
    steps:
    - set: {limit: 14}
    - action: cards
    - {collect: card, options_from: list}
    - collect: days
    - say: {text: "Paused for {days}."}
`

// What a model is shown of the open question: no values of options, and none of a
// sensitive slot.
func TestUnderstandingIsToldWhatItNeeds(t *testing.T) {
	p, err := program.Compile(program.File{Name: "cards.yaml", Text: []byte(cards)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	s := dialogue.New("thread")
	take := func(in dialogue.Input) dialogue.Effect {
		t.Helper()
		next, effects, err := dialogue.Advance(p, s, in)
		if err != nil || len(effects) != 1 {
			t.Fatalf("%d effects, %v", len(effects), err)
		}
		s = next
		return effects[0]
	}
	u := take(dialogue.Message{Text: "Pause my card", Time: now}).Understand
	if !slices.Equal(u.Languages, []string{"en", "de"}) {
		t.Errorf("the languages are %q", u.Languages)
	}
	if got := u.Flows[0]; !slices.Equal(got.Examples, []string{"Pause my card for {days} days"}) || !got.Slots[1].Optional || got.Slots[0].Optional || got.Slots[1].Format != "digits" {
		t.Errorf("the flow is offered as %+v", got)
	}
	call := take(dialogue.Understood{Commands: []dialogue.Command{{Type: dialogue.StartFlow, Flow: "pause_card"}}}).Action
	take(dialogue.Result{ID: call.ID, Outputs: map[string]expr.Value{"list": expr.ListOf(expr.Str("4000 1234 5678 9010"), expr.Str("4000 1234 5678 9028"))}})
	u = take(dialogue.Message{Text: "the one with 9028", Time: now}).Understand
	if got := u.Asked.Options; len(got) != 2 || !got[1].Value.IsNone() || strings.Contains(got[1].Label, "4000") || !strings.HasSuffix(got[1].Label, "9028") {
		t.Errorf("the options are shown as %+v", got)
	}
	if open := s.Metadata.Machine.Question.Options; open[1].Label != "4000 1234 5678 9028" {
		t.Errorf("the open question itself has changed: %+v", open)
	}
	r := take(dialogue.Understood{Commands: []dialogue.Command{{Type: dialogue.Select, Option: "1"}}}).Reply
	if m := r.Messages[len(r.Messages)-1]; m.Text != "For how many days? 14 at most, 13 is usual." || !slices.Equal(m.Values, []string{"14", "13"}) {
		t.Errorf("the question %q has the values %q", m.Text, m.Values)
	}
}

// What a message and then its understanding come to, they come to in one go.
func TestAMessageIsTakenWithWhatItMeans(t *testing.T) {
	p, err := program.Compile(program.File{Name: "cards.yaml", Text: []byte(cards)})
	if err != nil {
		t.Fatal(err)
	}
	in := dialogue.Message{ID: "m1", Text: "Pause my card", Time: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	cmds := []dialogue.Command{{Type: dialogue.StartFlow, Flow: "pause_card"}}
	text := func(s dialogue.State, effects []dialogue.Effect, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		state, err1 := json.Marshal(s)
		does, err2 := json.Marshal(effects)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return string(state) + "\n" + string(does)
	}
	begun, _, err := dialogue.Advance(p, dialogue.New("thread"), in)
	if err != nil {
		t.Fatal(err)
	}
	want := text(dialogue.Advance(p, begun, dialogue.Understood{Commands: cmds}))
	if got := text(dialogue.Advance(p, dialogue.New("thread"), dialogue.Understood{Message: &in, Commands: cmds})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	button := dialogue.Message{Commands: cmds, Time: in.Time} // there is nothing to understand
	if _, _, err := dialogue.Advance(p, dialogue.New("thread"), dialogue.Understood{Message: &button, Commands: cmds}); !errors.Is(err, dialogue.ErrUnexpected) {
		t.Errorf("got %v", err)
	}
}
