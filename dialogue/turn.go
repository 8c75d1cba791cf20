package dialogue

import (
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// run does what is left of the turn until an effect is needed or the turn ends.
func (m *driver) run() {
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
func (m *driver) settle() {
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
		m.start(m.p.Settings.FallbackFlow, "fallback")
	}
}

// unclear answers a message that nothing is known to do with.
func (m *driver) unclear() {
	q := m.m.Question
	if q == nil || m.asleep() {
		if m.t.Number == 1 && m.start(m.p.Settings.DefaultFlow, "default") {
			return
		}
		m.t.Fell = true
		if strings.TrimSpace(m.t.Text) == "" || !m.start(m.p.Settings.FallbackFlow, "fallback") {
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

// start starts a flow that no user asked for, if it may start.
func (m *driver) start(flow, why string) bool {
	f, ok := m.p.Flow(flow)
	if !ok || !m.offered(f) || !m.room() {
		return false
	}
	m.push(f, ByUser, "", why)
	return true
}

// finish ends the turn.
func (m *driver) finish() {
	r := m.reply()
	if !m.t.User && r.Text != "" {
		r.Events = append(r.Events, Event{Name: "message", Fields: map[string]expr.Value{"text": expr.Str(r.Text)}, Time: m.t.Time})
	}
	m.secrets()
	m.s.UserMessage = m.mask(m.t.Text)
	m.s.Metadata.Error = m.mask(m.s.Metadata.Error)
	if m.t.User {
		for i, e := range slices.Backward(m.s.Messages) {
			if e.Role == "user" && e.Turn == m.t.Number {
				if text := m.mask(e.Text); text != e.Text {
					m.s.Messages = slices.Clone(m.s.Messages)
					m.s.Messages[i].Text = text
				}
				break
			}
		}
	}
	if r.Text != "" && (len(m.t.Messages) == 0 || m.t.Messages[0].Response != "operator") {
		m.transcript("assistant", m.mask(r.Text))
	}
	m.s.LastResponse = m.mask(r.Text)
	if len(m.t.Secrets) > 0 {
		m.s.Trace = slices.Clone(m.s.Trace)
		for i := range m.s.Trace {
			if e := &m.s.Trace[i]; e.Turn == m.t.Number {
				e.Value, e.Reason = m.mask(e.Value), m.mask(e.Reason)
			}
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
	m.m.LastID, m.m.Secrets, m.hid = m.t.MessageID, nil, false
	m.answered(m.t.MessageID, masker{&m.conversation}.maskReply(r))
	if m.hid {
		m.m.Secrets = m.t.Secrets
	}
	m.s.Trace = keep(m.s.Trace, m.p.Settings.TraceEvents)
	m.s.Messages = keep(m.s.Messages, m.p.Settings.HistoryMessages)
	m.s.Metadata.CompletedFlows = keep(m.s.Metadata.CompletedFlows, m.p.Settings.CompletedFlows)
	m.t = nil
	m.effect(Effect{Reply: &r})
}

// keep returns the last n items of a list that only grows.
func keep[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// room returns a list that has room for n more items if it has none.
func room[T any](list []T, n int) []T {
	if len(list) < cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)+n), list...)
}

// reply puts the turn's reply together and settles the states.
func (m *driver) reply() Reply {
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

func (m *conversation) waiting(q *Question) *Waiting {
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
