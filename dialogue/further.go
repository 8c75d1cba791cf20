package dialogue

import (
	"fmt"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// further returns the action that a command asks for, nil if it asks for none.
func (m *conversation) further(c Command) *program.Action {
	if a := m.p.Actions[string(c.Type)]; a != nil && a.Command != "" {
		return a
	}
	return nil
}

// callFor calls the action that a command asks for. The task stays as it is.
func (m *interpreter) callFor(c Command, a *program.Action) {
	s := m.outside(nowhere, nil)
	if s.overlay = pointers(c.Slots); a.Guard != nil && !a.Guard.True(s) {
		m.ignored(c, "refused")
		m.words("flow_unavailable", nil)
		return
	}
	in := map[string]expr.Value{}
	for _, p := range a.Inputs {
		v, ok := c.Slots[p.Name]
		if !ok || v.IsNone() {
			if p.Optional {
				continue
			}
			m.furtherFailed(&Failure{Type: "invalid", Message: fmt.Sprintf("the input %q is missing", p.Name), Action: a.Name})
			return
		}
		kept, reason := (&program.Slot{Name: p.Name, Type: p.Type}).Parse(v, m.lang())
		if reason != "" {
			m.furtherFailed(&Failure{Type: "invalid", Message: fmt.Sprintf("the input %q: %s", p.Name, reason), Action: a.Name})
			return
		}
		in[p.Name] = kept
	}
	if m.t.Advances++; m.t.Advances > m.p.Settings.Advances {
		m.ignored(c, "turn_limit")
		return
	}
	m.trace(TraceEvent{Kind: "action", Command: a.Name, Reason: a.Name})
	m.s.ConversationState = ExecutingAction
	m.effect(Effect{Action: &ActionCall{
		ID: fmt.Sprintf("%s/turn_%d/%s/%d", m.m.Thread, m.t.Number, a.Name, m.t.Advances), Action: a.Name, Effect: a.Effect,
		Inputs: in, Timeout: a.Timeout, Retry: a.Retry,
	}})
}

// furtherDone takes what the action of a command answered, and tells the user.
func (m *machine) furtherDone(a *program.Action, r Result) {
	if r.Error != nil {
		failure := *r.Error
		failure.Action = a.Name
		m.furtherFailed(&failure)
		return
	}
	told := map[string]expr.Value{}
	for _, o := range a.Outputs {
		v, ok := r.Outputs[o.Name]
		reason := ""
		switch {
		case ok && !v.IsNone():
			reason = program.Conforms(o.Type, v)
		case o.Optional:
			continue
		default:
			reason = "it is missing"
		}
		if reason != "" {
			m.furtherFailed(&Failure{Type: "invalid_output", Message: fmt.Sprintf("the output %q: %s", o.Name, reason), Action: a.Name})
			return
		}
		told[o.Name] = v
	}
	s := m.outside(nowhere, nil)
	s.overlay = pointers(told)
	m.say(m.p.Responses[a.Name], s, nil)
}

// furtherFailed tells the user that the action of a command failed. The task goes on.
func (m *machine) furtherFailed(f *Failure) {
	m.t.Error = f
	m.trace(TraceEvent{Kind: "error", Command: f.Action, Reason: f.Error()})
	about := *f
	about.Type = m.failure(f)
	m.pattern("error", Repair{Error: &about})
}
