package graph

import (
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
	over  bool                       // base is none: what was there is replaced
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
	if !m.lookup(key).set {
		m.grown++
	}
	m.pend[key] = optional[V]{value, true}
}

// Delete removes key, if there.
func (m *Map[K, V]) Delete(key K) {
	m.own()
	if m.lookup(key).set {
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
	m.base, m.over, m.grown = nil, true, len(entries)
	m.pend = make(map[K]optional[V], len(entries))
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
	is := m.lookup(key)
	if is.set {
		is.value = cloned(is.value)
	}
	return is.value, is.set
}

// Len returns the number of keys.
func (m *Map[K, V]) Len() int {
	if m.base != nil {
		return m.base.Len() + m.grown
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

func (m *Map[K, V]) lookup(key K) (is optional[V]) {
	if w, ok := m.pend[key]; ok {
		return w
	}
	if m.base != nil {
		is.value, is.set = m.base.Get(key)
	}
	return is
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

// written returns what is pending, in no order, in memory of its own.
func (m *Map[K, V]) written() []entry[K, V] {
	ops := make([]entry[K, V], 0, len(m.pend))
	for k, w := range m.pend {
		op := entry[K, V]{key: k, value: w.value}
		if !w.set {
			op.does = deletes
		}
		ops = append(ops, op)
	}
	return ops
}

// settle makes what is pending part of base.
func (m *Map[K, V]) settle() {
	if len(m.pend) > 0 {
		m.commit(m.written())
	}
	m.pend, m.grown, m.over = nil, 0, false
}

// commit does to base what ops say.
func (m *Map[K, V]) commit(ops []entry[K, V]) {
	if m.base == nil {
		b := immutable.NewSortedMapBuilder[K, V](comparer[K]{})
		for _, op := range ops {
			if op.does != deletes {
				b.Set(op.key, op.value)
			}
		}
		m.base = b.Map()
		return
	}
	for _, op := range ops {
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
}

type comparer[K cmp.Ordered] struct{}

func (comparer[K]) Compare(a, b K) int { return cmp.Compare(a, b) }

// IsZero reports whether the map is empty; encoding/json's omitzero uses it.
func (m Map[K, V]) IsZero() bool { return m.Len() == 0 }

// String formats the map as fmt.Sprint does a map.
func (m Map[K, V]) String() string {
	return fmt.Sprint(maps.Collect(m.each))
}

// MarshalJSON returns an object, in the order of the keys.
func (m Map[K, V]) MarshalJSON() (data []byte, err error) {
	var o jsonobject.Writer
	m.each(func(k K, v V) bool {
		var key string
		if key, err = formatKey(k); err == nil {
			data, err = marshalAt(key, v)
		}
		o.Member(key, data)
		return err == nil
	})
	return o.Close(), err
}

// UnmarshalJSON replaces the map.
func (m *Map[K, V]) UnmarshalJSON(data []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	c := mapChange[K, V]{ops: make([]entry[K, V], 0, len(object))}
	if err := c.members(object, puts, false); err != nil {
		return err
	}
	*m = Map[K, V]{}
	m.commit(c.ops)
	return nil
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
	if err := m.stamp.check(); err != nil {
		return nil, err
	}
	if len(m.pend) == 0 && !m.over {
		return nil, nil
	}
	c := &mapChange[K, V]{over: m.over, ops: m.written()}
	for i := range c.ops {
		op := &c.ops[i]
		if err := checkEntry(op.key, op.value); err != nil {
			return nil, err
		}
		if op.does == puts && m.base != nil {
			if v, has := m.base.Get(op.key); has && equal(v, op.value) {
				op.does = keeps
			}
		}
	}
	slices.SortFunc(c.ops, entry[K, V].compare)
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
	for _, op := range mc.ops {
		switch is := m.lookup(op.key); {
		case op.does == deletes:
			m.Delete(op.key)
		case op.does == puts || !is.set || equal(is.value, op.value):
			m.Put(op.key, op.value)
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
	if mc.over {
		m.base = nil
	}
	m.commit(mc.ops)
	return nil
}

// DecodeChange implements [field.Merger]. It takes an object with the values to
// put. "$delete" gives the keys to delete, "$overwrite" an object that replaces
// the map first, "$keep" an object with what to put for keys that are then not
// there. Other keys that begin with "$" are written with one more "$".
func (*mapMerger[K, V]) DecodeChange(data []byte) (field.Change, error) {
	return decodeMap[K, V](data, false)
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
		mc, err := changeAs[*mapChange[K, V]](c)
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
	mc, err := changeAs[*mapChange[K, V]](c)
	if err != nil || mc.over && len(mc.ops) != m.Len() {
		return false
	}
	return !slices.ContainsFunc(mc.ops, func(op entry[K, V]) bool {
		if op.does == puts && !mc.over {
			return true
		}
		is := m.lookup(op.key)
		return is.set == (op.does == deletes) || mc.over && !equal(is.value, op.value)
	})
}

// Infallible implements [field.Infallible].
func (*mapMerger[K, V]) Infallible() bool { return true }

// SchemaOf implements [field.Schemer].
func (*mapMerger[K, V]) SchemaOf() any { return map[string]V(nil) }

// mapChange first empties the map, if over is set, and then does what ops say, which are in
// the order of their keys. A Map and a Set have one for each key, and it puts if over is
// set. A MergeMap folds what is put into what was there; of a key, only the first may
// delete it.
type mapChange[K cmp.Ordered, V any] struct {
	over  bool
	ops   []entry[K, V]
	array bool // it is of a Set, and written as one: without values
}

func (e entry[K, V]) compare(o entry[K, V]) int { return cmp.Compare(e.key, o.key) }

// byKey yields what is done with one key after the other.
func (c *mapChange[K, V]) byKey(yield func(ops []entry[K, V]) bool) {
	for ops := c.ops; len(ops) > 0; {
		n := 1
		for n < len(ops) && ops[n].key == ops[0].key {
			n++
		}
		if !yield(ops[:n:n]) {
			return
		}
		ops = ops[n:]
	}
}

// settle puts ops in order and drops what comes to nothing by what is done to its key
// later: all but the last or, if they are folded, what is deleted then. What is kept comes to
// nothing beside what was put before, and is put after what was deleted.
func (c *mapChange[K, V]) settle(folded bool) {
	slices.SortStableFunc(c.ops, entry[K, V].compare)
	left := c.ops[:0]
	for ops := range c.byKey {
		from := len(ops) - 1
		for ; !folded && from > 0 && ops[from].does == keeps; from-- {
			if ops[from-1].does == deletes {
				ops[from].does = puts
				break
			}
			ops = ops[:from]
		}
		for folded && from > 0 && ops[from].does != deletes {
			from--
		}
		switch does := &ops[from].does; {
		case c.over && *does == deletes:
			from++
		case c.over && *does == keeps: // nothing is there
			*does = puts
		}
		left = append(left, ops[from:]...)
	}
	c.ops = left
}

func (c *mapChange[K, V]) overwrites() bool { return c.over }

func (c *mapChange[K, V]) equals(o field.Change) bool {
	return slices.EqualFunc(c.ops, o.(*mapChange[K, V]).ops, func(a, b entry[K, V]) bool {
		return a.key == b.key && a.does == b.does && equal(a.value, b.value)
	})
}

// MarshalJSON returns what decodeMap reads or, of a Set, its DecodeChange.
func (c *mapChange[K, V]) MarshalJSON() ([]byte, error) {
	if c.array {
		return c.marshalArrays()
	}
	var o jsonobject.Writer
	var gone []string
	var kept map[string]json.RawMessage
	var more map[string][]json.RawMessage
	for ops := range c.byKey {
		key, err := formatKey(ops[0].key)
		if err != nil {
			return nil, err
		}
		if ops[0].does == deletes {
			gone, ops = append(gone, key), ops[1:]
		}
		for i, op := range ops {
			if err := encodable(op.value); err != nil {
				return nil, fmt.Errorf("key %q: %w", key, err)
			}
			data, err := marshalAt(key, op.value)
			switch {
			case err != nil:
				return nil, err
			case i > 0:
				if more == nil {
					more = map[string][]json.RawMessage{}
				}
				more[key] = append(more[key], data)
			case op.does == keeps:
				if kept == nil {
					kept = map[string]json.RawMessage{}
				}
				kept[key] = data
			case c.over:
				o.Member(key, data)
			default:
				o.Member(escapeKey(key), data)
			}
		}
	}
	if c.over {
		over := o.Close()
		o = jsonobject.Writer{}
		o.Member(opOverwrite, over)
	}
	operation := func(name string, v any) {
		data, _ := json.Marshal(v) // of texts and JSON, which cannot fail
		o.Member(name, data)
	}
	if gone != nil {
		operation(opDelete, gone)
	}
	if kept != nil {
		operation(opKeep, kept)
	}
	if more != nil {
		operation(opUpdates, more)
	}
	return o.Close(), nil
}

func marshalAt[V any](key string, v V) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	return data, nil
}

// decodeMap reads an update of a Map or, with updates that are folded, of a MergeMap.
func decodeMap[K cmp.Ordered, V any](data []byte, folded bool) (field.Change, error) {
	var object map[string]json.RawMessage
	err := json.Unmarshal(data, &object)
	c := &mapChange[K, V]{ops: make([]entry[K, V], 0, len(object))}
	_, c.over = object[opOverwrite]
	over := takeFrom[map[string]json.RawMessage](object, opOverwrite, "an object", &err)
	gone := takeFrom[[]json.RawMessage](object, opDelete, "a list of keys", &err)
	var kept map[string]json.RawMessage
	var more map[string][]json.RawMessage
	if folded {
		more = takeFrom[map[string][]json.RawMessage](object, opUpdates, "an object with a list for each key", &err)
	} else {
		kept = takeFrom[map[string]json.RawMessage](object, opKeep, "an object", &err)
	}
	if err == nil {
		err = c.members(over, puts, false)
	}
	for i := 0; i < len(gone) && err == nil; i++ {
		var key any
		switch err = json.Unmarshal(gone[i], &key); is := key.(type) {
		case string:
			err = c.add(deletes, is, nil)
		case float64:
			err = c.add(deletes, string(gone[i]), nil)
		default:
			err = cmp.Or(err, fmt.Errorf("%s: a key must be a string or a number", opDelete))
		}
	}
	if err == nil {
		err = c.members(kept, keeps, false)
	}
	if err == nil {
		err = c.members(object, puts, true)
	}
	for _, key := range namesOf(more) {
		for i := 0; i < len(more[key]) && err == nil; i++ {
			err = c.add(puts, key, more[key][i])
		}
	}
	if err != nil {
		return nil, err
	}
	c.settle(folded)
	return c, nil
}

// takeFrom takes an operation out of an update.
func takeFrom[T any](object map[string]json.RawMessage, op, form string, err *error) (v T) {
	if data, ok := object[op]; ok && *err == nil {
		read := new(T)
		if json.Unmarshal(data, read) != nil {
			*err = fmt.Errorf("%s must be %s", op, form)
		}
		v = *read
	}
	delete(object, op)
	return v
}

// members adds what is put or kept, by its keys.
func (c *mapChange[K, V]) members(object map[string]json.RawMessage, does deed, escaped bool) error {
	for _, name := range namesOf(object) {
		key := name
		if escaped {
			var err error
			if key, err = unescapeKey(name); err != nil {
				return err
			}
		}
		if err := c.add(does, key, object[name]); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns an object's names in order.
func namesOf[V any](object map[string]V) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// add adds what is done with a key, given in JSON.
func (c *mapChange[K, V]) add(does deed, key string, data []byte) (err error) {
	op := entry[K, V]{does: does}
	if op.key, err = parseKey[K](key); err != nil {
		return err
	}
	if does != deletes {
		if err := json.Unmarshal(data, &op.value); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	c.ops = append(c.ops, op)
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
	is := foldMap[K, V, R](m.view.lookup(op.key), op) // may panic: nothing is altered yet
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

// foldMap returns what ops of one key make of its value.
func foldMap[K cmp.Ordered, V any, R Reducer[V]](is optional[V], ops ...entry[K, V]) optional[V] {
	for _, op := range ops {
		if op.does == deletes {
			is = optional[V]{}
		} else {
			is = reduce[V, R](is, op.value)
		}
	}
	return is
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
	c := &mapChange[K, V]{over: f.view.over, ops: slices.Clone(f.ops)} // copies of the field share f.ops
	c.settle(true)
	return c, nil
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
	if mc.over || view.base == nil {
		view.base = immutable.NewSortedMap[K, V](comparer[K]{})
	}
	next := view.base
	for ops := range mc.byKey {
		key := ops[0].key
		is := foldMap[K, V, R](view.lookup(key), ops...)
		if err := checkEntry(key, is.value); err != nil {
			return err
		}
		if is.set {
			next = next.Set(key, is.value)
		} else {
			next = next.Delete(key)
		}
	}
	*f = mergeMapMerger[K, V, R]{view: Map[K, V]{base: next}}
	return nil
}

// DecodeChange implements [field.Merger]. It takes an object with one update for each of
// its keys. "$overwrite" gives an object that replaces the map first, "$delete" the keys
// that are then deleted, "$updates" an object with arrays of the updates that come after
// the others of their keys. Other keys that begin with "$" are written with one more "$".
func (*mergeMapMerger[K, V, R]) DecodeChange(data []byte) (field.Change, error) {
	return decodeMap[K, V](data, true)
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
	if !ok {
		return false
	}
	keys := 0
	for ops := range mc.byKey {
		keys++
		was := f.view.lookup(ops[0].key)
		is, more := was, ops
		if mc.over {
			is, more = optional[V]{ops[0].value, true}, ops[1:]
		}
		if !scalar[V]() && slices.ContainsFunc(more, func(op entry[K, V]) bool { return op.does != deletes }) {
			return false
		}
		if is = foldMap[K, V, R](is, more...); is.set != was.set || is.set && !equal(is.value, was.value) {
			return false
		}
	}
	return !mc.over || keys == f.view.Len()
}
