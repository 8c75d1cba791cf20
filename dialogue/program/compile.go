package program

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
	"github.com/superstep-dev/superstep/dialogue/language"
)

// Versions that the language knows.
var versions = []string{"2.0", "1.0", "0.1"}

// Compile compiles an assistant from its files. If there are errors, the error is
// [Findings] with every one of them, and the warnings.
func Compile(sources ...File) (*Program, error) {
	c := &compiler{
		program:  &Program{former: map[string]string{}},
		sections: map[string]*section{},
		defined:  map[string]Position{},
		exprs:    map[*expr.Expr]placed{},
		used:     map[string]bool{},
	}
	for _, name := range []string{"flows", "slots", "session", "actions", "responses"} {
		c.sections[name] = &section{items: map[string]item{}}
	}
	sources = slices.Clone(sources)
	slices.SortFunc(sources, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	c.defaults()
	var last scope
	var lastRoot *yaml.Node
	unread := false
	for _, src := range sources {
		found := len(c.findings)
		root := c.read(src)
		if root == nil {
			unread = unread || len(c.findings) > found
			if lastRoot == nil {
				last.file = src.Name
			}
			continue
		}
		last, lastRoot = scope{file: src.Name}, root
		c.root(last, root)
	}
	if unread { // what it defines is not known, so that nothing can be said to be missing
		return nil, c.findings.sorted()
	}
	if _, ok := c.defined["version"]; !ok {
		c.errorf(last, lastRoot, `the version is missing; write version: "2.0"`)
	}
	if len(c.sections["flows"].names) == 0 {
		c.errorf(last, lastRoot, "there is no flow; write at least one under flows")
	}
	own := map[string]bool{}
	for _, n := range c.sections["flows"].names {
		own[n] = true
	}
	c.library()
	c.responses()
	c.slots()
	c.actions()
	c.flows()
	for _, n := range c.sections["flows"].names {
		if own[n] {
			c.program.Order = append(c.program.Order, n)
		}
	}
	c.check()
	findings := c.findings.sorted()
	if len(findings.Errors()) > 0 {
		return nil, findings
	}
	c.program.Warnings = findings
	for _, f := range c.program.Flows {
		f.Hash = c.program.hash(f)
	}
	if c.program.Name == "" {
		c.program.Name = "assistant"
	}
	return c.program, nil
}

// defaults gives the settings the values that the vocabulary says, as if they were written.
func (c *compiler) defaults() {
	c.program.Languages.Default = "en"
	c.program.Settings = Settings{Models: map[string]Model{}, Persistence: map[string]string{}}
	c.program.Patterns = Patterns{Resume: "immediate", Flows: map[string]string{}}
	for _, o := range slices.Concat(settingObjects, patternObjects) {
		m := &mapping{c: c, object: o, vals: map[string]*yaml.Node{}}
		for _, k := range o.keys {
			if k.fallback != "" {
				m.vals[k.name] = &yaml.Node{Kind: yaml.ScalarNode, Value: k.fallback}
			}
		}
		m.store()
	}
}

// store reads the keys that say where their values go.
func (m *mapping) store() {
	for _, k := range m.object.keys {
		if k.to == nil {
			continue
		}
		switch to := k.to(m.c.program).(type) {
		case *int:
			*to = m.positive(k.name, *to)
		case *bool:
			*to = m.boolean(k.name, *to)
		case *time.Duration:
			*to = m.duration(k.name, *to)
		case *Target:
			*to = m.limit(k.name, *to)
		case *string:
			switch {
			case k.is.choice != nil:
				*to = m.choice(k.name, *to)
			case k.is.words == aFlow.words:
				*to = m.flowName(k.name)
			default:
				*to = cmp.Or(m.text(k.name), *to)
			}
		}
	}
}

// once says whether a key that may be given once is given the first time.
func (c *compiler) once(s scope, key string, n *yaml.Node) bool {
	if first, ok := c.defined[key]; ok && !c.builtIn {
		c.errorf(s, n, "%q is given twice, first in %s; keep one", key, first)
		return false
	}
	c.defined[key] = at(s, n)
	return true
}

// root reads the top level of one file.
func (c *compiler) root(s scope, n *yaml.Node) {
	m := c.keyed(s, n, rootObject)
	if m == nil {
		return
	}
	if v := m.get("version"); v != nil && c.once(s, "version", m.keys["version"]) {
		c.version = v.Value
		if !slices.Contains(versions, v.Value) {
			c.errorf(s, v, "unsupported version %q; use \"2.0\"", v.Value)
		}
	}
	for _, key := range []string{"name", "description"} {
		if v := m.get(key); v != nil && c.once(s, key, m.keys[key]) {
			text := m.text(key)
			if key == "name" {
				c.program.Name = text
			} else {
				c.program.Description = text
			}
		}
	}
	if v := m.get("languages"); v != nil && c.once(s, "languages", m.keys["languages"]) {
		c.languages(s, v)
	}
	if v := m.get("settings"); v != nil {
		c.settings(s, v)
	}
	if v := m.get("patterns"); v != nil {
		c.patterns(s, v)
	}
	for _, name := range []string{"session", "slots", "actions", "responses", "flows"} {
		if v := m.get(name); v != nil {
			c.unite(s, name, v)
		}
	}
	if v := m.get("translations"); v != nil {
		if t := c.mapping(s, v, "translations"); t != nil {
			for _, tag := range t.order {
				c.unite(s, "translations."+tag, t.vals[tag])
				if _, ok := c.defined["translations."+tag]; !ok {
					c.defined["translations."+tag] = at(s, t.keys[tag])
				}
			}
		}
	}
	m.done()
}

// unite adds the names of a section to those of other files.
func (c *compiler) unite(s scope, name string, n *yaml.Node) {
	sec := c.sections[name]
	if sec == nil {
		sec = &section{items: map[string]item{}}
		c.sections[name] = sec
	}
	if name == "slots" && n.Kind == yaml.SequenceNode {
		n = c.byName(s, n)
	}
	if n.Kind == yaml.ScalarNode && yamlvalue.Scalar(n).IsNone() {
		return
	}
	m := c.mapping(s, n, name)
	if m == nil {
		return
	}
	what := strings.TrimSuffix(strings.SplitN(name, ".", 2)[0], "s")
	for _, k := range m.order {
		if !c.checkName(s, m.keys[k], "a "+what) {
			continue
		}
		if c.builtIn { // what is built in says its responses, or those in their place
			c.used[what+" "+k] = true
		}
		if first, ok := sec.items[k]; ok {
			if !c.builtIn {
				c.errorf(s, m.keys[k], "the %s %q is defined twice, first in %s:%d:%d; keep one", what, k, first.scope.file, first.key.Line, first.key.Column)
			}
			continue
		}
		sec.names = append(sec.names, k)
		sec.items[k] = item{scope: s, key: m.keys[k], value: m.vals[k]}
	}
}

// byName returns the map that a list of {name, …} stands for.
func (c *compiler) byName(s scope, list *yaml.Node) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Line: list.Line, Column: list.Column}
	for _, x := range list.Content {
		x = yamlvalue.Follow(x)
		rest := *x
		rest.Content = nil
		for k, v := range yamlvalue.Pairs(x) {
			if k.Value != "name" {
				rest.Content = append(rest.Content, k, v)
			} else if v.Kind == yaml.ScalarNode {
				m.Content = append(m.Content, v)
			}
		}
		if len(m.Content)%2 == 0 {
			c.errorf(s, x, `a slot of a list needs a "name"; better write a map from name to slot`)
			continue
		}
		m.Content = append(m.Content, &rest)
	}
	return m
}

func (c *compiler) languages(s scope, n *yaml.Node) {
	m := c.keyed(s, n, languagesObject)
	if m == nil {
		return
	}
	check := func(n *yaml.Node) bool {
		if n.Kind != yaml.ScalarNode {
			c.errorf(s, n, "a language has to be a BCP-47 tag such as en or de-AT; found a %s", kindName(n))
			return false
		}
		if !language.Valid(n.Value) {
			c.errorf(s, n, "%q is no language; write a BCP-47 tag such as en or de-AT", n.Value)
			return false
		}
		return true
	}
	if d := m.get("default"); d != nil && check(d) {
		c.program.Languages.Default = d.Value
	}
	for _, a := range c.names(s, m.get("also"), "also") {
		if check(a) && !c.program.Languages.Has(a.Value) {
			c.program.Languages.Also = append(c.program.Languages.Also, a.Value)
		}
	}
	m.done()
}

// group reads one key of settings, which may be given once in all files.
func (m *mapping) group(o *object) *mapping {
	_, name, _ := strings.Cut(o.name, ".")
	n := m.get(name)
	if n == nil || !m.c.once(m.scope, o.name, m.written(name)) {
		return nil
	}
	return m.c.keyed(m.scope, n, o)
}

// written returns the key as it is spelled.
func (m *mapping) written(name string) *yaml.Node {
	for _, spelling := range append([]string{name}, m.object.key(name).old...) {
		if n := m.keys[spelling]; n != nil {
			return n
		}
	}
	return nil
}

func (c *compiler) settings(s scope, n *yaml.Node) {
	m := c.keyed(s, n, settingsObject)
	if m == nil {
		return
	}
	x := &c.program.Settings
	for _, o := range settingObjects {
		if g := m.group(o); g != nil {
			g.store()
			g.done()
		}
	}
	if g := m.group(modelsObject); g != nil {
		for _, k := range modelsObject.keys {
			purpose := k.name
			v := g.get(purpose)
			if v == nil {
				continue
			}
			if d := c.keyed(s, v, modelObject); d != nil {
				mod := Model{Provider: d.text("provider"), Model: d.text("model")}
				if t := d.get("temperature"); t != nil {
					var ok bool
					if mod.Temperature, ok = yamlvalue.Scalar(t).Num(); !ok {
						c.errorf(s, t, `"temperature" has to be a number`)
					}
				}
				d.done()
				x.Models[purpose] = mod
			}
		}
		g.done()
	}
	if g := m.group(persistenceObject); g != nil {
		x.Persistence["backend"] = g.choice("backend", "memory")
		for _, k := range []string{"path", "connection"} {
			if v := g.text(k); v != "" {
				x.Persistence[k] = v
			}
		}
		g.done()
	}
	m.done()
}

// flow reads the name of a flow that is checked once all flows are known.
func (m *mapping) flowName(key string) string {
	n := m.get(key)
	if n == nil || n.Kind == yaml.ScalarNode && n.Value == "none" {
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		m.c.errorf(m.scope, n, "%q has to be the name of a flow", key)
		return ""
	}
	m.c.later = append(m.c.later, func() {
		if _, ok := m.c.program.Flow(n.Value); !ok {
			m.c.errorf(m.scope, n, "flow %q does not exist%s", n.Value, suggest(n.Value, m.c.flowNames()))
		}
	})
	return n.Value
}

// limit reads what happens at a limit: cancel, handoff, or a step where steps are known.
func (m *mapping) limit(key string, fallback Target) Target {
	n := m.get(key)
	if n == nil {
		return fallback
	}
	k, ok := targetWords[n.Value]
	if n.Kind != yaml.ScalarNode || !ok || k == ToContinue {
		m.c.errorf(m.scope, n, "%q has to be cancel, handoff, end or error", key)
		return fallback
	}
	return Target{Kind: k, pos: at(m.scope, n)}
}

func (c *compiler) patterns(s scope, n *yaml.Node) {
	m := c.keyed(s, n, patternsObject)
	if m == nil {
		return
	}
	x := &c.program.Patterns
	for _, pattern := range patternObjects {
		_, name, _ := strings.Cut(pattern.name, ".")
		v := m.get(name)
		if v == nil || !c.once(s, pattern.name, m.written(name)) {
			continue
		}
		switch name { // those that may be one word
		case "resume":
			if v.Kind == yaml.ScalarNode {
				if !slices.Contains(aResume.choice, v.Value) {
					c.errorf(s, v, `"resume" has to be immediate, ask or announce`)
				} else {
					x.Resume = v.Value
				}
				continue
			}
		case "several_starts":
			if !slices.Contains(anOrder.choice, v.Value) {
				c.errorf(s, v, `"several_starts" has to be first or last`)
			}
			x.LastFirst = v.Value == "last"
			continue
		}
		g := c.keyed(s, v, pattern)
		if g == nil {
			continue
		}
		if flow := g.flowName("flow"); flow != "" {
			x.Flows[name] = flow
		}
		g.store()
		g.done()
	}
	m.done()
}

func (c *compiler) slots() {
	p := c.program
	p.Session, p.Slots = map[string]*Slot{}, map[string]*Slot{}
	for _, name := range c.sections["session"].names {
		it := c.sections["session"].items[name]
		if s := c.slot(it.scope, name, it.key, it.value, nil, 0); s != nil {
			p.Session[name] = s
		}
	}
	for _, name := range c.sections["slots"].names {
		it := c.sections["slots"].items[name]
		if s := c.slot(it.scope, name, it.key, it.value, c.sections["slots"].items, 0); s != nil {
			p.Slots[name] = s
		}
	}
}

var reservedNames = []string{"session", "turn", "flow", "error", "repair", "option", "and", "or", "not", "in", "if", "else", "true", "false", "none"}

// slot reads a slot. Those that it may extend are in others.
func (c *compiler) slot(s scope, name string, key, n *yaml.Node, others map[string]item, depth int) *Slot {
	if slices.Contains(reservedNames, name) {
		c.errorf(s, key, "%q is reserved and can't name a slot; choose another name", name)
		return nil
	}
	slot := &Slot{Type: String, Required: true, Eager: true}
	if n.Kind == yaml.ScalarNode && yamlvalue.Scalar(n).IsNone() {
		slot.Name, slot.pos = name, at(s, key)
		return slot
	}
	m := c.keyed(s, n, slotObject)
	if m == nil {
		return nil
	}
	if e := m.get("extends"); e != nil {
		base, ok := others[e.Value]
		switch {
		case !ok:
			c.errorf(s, e, "slot %q does not exist%s", e.Value, suggest(e.Value, keysOf(others)))
		case depth == 0 && extendsItself(name, e, others):
			c.errorf(s, e, "slot %q extends itself; end the chain", name)
		case depth > len(others):
		default:
			quiet := len(c.findings) // its own mistakes are reported once
			if b := c.slot(base.scope, e.Value, base.key, base.value, others, depth+1); b != nil {
				slot = b
			}
			c.findings = c.findings[:quiet]
		}
	}
	slot.Name, slot.pos = name, at(s, key)
	if t := m.get("type"); t != nil {
		slot.Type = c.typeOf(s, t)
	}
	if t := m.get("items"); t != nil {
		slot.Items = c.typeOf(s, t)
	}
	if d := m.text("description"); d != "" {
		slot.Description = d
	}
	if e := m.get("examples"); e != nil {
		slot.Examples = values(c.names(s, e, "examples"))
	}
	if r := m.response("ask", name+".ask"); r != nil {
		slot.Ask = r
	}
	if r := m.response("explain", name+".explain"); r != nil {
		slot.Explain = r
	}
	if r := m.response("invalid", name+".invalid"); r != nil {
		slot.Invalid = r
	}
	if o := m.get("options"); o != nil {
		slot.Options = c.options(s, o, slot.Type)
	}
	for key, to := range map[string]**expr.Value{"minimum": &slot.Minimum, "maximum": &slot.Maximum, "exclusive_minimum": &slot.ExclusiveMinimum, "exclusive_maximum": &slot.ExclusiveMaximum} {
		b := m.get(key)
		if b == nil {
			continue
		}
		v := yamlvalue.Scalar(b)
		_, isNumber := v.Num()
		_, isText := v.Str()
		numeric := slot.Type == Number || slot.Type == Integer
		dated := slot.Type == Date || slot.Type == Time || slot.Type == DateTime
		if !(numeric && isNumber || dated && isText) {
			c.errorf(s, b, "%q has to be a number for a number, a date for a date; the slot is a %s", key, slot.Type)
			continue
		}
		if dated { // in the form in which values are kept, with which it is compared
			text, _ := v.Str()
			at, ok := dateBound(slot.Type, text)
			if !ok {
				c.errorf(s, b, "%q can't be %q, which is no %s; write it as %s", key, text, slot.Type, map[Type]string{Date: "2026-01-31", Time: "09:30", DateTime: "2026-01-31T09:30:00"}[slot.Type])
				continue
			}
			v = expr.Str(at)
		}
		*to = &v
	}
	for _, low := range []*expr.Value{slot.Minimum, slot.ExclusiveMinimum} {
		for _, high := range []*expr.Value{slot.Maximum, slot.ExclusiveMaximum} {
			if low != nil && high != nil {
				if o, ok := low.Order(*high); ok && o > 0 {
					c.errorf(s, m.node, "the minimum %s is above the maximum %s; swap them", *low, *high)
				}
			}
		}
	}
	if l := m.get("length"); l != nil {
		c.length(s, l, slot)
	}
	if f := m.get("format"); f != nil {
		slot.Format = f.Value
		if !slices.Contains(language.Formats, f.Value) {
			c.errorf(s, f, "unknown format %q%s", f.Value, suggest(f.Value, language.Formats))
			slot.Format = ""
		}
	}
	if v := m.get("validate"); v != nil {
		slot.Validate = values(c.names(s, v, "validate"))
	} else if old := slices.Concat(c.names(s, m.get("normalizer"), "normalizer"), c.names(s, m.get("validator"), "validator")); old != nil {
		slot.Validate = values(old)
	}
	slot.Required = m.boolean("required", slot.Required)
	slot.Eager = m.boolean("eager", slot.Eager)
	slot.Sensitive = m.boolean("sensitive", slot.Sensitive)
	if f := m.get("from"); f != nil {
		slot.From = []Source{}
		for _, n := range c.names(s, f, "from") {
			if !slices.Contains(sources, Source(n.Value)) {
				c.errorf(s, n, "unknown source %q%s", n.Value, suggest(n.Value, stringsOf(sources)))
				continue
			}
			slot.From = append(slot.From, Source(n.Value))
		}
	}
	if d := m.get("default"); d != nil {
		v := yamlvalue.Of(d)
		checked, reason := slot.Check(v, language.Of(c.program.Languages.Default))
		if reason != "" {
			c.errorf(s, d, "the default is outside the slot's own rules: %s", reason)
		}
		slot.Default = &checked
	}
	m.done()
	return slot
}

// extendsItself says whether a chain of slots has no end.
func extendsItself(name string, e *yaml.Node, others map[string]item) bool {
	for range len(others) + 1 {
		base, ok := others[e.Value]
		if !ok || e.Value == name {
			return ok
		}
		if e = yamlvalue.Get(yamlvalue.Follow(base.value), "extends"); e == nil {
			return false
		}
	}
	return true
}

func keysOf[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func stringsOf[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

var oldTypes = map[string]Type{"float": Number, "text": String, "bool": Boolean, "int": Integer}

func (c *compiler) typeOf(s scope, n *yaml.Node) Type {
	n = yamlvalue.Follow(n)
	if t, ok := oldTypes[n.Value]; ok {
		return t
	}
	if n.Kind != yaml.ScalarNode || !slices.Contains(types, Type(n.Value)) {
		c.errorf(s, n, "unknown type %q%s", n.Value, suggest(n.Value, stringsOf(types)))
		return Any
	}
	return Type(n.Value)
}

func (c *compiler) length(s scope, n *yaml.Node, slot *Slot) {
	if v, ok := yamlvalue.Scalar(n).Num(); ok && v >= 1 && v == float64(int(v)) {
		slot.MinLength, slot.MaxLength = int(v), int(v)
		return
	}
	if n.Kind != yaml.MappingNode {
		c.errorf(s, n, `"length" has to be a whole number above zero, or {min, max}`)
		return
	}
	m := c.keyed(s, n, lengthObject)
	slot.MinLength, slot.MaxLength = m.positive("min", 0), m.positive("max", 0)
	if slot.MaxLength > 0 && slot.MinLength > slot.MaxLength {
		c.errorf(s, n, "the minimum length %d is above the maximum %d; swap them", slot.MinLength, slot.MaxLength)
	}
	m.done()
}

func (c *compiler) options(s scope, n *yaml.Node, t Type) []Option {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		c.errorf(s, n, `"options" has to be a list with at least one value`)
		return nil
	}
	var out []Option
	for _, x := range n.Content {
		x = yamlvalue.Follow(x)
		var o Option
		if x.Kind == yaml.MappingNode {
			m := c.keyed(s, x, optionObject)
			v := m.get("value")
			if v == nil {
				c.errorf(s, x, `an option needs a "value"`)
				continue
			}
			o.Value = yamlvalue.Of(v)
			if t == String {
				o.Value = asText(v)
			}
			if l := m.get("label"); l != nil {
				o.Label = c.byLanguage(s, l, "label")
			}
			o.Synonyms = values(c.names(s, m.get("synonyms"), "synonyms"))
			m.done()
		} else {
			o.Value = yamlvalue.Of(x)
			if t == String {
				o.Value = asText(x)
			}
		}
		for _, other := range out {
			if other.Value.Equal(o.Value) {
				c.errorf(s, x, "the option %q is given twice; keep one", o.Value)
			}
		}
		out = append(out, o)
	}
	return out
}

// asText returns a scalar's text as it is written.
func asText(n *yaml.Node) expr.Value {
	if n.Kind == yaml.ScalarNode {
		return expr.Str(n.Value)
	}
	return yamlvalue.Of(n)
}

// byLanguage reads a text, or a map from language to text.
func (c *compiler) byLanguage(s scope, n *yaml.Node, what string) map[string]string {
	if n.Kind == yaml.ScalarNode {
		return map[string]string{"": n.Value}
	}
	m := c.mapping(s, n, what)
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for _, tag := range m.order {
		if !c.program.Languages.Has(tag) {
			c.errorf(s, m.keys[tag], "language %q is not declared under languages%s", tag, suggest(tag, c.tags()))
			continue
		}
		if v := m.vals[tag]; v.Kind == yaml.ScalarNode {
			out[tag] = v.Value
		} else {
			c.errorf(s, v, "this has to be a text; found a %s", kindName(v))
		}
	}
	return out
}

func (c *compiler) tags() []string {
	return append([]string{c.program.Languages.Default}, c.program.Languages.Also...)
}

// IsCommand says whether every program has a command of the name.
func IsCommand(name string) bool {
	switch name {
	case "start_flow", "cancel_flow", "complete_flow", "set_slot", "correct_slot", "clear_slot", "affirm", "deny", "select", "next_option",
		"repeat", "skip", "resume", "clarify", "question", "chitchat", "out_of_scope", "handoff", "set_language":
		return true
	}
	return false
}

// dateBound returns a bound of a date or a time as values of the type are kept. A day bounds
// times of any hour.
func dateBound(t Type, text string) (string, bool) {
	l := language.Of("en")
	switch t {
	case Time:
		return l.ParseTime(text)
	case DateTime:
		if at, ok := l.ParseDateTime(text); ok {
			return at, true
		}
	}
	return l.ParseDate(text)
}

func (c *compiler) actions() {
	c.program.Actions = map[string]*Action{}
	sec := c.sections["actions"]
	for _, name := range sec.names {
		it := sec.items[name]
		a := &Action{Name: name, Effect: Write, Timeout: 30 * time.Second, Retry: Retry{MaxAttempts: 1}, pos: at(it.scope, it.key)}
		c.program.Actions[name] = a
		if it.value.Kind == yaml.ScalarNode && yamlvalue.Scalar(it.value).IsNone() {
			continue
		}
		m := c.keyed(it.scope, it.value, actionObject)
		if m == nil {
			continue
		}
		a.Description = m.text("description")
		a.Inputs = c.params(it.scope, m.get("inputs"), "inputs")
		a.Outputs = c.params(it.scope, m.get("outputs"), "outputs")
		a.Effect = Effect(m.choice("effect", string(Write)))
		if a.Guard = m.expr("guard"); a.Guard != nil {
			c.later = append(c.later, func() { c.guarded(it.scope, a) })
		}
		a.Timeout = m.duration("timeout", a.Timeout)
		if r := m.get("retry"); r != nil {
			a.Retry = c.retry(it.scope, r)
		}
		if n := m.get("command"); n != nil {
			switch a.Command = m.text("command"); {
			case a.Effect == Irreversible:
				c.errorf(it.scope, n, "action %q is irreversible and can't be a command; write a flow with a confirm", name)
			case IsCommand(name):
				c.errorf(it.scope, n, "%q is a command already; give the action another name", name)
			}
			c.used["action "+name], c.used["response "+name] = true, true
		}
		if n := m.get("compensate"); n != nil {
			a.Compensate = n.Value
			c.later = append(c.later, func() {
				if _, ok := c.program.Actions[n.Value]; !ok {
					c.errorf(it.scope, n, "action %q does not exist%s", n.Value, suggest(n.Value, keysOf(c.program.Actions)))
				}
			})
		}
		m.done()
	}
}

// guarded checks the names in an action's guard: its inputs, slots of flows, and session
// values.
func (c *compiler) guarded(s scope, a *Action) {
	b := &builder{compiler: c, scope: s, flow: &Flow{Name: a.Name, Slots: map[string]*Slot{}}}
	for _, f := range c.program.Flows {
		for name := range f.Slots {
			b.flow.Slots[name] = &Slot{Name: name, Type: Any} // in each flow it may be another one
		}
	}
	for _, p := range a.Inputs {
		b.flow.Slots[p.Name] = &Slot{Name: p.Name, Type: p.Type}
	}
	b.readsExprAs(nil, s, a.Guard, true)
	for _, u := range b.uses {
		switch slot, key, ok := b.lookup(u.path.Names); {
		case !ok:
			b.unknown(u, slot)
		case slot != nil:
			c.used["slot "+key] = true
		}
	}
}

// expr reads an expression.
func (m *mapping) expr(key string) *expr.Expr {
	n := m.get(key)
	if n == nil {
		return nil
	}
	return m.c.expression(m.scope, n, key)
}

// expression reads a scalar as an expression. A text in {{ … }} is read without them.
func (c *compiler) expression(s scope, n *yaml.Node, what string) *expr.Expr {
	n = yamlvalue.Follow(n)
	if n.Kind != yaml.ScalarNode {
		c.errorf(s, n, "%q has to be an expression; found a %s", what, kindName(n))
		return nil
	}
	e := c.parseExpr(s, n, n.Value, 0)
	if e != nil {
		c.exprs[e] = placed{scope: s, node: n}
	}
	return e
}

// params reads a list of names, or a map from name to type. A name that ends in ? is
// optional.
func (c *compiler) params(s scope, n *yaml.Node, what string) []Param {
	if n == nil {
		return nil
	}
	var out []Param
	add := func(k *yaml.Node, t Type) {
		name, optional := strings.CutSuffix(k.Value, "?")
		key := *k
		key.Value = name
		if !c.checkName(s, &key, "one of "+what) {
			return
		}
		if slices.ContainsFunc(out, func(p Param) bool { return p.Name == name }) {
			c.errorf(s, k, "%q is given twice in %s; keep one", name, what)
			return
		}
		out = append(out, Param{Name: name, Type: t, Optional: optional})
	}
	if n.Kind == yaml.MappingNode {
		m := c.mapping(s, n, what)
		for _, k := range m.order {
			add(m.keys[k], c.typeOf(s, m.vals[k]))
		}
		return out
	}
	for _, k := range c.names(s, n, what) {
		add(k, Any)
	}
	return out
}

func (c *compiler) retry(s scope, n *yaml.Node) Retry {
	r := Retry{MaxAttempts: 1, Delay: 500 * time.Millisecond, Backoff: "fixed", MaxDelay: 8 * time.Second}
	m := c.keyed(s, n, retryObject)
	if m == nil {
		return r
	}
	r.MaxAttempts = m.positive("max_attempts", 1)
	r.Delay = m.duration("delay", r.Delay)
	r.Backoff = m.choice("backoff", r.Backoff)
	r.MaxDelay = m.duration("max_delay", r.MaxDelay)
	r.On = values(c.names(s, m.get("retry_on"), "retry_on"))
	m.done()
	return r
}
