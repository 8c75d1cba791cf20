package dialogue

import (
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// owner returns the frame whose slot a command means, End if there is none.
func (m *interpreter) owner(c Command) int {
	if c.Source == program.FromSet { // a person's, who has the conversation
		top := len(m.s.FlowStack) - 1
		if top >= 0 && m.flow(top).Slots[c.Slot] != nil {
			return top
		}
		return -1
	}
	collects := func(i int) bool { return m.flow(i).Collect(c.Slot) }
	if c.Of != "" {
		f, ok := m.p.Flow(c.Of)
		if !ok {
			return -1
		}
		for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
			if m.s.FlowStack[i].FlowName == f.Name && slices.Contains(m.t.Started, m.s.FlowStack[i].FlowID) && collects(i) {
				return i
			}
		}
		return -1
	}
	var asked = -1
	switch q := m.t.Asked; {
	case q != nil && q.FlowID != "":
		asked = m.index(q.FlowID)
	case len(m.t.Started) == 0:
		asked = len(m.s.FlowStack) - 1
	}
	if asked >= 0 && collects(asked) {
		return asked
	}
	for _, id := range m.t.Started {
		if i := m.index(id); i >= 0 && collects(i) {
			return i
		}
	}
	for i := asked; i >= 0; { // those that called the one that asks
		if m.frame(i).Role != ByCall {
			return -1
		}
		if i = m.index(m.frame(i).Caller); i >= 0 && collects(i) {
			return i
		}
	}
	return -1
}

func (m *interpreter) setSlot(c Command) bool {
	i := m.owner(c)
	if i < 0 {
		m.ignored(c, "slot_unknown")
		return true
	}
	flow := m.flow(i)
	slot := flow.Slots[c.Slot]
	if !flow.Allows(slot, c.Source) {
		m.ignored(c, "source")
		return true
	}
	byUser := c.Source != program.FromSet
	if byUser && !slot.Eager && !m.asks(i, c.Slot) {
		m.ignored(c, "not_asked")
		return true
	}
	if x := m.lists(i, c.Slot); byUser && x != nil {
		if _, listed := m.value(i, x.OptionsFrom); !listed {
			m.ignored(c, "not_asked") // nobody knows yet what there is to choose from
			return true
		}
	}
	_, filled := m.value(i, c.Slot)
	if filled && m.frame(i).Provenance[c.Slot].Source != program.FromDefault {
		return m.correct(i, c)
	}
	v, reason, ok := m.accept(i, slot, c.Value, byUser)
	if !ok {
		return false
	}
	if reason != "" {
		m.refuse(i, slot, c, reason)
		return true
	}
	m.store(i, c.Slot, v, Provenance{Source: c.Source, Turn: m.t.Number, Span: c.Span})
	return true
}

// refuse answers a value that is not accepted.
func (m *interpreter) refuse(i int, slot *program.Slot, c Command, reason string) {
	m.trace(TraceEvent{Kind: "value_refused", Flow: m.s.FlowStack[i].FlowName, Slot: slot.Name, Reason: reason})
	if slot.Sensitive {
		m.secret(c.Value)
	}
	if c.Source == program.FromSet {
		m.ignored(c, "refused") // the user has nothing to do with it
		return
	}
	invalid := slot.Invalid
	limit, onInvalid := m.p.Settings.MaxAttempts, m.p.Settings.OnInvalid
	if _, step := m.at(i); step != nil {
		if x, ok := step.Body.(*program.Collect); ok && slices.Contains(x.Slots, slot.Name) {
			if x.Invalid != nil {
				invalid = x.Invalid
			}
			if x.MaxAttempts > 0 {
				limit = x.MaxAttempts
			}
			if x.OnInvalid != nil {
				onInvalid = *x.OnInvalid
			}
		}
	}
	if q := m.m.Question; q != nil && m.asks(i, slot.Name) {
		if q.Refused++; q.Refused >= limit {
			m.trace(TraceEvent{Kind: "limit", Slot: slot.Name, Reason: "refused"})
			m.limit(onInvalid)
			return
		}
	}
	s := m.scene(i)
	s.repair = &Repair{Command: string(c.Type), Slot: slot.Name, Value: c.Value, Error: &Failure{Type: "invalid", Message: reason}}
	if invalid == nil {
		invalid = m.p.Responses["invalid_value"]
	}
	m.say(invalid, s, nil)
}

func (m *interpreter) clearSlot(c Command) bool {
	i := m.owner(c)
	if i < 0 {
		m.ignored(c, "slot_unknown")
		return true
	}
	if !m.flow(i).Allows(m.flow(i).Slots[c.Slot], c.Source) {
		m.ignored(c, "source")
		return true
	}
	if _, filled := m.value(i, c.Slot); !filled {
		m.ignored(c, "not_filled")
		return true
	}
	if !m.p.Patterns.Correction {
		m.ignored(c, "corrections_disabled")
		return true
	}
	return m.change(i, c.Slot, nil, nil)
}

func (m *interpreter) correct(i int, c Command) bool {
	slot := m.flow(i).Slots[c.Slot]
	byUser := c.Source != program.FromSet
	v, reason, ok := m.accept(i, slot, c.Value, byUser)
	switch {
	case !ok:
		return false
	case reason != "":
		m.refuse(i, slot, c, reason)
		return true
	}
	if old, _ := m.value(i, c.Slot); old.Same(v) {
		return true
	}
	if byUser && !m.p.Patterns.Correction {
		m.ignored(c, "corrections_disabled")
		return true
	}
	return m.change(i, c.Slot, &v, &c)
}

func (m *interpreter) selectOption(c Command) bool {
	q := m.m.Question
	if q == nil {
		m.ignored(c, "not_asked")
		return true
	}
	at := slices.IndexFunc(q.Options, func(o Option) bool { return o.ID == c.Option && c.Option != "" })
	if at < 0 {
		m.ignored(c, "option_unknown")
		return true
	}
	o := q.Options[at]
	if q.Kind == AskChoice {
		m.m.Question = nil
		for _, next := range o.Commands {
			next.Source = c.Source
			m.t.Queue = slices.Insert(m.t.Queue, 1, next)
		}
		return true
	}
	return m.setSlot(Command{Type: SetSlot, Slot: q.Slot, Value: o.Value, Source: c.Source})
}

func (m *interpreter) skip(c Command) {
	q := m.m.Question
	if q == nil || q.Kind != AskCollect {
		m.ignored(c, "not_asked")
		return
	}
	i := m.index(q.FlowID)
	slot := m.flow(i).Slots[q.Slot]
	switch {
	case slot == nil || slot.Required:
		m.ignored(c, "required")
		return
	case !m.flow(i).Allows(slot, c.Source):
		m.ignored(c, "source")
		return
	}
	m.store(i, q.Slot, expr.Value{}, Provenance{Source: c.Source, Turn: m.t.Number})
}
