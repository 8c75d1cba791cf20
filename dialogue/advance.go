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
	m := &machine{p: p, s: s.clone()}
	m.m = &m.s.Metadata.Machine
	m.t = m.m.Turn
	if m.s.FlowSlots[session] == nil {
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

// machine is one call of Advance.
type machine struct {
	p       *program.Program
	s       *State
	m       *Machine
	t       *Turn
	effects []Effect
	refused bool // the command that is carried out was ignored
}

func (m *machine) take(in Input) error {
	switch in := in.(type) {
	case Message:
		return m.message(in)
	case Understood:
		return m.understood(in)
	case Result, Validated, Answer:
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
func (m *machine) late(in Input) bool {
	var at time.Time
	switch in := in.(type) {
	case Message:
		at = in.Time
	case Event:
		at = in.Time
	case Release:
		at = in.Time
	case Operator:
		at = in.Time
	}
	due, ok := m.s.Due()
	return ok && !due.After(at)
}

// message begins a turn of the user, or has the message understood first.
func (m *machine) message(in Message) error {
	if in.ID != "" {
		for _, a := range m.m.Answered {
			if a.ID == in.ID {
				m.effects = []Effect{{Reply: &a.Reply}}
				return nil
			}
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
		u := m.understand(in)
		m.m.Incoming = &in
		m.s.ConversationState = Understanding
		m.effects = []Effect{{Understand: u}}
		return nil
	}
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
func (m *machine) tooLong(in Message) {
	state := m.s.ConversationState
	m.t = &Turn{Number: m.s.TurnCount, Time: in.Time, Language: m.language(in.Language), Channel: in.Channel}
	m.words("message_too_long", nil)
	r := m.reply()
	r.State = state
	if q := m.m.Question; q != nil {
		r.Waiting = m.waiting(q)
	}
	m.t = nil
	m.answered(in.ID, r)
	m.effects = []Effect{{Reply: &r}}
}

func (m *machine) understood(in Understood) error {
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
func (m *machine) begin(now time.Time, in Message, user bool) {
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
func (m *machine) hear() {
	m.transcript("user", m.mask(m.t.Text))
	m.s.UserMessage = m.mask(m.t.Text)
}

func (m *machine) language(given string) string {
	return cmp.Or(given, m.m.Language, m.p.Languages.Default)
}

// result takes the result of an effect and goes on.
func (m *machine) result(in Input) error {
	if m.t == nil {
		return ErrUnexpected
	}
	var id string
	switch in := in.(type) {
	case Result:
		id = in.ID
	case Validated:
		id = in.ID
	case Answer:
		id = in.ID
	}
	at := slices.IndexFunc(m.m.Pending, func(e Effect) bool {
		switch in.(type) {
		case Result:
			return e.Action != nil && e.Action.ID == id
		case Validated:
			return e.Validate != nil && e.Validate.ID == id
		}
		return e.Model != nil && e.Model.ID == id
	})
	if at < 0 {
		return ErrUnexpected
	}
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
		m.verdict(id, v)
	case Answer:
		m.modelAnswer(*effect.Model, in)
	}
	if len(m.m.Pending) == 0 {
		m.run()
	}
	return nil
}

func (m *machine) verdict(id string, v Verdict) {
	if m.t.Verdicts == nil {
		m.t.Verdicts = map[string]Verdict{}
	}
	m.t.Verdicts[id] = v
}

// busy says whether effects are under way.
func (m *machine) busy() bool { return len(m.m.Pending)+len(m.effects) > 0 }

// effect hands one out.
func (m *machine) effect(e Effect) {
	m.effects = append(m.effects, e)
}

// run does what is left of the turn until an effect is needed or the turn ends.
func (m *machine) run() {
	for len(m.t.Queue) > 0 {
		if m.t.Agreed { // what was agreed to is done before anything comes in between
			for !m.busy() && m.step() {
			}
			if m.busy() {
				return
			}
			m.t.Agreed = false
		}
		c := m.t.Queue[0]
		if !m.command(c) {
			return
		}
		m.t.Queue = m.t.Queue[1:]
		if m.busy() {
			return
		}
	}
	if !m.t.Settled {
		m.t.Settled = true
		if m.t.User {
			m.settle()
		}
	}
	for {
		for !m.busy() && m.step() {
		}
		if m.busy() {
			return
		}
		if m.ask() {
			break
		}
	}
	m.finish()
}

// settle answers a message that led to nothing.
func (m *machine) settle() {
	if !m.t.Effective {
		m.unclear()
	}
	if m.t.Progress {
		m.m.Idle = 0
		return
	}
	m.m.Idle++
	if m.m.Idle < m.p.Settings.NoProgress || m.m.Handoff != nil {
		return
	}
	m.m.Idle = 0
	m.pattern("no_progress", Repair{})
	switch m.p.Settings.OnNoProgress {
	case "handoff":
		m.toPerson("no_progress")
	case "fallback":
		if f := m.p.Settings.FallbackFlow; f != "" {
			m.start(f, "fallback")
		}
	}
}

// unclear answers a message that nothing is known to do with.
func (m *machine) unclear() {
	q := m.m.Question
	if q == nil || m.asleep() {
		first := m.t.Number == 1 && m.p.Settings.DefaultFlow != ""
		m.t.Fell = !first
		switch {
		case first:
			m.start(m.p.Settings.DefaultFlow, "default")
		case m.p.Settings.FallbackFlow != "" && strings.TrimSpace(m.t.Text) != "":
			m.start(m.p.Settings.FallbackFlow, "fallback")
		default:
			m.words("nothing_understood", nil)
		}
		return
	}
	q.Unclear++
	limit, target, name := m.p.Patterns.UnclearRetries, m.p.Patterns.UnclearOnLimit, "unclear"
	if q.Kind != AskCollect && q.Kind != AskInform {
		limit, target, name = m.p.Patterns.ConfirmRetries, m.p.Patterns.ConfirmOnLimit, "confirmation"
	}
	if q.Kind == AskChoice {
		name = "unclear"
	}
	if i := m.index(q.FlowID); i >= 0 && q.Kind == AskConfirm {
		if _, step := m.at(i); step != nil {
			if x, ok := step.Body.(*program.Confirm); ok {
				if x.MaxRetries > 0 {
					limit = x.MaxRetries
				}
				if x.OnLimit != nil {
					target = *x.OnLimit
				}
			}
		}
	}
	if q.Unclear < limit {
		m.pattern(name, Repair{})
		return
	}
	m.trace(TraceEvent{Kind: "limit", Reason: name})
	m.limit(target)
}

// limit does what is to be done when the user can't be understood any more.
func (m *machine) limit(t program.Target) {
	m.t.Progress = true
	top := len(m.s.FlowStack) - 1
	switch {
	case t.Kind == program.ToHandoff:
		m.toPerson("limit")
	case top < 0:
		m.m.Question = nil
	case t.Kind == program.ToCancel:
		m.cancel(false)
	default:
		m.leave(top, t)
	}
}

// start starts a flow that no user asked for.
func (m *machine) start(flow, why string) {
	if f, ok := m.p.Flow(flow); ok {
		m.push(f, ByUser, "", why)
	}
}

// asleep says whether the top of the stack waits for a time or an event, so that the
// user is asked nothing.
func (m *machine) asleep() bool {
	if len(m.s.FlowStack) == 0 {
		return false
	}
	_, step := m.at(len(m.s.FlowStack) - 1)
	if step == nil {
		return false
	}
	_, ok := step.Body.(*program.Wait)
	return ok
}

// event brings an event to the flow that waits for it.
func (m *machine) event(in Event) {
	for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
		_, step := m.at(i)
		if step == nil {
			continue
		}
		if w, ok := step.Body.(*program.Wait); ok && w.Event == in.Name && m.frame(i).Entered && m.frame(i).Event == nil {
			in := in
			if in.Fields == nil {
				in.Fields = map[string]expr.Value{}
			}
			m.frame(i).Event = &in
			m.trace(TraceEvent{Kind: "event", Flow: m.s.FlowStack[i].FlowName, Step: step.Name, Reason: in.Name})
			return
		}
	}
	m.trace(TraceEvent{Kind: "event_ignored", Reason: in.Name})
}

// wake does what is due.
func (m *machine) wake() {
	if !m.m.SessionEnd.IsZero() && !m.m.SessionEnd.After(m.t.Time) && (m.m.Deadline.IsZero() || m.m.SessionEnd.Before(m.m.Deadline)) {
		m.endSession()
		return
	}
	if h := m.m.Handoff; h != nil {
		m.m.Handoff, m.m.Deadline = nil, time.Time{}
		m.trace(TraceEvent{Kind: "deadline", Reason: "handoff"})
		if i := m.index(h.FlowID); i >= 0 {
			m.deadline(i)
			return
		}
		if m.p.Patterns.HandoffOnDeadline == "cancel" {
			for len(m.s.FlowStack) > 0 {
				m.end(len(m.s.FlowStack)-1, Cancelled, "deadline")
			}
		}
		m.askAnew()
		return
	}
	if top := len(m.s.FlowStack) - 1; top >= 0 {
		m.deadline(top)
	}
}

// deadline leads the step of a frame to what happens when its time is over.
func (m *machine) deadline(i int) {
	_, step := m.at(i)
	f := m.frame(i)
	f.Deadline = time.Time{}
	if step == nil {
		return
	}
	m.trace(TraceEvent{Kind: "deadline", Flow: m.s.FlowStack[i].FlowName, Step: step.Name})
	var to *program.Target
	switch x := step.Body.(type) {
	case *program.Collect:
		to = x.OnDeadline
	case *program.Confirm:
		to = x.OnDeadline
	case *program.Handoff:
		if to = x.OnDeadline; to == nil && m.p.Patterns.HandoffOnDeadline == "resume" {
			to = &program.Target{}
		}
	case *program.Wait:
		if x.For > 0 {
			f.Waited = true
			return
		}
		to = x.OnDeadline
	}
	m.m.Question = nil
	id := m.s.FlowStack[i].FlowID
	if f.Role != ByPattern {
		m.dropPatterns()
	}
	if to == nil {
		to = &program.Target{Kind: program.ToCancel}
	}
	m.leave(m.index(id), *to)
}

// endSession abandons what is open after a long silence.
func (m *machine) endSession() {
	m.trace(TraceEvent{Kind: "session_end"})
	m.m.SessionEnd, m.m.Deadline, m.m.Question = time.Time{}, time.Time{}, nil
	for len(m.s.FlowStack) > 0 {
		m.end(len(m.s.FlowStack)-1, Abandoned, "silence")
	}
	m.s.DigressionDepth, m.m.Idle = 0, 0
	if m.p.Settings.ForgetSession {
		m.s.FlowSlots[session] = map[string]expr.Value{}
		m.m.Session = nil
	}
	m.pattern("session_end", Repair{})
}

// release ends a handoff.
func (m *machine) release(in Release) {
	h := m.m.Handoff
	m.m.Handoff, m.m.Deadline = nil, time.Time{}
	m.trace(TraceEvent{Kind: "release", Reason: in.Summary})
	i := m.index(h.FlowID)
	target := i
	if i < 0 {
		target = len(m.s.FlowStack) - 1
	}
	if target >= 0 {
		flow := m.flow(target)
		for _, name := range sortedKeys(in.Slots) {
			slot, ok := flow.Slots[name]
			if !ok || !flow.Allows(slot, program.FromSet) {
				m.ignored(Command{Type: SetSlot, Slot: name}, "source")
				continue
			}
			if v, reason := slot.Check(in.Slots[name], m.lang()); reason == "" {
				m.store(target, name, v, Provenance{Source: program.FromSet, Turn: m.t.Number})
			}
		}
	}
	if i >= 0 {
		f := m.frame(i)
		f.Deadline = time.Time{}
		_, step := m.at(i)
		m.visit(i, step, nil)
		m.leave(i, step.Next)
	} else {
		m.askAnew()
	}
	m.t.Progress = true
}

// askAnew lets the time of the question on top begin again: after a person had the
// conversation, and when its flow is resumed.
func (m *machine) askAnew() {
	top := len(m.s.FlowStack) - 1
	if top < 0 {
		return
	}
	if _, step := m.at(top); step != nil {
		if _, sleeps := step.Body.(*program.Wait); !sleeps {
			m.frame(top).Deadline = time.Time{}
		}
	}
}

// toPerson passes the conversation to a person.
func (m *machine) toPerson(reason string) {
	if m.m.Handoff != nil {
		return
	}
	m.pattern("handoff", Repair{Topic: reason})
	if m.p.Patterns.Flows["handoff"] != "" {
		return // a flow of the assistant's own hands over
	}
	m.handover(m.p.Patterns.Queue, reason, "", nil, m.p.Patterns.HandoffDeadline)
}

func (m *machine) handover(queue, reason, flowID string, context map[string]expr.Value, deadline time.Duration) {
	m.m.Handoff = &HandoffMode{Queue: queue, Reason: reason, FlowID: flowID}
	m.m.Question = nil
	m.m.Deadline = time.Time{}
	if deadline > 0 {
		m.m.Deadline = m.t.Time.Add(deadline)
	}
	lines := make([]expr.Value, 0, len(m.s.Messages))
	for _, e := range m.s.Messages {
		lines = append(lines, expr.Str(e.Role+": "+e.Text))
	}
	m.emit("handoff", map[string]expr.Value{
		"queue": expr.Str(queue), "reason": expr.Str(reason), "context": expr.ObjectOf(context), "transcript": expr.ListOf(lines...),
	})
}

// finish ends the turn.
func (m *machine) finish() {
	r := m.reply()
	if !m.t.User && r.Text != "" {
		r.Events = append(r.Events, Event{Name: "message", Fields: map[string]expr.Value{"text": expr.Str(r.Text)}, Time: m.t.Time})
	}
	m.secrets()
	m.s.UserMessage = m.mask(m.t.Text)
	if m.t.User {
		for i := len(m.s.Messages) - 1; i >= 0; i-- {
			if e := &m.s.Messages[i]; e.Role == "user" && e.Turn == m.t.Number {
				e.Text = m.mask(e.Text)
				break
			}
		}
	}
	if r.Text != "" && (len(m.t.Messages) == 0 || m.t.Messages[0].Response != "operator") {
		m.transcript("assistant", m.mask(r.Text))
	}
	m.s.LastResponse = m.mask(r.Text)
	for i := range m.s.Trace {
		if e := &m.s.Trace[i]; e.Turn == m.t.Number {
			e.Value, e.Reason = m.mask(e.Value), m.mask(e.Reason)
		}
	}
	last := r
	m.m.LastReply = &last
	if m.m.Question != nil {
		m.m.Question.Turn = m.t.Number
	}
	m.m.SessionEnd = time.Time{}
	if m.m.Question != nil && m.m.Handoff == nil && m.p.Settings.SessionAfter > 0 {
		m.m.SessionEnd = m.t.Time.Add(m.p.Settings.SessionAfter)
	}
	m.answered(m.t.MessageID, r)
	m.s.Trace = keep(m.s.Trace, m.p.Settings.TraceEvents)
	m.s.Messages = keep(m.s.Messages, m.p.Settings.HistoryMessages)
	m.s.Metadata.CompletedFlows = keep(m.s.Metadata.CompletedFlows, m.p.Settings.CompletedFlows)
	m.t = nil
	m.effect(Effect{Reply: &r})
}

func keep[T any](list []T, n int) []T {
	if len(list) > n {
		return slices.Clone(list[len(list)-n:])
	}
	return list
}

func (m *machine) answered(id string, r Reply) {
	if id != "" {
		m.m.Answered = keep(append(m.m.Answered, Answered{ID: id, Reply: r}), answeredKept)
	}
}

// reply puts the turn's reply together and settles the states.
func (m *machine) reply() Reply {
	r := Reply{Turn: m.t.Number, Language: m.t.Language, Messages: m.t.Messages, Events: m.t.Events}
	var texts []string
	for _, s := range m.t.Messages {
		if s.Text != "" {
			texts = append(texts, s.Text)
		}
	}
	r.Text = strings.Join(texts, "\n")
	q := m.m.Question
	m.s.CurrentStep, m.s.WaitingForSlot = "", ""
	if f, ok := m.s.Active(); ok {
		r.ActiveFlow, m.s.CurrentStep = f.FlowName, f.CurrentStep
	}
	switch {
	case m.m.Handoff != nil:
		m.s.ConversationState = InHandoff
	case m.t.Failed:
		m.s.ConversationState = InError
	case q != nil && q.Kind == AskRetry:
		m.s.ConversationState = Understanding
	case q != nil && q.Kind == AskCollect:
		m.s.ConversationState, m.s.WaitingForSlot = WaitingForSlot, q.Slot
	case q != nil && q.Kind == AskConfirm:
		m.s.ConversationState, m.s.WaitingForSlot = Confirming, "confirm:"+q.Step
	case q != nil && (q.Kind == AskResume || q.Kind == AskCancel):
		m.s.ConversationState = Confirming
	case m.t.Fell:
		m.s.ConversationState = Fallback
	case len(m.s.FlowStack) > 0 && q == nil:
		m.s.ConversationState = ExecutingAction
	case len(m.s.FlowStack) > 0:
		m.s.ConversationState = WaitingForSlot
	case m.t.Ended:
		m.s.ConversationState = Done
	default:
		m.s.ConversationState = Idle
	}
	r.State = m.s.ConversationState
	if q != nil {
		r.Waiting = m.waiting(q)
	}
	return r
}

func (m *machine) waiting(q *Question) *Waiting {
	w := &Waiting{Type: q.Kind, Step: q.Step, Slot: q.Slot, Options: q.Options, ID: q.ID}
	switch q.Kind {
	case AskResume, AskCancel, AskRetry:
		w.Type = AskConfirm
	}
	if i := m.index(q.FlowID); i >= 0 {
		w.Flow = m.s.FlowStack[i].FlowName
	}
	return w
}

// longestEntry are the characters of a line of the transcript.
const longestEntry = 4000

func (m *machine) transcript(role, text string) {
	if utf8.RuneCountInString(text) > longestEntry {
		text = string([]rune(text)[:longestEntry]) + "…"
	}
	m.s.Messages = append(m.s.Messages, Entry{Role: role, Text: text, Turn: m.t.Number})
}

func (m *machine) trace(e TraceEvent) {
	e.Turn = m.t.Number
	m.s.Trace = append(m.s.Trace, e)
}

func (m *machine) ignored(c Command, reason string) {
	m.refused = true
	m.trace(TraceEvent{Kind: "command_ignored", Command: string(c.Type), Slot: c.Slot, Flow: c.Flow, Reason: reason})
}

// emit adds an event to the reply.
func (m *machine) emit(name string, fields map[string]expr.Value) {
	m.t.Events = append(m.t.Events, Event{Name: name, Fields: fields, Time: m.t.Time})
	m.trace(TraceEvent{Kind: name})
}
