package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of an expression's text.
const (
	MaxLength = 1000 // characters
	MaxDepth  = 32
)

// SyntaxError says where an expression can't be read or typed, and why.
type SyntaxError struct {
	Source string
	Offset int // bytes from the start of Source
	Reason string
}

// Error returns the reason.
func (e *SyntaxError) Error() string { return e.Reason }

// Path is a name in an expression or a text: a slot, or a namespace, then keys and
// indexes.
type Path struct {
	Names  []string
	Offset int // where it stands in its source
}

// String returns the path as it is written.
func (p Path) String() string { return strings.Join(p.Names, ".") }

// Expr is a parsed expression. It is immutable.
type Expr struct {
	source string
	root   *node
	reads  []Path
	clock  bool
}

// String returns the source.
func (e *Expr) String() string { return e.source }

// MarshalText returns the expression as it is written.
func (e *Expr) MarshalText() ([]byte, error) { return []byte(e.source), nil }

// Reads returns the paths that the expression may look at, in the order written.
func (e *Expr) Reads() []Path { return e.reads }

// Constant says whether the expression yields the same everywhere and always.
func (e *Expr) Constant() bool { return len(e.reads) == 0 && !e.clock }

// AsPath returns the path that the whole expression is, if it is one.
func (e *Expr) AsPath() (Path, bool) {
	if e.root.op != opPath {
		return Path{}, false
	}
	return e.root.path, true
}

type op uint8

const (
	opConst op = iota
	opPath
	opIf
	opOr
	opAnd
	opNot
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opIn
	opNotIn
	opAdd
	opSub
	opMul
	opDiv
	opMod
	opNeg
	opList
	opCall
)

type node struct {
	op     op
	offset int
	value  Value
	path   Path
	name   string
	args   []*node
}

type token struct {
	kind   tokenKind
	text   string // of a word in lower case
	raw    string
	offset int
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenText
	tokenName // also a path
	tokenWord // keyword
	tokenSign
)

var words = []string{"and", "or", "not", "in", "if", "else", "true", "false", "none"}

// Parse reads an expression. The error is a *[SyntaxError].
func Parse(source string) (*Expr, error) {
	p := &parser{source: source}
	if utf8.RuneCountInString(source) > MaxLength {
		return nil, p.fail(0, "the expression is longer than %d characters; compute parts of it with set", MaxLength)
	}
	if err := p.scan(); err != nil {
		return nil, err
	}
	root, err := p.expr(0)
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokenEnd {
		if t.raw == "=" {
			return nil, p.fail(t.offset, `unexpected "="; compare with "=="`)
		}
		return nil, p.fail(t.offset, "unexpected %q", t.raw)
	}
	return &Expr{source: source, root: root, reads: p.reads, clock: p.clock}, nil
}

type parser struct {
	source string
	tokens []token
	at     int
	reads  []Path
	clock  bool
}

func (p *parser) fail(offset int, format string, args ...any) error {
	return &SyntaxError{Source: p.source, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// scanName returns the end of the path that starts at i.
func scanName(s string, i int) int {
	for i < len(s) && (isLetter(s[i]) || isDigit(s[i])) {
		i++
	}
	for i+1 < len(s) && s[i] == '.' && (isLetter(s[i+1]) || isDigit(s[i+1])) {
		i++
		digits := isDigit(s[i])
		for i < len(s) && (isDigit(s[i]) || !digits && isLetter(s[i])) {
			i++
		}
	}
	return i
}

// ParsePath reads a path from the start of s: a name, then names and indexes after
// dots. It returns the path's length in bytes, 0 if s doesn't start with one.
func ParsePath(s string) (Path, int) {
	if s == "" || !isLetter(s[0]) {
		return Path{}, 0
	}
	end := scanName(s, 0)
	return Path{Names: strings.Split(s[:end], ".")}, end
}

func (p *parser) scan() error {
	s := p.source
	for i := 0; i < len(s); {
		c := s[i]
		start := i
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case isDigit(c):
			for i < len(s) && isDigit(s[i]) {
				i++
			}
			if i+1 < len(s) && s[i] == '.' && isDigit(s[i+1]) {
				i++
				for i < len(s) && isDigit(s[i]) {
					i++
				}
			}
			if i < len(s) && isLetter(s[i]) {
				return p.fail(i, "a number ends before %q", s[i:i+1])
			}
			p.tokens = append(p.tokens, token{tokenNumber, s[start:i], s[start:i], start})
			continue
		case isLetter(c):
			i = scanName(s, i)
			t := token{tokenName, s[start:i], s[start:i], start}
			if low := strings.ToLower(t.raw); slices.Contains(words, low) {
				t.kind, t.text = tokenWord, low
			}
			p.tokens = append(p.tokens, t)
			continue
		case c == '\'' || c == '"':
			text, end, err := p.text(i)
			if err != nil {
				return err
			}
			i = end
			p.tokens = append(p.tokens, token{tokenText, text, s[start:i], start})
			continue
		}
		if i+1 < len(s) {
			switch two := s[i : i+2]; two {
			case "==", "!=", "<=", ">=":
				i += 2
				p.tokens = append(p.tokens, token{tokenSign, two, two, start})
				continue
			}
		}
		if strings.IndexByte("<>+-*/%()[],=", c) < 0 {
			r, _ := utf8.DecodeRuneInString(s[i:])
			return p.fail(i, "unexpected %q", r)
		}
		i++
		p.tokens = append(p.tokens, token{tokenSign, s[start:i], s[start:i], start})
	}
	p.tokens = append(p.tokens, token{tokenEnd, "", "the end", len(s)})
	return nil
}

// text reads a quoted text and returns the offset after it.
func (p *parser) text(start int) (string, int, error) {
	s, quote := p.source, p.source[start]
	var b strings.Builder
	for i := start + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), i + 1, nil
		case c == '\\':
			i++
			if i == len(s) {
				break
			}
			switch s[i] {
			case '\\', '\'', '"':
				b.WriteByte(s[i])
			case 'n':
				b.WriteByte('\n')
			default:
				return "", 0, p.fail(i-1, `unknown escape; a text knows \\, \', \" and \n`)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, p.fail(start, "a text is not closed; end it with %c", quote)
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// next takes a token if it is the next one.
func (p *parser) next(kind tokenKind, text string) bool {
	if t := p.peek(); t.kind != kind || t.text != text {
		return false
	}
	p.at++
	return true
}

func (p *parser) deep(depth int) error {
	if depth > MaxDepth {
		return p.fail(p.peek().offset, "the expression is nested more than %d deep; compute parts of it with set", MaxDepth)
	}
	return nil
}

func (p *parser) expr(depth int) (*node, error) {
	if err := p.deep(depth); err != nil {
		return nil, err
	}
	then, err := p.level(0, depth)
	if err != nil {
		return nil, err
	}
	at := p.peek().offset
	if !p.next(tokenWord, "if") {
		return then, nil
	}
	cond, err := p.level(0, depth+1)
	if err != nil {
		return nil, err
	}
	if !p.next(tokenWord, "else") {
		return nil, p.fail(p.peek().offset, `expected "else", found %q`, p.peek().raw)
	}
	other, err := p.expr(depth + 1)
	if err != nil {
		return nil, err
	}
	return &node{op: opIf, offset: at, args: []*node{cond, then, other}}, nil
}

// Operators between two values, from weak to strong. Those of a level stand side by side
// from left to right, comparisons aside.
var (
	comparisons = map[string]op{"==": opEq, "!=": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe, "in": opIn, "not in": opNotIn}
	levels      = []map[string]op{{"or": opOr}, {"and": opAnd}, comparisons, {"+": opAdd, "-": opSub}, {"*": opMul, "/": opDiv, "%": opMod}}
)

// comparing is the level of comparisons, weaker than which not is. A minus before a value is
// stronger than all levels.
const comparing = 2

// level parses operators of a level and of those that are stronger.
func (p *parser) level(n, depth int) (*node, error) {
	at := p.peek().offset
	prefix := opConst
	switch {
	case n == comparing && p.next(tokenWord, "not"):
		prefix = opNot
	case n == len(levels) && p.next(tokenSign, "-"):
		prefix = opNeg
	case n == len(levels):
		return p.value(depth)
	}
	if prefix != opConst {
		if err := p.deep(depth + 1); err != nil {
			return nil, err
		}
		x, err := p.level(n, depth+1)
		return &node{op: prefix, offset: at, args: []*node{x}}, err
	}
	left, err := p.level(n+1, depth)
	for compared := false; err == nil; compared = n == comparing {
		at := p.peek().offset
		o, ok := p.operator(levels[n])
		switch {
		case !ok:
			return left, nil
		case compared:
			return nil, p.fail(at, `comparisons don't chain; join two with "and"`)
		}
		var right *node
		right, err = p.level(n+1, depth)
		left = &node{op: o, offset: at, args: []*node{left, right}}
	}
	return nil, err
}

// operator takes one of some operators if it is next.
func (p *parser) operator(of map[string]op) (op, bool) {
	t, taken := p.peek(), 1
	if t.kind == tokenWord && t.text == "not" && p.tokens[p.at+1].kind == tokenWord && p.tokens[p.at+1].text == "in" {
		t.text, taken = "not in", 2
	}
	o, ok := of[t.text]
	if ok = ok && (t.kind == tokenSign || t.kind == tokenWord); ok {
		p.at += taken
	}
	return o, ok
}

func (p *parser) value(depth int) (*node, error) {
	t := p.take()
	switch t.kind {
	case tokenNumber:
		n, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.offset, "%s is too large for a number", t.text)
		}
		return &node{op: opConst, offset: t.offset, value: Num(n)}, nil
	case tokenText:
		return &node{op: opConst, offset: t.offset, value: Str(t.text)}, nil
	case tokenWord:
		switch t.text {
		case "true", "false":
			return &node{op: opConst, offset: t.offset, value: Bool(t.text == "true")}, nil
		case "none":
			return &node{op: opConst, offset: t.offset}, nil
		}
	case tokenName:
		if p.peek().kind == tokenSign && p.peek().text == "(" && p.peek().offset == t.offset+len(t.raw) {
			return p.call(t, depth)
		}
		path := Path{Names: strings.Split(t.text, "."), Offset: t.offset}
		p.reads = append(p.reads, path)
		return &node{op: opPath, offset: t.offset, path: path}, nil
	case tokenSign:
		switch t.text {
		case "(":
			x, err := p.expr(depth + 1)
			if err != nil {
				return nil, err
			}
			if !p.next(tokenSign, ")") {
				return nil, p.fail(p.peek().offset, `expected ")", found %q`, p.peek().raw)
			}
			return x, nil
		case "[":
			args, err := p.list("]", depth)
			return &node{op: opList, offset: t.offset, args: args}, err
		}
	}
	if t.kind == tokenEnd {
		return nil, p.fail(t.offset, "the expression ends where a value is expected")
	}
	return nil, p.fail(t.offset, "expected a value, found %q", t.raw)
}

// list reads expressions up to the closing sign.
func (p *parser) list(end string, depth int) ([]*node, error) {
	var items []*node
	if p.next(tokenSign, end) {
		return nil, nil
	}
	for {
		x, err := p.expr(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if p.next(tokenSign, end) {
			return items, nil
		}
		if !p.next(tokenSign, ",") {
			return nil, p.fail(p.peek().offset, `expected "," or %q, found %q`, end, p.peek().raw)
		}
	}
}

func (p *parser) call(name token, depth int) (*node, error) {
	p.at++ // the parenthesis
	args, err := p.list(")", depth)
	if err != nil {
		return nil, err
	}
	low := strings.ToLower(name.text)
	f, ok := functions[low]
	if !ok {
		return nil, p.fail(name.offset, "there is no function %q; the functions are %s", name.text, functionNames)
	}
	if len(args) < f.min || f.max >= 0 && len(args) > f.max {
		return nil, p.fail(name.offset, "%s(…) is given %d values; it is written %s", low, len(args), f.usage)
	}
	p.clock = p.clock || f.clock
	return &node{op: opCall, offset: name.offset, name: low, args: args}, nil
}
