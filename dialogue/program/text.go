package program

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
)

// Text is a template: words with values put in.
type Text struct {
	parts []part
	node  *yaml.Node
	scope scope
}

type part struct {
	literal string
	path    expr.Path
	format  string
	expr    *expr.Expr
	offset  int
}

// String returns the template as it is written.
func (t *Text) String() string { return t.node.Value }

// MarshalText returns the template as it is written.
func (t *Text) MarshalText() ([]byte, error) { return []byte(t.node.Value), nil }

// Scene is what a text is rendered in.
type Scene interface {
	expr.Env
	// Language is that of the reply.
	Language() language.Language
	// Label returns what a reply calls the value of a slot that has options.
	Label(path []string, value expr.Value) string
}

// Watcher is a [Scene] that is told which text is put in for a path.
type Watcher interface {
	Inserted(path []string, text string)
}

var formats = []string{"money", "number", "date", "time", "datetime", "label", "lines", "list", "masked", "upper", "lower"}

var formatName = regexp.MustCompile(`^:[a-z_]+`)

// parseText reads a template. Mistakes are reported; what can be read is kept.
func (c *compiler) parseText(s scope, n *yaml.Node) *Text {
	t := &Text{node: n, scope: s}
	if n.Kind != yaml.ScalarNode {
		c.errorf(s, n, "this has to be a text; found a %s", kindName(n))
		return t
	}
	src := n.Value
	start := 0
	literal := func(end int) {
		if end > start {
			t.parts = append(t.parts, part{literal: src[start:end]})
		}
	}
	for i := 0; i < len(src); {
		if src[i] != '{' {
			i++
			continue
		}
		if strings.HasPrefix(src[i:], "{{") {
			end := closing(src, i+2)
			if end < 0 {
				c.add(s, inside(s, n, i), false, `"{{" is not closed; end the expression with "}}"`)
				break
			}
			literal(i)
			if e := c.parseExpr(s, n, src[i+2:end], i+2); e != nil {
				t.parts = append(t.parts, part{expr: e, offset: i + 2})
			}
			i = end + 2
			start = i
			continue
		}
		path, length := expr.ParsePath(src[i+1:])
		after := i + 1 + length
		if length == 0 {
			i++
			continue
		}
		format := formatName.FindString(src[after:])
		end := after + len(format)
		if end >= len(src) || src[end] != '}' {
			i++
			continue
		}
		literal(i)
		if format != "" {
			format = format[1:]
			if !slices.Contains(formats, format) {
				c.add(s, inside(s, n, after+1), false, "unknown format %q%s", format, suggest(format, formats))
			}
		}
		t.parts = append(t.parts, part{path: path, format: format, offset: i + 1})
		i = end + 1
		start = i
	}
	literal(len(src))
	return t
}

// closing returns where the expression that starts at i is closed, outside its texts.
func closing(s string, i int) int {
	var quote byte
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(s[i:], "}}"):
			return i
		}
	}
	return -1
}

// parseExpr parses an expression that stands in a scalar at an offset.
func (c *compiler) parseExpr(s scope, n *yaml.Node, source string, offset int) *expr.Expr {
	e, err := expr.Parse(source)
	if err != nil {
		if bad := (*expr.SyntaxError)(nil); errors.As(err, &bad) {
			c.add(s, inside(s, n, offset+bad.Offset), false, "cannot read the expression: %s", bad.Reason)
		}
		return nil
	}
	return e
}

// whole returns the expression that the whole text is, nil if it is none.
func (t *Text) whole() *expr.Expr {
	var found *expr.Expr
	for _, p := range t.parts {
		switch {
		case p.expr != nil && found == nil:
			found = p.expr
		case p.expr == nil && strings.TrimSpace(p.literal) == "" && len(p.path.Names) == 0:
		default:
			return nil
		}
	}
	return found
}

// Fixed returns the text if nothing is put into it.
func (t *Text) Fixed() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].expr == nil && len(t.parts[0].path.Names) == 0:
		return t.parts[0].literal, true
	}
	return "", false
}

// Reads returns the paths that the text looks at.
func (t *Text) Reads() []expr.Path {
	var paths []expr.Path
	for _, p := range t.parts {
		switch {
		case p.expr != nil:
			paths = append(paths, p.expr.Reads()...)
		case len(p.path.Names) > 0:
			paths = append(paths, p.path)
		}
	}
	return paths
}

// Render puts the values into the text. A path without a value stays as it is written;
// what was put in is never read again.
func (t *Text) Render(s Scene) string {
	text, _ := t.Fill(s)
	return text
}

// Fill is Render; it also returns the texts that were put in, in their order.
func (t *Text) Fill(s Scene) (text string, values []string) {
	watcher, watched := s.(Watcher)
	var b strings.Builder
	put := func(v string) {
		b.WriteString(v)
		values = append(values, v)
	}
	for _, p := range t.parts {
		switch {
		case p.expr != nil:
			put(format(s, nil, p.expr.Eval(s), ""))
		case len(p.path.Names) > 0:
			v, ok := s.Lookup(p.path.Names)
			if ok {
				text := format(s, p.path.Names, v, p.format)
				put(text)
				if watched && p.format != "masked" {
					watcher.Inserted(p.path.Names, text)
				}
				continue
			}
			b.WriteString("{" + p.path.String())
			if p.format != "" {
				b.WriteString(":" + p.format)
			}
			b.WriteString("}")
		default:
			b.WriteString(p.literal)
		}
	}
	return b.String(), values
}

func format(s Scene, path []string, v expr.Value, how string) string {
	l := s.Language()
	plain := func(v expr.Value) string {
		if b, ok := v.Bool(); ok {
			return l.FormatBool(b)
		}
		return v.String()
	}
	switch how {
	case "money", "number":
		n, ok := v.AsNumber()
		if !ok {
			return plain(v)
		}
		if how == "money" {
			return l.FormatMoney(n)
		}
		return l.FormatNumber(n)
	case "date":
		return l.FormatDate(v.String())
	case "time":
		return l.FormatTime(v.String())
	case "datetime":
		return l.FormatDateTime(v.String())
	case "label":
		return s.Label(path, v)
	case "masked":
		return Mask(v.String())
	case "upper":
		return strings.ToUpper(plain(v))
	case "lower":
		return strings.ToLower(plain(v))
	}
	if v.Kind() == expr.List {
		items := v.Items()
		texts := make([]string, len(items))
		for i, x := range items {
			texts[i] = plain(x)
		}
		if how == "lines" {
			return strings.Join(texts, "\n")
		}
		return strings.Join(texts, ", ")
	}
	return plain(v)
}

// Mask hides all but the last four characters of a text; all of them if it has fewer
// than eight.
func Mask(s string) string {
	r := []rune(s)
	keep := 4
	if len(r) < 8 {
		keep = 0
	}
	return strings.Repeat("*", len(r)-keep) + string(r[len(r)-keep:])
}
