package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/goschema"
)

// configType is the configuration that a graph declares.
type configType struct {
	typ      reflect.Type
	schema   *jsonschema.Schema // of what a run may give: nothing is required
	defaults json.RawMessage
}

// configEdit changes a configuration.
type configEdit func(t *configType, config json.RawMessage) (json.RawMessage, error)

// Configurable declares what runs of the graph may be configured with, and its
// defaults: a struct that JSON can hold, or a map. A run sets some of it with
// [Configure] or, from JSON, [ConfigureJSON]; nodes read it with [Configured]. It is
// never stored: a thread that goes on is configured anew. Its schema is published
// ([Graph.JSONSchema] of [JSONConfig]).
//
// What a node needs beside data, such as clients of services, is a dependency: see
// [ProvideDeps].
func Configurable[C any](defaults C) Option {
	return graphSetting(func(s *settings) {
		t := &configType{typ: reflect.TypeFor[C]()}
		if s.config != nil && s.config.typ != t.typ {
			s.fail("graph: Configurable of %v: the graph is configured with %v already: it has one configuration", t.typ, s.config.typ)
			return
		}
		bad, why := state.Unstorable(t.typ)
		var err error
		if bad != nil {
			err = fmt.Errorf("%v: %s", bad, why)
		} else if t.defaults, err = json.Marshal(defaults); err == nil {
			t.schema, err = goschema.Of(t.typ, goschema.Answer)
		}
		if err == nil && shapeless(t.typ) {
			err = errors.New("it is neither a struct nor a map with strings for keys")
		}
		if err != nil {
			s.fail("graph: Configurable of %v: %w", t.typ, err)
			return
		}
		overDefaults(t.schema, t.defaults)
		s.config = t
	})
}

// shapeless reports whether values of a type aren't objects in JSON.
func shapeless(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && (t.Kind() != reflect.Map || t.Key().Kind() != reflect.String)
}

// overDefaults makes a schema of a struct one of what is given over the defaults, of which
// it tells.
func overDefaults(s *jsonschema.Schema, defaults json.RawMessage) {
	if s == nil || s.Properties == nil {
		return
	}
	s.Required = nil
	var values map[string]json.RawMessage
	_ = json.Unmarshal(defaults, &values) // null has none
	for name, p := range s.Properties {
		value := values[name]
		if overDefaults(p, value); p != nil && p.Properties == nil {
			p.Default = value
		}
	}
}

// Configure changes the configuration of runs, of the type that the graph declares with
// [Configurable]: edit is given what the graph and options farther from the run have
// made it. A graph that declares none, or another, refuses the run with a
// [ConfigError].
func Configure[C any](edit func(c *C)) SubgraphOption {
	typ := reflect.TypeFor[C]()
	return configSetting(func(t *configType, config json.RawMessage) (json.RawMessage, error) {
		if edit == nil {
			return config, nil
		}
		if t == nil || t.typ != typ {
			return nil, undeclared(typ, t)
		}
		return t.edit(config, func(c any) error {
			edit(c.(*C))
			return nil
		})
	})
}

// edit changes a configuration, of which f is given a pointer.
func (t *configType) edit(config json.RawMessage, f func(c any) error) (data json.RawMessage, err error) {
	c := reflect.New(t.typ).Interface()
	if err = json.Unmarshal(config, c); err == nil {
		err = f(c)
	}
	if err == nil {
		data, err = json.Marshal(c)
	}
	if err != nil {
		return nil, &ConfigError{Type: t.typ.String(), Err: err}
	}
	return data, nil
}

// ConfigureJSON is [Configure] for configurations from outside: an object with some of
// what the graph's configuration has. The run fails with a [ConfigError] if it isn't as
// the schema has it; an [InputError] in it names each member that is wrong, and what
// was meant by one that there isn't.
func ConfigureJSON(config json.RawMessage) SubgraphOption {
	config = slices.Clone(config)
	return configSetting(func(t *configType, before json.RawMessage) (json.RawMessage, error) {
		if t == nil {
			return nil, undeclared(nil, nil)
		}
		return t.edit(before, func(c any) error { return t.read(config, c) })
	})
}

func (t *configType) read(config []byte, v any) error {
	return goschema.Decode("configuration", config, t.schema, v)
}

func undeclared(typ reflect.Type, t *configType) error {
	e := &ConfigError{Reason: "the graph declares none: compile it with graph.Configurable"}
	if typ != nil {
		e.Type = typ.String()
	}
	if t != nil {
		e.Reason = fmt.Sprintf("the graph declares %v", t.typ)
	}
	return e
}

func configSetting(edit configEdit) SubgraphOption {
	return subgraphSetting(func(s *settings) { s.configure = append(slices.Clip(s.configure), edit) })
}

// Configured returns the run's configuration; see [Configurable]. It is the caller's
// own. In a subgraph it is that of the graph whose run it is, if that has the type C,
// else the defaults of the nearest graph around the node that declares it. If none does
// it returns a [ConfigError]; a node that returns that ends the run.
func Configured[C any](ctx context.Context) (C, error) {
	var c C
	t, err := task(ctx, "Configured")
	if err != nil {
		return c, err
	}
	typ := reflect.TypeFor[C]()
	d, _ := t.Deps().(*deps)
	var has *configType
	for ; d != nil; d = d.around {
		if d.config != nil && d.config.typ == typ {
			return c, json.Unmarshal(d.configured, &c)
		}
		has = d.config
	}
	for p := range t.Programs() {
		if own, ok := p.Config.(*configType); ok && own != nil && own.typ == typ {
			return c, json.Unmarshal(own.defaults, &c)
		}
	}
	return c, undeclared(typ, has)
}
