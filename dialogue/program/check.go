package program

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
)

func langOf(p *Program) language.Language { return language.Of(p.Languages.Default) }

// typedExpr is an expression of a flow, to be typed once its slots are known.
type typedExpr struct {
	builder *builder
	expr    *expr.Expr
	scope   scope
	offset  int // of the expression in its scalar
}

// check looks at the program as a whole.
func (c *compiler) check() {
	c.types()
	for _, name := range keysOf(c.program.Flows) {
		f := c.program.Flows[name]
		if f.BuiltIn || len(f.Steps) == 0 {
			continue
		}
		c.reachable(f)
		c.stepCycles(f)
		c.confirmed(f)
		c.unseen(f)
		c.contracts(f)
		c.attempts(f)
	}
	c.flowCycles()
	if len(c.findings.Errors()) == 0 {
		c.unused()
	}
}

// attempts warns of a limit of refusals where nothing can be refused.
func (c *compiler) attempts(f *Flow) {
	for _, s := range f.Steps {
		x, ok := s.Body.(*Collect)
		if !ok || x.MaxAttempts == 0 && x.OnInvalid == nil || x.OptionsFrom != "" || len(x.Validate) > 0 {
			continue
		}
		if !slices.ContainsFunc(x.Slots, func(name string) bool { return f.Slots[name].refuses() }) {
			sc, pos := c.at(f, s)
			c.add(sc, pos, true, `the step has "max_attempts" or "on_invalid", and no value of %s is ever refused; give the slot a type, options, bounds, a format or a validator, or remove the limit`, strings.Join(x.Slots, ", "))
		}
	}
}

// refuses says whether the slot may refuse what a user says.
func (s *Slot) refuses() bool {
	switch {
	case s == nil: // reported where it is named
		return true
	case s.Type == List && (s.Items == "" || s.Items == String || s.Items == Any), s.Type == String, s.Type == Any:
		return len(s.Options)+len(s.Validate)+s.MinLength+s.MaxLength > 0 || s.Format != "" || s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil
	}
	return true
}

// types types every expression.
func (c *compiler) types() {
	for _, t := range c.typed {
		_, _, problems := t.expr.Check(func(p expr.Path) (expr.Kind, bool) {
			if len(p.Names) == 1 || p.Names[0] == "session" && len(p.Names) == 2 {
				if s, _, ok := t.builder.lookup(p.Names); ok && s != nil {
					return s.Type.Kind()
				}
			}
			return expr.None, false
		})
		at := c.exprs[t.expr]
		for _, p := range problems {
			c.add(t.scope, inside(at.scope, at.node, t.offset+p.Offset), false, "the expression can't be computed: %s", p.Reason)
		}
		if t.offset == 0 && t.expr.Constant() && t.expr != falseExpr {
			c.add(t.scope, inside(at.scope, at.node, 0), true, "the condition is always the same; compare with a slot, or remove it")
		}
	}
}

func (c *compiler) at(f *Flow, s *Step) (scope, Position) {
	return scope{file: s.pos.File, flow: f.Name, step: s.Name}, s.pos
}

func (c *compiler) reachable(f *Flow) {
	seen := map[int]bool{}
	var visit func(int)
	visit = func(i int) {
		if i == End || seen[i] {
			return
		}
		seen[i] = true
		for _, e := range f.Ways(f.Steps[i]) {
			visit(e.Step)
		}
	}
	visit(f.First)
	if f.OnError != nil && f.OnError.Kind == ToStep {
		if s, ok := f.Step(f.OnError.Step); ok {
			visit(s.Index)
		}
	}
	for _, s := range f.Steps {
		if !seen[s.Index] {
			sc, pos := c.at(f, s)
			c.add(sc, pos, true, "the step can't be reached; lead a target to it, or remove it")
		}
	}
}

// waits says whether a step ends the turn or leaves the program.
func waits(s *Step) bool {
	switch x := s.Body.(type) {
	case *Collect, *Confirm, *Handoff, *Wait, *Agent, *Generate:
		return s.When == nil
	case *Say:
		return x.WaitForAck && s.When == nil
	}
	return false
}

// conditions returns the slots that decide where control goes after a step.
func conditions(s *Step) []string {
	switch s.Body.(type) {
	case *Branch, *While:
		return s.Reads
	}
	return Operand{Expr: s.When}.Slots()
}

// stepCycles reports cycles of steps that neither wait nor change what their conditions
// read.
func (c *compiler) stepCycles(f *Flow) {
	for _, group := range components(len(f.Steps), func(i int) []int {
		if _, calls := f.Steps[i].Body.(*Call); calls || waits(f.Steps[i]) {
			return nil
		}
		var to []int
		for _, e := range f.Ways(f.Steps[i]) {
			if e.Step != End && e.Kind != WayError { // a failure is news of its own
				to = append(to, e.Step)
			}
		}
		return to
	}) {
		writes := map[string]bool{}
		var reads []string
		names := make([]string, 0, len(group))
		for _, i := range group {
			s := f.Steps[i]
			names = append(names, s.Name)
			for _, w := range s.Writes {
				writes[w] = true
			}
			reads = append(reads, conditions(s)...)
		}
		if slices.ContainsFunc(reads, func(r string) bool { return writes[r] }) {
			continue
		}
		sc, pos := c.at(f, f.Steps[slices.Min(group)])
		c.add(sc, pos, false, "the steps %s repeat without an end: none waits, and none changes what their conditions read; ask something, or set what a condition reads", strings.Join(names, ", "))
	}
}

// components returns the groups of nodes that reach each other, by the algorithm of
// Tarjan; a lone node is one if it reaches itself at once.
func components(n int, next func(int) []int) [][]int {
	index, low := make([]int, n), make([]int, n)
	on := make([]bool, n)
	var stack []int
	var out [][]int
	count := 0
	var visit func(int)
	visit = func(v int) {
		count++
		index[v], low[v] = count, count
		stack = append(stack, v)
		on[v] = true
		for _, w := range next(v) {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		var group []int
		for {
			w := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			on[w] = false
			group = append(group, w)
			if w == v {
				break
			}
		}
		if len(group) > 1 || slices.Contains(next(v), v) {
			slices.Sort(group)
			out = append(out, group)
		}
	}
	for v := range n {
		if index[v] == 0 {
			visit(v)
		}
	}
	return out
}

// flowCycles reports flows that call or link one another without a step that waits on
// the way.
func (c *compiler) flowCycles() {
	names := keysOf(c.program.Flows)
	place := map[string]int{}
	for i, n := range names {
		place[n] = i
	}
	next := func(i int) []int { // flows reached before anything waits
		f := c.program.Flows[names[i]]
		seen := map[int]bool{}
		var to []int
		var visit func(int)
		visit = func(at int) {
			if at == End || at >= len(f.Steps) || seen[at] {
				return
			}
			seen[at] = true
			s := f.Steps[at]
			name := ""
			switch x := s.Body.(type) {
			case *Call:
				name = x.Flow
			case *Link:
				name = x.Flow
			}
			if g, ok := c.program.Flow(name); ok {
				to = append(to, place[g.Name])
			}
			if waits(s) {
				return
			}
			for _, e := range f.Ways(s) {
				visit(e.Step)
			}
		}
		visit(f.First)
		return to
	}
	for _, group := range components(len(names), next) {
		var cycle []string
		for _, i := range group {
			cycle = append(cycle, names[i])
		}
		f := c.program.Flows[cycle[0]]
		c.add(scope{file: f.pos.File, flow: f.Name}, f.pos, false, "the flows %s call one another without an end; let one of them ask something first", strings.Join(cycle, ", "))
	}
}

// anyConfirm stands for some confirm among the slots that are confirmed.
const anyConfirm = "\x00"

// confirmed checks that before an irreversible action every path has a confirm of each
// of its inputs that the flow collects or receives.
func (c *compiler) confirmed(f *Flow) {
	if c.version == "0.1" || c.version == "1.0" {
		return
	}
	// at[i] are the slots confirmed on every path to step i; nil is not reached.
	at := make([]map[string]bool, len(f.Steps))
	work := []int{}
	join := func(i int, set map[string]bool) {
		if i == End {
			return
		}
		if at[i] == nil {
			at[i] = map[string]bool{}
			for k := range set {
				at[i][k] = true
			}
			work = append(work, i)
			return
		}
		changed := false
		for k := range at[i] {
			if !set[k] {
				delete(at[i], k)
				changed = true
			}
		}
		if changed {
			work = append(work, i)
		}
	}
	join(f.First, map[string]bool{})
	for len(work) > 0 {
		i := work[0]
		work = work[1:]
		s := f.Steps[i]
		for _, e := range f.Ways(s) {
			set := map[string]bool{}
			for k := range at[i] {
				set[k] = true
			}
			if e.Kind == WayYes {
				if x, ok := s.Body.(*Confirm); ok {
					set[anyConfirm] = true
					for _, slot := range x.Slots {
						set[slot] = true
					}
				}
			}
			if _, collects := s.Body.(*Collect); !collects || s.Body.(*Collect).Force {
				for _, w := range s.Writes {
					if x, ok := s.Body.(*Confirm); !ok || w == x.Store {
						delete(set, w)
					}
				}
			}
			join(e.Step, set)
		}
	}
	for _, s := range f.Steps {
		x, ok := s.Body.(*Invoke)
		if !ok || x.Action == nil || x.Action.Effect != Irreversible || at[s.Index] == nil {
			continue
		}
		if !at[s.Index][anyConfirm] {
			sc, pos := c.at(f, s)
			c.add(sc, pos, false, "action %q is irreversible and no confirm stands on every path to it; write a confirm that lists its inputs before it", x.Action.Name)
			continue
		}
		for _, in := range x.Inputs {
			for _, slot := range in.Value.Slots() {
				if f.Given(slot) && !at[s.Index][slot] {
					sc, pos := c.at(f, s)
					c.add(sc, pos, false, "action %q is irreversible and its input %q is not confirmed on every path to it; list %q in a confirm before it", x.Action.Name, in.Name, slot)
				}
			}
		}
	}
}

// contracts compares the contracts of actions with the slots that their inputs come from
// and their outputs go to: where the types can't be the same, every call fails.
func (c *compiler) contracts(f *Flow) {
	slot := func(p expr.Path) *Slot {
		if len(p.Names) != 1 {
			return nil
		}
		return f.Slots[p.Names[0]]
	}
	kinds := func(p expr.Path) (expr.Kind, bool) {
		if s := slot(p); s != nil {
			return s.Type.Kind()
		}
		return expr.None, false
	}
	for _, s := range f.Steps {
		for _, x := range s.invokes() {
			if x.Action == nil {
				continue
			}
			sc, pos := c.at(f, s)
			for _, in := range x.Inputs {
				want, known := in.Type.Kind()
				if in.Value.Expr == nil || !known {
					continue
				}
				if p, ok := in.Value.Expr.AsPath(); ok {
					if from := slot(p); from != nil && !alike(from.Type, in.Type) {
						c.add(sc, pos, false, "action %q takes its input %q as %s, and the slot %q is %s; give both one type", x.Action.Name, in.Name, in.Type, p.Names[0], from.Type)
					}
				} else if got, ok, _ := in.Value.Expr.Check(kinds); ok && got != want {
					c.add(sc, pos, false, "action %q takes its input %q as %s, and the expression gives a %s; give both one type", x.Action.Name, in.Name, in.Type, got)
				}
			}
			for _, out := range x.Outputs {
				if to := f.Slots[out.Slot]; to != nil && !alike(out.Type, to.Type) {
					c.add(sc, pos, false, "action %q answers %q as %s, and the slot %q is %s; give both one type", x.Action.Name, out.Output, out.Type, out.Slot, to.Type)
				}
			}
		}
	}
}

// alike says whether a value of one type may be one of another.
func alike(a, b Type) bool {
	x, known := a.Kind()
	y, both := b.Kind()
	moment := func(t Type) bool { return t == Date || t == Time || t == DateTime }
	return !known || !both || x == y && (a == b || !moment(a) || !moment(b))
}

// unseen warns of inputs of an irreversible action that a confirm lists and its words, in
// some language or variation, don't show: who says yes can't know them. A choice out of a
// few is let pass: other words often say it.
func (c *compiler) unseen(f *Flow) {
	given := map[string]string{} // slot -> action
	for _, s := range f.Steps {
		if x, ok := s.Body.(*Invoke); ok && x.Action != nil && x.Action.Effect == Irreversible {
			for _, in := range x.Inputs {
				for _, slot := range in.Value.Slots() {
					given[slot] = x.Action.Name
				}
			}
		}
	}
	for _, s := range f.Steps {
		x, ok := s.Body.(*Confirm)
		if !ok || x.Ask == nil || x.Ask.BuiltIn {
			continue
		}
		for _, slot := range x.Slots {
			if sl := f.Slots[slot]; given[slot] == "" || sl != nil && len(sl.Options) > 0 {
				continue
			}
			if tags := x.Ask.without(slot, c.program.Languages.Default); len(tags) > 0 {
				sc, pos := c.at(f, s)
				c.add(sc, pos, true, "the words of the confirm do not show %q in %s, which the irreversible action %q is given; put {%s} into them, or users agree to what they have not seen", slot, strings.Join(tags, ", "), given[slot], slot)
			}
		}
	}
}

// without returns the languages in which some words of the response don't show a slot.
func (r *Response) without(slot, language string) (tags []string) {
	look := func(entries []Entry) {
		for _, e := range entries {
			for tag, words := range e.Words {
				if tag == "" {
					tag = language
				}
				for _, text := range words.Forms {
					if !slices.Contains(Operand{Text: text}.Slots(), slot) && !slices.Contains(tags, tag) {
						tags = append(tags, tag)
					}
				}
			}
		}
	}
	look(r.Entries)
	for _, entries := range r.In {
		look(entries)
	}
	slices.Sort(tags)
	return tags
}

// Slots returns the slots that an operand reads; values of the session as
// session.NAME.
func (o Operand) Slots() []string {
	var paths []expr.Path
	switch {
	case o.Expr != nil:
		paths = o.Expr.Reads()
	case o.Text != nil:
		paths = o.Text.Reads()
	}
	var out []string
	for _, p := range paths {
		key := p.Names[0]
		if key == "session" && len(p.Names) > 1 {
			key += "." + p.Names[1]
		}
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// unused warns of what nobody uses.
func (c *compiler) unused() {
	p := c.program
	warn := func(pos Position, format string, args ...any) {
		c.add(scope{file: pos.File}, pos, true, format, args...)
	}
	for _, name := range keysOf(p.Slots) {
		if !c.used["slot "+name] {
			warn(p.Slots[name].pos, "slot %q is used by no flow; remove it", name)
		}
	}
	for _, name := range keysOf(p.Actions) {
		used := c.used["action "+name]
		for _, a := range p.Actions {
			used = used || a.Compensate == name
		}
		if !used {
			warn(p.Actions[name].pos, "action %q is used by no flow; remove it", name)
		}
	}
	for _, n := range c.sections["responses"].names {
		if r := p.Responses[n]; !c.used["response "+n] {
			warn(r.pos, "response %q is said by no flow; remove it", n)
		}
	}
	for _, name := range keysOf(p.Flows) {
		f := p.Flows[name]
		if f.BuiltIn || !f.Internal || c.used["flow "+name] {
			continue
		}
		replaces := p.Settings.DefaultFlow == name || p.Settings.FallbackFlow == name
		for _, r := range p.Patterns.Flows {
			replaces = replaces || r == name
		}
		if !replaces {
			warn(f.pos, "flow %q can't be started: it is internal and nothing calls it", name)
		}
	}
}
