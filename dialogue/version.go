package dialogue

import (
	"time"

	"github.com/superstep-dev/superstep/dialogue/program"
)

// migrate fits the frames to a program that has changed since.
func (m *driver) migrate() {
	for i := len(m.s.FlowStack) - 1; i >= 0; i-- {
		ctx := &m.s.FlowStack[i]
		f := m.frame(i)
		flow, ok := m.p.Flow(ctx.FlowName)
		if !ok {
			m.end(i, Abandoned, "the flow was removed")
			m.words("flow_unknown", nil)
			continue
		}
		ctx.FlowName = flow.Name
		if f.Version == flow.Hash {
			continue
		}
		m.trace(TraceEvent{Kind: "flow_changed", Flow: flow.Name, Step: ctx.CurrentStep, Reason: flow.Migrate})
		f.Version = flow.Hash
		step, ok := flow.Step(ctx.CurrentStep)
		if ok && flow.Migrate != "restart_keep_slots" {
			ctx.CurrentStep = step.Name
			continue
		}
		if q := m.m.Question; q != nil && q.FlowID == ctx.FlowID {
			m.m.Question = nil
		}
		for _, name := range sortedKeys(m.s.FlowSlots[ctx.FlowID]) {
			slot, ok := flow.Slots[name]
			if ok {
				_, reason := slot.Check(m.s.FlowSlots[ctx.FlowID][name], m.lang())
				ok = reason == ""
			}
			if !ok {
				delete(m.s.FlowSlots[ctx.FlowID], name)
				delete(f.Provenance, name)
			}
		}
		for name, v := range f.Visits { // what can't be undone counts as done
			step, _ := flow.Step(name)
			x, ok := body[*program.Invoke](step)
			if !ok || !v.Done || x.Action.Effect != program.Irreversible {
				delete(f.Visits, name)
				continue
			}
			delete(f.Visits, name)
			v.Kept = true
			f.Visits[step.Name] = v
		}
		f.Confirmed, f.Walk, f.Entered, f.Deadline = nil, "", false, time.Time{}
		if flow.First != program.End {
			ctx.CurrentStep = flow.Steps[flow.First].Name
		}
	}
}
