package dialogue

import (
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// sensitive says whether any slot of the name is sensitive.
func (m *conversation) sensitive(slot string) bool {
	if s, ok := m.p.Slots[slot]; ok && s.Sensitive {
		return true
	}
	for i := range m.s.FlowStack {
		if s, ok := m.flow(i).Slots[slot]; ok && s.Sensitive {
			return true
		}
	}
	return false
}

// secret notes a value that is masked wherever the turn leaves a trace.
func (m *conversation) secret(v expr.Value) {
	text := strings.TrimSpace(v.String())
	if text != "" && !slices.Contains(m.t.Secrets, text) {
		m.t.Secrets = append(m.t.Secrets, text)
	}
}

// secrets notes the sensitive values of every flow on the stack.
func (m *conversation) secrets() {
	for i, f := range m.s.FlowStack {
		m.secretsOf(m.flow(i), m.s.FlowSlots[f.FlowID])
	}
	for name, v := range m.s.FlowSlots[session] {
		if s, ok := m.p.Session[name]; ok && s.Sensitive {
			m.secret(v)
		}
	}
	slices.SortFunc(m.t.Secrets, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
}

func (m *conversation) secretsOf(f *program.Flow, slots map[string]expr.Value) {
	for _, name := range sortedKeys(slots) {
		if s, ok := f.Slots[name]; ok && s.Sensitive {
			m.secret(slots[name])
		}
	}
}

// mask hides the turn's secrets in a text.
func (m *conversation) mask(text string) string {
	for _, s := range m.t.Secrets {
		text = strings.ReplaceAll(text, s, program.Mask(s))
	}
	return text
}

// masked returns a command as it may be kept.
func (m *conversation) masked(c Command) Command {
	if m.sensitive(c.Slot) {
		m.secret(c.Value)
		c.Value, c.Span = expr.Str(program.Mask(c.Value.String())), ""
	}
	if len(c.Slots) > 0 {
		c.Slots = maps.Clone(c.Slots)
		for name, v := range c.Slots {
			if m.sensitive(name) {
				m.secret(v)
				c.Slots[name] = expr.Str(program.Mask(v.String()))
			}
		}
	}
	return c
}

// Masked returns commands as they may be shown: without sensitive values.
func Masked(p *program.Program, s State, commands []Command) []Command {
	m := &conversation{p: p, s: &s, m: &s.Metadata.Machine, t: &Turn{}}
	masked := make([]Command, len(commands))
	for i, c := range commands {
		masked[i] = m.masked(c)
	}
	return masked
}
