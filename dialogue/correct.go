package dialogue

import (
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// shown is the digest of the values that a confirm lists.
func (m *conversation) shown(i int, slots []string) string {
	var texts []string
	for _, s := range slots {
		v, ok := m.value(i, s)
		texts = append(texts, s, fmt.Sprint(ok), canonical(v))
	}
	return digest(texts...)
}

// reads is the digest of what a step reads and doesn't write itself: what it writes
// over, as a counter, is another value ever after.
func (m *conversation) reads(i int, step *program.Step) string {
	names := slices.DeleteFunc(slices.Clone(step.Reads), func(n string) bool { return slices.Contains(step.Writes, n) })
	if len(names) == 0 {
		return ""
	}
	return m.shown(i, names)[:16]
}

// visit notes that a step was executed.
func (m *conversation) visit(i int, step *program.Step, wrote []string) {
	f := m.frame(i)
	v := f.Visits[step.Name]
	if _, counted := step.Body.(*program.Invoke); !counted {
		v.N++
	}
	f.Clock++
	v.At, v.Reads, v.Wrote, v.Past, v.Off, v.Skipped = f.Clock, m.reads(i, step), wrote, false, false, false
	f.Visits[step.Name] = v
}

// pass puts a visit behind all others.
func (f *Frame) pass(step *program.Step) {
	v := f.Visits[step.Name]
	f.Clock++
	v.At, v.Off = f.Clock, false
	f.Visits[step.Name] = v
}

// around notes what a walk led around, before a place: it is no more on the way that the
// flow took.
func (f *Frame) around(at int) {
	for name, v := range f.Visits {
		if name != f.Walk && !v.Past && f.ahead(v) && v.At < at {
			v.Off = true
			f.Visits[name] = v
		}
	}
}

// arrived ends a walk.
func (f *Frame) arrived() {
	f.around(f.WalkSince + 1)
	f.Walk = ""
}

// computed returns the slots of a frame that are computed from one, with it.
func (m *conversation) computed(i int, slot string) map[string]bool {
	out := map[string]bool{slot: true}
	f := m.frame(i)
	for grew := true; grew; {
		grew = false
		for _, name := range sortedKeys(f.Provenance) {
			if out[name] {
				continue
			}
			if slices.ContainsFunc(f.Provenance[name].Read, func(r string) bool { return out[r] }) {
				out[name], grew = true, true
			}
		}
	}
	return out
}

// change corrects a slot to a value, or clears it. It returns false if an effect has to
// be done first.
func (m *machine) change(i int, slot string, to *expr.Value, c *Command) bool {
	f := m.frame(i)
	affected := m.computed(i, slot)
	touches := func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return affected[n] })
	}
	flow, home := m.home(i)
	for _, step := range flow.Steps {
		v := f.Visits[step.Name]
		x, ok := step.Body.(*program.Invoke)
		if !ok || !v.Done || x.Action.Effect != program.Irreversible || !touches(step.Reads) {
			continue
		}
		undone := false
		if name := x.Action.Compensate; name != "" {
			id := m.key(i, step, v.N) + "/compensate"
			verdict, asked := m.t.Verdicts[id]
			if !asked {
				m.compensate(i, step, home.Actions[name], v, id)
				return false
			}
			undone = verdict.Reason == ""
		}
		if !undone {
			m.pattern("correction_too_late", m.repair(slot, to, c))
			return true
		}
		v.Done = false
		f.Visits[step.Name] = v
	}
	var cleared []string
	for name := range affected {
		if name != slot || to == nil {
			cleared = append(cleared, name)
		}
	}
	slices.Sort(cleared)
	for _, name := range cleared {
		m.empty(i, name)
	}
	if to != nil {
		p := Provenance{Source: program.FromSet, Turn: m.t.Number}
		if c != nil {
			p.Source, p.Span = c.Source, c.Span
		}
		m.store(i, slot, *to, p)
	}
	f.Confirmed = slices.DeleteFunc(f.Confirmed, func(c Confirmation) bool {
		return touches(sortedKeys(c.Values))
	})
	m.goBack(i, slot, touches, func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(cleared, n) })
	}, to != nil)
	if to != nil && m.p.Patterns.AnnounceCorrected {
		m.pattern("correction", m.repair(slot, to, c))
	}
	return true
}

func (m *conversation) repair(slot string, to *expr.Value, c *Command) Repair {
	r := Repair{Slot: slot}
	if to != nil {
		r.Value = *to
	}
	if c != nil {
		r.Command = string(c.Type)
	}
	m.t.Repair.Slot, m.t.Repair.Value = r.Slot, r.Value
	return r
}

// place orders the visits of a frame as the flow took its way. In a walk, what it has yet
// to come by is behind what it came by.
func (f *Frame) place(v Visit) int {
	if f.ahead(v) {
		return v.At + f.Clock
	}
	return v.At
}

// ahead says whether a walk under way has yet to come by.
func (f *Frame) ahead(v Visit) bool {
	return f.Walk != "" && f.WalkFrom <= v.At && v.At <= f.WalkSince
}

// goBack leads a frame to the earliest step that a change concerns.
func (m *machine) goBack(i int, slot string, read, wrote func([]string) bool, corrected bool) {
	f := m.frame(i)
	flow, current := m.at(i)
	if current == nil {
		return
	}
	if here := f.Visits[current.Name]; f.ahead(here) {
		f.around(here.At)
	}
	var way []*program.Step
	for _, step := range flow.Steps {
		if v, ok := f.Visits[step.Name]; ok && !v.Past && !v.Off {
			way = append(way, step)
		}
	}
	slices.SortFunc(way, func(a, b *program.Step) int {
		return f.place(f.Visits[a.Name]) - f.place(f.Visits[b.Name])
	})
	from := slices.IndexFunc(way, func(step *program.Step) bool {
		return read(step.Reads) || wrote(f.Visits[step.Name].Wrote)
	})
	_, calls := current.Body.(*program.Call)
	called := calls && f.Entered && read(current.Reads) // anew
	if from < 0 && !called {
		if x, ok := current.Body.(*program.Confirm); ok && corrected && f.Entered && x.OnChange != nil && x.OnChange.Kind != program.ToContinue {
			m.leave(i, *x.OnChange)
		}
		return
	}
	ahead := from >= 0 && f.ahead(f.Visits[way[from].Name])
	if f.Walk == "" {
		f.Walk, f.Changed, f.WalkFrom, f.WalkSince = current.Name, nil, f.Clock+1, f.Clock
	}
	f.Changed = append(slices.Clone(f.Changed), slot)
	m.t.Progress = true
	if x, ok := current.Body.(*program.Confirm); ok && corrected && x.OnChange != nil && x.OnChange.Kind == program.ToStep {
		f.Walk = ""
		m.leave(i, *x.OnChange)
		return
	}
	to := current
	switch {
	case from >= 0 && !ahead || from >= 0 && way[from] == current:
		to = way[from]
		f.WalkFrom = f.Clock + 1
		for _, step := range way[from:] {
			f.pass(step)
		}
		f.WalkSince = f.Clock
	case !called:
		return // the walk comes by
	}
	m.m.Question = nil
	m.s.FlowStack[i].CurrentStep, f.Entered, f.Retry, f.Deadline = to.Name, false, false, time.Time{}
}

// passOver goes past a step whose reads are unchanged and whose writes still stand. The
// walk is over at a step that was never visited.
func (m *machine) passOver(i int, step *program.Step) bool {
	f := m.frame(i)
	v, ok := f.Visits[step.Name]
	if !ok || v.Past || v.Skipped {
		f.arrived()
		return false
	}
	switch x := step.Body.(type) {
	case *program.Branch, *program.While:
		return false // they lead the walk
	case *program.Confirm:
		if !slices.ContainsFunc(f.Confirmed, func(c Confirmation) bool { return c.Step == step.Name }) {
			return false
		}
	case *program.Collect:
		if len(m.missing(i, x)) > 0 {
			return false
		}
		f.pass(step)
		m.follows(i, step)
		return true
	}
	over := func(n string) bool { return slices.Contains(step.Writes, n) && slices.Contains(f.Changed, n) }
	if v.Reads != m.reads(i, step) || slices.ContainsFunc(step.Reads, over) {
		return false
	}
	for _, w := range v.Wrote {
		if _, filled := m.value(i, w); !filled {
			return false
		}
	}
	f.pass(step)
	if x, ok := step.Body.(*program.Confirm); ok && x.OnYes.Kind != program.ToContinue {
		m.leave(i, x.OnYes)
		return true
	}
	m.follows(i, step)
	return true
}
