package dialogue

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// understand describes what a message may mean now.
func (m *driver) understand(in Message) *Understand {
	m.t = &Turn{Number: m.s.TurnCount + 1, Time: in.Time, Language: m.language(in.Language), Channel: in.Channel, Text: in.Text}
	defer func() { m.t = nil }()
	u := &Understand{Message: in, Language: m.t.Language, Asked: m.asked(), Flows: []FlowOffer{}, Slots: []SlotOffer{}}
	if l := m.p.Languages; len(l.Also) > 0 {
		u.Languages = append([]string{l.Default}, l.Also...)
	}
	offer := func(f *program.Flow, name string, v expr.Value, filled bool) SlotOffer {
		s := f.Slots[name]
		o := SlotOffer{Flow: f.Name, Name: name, Type: s.Type, Items: s.Items, Format: s.Format, Description: s.Description, Optional: !s.Required}
		for _, x := range s.Options {
			o.Options = append(o.Options, x.Value.String())
		}
		if filled {
			if o.Value = v.String(); s.Sensitive {
				o.Value = program.Mask(o.Value)
			}
		}
		return o
	}
	for _, name := range m.p.Order {
		f := m.p.Flows[name]
		if f.Internal || !m.offered(f) {
			continue
		}
		o := FlowOffer{Name: name, Description: f.Description}
		for _, x := range f.Examples {
			o.Examples = append(o.Examples, x.String())
		}
		for _, slot := range f.Collects {
			if s := f.Slots[slot]; s != nil && s.Eager && f.Allows(s, program.FromUser) {
				o.Slots = append(o.Slots, offer(f, slot, expr.Value{}, false))
			}
		}
		u.Flows = append(u.Flows, o)
	}
	for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
		f := m.flow(i)
		for _, slot := range f.Collects {
			s := f.Slots[slot]
			if s == nil || !f.Allows(s, program.FromUser) || !s.Eager && !m.asks(i, slot) {
				continue
			}
			v, filled := m.value(i, slot)
			u.Slots = append(u.Slots, offer(f, slot, v, filled))
		}
		if m.frame(i).Role != ByCall {
			break
		}
	}
	for _, name := range sortedKeys(m.p.Actions) {
		if a := m.p.Actions[name]; a.Command != "" && (a.Guard == nil || a.Guard.True(m.outside(nowhere, nil))) {
			u.Commands = append(u.Commands, CommandOffer{Type: CommandType(name), Description: a.Command, Slots: a.Inputs})
		}
	}
	u.History = keep(m.s.Messages, HistoryShown)
	u.Stack = slices.Clone(m.s.FlowStack)
	for i := range u.Stack {
		u.Stack[i].Outputs = nil
	}
	if strings.TrimSpace(in.Text) == "" {
		u.Flows = nil
	}
	return u
}

// asked returns the open question as understanding is shown it.
func (m *conversation) asked() *Question {
	if m.m.Question == nil {
		return nil
	}
	q := *m.m.Question
	q.Options = slices.Clone(q.Options)
	i := m.index(q.FlowID)
	for n := range q.Options {
		o := &q.Options[n]
		o.Value, o.Commands = expr.Value{}, nil
		if i < 0 {
			continue
		}
		if s, ok := m.flow(i).Slots[q.Slot]; ok && s.Sensitive {
			o.Label = program.Mask(o.Label)
		}
	}
	return &q
}
