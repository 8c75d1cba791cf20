package anyjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/graph/internal/state"
)

// Members that stand for something else than themselves. A value whose own JSON
// is an object with a member that begins with $ is wrapped in opValue.
const (
	opType  = "$type" // with opValue: a value in a place that takes several types
	opValue = "$value"
)

// kept is a value in a place that takes several types. Without a type it is what is
// wrapped since it would be read as something else.
type kept struct {
	Type  string `json:"$type,omitempty"`
	Value any    `json:"$value"`
}

// Encode returns the JSON of a value in a place of type typ. It has a member that
// begins with $ only if it is an object made by this package.
func (t *Types) Encode(typ reflect.Type, v any) ([]byte, error) {
	switch v := v.(type) {
	case int, bool:
		if typ == reflect.TypeOf(v) {
			return json.Marshal(v)
		}
	}
	if typ.Kind() == reflect.Interface {
		return encode(t.anyTree(reflect.ValueOf(v), 0))
	}
	data, err := encode(t.tree(reflect.ValueOf(v), 0))
	if err == nil && operator(data) {
		return encode(kept{Value: json.RawMessage(data)}, nil)
	}
	return data, err
}

// Tagged returns the JSON of a value together with its type.
func (t *Types) Tagged(v any) ([]byte, error) { return encode(t.tagged(reflect.ValueOf(v), 0)) }

func encode(tree any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, where(tree)
	}
	return data, nil
}

// where says why a tree can't be encoded, and what of it.
func where(tree any) error {
	switch tree := tree.(type) {
	case kept:
		return where(tree.Value)
	case []any:
		for i, e := range tree {
			if err := where(e); err != nil {
				return within("[%d]", i, err)
			}
		}
		return nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			if err := where(tree[name]); err != nil {
				return within("[%q]", name, err)
			}
		}
		return nil
	}
	_, err := json.Marshal(tree)
	return state.Cause(err)
}

// within says where a value is that an error is about. One that nests too deep has no place
// that would help.
func within(place string, at any, err error) error {
	if errors.Is(err, errDeep) {
		return errDeep
	}
	return fmt.Errorf(place+": %w", at, err)
}

// operator reports whether data is an object with a member that begins with $.
func operator(data []byte) bool {
	if data[0] != '{' || !bytes.Contains(data, []byte(`"$`)) {
		return false
	}
	var members map[string]json.RawMessage
	return json.Unmarshal(data, &members) == nil && operates(members)
}

func operates[V any](members map[string]V) bool {
	for name := range members {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

// anyTree is tree for a value in a place that takes several types. What JSON
// brings back as it was stands for itself.
func (t *Types) anyTree(v reflect.Value, depth int) (any, error) {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil, nil
	}
	switch x := v.Interface().(type) {
	case string, bool, float64:
		return t.tree(v, depth)
	case []any:
		if x != nil {
			return t.tree(v, depth)
		}
	case map[string]any:
		if x != nil {
			tree, err := t.tree(v, depth)
			if operates(x) {
				tree = kept{Value: tree}
			}
			return tree, err
		}
	}
	return t.tagged(v, depth)
}

// tagged is tree for a value that is kept together with its type.
func (t *Types) tagged(v reflect.Value, depth int) (any, error) {
	if !v.IsValid() {
		return kept{Type: "nil"}, nil
	}
	name, err := t.nameType(v.Type())
	if err != nil {
		return nil, err
	}
	tree, err := t.tree(v, depth)
	return kept{name, tree}, err
}

var (
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	anyType             = reflect.TypeFor[any]()
)

// ownJSON reports whether values of a type write and read their JSON themselves.
func ownJSON(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	if t.Kind() == reflect.Interface {
		return false
	}
	return p.Implements(marshalerType) && p.Implements(unmarshalerType) || p.Implements(textMarshalerType) && p.Implements(textUnmarshalerType)
}

// open reports whether a type is a composite of slices, maps and pointers that
// ends in an interface: the elements are then encoded one by one.
func open(t reflect.Type) bool {
	for range 32 { // a type may hold itself
		if t.Kind() == reflect.Interface {
			return true
		}
		if ownJSON(t) {
			return false
		}
		switch k := t.Kind(); {
		case k == reflect.Slice, k == reflect.Pointer, k == reflect.Map && t.Key().Kind() == reflect.String && !t.Key().Implements(textMarshalerType):
			t = t.Elem()
		default:
			return false
		}
	}
	return false
}

// tree returns what encoding/json is to write of a value whose type the reader knows:
// that itself or, of a composite that ends in an interface, one in which each element
// says what it is.
func (t *Types) tree(v reflect.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	depth++
	typ := v.Type()
	if !open(typ) {
		if err := faithful(v, depth); err != nil {
			return nil, err
		}
		return v.Interface(), nil
	}
	at := t.tree
	if k := v.Kind(); k == reflect.Interface {
		return t.anyTree(v, depth)
	} else if v.IsNil() {
		return nil, nil
	} else if typ.Elem().Kind() == reflect.Interface {
		at = t.anyTree
	}
	switch v.Kind() {
	case reflect.Pointer:
		return at(v.Elem(), depth)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			var err error
			if list[i], err = at(v.Index(i), depth); err != nil {
				return nil, within("[%d]", i, err)
			}
		}
		return list, nil
	default:
		members := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			name := it.Key().String()
			if !utf8.ValidString(name) {
				return nil, errUTF8
			}
			var err error
			if members[name], err = at(it.Value(), depth); err != nil {
				return nil, within("[%q]", name, err)
			}
		}
		return members, nil
	}
}

var errUTF8 = errors.New("a string is not valid UTF-8, so JSON cannot hold it; use a []byte")

// faithful returns an error when encoding/json would not bring v back as it is.
func faithful(v reflect.Value, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	t := v.Type()
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return errUTF8
		}
		return nil
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		switch e := v.Elem(); e.Interface().(type) {
		case string, bool, float64, map[string]any, []any:
			return faithful(e, depth+1)
		default:
			return fmt.Errorf("a value of type %v in a place of type %v would come back as something else: give the place the type %v", e.Type(), t, e.Type())
		}
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return nil
	}
	if ownJSON(t) {
		return nil
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if plain(t.Elem()) {
			return nil
		}
		for i := range v.Len() {
			if err := faithful(v.Index(i), depth+1); err != nil {
				return within("[%d]", i, err)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := faithful(it.Key(), depth+1); err != nil {
				return err
			}
			if err := faithful(it.Value(), depth+1); err != nil {
				return within("[%v]", it.Key(), err)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return faithful(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			sf := t.Field(i)
			if !sf.IsExported() && !sf.Anonymous || sf.Tag.Get("json") == "-" {
				if !v.Field(i).IsZero() {
					return fmt.Errorf("field %s of a %v is not part of its JSON and would be lost", sf.Name, t)
				}
				continue
			}
			if err := faithful(v.Field(i), depth+1); err != nil {
				return within("%s", sf.Name, err)
			}
		}
	}
	return nil
}

// plain reports whether every value of a type survives encoding/json.
func plain(t reflect.Type) bool {
	k := t.Kind()
	return k == reflect.Bool || k >= reflect.Int && k <= reflect.Float64
}

// operations returns the members of an object if all begin with $, else nil.
func operations(data []byte) map[string]json.RawMessage {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' || !bytes.Contains(data, []byte(`"$`)) && !bytes.Contains(data, []byte(`\u`)) {
		return nil
	}
	var ops map[string]json.RawMessage
	if json.Unmarshal(data, &ops) != nil {
		return nil
	}
	for name := range ops {
		if !strings.HasPrefix(name, "$") {
			return nil
		}
	}
	return ops
}

func tagged(ops map[string]json.RawMessage) bool {
	return len(ops) == 2 && ops[opType] != nil && ops[opValue] != nil
}

// IsTagged reports whether data is what Tagged returns.
func IsTagged(data []byte) bool { return tagged(operations(data)) }

// Decode reads what Encode or Tagged returned.
func (t *Types) Decode(typ reflect.Type, data []byte) (any, error) {
	v, err := t.decode(typ, data)
	if err != nil || !v.IsValid() {
		return nil, err
	}
	value := Normal(v.Interface())
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxDepth {
		_, err = Clone(value) // which says that it nests too deep to be cloned
	}
	return value, err
}

// decode returns a value that is not valid for a nil in a place of an interface type.
func (t *Types) decode(typ reflect.Type, data []byte) (reflect.Value, error) {
	if typ.Kind() == reflect.Interface {
		v, err := t.decodeAny(data)
		if err == nil && v.IsValid() && !v.Type().Implements(typ) {
			err = fmt.Errorf("a value of type %v can't be used as a %v", v.Type(), typ)
		}
		return v, err
	}
	switch ops := operations(data); {
	case len(ops) == 1 && ops[opValue] != nil, tagged(ops): // from a place of several types
		data = ops[opValue]
	case len(ops) > 0:
		return reflect.Value{}, unknown(ops)
	}
	return t.decodeTyped(typ, data)
}

func unknown(ops map[string]json.RawMessage) error {
	return fmt.Errorf("unknown operation %s; an object of such names is put into a %s", slices.Sorted(maps.Keys(ops))[0], opValue)
}

func (t *Types) decodeTyped(typ reflect.Type, data []byte) (reflect.Value, error) {
	if !open(typ) {
		v := reflect.New(typ)
		return v.Elem(), json.Unmarshal(data, v.Interface())
	}
	if string(data) == "null" {
		return reflect.Zero(typ), nil
	}
	decode := t.decodeTyped
	if typ.Elem().Kind() == reflect.Interface {
		decode = t.decode
	}
	set := func(dst reflect.Value, data json.RawMessage) error {
		v, err := decode(typ.Elem(), data)
		switch {
		case err != nil:
			return err
		case v.IsValid():
			dst.Set(v)
		default: // nil
			dst.SetZero()
		}
		return nil
	}
	switch typ.Kind() {
	case reflect.Pointer:
		p := reflect.New(typ.Elem())
		err := set(p.Elem(), data)
		if p.Type() != typ {
			p = p.Convert(typ)
		}
		return p, err
	case reflect.Slice:
		var parts []json.RawMessage
		if err := json.Unmarshal(data, &parts); err != nil {
			return reflect.Value{}, err
		}
		list := reflect.MakeSlice(typ, len(parts), len(parts))
		for i, p := range parts {
			if err := set(list.Index(i), p); err != nil {
				return list, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return list, nil
	case reflect.Map:
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(data, &parts); err != nil {
			return reflect.Value{}, err
		}
		m := reflect.MakeMapWithSize(typ, len(parts))
		e := reflect.New(typ.Elem()).Elem()
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if err := set(e, parts[name]); err != nil {
				return m, fmt.Errorf("[%q]: %w", name, err)
			}
			m.SetMapIndex(reflect.ValueOf(name).Convert(typ.Key()), e)
		}
		return m, nil
	}
	return t.decodeAny(data)
}

// decodeAny reads what encodeAny returned.
func (t *Types) decodeAny(data []byte) (reflect.Value, error) {
	ops := operations(data)
	switch {
	case tagged(ops):
		var name string
		if err := json.Unmarshal(ops[opType], &name); err != nil {
			return reflect.Value{}, err
		}
		if name == "nil" {
			return reflect.Value{}, nil
		}
		typ, err := t.typeOf(name)
		if err != nil {
			return reflect.Value{}, err
		}
		return t.decodeTyped(typ, ops[opValue])
	case len(ops) == 1 && ops[opValue] != nil:
		return t.decodeTyped(reflect.TypeFor[map[string]any](), ops[opValue])
	case len(ops) > 0:
		return reflect.Value{}, unknown(ops)
	}
	switch trimmed := bytes.TrimLeft(data, " \t\r\n"); {
	case len(trimmed) > 0 && trimmed[0] == '{':
		return t.decodeTyped(reflect.TypeFor[map[string]any](), data)
	case len(trimmed) > 0 && trimmed[0] == '[':
		return t.decodeTyped(reflect.TypeFor[[]any](), data)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return reflect.Value{}, err
	}
	return reflect.ValueOf(v), nil
}
