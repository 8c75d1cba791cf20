package anyjson

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph/internal/state"
)

// maxDepth bounds how deep a value may nest. Encoding/json goes no deeper.
const maxDepth = 1000

var errDeep = errors.New("the value nests too deep, or holds itself")

// handling is how values of a type are copied.
type handling struct {
	shared bool          // nothing can be altered through them
	method reflect.Value // Clone of the type, if it has that
	fields []int         // of a struct, those that aren't shared
}

var handlings sync.Map // by reflect.Type

// handlingOf returns how values of a type are copied. What a struct keeps in unexported
// fields is shared, unless the type has a method Clone that returns the type.
func handlingOf(t reflect.Type) handling {
	if h, ok := handlings.Load(t); ok {
		return h.(handling)
	}
	var h handling
	if m, ok := t.MethodByName("Clone"); ok && t.Kind() != reflect.Interface && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && m.Type.Out(0) == t {
		h.method = m.Func // v.Method would have the linker keep every method of every type
	} else if t == reflect.TypeFor[time.Time]() {
		h.shared = true
	} else {
		switch t.Kind() {
		case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		case reflect.Array:
			h.shared = handlingOf(t.Elem()).shared
		case reflect.Struct:
			for i := range t.NumField() {
				if sf := t.Field(i); sf.IsExported() && !handlingOf(sf.Type).shared {
					h.fields = append(h.fields, i)
				}
			}
			h.shared = h.fields == nil
		default:
			h.shared = true
		}
	}
	handlings.Store(t, h)
	return h
}

// clone returns a copy of v that shares no memory that could be altered through either,
// or v if it needs none.
func clone(v reflect.Value, depth int) (reflect.Value, error) {
	t := v.Type()
	h := handlingOf(t)
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		switch {
		case v.IsNil():
			return v, nil
		case depth > maxDepth && !h.method.IsValid():
			return v, errDeep
		}
	}
	switch {
	case h.shared:
		return v, nil
	case h.method.IsValid():
		return h.method.Call([]reflect.Value{v})[0], nil
	}
	var c reflect.Value
	var err error
	set := func(to, from reflect.Value) {
		var e reflect.Value
		if e, err = clone(from, depth+1); err == nil {
			to.Set(e)
		}
	}
	switch v.Kind() {
	case reflect.Interface:
		return clone(v.Elem(), depth+1)
	case reflect.Pointer:
		c = reflect.New(t.Elem())
		set(c.Elem(), v.Elem())
		c = c.Convert(t) // a named pointer type
	case reflect.Map:
		c = reflect.MakeMapWithSize(t, v.Len())
		for it := v.MapRange(); it.Next() && err == nil; {
			var e reflect.Value
			if e, err = clone(it.Value(), depth+1); err == nil {
				c.SetMapIndex(it.Key(), e)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Array {
			c = reflect.New(t).Elem()
		} else if c = reflect.MakeSlice(t, v.Len(), v.Len()); handlingOf(t.Elem()).shared {
			reflect.Copy(c, v)
			break
		}
		for i := 0; i < v.Len() && err == nil; i++ {
			set(c.Index(i), v.Index(i))
		}
	case reflect.Struct:
		c = reflect.New(t).Elem()
		c.Set(v)
		for _, i := range h.fields {
			if set(c.Field(i), v.Field(i)); err != nil {
				break
			}
		}
	}
	return c, err
}

// Clone returns a private copy of a value of any type.
func Clone(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, bool, int, int64, float64, time.Time:
		return v, nil
	case []string:
		if v == nil {
			return v, nil
		}
		c := make([]string, len(v))
		copy(c, v)
		return c, nil
	}
	c, err := clone(reflect.ValueOf(v), 0)
	if err != nil {
		return nil, err
	}
	return c.Interface(), nil
}

// Normal returns v as it is after having been stored: live and replayed states
// are the same.
func Normal(v any) any {
	if t, ok := v.(time.Time); ok {
		return state.Stored(t)
	}
	return v
}
