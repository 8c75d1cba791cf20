package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

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
	text := e.Reason
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	if e.Path == "" {
		return cmp.Or(e.what, "update") + ": " + text
	}
	return fmt.Sprintf("field %q: %s", e.Path, text)
}

// ReadInput reads an update that comes from outside: the members of the object,
// as they were written and as values in which numbers are [json.Number]. It refuses
// what encoding/json would alter on the way (text that isn't UTF-8) or take in two
// ways (a name that an object has twice).
func ReadInput(data []byte) (raw map[string]json.RawMessage, values map[string]any, err error) {
	if err := json.Unmarshal(data, &raw); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, nil, &InputError{Reason: "must be an object, not a JSON " + wrong.Value}
		}
		return nil, nil, fmt.Errorf("update: %w", err)
	}
	if raw == nil {
		return nil, nil, &InputError{Reason: "must be an object, not null"}
	}
	v, err := readValues(data)
	if err != nil {
		return nil, nil, err
	}
	return raw, v.(map[string]any), nil
}

// Read reads JSON from outside that is to be as a schema from [AnswerSchema] has it,
// into v, a pointer. What it refuses is as with [ReadInput]; what is the name of the
// whole in errors.
func Read(what string, data []byte, s *jsonschema.Schema, v any) error {
	if err := json.Unmarshal(data, new(any)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var c checker
	read, err := readValues(data)
	if err != nil {
		c.errs = []error{err}
	} else {
		c.check(s, read, nil)
	}
	for _, err := range c.errs {
		if e, ok := errors.AsType[*InputError](err); ok {
			e.what = what
		}
	}
	if c.errs != nil {
		return errors.Join(c.errs...)
	}
	if err := json.Unmarshal(data, v); err != nil { // a method of the type refuses it
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// readValues reads JSON that is known to be well-formed.
func readValues(data []byte) (any, error) {
	r := inputReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), text: utf8.Valid(data)}
	r.dec.UseNumber()
	return r.value(nil)
}

// inputReader is what readValues reads with.
type inputReader struct {
	data []byte
	dec  *json.Decoder
	text bool // all of it is UTF-8
}

func (r *inputReader) token(at *place) (json.Token, error) {
	from := r.dec.InputOffset()
	t, err := r.dec.Token()
	if err == nil && !r.text && !utf8.Valid(r.data[from:r.dec.InputOffset()]) {
		err = &InputError{Path: at.String(), Reason: "a string in it is not valid UTF-8", Fix: "encode text as UTF-8, and bytes in base64"}
	}
	return t, err
}

func (r *inputReader) value(at *place) (any, error) {
	t, err := r.token(at)
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for r.dec.More() {
			v, err := r.value(&place{up: at, item: len(list) + 1})
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = r.dec.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for r.dec.More() {
			t, err := r.token(at)
			if err != nil {
				return nil, err
			}
			name := t.(string)
			member := &place{up: at, name: name}
			if _, ok := object[name]; ok {
				return nil, &InputError{Path: member.String(), Reason: "it is there twice", Fix: "give it once"}
			}
			if object[name], err = r.value(member); err != nil {
				return nil, err
			}
		}
		_, err = r.dec.Token()
		return object, err
	}
	return t, nil
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
	case p.up == nil:
		return p.name
	}
	return p.up.String() + "." + p.name
}

// operation is what the names of a merging field's operations look like. A name
// that begins with two "$" is that of a key.
const operation = `^\$([^$]|$)`

var isOperation = regexp.MustCompile(operation).MatchString

// forms are the schemas of what a field takes: its value or, if the field merges,
// an object of operations.
type forms struct {
	value, operations *jsonschema.Schema
	open              bool // and whatever else the field reads
}

// check returns what is wrong with the value v of an update's field.
func (f forms) check(name string, v any) []error {
	one := func(s *jsonschema.Schema) []error {
		var c checker
		c.check(s, v, &place{name: name})
		return c.errs
	}
	switch {
	case f.open:
		return nil
	case f.operations == nil, !operates(v):
		return one(f.value)
	}
	errs := one(f.operations)
	if errs != nil && one(f.value) == nil {
		return nil
	}
	return errs
}

// operates reports whether v is an object with an operation.
func operates(v any) bool {
	object, _ := v.(map[string]any)
	for name := range object {
		if isOperation(name) {
			return true
		}
	}
	return false
}

// maxInputErrors bounds what is said about one field.
const maxInputErrors = 10

// checker checks values against the schemas that [infer] makes; it knows no more of
// JSON Schema than they use. To a validator for all of it, paths are those of the
// schema, which don't say which item of a list is wrong.
type checker struct{ errs []error }

func (c *checker) wrong(at *place, reason, fix string) {
	c.errs = append(c.errs, &InputError{Path: at.String(), Reason: reason, Fix: fix})
}

func (c *checker) check(s *jsonschema.Schema, v any, at *place) {
	if s == nil || len(c.errs) >= maxInputErrors {
		return
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if types != nil && !slices.ContainsFunc(types, func(t string) bool { return ofType(v, t) }) {
		c.wrong(at, "must be "+eitherOf(types)+", not "+given(v), "")
		return
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(x any) bool { return same(x, v) }) {
		var list []string
		for _, x := range s.Enum {
			text, _ := json.Marshal(x) // it was JSON
			list = append(list, string(text))
		}
		c.wrong(at, "it is none of "+strings.Join(list, ", "), "give one of them")
		return
	}
	switch v := v.(type) {
	case []any:
		switch n := len(v); {
		case s.MinItems != nil && n < *s.MinItems, s.MaxItems != nil && n > *s.MaxItems:
			c.wrong(at, "it has "+count(n, "item"), fmt.Sprintf("give exactly %d", *s.MinItems)) // an array of Go has both
		}
		for i := range v {
			if c.check(s.Items, v[i], &place{up: at, item: i + 1}); len(c.errs) >= maxInputErrors {
				return
			}
		}
	case map[string]any:
		c.object(s, v, at)
	case json.Number:
		x := number(v)
		if s.Minimum != nil && x < *s.Minimum || s.Maximum != nil && x > *s.Maximum {
			fix := ""
			switch {
			case s.Maximum == nil:
				fix = fmt.Sprintf("give one of at least %.f", *s.Minimum)
			default:
				fix = fmt.Sprintf("give one from %.f to %.f", *s.Minimum, *s.Maximum)
			}
			c.wrong(at, fmt.Sprintf("the number %s is out of range", v), fix)
		}
	}
}

// same compares values of enums, which are no lists or objects.
func same(x, v any) bool {
	a, numeric := x.(json.Number)
	b, also := v.(json.Number)
	if numeric && also {
		return number(a) == number(b)
	}
	return !numeric && !also && x == v
}

func (c *checker) object(s *jsonschema.Schema, v map[string]any, at *place) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			c.wrong(&place{up: at, name: name}, "it is missing", "give it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		member := &place{up: at, name: name}
		switch p := s.Properties[name]; {
		case len(c.errs) >= maxInputErrors:
			return
		case p != nil:
			c.check(p, v[name], member)
		case s.PatternProperties[operation] != nil && isOperation(name):
			c.check(s.PatternProperties[operation], v[name], member)
		case isFalse(s.AdditionalProperties):
			fix := "remove it"
			if near := plan.Nearest(name, slices.Sorted(maps.Keys(s.Properties))); near != "" {
				fix = fmt.Sprintf("did you mean %q?", near)
			}
			c.wrong(member, "there is no such member", fix)
		default:
			c.check(s.AdditionalProperties, v[name], member)
		}
		if s.PropertyNames != nil && !keyPattern[s.PropertyNames.Pattern].MatchString(name) {
			c.wrong(member, "the keys are whole numbers", "give such a key")
		}
	}
}

var keyPattern = map[string]*regexp.Regexp{
	intPattern:  regexp.MustCompile(intPattern),
	uintPattern: regexp.MustCompile(uintPattern),
}

// isFalse sees the schema that nothing matches.
func isFalse(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

// number returns a number, infinite if it is too large for a float64.
func number(n json.Number) float64 {
	x, _ := strconv.ParseFloat(string(n), 64)
	return x
}

// typeOf names the type of v in JSON Schema's words.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if x := number(v); x == math.Trunc(x) && !math.IsInf(x, 0) {
			return "integer"
		}
	}
	return "number"
}

func ofType(v any, typ string) bool {
	is := typeOf(v)
	return is == typ || is == "integer" && typ == "number"
}

func eitherOf(types []string) string {
	var list []string
	for _, t := range slices.Backward(types) { // null comes last
		switch t {
		case "null":
			list = append(list, t)
		case "boolean":
			list = append(list, "true or false")
		case "integer":
			list = append(list, "a whole number")
		case "array":
			list = append(list, "a list")
		case "object":
			list = append(list, "an object")
		default:
			list = append(list, "a "+t)
		}
	}
	return strings.Join(list, " or ")
}

func given(v any) string {
	switch t := typeOf(v); t {
	case "null":
		return t
	case "boolean":
		return "a JSON bool"
	case "integer":
		return "a JSON number"
	case "number":
		return fmt.Sprintf("the JSON number %v", v)
	default:
		return "a JSON " + t
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
