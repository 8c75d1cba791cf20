package graph

import (
	"encoding/json"
	"errors"
	"fmt"
)

// JSONSchema returns the JSON Schema of the state or, with input set, of the
// updates that [Graph.UpdateJSON] takes. For a schema graph it returns an error
// that wraps errors.ErrUnsupported.
func (g *Graph[S]) JSONSchema(input bool) (json.RawMessage, error) {
	e, err := g.engine()
	if err != nil {
		return nil, err
	}
	if e.schema == nil {
		return nil, fmt.Errorf("JSON Schema of graph %q: %w", g.Name(), errors.ErrUnsupported)
	}
	s, err := e.schema(input)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
