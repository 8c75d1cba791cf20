package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/tool"
)

// fields are what a JSON Schema says of an object.
type fields struct {
	params   []program.Param
	open     bool              // it may have any others
	original map[string]string // names that programs can't write, by those that they can
	nullable []string          // those that have to be there and may be null
}

func readSchema(raw json.RawMessage) (fields, error) {
	var f fields
	if raw == nil {
		return f, nil // a tool without a schema takes nothing
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return f, fmt.Errorf("the schema is wrong: %w", err)
	}
	if t, _ := typeOf(&s); t != program.Object {
		return f, errors.New("they must be a JSON object; use a struct")
	}
	closed := s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil
	f.open = len(s.Properties) == 0 && !closed
	names := s.PropertyOrder
	if names == nil {
		names = slices.Sorted(maps.Keys(s.Properties))
	}
	f.original = map[string]string{}
	for _, name := range names {
		id := identifier(name)
		if _, twice := f.original[id]; twice || len(id) > maxName {
			return f, fmt.Errorf("a program can't name the field %q", name)
		}
		f.original[id] = name
		t, null := typeOf(s.Properties[name])
		required := slices.Contains(s.Required, name)
		if required && null {
			f.nullable = append(f.nullable, name)
		}
		f.params = append(f.params, program.Param{Name: id, Type: t, Optional: null || !required})
	}
	return f, nil
}

// typeOf returns the type of what matches a schema, and whether null does.
func typeOf(s *jsonschema.Schema) (t program.Type, null bool) {
	if s == nil {
		return program.Any, false
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if null = slices.Contains(types, "null"); null {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	}
	if len(types) == 0 && !null { // as others write what may be null
		choices := slices.Concat(s.AnyOf, s.OneOf)
		rest := slices.DeleteFunc(slices.Clone(choices), func(c *jsonschema.Schema) bool { return c.Type == "null" })
		if len(rest) == 1 && len(rest) < len(choices) {
			t, _ := typeOf(rest[0])
			return t, true
		}
	}
	if len(types) != 1 {
		return program.Any, null
	}
	switch types[0] {
	case "string":
		switch s.Format {
		case "date":
			return program.Date, null
		case "time":
			return program.Time, null
		case "date-time":
			return program.DateTime, null
		}
		return program.String, null
	case "integer":
		return program.Integer, null
	case "number":
		return program.Number, null
	case "boolean":
		return program.Boolean, null
	case "array":
		return program.List, null
	case "object":
		return program.Object, null
	}
	return program.Any, null
}

// readResult returns the outputs that a tool's result holds.
func readResult(r tool.Result) (map[string]expr.Value, error) {
	data := r.Artifact
	if data == nil {
		text := r.Text()
		if data = json.RawMessage(text); !strings.HasPrefix(strings.TrimSpace(text), "{") || !json.Valid(data) {
			return map[string]expr.Value{"text": expr.Str(text)}, nil
		}
	}
	return readObject(data, "result")
}

// readObject returns the members of a JSON object, and other JSON under a name. Null is an
// object without members.
func readObject(data []byte, other string) (map[string]expr.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return nil, invalidOutput("they are no JSON")
	}
	object, ok := x.(map[string]any)
	switch {
	case x == nil:
		object = map[string]any{}
	case !ok:
		object = map[string]any{other: x}
	}
	outputs := make(map[string]expr.Value, len(object))
	for name, member := range object {
		member, err := exactly(member)
		if err != nil {
			return nil, invalidOutput("the output %q: %v", name, err)
		}
		v, err := expr.FromJSON(member)
		if err != nil {
			return nil, invalidOutput("the output %q: %v", name, err)
		}
		outputs[name] = v
	}
	return outputs, nil
}

// exactly returns JSON with the numbers that dialogues have. A large integer that would not
// be written again as it is is refused: it would be another account or order.
func exactly(x any) (any, error) {
	var err error
	switch x := x.(type) {
	case json.Number:
		f, err := x.Float64()
		if err != nil {
			return nil, errors.New("a number is too large")
		}
		if !strings.ContainsAny(x.String(), ".eE") && strconv.FormatFloat(f, 'f', -1, 64) != x.String() {
			return nil, errors.New("an integer has too many digits; return it as a string")
		}
		return f, nil
	case []any:
		for i := range x {
			if x[i], err = exactly(x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range x {
			if x[name], err = exactly(x[name]); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}
