package state

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/field"
)

// Schema returns the JSON Schema of states, or with input set that of updates:
// what [Type.Update] takes. Descriptions come from jsonschema tags, the values
// that are allowed from enum tags.
func (t *Type) Schema(input bool) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for i := range t.fields {
		fi := &t.fields[i]
		if fi.rest {
			s.AdditionalProperties = nil
			continue
		}
		fs, err := fi.schema(input)
		if err != nil {
			return nil, fi.err(err)
		}
		if text := fi.tag.Get("jsonschema"); text != "" {
			fs.Description = text
		}
		s.Properties[fi.name] = fs
		s.PropertyOrder = append(s.PropertyOrder, fi.name)
		if !input && !fi.omit && !fi.unrecorded {
			s.Required = append(s.Required, fi.name)
		}
	}
	return s, nil
}

func (f *fieldInfo) schema(input bool) (*jsonschema.Schema, error) {
	if f.tab == nil {
		return f.valueSchema()
	}
	if input {
		forms, err := f.forms()
		if err != nil {
			return nil, err
		}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{forms.value, forms.operations}}, nil
	}
	if f.unrecorded {
		return &jsonschema.Schema{Type: "null"}, nil
	}
	value, err := f.valueSchema()
	if err == nil && slices.Equal(value.Types, []string{"null", "array"}) && f.zeroJSON() == "[]" {
		value.Type, value.Types = "array", nil
	}
	return value, err
}

// zeroJSON returns the JSON of the field's zero value.
func (f *fieldInfo) zeroJSON() string {
	zero, err := json.Marshal(reflect.Zero(f.typ).Interface())
	if err != nil {
		return ""
	}
	return string(zero)
}

// valueSchema returns the schema of the field's value.
func (f *fieldInfo) valueSchema() (*jsonschema.Schema, error) {
	s, err := f.typeSchema()
	if err == nil {
		err = enumerate(s, f.tag)
	}
	return s, err
}

// enumerate limits a schema to the values that an enum tag lists: with commas between,
// text as it is for strings, JSON for others; of a list, its elements.
func enumerate(s *jsonschema.Schema, tag reflect.StructTag) error {
	list, ok := tag.Lookup("enum")
	if !ok {
		return nil
	}
	for s.Items != nil {
		s = s.Items
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	s.Enum = nil
	for item := range strings.SplitSeq(list, ",") {
		var v any = item
		if !slices.Contains(types, "string") {
			var err error
			if v, err = readValues([]byte(item)); err != nil || !json.Valid([]byte(item)) {
				return fmt.Errorf("tag enum:%q: %q isn't JSON", list, item)
			}
		}
		if !slices.ContainsFunc(types, func(t string) bool { return t != "null" && ofType(v, t) }) {
			return fmt.Errorf("tag enum:%q: %q is no value of the field", list, item)
		}
		s.Enum = append(s.Enum, v)
	}
	if slices.Contains(types, "null") {
		s.Enum = append(s.Enum, nil)
	}
	return nil
}

// typeSchema is valueSchema without what the tag limits.
func (f *fieldInfo) typeSchema() (*jsonschema.Schema, error) {
	if f.quoted {
		return &jsonschema.Schema{Type: "string"}, nil
	}
	if f.tab == nil {
		return schemaOf(f.typ)
	}
	value := new(jsonschema.Schema)
	if s, ok := f.zero.(field.Schemer); ok {
		of := s.SchemaOf()
		var err error
		if raw, ok := of.(json.RawMessage); ok && len(raw) > 0 {
			err = json.Unmarshal(raw, value)
		} else if t := reflect.TypeOf(of); t != nil {
			value, err = schemaOf(t)
		}
		if err != nil {
			return nil, err
		}
	}
	if f.zeroJSON() == "null" {
		orNull(value)
	}
	return value, nil
}

// orNull makes a schema one that matches null as well.
func orNull(s *jsonschema.Schema) {
	if s.Type != "" {
		s.Type, s.Types = "", []string{"null", s.Type}
	}
}

// forms returns the schemas of the forms of a merging field's updates: the value's
// own and an object of operations. What an operation takes beyond $overwrite is the
// field's to say; a field of a type from elsewhere may take still other forms, which
// no schema tells.
func (f *fieldInfo) forms() (forms, error) {
	value, err := f.valueSchema()
	if err != nil || f.tab == nil {
		return forms{value: value}, err
	}
	if f.typ.PkgPath() != graphPath || f.open {
		more := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"$overwrite": {}}} // takes everything
		return forms{value: value, operations: more, open: true}, nil
	}
	ops := &jsonschema.Schema{
		Type:              "object",
		MinProperties:     jsonschema.Ptr(1),
		Properties:        map[string]*jsonschema.Schema{"$overwrite": value.CloneSchemas()},
		PatternProperties: map[string]*jsonschema.Schema{operation: {}},
	}
	if value.AdditionalProperties != nil && value.Type == "object" && value.Properties == nil {
		ops.AdditionalProperties = value.AdditionalProperties.CloneSchemas() // a map: keys and operations mix
	} else {
		ops.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	return forms{value: value, operations: ops}, nil
}

// graphPath is the path of package graph, whose fields take no updates but those
// that the schema of their values, and the names of operations, tell.
var graphPath = path.Dir(path.Dir(reflect.TypeFor[layout]().PkgPath()))

// schemaOf infers the schema of a field's type.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) { return infer(t, false) }

// AnswerSchema infers the schema of an answer of type t. Beyond what the schema of a
// state says it has the bounds of the kinds of numbers, and patterns: what it lets
// pass, t can nearly always be decoded from.
func AnswerSchema(t reflect.Type) (*jsonschema.Schema, error) {
	if s, err := infer(t, true); err == nil {
		return s, nil
	}
	return infer(t, false) // a number can be embedded, its schema can't
}

// infer infers a schema. A type that holds itself, or that JSON Schema has no words
// for, gets the schema that takes everything.
func infer(t reflect.Type, strict bool) (*jsonschema.Schema, error) {
	known := map[reflect.Type]*jsonschema.Schema{}
	if !describable(t, strict, known, map[reflect.Type]bool{}) {
		return new(jsonschema.Schema), nil
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	if err := straighten(t, s); err != nil {
		return nil, err
	}
	s.PropertyOrder = nil
	return s, nil
}

// straighten mends where jsonschema-go and encoding/json disagree about t: a map may
// be null, a pointer to a type that writes its own JSON need not be, and the tag
// option "string" makes strings of numbers; and adds what enum tags say.
func straighten(t reflect.Type, s *jsonschema.Schema) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if slices.Equal(s.Types, []string{"null"}) {
		s.Types = nil
	}
	if opaque(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items != nil { // bytes have none
			nilMap(t.Elem(), s.Items)
			return straighten(t.Elem(), s.Items)
		}
	case reflect.Map:
		nilMap(t.Elem(), s.AdditionalProperties)
		return straighten(t.Elem(), s.AdditionalProperties)
	case reflect.Struct:
		for _, sf := range reflect.VisibleFields(t) {
			tag := parseTag(sf)
			p := s.Properties[tag.name]
			if sf.Anonymous || tag.skip || p == nil {
				continue
			}
			if err := straighten(sf.Type, p); err != nil {
				return err
			}
			nilMap(sf.Type, p)
			ft := sf.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if tag.quoted && quotable(ft) && !opaque(ft) {
				p.Minimum, p.Maximum = nil, nil
				if p.Types != nil {
					p.Types = []string{"null", "string"}
				} else {
					p.Type = "string"
				}
			}
			if err := enumerate(p, sf.Tag); err != nil {
				return fmt.Errorf("field %q: %w", tag.name, err)
			}
		}
	}
	return nil
}

func nilMap(t reflect.Type, s *jsonschema.Schema) {
	if t.Kind() == reflect.Map && !opaque(t) {
		orNull(s)
	}
}

// opaque reports whether a type reads or writes its JSON itself.
func opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t == numberType || t.Kind() != reflect.Pointer && (p.Implements(marshalerType) || p.Implements(unmarshalerType) ||
		p.Implements(textMarshalerType) || p.Implements(textUnmarshalerType))
}

// What the strings of some types look like. [encoding/json] is stricter still.
const (
	TimePattern   = `^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	Base64Pattern = `^[A-Za-z0-9+/\r\n]*={0,2}[\r\n]*$`

	intPattern  = `^[+-]?\d+$`
	uintPattern = `^\d+$`
)

var numberType = reflect.TypeFor[json.Number]()

// describable reports whether jsonschema-go can infer t's schema. It adds to known
// the schemas that it would get wrong: of types with methods that write their JSON,
// of bytes, of maps by number and, if strict is set, of numbers with bounds.
func describable(t reflect.Type, strict bool, known map[reflect.Type]*jsonschema.Schema, open map[reflect.Type]bool) bool {
	p := reflect.PointerTo(t)
	switch {
	case t == timeType:
		known[t] = &jsonschema.Schema{Type: "string", Format: "date-time"}
		if strict {
			known[t].Pattern = TimePattern
		}
		return true
	case t == numberType:
		known[t] = &jsonschema.Schema{Type: "number"}
		return true
	case open[t]:
		return false
	case t.Kind() != reflect.Pointer && (p.Implements(marshalerType) || p.Implements(unmarshalerType)):
		known[t] = new(jsonschema.Schema)
		return true
	case t.Kind() != reflect.Pointer && (p.Implements(textMarshalerType) || p.Implements(textUnmarshalerType)):
		known[t] = &jsonschema.Schema{Type: "string"}
		return true
	case t.Kind() == reflect.Struct && mixed(t):
		known[t] = new(jsonschema.Schema)
		return true
	}
	open[t] = true
	defer delete(open, t)
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Uintptr, reflect.Float32:
		if strict {
			known[t] = bounded(t)
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !opaque(t.Elem()) {
			known[t] = &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
			if strict {
				known[t].Pattern = Base64Pattern
			}
			return true
		}
		return describable(t.Elem(), strict, known, open)
	case reflect.Pointer, reflect.Array:
		return describable(t.Elem(), strict, known, open)
	case reflect.Map:
		k := t.Key()
		if k.Kind() == reflect.String || k.Implements(textMarshalerType) {
			return describable(t.Elem(), strict, known, open)
		}
		names := &jsonschema.Schema{Pattern: intPattern}
		switch k.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			names.Pattern = uintPattern
		default:
			return false
		}
		if !describable(t.Elem(), strict, known, open) {
			return false
		}
		values, err := jsonschema.ForType(t.Elem(), &jsonschema.ForOptions{TypeSchemas: known})
		if err != nil {
			return false
		}
		known[t] = &jsonschema.Schema{Type: "object", PropertyNames: names, AdditionalProperties: values}
	case reflect.Struct:
		for i := range t.NumField() {
			sf := t.Field(i)
			if !sf.IsExported() && !sf.Anonymous || parseTag(sf).skip {
				continue
			}
			if !describable(sf.Type, strict, known, open) {
				return false
			}
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return false
	}
	return true
}

// mixed reports whether the members of a struct's JSON are other than jsonschema-go
// takes them to be: by embedding under a name or through a pointer, or since names
// clash or encoding/json doesn't accept them.
func mixed(t reflect.Type) bool {
	inGo, inJSON := map[string]bool{}, map[string]bool{}
	var visit func(t reflect.Type) bool
	visit = func(t reflect.Type) bool {
		for i := range t.NumField() {
			sf := t.Field(i)
			tag := parseTag(sf)
			switch {
			case sf.Anonymous:
				if tag.skip || tag.named || sf.Type.Kind() != reflect.Struct || visit(sf.Type) {
					return true
				}
				continue
			case tag.skip, !sf.IsExported():
				continue
			}
			name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
			if inGo[sf.Name] || inJSON[tag.name] || name != "" && !tag.named {
				return true
			}
			inGo[sf.Name], inJSON[tag.name] = true, true
		}
		return false
	}
	return visit(t)
}

// bounded returns the schema of a kind of numbers with its bounds, as near as a
// float64 comes to them; jsonschema-go knows those of the smaller kinds.
func bounded(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "integer"}
	switch bits := t.Bits(); t.Kind() {
	case reflect.Float32:
		s.Type, s.Minimum, s.Maximum = "number", jsonschema.Ptr(-math.MaxFloat32), jsonschema.Ptr(math.MaxFloat32)
	case reflect.Int, reflect.Int64:
		s.Minimum, s.Maximum = jsonschema.Ptr(-math.Ldexp(1, bits-1)), jsonschema.Ptr(math.Ldexp(1, bits-1))
	default:
		s.Minimum, s.Maximum = jsonschema.Ptr(0.), jsonschema.Ptr(math.Ldexp(1, bits))
	}
	return s
}
