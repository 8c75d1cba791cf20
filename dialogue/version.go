package dialogue

import (
	"cmp"
	"slices"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Fate is what becomes of a flow on the stack at the next message.
type Fate string

// The fates of flows.
const (
	Stays    Fate = "stays"    // it is as the program has it
	Pinned   Fate = "pinned"   // it goes on as an older program has it
	Moves    Fate = "moves"    // it goes on in the changed flow, at the step of the same name
	Restarts Fate = "restarts" // it begins anew in the changed flow, with the slots that it has
	Ends     Fate = "ends"     // it was removed, or what called it doesn't call it any more
)

// Standing says where a flow on the stack stands and what becomes of it.
type Standing struct {
	FlowID  string `json:"flow_id"`
	Flow    string `json:"flow"`
	Step    string `json:"step"`
	Version string `json:"version"` // the Hash of the flow in which it stands
	Fate    Fate   `json:"fate"`
	// To and ToStep are the flow and the step at which it goes on, if it does.
	To     string `json:"to,omitempty"`
	ToStep string `json:"to_step,omitempty"`
	// Missing says that the flow would be pinned, but no program has it as it was.
	Missing bool `json:"missing,omitempty"`
	// Lost are the filled slots that the changed flow doesn't have, or refuses.
	Lost []string `json:"lost,omitempty"`
	// Done are the irreversible steps that count as done after a restart.
	Done []string `json:"done,omitempty"`

	flow *program.Flow // at which it goes on
}

// Standings says what becomes of the flows on the stack, the bottom one first, when the
// conversation goes on with the program. Older programs that may be used are given by
// [program.Program.With].
func Standings(p *program.Program, s State) []Standing {
	c := s.clone()
	m := conversation{p: p, s: c, m: &c.Metadata.Machine, t: c.Metadata.Machine.Turn}
	return m.standings()
}

func (m *conversation) standings() []Standing {
	out := make([]Standing, len(m.s.FlowStack))
	for i := range m.s.FlowStack {
		var caller *Standing
		if f := m.frame(i); f.Role == ByCall {
			if at := m.index(f.Caller); at >= 0 && at < i {
				caller = &out[at]
			}
		}
		out[i] = m.standing(i, caller)
	}
	return out
}

// standing settles what becomes of a frame whose caller, if it has one, is settled.
func (m *conversation) standing(i int, caller *Standing) Standing {
	ctx, f := &m.s.FlowStack[i], m.frame(i)
	st := Standing{FlowID: ctx.FlowID, Flow: ctx.FlowName, Step: ctx.CurrentStep, Version: f.Version, Fate: Ends}
	flow, ok := m.p.Flow(ctx.FlowName)
	old, _, stored := m.p.FlowAt(ctx.FlowName, f.Version)
	goesOn := func(fate Fate, flow *program.Flow, step string) Standing {
		st.Fate, st.flow, st.To, st.ToStep = fate, flow, cmp.Or(name(m.p, flow), ctx.FlowName), step
		return st
	}
	if f.Role == ByCall && (caller == nil || !caller.calls(m, ctx.FlowName)) {
		return st
	}
	switch {
	case ok && stored && old == flow:
		return goesOn(Stays, flow, ctx.CurrentStep)
	case stored && (ok && flow.Migrate == "pin" || !ok && caller != nil && caller.Fate == Pinned):
		return goesOn(Pinned, old, ctx.CurrentStep)
	case !ok:
		return st
	}
	st.Missing = flow.Migrate == "pin"
	refused := false
	for _, name := range sortedKeys(m.s.FlowSlots[ctx.FlowID]) {
		slot, has := flow.Slots[name]
		if has {
			_, reason := slot.Check(m.s.FlowSlots[ctx.FlowID][name], language.Of(m.m.Language))
			if reason == "" {
				continue
			}
			refused = true
		}
		st.Lost = append(st.Lost, name)
	}
	step, has := flow.Step(ctx.CurrentStep)
	if has && flow.Migrate != "restart_keep_slots" && !refused && m.standsConfirmed(f, flow, st.Lost) {
		return goesOn(Moves, flow, step.Name)
	}
	for _, name := range sortedKeys(f.Visits) {
		if step, irreversible := executed(flow, name, f.Visits[name]); irreversible {
			st.Done = append(st.Done, step.Name)
		}
	}
	first := ""
	if flow.First != program.End {
		first = flow.Steps[flow.First].Name
	}
	return goesOn(Restarts, flow, first)
}

// name returns what the program calls a flow, which may be of an older one.
func name(p *program.Program, f *program.Flow) string {
	if own, ok := p.Flow(f.Name); ok {
		return own.Name
	}
	return f.Name
}

// calls says whether a caller, where it goes on, still waits for a flow that it called.
func (st *Standing) calls(m *conversation, callee string) bool {
	switch st.Fate {
	case Stays, Pinned:
		return true
	case Moves:
	default:
		return false
	}
	own, known := m.p.Flow(callee)
	// One that a correction has walk anew may have its call before it.
	for _, at := range []string{st.ToStep, m.m.Frames[st.FlowID].Walk} {
		step, _ := st.flow.Step(at)
		if x, ok := body[*program.Call](step); ok && known && leads(m.p, x.Flow, own, nil) {
			return true
		}
	}
	return false
}

// leads says whether a call of a flow may have led to another: itself, or by a link.
func leads(p *program.Program, name string, to *program.Flow, seen []*program.Flow) bool {
	f, ok := p.Flow(name)
	if !ok || slices.Contains(seen, f) {
		return false
	}
	return f == to || slices.ContainsFunc(f.Steps, func(s *program.Step) bool {
		x, ok := body[*program.Link](s)
		return ok && leads(p, x.Flow, to, append(seen, f))
	})
}

// standsConfirmed says whether what was confirmed is what the changed flow confirms.
func (m *conversation) standsConfirmed(f *Frame, flow *program.Flow, lost []string) bool {
	for _, c := range f.Confirmed {
		step, ok := flow.Step(c.Step)
		if !ok {
			return false
		}
		x, ok := step.Body.(*program.Confirm)
		if !ok {
			return false
		}
		for _, slot := range x.Slots {
			if _, shown := c.Values[slot]; !shown {
				return false
			}
		}
		if slices.ContainsFunc(lost, func(slot string) bool { _, shown := c.Values[slot]; return shown }) {
			return false
		}
	}
	return true
}

// executed returns the step of a visit if what it did can't be undone.
func executed(flow *program.Flow, name string, v Visit) (*program.Step, bool) {
	step, _ := flow.Step(name)
	x, ok := body[*program.Invoke](step)
	return step, ok && (v.Done || v.Kept) && x.Action.Effect == program.Irreversible
}

// migrate fits the frames to a program that has changed since.
func (m *driver) migrate() {
	standings := m.standings()
	uncovered := false // a task on top was removed
	for i := len(standings) - 1; i >= 0; i-- {
		st := &standings[i]
		if st.Fate == Stays || st.Fate == Pinned {
			m.s.FlowStack[i].FlowName = st.To
			continue
		}
		m.emit("flow_changed", map[string]expr.Value{
			"flow": expr.Str(st.Flow), "step": expr.Str(st.Step), "fate": expr.Str(string(st.Fate)), "missing": expr.Bool(st.Missing),
		})
		if st.Fate == Ends {
			_, known := m.p.Flow(st.Flow)
			uncovered = uncovered || i == len(m.s.FlowStack)-1 && m.frame(i).Role == ByUser
			if q := m.t.Asked; q != nil && q.FlowID == st.FlowID && m.frame(i).Role == ByCall {
				m.t.Asked = &Question{FlowID: m.frame(i).Caller} // whose slots the message may still mean
			}
			m.end(i, Abandoned, "the flow changed")
			if !known {
				m.words("flow_unknown", nil)
			}
			continue
		}
		for _, name := range st.Lost {
			m.empty(i, name)
		}
		f := m.frame(i)
		f.Version = st.flow.Hash
		f.renamed(st.flow)
		m.s.FlowStack[i].FlowName, m.s.FlowStack[i].CurrentStep = st.To, st.ToStep
		m.defaults(i)
		if st.Fate == Moves {
			m.moved(i, st)
		} else {
			m.restarted(i, st)
		}
	}
	if uncovered {
		m.comeBack(ByUser)
	}
}

// renamed gives what a frame knows of its steps the names that they have now.
func (f *Frame) renamed(flow *program.Flow) {
	visits := make(map[string]Visit, len(f.Visits))
	for _, name := range sortedKeys(f.Visits) {
		v := f.Visits[name]
		step, ok := flow.Step(name)
		switch {
		case !ok:
			v.Past = true // its number stays taken
			visits[name] = v
			continue
		case step.Name != name && v.As == "":
			v.As = name
		}
		visits[step.Name] = v
	}
	f.Visits = visits
	for i, c := range f.Confirmed {
		if step, ok := flow.Step(c.Step); ok {
			f.Confirmed[i].Step = step.Name
		}
	}
	if step, ok := flow.Step(f.Walk); ok {
		f.Walk = step.Name
	} else {
		f.Walk = ""
	}
}

// moved goes on in a changed flow, at the step of the same name.
func (m *driver) moved(i int, st *Standing) {
	f := m.frame(i)
	_, step := m.at(i)
	q := m.m.Question
	switch {
	case f.Entered && !m.waitsStill(i, step):
		m.anew(i)
	case q != nil && q.FlowID == st.FlowID && q.Step == st.Step:
		q.Step = step.Name
	}
	for name, v := range f.Visits { // what was done, was done with these values
		if s, irreversible := executed(st.flow, name, v); irreversible && !v.Kept {
			v.Reads = m.reads(i, s)
			f.Visits[name] = v
		}
	}
}

// restarted begins anew in a changed flow. What can't be undone counts as done, and no
// number of a visit is given twice.
func (m *driver) restarted(i int, st *Standing) {
	f := m.frame(i)
	for name, v := range f.Visits {
		_, irreversible := executed(st.flow, name, v)
		v.Past, v.Done, v.Kept, v.Wrote = !irreversible, irreversible, irreversible, nil
		f.Visits[name] = v
	}
	f.Confirmed, f.Walk, f.Changed = nil, "", nil
	m.anew(i)
}

// anew has the step of a frame begin anew.
func (m *driver) anew(i int) {
	m.frame(i).leave()
	m.frame(i).Entered = false
	id := m.s.FlowStack[i].FlowID
	if q := m.m.Question; q != nil && q.FlowID == id {
		m.m.Question = nil
	}
	if h := m.m.Handoff; h != nil && h.FlowID == id {
		h.FlowID = "" // the person still has the conversation
	}
}

// waitsStill says whether a step that was begun as it was before can be gone on with as
// it is now.
func (m *driver) waitsStill(i int, step *program.Step) bool {
	f, id := m.frame(i), m.s.FlowStack[i].FlowID
	var calls []*ActionCall
	asksModel := false
	for _, e := range m.m.Pending {
		switch {
		case e.Action != nil && e.Action.FlowID == id:
			calls = append(calls, e.Action)
		case e.Model != nil && m.asker(e.Model) == i:
			asksModel = true
		}
	}
	switch x := step.Body.(type) {
	case *program.Collect, *program.Confirm, *program.Wait:
		return true
	case *program.Handoff:
		return m.m.Handoff != nil
	case *program.Say:
		return x.WaitForAck
	case *program.Call:
		return slices.ContainsFunc(m.s.FlowStack, func(c FlowContext) bool { return m.m.Frames[c.FlowID].Caller == id })
	case *program.Invoke:
		return f.Retry || len(calls) == 1 && calls[0].Action == x.Action.Name
	case *program.Generate:
		return asksModel && f.Agent == nil
	case *program.Agent:
		return f.Agent != nil
	case *program.Parallel:
		if len(calls)+len(f.Results) != len(x.Actions) {
			return false
		}
		return !slices.ContainsFunc(calls, func(c *ActionCall) bool {
			return !slices.ContainsFunc(x.Actions, func(a *program.Invoke) bool { return a.Action.Name == c.Action })
		})
	}
	return false
}
