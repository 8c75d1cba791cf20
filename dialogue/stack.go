package dialogue

import (
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// limit does what is to be done when the user can't be understood any more.
func (m *machine) limit(t program.Target) {
	m.t.Progress = true
	top := len(m.s.FlowStack) - 1
	switch {
	case t.Kind == program.ToHandoff:
		m.toPerson("limit")
	case top < 0:
		m.m.Question = nil
	case t.Kind == program.ToCancel:
		m.cancel(false)
	default:
		m.leave(top, t)
	}
}

// deadline leads the step of a frame to what happens when its time is over.
func (m *machine) deadline(i int) {
	_, step := m.at(i)
	f := m.frame(i)
	f.Deadline = time.Time{}
	if step == nil {
		return
	}
	m.trace(TraceEvent{Kind: "deadline", Flow: m.s.FlowStack[i].FlowName, Step: step.Name})
	to := step.Exits().OnDeadline
	switch x := step.Body.(type) {
	case *program.Handoff:
		if to == nil && m.p.Patterns.HandoffOnDeadline == "resume" {
			to = &program.Target{}
		}
	case *program.Wait:
		if x.For > 0 {
			f.Waited = true
			return
		}
	}
	m.m.Question = nil
	id := m.s.FlowStack[i].FlowID
	if f.Role != ByPattern {
		m.dropPatterns()
	}
	if to == nil {
		to = &program.Target{Kind: program.ToCancel}
	}
	m.leave(m.index(id), *to)
}

// askAnew lets the time of the question on top begin again: after a person had the
// conversation, and when its flow is resumed.
func (m *machine) askAnew() {
	top := len(m.s.FlowStack) - 1
	if top < 0 {
		return
	}
	if _, step := m.at(top); step != nil {
		if _, sleeps := step.Body.(*program.Wait); !sleeps {
			m.frame(top).Deadline = time.Time{}
		}
	}
}

// cancel ends the task on top with its callers. A step's on_cancel may lead elsewhere.
func (m *machine) cancel(byUser bool) {
	m.dropPatterns()
	m.m.Question = nil
	m.t.Progress = true
	for i := len(m.s.FlowStack) - 1; i >= 0; i = len(m.s.FlowStack) - 1 {
		_, step := m.at(i)
		if step != nil {
			to := step.Exits().OnCancel
			_, calls := step.Body.(*program.Call) // what it called was cancelled, whoever did it
			if to != nil && (byUser || calls) && to.Kind != program.ToCancel {
				m.leave(i, *to)
				return
			}
		}
		role := m.frame(i).Role
		m.end(i, Cancelled, "cancelled")
		if role == ByUser {
			break
		}
	}
	m.pattern("cancellation", Repair{})
	m.comeBack(ByUser)
}

// push puts a new frame on top and returns its flow_id.
func (m *machine) push(f *program.Flow, role Role, caller, why string) string {
	m.m.Question = nil
	if top := len(m.s.FlowStack) - 1; top >= 0 {
		m.become(top, Paused, map[Role]string{ByCall: "call", ByPattern: "pattern"}[role]+map[Role]string{ByUser: why}[role])
	}
	m.m.Flows++
	id := f.Name + "_" + digest(m.m.Thread, f.Name, fmt.Sprint(m.m.Flows), m.t.Time.UTC().Format(time.RFC3339Nano))[:8]
	first := ""
	if f.First != program.End {
		first = f.Steps[f.First].Name
	}
	now := m.t.Time
	m.s.FlowStack = append(m.s.FlowStack, FlowContext{FlowID: id, FlowName: f.Name, CurrentStep: first, StartedAt: &now})
	if m.m.Frames == nil {
		m.m.Frames = map[string]*Frame{}
	}
	m.m.Frames[id] = &Frame{Version: f.Hash, Role: role, Caller: caller, Visits: map[string]Visit{}, Provenance: map[string]Provenance{}}
	m.s.FlowSlots[id] = map[string]expr.Value{}
	top := len(m.s.FlowStack) - 1
	m.become(top, Active, why)
	m.defaults(top)
	return id
}

// defaults fills the slots of a frame that have a default and no value.
func (m *machine) defaults(i int) {
	flow := m.flow(i)
	for _, name := range flow.Mentions {
		if s, ok := flow.Slots[name]; ok && s.Default != nil {
			if _, filled := m.value(i, name); !filled {
				m.store(i, name, *s.Default, Provenance{Source: program.FromDefault, Turn: m.t.Number})
			}
		}
	}
}

// raise brings a task to the top of the stack.
func (m *machine) raise(i int) {
	m.dropPatterns()
	m.m.Question = nil
	first := m.base(i)
	last := first + 1
	for last < len(m.s.FlowStack) && m.frame(last).Role != ByUser {
		last++
	}
	if last == len(m.s.FlowStack) {
		return
	}
	m.become(len(m.s.FlowStack)-1, Paused, "interrupted")
	task := slices.Clone(m.s.FlowStack[first:last])
	m.s.FlowStack = append(slices.Delete(m.s.FlowStack, first, last), task...)
	top := len(m.s.FlowStack) - 1
	m.become(top, Active, "resumed")
	m.resumed(top)
}

// resumed settles the deadline of a frame that became active again.
func (m *machine) resumed(i int) {
	f := m.frame(i)
	if f.Deadline.IsZero() {
		return
	}
	if !f.Deadline.After(m.t.Time) {
		m.deadline(i)
		return
	}
	if i == len(m.s.FlowStack)-1 {
		m.askAnew()
	}
}

// dropPatterns ends the repairs on top of the stack.
func (m *machine) dropPatterns() {
	for i := len(m.s.FlowStack) - 1; i >= 0 && m.frame(i).Role == ByPattern; i-- {
		m.pop(i)
		if i > 0 {
			m.become(i-1, Active, "repaired")
		}
	}
}

// pop takes a frame off the stack.
func (m *machine) pop(i int) {
	id := m.s.FlowStack[i].FlowID
	if q := m.m.Question; q != nil && q.FlowID == id {
		m.m.Question = nil
	}
	if h := m.m.Handoff; h != nil && h.FlowID == id {
		h.FlowID = ""
	}
	m.secretsOf(m.flow(i), m.s.FlowSlots[id])
	delete(m.s.FlowSlots, id)
	delete(m.m.Frames, id)
	m.s.FlowStack = slices.Delete(m.s.FlowStack, i, i+1)
}

// end ends a frame: it goes to the archive and, if it was on top, the one below goes on.
func (m *machine) end(i int, state FlowState, why string) (outputs map[string]expr.Value) {
	flow := m.flow(i)
	role, top := m.frame(i).Role, i == len(m.s.FlowStack)-1
	for _, o := range flow.Outputs {
		if v, ok := m.value(i, o.Name); ok {
			if outputs == nil {
				outputs = map[string]expr.Value{}
			}
			outputs[o.Name] = v
		}
	}
	m.become(i, state, why)
	if role != ByPattern {
		f := m.s.FlowStack[i]
		f.Outputs = masker{&m.conversation}.maskSlots(i, outputs)
		m.s.Metadata.CompletedFlows = append(m.s.Metadata.CompletedFlows, f)
		m.t.Ended = true
		m.m.Ended = map[string]expr.Value{}
		for name, v := range m.s.FlowSlots[f.FlowID] {
			if m.slot(i, name).Sensitive {
				v = hidden(v)
			}
			m.m.Ended[name] = v
		}
	}
	m.pop(i)
	if top && i > 0 {
		m.become(i-1, Active, map[bool]string{true: "repaired", false: "resumed"}[role == ByPattern])
	}
	return outputs
}

// finished ends the top frame as its flow said, and lets the one below go on.
func (m *machine) finished(i int, state FlowState) {
	for j := len(m.s.FlowStack) - 1; j > i; j-- { // flows that it called and left behind
		m.end(j, Abandoned, "left behind")
	}
	role, caller := m.frame(i).Role, m.frame(i).Caller
	if state == Cancelled && role == ByCall {
		m.end(i, Cancelled, "cancelled")
		if at := m.index(caller); at >= 0 { // the task is one for the user
			if _, step := m.at(at); step != nil {
				if to := step.Exits().OnCancel; to != nil && to.Kind != program.ToCancel {
					m.leave(at, *to)
					return
				}
			}
			m.finished(at, Cancelled)
		}
		return
	}
	outputs := m.end(i, state, "ended")
	if role == ByCall {
		m.returned(m.index(caller), outputs)
		return
	}
	m.comeBack(role)
}

// comeBack lets the frame that an interruption left go on.
func (m *machine) comeBack(role Role) {
	top := len(m.s.FlowStack) - 1
	if top < 0 || role == ByPattern {
		return
	}
	f := m.frame(top)
	f.Resumed = f.Entered
	m.resumed(top)
}

// leave forgets what belongs to a step that was begun.
func (f *Frame) leave() {
	f.Deadline, f.Event, f.Agent, f.Results, f.Waited, f.Resumed, f.Retry = time.Time{}, nil, nil, nil, false, false, false
}

// leave goes from the step of a frame to a target.
func (m *machine) leave(i int, t program.Target) {
	_, step := m.at(i)
	f := m.frame(i)
	f.leave()
	if q := m.m.Question; q != nil && q.FlowID == m.s.FlowStack[i].FlowID {
		m.m.Question = nil
	}
	m.t.Progress = true
	switch t.Kind {
	case program.ToStep:
		m.enter(i, t.Step)
	case program.ToContinue:
		if step == nil {
			m.finished(i, Completed)
			return
		}
		m.follow(i, step.Continue)
	case program.ToEnd:
		m.finished(i, Completed)
	case program.ToCancel:
		m.finished(i, Cancelled)
	case program.ToError:
		m.failed(i, &Failure{Type: "unknown"}, true)
	case program.ToHandoff:
		m.follow(i, program.End)
		m.toPerson("flow")
	}
}

// follow goes to the step of an index, or ends the flow.
func (m *machine) follow(i, to int) {
	if to == program.End {
		m.finished(i, Completed)
		return
	}
	m.enter(i, m.flow(i).Steps[to].Name)
}

func (m *machine) enter(i int, step string) {
	f := m.frame(i)
	m.s.FlowStack[i].CurrentStep, f.Entered, f.Deadline = step, false, time.Time{}
}

// abandonAbove ends the flows that a frame called, as a correction leads it elsewhere.
func (m *machine) abandonAbove(i int) {
	for j := len(m.s.FlowStack) - 1; j > i; j-- {
		m.end(j, Abandoned, "corrected")
	}
}

// follows goes on after a step.
func (m *machine) follows(i int, step *program.Step) { m.leave(i, step.Next) }

// room makes room on the stack for one more flow of the user's, or says there is none.
func (m *machine) room() bool {
	count := 0
	for i := range m.s.FlowStack {
		if m.frame(i).Role == ByUser {
			count++
		}
	}
	for ; count >= m.p.Settings.StackDepth; count-- {
		if m.p.Settings.StackOnLimit == "reject_new" {
			return false
		}
		last := 1 // the bottom frame and those that it called
		for last < len(m.s.FlowStack) && m.frame(last).Role != ByUser {
			last++
		}
		for i := last - 1; i >= 0; i-- {
			m.end(i, Cancelled, "stack_full")
		}
	}
	return true
}
