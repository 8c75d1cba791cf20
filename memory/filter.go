package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Op is how a [Condition] compares.
type Op string

// The operators.
const (
	OpEq  Op = "$eq"
	OpNe  Op = "$ne"
	OpGt  Op = "$gt"
	OpGte Op = "$gte"
	OpLt  Op = "$lt"
	OpLte Op = "$lte"
)

var ops = []Op{OpEq, OpNe, OpGt, OpGte, OpLt, OpLte}

// Condition compares a field of an item's value. See [Filter].
type Condition struct {
	// Field is a name, or names joined by points that lead into objects.
	Field string
	Op    Op
	// Value is JSON. Operators other than [OpEq] and [OpNe] take numbers and
	// texts.
	Value json.RawMessage

	err error // of making Value
}

// Filter are conditions that must all hold.
//
// Numbers are compared by value, exactly, and texts byte by byte. A number is
// neither less nor greater than a text, nor is there an order of anything else.
// Objects and arrays are equal if all in them is. A field that isn't there is
// like one that is null.
type Filter []Condition

// Eq: the field is equal to v, which is encoded as JSON.
func Eq[T any](field string, v T) Condition { return condition(field, OpEq, v) }

// Ne: the field isn't equal to v, which is encoded as JSON.
func Ne[T any](field string, v T) Condition { return condition(field, OpNe, v) }

// Gt: the field is greater than v.
func Gt[T cmp.Ordered](field string, v T) Condition { return condition(field, OpGt, v) }

// Gte: the field is v or greater.
func Gte[T cmp.Ordered](field string, v T) Condition { return condition(field, OpGte, v) }

// Lt: the field is less than v.
func Lt[T cmp.Ordered](field string, v T) Condition { return condition(field, OpLt, v) }

// Lte: the field is v or less.
func Lte[T cmp.Ordered](field string, v T) Condition { return condition(field, OpLte, v) }

func condition[T any](field string, op Op, v T) Condition {
	raw, err := json.Marshal(v)
	return Condition{Field: field, Op: op, Value: raw, err: err}
}

// ParseFilter reads a filter from a JSON object, such as
//
//	{"kind": "note", "author.name": "Ann", "stars": {"$gte": 3, "$lt": 5}}
//
// A name stands for a field, with points in it for a field of a field, and an
// object as its value has operators or is a filter of the object there. Nothing
// and null are an empty filter.
func ParseFilter(raw json.RawMessage) (Filter, error) {
	raw = trim(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' || !json.Valid(raw) {
		return nil, invalid(ErrFilter, "", "it is not a JSON object")
	}
	f, err := parseFilter(nil, "", raw)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

func parseFilter(f Filter, field string, raw json.RawMessage) (Filter, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, invalid(ErrFilter, field, "%v", err)
	}
	names := slices.Sorted(maps.Keys(m))
	operators := 0
	for _, name := range names {
		if strings.HasPrefix(name, "$") {
			operators++
		}
	}
	if operators > 0 && (field == "" || operators < len(names)) {
		if field == "" {
			return nil, invalid(ErrFilter, "", "operators such as %q stand below a field", names[0])
		}
		return nil, invalid(ErrFilter, field, "operators and names of fields stand side by side")
	}
	if operators == 0 && len(names) == 0 && field != "" {
		return append(f, Condition{Field: field, Op: OpEq, Value: raw}), nil
	}
	var err error
	for _, name := range names {
		v := m[name]
		path := name
		if field != "" {
			path = field + "." + name
		}
		switch {
		case operators > 0:
			f = append(f, Condition{Field: field, Op: Op(name), Value: v})
		case v[0] == '{':
			if f, err = parseFilter(f, path, v); err != nil {
				return nil, err
			}
		default:
			f = append(f, Condition{Field: path, Op: OpEq, Value: v})
		}
	}
	return f, nil
}

// Check reports what is wrong with a filter, an [*InvalidError] of the kind
// [ErrFilter].
func (f Filter) Check() error {
	for _, c := range f {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Condition) check() error {
	if c.err != nil {
		return invalid(ErrFilter, c.Field, "the value has no JSON: %v", c.err)
	}
	if !slices.Contains(ops, c.Op) {
		return invalid(ErrFilter, c.Field, "unknown operator %q; the operators are %q", c.Op, ops)
	}
	path := c.path()
	if len(path) > MaxDepth {
		return invalid(ErrFilter, "", "a field is deeper than %d objects in one another", MaxDepth)
	}
	for _, part := range path {
		if part == "" || !plain(part) {
			return invalid(ErrFilter, c.Field, "a field's name is empty or is no text")
		}
	}
	v := trim(c.Value)
	if !json.Valid(v) {
		return invalid(ErrFilter, c.Field, "the value of %s is not JSON", c.Op)
	}
	if why := holdable(v); why != "" {
		return invalid(ErrFilter, c.Field, "the value of %s: %s", c.Op, why)
	}
	if c.Op != OpEq && c.Op != OpNe {
		if k := kindOf(v); k != "a number" && k != "a text" {
			return invalid(ErrFilter, c.Field, "%s takes a number or a text, not %s", c.Op, k)
		}
	}
	return nil
}

func (c Condition) path() []string { return strings.Split(c.Field, ".") }

// Match reports whether a value meets all conditions. A filter or value that is
// wrong matches nothing.
func (f Filter) Match(value json.RawMessage) bool {
	for _, c := range f {
		if !c.match(value) {
			return false
		}
	}
	return true
}

func (c Condition) match(value json.RawMessage) bool {
	want, err := decode(c.Value)
	if err != nil || c.err != nil {
		return false
	}
	var have any
	if raw := lookup(value, c.path()); raw != nil {
		if have, err = decode(raw); err != nil {
			return false
		}
	}
	switch c.Op {
	case OpEq:
		return equal(have, want)
	case OpNe:
		return !equal(have, want)
	}
	n, ok := order(have, want)
	if !ok {
		return false
	}
	switch c.Op {
	case OpGt:
		return n > 0
	case OpGte:
		return n >= 0
	case OpLt:
		return n < 0
	case OpLte:
		return n <= 0
	}
	return false
}

// lookup returns what stands at a path of objects, nil if nothing does.
func lookup(value json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		value = bytes.TrimSpace(value)
		if len(value) == 0 || value[0] != '{' {
			return nil
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(value, &m) != nil {
			return nil
		}
		value = m[name]
	}
	return value
}

// decode decodes JSON and keeps the digits of numbers.
func decode(raw json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		n, comparable := compareNumbers(string(a), string(b))
		return ok && comparable && n == 0
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false // not comparable with ==
	}
	return a == b
}

// order compares numbers with numbers and texts with texts.
func order(a, b any) (n int, ok bool) {
	switch a := a.(type) {
	case json.Number:
		if b, ok := b.(json.Number); ok {
			return compareNumbers(string(a), string(b))
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true
		}
	}
	return 0, false
}

func compareNumbers(a, b string) (n int, ok bool) {
	i, err := strconv.ParseInt(a, 10, 64)
	j, err2 := strconv.ParseInt(b, 10, 64)
	if err == nil && err2 == nil {
		return cmp.Compare(i, j), true
	}
	if !inRange(a) || !inRange(b) {
		return 0, false
	}
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok || !ok2 {
		return 0, false
	}
	return x.Cmp(y), true
}
