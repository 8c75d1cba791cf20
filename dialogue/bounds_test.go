package dialogue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// talk gives inputs until a turn ends and returns its reply.
func talk(t testing.TB, p *program.Program, s *dialogue.State, in dialogue.Input, cmds []dialogue.Command, act func(dialogue.ActionCall) dialogue.Result) dialogue.Reply {
	t.Helper()
	for inputs := []dialogue.Input{in}; len(inputs) > 0; {
		in, inputs = inputs[0], inputs[1:]
		state, effects, err := dialogue.Advance(p, *s, in)
		if err != nil {
			t.Fatal(err)
		}
		*s = state
		for _, e := range effects {
			switch {
			case e.Understand != nil:
				inputs = append(inputs, dialogue.Understood{Commands: cmds})
			case e.Validate != nil:
				_, validators := code(t)
				inputs = append(inputs, validators.Validate(t.Context(), *e.Validate))
			case e.Action != nil:
				inputs = append(inputs, act(*e.Action))
			case e.Reply != nil:
				return *e.Reply
			}
		}
	}
	return dialogue.Reply{}
}

func start(flow string) []dialogue.Command {
	return []dialogue.Command{{Type: dialogue.StartFlow, Flow: flow}}
}

func set(slot, value string) []dialogue.Command {
	return []dialogue.Command{{Type: dialogue.SetSlot, Slot: slot, Value: expr.Str(value)}}
}

func TestAMegabyteFromAnywhereLeavesASmallState(t *testing.T) {
	p := bank(t)
	mega := strings.Repeat("x", 1<<20)
	s := dialogue.New("t")
	none := func(dialogue.ActionCall) dialogue.Result { return dialogue.Result{} }
	if r := talk(t, p, &s, dialogue.Message{Text: mega}, nil, none); r.Text != "That message is too long." || s.TurnCount != 0 {
		t.Errorf("a long message: %q in turn %d", r.Text, s.TurnCount)
	}
	talk(t, p, &s, dialogue.Message{Text: "a"}, start("transfer_funds"), none)
	talk(t, p, &s, dialogue.Message{Text: "a"}, set("beneficiary_name", mega), none)
	talk(t, p, &s, dialogue.Message{Text: "a"}, []dialogue.Command{{Type: dialogue.CommandType(mega)}, {Type: dialogue.Clarify, Topic: mega}, {Type: dialogue.StartFlow, Flow: mega}}, none)
	talk(t, p, &s, dialogue.Message{Text: "a"}, start("check_balance"), none)
	r := talk(t, p, &s, dialogue.Message{Text: "a"}, set("account_type", "checking"), func(c dialogue.ActionCall) dialogue.Result {
		return dialogue.Result{ID: c.ID, Outputs: map[string]expr.Value{"balance": expr.Num(1), "currency": expr.Str(mega)}}
	})
	if !strings.HasPrefix(r.Text, "Some required information is invalid.") {
		t.Errorf("an output of a megabyte: %.80q", r.Text)
	}
	talk(t, p, &s, dialogue.Message{Text: "a"}, start("check_balance"), none)
	talk(t, p, &s, dialogue.Message{Text: "a"}, set("account_type", "checking"), func(c dialogue.ActionCall) dialogue.Result {
		return dialogue.Result{ID: c.ID, Error: &dialogue.Failure{Type: "boom", Message: mega}}
	})
	text, err := json.Marshal(s)
	if err != nil || len(text) > 40_000 {
		t.Errorf("the state has %d bytes, %v", len(text), err)
	}
}

func TestAConversationOfTwoThousandTurnsHasTheStateOfAShortOne(t *testing.T) {
	p := bank(t)
	_, b := code(t)
	s := dialogue.New("t")
	sizes := map[int]int{}
	now := time.Unix(1e9, 0)
	for turn := 1; turn <= 2000; turn += 2 {
		now = now.Add(time.Minute)
		act := func(c dialogue.ActionCall) dialogue.Result { return b.Do(t.Context(), c) }
		talk(t, p, &s, dialogue.Message{ID: fmt.Sprint(turn), Text: "a", Time: now}, start("check_balance"), act)
		talk(t, p, &s, dialogue.Message{ID: fmt.Sprint(turn, "b"), Text: "b", Time: now}, set("account_type", "checking"), act)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		sizes[turn] = len(text)
	}
	if sizes[1999] > sizes[201]*11/10 {
		t.Errorf("the state grew from %d bytes after 201 turns to %d after 1999", sizes[201], sizes[1999])
	}
}

func TestInputsThatNothingWaitsForAreTypedErrorsAndChangeNothing(t *testing.T) {
	p := bank(t)
	s := dialogue.New("t")
	for _, in := range []dialogue.Input{dialogue.Release{}, dialogue.Operator{}} {
		if _, _, err := dialogue.Advance(p, s, in); !errors.Is(err, dialogue.ErrNotInHandoff) {
			t.Errorf("%T: %v, want %v", in, err, dialogue.ErrNotInHandoff)
		}
	}
	for _, in := range []dialogue.Input{dialogue.Result{ID: "x"}, dialogue.Validated{}, dialogue.Answer{}, dialogue.Understood{}} {
		if _, _, err := dialogue.Advance(p, s, in); !errors.Is(err, dialogue.ErrUnexpected) {
			t.Errorf("%T: %v, want %v", in, err, dialogue.ErrUnexpected)
		}
	}
	if _, _, err := dialogue.Advance(p, s, nil); err == nil {
		t.Error("no input at all is taken for one")
	}
	busy, effects, err := dialogue.Advance(p, s, dialogue.Message{Text: "hello"})
	if err != nil || len(effects) != 1 || len(busy.Pending()) != 1 {
		t.Fatal(effects, busy.Pending(), err)
	}
	if _, _, err := dialogue.Advance(p, busy, dialogue.Message{Text: "hello?"}); !errors.Is(err, dialogue.ErrBusy) {
		t.Errorf("a message in a turn: %v, want %v", err, dialogue.ErrBusy)
	}
}

func TestAdvanceLeavesTheStateItIsGivenAsItIs(t *testing.T) {
	p := bank(t)
	_, b := code(t)
	s := dialogue.New("t")
	for _, cmds := range [][]dialogue.Command{start("transfer_funds"), set("beneficiary_name", "Bob"), set("iban", "ES9121000418450200051332"), set("amount", "5"), {{Type: dialogue.CorrectSlot, Slot: "amount", Value: expr.Num(7)}}, start("check_balance"), {{Type: dialogue.CancelFlow}}} {
		before, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		next := s
		talk(t, p, &next, dialogue.Message{Text: "a"}, cmds, func(c dialogue.ActionCall) dialogue.Result { return b.Do(t.Context(), c) })
		after, err := json.Marshal(s)
		if err != nil || string(after) != string(before) {
			t.Errorf("%v changed the state that it was given: %v", cmds, err)
		}
		s = next
	}
}

// BenchmarkTurn is a turn without a model over the bank: a message that is read, the slot
// that it fills and the next question; in a conversation that began a moment ago, and in
// one that is two thousand turns old.
func BenchmarkTurn(b *testing.B) {
	p := bank(b)
	none := func(dialogue.ActionCall) dialogue.Result { return dialogue.Result{} }
	_, code := code(b)
	for name, turns := range map[string]int{"young": 0, "old": 2000} {
		b.Run(name, func(b *testing.B) {
			s := dialogue.New("t")
			for turn := range turns {
				in := dialogue.Message{ID: fmt.Sprint(turn), Text: "a"}
				cmds := start("check_balance")
				if turn%2 == 1 {
					cmds = set("account_type", "checking")
				}
				talk(b, p, &s, in, cmds, func(c dialogue.ActionCall) dialogue.Result { return code.Do(b.Context(), c) })
			}
			talk(b, p, &s, dialogue.Message{ID: "a", Text: "a"}, start("block_card"), none)
			b.ReportAllocs()
			for b.Loop() {
				state := s
				in := dialogue.Message{ID: "b", Text: "debit"}
				cmds, ok := dialogue.Read(p, state, in)
				if !ok {
					b.Fatal("the answer can't be read")
				}
				if r := talk(b, p, &state, in, cmds, none); r.Waiting == nil || r.Waiting.Slot != "card_last_4" {
					b.Fatalf("%+v", r)
				}
			}
		})
	}
}

func TestAnAnswerAfterTheDeadlineIsRefusedUntilTheDeadlineWasGiven(t *testing.T) {
	p := bank(t)
	s := dialogue.New("t")
	now := time.Unix(1e9, 0)
	none := func(dialogue.ActionCall) dialogue.Result { return dialogue.Result{} }
	talk(t, p, &s, dialogue.Message{Text: "a", Time: now}, start("block_card"), none)
	due, ok := s.Due()
	if !ok || !due.Equal(now.Add(30*time.Minute)) {
		t.Fatalf("due at %v, %v", due, ok)
	}
	if _, _, err := dialogue.Advance(p, s, dialogue.Message{Text: "debit", Time: due}); !errors.Is(err, dialogue.ErrDue) {
		t.Errorf("a late answer: %v, want %v", err, dialogue.ErrDue)
	}
	if r := talk(t, p, &s, dialogue.Wake{Time: due}, nil, none); r.Text != "This conversation has been closed." || len(s.FlowStack) != 0 {
		t.Errorf("at the deadline: %q, %v", r.Text, s.FlowStack)
	}
	if r := talk(t, p, &s, dialogue.Message{Text: "b", Time: due}, start("block_card"), none); r.Text != "Is it about a debit or a credit card?" {
		t.Errorf("after it: %q", r.Text)
	}
}

func TestOneProgramServesManyConversationsAtOnce(t *testing.T) {
	p := bank(t)
	branch, b := code(t)
	done := make(chan string)
	for n := range 20 {
		go func() {
			text := "" // also where talk ends the goroutine
			defer func() { done <- text }()
			s := dialogue.New(fmt.Sprint("t", n))
			act := func(c dialogue.ActionCall) dialogue.Result { return b.Do(t.Context(), c) }
			talk(t, p, &s, dialogue.Message{Text: "a"}, start("block_card"), act)
			talk(t, p, &s, dialogue.Message{Text: "b"}, set("card_type", "debit"), act)
			talk(t, p, &s, dialogue.Message{Text: "c"}, set("card_last_4", fmt.Sprintf("%04d", n)), act)
			text = talk(t, p, &s, dialogue.Message{Text: "d"}, []dialogue.Command{{Type: dialogue.Affirm}}, act).Text
		}()
	}
	said := map[string]bool{}
	for range 20 {
		said[<-done] = true
	}
	if len(said) != 20 || len(branch.Ledger()) != 20 {
		t.Errorf("%d replies, %d cards blocked: %v", len(said), len(branch.Ledger()), said)
	}
}

func TestYesAndNoMayBeTheButtonsOfAConfirm(t *testing.T) {
	p := compile(t, `
version: "2.0"
slots: {x: {ask: {text: X?}}}
flows: {a: {description: A., steps: [{collect: x}, {confirm: [x], ask: {text: "Sure?", buttons: [{label: "Yes!", value: true}, {label: "No!", value: false}]}}, {say: {text: Done.}}]}}
`)
	none := func(dialogue.ActionCall) dialogue.Result { return dialogue.Result{} }
	for i, want := range []string{"Done.", "Cancelled. How else can I help?"} {
		s := dialogue.New("t")
		talk(t, p, &s, dialogue.Message{Text: "a"}, start("a"), none)
		r := talk(t, p, &s, dialogue.Message{Text: "1"}, set("x", "1"), none)
		pressed := dialogue.Message{Commands: r.Messages[0].Options[i].Commands, Question: r.Waiting.ID}
		if r := talk(t, p, &s, pressed, nil, none); r.Text != want {
			t.Errorf("button %d: %q, want %q", i, r.Text, want)
		}
	}
}
