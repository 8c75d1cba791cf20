package dialogue

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// offer shows options with what was said last.
func (m *conversation) offer(options []Option) {
	if n := len(m.t.Messages); n > 0 && len(options) > 0 {
		last := &m.t.Messages[n-1]
		last.Type, last.Options = "buttons", append(slices.Clone(last.Options), options...)
	}
}

// choose picks the variation of a response that this turn says.
func (m *conversation) choose(r *program.Response, s *scene) (*program.Entry, *program.Words) {
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
func (m *conversation) say(r *program.Response, s *scene, rephrase *bool) bool {
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
			said.Text, said.Values = form.Fill(s)
			if !said.Rephrase {
				said.Values = nil
			}
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

func (m *conversation) plural(w *program.Words, s *scene) *program.Text {
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

func (m *conversation) button(i int, b program.Button, s *scene) Option {
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
		q := m.m.Question
		yes, isBool := b.Value.Bool()
		switch {
		case q == nil:
		case q.Slot != "":
			o.Commands = []Command{{Type: SetSlot, Slot: q.Slot, Value: *b.Value}}
		case q.Kind == AskConfirm && isBool:
			o.Commands = []Command{{Type: map[bool]CommandType{true: Affirm, false: Deny}[yes]}}
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
func (m *conversation) words(name string, repair *Repair) {
	s := m.outside(nowhere, repair)
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

// own returns the assistant's own flow for a repair, if it may start.
func (m *conversation) own(pattern string) (*program.Flow, bool) {
	f, ok := m.p.Flow(m.p.Patterns.Flows[pattern])
	return f, ok && m.offered(f)
}

// pattern runs the flow of a repair: the assistant's own or the built-in one. One that
// has to wait stays on the stack like a call.
func (m *machine) pattern(name string, r Repair) {
	flow, ok := m.own(name)
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
		m.s.Trace = slices.DeleteFunc(slices.Clone(m.s.Trace), func(e TraceEvent) bool {
			return e.Turn == m.t.Number && (e.Reason == "pattern" || e.Reason == "repaired")
		})
		if m.m.Question == nil {
			m.m.Question = q
		}
	}
}
