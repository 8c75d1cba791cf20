package eval

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/acyclic"
)

// follows validates a value.
func follows(s *jsonschema.Resolved, v any) (Score, error) {
	data, err := json.Marshal(v) // the validator wants plain numbers
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		return Score{}, err
	}
	if err := s.Validate(v); err != nil {
		return Failed("%s", cut(err.Error())), nil
	}
	return Passed(), nil
}

// resolve reads a schema and reports whether it wants a string.
func resolve(schema json.RawMessage) (r *jsonschema.Resolved, text bool, err error) {
	if len(schema) == 0 {
		return nil, false, errors.New(`"schema" is missing`)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, false, fmt.Errorf("the schema: %w", err)
	}
	if r, err = s.Resolve(nil); err == nil {
		err = acyclic.Check(schema)
	}
	if err != nil {
		return nil, false, fmt.Errorf("the schema: %w", err)
	}
	return r, s.Type == "string", nil
}
