package dialogue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Errors of [Advance]. The state that it returns with an error is the one before the
// input, and the next input works.
var (
	// ErrBusy is returned for an input from outside while a turn is under way: its
	// effects are in [State.Pending].
	ErrBusy = errors.New("dialogue: a turn is under way; give its results first")
	// ErrUnexpected is returned for the result of an effect that is not under way.
	ErrUnexpected = errors.New("dialogue: nothing waits for this result")
	// ErrDue is returned for an input from outside that comes after a deadline: [Wake] is
	// given first, so that an answer that is too late is too late everywhere.
	ErrDue = errors.New("dialogue: a deadline is over; wake the conversation first")
	// ErrNotInHandoff is returned for an [Operator] or a [Release] without a handoff.
	ErrNotInHandoff = errors.New("dialogue: the conversation is with no person")
)

// UnderstandingError is a failure of understanding. The message counts as never sent.
type UnderstandingError struct{ Err error }

// Error returns the text of the failure.
func (e *UnderstandingError) Error() string { return "NLU Pass 1 failed: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnderstandingError) Unwrap() error { return e.Err }

// Advance takes a conversation one input further: it returns the new state and what has
// to be done next. It is pure: no clock, no randomness, no I/O. Every evaluation ends,
// and the state that is given stays as it is.
func Advance(p *program.Program, s State, in Input) (State, []Effect, error) {
	m := newDriver(p, s.shared(in))
	if m.s.FlowSlots[session] == nil {
		m.own()
		m.s.FlowSlots[session] = map[string]expr.Value{}
		for _, name := range sortedKeys(p.Session) {
			if d := p.Session[name].Default; d != nil {
				m.s.FlowSlots[session][name] = *d
				m.setSessionProvenance(name, Provenance{Source: program.FromDefault})
			}
		}
	}
	if err := m.take(in); err != nil {
		if bad := (*UnderstandingError)(nil); errors.As(err, &bad) {
			return *m.s, nil, err // as before the message
		}
		return s, nil, err
	}
	m.m.Turn = m.t
	m.m.Pending = slices.DeleteFunc(append(m.m.Pending, m.effects...), func(e Effect) bool { return e.Reply != nil })
	return *m.s, m.effects, nil
}

// shared returns a copy of the state to take an input in, of which own makes one that can
// be changed throughout: a message that is to be understood first changes next to nothing.
func (s *State) shared(in Input) *State {
	if _, ok := in.(Message); !ok {
		return s.clone()
	}
	for _, f := range s.FlowStack { // JSON leaves out what is empty
		if s.Metadata.Machine.Frames[f.FlowID] == nil || s.FlowSlots[f.FlowID] == nil {
			return s.clone()
		}
	}
	c := *s
	c.Metadata.Machine.Pending = slices.Clone(c.Metadata.Machine.Pending)
	return &c
}

// own makes the state one that can be changed throughout.
func (m *driver) own() { *m = *newDriver(m.p, m.s.clone()) }

// driver takes one input and drives the turn to the next effect, or to its reply.
type driver struct{ interpreter }

func newDriver(p *program.Program, s *State) *driver {
	c := conversation{p: p, s: s, m: &s.Metadata.Machine, t: s.Metadata.Machine.Turn}
	return &driver{interpreter{machine: machine{conversation: c}}}
}

func (m *driver) take(in Input) error {
	switch in := in.(type) {
	case Message:
		return m.message(in, nil)
	case Understood:
		if in.Message != nil {
			return m.message(*in.Message, &in)
		}
		return m.understood(in)
	case outcome:
		return m.result(in)
	}
	if !m.s.Waiting() {
		return ErrBusy
	}
	if m.late(in) {
		return ErrDue
	}
	switch in := in.(type) {
	case Event:
		m.begin(in.Time, Message{Language: m.m.Language}, false)
		m.event(in)
	case Release:
		if m.m.Handoff == nil {
			return ErrNotInHandoff
		}
		m.begin(in.Time, Message{Language: m.m.Language}, false)
		m.release(in)
	case Operator:
		if m.m.Handoff == nil {
			return ErrNotInHandoff
		}
		m.begin(in.Time, Message{Language: m.m.Language}, false)
		m.transcript("operator", in.Text)
		m.t.Messages = append(m.t.Messages, Said{Type: "text", Text: in.Text, Response: "operator"})
	case Wake:
		due, ok := m.s.Due()
		if !ok || due.After(in.Time) {
			return nil
		}
		m.begin(in.Time, Message{Language: m.m.Language}, false)
		m.wake()
	default:
		return fmt.Errorf("dialogue: unknown input %T", in)
	}
	m.run()
	return nil
}

// late says whether an input comes after a deadline that was not given.
func (m *driver) late(in Input) bool {
	x, fromOutside := in.(interface{ late(time.Time) bool })
	due, ok := m.s.Due()
	return ok && fromOutside && x.late(due)
}

// message begins a turn of the user, or has the message understood first if it isn't yet.
func (m *driver) message(in Message, known *Understood) error {
	if in.ID != "" {
		if r, ok := m.s.Answer(in.ID); ok {
			m.effects = []Effect{{Reply: &r}}
			return nil
		}
		if m.m.Incoming != nil && m.m.Incoming.ID == in.ID || m.t != nil && m.t.MessageID == in.ID {
			m.effects = slices.Clone(m.m.Pending) // delivered again: its effects are under way
			m.m.Pending = nil
			return nil
		}
	}
	if !m.s.Waiting() {
		return ErrBusy
	}
	if m.late(in) {
		return ErrDue
	}
	in.Text = strings.ToValidUTF8(in.Text, "\uFFFD")
	if utf8.RuneCountInString(in.Text) > m.p.Settings.MessageChars {
		m.own()
		m.tooLong(in)
		return nil
	}
	if !m.p.Languages.Has(in.Language) {
		in.Language = ""
	}
	stale := in.Question != "" && (m.m.Question == nil || m.m.Question.ID != in.Question)
	direct := len(in.Commands) > 0 || stale || strings.TrimSpace(in.Text) == "" || m.m.Handoff != nil
	if !direct {
		m.m.Before = m.s.ConversationState
		if known != nil {
			m.m.Incoming = &in
			return m.understood(*known)
		}
		u := m.understand(in)
		m.m.Incoming = &in
		m.s.ConversationState = Understanding
		m.effects = []Effect{{Understand: u}}
		return nil
	}
	if known != nil {
		return ErrUnexpected
	}
	m.own()
	m.begin(in.Time, in, true)
	m.t.Queue = m.clean(in.Commands, program.FromButton)
	m.hear()
	if m.m.Handoff != nil {
		m.t.Queue = nil
		m.emit("message", map[string]expr.Value{"queue": expr.Str(m.m.Handoff.Queue), "text": expr.Str(in.Text)})
		m.t.Settled, m.t.Progress = true, true
		m.run()
		return nil
	}
	if stale {
		m.t.Effective, m.t.Queue = true, nil
		m.ignored(Command{Type: "button"}, "stale")
		m.words("stale_answer", nil)
		m.run()
		return nil
	}
	m.run()
	return nil
}

// tooLong answers a message that isn't read.
func (m *driver) tooLong(in Message) {
	state := m.s.ConversationState
	m.t = &Turn{Number: m.s.TurnCount, Time: in.Time, Language: m.language(in.Language), Channel: in.Channel}
	m.words("message_too_long", nil)
	r := m.reply()
	r.State = state
	if q := m.m.Question; q != nil {
		r.Waiting = m.waiting(q)
	}
	last := r
	m.m.LastReply, m.m.LastID, m.m.Secrets, m.hid = &last, in.ID, nil, false
	m.answered(in.ID, masker{&m.conversation}.maskReply(r))
	if m.hid {
		m.m.Secrets = m.t.Secrets
	}
	m.t = nil
	m.effects = []Effect{{Reply: &r}}
}

func (m *driver) understood(in Understood) error {
	msg := m.m.Incoming
	if msg == nil {
		return ErrUnexpected
	}
	m.m.Incoming, m.m.Pending = nil, nil
	m.s.ConversationState = m.m.Before
	if in.Err != nil {
		// The state without the message; only the caller hears of it.
		return &UnderstandingError{Err: in.Err}
	}
	m.begin(msg.Time, *msg, true)
	if !in.Time.IsZero() {
		called := in.Time
		m.s.LastNLUCall = &called
	}
	m.t.Queue = m.clean(in.Commands, program.FromUser)
	m.hear()
	m.s.NLUResult = &NLUResult{Commands: []Command{}}
	for _, c := range in.Commands {
		if len(m.s.NLUResult.Commands) < m.p.Settings.Commands && !m.tooLarge(c) {
			m.s.NLUResult.Commands = append(m.s.NLUResult.Commands, m.masked(c))
		}
	}
	m.run()
	return nil
}

// begin starts a turn.
func (m *driver) begin(now time.Time, in Message, user bool) {
	m.s.TurnCount++
	m.t = &Turn{
		Number: m.s.TurnCount, Time: now, Language: m.language(in.Language), Channel: in.Channel,
		Text: in.Text, MessageID: in.ID, User: user, Asked: m.m.Question,
	}
	m.s.Metadata.Error, m.s.Metadata.ErrorType, m.s.Metadata.ErrorAt = "", "", time.Time{}
	m.s.UserMessage, m.m.Ended = "", nil
	for _, f := range m.m.Frames {
		f.Counted = nil
	}
	m.migrate()
	if q := m.m.Question; user && q != nil && q.Kind == AskInform && m.m.Handoff == nil {
		m.t.Effective = true
		m.acknowledge(q)
	}
}

// hear keeps the user's message, without what is secret in it.
func (m *driver) hear() {
	m.transcript("user", m.mask(m.t.Text))
	m.s.UserMessage = m.mask(m.t.Text)
}

// outcome is the result of an effect.
type outcome interface{ answers(Effect) bool }

// result takes the result of an effect and goes on.
func (m *driver) result(in outcome) error {
	if m.t == nil {
		return ErrUnexpected
	}
	at := slices.IndexFunc(m.m.Pending, in.answers)
	if at < 0 {
		return ErrUnexpected
	}
	m.migrate()
	effect := m.m.Pending[at]
	m.m.Pending = slices.Delete(m.m.Pending, at, at+1)
	switch in := in.(type) {
	case Result:
		m.actionResult(*effect.Action, in)
	case Validated:
		v := Verdict{Value: in.Value, Reason: in.Reason}
		if in.Error != nil {
			v = Verdict{Reason: cmp.Or(in.Error.Message, in.Error.Type, "it can't be checked")}
		}
		m.verdict(in.ID, v)
	case Answer:
		m.modelAnswer(*effect.Model, in)
	}
	if len(m.m.Pending) == 0 {
		m.run()
	}
	return nil
}

func (m *driver) answered(id string, r Reply) {
	if id != "" {
		m.m.Answered = keep(append(m.m.Answered, Answered{ID: id, Reply: r}), answeredKept)
	}
}

// acknowledge goes on after a text that waits for any message.
func (m *driver) acknowledge(q *Question) {
	i := m.index(q.FlowID)
	if i < 0 {
		return
	}
	if _, step := m.at(i); step != nil && m.frame(i).Entered {
		if x, ok := step.Body.(*program.Say); ok && x.WaitForAck {
			m.follows(i, step)
		}
	}
}
