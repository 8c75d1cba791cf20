package dialogue

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

func (m *interpreter) ignored(c Command, reason string) {
	m.refused = true
	m.trace(TraceEvent{Kind: "command_ignored", Command: string(c.Type), Slot: c.Slot, Flow: c.Flow, Reason: reason})
}

// clean puts the commands of one message in order and drops what says nothing.
func (m *interpreter) clean(given []Command, source program.Source) []Command {
	if limit := m.p.Settings.Commands; len(given) > limit {
		for _, c := range given[limit:] {
			m.ignored(c, "too_many")
		}
		given = given[:limit]
	}
	var cmds []Command
	for _, c := range given {
		c.Source, c.Of = source, ""
		switch {
		case m.tooLarge(c):
			m.ignored(Command{Type: "command"}, "too_large")
			continue
		case !program.IsCommand(string(c.Type)) && m.further(c) == nil:
			m.ignored(Command{Type: c.Type}, "unknown")
			continue
		case c.Type == CompleteFlow && source == program.FromUser:
			m.ignored(c, "not_for_users")
			continue
		}
		if m.sensitive(c.Slot) {
			m.secret(c.Value)
			m.secret(expr.Str(c.Span))
		}
		slots := c.Slots
		if m.further(c) == nil {
			c.Slots = nil
		}
		cmds = append(cmds, c)
		if c.Type == StartFlow {
			for _, name := range sortedKeys(slots) {
				if m.sensitive(name) {
					m.secret(slots[name])
				}
				cmds = append(cmds, Command{Type: SetSlot, Slot: name, Value: slots[name], Source: source, Of: c.Flow})
			}
		}
	}
	cmds = m.distinct(cmds)
	q := m.t.Asked
	has := func(t CommandType) bool {
		return slices.ContainsFunc(cmds, func(c Command) bool { return c.Type == t })
	}
	drop := func(reason string, which func(Command) bool) {
		cmds = slices.DeleteFunc(cmds, func(c Command) bool {
			if which(c) {
				m.ignored(c, reason)
				return true
			}
			return false
		})
	}
	corrected := func(slot string) bool {
		return slices.ContainsFunc(cmds, func(c Command) bool {
			return (c.Type == SetSlot || c.Type == CorrectSlot) && c.Slot == slot && c.Of == ""
		})
	}
	drop("corrected", func(c Command) bool { return c.Type == Deny && c.Slot != "" && corrected(c.Slot) })
	if has(Affirm) && has(Deny) {
		drop("contradiction", func(c Command) bool { return c.Type == Affirm || c.Type == Deny })
	}
	if q != nil && q.Kind == AskConfirm && slices.ContainsFunc(cmds, func(c Command) bool { return m.changes(q, c) }) {
		// What was shown is not what is meant any more, and "no, 200" gives nothing up.
		drop("changed", func(c Command) bool { return c.Type == Affirm || c.Type == Deny && c.Slot == "" })
	}
	rank := func(c Command) int {
		if c.Type == SetSlot && c.Of == "" && q != nil && (q.Slot == c.Slot || q.Kind == AskCollect && slices.Contains(q.Slots, c.Slot)) {
			return askedRank
		}
		return cmp.Or(ranks[c.Type], 10)
	}
	slices.SortStableFunc(cmds, func(a, b Command) int { return rank(a) - rank(b) })
	return cmds
}

// tooLarge says whether a command holds more than a message can mean.
func (m *interpreter) tooLarge(c Command) bool {
	text, err := json.Marshal(c)
	return err != nil || len(text) > 8*m.p.Settings.MessageChars
}

// distinct drops exact duplicates, and of several values for one slot all but the last.
func (m *interpreter) distinct(cmds []Command) []Command {
	var out []Command
	seen := map[string]bool{}
	sets := map[string]int{}
	for _, c := range cmds {
		text, err := json.Marshal(c)
		if err == nil && seen[string(text)] {
			m.ignored(c, "duplicate")
			continue
		}
		seen[string(text)] = true
		if c.Type == SetSlot {
			key := c.Of + "/" + c.Slot
			if i, ok := sets[key]; ok {
				m.ignored(out[i], "overridden")
				out[i] = c
				continue
			}
			sets[key] = len(out)
		}
		out = append(out, c)
	}
	return out
}

// changes says whether a command changes what an open confirm shows.
func (m *interpreter) changes(q *Question, c Command) bool {
	if !slices.Contains(q.Slots, c.Slot) {
		return false
	}
	switch c.Type {
	case ClearSlot:
		return true
	case SetSlot, CorrectSlot:
		i := m.index(q.FlowID)
		if i < 0 || c.Of != "" {
			return false
		}
		slot, ok := m.flow(i).Slots[c.Slot]
		if !ok || !m.flow(i).Allows(slot, c.Source) {
			return false
		}
		v, reason := slot.Parse(c.Value, m.lang())
		old, _ := m.value(i, c.Slot)
		return reason != "" || !v.Same(old)
	}
	return false
}
