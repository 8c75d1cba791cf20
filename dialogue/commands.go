package dialogue

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

func (m *machine) lang() language.Language { return language.Of(m.t.Language) }

// clean puts the commands of one message in order and drops what says nothing.
func (m *machine) clean(given []Command, source program.Source) []Command {
	if limit := m.p.Settings.Commands; len(given) > limit {
		for _, c := range given[limit:] {
			m.ignored(c, "too_many")
		}
		given = given[:limit]
	}
	var cmds []Command
	for _, c := range given {
		c.Source, c.Of = source, ""
		switch {
		case m.tooLarge(c):
			m.ignored(Command{Type: "command"}, "too_large")
			continue
		case !c.Type.known():
			m.ignored(Command{Type: c.Type}, "unknown")
			continue
		case c.Type == CompleteFlow && source == program.FromUser:
			m.ignored(c, "not_for_users")
			continue
		}
		if m.sensitive(c.Slot) {
			m.secret(c.Value)
		}
		slots := c.Slots
		c.Slots = nil
		cmds = append(cmds, c)
		if c.Type == StartFlow {
			for _, name := range sortedKeys(slots) {
				if m.sensitive(name) {
					m.secret(slots[name])
				}
				cmds = append(cmds, Command{Type: SetSlot, Slot: name, Value: slots[name], Source: source, Of: c.Flow})
			}
		}
	}
	cmds = m.distinct(cmds)
	q := m.t.Asked
	has := func(t CommandType) bool {
		return slices.ContainsFunc(cmds, func(c Command) bool { return c.Type == t })
	}
	drop := func(reason string, which func(Command) bool) {
		cmds = slices.DeleteFunc(cmds, func(c Command) bool {
			if which(c) {
				m.ignored(c, reason)
				return true
			}
			return false
		})
	}
	corrected := func(slot string) bool {
		return slices.ContainsFunc(cmds, func(c Command) bool {
			return (c.Type == SetSlot || c.Type == CorrectSlot) && c.Slot == slot && c.Of == ""
		})
	}
	drop("corrected", func(c Command) bool { return c.Type == Deny && c.Slot != "" && corrected(c.Slot) })
	if has(Affirm) && has(Deny) {
		drop("contradiction", func(c Command) bool { return c.Type == Affirm || c.Type == Deny })
	}
	if q != nil && q.Kind == AskConfirm && has(Affirm) && slices.ContainsFunc(cmds, func(c Command) bool { return m.changes(q, c) }) {
		drop("changed", func(c Command) bool { return c.Type == Affirm })
	}
	rank := func(c Command) int {
		if c.Type == SetSlot && c.Of == "" && q != nil && (q.Slot == c.Slot || q.Kind == AskCollect && slices.Contains(q.Slots, c.Slot)) {
			return askedRank
		}
		return cmp.Or(ranks[c.Type], 10)
	}
	slices.SortStableFunc(cmds, func(a, b Command) int { return rank(a) - rank(b) })
	return cmds
}

// tooLarge says whether a command holds more than a message can mean.
func (m *machine) tooLarge(c Command) bool {
	text, err := json.Marshal(c)
	return err != nil || len(text) > 8*m.p.Settings.MessageChars
}

// distinct drops exact duplicates, and of several values for one slot all but the last.
func (m *machine) distinct(cmds []Command) []Command {
	var out []Command
	seen := map[string]bool{}
	sets := map[string]int{}
	for _, c := range cmds {
		text, err := json.Marshal(c)
		if err == nil && seen[string(text)] {
			m.ignored(c, "duplicate")
			continue
		}
		seen[string(text)] = true
		if c.Type == SetSlot {
			key := c.Of + "/" + c.Slot
			if i, ok := sets[key]; ok {
				m.ignored(out[i], "overridden")
				out[i] = c
				continue
			}
			sets[key] = len(out)
		}
		out = append(out, c)
	}
	return out
}

// changes says whether a command changes what an open confirm shows.
func (m *machine) changes(q *Question, c Command) bool {
	if !slices.Contains(q.Slots, c.Slot) {
		return false
	}
	switch c.Type {
	case ClearSlot:
		return true
	case SetSlot, CorrectSlot:
		i := m.index(q.FlowID)
		if i < 0 || c.Of != "" {
			return false
		}
		slot, ok := m.flow(i).Slots[c.Slot]
		if !ok {
			return false
		}
		v, reason := slot.Parse(c.Value, m.lang())
		old, _ := m.value(i, c.Slot)
		return reason != "" || !v.Same(old)
	}
	return false
}

// command carries out one command. It returns false if a validator has to be asked
// first.
func (m *machine) command(c Command) bool {
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

func (m *machine) carryOut(c Command) bool {
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
	}
	return true
}

func (m *machine) startFlow(c Command) {
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
	for i := top; i >= 0; i-- {
		if !m.flow(i).Interruptible && !slices.Contains(m.t.Started, m.s.FlowStack[i].FlowID) {
			m.ignored(c, "finish_first")
			m.words("finish_first", nil)
			return
		}
		if m.frame(i).Role != ByCall {
			break
		}
	}
	for i := range m.s.FlowStack {
		if m.s.FlowStack[i].FlowName == f.Name && m.frame(i).Role == ByUser {
			m.raise(i)
			m.t.Started = append(m.t.Started, m.s.FlowStack[len(m.s.FlowStack)-1].FlowID)
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

// lowestStarted returns the lowest frame that this message started.
func (m *machine) lowestStarted() int {
	return slices.IndexFunc(m.s.FlowStack, func(f FlowContext) bool { return slices.Contains(m.t.Started, f.FlowID) })
}

// below moves the top frame under the one at i.
func (m *machine) below(i int) {
	top := len(m.s.FlowStack) - 1
	f := m.s.FlowStack[top]
	m.s.FlowStack = slices.Insert(slices.Delete(m.s.FlowStack, top, top+1), i, f)
	m.become(i, Paused, "queued")
	m.become(top, Active, "started")
}

// offered says whether a flow's guard holds.
func (m *machine) offered(f *program.Flow) bool {
	return f.Guard == nil || f.Guard.True(&scene{m: m, flow: f})
}

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

func (m *machine) cancelFlow(c Command) {
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

// cancel ends the task on top with its callers. A step's on_cancel may lead elsewhere.
func (m *machine) cancel(byUser bool) {
	m.dropPatterns()
	m.m.Question = nil
	m.t.Progress = true
	for i := len(m.s.FlowStack) - 1; i >= 0; i = len(m.s.FlowStack) - 1 {
		_, step := m.at(i)
		if step != nil {
			var to *program.Target
			switch x := step.Body.(type) {
			case *program.Collect:
				to = x.OnCancel
			case *program.Call:
				to = x.OnCancel
			}
			if to != nil && byUser && to.Kind != program.ToCancel {
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

// owner returns the frame whose slot a command means, End if there is none.
func (m *machine) owner(c Command) int {
	collects := func(i int) bool { return m.flow(i).Collect(c.Slot) }
	if c.Of != "" {
		f, ok := m.p.Flow(c.Of)
		if !ok {
			return -1
		}
		for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
			if m.s.FlowStack[i].FlowName == f.Name && slices.Contains(m.t.Started, m.s.FlowStack[i].FlowID) && collects(i) {
				return i
			}
		}
		return -1
	}
	var asked = -1
	switch q := m.t.Asked; {
	case q != nil && q.FlowID != "":
		asked = m.index(q.FlowID)
	case len(m.t.Started) == 0:
		asked = len(m.s.FlowStack) - 1
	}
	if asked >= 0 && collects(asked) {
		return asked
	}
	for _, id := range m.t.Started {
		if i := m.index(id); i >= 0 && collects(i) {
			return i
		}
	}
	for i := asked; i >= 0; { // those that called the one that asks
		if m.frame(i).Role != ByCall {
			return -1
		}
		if i = m.index(m.frame(i).Caller); i >= 0 && collects(i) {
			return i
		}
	}
	return -1
}

// asks says whether the open question is about the slot of the frame, or the one that
// was open until a correction in the same message led elsewhere.
func (m *machine) asks(i int, slot string) bool {
	q := m.m.Question
	if q == nil && m.t != nil {
		q = m.t.Asked
	}
	return q != nil && q.Kind == AskCollect && q.FlowID == m.s.FlowStack[i].FlowID && (q.Slot == slot || slices.Contains(q.Slots, slot))
}

func (m *machine) setSlot(c Command) bool {
	i := m.owner(c)
	if i < 0 {
		m.ignored(c, "slot_unknown")
		return true
	}
	flow := m.flow(i)
	slot := flow.Slots[c.Slot]
	if !flow.Allows(slot, c.Source) {
		m.ignored(c, "source")
		return true
	}
	if !slot.Eager && !m.asks(i, c.Slot) {
		m.ignored(c, "not_asked")
		return true
	}
	_, filled := m.value(i, c.Slot)
	if filled && m.frame(i).Provenance[c.Slot].Source != program.FromDefault {
		return m.correct(i, c)
	}
	v, reason, ok := m.accept(i, slot, c.Value, true)
	if !ok {
		return false
	}
	if reason != "" {
		m.refuse(i, slot, c, reason)
		return true
	}
	m.store(i, c.Slot, v, Provenance{Source: c.Source, Turn: m.t.Number, Span: c.Span})
	return true
}

// accept checks a value that a user gave (parse) or that code gave. It returns false if
// a validator has to be asked first.
func (m *machine) accept(i int, slot *program.Slot, v expr.Value, parse bool) (kept expr.Value, reason string, ok bool) {
	if parse {
		if q := m.m.Question; q != nil && m.asks(i, slot.Name) && len(slot.Options) == 0 {
			for _, o := range q.Options { // out of a list: the item itself
				if o.Value.Same(v) || o.ID != "" && language.Fold(o.Label) == language.Fold(v.String()) {
					v = o.Value
				}
			}
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

// refuse answers a value that is not accepted.
func (m *machine) refuse(i int, slot *program.Slot, c Command, reason string) {
	m.trace(TraceEvent{Kind: "value_refused", Flow: m.s.FlowStack[i].FlowName, Slot: slot.Name, Reason: reason})
	if slot.Sensitive {
		m.secret(c.Value)
	}
	invalid := slot.Invalid
	limit, onInvalid := m.p.Settings.MaxAttempts, m.p.Settings.OnInvalid
	if _, step := m.at(i); step != nil {
		if x, ok := step.Body.(*program.Collect); ok && slices.Contains(x.Slots, slot.Name) {
			if x.Invalid != nil {
				invalid = x.Invalid
			}
			if x.MaxAttempts > 0 {
				limit = x.MaxAttempts
			}
			if x.OnInvalid != nil {
				onInvalid = *x.OnInvalid
			}
		}
	}
	if q := m.m.Question; q != nil && m.asks(i, slot.Name) {
		if q.Refused++; q.Refused >= limit {
			m.trace(TraceEvent{Kind: "limit", Slot: slot.Name, Reason: "refused"})
			m.limit(onInvalid)
			return
		}
	}
	about := &Repair{Command: string(c.Type), Slot: slot.Name, Value: c.Value, Error: &Failure{Type: "invalid", Message: reason}}
	if invalid == nil {
		invalid = m.p.Responses["invalid_value"]
	}
	m.say(invalid, &scene{m: m, id: m.s.FlowStack[i].FlowID, flow: m.flow(i), repair: about}, nil)
}

func (m *machine) clearSlot(c Command) bool {
	i := m.owner(c)
	if i < 0 {
		m.ignored(c, "slot_unknown")
		return true
	}
	if !m.flow(i).Allows(m.flow(i).Slots[c.Slot], c.Source) {
		m.ignored(c, "source")
		return true
	}
	if _, filled := m.value(i, c.Slot); !filled {
		m.ignored(c, "not_filled")
		return true
	}
	return m.change(i, c.Slot, nil, nil)
}

func (m *machine) correct(i int, c Command) bool {
	slot := m.flow(i).Slots[c.Slot]
	v, reason, ok := m.accept(i, slot, c.Value, true)
	switch {
	case !ok:
		return false
	case reason != "":
		m.refuse(i, slot, c, reason)
		return true
	}
	if old, _ := m.value(i, c.Slot); old.Same(v) {
		return true
	}
	if !m.p.Patterns.Correction {
		m.ignored(c, "corrections_disabled")
		return true
	}
	return m.change(i, c.Slot, &v, &c)
}

// yesOrNo answers the open question with yes or no.
func (m *machine) yesOrNo(c Command) bool {
	q := m.m.Question
	// The question has to be the one that was open as the message came.
	if q == nil || m.t.Asked == nil || q.ID != m.t.Asked.ID {
		m.ignored(c, "not_asked")
		return true
	}
	yes := c.Type == Affirm
	i := m.index(q.FlowID)
	switch q.Kind {
	case AskConfirm:
		if i != len(m.s.FlowStack)-1 {
			m.ignored(c, "not_asked")
			return true
		}
		return m.confirm(i, q, c)
	case AskCollect:
		slot := m.flow(i).Slots[q.Slot]
		if slot == nil || slot.Type != program.Boolean {
			m.ignored(c, "not_asked")
			return true
		}
		return m.setSlot(Command{Type: SetSlot, Slot: q.Slot, Value: expr.Bool(yes), Source: c.Source})
	case AskResume:
		m.m.Question = nil
		m.t.Progress = true
		if yes {
			m.frame(i).Resumed = false
		} else {
			m.cancel(false)
		}
	case AskCancel:
		m.m.Question = nil
		if yes {
			m.cancel(true)
		}
	case AskRetry:
		m.m.Question = nil
		m.t.Progress = true
		if yes {
			m.frame(i).Entered = false // again, under the same key
			m.t.Agreed = true
		} else {
			m.cancel(false)
		}
	default:
		m.ignored(c, "not_asked")
	}
	return true
}

// confirm answers a confirm.
func (m *machine) confirm(i int, q *Question, c Command) bool {
	_, step := m.at(i)
	x, ok := step.Body.(*program.Confirm)
	if !ok || step.Name != q.Step {
		m.ignored(c, "not_asked")
		return true
	}
	if c.Type == Affirm {
		if m.shown(i, x.Slots) != q.Digest {
			m.trace(TraceEvent{Kind: "confirm_changed", Step: step.Name})
			return true // asked again
		}
		values := map[string]expr.Value{}
		for _, s := range x.Slots {
			if v, ok := m.value(i, s); ok {
				values[s] = v
			}
		}
		f := m.frame(i)
		f.Confirmed = slices.DeleteFunc(f.Confirmed, func(c Confirmation) bool { return c.Step == step.Name })
		f.Confirmed = append(f.Confirmed, Confirmation{Step: step.Name, Values: values})
		wrote := m.decided(i, x, true)
		m.visit(i, step, wrote)
		m.m.Question, m.t.Agreed = nil, true
		if x.OnYes.Kind == program.ToContinue {
			m.leave(i, step.Next)
		} else {
			m.leave(i, x.OnYes)
		}
		return true
	}
	if c.Slot != "" {
		if _, filled := m.value(i, c.Slot); filled && slices.Contains(x.Slots, c.Slot) {
			if m.flow(i).Collect(c.Slot) {
				return m.change(i, c.Slot, nil, nil)
			}
		}
		m.ignored(c, "slot_unknown")
		return true
	}
	m.visit(i, step, m.decided(i, x, false))
	m.m.Question = nil
	if x.OnNo != nil {
		m.leave(i, *x.OnNo)
		return true
	}
	m.cancel(false)
	return true
}

// decided stores the answer to a confirm where the step wants it.
func (m *machine) decided(i int, x *program.Confirm, yes bool) []string {
	if x.Store == "" {
		return nil
	}
	m.store(i, x.Store, expr.Bool(yes), Provenance{Source: program.FromSet, Turn: m.t.Number, Read: slices.Clone(x.Slots)})
	return []string{x.Store}
}

func (m *machine) selectOption(c Command) bool {
	q := m.m.Question
	if q == nil {
		m.ignored(c, "not_asked")
		return true
	}
	at := slices.IndexFunc(q.Options, func(o Option) bool { return o.ID == c.Option && c.Option != "" })
	if at < 0 {
		m.ignored(c, "option_unknown")
		return true
	}
	o := q.Options[at]
	if q.Kind == AskChoice {
		m.m.Question = nil
		for _, next := range o.Commands {
			next.Source = c.Source
			m.t.Queue = slices.Insert(m.t.Queue, 1, next)
		}
		return true
	}
	return m.setSlot(Command{Type: SetSlot, Slot: q.Slot, Value: o.Value, Source: c.Source})
}

func (m *machine) skip(c Command) {
	q := m.m.Question
	if q == nil || q.Kind != AskCollect {
		m.ignored(c, "not_asked")
		return
	}
	i := m.index(q.FlowID)
	if slot := m.flow(i).Slots[q.Slot]; slot == nil || slot.Required {
		m.ignored(c, "required")
		return
	}
	m.store(i, q.Slot, expr.Value{}, Provenance{Source: c.Source, Turn: m.t.Number})
}

func (m *machine) resumeFlow(c Command) {
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
				m.raise(i)
				return
			}
		}
		if top := len(m.s.FlowStack) - 1; ok && top >= 0 && m.s.FlowStack[m.base(top)].FlowName == f.Name {
			return // it is on top
		}
		m.ignored(c, "not_paused")
		return
	}
	switch len(paused) {
	case 0:
		m.ignored(c, "not_paused")
	case 1:
		m.raise(paused[0])
	default:
		q := &Question{Kind: AskChoice, Step: "resume_choice"}
		for _, i := range slices.Backward(paused) {
			q.Options = append(q.Options, Option{ID: m.s.FlowStack[i].FlowName, Label: m.flow(i).Description, Commands: []Command{{Type: ResumeFlow, Flow: m.s.FlowStack[i].FlowName}}})
		}
		m.m.Question = q
	}
}

// digress answers something that leaves the task as it is.
func (m *machine) digress(c Command) {
	m.s.DigressionDepth++
	m.s.LastDigressionType = string(c.Type)
	if m.s.DigressionDepth > m.p.Patterns.ClarifyDepth {
		m.trace(TraceEvent{Kind: "limit", Reason: "digressions"})
		m.s.DigressionDepth = 0
		m.limit(m.p.Patterns.ClarifyOnLimit)
		return
	}
	repair := Repair{Command: string(c.Type), Topic: c.Topic}
	switch c.Type {
	case Chitchat, OutOfScope:
		m.pattern(string(c.Type), repair)
		return
	case Clarify:
		if m.whichFlow(c) {
			return
		}
	case AskQuestion:
		if m.p.Patterns.Flows["question"] != "" {
			m.pattern("question", repair)
			return
		}
	}
	if m.p.Patterns.Flows["clarification"] != "" {
		m.pattern("clarification", repair)
		return
	}
	i, slot := m.topic(c.Topic)
	switch {
	case slot == nil:
		if m.m.Question == nil {
			m.words("nothing_understood", nil)
		}
	case slot.Explain != nil:
		m.say(slot.Explain, &scene{m: m, id: m.s.FlowStack[i].FlowID, flow: m.flow(i)}, nil)
	case slot.Description != "":
		repair.Slot, repair.Topic = slot.Name, slot.Description
		m.pattern("clarification", repair)
	}
}

// topic returns the slot that a topic names, else the one that is asked.
func (m *machine) topic(topic string) (int, *program.Slot) {
	for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
		if s, ok := m.flow(i).Slots[topic]; ok && topic != "" {
			return i, s
		}
	}
	if q := m.m.Question; q != nil && q.Slot != "" {
		if i := m.index(q.FlowID); i >= 0 {
			return i, m.flow(i).Slots[q.Slot]
		}
	}
	return -1, nil
}

// whichFlow asks which of two or three flows is meant.
func (m *machine) whichFlow(c Command) bool {
	q := &Question{Kind: AskChoice, Step: "which_flow"}
	for _, name := range c.Options {
		f, ok := m.p.Flow(name)
		if !ok || f.BuiltIn || f.Internal || !m.offered(f) || len(q.Options) == 3 {
			continue
		}
		q.Options = append(q.Options, Option{ID: f.Name, Label: f.Description, Commands: []Command{{Type: StartFlow, Flow: f.Name}}})
	}
	if len(q.Options) < 2 {
		return false
	}
	m.m.Question = q
	return true
}
