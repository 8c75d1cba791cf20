package state

import (
	"encoding/json"
	"path"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/internal/goschema"
)

// Schema returns the JSON Schema of states, or with input set that of updates:
// what [Type.Update] takes. Descriptions come from jsonschema tags, the values
// that are allowed from enum tags.
func (t *Type) Schema(input bool) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: goschema.Nothing(),
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
		err = goschema.Limit(s, f.tag, "")
	}
	return s, err
}

// typeSchema is valueSchema without what the tag limits.
func (f *fieldInfo) typeSchema() (*jsonschema.Schema, error) {
	if f.quoted {
		return &jsonschema.Schema{Type: "string"}, nil
	}
	if f.tab == nil {
		return goschema.Of(f.typ, goschema.State)
	}
	value := new(jsonschema.Schema)
	if s, ok := f.zero.(field.Schemer); ok {
		of := s.SchemaOf()
		var err error
		if raw, ok := of.(json.RawMessage); ok && len(raw) > 0 {
			err = json.Unmarshal(raw, value)
		} else if t := reflect.TypeOf(of); t != nil {
			value, err = goschema.Of(t, goschema.State)
		}
		if err != nil {
			return nil, err
		}
	}
	if f.zeroJSON() == "null" {
		goschema.OrNull(value)
	}
	return value, nil
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
		ops.AdditionalProperties = goschema.Nothing()
	}
	return forms{value: value, operations: ops}, nil
}

// graphPath is the path of package graph, whose fields take no updates but those
// that the schema of their values, and the names of operations, tell.
var graphPath = path.Dir(path.Dir(reflect.TypeFor[layout]().PkgPath()))
