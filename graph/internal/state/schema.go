package state

import (
	"encoding/json"
	"math"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/field"
)

// Schema returns the JSON Schema of states, or with input set that of updates:
// what [Type.Update] takes. Descriptions come from jsonschema tags.
func (t *Type[S]) Schema(input bool) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for i := range t.fields {
		fi := &t.fields[i]
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
	if f.quoted {
		return &jsonschema.Schema{Type: "string"}, nil
	}
	if f.tab == nil {
		return schemaOf(f.typ)
	}
	value := new(jsonschema.Schema)
	if s, ok := reflect.New(f.typ).Interface().(field.Schemer); ok {
		if t := reflect.TypeOf(s.SchemaOf()); t != nil {
			var err error
			if value, err = schemaOf(t); err != nil {
				return nil, err
			}
		}
	}
	if !input {
		if f.unrecorded {
			return &jsonschema.Schema{Type: "null"}, nil
		}
		if zero, err := json.Marshal(reflect.Zero(f.typ).Interface()); err == nil && string(zero) == "null" {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{value, {Type: "null"}}}, nil
		}
		return value, nil
	}
	// Each update form is the value's own or an object of operations. What an
	// operation takes beyond $overwrite is the field's to say.
	ops := &jsonschema.Schema{
		Type:              "object",
		MinProperties:     jsonschema.Ptr(1),
		Properties:        map[string]*jsonschema.Schema{"$overwrite": value.CloneSchemas()},
		PatternProperties: map[string]*jsonschema.Schema{`^\$`: {}},
	}
	if value.AdditionalProperties != nil && value.Type == "object" && value.Properties == nil {
		ops.AdditionalProperties = value.AdditionalProperties.CloneSchemas() // a map: keys and operations mix
	} else {
		ops.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{value, ops}}, nil
}

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
	s.PropertyOrder = nil
	return s, nil
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
	case t.Kind() != reflect.Pointer && p.Implements(marshalerType):
		known[t] = new(jsonschema.Schema)
		return true
	case t.Kind() != reflect.Pointer && p.Implements(textMarshalerType):
		known[t] = &jsonschema.Schema{Type: "string"}
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
		if t.Elem().Kind() == reflect.Uint8 {
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
