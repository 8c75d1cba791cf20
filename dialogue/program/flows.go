package program

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
)

// builder compiles one flow.
type builder struct {
	*compiler
	scope   scope
	flow    *Flow
	local   map[string]*Slot
	targets []placedTarget
	uses    []use
	writes  []write
	named   map[string]*yaml.Node // steps that a loop names, by name
	former  map[string]string     // earlier names of steps
}

// placedTarget is a target that is checked once the flow's steps are known.
type placedTarget struct {
	target *Target
	step   *Step // nil for the flow's own
	scope  scope
	node   *yaml.Node
}

// use is a name that a step or the flow reads.
type use struct {
	step    *Step // nil for the flow's own
	path    expr.Path
	pos     Position
	scope   scope
	mention bool // doesn't decide whether the step runs again
	hope    bool // of an optional input, which reads the slot of its name if the flow has one
	what    string
}

// write is a slot that a step writes.
type write struct {
	step  *Step
	slot  string
	typ   Type // "" if writing doesn't declare the slot
	pos   Position
	scope scope
}

// flowNames are the names of the assistant's own flows.
func (c *compiler) flowNames() []string {
	return slices.DeleteFunc(keysOf(c.program.Flows), func(name string) bool { return c.program.Flows[name].BuiltIn })
}

func (c *compiler) flows() {
	c.program.Flows = map[string]*Flow{}
	sec := c.sections["flows"]
	var builders []*builder
	for _, name := range sec.names { // the names first: steps refer to them
		it := sec.items[name]
		f := &Flow{Name: name, Slots: map[string]*Slot{}, First: End, Interruptible: true, Migrate: "pin", Resume: c.program.Patterns.Resume, BuiltIn: it.scope.file == Library().Name, pos: at(it.scope, it.key)}
		c.program.Flows[name] = f
		s := it.scope
		s.flow = name
		builders = append(builders, &builder{compiler: c, scope: s, flow: f, local: map[string]*Slot{}, former: map[string]string{}})
	}
	for _, b := range builders {
		c.builtIn = b.flow.BuiltIn
		b.header(sec.items[b.flow.Name])
	}
	for _, b := range builders {
		c.builtIn = b.flow.BuiltIn
		b.declare()
	}
	for range 3 { // outputs of flows that call flows that call flows
		for _, b := range builders {
			b.callOutputs()
		}
	}
	for _, b := range builders {
		c.builtIn = b.flow.BuiltIn
		b.resolve()
	}
	c.builtIn = false
	for _, check := range c.later {
		check()
	}
}

// header reads everything of a flow, its steps too.
func (b *builder) header(it item) {
	f := b.flow
	m := b.keyed(b.scope, it.value, flowObject)
	if m == nil {
		return
	}
	f.Description = m.text("description")
	if f.Description == "" {
		b.errorf(b.scope, it.key, `the description is missing; write "description" and what the flow does for the user`)
	}
	examples := m.get("examples")
	for _, n := range b.names(b.scope, examples, "examples") {
		f.Examples = append(f.Examples, b.parseText(b.scope, n))
	}
	if t := m.get("trigger"); t != nil {
		if tm := b.keyed(b.scope, t, triggerObject); tm != nil {
			for _, n := range b.names(b.scope, tm.get("intents"), "intents") {
				f.Examples = append(f.Examples, b.parseText(b.scope, n))
			}
			f.Guard = tm.expr("condition")
			tm.done()
		}
	}
	if m.has("guard") {
		f.Guard = m.expr("guard")
	}
	m.get("guard")
	f.Internal = m.boolean("internal", false)
	f.Inputs = b.params(b.scope, m.get("inputs"), "inputs")
	f.Outputs = b.params(b.scope, m.get("outputs"), "outputs")
	b.readsGuard(f.Guard)
	if v := m.get("slots"); v != nil {
		if sm := b.mapping(b.scope, v, "slots"); sm != nil {
			others := map[string]item{}
			for k, g := range b.sections["slots"].items {
				others[k] = g
			}
			for _, k := range sm.order {
				if !b.checkName(b.scope, sm.keys[k], "a slot") {
					continue
				}
				own := item{scope: b.scope, key: sm.keys[k], value: sm.vals[k]}
				if s := b.slot(own.scope, k, own.key, own.value, others, 0); s != nil {
					s.Local = true
					b.local[k] = s
				}
			}
		}
	}
	if n := m.get("on_error"); n != nil {
		f.OnError = b.target(nil, b.scope, n)
	}
	f.Interruptible = m.boolean("interruptible", true)
	f.Resume = m.choice("resume", f.Resume)
	olds := b.names(b.scope, m.get("formerly"), "formerly")
	f.Formerly = values(olds)
	b.formerly(b.scope, olds, "flow", f.Name, b.program.former, func(name string) bool { return b.program.Flows[name] != nil })
	f.Migrate = m.choice("migrate", "pin")
	steps := m.get("steps")
	switch {
	case steps == nil:
		b.errorf(b.scope, it.key, `the flow has no steps; write at least one under "steps"`)
	case steps.Kind != yaml.SequenceNode || len(steps.Content) == 0:
		b.errorf(b.scope, steps, `"steps" has to be a list with at least one step`)
	default:
		b.named = map[string]*yaml.Node{}
		b.findNamed(steps, steps)
		first := b.list(steps, "", End, End)
		f.First = first
	}
	m.done()
}

// formerly notes the earlier names of a flow or a step. One that another has now, or is said
// to have had, would lead conversations astray.
func (b *builder) formerly(s scope, olds []*yaml.Node, what, name string, former map[string]string, exists func(string) bool) {
	for _, old := range olds {
		was, taken := former[old.Value]
		switch {
		case old.Value == name:
			b.errorf(s, old, `the %s is called %q now; remove the name from "formerly"`, what, name)
		case exists(old.Value):
			b.errorf(s, old, `there is a %s %q, in which its conversations stay; remove the name from "formerly"`, what, old.Value)
		case taken:
			b.errorf(s, old, `the %s %q was called %q as well; say it of one of them`, what, was, old.Value)
		}
		former[old.Value] = name
	}
}

// findNamed collects the steps that a loop names instead of holding them.
func (b *builder) findNamed(top, list *yaml.Node) {
	for _, n := range list.Content {
		do := yamlvalue.Get(yamlvalue.Follow(n), "do")
		if do == nil || do.Kind != yaml.SequenceNode {
			continue
		}
		for _, x := range do.Content {
			if x = yamlvalue.Follow(x); x.Kind == yaml.ScalarNode {
				b.named[x.Value] = stepCalled(top, x.Value)
			}
		}
		b.findNamed(top, do)
	}
}

func stepCalled(list *yaml.Node, name string) *yaml.Node {
	for _, n := range list.Content {
		n = yamlvalue.Follow(n)
		if called := yamlvalue.Get(n, "step"); called != nil && called.Value == name {
			return n
		}
	}
	return nil
}

// list compiles steps that follow one another and returns the index of the first. After
// the last one control goes to after.
func (b *builder) list(n *yaml.Node, outer string, loop, after int) int {
	var made []*Step
	for i, x := range n.Content {
		x = yamlvalue.Follow(x)
		if x.Kind == yaml.ScalarNode && loop != End {
			moved := b.named[x.Value]
			if moved == nil {
				b.errorf(b.scope, x, "step %q does not exist; a loop holds steps, or the names of steps of the flow", x.Value)
				continue
			}
			x = moved
		} else if loop == End && b.isMoved(x) {
			continue
		}
		if s := b.step(x, outer, i+1, loop); s != nil {
			made = append(made, s)
		}
	}
	for i, s := range made {
		if s.Continue = after; i+1 < len(made) {
			s.Continue = made[i+1].Index
		}
	}
	if len(made) == 0 {
		return after
	}
	return made[0].Index
}

func (b *builder) isMoved(n *yaml.Node) bool {
	for _, m := range b.named {
		if m == n {
			return true
		}
	}
	return false
}

var reservedSteps = []string{"continue", "end", "cancel", "error", "handoff", "else", "default", "none", "start", "cancel_flow", "__end__", "END"}

// step compiles one step.
func (b *builder) step(n *yaml.Node, outer string, place, loop int) *Step {
	m := b.mapping(b.scope, n, "a step")
	if m == nil {
		return nil
	}
	m.known = append(m.known, "type", "jump_to")
	var kinds []string
	for _, k := range m.order {
		if slices.Contains(stepTypes, k) && !(k == "handoff" && m.has("type")) {
			kinds = append(kinds, k)
		}
	}
	kind := ""
	old := false
	switch t := m.vals["type"]; {
	case t != nil && len(kinds) == 0:
		kind = t.Value
		old = true
		k := stepKindOf(kind)
		if k == nil {
			b.errorf(b.scope, t, "unknown step type %q%s", t.Value, suggest(t.Value, stepTypes))
			return nil
		}
		kind = k.types[0]
	case t != nil && len(kinds) == 1 && (t.Value == kinds[0] || t.Value == "action" && kinds[0] == "call"):
		kind, old = t.Value, true
	case t == nil && len(kinds) == 1:
		kind = kinds[0]
	case len(kinds) == 0:
		unknown := ""
		for _, k := range m.order {
			if s := suggest(k, stepTypes); strings.HasPrefix(s, "; did") {
				unknown = fmt.Sprintf(" (%q%s)", k, s)
			}
		}
		b.errorf(b.scope, n, "the step does nothing%s; write one of %s", unknown, strings.Join(stepTypes, ", "))
		return nil
	default:
		b.errorf(b.scope, n, "the step has the types %s; make one step of each", strings.Join(kinds, " and "))
		return nil
	}
	m.object = &stepKindOf(kind).object
	s := &Step{Type: kind, Index: len(b.flow.Steps), Loop: loop, Continue: End, pos: at(b.scope, n)}
	if nameNode := m.get("step"); nameNode != nil {
		s.Name = nameNode.Value
		switch {
		case !stepName.MatchString(s.Name):
			b.errorf(b.scope, nameNode, "a step can't be called %q; a name has letters, digits, _ and -, starts with a letter and has at most 64 characters", s.Name)
		case slices.Contains(reservedSteps, s.Name):
			b.errorf(b.scope, nameNode, "%q is reserved and can't name a step; choose another name", s.Name)
		case slices.ContainsFunc(b.flow.Steps, func(o *Step) bool { return o.Name == s.Name }):
			b.errorf(b.scope, nameNode, "two steps are called %q; rename one", s.Name)
		}
	} else {
		s.Name = fmt.Sprintf("%s_%d", kind, place)
		if outer != "" {
			s.Name = fmt.Sprintf("%s.%d", outer, place)
		}
	}
	b.flow.Steps = append(b.flow.Steps, s)
	sc := b.scope
	sc.step = s.Name
	m.scope = sc
	m.get("step")
	s.Description = m.text("description")
	olds := b.names(sc, m.get("formerly"), "formerly")
	s.Formerly = values(olds)
	b.later = append(b.later, func() { // once all steps have their names
		b.formerly(sc, olds, "step", s.Name, b.former, func(name string) bool {
			return slices.ContainsFunc(b.flow.Steps, func(s *Step) bool { return s.Name == name })
		})
	})
	if kind != "branch" || !old {
		if w := m.get("when"); w != nil && w.Kind == yaml.ScalarNode && !(kind == "while" && old) {
			s.When = b.expression(sc, w, "when")
			b.readsExpr(s, sc, s.When)
		} else if w != nil && w.Kind != yaml.ScalarNode {
			b.errorf(sc, w, `"when" has to be an expression; found a %s`, kindName(w))
		}
	}
	if t := m.get("next"); t != nil {
		s.Next = *b.targetInto(&s.Next, s, sc, t)
	}
	main := m.vals[kind]
	if old && (main == nil || kind == "action" && m.has("call")) {
		main = m.oldMain(kind)
	}
	m.known = append(m.known, kind)
	if main == nil {
		b.errorf(sc, n, "the step lacks what it is about; write %s: and a value", kind)
		return s
	}
	x := &stepReader{builder: b, mapping: m, step: s, main: main, old: old}
	x.read(kind)
	m.done()
	return s
}

// oldMain returns what a step of the form {type: T, …} is about.
func (m *mapping) oldMain(kind string) *yaml.Node {
	if old := stepKindOf(kind).old; old != nil {
		return m.first(old[0], old[1:]...)
	}
	return nil
}

// target reads a target and returns it; it is checked once the steps are known.
func (b *builder) target(step *Step, s scope, n *yaml.Node) *Target {
	return b.targetInto(&Target{}, step, s, n)
}

func (b *builder) targetInto(t *Target, step *Step, s scope, n *yaml.Node) *Target {
	n = yamlvalue.Follow(n)
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		b.errorf(s, n, "a target has to be the name of a step, or one of continue, end, cancel, error, handoff")
		return t
	}
	name := strings.TrimPrefix(n.Value, "jump_to_")
	t.pos = at(s, n)
	if k, ok := targetWords[n.Value]; ok {
		t.Kind = k
		return t
	}
	t.Kind, t.Step = ToStep, n.Value
	b.targets = append(b.targets, placedTarget{target: t, step: step, scope: s, node: n})
	if name != n.Value {
		t.Step = name
	}
	return t
}

func (b *builder) readsExpr(step *Step, s scope, e *expr.Expr) { b.readsExprAs(step, s, e, false) }

func (b *builder) readsExprAs(step *Step, s scope, e *expr.Expr, mention bool) {
	if e == nil {
		return
	}
	at := b.exprs[e]
	for _, p := range e.Reads() {
		b.uses = append(b.uses, use{step: step, path: p, pos: inside(at.scope, at.node, p.Offset), scope: s, mention: mention})
	}
	b.typed = append(b.typed, typedExpr{builder: b, expr: e, scope: s})
}

// readsGuard notes what the guard of the flow reads, before the flow has a frame.
func (b *builder) readsGuard(e *expr.Expr) {
	from := len(b.uses)
	b.readsExprAs(nil, b.scope, e, true)
	for i := range b.uses[from:] {
		b.uses[from+i].what = "guard"
	}
}

func (b *builder) readsText(step *Step, s scope, t *Text, mention bool) {
	if t == nil {
		return
	}
	for _, p := range t.parts {
		switch {
		case p.expr != nil:
			for _, r := range p.expr.Reads() {
				b.uses = append(b.uses, use{step: step, path: r, pos: inside(t.scope, t.node, p.offset+r.Offset), scope: s, mention: mention})
			}
		case len(p.path.Names) > 0:
			b.uses = append(b.uses, use{step: step, path: p.path, pos: inside(t.scope, t.node, p.offset), scope: s, mention: mention, what: "text"})
		}
	}
}

func (b *builder) readsResponse(step *Step, s scope, r *Response, mention bool) {
	if r == nil {
		return
	}
	r.texts(func(t *Text) { b.readsText(step, s, t, mention) }, func(e *expr.Expr) { b.readsExprAs(step, s, e, mention) })
}

// readsSlot notes that a step reads a slot by its name.
func (b *builder) readsSlot(step *Step, s scope, n *yaml.Node, mention bool) {
	path, length := expr.ParsePath(n.Value)
	if length != len(n.Value) || length == 0 {
		b.errorf(s, n, "%q is no name of a slot", n.Value)
		return
	}
	b.uses = append(b.uses, use{step: step, path: path, pos: at(s, n), scope: s, mention: mention})
}

// declare settles which slots the flow knows: its own, the shared ones and those that
// its steps write.
func (b *builder) declare() {
	f := b.flow
	for name, s := range b.program.Slots {
		f.Slots[name] = s
	}
	for name, s := range b.local {
		f.Slots[name] = s
	}
	for _, p := range f.Inputs {
		b.implicit(p.Name, Any, b.scope, f.pos)
	}
	for _, w := range b.writes {
		if w.typ != "" {
			b.implicit(w.slot, w.typ, w.scope, w.pos)
		}
	}
}

// implicit declares a slot that nothing declares.
func (b *builder) implicit(name string, t Type, s scope, p Position) {
	if strings.HasPrefix(name, "session.") {
		return
	}
	old, ok := b.flow.Slots[name]
	switch {
	case !ok:
		b.flow.Slots[name] = &Slot{Name: name, Type: t, Eager: true, Implicit: true, From: []Source{FromAction, FromSet, FromInput}, pos: p}
	case !old.Implicit || t == Any || old.Type == t:
	case old.Type == Any:
		old.Type = t
	case old.Type == Integer && t == Number:
		old.Type = Number
	case old.Type == Number && t == Integer:
	default:
		b.add(s, p, false, "slot %q is a %s here and a %s elsewhere in the flow; declare it under slots, or use two names", name, t, old.Type)
	}
}

// callOutputs declares the slots that calls write, by the types of the flows called.
func (b *builder) callOutputs() {
	for _, s := range b.flow.Steps {
		call, ok := s.Body.(*Call)
		if !ok {
			continue
		}
		callee, ok := b.program.Flow(call.Flow)
		if !ok {
			continue
		}
		for i, o := range call.Outputs {
			t := Any
			if slot, ok := callee.Slots[o.Output]; ok {
				t = slot.Type
			}
			call.Outputs[i].Type = t
			sc := b.scope
			sc.step = s.Name
			b.implicit(o.Slot, t, sc, s.pos)
		}
	}
}

// lookup returns the slot of a path in the flow, nil for a path that is no slot's. It
// says whether the path can exist.
func (b *builder) lookup(path []string) (slot *Slot, key string, ok bool) {
	root := path[0]
	switch root {
	case "session":
		if len(path) < 2 {
			return nil, "", false
		}
		s, ok := b.program.Session[path[1]]
		return s, "session." + path[1], ok && deep(s, path[2:])
	case "turn":
		return nil, "", len(path) == 2 && slices.Contains([]string{"text", "language", "channel", "number", "time"}, path[1])
	case "flow":
		return nil, "", len(path) == 2 && slices.Contains([]string{"name", "id", "description"}, path[1])
	case "error":
		return nil, "", len(path) == 2 && slices.Contains([]string{"type", "message", "action"}, path[1])
	case "repair":
		return nil, "", len(path) == 2 && slices.Contains([]string{"command", "slot", "value", "topic"}, path[1])
	}
	s, ok := b.flow.Slots[root]
	return s, root, ok && deep(s, path[1:])
}

// deep says whether a slot's value may have what the path asks for.
func deep(s *Slot, path []string) bool {
	if len(path) == 0 {
		return true
	}
	return s.Type == Any || s.Type == Object || s.Type == List && path[0][0] >= '0' && path[0][0] <= '9'
}

// resolve checks the names that the flow uses and settles what its steps read and write.
func (b *builder) resolve() {
	f := b.flow
	reads, mentions := map[*Step]map[string]bool{}, map[string]bool{}
	note := func(of map[*Step]map[string]bool, s *Step, slot string) {
		if of[s] == nil {
			of[s] = map[string]bool{}
		}
		of[s][slot] = true
	}
	for _, u := range b.uses {
		if u.path.Names[0] == "option" && u.what == "display" {
			continue
		}
		slot, key, ok := b.lookup(u.path.Names)
		if !ok && !u.hope {
			b.unknown(u, slot)
		}
		if !ok || slot == nil {
			continue
		}
		b.used["slot "+key] = true
		if u.what == "guard" && u.path.Names[0] != "session" && !slices.ContainsFunc(f.Inputs, func(p Param) bool { return p.Name == key }) {
			b.add(u.scope, u.pos, true, "the guard reads slot %q, which has no value before the flow starts; read a session value, or list the slot under inputs", key)
			continue
		}
		if !u.hope {
			mentions[key] = true
		}
		if u.step != nil && !u.mention {
			note(reads, u.step, key)
		}
	}
	writes := map[*Step]map[string]bool{}
	for _, w := range b.writes {
		if name, ok := strings.CutPrefix(w.slot, "session."); ok {
			if _, ok := b.program.Session[name]; !ok {
				b.add(w.scope, w.pos, false, "session value %q does not exist%s", name, suggest(name, keysOf(b.program.Session)))
				continue
			}
		}
		mentions[w.slot] = true
		b.used["slot "+w.slot] = true
		note(writes, w.step, w.slot)
	}
	collects := map[string]bool{}
	for _, s := range f.Steps {
		s.Reads, s.Writes = keysOf(reads[s]), keysOf(writes[s])
		switch x := s.Body.(type) {
		case *Collect:
			for _, name := range x.Slots {
				collects[name] = true
				b.question(s, x, name, mentions)
			}
		case *Call:
			for _, o := range x.Outputs {
				s.Writes = append(s.Writes, o.Slot)
				mentions[o.Slot] = true
			}
			slices.Sort(s.Writes)
		}
	}
	for _, p := range f.Inputs {
		mentions[p.Name] = true
	}
	for _, p := range f.Outputs {
		if _, ok := f.Slots[p.Name]; !ok {
			b.add(b.scope, f.pos, false, "output %q is no slot of the flow%s", p.Name, suggest(p.Name, keysOf(f.Slots)))
		}
		b.used["slot "+p.Name] = true
	}
	f.Collects, f.Mentions = keysOf(collects), keysOf(mentions)
	for _, t := range b.targets {
		b.checkTarget(t)
	}
}

// question checks that a slot can be asked for, and notes what its words read.
func (b *builder) question(s *Step, x *Collect, name string, mentions map[string]bool) {
	sc := b.scope
	sc.step = s.Name
	slot, ok := b.flow.Slots[name]
	if !ok {
		return // reported as an unknown slot
	}
	if x.Ask == nil && slot.Ask == nil {
		b.add(sc, s.pos, false, `slot %q has no question; write "ask" at the slot or at the step`, name)
	}
	before := len(b.uses)
	b.readsResponse(s, sc, slot.Ask, true)
	b.readsResponse(s, sc, slot.Invalid, true)
	b.readsResponse(s, sc, slot.Explain, true)
	for _, u := range b.uses[before:] {
		target, key, ok := b.lookup(u.path.Names)
		if !ok {
			b.unknown(u, target)
		} else if target != nil {
			mentions[key] = true
			b.used["slot "+key] = true
		}
	}
}

// unknown reports a name that doesn't exist.
func (b *builder) unknown(u use, slot *Slot) {
	root := u.path.Names[0]
	what := "slot"
	name, known := root, keysOf(b.flow.Slots)
	switch {
	case slot != nil:
		b.add(u.scope, u.pos, false, "%q can never exist: slot %q is a %s, which has no parts", u.path.String(), slot.Name, slot.Type)
		return
	case root == "session" && len(u.path.Names) > 1:
		what, name, known = "session value", u.path.Names[1], keysOf(b.program.Session)
	case slices.Contains([]string{"session", "turn", "flow", "error", "repair"}, root):
		b.add(u.scope, u.pos, false, "%q does not exist; known are turn.text, turn.language, turn.channel, turn.number, turn.time, flow.name, flow.id, error.type, error.message, error.action, repair.command, repair.slot, repair.value, repair.topic", u.path.String())
		return
	}
	s := suggest(name, known)
	if !strings.HasPrefix(s, "; did") {
		s = "; declare it under slots"
		if what == "session value" {
			s = "; declare it under session"
		}
	}
	b.add(u.scope, u.pos, false, "%s %q does not exist%s", what, name, s)
}

// checkTarget checks that a target is a step that can be gone to from where it is written.
func (b *builder) checkTarget(t placedTarget) {
	to, ok := b.flow.Step(t.target.Step)
	if !ok || to.Name != t.target.Step {
		var names []string
		for _, s := range b.flow.Steps {
			names = append(names, s.Name)
		}
		names = append(names, "continue", "end", "cancel", "error", "handoff")
		s := suggest(t.target.Step, names)
		if !strings.HasPrefix(s, "; did") {
			s = "; name a step of this flow, or continue, end, cancel, error or handoff"
		}
		b.errorf(t.scope, t.node, "target %q does not exist%s", t.node.Value, s)
		return
	}
	from := End
	if t.step != nil {
		from = t.step.Loop
		if _, ok := t.step.Body.(*While); ok {
			from = t.step.Loop
		}
	}
	for loop := from; ; loop = b.flow.Steps[loop].Loop {
		if to.Loop == loop {
			return
		}
		if loop == End {
			break
		}
	}
	b.errorf(t.scope, t.node, "target %q is inside the loop %q; go to the loop instead", t.target.Step, b.flow.Steps[to.Loop].Name)
}
