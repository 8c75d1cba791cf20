package dialogue

import (
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// returned goes on after a call.
func (m *machine) returned(i int, outputs map[string]expr.Value) {
	if i < 0 {
		return
	}
	_, step := m.at(i)
	x, ok := step.Body.(*program.Call)
	if !ok {
		return
	}
	read := slices.Clone(step.Reads)
	var wrote []string
	for _, o := range x.Outputs {
		v, ok := outputs[o.Output]
		if !ok {
			m.empty(i, o.Slot)
			continue
		}
		slot := m.slot(i, o.Slot)
		checked, reason := slot.Check(v, m.lang())
		if reason != "" {
			m.fail(i, &Failure{Type: "invalid_output", Message: fmt.Sprintf("output %q: %s", o.Output, reason)}, false)
			return
		}
		m.store(i, o.Slot, checked, Provenance{Source: program.FromInput, Turn: m.t.Number, Read: read})
		wrote = append(wrote, o.Slot)
	}
	m.visit(i, step, wrote)
	m.leave(i, step.Next)
}

func (m *machine) call(i int, step *program.Step, x *program.Call) {
	depth := 0
	for j := i; j >= 0 && m.frame(j).Role == ByCall; j = m.index(m.frame(j).Caller) {
		depth++
	}
	if depth >= m.p.Settings.CallDepth {
		m.fail(i, &Failure{Type: "call_depth"}, false)
		return
	}
	callee, in, ok := m.prepared(i, x.Flow, x.Inputs)
	if !ok {
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

// prepared returns a flow that a step goes over to, and what it is given. If it can't be
// started, the step fails.
func (m *machine) prepared(i int, name string, args []program.Arg) (*program.Flow, map[string]expr.Value, bool) {
	failure := &Failure{Type: "flow_unknown"}
	_, p := m.home(i)
	if f, ok := p.Flow(name); ok {
		var in map[string]expr.Value
		if in, failure = m.flowInputs(i, f, args); failure == nil {
			return f, in, true
		}
	}
	m.fail(i, failure, false)
	return nil, nil, false
}

// flowInputs computes and checks what a flow is given.
func (m *machine) flowInputs(i int, callee *program.Flow, args []program.Arg) (map[string]expr.Value, *Failure) {
	in, reason := given("input", callee.Inputs, m.inputs(i, args), func(p program.Param, v expr.Value) (expr.Value, string) {
		return callee.Slots[p.Name].Check(v, m.lang())
	})
	if reason != "" {
		return nil, &Failure{Type: "invalid", Message: reason}
	}
	s := m.outside(callee, nil)
	if s.overlay = pointers(in); callee.Guard != nil && !callee.Guard.True(s) {
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
	next, in, ok := m.prepared(i, x.Flow, x.Inputs)
	if !ok {
		return
	}
	m.visit(i, step, nil)
	role, caller := m.frame(i).Role, m.frame(i).Caller
	m.t.Iterations++
	m.end(i, Completed, "linked")
	m.push(next, role, caller, "linked")
	m.give(in)
}
