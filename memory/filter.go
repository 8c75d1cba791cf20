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

	// These take a list of values: the field is equal to one of them, or to none.
	OpIn    Op = "$in"
	OpNotIn Op = "$nin"

	// These join conditions.
	OpAnd Op = "$and"
	OpOr  Op = "$or"
	OpNot Op = "$not"
)

var ops = []Op{OpEq, OpNe, OpGt, OpGte, OpLt, OpLte, OpIn, OpNotIn, OpAnd, OpOr, OpNot}

// Joins reports whether the operator joins conditions, rather than comparing a field.
func (op Op) Joins() bool { return op == OpAnd || op == OpOr || op == OpNot }

// maxNesting is how many conditions may stand in one another: databases have a limit.
const maxNesting = 100

// Condition compares a field of an item's value, or joins other conditions. See
// [Filter].
type Condition struct {
	// Field is a name, or names joined by points that lead into objects. It is empty
	// where Of are joined.
	Field string
	Op    Op
	// Value is JSON: of [OpIn] and [OpNotIn] an array, of [OpEq] and [OpNe] anything,
	// of other operators a number or a text.
	Value json.RawMessage

	// Of are the conditions that [OpAnd], [OpOr] or [OpNot] join.
	Of Filter

	err error // of making Value
}

// Filter are conditions that must all hold.
//
// Numbers are compared by value, exactly, and texts byte by byte. A number is
// neither less nor greater than a text, nor is there an order of anything else.
// Objects and arrays are equal if all in them is. A field that isn't there is
// like one that is null: [Ne], [NotIn] and [Not] find items that lack a field.
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

// In: the field is equal to one of the values, which are encoded as JSON. Without
// values it never holds.
func In[T any](field string, values ...T) Condition {
	return condition(field, OpIn, append([]T{}, values...))
}

// NotIn: the field is equal to none of the values, which are encoded as JSON. Without
// values it always holds.
func NotIn[T any](field string, values ...T) Condition {
	return condition(field, OpNotIn, append([]T{}, values...))
}

// And: all of the conditions hold. It makes one of several for [Or].
func And(of ...Condition) Condition { return Condition{Op: OpAnd, Of: of} }

// Or: at least one of the conditions holds. Without conditions it never does.
func Or(of ...Condition) Condition { return Condition{Op: OpOr, Of: of} }

// Not: the conditions don't all hold.
func Not(of ...Condition) Condition { return Condition{Op: OpNot, Of: of} }

func condition[T any](field string, op Op, v T) Condition {
	raw, err := json.Marshal(v)
	return Condition{Field: field, Op: op, Value: raw, err: err}
}

// ParseFilter reads a filter from a JSON object, such as
//
//	{"kind": "note", "author.name": "Ann", "stars": {"$gte": 3, "$lt": 5}}
//	{"kind": {"$in": ["note", "fact"]}, "$or": [{"stars": 5}, {"author": {"name": "Ann"}}]}
//
// A name stands for a field, with points in it for a field of a field, and an
// object as its value has operators or is a filter of the object there. The
// operators $and and $or take a list of filters and $not takes one: of the whole value,
// or below a field of what is there. Nothing and null are an empty filter.
func ParseFilter(raw json.RawMessage) (Filter, error) {
	raw = trim(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' || !json.Valid(raw) {
		return nil, invalid(ErrFilter, "", "it is not a JSON object")
	}
	f, err := parseFilter(nil, "", raw, 0)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

func parseFilter(f Filter, field string, raw json.RawMessage, nesting int) (Filter, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, invalid(ErrFilter, field, "%v", err)
	}
	if len(m) == 0 && field != "" {
		return append(f, Condition{Field: field, Op: OpEq, Value: raw}), nil
	}
	names := slices.Sorted(maps.Keys(m))
	comparing, fields := "", false
	for _, name := range names {
		switch {
		case !strings.HasPrefix(name, "$"):
			fields = true
		case !Op(name).Joins():
			comparing = name
		}
	}
	if comparing != "" && field == "" {
		return nil, invalid(ErrFilter, "", "operators such as %q stand below a field", comparing)
	}
	if comparing != "" && fields {
		return nil, invalid(ErrFilter, field, "operators and names of fields stand side by side")
	}
	var err error
	for _, name := range names {
		v := trim(m[name])
		path := name
		if field != "" {
			path = field + "." + name
		}
		switch op := Op(name); {
		case op.Joins():
			c := Condition{Op: op}
			if c.Of, err = parseJoined(op, field, v, nesting+1); err != nil {
				return nil, err
			}
			f = append(f, c)
		case strings.HasPrefix(name, "$"):
			f = append(f, Condition{Field: field, Op: op, Value: v})
		case v[0] == '{':
			if f, err = parseFilter(f, path, v, nesting); err != nil {
				return nil, err
			}
		default:
			f = append(f, Condition{Field: path, Op: OpEq, Value: v})
		}
	}
	return f, nil
}

// parseJoined reads what an operator joins: filters of the whole value, or of a field.
func parseJoined(op Op, field string, raw json.RawMessage, nesting int) (Filter, error) {
	if nesting > maxNesting {
		return nil, tooNested(field)
	}
	if op == OpNot {
		if raw[0] != '{' {
			return nil, invalid(ErrFilter, field, "%s takes a filter, which is an object, not %s", op, kindOf(raw))
		}
		return parseFilter(nil, field, raw, nesting)
	}
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, invalid(ErrFilter, field, "%s takes an array of filters, not %s", op, kindOf(raw))
	}
	var out Filter
	for i, one := range list {
		if one[0] != '{' {
			return nil, invalid(ErrFilter, field, "%s has %s at index %d; a filter is an object", op, kindOf(one), i)
		}
		f, err := parseFilter(nil, field, one, nesting)
		if err != nil {
			return nil, err
		}
		if len(f) == 1 {
			out = append(out, f[0])
		} else {
			out = append(out, And(f...))
		}
	}
	return out, nil
}

func tooNested(field string) error {
	return invalid(ErrFilter, field, "more than %d conditions are in one another", maxNesting)
}

// Check reports what is wrong with a filter, an [*InvalidError] of the kind
// [ErrFilter].
func (f Filter) Check() error { return f.check(0) }

func (f Filter) check(nesting int) error {
	for _, c := range f {
		if err := c.check(nesting); err != nil {
			return err
		}
	}
	return nil
}

func (c Condition) check(nesting int) error {
	if c.err != nil {
		return invalid(ErrFilter, c.Field, "the value has no JSON: %v", c.err)
	}
	if !slices.Contains(ops, c.Op) {
		return invalid(ErrFilter, c.Field, "unknown operator %q; the operators are %q", c.Op, ops)
	}
	if c.Op.Joins() {
		switch {
		case c.Field != "" || len(c.Value) > 0:
			return invalid(ErrFilter, c.Field, "%s joins the conditions of Of, and has no Field and no Value", c.Op)
		case nesting == maxNesting:
			return tooNested("")
		}
		return c.Of.check(nesting + 1)
	}
	if len(c.Of) > 0 {
		return invalid(ErrFilter, c.Field, "%s compares a field, and joins no conditions", c.Op)
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
	switch k := kindOf(v); c.Op {
	case OpEq, OpNe:
	case OpIn, OpNotIn:
		if k != "an array" {
			return invalid(ErrFilter, c.Field, "%s takes an array of values, not %s", c.Op, k)
		}
	default:
		if k != "a number" && k != "a text" {
			return invalid(ErrFilter, c.Field, "%s takes a number or a text, not %s", c.Op, k)
		}
	}
	return nil
}

func (c Condition) path() []string { return strings.Split(c.Field, ".") }

// Match reports whether a value meets all conditions. A filter or value that is
// wrong matches nothing. For many values, [Filter.Matcher] is faster.
func (f Filter) Match(value json.RawMessage) bool { return f.Matcher()(value) }

// Matcher returns a function that does what [Filter.Match] does.
func (f Filter) Matcher() func(value json.RawMessage) bool {
	if len(f) == 0 {
		return func(json.RawMessage) bool { return true }
	}
	if f.Check() != nil {
		return func(json.RawMessage) bool { return false }
	}
	holds := f.all()
	return func(value json.RawMessage) bool {
		v, err := decode(value)
		return err == nil && holds(v)
	}
}

// all returns what reports whether all conditions of a checked filter hold.
func (f Filter) all() func(v any) bool {
	each := make([]func(any) bool, len(f))
	for i, c := range f {
		each[i] = c.holds()
	}
	return func(v any) bool {
		return !slices.ContainsFunc(each, func(holds func(any) bool) bool { return !holds(v) })
	}
}

func (c Condition) holds() func(v any) bool {
	switch c.Op {
	case OpAnd:
		return c.Of.all()
	case OpNot:
		all := c.Of.all()
		return func(v any) bool { return !all(v) }
	case OpOr: // not all of them don't hold
		none := make(Filter, len(c.Of))
		for i, one := range c.Of {
			none[i] = Not(one)
		}
		return Not(none...).holds()
	}
	path := c.path()
	want, err := decode(c.Value)
	if err != nil { // which Check would have said
		return func(any) bool { return false }
	}
	list, _ := want.([]any)
	compare := func(have any) bool {
		switch c.Op {
		case OpEq:
			return equal(have, want)
		case OpNe:
			return !equal(have, want)
		case OpIn, OpNotIn:
			return (c.Op == OpIn) == slices.ContainsFunc(list, func(one any) bool { return equal(have, one) })
		}
		n, ok := order(have, want)
		switch c.Op {
		case OpGt:
			return ok && n > 0
		case OpGte:
			return ok && n >= 0
		case OpLt:
			return ok && n < 0
		}
		return ok && n <= 0 // OpLte
	}
	return func(v any) bool {
		for _, name := range path {
			m, ok := v.(map[string]any)
			if !ok {
				return compare(nil)
			}
			v = m[name]
		}
		return compare(v)
	}
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
