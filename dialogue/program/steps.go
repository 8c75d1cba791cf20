package program

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
)

// stepReader reads what is particular to a type of steps.
type stepReader struct {
	*builder
	*mapping
	step *Step
	main *yaml.Node
	old  bool
}

// sc is the step's scope.
func (x *stepReader) sc() scope { return x.mapping.scope }

func (x *stepReader) fail(n *yaml.Node, format string, args ...any) {
	x.builder.errorf(x.sc(), n, format, args...)
}

func (x *stepReader) targetOf(key string) *Target {
	n := x.get(key)
	if n == nil {
		return nil
	}
	return x.target(x.step, x.sc(), n)
}

func (x *stepReader) inline(key string) string {
	return x.flow.Name + "." + x.step.Name + key
}

// read reads a step of a kind.
func (x *stepReader) read(kind string) {
	map[string]func(*stepReader){
		"say":      (*stepReader).say,
		"collect":  (*stepReader).collect,
		"set":      (*stepReader).set,
		"action":   (*stepReader).action,
		"branch":   (*stepReader).branch,
		"while":    (*stepReader).while,
		"confirm":  (*stepReader).confirm,
		"call":     (*stepReader).call,
		"link":     (*stepReader).link,
		"generate": (*stepReader).generate,
		"agent":    (*stepReader).agent,
		"handoff":  (*stepReader).handoff,
		"wait":     (*stepReader).wait,
		"parallel": (*stepReader).parallel,
	}[kind](x)
}

func (x *stepReader) action() { x.step.Body = x.invoke() }

// writesTo notes that the step writes a slot; t is empty if that doesn't declare it.
func (x *stepReader) writesTo(slot string, t Type, n *yaml.Node) {
	x.writes = append(x.writes, write{step: x.step, slot: slot, typ: t, pos: at(x.sc(), n), scope: x.sc()})
}

// stores reads the slot into which the step puts its answer, "" if there is none.
func (x *stepReader) stores(n *yaml.Node, t Type) string {
	if n == nil || !x.slotKey(n) {
		return ""
	}
	x.writesTo(n.Value, t, n)
	return n.Value
}

func (x *stepReader) say() {
	b := &Say{}
	x.step.Body = b
	words := x.old && x.has("message")
	b.Response = x.said(x.sc(), x.main, x.inline(""), words)
	x.readsResponse(x.step, x.sc(), b.Response, false)
	if x.has("rephrase") {
		r := x.boolean("rephrase", false)
		b.Rephrase = &r
	}
	b.WaitForAck = x.boolean("wait_for_ack", false)
}

// slotNames reads the names of slots that the step reads.
func (x *stepReader) slotNames(n *yaml.Node, what string, mention bool) []string {
	nodes := x.names(x.sc(), n, what)
	for _, n := range nodes {
		x.readsSlot(x.step, x.sc(), n, mention)
	}
	return values(nodes)
}

func (x *stepReader) collect() {
	b := &Collect{PageSize: x.positive("page_size", 5)}
	x.step.Body = b
	b.Slots = x.slotNames(x.main, "collect", true)
	if len(b.Slots) == 0 && x.main.Kind == yaml.SequenceNode {
		x.fail(x.main, `"collect" needs at least one slot`)
	}
	for i, s := range b.Slots {
		if strings.HasPrefix(s, "session.") {
			x.fail(x.main, "a value of the session can't be collected; collect a slot and set it")
		}
		if slices.Contains(b.Slots[:i], s) {
			x.fail(x.main, "slot %q is collected twice; keep one", s)
		}
		x.writesTo(s, "", x.main)
	}
	b.Ask = x.response("ask", x.inline(".ask"))
	x.readsResponse(x.step, x.sc(), b.Ask, true)
	b.Invalid = x.response("invalid", x.inline(".invalid"))
	x.readsResponse(x.step, x.sc(), b.Invalid, true)
	b.Validate = values(x.names(x.sc(), x.get("validate"), "validate"))
	b.Force = x.boolean("force", false)
	if n := x.get("options_from"); n != nil {
		b.OptionsFrom = n.Value
		x.readsSlot(x.step, x.sc(), n, false)
		if len(b.Slots) > 1 {
			x.fail(n, `"options_from" is for one slot; collect the others in a step of their own`)
		}
	}
	if n := x.get("display"); n != nil {
		b.Display = x.parseText(x.sc(), n)
		before := len(x.uses)
		x.readsText(x.step, x.sc(), b.Display, true)
		for i := range x.uses[before:] {
			x.uses[before+i].what = "display"
		}
	}
	if x.has("max_attempts") {
		b.MaxAttempts = x.positive("max_attempts", 0)
	}
	b.OnInvalid = x.targetOf("on_invalid")
	b.Deadline = x.mapping.duration("deadline", 0)
	b.OnDeadline = x.targetOf("on_deadline")
	b.OnCancel = x.targetOf("on_cancel")
	if b.OnDeadline != nil && b.Deadline == 0 {
		x.fail(x.main, `"on_deadline" needs a "deadline"`)
	}
}

// operand reads a VALUE. In inputs a text without braces is a path.
func (x *stepReader) operand(n *yaml.Node, path bool) Operand {
	n = yamlvalue.Follow(n)
	o := Operand{pos: at(x.sc(), n)}
	v := yamlvalue.Of(n)
	if n.Kind != yaml.ScalarNode || v.Kind() != expr.Text {
		o.Const = v
		return o
	}
	if n.Value == "none" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
		return o
	}
	t := x.parseText(x.sc(), n)
	fixed, isFixed := t.Fixed()
	switch e := t.whole(); {
	case e != nil:
		o.Expr = e
		x.exprs[e] = placed{scope: x.sc(), node: n}
		x.readsText(x.step, x.sc(), t, false)
		x.typed = append(x.typed, typedExpr{builder: x.builder, expr: e, scope: x.sc(), offset: t.parts[0].offset})
	case !isFixed:
		o.Text = t
		x.readsText(x.step, x.sc(), t, false)
	case path:
		if p, length := expr.ParsePath(fixed); length != len(fixed) || length == 0 {
			x.fail(n, "%q is no name of a slot; a text is written \"{{ '…' }}\"", fixed)
		} else if e, err := expr.Parse(p.String()); err == nil {
			o.Expr = e
			x.readsSlot(x.step, x.sc(), n, false)
		}
	default:
		o.Const = expr.Str(fixed)
	}
	return o
}

// typeOf returns the type of an operand as far as it is known.
func (o Operand) typeOf() Type {
	switch {
	case o.Text != nil:
		return String
	case o.Expr != nil:
		return Any
	}
	switch o.Const.Kind() {
	case expr.Boolean:
		return Boolean
	case expr.Number:
		return Number
	case expr.Text:
		return String
	case expr.List:
		return List
	case expr.Object:
		return Object
	}
	return Any
}

func (x *stepReader) set() {
	b := &Set{}
	x.step.Body = b
	m := x.builder.mapping(x.sc(), x.main, "set")
	if m == nil {
		return
	}
	if len(m.order) == 0 {
		x.fail(x.main, `"set" needs at least one slot`)
	}
	for _, k := range m.order {
		key := m.keys[k]
		if !x.slotKey(key) {
			continue
		}
		o := x.operand(m.vals[k], false)
		b.Assign = append(b.Assign, Assign{Slot: k, Value: o})
		x.writesTo(k, o.typeOf(), key)
		if o.Expr == nil && o.Text == nil && !o.Const.IsNone() {
			x.later = append(x.later, func() {
				if s, _, ok := x.lookup(strings.Split(k, ".")); ok && s != nil && !s.Implicit {
					if _, reason := s.Check(o.Const, langOf(x.program)); reason != "" {
						x.fail(m.vals[k], "slot %q can't be set to this value: %s", k, reason)
					}
				}
			})
		}
	}
}

// slotKey says whether a key names a slot or a value of the session.
func (x *stepReader) slotKey(n *yaml.Node) bool {
	plain, _ := strings.CutPrefix(n.Value, "session.")
	if !name.MatchString(plain) {
		x.fail(n, "%q is no name of a slot; write NAME or session.NAME", n.Value)
		return false
	}
	if slices.Contains(reservedNames, plain) {
		x.fail(n, "%q is reserved and can't name a slot; choose another name", plain)
		return false
	}
	return true
}

// args reads inputs as a step gives them.
func (x *stepReader) args(n *yaml.Node) (args []Arg, given bool) {
	if n == nil {
		return nil, false
	}
	if n.Kind == yaml.SequenceNode { // names of slots, as they are called there
		for _, k := range x.names(x.sc(), n, "inputs") {
			args = append(args, Arg{Name: k.Value, Value: x.operand(k, true)})
		}
		return args, true
	}
	m := x.builder.mapping(x.sc(), n, "inputs")
	if m == nil {
		return nil, true
	}
	for _, k := range m.order {
		args = append(args, Arg{Name: k, Value: x.operand(m.vals[k], true)})
	}
	return args, true
}

// outs reads outputs as a step maps them.
func (x *stepReader) outs(n *yaml.Node) []Out {
	if n == nil {
		return nil
	}
	m := x.builder.mapping(x.sc(), n, "outputs")
	if m == nil {
		return nil
	}
	var outs []Out
	for _, k := range m.order {
		if x.slotKey(m.vals[k]) {
			outs = append(outs, Out{Output: k, Slot: m.vals[k].Value, Type: Any})
		}
	}
	return outs
}

func (x *stepReader) actionNamed(n *yaml.Node) *Action {
	if n.Kind != yaml.ScalarNode {
		x.fail(n, "an action is given by its name; found a %s", kindName(n))
		return nil
	}
	a, ok := x.program.Actions[n.Value]
	if !ok {
		if x.version == "0.1" || x.version == "1.0" { // they have no contracts
			a = &Action{Name: n.Value, Effect: Write, Timeout: 30e9, Retry: Retry{MaxAttempts: 1}, pos: at(x.sc(), n), implicit: true}
			x.program.Actions[n.Value] = a
			return a
		}
		x.fail(n, "action %q does not exist%s", n.Value, suggest(n.Value, keysOf(x.program.Actions)))
		return nil
	}
	x.used["action "+n.Value] = true
	return a
}

func (x *stepReader) invoke() *Invoke {
	b := &Invoke{}
	a := x.actionNamed(x.main)
	given, _ := x.args(x.get("inputs"))
	mapped := x.outs(x.get("outputs"))
	b.OnError = x.targetOf("on_error")
	b.Timeout = x.mapping.duration("timeout", 0)
	retry := x.get("retry")
	if a == nil {
		return b
	}
	b.Action = a
	b.Retry = a.Retry
	if retry != nil {
		b.Retry = x.builder.retry(x.sc(), retry)
	}
	if b.Timeout == 0 {
		b.Timeout = a.Timeout
	}
	for _, p := range a.Inputs {
		arg := Arg{Name: p.Name, Type: p.Type, Optional: p.Optional}
		if i := slices.IndexFunc(given, func(g Arg) bool { return g.Name == p.Name }); i >= 0 {
			arg.Value = given[i].Value
		} else if e, err := expr.Parse(p.Name); err == nil {
			arg.Value = Operand{Expr: e, pos: at(x.sc(), x.main)}
			if p.Optional {
				x.uses = append(x.uses, use{step: x.step, path: expr.Path{Names: []string{p.Name}}, hope: true})
			} else {
				x.readsSlot(x.step, x.sc(), &yaml.Node{Kind: yaml.ScalarNode, Value: p.Name, Line: x.main.Line, Column: x.main.Column}, false)
			}
		}
		b.Inputs = append(b.Inputs, arg)
	}
	for _, g := range given {
		if !slices.ContainsFunc(a.Inputs, func(p Param) bool { return p.Name == g.Name }) {
			x.fail(x.main, "action %q has no input %q%s", a.Name, g.Name, suggest(g.Name, paramNames(a.Inputs)))
		}
	}
	for _, p := range a.Outputs {
		out := Out{Output: p.Name, Slot: p.Name, Type: p.Type, Optional: p.Optional}
		if i := slices.IndexFunc(mapped, func(g Out) bool { return g.Output == p.Name }); i >= 0 {
			out.Slot = mapped[i].Slot
		}
		b.Outputs = append(b.Outputs, out)
		x.writesTo(out.Slot, p.Type, x.main)
	}
	for _, g := range mapped {
		if !slices.ContainsFunc(a.Outputs, func(p Param) bool { return p.Name == g.Output }) {
			x.fail(x.main, "action %q has no output %q%s", a.Name, g.Output, suggest(g.Output, paramNames(a.Outputs)))
		}
	}
	return b
}

func paramNames(params []Param) []string {
	out := make([]string, len(params))
	for i, p := range params {
		out[i] = p.Name
	}
	return out
}

func (x *stepReader) branch() {
	b := &Branch{}
	x.step.Body = b
	cases := x.get("cases")
	if x.old && x.main.Kind == yaml.ScalarNode && x.has("evaluate") {
		x.evaluate(b, cases)
		return
	}
	if x.main.Kind == yaml.SequenceNode {
		if cases != nil {
			x.fail(cases, `"cases" belong to branch: NAME; a list has its own conditions`)
		}
		if len(x.main.Content) == 0 {
			x.fail(x.main, "the branch has no conditions; write at least one {when, then}")
		}
		for _, n := range x.main.Content {
			m := x.builder.keyed(x.sc(), n, caseObject)
			if m == nil {
				continue
			}
			var c Case
			if e := m.get("else"); e != nil {
				x.caseTarget(&c, e)
			} else {
				w := m.get("when")
				if w == nil {
					x.fail(m.node, `the case has no condition; write "when", or "else"`)
				} else if c.When = x.expression(x.sc(), w, "when"); c.When != nil {
					x.readsExpr(x.step, x.sc(), c.When)
				} else {
					c.When = falseExpr
				}
				if t := m.get("then"); t != nil {
					x.caseTarget(&c, t)
				} else {
					x.fail(m.node, `the case leads nowhere; write "then" and a target`)
				}
			}
			m.done()
			b.Cases = append(b.Cases, c)
		}
		return
	}
	path, length := expr.ParsePath(x.main.Value)
	if x.main.Kind != yaml.ScalarNode || length == 0 || length != len(x.main.Value) {
		x.fail(x.main, `"branch" has to be a list of {when, then}, or the name of a slot with "cases"`)
		return
	}
	x.readsSlot(x.step, x.sc(), x.main, false)
	if cases == nil {
		x.fail(x.main, `the branch has no cases; write "cases" and a map from pattern to target`)
		return
	}
	m := x.builder.mapping(x.sc(), cases, "cases")
	if m == nil {
		return
	}
	if len(m.order) == 0 {
		x.fail(cases, `"cases" needs at least one pattern`)
	}
	var fallback *Case
	for _, k := range m.order {
		c := Case{Subject: path.Names, Sign: "=="}
		x.caseTarget(&c, m.vals[k])
		if k == "default" {
			c.Subject = nil
			fallback = &c
			continue
		}
		c.Sign, c.Value = x.pattern(m.keys[k])
		b.Cases = append(b.Cases, c)
	}
	if fallback != nil {
		b.Cases = append(b.Cases, *fallback)
	}
}

var falseExpr, _ = expr.Parse("false")

// caseTarget reads where a case leads. The case's own place is what targets are
// checked by, as it moves.
func (x *stepReader) caseTarget(c *Case, n *yaml.Node) {
	c.Then = *x.target(x.step, x.sc(), n)
}

// pattern reads a case's key.
func (x *stepReader) pattern(n *yaml.Node) (sign string, v expr.Value) {
	text := n.Value
	for _, sign := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		rest, ok := strings.CutPrefix(text, sign)
		if !ok {
			continue
		}
		e, err := expr.Parse(rest)
		if err == nil && e.Constant() {
			return sign, e.Eval(nil)
		}
		x.fail(n, "the pattern %q has to compare with a number or a quoted text", text)
		return sign, expr.Value{}
	}
	switch text {
	case "true", "false":
		return "==", expr.Bool(text == "true")
	case "none":
		return "==", expr.Value{}
	}
	return "==", expr.Str(text)
}

// evaluate reads the form {type: branch, evaluate: EXPR, cases: {true: …, false: …}}.
func (x *stepReader) evaluate(b *Branch, cases *yaml.Node) {
	e := x.expression(x.sc(), x.main, "evaluate")
	if e == nil || cases == nil {
		return
	}
	x.readsExpr(x.step, x.sc(), e)
	m := x.builder.mapping(x.sc(), cases, "cases")
	if m == nil {
		return
	}
	var yes, other *Case
	for _, k := range m.order {
		c := &Case{}
		x.caseTarget(c, m.vals[k])
		switch k {
		case "true":
			c.When = e
			yes = c
		case "false", "default":
			other = c
		default:
			x.fail(m.keys[k], `the cases of "evaluate" are true and false`)
		}
	}
	for _, c := range []*Case{yes, other} {
		if c != nil {
			b.Cases = append(b.Cases, *c)
		}
	}
}

func (x *stepReader) while() {
	b := &While{Body: End}
	x.step.Body = b
	b.Cond = x.expression(x.sc(), x.main, "while")
	x.readsExpr(x.step, x.sc(), b.Cond)
	if b.Cond == nil {
		b.Cond = falseExpr
	}
	if t := x.targetOf("exit"); t != nil {
		b.Exit = *t
	}
	do := x.get("do")
	if do == nil || do.Kind != yaml.SequenceNode || len(do.Content) == 0 {
		x.fail(x.main, `the loop does nothing; write at least one step under "do"`)
		return
	}
	b.Body = x.list(do, x.step.Name, x.step.Index, x.step.Index)
}

func (x *stepReader) confirm() {
	b := &Confirm{}
	x.step.Body = b
	nodes := x.names(x.sc(), x.main, "confirm")
	if x.old && x.has("slot") { // its slot takes the answer; it shows what was collected before
		b.Store = x.stores(x.main, Boolean)
		nodes = nil
		for _, s := range x.flow.Steps {
			if c, ok := s.Body.(*Collect); ok {
				for _, name := range c.Slots {
					nodes = append(nodes, &yaml.Node{Kind: yaml.ScalarNode, Value: name, Line: x.main.Line, Column: x.main.Column})
				}
			}
		}
	}
	for _, n := range nodes {
		x.readsSlot(x.step, x.sc(), n, false)
	}
	b.Slots = values(nodes)
	if len(b.Slots) == 0 {
		x.fail(x.main, `"confirm" needs at least one slot`)
	}
	b.Ask = x.response("ask", x.inline(".ask"))
	if b.Ask == nil && !x.has("ask") && !x.has("prompt") && !x.has("message") {
		x.fail(x.main, `the confirm has no question; write "ask"`)
	}
	x.readsResponse(x.step, x.sc(), b.Ask, false)
	if t := x.targetOf("on_yes"); t != nil {
		b.OnYes = *t
	}
	b.OnNo = x.targetOf("on_no")
	b.OnChange = x.targetOf("on_change")
	if x.has("max_retries") {
		b.MaxRetries = x.positive("max_retries", 0)
	}
	b.OnLimit = x.targetOf("on_limit")
	b.Store = cmp.Or(x.stores(x.get("store"), Boolean), b.Store)
	b.Deadline = x.mapping.duration("deadline", 0)
	b.OnDeadline = x.targetOf("on_deadline")
}

// flowNamed notes that a step goes to a flow, and checks its inputs and outputs once
// all flows are known.
func (x *stepReader) flowNamed(args *[]Arg, outs *[]Out) string {
	n := x.main
	if n.Kind != yaml.ScalarNode {
		x.fail(n, "a flow is given by its name; found a %s", kindName(n))
		return ""
	}
	x.used["flow "+n.Value] = true
	*args, _ = x.args(x.get("inputs"))
	if outs != nil {
		*outs = x.outs(x.get("outputs"))
	}
	x.later = append(x.later, func() {
		f, ok := x.program.Flow(n.Value)
		if !ok {
			x.fail(n, "flow %q does not exist%s", n.Value, suggest(n.Value, x.flowNames()))
			return
		}
		for _, a := range *args {
			if !slices.ContainsFunc(f.Inputs, func(p Param) bool { return p.Name == a.Name }) {
				x.fail(n, "flow %q has no input %q%s", f.Name, a.Name, suggest(a.Name, paramNames(f.Inputs)))
			}
		}
		for _, p := range f.Inputs {
			if !p.Optional && !slices.ContainsFunc(*args, func(a Arg) bool { return a.Name == p.Name }) {
				x.fail(n, "flow %q needs the input %q; give it under inputs", f.Name, p.Name)
			}
		}
		if outs == nil {
			return
		}
		for _, o := range *outs {
			if !slices.ContainsFunc(f.Outputs, func(p Param) bool { return p.Name == o.Output }) {
				x.fail(n, "flow %q has no output %q%s", f.Name, o.Output, suggest(o.Output, paramNames(f.Outputs)))
			}
		}
	})
	return n.Value
}

func (x *stepReader) call() {
	b := &Call{}
	x.step.Body = b
	b.Flow = x.flowNamed(&b.Inputs, &b.Outputs)
	b.OnError = x.targetOf("on_error")
	b.OnCancel = x.targetOf("on_cancel")
}

func (x *stepReader) link() {
	b := &Link{}
	x.step.Body = b
	b.Flow = x.flowNamed(&b.Inputs, nil)
}

// part returns the map that a step of this type is.
func (x *stepReader) part(o *object) *stepReader {
	m := x.builder.keyed(x.sc(), x.main, o)
	if m == nil {
		return nil
	}
	return &stepReader{builder: x.builder, mapping: m, step: x.step, main: x.main}
}

func (x *stepReader) instruction() *Text {
	n := x.get("instruction")
	if n == nil || n.Kind != yaml.ScalarNode || n.Value == "" {
		x.fail(x.main, `the model needs an "instruction"`)
		return &Text{}
	}
	t := x.parseText(x.sc(), n)
	x.readsText(x.step, x.sc(), t, false)
	return t
}

func (x *stepReader) generate() {
	b := &Generate{}
	x.step.Body = b
	p := x.part(generateObject)
	if p == nil {
		return
	}
	b.Instruction = p.instruction()
	b.Context = p.slotNames(p.get("context"), "context", false)
	b.MaxTokens = p.positive("max_tokens", 300)
	b.Store = p.stores(p.get("store"), String)
	p.done()
	b.Store = cmp.Or(x.stores(x.get("store"), String), b.Store)
}

func (x *stepReader) agent() {
	b := &Agent{}
	x.step.Body = b
	b.OnError = x.targetOf("on_error")
	p := x.part(agentObject)
	if p == nil {
		return
	}
	b.Instruction = p.instruction()
	for _, n := range x.names(x.sc(), p.get("tools"), "tools") {
		a := p.actionNamed(n)
		if a == nil {
			continue
		}
		if a.Effect == Irreversible {
			x.fail(n, "action %q is irreversible and can't be a tool of an agent; let the flow run it after a confirm", a.Name)
		}
		b.Tools = append(b.Tools, a)
	}
	nodes := x.names(x.sc(), p.get("may_set"), "may_set")
	for _, n := range nodes {
		x.readsSlot(x.step, x.sc(), n, true)
		x.writesTo(n.Value, "", n)
		x.later = append(x.later, func() {
			if s, ok := x.flow.Slots[n.Value]; ok && !x.flow.Allows(s, FromAgent) {
				x.fail(n, `slot %q can't be set by an agent; add "agent" to its "from"`, n.Value)
			}
		})
	}
	b.MaySet = values(nodes)
	b.MaxSteps = p.positive("max_steps", 12)
	b.ExitWhen = p.mapping.expr("exit_when")
	x.readsExprAs(x.step, x.sc(), b.ExitWhen, true)
	p.done()
}

func (x *stepReader) handoff() {
	b := &Handoff{}
	x.step.Body = b
	if x.main.Kind != yaml.ScalarNode || x.main.Value == "" {
		x.fail(x.main, `"handoff" has to be the name of a queue`)
	}
	b.Queue = x.main.Value
	b.Context = x.slotNames(x.get("context"), "context", false)
	b.Deadline = x.mapping.duration("deadline", 0)
	b.OnDeadline = x.targetOf("on_deadline")
}

func (x *stepReader) wait() {
	b := &Wait{}
	x.step.Body = b
	b.OnDeadline = x.targetOf("on_deadline")
	b.Outputs = x.outs(x.get("outputs"))
	if x.main.Kind == yaml.ScalarNode {
		b.For = x.durationOf(x.sc(), x.main, `"wait"`)
	} else if p := x.part(waitObject); p != nil {
		e := p.get("event")
		if e == nil || !name.MatchString(e.Value) {
			x.fail(x.main, `"wait" has to be a time, or {event: NAME, deadline: TIME}`)
		} else {
			b.Event = e.Value
		}
		b.Deadline = p.mapping.duration("deadline", 0)
		p.done()
	}
	for _, o := range b.Outputs {
		x.writesTo(o.Slot, Any, x.main)
	}
}

func (x *stepReader) parallel() {
	b := &Parallel{}
	x.step.Body = b
	if x.main.Kind != yaml.SequenceNode || len(x.main.Content) == 0 {
		x.fail(x.main, `"parallel" has to be a list with at least one action step`)
		return
	}
	for _, n := range x.main.Content {
		m := x.builder.keyed(x.sc(), n, parallelObject)
		if m == nil {
			continue
		}
		main := m.get("action")
		if main == nil {
			x.fail(m.node, `"parallel" holds action steps only`)
			continue
		}
		m.get("step")
		p := &stepReader{builder: x.builder, mapping: m, step: x.step, main: main}
		i := p.invoke()
		m.done()
		if i.Action == nil {
			continue
		}
		if i.Action.Effect == Irreversible {
			x.fail(main, "action %q is irreversible and can't run in parallel; run it in a step of its own after a confirm", i.Action.Name)
		}
		b.Actions = append(b.Actions, i)
	}
}
