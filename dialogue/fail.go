package dialogue

import (
	"cmp"

	"github.com/superstep-dev/superstep/dialogue/program"
)

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
		to = step.Exits().OnError
	}
	if to == nil && flow.OnError != nil && !(flow.OnError.Kind == program.ToStep && step != nil && flow.OnError.Step == step.Name) {
		to = flow.OnError
	}
	if to != nil {
		m.leave(i, *to)
		return
	}
	if x, ok := body[*program.Invoke](step); ok && failure.Type == "timeout" && failure.Action == x.Action.Name && m.p.Patterns.OnTimeout != "end" && !m.called(i) {
		f := m.frame(i)
		f.Retry = true
		m.failure(failure)
		m.m.Question = &Question{Kind: AskRetry, FlowID: m.s.FlowStack[i].FlowID, Step: "error_timeout"}
		return
	}
	m.failed(i, failure, silent)
}

// called says whether a caller of the frame catches its errors.
func (m *conversation) called(i int) bool {
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

// failure notes an error in the state.
func (m *conversation) failure(f *Failure) string {
	kind := "unknown"
	switch f.Type {
	case "validation_error", "invalid", "invalid_output":
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
	if m.p.Patterns.Recovery == "reset" && !silent {
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
