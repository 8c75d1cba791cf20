package state

import (
	"encoding/json"
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

// schemaOf infers a schema. A type that holds itself, or that JSON Schema has no
// words for, gets the schema that takes everything.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	known := map[reflect.Type]*jsonschema.Schema{}
	if !describable(t, known, map[reflect.Type]bool{}) {
		return new(jsonschema.Schema), nil
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	s.PropertyOrder = nil
	return s, nil
}

// describable reports whether jsonschema-go can infer t's schema. It adds
// schemas to known for types with methods that write their JSON.
func describable(t reflect.Type, known map[reflect.Type]*jsonschema.Schema, open map[reflect.Type]bool) bool {
	if t.PkgPath() == "time" && t.Name() == "Time" {
		return true
	}
	p := reflect.PointerTo(t)
	switch {
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
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			known[t] = &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
			return true
		}
		return describable(t.Elem(), known, open)
	case reflect.Pointer, reflect.Array:
		return describable(t.Elem(), known, open)
	case reflect.Map:
		k := t.Key()
		if k.Kind() != reflect.String && !k.Implements(textMarshalerType) {
			return false
		}
		return describable(t.Elem(), known, open)
	case reflect.Struct:
		for i := range t.NumField() {
			sf := t.Field(i)
			if !sf.IsExported() && !sf.Anonymous || parseTag(sf).skip {
				continue
			}
			if !describable(sf.Type, known, open) {
				return false
			}
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return false
	}
	return true
}
