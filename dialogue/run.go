package dialogue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

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
			f.Walk = ""
		}
		if f.Walk == "" {
			m.abandonAbove(i)
		}
		m.follow(i, step.Continue)
		return true
	}
	walked := false // a correction came in here: it asks again
	if f.Walk != "" {
		if f.Walk == step.Name {
			f.Walk, walked = "", true
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

// abandonAbove ends the flows that a frame called, as a correction leads it elsewhere.
func (m *machine) abandonAbove(i int) {
	for j := len(m.s.FlowStack) - 1; j > i; j-- {
		m.end(j, Abandoned, "corrected")
	}
}

// passOver goes past a step whose reads are unchanged and whose writes still stand. The
// walk is over at a step that was never visited.
func (m *machine) passOver(i int, step *program.Step) bool {
	f := m.frame(i)
	v, ok := f.Visits[step.Name]
	if !ok || v.Past {
		f.Walk = ""
		return false
	}
	switch x := step.Body.(type) {
	case *program.Branch, *program.While:
		return false // they lead the walk
	case *program.Confirm:
		if !slices.ContainsFunc(f.Confirmed, func(c Confirmation) bool { return c.Step == step.Name }) {
			return false
		}
	case *program.Collect:
		if len(m.missing(i, x)) > 0 {
			return false
		}
		m.follows(i, step)
		return true
	}
	over := func(n string) bool { return slices.Contains(step.Writes, n) && slices.Contains(f.Changed, n) }
	if v.Reads != m.reads(i, step) || slices.ContainsFunc(step.Reads, over) {
		return false
	}
	for _, w := range v.Wrote {
		if _, filled := m.value(i, w); !filled {
			return false
		}
	}
	if x, ok := step.Body.(*program.Confirm); ok && x.OnYes.Kind != program.ToContinue {
		m.leave(i, x.OnYes)
		return true
	}
	m.follows(i, step)
	return true
}

// follows goes on after a step.
func (m *machine) follows(i int, step *program.Step) { m.leave(i, step.Next) }

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
	case *program.Confirm, *program.Handoff, *program.Wait:
		return m.goOn(i, step)
	case *program.Set:
		m.set(i, step, x)
	case *program.Branch:
		m.visit(i, step, nil)
		s := m.scene(i)
		for _, c := range x.Cases {
			if !holds(c, s) {
				continue
			}
			if c.Then.Kind == program.ToContinue {
				break
			}
			m.leave(i, c.Then)
			return true
		}
		m.follows(i, step)
	case *program.While:
		m.visit(i, step, nil)
		if x.Cond.True(m.scene(i)) {
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

// missing returns the slots that a collect still has to ask for.
func (m *machine) missing(i int, x *program.Collect) []string {
	var out []string
	for _, s := range x.Slots {
		if _, filled := m.value(i, s); !filled {
			out = append(out, s)
		}
	}
	return out
}

// acknowledge goes on after a text that waits for any message.
func (m *machine) acknowledge(q *Question) {
	i := m.index(q.FlowID)
	if i < 0 {
		return
	}
	if _, step := m.at(i); step != nil && m.frame(i).Entered {
		if x, ok := step.Body.(*program.Say); ok && x.WaitForAck {
			m.follows(i, step)
		}
	}
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

// inputs computes what an action or a flow is given. A required one that is missing is
// named.
func (m *machine) inputs(i int, args []program.Arg) (in map[string]expr.Value, missing string) {
	in = map[string]expr.Value{}
	s := m.scene(i)
	for _, a := range args {
		v := operand(a.Value, s)
		if v.IsNone() {
			if !a.Optional && missing == "" {
				missing = a.Name
			}
			continue
		}
		in[a.Name] = v
	}
	return in, missing
}

func (m *machine) invoke(i int, step *program.Step, x *program.Invoke) {
	f := m.frame(i)
	call, failure := m.prepare(i, step, x)
	if failure != nil {
		m.fail(i, failure, false)
		return
	}
	v := f.Visits[step.Name]
	if x.Action.Effect == program.Irreversible && v.Done && !v.Past && (v.Kept || v.Reads == m.reads(i, step) && !m.fresh(i, step)) {
		m.follows(i, step) // done already, with these very values
		return
	}
	if x.Action.Effect == program.Irreversible {
		if slot, ok := m.unconfirmed(i, x); ok {
			m.fail(i, &Failure{Type: "unconfirmed", Message: fmt.Sprintf("%q was not confirmed as it is", slot), Action: x.Action.Name}, false)
			return
		}
	}
	if !f.Retry {
		v.N++
	}
	f.Retry = false
	v.Done = false
	f.Clock++
	v.At, v.Reads, v.Wrote, v.Past = f.Clock, m.reads(i, step), nil, false
	f.Visits[step.Name] = v
	call.ID = m.key(i, step, v.N)
	m.act(i, call)
}

// act hands out the call of an action, unless the turn has had its share.
func (m *machine) act(i int, call *ActionCall) {
	if m.t.Advances++; m.t.Advances > m.p.Settings.Advances {
		m.failed(i, &Failure{Type: "turn_limit"}, false)
		return
	}
	m.trace(TraceEvent{Kind: "action", Flow: m.s.FlowStack[i].FlowName, Step: call.Step, Reason: call.Action})
	m.s.ConversationState = ExecutingAction
	m.effect(Effect{Action: call})
}

// prepare puts the call of an action together.
func (m *machine) prepare(i int, step *program.Step, x *program.Invoke) (*ActionCall, *Failure) {
	a := x.Action
	if a.Guard != nil && !a.Guard.True(m.scene(i)) {
		return nil, &Failure{Type: "refused", Message: "the action's guard does not hold", Action: a.Name}
	}
	in, missing := m.inputs(i, x.Inputs)
	if missing != "" {
		return nil, &Failure{Type: "invalid", Message: fmt.Sprintf("the input %q is missing", missing), Action: a.Name}
	}
	for _, arg := range x.Inputs {
		if v, ok := in[arg.Name]; ok {
			if reason := program.Conforms(arg.Type, v); reason != "" {
				return nil, &Failure{Type: "invalid", Message: fmt.Sprintf("the input %q: %s", arg.Name, reason), Action: a.Name}
			}
		}
	}
	return &ActionCall{Action: a.Name, Effect: a.Effect, Inputs: in, Timeout: x.Timeout, Retry: x.Retry, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name}, nil
}

// fresh says whether something was confirmed since an irreversible action ran.
func (m *machine) fresh(i int, step *program.Step) bool {
	f := m.frame(i)
	for _, c := range f.Confirmed {
		if f.Visits[c.Step].At > f.Visits[step.Name].At {
			return true
		}
	}
	return false
}

// unconfirmed returns an input's slot whose value is not the one that a confirm showed.
func (m *machine) unconfirmed(i int, x *program.Invoke) (string, bool) {
	flow, f := m.flow(i), m.frame(i)
	if len(f.Confirmed) == 0 {
		return x.Action.Name, true
	}
	for _, a := range x.Inputs {
		for _, slot := range a.Value.Slots() {
			v, filled := m.value(i, slot)
			if !filled {
				continue
			}
			listed, same := false, false
			for _, c := range f.Confirmed {
				if w, ok := c.Values[slot]; ok {
					listed = true
					same = same || w.Same(v)
				}
			}
			given := flow.Given(slot)
			switch f.Provenance[slot].Source {
			case program.FromUser, program.FromButton, program.FromAgent:
				given = true
			}
			if listed && !same || given && !listed {
				return slot, true
			}
		}
	}
	return "", false
}

// actionResult takes what an action answered.
func (m *machine) actionResult(call ActionCall, r Result) {
	if strings.HasSuffix(call.ID, "/compensate") {
		v := Verdict{}
		if r.Error != nil {
			v.Reason = cmp.Or(r.Error.Type, "unknown")
		}
		m.verdict(call.ID, v)
		return
	}
	i := m.index(call.FlowID)
	if i < 0 {
		return // the flow ended meanwhile
	}
	_, step := m.at(i)
	if step == nil || step.Name != call.Step {
		return
	}
	switch x := step.Body.(type) {
	case *program.Invoke:
		if r.Error != nil {
			m.actionFailed(i, x, *r.Error)
			return
		}
		wrote, failure := m.outputs(i, step, x, r.Outputs)
		if failure != nil {
			m.actionFailed(i, x, *failure)
			return
		}
		v := m.frame(i).Visits[step.Name]
		v.Done, v.Wrote = true, wrote
		if x.Action.Compensate != "" {
			v.Inputs, v.Outputs = call.Inputs, r.Outputs
		}
		m.frame(i).Visits[step.Name] = v
		m.follows(i, step)
	case *program.Parallel:
		f := m.frame(i)
		if f.Results == nil {
			f.Results = map[string]*Result{}
		}
		f.Results[call.ID] = &r
		if len(f.Results) == len(x.Actions) {
			m.joined(i, step, x)
		}
	case *program.Agent:
		entry := &m.frame(i).Agent.Log[len(m.frame(i).Agent.Log)-1]
		if r.Error != nil {
			entry.Error = r.Error.Error()
		} else {
			entry.Result = map[string]expr.Value{}
			for _, o := range m.p.Actions[call.Action].Outputs {
				if v, ok := r.Outputs[o.Name]; ok && program.Conforms(o.Type, v) == "" {
					entry.Result[o.Name] = v
				}
			}
		}
		m.agent(i, step, x)
	}
}

// largestOutput are the bytes that an output may have as JSON.
const largestOutput = 256 << 10

// outputs stores what an action answered.
func (m *machine) outputs(i int, step *program.Step, x *program.Invoke, out map[string]expr.Value) ([]string, *Failure) {
	invalid := func(format string, args ...any) *Failure {
		return &Failure{Type: "invalid_output", Message: fmt.Sprintf(format, args...), Action: x.Action.Name}
	}
	kept := map[string]expr.Value{}
	for _, o := range x.Outputs {
		v, ok := out[o.Output]
		if !ok || v.IsNone() {
			if !o.Optional {
				return nil, invalid("the output %q is missing", o.Output)
			}
			continue
		}
		if reason := program.Conforms(o.Type, v); reason != "" {
			return nil, invalid("the output %q: %s", o.Output, reason)
		}
		if size := len(canonical(v)); size > largestOutput {
			return nil, invalid("the output %q has %d bytes, more than %d", o.Output, size, largestOutput)
		}
		v, reason := m.slot(i, o.Slot).Check(v, m.lang())
		if reason != "" {
			return nil, invalid("the output %q: %s", o.Output, reason)
		}
		kept[o.Output] = v
	}
	for _, name := range sortedKeys(out) {
		if !slices.ContainsFunc(x.Outputs, func(o program.Out) bool { return o.Output == name }) {
			m.trace(TraceEvent{Kind: "output_dropped", Step: step.Name, Reason: name})
		}
	}
	var read []string
	for _, a := range x.Inputs {
		read = append(read, a.Value.Slots()...)
	}
	var wrote []string
	for _, o := range x.Outputs {
		v, ok := kept[o.Output]
		if !ok {
			m.empty(i, o.Slot)
			continue
		}
		m.store(i, o.Slot, v, Provenance{Source: program.FromAction, Turn: m.t.Number, Read: slices.DeleteFunc(slices.Clone(read), func(r string) bool { return r == o.Slot })})
		wrote = append(wrote, o.Slot)
	}
	result := map[string]expr.Value{}
	for _, o := range x.Outputs {
		if v, ok := kept[o.Output]; ok && !m.slot(i, o.Slot).Sensitive {
			result[o.Output] = v
		}
	}
	m.s.Metadata.ActionResult, m.s.Metadata.ActionTimestamp = result, m.t.Time
	return wrote, nil
}

// actionFailed follows an action that failed after its retries.
func (m *machine) actionFailed(i int, x *program.Invoke, failure Failure) {
	failure.Type = cmp.Or(failure.Type, "unknown")
	failure.Action = x.Action.Name
	if len(failure.Message) > 1000 {
		failure.Message = strings.ToValidUTF8(failure.Message[:1000], "")
	}
	m.fail(i, &failure, false)
}

// compensate undoes an irreversible action before a correction.
func (m *machine) compensate(i int, step *program.Step, a *program.Action, v Visit, id string) {
	in := map[string]expr.Value{}
	for _, p := range a.Inputs {
		if x, ok := v.Outputs[p.Name]; ok {
			in[p.Name] = x
		} else if x, ok := v.Inputs[p.Name]; ok {
			in[p.Name] = x
		}
	}
	m.act(i, &ActionCall{ID: id, Action: a.Name, Effect: a.Effect, Inputs: in, Timeout: a.Timeout, Retry: a.Retry, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name})
}

func (m *machine) parallel(i int, step *program.Step, x *program.Parallel) {
	f := m.frame(i)
	f.Results = map[string]*Result{}
	m.visit(i, step, nil)
	var calls []*ActionCall
	for n, a := range x.Actions {
		call, failure := m.prepare(i, step, a)
		if failure != nil {
			m.fail(i, failure, false)
			return
		}
		call.ID = fmt.Sprintf("%s/%d", m.key(i, step, f.Visits[step.Name].N), n)
		calls = append(calls, call)
	}
	for _, c := range calls {
		m.act(i, c)
	}
}

// joined goes on once all actions of a parallel step have answered.
func (m *machine) joined(i int, step *program.Step, x *program.Parallel) {
	f := m.frame(i)
	var wrote []string
	for n, a := range x.Actions {
		r := f.Results[fmt.Sprintf("%s/%d", m.key(i, step, f.Visits[step.Name].N), n)]
		if r == nil {
			return
		}
		if r.Error == nil {
			continue
		}
		if a.OnError != nil {
			m.t.Error = &Failure{Type: r.Error.Type, Message: r.Error.Message, Action: a.Action.Name}
			m.leave(i, *a.OnError)
			return
		}
		m.actionFailed(i, a, *r.Error)
		return
	}
	for n, a := range x.Actions {
		r := f.Results[fmt.Sprintf("%s/%d", m.key(i, step, f.Visits[step.Name].N), n)]
		w, failure := m.outputs(i, step, a, r.Outputs)
		if failure != nil {
			m.actionFailed(i, a, *failure)
			return
		}
		wrote = append(wrote, w...)
	}
	v := f.Visits[step.Name]
	v.Done, v.Wrote = true, wrote
	f.Visits[step.Name] = v
	m.follows(i, step)
}

func (m *machine) call(i int, step *program.Step, x *program.Call) {
	callee, ok := m.p.Flow(x.Flow)
	if !ok {
		m.fail(i, &Failure{Type: "flow_unknown"}, false)
		return
	}
	depth := 0
	for j := i; j >= 0 && m.frame(j).Role == ByCall; j = m.index(m.frame(j).Caller) {
		depth++
	}
	if depth >= m.p.Settings.CallDepth {
		m.fail(i, &Failure{Type: "call_depth"}, false)
		return
	}
	in, failure := m.flowInputs(i, callee, x.Inputs)
	if failure != nil {
		m.fail(i, failure, false)
		return
	}
	// The call's reads are kept, so that a correction knows whether it stands.
	f := m.frame(i)
	v := f.Visits[step.Name]
	v.Reads, v.Past = m.reads(i, step), true
	f.Visits[step.Name] = v
	m.t.Iterations++
	m.push(callee, ByCall, m.s.FlowStack[i].FlowID, "called")
	m.give(in)
}

// flowInputs computes and checks what a flow is given.
func (m *machine) flowInputs(i int, callee *program.Flow, args []program.Arg) (map[string]expr.Value, *Failure) {
	in, _ := m.inputs(i, args)
	for _, p := range callee.Inputs {
		v, ok := in[p.Name]
		if !ok {
			if !p.Optional {
				return nil, &Failure{Type: "invalid", Message: fmt.Sprintf("the input %q is missing", p.Name)}
			}
			continue
		}
		if slot, ok := callee.Slots[p.Name]; ok {
			kept, reason := slot.Check(v, m.lang())
			if reason != "" {
				return nil, &Failure{Type: "invalid", Message: fmt.Sprintf("the input %q: %s", p.Name, reason)}
			}
			in[p.Name] = kept
		}
	}
	if callee.Guard != nil && !callee.Guard.True(&scene{m: m, flow: callee, overlay: pointers(in)}) {
		return nil, &Failure{Type: "refused", Message: fmt.Sprintf("flow %q is not available", callee.Name)}
	}
	return in, nil
}

func pointers(in map[string]expr.Value) map[string]*expr.Value {
	out := map[string]*expr.Value{}
	for k, v := range in {
		out[k] = &v
	}
	return out
}

// give stores the inputs of the frame on top.
func (m *machine) give(in map[string]expr.Value) {
	for _, name := range sortedKeys(in) {
		m.store(len(m.s.FlowStack)-1, name, in[name], Provenance{Source: program.FromInput, Turn: m.t.Number})
	}
}

func (m *machine) link(i int, step *program.Step, x *program.Link) {
	next, ok := m.p.Flow(x.Flow)
	if !ok {
		m.fail(i, &Failure{Type: "flow_unknown"}, false)
		return
	}
	in, failure := m.flowInputs(i, next, x.Inputs)
	if failure != nil {
		m.fail(i, failure, false)
		return
	}
	m.visit(i, step, nil)
	role, caller := m.frame(i).Role, m.frame(i).Caller
	m.t.Iterations++
	m.end(i, Completed, "linked")
	m.push(next, role, caller, "linked")
	m.give(in)
}

// context returns the slots that a model or a person is shown, without sensitive ones
// as they are.
func (m *machine) context(i int, slots []string) map[string]expr.Value {
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

// model hands out the call of a model.
func (m *machine) model(i int, step *program.Step, call *ModelCall) {
	if m.t.Advances++; m.t.Advances > m.p.Settings.Advances {
		m.failed(i, &Failure{Type: "turn_limit"}, false)
		return
	}
	f := m.frame(i)
	n := f.Visits[step.Name].N + 1
	call.ID = m.key(i, step, n)
	if f.Agent != nil {
		call.ID += fmt.Sprintf("/%d", f.Agent.Steps)
	}
	call.Language = m.t.Language
	m.s.ConversationState = ExecutingAction
	m.effect(Effect{Model: call})
}

// agent asks the model of an agent step for its next move, or ends the step.
func (m *machine) agent(i int, step *program.Step, x *program.Agent) {
	run := m.frame(i).Agent
	if x.ExitWhen != nil && x.ExitWhen.True(m.scene(i)) {
		m.agentDone(i, step, x)
		return
	}
	if run.Steps >= x.MaxSteps {
		m.fail(i, &Failure{Type: "agent_limit"}, false)
		return
	}
	run.Steps++
	call := &ModelCall{Agent: true, Instruction: x.Instruction.Render(m.scene(i)), Log: slices.Clone(run.Log)}
	for _, a := range x.Tools {
		call.Tools = append(call.Tools, a.Name)
	}
	for _, name := range x.MaySet {
		s := m.slot(i, name)
		call.MaySet = append(call.MaySet, SlotOffer{Flow: m.flow(i).Name, Name: name, Type: s.Type, Description: s.Description})
	}
	m.model(i, step, call)
}

func (m *machine) agentDone(i int, step *program.Step, x *program.Agent) {
	var wrote []string
	for _, name := range x.MaySet {
		if _, filled := m.value(i, name); filled {
			wrote = append(wrote, name)
		}
	}
	m.visit(i, step, wrote)
	m.follows(i, step)
}

// modelAnswer takes what a model said or wants.
func (m *machine) modelAnswer(call ModelCall, in Answer) {
	i := -1
	for j := range m.s.FlowStack {
		if strings.HasPrefix(call.ID, m.m.Thread+"/"+m.s.FlowStack[j].FlowID+"/") {
			i = j
		}
	}
	if i < 0 {
		return
	}
	_, step := m.at(i)
	if step == nil {
		return
	}
	const longest = 16_000 // characters of a text that a model may say
	if r := []rune(in.Text); len(r) > longest {
		in.Text = string(r[:longest])
	}
	if in.Error != nil {
		f := *in.Error
		f.Type = cmp.Or(f.Type, "unknown")
		m.fail(i, &f, false)
		return
	}
	switch x := step.Body.(type) {
	case *program.Generate:
		if x.Store == "" {
			m.visit(i, step, nil)
			m.t.Messages = append(m.t.Messages, Said{Type: "text", Text: in.Text, Generated: true})
		} else {
			v, reason := m.slot(i, x.Store).Check(expr.Str(in.Text), m.lang())
			if reason != "" {
				m.fail(i, &Failure{Type: "invalid_output", Message: reason}, false)
				return
			}
			m.store(i, x.Store, v, Provenance{Source: program.FromAction, Turn: m.t.Number, Read: slices.Clone(step.Reads)})
			m.visit(i, step, []string{x.Store})
		}
		m.follows(i, step)
	case *program.Agent:
		m.agentMove(i, step, x, in)
	}
}

// agentMove carries out what the model of an agent step wants.
func (m *machine) agentMove(i int, step *program.Step, x *program.Agent, in Answer) {
	f := m.frame(i)
	run := f.Agent
	entry := AgentEntry{Tool: in.Tool, Args: in.Args, Text: in.Text}
	switch {
	case in.Tool == "": // its own finish
		run.Log = append(run.Log, entry)
		m.agentDone(i, step, x)
		return
	case in.Tool == "set_slot":
		name, _ := in.Args["slot"].Str()
		slot := m.slot(i, name)
		v, reason := expr.Value{}, "this slot can't be set"
		if slices.Contains(x.MaySet, name) && m.flow(i).Allows(slot, program.FromAgent) {
			v, reason = slot.Parse(in.Args["value"], m.lang())
		}
		if reason != "" {
			entry.Error = reason
		} else {
			m.store(i, name, v, Provenance{Source: program.FromAgent, Turn: m.t.Number, Read: slices.Clone(step.Reads)})
		}
		run.Log = append(run.Log, entry)
	default:
		at := slices.IndexFunc(x.Tools, func(a *program.Action) bool { return a.Name == in.Tool })
		if at < 0 {
			entry.Error = "there is no such tool"
			run.Log = append(run.Log, entry)
			break
		}
		a := x.Tools[at]
		args := map[string]expr.Value{}
		for _, p := range a.Inputs {
			v, ok := in.Args[p.Name]
			if !ok || v.IsNone() {
				if !p.Optional {
					entry.Error = fmt.Sprintf("the input %q is missing", p.Name)
				}
				continue
			}
			if reason := program.Conforms(p.Type, v); reason != "" {
				entry.Error = fmt.Sprintf("the input %q: %s", p.Name, reason)
			}
			args[p.Name] = v
		}
		if entry.Error == "" && a.Guard != nil && !a.Guard.True(m.scene(i)) {
			entry.Error = "refused"
		}
		run.Log = append(run.Log, entry)
		if entry.Error == "" {
			id := fmt.Sprintf("%s/%d", m.key(i, step, f.Visits[step.Name].N+1), run.Steps)
			m.act(i, &ActionCall{ID: id, Action: a.Name, Effect: a.Effect, Inputs: args, Timeout: a.Timeout, Retry: a.Retry, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name})
			return
		}
	}
	m.agent(i, step, x)
}

// fail leads a frame to where its errors go, or ends it.
func (m *machine) fail(i int, failure *Failure, silent bool) {
	flow, step := m.at(i)
	m.t.Error = failure
	m.trace(TraceEvent{Kind: "error", Flow: flow.Name, Step: m.s.FlowStack[i].CurrentStep, Reason: failure.Error()})
	for j := len(m.s.FlowStack) - 1; j > i; j-- {
		m.end(j, Abandoned, "error")
	}
	var to *program.Target
	if step != nil {
		switch x := step.Body.(type) {
		case *program.Invoke:
			to = x.OnError
		case *program.Call:
			to = x.OnError
		case *program.Agent:
			to = x.OnError
		}
	}
	if to == nil && flow.OnError != nil && !(flow.OnError.Kind == program.ToStep && step != nil && flow.OnError.Step == step.Name) {
		to = flow.OnError
	}
	if to != nil {
		m.leave(i, *to)
		return
	}
	if x, ok := body[*program.Invoke](step); ok && failure.Type == "timeout" && failure.Action == x.Action.Name && !m.p.Patterns.TimeoutEnds && !m.called(i) {
		f := m.frame(i)
		f.Retry = true
		m.failure(failure)
		m.m.Question = &Question{Kind: AskRetry, FlowID: m.s.FlowStack[i].FlowID, Step: "error_timeout"}
		return
	}
	m.failed(i, failure, silent)
}

// called says whether a caller of the frame catches its errors.
func (m *machine) called(i int) bool {
	for m.frame(i).Role == ByCall {
		if i = m.index(m.frame(i).Caller); i < 0 {
			return false
		}
		flow, step := m.at(i)
		if x, ok := body[*program.Call](step); ok && x.OnError != nil || flow.OnError != nil {
			return true
		}
	}
	return false
}

func body[B program.Body](s *program.Step) (B, bool) {
	var none B
	if s == nil {
		return none, false
	}
	b, ok := s.Body.(B)
	return b, ok
}

// failure notes an error in the state.
func (m *machine) failure(f *Failure) string {
	kind := "unknown"
	switch f.Type {
	case "invalid", "invalid_output":
		kind = "validation_error"
	case "action_not_found", "timeout":
		kind = f.Type
	}
	m.s.Metadata.Error, m.s.Metadata.ErrorType, m.s.Metadata.ErrorAt = cmp.Or(f.Message, f.Type), kind, m.t.Time
	return kind
}

// failed ends a frame as error, and tells its caller or the user.
func (m *machine) failed(i int, failure *Failure, silent bool) {
	for j := len(m.s.FlowStack) - 1; j > i; j-- {
		m.end(j, Abandoned, "error")
	}
	m.t.Error = failure
	role, caller := m.frame(i).Role, m.frame(i).Caller
	if role == ByCall {
		m.end(i, Failed, failure.Type)
		if at := m.index(caller); at >= 0 {
			if failure.Type == "turn_limit" {
				m.failed(at, failure, silent)
			} else {
				m.fail(at, failure, silent)
			}
		}
		return
	}
	if role == ByPattern {
		m.end(i, Failed, failure.Type)
		return
	}
	kind := m.failure(failure)
	state := Failed
	if kind == "validation_error" && !silent {
		state = Cancelled
	}
	m.end(i, state, failure.Type)
	m.t.Failed = true
	if m.p.Patterns.Reset && !silent {
		for len(m.s.FlowStack) > 0 {
			m.end(len(m.s.FlowStack)-1, Abandoned, "reset")
		}
		kind = "reset"
	}
	if !silent {
		about := *failure
		about.Type = kind
		m.pattern("error", Repair{Error: &about})
	}
	m.comeBack(role)
}

// ask asks the question at which the conversation waits. It returns false if the flow
// goes on instead.
func (m *machine) ask() bool {
	top := len(m.s.FlowStack) - 1
	if m.m.Handoff != nil {
		m.m.Question = nil
		return true
	}
	q := m.m.Question
	if q != nil {
		switch q.Kind {
		case AskChoice, AskResume, AskCancel, AskRetry:
			m.m.Deadline = m.frameDeadline(top)
			return m.askBuiltIn(q)
		}
	}
	if top < 0 {
		m.m.Question, m.m.Deadline = nil, m.frameDeadline(top)
		return true
	}
	_, step := m.at(top)
	if step == nil {
		return false
	}
	switch x := step.Body.(type) {
	case *program.Collect:
		return m.askCollect(top, step, x)
	case *program.Confirm:
		return m.askConfirm(top, step, x)
	case *program.Say:
		m.m.Question = m.newQuestion(&Question{Kind: AskInform, FlowID: m.s.FlowStack[top].FlowID, Step: step.Name})
	case *program.Invoke:
		if m.frame(top).Retry {
			return m.askBuiltIn(&Question{Kind: AskRetry, FlowID: m.s.FlowStack[top].FlowID, Step: "error_timeout"})
		}
		m.m.Question = nil
	default:
		m.m.Question = nil
	}
	m.m.Deadline = m.frameDeadline(top)
	return true
}

func (m *machine) newQuestion(q *Question) *Question {
	if old := m.m.Question; q.same(old) {
		q.Refused, q.Unclear = old.Refused, old.Unclear
	}
	m.m.Questions++
	q.ID = fmt.Sprintf("q%d", m.m.Questions)
	return q
}

func (m *machine) askBuiltIn(q *Question) bool {
	name := map[QuestionKind]string{AskResume: "resume_question", AskCancel: "cancel_question", AskRetry: "error_timeout"}[q.Kind]
	if q.Kind == AskChoice {
		name = q.Step
	}
	next := *q
	m.m.Question = m.newQuestion(&next)
	repair := &Repair{}
	if i := m.index(q.FlowID); i >= 0 {
		repair.About = m.s.FlowStack[m.base(i)].FlowID
	}
	s := &scene{m: m, flow: nowhere, repair: repair}
	m.say(m.p.Responses[name], s, nil)
	m.offer(next.Options)
	return true
}

// offer shows options with what was said last.
func (m *machine) offer(options []Option) {
	if n := len(m.t.Messages); n > 0 && len(options) > 0 {
		last := &m.t.Messages[n-1]
		last.Type, last.Options = "buttons", append(slices.Clone(last.Options), options...)
	}
}

func (m *machine) askCollect(i int, step *program.Step, x *program.Collect) bool {
	missing := m.missing(i, x)
	if len(missing) == 0 {
		return false
	}
	slot := m.slot(i, missing[0])
	q := &Question{Kind: AskCollect, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name, Slot: slot.Name, Options: m.offers(slot)}
	words := slot.Ask
	if x.Ask != nil {
		words, q.Slots = x.Ask, missing
	}
	if old := m.m.Question; old != nil && old.same(q) {
		q.Page = old.Page
	}
	var page []Option
	if x.OptionsFrom != "" {
		q.Options, page = m.page(i, x, q)
	}
	m.m.Question = m.newQuestion(q)
	if !m.say(words, m.scene(i), nil) {
		m.fail(i, &Failure{Type: "no_response", Message: fmt.Sprintf("the question for %q has no words", slot.Name)}, false)
		return false
	}
	if page == nil {
		page = q.Options
	}
	m.offer(page)
	m.timed(i, x.Deadline)
	return true
}

// page returns the options out of a list that were shown so far, and those of this page.
func (m *machine) page(i int, x *program.Collect, q *Question) (shown, page []Option) {
	list, _ := m.value(i, x.OptionsFrom)
	items := list.Items()
	if q.Page*x.PageSize >= len(items) {
		q.Page = 0
	}
	for n, item := range items {
		if n >= (q.Page+1)*x.PageSize {
			q.More = true
			break
		}
		o := Option{ID: fmt.Sprint(n), Value: item, Label: item.String()}
		if x.Display != nil {
			s := m.scene(i)
			s.option = &item
			o.Label = x.Display.Render(s)
		}
		shown = append(shown, o)
		if n >= q.Page*x.PageSize {
			page = append(page, o)
		}
	}
	return shown, page
}

func (m *machine) askConfirm(i int, step *program.Step, x *program.Confirm) bool {
	q := &Question{Kind: AskConfirm, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name, Slots: slices.Clone(x.Slots), Digest: m.shown(i, x.Slots)}
	m.m.Question = m.newQuestion(q)
	if !m.say(x.Ask, m.scene(i), nil) {
		m.fail(i, &Failure{Type: "no_response", Message: "the confirm has no words"}, false)
		return false
	}
	m.timed(i, x.Deadline)
	return true
}

// timed starts the time of a question when it is asked first.
func (m *machine) timed(i int, limit time.Duration) {
	f := m.frame(i)
	if limit > 0 && f.Deadline.IsZero() {
		f.Deadline = m.t.Time.Add(limit)
	}
	m.m.Deadline = f.Deadline
}

// frameDeadline is when the frame on top goes on by itself.
func (m *machine) frameDeadline(top int) time.Time {
	if top < 0 {
		return time.Time{}
	}
	return m.frame(top).Deadline
}
