// Package mapstate makes a state that is a map with declared fields opaque to
// the core: states are slots by declared field, nodes see private copies as a
// map, and what they return is folded field by field. It is to schema graphs
// what package state is to graphs over a struct.
package mapstate

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/plan"
)

// Field is a declared field.
type Field struct {
	Name      string
	Type      reflect.Type
	Default   any // a value of Type, or a function without arguments that returns one; nil: none
	Reducer   Reducer
	Required  bool
	Untracked bool     // never stored
	Former    []string // names that older records have
}

// Kind says how updates of a field are folded.
type Kind uint8

// The kinds of reducers.
const (
	Replace  Kind = iota // the last write wins; two in one superstep are remarkable
	Override             // the last write wins, declared
	Append
	Merge
	Sum
	Func
)

// Reducer folds updates into a value.
type Reducer struct {
	Kind   Kind
	Fn     func(existing, update any) any // of kind Func
	Value  reflect.Type                   // of kind Func: type of the value; nil: any
	Update reflect.Type                   // of kind Func: type of updates; nil: any
	Only   reflect.Type                   // the one field type it is for; nil: any that fits
}

// Problem is a mistake in a declaration.
type Problem struct {
	Field  string
	Text   string
	Advice string
}

// Type handles states with the same declared fields. It is immutable and safe
// for concurrent use.
type Type struct {
	Strict   bool
	Reserved map[string]bool // names that updates may not have

	fields   []field
	index    map[string]int32
	former   map[string]string // former name to present one
	required []int32
	named    map[string]reflect.Type // types known by name
	scratch  sync.Pool
}

type field struct {
	Field
	update   reflect.Type // of an update; nil: any
	elem     reflect.Type // of kind Append
	fallback any          // the default, shared: never altered; nil: none
	add      func(a, b any) any
	salt     uint64
	hashable bool
}

var seed = maphash.MakeSeed()

// New returns the Type for declared fields, or everything that is wrong with
// them. Types are those that values of interface types may hold, beside the
// predeclared ones and those that the fields mention.
func New(fields []Field, types []reflect.Type, strict bool) (*Type, []Problem) {
	t := &Type{Strict: strict, index: map[string]int32{}, former: map[string]string{}, named: map[string]reflect.Type{}}
	var problems []Problem
	problem := func(field, advice, format string, args ...any) {
		problems = append(problems, Problem{Field: field, Text: fmt.Sprintf(format, args...), Advice: advice})
	}
	for _, typ := range types {
		if typ == nil {
			problem("", "pass reflect.TypeFor[T]()", "a nil type is registered")
			continue
		}
		if bad, why := unstorable(typ); bad != nil {
			problem("", "give it methods MarshalJSON and UnmarshalJSON", "registered type %v can't be stored: %v %s", typ, bad, why)
		}
		t.know(typ)
	}
	for _, d := range fields {
		before := len(problems)
		switch _, twice := t.index[d.Name]; {
		case d.Name == "":
			problem("", "give it a name", "a field has an empty name")
		case strings.HasPrefix(d.Name, "$"):
			problem(d.Name, "choose another name", "field %q: names that begin with $ are reserved", d.Name)
		case twice:
			problem(d.Name, "remove one of them", "field %q is declared twice", d.Name)
		case d.Type == nil:
			problem(d.Name, "set Field.Type, or use graph.FieldOf", "field %q has no type", d.Name)
		}
		if len(problems) > before {
			continue
		}
		f := field{Field: d, salt: maphash.String(seed, d.Name) | 1, hashable: hashable(d.Type)}
		f.Former = slices.Clone(d.Former)
		if !d.Untracked {
			if bad, why := unstorable(d.Type); bad != nil {
				problem(d.Name, fmt.Sprintf("set Untracked, or give %v methods MarshalJSON and UnmarshalJSON", bad), "field %q (%v): %v %s", d.Name, d.Type, bad, why)
			}
		}
		if text, advice := f.reducer(); text != "" {
			problem(d.Name, advice, "field %q (%v): %s", d.Name, d.Type, text)
		}
		if text, advice := f.setDefault(); text != "" {
			problem(d.Name, advice, "field %q: %s", d.Name, text)
		}
		t.know(d.Type)
		if f.update != nil {
			t.know(f.update)
		}
		i := int32(len(t.fields))
		t.index[d.Name] = i
		if d.Required {
			t.required = append(t.required, i)
		}
		t.fields = append(t.fields, f)
	}
	for i := range t.fields {
		f := &t.fields[i]
		for _, old := range f.Former {
			other, taken := t.former[old]
			if _, is := t.index[old]; is {
				problem(f.Name, "remove it from Former", "field %q was formerly %q, which is the name of another field", f.Name, old)
			} else if taken {
				problem(f.Name, "keep it at one of them", "%q is the former name of both %q and %q", old, other, f.Name)
			}
			t.former[old] = f.Name
		}
	}
	if problems != nil {
		return nil, problems
	}
	t.scratch.New = func() any { return newScratch(len(t.fields)) }
	return t, nil
}

// reducer completes what follows from the field's reducer, or says why it
// doesn't fit.
func (f *field) reducer() (text, advice string) {
	r := &f.Reducer
	f.update = f.Type
	if r.Only != nil && r.Only != f.Type {
		return fmt.Sprintf("its reducer is for %v", r.Only), "use another reducer or another type"
	}
	switch r.Kind {
	case Append:
		if f.Type.Kind() != reflect.Slice {
			return "a reducer that appends needs a slice", "make it a slice, or use another reducer"
		}
		f.elem = f.Type.Elem()
	case Merge:
		if f.Type.Kind() != reflect.Map {
			return "a reducer that merges needs a map", "make it a map, or use another reducer"
		}
	case Sum:
		if f.add = adder(f.Type); f.add == nil {
			return "a reducer that adds needs a number", "make it a number, or use another reducer"
		}
	case Func:
		f.update = r.Update
		switch {
		case r.Fn == nil:
			return "its reducer is a nil function", "pass the function"
		case r.Value != nil && r.Value != f.Type:
			return fmt.Sprintf("its reducer is for values of type %v", r.Value), "make the types the same"
		}
		if r.Update != nil && !f.Untracked {
			if bad, why := unstorable(r.Update); bad != nil {
				return fmt.Sprintf("updates of type %v can't be stored: %v %s", r.Update, bad, why), "give it methods MarshalJSON and UnmarshalJSON"
			}
		}
	}
	return "", ""
}

func (f *field) setDefault() (text, advice string) {
	d := f.Default
	if d == nil {
		return "", ""
	}
	v := reflect.ValueOf(d)
	if k := v.Type(); k.Kind() == reflect.Func && k.NumIn() == 0 && k.NumOut() == 1 && f.Type.Kind() != reflect.Func {
		if v.IsNil() {
			return "its default is a nil function", "remove it"
		}
		var err error
		if d, err = callDefault(v); err != nil {
			return fmt.Sprintf("its default: %v", err), "let it return a value"
		}
	}
	v0, got, ok := f.assign(f.Type, d)
	if !ok {
		return fmt.Sprintf("its default is %s, not %v", article(got), f.Type), fmt.Sprintf("give a default of type %v", f.Type)
	}
	if f.Untracked {
		f.fallback = v0
		return "", ""
	}
	c, err := clone(v0)
	if err != nil {
		return fmt.Sprintf("its default: %v", err), "give another default"
	}
	f.fallback = c
	return "", ""
}

func callDefault(fn reflect.Value) (d any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return fn.Call(nil)[0].Interface(), nil
}

func article(got string) string {
	if got == "nil" {
		return got
	}
	return "a value of type " + got
}

// null is how an explicit nil is kept in a slot of an interface type: the nil
// slot is the absent one.
type null struct{}

// assign returns v as a value of type t, or the name of its type.
func (f *field) assign(t reflect.Type, v any) (value any, got string, ok bool) {
	if v == nil {
		switch t.Kind() {
		case reflect.Interface:
			return null{}, "", true
		case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Func, reflect.Chan:
			return reflect.Zero(t).Interface(), "", true
		}
		return nil, "nil", false
	}
	switch vt := reflect.TypeOf(v); {
	case vt == t, t.Kind() == reflect.Interface && vt.Implements(t):
		return normal(v), "", true
	case vt.AssignableTo(t):
		return reflect.ValueOf(v).Convert(t).Interface(), "", true
	default:
		return nil, vt.String(), false
	}
}

// Names returns the names of the declared fields in order.
func (t *Type) Names() []string {
	names := make([]string, len(t.fields))
	for i := range t.fields {
		names[i] = t.fields[i].Name
	}
	return names
}

// Has reports whether a field is declared.
func (t *Type) Has(name string) bool {
	_, ok := t.index[name]
	return ok
}

// unknown returns the error for a name that no field has.
func (t *Type) unknown(name string) error {
	names := t.Names()
	return &UnknownFieldError{Field: name, Near: plan.Nearest(name, names), Valid: names}
}

func hashable(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.String, reflect.Bool:
		return true
	case reflect.Array:
		return hashable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !hashable(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return k >= reflect.Int && k <= reflect.Float64
	}
}
