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
	pend  map[K]slot[V]              // written since Bind
	grown int                        // by how many keys pend makes base longer
	over  bool                       // pend replaces base
}

// slot is what was written for a key.
type slot[V any] struct {
	value   V
	deleted bool
}

// pair is one entry of a map.
type pair[K cmp.Ordered, V any] struct {
	key   K
	value V
}

// Put sets the value of key. When that is the value it has, the put only keeps
// the key: a value that another task of the superstep gives it wins, whatever
// their order, and after an overwrite without the key it puts it back. Beside a
// Delete of the key by another task it is an error, like any put.
func (m *Map[K, V]) Put(key K, value V) {
	m.own()
	if _, has := m.lookup(key); !has {
		m.grown++
	}
	m.pend[key] = slot[V]{value: cloned(value)}
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
		m.pend[key] = slot[V]{deleted: true}
	}
}

// Overwrite replaces the whole map by a copy of entries.
func (m *Map[K, V]) Overwrite(entries map[K]V) {
	m.stamp.own()
	m.pend = make(map[K]slot[V], len(entries))
	m.over, m.grown = true, len(entries)
	clone := cloner[V]()
	for k, v := range entries {
		if clone != nil {
			v = clone(v)
		}
		m.pend[k] = slot[V]{value: v}
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

// own makes pend the receiver's own and not nil.
func (m *Map[K, V]) own() {
	if own := m.stamp.own(); m.pend == nil {
		m.pend = map[K]slot[V]{}
	} else if !own {
		m.pend = maps.Clone(m.pend)
	}
}

func (m *Map[K, V]) committed() *immutable.SortedMap[K, V] {
	if m.over {
		return nil
	}
	return m.base
}

func (m *Map[K, V]) lookup(key K) (V, bool) {
	if s, ok := m.pend[key]; ok {
		return s.value, !s.deleted
	}
	if b := m.committed(); b != nil {
		return b.Get(key)
	}
	var zero V
	return zero, false
}

// each calls f for each entry, not cloned, in key order.
func (m *Map[K, V]) each(f func(K, V) bool) {
	keys := slices.SortedFunc(maps.Keys(m.pend), cmp.Compare[K])
	pend := m.pend
	if len(keys) > 0 {
		pend = maps.Clone(pend) // f may write
	}
	next := func() bool { // emits the first of keys
		s := pend[keys[0]]
		ok := s.deleted || f(keys[0], s.value)
		keys = keys[1:]
		return ok
	}
	if b := m.committed(); b != nil {
		for it := b.Iterator(); !it.Done(); {
			k, v, _ := it.Next()
			for len(keys) > 0 && cmp.Less(keys[0], k) {
				if !next() {
					return
				}
			}
			if len(keys) > 0 && keys[0] == k {
				if !next() {
					return
				}
			} else if !f(k, v) {
				return
			}
		}
	}
	for len(keys) > 0 {
		if !next() {
			return
		}
	}
}

// pairs returns the entries, not cloned, in key order.
func (m *Map[K, V]) pairs() []pair[K, V] {
	ps := make([]pair[K, V], 0, m.Len())
	m.each(func(k K, v V) bool {
		ps = append(ps, pair[K, V]{k, v})
		return true
	})
	return ps
}

// settle makes what is pending part of base.
func (m *Map[K, V]) settle() {
	if len(m.pend) > 0 || m.over {
		m.base = sortedMap(m.pairs())
	}
	m.pend, m.grown, m.over = nil, 0, false
}

type comparer[K cmp.Ordered] struct{}

func (comparer[K]) Compare(a, b K) int { return cmp.Compare(a, b) }

func sortedMap[K cmp.Ordered, V any](ps []pair[K, V]) *immutable.SortedMap[K, V] {
	b := immutable.NewSortedMapBuilder[K, V](comparer[K]{})
	for _, p := range ps {
		b.Set(p.key, p.value)
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
	err := writePairs(&o, m.pairs(), false)
	return o.Close(), err
}

// UnmarshalJSON replaces the map.
func (m *Map[K, V]) UnmarshalJSON(data []byte) error {
	ps, err := unmarshalPairs[K, V](data)
	if err == nil {
		*m = Map[K, V]{base: sortedMap(ps)}
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
	c := &mapChange[K, V]{over: m.over, puts: make([]pair[K, V], 0, len(m.pend))}
	for k, s := range m.pend {
		if err := checkEntry(k, s.value); err != nil {
			return nil, err
		}
		if s.deleted {
			c.deletes = append(c.deletes, k)
			continue
		}
		if !m.over && m.base != nil {
			if v, has := m.base.Get(k); has && equal(v, s.value) {
				c.keeps = append(c.keeps, pair[K, V]{k, s.value})
				continue
			}
		}
		c.puts = append(c.puts, pair[K, V]{k, s.value})
	}
	c.sort()
	return c, nil
}

var errNaNKey = errors.New("a key is NaN")

// Write implements [field.Merger].
func (f *mapMerger[K, V]) Write(c field.Change) error {
	m := (*Map[K, V])(f)
	mc, err := changeAs[*mapChange[K, V]](c)
	if err != nil {
		return err
	}
	if mc.over {
		m.Overwrite(nil)
	}
	for _, k := range mc.deletes {
		m.Delete(k)
	}
	for _, p := range mc.puts {
		m.Put(p.key, p.value)
	}
	for _, p := range mc.keeps {
		if v, has := m.lookup(p.key); !has || equal(v, p.value) {
			m.Put(p.key, p.value)
		}
	}
	return nil
}

// Apply implements [field.Merger].
func (f *mapMerger[K, V]) Apply(c field.Change) error {
	m := (*Map[K, V])(f)
	mc, err := changeAs[*mapChange[K, V]](c)
	if err != nil {
		return err
	}
	m.settle()
	base := m.base
	if mc.over || base == nil {
		base = sortedMap(mc.puts)
	} else {
		for _, k := range mc.deletes {
			base = base.Delete(k)
		}
		for _, p := range mc.puts {
			base = base.Set(p.key, p.value)
		}
	}
	for _, p := range mc.keeps {
		if _, has := base.Get(p.key); !has {
			base = base.Set(p.key, p.value)
		}
	}
	m.base = base
	return nil
}

// DecodeChange implements [field.Merger]. It takes an object with the values to
// put. "$delete" gives the keys to delete, "$overwrite" an object that replaces
// the map first, "$keep" an object with what to put for keys that are then not
// there. Other keys that begin with "$" are written with one more "$".
func (*mapMerger[K, V]) DecodeChange(data []byte) (field.Change, error) {
	u, err := decodeMap[K, V](data, opKeep)
	if err != nil {
		return nil, err
	}
	c := &mapChange[K, V]{over: u.over}
	final := map[K]slot[V]{}
	for _, p := range u.base {
		final[p.key] = slot[V]{value: p.value}
	}
	for _, op := range u.ops {
		final[op.key] = slot[V]{op.value, op.deleted}
	}
	for k, s := range final {
		switch {
		case !s.deleted:
			c.puts = append(c.puts, pair[K, V]{k, s.value})
		case !c.over:
			c.deletes = append(c.deletes, k)
		}
	}
	if keep, ok := u.raw[opKeep]; ok {
		keeps, err := unmarshalPairs[K, V](keep)
		if err != nil {
			return nil, err
		}
		c.keep(keeps, final)
	}
	c.sort()
	return c, nil
}

// Check implements [field.Checker].
func (*mapMerger[K, V]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkMaps(cs, changeAs[*mapChange[K, V]])
}

// Keeps implements [field.Keeping].
func (f *mapMerger[K, V]) Keeps(c field.Change) bool {
	m := (*Map[K, V])(f)
	mc, ok := c.(*mapChange[K, V])
	return ok && m.keeps(mc)
}

func (m *Map[K, V]) keeps(c *mapChange[K, V]) bool {
	if c.over {
		return equalPairs(c.puts, (&Map[K, V]{base: m.base}).pairs())
	}
	if len(c.puts) > 0 {
		return false
	}
	for _, k := range c.deletes {
		if _, has := m.lookup(k); has {
			return false
		}
	}
	for _, p := range c.keeps {
		if _, has := m.lookup(p.key); !has {
			return false
		}
	}
	return true
}

// Infallible implements [field.Infallible].
func (*mapMerger[K, V]) Infallible() bool { return true }

// SchemaOf implements [field.Schemer].
func (*mapMerger[K, V]) SchemaOf() any { return map[string]V(nil) }

// mapChange first empties the map, if over is set, then deletes, then puts. Keeps
// are the puts of what the keys had already. No key is in two of the lists, which
// are sorted, and those other than puts are empty if over is set.
type mapChange[K cmp.Ordered, V any] struct {
	over    bool
	deletes []K
	puts    []pair[K, V]
	keeps   []pair[K, V]
}

// keep adds ps, which are put for keys that nothing else in the change, the keys
// of which are in final, says anything of.
func (c *mapChange[K, V]) keep(ps []pair[K, V], final map[K]slot[V]) {
	for _, p := range ps {
		if s, ok := final[p.key]; ok && !(c.over && s.deleted) {
			continue
		}
		if c.over {
			c.puts = append(c.puts, p)
		} else {
			c.keeps = append(c.keeps, p)
		}
	}
}

func (c *mapChange[K, V]) sort() {
	slices.Sort(c.deletes)
	byKey := func(a, b pair[K, V]) int { return cmp.Compare(a.key, b.key) }
	slices.SortFunc(c.puts, byKey)
	slices.SortFunc(c.keeps, byKey)
}

func (c *mapChange[K, V]) MarshalJSON() ([]byte, error) {
	var o jsonobject.Writer
	var err error
	if c.over {
		var in jsonobject.Writer
		err = writePairs(&in, c.puts, true)
		o.Member(opOverwrite, in.Close())
		return o.Close(), err
	}
	if len(c.deletes) > 0 {
		var keys []byte
		if keys, err = marshalKeys(c.deletes); err != nil {
			return nil, err
		}
		o.Member(opDelete, keys)
	}
	if len(c.keeps) > 0 {
		var in jsonobject.Writer
		if err := writePairs(&in, c.keeps, true); err != nil {
			return nil, err
		}
		o.Member(opKeep, in.Close())
	}
	for _, p := range c.puts {
		key, err := formatKey(p.key)
		if err != nil {
			return nil, err
		}
		data, err := marshalStrict(p.value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		o.Member(escapeKey(key), data)
	}
	return o.Close(), nil
}

// checkMaps finds the first of cs that writes a key in another way than an
// earlier one, or overwrites with something else.
func checkMaps[K cmp.Ordered, V any](cs []field.Change, as func(field.Change) (*mapChange[K, V], error)) (later, earlier int, err error) {
	type write struct {
		slot[V]
		by    int // the first that put or deleted the key
		first int // the first of these and of those that kept it
		kept  bool
	}
	written := make(map[K]write, len(cs))
	over := -1
	clash := func(i int, k K, s slot[V], kept bool) (int, error) {
		w, ok := written[k]
		switch {
		case !ok:
			written[k] = write{s, i, i, kept}
			return 0, nil
		case w.deleted != s.deleted:
			return w.first, fmt.Errorf("one task of a superstep writes key %v and another removes it", k)
		case kept:
			return 0, nil
		case w.kept:
			written[k] = write{s, i, w.first, false}
			return 0, nil
		case !s.deleted && !equal(w.value, s.value):
			return w.by, fmt.Errorf("two tasks of one superstep put different values for key %v", k)
		}
		return 0, nil
	}
	for i, ch := range cs {
		c, err := as(ch)
		if err != nil {
			return i, 0, err
		}
		if c.over {
			if over < 0 {
				over = i
			} else if first, _ := as(cs[over]); !equalPairs(c.puts, first.puts) {
				return i, over, errOverwrite
			}
			continue
		}
		for _, k := range c.deletes {
			if by, err := clash(i, k, slot[V]{deleted: true}, false); err != nil {
				return i, by, err
			}
		}
		for _, p := range c.puts {
			if by, err := clash(i, p.key, slot[V]{value: p.value}, false); err != nil {
				return i, by, err
			}
		}
		for _, p := range c.keeps {
			if by, err := clash(i, p.key, slot[V]{value: p.value}, true); err != nil {
				return i, by, err
			}
		}
	}
	return -1, -1, nil
}

func equalPairs[K cmp.Ordered, V any](a, b []pair[K, V]) bool {
	return slices.EqualFunc(a, b, func(a, b pair[K, V]) bool {
		return a.key == b.key && equal(a.value, b.value)
	})
}

// marshalStrict is json.Marshal, but never alters a string.
func marshalStrict[T any](v T) ([]byte, error) {
	if err := encodable(v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func writePairs[K cmp.Ordered, V any](o *jsonobject.Writer, ps []pair[K, V], strict bool) error {
	for _, p := range ps {
		key, err := formatKey(p.key)
		if err != nil {
			return err
		}
		marshal := json.Marshal
		if strict {
			marshal = func(any) ([]byte, error) { return marshalStrict(p.value) }
		}
		data, err := marshal(p.value)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		o.Member(key, data)
	}
	return nil
}

func unmarshalPairs[K cmp.Ordered, V any](data []byte) ([]pair[K, V], error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	ps := make([]pair[K, V], 0, len(raw))
	for name, text := range raw {
		k, err := parseKey[K](name)
		if err != nil {
			return nil, err
		}
		p := pair[K, V]{key: k}
		if err := json.Unmarshal(text, &p.value); err != nil {
			return nil, fmt.Errorf("key %q: %w", name, err)
		}
		ps = append(ps, p)
	}
	slices.SortFunc(ps, func(a, b pair[K, V]) int { return cmp.Compare(a.key, b.key) })
	return ps, nil
}

// marshalKeys writes keys as an array of their texts.
func marshalKeys[K cmp.Ordered](keys []K) ([]byte, error) {
	texts := make([]string, len(keys))
	for i, k := range keys {
		var err error
		if texts[i], err = formatKey(k); err != nil {
			return nil, err
		}
	}
	return json.Marshal(texts)
}

// unmarshalKeys reads what marshalKeys wrote, and numbers too.
func unmarshalKeys[K cmp.Ordered](data []byte) ([]K, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, err
	}
	keys := make([]K, len(raws))
	for i, raw := range raws {
		text := string(raw)
		if text[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, err
			}
		}
		var err error
		if keys[i], err = parseKey[K](text); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// mapUpdate is an update of a map, as JSON has it.
type mapUpdate[K cmp.Ordered, V any] struct {
	over bool
	base []pair[K, V]    // that replace the map, if over is set
	ops  []mergeOp[K, V] // deletes, then the values of keys in the order of their names
	raw  map[string]json.RawMessage
}

// decodeMap reads an update of a map. Of the operations, others are the caller's to read.
func decodeMap[K cmp.Ordered, V any](data []byte, others ...string) (u mapUpdate[K, V], err error) {
	if err := json.Unmarshal(data, &u.raw); err != nil {
		return u, err
	}
	if over, ok := u.raw[opOverwrite]; ok {
		u.over = true
		if u.base, err = unmarshalPairs[K, V](over); err != nil {
			return u, err
		}
	}
	if dels, ok := u.raw[opDelete]; ok {
		keys, err := unmarshalKeys[K](dels)
		if err != nil {
			return u, err
		}
		for _, k := range keys {
			u.ops = append(u.ops, mergeOp[K, V]{key: k, deleted: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.raw)) {
		if name == opOverwrite || name == opDelete || slices.Contains(others, name) {
			continue
		}
		key, err := unescapeKey(name)
		if err != nil {
			return u, err
		}
		var op mergeOp[K, V]
		if op.key, err = parseKey[K](key); err != nil {
			return u, err
		}
		if err := json.Unmarshal(u.raw[name], &op.value); err != nil {
			return u, fmt.Errorf("key %q: %w", key, err)
		}
		u.ops = append(u.ops, op)
	}
	return u, nil
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
	stamp stamp
	base  *immutable.SortedMap[K, V] // nil: empty
	view  *immutable.SortedMap[K, V] // base with what is pending; valid when dirty
	dirty bool                       // something is pending
	over  bool                       // first, puts replaces base
	puts  []pair[K, V]               // sorted; never altered
	ops   []mergeOp[K, V]            // only ever appended to
}

type mergeOp[K cmp.Ordered, V any] struct {
	key     K
	value   V
	deleted bool
}

// Add folds update into the value of key.
func (m *MergeMap[K, V, R]) Add(key K, update V) {
	m.do(mergeOp[K, V]{key: key, value: cloned(update)})
}

// Delete removes key, if there.
func (m *MergeMap[K, V, R]) Delete(key K) {
	m.do(mergeOp[K, V]{key: key, deleted: true})
}

func (m *MergeMap[K, V, R]) do(op mergeOp[K, V]) {
	view := mergeApply[K, V, R](m.current(), op) // may panic: nothing is altered yet
	if !m.stamp.own() {
		m.ops = m.ops[:len(m.ops):len(m.ops)] // so that append makes a copy
	}
	m.ops = append(m.ops, op)
	m.view, m.dirty = view, true
}

func mergeApply[K cmp.Ordered, V any, R Reducer[V]](base *immutable.SortedMap[K, V], op mergeOp[K, V]) *immutable.SortedMap[K, V] {
	if base == nil {
		base = immutable.NewSortedMap[K, V](comparer[K]{})
	}
	if op.deleted {
		return base.Delete(op.key)
	}
	v, has := base.Get(op.key)
	return base.Set(op.key, reduce[V, R](optional[V]{v, has}, op.value).value)
}

// Overwrite replaces the whole map by a copy of entries.
func (m *MergeMap[K, V, R]) Overwrite(entries map[K]V) {
	clone := cloner[V]()
	puts := make([]pair[K, V], 0, len(entries))
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		v := entries[k]
		if clone != nil {
			v = clone(v)
		}
		puts = append(puts, pair[K, V]{k, clip(v)})
	}
	m.overwrite(puts)
}

func (m *MergeMap[K, V, R]) overwrite(puts []pair[K, V]) {
	m.stamp.own()
	m.over, m.puts, m.ops = true, puts, nil
	m.view, m.dirty = sortedMap(puts), true
}

func (m *MergeMap[K, V, R]) current() *immutable.SortedMap[K, V] {
	if m.dirty {
		return m.view
	}
	return m.base
}

// Get returns the value of key and whether there is one.
func (m *MergeMap[K, V, R]) Get(key K) (v V, ok bool) {
	if c := m.current(); c != nil {
		if v, ok = c.Get(key); ok {
			v = cloned(v)
		}
	}
	return v, ok
}

// Len returns the number of keys.
func (m *MergeMap[K, V, R]) Len() int {
	if c := m.current(); c != nil {
		return c.Len()
	}
	return 0
}

// All returns an iterator over the entries in the order of their keys. It shows
// the map as it was when the iteration began.
func (m *MergeMap[K, V, R]) All() iter.Seq2[K, V] { return m.plain().All() }

// plain returns the entries as a Map, to read.
func (m *MergeMap[K, V, R]) plain() *Map[K, V] { return &Map[K, V]{base: m.current()} }

// IsZero reports whether the map is empty; encoding/json's omitzero uses it.
func (m MergeMap[K, V, R]) IsZero() bool { return m.Len() == 0 }

// String formats the map as fmt.Sprint does a map.
func (m MergeMap[K, V, R]) String() string { return m.plain().String() }

// MarshalJSON returns an object, in the order of the keys.
func (m MergeMap[K, V, R]) MarshalJSON() ([]byte, error) { return m.plain().MarshalJSON() }

// UnmarshalJSON replaces the map.
func (m *MergeMap[K, V, R]) UnmarshalJSON(data []byte) error {
	ps, err := unmarshalPairs[K, V](data)
	if err == nil {
		*m = MergeMap[K, V, R]{base: sortedMap(clipPairs(ps))}
	}
	return err
}

func clipPairs[K cmp.Ordered, V any](ps []pair[K, V]) []pair[K, V] {
	for i := range ps {
		ps[i].value = clip(ps[i].value)
	}
	return ps
}

// Merger implements [field.Merging], for the engine.
func (m *MergeMap[K, V, R]) Merger() field.Merger { return (*mergeMapMerger[K, V, R])(m) }

// mergeMapMerger is a MergeMap as the engine sees it.
type mergeMapMerger[K cmp.Ordered, V any, R Reducer[V]] MergeMap[K, V, R]

// Bind implements [field.Merger].
func (f *mergeMapMerger[K, V, R]) Bind() {
	if f.dirty {
		*f = mergeMapMerger[K, V, R]{base: f.view}
	}
	f.stamp.bind()
}

// Change implements [field.Merger].
func (f *mergeMapMerger[K, V, R]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if !f.dirty {
		return nil, nil
	}
	for _, op := range f.ops {
		if err := checkEntry(op.key, op.value); err != nil {
			return nil, err
		}
	}
	for _, p := range f.puts {
		if err := checkEntry(p.key, p.value); err != nil {
			return nil, err
		}
	}
	return &mergeChange[K, V]{over: f.over, puts: f.puts, ops: f.ops[:len(f.ops):len(f.ops)]}, nil
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
	mc, err := changeAs[*mergeChange[K, V]](c)
	if err != nil {
		return err
	}
	defer recovered(&err)
	if mc.over {
		m.overwrite(mc.puts)
	}
	for _, op := range mc.ops {
		m.do(op)
	}
	return nil
}

// Apply implements [field.Merger]. A reducer that panics is an error and leaves
// the map as it was.
func (f *mergeMapMerger[K, V, R]) Apply(c field.Change) (err error) {
	m := (*MergeMap[K, V, R])(f)
	mc, err := changeAs[*mergeChange[K, V]](c)
	if err != nil {
		return err
	}
	defer recovered(&err)
	next := m.current()
	if mc.over {
		next = sortedMap(mc.puts)
	}
	for _, op := range mc.ops {
		next = mergeApply[K, V, R](next, op)
		if !op.deleted {
			v, _ := next.Get(op.key)
			if err := checkEntry(op.key, v); err != nil {
				return err
			}
		}
	}
	*m = MergeMap[K, V, R]{base: next}
	return nil
}

// DecodeChange implements [field.Merger]. It takes an object with one update
// for each of its keys. "$overwrite" gives an object that replaces the map
// first, "$delete" the keys that are then deleted, "$updates" an array of
// objects of this same form (but for "$overwrite") that come last, one after
// another. Other keys that begin with "$" are written with one more "$".
func (*mergeMapMerger[K, V, R]) DecodeChange(data []byte) (field.Change, error) {
	c := new(mergeChange[K, V])
	if err := c.decode(data, true); err != nil {
		return nil, err
	}
	return c, nil
}

// Check implements [field.Checker]: only overwrites can conflict.
func (*mergeMapMerger[K, V, R]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkOverwrites(cs,
		func(c *mergeChange[K, V]) bool { return c.over },
		func(a, b *mergeChange[K, V]) bool {
			return equalPairs(a.puts, b.puts) && slices.EqualFunc(a.ops, b.ops, func(a, b mergeOp[K, V]) bool {
				return a.key == b.key && a.deleted == b.deleted && equal(a.value, b.value)
			})
		})
}

// SchemaOf implements [field.Schemer].
func (*mergeMapMerger[K, V, R]) SchemaOf() any { return map[string]V(nil) }

// Keeps implements [field.Keeping]. Updates are folded to find out where values are
// scalars; others are taken to change the map.
func (f *mergeMapMerger[K, V, R]) Keeps(c field.Change) bool {
	m := (*MergeMap[K, V, R])(f)
	mc, ok := c.(*mergeChange[K, V])
	if !ok || mc.over {
		return ok && len(mc.ops) == 0 && equalPairs(mc.puts, m.plain().pairs())
	}
	if !scalar[V]() && slices.ContainsFunc(mc.ops, func(op mergeOp[K, V]) bool { return !op.deleted }) {
		return false
	}
	is := map[K]optional[V]{}
	for _, op := range mc.ops {
		v, seen := is[op.key]
		if !seen {
			v.value, v.set = m.plain().lookup(op.key)
		}
		if op.deleted {
			v = optional[V]{}
		} else {
			v = reduce[V, R](v, op.value)
		}
		is[op.key] = v
	}
	for k, v := range is {
		if before, had := m.plain().lookup(k); v.set != had || had && !equal(before, v.value) {
			return false
		}
	}
	return true
}

type mergeChange[K cmp.Ordered, V any] struct {
	over bool
	puts []pair[K, V]
	ops  []mergeOp[K, V]
}

func (c *mergeChange[K, V]) decode(data []byte, top bool) error {
	u, err := decodeMap[K, V](data, opUpdates)
	if err != nil {
		return err
	}
	if u.over {
		if !top {
			return fmt.Errorf("%q inside %q", opOverwrite, opUpdates)
		}
		c.over, c.puts = true, clipPairs(u.base)
	}
	c.ops = append(c.ops, u.ops...)
	if more, ok := u.raw[opUpdates]; ok {
		if !top {
			return fmt.Errorf("%q inside %q", opUpdates, opUpdates)
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(more, &parts); err != nil {
			return err
		}
		for _, part := range parts {
			if err := c.decode(part, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *mergeChange[K, V]) MarshalJSON() ([]byte, error) {
	var o jsonobject.Writer
	if c.over {
		var in jsonobject.Writer
		if err := writePairs(&in, c.puts, true); err != nil {
			return nil, err
		}
		o.Member(opOverwrite, in.Close())
	}
	// Each part is an object that holds a key at most once.
	var parts [][]byte
	for ops := c.ops; len(ops) > 0; {
		var part jsonobject.Writer
		if ops[0].deleted {
			keys, err := marshalKeys([]K{ops[0].key})
			if err != nil {
				return nil, err
			}
			part.Member(opDelete, keys)
			parts, ops = append(parts, part.Close()), ops[1:]
			continue
		}
		updates := map[string][]byte{}
		seen := map[K]bool{}
		for len(ops) > 0 && !ops[0].deleted && !seen[ops[0].key] {
			seen[ops[0].key] = true
			key, err := formatKey(ops[0].key)
			if err != nil {
				return nil, err
			}
			if updates[escapeKey(key)], err = marshalStrict(ops[0].value); err != nil {
				return nil, fmt.Errorf("key %q: %w", key, err)
			}
			ops = ops[1:]
		}
		for _, name := range slices.Sorted(maps.Keys(updates)) {
			part.Member(name, updates[name])
		}
		parts = append(parts, part.Close())
	}
	switch {
	case len(parts) == 1 && !c.over:
		return parts[0], nil
	case len(parts) > 0:
		list := append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']')
		o.Member(opUpdates, list)
	}
	return o.Close(), nil
}
