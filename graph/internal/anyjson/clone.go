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

// A cloner returns a copy of v that shares no memory that could be altered
// through either. A nil cloner stands for types whose values can't be altered.
type cloner func(v reflect.Value, depth int) (reflect.Value, error)

// clone returns a copy of v, or v if it needs none.
func (c cloner) clone(v reflect.Value, depth int) (reflect.Value, error) {
	if c == nil {
		return v, nil
	}
	return c(v, depth)
}

// nilable makes a cloner of values that may be nil one that goes on to values that are
// not, and that aren't too deep.
func nilable(c cloner) cloner {
	return func(v reflect.Value, depth int) (reflect.Value, error) {
		switch {
		case v.IsNil():
			return v, nil
		case depth > maxDepth:
			return v, errDeep
		}
		return c(v, depth)
	}
}

var cloners sync.Map // reflect.Type to cloner

var timeType = reflect.TypeFor[time.Time]()

// clonerOf returns the cloner for a type, nil if its values need no copy. What
// a struct keeps in unexported fields is shared, unless the type has a method
// Clone that returns the type.
func clonerOf(t reflect.Type) cloner {
	if c, ok := cloners.Load(t); ok {
		return c.(cloner)
	}
	c := makeCloner(t, map[reflect.Type]bool{})
	cloners.Store(t, c)
	return c
}

// inner is clonerOf for a type inside another: open has those around it, whose
// cloners aren't made yet.
func inner(t reflect.Type, open map[reflect.Type]bool) cloner {
	if open[t] {
		return func(v reflect.Value, depth int) (reflect.Value, error) { return clonerOf(t)(v, depth) }
	}
	return makeCloner(t, open)
}

func makeCloner(t reflect.Type, open map[reflect.Type]bool) cloner {
	if t == timeType {
		return nil
	}
	if m, ok := t.MethodByName("Clone"); ok && t.Kind() != reflect.Interface && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && m.Type.Out(0) == t {
		return func(v reflect.Value, _ int) (reflect.Value, error) {
			if v.Kind() == reflect.Pointer && v.IsNil() {
				return v, nil
			}
			return m.Func.Call([]reflect.Value{v})[0], nil // v.Method would have the linker keep every method of every type
		}
	}
	open[t] = true
	defer delete(open, t)
	switch t.Kind() {
	case reflect.Slice:
		elem := inner(t.Elem(), open)
		return nilable(func(v reflect.Value, depth int) (reflect.Value, error) {
			c := reflect.MakeSlice(t, v.Len(), v.Len())
			if elem == nil {
				reflect.Copy(c, v)
				return c, nil
			}
			for i := range v.Len() {
				e, err := elem(v.Index(i), depth+1)
				if err != nil {
					return v, err
				}
				c.Index(i).Set(e)
			}
			return c, nil
		})
	case reflect.Map:
		elem := inner(t.Elem(), open)
		return nilable(func(v reflect.Value, depth int) (reflect.Value, error) {
			c := reflect.MakeMapWithSize(t, v.Len())
			for it := v.MapRange(); it.Next(); {
				e, err := elem.clone(it.Value(), depth+1)
				if err != nil {
					return v, err
				}
				c.SetMapIndex(it.Key(), e)
			}
			return c, nil
		})
	case reflect.Pointer:
		elem := inner(t.Elem(), open)
		return nilable(func(v reflect.Value, depth int) (reflect.Value, error) {
			c := reflect.New(t.Elem())
			e, err := elem.clone(v.Elem(), depth+1)
			if err != nil {
				return v, err
			}
			c.Elem().Set(e)
			if c.Type() != t { // a named pointer type
				c = c.Convert(t)
			}
			return c, nil
		})
	case reflect.Interface:
		return nilable(func(v reflect.Value, depth int) (reflect.Value, error) {
			return clonerOf(v.Elem().Type()).clone(v.Elem(), depth+1)
		})
	case reflect.Array:
		elem := inner(t.Elem(), open)
		if elem == nil {
			return nil
		}
		return func(v reflect.Value, depth int) (reflect.Value, error) {
			c := reflect.New(t).Elem()
			for i := range v.Len() {
				e, err := elem(v.Index(i), depth+1)
				if err != nil {
					return v, err
				}
				c.Index(i).Set(e)
			}
			return c, nil
		}
	case reflect.Struct:
		type part struct {
			i int
			c cloner
		}
		var parts []part
		for i := range t.NumField() {
			if sf := t.Field(i); sf.IsExported() {
				if c := inner(sf.Type, open); c != nil {
					parts = append(parts, part{i, c})
				}
			}
		}
		if parts == nil {
			return nil
		}
		return func(v reflect.Value, depth int) (reflect.Value, error) {
			c := reflect.New(t).Elem()
			c.Set(v)
			for _, p := range parts {
				e, err := p.c(v.Field(p.i), depth+1)
				if err != nil {
					return v, err
				}
				c.Field(p.i).Set(e)
			}
			return c, nil
		}
	}
	return nil
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
	c := clonerOf(reflect.TypeOf(v))
	if c == nil {
		return v, nil
	}
	copied, err := c(reflect.ValueOf(v), 0)
	if err != nil {
		return nil, err
	}
	return copied.Interface(), nil
}

// Normal returns v as it is after having been stored: live and replayed states
// are the same.
func Normal(v any) any {
	if t, ok := v.(time.Time); ok {
		return state.Stored(t)
	}
	return v
}
