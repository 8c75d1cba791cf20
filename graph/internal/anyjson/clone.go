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
	fields []fieldOf     // of a struct, those that aren't shared
}

type fieldOf struct {
	i int
	h *handling
}

var handlings sync.Map // by reflect.Type

// handlingOf returns how values of a type are copied. What a struct keeps in unexported
// fields is shared, unless the type has a method Clone that returns the type.
func handlingOf(t reflect.Type) *handling {
	if h, ok := handlings.Load(t); ok {
		return h.(*handling)
	}
	h := new(handling)
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
				sf := t.Field(i)
				if f := handlingOf(sf.Type); sf.IsExported() && !f.shared {
					h.fields = append(h.fields, fieldOf{i, f})
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

// clone returns a copy of v, of a type that is handled so, that shares no memory that could
// be altered through either, or v if it needs none.
func clone(v reflect.Value, h *handling, depth int) (reflect.Value, error) {
	t := v.Type()
	switch k := v.Kind(); {
	case h.shared:
		return v, nil
	case h.method.IsValid():
		if k == reflect.Pointer && v.IsNil() {
			return v, nil
		}
		return h.method.Call([]reflect.Value{v})[0], nil
	case k == reflect.Struct || k == reflect.Array:
	case v.IsNil():
		return v, nil
	case depth > maxDepth:
		return v, errDeep
	}
	var c reflect.Value
	var err error
	set := func(to, from reflect.Value, h *handling) {
		var e reflect.Value
		if e, err = clone(from, h, depth+1); err == nil {
			to.Set(e)
		}
	}
	switch v.Kind() {
	case reflect.Interface:
		return clone(v.Elem(), handlingOf(v.Elem().Type()), depth+1)
	case reflect.Pointer:
		c = reflect.New(t.Elem())
		set(c.Elem(), v.Elem(), handlingOf(t.Elem()))
		c = c.Convert(t) // a named pointer type
	case reflect.Map:
		c = reflect.MakeMapWithSize(t, v.Len())
		elem := handlingOf(t.Elem())
		for it := v.MapRange(); it.Next() && err == nil; {
			var e reflect.Value
			if e, err = clone(it.Value(), elem, depth+1); err == nil {
				c.SetMapIndex(it.Key(), e)
			}
		}
	case reflect.Slice, reflect.Array:
		elem := handlingOf(t.Elem())
		if v.Kind() == reflect.Array {
			c = reflect.New(t).Elem()
		} else if c = reflect.MakeSlice(t, v.Len(), v.Len()); elem.shared {
			reflect.Copy(c, v)
			break
		}
		for i := 0; i < v.Len() && err == nil; i++ {
			set(c.Index(i), v.Index(i), elem)
		}
	case reflect.Struct:
		c = reflect.New(t).Elem()
		c.Set(v)
		for _, f := range h.fields {
			if set(c.Field(f.i), v.Field(f.i), f.h); err != nil {
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
	c, err := clone(reflect.ValueOf(v), handlingOf(reflect.TypeOf(v)), 0)
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
