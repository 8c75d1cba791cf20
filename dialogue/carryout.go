package dialogue

import (
	"cmp"
	"slices"
)

// interpreter carries out the commands of a message.
type interpreter struct {
	machine
	refused bool // the command that is carried out was ignored
}

// command carries out one command. It returns false if a validator has to be asked
// first.
func (m *interpreter) command(c Command) bool {
	m.t.Repair.Command = string(c.Type)
	said := len(m.t.Messages)
	m.refused = false
	done := m.carryOut(c)
	if !done {
		return false
	}
	if !m.refused {
		m.t.Effective = true
		m.trace(TraceEvent{Kind: "command", Command: string(c.Type), Flow: c.Flow, Slot: c.Slot, Reason: string(c.Source)})
		if !c.Type.digression() {
			m.s.DigressionDepth = 0
		}
	}
	m.t.Effective = m.t.Effective || len(m.t.Messages) > said // refused, but answered
	return true
}

func (m *interpreter) carryOut(c Command) bool {
	q := m.m.Question
	switch c.Type {
	case StartFlow:
		m.startFlow(c)
	case CancelFlow:
		m.cancelFlow(c)
	case CompleteFlow:
		if top := len(m.s.FlowStack) - 1; top >= 0 {
			m.finished(top, Completed)
		} else {
			m.ignored(c, "nothing_open")
		}
	case SetSlot, CorrectSlot:
		return m.setSlot(c)
	case ClearSlot:
		return m.clearSlot(c)
	case Affirm, Deny:
		return m.yesOrNo(c)
	case Select:
		return m.selectOption(c)
	case NextOption:
		if q == nil || !q.More {
			m.ignored(c, "no_more_options")
			return true
		}
		q.Page++
	case Repeat:
		if m.m.LastReply == nil || m.m.LastReply.Text == "" {
			m.ignored(c, "nothing_said")
			return true
		}
		if q == nil || m.m.Question.Turn != m.m.LastReply.Turn { // a question is asked again anyway
			m.t.Messages = append(m.t.Messages, m.m.LastReply.Messages...)
		} else if last := m.m.LastReply.Messages; len(last) > 0 {
			m.t.Messages = append(m.t.Messages, last[:len(last)-1]...)
		}
	case Skip:
		m.skip(c)
	case ResumeFlow:
		m.resumeFlow(c)
	case Clarify, AskQuestion, Chitchat, OutOfScope:
		m.digress(c)
	case Handoff:
		m.toPerson(cmp.Or(c.Reason, "user"))
	case SetLanguage:
		if !m.p.Languages.Has(c.Language) {
			m.ignored(c, "undeclared")
			return true
		}
		m.m.Language, m.t.Language = c.Language, c.Language
	default:
		m.callFor(c, m.further(c))
	}
	return true
}

func (m *interpreter) startFlow(c Command) {
	f, ok := m.p.Flow(c.Flow)
	switch {
	case !ok || f.BuiltIn:
		m.ignored(c, "flow_unknown")
		m.words("flow_unknown", nil)
		return
	case f.Internal || !m.offered(f):
		m.ignored(c, "flow_unavailable")
		m.words("flow_unavailable", nil)
		return
	}
	top := len(m.s.FlowStack) - 1
	if top >= 0 && m.s.FlowStack[top].FlowName == f.Name {
		m.t.Started = append(m.t.Started, m.s.FlowStack[top].FlowID)
		return // already active
	}
	if i := slices.IndexFunc(m.s.FlowStack, func(x FlowContext) bool { return x.FlowName == f.Name }); i >= 0 && slices.Contains(m.t.Started, m.s.FlowStack[i].FlowID) {
		return // started a moment ago, below the one that runs first
	}
	if base := m.base(top); top >= 0 && m.s.FlowStack[base].FlowName == f.Name && m.task(base) {
		m.t.Started = append(m.t.Started, m.s.FlowStack[base].FlowID)
		return // active in a flow that it called
	}
	if m.finishFirst(c) {
		return
	}
	for i := range m.s.FlowStack {
		if m.s.FlowStack[i].FlowName == f.Name && m.frame(i).Role == ByUser {
			m.t.Started = append(m.t.Started, m.s.FlowStack[i].FlowID)
			m.raise(i)
			return
		}
	}
	m.dropPatterns()
	if !m.room() {
		m.ignored(c, "stack_full")
		m.words("stack_full", nil)
		return
	}
	id := m.push(f, ByUser, "", "interrupted")
	if len(m.t.Started) > 0 && !m.p.Patterns.LastFirst {
		if lowest := m.lowestStarted(); lowest >= 0 {
			m.below(lowest)
		}
	}
	m.t.Started = append(m.t.Started, id)
}

// task says whether all above a frame are flows that were called from it.
func (m *interpreter) task(base int) bool {
	for i := base + 1; i < len(m.s.FlowStack); i++ {
		if m.frame(i).Role != ByCall {
			return false
		}
	}
	return true
}

// finishFirst answers a command that would leave a task which can't be interrupted. Those
// that the same message started can.
func (m *interpreter) finishFirst(c Command) bool {
	for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
		if !m.flow(i).Interruptible && !slices.Contains(m.t.Started, m.s.FlowStack[i].FlowID) {
			m.ignored(c, "finish_first")
			m.words("finish_first", nil)
			return true
		}
		if m.frame(i).Role != ByCall {
			break
		}
	}
	return false
}

// lowestStarted returns the lowest frame that this message started.
func (m *interpreter) lowestStarted() int {
	return slices.IndexFunc(m.s.FlowStack, func(f FlowContext) bool { return slices.Contains(m.t.Started, f.FlowID) })
}

// below moves the top frame under the one at i.
func (m *interpreter) below(i int) {
	top := len(m.s.FlowStack) - 1
	f := m.s.FlowStack[top]
	m.s.FlowStack = slices.Insert(slices.Delete(m.s.FlowStack, top, top+1), i, f)
	m.become(i, Paused, "queued")
	m.become(top, Active, "started")
}

func (m *interpreter) cancelFlow(c Command) {
	if len(m.s.FlowStack) == 0 || len(m.t.Started) == len(m.s.FlowStack) && len(m.t.Started) > 0 {
		m.words("nothing_to_cancel", nil)
		return
	}
	if q := m.m.Question; m.p.Patterns.ConfirmCancel && (q == nil || q.Kind != AskCancel) {
		m.m.Question = &Question{Kind: AskCancel, FlowID: m.s.FlowStack[len(m.s.FlowStack)-1].FlowID}
		return
	}
	m.cancel(true)
}

func (m *interpreter) resumeFlow(c Command) {
	var paused []int
	for i := range m.s.FlowStack {
		if m.frame(i).Role == ByUser && i != m.base(len(m.s.FlowStack)-1) {
			paused = append(paused, i)
		}
	}
	if c.Flow != "" {
		f, ok := m.p.Flow(c.Flow)
		for _, i := range paused {
			if ok && m.s.FlowStack[i].FlowName == f.Name {
				if !m.finishFirst(c) {
					m.raise(i)
				}
				return
			}
		}
		if top := len(m.s.FlowStack) - 1; ok && top >= 0 && m.s.FlowStack[m.base(top)].FlowName == f.Name {
			return // it is on top
		}
		m.ignored(c, "not_paused")
		return
	}
	switch {
	case len(paused) == 0:
		m.ignored(c, "not_paused")
	case m.finishFirst(c):
	case len(paused) == 1:
		m.raise(paused[0])
	default:
		q := &Question{Kind: AskChoice, Step: "resume_choice"}
		for _, i := range slices.Backward(paused) {
			q.Options = append(q.Options, Option{ID: m.s.FlowStack[i].FlowName, Label: m.flow(i).Description, Commands: []Command{{Type: ResumeFlow, Flow: m.s.FlowStack[i].FlowName}}})
		}
		m.m.Question = q
	}
}
