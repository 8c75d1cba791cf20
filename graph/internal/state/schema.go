package state

import (
	"encoding/json"
	"errors"
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
func AnswerSchema(t reflect.Type) (*jsonschema.Schema, error) { return infer(t, true) }

// infer infers a schema. A type that holds itself, or that JSON Schema has no words
// for, gets the schema that takes everything.
func infer(t reflect.Type, strict bool) (*jsonschema.Schema, error) {
	in := inference{strict, map[reflect.Type]bool{}}
	s, err := in.of(t)
	switch {
	case errors.Is(err, errNoWords):
		return new(jsonschema.Schema), nil
	case err != nil:
		return nil, err
	}
	s.PropertyOrder = nil // the order of the fields holds inside
	return s, nil
}

var errNoWords = errors.New("JSON Schema has no words for it")

// inference infers schemas of what encoding/json writes and reads. That of jsonschema-go
// would have to be corrected nearly everywhere: by methods that write JSON, bytes, maps that
// are null or have numbers as keys, bounds of numbers, embedded structs, and the tag options
// of encoding/json.
type inference struct {
	strict bool                  // with bounds of all numbers, and patterns
	open   map[reflect.Type]bool // those inside of which it is
}

func (in *inference) of(t reflect.Type) (s *jsonschema.Schema, err error) {
	s = new(jsonschema.Schema)
	switch p := reflect.PointerTo(t); {
	case t == timeType:
		s.Type, s.Format = "string", "date-time"
		if in.strict {
			s.Pattern = TimePattern
		}
		return s, nil
	case t == numberType:
		s.Type = "number"
		return s, nil
	case in.open[t]:
		return nil, errNoWords
	case t.Kind() == reflect.Pointer:
	case p.Implements(marshalerType) || p.Implements(unmarshalerType):
		return s, nil
	case p.Implements(textMarshalerType) || p.Implements(textUnmarshalerType):
		s.Type = "string"
		return s, nil
	}
	in.open[t] = true
	defer delete(in.open, t)
	switch k := t.Kind(); k {
	case reflect.Bool:
		s.Type = "boolean"
	case reflect.String:
		s.Type = "string"
	case reflect.Float64:
		s.Type = "number"
	case reflect.Float32:
		if s.Type = "number"; in.strict {
			s.Minimum, s.Maximum = jsonschema.Ptr(-math.MaxFloat32), jsonschema.Ptr(math.MaxFloat32)
		}
	case reflect.Interface:
	case reflect.Pointer:
		if s, err = in.of(t.Elem()); err == nil {
			orNull(s)
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !opaque(t.Elem()) {
			if s.Types, s.ContentEncoding = []string{"null", "string"}, "base64"; in.strict {
				s.Pattern = Base64Pattern
			}
			break
		}
		s.Types = []string{"null", "array"}
		s.Items, err = in.inside(t.Elem())
	case reflect.Array:
		s.Type, s.MinItems, s.MaxItems = "array", jsonschema.Ptr(t.Len()), jsonschema.Ptr(t.Len())
		s.Items, err = in.inside(t.Elem())
	case reflect.Map:
		s.Type = "object"
		switch k := t.Key(); {
		case k.Kind() == reflect.String || k.Implements(textMarshalerType):
		case whole(k.Kind()):
			if s.PropertyNames = (&jsonschema.Schema{Pattern: intPattern}); k.Kind() >= reflect.Uint {
				s.PropertyNames.Pattern = uintPattern
			}
		default:
			return nil, errNoWords
		}
		s.AdditionalProperties, err = in.inside(t.Elem())
	case reflect.Struct:
		s.Type, s.AdditionalProperties = "object", &jsonschema.Schema{Not: &jsonschema.Schema{}}
		ok, err := in.members(s, t)
		if !ok {
			s = new(jsonschema.Schema)
		}
		return s, err
	default:
		if !whole(k) {
			return nil, errNoWords
		}
		s.Type = "integer"
		in.bound(s, t)
	}
	return s, err
}

// inside is of for what is inside of something: a map may be null there.
func (in *inference) inside(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := in.of(t)
	if err == nil && t.Kind() == reflect.Map && !opaque(t) {
		orNull(s)
	}
	return s, err
}

// whole reports whether a kind is one of whole numbers.
func whole(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }

// bound sets the bounds of a type of whole numbers, as near as a float64 comes to them.
func (in *inference) bound(s *jsonschema.Schema, t reflect.Type) {
	low, high := 0., math.Ldexp(1, t.Bits())
	if t.Kind() < reflect.Uint {
		low, high = -high/2, high/2
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Uintptr:
		if !in.strict {
			if low == 0 {
				s.Minimum = &low
			}
			return
		}
	default:
		high--
	}
	s.Minimum, s.Maximum = &low, &high
}

// members adds the fields of a struct to a schema. It reports false where two have one
// name, or one is embedded that encoding/json reads in its own way.
func (in *inference) members(s *jsonschema.Schema, t reflect.Type) (ok bool, err error) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := parseTag(sf)
		switch {
		case tag.skip || !sf.Anonymous && !sf.IsExported():
			continue
		case sf.Anonymous && (tag.named || sf.Type.Kind() != reflect.Struct):
			return false, nil
		case sf.Anonymous:
			if ok, err = in.members(s, sf.Type); !ok {
				return false, err
			}
			continue
		}
		if s.Properties[tag.name] != nil {
			return false, nil
		}
		p, err := in.inside(sf.Type)
		if err != nil {
			return false, err
		}
		ft := sf.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if tag.quoted && quotable(ft) && !opaque(ft) {
			p.Type, p.Types, p.Minimum, p.Maximum = "string", nil, nil, nil
			if ft != sf.Type {
				orNull(p)
			}
		}
		if err := enumerate(p, sf.Tag); err != nil {
			return false, fmt.Errorf("field %q: %w", tag.name, err)
		}
		if text, ok := sf.Tag.Lookup("jsonschema"); ok && text == "" {
			return false, fmt.Errorf("field %q: its tag jsonschema is empty", tag.name)
		} else if word, _, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(word, " \t\n") {
			return false, fmt.Errorf("field %q: its tag jsonschema must not begin with 'WORD=': %q", tag.name, text)
		} else {
			p.Description = text
		}
		if s.Properties == nil {
			s.Properties = map[string]*jsonschema.Schema{}
		}
		s.Properties[tag.name] = p
		s.PropertyOrder = append(s.PropertyOrder, tag.name)
		if !tag.omit {
			s.Required = append(s.Required, tag.name)
		}
	}
	return true, nil
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
