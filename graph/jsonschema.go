package graph

import "encoding/json"

// JSONSchema returns the JSON Schema of the state or, with input set, of the
// updates that [Graph.UpdateJSON] takes.
func (g *Graph[S]) JSONSchema(input bool) (json.RawMessage, error) {
	e, err := g.engine()
	if err != nil {
		return nil, err
	}
	s, err := e.schema(input)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
