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
	in, reason := given("input", a.Inputs, among(c.Slots), func(p program.Param, v expr.Value) (expr.Value, string) {
		return (&program.Slot{Name: p.Name, Type: p.Type}).Parse(v, m.lang())
	})
	if reason != "" {
		m.furtherFailed(&Failure{Type: "invalid", Message: reason, Action: a.Name})
		return
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
	told, reason := given("output", a.Outputs, among(r.Outputs), asIs)
	if reason != "" {
		m.furtherFailed(&Failure{Type: "invalid_output", Message: reason, Action: a.Name})
		return
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
