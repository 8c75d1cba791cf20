package program

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
)

// libraryText are the patterns of repair: flows and responses in the same language,
// which an assistant's own replace.
//
//go:embed library.yaml
var libraryText []byte

// Library returns the built-in flows and responses as they are written.
func Library() File { return File{Name: "built-in/library.yaml", Text: slices.Clone(libraryText)} }

// library adds the built-in flows and responses that the assistant doesn't replace.
func (c *compiler) library() {
	src := Library()
	root := c.read(src)
	if root == nil {
		return
	}
	version, had := c.version, c.defined["version"]
	c.builtIn = true
	c.root(scope{file: src.Name}, root)
	c.builtIn = false
	c.version, c.defined["version"] = version, had
}

func (c *compiler) responses() {
	c.program.Responses = map[string]*Response{}
	sec := c.sections["responses"]
	for _, name := range sec.names {
		it := sec.items[name]
		r := &Response{Name: name, BuiltIn: it.scope.file == Library().Name, pos: at(it.scope, it.key)}
		r.Entries = c.entries(it.scope, it.value)
		c.program.Responses[name] = r
	}
	for _, section := range slices.Sorted(maps.Keys(c.sections)) {
		tag, ok := strings.CutPrefix(section, "translations.")
		if !ok {
			continue
		}
		sec := c.sections[section]
		declared := c.program.Languages.Has(tag)
		if pos := c.defined[section]; !declared && pos.File != Library().Name {
			c.add(scope{file: pos.File}, pos, false, "language %q is not declared under languages%s", tag, suggest(tag, c.tags()))
		}
		for _, name := range sec.names {
			it := sec.items[name]
			builtIn := it.scope.file == Library().Name
			r, ok := c.program.Responses[name]
			switch {
			case !declared || ok && builtIn && !r.BuiltIn:
				continue // the built-in words translate built-in words only
			case !ok:
				c.errorf(it.scope, it.key, "the translation %q translates no response%s", name, suggest(name, keysOf(c.program.Responses)))
				continue
			}
			if r.has(tag) {
				c.errorf(it.scope, it.key, "the response %q has words in %q of its own (%s:%d); keep one", name, tag, r.pos.File, r.pos.Line)
				continue
			}
			if r.In == nil {
				r.In = map[string][]Entry{}
			}
			entries := c.entries(it.scope, it.value)
			for i := range entries { // its text is in this language
				if w, ok := entries[i].Words[""]; ok {
					entries[i].Words = map[string]*Words{tag: w}
				}
			}
			r.In[tag] = entries
		}
	}
	for _, name := range sec.names {
		r := c.program.Responses[name]
		for _, tag := range c.program.Languages.Also {
			if !r.BuiltIn && r.In[tag] == nil && !r.has(tag) {
				c.add(scope{file: r.pos.File}, r.pos, true, "the response %q has no words in %q; they are said in %q until you write them", name, tag, c.program.Languages.Default)
			}
		}
	}
}

// has says whether an entry has words in a language beside its default ones.
func (r *Response) has(tag string) bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.Words[tag] != nil })
}

// entries reads a text, a map or a list of these.
func (c *compiler) entries(s scope, n *yaml.Node) []Entry {
	n = yamlvalue.Follow(n)
	if isVariations(n) {
		n = c.variations(s, n)
	}
	if n.Kind != yaml.SequenceNode {
		if e, ok := c.entry(s, n); ok {
			return []Entry{e}
		}
		return nil
	}
	if len(n.Content) == 0 {
		c.errorf(s, n, "the response has no words; write a text or a list of texts")
	}
	var out []Entry
	for _, x := range n.Content {
		if e, ok := c.entry(s, yamlvalue.Follow(x)); ok {
			out = append(out, e)
		}
	}
	return out
}

// isVariations says whether a response is written {default, variations}, as it once was.
func isVariations(n *yaml.Node) bool {
	for k := range yamlvalue.Pairs(n) {
		if variationsObject.key(k.Value) != nil {
			return true
		}
	}
	return false
}

// variations returns the list that such a response stands for.
func (c *compiler) variations(s scope, n *yaml.Node) *yaml.Node {
	m := c.keyed(s, n, variationsObject)
	list := &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Column: n.Column}
	if d := m.get("default"); d != nil {
		list.Content = append(list.Content, d)
	} else {
		c.errorf(s, n, `the response has variations and no "default"; better write a list`)
	}
	switch v := m.get("variations"); {
	case v != nil && v.Kind != yaml.SequenceNode:
		c.errorf(s, v, `"variations" has to be a list; found a %s`, kindName(v))
	case v != nil:
		list.Content = append(list.Content, v.Content...)
	}
	m.done()
	return list
}

func (c *compiler) entry(s scope, n *yaml.Node) (Entry, bool) {
	e := Entry{Words: map[string]*Words{}}
	if n.Kind == yaml.ScalarNode {
		if n.Value == "" {
			c.errorf(s, n, "the response has no words; write a text")
			return e, false
		}
		e.Words[""] = &Words{Forms: map[string]*Text{"other": c.parseText(s, n)}}
		return e, true
	}
	m := c.keyed(s, n, entryObject)
	if m == nil {
		return e, false
	}
	if t := m.get("text"); t != nil {
		e.Words[""] = c.words(s, t)
	}
	for _, tag := range c.tags() {
		if t := m.first(tag); t != nil {
			to := tag
			if tag == c.program.Languages.Default {
				to = ""
				if e.Words[""] != nil {
					c.errorf(s, m.keys[tag], `"text" and %q are the same language; keep one`, tag)
				}
			}
			e.Words[to] = c.words(s, t)
		}
	}
	e.Channels = values(c.names(s, m.get("channel"), "channel"))
	e.When = m.expr("when")
	e.Buttons = c.buttons(s, m.get("buttons"))
	if v := m.get("media"); v != nil {
		e.Media = yamlvalue.Of(v)
	}
	if v := m.get("custom"); v != nil {
		e.Custom = yamlvalue.Of(v)
	}
	if m.has("rephrase") {
		b := m.boolean("rephrase", false)
		e.Rephrase = &b
	}
	m.done()
	if len(e.Words) == 0 && e.Custom.IsNone() && e.Media.IsNone() && len(e.Buttons) == 0 {
		c.errorf(s, n, `the response has no words; write a "text"`)
		return e, false
	}
	return e, true
}

// words reads a text, or its plural forms.
func (c *compiler) words(s scope, n *yaml.Node) *Words {
	if n.Kind == yaml.ScalarNode {
		return &Words{Forms: map[string]*Text{"other": c.parseText(s, n)}}
	}
	w := &Words{Forms: map[string]*Text{}}
	m := c.keyed(s, n, wordsObject)
	if m == nil {
		return w
	}
	if w.Count = m.expr("count"); w.Count == nil && !m.has("count") {
		c.errorf(s, n, `plural forms need a "count"; write count: and the name of what is counted`)
	}
	for _, form := range pluralForms {
		if t := m.get(form); t != nil {
			w.Forms[form] = c.parseText(s, t)
		}
	}
	if w.Forms["other"] == nil {
		c.errorf(s, n, `plural forms need "other", which is said for every other number`)
	}
	m.done()
	return w
}

func (c *compiler) buttons(s scope, n *yaml.Node) []Button {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		c.errorf(s, n, `"buttons" has to be a list`)
		return nil
	}
	var out []Button
	for _, x := range n.Content {
		m := c.keyed(s, x, buttonObject)
		if m == nil {
			continue
		}
		b := Button{Label: map[string]*Text{}}
		switch l := m.get("label"); {
		case l == nil:
			c.errorf(s, m.node, `a button needs a "label"`)
		case l.Kind == yaml.ScalarNode:
			b.Label[""] = c.parseText(s, l)
		default:
			if lm := c.keyed(s, l, labelObject); lm != nil {
				for _, tag := range c.tags() {
					if t := lm.first(tag); t != nil {
						b.Label[tag] = c.parseText(s, t)
					}
				}
				lm.done()
			}
		}
		if v := m.get("value"); v != nil {
			value := yamlvalue.Of(v)
			b.Value = &value
		}
		b.Start = m.flowName("start")
		if v := m.get("slots"); v != nil {
			if sm := c.mapping(s, v, "slots"); sm != nil {
				b.Slots = map[string]expr.Value{}
				for _, k := range sm.order {
					b.Slots[k] = yamlvalue.Of(sm.vals[k])
				}
			}
		}
		if v := m.get("commands"); v != nil {
			if v.Kind != yaml.SequenceNode {
				c.errorf(s, v, `"commands" has to be a list of commands`)
			} else {
				for _, x := range v.Content {
					value := yamlvalue.Of(x)
					if t, ok := value.Get("type"); !ok || t.Kind() != expr.Text {
						c.errorf(s, x, `a command has to be a map with a "type"`)
					}
					b.Commands = append(b.Commands, value)
				}
			}
		}
		if b.Value == nil && b.Start == "" && b.Commands == nil {
			c.errorf(s, m.node, `a button needs what it answers: "value", "start" or "commands"`)
		}
		m.done()
		out = append(out, b)
	}
	return out
}

// response reads what is said: the name of a response, or {text: …} in place. In an
// earlier spelling of the key a scalar is a text.
func (m *mapping) response(key, inline string) *Response {
	n := m.get(key)
	if n == nil {
		return nil
	}
	return m.c.said(m.scope, n, inline, !m.has(key))
}

func (c *compiler) said(s scope, n *yaml.Node, inline string, words bool) *Response {
	if n.Kind == yaml.ScalarNode && !words {
		r, ok := c.program.Responses[n.Value]
		if !ok {
			c.errorf(s, n, "response %q does not exist%s; own words are written {text: …}", n.Value, suggest(n.Value, keysOf(c.program.Responses)))
			return nil
		}
		c.used["response "+n.Value] = true
		return r
	}
	return &Response{Name: inline, Inline: true, BuiltIn: c.builtIn, Entries: c.entries(s, n), pos: at(s, n)}
}

// texts calls visit for every text and expression of a response.
func (r *Response) texts(text func(*Text), ex func(*expr.Expr)) {
	walk := func(entries []Entry) {
		for _, e := range entries {
			if e.When != nil {
				ex(e.When)
			}
			for _, tag := range slices.Sorted(maps.Keys(e.Words)) {
				w := e.Words[tag]
				if w.Count != nil {
					ex(w.Count)
				}
				for _, form := range slices.Sorted(maps.Keys(w.Forms)) {
					text(w.Forms[form])
				}
			}
			for _, b := range e.Buttons {
				for _, tag := range slices.Sorted(maps.Keys(b.Label)) {
					text(b.Label[tag])
				}
			}
		}
	}
	walk(r.Entries)
	for _, tag := range slices.Sorted(maps.Keys(r.In)) {
		walk(r.In[tag])
	}
}
