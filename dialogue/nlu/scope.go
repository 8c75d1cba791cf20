package nlu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/model"
)

// scope is what a message can mean.
type scope struct {
	in       dialogue.Understand
	flows    []dialogue.FlowOffer // that the prompt offers
	detailed int                  // how many of them come with their slots
	examples bool                 // and with what users say
}

func scopeOf(in dialogue.Understand) *scope { return &scope{in: in} }

// asked returns the offer of the slot that is asked for, if one is.
func (s *scope) asked() (dialogue.SlotOffer, bool) {
	q := s.in.Asked
	if q == nil || q.Kind != dialogue.AskCollect {
		return dialogue.SlotOffer{}, false
	}
	i := slices.IndexFunc(s.in.Slots, func(o dialogue.SlotOffer) bool { return o.Name == q.Slot })
	if i < 0 {
		return dialogue.SlotOffer{}, false
	}
	return s.in.Slots[i], true
}

// paused returns the names of the flows that can be resumed.
func (s *scope) paused() []string {
	var names []string
	for _, f := range s.in.Stack {
		if f.FlowState == dialogue.Paused && f.Context != "call" && f.Context != "pattern" && !slices.Contains(names, f.FlowName) {
			names = append(names, f.FlowName)
		}
	}
	return names
}

// offers are the slots that may be filled: those of the running flow, then those of the
// flows that may start.
func (s *scope) offers() []dialogue.SlotOffer {
	all := slices.Clone(s.in.Slots)
	for _, f := range s.flows[:min(s.detailed, len(s.flows))] {
		all = append(all, f.Slots...)
	}
	return all
}

// filled returns the names of the running flow's slots that have a value.
func (s *scope) filled() []string {
	var names []string
	for _, o := range s.in.Slots {
		if o.Value != "" && !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	return names
}

// shown returns the names of the slots that an open confirm shows and that can be asked
// for again.
func (s *scope) shown() []string {
	var names []string
	if q := s.in.Asked; q != nil && q.Kind == dialogue.AskConfirm {
		for _, o := range s.in.Slots {
			if slices.Contains(q.Slots, o.Name) && !slices.Contains(names, o.Name) {
				names = append(names, o.Name)
			}
		}
	}
	return names
}

// options returns the IDs of the options that are selected by a command. The values of a
// slot with options of its own are set instead.
func (s *scope) options() []string {
	q := s.in.Asked
	if o, ok := s.asked(); q == nil || ok && len(o.Options) > 0 {
		return nil
	}
	var ids []string
	for _, o := range q.Options {
		ids = append(ids, o.ID)
	}
	return ids
}

// flowNames returns the names of the flows that the prompt offers.
func (s *scope) flowNames() []string {
	names := make([]string, len(s.flows))
	for i, f := range s.flows {
		names[i] = f.Name
	}
	return names
}

// answerForm is what an answer must be at least; what is in it is checked one by one.
var answerForm = &model.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"commands":{"type":"array","items":{"type":"object"}}},"required":["commands"]}`)}

// read returns the commands of an answer.
func (s *scope) read(m chat.Message) ([]dialogue.Command, error) {
	answer, err := model.ReadOutput[struct {
		Commands []json.RawMessage `json:"commands"`
	}](answerForm, m)
	switch {
	case errors.Is(err, model.ErrFiltered):
		return nil, &Error{ErrorRefused, err}
	case errors.Is(err, model.ErrTruncated):
		return nil, &Error{ErrorTruncated, err}
	case errors.Is(err, model.ErrToolCalls):
		return nil, &Error{ErrorInvalid, err}
	case err != nil && strings.TrimSpace(m.Text()) == "":
		return nil, &Error{ErrorEmpty, err}
	case err != nil:
		// What the library says of the text may hold parts of it.
		return nil, &Error{ErrorInvalid, errors.New(`it is not JSON of the form {"commands": […]}`)}
	}
	cmds := []dialogue.Command{}
	for i, raw := range answer.Commands {
		got, err := s.command(raw)
		if err != nil {
			return nil, &Error{ErrorInvalid, fmt.Errorf("command %d: %w", i+1, err)}
		}
		cmds = append(cmds, got...)
	}
	return cmds, nil
}

// given is a slot with its value.
type given struct {
	Slot  string     `json:"slot"`
	Value expr.Value `json:"value"`
}

// command reads one command; one that sets several slots are several. Only what the type
// has is taken over, so that no word of the model's own reaches a reply.
func (s *scope) command(raw json.RawMessage) ([]dialogue.Command, error) {
	var c dialogue.Command
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, errors.New("it is not a command")
	}
	if !s.can(c.Type) {
		return nil, fmt.Errorf("%s can't be given now", quoted(string(c.Type)))
	}
	out := dialogue.Command{Type: c.Type}
	if offer, ok := s.own(c.Type); ok {
		if err := inputs(&out, c, offer); err != nil {
			return nil, err
		}
		return []dialogue.Command{out}, nil
	}
	switch c.Type {
	case dialogue.StartFlow:
		i := slices.IndexFunc(s.flows, func(f dialogue.FlowOffer) bool { return f.Name == c.Flow })
		if i < 0 {
			return nil, fmt.Errorf("there is no flow %s to start", quoted(c.Flow))
		}
		out.Flow = c.Flow
		slots, err := s.values(raw, c, s.flows[i].Slots)
		if err != nil {
			return nil, err
		}
		for _, g := range slots {
			if out.Slots == nil {
				out.Slots = map[string]expr.Value{}
			}
			out.Slots[g.Slot] = g.Value
		}
	case dialogue.SetSlot, dialogue.CorrectSlot:
		slots, err := s.values(raw, c, s.offers())
		if err != nil {
			return nil, err
		}
		var sets []dialogue.Command
		for _, g := range slots {
			sets = append(sets, dialogue.Command{Type: dialogue.SetSlot, Slot: g.Slot, Value: g.Value, Span: span(s.in.Message.Text, g.Value, s.in.Language)})
		}
		return sets, nil
	case dialogue.ClearSlot:
		if !slices.Contains(s.filled(), c.Slot) {
			return nil, fmt.Errorf("there is no slot %s to clear", quoted(c.Slot))
		}
		out.Slot = c.Slot
	case dialogue.Deny:
		if c.Slot != "" && !slices.Contains(s.shown(), c.Slot) {
			return nil, fmt.Errorf("the question shows no slot %s", quoted(c.Slot))
		}
		out.Slot = c.Slot
	case dialogue.Select:
		if !slices.Contains(s.options(), c.Option) {
			return nil, fmt.Errorf("there is no option %s", quoted(c.Option))
		}
		out.Option = c.Option
	case dialogue.ResumeFlow:
		if c.Flow != "" && !slices.Contains(s.paused(), c.Flow) {
			return nil, fmt.Errorf("the flow %s is not paused", quoted(c.Flow))
		}
		out.Flow = c.Flow
	case dialogue.Clarify:
		for _, f := range c.Options {
			if !slices.Contains(s.flowNames(), f) {
				return nil, fmt.Errorf("there is no flow %s to choose", quoted(f))
			}
		}
		out.Options = c.Options
		if slices.Contains(namesOf(s.in.Slots), c.Topic) {
			out.Topic = c.Topic
		}
	case dialogue.AskQuestion:
		switch {
		case slices.Contains(namesOf(s.in.Slots), c.Topic):
			out.Topic = c.Topic
		case c.Topic != "" && strings.Contains(language.Fold(s.in.Message.Text), language.Fold(c.Topic)):
			out.Topic = c.Topic
		}
	case dialogue.SetLanguage:
		if !slices.Contains(s.in.Languages, c.Language) {
			return nil, fmt.Errorf("the language %s is not spoken", quoted(c.Language))
		}
		out.Language = c.Language
	}
	return []dialogue.Command{out}, nil
}

// values returns the slots that a command gives values, of those that are offered: a list
// of slots with values, an object with a member for each slot, or a slot and a value.
func (s *scope) values(raw json.RawMessage, c dialogue.Command, offers []dialogue.SlotOffer) ([]given, error) {
	var fields struct {
		Slots json.RawMessage `json:"slots"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, errors.New("it is not a command")
	}
	var values []given
	switch text := bytes.TrimSpace(fields.Slots); {
	case len(text) > 0 && text[0] == '[':
		if err := json.Unmarshal(text, &values); err != nil {
			return nil, errors.New("slots is not a list of slots with their values")
		}
	case len(text) > 0 && text[0] == '{':
		for _, name := range slices.Sorted(maps.Keys(c.Slots)) {
			values = append(values, given{name, c.Slots[name]})
		}
	case c.Type != dialogue.StartFlow:
		values = []given{{c.Slot, c.Value}}
	}
	for i := range values {
		g := &values[i]
		n := slices.IndexFunc(offers, func(o dialogue.SlotOffer) bool { return o.Name == g.Slot })
		if n < 0 {
			return nil, fmt.Errorf("there is no slot %s to fill", quoted(g.Slot))
		}
		text, ok := g.Value.Str()
		if g.Value.IsNone() || ok && strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("the slot %s has no value", quoted(g.Slot))
		}
		if ok && offers[n].Type == program.Object {
			if err := json.Unmarshal([]byte(text), &g.Value); err != nil || g.Value.Kind() != expr.Object {
				return nil, fmt.Errorf("the value of the slot %s is not the JSON of an object", quoted(g.Slot))
			}
		}
	}
	return values, nil
}

// inputs takes over those of a command of the program's own.
func inputs(out *dialogue.Command, c dialogue.Command, offer dialogue.CommandOffer) error {
	for name := range c.Slots {
		if !slices.ContainsFunc(offer.Slots, func(p program.Param) bool { return p.Name == name }) {
			return fmt.Errorf("the command %s has no slot %s", quoted(string(c.Type)), quoted(name))
		}
	}
	for _, p := range offer.Slots {
		v, ok := c.Slots[p.Name]
		if !ok || v.IsNone() {
			if !p.Optional {
				return fmt.Errorf("the slot %s has no value", quoted(p.Name))
			}
			continue
		}
		if out.Slots == nil {
			out.Slots = map[string]expr.Value{}
		}
		out.Slots[p.Name] = v
	}
	return nil
}

// quoted returns a name as an error says it: of a length that can't hide anything.
func quoted(name string) string {
	if r := []rune(name); len(r) > 64 {
		name = string(r[:64]) + "…"
	}
	return fmt.Sprintf("%q", name)
}
