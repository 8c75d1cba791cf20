package graph

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/benbjohnson/immutable"

	"github.com/superstep-dev/superstep/field"

	"github.com/superstep-dev/superstep/graph/internal/jsonobject"
)

// Map is a state field that maps keys to values. What the tasks of one
// superstep write is merged by key. Two tasks that put different values for one
// key, or of which one puts and the other deletes it, are an error; equal values
// are fine. Use [MergeMap] for a map where a rule merges the values of one key.
// An overwrite replaces what stands before it in plan order; two different
// overwrites in one superstep are an error. For a put of the value that a key has
// see [Map.Put].
//
// A step that writes k keys costs O(k log n).
//
// Values are frozen once put: memory that they refer to may not be altered any
// more, neither by who put them nor by who reads them. Values of a type with a
// method Clone() V are exempt: they are cloned when put and whenever they are
// handed out.
//
// In JSON a Map is an object. Keys that are not strings are written as text:
// with MarshalText where K has it, else as Go writes the number.
//
// The zero Map is empty and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type Map[K cmp.Ordered, V any] struct {
	stamp stamp
	base  *immutable.SortedMap[K, V] // nil: empty
	pend  map[K]optional[V]          // written since Bind; what is not set is deleted
	grown int                        // by how many keys pend makes base longer
	over  bool                       // pend replaces base
}

// entry is one of a map's, or says what is done with a key.
type entry[K cmp.Ordered, V any] struct {
	key   K
	value V
	does  deed
}

// deed is what is done with a key of a map.
type deed uint8

const (
	puts  deed = iota
	keeps      // puts, if the key isn't there: it had the value when it was put
	deletes
)

// Put sets the value of key. When that is the value it has, the put only keeps
// the key: a value that another task of the superstep gives it wins, whatever
// their order, and after an overwrite without the key it puts it back. Beside a
// Delete of the key by another task it is an error, like any put.
func (m *Map[K, V]) Put(key K, value V) {
	m.put(key, cloned(value))
}

func (m *Map[K, V]) put(key K, value V) {
	m.own()
	if _, has := m.lookup(key); !has {
		m.grown++
	}
	m.pend[key] = optional[V]{value, true}
}

// Delete removes key, if there.
func (m *Map[K, V]) Delete(key K) {
	m.own()
	if _, has := m.lookup(key); has {
		m.grown--
	}
	if m.over {
		delete(m.pend, key)
	} else {
		m.pend[key] = optional[V]{}
	}
}

// Overwrite replaces the whole map by a copy of entries.
func (m *Map[K, V]) Overwrite(entries map[K]V) {
	m.stamp.own()
	m.pend = make(map[K]optional[V], len(entries))
	m.over, m.grown = true, len(entries)
	clone := cloner[V]()
	for k, v := range entries {
		if clone != nil {
			v = clone(v)
		}
		m.pend[k] = optional[V]{v, true}
	}
}

// Get returns the value of key and whether there is one.
func (m *Map[K, V]) Get(key K) (V, bool) {
	v, has := m.lookup(key)
	if has {
		v = cloned(v)
	}
	return v, has
}

// Len returns the number of keys.
func (m *Map[K, V]) Len() int {
	if b := m.committed(); b != nil {
		return b.Len() + m.grown
	}
	return m.grown
}

// All returns an iterator over the entries in the order of their keys. It shows
// the map as it was when the iteration began.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		clone := cloner[V]()
		m.each(func(k K, v V) bool {
			if clone != nil {
				v = clone(v)
			}
			return yield(k, v)
		})
	}
}

// own makes pend the receiver's own and not nil. It reports whether what is pending was
// the receiver's own.
func (m *Map[K, V]) own() bool {
	own := m.stamp.own()
	if m.pend == nil {
		m.pend = map[K]optional[V]{}
	} else if !own {
		m.pend = maps.Clone(m.pend)
	}
	return own
}

func (m *Map[K, V]) committed() *immutable.SortedMap[K, V] {
	if m.over {
		return nil
	}
	return m.base
}

func (m *Map[K, V]) lookup(key K) (V, bool) {
	if s, ok := m.pend[key]; ok {
		return s.value, s.set
	}
	if b := m.committed(); b != nil {
		return b.Get(key)
	}
	var zero V
	return zero, false
}

// each calls f for each entry, not cloned, in key order.
func (m *Map[K, V]) each(f func(K, V) bool) {
	now := *m
	if now.settle(); now.base == nil {
		return
	}
	for it := now.base.Iterator(); !it.Done(); {
		if k, v, _ := it.Next(); !f(k, v) {
			return
		}
	}
}

// entries returns the entries, not cloned, in key order.
func (m *Map[K, V]) entries() []entry[K, V] {
	es := make([]entry[K, V], 0, m.Len())
	m.each(func(k K, v V) bool {
		es = append(es, entry[K, V]{key: k, value: v})
		return true
	})
	return es
}

// settle makes what is pending part of base.
func (m *Map[K, V]) settle() {
	if m.over || m.base == nil && len(m.pend) > 0 {
		b := immutable.NewSortedMapBuilder[K, V](comparer[K]{})
		for k, s := range m.pend {
			if s.set {
				b.Set(k, s.value)
			}
		}
		m.base = b.Map()
	} else {
		for k, s := range m.pend {
			if s.set {
				m.base = m.base.Set(k, s.value)
			} else {
				m.base = m.base.Delete(k)
			}
		}
	}
	m.pend, m.grown, m.over = nil, 0, false
}

type comparer[K cmp.Ordered] struct{}

func (comparer[K]) Compare(a, b K) int { return cmp.Compare(a, b) }

// sortedMap returns a map of what is put.
func sortedMap[K cmp.Ordered, V any](es []entry[K, V]) *immutable.SortedMap[K, V] {
	b := immutable.NewSortedMapBuilder[K, V](comparer[K]{})
	for _, e := range es {
		if e.does != deletes {
			b.Set(e.key, e.value)
		}
	}
	return b.Map()
}

// IsZero reports whether the map is empty; encoding/json's omitzero uses it.
func (m Map[K, V]) IsZero() bool { return m.Len() == 0 }

// String formats the map as fmt.Sprint does a map.
func (m Map[K, V]) String() string {
	return fmt.Sprint(maps.Collect(func(yield func(K, V) bool) { m.each(yield) }))
}

// MarshalJSON returns an object, in the order of the keys.
func (m Map[K, V]) MarshalJSON() ([]byte, error) {
	var o jsonobject.Writer
	err := writeEntries(&o, m.entries(), nil)
	return o.Close(), err
}

// UnmarshalJSON replaces the map.
func (m *Map[K, V]) UnmarshalJSON(data []byte) error {
	es, err := unmarshalEntries[K, V](data, puts)
	if err == nil {
		*m = Map[K, V]{base: sortedMap(es)}
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (m *Map[K, V]) Merger() field.Merger { return (*mapMerger[K, V])(m) }

// mapMerger is a Map as the engine sees it.
type mapMerger[K cmp.Ordered, V any] Map[K, V]

// Bind implements [field.Merger].
func (f *mapMerger[K, V]) Bind() {
	m := (*Map[K, V])(f)
	if m.pend != nil || m.over {
		m.settle()
	}
	m.stamp.bind()
}

// Change implements [field.Merger]. Putting the value that a key has is recorded,
// since another task of the superstep may overwrite the map, and so is deleting
// a key that isn't there: another may put it.
func (f *mapMerger[K, V]) Change() (field.Change, error) {
	m := (*Map[K, V])(f)
	c, err := m.change()
	if c == nil {
		return nil, err
	}
	return c, nil
}

func (m *Map[K, V]) change() (*mapChange[K, V], error) {
	if err := m.stamp.check(); err != nil {
		return nil, err
	}
	if len(m.pend) == 0 && !m.over {
		return nil, nil
	}
	// The change gets memory of its own: the task may still write to pend.
	c := &mapChange[K, V]{over: m.over, ops: make([]entry[K, V], 0, len(m.pend))}
	for k, s := range m.pend {
		if err := checkEntry(k, s.value); err != nil {
			return nil, err
		}
		op := entry[K, V]{key: k, value: s.value}
		if !s.set {
			op.does = deletes
		} else if b := m.committed(); b != nil {
			if v, has := b.Get(k); has && equal(v, s.value) {
				op.does = keeps
			}
		}
		c.ops = append(c.ops, op)
	}
	slices.SortFunc(c.ops, entry[K, V].compare)
	return c, nil
}

var errNaNKey = errors.New("a key is NaN")

// Write implements [field.Merger].
func (f *mapMerger[K, V]) Write(c field.Change) error {
	m := (*Map[K, V])(f)
	mc, err := mapChangeAs[K, V](c)
	if err != nil {
		return err
	}
	if mc.over {
		m.Overwrite(nil)
	}
	for _, op := range mc.ops {
		switch v, has := m.lookup(op.key); {
		case op.does == deletes:
			m.Delete(op.key)
		case op.does == puts || !has || equal(v, op.value):
			m.Put(op.key, op.value)
		}
	}
	return nil
}

// Apply implements [field.Merger].
func (f *mapMerger[K, V]) Apply(c field.Change) error {
	m := (*Map[K, V])(f)
	mc, err := mapChangeAs[K, V](c)
	if err != nil {
		return err
	}
	m.settle()
	if mc.over || m.base == nil {
		m.base = sortedMap(mc.ops)
		return nil
	}
	for _, op := range mc.ops {
		if op.does == deletes {
			m.base = m.base.Delete(op.key)
			continue
		}
		if op.does == keeps {
			if _, has := m.base.Get(op.key); has {
				continue
			}
		}
		m.base = m.base.Set(op.key, op.value)
	}
	return nil
}

// DecodeChange implements [field.Merger]. It takes an object with the values to
// put. "$delete" gives the keys to delete, "$overwrite" an object that replaces
// the map first, "$keep" an object with what to put for keys that are then not
// there. Other keys that begin with "$" are written with one more "$".
func (*mapMerger[K, V]) DecodeChange(data []byte) (field.Change, error) {
	c := new(mapChange[K, V])
	if err := c.decode(data, opKeep); err != nil {
		return nil, err
	}
	c.settle()
	return c, nil
}

// Check implements [field.Checker].
func (*mapMerger[K, V]) Check(cs []field.Change) (later, earlier int, err error) {
	// What a key gets: the change that first put or deleted it, and the first of
	// these and of those that kept it.
	type write struct {
		entry[K, V]
		by, first int
	}
	written := make(map[K]write, len(cs))
	for i, c := range cs {
		mc, err := mapChangeAs[K, V](c)
		if err != nil {
			return i, 0, err
		}
		if mc.over {
			continue // nothing else stands for a key then
		}
		for _, op := range mc.ops {
			switch w, ok := written[op.key]; {
			case !ok:
				written[op.key] = write{op, i, i}
			case (w.does == deletes) != (op.does == deletes):
				return i, w.first, fmt.Errorf("one task of a superstep writes key %v and another removes it", op.key)
			case op.does == keeps:
			case w.does == keeps:
				written[op.key] = write{op, i, w.first}
			case op.does == puts && !equal(w.value, op.value):
				return i, w.by, fmt.Errorf("two tasks of one superstep put different values for key %v", op.key)
			}
		}
	}
	return checkOverwrites(cs)
}

// Keeps implements [field.Keeping].
func (f *mapMerger[K, V]) Keeps(c field.Change) bool {
	m := (*Map[K, V])(f)
	mc, err := mapChangeAs[K, V](c)
	if err != nil || mc.over {
		return err == nil && equalEntries(mc.ops, (&Map[K, V]{base: m.base}).entries())
	}
	return !slices.ContainsFunc(mc.ops, func(op entry[K, V]) bool {
		_, has := m.lookup(op.key)
		return op.does == puts || has == (op.does == deletes)
	})
}

// Infallible implements [field.Infallible].
func (*mapMerger[K, V]) Infallible() bool { return true }

// SchemaOf implements [field.Schemer].
func (*mapMerger[K, V]) SchemaOf() any { return map[string]V(nil) }

// mapChange first empties the map, if over is set, and then does what ops say. Those of
// a Map and a Set are in the order of [entry.compare] and no key is in two of them; if
// over is set, they put. Those of a MergeMap are in the order of their keys.
type mapChange[K cmp.Ordered, V any] struct {
	over bool
	ops  []entry[K, V]
}

// compare orders what is done by what it does, and then by the keys.
func (e entry[K, V]) compare(o entry[K, V]) int {
	return cmp.Or(cmp.Compare(o.does, e.does), cmp.Compare(e.key, o.key))
}

// plain returns the change of a map as that, which that of a set is, too.
func (c *mapChange[K, V]) plain() *mapChange[K, V] { return c }

func mapChangeAs[K cmp.Ordered, V any](c field.Change) (*mapChange[K, V], error) {
	if mc, ok := c.(interface{ plain() *mapChange[K, V] }); ok {
		return mc.plain(), nil
	}
	return changeAs[*mapChange[K, V]](c)
}

func (c *mapChange[K, V]) overwrites() bool { return c.over }

func (c *mapChange[K, V]) equals(o field.Change) bool {
	oc, err := mapChangeAs[K, V](o)
	return err == nil && equalEntries(c.ops, oc.ops)
}

func equalEntries[K cmp.Ordered, V any](a, b []entry[K, V]) bool {
	return slices.EqualFunc(a, b, func(a, b entry[K, V]) bool {
		return a.key == b.key && a.does == b.does && equal(a.value, b.value)
	})
}

// settle leaves one operation of each key, the last one; to keep it is none where there
// is another.
func (c *mapChange[K, V]) settle() {
	last := make(map[K]entry[K, V], len(c.ops))
	for _, op := range c.ops {
		if was, ok := last[op.key]; op.does == keeps && ok && (!c.over || was.does != deletes) {
			continue
		}
		if c.over && op.does == keeps {
			op.does = puts
		}
		last[op.key] = op
	}
	c.ops = c.ops[:0]
	for _, op := range last {
		if !c.over || op.does != deletes {
			c.ops = append(c.ops, op)
		}
	}
	slices.SortFunc(c.ops, entry[K, V].compare)
}

// MarshalJSON returns what decode reads.
func (c *mapChange[K, V]) MarshalJSON() ([]byte, error) {
	for _, op := range c.ops {
		if err := encodable(op.value); err != nil {
			return nil, fmt.Errorf("key %v: %w", op.key, err)
		}
	}
	var o jsonobject.Writer
	ops := c.ops
	if c.over {
		n := 0
		if len(ops) > 0 && ops[0].does == puts {
			n = ascending(ops)
		}
		if err := writeMember(&o, opOverwrite, ops[:n]); err != nil {
			return nil, err
		}
		ops = ops[n:]
	}
	var parts [][]byte
	for len(ops) > 0 {
		n := ascending(ops)
		part, err := marshalPart(ops[:n])
		if err != nil {
			return nil, err
		}
		parts, ops = append(parts, part), ops[n:]
	}
	switch {
	case len(parts) == 1 && !c.over:
		return parts[0], nil
	case len(parts) > 0:
		o.Member(opUpdates, append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']'))
	}
	return o.Close(), nil
}

// ascending returns how many of ops one object can hold: they are read in their order
// again, and no key is in two of them.
func ascending[K cmp.Ordered, V any](ops []entry[K, V]) int {
	n := 1
	for n < len(ops) && ops[n-1].key != ops[n].key && ops[n-1].compare(ops[n]) < 0 {
		n++
	}
	return n
}

func marshalPart[K cmp.Ordered, V any](ops []entry[K, V]) ([]byte, error) {
	var o jsonobject.Writer
	of := func(does deed) (part []entry[K, V]) {
		n := 0
		for n < len(ops) && ops[n].does == does {
			n++
		}
		part, ops = ops[:n], ops[n:]
		return part
	}
	if gone := of(deletes); len(gone) > 0 {
		keys, err := marshalKeys(gone)
		if err != nil {
			return nil, err
		}
		o.Member(opDelete, keys)
	}
	if kept := of(keeps); len(kept) > 0 {
		if err := writeMember(&o, opKeep, kept); err != nil {
			return nil, err
		}
	}
	err := writeEntries(&o, of(puts), escapeKey)
	return o.Close(), err
}

// writeMember writes an object of entries as a member.
func writeMember[K cmp.Ordered, V any](o *jsonobject.Writer, name string, es []entry[K, V]) error {
	var in jsonobject.Writer
	err := writeEntries(&in, es, nil)
	o.Member(name, in.Close())
	return err
}

// writeEntries writes values by their keys, as escape returns these if it isn't nil.
func writeEntries[K cmp.Ordered, V any](o *jsonobject.Writer, es []entry[K, V], escape func(string) string) error {
	for _, e := range es {
		key, err := formatKey(e.key)
		if err != nil {
			return err
		}
		data, err := json.Marshal(e.value)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if escape != nil {
			key = escape(key)
		}
		o.Member(key, data)
	}
	return nil
}

// unmarshalEntries reads what writeEntries wrote, in the order of the keys.
func unmarshalEntries[K cmp.Ordered, V any](data []byte, does deed) ([]entry[K, V], error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	return entriesOf[K, V](raw, does, func(name string) (string, error) { return name, nil })
}

func entriesOf[K cmp.Ordered, V any](raw map[string]json.RawMessage, does deed, unescape func(string) (string, error)) ([]entry[K, V], error) {
	es := make([]entry[K, V], 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		key, err := unescape(name)
		if err != nil {
			return nil, err
		}
		e := entry[K, V]{does: does}
		if e.key, err = parseKey[K](key); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw[name], &e.value); err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		es = append(es, e)
	}
	slices.SortFunc(es, entry[K, V].compare)
	return es, nil
}

// marshalKeys writes keys as an array of their texts.
func marshalKeys[K cmp.Ordered, V any](es []entry[K, V]) ([]byte, error) {
	texts := make([]string, len(es))
	for i, e := range es {
		var err error
		if texts[i], err = formatKey(e.key); err != nil {
			return nil, err
		}
	}
	return json.Marshal(texts)
}

// unmarshalKeys reads what marshalKeys wrote, and numbers too, as keys to delete.
func unmarshalKeys[K cmp.Ordered, V any](data []byte) ([]entry[K, V], error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, err
	}
	es := make([]entry[K, V], len(raws))
	for i, raw := range raws {
		text := string(raw)
		if text[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, err
			}
		}
		var err error
		if es[i].key, err = parseKey[K](text); err != nil {
			return nil, err
		}
		es[i].does = deletes
	}
	return es, nil
}

// decode adds what an update in JSON does. It may have one operation more, "$keep" or
// "$updates". Inside "$updates" there is none, and no "$overwrite".
func (c *mapChange[K, V]) decode(data []byte, more string) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	take := func(op string) (data json.RawMessage, ok bool) {
		data, ok = raw[op]
		delete(raw, op)
		return data, ok
	}
	add := func(ops []entry[K, V], err error) error {
		c.ops = append(c.ops, ops...)
		return err
	}
	var updates, kept json.RawMessage
	switch more {
	case opKeep:
		kept, _ = take(opKeep)
	case opUpdates:
		updates, _ = take(opUpdates)
	default:
		for _, op := range []string{opOverwrite, opUpdates} {
			if _, ok := raw[op]; ok {
				return fmt.Errorf("%q inside %q", op, opUpdates)
			}
		}
	}
	if over, ok := take(opOverwrite); ok {
		c.over = true
		if err := add(unmarshalEntries[K, V](over, puts)); err != nil {
			return err
		}
	}
	if gone, ok := take(opDelete); ok {
		if err := add(unmarshalKeys[K, V](gone)); err != nil {
			return err
		}
	}
	if err := add(entriesOf[K, V](raw, puts, unescapeKey)); err != nil {
		return err
	}
	if kept != nil {
		return add(unmarshalEntries[K, V](kept, keeps))
	}
	if updates == nil {
		return nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(updates, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		if err := c.decode(part, ""); err != nil {
			return err
		}
	}
	return nil
}

// escapeKey marks a key of a map that would read like an operation.
func escapeKey(key string) string {
	if strings.HasPrefix(key, "$") {
		return "$" + key
	}
	return key
}

func unescapeKey(key string) (string, error) {
	if !strings.HasPrefix(key, "$") {
		return key, nil
	}
	if !strings.HasPrefix(key, "$$") {
		return "", fmt.Errorf("unknown operation %q; write a key of that name as %q", key, "$"+key)
	}
	return key[1:], nil
}

// formatKey returns a key's text in JSON.
func formatKey[K cmp.Ordered](k K) (string, error) {
	v := reflect.ValueOf(k)
	switch {
	case v.Kind() == reflect.String:
		s := v.String()
		if !utf8.ValidString(s) {
			return "", fmt.Errorf("key %q: %w", s, errNotUTF8)
		}
		return s, nil
	case isText[K]():
		text, err := any(k).(encoding.TextMarshaler).MarshalText()
		return string(text), err
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	}
	return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()), nil
}

// parseKey reads what formatKey wrote.
func parseKey[K cmp.Ordered](text string) (k K, err error) {
	v := reflect.ValueOf(&k).Elem()
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case isText[K]():
		err = any(&k).(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
	default:
		var f float64
		f, err = strconv.ParseFloat(text, v.Type().Bits())
		v.SetFloat(f)
	}
	if err == nil && k != k {
		err = errNaNKey
	}
	if err != nil {
		return k, fmt.Errorf("key %q: %w", text, err)
	}
	return k, nil
}

// isText reports whether K is written as text in both directions.
func isText[K any]() bool {
	var k K
	_, out := any(k).(encoding.TextMarshaler)
	_, in := any(&k).(encoding.TextUnmarshaler)
	return out && in
}

// MergeMap is a [Map] with a rule for keys that are written more than once: each
// key's value is like a [Reduced] field of its own. An update of a key that
// isn't there is stored as it is; any other is folded in with the reducer, in
// plan order, by whichever task. With [Latest] as R the last update wins.
//
// Only two different overwrites in one superstep are an error. As with Reduced,
// a thread's log holds the updates, and what a task reads of its own updates is
// provisional.
//
// The zero MergeMap is empty and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type MergeMap[K cmp.Ordered, V any, R Reducer[V]] struct {
	view Map[K, V]     // with what is pending folded in
	ops  []entry[K, V] // what is pending, after an overwrite if the view is overwritten; only ever appended to
}

// Add folds update into the value of key.
func (m *MergeMap[K, V, R]) Add(key K, update V) {
	m.do(entry[K, V]{key: key, value: cloned(update)})
}

// Delete removes key, if there.
func (m *MergeMap[K, V, R]) Delete(key K) {
	m.do(entry[K, V]{key: key, does: deletes})
}

func (m *MergeMap[K, V, R]) do(op entry[K, V]) {
	var is optional[V]
	if op.does != deletes {
		v, has := m.view.lookup(op.key)
		is = reduce[V, R](optional[V]{v, has}, op.value) // may panic: nothing is altered yet
	}
	if !m.view.own() {
		m.ops = m.ops[:len(m.ops):len(m.ops)] // so that append makes a copy
	}
	m.ops = append(m.ops, op)
	if is.set {
		m.view.put(op.key, is.value)
	} else {
		m.view.Delete(op.key)
	}
}

// Overwrite replaces the whole map by a copy of entries.
func (m *MergeMap[K, V, R]) Overwrite(entries map[K]V) {
	m.view.Overwrite(nil)
	m.ops = nil
	for k, v := range entries {
		m.Add(k, v)
	}
}

// Get returns the value of key and whether there is one.
func (m *MergeMap[K, V, R]) Get(key K) (V, bool) { return m.view.Get(key) }

// Len returns the number of keys.
func (m *MergeMap[K, V, R]) Len() int { return m.view.Len() }

// All returns an iterator over the entries in the order of their keys. It shows
// the map as it was when the iteration began.
func (m *MergeMap[K, V, R]) All() iter.Seq2[K, V] { return m.view.All() }

// IsZero reports whether the map is empty; encoding/json's omitzero uses it.
func (m MergeMap[K, V, R]) IsZero() bool { return m.view.IsZero() }

// String formats the map as fmt.Sprint does a map.
func (m MergeMap[K, V, R]) String() string { return m.view.String() }

// MarshalJSON returns an object, in the order of the keys.
func (m MergeMap[K, V, R]) MarshalJSON() ([]byte, error) { return m.view.MarshalJSON() }

// UnmarshalJSON replaces the map.
func (m *MergeMap[K, V, R]) UnmarshalJSON(data []byte) error {
	var read MergeMap[K, V, R]
	err := read.view.UnmarshalJSON(data)
	if err == nil {
		*m = read
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (m *MergeMap[K, V, R]) Merger() field.Merger { return (*mergeMapMerger[K, V, R])(m) }

// mergeMapMerger is a MergeMap as the engine sees it.
type mergeMapMerger[K cmp.Ordered, V any, R Reducer[V]] MergeMap[K, V, R]

// Bind implements [field.Merger].
func (f *mergeMapMerger[K, V, R]) Bind() {
	f.ops = nil
	(*mapMerger[K, V])(&f.view).Bind()
}

// Change implements [field.Merger].
func (f *mergeMapMerger[K, V, R]) Change() (field.Change, error) {
	if err := f.view.stamp.check(); err != nil {
		return nil, err
	}
	if !f.view.over && len(f.ops) == 0 {
		return nil, nil
	}
	for _, op := range f.ops {
		if err := checkEntry(op.key, op.value); err != nil {
			return nil, err
		}
	}
	return mergeChange(f.view.over, f.ops[:len(f.ops):len(f.ops)]), nil
}

// mergeChange returns the change of a MergeMap. In what order different keys were written
// makes no difference, so it is that of the keys.
func mergeChange[K cmp.Ordered, V any](over bool, ops []entry[K, V]) *mapChange[K, V] {
	byKey := func(a, b entry[K, V]) int { return cmp.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(ops, byKey) {
		ops = slices.Clone(ops)
		slices.SortStableFunc(ops, byKey)
	}
	return &mapChange[K, V]{over, ops}
}

func checkEntry[K cmp.Ordered, V any](k K, v V) error {
	if k != k {
		return errNaNKey
	}
	if err := finite(v); err != nil {
		return fmt.Errorf("key %v: %w", k, err)
	}
	return nil
}

// Write implements [field.Merger].
func (f *mergeMapMerger[K, V, R]) Write(c field.Change) (err error) {
	m := (*MergeMap[K, V, R])(f)
	mc, err := changeAs[*mapChange[K, V]](c)
	if err != nil {
		return err
	}
	defer recovered(&err)
	if mc.over {
		m.Overwrite(nil)
	}
	for _, op := range mc.ops {
		m.do(op)
	}
	return nil
}

// Apply implements [field.Merger]. A reducer that panics is an error and leaves
// the map as it was.
func (f *mergeMapMerger[K, V, R]) Apply(c field.Change) (err error) {
	mc, err := changeAs[*mapChange[K, V]](c)
	if err != nil {
		return err
	}
	defer recovered(&err)
	view := f.view
	view.settle()
	next := view.base
	if mc.over || next == nil {
		next = sortedMap[K, V](nil)
	}
	for _, op := range mc.ops {
		if op.does == deletes {
			next = next.Delete(op.key)
			continue
		}
		v, has := next.Get(op.key)
		is := reduce[V, R](optional[V]{v, has}, op.value)
		if err := checkEntry(op.key, is.value); err != nil {
			return err
		}
		next = next.Set(op.key, is.value)
	}
	*f = mergeMapMerger[K, V, R]{view: Map[K, V]{base: next}}
	return nil
}

// DecodeChange implements [field.Merger]. It takes an object with one update
// for each of its keys. "$overwrite" gives an object that replaces the map
// first, "$delete" the keys that are then deleted, "$updates" an array of
// objects of this same form (but for "$overwrite") that come last, one after
// another. Other keys that begin with "$" are written with one more "$".
func (*mergeMapMerger[K, V, R]) DecodeChange(data []byte) (field.Change, error) {
	var c mapChange[K, V]
	if err := c.decode(data, opUpdates); err != nil {
		return nil, err
	}
	return mergeChange(c.over, c.ops), nil
}

// Check implements [field.Checker]: only overwrites can conflict.
func (*mergeMapMerger[K, V, R]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkOverwrites(cs)
}

// SchemaOf implements [field.Schemer].
func (*mergeMapMerger[K, V, R]) SchemaOf() any { return map[string]V(nil) }

// Keeps implements [field.Keeping]. Updates are folded to find out where values are
// scalars; others are taken to change the map.
func (f *mergeMapMerger[K, V, R]) Keeps(c field.Change) bool {
	mc, ok := c.(*mapChange[K, V])
	if !ok || mc.over {
		return ok && equalEntries(mc.ops, f.view.entries())
	}
	if !scalar[V]() && slices.ContainsFunc(mc.ops, func(op entry[K, V]) bool { return op.does != deletes }) {
		return false
	}
	is := map[K]optional[V]{}
	for _, op := range mc.ops {
		v, seen := is[op.key]
		if !seen {
			v.value, v.set = f.view.lookup(op.key)
		}
		if op.does == deletes {
			v = optional[V]{}
		} else {
			v = reduce[V, R](v, op.value)
		}
		is[op.key] = v
	}
	for k, v := range is {
		if before, had := f.view.lookup(k); v.set != had || had && !equal(before, v.value) {
			return false
		}
	}
	return true
}
