package dialogue

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// scene is what expressions and texts of a frame see.
type scene struct {
	m       *machine
	id      string // flow_id; "" outside of a frame
	flow    *program.Flow
	overlay map[string]*expr.Value // slots as a step is about to leave them; nil is unfilled
	repair  *Repair
	option  *expr.Value
}

// scene returns the scene of a frame.
func (m *machine) scene(i int) *scene {
	return &scene{m: m, id: m.s.FlowStack[i].FlowID, flow: m.flow(i), repair: m.frame(i).Repair}
}

func text(s string) (expr.Value, bool) { return expr.Str(s), s != "" }

// Lookup finds a path.
func (s *scene) Lookup(path []string) (expr.Value, bool) {
	m := s.m
	if s.overlay != nil {
		key, rest := path[0], path[1:]
		if key == session && len(path) > 1 {
			key, rest = session+"."+path[1], path[2:]
		}
		if v, ok := s.overlay[key]; ok {
			if v == nil {
				return expr.Value{}, false
			}
			return v.At(rest)
		}
	}
	if len(path) == 2 {
		switch path[0] {
		case "turn":
			switch path[1] {
			case "text":
				return expr.Str(m.t.Text), true
			case "language":
				return expr.Str(m.t.Language), true
			case "channel":
				return text(m.t.Channel)
			case "number":
				return expr.Num(float64(m.t.Number)), true
			case "time":
				return expr.Str(m.t.Time.Format(time.RFC3339)), true
			}
			return expr.Value{}, false
		case "flow":
			flow, id := s.flow, s.id
			if s.repair != nil && s.repair.About != "" { // a repair speaks of the flow that it repairs
				if i := m.index(s.repair.About); i >= 0 {
					flow, id = m.flow(i), s.repair.About
				}
			}
			switch path[1] {
			case "name":
				return expr.Str(flow.Name), true
			case "id":
				return text(id)
			case "description":
				return text(flow.Description)
			}
			return expr.Value{}, false
		case "error":
			e := m.t.Error
			if s.repair != nil && s.repair.Error != nil {
				e = s.repair.Error
			}
			if e == nil {
				return expr.Value{}, false
			}
			switch path[1] {
			case "type":
				return text(e.Type)
			case "message":
				return text(e.Message)
			case "action":
				return text(e.Action)
			}
			return expr.Value{}, false
		case "repair":
			r := &m.t.Repair
			if s.repair != nil {
				r = s.repair
			}
			switch path[1] {
			case "command":
				return text(r.Command)
			case "slot":
				return text(r.Slot)
			case "value":
				return r.Value, !r.Value.IsNone()
			case "topic":
				return text(r.Topic)
			}
			return expr.Value{}, false
		}
	}
	switch {
	case path[0] == session:
		if len(path) < 2 {
			return expr.Value{}, false
		}
		v, ok := m.s.FlowSlots[session][path[1]]
		if !ok {
			return expr.Value{}, false
		}
		return v.At(path[2:])
	case path[0] == "option" && s.option != nil:
		return s.option.At(path[1:])
	}
	v, ok := m.s.FlowSlots[s.id][path[0]]
	if !ok {
		return expr.Value{}, false
	}
	return v.At(path[1:])
}

// Now is the time of the turn.
func (s *scene) Now() time.Time { return s.m.t.Time }

// UUID is derived from the thread, the turn and the step.
func (s *scene) UUID() string {
	step := ""
	if i := s.m.index(s.id); i >= 0 {
		step = s.m.s.FlowStack[i].CurrentStep
	}
	h := digest(s.m.m.Thread, fmt.Sprint(s.m.t.Number), s.id, step)
	return h[:8] + "-" + h[8:12] + "-5" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}

// Language is that of the turn.
func (s *scene) Language() language.Language { return s.m.lang() }

// Label returns what the language calls an option.
func (s *scene) Label(path []string, v expr.Value) string {
	var slot *program.Slot
	switch {
	case len(path) == 1 && s.flow != nil:
		slot = s.flow.Slots[path[0]]
	case len(path) == 2 && path[0] == session:
		slot = s.m.p.Session[path[1]]
	}
	if slot != nil {
		if o, ok := slot.Option(v); ok {
			return o.LabelIn(s.m.t.Language, s.m.p.Languages.Default)
		}
	}
	if b, ok := v.Bool(); ok {
		return s.Language().FormatBool(b)
	}
	return v.String()
}

// choose picks the variation of a response that this turn says.
func (m *machine) choose(r *program.Response, s *scene) (*program.Entry, *program.Words) {
	lang := m.t.Language
	for _, attempt := range []struct {
		entries []program.Entry
		tag     string
	}{{r.In[lang], lang}, {r.Entries, lang}, {r.Entries, ""}} {
		var fit, exact []*program.Entry
		for i := range attempt.entries {
			e := &attempt.entries[i]
			for _, c := range e.Channels {
				if c == m.t.Channel {
					exact = append(exact, e)
				}
			}
			if len(e.Channels) == 0 {
				fit = append(fit, e)
			}
		}
		holds := func(e *program.Entry) bool {
			return e.When != nil && !e.When.True(s) || e.Words[attempt.tag] == nil && (attempt.tag != "" || len(e.Words) > 0)
		}
		exact = slices.DeleteFunc(exact, holds)
		fit = slices.DeleteFunc(fit, holds)
		if len(exact) > 0 {
			fit = exact
		}
		if len(fit) == 0 {
			continue
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%d/%s", m.m.Thread, m.t.Number, r.Name)
		e := fit[h.Sum64()%uint64(len(fit))]
		return e, e.Words[attempt.tag]
	}
	return nil, nil
}

// say puts a response into the reply, and says whether it had words.
func (m *machine) say(r *program.Response, s *scene, rephrase *bool) bool {
	if r == nil {
		return false
	}
	e, words := m.choose(r, s)
	if e == nil {
		return false
	}
	said := Said{Type: "text", Response: r.Name, Media: e.Media, Custom: e.Custom, Rephrase: m.p.Settings.Rephrase}
	if r.Inline {
		said.Response = ""
	}
	for _, b := range []*bool{e.Rephrase, rephrase} {
		if b != nil {
			said.Rephrase = *b
		}
	}
	if words != nil {
		form := words.Forms["other"]
		if words.Count != nil {
			form = m.plural(words, s)
		}
		if form != nil {
			said.Text = form.Render(s)
		}
	}
	for i, b := range e.Buttons {
		said.Options = append(said.Options, m.button(i, b, s))
	}
	switch {
	case len(said.Options) > 0:
		said.Type = "buttons"
	case said.Text == "" && !e.Media.IsNone():
		said.Type = "media"
	case said.Text == "" && !e.Custom.IsNone():
		said.Type = "custom"
	}
	m.t.Messages = append(m.t.Messages, said)
	return said.Text != "" || said.Type != "text"
}

func (m *machine) plural(w *program.Words, s *scene) *program.Text {
	v := w.Count.Eval(s)
	n, ok := v.Num()
	if l, has := v.Len(); !ok && has && v.Kind() != expr.Text {
		n = float64(l)
	}
	if zero := w.Forms["zero"]; n == 0 && zero != nil {
		return zero
	}
	if f := w.Forms[m.lang().Plural(n)]; f != nil {
		return f
	}
	return w.Forms["other"]
}

func (m *machine) button(i int, b program.Button, s *scene) Option {
	o := Option{ID: fmt.Sprint(i)}
	for _, tag := range []string{m.t.Language, "", m.p.Languages.Default} {
		if t := b.Label[tag]; t != nil {
			o.Label = t.Render(s)
			break
		}
	}
	switch {
	case b.Value != nil:
		o.Value = *b.Value
		if q := m.m.Question; q != nil && q.Slot != "" {
			o.Commands = []Command{{Type: SetSlot, Slot: q.Slot, Value: *b.Value}}
		}
	case b.Start != "":
		o.Commands = []Command{{Type: StartFlow, Flow: b.Start, Slots: b.Slots}}
	default:
		for _, c := range b.Commands {
			o.Commands = append(o.Commands, commandOf(c))
		}
	}
	return o
}

// words says a response of the library outside of any flow.
func (m *machine) words(name string, repair *Repair) {
	s := &scene{m: m, flow: nowhere, repair: repair}
	if top := len(m.s.FlowStack) - 1; top >= 0 {
		s = m.scene(top)
		s.repair = repair
	}
	before := len(m.t.Messages)
	m.say(m.p.Responses[name], s, nil)
	// The same words twice in a row say nothing more.
	if after := len(m.t.Messages); after > before && before > 0 && m.t.Messages[before-1].Response == name && m.t.Messages[before-1].Text == m.t.Messages[before].Text {
		m.t.Messages = m.t.Messages[:before]
	}
}

// pattern runs the flow of a repair: the assistant's own or the built-in one. One that
// has to wait stays on the stack like a call.
func (m *machine) pattern(name string, r Repair) {
	flow, ok := m.p.Flow(m.p.Patterns.Flows[name])
	if !ok {
		flow, ok = m.p.Flows["pattern_"+name]
	}
	if !ok {
		return
	}
	if top := len(m.s.FlowStack) - 1; top >= 0 && r.About == "" {
		r.About = m.s.FlowStack[top].FlowID
	}
	q, progress := m.m.Question, m.t.Progress
	was := slices.Clone(m.s.FlowStack)
	id := m.push(flow, ByPattern, "", "repair")
	m.frame(m.index(id)).Repair = &r
	for i := m.index(id); i >= 0 && i == len(m.s.FlowStack)-1 && !m.busy() && m.step(); {
		i = m.index(id)
	}
	if m.index(id) >= 0 {
		return
	}
	if len(was) == len(m.s.FlowStack) { // over already: nothing below was touched
		m.s.FlowStack, m.t.Progress = was, progress
		m.s.Trace = slices.DeleteFunc(m.s.Trace, func(e TraceEvent) bool {
			return e.Turn == m.t.Number && (e.Reason == "pattern" || e.Reason == "repaired")
		})
		if m.m.Question == nil {
			m.m.Question = q
		}
	}
}

// offers returns the options of a slot, in the turn's language.
func (m *machine) offers(s *program.Slot) []Option {
	var out []Option
	for i, o := range s.Options {
		out = append(out, Option{ID: fmt.Sprint(i), Label: o.LabelIn(m.t.Language, m.p.Languages.Default), Value: o.Value})
	}
	return out
}

// understand describes what a message may mean now.
func (m *machine) understand(in Message) *Understand {
	m.t = &Turn{Number: m.s.TurnCount + 1, Time: in.Time, Language: m.language(in.Language), Channel: in.Channel, Text: in.Text}
	defer func() { m.t = nil }()
	u := &Understand{Message: in, Language: m.t.Language, Asked: m.m.Question, Flows: []FlowOffer{}, Slots: []SlotOffer{}}
	offer := func(f *program.Flow, name string, v expr.Value, filled bool) SlotOffer {
		s := f.Slots[name]
		o := SlotOffer{Flow: f.Name, Name: name, Type: s.Type, Description: s.Description}
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
	u.History = keep(m.s.Messages, 10)
	u.Stack = slices.Clone(m.s.FlowStack)
	for i := range u.Stack {
		u.Stack[i].Outputs = nil
	}
	if strings.TrimSpace(in.Text) == "" {
		u.Flows = nil
	}
	return u
}
