package dialogue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

func (m *conversation) language(given string) string {
	return cmp.Or(given, m.m.Language, m.p.Languages.Default)
}

func (m *conversation) verdict(id string, v Verdict) {
	if m.t.Verdicts == nil {
		m.t.Verdicts = map[string]Verdict{}
	}
	m.t.Verdicts[id] = v
}

// asleep says whether the top of the stack waits for a time or an event, so that the
// user is asked nothing.
func (m *conversation) asleep() bool {
	if len(m.s.FlowStack) == 0 {
		return false
	}
	_, step := m.at(len(m.s.FlowStack) - 1)
	if step == nil {
		return false
	}
	_, ok := step.Body.(*program.Wait)
	return ok
}

// longestEntry are the characters of a line of the transcript.
const longestEntry = 4000

func (m *conversation) transcript(role, text string) {
	if utf8.RuneCountInString(text) > longestEntry {
		text = string([]rune(text)[:longestEntry]) + "…"
	}
	m.s.Messages = append(room(m.s.Messages, 2), Entry{Role: role, Text: text, Turn: m.t.Number})
}

func (m *conversation) trace(e TraceEvent) {
	e.Turn, e.Time = m.t.Number, m.t.Time
	m.s.Trace = append(room(m.s.Trace, 8), e)
}

// emit adds an event to the reply.
func (m *conversation) emit(name string, fields map[string]expr.Value) {
	m.t.Events = append(m.t.Events, Event{Name: name, Fields: fields, Time: m.t.Time})
	m.trace(TraceEvent{Kind: name})
}

func (m *conversation) lang() language.Language { return language.Of(m.t.Language) }

// offered says whether a flow's guard holds.
func (m *conversation) offered(f *program.Flow) bool {
	return f.Guard == nil || f.Guard.True(m.outside(f, nil))
}

// asks says whether the open question is about the slot of the frame, or the one that
// was open until a correction in the same message led elsewhere.
func (m *conversation) asks(i int, slot string) bool {
	q := m.m.Question
	if q == nil && m.t != nil {
		q = m.t.Asked
	}
	return q != nil && q.Kind == AskCollect && q.FlowID == m.s.FlowStack[i].FlowID && (q.Slot == slot || slices.Contains(q.Slots, slot))
}

// digest is the hash of some texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// conversation is a state that is being advanced: what is known of it, and what is noted
// in it. It runs nothing.
type conversation struct {
	p *program.Program
	s *State
	m *Machine // of s
	t *Turn    // under way

	hid bool // a secret was masked
}

// index returns where the flow of an ID is on the stack, -1 if it isn't.
func (m *conversation) index(id string) int {
	if id == "" {
		return -1
	}
	return slices.IndexFunc(m.s.FlowStack, func(f FlowContext) bool { return f.FlowID == id })
}

func (m *conversation) frame(i int) *Frame { return m.m.Frames[m.s.FlowStack[i].FlowID] }

// nowhere is the flow of a frame whose flow is gone: it has no steps.
var nowhere = &program.Flow{First: program.End}

func (m *conversation) flow(i int) *program.Flow {
	f, _ := m.home(i)
	return f
}

// home returns the flow of a frame as the frame stands in it, and the program that has it.
func (m *conversation) home(i int) (*program.Flow, *program.Program) {
	name := m.s.FlowStack[i].FlowName
	if f, p, ok := m.p.FlowAt(name, m.frame(i).Version); ok {
		return f, p
	}
	if f, ok := m.p.Flow(name); ok {
		return f, m.p
	}
	return nowhere, m.p
}

// at returns the flow and the step at which the frame stands; the step is nil at the
// flow's end.
func (m *conversation) at(i int) (*program.Flow, *program.Step) {
	f := m.flow(i)
	s, ok := f.Step(m.s.FlowStack[i].CurrentStep)
	if !ok {
		return f, nil
	}
	return f, s
}

// value returns what a slot of a frame holds, or a value of the session.
func (m *conversation) value(i int, slot string) (expr.Value, bool) {
	if name, ok := strings.CutPrefix(slot, "session."); ok {
		v, ok := m.s.FlowSlots[session][name]
		return v, ok
	}
	v, ok := m.s.FlowSlots[m.s.FlowStack[i].FlowID][slot]
	return v, ok
}

func (m *conversation) setSessionProvenance(name string, p Provenance) {
	if m.m.Session == nil {
		m.m.Session = map[string]Provenance{}
	}
	m.m.Session[name] = p
}

// store puts a value into a slot.
func (m *conversation) store(i int, slot string, v expr.Value, p Provenance) {
	old, had := m.value(i, slot)
	if !had || !old.Same(v) {
		m.t.Progress = true
	}
	ctx := m.s.FlowStack[i]
	if f := m.frame(i); f.Walk != "" && (!had || !old.Same(v)) && !slices.Contains(f.Changed, slot) {
		f.Changed = append(slices.Clone(f.Changed), slot)
	}
	shown := v.String()
	if m.sensitive(slot) {
		m.secret(v)
		shown, p.Span = program.Mask(shown), ""
	}
	if name, ok := strings.CutPrefix(slot, "session."); ok {
		m.s.FlowSlots[session][name] = v
		m.setSessionProvenance(name, p)
	} else {
		m.s.FlowSlots[ctx.FlowID][slot] = v
		m.frame(i).Provenance[slot] = p
	}
	m.trace(TraceEvent{Kind: "slot_set", Flow: ctx.FlowName, Step: ctx.CurrentStep, Slot: slot, Value: shown, Reason: string(p.Source)})
}

// empty makes a slot unfilled.
func (m *conversation) empty(i int, slot string) {
	if _, filled := m.value(i, slot); !filled {
		return
	}
	m.t.Progress = true
	if name, ok := strings.CutPrefix(slot, "session."); ok {
		delete(m.s.FlowSlots[session], name)
		delete(m.m.Session, name)
	} else {
		if m.sensitive(slot) {
			v, _ := m.value(i, slot)
			m.secret(v)
		}
		delete(m.s.FlowSlots[m.s.FlowStack[i].FlowID], slot)
		delete(m.frame(i).Provenance, slot)
	}
	m.trace(TraceEvent{Kind: "slot_emptied", Flow: m.s.FlowStack[i].FlowName, Slot: slot})
}

// become changes the state of a frame. Nothing else does.
func (m *conversation) become(i int, state FlowState, why string) {
	f := &m.s.FlowStack[i]
	f.FlowState, f.Context = state, why
	now := m.t.Time
	switch state {
	case Active:
		f.PausedAt = nil
	case Paused:
		f.PausedAt = &now
	default:
		f.CompletedAt = &now
	}
	if m.frame(i).Role != ByPattern {
		m.trace(TraceEvent{Kind: "flow_" + string(state), Flow: f.FlowName, Step: f.CurrentStep, Reason: why})
		m.t.Progress = true
	}
}

// base returns the frame that the user started in the task to which a frame belongs.
func (m *conversation) base(i int) int {
	for i > 0 && m.frame(i).Role != ByUser {
		i--
	}
	return i
}

// slot returns the declaration of a slot, or of a value of the session.
func (m *conversation) slot(i int, name string) *program.Slot {
	var s *program.Slot
	if key, ok := strings.CutPrefix(name, "session."); ok {
		_, p := m.home(i)
		s = p.Session[key]
	} else {
		s = m.flow(i).Slots[name]
	}
	if s == nil {
		return &program.Slot{Name: name, Type: program.Any}
	}
	return s
}

// canonical is a value's JSON.
func canonical(v expr.Value) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// key is the idempotency key of a visit of a step.
func (m *conversation) key(i int, step *program.Step, visit int) string {
	name := cmp.Or(m.frame(i).Visits[step.Name].As, step.Name)
	return fmt.Sprintf("%s/%s/%s/%d", m.m.Thread, m.s.FlowStack[i].FlowID, name, visit)
}

// missing returns the slots that a collect still has to ask for.
func (m *conversation) missing(i int, x *program.Collect) []string {
	var out []string
	for _, s := range x.Slots {
		if _, filled := m.value(i, s); !filled {
			out = append(out, s)
		}
	}
	return out
}

// context returns the slots that a model or a person is shown, without sensitive ones
// as they are.
func (m *conversation) context(i int, slots []string) map[string]expr.Value {
	out := map[string]expr.Value{}
	for _, name := range slots {
		v, ok := m.value(i, name)
		if !ok {
			continue
		}
		if m.slot(i, name).Sensitive {
			v = expr.Str(program.Mask(v.String()))
		}
		out[name] = v
	}
	return out
}

// frameDeadline is when the frame on top goes on by itself.
func (m *conversation) frameDeadline(top int) time.Time {
	if top < 0 {
		return time.Time{}
	}
	return m.frame(top).Deadline
}

// offers returns the options of a slot, in the turn's language.
func (m *conversation) offers(s *program.Slot) []Option {
	var out []Option
	for i, o := range s.Options {
		out = append(out, Option{ID: fmt.Sprint(i), Label: o.LabelIn(m.t.Language, m.p.Languages.Default), Value: o.Value})
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
