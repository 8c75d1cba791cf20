package program

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Limits of the files of an assistant.
const (
	MaxFileSize = 4 << 20
	MaxNodes    = 100_000 // after aliases are followed
	maxDepth    = 200
)

// File is one YAML file.
type File struct {
	Name string
	Text []byte
}

// Position is a place in a file of an assistant; lines and columns count from 1.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// String returns file:line:column.
func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// scope is where a finding belongs: a file, and perhaps a flow and a step.
type scope struct {
	file, flow, step string
}

// compiler collects what the sources say and what is wrong with it.
type compiler struct {
	findings Findings
	program  *Program
	builtIn  bool // the library's files are being read

	sections map[string]*section
	defined  map[string]Position // once-only keys
	version  string
	later    []func() // checks that need everything to be read
	exprs    map[*expr.Expr]placed
	used     map[string]bool
	typed    []typedExpr
}

// placed says where an expression is written.
type placed struct {
	scope scope
	node  *yaml.Node
}

// section is a map of names that may be spread over files.
type section struct {
	names []string
	items map[string]item
}

type item struct {
	scope scope
	key   *yaml.Node
	value *yaml.Node
}

func (c *compiler) add(s scope, p Position, warning bool, format string, args ...any) {
	severity := Error
	if warning {
		severity = Warning
	}
	c.findings = append(c.findings, Finding{
		File: p.File, Line: p.Line, Column: p.Column, Severity: severity,
		Flow: s.flow, Step: s.step, Message: fmt.Sprintf(format, args...),
	})
}

func (c *compiler) errorf(s scope, n *yaml.Node, format string, args ...any) {
	c.add(s, at(s, n), false, format, args...)
}

func at(s scope, n *yaml.Node) Position {
	if n == nil {
		return Position{File: s.file, Line: 1, Column: 1}
	}
	return Position{File: s.file, Line: n.Line, Column: n.Column}
}

// inside returns the position of an offset in a scalar's text.
func inside(s scope, n *yaml.Node, offset int) Position {
	p := at(s, n)
	text := n.Value[:min(max(offset, 0), len(n.Value))]
	lines := strings.Count(text, "\n")
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		p.Line += 1 + lines
		p.Column = 1 + utf8.RuneCountInString(text[strings.LastIndexByte(text, '\n')+1:])
		return p
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		p.Column++
	}
	if lines == 0 {
		p.Column += utf8.RuneCountInString(text)
	}
	return p
}

// Load compiles the assistant of a directory.
func Load(dir fs.FS) (*Program, error) {
	sources, err := ReadDir(dir)
	if err != nil {
		return nil, err
	}
	return Compile(sources...)
}

// ReadDir reads the files of an assistant: those of the directory that end in .yaml or
// .yml, or soni.yaml alone, or a config.yaml with flows alone.
func ReadDir(dir fs.FS) ([]File, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	var sources []File
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml" {
			continue
		}
		src, err := ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		if name == "soni.yaml" || name == "config.yaml" && hasFlows(src.Text) {
			return []File{src}, nil
		}
		sources = append(sources, src)
	}
	if len(sources) == 0 {
		return nil, errors.New("the directory has no file *.yaml or *.yml; an assistant is written in at least one")
	}
	return sources, nil
}

// ReadFile reads one file of an assistant. One that is too large is not read: its text is
// just long enough for [Compile] to say so.
func ReadFile(dir fs.FS, name string) (File, error) {
	info, err := fs.Stat(dir, name)
	switch {
	case err != nil:
		return File{}, err
	case !info.Mode().IsRegular():
		return File{}, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no regular file")}
	case info.Size() > MaxFileSize:
		return File{Name: name, Text: make([]byte, MaxFileSize+1)}, nil
	}
	text, err := fs.ReadFile(dir, name)
	return File{Name: name, Text: text}, err
}

var flowsKey = regexp.MustCompile(`(?m)^["']?flows["']?\s*:`)

func hasFlows(text []byte) bool { return flowsKey.Match(text) }

// read parses a file to its root, nil if it has none.
func (c *compiler) read(src File) *yaml.Node {
	s := scope{file: src.Name}
	if len(src.Text) > MaxFileSize {
		c.errorf(s, nil, "the file has more than %d bytes; split the assistant into several files", MaxFileSize)
		return nil
	}
	if !utf8.Valid(src.Text) {
		c.errorf(s, nil, "the file is not UTF-8; save it in this encoding")
		return nil
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(src.Text))
	if err := decode(d, &doc); err != nil {
		c.syntax(s, err)
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	var second yaml.Node
	if err := decode(d, &second); err == nil {
		c.errorf(s, second.Content[0], "the file has a second document; use one file for each")
	}
	root := doc.Content[0]
	e := &expansion{compiler: c, scope: s}
	if e.count(root, 0); e.failed {
		return nil
	}
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		c.errorf(s, root, "the file has to be a map with keys such as flows; found a %s", kindName(root))
		return nil
	}
	return root
}

// decode keeps a parser's panic from reaching the caller.
func decode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the YAML can't be read: %v", r)
		}
	}()
	return d.Decode(n)
}

// syntaxLine finds where the parser of YAML stopped.
var syntaxLine = regexp.MustCompile(`(?:^.* at L|line )(\d+)(?:(?:, column |\.C)(\d+))?:? ?`)

func (c *compiler) syntax(s scope, err error) {
	if err.Error() == "EOF" {
		return
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Position{File: s.file, Line: 1, Column: 1}
	if m := syntaxLine.FindStringSubmatchIndex(text); m != nil {
		p.Line, _ = strconv.Atoi(text[m[2]:m[3]])
		if m[4] >= 0 {
			p.Column, _ = strconv.Atoi(text[m[4]:m[5]])
		}
		text = strings.TrimSpace(text[:m[0]] + text[m[1]:])
	}
	c.add(s, p, false, "the YAML can't be read: %s", text)
}

// expansion counts the nodes of a document with its aliases followed, and finds
// duplicate keys.
type expansion struct {
	*compiler
	scope   scope
	nodes   int
	within  []*yaml.Node // anchors that are being followed
	checked map[*yaml.Node]bool
	failed  bool
}

func (e *expansion) count(n *yaml.Node, depth int) {
	if e.failed {
		return
	}
	e.nodes++
	if e.nodes > MaxNodes {
		e.failed = true
		e.errorf(e.scope, n, "the file has more than %d nodes once its aliases are followed; write less with anchors", MaxNodes)
		return
	}
	if depth > maxDepth {
		e.failed = true
		e.errorf(e.scope, n, "the file is nested more than %d deep; flatten it", maxDepth)
		return
	}
	if n.Kind == yaml.AliasNode {
		if slices.Contains(e.within, n.Alias) {
			e.failed = true
			e.errorf(e.scope, n, "the alias %q leads to itself; write the value out", n.Value)
			return
		}
		e.within = append(e.within, n.Alias)
		e.count(n.Alias, depth+1)
		e.within = e.within[:len(e.within)-1]
		return
	}
	if n.Anchor != "" {
		e.within = append(e.within, n)
		defer func() { e.within = e.within[:len(e.within)-1] }()
	}
	if n.Kind == yaml.MappingNode && !e.checked[n] {
		if e.checked == nil {
			e.checked = map[*yaml.Node]bool{}
		}
		e.checked[n] = true
		seen := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := yamlvalue.Follow(n.Content[i])
			if k.Kind != yaml.ScalarNode {
				e.errorf(e.scope, k, "a key has to be a name; found a %s", kindName(k))
				continue
			}
			if first, ok := seen[k.Value]; ok {
				e.errorf(e.scope, k, "the key %q is written twice, first in line %d; keep one", k.Value, first.Line)
				continue
			}
			seen[k.Value] = k
		}
	}
	for _, child := range n.Content {
		e.count(child, depth+1)
	}
}

func kindName(n *yaml.Node) string {
	switch yamlvalue.Follow(n).Kind {
	case yaml.MappingNode:
		return "map"
	case yaml.SequenceNode:
		return "list"
	case yaml.ScalarNode:
		return "value"
	}
	return "nothing"
}

// mapping is a map whose keys are asked for one by one; done reports the others.
type mapping struct {
	c      *compiler
	scope  scope
	node   *yaml.Node
	object *object // nil for a map of names
	keys   map[string]*yaml.Node
	vals   map[string]*yaml.Node
	order  []string
	known  []string
}

// keyed reads n as a map of a kind, whose keys are read with get.
func (c *compiler) keyed(s scope, n *yaml.Node, o *object) *mapping {
	m := c.mapping(s, n, o.what)
	if m != nil {
		m.object = o
	}
	return m
}

// mapping reads n as a map. It reports another kind and returns nil.
func (c *compiler) mapping(s scope, n *yaml.Node, what string) *mapping {
	n = yamlvalue.Follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		found := "nothing"
		if n != nil {
			found = "a " + kindName(n)
		}
		c.errorf(s, n, "%s has to be a map; found %s", what, found)
		return nil
	}
	m := &mapping{c: c, scope: s, node: n, keys: map[string]*yaml.Node{}, vals: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := yamlvalue.Follow(n.Content[i])
		if _, ok := m.keys[k.Value]; k.Kind != yaml.ScalarNode || ok {
			continue // reported when the file was read
		}
		m.keys[k.Value], m.vals[k.Value] = k, yamlvalue.Follow(n.Content[i+1])
		m.order = append(m.order, k.Value)
	}
	return m
}

// get returns the value of a key of the map's kind, which may have earlier spellings. A
// key that the vocabulary doesn't have can't be read.
func (m *mapping) get(name string) *yaml.Node {
	if k := m.object.key(name); k != nil {
		return m.first(name, k.old...)
	}
	return nil
}

// first returns the value of a key under one of its names. Only one may be given.
func (m *mapping) first(name string, old ...string) *yaml.Node {
	m.known = append(m.known, name)
	m.known = append(m.known, old...)
	v, given := m.vals[name], name
	for _, o := range old {
		w, ok := m.vals[o]
		switch {
		case !ok:
		case v != nil:
			m.c.errorf(m.scope, m.keys[o], "%q and %q mean the same; keep %q", given, o, name)
		default:
			v, given = w, o
		}
	}
	return v
}

func (m *mapping) has(name string) bool {
	_, ok := m.vals[name]
	return ok
}

// done reports the keys that nobody asked for.
func (m *mapping) done() {
	known := slices.Clone(m.known)
	if m.object != nil { // some keys are read only where they are given
		for _, k := range m.object.keys {
			known = append(known, k.name)
		}
	}
	for _, k := range m.order {
		if !slices.Contains(m.known, k) {
			mend := orElse(suggest(k, known), "remove it")
			if m.object != nil && m.object.tagged != nil && !strings.HasPrefix(mend, "; did") && language.Valid(k) {
				mend = "; if it is a language, declare it under languages"
			}
			m.c.errorf(m.scope, m.keys[k], "unknown key %q%s", k, mend)
		}
	}
}

// suggest returns a sentence that names what was probably meant.
func suggest(name string, known []string) string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	best := plan.Nearest(name, known)
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %q?", best)
	case len(known) == 0:
		return ""
	case len(known) <= 12:
		return "; known are " + strings.Join(known, ", ")
	}
	return ""
}

// text reads a scalar as a text.
func (m *mapping) text(name string) string {
	n := m.get(name)
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		m.c.errorf(m.scope, n, "%q has to be a text; found a %s", name, kindName(n))
		return ""
	}
	return n.Value
}

// boolean reads true or false.
func (m *mapping) boolean(name string, fallback bool) bool {
	n := m.get(name)
	if n == nil {
		return fallback
	}
	b, ok := yamlvalue.Scalar(n).Bool()
	if !ok {
		m.c.errorf(m.scope, n, "%q has to be true or false", name)
		return fallback
	}
	return b
}

// positive reads a whole number above zero.
func (m *mapping) positive(name string, fallback int) int {
	n := m.get(name)
	if n == nil {
		return fallback
	}
	f, ok := yamlvalue.Scalar(n).Num()
	if !ok || f != math.Trunc(f) || f < 1 || f > 1e9 {
		m.c.errorf(m.scope, n, "%q has to be a whole number above zero", name)
		return fallback
	}
	return int(f)
}

// choice reads one of several words.
func (m *mapping) choice(name, fallback string) string {
	n := m.get(name)
	if n == nil {
		return fallback
	}
	words := m.object.key(name).is.choice
	if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
		m.c.errorf(m.scope, n, "%q has to be one of %s", name, strings.Join(words, ", "))
		return fallback
	}
	return n.Value
}

var duration = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?$`)

// durationOf reads a duration such as 20s.
func (c *compiler) durationOf(s scope, n *yaml.Node, what string) time.Duration {
	if n.Kind == yaml.ScalarNode {
		if m := duration.FindStringSubmatch(n.Value); m != nil {
			unit := map[string]time.Duration{"ms": time.Millisecond, "": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
			f, err := strconv.ParseFloat(m[1], 64)
			if d := f * float64(unit); err == nil && d >= 1 && d < float64(math.MaxInt64) {
				return time.Duration(d)
			}
		}
	}
	c.errorf(s, n, "%s has to be a time above zero such as 500ms, 20s, 10m, 2h or 7d", what)
	return 0
}

func (m *mapping) duration(name string, fallback time.Duration) time.Duration {
	n := m.get(name)
	if n == nil {
		return fallback
	}
	if n.Kind == yaml.ScalarNode && n.Value == "none" {
		return 0
	}
	return m.c.durationOf(m.scope, n, strconv.Quote(name))
}

// names reads a name or a list of names.
func (c *compiler) names(s scope, n *yaml.Node, what string) []*yaml.Node {
	n = yamlvalue.Follow(n)
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.ScalarNode && n.Value != "":
		return []*yaml.Node{n}
	case n.Kind == yaml.SequenceNode:
		var out []*yaml.Node
		for _, x := range n.Content {
			x = yamlvalue.Follow(x)
			if x.Kind != yaml.ScalarNode || x.Value == "" {
				c.errorf(s, x, "%s has to be a name or a list of names; found a %s in it", what, kindName(x))
				continue
			}
			out = append(out, x)
		}
		return out
	}
	c.errorf(s, n, "%s has to be a name or a list of names", what)
	return nil
}

func values(nodes []*yaml.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Value
	}
	return out
}

var name = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
var stepName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)

// checkName reports a name that can't be one.
func (c *compiler) checkName(s scope, n *yaml.Node, what string) bool {
	if !name.MatchString(n.Value) {
		c.errorf(s, n, "%s can't be called %q; a name has letters, digits and _, starts with no digit and has at most 64 characters", what, n.Value)
		return false
	}
	return true
}

// sorted orders findings by file and position.
func (f Findings) sorted() Findings {
	slices.SortStableFunc(f, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(f)
}
