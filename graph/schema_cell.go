package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph/internal/anyjson"
)

// cell is a field of a schema graph's state: a merging field over a value of any
// type, with the reducer that is declared for it. What its value refers to is shared
// and never altered, except that lists grow as a [List] does.
type cell struct {
	d     *declared
	v     any
	has   bool          // v is the value
	own   bool          // v is a map that this fold made
	moved uint32        // counts progress, where the value has no hash
	used  *atomic.Int64 // of a list: see vec
	w     *pending      // what a task wrote; nil: nothing
}

// pending is what a task has written to a cell, and what it reads there: what a
// reducer makes of its writes is provisional.
type pending struct {
	cellChange
	view any
	err  error
	seen bool // view and err are those of all writes
}

// cellChange is the change of a cell. A reducer that is a function gets each update
// by itself; for all others, several are one.
type cellChange struct {
	d       *declared
	node    string // that wrote; empty when not known
	over    bool   // v replaces the value, whatever the reducer
	v       any    // that replaces the value or, of no function, the update
	updates []any  // of a function, after that
}

// put records a write. The value is one that the field accepts, and its own.
func (s *cell) put(node string, over bool, v any) {
	d := s.d
	over = over && d.reducer.kind > overrides
	if s.w == nil || over || d.reducer.kind <= overrides { // what it replaces is not worth keeping
		s.w = &pending{cellChange: cellChange{d: d, node: node, over: over}}
		if over || d.reducer.kind != reduces {
			s.w.v = v
			return
		}
	}
	w := s.w
	w.seen = false
	switch d.reducer.kind {
	case appends:
		w.v = appendLists(w.v, v)
	case merges:
		w.v, _ = mergeMaps(d.Type, w.v, v, false)
	case sums:
		w.v = d.add(w.v, v)
	case reduces:
		w.updates = append(w.updates, v)
	}
}

// current returns the value with the task's writes, shared; ok is false when it is
// absent. With an error it is the value without them.
func (s *cell) current() (v any, ok bool, err error) {
	w := s.w
	if w == nil {
		return s.v, s.has, nil
	}
	if !w.seen {
		w.view, w.err = s.folded(&w.cellChange)
		w.seen = true
	}
	if w.err != nil {
		return s.v, s.has, w.err
	}
	return w.view, true, nil
}

// value is current with the default where the value is absent.
func (s *cell) value() (v any, ok bool, err error) {
	if v, ok, err = s.current(); !ok {
		v, ok = s.d.fallback, s.d.fallen
	}
	if s.d.Untracked {
		v = clipped(v) // users get it as it is
	}
	return v, ok, err
}

func (s *cell) folded(c *cellChange) (v any, err error) {
	defer recovered(&err)
	return s.d.fold(s.v, s.has, c)
}

// fold returns what a change makes of a value.
func (d *declared) fold(v any, has bool, c *cellChange) (any, error) {
	if !has {
		v = d.fallback
	}
	switch kind := d.reducer.kind; {
	case kind == reduces:
		if c.over {
			v = c.v
		}
		for _, u := range c.updates {
			v = d.reducer.fn(clipped(v), u)
			if v, _, _ = assign(d.Type, v); notFinite(v) {
				return nil, fmt.Errorf("%w: %v", errNotFinite, v)
			}
		}
		return v, nil
	case c.over || kind <= overrides || v == nil:
	case kind == appends:
		return appendLists(clipped(v), c.v), nil
	case kind == merges:
		v, _ = mergeMaps(d.Type, v, c.v, false)
		return v, nil
	case kind == sums:
		if v = d.add(v, c.v); notFinite(v) {
			return nil, fmt.Errorf("%w: %v", errNotFinite, v)
		}
		return v, nil
	}
	return c.v, nil
}

// IsZero reports whether there is no value.
func (s cell) IsZero() bool { return !s.has && s.w == nil }

// MarshalJSON returns the JSON of the value.
func (s cell) MarshalJSON() ([]byte, error) {
	if s.d == nil {
		return nil, errors.New("graph: a field of no schema")
	}
	v, _, err := s.value()
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// MarshalSnapshot implements [field.Snapshotting].
func (s *cell) MarshalSnapshot() ([]byte, error) {
	v, _, err := s.current()
	if err != nil {
		return nil, err
	}
	return s.d.types.Encode(s.d.Type, v)
}

// UnmarshalSnapshot implements [field.Snapshotting].
func (s *cell) UnmarshalSnapshot(data []byte) error {
	v, err := s.d.decode(data)
	if err == nil {
		*s = cell{d: s.d, v: v, has: true}
	}
	return err
}

// decode reads a value of the field's type, which may have been stored before the
// field was declared.
func (d *declared) decode(data []byte) (any, error) {
	rest, before := operations(data, restName)
	if !before {
		return d.types.Decode(d.Type, data)
	}
	data = rest[restName]
	if v, err := d.types.Decode(reflect.TypeFor[any](), data); err == nil {
		if value, _, ok := assign(d.Type, v); ok {
			return value, nil
		}
	}
	return d.types.Decode(d.Type, data)
}

// bound returns a copy in which nothing is written.
func (s *cell) bound() cell {
	c := *s
	c.own = false
	if s.w != nil {
		w := *s.w // others may copy s, too
		c.w = &w
		c.Bind()
	}
	return c
}

// Bind implements [field.Merger].
func (s *cell) Bind() {
	if s.w != nil {
		v, has, _ := s.current() // the task that wrote is told of the error
		*s = cell{d: s.d, v: v, has: has}
	}
}

// Change implements [field.Merger].
func (s *cell) Change() (field.Change, error) {
	if s.w == nil {
		return nil, nil
	}
	// What was written is cut off, so that the change sees nothing of a later write.
	c := s.w.cellChange
	c.v, c.updates = clipped(c.v), slices.Clip(c.updates)
	return &c, nil
}

// Write implements [field.Merger].
func (s *cell) Write(c field.Change) error {
	sc, err := changeAs[*cellChange](c)
	if err != nil {
		return err
	}
	if sc.over || s.d.reducer.kind != reduces {
		s.put(sc.node, sc.over, clipped(sc.v))
	}
	for _, u := range sc.updates {
		s.put(sc.node, false, u)
	}
	return nil
}

// Apply implements [field.Merger].
func (s *cell) Apply(c field.Change) error {
	sc, err := changeAs[*cellChange](c)
	if err != nil {
		return err
	}
	d := s.d
	switch {
	case sc.over:
	case d.reducer.kind == appends:
		s.extend(sc.v)
		return nil
	case d.reducer.kind == merges:
		base := s.v
		if !s.has {
			base = d.fallback
		}
		v, changed := mergeMaps(d.Type, base, sc.v, s.own)
		if changed {
			s.moved++
		}
		s.v, s.has, s.own = v, true, s.own || reflect.ValueOf(sc.v).Len() > 0
		return nil
	}
	v, err := d.fold(s.v, s.has, sc)
	if err != nil {
		return err
	}
	if !d.hashable && (!s.has || d.Untracked || !reflect.DeepEqual(s.v, v)) {
		s.moved++
	}
	*s = cell{d: d, v: v, has: true, moved: s.moved}
	return nil
}

// extend appends to a list as a [List] grows.
func (s *cell) extend(more any) {
	base := s.v
	if !s.has {
		if base = s.d.fallback; base == nil {
			base = reflect.Zero(s.d.Type).Interface()
		}
		s.has = true
	}
	n := 0
	switch items := base.(type) {
	case []string:
		n = len(more.([]string))
		v := run[string]{items, s.used}
		v.append(more.([]string))
		s.v, s.used = v.items, v.used
	case []any:
		n = len(more.([]any))
		v := run[any]{items, s.used}
		v.append(more.([]any))
		s.v, s.used = v.items, v.used
	default:
		from, to := reflect.ValueOf(base), reflect.ValueOf(more)
		if n = to.Len(); n > 0 {
			was, is := from.Len(), from.Len()+n
			if s.used == nil || is > from.Cap() || !s.used.CompareAndSwap(int64(was), int64(is)) {
				grown := reflect.MakeSlice(s.d.Type, was, max(is, was+was/2, 4))
				reflect.Copy(grown, from)
				from, s.used = grown, new(atomic.Int64)
				s.used.Store(int64(is))
			}
			from = reflect.AppendSlice(from, to)
		}
		s.v = from.Interface()
	}
	if n > 0 {
		s.moved++
	}
}

// appendLists appends b to a as append does.
func appendLists(a, b any) any {
	switch a := a.(type) {
	case []string:
		return append(a, b.([]string)...)
	case []any:
		return append(a, b.([]any)...)
	}
	return reflect.AppendSlice(reflect.ValueOf(a), reflect.ValueOf(b)).Interface()
}

// mergeMaps returns base with the entries of more, if there are any in a copy unless
// base is owned.
func mergeMaps(t reflect.Type, base, more any, own bool) (result any, changed bool) {
	from, with := reflect.Zero(t), reflect.ValueOf(more)
	if base != nil {
		from = reflect.ValueOf(base)
	}
	if with.Len() == 0 {
		return from.Interface(), false
	}
	m := from
	if !own {
		m = reflect.MakeMapWithSize(t, from.Len()+with.Len())
		for it := from.MapRange(); it.Next(); {
			m.SetMapIndex(it.Key(), it.Value())
		}
	}
	for it := with.MapRange(); it.Next(); {
		k, v := it.Key(), it.Value()
		if !changed {
			old := m.MapIndex(k)
			changed = !old.IsValid() || !reflect.DeepEqual(old.Interface(), v.Interface())
		}
		m.SetMapIndex(k, v)
	}
	return m.Interface(), changed
}

// clipped makes appending to a slice copy it: its space may be another's.
func clipped(v any) any {
	switch s := v.(type) {
	case nil, string, int, float64, bool:
		return v
	case []string:
		return slices.Clip(s)
	case []any:
		return slices.Clip(s)
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice || r.Len() == r.Cap() {
		return v
	}
	return r.Slice3(0, r.Len(), r.Len()).Interface()
}

// notFinite reports whether v is a number that cannot be stored.
func notFinite(v any) bool {
	var x float64
	switch v := v.(type) {
	case nil, string, int, bool, []string, []any, map[string]any:
		return false
	case float64:
		x = v
	default:
		r := reflect.ValueOf(v)
		if k := r.Kind(); k != reflect.Float32 && k != reflect.Float64 {
			return false
		}
		x = r.Float()
	}
	return math.IsNaN(x) || math.IsInf(x, 0)
}

// Hash implements [state.Hashing].
func (s *cell) Hash() (h uint64, ok bool) {
	switch {
	case !s.d.hashable:
		return uint64(s.moved), true
	case !s.has:
		return 0, true
	}
	return maphash.Comparable(hashSeed, s.v), true
}

// DecodeChange implements [field.Merger]. It takes an update, or {"$overwrite": the
// new value}. If the reducer is a function, there may be "$updates" beside it or
// alone, an array of updates.
func (s *cell) DecodeChange(data []byte) (c field.Change, err error) {
	d := s.d
	sc := &cellChange{d: d}
	ops, some := operations(data, opOverwrite, opUpdates)
	_, before := operations(data, restName)
	_, many := ops[opUpdates]
	function := d.reducer.kind == reduces
	switch {
	case before:
		sc.over = true
		sc.v, err = d.decode(data)
	case !some && function:
		ops = map[string]json.RawMessage{opUpdates: append(append(json.RawMessage{'['}, data...), ']')}
	case !some:
		sc.v, err = d.types.Decode(d.update, data)
	case many && !function:
		return nil, fmt.Errorf("there is no %s but for reducers that are functions", opUpdates)
	}
	if over, ok := ops[opOverwrite]; ok && some && err == nil {
		sc.over = true
		sc.v, err = d.types.Decode(d.Type, over)
	}
	if updates, ok := ops[opUpdates]; ok && function && err == nil {
		var list []json.RawMessage
		err = json.Unmarshal(updates, &list)
		sc.updates = make([]any, len(list))
		for i := 0; i < len(list) && err == nil; i++ {
			sc.updates[i], err = d.decodeUpdate(list[i])
		}
	}
	sc.over = sc.over && d.reducer.kind > overrides
	return sc, err
}

// decodeUpdate reads an update of a function, that takes any, if it bears its type.
func (d *declared) decodeUpdate(data []byte) (any, error) {
	if d.update != nil {
		return d.types.Decode(d.update, data)
	}
	if anyjson.IsTagged(data) {
		return d.types.Decode(reflect.TypeFor[any](), data)
	}
	return d.types.Decode(d.Type, data)
}

func (d *declared) encodeUpdate(v any) ([]byte, error) {
	switch {
	case d.update != nil:
		return d.types.Encode(d.update, v)
	case v == nil || reflect.TypeOf(v) != d.Type:
		return d.types.Tagged(v)
	}
	return d.types.Encode(d.Type, v)
}

// MarshalJSON returns what DecodeChange reads.
func (c *cellChange) MarshalJSON() ([]byte, error) {
	d := c.d
	switch {
	case c.over:
	case d.reducer.kind != reduces:
		return d.types.Encode(d.update, c.v)
	case len(c.updates) == 1:
		return d.encodeUpdate(c.updates[0])
	}
	ops := map[string]any{}
	if c.over {
		data, err := d.types.Encode(d.Type, c.v)
		if err != nil {
			return nil, err
		}
		ops[opOverwrite] = json.RawMessage(data)
	}
	if len(c.updates) > 0 {
		updates := make([]json.RawMessage, len(c.updates))
		for i, u := range c.updates {
			var err error
			if updates[i], err = d.encodeUpdate(u); err != nil {
				return nil, err
			}
		}
		ops[opUpdates] = updates
	}
	return json.Marshal(ops)
}

// AppendJSON spares the engine from looking at the JSON once more.
func (c *cellChange) AppendJSON(b []byte) ([]byte, error) {
	data, err := c.MarshalJSON()
	return append(b, data...), err
}

// overwrites reports whether the change can't stand beside a different one.
func (c *cellChange) overwrites() bool { return c.over || c.d.reducer.kind == replaces }

func (c *cellChange) equals(other field.Change) bool {
	o := other.(*cellChange)
	return c.over == o.over && reflect.DeepEqual(c.v, o.v) && reflect.DeepEqual(c.updates, o.updates)
}

var errNoReducer = fmt.Errorf("%w; give the field a reducer, or let one task write it", errSet)

// Check implements [field.Checker].
func (s *cell) Check(cs []field.Change) (later, earlier int, err error) {
	if !s.d.strict { // the last one wins, with a warning
		return -1, -1, nil
	}
	later, earlier, err = checkOverwrites(cs)
	if err != nil && cs[later].(*cellChange).d.reducer.kind == replaces {
		err = errNoReducer
	}
	return later, earlier, err
}

// Infallible implements [field.Infallible]: functions can panic, floats overflow.
func (s *cell) Infallible() bool {
	switch k := s.d.Type.Kind(); s.d.reducer.kind {
	case reduces:
		return false
	case sums:
		return k != reflect.Float32 && k != reflect.Float64
	}
	return true
}

// Replaces implements [state.Replacing].
func (s *cell) Replaces() bool { return !s.d.rest && s.d.reducer.kind <= overrides }

// Resets implements [field.Growing].
func (s *cell) Resets(c field.Change) bool {
	sc, ok := c.(*cellChange)
	return ok && sc.over
}

// Unrecorded implements [field.Unrecorded].
func (s *cell) Unrecorded() {}

// SchemaOf implements [field.Schemer].
func (s *cell) SchemaOf() any {
	if zero := reflect.Zero(s.d.Type).Interface(); zero != nil {
		return zero
	}
	return reflect.New(s.d.Type).Interface()
}
