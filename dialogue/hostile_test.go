package dialogue_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

// dice give the hostile side its choices.
type dice interface{ IntN(int) int }

// bytesDice are choices out of the bytes of a fuzzer; they end in zeros.
type bytesDice struct{ data []byte }

func (b *bytesDice) IntN(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	x := int(b.data[0])
	b.data = b.data[1:]
	return x % n
}

// hostile talks with an assistant as nobody should, and checks the laws.
type hostile struct {
	t       *testing.T
	p       *program.Program
	dice    dice
	state   dialogue.State
	bank    *banking.Bank
	now     time.Time
	history []string
	ran     map[string]bool // keys of actions that succeeded
	asked   *dialogue.Question
	shown   map[string]expr.Value // values of the open confirm
	turns   int
}

var hostileTypes = []dialogue.CommandType{
	dialogue.StartFlow, dialogue.StartFlow, dialogue.SetSlot, dialogue.SetSlot, dialogue.SetSlot, dialogue.SetSlot, dialogue.SetSlot, dialogue.Affirm, dialogue.Affirm, dialogue.Affirm,
	dialogue.CancelFlow, dialogue.CompleteFlow, dialogue.CorrectSlot, dialogue.ClearSlot, dialogue.Deny, dialogue.Select,
	dialogue.NextOption, dialogue.Repeat, dialogue.Skip, dialogue.ResumeFlow, dialogue.Clarify, dialogue.AskQuestion, dialogue.Chitchat,
	dialogue.OutOfScope, dialogue.Handoff, dialogue.SetLanguage, "sudo", "",
}

var hostileValues = []expr.Value{
	expr.Str("500"), expr.Str("12000"), expr.Str("John Doe"), expr.Str("ES9121000418450200051332"), expr.Str("DE89370400440532013000"), expr.Str("checking"), expr.Str("savings"),
	expr.Str("debit"), expr.Str("0042"), expr.Str("012345"), expr.Str("000000"), expr.Str("power"), expr.Str("INV-2024-12345"), expr.Str("INV-2024-00000"), expr.Str("last month"), expr.Str("yes"),
	expr.Str("12 Long Street, Town"), expr.Str("Rent"), expr.Num(250), expr.Num(-1), expr.Bool(true), {}, expr.Str(""), expr.Str("{session.tier} {{ 1/0 }}"), expr.ListOf(expr.Num(1)), expr.ObjectOf(map[string]expr.Value{"a": expr.Num(1)}),
}

func pick[T any](d dice, list []T) T { return list[d.IntN(len(list))] }

func (h *hostile) slot() string {
	q := h.state.Metadata.Machine.Question
	if q != nil && h.dice.IntN(3) > 0 {
		if q.Slot != "" {
			return q.Slot
		}
		if len(q.Slots) > 0 {
			return pick(h.dice, q.Slots)
		}
	}
	names := []string{"amount", "iban", "beneficiary_name", "transfer_concept", "source_account", "transfer_fee", "session.tier", "tier", "bill_amount", "code_required", "security_code", "account_type", "card_type", "page", "no_such"}
	return pick(h.dice, names)
}

// value is one that the slot would take, most of the time.
func (h *hostile) value(slot string) expr.Value {
	good := map[string]string{"amount": "250", "iban": "ES9121000418450200051332", "beneficiary_name": "John Doe", "transfer_concept": "Rent", "source_account": "savings", "account_type": "checking",
		"security_code": "012345", "card_type": "debit", "card_last_4": "0042", "delivery_address": "12 Long Street, Town", "bill_type": "gas", "bill_reference": "INV-2024-12345", "transaction_period": "last week", "view_more_transactions": "no"}
	if v, ok := good[slot]; ok && h.dice.IntN(3) > 0 {
		return expr.Str(v)
	}
	return pick(h.dice, hostileValues)
}

func (h *hostile) command() dialogue.Command {
	flows := append(slices.Clone(h.p.Order), "pattern_handoff", "no_such_flow", "")
	c := dialogue.Command{Type: pick(h.dice, hostileTypes)}
	switch c.Type {
	case dialogue.StartFlow, dialogue.ResumeFlow:
		c.Flow = pick(h.dice, flows)
		if h.dice.IntN(3) == 0 {
			s := h.slot()
			c.Slots = map[string]expr.Value{s: h.value(s)}
		}
	case dialogue.SetSlot, dialogue.CorrectSlot, dialogue.ClearSlot:
		c.Slot = h.slot()
		c.Value = h.value(c.Slot)
	case dialogue.Deny:
		if h.dice.IntN(2) == 0 {
			c.Slot = h.slot()
		}
	case dialogue.Select:
		c.Option = strconv.Itoa(h.dice.IntN(4))
	case dialogue.Clarify:
		c.Topic = h.slot()
		if h.dice.IntN(4) == 0 {
			c.Options = []string{pick(h.dice, flows), pick(h.dice, flows), pick(h.dice, flows)}
		}
	case dialogue.SetLanguage:
		c.Language = pick(h.dice, []string{"de", "en", "xx"})
	}
	return c
}

// sensible is the command of somebody who wants to get on.
func (h *hostile) sensible() dialogue.Command {
	q := h.state.Metadata.Machine.Question
	switch {
	case q == nil:
		return dialogue.Command{Type: dialogue.StartFlow, Flow: pick(h.dice, h.p.Order)}
	case q.Kind == dialogue.AskCollect:
		return dialogue.Command{Type: dialogue.SetSlot, Slot: q.Slot, Value: h.value(q.Slot)}
	}
	return dialogue.Command{Type: dialogue.Affirm}
}

func (h *hostile) fail(format string, args ...any) {
	h.t.Helper()
	for _, line := range h.history[max(0, len(h.history)-30):] {
		h.t.Log(line)
	}
	h.t.Fatalf("turn %d: %s", h.turns, fmt.Sprintf(format, args...))
}

// turn is one input from outside with all that follows from it.
func (h *hostile) turn() {
	h.turns++
	h.now = h.now.Add(time.Duration(h.dice.IntN(100)) * time.Second)
	if h.dice.IntN(40) == 0 {
		h.now = h.now.Add(time.Hour)
	}
	if due, ok := h.state.Due(); ok && !due.After(h.now) {
		h.give(dialogue.Wake{Time: h.now}, nil)
	}
	if h.state.Metadata.Machine.Handoff != nil && h.dice.IntN(4) == 0 {
		h.give(dialogue.Release{Time: h.now, Slots: map[string]expr.Value{h.slot(): pick(h.dice, hostileValues)}}, nil)
		return
	}
	if h.dice.IntN(50) == 0 {
		h.give(dialogue.Event{Name: "picked_up", Time: h.now}, nil)
		return
	}
	var cmds []dialogue.Command
	if h.dice.IntN(2) == 0 { // as a user would, so that flows get somewhere
		cmds = append(cmds, h.sensible())
	}
	for range h.dice.IntN(3) {
		if h.dice.IntN(2) == 0 {
			cmds = append(cmds, h.command())
		}
	}
	if h.dice.IntN(60) == 0 {
		for range 30 {
			cmds = append(cmds, h.command())
		}
	}
	m := dialogue.Message{Text: pick(h.dice, []string{"x", "yes", "", "500", "ES9121000418450200051332"}), Time: h.now, Language: pick(h.dice, []string{"", "de", "??"})}
	if h.dice.IntN(10) == 0 { // a button, perhaps of an old question
		m.Commands, m.Question = cmds, fmt.Sprintf("q%d", h.state.Metadata.Machine.Questions-h.dice.IntN(2))
	}
	if len(m.Commands) == 0 && m.Question == "" {
		h.give(m, cmds)
		return
	}
	h.give(m, m.Commands)
}

func (h *hostile) give(in dialogue.Input, cmds []dialogue.Command) {
	h.t.Helper()
	text, err := json.Marshal(cmds)
	if err != nil {
		h.fail("%v", err)
	}
	h.history = append(h.history, fmt.Sprintf("%T %s", in, text))
	affirmed := slices.ContainsFunc(cmds, func(c dialogue.Command) bool { return c.Type == dialogue.Affirm })
	replied := false
	for inputs := []dialogue.Input{in}; len(inputs) > 0; {
		in, inputs = inputs[0], inputs[1:]
		state, effects, err := dialogue.Advance(h.p, h.state, in)
		if err != nil {
			h.fail("%T: %v", in, err)
		}
		h.state = state
		for _, e := range effects {
			switch {
			case e.Understand != nil:
				inputs = append(inputs, dialogue.Understood{Commands: cmds})
			case e.Validate != nil:
				v, reason := banking.Validators[e.Validate.Validator](e.Validate.Value)
				inputs = append(inputs, dialogue.Validated{ID: e.Validate.ID, Value: v, Reason: reason})
			case e.Action != nil:
				inputs = append(inputs, h.act(*e.Action, affirmed))
			case e.Reply != nil:
				replied = true
				h.history = append(h.history, fmt.Sprintf("  %q", e.Reply.Text))
			}
		}
	}
	if !h.state.Waiting() || len(h.state.Pending()) > 0 {
		h.fail("the turn did not end: %v", h.state.Pending())
	}
	if _, wake := in.(dialogue.Wake); !replied && !wake {
		h.fail("no reply")
	}
	h.law()
}

func (h *hostile) flowOf(call dialogue.ActionCall) string {
	for _, f := range h.state.FlowStack {
		if f.FlowID == call.FlowID {
			return f.FlowName
		}
	}
	h.fail("%s for no flow", call.Action)
	return ""
}

// act answers as the bank does, or fails in some way.
func (h *hostile) act(call dialogue.ActionCall, affirmed bool) dialogue.Result {
	h.history = append(h.history, fmt.Sprintf("  %s %v", call.Action, call.Inputs))
	if call.Effect == program.Irreversible {
		switch {
		case h.asked == nil:
			h.fail("%s without a question before it", call.Action)
		case h.asked.Kind == dialogue.AskRetry && affirmed:
		case h.asked.Kind != dialogue.AskConfirm || !affirmed:
			h.fail("%s after %s without a yes", call.Action, h.asked.Kind)
		default:
			for name, v := range call.Inputs {
				if shown, ok := h.shown[name]; ok && !shown.Same(v) {
					h.fail("%s is given %s = %s, and %s was shown", call.Action, name, v, shown)
				} else if flow, _ := h.p.Flow(h.flowOf(call)); !ok && flow.Collect(name) {
					h.fail("%s is given %s, which was not shown", call.Action, name)
				}
			}
		}
	}
	if h.ran[call.ID] {
		h.fail("%s runs again under the key %s", call.Action, call.ID)
	}
	switch h.dice.IntN(12) {
	case 0:
		return dialogue.Result{ID: call.ID, Error: &dialogue.Failure{Type: pick(h.dice, []string{"timeout", "invalid", "refused", "", "boom", "action_not_found"})}}
	case 1:
		return dialogue.Result{ID: call.ID, Outputs: map[string]expr.Value{"balance": expr.Str("much"), "extra": expr.Num(1)}}
	}
	if call.Effect != program.Read {
		h.ran[call.ID] = true
	}
	return h.bank.Act("alice", call)
}

// law checks what must hold between two turns.
func (h *hostile) law() {
	m := &h.state.Metadata.Machine
	h.asked, h.shown = nil, nil
	if m.Question != nil {
		q := *m.Question
		h.asked = &q
		if q.Kind == dialogue.AskConfirm {
			h.shown = map[string]expr.Value{}
			for _, s := range q.Slots {
				if v, ok := h.state.FlowSlots[q.FlowID][s]; ok {
					h.shown[s] = v
				}
			}
		}
	}
	users := 0
	for i, f := range h.state.FlowStack {
		frame := m.Frames[f.FlowID]
		if frame == nil {
			h.fail("flow %s has no frame", f.FlowID)
		}
		if frame.Role == dialogue.ByUser {
			users++
		}
		if want := i == len(h.state.FlowStack)-1; want != (f.FlowState == dialogue.Active) {
			h.fail("flow %d of %d is %s", i+1, len(h.state.FlowStack), f.FlowState)
		}
		flow, ok := h.p.Flow(f.FlowName)
		if !ok {
			h.fail("flow %s does not exist", f.FlowName)
		}
		for name, p := range frame.Provenance {
			if p.Source == program.FromUser && !flow.Collect(name) {
				h.fail("slot %s of %s was set by the user", name, f.FlowName)
			}
			if _, filled := h.state.FlowSlots[f.FlowID][name]; !filled {
				h.fail("slot %s has a source and no value", name)
			}
		}
	}
	if users > h.p.Settings.StackDepth {
		h.fail("%d flows are open", users)
	}
	if len(m.Frames) != len(h.state.FlowStack) || len(h.state.FlowSlots) != len(h.state.FlowStack)+1 {
		h.fail("%d frames and %d sets of slots for %d flows", len(m.Frames), len(h.state.FlowSlots), len(h.state.FlowStack))
	}
	if len(h.state.FlowStack) > 0 && m.Question == nil && m.Handoff == nil {
		h.fail("flow %s is open and asks nothing", h.state.FlowStack[len(h.state.FlowStack)-1].FlowName)
	}
	if len(h.state.Messages) > h.p.Settings.HistoryMessages || len(h.state.Trace) > h.p.Settings.TraceEvents {
		h.fail("%d messages, %d events", len(h.state.Messages), len(h.state.Trace))
	}
	if h.turns%50 == 0 {
		text, err := json.Marshal(h.state)
		if err != nil {
			h.fail("%v", err)
		}
		var back dialogue.State
		if err := json.Unmarshal(text, &back); err != nil {
			h.fail("%v", err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(text) {
			h.fail("the state does not survive JSON: %v\n%s\n%s", err, text, again)
		}
		h.state = back
	}
}

// recover shows that the conversation can go on: whatever happened, the user can cancel
// everything and have a task done.
func (h *hostile) recover() {
	for range 20 {
		if h.state.Metadata.Machine.Handoff != nil {
			h.give(dialogue.Release{Time: h.now}, nil)
			continue
		}
		if len(h.state.FlowStack) == 0 {
			break
		}
		h.give(dialogue.Message{Text: "stop", Time: h.now}, []dialogue.Command{{Type: dialogue.CancelFlow}})
	}
	h.give(dialogue.Message{Text: "a card", Time: h.now}, []dialogue.Command{{Type: dialogue.StartFlow, Flow: "block_card"}})
	if h.state.WaitingForSlot != "card_type" {
		h.fail("the conversation can't go on: it waits for %q, stack %v", h.state.WaitingForSlot, h.state.FlowStack)
	}
}

func newHostile(t *testing.T, p *program.Program, d dice) *hostile {
	return &hostile{t: t, p: p, dice: d, state: dialogue.New("h"), bank: new(banking.Bank), now: time.Unix(1e9, 0).UTC(), ran: map[string]bool{}}
}

func bank(t testing.TB) *program.Program {
	t.Helper()
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAHostileUnderstandingBreaksNoLaw(t *testing.T) {
	turns := 4_000
	if n, err := strconv.Atoi(os.Getenv("HOSTILE_TURNS")); err == nil {
		turns = n
	}
	p := bank(t)
	calls := 0
	for seed := uint64(1); turns > 0; seed++ {
		h := newHostile(t, p, rand.New(rand.NewPCG(seed, 1)))
		for range 200 {
			h.turn()
			turns--
		}
		h.recover()
		for _, e := range h.bank.Ledger() {
			if p.Actions[e.Action].Effect == program.Irreversible {
				calls++
			}
		}
	}
	if calls == 0 {
		t.Error("no irreversible action ever ran: the test shows nothing")
	}
	t.Logf("%d irreversible actions, each after its own confirmation", calls)
}

func FuzzUnderstanding(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	p, err := program.Load(banking.Files)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &bytesDice{data}
		h := newHostile(t, p, d)
		for len(d.data) > 0 && h.turns < 300 {
			h.turn()
		}
		h.recover()
	})
}
