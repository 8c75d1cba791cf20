package graph

import (
	"cmp"
	"encoding/json"
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
	m Map[T, struct{}]
}

// Add adds elements. Those that are there stay, even after an overwrite without
// them by a task before this one in plan order.
func (s *Set[T]) Add(elems ...T) {
	for _, e := range elems {
		s.m.Put(e, struct{}{})
	}
}

// Remove removes elements, where there.
func (s *Set[T]) Remove(elems ...T) {
	for _, e := range elems {
		s.m.Delete(e)
	}
}

// Overwrite replaces the whole set.
func (s *Set[T]) Overwrite(elems ...T) {
	s.m.Overwrite(nil)
	s.Add(elems...)
}

// Has reports whether e is in the set.
func (s *Set[T]) Has(e T) bool {
	_, has := s.m.lookup(e)
	return has
}

// Len returns the number of elements.
func (s *Set[T]) Len() int { return s.m.Len() }

// All returns an iterator over the elements in ascending order. It shows the
// set as it was when the iteration began.
func (s *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		s.m.each(func(e T, _ struct{}) bool { return yield(e) })
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
	ps, err := unmarshalElems[T](data)
	if err == nil {
		*s = Set[T]{m: Map[T, struct{}]{base: sortedMap(ps)}}
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

func unmarshalElems[T cmp.Ordered](data []byte) ([]pair[T, struct{}], error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, err
	}
	ps := make([]pair[T, struct{}], len(raws))
	for i := range raws {
		if err := json.Unmarshal(raws[i], &ps[i].key); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ps, func(a, b pair[T, struct{}]) int { return cmp.Compare(a.key, b.key) })
	return slices.Compact(ps), nil
}

// Merger implements [field.Merging], for the engine.
func (s *Set[T]) Merger() field.Merger { return (*setMerger[T])(s) }

// setMerger is a Set as the engine sees it.
type setMerger[T cmp.Ordered] Set[T]

// Bind implements [field.Merger].
func (f *setMerger[T]) Bind() { f.m.Merger().Bind() }

// Change implements [field.Merger]. Adding an element that is there is recorded,
// since another task of the superstep may overwrite the set, and so is removing
// one that isn't there: another may add it.
func (f *setMerger[T]) Change() (field.Change, error) {
	c, err := f.m.change()
	if c == nil {
		return nil, err
	}
	if err := finite(slices.Concat(keysOf(c.puts), keysOf(c.keeps), c.deletes)...); err != nil {
		return nil, err
	}
	return &setChange[T]{*c}, nil
}

// Write implements [field.Merger].
func (f *setMerger[T]) Write(c field.Change) error {
	sc, err := changeAs[*setChange[T]](c)
	if err != nil {
		return err
	}
	return f.m.Merger().Write(&sc.mapChange)
}

// Apply implements [field.Merger].
func (f *setMerger[T]) Apply(c field.Change) error {
	sc, err := changeAs[*setChange[T]](c)
	if err != nil {
		return err
	}
	return f.m.Merger().Apply(&sc.mapChange)
}

// DecodeChange implements [field.Merger]. It takes an array of the elements to
// add, or an object with one or more of "$overwrite", "$remove", "$keep" and
// "$add", which are done in this order; what is kept was there before.
func (*setMerger[T]) DecodeChange(data []byte) (field.Change, error) {
	c := new(setChange[T])
	ops, ok := operations(data, opOverwrite, opRemove, opKeep, opAdd)
	if !ok {
		ops = map[string]json.RawMessage{opAdd: data}
	}
	final := map[T]slot[struct{}]{}
	for _, op := range []string{opOverwrite, opRemove, opAdd} {
		data, ok := ops[op]
		if !ok {
			continue
		}
		ps, err := unmarshalElems[T](data)
		if err != nil {
			return nil, err
		}
		c.over = c.over || op == opOverwrite
		for _, p := range ps {
			final[p.key] = slot[struct{}]{deleted: op == opRemove}
		}
	}
	for e, s := range final {
		switch {
		case !s.deleted:
			c.puts = append(c.puts, pair[T, struct{}]{key: e})
		case !c.over:
			c.deletes = append(c.deletes, e)
		}
	}
	if data, ok := ops[opKeep]; ok {
		ps, err := unmarshalElems[T](data)
		if err != nil {
			return nil, err
		}
		c.keep(ps, final)
	}
	c.sort()
	return c, nil
}

// Check implements [field.Checker].
func (*setMerger[T]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkMaps(cs, setChangeAs[T])
}

// Keeps implements [field.Keeping].
func (f *setMerger[T]) Keeps(c field.Change) bool {
	sc, ok := c.(*setChange[T])
	return ok && f.m.keeps(&sc.mapChange)
}

// Infallible implements [field.Infallible].
func (*setMerger[T]) Infallible() bool { return true }

// SchemaOf implements [field.Schemer].
func (*setMerger[T]) SchemaOf() any { return []T(nil) }

// setChange is a mapChange that is written as arrays.
type setChange[T cmp.Ordered] struct {
	mapChange[T, struct{}]
}

func setChangeAs[T cmp.Ordered](c field.Change) (*mapChange[T, struct{}], error) {
	sc, err := changeAs[*setChange[T]](c)
	if err != nil {
		return nil, err
	}
	return &sc.mapChange, nil
}

func (c *setChange[T]) MarshalJSON() ([]byte, error) {
	puts, err := marshalElems(keysOf(c.puts))
	if err != nil || !c.over && len(c.deletes)+len(c.keeps) == 0 {
		return puts, err
	}
	var o jsonobject.Writer
	if c.over {
		o.Member(opOverwrite, puts)
		return o.Close(), nil
	}
	for _, op := range []struct {
		name  string
		elems []T
	}{{opRemove, c.deletes}, {opKeep, keysOf(c.keeps)}} {
		if len(op.elems) == 0 {
			continue
		}
		data, err := marshalElems(op.elems)
		if err != nil {
			return nil, err
		}
		o.Member(op.name, data)
	}
	if len(c.puts) > 0 {
		o.Member(opAdd, puts)
	}
	return o.Close(), nil
}

func keysOf[K cmp.Ordered, V any](ps []pair[K, V]) []K {
	keys := make([]K, len(ps))
	for i, p := range ps {
		keys[i] = p.key
	}
	return keys
}
