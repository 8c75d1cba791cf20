package dialogue

import "github.com/superstep-dev/superstep/dialogue/program"

// digress answers something that leaves the task as it is.
func (m *interpreter) digress(c Command) {
	m.s.DigressionDepth++
	m.s.LastDigressionType = string(c.Type)
	if m.s.DigressionDepth > m.p.Patterns.ClarifyDepth {
		m.trace(TraceEvent{Kind: "limit", Reason: "digressions"})
		m.s.DigressionDepth = 0
		m.limit(m.p.Patterns.ClarifyOnLimit)
		return
	}
	repair := Repair{Command: string(c.Type), Topic: c.Topic}
	switch c.Type {
	case Chitchat, OutOfScope:
		m.pattern(string(c.Type), repair)
		return
	case Clarify:
		if m.whichFlow(c) {
			return
		}
	case AskQuestion:
		if _, ok := m.own("question"); ok {
			m.pattern("question", repair)
			return
		}
	}
	if _, ok := m.own("clarification"); ok {
		m.pattern("clarification", repair)
		return
	}
	i, slot := m.topic(c.Topic)
	switch {
	case slot == nil:
		if m.m.Question == nil && len(m.s.FlowStack) == 0 {
			m.words("nothing_understood", nil)
		}
	case slot.Explain != nil:
		m.say(slot.Explain, m.scene(i), nil)
	case slot.Description != "":
		repair.Slot, repair.Topic = slot.Name, slot.Description
		m.pattern("clarification", repair)
	}
}

// topic returns the slot that a topic names, else the one that is asked.
func (m *interpreter) topic(topic string) (int, *program.Slot) {
	for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
		if s, ok := m.flow(i).Slots[topic]; ok && topic != "" {
			return i, s
		}
	}
	if q := m.m.Question; q != nil && q.Slot != "" {
		if i := m.index(q.FlowID); i >= 0 {
			return i, m.flow(i).Slots[q.Slot]
		}
	}
	return -1, nil
}

// whichFlow asks which of two or three flows is meant.
func (m *interpreter) whichFlow(c Command) bool {
	q := &Question{Kind: AskChoice, Step: "which_flow"}
	for _, name := range c.Options {
		f, ok := m.p.Flow(name)
		if !ok || f.BuiltIn || f.Internal || !m.offered(f) || len(q.Options) == 3 {
			continue
		}
		q.Options = append(q.Options, Option{ID: f.Name, Label: f.Description, Commands: []Command{{Type: StartFlow, Flow: f.Name}}})
	}
	if len(q.Options) < 2 {
		return false
	}
	m.m.Question = q
	return true
}
