package graph

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph/internal/anyjson"
	"github.com/superstep-dev/superstep/graph/internal/state"
)

// schemaType is what follows from a schema. It is immutable and safe for concurrent
// use.
type schemaType struct {
	values   *state.Type
	zero     SchemaState // in which no field is set
	fields   []*declared // the last one is for what isn't declared, unless strict is set
	required []*declared
	index    map[string]int32
	renamed  [][2]string     // former and present names of fields
	reserved map[string]bool // names that updates may not have
	strict   bool
	types    *anyjson.Types
}

// declared is a field as declared, with what follows from it.
type declared struct {
	Field
	name     string
	at       int32 // its place in the state
	reducer  reducer
	strict   bool
	rest     bool // it holds, by their names, values of fields that aren't declared
	types    *anyjson.Types
	update   reflect.Type // of an update; nil: any
	elem     reflect.Type // of one that appends
	fallback any          // the default, shared: never altered
	fallen   bool         // there is a fallback
	add      func(a, b any) any
	hashable bool
}

// reducerKind says how updates of a field are folded.
type reducerKind uint8

const (
	replaces  reducerKind = iota // the last write wins; two in one superstep are remarkable
	overrides                    // the last write wins, declared
	appends
	merges
	sums
	reduces
)

// reducer folds updates into a value.
type reducer struct {
	kind   reducerKind
	fn     func(existing, update any) any // of one that reduces
	value  reflect.Type                   // of one that reduces: type of the value
	update reflect.Type                   // of one that reduces: type of updates; nil: any
	only   reflect.Type                   // the one field type it is for; nil: any that fits
}

// restName is that of the field for what isn't declared. No other begins with $.
const restName = "$extra"

// newSchemaType returns the type of states with these fields, or everything that is
// wrong with them.
func newSchemaType(names []string, fields []Field, types []reflect.Type, reserved []string, strict bool) (*schemaType, []Problem) {
	t := &schemaType{strict: strict, index: map[string]int32{}, reserved: map[string]bool{}, types: anyjson.NewTypes()}
	var problems []Problem
	problem := func(name, fix, format string, args ...any) {
		problems = append(problems, Problem{Kind: "field", Name: name, Text: fmt.Sprintf(format, args...), Fix: fix})
	}
	for _, typ := range types {
		if typ == nil {
			problem("", "pass reflect.TypeFor[T]()", "a nil type is registered")
			continue
		}
		if bad, why := anyjson.Unstorable(typ); bad != nil {
			problem("", "give it methods MarshalJSON and UnmarshalJSON", "registered type %v can't be stored: %v %s", typ, bad, why)
		}
		t.types.Know(typ)
	}
	for i, f := range fields {
		name := names[i]
		switch _, twice := t.index[name]; {
		case name == "":
			problem("", "give it a name", "a field has an empty name")
			continue
		case strings.HasPrefix(name, "$"):
			problem(name, "choose another name", "field %q: names that begin with $ are reserved", name)
			continue
		case twice:
			problem(name, "remove one of them", "field %q is declared twice", name)
			continue
		case f.Type == nil:
			problem(name, "set Field.Type, or use graph.FieldOf", "field %q has no type", name)
			continue
		}
		d := t.declare(name, f)
		if !d.Untracked {
			if bad, why := anyjson.Unstorable(d.Type); bad != nil {
				problem(name, fmt.Sprintf("set Untracked, or give %v methods MarshalJSON and UnmarshalJSON", bad), "field %q (%v): %v %s", name, d.Type, bad, why)
			}
		}
		if text, fix := d.reduce(); text != "" {
			problem(name, fix, "field %q (%v): %s", name, d.Type, text)
		}
		if text, fix := d.setDefault(); text != "" {
			problem(name, fix, "field %q: %s", name, text)
		}
		t.types.Know(d.Type)
		if d.update != nil {
			t.types.Know(d.update)
		}
	}
	for _, name := range reserved {
		if _, ok := t.index[name]; ok {
			problem(name, "choose another name", "field %q is declared and reserved", name)
		}
		t.reserved[name] = true
	}
	if !strict {
		rest := t.declare(restName, Field{Type: reflect.TypeFor[map[string]any](), Reducer: MergeReducer})
		rest.rest = true
		rest.reduce()
		delete(t.index, restName)
	}
	t.init()
	if problems != nil {
		return nil, problems
	}
	return t, nil
}

func (t *schemaType) declare(name string, f Field) *declared {
	d := &declared{
		Field: f, name: name, strict: t.strict, types: t.types, hashable: hashable(f.Type),
	}
	for _, former := range f.Former {
		t.renamed = append(t.renamed, [2]string{former, name})
	}
	if f.Reducer != nil {
		d.reducer = f.Reducer.fieldReducer()
	}
	t.index[name] = int32(len(t.fields))
	t.fields = append(t.fields, d)
	return d
}

// init makes what handles the states.
func (t *schemaType) init() {
	t.zero = SchemaState{t: t, cells: make([]*cell, len(t.fields))}
	named := make([]state.Named, len(t.fields))
	for i, d := range t.fields {
		d.at = int32(i)
		t.zero.cells[i] = &cell{d: d}
		if d.Required {
			t.required = append(t.required, d)
		}
		named[i] = state.Named{
			Name: d.name, Field: t.zero.cells[i], Optional: !d.fallen && !d.Required, Open: d.reducer.kind == reduces && d.update != d.Type,
			Growing: d.reducer.kind == appends, Unrecorded: d.Untracked, Rest: d.rest,
		}
	}
	t.values = state.OfNamed(state.Apart[SchemaState]{
		Zero:  &t.zero,
		Field: func(s *SchemaState, i int32) field.Merger { return s.cell(i) },
		Own:   func(s *SchemaState, i int32) field.Merger { return s.own(i) },
		Owned: func(s *SchemaState, n int) (int32, field.Merger) {
			if n == len(s.owned) {
				return 0, nil
			}
			return s.owned[n].d.at, s.owned[n]
		},
		Copy: (*SchemaState).copy,
	}, named)
}

// reduce completes what follows from the field's reducer, or says why it doesn't fit.
func (d *declared) reduce() (text, fix string) {
	r := &d.reducer
	d.update = d.Type
	if r.only != nil && r.only != d.Type {
		return fmt.Sprintf("its reducer is for %v", r.only), "use another reducer or another type"
	}
	switch r.kind {
	case appends:
		if d.Type.Kind() != reflect.Slice {
			return "a reducer that appends needs a slice", "make it a slice, or use another reducer"
		}
		d.elem = d.Type.Elem()
	case merges:
		if d.Type.Kind() != reflect.Map {
			return "a reducer that merges needs a map", "make it a map, or use another reducer"
		}
	case sums:
		if d.add = adder(d.Type); d.add == nil {
			return "a reducer that adds needs a number", "make it a number, or use another reducer"
		}
	case reduces:
		d.update = r.update
		switch {
		case r.fn == nil:
			return "its reducer is a nil function", "pass the function"
		case r.value != d.Type:
			return fmt.Sprintf("its reducer is for values of type %v", r.value), "make the types the same"
		}
		if r.update != nil && !d.Untracked {
			if bad, why := anyjson.Unstorable(r.update); bad != nil {
				return fmt.Sprintf("updates of type %v can't be stored: %v %s", r.update, bad, why), "give it methods MarshalJSON and UnmarshalJSON"
			}
		}
	}
	return "", ""
}

func (d *declared) setDefault() (text, fix string) {
	v := d.Default
	if v == nil {
		return "", ""
	}
	fn := reflect.ValueOf(v)
	if k := fn.Type(); k.Kind() == reflect.Func && k.NumIn() == 0 && k.NumOut() == 1 && d.Type.Kind() != reflect.Func {
		if fn.IsNil() {
			return "its default is a nil function", "remove it"
		}
		var err error
		if v, err = callDefault(fn); err != nil {
			return fmt.Sprintf("its default: %v", err), "let it return a value"
		}
	}
	value, got, ok := assign(d.Type, v)
	switch {
	case !ok && got == "nil":
		return fmt.Sprintf("its default is nil, not %v", d.Type), fmt.Sprintf("give a default of type %v", d.Type)
	case !ok:
		return fmt.Sprintf("its default is a value of type %s, not %v", got, d.Type), fmt.Sprintf("give a default of type %v", d.Type)
	}
	if !d.Untracked {
		var err error
		if value, err = anyjson.Clone(value); err != nil {
			return fmt.Sprintf("its default: %v", err), "give another default"
		}
	}
	d.fallback, d.fallen = value, true
	return "", ""
}

func callDefault(fn reflect.Value) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn.Call(nil)[0].Interface(), nil
}

// assign returns v as a value of type t, or the name of its type.
func assign(t reflect.Type, v any) (value any, got string, ok bool) {
	if v == nil {
		switch t.Kind() {
		case reflect.Interface:
			return nil, "", true
		case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Func, reflect.Chan:
			return reflect.Zero(t).Interface(), "", true
		}
		return nil, "nil", false
	}
	switch vt := reflect.TypeOf(v); {
	case vt == t, t.Kind() == reflect.Interface && vt.Implements(t):
		return anyjson.Normal(v), "", true
	case vt.AssignableTo(t):
		return reflect.ValueOf(v).Convert(t).Interface(), "", true
	default:
		return nil, vt.String(), false
	}
}

// accept returns an update as the field takes it. If it doesn't fit, got is set.
func (d *declared) accept(over bool, v any) (value any, want, got string) {
	to := d.update
	switch {
	case over:
		to = d.Type
	case to == nil: // a reducer that takes anything
		return anyjson.Normal(v), "", ""
	case d.elem != nil:
		if list, _, ok := assign(d.Type, v); ok {
			return list, "", ""
		}
		if e, _, ok := assign(d.elem, v); ok {
			list := reflect.MakeSlice(d.Type, 1, 1)
			if e != nil {
				list.Index(0).Set(reflect.ValueOf(e))
			}
			return list.Interface(), "", ""
		}
	}
	value, got, ok := assign(to, v)
	if !ok {
		return nil, to.String(), got
	}
	return value, "", ""
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

// adder returns the addition of two values of a type of numbers, nil for other
// types.
func adder(t reflect.Type) func(a, b any) any {
	switch t {
	case reflect.TypeFor[int]():
		return func(a, b any) any { return a.(int) + b.(int) }
	case reflect.TypeFor[int64]():
		return func(a, b any) any { return a.(int64) + b.(int64) }
	case reflect.TypeFor[float64]():
		return func(a, b any) any { return a.(float64) + b.(float64) }
	}
	sum := func(set func(r, a, b reflect.Value)) func(a, b any) any {
		return func(a, b any) any {
			r := reflect.New(t).Elem()
			set(r, reflect.ValueOf(a), reflect.ValueOf(b))
			return r.Interface()
		}
	}
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Int64:
		return sum(func(r, a, b reflect.Value) { r.SetInt(a.Int() + b.Int()) })
	case k >= reflect.Uint && k <= reflect.Uint64:
		return sum(func(r, a, b reflect.Value) { r.SetUint(a.Uint() + b.Uint()) })
	case k == reflect.Float32 || k == reflect.Float64:
		return sum(func(r, a, b reflect.Value) { r.SetFloat(a.Float() + b.Float()) })
	}
	return nil
}
