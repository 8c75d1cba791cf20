package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/field"
)

// Value is a state field that holds one value of any type. Use it for what a
// plain field cannot be: a slice, a map, a pointer or a struct that holds one.
//
// When two tasks of one superstep set it to different values, the superstep
// fails with an error that names both; equal values are fine. Setting the value
// that the field already has is no write.
//
// What is set is frozen: neither the caller nor anybody who gets it may alter
// memory that it refers to. Make a copy, alter that, and set it. A type with a
// method Clone() T is exempt: it is cloned when set and whenever it is handed
// out.
//
// After a replay the value is what encoding/json makes of its JSON. For T = any
// that means float64 for every number; declare the type to get it back.
//
// The zero Value holds the zero T and is ready to use. Like all field types it
// may be copied, and is used by one goroutine at a time.
type Value[T any] struct {
	stamp stamp
	base  *valueChange[T] // what was set last; nil: nothing, ever. It is frozen
	pend  *valueChange[T] // set since Bind
}

// Get returns the value. Do not alter what it refers to, unless T has a method
// Clone() T.
func (v *Value[T]) Get() T {
	return cloned(v.value())
}

// Set sets the value.
func (v *Value[T]) Set(x T) {
	v.stamp.own()
	v.pend = &valueChange[T]{cloned(x)}
}

func (v *Value[T]) value() T { return cmp.Or(v.pend, v.base).get() }

// IsZero reports whether the value is the zero T; encoding/json's omitzero uses
// it.
func (v Value[T]) IsZero() bool { return isZero(v.value()) }

// String formats the value as fmt.Sprint does.
func (v Value[T]) String() string { return fmt.Sprint(v.value()) }

// MarshalJSON returns the JSON of the value.
func (v Value[T]) MarshalJSON() ([]byte, error) { return json.Marshal(v.value()) }

// UnmarshalJSON replaces the value.
func (v *Value[T]) UnmarshalJSON(data []byte) error {
	var x T
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	*v = Value[T]{base: &valueChange[T]{x}}
	return nil
}

// Merger implements [field.Merging], for the engine.
func (v *Value[T]) Merger() field.Merger { return (*valueMerger[T])(v) }

// valueMerger is a Value as the engine sees it.
type valueMerger[T any] Value[T]

// Bind implements [field.Merger].
func (f *valueMerger[T]) Bind() {
	f.base, f.pend = cmp.Or(f.pend, f.base), nil
	f.stamp.bind()
}

// Change implements [field.Merger].
func (f *valueMerger[T]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if f.pend == nil || f.base != nil && equalAt(&f.pend.value, &f.base.value) || f.base == nil && equal(f.pend.value, *new(T)) {
		return nil, nil
	}
	if scalar[T]() { // of others finite would have a copy made
		if err := finite(f.pend.value); err != nil {
			return nil, err
		}
	}
	return f.pend, nil
}

// Write implements [field.Merger].
func (f *valueMerger[T]) Write(c field.Change) error {
	v := (*Value[T])(f)
	vc, err := changeAs[*valueChange[T]](c)
	if err == nil {
		v.Set(vc.value)
	}
	return err
}

// Apply implements [field.Merger].
func (f *valueMerger[T]) Apply(c field.Change) error {
	vc, err := changeAs[*valueChange[T]](c)
	if err == nil {
		*f = valueMerger[T]{base: vc}
	}
	return err
}

// DecodeChange implements [field.Merger].
func (*valueMerger[T]) DecodeChange(data []byte) (field.Change, error) {
	if ops, ok := operations(data, opOverwrite); ok {
		data = ops[opOverwrite]
	}
	c := new(valueChange[T])
	if err := decodeJSON(data, &c.value); err != nil {
		return nil, err
	}
	return c, nil
}

// Check implements [field.Checker].
func (*valueMerger[T]) Check(cs []field.Change) (later, earlier int, err error) {
	// Equality is transitive, so comparing with the first is enough.
	for i, c := range cs[1:] {
		if !equalAt(&c.(*valueChange[T]).value, &cs[0].(*valueChange[T]).value) {
			return i + 1, 0, errSet
		}
	}
	return -1, -1, nil
}

// Infallible implements [field.Infallible].
func (*valueMerger[T]) Infallible() bool { return true }

// AppendJSON appends what MarshalJSON of the field returns.
func (f *valueMerger[T]) AppendJSON(b []byte) ([]byte, error) {
	if c := cmp.Or(f.pend, f.base); c != nil {
		return appendJSON(b, &c.value)
	}
	return appendJSON(b, new(T))
}

// Replaces implements [state.Replacing].
func (*valueMerger[T]) Replaces() bool { return true }

// SchemaOf implements [field.Schemer].
func (*valueMerger[T]) SchemaOf() any { return zeroOf[T]() }

// valueChange is the change of Value and Ephemeral: the new value. It is frozen, and so
// is what the fields hold.
type valueChange[T any] struct{ value T }

// get returns the value, the zero T of none.
func (c *valueChange[T]) get() (value T) {
	if c != nil {
		value = c.value
	}
	return value
}

func (c *valueChange[T]) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// AppendJSON spares the engine from looking at the JSON once more.
func (c *valueChange[T]) AppendJSON(b []byte) ([]byte, error) {
	if scalar[T]() { // of others encodable would have a copy made
		if err := encodable(c.value); err != nil {
			return nil, err
		}
	}
	n := len(b)
	b, err := appendJSON(b, &c.value)
	if err != nil {
		return nil, err
	}
	// A value that reads like an operation is wrapped in one.
	if _, ok := operations(b[n:], opOverwrite); ok {
		b = append(slices.Insert(b, n, overwritten...), '}')
	}
	return b, nil
}

// overwritten begins an update that replaces a value.
var overwritten = []byte(`{"` + opOverwrite + `":`)

// appender is an encoder of JSON that appends to b. They are used again.
type appender struct {
	json.Encoder
	b []byte
}

var appenders = sync.Pool{New: func() any {
	a := new(appender)
	a.Encoder = *json.NewEncoder(a)
	return a
}}

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// appendJSON appends what json.Marshal returns for the value at v.
func appendJSON(b []byte, v any) ([]byte, error) {
	a := appenders.Get().(*appender)
	a.b = b
	err := a.Encode(v)
	b, a.b = a.b, nil
	appenders.Put(a)
	return bytes.TrimSuffix(b, []byte("\n")), err
}

// source is a decoder of JSON that reads what it is given. They are used again.
type source struct {
	json.Decoder
	b     []byte
	given int64
}

var sources = sync.Pool{New: func() any {
	s := new(source)
	s.Decoder = *json.NewDecoder(s)
	return s
}}

func (s *source) Read(p []byte) (n int, err error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n = copy(p, s.b)
	s.b = s.b[n:]
	return n, nil
}

// mostRead is the size of what is decoded up to which a decoder, which holds it, is used
// again.
const mostRead = 64 << 10

// decodeJSON is json.Unmarshal.
func decodeJSON(data []byte, v any) error {
	if len(data) > mostRead || len(data) == 0 || data[len(data)-1] != '}' && data[len(data)-1] != ']' {
		return json.Unmarshal(data, v) // of the rest, a decoder reads on to see where it ends
	}
	s := sources.Get().(*source)
	s.b = data
	s.given += int64(len(data))
	if s.Decode(v) != nil || len(s.b) > 0 || s.InputOffset() != s.given {
		return json.Unmarshal(data, v) // which says what is wrong
	}
	s.b = nil
	sources.Put(s)
	return nil
}

// zeroOf returns the zero T, or a pointer to it where it would be nil.
func zeroOf[T any]() any {
	if zero := any(*new(T)); zero != nil {
		return zero
	}
	return new(T)
}

// The conflicts.
var (
	errSet       = errors.New("two tasks of one superstep set different values")
	errOverwrite = errors.New("two tasks of one superstep overwrite with different values")
)

// The operations of an update in JSON.
const (
	opOverwrite = "$overwrite" // replace the value
	opDelete    = "$delete"    // keys to delete from a map
	opKeep      = "$keep"      // what to put into a map or a set where it is gone
	opAdd       = "$add"       // elements to add to a set
	opRemove    = "$remove"    // elements to remove from a set
	opUpdates   = "$updates"   // updates to fold into a reduced value, in order
	opNow       = "$now"       // in a snapshot: an ephemeral value
	opNext      = "$next"      // in a snapshot: what makes the one to come
)

// stamp tells a field of a task's copy from copies of that field. It holds its
// own address: in a copy, that is another's.
type stamp struct {
	self  *stamp
	bound bool // nothing replaced the field since Bind
}

func (s *stamp) bind() { s.self, s.bound = s, true }

// own is called before a write. It reports whether what is pending may be
// altered in place: it may not when it is shared with the field that the
// receiver is a copy of.
func (s *stamp) own() bool {
	if s.self == s {
		return true
	}
	s.self, s.bound = s, false
	return false
}

func (s *stamp) check() error {
	if !s.bound || s.self != s {
		return field.ErrReplaced
	}
	return nil
}

// changeAs returns c as the change type C.
func changeAs[C field.Change](c field.Change) (C, error) {
	if cc, ok := c.(C); ok {
		return cc, nil
	}
	var want C
	return want, fmt.Errorf("graph: a change of type %T given where %T is needed", c, want)
}

// operations returns the members of data when it is an object made of the named
// operations only.
func operations(data []byte, names ...string) (map[string]json.RawMessage, bool) {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' || !bytes.Contains(data, []byte(`$`)) {
		return nil, false
	}
	var ops map[string]json.RawMessage
	if json.Unmarshal(data, &ops) != nil || len(ops) == 0 {
		return nil, false
	}
	n := 0
	for _, name := range names {
		if _, ok := ops[name]; ok {
			n++
		}
	}
	return ops, n == len(ops)
}

// cloner returns the function that makes a T safe to share: its method Clone()
// T, or for a slice one that cuts its capacity, so that whoever appends to it
// makes a copy. It returns nil for a T that needs neither. Finding out costs a
// few nanoseconds: do it once a call, not once an item.
func cloner[T any]() func(T) T {
	type clonable interface{ Clone() T }
	switch kind := reflect.TypeFor[T]().Kind(); {
	case kind == reflect.Interface:
		if !reflect.TypeFor[T]().Implements(reflect.TypeFor[clonable]()) {
			return nil
		}
		return func(v T) T {
			if c, ok := any(v).(clonable); ok {
				return c.Clone()
			}
			return v
		}
	case kind == reflect.Pointer:
		if _, ok := any(*new(T)).(clonable); !ok {
			return nil
		}
		return func(v T) T {
			if any(v) == any(*new(T)) {
				return v // a nil pointer has nothing to clone
			}
			return any(v).(clonable).Clone()
		}
	}
	if _, ok := any((*T)(nil)).(clonable); ok { // it has the methods of T, too
		return func(v T) T { return any(&v).(clonable).Clone() }
	}
	if reflect.TypeFor[T]().Kind() == reflect.Slice {
		return clip[T]
	}
	return nil
}

// clip cuts a slice's capacity to its length, so that whoever appends to it makes a copy
// and never writes behind a value that others can see.
func clip[T any](v T) T {
	if reflect.TypeFor[T]().Kind() == reflect.Slice {
		s := reflect.ValueOf(&v).Elem()
		s.SetCap(s.Len())
	}
	return v
}

func cloned[T any](v T) T {
	if _, ok := any((*T)(nil)).(interface{ Clone() T }); !ok && reflect.TypeFor[T]().Kind() == reflect.Slice {
		return clip(v) // without a function that would be made for it
	}
	if clone := cloner[T](); clone != nil {
		return clone(v)
	}
	return v
}

// equal compares deeply, floats by their bits and times by instant and offset.
func equal[T any](a, b T) bool {
	if same, known := equalSimple(&a, &b); known {
		return same
	}
	x, y := a, b // which escape, where a and b don't
	return equalDeeply(&x, &y)
}

// equalAt is equal for values that need not be copied.
func equalAt[T any](a, b *T) bool {
	if same, known := equalSimple(a, b); known {
		return same
	}
	return equalDeeply(a, b)
}

// equalSimple is equal for the types that are most common.
func equalSimple[T any](a, b *T) (same, known bool) {
	switch a := any(a).(type) {
	case *string:
		return *a == *any(b).(*string), true
	case *int:
		return *a == *any(b).(*int), true
	case *bool:
		return *a == *any(b).(*bool), true
	case *struct{}:
		return true, true
	case *float64:
		return math.Float64bits(*a) == math.Float64bits(*any(b).(*float64)), true
	case *time.Time:
		return equalTime(*a, *any(b).(*time.Time)), true
	}
	return false, false
}

func equalDeeply[T any](a, b *T) bool {
	if !reflect.DeepEqual(a, b) {
		return false
	}
	// DeepEqual takes 0 and -0 for equal. Their JSON differs.
	if !holdsZero(reflect.ValueOf(a).Elem(), 0) {
		return true
	}
	ja, erra := json.Marshal(a)
	jb, errb := json.Marshal(b)
	return erra != nil || errb != nil || bytes.Equal(ja, jb)
}

// holdsZero reports whether a float in v is 0, or v is so deep that it may be endless.
func holdsZero(v reflect.Value, depth int) bool {
	if depth > 100 {
		return true
	}
	switch depth++; v.Kind() {
	case reflect.Float32, reflect.Float64:
		return v.Float() == 0
	case reflect.Interface, reflect.Pointer:
		return holdsZero(v.Elem(), depth)
	case reflect.Array, reflect.Slice:
		if k := v.Type().Elem().Kind(); k < reflect.Float32 || k == reflect.String { // such as long bytes
			return false
		}
		for i := range v.Len() {
			if holdsZero(v.Index(i), depth) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if holdsZero(it.Key(), depth) || holdsZero(it.Value(), depth) {
				return true
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() { // its place has tables
			return false
		}
		for i := range v.NumField() {
			if holdsZero(v.Field(i), depth) {
				return true
			}
		}
	}
	return false
}

// scalar reports whether values of a type are numbers, strings or booleans.
func scalar[T any]() bool {
	k := reflect.TypeFor[T]().Kind()
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
}

var hashSeed = maphash.MakeSeed()

// hashScalar hashes a number, a string or a boolean, of which it is given the place so
// that it need not be copied to the heap. It tells 0 and -0 apart, as their JSON does.
func hashScalar[T any](v *T) uint64 {
	switch v := any(v).(type) {
	case *string:
		return maphash.String(hashSeed, *v)
	case *int:
		return maphash.Comparable(hashSeed, *v)
	}
	switch v := reflect.ValueOf(v).Elem(); {
	case v.CanFloat():
		return maphash.Comparable(hashSeed, math.Float64bits(v.Float()))
	case v.CanInt():
		return maphash.Comparable(hashSeed, v.Int())
	case v.CanUint():
		return maphash.Comparable(hashSeed, v.Uint())
	case v.Kind() == reflect.Bool:
		return maphash.Comparable(hashSeed, v.Bool())
	default:
		return maphash.String(hashSeed, v.String())
	}
}

func equalSlices[T any](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalAt(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func equalTime(a, b time.Time) bool {
	_, oa := a.Zone()
	_, ob := b.Zone()
	return oa == ob && a.Equal(b)
}

func isZero[T any](v T) bool {
	return reflect.ValueOf(&v).Elem().IsZero()
}

var errNotFinite = errors.New("NaN and infinity cannot be stored")

// finite returns an error when one of vs is a float that JSON has no form for.
func finite[T any](vs ...T) error {
	kind := reflect.TypeFor[T]().Kind()
	if kind != reflect.Float64 && kind != reflect.Float32 {
		return nil
	}
	for i := range vs {
		if f := reflect.ValueOf(&vs[i]).Elem().Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: %v", errNotFinite, f)
		}
	}
	return nil
}

var errNotUTF8 = errors.New("a string is not valid UTF-8, so JSON cannot hold it; keep such data as []byte")

// encodable returns an error when one of vs is a string that JSON would alter.
func encodable[T any](vs ...T) error {
	if reflect.TypeFor[T]().Kind() != reflect.String {
		return nil
	}
	for i := range vs {
		if !utf8.ValidString(reflect.ValueOf(&vs[i]).Elem().String()) {
			return errNotUTF8
		}
	}
	return nil
}
