package dialogue

import (
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// event brings an event to the flow that waits for it.
func (m *driver) event(in Event) {
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
func (m *driver) wake() {
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
	// The step that had the deadline may be gone with a change of the program.
	if top := len(m.s.FlowStack) - 1; top >= 0 && !m.frame(top).Deadline.IsZero() && !m.frame(top).Deadline.After(m.t.Time) {
		m.deadline(top)
	}
}

// endSession abandons what is open after a long silence.
func (m *driver) endSession() {
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

// release ends a handoff. The person's values are taken as corrections are: what was
// computed from others is computed anew, and what was confirmed is asked again.
func (m *driver) release(in Release) {
	h := m.m.Handoff
	m.m.Handoff, m.m.Deadline = nil, time.Time{}
	m.trace(TraceEvent{Kind: "release", Reason: in.Summary})
	for _, name := range sortedKeys(in.Slots) {
		m.t.Queue = append(m.t.Queue, Command{Type: SetSlot, Slot: name, Value: in.Slots[name], Source: program.FromSet})
	}
	if i := m.index(h.FlowID); i >= 0 {
		m.frame(i).Deadline, m.frame(i).Waited = time.Time{}, true
	} else {
		m.askAnew()
	}
	m.t.Progress = true
}
