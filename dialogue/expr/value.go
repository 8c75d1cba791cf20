package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// Kind says what a [Value] is.
type Kind uint8

// The kinds of values.
const (
	None Kind = iota
	Boolean
	Number
	Text
	List
	Object
)

// String returns the kind's name, as error messages say it.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Boolean:
		return "boolean"
	case Number:
		return "number"
	case Text:
		return "text"
	case List:
		return "list"
	case Object:
		return "object"
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Value is what a slot holds and an expression yields. The zero Value is none. A
// Value is never changed; its JSON is the JSON of what it holds.
type Value struct {
	kind   Kind
	number float64 // 1 for true
	text   string
	list   []Value
	object map[string]Value
}

// Bool returns a boolean.
func Bool(b bool) Value {
	if b {
		return Value{kind: Boolean, number: 1}
	}
	return Value{kind: Boolean}
}

// Num returns a number; none for NaN and the infinities, which JSON doesn't have.
func Num(n float64) Value {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return Value{}
	}
	if n == 0 {
		n = 0 // one zero, without a sign
	}
	return Value{kind: Number, number: n}
}

// Str returns a text. What is not UTF-8 in it is replaced, as JSON would do.
func Str(s string) Value {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return Value{kind: Text, text: s}
}

// ListOf returns a list of the values.
func ListOf(items ...Value) Value { return Value{kind: List, list: slices.Clone(items)} }

// ObjectOf returns an object with the members.
func ObjectOf(members map[string]Value) Value {
	return Value{kind: Object, object: maps.Clone(members)}
}

// Kind returns what v is.
func (v Value) Kind() Kind { return v.kind }

// IsNone says whether v is none.
func (v Value) IsNone() bool { return v.kind == None }

// Bool returns a boolean's value, and whether v is a boolean.
func (v Value) Bool() (value, ok bool) { return v.number == 1, v.kind == Boolean }

// Num returns a number's value, and whether v is a number.
func (v Value) Num() (float64, bool) { return v.number, v.kind == Number }

// Str returns a text's value, and whether v is a text.
func (v Value) Str() (string, bool) { return v.text, v.kind == Text }

// Items returns a copy of a list's items, nil if v is no list.
func (v Value) Items() []Value { return slices.Clone(v.list) }

// Len returns the characters of a text, the items of a list or the members of an
// object, and whether v is one of these.
func (v Value) Len() (int, bool) {
	switch v.kind {
	case Text:
		return utf8.RuneCountInString(v.text), true
	case List:
		return len(v.list), true
	case Object:
		return len(v.object), true
	}
	return 0, false
}

// Keys returns an object's keys in order.
func (v Value) Keys() []string { return slices.Sorted(maps.Keys(v.object)) }

// Get returns an object's member, or a list's item by its index.
func (v Value) Get(key string) (Value, bool) {
	switch v.kind {
	case Object:
		m, ok := v.object[key]
		return m, ok
	case List:
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(v.list) {
			return Value{}, false
		}
		return v.list[i], true
	}
	return Value{}, false
}

// At follows a path of keys and indexes.
func (v Value) At(path []string) (Value, bool) {
	for _, key := range path {
		var ok bool
		if v, ok = v.Get(key); !ok {
			return Value{}, false
		}
	}
	return v, true
}

// Truth says whether v counts as true: none, false, 0, "", [] and {} don't.
func (v Value) Truth() bool {
	switch v.kind {
	case Boolean, Number:
		return v.number != 0
	case Text:
		return v.text != ""
	case List:
		return len(v.list) > 0
	case Object:
		return len(v.object) > 0
	}
	return false
}

// Equal compares as == does: a number and a text that is a number as numbers, lists
// and objects by their content.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		if v.kind == Number && w.kind == Text || v.kind == Text && w.kind == Number {
			a, okA := v.AsNumber()
			b, okB := w.AsNumber()
			return okA && okB && a == b
		}
		return false
	}
	switch v.kind {
	case Boolean, Number:
		return v.number == w.number
	case Text:
		return v.text == w.text
	case List:
		return slices.EqualFunc(v.list, w.list, Value.Equal)
	case Object:
		return maps.EqualFunc(v.object, w.object, Value.Equal)
	}
	return true
}

// Same says whether v and w are the same value of the same kind, all through.
func (v Value) Same(w Value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case List:
		return slices.EqualFunc(v.list, w.list, Value.Same)
	case Object:
		return maps.EqualFunc(v.object, w.object, Value.Same)
	}
	return v.Equal(w)
}

// AsNumber returns the number that v is or that its text is.
func (v Value) AsNumber() (float64, bool) {
	switch v.kind {
	case Number:
		return v.number, true
	case Text:
		if !isNumber(v.text) {
			return 0, false
		}
		n, err := strconv.ParseFloat(v.text, 64)
		return n, err == nil
	}
	return 0, false
}

// isNumber says whether a text is a decimal number: no hexadecimal, no infinities.
func isNumber(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	digits, rest := cutDigits(s)
	if strings.HasPrefix(rest, ".") {
		var more int
		if more, rest = cutDigits(rest[1:]); more == 0 {
			return false
		}
	}
	return digits > 0 && rest == ""
}

func cutDigits(s string) (int, string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i, s[i:]
}

// Order compares two numbers, or two texts, of which numeric ones count as numbers.
// It returns false if there is no order between v and w.
func (v Value) Order(w Value) (int, bool) {
	a, okA := v.AsNumber()
	b, okB := w.AsNumber()
	switch {
	case okA && okB:
		switch {
		case a < b:
			return -1, true
		case a > b:
			return 1, true
		}
		return 0, true
	case v.kind == Text && w.kind == Text:
		return strings.Compare(v.text, w.text), true
	}
	return 0, false
}

// String renders v as a reply does where no language matters: a text as it is, a
// number shortest with at most 15 digits, lists joined by ", ", objects as JSON, none
// as nothing.
func (v Value) String() string {
	switch v.kind {
	case Boolean:
		return strconv.FormatBool(v.number == 1)
	case Number:
		return FormatNumber(v.number)
	case Text:
		return v.text
	case List:
		items := make([]string, len(v.list))
		for i, item := range v.list {
			items[i] = item.String()
		}
		return strings.Join(items, ", ")
	case Object:
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(text)
	}
	return ""
}

// FormatNumber returns n in its shortest form of at most 15 digits, without an
// exponent.
func FormatNumber(n float64) string {
	if math.Abs(n) < 1e15 && n == math.Trunc(n) {
		return strconv.FormatInt(int64(n), 10)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 15, 64), 64)
	if err != nil {
		rounded = n
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// MarshalJSON writes what v holds; objects with their keys in order.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case Boolean:
		return strconv.AppendBool(nil, v.number == 1), nil
	case Number:
		return json.Marshal(v.number)
	case Text:
		return plainjson.Marshal(v.text)
	case List:
		if v.list == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(v.list)
	case Object:
		if v.object == nil {
			return []byte("{}"), nil
		}
		return json.Marshal(v.object)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads any JSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	var x any
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	w, err := FromJSON(x)
	if err != nil {
		return err
	}
	*v = w
	return nil
}

// FromJSON returns the Value of what encoding/json decodes into an any. Integers of Go
// are accepted beside float64.
func FromJSON(x any) (Value, error) { return fromJSON(x, 0) }

const maxNesting = 1000

var errNesting = errors.New("a value is nested more than 1000 deep")

func fromJSON(x any, depth int) (Value, error) {
	if depth > maxNesting {
		return Value{}, errNesting
	}
	switch x := x.(type) {
	case nil:
		return Value{}, nil
	case Value:
		return x, nil
	case bool:
		return Bool(x), nil
	case float64:
		return Num(x), nil
	case int:
		return Num(float64(x)), nil
	case int64:
		return Num(float64(x)), nil
	case uint64:
		return Num(float64(x)), nil
	case string:
		return Str(x), nil
	case []any:
		list := make([]Value, len(x))
		err := eachJSON(slices.All(x), depth, func(i int, v Value) { list[i] = v })
		return Value{kind: List, list: list}, err
	case map[string]any:
		object := make(map[string]Value, len(x))
		err := eachJSON(maps.All(x), depth, func(k string, v Value) { object[k] = v })
		return Value{kind: Object, object: object}, err
	}
	return Value{}, fmt.Errorf("a value can't hold a %T", x)
}

func eachJSON[K comparable](items iter.Seq2[K, any], depth int, put func(K, Value)) error {
	for k, item := range items {
		v, err := fromJSON(item, depth+1)
		if err != nil {
			return err
		}
		put(k, v)
	}
	return nil
}
