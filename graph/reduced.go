package graph

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/field"
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
	value optional[T] // with what is pending folded in
	over  bool        // the first that is pending has replaced it
	pend  []T         // updates; only ever appended to
}

type optional[T any] struct {
	value T
	set   bool
}

// Add folds update into the value.
func (r *Reduced[T, R]) Add(update T) {
	r.write(false, cloned(update))
}

// write adds updates to the value or, if over is set, to none.
func (r *Reduced[T, R]) write(over bool, updates ...T) {
	value := r.folded(over, updates) // may panic: nothing is altered yet
	own := r.stamp.own()
	if over {
		r.over, r.pend = true, nil
	} else if !own {
		r.pend = r.pend[:len(r.pend):len(r.pend)] // so that append makes a copy
	}
	r.pend = append(r.pend, updates...)
	r.value = value
}

// folded returns what updates make of the value or, if over is set, of none.
func (r *Reduced[T, R]) folded(over bool, updates []T) optional[T] {
	value := r.value
	if over {
		value = optional[T]{}
	}
	for _, u := range updates {
		value = reduce[T, R](value, u)
	}
	return value
}

// Get returns the value, the zero T when the field is unset.
func (r *Reduced[T, R]) Get() T { return cloned(r.value.value) }

// Overwrite replaces the value by x without calling the reducer.
func (r *Reduced[T, R]) Overwrite(x T) {
	r.write(true, cloned(x))
}

func reduce[T any, R Reducer[T]](current optional[T], update T) optional[T] {
	if !current.set {
		return optional[T]{update, true}
	}
	var reducer R
	return optional[T]{reducer.Reduce(cloned(current.value), cloned(update)), true}
}

// IsZero reports whether the field is unset; encoding/json's omitzero uses it.
func (r Reduced[T, R]) IsZero() bool { return !r.value.set }

// String formats the value as fmt.Sprint does.
func (r Reduced[T, R]) String() string { return fmt.Sprint(r.value.value) }

// MarshalJSON returns the JSON of the value, null when the field is unset.
func (r Reduced[T, R]) MarshalJSON() ([]byte, error) {
	if r.value.set {
		return json.Marshal(r.value.value)
	}
	return []byte("null"), nil
}

// UnmarshalJSON replaces the value; null leaves the field unset.
func (r *Reduced[T, R]) UnmarshalJSON(data []byte) error {
	x, err := unmarshalOptional[T](data)
	if err == nil {
		*r = Reduced[T, R]{value: x}
	}
	return err
}

// unmarshalOptional reads a value; null is none.
func unmarshalOptional[T any](data []byte) (x optional[T], err error) {
	if string(data) != "null" {
		x.set, err = true, json.Unmarshal(data, &x.value)
	}
	return x, err
}

// Merger implements [field.Merging], for the engine.
func (r *Reduced[T, R]) Merger() field.Merger { return (*reducedMerger[T, R])(r) }

// reducedMerger is a Reduced as the engine sees it.
type reducedMerger[T any, R Reducer[T]] Reduced[T, R]

func (f *reducedMerger[T, R]) has() bool { return f.value.set }

func (f *reducedMerger[T, R]) whole() field.Change {
	return &reducedChange[T]{updates: []T{f.value.value}}
}

// MarshalSnapshot implements [field.Snapshotting]: a null that was set differs from none.
func (f *reducedMerger[T, R]) MarshalSnapshot() ([]byte, error) {
	if !f.has() {
		return []byte("null"), nil
	}
	data, err := json.Marshal(f.whole())
	if string(data) == "null" {
		data, err = json.Marshal(&reducedChange[T]{over: true, updates: []T{f.value.value}})
	}
	return data, err
}

// UnmarshalSnapshot implements [field.Snapshotting].
func (f *reducedMerger[T, R]) UnmarshalSnapshot(data []byte) error {
	var read reducedMerger[T, R]
	var err error
	if string(data) != "null" {
		err = restore(&read, data)
	}
	if err == nil {
		*f = read
	}
	return err
}

// Bind implements [field.Merger].
func (f *reducedMerger[T, R]) Bind() {
	f.over, f.pend = false, nil
	f.stamp.bind()
}

// Change implements [field.Merger].
func (f *reducedMerger[T, R]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if len(f.pend) == 0 {
		return nil, nil
	}
	if err := finite(f.pend...); err != nil {
		return nil, err
	}
	if err := finite(f.value.value); err != nil {
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
	if len(rc.updates) > 0 {
		r.write(rc.over, rc.updates...)
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
	value := r.folded(rc.over, rc.updates)
	if err := finite(value.value); err != nil {
		return err
	}
	*r = Reduced[T, R]{value: value}
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
	if updates, ok := ops[opUpdates]; ok {
		if err := json.Unmarshal(updates, &c.updates); err != nil {
			return nil, err
		}
	}
	if over, ok := ops[opOverwrite]; ok {
		var x T
		if err := json.Unmarshal(over, &x); err != nil {
			return nil, err
		}
		c.over, c.updates = true, slices.Insert(c.updates, 0, x)
	}
	return c, nil
}

// Check implements [field.Checker]: only overwrites can conflict.
func (*reducedMerger[T, R]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkOverwrites(cs)
}

// SchemaOf implements [field.Schemer].
func (*reducedMerger[T, R]) SchemaOf() any { return zeroOf[T]() }

// Hash implements [state.Hashing].
func (f *reducedMerger[T, R]) Hash() (h uint64, ok bool) {
	switch {
	case !scalar[T]():
		return 0, false
	case !f.value.set:
		return 0, true
	}
	return hashScalar(&f.value.value), true
}

// Keeps implements [field.Keeping], for values that have no hash: updates are taken to
// change them.
func (f *reducedMerger[T, R]) Keeps(c field.Change) bool {
	rc, ok := c.(*reducedChange[T])
	return ok && rc.over && f.value.set && len(rc.updates) == 1 && equal(rc.updates[0], f.value.value)
}

// reducedChange is updates of the value or, if over is set, of none, which is what the
// first of them replaces.
type reducedChange[T any] struct {
	over    bool
	updates []T
}

func (c *reducedChange[T]) overwrites() bool { return c.over }

func (c *reducedChange[T]) equals(o field.Change) bool {
	return equalSlices(c.updates, o.(*reducedChange[T]).updates)
}

func (c *reducedChange[T]) MarshalJSON() ([]byte, error) {
	if err := encodable(c.updates...); err != nil {
		return nil, err
	}
	updates := c.updates
	if !c.over && len(updates) == 1 {
		data, err := json.Marshal(updates[0])
		if _, ok := operations(data, opOverwrite, opUpdates); err != nil || !ok {
			return data, err
		}
	}
	ops := map[string]any{}
	if c.over {
		ops[opOverwrite], updates = updates[0], updates[1:]
	}
	if len(updates) > 0 || !c.over {
		ops[opUpdates] = append([]T{}, updates...) // never null
	}
	return json.Marshal(ops)
}
