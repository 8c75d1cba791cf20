package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph/internal/anyjson"
	"github.com/superstep-dev/superstep/graph/internal/jsonobject"
	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/core"
)

// MapState is the state of a schema graph as its nodes see it, and an update of
// it: field name to value.
type MapState map[string]any

// Into writes m to a state as a node's result is written: through the reducers. The
// state must be the one that a node, an input or an edit was given. An error changes
// nothing, and makes the node or call fail that it is part of. As a method value it is
// what the calls of a [Graph] and a [Thread] take:
//
//	g.Invoke(ctx, graph.MapState{"topic": "cats"}.Into)
//	g.Thread("t-1").Edit(ctx, graph.MapState{"approved": true}.Into)
func (m MapState) Into(s *SchemaState) error {
	switch {
	case len(m) == 0:
		return nil
	case s.t == nil:
		return fmt.Errorf("graph: update of a SchemaState that belongs to no schema: make it with Schema.NewState")
	}
	ws, err := s.t.check(s.node, m)
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		return err
	}
	for _, w := range ws {
		s.own(w.at).put(s.node, w.over, w.value)
	}
	return nil
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
type SchemaState struct {
	t     *schemaType
	cells []*cell      // one for each field, shared with copies: nobody alters them
	owned []*cell      // those in their stead that are this state's own, in the same order
	few   [1]*cell     // where owned begins
	self  *SchemaState // its own address: in a copy, that is another's

	// Of a task's copy.
	node string // that writes
	err  error  // of the first write that failed
}

// copy makes s a copy of src in which nothing is written.
func (s *SchemaState) copy(src *SchemaState) {
	*s = SchemaState{t: src.t, cells: src.cells, self: s}
	for _, c := range src.owned {
		*s.own(c.d.at) = c.bound()
	}
	s.settle()
}

// settle makes the cells that are the state's own ones that copies share.
func (s *SchemaState) settle() {
	if len(s.owned) == 0 {
		return
	}
	s.cells = slices.Clone(s.cells)
	for _, c := range s.owned {
		c.own = false
		s.cells[c.d.at] = c
	}
	s.owned = nil
}

// cell returns a cell that is not altered.
func (s *SchemaState) cell(i int32) *cell {
	if k, ok := s.find(i); ok {
		return s.owned[k]
	}
	return s.cells[i]
}

// own returns a cell that is the state's own.
func (s *SchemaState) own(i int32) *cell {
	if s.self != s {
		node, err, src := s.node, s.err, *s
		s.copy(&src)
		s.node, s.err = node, err
	}
	k, ok := s.find(i)
	if ok {
		return s.owned[k]
	}
	c := new(cell)
	*c = *s.cells[i]
	if s.owned == nil {
		s.owned = s.few[:0]
	}
	s.owned = slices.Insert(s.owned, k, c)
	return c
}

// find returns where in owned a cell stands, or is to stand.
func (s *SchemaState) find(i int32) (k int, ok bool) {
	if len(s.owned) == 0 {
		return 0, false
	}
	return slices.BinarySearchFunc(s.owned, i, func(c *cell, i int32) int { return int(c.d.at - i) })
}

func (s *SchemaState) fail(name string, err error) {
	if s.err == nil {
		s.err = fieldErr(name, err)
	}
}

func fieldErr(name string, err error) error { return fmt.Errorf("field %q: %w", name, err) }

// read returns the value of a field, shared.
func (s *SchemaState) read(i int) (v any, ok bool) {
	v, ok, err := s.cell(int32(i)).value()
	if err != nil {
		s.fail(s.t.fields[i].name, err)
	}
	return v, ok
}

// rest returns the values of fields that aren't declared, shared.
func (s *SchemaState) rest() map[string]any {
	if s.t == nil || s.t.strict {
		return nil
	}
	v, _ := s.read(len(s.cells) - 1)
	m, _ := v.(map[string]any)
	return m
}

// Get returns a copy of a field's value, nil when the field has none. [SchemaState.Map]
// has those fields that have one.
func (s *SchemaState) Get(name string) any {
	v, _ := s.lookup(name)
	return v
}

// lookup returns a copy of a field's value, and whether it has one.
func (s *SchemaState) lookup(name string) (v any, ok bool) {
	if s.t == nil {
		return nil, false
	}
	if i, declared := s.t.index[name]; declared {
		return s.copyOf(int(i))
	}
	if v, ok = s.rest()[name]; !ok {
		return nil, false
	}
	v, _ = anyjson.Clone(v) // which was cloned before
	return v, true
}

func (s *SchemaState) copyOf(i int) (v any, ok bool) {
	if v, ok = s.read(i); ok && !s.t.fields[i].Untracked {
		v, _ = anyjson.Clone(v) // which was cloned before
	}
	return v, ok
}

// Map returns a copy of the whole state.
func (s *SchemaState) Map() MapState { return s.only(nil) }

// only returns copies of the values of the named fields, nil: of all.
func (s *SchemaState) only(names []string) MapState {
	if s.t == nil {
		return MapState{}
	}
	if names == nil {
		rest := s.rest()
		m := make(MapState, len(s.cells)+len(rest))
		for i, d := range s.t.fields {
			if d.rest {
				continue
			}
			if v, ok := s.copyOf(i); ok {
				m[d.name] = v
			}
		}
		for name := range rest {
			m[name], _ = s.lookup(name)
		}
		return m
	}
	m := make(MapState, len(names))
	for _, name := range names {
		if v, ok := s.lookup(name); ok {
			m[name] = v
		}
	}
	return m
}

// missing returns an error when a required field has no value.
func (s *SchemaState) missing(node string) error {
	for _, d := range s.t.required {
		if _, ok := s.read(int(d.at)); !ok {
			return &FieldError{Node: node, Field: d.name, Reason: "is required and has no value: set it in the input"}
		}
	}
	return nil
}

// MarshalJSON returns the state as a JSON object.
func (s SchemaState) MarshalJSON() ([]byte, error) {
	return json.Marshal(s.Map())
}

func (s SchemaState) String() string { return fmt.Sprint(map[string]any(s.Map())) }

// write is an update of one field.
type write struct {
	at    int32 // index of the field
	over  bool
	value any
}

type overwrite struct{ value any }

// check turns an update into writes, in the order of the fields. What isn't declared
// is the last one.
func (t *schemaType) check(node string, update MapState) ([]write, error) {
	ws := make([]write, 0, len(update))
	var rest map[string]any
	for name, v := range update {
		if i, ok := t.index[name]; ok {
			ws = append(ws, write{at: i, value: v})
			continue
		}
		if rest == nil {
			rest = map[string]any{}
		}
		rest[name] = v
	}
	if len(ws) > 1 {
		slices.SortFunc(ws, func(a, b write) int { return int(a.at - b.at) })
	}
	for k := range ws {
		w := &ws[k]
		d := t.fields[w.at]
		if o, ok := w.value.(overwrite); ok {
			w.over, w.value = true, o.value
		}
		v, want, got := d.accept(w.over, w.value)
		switch {
		case got != "":
			return nil, &FieldError{Node: node, Field: d.name, Want: want, Got: got}
		case notFinite(v):
			return nil, fieldErr(d.name, fmt.Errorf("%w: %v", errNotFinite, v))
		}
		if !d.Untracked {
			var err error
			if v, err = anyjson.Clone(v); err != nil {
				return nil, fieldErr(d.name, err)
			}
		}
		w.value = v
	}
	if rest == nil {
		return ws, nil
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		switch {
		case t.reserved[name]:
			return nil, &FieldError{Node: node, Field: name, Reason: "is reserved: nodes can't write it"}
		case !t.values.TakesRest(name):
			return nil, t.values.Unknown(name)
		}
		v := rest[name]
		if o, ok := v.(overwrite); ok {
			v = o.value
		}
		v, err := anyjson.Clone(anyjson.Normal(v))
		if err != nil {
			return nil, fieldErr(name, err)
		}
		rest[name] = v
	}
	return append(ws, write{at: int32(len(t.fields) - 1), value: rest}), nil
}

// overlay returns an update as a task's overlay.
func (t *schemaType) overlay(node string, update MapState) (json.RawMessage, error) {
	s := t.values.Fork(&t.zero).(*SchemaState)
	s.node = node
	if err := update.Into(s); err != nil {
		return nil, err
	}
	for _, c := range s.owned {
		if c.d.Untracked {
			return nil, fieldErr(c.d.name, errors.New("it is not stored, so it can't be sent"))
		}
	}
	c, err := t.values.Changes(&t.zero, s, nil)
	if err != nil {
		return nil, err
	}
	return t.values.Encode(c)
}

// payload encodes a map that is sent to a task: values of declared fields have
// their types, others any.
func (t *schemaType) payload(m MapState) (json.RawMessage, error) {
	var o jsonobject.Writer
	for _, name := range slices.Sorted(maps.Keys(m)) {
		typ, v := t.typeOf(name), m[name]
		if _, declared := t.index[name]; declared {
			var got string
			var ok bool
			if v, got, ok = assign(typ, v); !ok {
				return nil, &FieldError{Field: name, Want: typ.String(), Got: got}
			}
		}
		data, err := t.types.Encode(typ, v)
		if err != nil {
			return nil, fieldErr(name, err)
		}
		o.Member(name, data)
	}
	return o.Close(), nil
}

// readPayload reads what payload returned.
func (t *schemaType) readPayload(data json.RawMessage) (MapState, error) {
	m := MapState{}
	if data == nil {
		return m, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	for name, data := range raw {
		v, err := t.types.Decode(t.typeOf(name), data)
		if err != nil {
			return nil, fieldErr(name, err)
		}
		m[name] = v
	}
	return m, nil
}

func (t *schemaType) typeOf(name string) reflect.Type {
	if i, ok := t.index[name]; ok {
		return t.fields[i].Type
	}
	return reflect.TypeFor[any]()
}

// schemaValues is what a schema graph knows of its state: its fields are driven as
// those of a struct are. What it adds is what a schema lets pass with a warning.
type schemaValues struct {
	*state.Type
	t    *schemaType
	warn func(Warning)
}

var _ values = schemaValues{}

// mine returns a state, or if it is one of another schema, a copy with the fields
// that both have, and undeclared ones if they are allowed.
func (v schemaValues) mine(of any) *SchemaState {
	s := of.(*SchemaState)
	if s.t == v.t {
		return s
	}
	own := v.New().(*SchemaState)
	take := func(name string, value any) { // what doesn't fit is left out
		_ = MapState{name: Overwrite(value)}.Into(own)
	}
	for i, c := range s.cells {
		if value, ok, _ := s.cell(int32(i)).current(); ok && !c.d.rest {
			take(c.d.name, value)
		}
	}
	for name, value := range s.rest() {
		take(name, value)
	}
	return own
}

// Fork implements [core.Values]. It is what makes states of other schemas one of this
// schema: all others that the engine has were made here.
func (v schemaValues) Fork(base any) any { return v.Type.Fork(v.mine(base)) }

// Changes implements [core.Values].
func (v schemaValues) Changes(base, fork, reuse any) (any, error) {
	s := fork.(*SchemaState)
	switch {
	case s.err != nil:
		return nil, s.err
	case s.self != s || s.t != v.t:
		return nil, field.ErrReplaced
	}
	c, err := v.Type.Changes(base, fork, reuse)
	if err != nil || v.t.strict {
		return c, err
	}
	if w := s.cell(int32(len(s.cells) - 1)).w; w != nil {
		for _, name := range slices.Sorted(maps.Keys(w.v.(map[string]any))) {
			v.warn(Warning{Kind: UndeclaredField, Field: name, Node: s.node})
		}
	}
	return c, nil
}

// Fold implements [core.Values].
func (v schemaValues) Fold(base any, cs []any, when core.When) (any, uint64, error) {
	next, digest, err := v.Type.Fold(base, cs, when)
	if err == nil {
		next.(*SchemaState).settle()
	}
	if err == nil && when == core.Committed && len(cs) > 1 && !v.t.strict {
		v.replaced(cs)
	}
	return next, digest, err
}

// replaced warns of what tasks of one superstep replaced of each other.
func (v schemaValues) replaced(cs []any) {
	type written struct {
		task  int
		node  string
		value any
	}
	last := map[string]written{}
	for i, c := range cs {
		set := func(name, node string, value any) {
			o, ok := last[name]
			if ok && reflect.DeepEqual(o.value, value) {
				return // the first of those that agree counts
			}
			if last[name] = (written{i, node, value}); ok && o.task != i {
				v.warn(Warning{Kind: ConcurrentWrites, Field: name, Node: node, With: o.node})
			}
		}
		v.Merged(c, func(fc field.Change) {
			c := fc.(*cellChange)
			switch {
			case c.d.rest:
				values := c.v.(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(values)) {
					set(name, c.node, values[name])
				}
			case c.overwrites():
				set(c.d.name, c.node, c.v)
			}
		})
	}
}

// Decode implements [core.Values].
func (v schemaValues) Decode(data json.RawMessage, only []string) (any, error) {
	data, err := v.declare(data)
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	return v.Type.Decode(data, only)
}

// DecodeAll implements [core.Values].
func (v schemaValues) DecodeAll(data []json.RawMessage) ([]any, error) {
	declared := make([]json.RawMessage, len(data))
	for i, d := range data {
		var err error
		if declared[i], err = v.declare(d); err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
	}
	return v.Type.DecodeAll(declared)
}

// Restore implements [core.Values].
func (v schemaValues) Restore(base any, data json.RawMessage) (any, error) {
	data, err := v.declare(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	state, err := v.Type.Restore(base, data)
	if err == nil {
		state.(*SchemaState).settle()
	}
	return state, err
}

// declare gives what was recorded of a field before it was declared the place of the
// field.
func (v schemaValues) declare(data json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(data, []byte(`"`+restName+`"`)) {
		return data, nil
	}
	var raw, rest map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	if raw[restName] == nil || json.Unmarshal(raw[restName], &rest) != nil {
		return data, nil
	}
	for name, value := range rest {
		now := name
		if i := slices.IndexFunc(v.t.renamed, func(r [2]string) bool { return r[0] == name }); i >= 0 {
			now = v.t.renamed[i][1]
		} else if _, declared := v.t.index[name]; !declared {
			continue
		}
		delete(rest, name)
		if _, ok := raw[now]; !ok {
			raw[now], _ = json.Marshal(map[string]json.RawMessage{restName: value}) // which was JSON before
		}
	}
	raw[restName], _ = json.Marshal(rest)
	return json.Marshal(raw)
}

// Update writes input from outside.
func (v schemaValues) Update(state any, data []byte) error {
	s := state.(*SchemaState)
	if s.t == nil { // the zero SchemaState
		s.copy(&v.t.zero)
	}
	if s.t != v.t {
		return errors.New("graph: the SchemaState is of another schema")
	}
	return v.Type.Update(s, data)
}

// Write writes changes of a subgraph's state to dst, a task's copy whose fields may
// differ. Fields that dst doesn't declare and the subgraph does are the subgraph's
// own and not written.
func (v schemaValues) Write(to, changes any, _ bool) (err error) {
	dst := to.(*SchemaState)
	v.Merged(changes, func(fc field.Change) {
		c := fc.(*cellChange)
		_, both := dst.t.index[c.d.name]
		switch {
		case err != nil || !both && !c.d.rest:
		case c.d.rest:
			err = MapState(c.v.(map[string]any)).Into(dst)
		case c.over:
			err = MapState{c.d.name: Overwrite(c.v)}.Into(dst)
		case c.d.reducer.kind != reduces:
			err = MapState{c.d.name: c.v}.Into(dst)
		}
		for _, u := range c.updates {
			if err == nil && both {
				err = MapState{c.d.name: u}.Into(dst)
			}
		}
	})
	return err
}

// warning returns the same values for runs whose warnings are told to tell.
func (v schemaValues) warning(tell func(Warning)) schemaValues {
	v.warn = tell
	return v
}
