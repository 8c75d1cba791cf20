package graph

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/field"

	"github.com/superstep-dev/superstep/graph/internal/jsonobject"
)

// Reducer says how an update is folded into a value. Reduce must be pure: its
// result depends on its arguments alone, and it alters nothing that they refer
// to. (Appending to current is fine.) The engine calls it again when it replays
// a thread.
//
// A reducer is usually an empty struct:
//
//	type maximum struct{}
//
//	func (maximum) Reduce(current, update int) int { return max(current, update) }
//
//	type State struct {
//		Best graph.Reduced[int, maximum]
//	}
type Reducer[T any] interface {
	Reduce(current, update T) T
}

// Latest is the [Reducer] that replaces: of several updates, the last in plan
// order wins.
type Latest[T any] struct{}

// Reduce returns update.
func (Latest[T]) Reduce(_, update T) T { return update }

// Reduced is a state field whose updates are folded with a reducer of the
// caller's, in plan order. The first update of an unset field is stored as it
// is. An overwrite replaces what stands before it in plan order; two different
// overwrites in one superstep are an error.
//
// A thread's log holds the updates and not the results, so the reducer runs
// again at every replay. What a task reads of its own updates is provisional:
// when other tasks of the superstep add too, the committed value comes from
// folding all updates.
//
// Updates are frozen once added, as in a [List].
//
// The zero Reduced is unset and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type Reduced[T any, R Reducer[T]] struct {
	stamp stamp
	base  optional[T]
	view  optional[T] // base with what is pending folded in; valid when dirty
	dirty bool        // something is pending
	over  optional[T] // what replaces base
	pend  []T         // updates after that; only ever appended to
}

type optional[T any] struct {
	value T
	set   bool
}

// Add folds update into the value.
func (r *Reduced[T, R]) Add(update T) {
	r.addAll([]T{cloned(update)})
}

func (r *Reduced[T, R]) addAll(updates []T) {
	view := r.current()
	for _, u := range updates {
		view = reduce[T, R](view, u) // may panic: nothing is altered yet
	}
	if !r.stamp.own() {
		r.pend = r.pend[:len(r.pend):len(r.pend)] // so that append makes a copy
	}
	r.pend = append(r.pend, updates...)
	r.view, r.dirty = view, true
}

// Get returns the value, the zero T when the field is unset.
func (r *Reduced[T, R]) Get() T { return cloned(r.current().value) }

// Overwrite replaces the value by x without calling the reducer.
func (r *Reduced[T, R]) Overwrite(x T) {
	r.stamp.own()
	r.over = optional[T]{clip(cloned(x)), true}
	r.view, r.dirty, r.pend = r.over, true, nil
}

func (r *Reduced[T, R]) current() optional[T] {
	if r.dirty {
		return r.view
	}
	return r.base
}

func reduce[T any, R Reducer[T]](current optional[T], update T) optional[T] {
	if !current.set {
		return optional[T]{clip(update), true}
	}
	var reducer R
	return optional[T]{clip(reducer.Reduce(cloned(current.value), cloned(update))), true}
}

// clip cuts a slice's capacity to its length, so that a reducer that appends to
// it makes a copy and never writes behind a value that others can see.
func clip[T any](v T) T {
	if reflect.TypeFor[T]().Kind() == reflect.Slice {
		s := reflect.ValueOf(&v).Elem()
		s.SetCap(s.Len())
	}
	return v
}

// IsZero reports whether the field is unset; encoding/json's omitzero uses it.
func (r Reduced[T, R]) IsZero() bool { return !r.current().set }

// String formats the value as fmt.Sprint does.
func (r Reduced[T, R]) String() string { return fmt.Sprint(r.current().value) }

// MarshalJSON returns the JSON of the value, null when the field is unset.
func (r Reduced[T, R]) MarshalJSON() ([]byte, error) {
	if c := r.current(); c.set {
		return json.Marshal(c.value)
	}
	return []byte("null"), nil
}

// UnmarshalJSON replaces the value; null leaves the field unset.
func (r *Reduced[T, R]) UnmarshalJSON(data []byte) error {
	x, set, err := unmarshalOptional[T](data)
	if err == nil {
		*r = Reduced[T, R]{base: optional[T]{clip(x), set}}
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (r *Reduced[T, R]) Merger() field.Merger { return (*reducedMerger[T, R])(r) }

// reducedMerger is a Reduced as the engine sees it.
type reducedMerger[T any, R Reducer[T]] Reduced[T, R]

// MarshalSnapshot implements [field.Snapshotting]: a null that was set is
// {"$overwrite":null}.
func (f *reducedMerger[T, R]) MarshalSnapshot() ([]byte, error) {
	r := (*Reduced[T, R])(f)
	return marshalOptional(r, !r.IsZero())
}

// UnmarshalSnapshot implements [field.Snapshotting].
func (f *reducedMerger[T, R]) UnmarshalSnapshot(data []byte) error {
	x, set, err := unmarshalSnapshot[T](data)
	if err == nil {
		*f = reducedMerger[T, R]{base: optional[T]{clip(x), set}}
	}
	return err
}

// Bind implements [field.Merger].
func (f *reducedMerger[T, R]) Bind() {
	if f.dirty {
		*f = reducedMerger[T, R]{base: f.view}
	}
	f.stamp.bind()
}

// Change implements [field.Merger].
func (f *reducedMerger[T, R]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if !f.dirty {
		return nil, nil
	}
	if err := finite(f.pend...); err != nil {
		return nil, err
	}
	if err := finite(f.over.value, f.view.value); err != nil {
		return nil, err
	}
	return &reducedChange[T]{over: f.over, updates: f.pend[:len(f.pend):len(f.pend)]}, nil
}

// Write implements [field.Merger].
func (f *reducedMerger[T, R]) Write(c field.Change) (err error) {
	r := (*Reduced[T, R])(f)
	rc, err := changeAs[*reducedChange[T]](c)
	if err != nil {
		return err
	}
	defer recovered(&err)
	was := *r
	defer func() {
		if err != nil {
			*r = was
		}
	}()
	if rc.over.set {
		r.Overwrite(rc.over.value)
	}
	if len(rc.updates) > 0 {
		r.addAll(rc.updates)
	}
	return nil
}

// Apply implements [field.Merger]. A reducer that panics is an error and leaves
// the value as it was.
func (f *reducedMerger[T, R]) Apply(c field.Change) (err error) {
	r := (*Reduced[T, R])(f)
	rc, err := changeAs[*reducedChange[T]](c)
	if err != nil {
		return err
	}
	defer recovered(&err)
	value := r.current()
	if rc.over.set {
		value = rc.over
	}
	for _, u := range rc.updates {
		value = reduce[T, R](value, u)
	}
	if err := finite(value.value); err != nil {
		return err
	}
	*r = Reduced[T, R]{base: value}
	return nil
}

// recovered turns a reducer's panic into an error.
func recovered(err *error) {
	switch p := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("reducer panicked: %w", p)
	default:
		*err = fmt.Errorf("reducer panicked: %v", p)
	}
}

// DecodeChange implements [field.Merger]. It takes one update, or an object
// with "$overwrite", the new value, or "$updates", an array of updates, or both.
func (*reducedMerger[T, R]) DecodeChange(data []byte) (field.Change, error) {
	c := new(reducedChange[T])
	ops, ok := operations(data, opOverwrite, opUpdates)
	if !ok {
		c.updates = make([]T, 1)
		if err := json.Unmarshal(data, &c.updates[0]); err != nil {
			return nil, err
		}
		return c, nil
	}
	if over, ok := ops[opOverwrite]; ok {
		c.over.set = true
		if err := json.Unmarshal(over, &c.over.value); err != nil {
			return nil, err
		}
		c.over.value = clip(c.over.value)
	}
	if updates, ok := ops[opUpdates]; ok {
		if err := json.Unmarshal(updates, &c.updates); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Check implements [field.Checker]: only overwrites can conflict.
func (*reducedMerger[T, R]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkOverwrites(cs,
		func(c *reducedChange[T]) bool { return c.over.set },
		func(a, b *reducedChange[T]) bool {
			return equal(a.over.value, b.over.value) && equalSlices(a.updates, b.updates)
		})
}

// SchemaOf implements [field.Schemer].
func (*reducedMerger[T, R]) SchemaOf() any { return zeroOf[T]() }

// Hash implements [state.Hashing].
func (f *reducedMerger[T, R]) Hash() (h uint64, ok bool) {
	switch {
	case !scalar[T]():
		return 0, false
	case !f.base.set:
		return 0, true
	}
	return hashScalar(&f.base.value), true
}

// Keeps implements [field.Keeping], for values that have no hash: updates are taken to
// change them.
func (f *reducedMerger[T, R]) Keeps(c field.Change) bool {
	rc, ok := c.(*reducedChange[T])
	return ok && f.base.set && len(rc.updates) == 0 && equal(rc.over.value, f.base.value)
}

type reducedChange[T any] struct {
	over    optional[T]
	updates []T
}

func (c *reducedChange[T]) MarshalJSON() ([]byte, error) {
	if err := encodable(c.updates...); err != nil {
		return nil, err
	}
	if err := encodable(c.over.value); err != nil {
		return nil, err
	}
	if !c.over.set && len(c.updates) == 1 {
		data, err := json.Marshal(c.updates[0])
		if err != nil {
			return nil, err
		}
		if _, ok := operations(data, opOverwrite, opUpdates); !ok {
			return data, nil
		}
	}
	var o jsonobject.Writer
	if c.over.set {
		data, err := json.Marshal(c.over.value)
		if err != nil {
			return nil, err
		}
		o.Member(opOverwrite, data)
	}
	if len(c.updates) > 0 || !c.over.set {
		data, err := marshalArray(c.updates)
		if err != nil {
			return nil, err
		}
		o.Member(opUpdates, data)
	}
	return o.Close(), nil
}
