package graph

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// JSONKind names what a graph takes or gives in JSON.
type JSONKind uint8

const (
	JSONState  JSONKind = iota // the state
	JSONUpdate                 // an update of the state: what edits are, and [Graph.UpdateJSON] takes
	JSONInput                  // the input of a run: see [SetInput]; without it an update
	JSONOutput                 // what a run gives to its caller: see [SetOutput]; without it the state
	JSONConfig                 // what [ConfigureJSON] takes; see [Configurable]
)

// JSONSchema returns the JSON Schema of what the graph takes or gives. It is nil for
// the configuration of a graph that declares none.
func (g *Graph[S]) JSONSchema(kind JSONKind) (json.RawMessage, error) {
	e, err := g.engine()
	if err != nil {
		return nil, err
	}
	s, err := e.schemaOf(kind)
	if s == nil || err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

func (e *engine) schemaOf(kind JSONKind) (*jsonschema.Schema, error) {
	switch {
	case kind == JSONInput && e.input != nil:
		return e.input.schema, nil
	case kind == JSONOutput && e.output != nil:
		return e.output.schema, nil
	case kind == JSONConfig && e.settings.config == nil:
		return nil, nil
	case kind == JSONConfig:
		return e.settings.config.schema, nil
	case kind > JSONConfig:
		return nil, fmt.Errorf("graph: unknown JSONKind %d", kind)
	}
	return e.state.Schema(kind == JSONUpdate || kind == JSONInput)
}

// CheckJSON reports what is wrong with JSON that the graph is to be given: an update,
// as [Graph.UpdateJSON] would for a state without content, an input, but for what
// the function of [SetInput] refuses, or a configuration.
func (g *Graph[S]) CheckJSON(kind JSONKind, data []byte) error {
	e, err := g.engine()
	if err != nil {
		return err
	}
	return e.check(kind, data)
}

func (e *engine) check(kind JSONKind, data []byte) error {
	switch {
	case kind == JSONInput && e.input != nil:
		_, err := e.input.read(data)
		return err
	case kind == JSONConfig && e.settings.config == nil:
		return undeclared(nil, nil)
	case kind == JSONConfig:
		return e.settings.config.read(data, reflect.New(e.settings.config.typ).Interface())
	case kind == JSONInput, kind == JSONUpdate:
		return e.state.Update(e.prog.Values.New(), data)
	}
	return fmt.Errorf("graph: CheckJSON: JSONKind %d is nothing that a graph is given: use JSONUpdate, JSONInput or JSONConfig", kind)
}
