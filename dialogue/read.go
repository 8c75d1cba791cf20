package dialogue

import (
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Read understands a message without a model: it is the whole answer to the open
// question, by the parser of what is asked (yes or no, an option, a number, a date, a
// format). It returns false if the message may mean something else.
func Read(p *program.Program, s State, in Message) ([]Command, bool) {
	q := s.Metadata.Machine.Question
	text := strings.TrimSpace(in.Text)
	if q == nil || text == "" {
		return nil, false
	}
	tag := in.Language
	if !p.Languages.Has(tag) {
		if tag = s.Metadata.Machine.Language; tag == "" {
			tag = p.Languages.Default
		}
	}
	l := language.Of(tag)
	switch q.Kind {
	case AskConfirm, AskResume, AskCancel, AskRetry:
		yes, ok := l.ParseBool(text)
		switch {
		case !ok:
			return nil, false
		case yes:
			return []Command{{Type: Affirm}}, true
		}
		return []Command{{Type: Deny}}, true
	case AskChoice:
		for _, o := range q.Options {
			if language.Fold(o.Label) == language.Fold(text) {
				return []Command{{Type: Select, Option: o.ID}}, true
			}
		}
		return nil, false
	case AskCollect:
	default:
		return nil, false
	}
	m := &conversation{p: p, s: &s, m: &s.Metadata.Machine, t: &Turn{Language: tag}}
	i := m.index(q.FlowID)
	if i < 0 {
		return nil, false
	}
	slot, ok := m.flow(i).Slots[q.Slot]
	if !ok {
		return nil, false
	}
	for _, o := range q.Options {
		if len(slot.Options) == 0 && language.Fold(o.Label) == language.Fold(text) {
			return []Command{{Type: Select, Option: o.ID}}, true
		}
	}
	set := []Command{{Type: SetSlot, Slot: q.Slot, Value: expr.Str(text)}}
	switch {
	case len(slot.Options) > 0:
		_, ok := slot.Option(expr.Str(text))
		return set, ok
	case slot.Type == program.String && slot.Format == "", slot.Type == program.Any, slot.Type == program.List, slot.Type == program.Object:
		return nil, false
	}
	_, reason := slot.Parse(expr.Str(text), l)
	return set, reason == ""
}
