package dialogue

import (
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

// toPerson passes the conversation to a person.
func (m *machine) toPerson(reason string) {
	if m.m.Handoff != nil {
		return
	}
	_, own := m.own("handoff")
	m.pattern("handoff", Repair{Topic: reason})
	if own {
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
