package dialogue

import (
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/dialogue/program"
)

// ask asks the question at which the conversation waits. It returns false if the flow
// goes on instead.
func (m *driver) ask() bool {
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

func (m *driver) newQuestion(q *Question) *Question {
	if old := m.m.Question; q.same(old) {
		q.Refused, q.Unclear = old.Refused, old.Unclear
	}
	m.m.Questions++
	q.ID = fmt.Sprintf("q%d", m.m.Questions)
	return q
}

func (m *driver) askBuiltIn(q *Question) bool {
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
	m.say(m.p.Responses[name], m.outside(nowhere, repair), nil)
	m.offer(next.Options)
	return true
}

func (m *driver) askCollect(i int, step *program.Step, x *program.Collect) bool {
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

// lists returns the step that has a slot chosen out of a list, nil if its value is free.
func (m *conversation) lists(i int, slot string) *program.Collect {
	flow, current := m.at(i)
	if x, ok := body[*program.Collect](current); ok && slices.Contains(x.Slots, slot) {
		if x.OptionsFrom == "" {
			return nil
		}
		return x
	}
	var found *program.Collect
	for _, s := range flow.Steps {
		if x, ok := s.Body.(*program.Collect); ok && slices.Contains(x.Slots, slot) {
			if x.OptionsFrom == "" {
				return nil
			}
			found = x
		}
	}
	return found
}

// choices returns what a list offers.
func (m *conversation) choices(i int, x *program.Collect) []Option {
	list, _ := m.value(i, x.OptionsFrom)
	var out []Option
	for n, item := range list.Items() {
		o := Option{ID: fmt.Sprint(n), Value: item, Label: item.String()}
		if x.Display != nil {
			s := m.scene(i)
			s.option = &item
			o.Label = x.Display.Render(s)
		}
		out = append(out, o)
	}
	return out
}

// page returns the options out of a list that were shown so far, and those of this page.
func (m *driver) page(i int, x *program.Collect, q *Question) (shown, page []Option) {
	all := m.choices(i, x)
	if q.Page*x.PageSize >= len(all) {
		q.Page = 0
	}
	to := min((q.Page+1)*x.PageSize, len(all))
	q.More = to < len(all)
	return all[:to], all[q.Page*x.PageSize : to]
}

func (m *driver) askConfirm(i int, step *program.Step, x *program.Confirm) bool {
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
func (m *driver) timed(i int, limit time.Duration) {
	f := m.frame(i)
	if limit > 0 && f.Deadline.IsZero() {
		f.Deadline = m.t.Time.Add(limit)
	}
	m.m.Deadline = f.Deadline
}
