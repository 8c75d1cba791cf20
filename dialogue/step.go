package dialogue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// machine runs the flows on the stack, step by step.
type machine struct {
	conversation
	effects []Effect // handed out by this input
}

// busy says whether effects are under way.
func (m *machine) busy() bool { return len(m.m.Pending)+len(m.effects) > 0 }

// effect hands one out.
func (m *machine) effect(e Effect) {
	m.effects = append(m.effects, e)
}

// accept checks a value that a user gave (parse) or that code gave. It returns false if
// a validator has to be asked first.
func (m *machine) accept(i int, slot *program.Slot, v expr.Value, parse bool) (kept expr.Value, reason string, ok bool) {
	if parse {
		if x := m.lists(i, slot.Name); x != nil { // a closed set: the item itself
			choices := m.choices(i, x)
			at := slices.IndexFunc(choices, func(o Option) bool { return o.Value.Same(v) })
			if at < 0 {
				said := language.Fold(v.String())
				at = slices.IndexFunc(choices, func(o Option) bool {
					return language.Fold(o.Label) == said || language.Fold(o.Value.String()) == said
				})
			}
			if at < 0 {
				return expr.Value{}, "it is not one of the choices", true
			}
			v = choices[at].Value
		}
		kept, reason = slot.Parse(v, m.lang())
	} else {
		kept, reason = slot.Check(v, m.lang())
	}
	if reason != "" || kept.IsNone() {
		return kept, reason, true
	}
	validators := slot.Validate
	if _, step := m.at(i); step != nil && parse {
		if x, ok := step.Body.(*program.Collect); ok && slices.Contains(x.Slots, slot.Name) {
			validators = slices.Concat(validators, x.Validate)
		}
	}
	for _, name := range validators {
		text, err := json.Marshal(kept)
		if err != nil {
			return expr.Value{}, "it can't be checked", true
		}
		id := digest("validate", name, m.t.Language, string(text))
		verdict, asked := m.t.Verdicts[id]
		if !asked {
			m.effect(Effect{Validate: &Validation{ID: id, Validator: name, Slot: slot.Name, Value: kept, Language: m.t.Language, Sensitive: slot.Sensitive}})
			m.s.ConversationState = ValidatingSlot
			return expr.Value{}, "", false
		}
		if verdict.Reason != "" {
			return expr.Value{}, verdict.Reason, true
		}
		kept = verdict.Value
	}
	return kept, "", true
}

// step executes one step of the frame whose turn it is. It returns false if there is
// none, or if it waits.
func (m *machine) step() bool {
	top := len(m.s.FlowStack) - 1
	if m.m.Handoff != nil || top < 0 {
		return false
	}
	if q := m.m.Question; q != nil && q.Kind != AskCollect && q.Kind != AskConfirm && q.Kind != AskInform {
		return false
	}
	i := top
	for j := top; j >= 0 && m.frame(j).Role == ByCall; { // a caller that is walked anew comes first
		if j = m.index(m.frame(j).Caller); j >= 0 && m.frame(j).Walk != "" && !m.frame(j).Entered {
			i = j
		}
	}
	return m.execute(i)
}

func (m *machine) execute(i int) bool {
	flow, step := m.at(i)
	f := m.frame(i)
	if step == nil {
		m.finished(i, Completed)
		return true
	}
	if f.Resumed && i == len(m.s.FlowStack)-1 {
		f.Resumed = false
		base := m.base(i)
		switch m.flow(base).Resume {
		case "announce":
			m.pattern("resume", Repair{About: m.s.FlowStack[base].FlowID})
			return true
		case "ask":
			m.m.Question = &Question{Kind: AskResume, FlowID: m.s.FlowStack[i].FlowID, Step: "resume_question"}
			return false
		}
	}
	if f.Entered {
		return m.goOn(i, step)
	}
	if m.t.Iterations > m.p.Settings.FlowIterations {
		m.failed(i, &Failure{Type: "turn_limit"}, false)
		return true
	}
	if f.Counted == nil {
		f.Counted = map[string]int{}
	}
	if f.Counted[step.Name]++; f.Counted[step.Name] > m.p.Settings.StepExecutions {
		m.fail(i, &Failure{Type: "loop_detected"}, false)
		return true
	}
	if step.When != nil && !step.When.True(m.scene(i)) {
		m.trace(TraceEvent{Kind: "step_skipped", Flow: flow.Name, Step: step.Name})
		if f.Walk == step.Name {
			f.arrived()
		}
		if f.Walk == "" {
			m.abandonAbove(i)
		}
		v := f.Visits[step.Name]
		v.Skipped = true // its condition was read: a correction may lead back here
		f.Visits[step.Name] = v
		f.pass(step)
		m.follow(i, step.Continue)
		return true
	}
	walked := false // a correction came in here: it asks again
	if f.Walk != "" {
		if f.Walk == step.Name {
			f.arrived()
			walked = true
		} else if m.passOver(i, step) {
			return true
		}
	}
	if above := len(m.s.FlowStack) - 1; above > i {
		// A caller was walked while the flow that it called waits.
		if _, calls := step.Body.(*program.Call); calls && walked && f.Visits[step.Name].Reads == m.reads(i, step) {
			f.Entered = true
			return true
		}
		switch step.Body.(type) {
		case *program.Say, *program.Set, *program.Branch, *program.While, *program.Invoke, *program.Parallel:
			if f.Walk == "" {
				m.abandonAbove(i)
			}
		default: // the caller waits, or calls anew
			m.abandonAbove(i)
		}
	}
	m.trace(TraceEvent{Kind: "step", Flow: flow.Name, Step: step.Name})
	m.t.Progress = true
	f.Entered = true
	return m.begins(i, step, walked)
}

// begins starts a step.
func (m *machine) begins(i int, step *program.Step, walked bool) bool {
	f := m.frame(i)
	switch x := step.Body.(type) {
	case *program.Say:
		m.say(x.Response, m.scene(i), x.Rephrase)
		m.visit(i, step, nil)
		if x.WaitForAck {
			return false
		}
		m.follows(i, step)
	case *program.Collect:
		if x.Force && !walked {
			for _, s := range x.Slots {
				m.empty(i, s)
			}
		}
		return m.goOn(i, step)
	case *program.Confirm, *program.Wait:
		return m.goOn(i, step)
	case *program.Handoff:
		f.Waited = walked // the correction is the person's, who gave the conversation back
		return m.goOn(i, step)
	case *program.Set:
		m.set(i, step, x)
	case *program.Branch:
		m.visit(i, step, nil)
		s := m.scene(i)
		at := slices.IndexFunc(x.Cases, func(c program.Case) bool { return holds(c, s) })
		m.trace(TraceEvent{Kind: "branch", Flow: m.flow(i).Name, Step: step.Name, Side: at + 1})
		if at >= 0 && x.Cases[at].Then.Kind != program.ToContinue {
			m.leave(i, x.Cases[at].Then)
			return true
		}
		m.follows(i, step)
	case *program.While:
		m.visit(i, step, nil)
		side := 0
		if x.Cond.True(m.scene(i)) {
			side = 1
		}
		m.trace(TraceEvent{Kind: "branch", Flow: m.flow(i).Name, Step: step.Name, Side: side})
		if side == 1 {
			if f.Walk == "" {
				for _, inner := range m.flow(i).Steps {
					if v, ok := f.Visits[inner.Name]; ok && within(m.flow(i), inner, step.Index) {
						v.Past = true
						f.Visits[inner.Name] = v
					}
				}
			}
			m.follow(i, x.Body)
			return true
		}
		m.leave(i, x.Exit)
	case *program.Invoke:
		m.invoke(i, step, x)
	case *program.Parallel:
		m.parallel(i, step, x)
	case *program.Call:
		m.call(i, step, x)
	case *program.Link:
		m.link(i, step, x)
	case *program.Generate:
		m.model(i, step, &ModelCall{Instruction: x.Instruction.Render(m.scene(i)), Context: m.context(i, x.Context), MaxTokens: x.MaxTokens})
	case *program.Agent:
		f.Agent = &AgentRun{}
		m.agent(i, step, x)
	default:
		m.follows(i, step)
	}
	return true
}

// within says whether a step is in a loop, directly or in a loop inside it.
func within(f *program.Flow, s *program.Step, loop int) bool {
	for l := s.Loop; l != program.End; l = f.Steps[l].Loop {
		if l == loop {
			return true
		}
	}
	return false
}

func holds(c program.Case, s *scene) bool {
	switch {
	case c.When != nil:
		return c.When.True(s)
	case c.Subject != nil:
		v, _ := s.Lookup(c.Subject)
		return expr.Compare(c.Sign, v, c.Value)
	}
	return true
}

// goOn continues a step that was begun. It returns false while the step waits.
func (m *machine) goOn(i int, step *program.Step) bool {
	f := m.frame(i)
	switch x := step.Body.(type) {
	case *program.Collect:
		if len(m.missing(i, x)) > 0 {
			return false
		}
		m.visit(i, step, x.Slots)
		m.follows(i, step)
		return true
	case *program.Handoff:
		if f.Waited {
			m.visit(i, step, nil)
			m.follows(i, step)
			return true
		}
		if m.m.Handoff == nil {
			m.handover(x.Queue, "flow", m.s.FlowStack[i].FlowID, m.context(i, x.Context), cmp.Or(x.Deadline, m.p.Patterns.HandoffDeadline))
		}
		return false
	case *program.Wait:
		switch {
		case f.Event != nil:
			fields := f.Event.Fields
			var wrote []string
			for _, o := range x.Outputs {
				if v, ok := fields[o.Output]; ok {
					if v, reason := m.slot(i, o.Slot).Check(v, m.lang()); reason == "" {
						m.store(i, o.Slot, v, Provenance{Source: program.FromInput, Turn: m.t.Number})
						wrote = append(wrote, o.Slot)
						continue
					}
				}
				m.empty(i, o.Slot)
			}
			m.visit(i, step, wrote)
			m.follows(i, step)
			return true
		case f.Waited:
			m.visit(i, step, nil)
			m.follows(i, step)
			return true
		}
		if d := cmp.Or(x.For, x.Deadline); d > 0 && f.Deadline.IsZero() {
			f.Deadline = m.t.Time.Add(d)
		}
		return false
	case *program.Confirm, *program.Say:
		return false
	}
	return false // an effect is under way
}

// operand computes a value.
func operand(o program.Operand, s *scene) expr.Value {
	switch {
	case o.Expr != nil:
		if p, ok := o.Expr.AsPath(); ok {
			v, _ := s.Lookup(p.Names)
			return v
		}
		return o.Expr.Eval(s)
	case o.Text != nil:
		return expr.Str(o.Text.Render(s))
	}
	return o.Const
}

func (m *machine) set(i int, step *program.Step, x *program.Set) {
	s := m.scene(i)
	s.overlay = map[string]*expr.Value{}
	type change struct {
		slot string
		v    expr.Value
		read []string
	}
	var changes []change
	for _, a := range x.Assign {
		v := operand(a.Value, s)
		if v.IsNone() {
			s.overlay[a.Slot] = nil
			changes = append(changes, change{slot: a.Slot})
			continue
		}
		kept, reason, ok := m.accept(i, m.slot(i, a.Slot), v, false)
		if !ok {
			m.frame(i).Entered = false // begun again once the validator has answered
			m.frame(i).Counted[step.Name]--
			return
		}
		if reason != "" {
			m.fail(i, &Failure{Type: "invalid", Message: fmt.Sprintf("slot %q: %s", a.Slot, reason)}, false)
			return
		}
		s.overlay[a.Slot] = &kept
		changes = append(changes, change{a.Slot, kept, a.Value.Slots()})
	}
	var wrote []string
	for _, c := range changes {
		if c.v.IsNone() {
			m.empty(i, c.slot)
			continue
		}
		m.store(i, c.slot, c.v, Provenance{Source: program.FromSet, Turn: m.t.Number, Read: slices.DeleteFunc(c.read, func(r string) bool { return r == c.slot })})
		wrote = append(wrote, c.slot)
	}
	m.visit(i, step, wrote)
	m.follows(i, step)
}

func body[B program.Body](s *program.Step) (B, bool) {
	var none B
	if s == nil {
		return none, false
	}
	b, ok := s.Body.(B)
	return b, ok
}
