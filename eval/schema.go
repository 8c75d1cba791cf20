package eval

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/internal/goschema"
)

// follows validates a value.
func follows(s *goschema.Schema, v any) (Score, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return Score{}, err
	}
	if err := s.Check(data); err != nil {
		return Failed("%s", cut(err.Error())), nil
	}
	return Passed(), nil
}

// resolve reads a schema and reports whether it wants a string.
func resolve(schema json.RawMessage) (s *goschema.Schema, text bool, err error) {
	if len(schema) == 0 {
		return nil, false, errors.New(`"schema" is missing`)
	}
	if s, err = goschema.Parse(schema); err != nil {
		return nil, false, fmt.Errorf("the schema: %w", err)
	}
	return s, s.Type == "string", nil
}
