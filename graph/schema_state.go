package graph

import (
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/graph/internal/mapstate"
	"github.com/superstep-dev/superstep/internal/core"
)

// MapState is the state of a schema graph as its nodes see it, and an update of
// it: field name to value.
type MapState map[string]any

// Into records m as an update of s. As a method value it is what the calls of a
// [Graph] and a [Thread] take:
//
//	g.Invoke(ctx, graph.MapState{"topic": "cats"}.Into)
//	g.Thread("t-1").Edit(ctx, graph.MapState{"approved": true}.Into)
func (m MapState) Into(s *SchemaState) error { return s.Update(m) }

// StateValue returns the value of a field if it is set and has the type T.
func StateValue[T any](m MapState, name string) (T, bool) {
	v, ok := m[name].(T)
	return v, ok
}

// MapCommand is what a node of a schema graph returns to update the state and
// choose where to go. The zero Goto follows the node's edges.
//
// A node may also return a list of them, which runs one task for each
// destination of each command in the next superstep, all in parallel, be it of
// one node. Each of these tasks sees the state with its command's Update folded
// in; the updates are not part of the shared state. A list leads nowhere else,
// and an empty one ends the branch.
//
// A command that leads to the containing graph, by [GotoParent] or
// [DispatchParent], writes its Update to the state of its own graph; alone in a
// list or with others, its Update is for the tasks there and has the fields of
// the containing graph, which must be a schema graph. Either way the run of the
// own graph ends, as with [EndRun]: of such a list, what leads to nodes of the
// own graph is not started.
type MapCommand struct {
	Update MapState
	Goto   Command
}

// SchemaState is the state of a schema graph as an opaque value: what Snapshot
// holds, and what functions over the state take. Reads return private copies.
// The zero SchemaState has no fields.
type SchemaState struct{ s mapstate.State }

// Get returns a copy of a field's value, nil when the field has none.
func (s *SchemaState) Get(name string) any {
	v, _ := s.Lookup(name)
	return v
}

// Lookup returns a copy of a field's value, and whether it has one.
func (s *SchemaState) Lookup(name string) (any, bool) {
	v, ok, err := s.s.Get(name)
	return v, ok && err == nil // what is stored was copied before, so it can be
}

// Map returns a copy of the whole state.
func (s *SchemaState) Map() MapState {
	m, _ := s.s.Map(nil) // what is stored was copied before, so it can be
	return m
}

// Update writes to the state as a node's result does: through the reducers. It
// must be called on the state that a node, an input or an edit was given. An
// error changes nothing, and makes the node or call fail that it is part of.
func (s *SchemaState) Update(m MapState) error {
	if s.s.Type() == nil {
		if len(m) == 0 {
			return nil
		}
		return fmt.Errorf("graph: update of a SchemaState that belongs to no schema: make it with Schema.NewState")
	}
	return s.s.Write(m)
}

// MarshalJSON returns the state as a JSON object.
func (s SchemaState) MarshalJSON() ([]byte, error) {
	return json.Marshal(s.Map())
}

func (s SchemaState) String() string { return fmt.Sprint(map[string]any(s.Map())) }

// schemaValues is what a schema graph knows of its state.
type schemaValues struct {
	t    *mapstate.Type
	warn func(Warning)
}

var _ values[SchemaState] = schemaValues{}

func schemaState(s any) *mapstate.State { return &s.(*SchemaState).s }

// FieldNames returns the names of the declared fields.
func (v schemaValues) FieldNames() []string { return v.t.FieldNames() }

// New implements [core.Values].
func (v schemaValues) New() any { return &SchemaState{v.t.New()} }

// Fork implements [core.Values].
func (v schemaValues) Fork(base any) any { return &SchemaState{v.t.Fork(schemaState(base))} }

// Ahead implements [core.Values]: no field lives for one superstep.
func (v schemaValues) Ahead(base any) any { return v.Fork(base) }

// Changes implements [core.Values].
func (v schemaValues) Changes(_, fork, _ any) (any, error) {
	c, err := v.t.Changes(schemaState(fork), v.warn)
	if c == nil {
		return nil, err
	}
	return c, nil
}

// Fold implements [core.Values].
func (v schemaValues) Fold(base any, cs []any, when core.When) (any, uint64, error) {
	var buf [8]*mapstate.Changes
	list, some := buf[:0], false
	for _, c := range cs {
		mc, _ := c.(*mapstate.Changes)
		list = append(list, mc) // nil too: an error names a position
		some = some || mc != nil
	}
	if !some {
		return base, 0, nil
	}
	next, digest, err := v.t.Fold(schemaState(base), list, when == core.Committed, v.warn)
	if err != nil {
		return nil, 0, err
	}
	return &SchemaState{next}, digest, nil
}

// Encode implements [core.Values].
func (v schemaValues) Encode(changes any) (json.RawMessage, []core.Growth, error) {
	c, _ := changes.(*mapstate.Changes)
	return v.t.Encode(c)
}

// Unrecorded implements [core.Unrecorder].
func (v schemaValues) Unrecorded(changes any) bool {
	c, _ := changes.(*mapstate.Changes)
	return v.t.Unrecorded(c)
}

// Decode implements [core.Values].
func (v schemaValues) Decode(data json.RawMessage, only []string) (any, error) {
	c, err := v.t.Decode(data, only)
	if c == nil {
		return nil, err
	}
	return c, nil
}

// Snapshot implements [core.Values].
func (v schemaValues) Snapshot(base any, full bool) (json.RawMessage, error) {
	return v.t.Snapshot(schemaState(base), full)
}

// Restore implements [core.Values].
func (v schemaValues) Restore(base any, data json.RawMessage) (any, error) {
	var onto *mapstate.State
	if base != nil {
		onto = schemaState(base)
	}
	s, err := v.t.Restore(onto, data)
	if err != nil {
		return nil, err
	}
	return &SchemaState{s}, nil
}

// Update writes input from outside.
func (v schemaValues) Update(s *SchemaState, data []byte) error {
	if s.s.Type() == nil { // the zero SchemaState
		zero := v.t.New()
		fresh := v.t.Fork(&zero)
		if err := v.t.Update(&fresh, data); err != nil {
			return err
		}
		s.s = fresh
		return nil
	}
	return v.t.Update(&s.s, data)
}

// Hash hashes the fields.
func (v schemaValues) Hash(s *SchemaState) (map[string]uint64, error) { return v.t.Hash(&s.s) }

// Write writes changes of a subgraph's state.
func (v schemaValues) Write(dst *SchemaState, changes any, _ bool) error {
	c, _ := changes.(*mapstate.Changes)
	return v.t.Pass(&dst.s, c)
}

// warning returns the same values for one run, whose warnings go to emit too.
func (v schemaValues) warning(emit func(Warning)) core.Values {
	all := v.warn
	v.warn = func(w Warning) {
		all(w)
		emit(w)
	}
	return v
}
