package mapstate

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/core"

	"github.com/superstep-dev/superstep/graph/internal/jsonobject"
	"github.com/superstep-dev/superstep/graph/internal/state"
)

// Members that stand for something else than themselves. A value whose own JSON
// is an object with a member that begins with $ is wrapped in opValue.
const (
	opOver  = "$overwrite" // replaces the value, whatever the reducer
	opEach  = "$each"      // several updates, in order
	opExtra = "$extra"     // of a field that isn't declared
	opType  = "$type"      // with opValue: a value in a place that takes several types
	opValue = "$value"
)

// wrapped returns {name: data}.
func wrapped(name string, data []byte) []byte {
	var o jsonobject.Writer
	o.Member(name, data)
	return o.Close()
}

// Unrecorded reports whether changes write fields that are not stored.
func (t *Type) Unrecorded(c *Changes) bool {
	return c != nil && slices.ContainsFunc(c.writes, func(w write) bool { return w.field >= 0 && t.fields[w.field].Untracked })
}

// Encode returns the recorded form of changes.
func (t *Type) Encode(c *Changes) (json.RawMessage, []core.Growth, error) {
	if c == nil {
		return nil, nil, nil
	}
	var o jsonobject.Writer
	var growth []core.Growth
	for ws := c.writes; len(ws) > 0; {
		n := 1
		for n < len(ws) && t.order(ws[n-1], ws[n]) == 0 {
			n++
		}
		group := ws[:n]
		ws = ws[n:]
		name := t.nameOf(group[0])
		if i := group[0].field; i >= 0 && t.fields[i].Untracked {
			continue
		} else if i >= 0 && t.fields[i].Reducer.Kind == Append {
			growth = append(growth, core.Growth{Field: name, Reset: group[0].over})
		}
		parts := make([]json.RawMessage, n)
		for k, w := range group {
			data, err := t.encodeWrite(w)
			if err != nil {
				return nil, nil, fieldErr(name, err)
			}
			parts[k] = data
		}
		if n == 1 {
			o.Member(name, parts[0])
			continue
		}
		all, err := json.Marshal(parts)
		if err != nil {
			return nil, nil, fieldErr(name, err)
		}
		o.Member(name, wrapped(opEach, all))
	}
	if o.Empty() {
		return nil, nil, nil
	}
	return o.Close(), growth, nil
}

func (t *Type) encodeWrite(w write) ([]byte, error) {
	switch {
	case w.field < 0:
		data, err := t.encodeAny(valueOf(w.value))
		return wrapped(opExtra, data), err
	case w.over:
		data, err := t.encode(t.fields[w.field].Type, w.value)
		return wrapped(opOver, data), err
	}
	f := &t.fields[w.field]
	if f.update == nil {
		if v := valueOf(w.value); !v.IsValid() || v.Type() != f.Type {
			return t.tagged(v)
		}
		return t.encode(f.Type, w.value)
	}
	return t.encode(f.update, w.value)
}

// valueOf returns the value in a slot or a write.
func valueOf(v any) reflect.Value {
	if isNull(v) {
		return reflect.Value{}
	}
	return reflect.ValueOf(v)
}

// encode returns the JSON of a value of type typ, such that decode tells it from
// an operation.
func (t *Type) encode(typ reflect.Type, v any) ([]byte, error) {
	switch v := v.(type) {
	case int, bool:
		if typ == reflect.TypeOf(v) {
			return json.Marshal(v)
		}
	}
	if typ.Kind() == reflect.Interface {
		return t.encodeAny(valueOf(v))
	}
	data, err := t.encodeTyped(reflect.ValueOf(v))
	if err != nil {
		return nil, err
	}
	if operator(data) {
		return wrapped(opValue, data), nil
	}
	return data, nil
}

// operator reports whether data is an object with a member that begins with $.
func operator(data []byte) bool {
	if data[0] != '{' || !bytes.Contains(data, []byte(`"$`)) {
		return false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return false
	}
	for name := range members {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

// encodeAny encodes a value in a place that takes several types. What JSON
// brings back as it was stands for itself.
func (t *Type) encodeAny(v reflect.Value) ([]byte, error) {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return []byte("null"), nil
	}
	switch x := v.Interface().(type) {
	case string, bool, float64:
		return t.encodeTyped(v)
	case []any:
		if x != nil {
			return t.encodeTyped(v)
		}
	case map[string]any:
		if x != nil {
			data, err := t.encodeTyped(v)
			if err == nil && operator(data) {
				return wrapped(opValue, data), nil
			}
			return data, err
		}
	}
	return t.tagged(v)
}

// tagged encodes a value together with its type.
func (t *Type) tagged(v reflect.Value) ([]byte, error) {
	var o jsonobject.Writer
	name, data := "nil", []byte("null")
	if v.IsValid() {
		var err error
		if name, err = t.nameType(v.Type()); err != nil {
			return nil, err
		}
		if data, err = t.encodeTyped(v); err != nil {
			return nil, err
		}
	}
	quoted, _ := json.Marshal(name) // a string cannot fail
	o.Member(opType, quoted)
	o.Member(opValue, data)
	return o.Close(), nil
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

// encodeTyped encodes a value whose type the reader knows.
func (t *Type) encodeTyped(v reflect.Value) ([]byte, error) {
	typ := v.Type()
	if !open(typ) {
		if err := faithful(v, 0); err != nil {
			return nil, err
		}
		data, err := json.Marshal(v.Interface())
		if err != nil {
			return nil, cause(err)
		}
		return data, nil
	}
	at := func(e reflect.Value) ([]byte, error) {
		if e.Kind() == reflect.Interface {
			return t.encodeAny(e)
		}
		return t.encodeTyped(e)
	}
	if k := v.Kind(); k != reflect.Interface && v.IsNil() {
		return []byte("null"), nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		return at(v.Elem())
	case reflect.Slice:
		parts := make([]json.RawMessage, v.Len())
		for i := range parts {
			data, err := at(v.Index(i))
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			parts[i] = data
		}
		return json.Marshal(parts)
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		var o jsonobject.Writer
		for _, k := range keys {
			if !utf8.ValidString(k.String()) {
				return nil, errUTF8
			}
			data, err := at(v.MapIndex(k))
			if err != nil {
				return nil, fmt.Errorf("[%q]: %w", k.String(), err)
			}
			o.Member(k.String(), data)
		}
		return o.Close(), nil
	}
	return t.encodeAny(v)
}

// cause takes the wrapping of encoding/json off an error.
func cause(err error) error {
	var wrapped *json.MarshalerError
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err
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
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := faithful(it.Key(), depth+1); err != nil {
				return err
			}
			if err := faithful(it.Value(), depth+1); err != nil {
				return fmt.Errorf("[%v]: %w", it.Key(), err)
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
				return fmt.Errorf("%s: %w", sf.Name, err)
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

// nameType returns the name under which a reader finds a type.
func (t *Type) nameType(typ reflect.Type) (string, error) {
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

var predeclared = map[string]reflect.Type{"any": anyType}

func init() {
	for _, v := range []any{
		"", false, int(0), int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), float32(0), float64(0),
	} {
		predeclared[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
}

// typeOf returns the type with that name.
func (t *Type) typeOf(name string) (reflect.Type, error) {
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
func (t *Type) twoTypes(text string) (k, v reflect.Type, err error) {
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

// know makes the named types that t mentions known by their names.
func (t *Type) know(typ reflect.Type) {
	if typ.Name() != "" && typ.PkgPath() != "" {
		name := typeName(typ)
		if _, known := t.named[name]; known {
			return
		}
		t.named[name] = typ
	}
	switch typ.Kind() {
	case reflect.Map:
		t.know(typ.Key())
		t.know(typ.Elem())
	case reflect.Slice, reflect.Array, reflect.Pointer:
		t.know(typ.Elem())
	case reflect.Struct:
		for i := range typ.NumField() {
			if sf := typ.Field(i); sf.IsExported() && !ownJSON(typ) {
				t.know(sf.Type)
			}
		}
	}
}

// unstorable returns a type inside t that JSON can never hold, and why.
func unstorable(t reflect.Type) (reflect.Type, string) {
	return unstorableIn(t, map[reflect.Type]bool{})
}

func unstorableIn(t reflect.Type, seen map[reflect.Type]bool) (reflect.Type, string) {
	if seen[t] || ownJSON(t) {
		return nil, ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return t, "cannot be encoded as JSON"
	case reflect.Map:
		k := t.Key()
		switch {
		case k.Kind() == reflect.String || k.Kind() >= reflect.Int && k.Kind() <= reflect.Uint64:
		case k.Implements(textMarshalerType) && reflect.PointerTo(k).Implements(textUnmarshalerType):
		default:
			return t, "has keys that JSON cannot hold"
		}
		return unstorableIn(t.Elem(), seen)
	case reflect.Array, reflect.Slice, reflect.Pointer:
		return unstorableIn(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			sf := t.Field(i)
			if !sf.IsExported() && !sf.Anonymous || sf.Tag.Get("json") == "-" {
				continue
			}
			if bad, why := unstorableIn(sf.Type, seen); bad != nil {
				return bad, why
			}
		}
	}
	return nil, ""
}

// Decode reads what Encode returned. Fields that aren't declared any more are
// skipped, and so are those that only doesn't name, unless it is nil.
func (t *Type) Decode(data json.RawMessage, only []string) (*Changes, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	c := new(Changes)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if only != nil && !slices.Contains(only, name) {
			continue
		}
		present, ok := t.present(name, raw)
		if !ok {
			continue
		}
		ws, err := t.decodeWrites(present, raw[name], false)
		if err != nil {
			errs = append(errs, fieldErr(name, err))
			continue
		}
		c.writes = append(c.writes, ws...)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	if len(c.writes) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(c.writes, t.order)
	return c, nil
}

// present returns the present name of a member of a record. It is not ok when
// the record has a member of that name as well.
func (t *Type) present(name string, raw map[string]json.RawMessage) (string, bool) {
	now, renamed := t.former[name]
	if !renamed {
		return name, true
	}
	if _, both := raw[now]; both {
		return "", false
	}
	for _, old := range t.fields[t.index[now]].Former { // the first one counts
		if _, ok := raw[old]; ok {
			return now, old == name
		}
	}
	return now, true
}

// decodeWrites reads the writes of one field. With input set, fields that aren't
// declared need no mark, and unknown members of structs are errors.
func (t *Type) decodeWrites(name string, data json.RawMessage, input bool) ([]write, error) {
	ops := operations(data)
	if each, ok := ops[opEach]; ok && len(ops) == 1 {
		var parts []json.RawMessage
		if err := json.Unmarshal(each, &parts); err != nil {
			return nil, err
		}
		var all []write
		for _, p := range parts {
			w, ok, err := t.decodeWrite(name, p, input)
			if err != nil {
				return nil, err
			}
			if ok {
				all = append(all, w)
			}
		}
		return all, nil
	}
	w, ok, err := t.decodeWrite(name, data, input)
	if err != nil || !ok {
		return nil, err
	}
	return []write{w}, nil
}

// operations returns the members of an object if all begin with $, else nil.
func operations(data []byte) map[string]json.RawMessage {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' {
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

func (t *Type) decodeWrite(name string, data json.RawMessage, input bool) (w write, ok bool, err error) {
	ops := operations(data)
	extra, marked := ops[opExtra]
	i, declared := t.index[name]
	switch {
	case !declared && !marked && !input, !declared && t.Strict:
		return w, false, nil // a field that the schema no longer has
	case !declared:
		if marked {
			data = extra
		} else if over, ok := ops[opOver]; ok && len(ops) == 1 {
			data = over
		}
		v, err := t.decodeAny(data)
		if err != nil {
			return w, false, err
		}
		return write{field: -1, name: name, value: boxed(v)}, true, nil
	case marked: // it has been declared since
		v, err := t.decodeDeclared(&t.fields[i], extra)
		return write{field: i, over: true, value: v}, err == nil, err
	}
	f := &t.fields[i]
	if f.Untracked && !input {
		return w, false, nil
	}
	typ := f.update
	if over, is := ops[opOver]; is && len(ops) == 1 {
		w.over, data, typ = true, over, f.Type
		ops = operations(data)
	}
	w.field = i
	if typ == nil {
		typ = f.Type
		if _, is := ops[opType]; is {
			typ = anyType
		}
	}
	v, err := t.decode(typ, data, input)
	if err != nil {
		return w, false, err
	}
	w.value = boxed(v)
	return w, true, nil
}

// decodeDeclared reads a value that was stored before its field was declared.
func (t *Type) decodeDeclared(f *field, data json.RawMessage) (any, error) {
	v, err := t.decodeAny(data)
	if err == nil {
		var dyn any
		if v.IsValid() {
			dyn = v.Interface()
		}
		if value, _, ok := f.assign(f.Type, dyn); ok {
			return value, nil
		}
	}
	if ops := operations(data); ops[opType] != nil {
		data = ops[opValue]
	}
	if v, err = t.decode(f.Type, data, false); err != nil {
		return nil, err
	}
	return boxed(v), nil
}

// boxed returns a decoded value as slots and writes hold it.
func boxed(v reflect.Value) any {
	if !v.IsValid() {
		return null{}
	}
	return normal(v.Interface())
}

// decode reads what encode returned. The value is not valid for a nil in a place
// of an interface type.
func (t *Type) decode(typ reflect.Type, data json.RawMessage, strict bool) (reflect.Value, error) {
	if typ.Kind() == reflect.Interface {
		v, err := t.decodeAny(data)
		if err == nil && v.IsValid() && !v.Type().Implements(typ) {
			err = fmt.Errorf("a value of type %v can't be used as a %v", v.Type(), typ)
		}
		return v, err
	}
	if ops := operations(data); len(ops) == 1 && ops[opValue] != nil {
		data = ops[opValue]
	} else if len(ops) > 0 && strict {
		return reflect.Value{}, fmt.Errorf("unknown operation %s; there are %s and %s, and %s for an object of such names", slices.Sorted(maps.Keys(ops))[0], opOver, opEach, opValue)
	}
	return t.decodeTyped(typ, data, strict)
}

func (t *Type) decodeTyped(typ reflect.Type, data json.RawMessage, strict bool) (reflect.Value, error) {
	if !open(typ) {
		if strict && string(data) == "null" && !nilable(typ) {
			return reflect.Value{}, fmt.Errorf("null is no %v", typ)
		}
		v := reflect.New(typ)
		dec := json.NewDecoder(bytes.NewReader(data))
		if strict {
			dec.DisallowUnknownFields()
		}
		if err := dec.Decode(v.Interface()); err != nil {
			return v, err
		}
		return v.Elem(), nil
	}
	if string(data) == "null" {
		return reflect.Zero(typ), nil
	}
	set := func(dst reflect.Value, data json.RawMessage) error {
		if typ.Elem().Kind() != reflect.Interface {
			v, err := t.decodeTyped(typ.Elem(), data, strict)
			if err == nil {
				dst.Set(v)
			}
			return err
		}
		v, err := t.decodeAny(data)
		switch {
		case err != nil:
			return err
		case !v.IsValid():
			dst.SetZero()
		case !v.Type().Implements(typ.Elem()):
			return fmt.Errorf("a value of type %v can't be used as a %v", v.Type(), typ.Elem())
		default:
			dst.Set(v)
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

func nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Slice, reflect.Map, reflect.Pointer:
		return true
	}
	return ownJSON(t)
}

// decodeAny reads what encodeAny returned.
func (t *Type) decodeAny(data json.RawMessage) (reflect.Value, error) {
	ops := operations(data)
	switch {
	case len(ops) == 2 && ops[opType] != nil && ops[opValue] != nil:
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
		return t.decodeTyped(typ, ops[opValue], false)
	case len(ops) == 1 && ops[opValue] != nil:
		return t.decodeTyped(reflect.TypeFor[map[string]any](), ops[opValue], false)
	case len(ops) > 0:
		return reflect.Value{}, fmt.Errorf("unknown operation %s", slices.Sorted(maps.Keys(ops))[0])
	}
	switch trimmed := bytes.TrimLeft(data, " \t\r\n"); {
	case len(trimmed) > 0 && trimmed[0] == '{':
		return t.decodeTyped(reflect.TypeFor[map[string]any](), data, false)
	case len(trimmed) > 0 && trimmed[0] == '[':
		return t.decodeTyped(reflect.TypeFor[[]any](), data, false)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return reflect.Value{}, err
	}
	return reflect.ValueOf(v), nil
}

// Snapshot returns the recorded form of a state; see core.Values. Defaults are
// left out.
func (t *Type) Snapshot(s *State, full bool) (json.RawMessage, error) {
	s.settle()
	var o jsonobject.Writer
	for i := range t.fields {
		f := &t.fields[i]
		v := s.slots[i].v
		if v == nil || f.Untracked || f.Reducer.Kind == Append && !full {
			continue
		}
		data, err := t.encode(f.Type, v)
		if err != nil {
			return nil, fieldErr(f.Name, err)
		}
		o.Member(f.Name, data)
	}
	for _, name := range slices.Sorted(maps.Keys(s.extra)) {
		data, err := t.encodeAny(valueOf(s.extra[name]))
		if err != nil {
			return nil, fieldErr(name, err)
		}
		o.Member(name, wrapped(opExtra, data))
	}
	return o.Close(), nil
}

// Restore reads what Snapshot returned into a copy of base, or into a new
// state if that is nil.
func (t *Type) Restore(base *State, data json.RawMessage) (State, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return State{}, fmt.Errorf("snapshot: %w", err)
	}
	s := t.New()
	if base != nil {
		for i := range base.slots {
			s.slots[i].v = base.slots[i].v // which the copy doesn't own
		}
		s.extra = maps.Clone(base.extra)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		present, ok := t.present(name, raw)
		if !ok {
			continue
		}
		if err := t.restore(&s, present, raw[name]); err != nil {
			errs = append(errs, fieldErr(name, err))
		}
	}
	if errs != nil {
		return State{}, errors.Join(errs...)
	}
	return s, nil
}

func (t *Type) restore(s *State, name string, data json.RawMessage) error {
	extra, marked := operations(data)[opExtra]
	i, declared := t.index[name]
	switch {
	case declared && t.fields[i].Untracked:
		return nil
	case declared && marked:
		v, err := t.decodeDeclared(&t.fields[i], extra)
		s.slots[i].v = v
		return err
	case declared:
		v, err := t.decode(t.fields[i].Type, data, false)
		if err == nil {
			s.slots[i].v = boxed(v)
		}
		return err
	case marked && !t.Strict:
		v, err := t.decodeAny(extra)
		if err != nil {
			return err
		}
		if s.extra == nil {
			s.extra = map[string]any{}
		}
		s.extra[name] = boxed(v)
	}
	return nil
}

// Update writes an update in JSON to a task's copy, or a state of the caller's.
// When anything is wrong, everything that is wrong is in the error and s stays
// as it was.
func (t *Type) Update(s *State, data []byte) error {
	raw, _, err := state.ReadInput(data)
	if err != nil {
		return err
	}
	var all []write
	var unknown []string
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if !t.Has(name) {
			if t.Strict || strings.HasPrefix(name, "$") || name == "" {
				errs = append(errs, t.unknown(name))
				continue
			}
			unknown = append(unknown, name)
		}
		ws, err := t.decodeWrites(name, raw[name], true)
		for _, w := range ws {
			if err == nil {
				err = finite(w.value)
			}
			if err == nil && (w.field < 0 || !t.fields[w.field].Untracked) {
				_, err = clone(w.value) // nodes get copies
			}
		}
		if err != nil {
			errs = append(errs, fieldErr(name, err))
			continue
		}
		all = append(all, ws...)
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	slices.SortStableFunc(all, t.order)
	s.writes = append(s.writes, all...)
	s.unknown = append(s.unknown, unknown...)
	return nil
}

// Hash returns a hash of each field's value, by name.
func (t *Type) Hash(s *State) (map[string]uint64, error) {
	hashes := map[string]uint64{}
	s.settle()
	for i := range t.fields {
		f := &t.fields[i]
		v, ok := s.value(int32(i))
		if !ok || f.Untracked {
			continue
		}
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fieldErr(f.Name, cause(err))
		}
		hashes[f.Name] = maphash.Bytes(seed, data)
	}
	for name, v := range s.extra {
		if isNull(v) {
			v = nil
		}
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fieldErr(name, cause(err))
		}
		hashes[name] = maphash.Bytes(seed, data)
	}
	return hashes, nil
}

// Overlay returns an update as a task's overlay.
func (t *Type) Overlay(node string, update map[string]any) (json.RawMessage, error) {
	if len(update) == 0 {
		return nil, nil
	}
	ws, _, err := t.check(node, update)
	if err != nil {
		return nil, err
	}
	for _, w := range ws {
		if w.field >= 0 && t.fields[w.field].Untracked {
			return nil, fieldErr(t.nameOf(w), errors.New("it is not stored, so it can't be sent"))
		}
	}
	data, _, err := t.Encode(&Changes{writes: ws})
	return data, err
}

// Payload encodes a map that is sent to a task: values of declared fields have
// their types, others any.
func (t *Type) Payload(m map[string]any) (json.RawMessage, error) {
	var o jsonobject.Writer
	for _, name := range slices.Sorted(maps.Keys(m)) {
		var data []byte
		var err error
		if i, ok := t.index[name]; ok {
			f := &t.fields[i]
			v, got, ok := f.assign(f.Type, m[name])
			if !ok {
				return nil, &FieldTypeError{Field: name, Want: f.Type.String(), Got: got}
			}
			data, err = t.encode(f.Type, v)
		} else {
			data, err = t.encodeAny(reflect.ValueOf(m[name]))
		}
		if err != nil {
			return nil, fieldErr(name, err)
		}
		o.Member(name, data)
	}
	return o.Close(), nil
}

// ReadPayload reads what Payload returned.
func (t *Type) ReadPayload(data json.RawMessage) (map[string]any, error) {
	m := map[string]any{}
	if data == nil {
		return m, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	for name, data := range raw {
		typ := anyType
		if i, ok := t.index[name]; ok {
			typ = t.fields[i].Type
		}
		v, err := t.decode(typ, data, false)
		if err != nil {
			return nil, fieldErr(name, err)
		}
		m[name] = nil
		if v.IsValid() {
			m[name] = v.Interface()
		}
	}
	return m, nil
}
