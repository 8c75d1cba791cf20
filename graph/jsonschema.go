package graph

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// JSONSchema returns the JSON Schema of the state or, with input set, of the
// updates that [Graph.UpdateJSON] takes. For a schema graph it returns an error
// that wraps errors.ErrUnsupported.
func (g *Graph[S]) JSONSchema(input bool) (json.RawMessage, error) {
	if err := g.compiled(); err != nil {
		return nil, err
	}
	v, ok := g.values.(interface {
		Schema(input bool) (*jsonschema.Schema, error)
	})
	if !ok {
		return nil, fmt.Errorf("JSON Schema of graph %q: %w", g.Name(), errors.ErrUnsupported)
	}
	s, err := v.Schema(input)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
