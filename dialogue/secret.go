package dialogue

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Masked returns commands as they may be shown: without sensitive values.
func Masked(p *program.Program, s State, commands []Command) []Command {
	m := &conversation{p: p, s: &s, m: &s.Metadata.Machine, t: &Turn{}}
	masked := make([]Command, len(commands))
	for i, c := range commands {
		masked[i] = m.masked(c)
	}
	return masked
}

// Masked returns the conversation as it may be shown by tools, exported and logged: with
// every sensitive value masked, wherever it is. It can be read, and not gone on with.
func (s *State) Masked(p *program.Program) State {
	m := s.masker(p)
	mm := m.m
	// What was said before it was known to be sensitive is masked too.
	m.s.UserMessage, m.s.LastResponse = m.mask(m.s.UserMessage), m.mask(m.s.LastResponse)
	m.s.Messages, m.s.Trace = slices.Clone(m.s.Messages), slices.Clone(m.s.Trace)
	for i, e := range m.s.Messages {
		m.s.Messages[i].Text = m.mask(e.Text)
	}
	for i, e := range m.s.Trace {
		m.s.Trace[i].Value, m.s.Trace[i].Reason = m.mask(e.Value), m.mask(e.Reason)
	}
	mm.Answered = slices.Clone(mm.Answered)
	for i, a := range mm.Answered {
		mm.Answered[i].Reply = m.maskReply(a.Reply)
	}
	m.s.Metadata.ActionResult = m.maskValues(m.s.Metadata.ActionResult)
	if r := m.s.NLUResult; r != nil {
		m.s.NLUResult = &NLUResult{Commands: m.maskCommands(r.Commands)}
	}
	for i, f := range m.s.FlowStack {
		frame := m.frame(i)
		m.s.FlowSlots[f.FlowID] = m.maskSlots(i, m.s.FlowSlots[f.FlowID])
		for n, c := range frame.Confirmed {
			frame.Confirmed[n].Values = m.maskSlots(i, c.Values)
		}
		for name, v := range frame.Visits {
			v.Inputs, v.Outputs = m.maskValues(v.Inputs), m.maskValues(v.Outputs)
			frame.Visits[name] = v
		}
		if frame.Agent != nil {
			for n, e := range frame.Agent.Log {
				e.Args, e.Result, e.Text = m.maskValues(e.Args), m.maskValues(e.Result), m.mask(e.Text)
				frame.Agent.Log[n] = e
			}
		}
		for id, r := range frame.Results {
			r := *r
			r.Outputs = m.maskValues(r.Outputs)
			frame.Results[id] = &r
		}
		if r := frame.Repair; r != nil {
			r := *r
			r.Value, r.Topic = m.maskValue(r.Value), m.mask(r.Topic)
			frame.Repair = &r
		}
		if e := frame.Event; e != nil {
			e := *e
			e.Fields = m.maskValues(e.Fields)
			frame.Event = &e
		}
	}
	for name, v := range m.s.FlowSlots[session] {
		if m.sensitive(session + "." + name) {
			m.s.FlowSlots[session][name] = hidden(v)
		}
	}
	if q := mm.Question; q != nil {
		q.Options = m.maskOptions(q.Options)
	}
	if r := mm.LastReply; r != nil {
		masked := m.maskReply(*r)
		mm.LastReply = &masked
	}
	if in := mm.Incoming; in != nil { // nobody knows yet what is secret in it
		in := *in
		in.Text, in.Commands = program.Mask(in.Text), nil
		mm.Incoming = &in
	}
	for i := range mm.Pending {
		mm.Pending[i] = m.maskEffect(mm.Pending[i])
	}
	if m.s.Metadata.Machine.Turn != nil {
		t := m.t
		t.Text, t.Verdicts, t.Error = m.mask(t.Text), nil, nil
		t.Repair.Value, t.Repair.Topic = m.maskValue(t.Repair.Value), m.mask(t.Repair.Topic)
		t.Queue = m.maskCommands(t.Queue)
		said := m.maskReply(Reply{Messages: t.Messages, Events: t.Events})
		t.Messages, t.Events, t.Secrets = said.Messages, said.Events, nil
	}
	mm.Secrets = nil
	return *m.s
}

// masker returns what masks a copy of the state, and knows its secrets.
func (s *State) masker(p *program.Program) masker {
	c := newDriver(p, s.clone())
	m := masker{&c.conversation}
	if m.t == nil {
		m.t = &Turn{}
	}
	m.t.Secrets = append(m.t.Secrets, m.m.Secrets...)
	m.secrets()
	return m
}

// MaskedInput returns what the conversation is given as it may be shown: without the
// secrets of the conversation, and without what goes into sensitive slots. What in the
// text of a message is one is only known once it is understood: see [State.Messages].
func (s *State) MaskedInput(p *program.Program, in Input) Input {
	m := s.masker(p)
	switch in := in.(type) {
	case Message:
		in.Text, in.Commands = m.mask(in.Text), m.maskCommands(in.Commands)
		return in
	case Understood:
		in.Commands = m.maskCommands(in.Commands)
		return in
	case Result:
		var to []program.Out
		for _, e := range m.m.Pending {
			if i := -1; in.answers(e) {
				if i = m.index(e.Action.FlowID); i >= 0 {
					to = outs(m.flow(i), e.Action)
				}
				in.Outputs = m.maskOutputs(i, to, in.Outputs)
			}
		}
		in.Error = m.maskFailure(in.Error)
		return in
	case Validated:
		in.Value, in.Reason, in.Error = m.maskValue(in.Value), m.mask(in.Reason), m.maskFailure(in.Error)
		return in
	case Answer:
		in.Text, in.Args, in.Error = m.mask(in.Text), m.maskValues(in.Args), m.maskFailure(in.Error)
		return in
	case Event:
		for i := range m.s.FlowStack {
			if _, step := m.at(i); step != nil {
				if w, ok := step.Body.(*program.Wait); ok && w.Event == in.Name {
					in.Fields = m.maskOutputs(i, w.Outputs, in.Fields)
				}
			}
		}
		in.Fields = m.maskValues(in.Fields)
		return in
	case Release:
		in.Summary, in.Slots = m.mask(in.Summary), m.maskValues(in.Slots)
		for name, v := range in.Slots {
			if m.sensitive(name) {
				in.Slots[name] = hidden(v)
			}
		}
		return in
	case Operator:
		in.Text = m.mask(in.Text)
		return in
	}
	return in
}

// outs are the slots into which the step that calls an action puts what it answers.
func outs(f *program.Flow, call *ActionCall) []program.Out {
	step, ok := f.Step(call.Step)
	if !ok {
		return nil
	}
	return step.Outputs(call.Action)
}

// maskOutputs hides what goes into the sensitive slots of a frame.
func (m masker) maskOutputs(i int, to []program.Out, values map[string]expr.Value) map[string]expr.Value {
	secret := map[string]expr.Value{}
	for _, o := range to {
		if v, ok := values[o.Output]; ok && m.slot(i, o.Slot).Sensitive {
			m.secret(v)
			secret[o.Output] = hidden(v)
		}
	}
	out := m.maskValues(values)
	maps.Copy(out, secret)
	return out
}

func (m masker) maskFailure(f *Failure) *Failure {
	if f == nil {
		return nil
	}
	masked := *f
	masked.Message = m.mask(f.Message)
	return &masked
}

// hidden returns what is shown of a sensitive value.
func hidden(v expr.Value) expr.Value {
	if v.IsNone() {
		return v
	}
	return expr.Str(program.Mask(v.String()))
}

// sensitive says whether any slot of the name, or value of the session, is sensitive.
func (m *conversation) sensitive(slot string) bool {
	if name, ok := strings.CutPrefix(slot, session+"."); ok {
		s, ok := m.p.Session[name]
		return ok && s.Sensitive
	}
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
		if m.sensitive(session + "." + name) {
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

// Inserted notes how a text shows a sensitive value.
func (s *scene) Inserted(path []string, text string) {
	name := path[0]
	if name == session && len(path) > 1 {
		name += "." + path[1]
	}
	if s.m.sensitive(name) {
		s.m.secret(expr.Str(text))
	}
}

// mask hides the turn's secrets in a text, also where they are written with other signs
// between their letters and digits.
func (m *conversation) mask(text string) string {
	if text == "" || len(m.t.Secrets) == 0 {
		return text
	}
	type span struct{ from, to int }
	var found []span
	hide := func(from, to int) {
		if !slices.ContainsFunc(found, func(s span) bool { return from < s.to && s.from < to }) {
			found = append(found, span{from, to})
		}
	}
	for _, s := range m.t.Secrets {
		for from := 0; ; {
			i := strings.Index(text[from:], s)
			if i < 0 {
				break
			}
			hide(from+i, from+i+len(s))
			from += i + len(s)
		}
	}
	bare, at := letters(text)
	for _, s := range m.t.Secrets {
		const fewest = 6 // letters and digits; fewer may be anything
		want, _ := letters(s)
		if utf8.RuneCountInString(want) < fewest {
			continue
		}
		for from := 0; ; {
			i := strings.Index(bare[from:], want)
			if i < 0 {
				break
			}
			last := at[from+i+len(want)-1]
			_, size := utf8.DecodeRuneInString(text[last:])
			hide(at[from+i], last+size)
			from += i + len(want)
		}
	}
	slices.SortFunc(found, func(a, b span) int { return b.from - a.from })
	m.hid = m.hid || len(found) > 0
	for _, s := range found {
		text = text[:s.from] + program.Mask(text[s.from:s.to]) + text[s.to:]
	}
	return text
}

// letters returns the letters and digits of a text, in lower case, and where in the text
// the rune of each of its bytes begins.
func letters(text string) (bare string, at []int) {
	var b strings.Builder
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n, _ := b.WriteRune(unicode.ToLower(r)) // a Builder takes everything
			for range n {
				at = append(at, i)
			}
		}
	}
	return b.String(), at
}

// masked returns a command as it may be kept.
func (m *conversation) masked(c Command) Command {
	if m.sensitive(c.Slot) {
		m.secret(c.Value)
		c.Value, c.Span = hidden(c.Value), ""
	}
	if len(c.Slots) > 0 {
		c.Slots = maps.Clone(c.Slots)
		for name, v := range c.Slots {
			if m.sensitive(name) {
				m.secret(v)
				c.Slots[name] = hidden(v)
			}
		}
	}
	c.Topic, c.Reason, c.Span = m.mask(c.Topic), m.mask(c.Reason), m.mask(c.Span)
	return c
}

// masker masks the values, commands, replies and effects of a conversation.
type masker struct{ *conversation }

// maskValue hides the secrets in the texts of a value, and a value that is one.
func (m masker) maskValue(v expr.Value) expr.Value {
	switch v.Kind() {
	case expr.Text, expr.Number:
		if text := v.String(); m.mask(text) != text {
			return expr.Str(m.mask(text))
		}
	case expr.List:
		items := v.Items()
		for i, x := range items {
			items[i] = m.maskValue(x)
		}
		return expr.ListOf(items...)
	case expr.Object:
		members := map[string]expr.Value{}
		for _, k := range v.Keys() {
			x, _ := v.Get(k)
			members[k] = m.maskValue(x)
		}
		return expr.ObjectOf(members)
	}
	return v
}

func (m masker) maskValues(values map[string]expr.Value) map[string]expr.Value {
	if values == nil {
		return nil
	}
	out := make(map[string]expr.Value, len(values))
	for name, v := range values {
		out[name] = m.maskValue(v)
	}
	return out
}

// maskSlots hides the sensitive slots among those of a frame.
func (m masker) maskSlots(i int, slots map[string]expr.Value) map[string]expr.Value {
	out := m.maskValues(slots)
	for name, v := range slots {
		if m.slot(i, name).Sensitive {
			out[name] = hidden(v)
		}
	}
	return out
}

func (m masker) maskOptions(options []Option) []Option {
	out := slices.Clone(options)
	for i, o := range out {
		out[i].Label, out[i].Value = m.mask(o.Label), m.maskValue(o.Value)
		out[i].Commands = m.maskCommands(o.Commands)
	}
	return out
}

func (m masker) maskCommands(commands []Command) []Command {
	out := slices.Clone(commands)
	for i, c := range out {
		c = m.masked(c)
		c.Value, c.Slots = m.maskValue(c.Value), m.maskValues(c.Slots)
		out[i] = c
	}
	return out
}

// maskReply returns a reply as it may be kept.
func (m masker) maskReply(r Reply) Reply {
	if len(m.t.Secrets) == 0 {
		return r
	}
	r.Text = m.mask(r.Text)
	r.Messages = slices.Clone(r.Messages)
	for i, s := range r.Messages {
		r.Messages[i].Text, r.Messages[i].Options = m.mask(s.Text), m.maskOptions(s.Options)
		r.Messages[i].Media, r.Messages[i].Custom = m.maskValue(s.Media), m.maskValue(s.Custom)
		r.Messages[i].Values = slices.Clone(s.Values)
		for n, v := range s.Values {
			r.Messages[i].Values[n] = m.mask(v)
		}
	}
	if r.Waiting != nil {
		w := *r.Waiting
		w.Options = m.maskOptions(w.Options)
		r.Waiting = &w
	}
	r.Events = slices.Clone(r.Events)
	for i, e := range r.Events {
		r.Events[i].Fields = m.maskValues(e.Fields)
	}
	return r
}

// maskEffect returns an effect as it may be shown.
func (m masker) maskEffect(e Effect) Effect {
	switch {
	case e.Understand != nil:
		u := *e.Understand
		u.Message.Text, u.Message.Commands = program.Mask(u.Message.Text), nil
		if u.Asked != nil {
			q := *u.Asked
			q.Options = m.maskOptions(q.Options)
			u.Asked = &q
		}
		e.Understand = &u
	case e.Action != nil:
		a := *e.Action
		a.Inputs = m.maskValues(a.Inputs)
		e.Action = &a
	case e.Validate != nil:
		v := *e.Validate
		if v.Value = m.maskValue(v.Value); v.Sensitive {
			v.Value = hidden(e.Validate.Value)
		}
		e.Validate = &v
	case e.Model != nil:
		c := *e.Model
		c.Instruction, c.Context = m.mask(c.Instruction), m.maskValues(c.Context)
		c.Log = slices.Clone(c.Log)
		for i, x := range c.Log {
			c.Log[i].Args, c.Log[i].Result, c.Log[i].Text = m.maskValues(x.Args), m.maskValues(x.Result), m.mask(x.Text)
		}
		e.Model = &c
	}
	return e
}
