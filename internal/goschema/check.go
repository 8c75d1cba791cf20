package goschema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/internal/plan"
)

// InputError says that a part of an update in JSON is not as the schema of updates
// has it, or of an input as that of inputs.
type InputError struct {
	Path   string // such as order.items[2].price; empty: the whole
	Reason string
	Fix    string // what to do about it

	what string // the whole; empty: an update
}

func (e *InputError) Error() string {
	if e.Path == "" {
		return cmp.Or(e.what, "update") + ": " + e.text()
	}
	return fmt.Sprintf("field %q: %s", e.Path, e.text())
}

func (e *InputError) text() string {
	if e.Fix == "" {
		return e.Reason
	}
	return e.Reason + "; " + e.Fix
}

// place is where a value stands: a member of what stands at up or, without a name, an
// item. It becomes a text only when something is wrong there.
type place struct {
	up   *place
	name string
	item int // its index and one more; 0: a member
}

func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.item > 0:
		return p.up.String() + "[" + strconv.Itoa(p.item-1) + "]"
	}
	return join(p.up.String(), p.name)
}

// maxErrors bounds what is said at once.
const maxErrors = 10

// checker says what of a value doesn't match a schema, as far as a sentence can: it knows all
// that [Of] uses, and not all of JSON Schema. To a validator for all of it, paths are those
// of the schema, which don't say which item of a list is wrong.
type checker struct {
	root *jsonschema.Schema // what references lead into
	mute bool               // errors don't show values, which may be secrets
	most int                // errors that are kept; with one more it ends
	errs []*InputError
	more bool // there is one that isn't kept
}

func (c *checker) wrong(at *place, fix, reason string, args ...any) {
	if len(c.errs) == c.most {
		c.more = true
		return
	}
	c.errs = append(c.errs, &InputError{Path: at.String(), Reason: fmt.Sprintf(reason, args...), Fix: fix})
}

// refuse says what a value must be and isn't.
func (c *checker) refuse(at *place, v any, must string, args ...any) {
	if !c.mute {
		must, args = must+", not %s", append(args, given{v})
	}
	c.wrong(at, "", must, args...)
}

// follow returns the schema that a reference into the schema itself leads to.
func (c *checker) follow(s *jsonschema.Schema) *jsonschema.Schema {
	for range 10 {
		if s == nil || s.Ref == "" {
			return s
		}
		if s.Ref == "#" {
			s = c.root
		} else if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			s = c.root.Defs[name]
		} else if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
			s = c.root.Definitions[name]
		} else {
			return nil
		}
	}
	return nil
}

// passes reports whether a value matches a schema.
func (c *checker) passes(s *jsonschema.Schema, v any) bool {
	alone := checker{root: c.root}
	alone.check(s, v, nil)
	return !alone.more
}

func (c *checker) check(s *jsonschema.Schema, v any, at *place) {
	if s = c.follow(s); s == nil || c.more {
		return
	}
	if !ofType(s, v) {
		is := any(given{v})
		if c.mute {
			is = typeOf(v)
		}
		c.wrong(at, "", "must be %s, not %s", typeNames(s), is)
		return
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return equal(e, v) }) {
		c.refuse(at, v, "must be %s", oneOf(s.Enum))
		return
	}
	if s.Const != nil && !equal(*s.Const, v) {
		c.refuse(at, v, "must be %s", given{*s.Const})
		return
	}
	for _, forms := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		c.forms(forms, v, at)
	}
	for _, part := range s.AllOf {
		c.check(part, v, at)
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v, at)
	case []any:
		c.amount(s.MinItems, s.MaxItems, len(v), "items", at)
		for i, item := range v {
			of := s.Items
			if i < len(s.PrefixItems) {
				of = s.PrefixItems[i]
			}
			if of != nil {
				c.check(of, item, &place{up: at, item: i + 1})
			}
		}
	case string:
		if s.MinLength != nil || s.MaxLength != nil {
			c.amount(s.MinLength, s.MaxLength, utf8.RuneCountInString(v), "characters", at)
		}
		if s.Pattern != "" {
			c.pattern(s, v, at)
		}
	case json.Number:
		c.number(s, v, at)
	}
}

// forms checks that a value has one of several forms.
func (c *checker) forms(forms []*jsonschema.Schema, v any, at *place) {
	null := func(s *jsonschema.Schema) bool { return s.Type == "null" }
	if v != nil && len(forms) > 1 {
		forms = slices.DeleteFunc(slices.Clone(forms), null)
	}
	switch { // each is walked once: there may be as many inside of it, and so on
	case len(forms) == 1:
		c.check(forms[0], v, at)
	case len(forms) > 1 && !slices.ContainsFunc(forms, func(s *jsonschema.Schema) bool { return c.passes(s, v) }):
		c.wrong(at, "", "has none of the forms that are allowed here")
	}
}

// amount checks how long something is.
func (c *checker) amount(least, most *int, n int, what string, at *place) {
	switch {
	case least != nil && most != nil && *least == *most && n != *least:
		c.wrong(at, "", "must have exactly %d %s, not %d", *least, what, n)
	case least != nil && n < *least:
		c.wrong(at, "", "must have at least %d %s, not %d", *least, what, n)
	case most != nil && n > *most:
		c.wrong(at, "", "must have at most %d %s, not %d", *most, what, n)
	}
}

func (c *checker) pattern(s *jsonschema.Schema, v string, at *place) {
	switch {
	case matches(s.Pattern, v):
	case s.Pattern == timePattern:
		c.refuse(at, v, "must be a time as RFC 3339 has it, such as 2006-01-02T15:04:05Z")
	case s.Pattern == base64Pattern:
		c.refuse(at, v, "must be bytes in base64")
	default:
		c.refuse(at, v, "must match the regular expression %s", s.Pattern)
	}
}

// expressions are compiled ones, for as long as there are not too many: schemas come from
// outside, too.
var (
	expressions sync.Map // string to *regexp.Regexp
	compiled    atomic.Int32
)

// matches reports whether a text matches a regular expression, as all do if it is none.
func matches(pattern, text string) bool {
	re, ok := expressions.Load(pattern)
	if !ok {
		made, err := regexp.Compile(pattern)
		if err != nil {
			return true
		}
		if re = made; compiled.Add(1) < 1000 {
			expressions.Store(pattern, made)
		}
	}
	return re.(*regexp.Regexp).MatchString(text)
}

func (c *checker) number(s *jsonschema.Schema, v json.Number, at *place) {
	f, err := v.Float64()
	plainly := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch {
	case err != nil: // it may be too large for a float64 where nothing is said of numbers
		if s.Type != "" || s.Types != nil || s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil {
			c.outOfRange(v, at)
		}
	case s.Minimum != nil && f < *s.Minimum:
		c.refuse(at, v, "must be at least %s", plainly(*s.Minimum))
	case s.Maximum != nil && f > *s.Maximum:
		c.refuse(at, v, "must be at most %s", plainly(*s.Maximum))
	case s.ExclusiveMinimum != nil && f <= *s.ExclusiveMinimum:
		c.refuse(at, v, "must be more than %s", plainly(*s.ExclusiveMinimum))
	case s.ExclusiveMaximum != nil && f >= *s.ExclusiveMaximum:
		c.refuse(at, v, "must be less than %s", plainly(*s.ExclusiveMaximum))
	}
}

func (c *checker) outOfRange(v json.Number, at *place) {
	if c.mute {
		c.wrong(at, "", "the number is out of range")
	} else {
		c.wrong(at, "", "number %s is out of range", given{v})
	}
}

// inRange looks for numbers that the library can't read.
func (c *checker) inRange(v any, at *place) {
	switch v := v.(type) {
	case json.Number:
		if _, ok := numberOf(v); !ok {
			c.outOfRange(v, at)
		}
	case []any:
		for i := range v {
			c.inRange(v[i], &place{up: at, item: i + 1})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.inRange(v[name], &place{up: at, name: name})
		}
	}
}

func (c *checker) object(s *jsonschema.Schema, v map[string]any, at *place) {
	c.amount(s.MinProperties, s.MaxProperties, len(v), "members", at)
	known := 0
	for _, name := range names(s) {
		if value, ok := v[name]; ok {
			known++
			c.check(s.Properties[name], value, &place{up: at, name: name})
		}
	}
	for _, name := range s.Required {
		if c.more {
			return
		}
		if _, ok := v[name]; ok {
			continue
		}
		what := ""
		switch p := c.follow(s.Properties[name]); {
		case p == nil:
		case p.Enum != nil:
			what = ", " + oneOf(p.Enum).String()
		case p.Type != "" || p.Types != nil:
			what = ", " + typeNames(p)
		}
		c.wrong(&place{up: at, name: name}, "", "is missing%s", what)
	}
	if known == len(v) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if c.more {
			return
		}
		if s.Properties[name] != nil {
			continue
		}
		member, matched := &place{up: at, name: name}, false
		for pattern, of := range s.PatternProperties {
			if matches(pattern, name) {
				c.check(of, v[name], member)
				matched = true
			}
		}
		switch {
		case matched:
		case isNothing(s.AdditionalProperties):
			c.unknown(s, name, member)
		case s.AdditionalProperties != nil:
			c.check(s.AdditionalProperties, v[name], member)
		}
		if s.PropertyNames != nil && !c.passes(s.PropertyNames, name) {
			c.wrong(member, "", "%s", keys(s.PropertyNames))
		}
	}
}

// keys says what the names of members have to be.
func keys(s *jsonschema.Schema) string {
	switch s.Pattern {
	case "":
		return "its name is not allowed"
	case intPattern, uintPattern:
		return "its name must be an integer"
	}
	return "its name must match the regular expression " + s.Pattern
}

func (c *checker) unknown(s *jsonschema.Schema, name string, at *place) {
	fix := "remove it"
	if near := plan.Nearest(name, names(s)); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	c.wrong(at, fix, "unknown field")
}

// names lists a schema's fields in their order.
func names(s *jsonschema.Schema) []string {
	if s.PropertyOrder != nil {
		return s.PropertyOrder
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// equal compares a value of an enum with one of JSON.
func equal(x, v any) bool {
	return jsonschema.Equal(plain(x), plain(v))
}

// plain returns a copy in which json.Numbers are what a validator can check: an int64, a
// uint64 or a float64.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, _ := numberOf(v)
		return n
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = plain(value)
		}
		return out
	}
	return v
}

// numberOf returns an int64, a uint64 or a float64.
func numberOf(n json.Number) (any, bool) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, true
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u, true
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return f, false
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), true
	}
	return f, true
}

func hasType(s *jsonschema.Schema, typ string) bool {
	return s.Type == typ || slices.Contains(s.Types, typ)
}

// ofType reports whether a value has the type that a schema asks for.
func ofType(s *jsonschema.Schema, v any) bool {
	if s.Type == "" && s.Types == nil {
		return true
	}
	switch v := v.(type) {
	case nil:
		return hasType(s, "null")
	case bool:
		return hasType(s, "boolean")
	case string:
		return hasType(s, "string")
	case []any:
		return hasType(s, "array")
	case map[string]any:
		return hasType(s, "object")
	case json.Number:
		if hasType(s, "number") {
			return true
		}
		f, err := v.Float64()
		return hasType(s, "integer") && (err != nil || f == math.Trunc(f)) // or it is out of range
	case float64:
		return hasType(s, "number")
	}
	return hasType(s, "number") || hasType(s, "integer") // of plain
}

// typeOf names the type of a value.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case json.Number:
		if f, err := v.Float64(); err == nil && f != math.Trunc(f) {
			return "a number with a fraction"
		}
	}
	return "a number"
}

// typeNames names the types of a schema with their article; null comes last.
func typeNames(s *jsonschema.Schema) string {
	types := slices.Clone(s.Types)
	if types == nil {
		types = []string{s.Type}
	}
	slices.SortStableFunc(types, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == "null":
			return 1
		case b == "null":
			return -1
		}
		return 0
	})
	for i, t := range types {
		switch t {
		case "":
			types[i] = "any value"
		case "null":
		case "integer", "array", "object":
			types[i] = "an " + t
		default:
			types[i] = "a " + t
		}
	}
	return strings.Join(types, " or ")
}

// oneOf names values that are allowed.
type oneOf []any

func (values oneOf) String() string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = given{v}.String()
	}
	if len(list) == 1 {
		return list[0]
	}
	return "one of " + strings.Join(list, ", ")
}

// given shows a value, shortened, once it is asked to.
type given struct{ v any }

func (g given) String() string {
	if text, ok := g.v.(string); ok && len(text) > maxGiven {
		g.v = text[:maxGiven] + "…" // which may end in the middle of a rune: it isn't shown
	}
	data, err := plainjson.Marshal(g.v)
	if err != nil {
		return fmt.Sprint(g.v)
	}
	return Abbreviate(string(data))
}

const maxGiven = 60

// Abbreviate shortens a text without breaking a rune.
func Abbreviate(s string) string {
	if len(s) <= maxGiven {
		return s
	}
	n := maxGiven
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
