package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
)

// shape is what a graph takes of an object from outside. Nil: nothing, whatever clients
// send.
type shape jsonschema.Schema

// shapeOf returns the shape of an input or a configuration.
func shapeOf(g schemer, kind graph.JSONKind) (*shape, error) {
	raw, err := g.JSONSchema(kind)
	if raw == nil || err != nil {
		return nil, err
	}
	c := &shape{}
	return c, json.Unmarshal(raw, (*jsonschema.Schema)(c))
}

// takes reports whether there may be such a name.
func (c *shape) takes(name string) bool {
	return c != nil && (c.Properties[name] != nil || !closed((*jsonschema.Schema)(c)))
}

// closed reports whether a schema allows no members but those that it lists.
func closed(s *jsonschema.Schema) bool {
	text, err := json.Marshal(s.AdditionalProperties)
	return err == nil && string(text) == "false"
}

// fitted returns of what the server itself configures that which a graph takes: of
// objects the members that it knows.
func (c *shape) fitted(configured object) object {
	out := object{}
	for name, value := range configured {
		if !c.takes(name) {
			continue
		}
		if p := c.Properties[name]; p != nil && p.Properties != nil && closed(p) && slices.Contains(ownConfig, name) {
			o := objectOf(value)
			maps.DeleteFunc(o, func(name string, _ json.RawMessage) bool { return p.Properties[name] == nil })
			value = o.raw()
		}
		out[name] = value
	}
	return out
}

// published returns the schema that clients see: without what only the server
// configures.
func (c *shape) published() json.RawMessage {
	if c == nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	shown := jsonschema.Schema(*c)
	shown.Properties = maps.Clone(c.Properties)
	maps.DeleteFunc(shown.Properties, func(name string, _ *jsonschema.Schema) bool { return ofServer(name) })
	data, _ := json.Marshal(&shown) // it was one
	return data
}

// defaults returns what a graph is configured with if nobody configures it.
func (c *shape) defaults() object {
	out := object{}
	for name, p := range c.Properties {
		switch inner := (*shape)(p).defaults(); {
		case ofServer(name):
		case p.Default != nil:
			out[name] = p.Default
		case len(inner) > 0:
			out[name] = inner.raw()
		}
	}
	return out
}

// ofServer reports whether clients can't configure a name.
func ofServer(name string) bool { return ofHeader(name) || slices.Contains(ownConfig, name) }

// ofProtocol reports whether clients of the protocol send a name in configurable that
// is not for the graph.
func ofProtocol(name string) bool {
	switch name {
	case "thread_id", "run_id", "graph_id", "assistant_id", "user_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "thread_ts":
		return true
	}
	return strings.HasPrefix(name, "langgraph_") || strings.HasPrefix(name, "__")
}

// checkConfig reports what is wrong with a configuration from a client. A graph that
// declares none takes everything, and its nodes can't see it.
func checkConfig(g *served, configurable, context object) error {
	shape, err := g.config()
	if shape == nil || err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		all  object
	}{{"config.configurable", configurable}, {"context", context}} {
		given := object{}
		for name, v := range part.all {
			if !ofServer(name) && (part.name == "context" || shape.takes(name) || !ofProtocol(name)) {
				given[name] = v
			}
		}
		if err := g.CheckJSON(graph.JSONConfig, given.raw()); err != nil {
			return invalid("%s: %s", part.name, plainly(err))
		}
	}
	return nil
}
