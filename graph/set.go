package graph

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/field"

	"github.com/superstep-dev/superstep/graph/internal/jsonobject"
)

// Set is a state field that holds a set. What the tasks of one superstep add is
// united. A task that adds an element while another removes it is an error. An
// overwrite replaces what stands before it in plan order; two different
// overwrites in one superstep are an error.
//
// A step that writes k elements costs O(k log n).
//
// In JSON a Set is a sorted array.
//
// The zero Set is empty and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type Set[T cmp.Ordered] struct {
	m setMerger[T]
}

// elems returns the set as the map that it is.
func (s *Set[T]) elems() *Map[T, struct{}] { return (*Map[T, struct{}])(&s.m.mapMerger) }

// Add adds elements. Those that are there stay, even after an overwrite without
// them by a task before this one in plan order.
func (s *Set[T]) Add(elems ...T) {
	for _, e := range elems {
		s.elems().Put(e, struct{}{})
	}
}

// Remove removes elements, where there.
func (s *Set[T]) Remove(elems ...T) {
	for _, e := range elems {
		s.elems().Delete(e)
	}
}

// Overwrite replaces the whole set.
func (s *Set[T]) Overwrite(elems ...T) {
	s.elems().Overwrite(nil)
	s.Add(elems...)
}

// Has reports whether e is in the set.
func (s *Set[T]) Has(e T) bool {
	return s.elems().lookup(e).set
}

// Len returns the number of elements.
func (s *Set[T]) Len() int { return s.elems().Len() }

// All returns an iterator over the elements in ascending order. It shows the
// set as it was when the iteration began.
func (s *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		s.elems().each(func(e T, _ struct{}) bool { return yield(e) })
	}
}

// IsZero reports whether the set is empty; encoding/json's omitzero uses it.
func (s Set[T]) IsZero() bool { return s.Len() == 0 }

// String formats the set as fmt.Sprint does a slice.
func (s Set[T]) String() string { return fmt.Sprint(slices.Collect(s.All())) }

// MarshalJSON returns a sorted array of the elements.
func (s Set[T]) MarshalJSON() ([]byte, error) { return marshalElems(slices.Collect(s.All())) }

// UnmarshalJSON replaces the set.
func (s *Set[T]) UnmarshalJSON(data []byte) error {
	es, err := unmarshalElems[T](data, puts)
	if err == nil {
		*s = Set[T]{}
		s.elems().commit(es)
	}
	return err
}

// marshalElems writes bytes too as an array of numbers.
func marshalElems[T cmp.Ordered](elems []T) ([]byte, error) {
	if err := encodable(elems...); err != nil {
		return nil, err
	}
	wide := make([]any, len(elems))
	for i := range elems {
		wide[i] = elems[i]
	}
	return json.Marshal(wide)
}

func unmarshalElems[T cmp.Ordered](data []byte, does deed) ([]entry[T, struct{}], error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, err
	}
	es := make([]entry[T, struct{}], len(raws))
	for i := range raws {
		if string(raws[i]) == "null" {
			return nil, errors.New("null is no element")
		}
		es[i].does = does
		if err := json.Unmarshal(raws[i], &es[i].key); err != nil {
			return nil, err
		}
	}
	return es, nil
}

// Merger implements [field.Merging], for the engine.
func (s *Set[T]) Merger() field.Merger { return &s.m }

// setMerger is a Set as the engine sees it: a Map whose changes are written as arrays.
type setMerger[T cmp.Ordered] struct {
	mapMerger[T, struct{}]
}

// Change implements [field.Merger]. Adding an element that is there is recorded,
// since another task of the superstep may overwrite the set, and so is removing
// one that isn't there: another may add it.
func (f *setMerger[T]) Change() (field.Change, error) {
	mc, err := f.mapMerger.Change()
	if mc == nil {
		return nil, err
	}
	c := mc.(*mapChange[T, struct{}])
	for _, op := range c.ops {
		if err := finite(op.key); err != nil {
			return nil, err
		}
	}
	c.array = true
	return c, nil
}

// DecodeChange implements [field.Merger]. It takes an array of the elements to
// add, or an object with one or more of "$overwrite", "$remove", "$keep" and
// "$add", which are done in this order; what is kept was there before.
func (*setMerger[T]) DecodeChange(data []byte) (field.Change, error) {
	c := &mapChange[T, struct{}]{array: true}
	ops, ok := operations(data, opOverwrite, opRemove, opKeep, opAdd)
	if !ok {
		ops = map[string]json.RawMessage{opAdd: data}
	}
	_, c.over = ops[opOverwrite]
	for _, op := range []struct {
		name string
		does deed
	}{{opOverwrite, puts}, {opRemove, deletes}, {opKeep, keeps}, {opAdd, puts}} {
		if data, ok := ops[op.name]; ok {
			es, err := unmarshalElems[T](data, op.does)
			if err != nil {
				return nil, err
			}
			c.ops = append(c.ops, es...)
		}
	}
	c.settle(false)
	return c, nil
}

// SchemaOf implements [field.Schemer].
func (*setMerger[T]) SchemaOf() any { return []T(nil) }

func (c *mapChange[K, V]) marshalArrays() ([]byte, error) {
	var elems [3][]K // by what is done with them
	for _, op := range c.ops {
		elems[op.does] = append(elems[op.does], op.key)
	}
	added, err := marshalElems(elems[puts])
	if err != nil || !c.over && len(elems[puts]) == len(c.ops) {
		return added, err
	}
	var o jsonobject.Writer
	if c.over {
		o.Member(opOverwrite, added)
		return o.Close(), nil
	}
	for _, op := range []struct {
		name string
		does deed
	}{{opRemove, deletes}, {opKeep, keeps}, {opAdd, puts}} {
		if len(elems[op.does]) == 0 {
			continue
		}
		data, err := marshalElems(elems[op.does])
		if err != nil {
			return nil, err
		}
		o.Member(op.name, data)
	}
	return o.Close(), nil
}
