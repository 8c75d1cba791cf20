package dialogue

import (
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// yesOrNo answers the open question with yes or no.
func (m *interpreter) yesOrNo(c Command) bool {
	if asked := m.t.Asked; c.Type == Deny && c.Slot != "" && asked != nil && asked.Kind == AskConfirm {
		return m.denySlot(asked, c)
	}
	q := m.m.Question
	// The question has to be the one that was open as the message came.
	if q == nil || m.t.Asked == nil || q.ID != m.t.Asked.ID {
		m.ignored(c, "not_asked")
		return true
	}
	yes := c.Type == Affirm
	i := m.index(q.FlowID)
	switch q.Kind {
	case AskConfirm:
		if i != len(m.s.FlowStack)-1 {
			m.ignored(c, "not_asked")
			return true
		}
		return m.confirm(i, q, c)
	case AskCollect:
		slot := m.flow(i).Slots[q.Slot]
		if slot == nil || slot.Type != program.Boolean {
			m.ignored(c, "not_asked")
			return true
		}
		return m.setSlot(Command{Type: SetSlot, Slot: q.Slot, Value: expr.Bool(yes), Source: c.Source})
	case AskResume:
		m.m.Question = nil
		m.t.Progress = true
		if yes {
			m.frame(i).Resumed = false
		} else {
			m.cancel(false)
		}
	case AskCancel:
		m.m.Question = nil
		if yes {
			m.cancel(true)
		}
	case AskRetry:
		m.m.Question = nil
		m.t.Progress = true
		if yes {
			m.frame(i).Entered = false // again, under the same key
			m.t.Agreed = true
		} else {
			m.cancel(false)
		}
	default:
		m.ignored(c, "not_asked")
	}
	return true
}

// confirm answers a confirm.
func (m *interpreter) confirm(i int, q *Question, c Command) bool {
	_, step := m.at(i)
	x, ok := step.Body.(*program.Confirm)
	if !ok || step.Name != q.Step {
		m.ignored(c, "not_asked")
		return true
	}
	if c.Type == Affirm {
		if m.shown(i, x.Slots) != q.Digest {
			m.trace(TraceEvent{Kind: "confirm_changed", Step: step.Name})
			return true // asked again
		}
		values := map[string]expr.Value{}
		for _, s := range x.Slots {
			if v, ok := m.value(i, s); ok {
				values[s] = v
			}
		}
		f := m.frame(i)
		f.Confirmed = slices.DeleteFunc(f.Confirmed, func(c Confirmation) bool { return c.Step == step.Name })
		wrote := m.decided(i, x, true)
		m.visit(i, step, wrote)
		f.Confirmed = append(f.Confirmed, Confirmation{Step: step.Name, Values: values, At: f.Clock})
		m.m.Question, m.t.Agreed = nil, true
		m.trace(TraceEvent{Kind: "confirmed", Flow: m.flow(i).Name, Step: step.Name})
		if x.OnYes.Kind == program.ToContinue {
			m.leave(i, step.Next)
		} else {
			m.leave(i, x.OnYes)
		}
		return true
	}
	m.visit(i, step, m.decided(i, x, false))
	m.m.Question = nil
	m.trace(TraceEvent{Kind: "denied", Flow: m.flow(i).Name, Step: step.Name})
	if x.OnNo != nil {
		m.leave(i, *x.OnNo)
		return true
	}
	m.cancel(false)
	return true
}

// denySlot empties a value that a confirm showed, so that it is asked for again. A message
// may name several.
func (m *interpreter) denySlot(asked *Question, c Command) bool {
	i := m.index(asked.FlowID)
	if i < 0 || i != len(m.s.FlowStack)-1 {
		m.ignored(c, "not_asked")
		return true
	}
	if _, filled := m.value(i, c.Slot); filled && slices.Contains(asked.Slots, c.Slot) && m.flow(i).Collect(c.Slot) {
		return m.change(i, c.Slot, nil, nil)
	}
	m.ignored(c, "slot_unknown")
	return true
}

// decided stores the answer to a confirm where the step wants it.
func (m *interpreter) decided(i int, x *program.Confirm, yes bool) []string {
	if x.Store == "" {
		return nil
	}
	m.store(i, x.Store, expr.Bool(yes), Provenance{Source: program.FromSet, Turn: m.t.Number, Read: slices.Clone(x.Slots)})
	return []string{x.Store}
}

// fresh says whether something was confirmed since an irreversible action ran.
func (m *conversation) fresh(i int, step *program.Step) bool {
	f := m.frame(i)
	for _, c := range f.Confirmed {
		if c.At > f.Visits[step.Name].Ran {
			return true
		}
	}
	return false
}

// unconfirmed returns an input's slot whose value is not the one that a confirm showed.
func (m *conversation) unconfirmed(i int, x *program.Invoke) (string, bool) {
	flow, f := m.flow(i), m.frame(i)
	if len(f.Confirmed) == 0 {
		return x.Action.Name, true
	}
	for _, a := range x.Inputs {
		for _, slot := range a.Value.Slots() {
			v, filled := m.value(i, slot)
			if !filled {
				continue
			}
			listed, same := false, false
			for _, c := range f.Confirmed {
				if w, ok := c.Values[slot]; ok {
					listed = true
					same = same || w.Same(v)
				}
			}
			given := flow.Given(slot)
			switch f.Provenance[slot].Source {
			case program.FromUser, program.FromButton, program.FromAgent:
				given = true
			}
			if listed && !same || given && !listed {
				return slot, true
			}
		}
	}
	return "", false
}
