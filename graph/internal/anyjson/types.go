// Package anyjson keeps values of any type in JSON such that they come back with
// the types that they had. In a place of one type a value stands for itself, in
// the way of encoding/json; in a place that takes several, what JSON would not
// bring back as it was is kept with the name of its type.
package anyjson

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/graph/internal/state"
)

// Types are the named types that values in places of several types may have,
// beside the predeclared ones.
type Types struct{ named map[string]reflect.Type }

// NewTypes returns an empty Types.
func NewTypes() *Types { return &Types{named: map[string]reflect.Type{}} }

// Know makes the named types that typ mentions known by their names.
func (t *Types) Know(typ reflect.Type) {
	if typ.Name() != "" && typ.PkgPath() != "" {
		name := typeName(typ)
		if _, known := t.named[name]; known {
			return
		}
		t.named[name] = typ
	}
	switch typ.Kind() {
	case reflect.Map:
		t.Know(typ.Key())
		t.Know(typ.Elem())
	case reflect.Slice, reflect.Array, reflect.Pointer:
		t.Know(typ.Elem())
	case reflect.Struct:
		for i := range typ.NumField() {
			if sf := typ.Field(i); sf.IsExported() && !ownJSON(typ) {
				t.Know(sf.Type)
			}
		}
	}
}

// Unstorable returns a type inside t that JSON can never hold, and why.
func Unstorable(t reflect.Type) (bad reflect.Type, why string) {
	if open(t) {
		return nil, ""
	}
	return state.Unstorable(t)
}

// nameType returns the name under which a reader finds a type.
func (t *Types) nameType(typ reflect.Type) (string, error) {
	if typ.Name() != "" {
		name := typeName(typ)
		if typ.PkgPath() != "" && t.named[name] != typ {
			return "", fmt.Errorf("type %v is not known to the schema, so that it could not be read back: declare the field with this type, or register it with Schema.RegisterType", typ)
		}
		return name, nil
	}
	switch typ.Kind() {
	case reflect.Slice:
		e, err := t.nameType(typ.Elem())
		return "[]" + e, err
	case reflect.Array:
		e, err := t.nameType(typ.Elem())
		return fmt.Sprintf("[%d]%s", typ.Len(), e), err
	case reflect.Pointer:
		e, err := t.nameType(typ.Elem())
		return "*" + e, err
	case reflect.Map:
		k, err := t.nameType(typ.Key())
		if err != nil {
			return "", err
		}
		e, err := t.nameType(typ.Elem())
		return "map[" + k + "]" + e, err
	case reflect.Interface:
		if typ == anyType {
			return "any", nil
		}
	}
	return "", fmt.Errorf("a value of type %v can't be stored in a field that takes several types", typ)
}

func typeName(t reflect.Type) string {
	if t.PkgPath() == "" {
		return t.Name()
	}
	return t.PkgPath() + "." + t.Name()
}

// predeclared types need not be made known.
var predeclared = map[string]reflect.Type{"any": anyType}

func init() {
	for _, v := range []any{
		"", false, int(0), int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), float32(0), float64(0),
	} {
		predeclared[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
}

// typeOf returns the type with that name.
func (t *Types) typeOf(name string) (reflect.Type, error) {
	if typ, ok := predeclared[name]; ok {
		return typ, nil
	}
	if typ, ok := t.named[name]; ok {
		return typ, nil
	}
	rest, slice := strings.CutPrefix(name, "[]")
	if slice {
		e, err := t.typeOf(rest)
		if err != nil {
			return nil, err
		}
		return reflect.SliceOf(e), nil
	}
	if rest, ok := strings.CutPrefix(name, "*"); ok {
		e, err := t.typeOf(rest)
		if err != nil {
			return nil, err
		}
		return reflect.PointerTo(e), nil
	}
	if rest, ok := strings.CutPrefix(name, "map["); ok {
		k, v, err := t.twoTypes(rest)
		if err != nil {
			return nil, err
		}
		if !k.Comparable() {
			return nil, fmt.Errorf("unknown type %q", name)
		}
		return reflect.MapOf(k, v), nil
	}
	if size, rest, ok := strings.Cut(strings.TrimPrefix(name, "["), "]"); ok && strings.HasPrefix(name, "[") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > 1<<20 {
			return nil, fmt.Errorf("unknown type %q", name)
		}
		e, err := t.typeOf(rest)
		if err != nil {
			return nil, err
		}
		return reflect.ArrayOf(n, e), nil
	}
	return nil, fmt.Errorf("unknown type %q: register it with Schema.RegisterType", name)
}

// twoTypes reads "K]V", where K may hold brackets.
func (t *Types) twoTypes(text string) (k, v reflect.Type, err error) {
	depth := 0
	for i, c := range text {
		switch {
		case c == '[':
			depth++
		case c == ']' && depth > 0:
			depth--
		case c == ']':
			if k, err = t.typeOf(text[:i]); err != nil {
				return nil, nil, err
			}
			v, err = t.typeOf(text[i+1:])
			return k, v, err
		}
	}
	return nil, nil, fmt.Errorf("unknown type %q", "map["+text)
}
