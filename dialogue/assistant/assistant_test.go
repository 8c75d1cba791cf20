package assistant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

// flights is the assistant of the rows SONI-22 to 29 and SONI-60.
const flights = `
version: "2.0"
slots:
  origin:      {type: string, ask: {text: "From where?"}, explain: {text: "We fly from New York and Boston."}}
  destination: {type: string, ask: {text: "Where to?"}}
  seats:       {type: integer, minimum: 1, maximum: 8, ask: {text: "How many seats?"}}
  booking:     {type: string, ask: {text: "Which booking?"}}
actions:
  find:  {effect: read, inputs: [booking], outputs: {status: string}}
  order: {effect: irreversible, inputs: [origin, destination, seats], outputs: {reference: string}}
flows:
  book_flight:
    description: Book a flight.
    steps:
    - collect: origin
    - collect: destination
    - collect: seats
    - {confirm: [origin, destination, seats], ask: {text: "{seats} seats from {origin} to {destination}?"}}
    - action: order
    - say: {text: "Booked: {reference}."}
  check_booking:
    description: Say how a booking stands.
    steps:
    - collect: booking
    - action: find
    - say: {text: "It is {status}."}
  cancel_booking:
    description: Cancel a booking.
    steps:
    - collect: booking
    - say: {text: "Booking {booking} is cancelled."}
`

// airline is the code of flights.
type airline struct {
	mu    sync.Mutex
	calls []string                     // by ID
	fails map[string]*dialogue.Failure // by action
}

func (l *airline) Do(_ context.Context, call dialogue.ActionCall) dialogue.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call.Action)
	if f := l.fails[call.Action]; f != nil {
		return dialogue.Result{Error: f}
	}
	switch call.Action {
	case "find":
		return dialogue.Result{Outputs: map[string]expr.Value{"status": expr.Str("on time")}}
	case "order":
		return dialogue.Result{Outputs: map[string]expr.Value{"reference": expr.Str("SU-42")}}
	}
	return dialogue.Result{Error: &dialogue.Failure{Type: "action_not_found"}}
}

func (l *airline) Validate(_ context.Context, v dialogue.Validation) dialogue.Validated {
	return dialogue.Validated{ID: v.ID, Value: v.Value}
}

func (l *airline) Check(*program.Program) error { return nil }

// hears understands the texts that it has.
type hears map[string][]dialogue.Command

func (h hears) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	cmds, ok := h[in.Message.Text]
	if !ok {
		return nil, fmt.Errorf("nobody understands %q", in.Message.Text)
	}
	return cmds, nil
}

func start(flow string) []dialogue.Command {
	return []dialogue.Command{{Type: dialogue.StartFlow, Flow: flow}}
}

func set(slot, value string) []dialogue.Command {
	return []dialogue.Command{{Type: dialogue.SetSlot, Slot: slot, Value: expr.Str(value)}}
}

var heard = hears{
	"Book a flight":                    start("book_flight"),
	"Check my booking":                 start("check_booking"),
	"Actually, check my booking first": start("check_booking"),
	"Cancel my reservation":            start("cancel_booking"),
	"New York":                         set("origin", "New York"),
	"Paris":                            set("destination", "Paris"),
	"AB12":                             set("booking", "AB12"),
	"9":                                set("seats", "9"),
	"What cities do you support?":      {{Type: dialogue.AskQuestion, Topic: "origin", Slot: "origin"}},
	"Hm":                               {},
}

func compile(t testing.TB, text string) *program.Program {
	t.Helper()
	p, err := program.Compile(program.File{Name: "assistant.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func build(t testing.TB, c assistant.Config, opts ...graph.Option) *assistant.Assistant {
	t.Helper()
	if c.Program == nil {
		c.Program = compile(t, flights)
	}
	if c.Actions == nil {
		c.Actions = new(airline)
	}
	if c.Understanding == nil {
		c.Understanding = heard
	}
	a, err := assistant.New(c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// say has a user say something, and returns the reply and the conversation.
func say(t testing.TB, a *assistant.Assistant, text string) (dialogue.Reply, dialogue.State) {
	t.Helper()
	r, err := a.Say(t.Context(), "anna", dialogue.Message{Text: text})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r, state(t, a)
}

func state(t testing.TB, a *assistant.Assistant) dialogue.State {
	t.Helper()
	s, err := a.State(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func snapshot(t testing.TB, a *assistant.Assistant) *graph.Snapshot[assistant.State] {
	t.Helper()
	snap, err := a.Graph().Thread("anna").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestAFlightIsBooked(t *testing.T) {
	l := new(airline)
	a := build(t, assistant.Config{Actions: l})
	for _, turn := range []struct{ u, says string }{
		{"Book a flight", "From where?"},
		{"New York", "Where to?"},
		{"Paris", "How many seats?"},
		{"2", "2 seats from New York to Paris?"},
		{"yes", "Booked: SU-42."},
	} {
		if r, _ := say(t, a, turn.u); r.Text != turn.says {
			t.Fatalf("%q: want %q, got %q", turn.u, turn.says, r.Text)
		}
	}
	if !slices.Equal(l.calls, []string{"order"}) {
		t.Errorf("calls: %v", l.calls)
	}
	if snap := snapshot(t, a); !snap.Done() {
		t.Errorf("nothing is open, and the thread has not ended: next %v", snap.Next)
	}
}

// SONI-60
func TestTheDocumentsConversations(t *testing.T) {
	t.Run("the first turn waits for a slot", func(t *testing.T) {
		a := build(t, assistant.Config{})
		if _, s := say(t, a, "Book a flight"); s.ConversationState != dialogue.WaitingForSlot || s.WaitingForSlot != "origin" {
			t.Errorf("%s, waiting for %q", s.ConversationState, s.WaitingForSlot)
		}
	})
	t.Run("an interrupt is resumed with New York", func(t *testing.T) {
		a := build(t, assistant.Config{})
		say(t, a, "Book a flight")
		thread := a.Graph().Thread("anna")
		snap, err := thread.Invoke(t.Context(), thread.Answer("New York"))
		if err != nil {
			t.Fatal(err)
		}
		d := snap.State.Dialogue()
		if v, _ := d.Slot("origin"); v.String() != "New York" || d.WaitingForSlot != "destination" {
			t.Errorf("origin %v, waiting for %q", v, d.WaitingForSlot)
		}
	})
	for text, flow := range map[string]string{"Book a flight": "book_flight", "Check my booking": "check_booking", "Cancel my reservation": "cancel_booking"} {
		t.Run(text, func(t *testing.T) {
			_, s := say(t, build(t, assistant.Config{}), text)
			if f, _ := s.Active(); f.FlowName != flow {
				t.Errorf("active: %q", f.FlowName)
			}
		})
	}
}

// SONI-22
func TestUnderstandingKeepsWhatItFoundAndWhenAModelWasCalled(t *testing.T) {
	a := build(t, assistant.Config{}, graph.InterruptAfter("understand"))
	if _, err := a.Say(t.Context(), "anna", dialogue.Message{Text: "Book a flight"}); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, a).State
	if s.ConversationState != "understanding" || s.LastNLUCall.Get() == nil {
		t.Errorf("conversation_state %q, last_nlu_call %v", s.ConversationState, s.LastNLUCall.Get())
	}
	if got := s.NLUResult.Get(); got == nil || len(got.Commands) != 1 || got.Commands[0].Type != dialogue.StartFlow || got.Commands[0].Flow != "book_flight" {
		t.Errorf("nlu_result %+v", got)
	}
}

// SONI-23
func TestWhatAMessageMeansLeadsToItsNode(t *testing.T) {
	for _, c := range []struct{ u, node string }{
		{"New York", "validate_slot"},
		{"What cities do you support?", "handle_digression"},
		{"Actually, check my booking first", "handle_intent_change"},
		{"Hm", "generate_response"},
	} {
		t.Run(c.u, func(t *testing.T) {
			a := build(t, assistant.Config{})
			say(t, a, "Book a flight")
			step := snapshot(t, a).Step
			say(t, a, c.u)
			var recent []string
			for e, err := range a.Graph().Thread("anna").History(t.Context(), graph.HistoryQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Step == step+1 { // understand has run
					recent = e.Next
					break
				}
			}
			if !slices.Equal(recent, []string{c.node}) {
				t.Errorf("understand led to %v", recent)
			}
		})
	}
}

// SONI-24
func TestAnInvalidValueIsRefusedAndAskedForAgain(t *testing.T) {
	a := build(t, assistant.Config{})
	for _, u := range []string{"Book a flight", "New York", "Paris"} {
		say(t, a, u)
	}
	r, s := say(t, a, "9")
	if _, filled := s.Slot("seats"); filled || s.WaitingForSlot != "seats" || !strings.HasPrefix(r.Text, "Invalid value: ") {
		t.Errorf("after a bad value: filled %v, waiting for %q, %q", filled, s.WaitingForSlot, r.Text)
	}
	if _, s = say(t, a, "2"); s.WaitingForSlot == "seats" {
		t.Error("the good value is asked for again")
	}
	if v, _ := s.Slot("seats"); !v.Equal(expr.Num(2)) {
		t.Errorf("seats: %v", v)
	}
}

// SONI-26
func TestADigressionIsAnsweredAndTheQuestionStays(t *testing.T) {
	a := build(t, assistant.Config{})
	_, before := say(t, a, "Book a flight")
	r, after := say(t, a, "What cities do you support?")
	if r.Text != "We fly from New York and Boston.\nFrom where?" {
		t.Errorf("reply: %q", r.Text)
	}
	if after.WaitingForSlot != before.WaitingForSlot || len(after.FlowStack) != 1 || after.FlowStack[0].FlowID != before.FlowStack[0].FlowID {
		t.Errorf("waiting for %q, stack %v", after.WaitingForSlot, after.FlowStack)
	}
	if snap := snapshot(t, a); len(snap.Interrupts) != 1 {
		t.Errorf("%d questions are open", len(snap.Interrupts))
	}
}

// SONI-29
func TestAnInterruptedFlowGoesOnAtItsQuestion(t *testing.T) {
	a := build(t, assistant.Config{})
	say(t, a, "Book a flight")
	_, s := say(t, a, "Actually, check my booking first")
	if f, _ := s.Active(); len(s.FlowStack) != 2 || f.FlowName != "check_booking" {
		t.Fatalf("stack %v", s.FlowStack)
	}
	_, s = say(t, a, "AB12")
	if f, _ := s.Active(); len(s.FlowStack) != 1 || f.FlowName != "book_flight" || s.WaitingForSlot != "origin" {
		t.Errorf("stack %v, waiting for %q", s.FlowStack, s.WaitingForSlot)
	}
}

// counts counts what is asked of a model.
type counts struct {
	hears
	n int
}

func (c *counts) Understand(ctx context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	c.n++
	return c.hears.Understand(ctx, in)
}

// SONI-27
func TestEveryMessageIsUnderstoodAndEndsSomewhere(t *testing.T) {
	c := &counts{hears: heard}
	a := build(t, assistant.Config{Understanding: c, Read: func(*program.Program, dialogue.State, dialogue.Message) ([]dialogue.Command, bool) { return nil, false }})
	messages := []string{"Book a flight", "New York", "What cities do you support?", "Hm"}
	for _, u := range messages {
		say(t, a, u)
		if snap := snapshot(t, a); !snap.Done() && len(snap.Interrupts) != 1 {
			t.Errorf("after %q neither the end nor a question: next %v", u, snap.Next)
		}
	}
	if c.n != len(messages) {
		t.Errorf("%d messages, understood %d times", len(messages), c.n)
	}
	// From every node an edge leads on, in the end to End.
	ends := map[string]bool{graph.End: true}
	drawing := a.Graph().Drawing(0)
	for grown := true; grown; {
		grown = false
		for _, e := range drawing.Edges {
			if ends[e.To] && !ends[e.From] {
				ends[e.From], grown = true, true
			}
		}
	}
	for _, n := range a.Graph().Nodes() {
		if !ends[n] {
			t.Errorf("no way leads from %s to the end", n)
		}
	}
}

func TestNoModelIsAskedWhereTheWordsAreTheAnswer(t *testing.T) {
	c := &counts{hears: heard}
	a := build(t, assistant.Config{Understanding: c})
	for _, u := range []string{"Book a flight", "New York", "Paris", "2", "yes"} {
		say(t, a, u)
	}
	if c.n != 3 {
		t.Errorf("a model was asked %d times; a number and a yes are no reason", c.n)
	}
}

func TestAMessageThatIsNotUnderstoodCountsAsNeverSent(t *testing.T) {
	a := build(t, assistant.Config{})
	_, before := say(t, a, "Book a flight")
	_, err := a.Say(t.Context(), "anna", dialogue.Message{Text: "Nuuk", ID: "m-1"})
	if bad := (*dialogue.UnderstandingError)(nil); !errors.As(err, &bad) {
		t.Fatalf("error: %v", err)
	}
	if after := state(t, a); after.TurnCount != before.TurnCount || len(after.Messages) != len(before.Messages) || after.WaitingForSlot != "origin" {
		t.Errorf("turn %d, %d messages, waiting for %q", after.TurnCount, len(after.Messages), after.WaitingForSlot)
	}
	if r, s := say(t, a, "New York"); r.Text != "Where to?" || len(s.Messages) != 4 {
		t.Errorf("then: %q, %d messages", r.Text, len(s.Messages))
	}
}

// writes counts what is written to a store.
type writes struct {
	*checkpoint.Memory
	records int
}

func (w *writes) Write(ctx context.Context, c *checkpoint.Write) (checkpoint.Written, error) {
	if c.Record != nil {
		w.records++
	}
	return w.Memory.Write(ctx, c)
}

func TestATurnWithoutAnActionAppendsThreeRecords(t *testing.T) {
	w := &writes{Memory: checkpoint.NewMemory()}
	a := build(t, assistant.Config{Store: w})
	say(t, a, "Book a flight")
	w.records = 0
	say(t, a, "New York")
	if w.records != 3 { // the message, what it means, and what follows with the question
		t.Errorf("%d records", w.records)
	}
}

func TestAMessageThatIsTooLongIsToldSo(t *testing.T) {
	a := build(t, assistant.Config{Store: checkpoint.NewMemory()})
	asked, _ := say(t, a, "Book a flight")
	for _, id := range []string{"", "m-7"} {
		r, err := a.Say(t.Context(), "anna", dialogue.Message{ID: id, Text: strings.Repeat("a", 1_000_000)})
		if err != nil || r.Text != "That message is too long." || r.Waiting == nil {
			t.Errorf("ID %q: %+v, %v", id, r, err)
		}
	}
	if r, err := a.Say(t.Context(), "anna", dialogue.Message{ID: "m-7", Text: "again"}); err != nil || r.Text != "That message is too long." {
		t.Errorf("delivered again: %+v, %v", r, err)
	}
	if r, _ := say(t, a, "New York"); r.Text == asked.Text || strings.Contains(r.Text, "long") {
		t.Errorf("then: %q", r.Text)
	}
}
