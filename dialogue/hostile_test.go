package dialogue_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
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

// calm are dice with which nothing fails.
type calm struct{}

func (calm) IntN(n int) int { return n - 1 }

// hostile talks with an assistant as nobody should, and checks the laws.
type hostile struct {
	t       *testing.T
	p       *program.Program
	dice    dice
	state   dialogue.State
	bank    *banking.Bank
	code    *action.Set
	now     time.Time
	history []string
	ran     map[string]bool // keys of actions that succeeded
	yes     map[string]bool // irreversible steps that succeeded by the yes of this turn
	asked   *dialogue.Question
	shown   map[string]expr.Value // values of the open confirm
	premium bool                  // the guard of quick_transfer holds
	known   map[string]bool       // flow_ids on the stack
	turns   int
	inputs  int
	done    map[string]int // irreversible calls that succeeded, by instance of the flow, step and inputs
	// advance is told of each input before it is given.
	advance func(n int, s dialogue.State, in dialogue.Input)
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
	for _, f := range h.p.Order {
		names = append(names, h.p.Flows[f].Collects...)
	}
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
	h.wake()
	if h.state.Metadata.Machine.Handoff != nil && h.dice.IntN(4) == 0 {
		h.give(dialogue.Release{Time: h.now, Slots: map[string]expr.Value{h.slot(): pick(h.dice, hostileValues)}}, nil)
		return
	}
	if h.dice.IntN(20) == 0 {
		h.give(dialogue.Event{Name: "came", Fields: map[string]expr.Value{"place": pick(h.dice, hostileValues)}, Time: h.now}, nil)
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

// wake gives the deadlines that are due.
func (h *hostile) wake() {
	for {
		due, ok := h.state.Due()
		if !ok || due.After(h.now) {
			return
		}
		h.give(dialogue.Wake{Time: h.now}, nil)
	}
}

func (h *hostile) give(in dialogue.Input, cmds []dialogue.Command) {
	h.t.Helper()
	text, err := json.Marshal(cmds)
	if err != nil {
		h.fail("%v", err)
	}
	h.history = append(h.history, fmt.Sprintf("%T %s", in, text))
	h.yes = map[string]bool{}
	affirmed := slices.ContainsFunc(cmds, func(c dialogue.Command) bool { return c.Type == dialogue.Affirm })
	replied := false
	for inputs := []dialogue.Input{in}; len(inputs) > 0; {
		in, inputs = inputs[0], inputs[1:]
		if h.advance != nil {
			h.advance(h.inputs, h.state, in)
		}
		h.inputs++
		state, effects, err := dialogue.Advance(h.p, h.state, in)
		if err != nil {
			h.fail("%T: %v", in, err)
		}
		h.state = state
		for _, e := range effects {
			switch {
			case e.Understand != nil:
				inputs = append(inputs, dialogue.Understood{Commands: cmds})
			case e.Model != nil:
				a := dialogue.Answer{ID: e.Model.ID, Text: pick(h.dice, []string{"", "nice", "{x}"}), Tool: pick(h.dice, []string{"", "set_slot", "look", "pay", "sudo"}), Args: map[string]expr.Value{"slot": expr.Str(h.slot()), "value": pick(h.dice, hostileValues)}}
				if h.dice.IntN(8) == 0 {
					a.Error = &dialogue.Failure{Type: "unavailable"}
				}
				inputs = append(inputs, a)
			case e.Validate != nil:
				v := dialogue.Validated{ID: e.Validate.ID, Value: e.Validate.Value}
				if h.p.Name == "banking" {
					v = h.code.Validate(h.t.Context(), *e.Validate)
				}
				inputs = append(inputs, v)
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
	if call.Effect == program.Irreversible && h.yes[call.FlowID+"/"+call.Step] {
		h.fail("%s runs twice for one yes", call.Action)
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
	if call.Effect == program.Irreversible {
		h.yes[call.FlowID+"/"+call.Step] = true
		h.done[fmt.Sprint(call.FlowID, " ", call.Action, " ", call.Inputs)]++
	}
	if h.p.Name != "banking" {
		out := map[string]expr.Value{}
		for _, o := range h.p.Actions[call.Action].Outputs {
			switch o.Type {
			case program.Boolean:
				out[o.Name] = expr.Bool(h.dice.IntN(2) == 0)
			case program.Number, program.Integer:
				out[o.Name] = expr.Num(float64(h.dice.IntN(5)))
			case program.List:
				out[o.Name] = expr.ListOf(expr.Str("a"), expr.Str("b"), expr.Str("c"))
			default:
				out[o.Name] = expr.Str("x")
			}
		}
		return dialogue.Result{ID: call.ID, Outputs: out}
	}
	return h.code.Do(h.t.Context(), call)
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
	for name, p := range m.Session {
		if p.Source == program.FromUser || p.Source == program.FromButton {
			h.fail("session.%s was set by the user", name)
		}
	}
	tier, _ := h.state.FlowSlots["session"]["tier"].Str()
	premium, known, users := tier == "premium", map[string]bool{}, 0
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
		flow, _, ok := h.p.FlowAt(f.FlowName, frame.Version)
		if !ok {
			h.fail("flow %s does not exist", f.FlowName)
		}
		if frame.Role == dialogue.ByUser && flow.Internal && f.Context != "fallback" && f.Context != "default" {
			h.fail("flow %s is internal and was started by the user", f.FlowName)
		}
		if flow.Name == "quick_transfer" && !h.known[f.FlowID] && !h.premium && !premium {
			h.fail("flow %s was started, which its guard hides", f.FlowName)
		}
		known[f.FlowID] = true
		for name, p := range frame.Provenance {
			if said := p.Source == program.FromUser || p.Source == program.FromButton; said && (!flow.Collect(name) || !flow.Allows(flow.Slots[name], p.Source)) {
				h.fail("slot %s of %s was set by the user", name, f.FlowName)
			}
			if _, filled := h.state.FlowSlots[f.FlowID][name]; !filled {
				h.fail("slot %s has a source and no value", name)
			}
		}
	}
	h.premium, h.known = premium, known
	if users > h.p.Settings.StackDepth {
		h.fail("%d flows are open", users)
	}
	if len(m.Frames) != len(h.state.FlowStack) || len(h.state.FlowSlots) != len(h.state.FlowStack)+1 {
		h.fail("%d frames and %d sets of slots for %d flows", len(m.Frames), len(h.state.FlowSlots), len(h.state.FlowStack))
	}
	if len(h.state.FlowStack) > 0 && m.Question == nil && m.Handoff == nil && !h.sleeps() {
		h.fail("flow %s is open and asks nothing", h.state.FlowStack[len(h.state.FlowStack)-1].FlowName)
	}
	if len(h.state.Messages) > h.p.Settings.HistoryMessages || len(h.state.Trace) > h.p.Settings.TraceEvents {
		h.fail("%d messages, %d events", len(h.state.Messages), len(h.state.Trace))
	}
	if h.turns%20 == 0 {
		h.hidden()
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

// hidden checks that no sensitive value can be read in the state as it may be shown.
func (h *hostile) hidden() {
	text, err := json.Marshal(h.state.Masked(h.p))
	if err != nil {
		h.fail("%v", err)
	}
	for _, f := range h.state.FlowStack {
		flow, _, _ := h.p.FlowAt(f.FlowName, h.state.Metadata.Machine.Frames[f.FlowID].Version)
		for name, v := range h.state.FlowSlots[f.FlowID] {
			if slot := flow.Slots[name]; slot != nil && slot.Sensitive && len(v.String()) > 8 && strings.Contains(string(text), v.String()) {
				h.fail("slot %s can be read in %s", name, text)
			}
		}
	}
}

// sleeps says whether the top of the stack waits for a time or an event.
func (h *hostile) sleeps() bool {
	top := h.state.FlowStack[len(h.state.FlowStack)-1]
	flow, _ := h.p.Flow(top.FlowName)
	step, ok := flow.Step(top.CurrentStep)
	return ok && step.Type == "wait"
}

// recover shows that the conversation can go on: whatever happened, the user can cancel
// everything and have a task done.
func (h *hostile) recover() {
	h.wake()
	for range 20 {
		h.wake()
		if h.state.Metadata.Machine.Handoff != nil {
			h.give(dialogue.Release{Time: h.now}, nil)
			continue
		}
		if len(h.state.FlowStack) == 0 {
			break
		}
		h.give(dialogue.Message{Text: "stop", Time: h.now}, []dialogue.Command{{Type: dialogue.CancelFlow}})
	}
	if n := len(h.state.FlowStack); n > 0 {
		h.fail("%d flows can't be cancelled: %v", n, h.state.FlowStack)
	}
	flow, slot := "block_card", "card_type"
	switch h.p.Name {
	case "banking":
	case "everything":
		flow, slot = "sums", "sum"
	default:
		return
	}
	h.give(dialogue.Message{Text: "a card", Time: h.now}, []dialogue.Command{{Type: dialogue.StartFlow, Flow: flow}})
	if h.state.WaitingForSlot != slot {
		h.fail("the conversation can't go on: it waits for %q, stack %v", h.state.WaitingForSlot, h.state.FlowStack)
	}
}

func newHostile(t *testing.T, p *program.Program, d dice) *hostile {
	h := &hostile{t: t, p: p, dice: d, state: dialogue.New("h"), now: time.Unix(1e9, 0).UTC(), ran: map[string]bool{}, done: map[string]int{}}
	if p.Name == "banking" {
		h.bank, h.code = code(t)
	}
	return h
}

// code returns a new bank and its code.
func code(t testing.TB) (*banking.Bank, *action.Set) {
	t.Helper()
	b := new(banking.Bank)
	s, err := b.Code()
	if err != nil {
		t.Fatal(err)
	}
	return b, s
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

// changed returns the bank's assistant after a change of its flows: a step more in each,
// steps renamed, one flow gone.
func changed(t *testing.T, migrate string) *program.Program {
	t.Helper()
	files, err := program.ReadDir(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		text := string(files[i].Text)
		text = strings.ReplaceAll(text, "    steps:\n", "    migrate: "+migrate+"\n    steps:\n      - set: {changed: true}\n")
		text = strings.ReplaceAll(text, "step: confirm_transfer", "step: sure\n        formerly: confirm_transfer")
		text = strings.ReplaceAll(text, "step: how_much,", "step: sum, formerly: how_much,")
		text = strings.ReplaceAll(text, "next: how_much", "next: sum")
		text = strings.ReplaceAll(text, "  request_card:", "  order_a_card:\n    formerly: request_card")
		text = strings.ReplaceAll(text, "  review_security_alerts:", "  alerts:")
		files[i].Text = []byte(text)
	}
	p, err := program.Compile(files...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProgramThatChangesBetweenTurnsBreaksNoLaw(t *testing.T) {
	before := bank(t)
	for _, migrate := range []string{"pin", "alias", "restart_keep_slots"} {
		after := changed(t, migrate)
		for seed := range uint64(10) {
			programs := []*program.Program{before, after}
			if seed%2 == 1 { // each knows the other as it was
				programs = []*program.Program{before.With(after), after.With(before)}
			}
			h := newHostile(t, programs[0], rand.New(rand.NewPCG(seed, 2)))
			for range 100 {
				if h.dice.IntN(10) == 0 {
					h.p = programs[h.dice.IntN(2)]
				}
				h.turn()
			}
			h.recover()
		}
	}
}

// eachScenario calls play with every scenario that has turns, those of its setup put
// before its own, and with the program and the files that it is about.
func eachScenario(t *testing.T, play func(s dialoguetest.Scenario, p *program.Program, files []program.File)) {
	t.Helper()
	var list []dialoguetest.Scenario
	for _, name := range []string{"scenarios", "more"} {
		text, err := os.ReadFile("dialoguetest/testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		more, err := dialoguetest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, more...)
	}
	r := &dialoguetest.Runner{Assistant: func(string) ([]program.File, error) { return program.ReadDir(banking.Files) }}
	for _, s := range list {
		if s.Check != nil {
			continue
		}
		p, files, err := r.Compile(s)
		if err != nil {
			t.Fatal(err)
		}
		if id, span, _ := strings.Cut(s.Setup, " "); id != "" {
			i := slices.IndexFunc(list, func(o dialoguetest.Scenario) bool { return o.ID == id })
			before := list[i].Turns
			if _, to, ok := strings.Cut(span, "-"); ok {
				n, err := strconv.Atoi(to)
				if err != nil {
					t.Fatal(err)
				}
				before = before[:n]
			}
			s.Turns = slices.Concat(before, s.Turns)
		}
		play(s, p, files)
	}
}

func TestNoiseAmongTheCommandsOfAnyScenarioBreaksNoLaw(t *testing.T) {
	seeds := uint64(4+rarer-1) / uint64(rarer)
	if n, err := strconv.ParseUint(os.Getenv("HOSTILE_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	eachScenario(t, func(s dialoguetest.Scenario, p *program.Program, _ []program.File) {
		t.Run(s.ID, func(t *testing.T) {
			for seed := range seeds {
				h := newHostile(t, p, rand.New(rand.NewPCG(seed, 3)))
				for _, turn := range s.Turns {
					h.play(turn, true)
				}
				h.recover()
			}
		})
	})
}

// play plays a turn of a scenario, as it is or with commands dropped, doubled, swapped
// and added.
func (h *hostile) play(turn dialoguetest.Turn, noise bool) {
	h.turns++
	h.now = h.now.Add(time.Second)
	h.wake()
	if turn.U == nil {
		return
	}
	var cmds []dialogue.Command
	if turn.Cmd != nil {
		for _, text := range turn.Cmd.List {
			c, ok, err := dialoguetest.Command(text)
			if err != nil {
				h.fail("%v", err)
			}
			if ok {
				cmds = append(cmds, c)
			}
		}
	} else if read, ok := dialogue.Read(h.p, h.state, dialogue.Message{Text: *turn.U, Language: turn.Lang}); ok {
		cmds = read
	} else if q := h.state.Metadata.Machine.Question; q != nil && q.Slot != "" {
		cmds = append(cmds, dialogue.Command{Type: dialogue.SetSlot, Slot: q.Slot, Value: expr.Str(*turn.U)})
	}
	if noise {
		switch h.dice.IntN(6) {
		case 0:
			cmds = nil
		case 1:
			cmds = append(cmds, cmds...)
		case 2:
			cmds = append(cmds, h.command())
		case 3:
			cmds = append([]dialogue.Command{h.command()}, cmds...)
			slices.Reverse(cmds)
		}
	}
	h.give(dialogue.Message{Text: *turn.U, Language: turn.Lang, Time: h.now}, cmds)
}

// everything is a program that uses every type of steps and replaces the patterns.
const everything = `
version: "2.0"
name: everything
settings: {conversation: {session_timeout: 20m, fallback_flow: lost, default_flow: lost}, runtime: {advances: 15}}
patterns:
  resume: ask
  cancellation: {confirm: true}
  correction: {announce: true}
  question: {flow: faq}
  session_end: {flow: bye}
  handoff: {deadline: 10m, on_deadline: cancel}
  several_starts: last
actions:
  pay: {effect: irreversible, inputs: [sum, "note?"], outputs: {receipt: string}, compensate: refund}
  refund: {effect: write, inputs: [receipt]}
  look: {effect: read, inputs: ["sum?"], outputs: {found: boolean, list: list}, timeout: 1s}
  add: {effect: write, inputs: [n], outputs: {n: integer}}
slots:
  sum: {type: number, minimum: 1, ask: {text: "Sum?"}}
  note: {required: false, ask: {text: "Note for {sum}?"}}
  choice: {ask: {text: "Which?"}}
  sure: {type: boolean, ask: {text: "Sure?"}}
  tier: {options: [a, b], default: a, ask: {text: "Tier?"}}
  n: {type: integer}
flows:
  sums:
    description: Pay sums.
    steps:
    - collect: sum
    - {collect: [note, tier], ask: {text: "Note, tier?"}, deadline: 5m, on_deadline: late, on_cancel: left}
    - {step: half, set: {half: "{{ sum / 2 }}", sum: "{{ sum + 1 }}"}}
    - action: look
    - {call: part, inputs: {sum: half}, outputs: {sure: agreed}, on_error: late, on_cancel: left, when: found}
    - {step: ok, confirm: [sum, note], ask: {text: "Pay {sum} {note}?"}, on_no: sum_again, deadline: 3m}
    - {step: pay, action: pay}
    - {collect: sure, force: true}
    - {say: {text: "{receipt} {agreed}"}, next: end}
    - {step: sum_again, set: {sum: none}, next: back}
    - {step: back, collect: sum, next: half}
    - {step: late, say: {text: Late.}, next: error}
    - {step: left, say: {text: Left.}}
  part:
    description: A part.
    internal: true
    inputs: [sum]
    outputs: [sure]
    steps:
    - {say: {text: "Part {sum}."}, wait_for_ack: true}
    - action: look
    - {collect: choice, options_from: list, when: filled(list), page_size: 1}
    - {collect: sure, deadline: 4m}
    - {branch: [{when: sure, then: end}]}
    - link: deeper
  deeper: {description: D., internal: true, outputs: [sure], steps: [{collect: sure}, {handoff: desk, deadline: 2m, when: not sure}]}
  loop:
    description: Count.
    steps:
    - set: {n: 0}
    - while: n < 4
      do:
      - {collect: note, force: true}
      - {action: add}
      - {parallel: [{action: look}, {action: look, on_error: out}]}
    - {step: out, say: {text: "{n}"}}
  again:
    description: Pay again and again.
    steps:
    - collect: sum
    - {step: ok, confirm: [sum], ask: {text: "Pay {sum} each time?"}}
    - set: {n: 0}
    - while: n < 3
      do:
      - {step: pay, action: pay, on_error: more}
      - set: {n: "{{ n + 1 }}"}
    - {step: more, collect: sure, force: true}
    - {branch: [{when: sure, then: ok}]}
  sleep:
    description: Sleep.
    resume: immediate
    steps:
    - {wait: 10m}
    - {wait: {event: came, deadline: 1h}, outputs: {place: choice}, on_deadline: cancel}
    - {generate: {instruction: "Praise {choice}.", context: [choice]}}
    - {agent: {instruction: X, tools: [look], may_set: [tier], max_steps: 3, exit_when: tier == 'b'}, on_error: continue}
    - {collect: tier, force: true}
  faq: {description: F., internal: true, steps: [{say: {text: "{repair.topic}"}}, {collect: sure, deadline: 1m}]}
  bye: {description: B., internal: true, steps: [{say: {text: Bye.}}, {collect: sure}]}
  lost: {description: L., internal: true, steps: [{say: {text: Lost.}}]}
`

func TestAHostileUnderstandingBreaksNoLawOfAProgramThatUsesEverything(t *testing.T) {
	p, err := program.Compile(program.File{Name: "everything.yaml", Text: []byte(everything)})
	if err != nil {
		t.Fatal(err)
	}
	turns := 4_000
	if n, err := strconv.Atoi(os.Getenv("HOSTILE_TURNS")); err == nil {
		turns = n
	}
	for seed := uint64(1); turns > 0; seed++ {
		h := newHostile(t, p, rand.New(rand.NewPCG(seed, 4)))
		for range 200 {
			h.turn()
			turns--
		}
		h.recover()
	}
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

func FuzzAnyProgramThatCompilesCanBeTalkedTo(f *testing.F) {
	f.Add([]byte(everything), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60})
	files, err := program.ReadDir(banking.Files)
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		f.Add(file.Text, []byte{7, 1, 3, 9, 2})
	}
	f.Fuzz(func(t *testing.T, text, data []byte) {
		p, err := program.Compile(program.File{Name: "f.yaml", Text: text})
		if err != nil || p.Name == "banking" {
			return
		}
		d := &bytesDice{data}
		h := newHostile(t, p, d)
		for len(d.data) > 0 && h.turns < 100 {
			h.turn()
		}
	})
}
