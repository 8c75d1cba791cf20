package dialogue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// inputs computes what an action or a flow is given.
func (m *machine) inputs(i int, args []program.Arg) func(name string) expr.Value {
	s := m.scene(i)
	return func(name string) expr.Value {
		for _, a := range args {
			if a.Name == name {
				return operand(a.Value, s)
			}
		}
		return expr.Value{}
	}
}

// among returns values by their names.
func among(values map[string]expr.Value) func(name string) expr.Value {
	return func(name string) expr.Value { return values[name] }
}

// given returns the values of inputs or outputs as they are taken. The reason names one that
// is missing, or that isn't taken.
func given(what string, params []program.Param, value func(name string) expr.Value, take func(program.Param, expr.Value) (expr.Value, string)) (taken map[string]expr.Value, reason string) {
	taken = map[string]expr.Value{}
	for _, p := range params {
		v := value(p.Name)
		if v.IsNone() {
			if !p.Optional {
				return nil, fmt.Sprintf("the %s %q is missing", what, p.Name)
			}
			continue
		}
		if v, reason = take(p, v); reason != "" {
			return nil, fmt.Sprintf("the %s %q: %s", what, p.Name, reason)
		}
		taken[p.Name] = v
	}
	return taken, ""
}

// asIs takes values that are of their types.
func asIs(p program.Param, v expr.Value) (expr.Value, string) { return v, program.Conforms(p.Type, v) }

func (m *machine) invoke(i int, step *program.Step, x *program.Invoke) {
	f := m.frame(i)
	call, failure := m.prepare(i, step, x)
	if failure != nil {
		m.fail(i, failure, false)
		return
	}
	v := f.Visits[step.Name]
	if x.Action.Effect == program.Irreversible {
		// A yes is for one call, be it that nobody knows what came of that.
		again := v.Ran > 0 && !m.fresh(i, step) && !f.Retry
		if v.Kept && v.gave(call.Inputs) || again && v.Done && !v.Past && v.Reads == m.reads(i, step) { // done already, with these very values
			v.Kept, v.Past, v.Skipped, v.Reads = false, false, false, m.reads(i, step)
			f.Visits[step.Name] = v
			f.pass(step)
			m.follows(i, step)
			return
		}
		if again {
			m.fail(i, &Failure{Type: "unconfirmed", Message: "it was called, and nothing was confirmed since", Action: x.Action.Name}, false)
			return
		}
		if slot, ok := m.unconfirmed(i, x); ok {
			m.fail(i, &Failure{Type: "unconfirmed", Message: fmt.Sprintf("%q was not confirmed as it is", slot), Action: x.Action.Name}, false)
			return
		}
	}
	if !f.Retry {
		v.N++
	}
	f.Retry = false
	v.Done, v.Kept = false, false
	f.Clock++
	v.At, v.Ran, v.Reads, v.Wrote, v.Past, v.Off, v.Skipped = f.Clock, f.Clock, m.reads(i, step), nil, false, false, false
	f.Visits[step.Name] = v
	call.ID = m.key(i, step, v.N)
	m.act(i, call)
}

// gave says whether an action was given these values.
func (v Visit) gave(in map[string]expr.Value) bool {
	for name, x := range in {
		if was, ok := v.Inputs[name]; ok && !was.Same(x) {
			return false
		}
	}
	return true
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
	in, reason := given("input", a.Inputs, m.inputs(i, x.Inputs), asIs)
	if reason != "" {
		return nil, &Failure{Type: "invalid", Message: reason, Action: a.Name}
	}
	return &ActionCall{Action: a.Name, Effect: a.Effect, Inputs: in, Timeout: x.Timeout, Retry: x.Retry, FlowID: m.s.FlowStack[i].FlowID, Step: step.Name}, nil
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
	if a := m.p.Actions[call.Action]; call.FlowID == "" && a != nil {
		m.furtherDone(a, r)
		return
	}
	i := m.index(call.FlowID)
	if i < 0 {
		return // the flow ended meanwhile
	}
	flow, step := m.at(i)
	f := m.frame(i)
	if step == nil || !f.Entered || call.Step != step.Name && call.Step != f.Visits[step.Name].As {
		// The flow changed and went elsewhere; what was done stays done.
		if s, ok := flow.Step(call.Step); ok && r.Error == nil {
			v := f.Visits[s.Name]
			if v.Done = true; call.Effect == program.Irreversible {
				v.Past, v.Kept, v.Inputs = false, true, call.Inputs
				f.Visits[s.Name] = v
			}
		}
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
		if x.Action.Effect == program.Irreversible || x.Action.Compensate != "" {
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
			_, home := m.home(i)
			a := home.Actions[call.Action]
			if a == nil { // of a program that isn't known any more
				a = &program.Action{}
			}
			for _, o := range a.Outputs {
				if v, ok := r.Outputs[o.Name]; ok && program.Conforms(o.Type, v) == "" {
					entry.Result[o.Name] = v
				}
			}
		}
		m.agent(i, step, x)
	}
}

// MaxOutput are the bytes that an output of an action may have as JSON.
const MaxOutput = 256 << 10

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
		if size := len(canonical(v)); size > MaxOutput {
			return nil, invalid("the output %q has %d bytes, more than %d", o.Output, size, MaxOutput)
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
