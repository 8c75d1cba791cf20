package nlu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Pattern says what messages of some forms mean.
type Pattern struct {
	// Match are the forms, as regular expressions. One of them has to match in the
	// message; case doesn't matter. What a group (?P<slot>…) matches is the slot's value:
	// it goes along with the flow that Commands start, or is set.
	Match []string
	// Asked has the pattern apply only while the slot of that name is asked for, or, if it
	// is "confirm", while a yes or no is.
	Asked string
	// Commands are what the message means beside values of slots. Those of the program's own
	// take the groups too.
	Commands []dialogue.Command
}

// Patterns understand messages by their forms, without a model: for demonstrations. A
// message means what the first pattern says that matches it and whose flows may start now.
// If none does, and a slot is asked for, the message is its value, or has it in it: one of
// its options, a number, a date. Otherwise it means nothing. They are safe for concurrent
// use.
type Patterns struct{ rules []rule }

type rule struct {
	Pattern
	forms []*regexp.Regexp
}

// NewPatterns compiles patterns. The error names all that are wrong.
func NewPatterns(patterns ...Pattern) (*Patterns, error) {
	p := &Patterns{}
	var errs []error
	for i, x := range patterns {
		r := rule{Pattern: x}
		if len(x.Match) == 0 {
			errs = append(errs, fmt.Errorf("pattern %d matches nothing; give it a match", i+1))
		}
		values := false
		for _, m := range x.Match {
			form, err := regexp.Compile("(?is)" + m)
			if err != nil {
				errs = append(errs, fmt.Errorf("pattern %d: %w", i+1, err))
				continue
			}
			values = values || slices.ContainsFunc(form.SubexpNames(), func(n string) bool { return n != "" })
			r.forms = append(r.forms, form)
		}
		if len(x.Commands) == 0 && !values {
			errs = append(errs, fmt.Errorf("pattern %d means nothing; give it commands, or a group (?P<slot>…)", i+1))
		}
		for _, c := range x.Commands {
			if c.Type == "" || c.Type == dialogue.CompleteFlow {
				errs = append(errs, fmt.Errorf("pattern %d: users have no command %q", i+1, c.Type))
			}
		}
		p.rules = append(p.rules, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// ParsePatterns reads patterns from YAML: a list of maps with the keys match (a text or a
// list), asked, start (a flow, short for that command) and commands.
func ParsePatterns(text []byte) (*Patterns, error) {
	var nodes []struct {
		Match    yaml.Node `yaml:"match"`
		Asked    string    `yaml:"asked"`
		Start    string    `yaml:"start"`
		Commands yaml.Node `yaml:"commands"`
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&nodes); err != nil {
		return nil, fmt.Errorf("patterns: %w", err)
	}
	patterns := make([]Pattern, len(nodes))
	for i, n := range nodes {
		p := Pattern{Asked: n.Asked}
		if n.Match.Kind == yaml.ScalarNode {
			p.Match = []string{n.Match.Value}
		} else if !n.Match.IsZero() {
			if err := n.Match.Decode(&p.Match); err != nil {
				return nil, fmt.Errorf("patterns: %w", err)
			}
		}
		if n.Start != "" {
			p.Commands = append(p.Commands, dialogue.Command{Type: dialogue.StartFlow, Flow: n.Start})
		}
		if !n.Commands.IsZero() {
			list := yamlvalue.Of(&n.Commands)
			raw, err := json.Marshal(list)
			if err != nil {
				return nil, fmt.Errorf("patterns: line %d: %w", n.Commands.Line, err)
			}
			var cmds []dialogue.Command
			if err := json.Unmarshal(raw, &cmds); err != nil {
				return nil, fmt.Errorf("patterns: line %d: commands are a list of maps with a type", n.Commands.Line)
			}
			p.Commands = append(p.Commands, cmds...)
		}
		patterns[i] = p
	}
	return NewPatterns(patterns...)
}

// Understand returns what the message means.
func (p *Patterns) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	text := strings.TrimSpace(in.Message.Text)
	if text == "" {
		return nil, nil
	}
	now := scopeOf(in)
	now.flows, now.detailed = in.Flows, len(in.Flows)
	for _, r := range p.rules {
		if cmds, ok := r.apply(now, text); ok {
			return cmds, nil
		}
	}
	if slot, ok := now.asked(); ok {
		if v, ok := valueIn(slot, text, in.Language); ok {
			return []dialogue.Command{{Type: dialogue.SetSlot, Slot: slot.Name, Value: v, Span: span(in.Message.Text, v, in.Language)}}, nil
		}
	}
	return nil, nil
}

// apply returns what a rule says of a message, if it says anything.
func (r rule) apply(now *scope, text string) ([]dialogue.Command, bool) {
	q := now.in.Asked
	switch {
	case r.Asked == "":
	case r.Asked == "confirm":
		if !yesNo(now) {
			return nil, false
		}
	case q == nil || q.Kind != dialogue.AskCollect || q.Slot != r.Asked:
		return nil, false
	}
	for _, form := range r.forms {
		m := form.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		values := map[string]expr.Value{}
		for i, name := range form.SubexpNames() {
			if v := strings.TrimSpace(m[i]); name != "" && v != "" {
				values[name] = expr.Str(v)
			}
		}
		if cmds, ok := now.means(r.Commands, values); ok {
			return cmds, true
		}
	}
	return nil, false
}

// means returns commands with the values of a message, if they make sense now.
func (s *scope) means(cmds []dialogue.Command, values map[string]expr.Value) ([]dialogue.Command, bool) {
	var out []dialogue.Command
	started := false
	for _, c := range cmds {
		if !s.can(c.Type) {
			return nil, false
		}
		_, isOwn := s.own(c.Type)
		if c.Type == dialogue.StartFlow && !slices.Contains(s.flowNames(), c.Flow) {
			return nil, false
		}
		if c.Type == dialogue.StartFlow || isOwn {
			if !started && len(values) > 0 {
				c.Slots = values
			}
			started = true
		}
		out = append(out, c)
	}
	if started {
		return out, true
	}
	for name, v := range values {
		if !slices.Contains(namesOf(s.in.Slots), name) {
			return nil, false
		}
		out = append(out, dialogue.Command{Type: dialogue.SetSlot, Slot: name, Value: v, Span: span(s.in.Message.Text, v, s.in.Language)})
	}
	slices.SortStableFunc(out[len(cmds):], func(a, b dialogue.Command) int { return strings.Compare(a.Slot, b.Slot) })
	return out, len(out) > 0
}

// valueIn returns the value of the slot that is asked for that a message is, or has in it.
func valueIn(slot dialogue.SlotOffer, text, tag string) (expr.Value, bool) {
	l := language.Of(tag)
	words := strings.Fields(text)
	each := func(is func(string) bool) (expr.Value, bool) {
		for _, w := range append([]string{text}, words...) {
			if w = strings.Trim(w, ",;:!?()\"'"); is(w) || is(strings.TrimRight(w, ".")) {
				return expr.Str(strings.TrimRight(w, ".")), true
			}
		}
		return expr.Value{}, false
	}
	switch {
	case len(slot.Options) > 0:
		words := func(s string) string {
			return " " + strings.Join(strings.FieldsFunc(language.Fold(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), " ") + " "
		}
		for _, o := range slot.Options {
			if strings.Contains(words(text), words(o)) {
				return expr.Str(o), true
			}
		}
		return expr.Str(text), true // a label or a synonym, which the program knows
	case slot.Type == program.Number, slot.Type == program.Integer:
		return each(func(w string) bool { _, ok := l.ParseNumber(w); return ok })
	case slot.Type == program.Date:
		return each(func(w string) bool { _, ok := l.ParseDate(w); return ok })
	case slot.Type == program.Boolean:
		return each(func(w string) bool { _, ok := l.ParseBool(w); return ok })
	}
	return expr.Str(text), true
}
