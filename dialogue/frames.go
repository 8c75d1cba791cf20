package dialogue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// digest is the hash of some texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// index returns where the flow of an ID is on the stack, -1 if it isn't.
func (m *machine) index(id string) int {
	if id == "" {
		return -1
	}
	return slices.IndexFunc(m.s.FlowStack, func(f FlowContext) bool { return f.FlowID == id })
}

func (m *machine) frame(i int) *Frame { return m.m.Frames[m.s.FlowStack[i].FlowID] }

// nowhere is the flow of a frame whose flow is gone: it has no steps.
var nowhere = &program.Flow{First: program.End}

func (m *machine) flow(i int) *program.Flow {
	if f, ok := m.p.Flow(m.s.FlowStack[i].FlowName); ok {
		return f
	}
	return nowhere
}

// at returns the flow and the step at which the frame stands; the step is nil at the
// flow's end.
func (m *machine) at(i int) (*program.Flow, *program.Step) {
	f := m.flow(i)
	s, ok := f.Step(m.s.FlowStack[i].CurrentStep)
	if !ok {
		return f, nil
	}
	return f, s
}

// value returns what a slot of a frame holds, or a value of the session.
func (m *machine) value(i int, slot string) (expr.Value, bool) {
	if name, ok := strings.CutPrefix(slot, "session."); ok {
		v, ok := m.s.FlowSlots[session][name]
		return v, ok
	}
	v, ok := m.s.FlowSlots[m.s.FlowStack[i].FlowID][slot]
	return v, ok
}

func (m *machine) setSessionProvenance(name string, p Provenance) {
	if m.m.Session == nil {
		m.m.Session = map[string]Provenance{}
	}
	m.m.Session[name] = p
}

// store puts a value into a slot.
func (m *machine) store(i int, slot string, v expr.Value, p Provenance) {
	old, had := m.value(i, slot)
	if !had || !old.Same(v) {
		m.t.Progress = true
	}
	ctx := m.s.FlowStack[i]
	if f := m.frame(i); f.Walk != "" && (!had || !old.Same(v)) && !slices.Contains(f.Changed, slot) {
		f.Changed = append(slices.Clone(f.Changed), slot)
	}
	if name, ok := strings.CutPrefix(slot, "session."); ok {
		m.s.FlowSlots[session][name] = v
		m.setSessionProvenance(name, p)
	} else {
		m.s.FlowSlots[ctx.FlowID][slot] = v
		m.frame(i).Provenance[slot] = p
	}
	shown := v.String()
	if m.sensitive(slot) {
		m.secret(v)
		shown = program.Mask(shown)
	}
	m.trace(TraceEvent{Kind: "slot_set", Flow: ctx.FlowName, Step: ctx.CurrentStep, Slot: slot, Value: shown, Reason: string(p.Source)})
}

// empty makes a slot unfilled.
func (m *machine) empty(i int, slot string) {
	if _, filled := m.value(i, slot); !filled {
		return
	}
	m.t.Progress = true
	if name, ok := strings.CutPrefix(slot, "session."); ok {
		delete(m.s.FlowSlots[session], name)
		delete(m.m.Session, name)
	} else {
		if m.sensitive(slot) {
			v, _ := m.value(i, slot)
			m.secret(v)
		}
		delete(m.s.FlowSlots[m.s.FlowStack[i].FlowID], slot)
		delete(m.frame(i).Provenance, slot)
	}
	m.trace(TraceEvent{Kind: "slot_emptied", Flow: m.s.FlowStack[i].FlowName, Slot: slot})
}

// become changes the state of a frame. Nothing else does.
func (m *machine) become(i int, state FlowState, why string) {
	f := &m.s.FlowStack[i]
	f.FlowState, f.Context = state, why
	now := m.t.Time
	switch state {
	case Active:
		f.PausedAt = nil
	case Paused:
		f.PausedAt = &now
	default:
		f.CompletedAt = &now
	}
	if m.frame(i).Role != ByPattern {
		m.trace(TraceEvent{Kind: "flow_" + string(state), Flow: f.FlowName, Step: f.CurrentStep, Reason: why})
		m.t.Progress = true
	}
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
	for _, name := range f.Mentions {
		if s, ok := f.Slots[name]; ok && s.Default != nil {
			m.store(top, name, *s.Default, Provenance{Source: program.FromDefault, Turn: m.t.Number})
		}
	}
	return id
}

// base returns the frame that the user started in the task to which a frame belongs.
func (m *machine) base(i int) int {
	for i > 0 && m.frame(i).Role != ByUser {
		i--
	}
	return i
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
		f.Outputs = outputs
		m.s.Metadata.CompletedFlows = append(m.s.Metadata.CompletedFlows, f)
		m.t.Ended = true
		m.m.Ended = map[string]expr.Value{}
		for name, v := range m.s.FlowSlots[f.FlowID] {
			if m.slot(i, name).Sensitive {
				v = expr.Str(program.Mask(v.String()))
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
				if x, ok := step.Body.(*program.Call); ok && x.OnCancel != nil && x.OnCancel.Kind != program.ToCancel {
					m.leave(at, *x.OnCancel)
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

// returned goes on after a call.
func (m *machine) returned(i int, outputs map[string]expr.Value) {
	if i < 0 {
		return
	}
	_, step := m.at(i)
	x, ok := step.Body.(*program.Call)
	if !ok {
		return
	}
	read := slices.Clone(step.Reads)
	var wrote []string
	for _, o := range x.Outputs {
		v, ok := outputs[o.Output]
		if !ok {
			m.empty(i, o.Slot)
			continue
		}
		slot := m.slot(i, o.Slot)
		checked, reason := slot.Check(v, m.lang())
		if reason != "" {
			m.fail(i, &Failure{Type: "invalid_output", Message: fmt.Sprintf("output %q: %s", o.Output, reason)}, false)
			return
		}
		m.store(i, o.Slot, checked, Provenance{Source: program.FromInput, Turn: m.t.Number, Read: read})
		wrote = append(wrote, o.Slot)
	}
	m.visit(i, step, wrote)
	m.leave(i, step.Next)
}

// slot returns the declaration of a slot, or of a value of the session.
func (m *machine) slot(i int, name string) *program.Slot {
	var s *program.Slot
	if key, ok := strings.CutPrefix(name, "session."); ok {
		s = m.p.Session[key]
	} else {
		s = m.flow(i).Slots[name]
	}
	if s == nil {
		return &program.Slot{Name: name, Type: program.Any}
	}
	return s
}

// canonical is a value's JSON.
func canonical(v expr.Value) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// shown is the digest of the values that a confirm lists.
func (m *machine) shown(i int, slots []string) string {
	var texts []string
	for _, s := range slots {
		v, ok := m.value(i, s)
		texts = append(texts, s, fmt.Sprint(ok), canonical(v))
	}
	return digest(texts...)
}

// reads is the digest of what a step reads and doesn't write itself: what it writes
// over, as a counter, is another value ever after.
func (m *machine) reads(i int, step *program.Step) string {
	names := slices.DeleteFunc(slices.Clone(step.Reads), func(n string) bool { return slices.Contains(step.Writes, n) })
	if len(names) == 0 {
		return ""
	}
	return m.shown(i, names)[:16]
}

// visit notes that a step was executed.
func (m *machine) visit(i int, step *program.Step, wrote []string) {
	f := m.frame(i)
	v := f.Visits[step.Name]
	if _, counted := step.Body.(*program.Invoke); !counted {
		v.N++
	}
	f.Clock++
	v.At, v.Reads, v.Wrote, v.Past = f.Clock, m.reads(i, step), wrote, false
	f.Visits[step.Name] = v
}

// computed returns the slots of a frame that are computed from one, with it.
func (m *machine) computed(i int, slot string) map[string]bool {
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
	flow := m.flow(i)
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
				m.compensate(i, step, m.p.Actions[name], v, id)
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

func (m *machine) repair(slot string, to *expr.Value, c *Command) Repair {
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

// goBack leads a frame to the earliest step that a change concerns.
func (m *machine) goBack(i int, slot string, read, wrote func([]string) bool, corrected bool) {
	f := m.frame(i)
	flow, current := m.at(i)
	if current == nil {
		return
	}
	var earliest *program.Step
	at := 0
	for _, step := range flow.Steps {
		v, ok := f.Visits[step.Name]
		if !ok || v.Past || !read(step.Reads) && !wrote(v.Wrote) {
			continue
		}
		if earliest == nil || v.At < at {
			earliest, at = step, v.At
		}
	}
	if earliest == nil {
		if _, calls := current.Body.(*program.Call); calls && read(current.Reads) && f.Entered {
			earliest = current
		} else {
			if x, ok := current.Body.(*program.Confirm); ok && corrected && f.Entered && x.OnChange != nil && x.OnChange.Kind != program.ToContinue {
				m.leave(i, *x.OnChange)
			}
			return
		}
	}
	if f.Walk == "" {
		f.Walk, f.Changed = current.Name, nil
	}
	f.Changed = append(slices.Clone(f.Changed), slot)
	if x, ok := current.Body.(*program.Confirm); ok && corrected && x.OnChange != nil && x.OnChange.Kind == program.ToStep {
		f.Walk = ""
		m.leave(i, *x.OnChange)
		return
	}
	m.m.Question = nil
	m.s.FlowStack[i].CurrentStep, f.Entered, f.Retry, f.Deadline = earliest.Name, false, false, time.Time{}
	m.t.Progress = true
}

// leave goes from the step of a frame to a target.
func (m *machine) leave(i int, t program.Target) {
	_, step := m.at(i)
	f := m.frame(i)
	f.Deadline, f.Event, f.Agent, f.Results, f.Waited, f.Resumed, f.Retry = time.Time{}, nil, nil, nil, false, false, false
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

// key is the idempotency key of a visit of a step.
func (m *machine) key(i int, step *program.Step, visit int) string {
	return fmt.Sprintf("%s/%s/%s/%d", m.m.Thread, m.s.FlowStack[i].FlowID, step.Name, visit)
}

// migrate fits the frames to a program that has changed since.
func (m *machine) migrate() {
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
