package graph

import (
	"cmp"
	"encoding/json"

	"github.com/superstep-dev/superstep/field"
)

// Ephemeral is a state field whose value lives for one superstep: what is set in
// one can be read in the next and is gone after that. Use it to hand a value to
// whoever runs next without leaving it in the state.
//
// When two tasks of one superstep set it to different values, the superstep
// fails with an error that names both. What is set is frozen as in a [Value].
//
// The zero Ephemeral is unset and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type Ephemeral[T any] struct {
	m stepping[momentMerger[T], *momentMerger[T]]
}

// Get returns the value that was set in the superstep before or earlier by this
// task, and the zero T when there is none.
func (e *Ephemeral[T]) Get() T { return e.now().Get() }

// Has reports whether there is a value.
func (e *Ephemeral[T]) Has() bool { return e.m.now.has() }

// Set sets the value.
func (e *Ephemeral[T]) Set(x T) { e.now().Set(x) }

// now returns the value and what the task has set, as a Value.
func (e *Ephemeral[T]) now() *Value[T] { return (*Value[T])(&e.m.now.valueMerger) }

// IsZero reports whether there is no value; encoding/json's omitzero uses it.
func (e Ephemeral[T]) IsZero() bool { return e.m.none() }

// String formats the value as fmt.Sprint does.
func (e Ephemeral[T]) String() string { return e.now().String() }

// MarshalJSON returns the JSON of the value, null when there is none.
func (e Ephemeral[T]) MarshalJSON() ([]byte, error) {
	if !e.Has() {
		return []byte("null"), nil
	}
	return e.now().MarshalJSON()
}

// UnmarshalJSON replaces the value; null leaves none.
func (e *Ephemeral[T]) UnmarshalJSON(data []byte) error {
	var read Ephemeral[T]
	var err error
	if string(data) != "null" {
		err = read.now().UnmarshalJSON(data)
	}
	if err == nil {
		*e = read
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (e *Ephemeral[T]) Merger() field.Merger { return &e.m }

// momentMerger is a Value that ends with the superstep.
type momentMerger[T any] struct{ valueMerger[T] }

func (f *momentMerger[T]) has() bool { return f.base != nil || f.pend != nil }

func (f *momentMerger[T]) whole() field.Change { return cmp.Or(f.pend, f.base) }

// Change implements [field.Merger]. Setting the value that the field has is a
// change, since that value ends with the superstep.
func (f *momentMerger[T]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if f.pend == nil {
		return nil, nil
	}
	return f.pend, finite(f.pend.value)
}

// stepping is a field as the engine sees it whose value lives for one superstep, of one
// that keeps it. The value is now, and next what comes of what tasks of the open superstep
// wrote.
type stepping[F any, P stepped[F]] struct {
	now, next F
	coming    run[field.Change] // what they wrote, from the last that replaces the value on
}

// stepped is a pointer to a field that keeps its value.
type stepped[F any] interface {
	*F
	field.Checker
	field.Schemer
	has() bool
	whole() field.Change // that makes the value of none
}

func (f *stepping[F, P]) none() bool { return !P(&f.now).has() && !P(&f.next).has() }

// MarshalSnapshot implements [field.Snapshotting]: of a value alone what makes it, and with
// what makes the one to come, or where it would be read as something else, an object.
func (f *stepping[F, P]) MarshalSnapshot() (now []byte, err error) {
	has, ops := P(&f.now).has(), map[string]any{}
	if now = []byte("null"); has {
		now, err = json.Marshal(P(&f.now).whole())
		ops[opNow] = json.RawMessage(now)
	}
	if len(f.coming.items) > 0 {
		ops[opNext] = f.coming.items
	} else if _, other := operations(now, opNow, opNext); err != nil || !other && has == (string(now) != "null") {
		return now, err
	}
	return json.Marshal(ops)
}

// UnmarshalSnapshot implements [field.Snapshotting].
func (f *stepping[F, P]) UnmarshalSnapshot(data []byte) error {
	ops, ok := operations(data, opNow, opNext)
	if !ok && string(data) != "null" {
		ops = map[string]json.RawMessage{opNow: data}
	}
	var read stepping[F, P]
	var coming []json.RawMessage
	var err error
	if now := ops[opNow]; now != nil {
		err = restore(P(&read.now), now)
	}
	if next := ops[opNext]; next != nil && err == nil {
		err = json.Unmarshal(next, &coming)
	}
	for i := 0; i < len(coming) && err == nil; i++ {
		err = restore(&read, coming[i])
	}
	if err == nil {
		*f = read
	}
	return err
}

// restore applies a change in JSON.
func restore(f field.Merger, data []byte) error {
	c, err := f.DecodeChange(data)
	if err == nil {
		err = f.Apply(c)
	}
	return err
}

// Bind implements [field.Merger].
func (f *stepping[F, P]) Bind() {
	if len(f.coming.items) > 0 {
		*f = stepping[F, P]{now: f.now}
	}
	P(&f.now).Bind()
}

// Change implements [field.Merger].
func (f *stepping[F, P]) Change() (field.Change, error) { return P(&f.now).Change() }

// Write implements [field.Merger].
func (f *stepping[F, P]) Write(c field.Change) error { return P(&f.now).Write(c) }

// Apply implements [field.Merger]. An error leaves the value as it was.
func (f *stepping[F, P]) Apply(c field.Change) error {
	err := P(&f.next).Apply(c)
	if err == nil && P(&f.next).has() { // or else there were no updates in it
		if overwrites(c) {
			f.coming = run[field.Change]{}
		}
		f.coming.append([]field.Change{c})
	}
	return err
}

// Give implements [field.Stepped].
func (f *stepping[F, P]) Give(c field.Change) error {
	err := P(&f.now).Apply(c)
	if err == nil && overwrites(c) {
		*f = stepping[F, P]{now: f.now}
	}
	return err
}

// EndStep implements [field.Stepped].
func (f *stepping[F, P]) EndStep() bool {
	was := !f.none()
	*f = stepping[F, P]{now: f.next}
	return was
}

// Ahead implements [field.Stepped].
func (f *stepping[F, P]) Ahead() {
	ahead := f.now
	for _, c := range f.coming.items {
		if P(&ahead).Apply(c) != nil { // what is to come stands alone
			ahead = f.next
			break
		}
	}
	*f = stepping[F, P]{now: ahead}
}

// DecodeChange implements [field.Merger].
func (f *stepping[F, P]) DecodeChange(data []byte) (field.Change, error) {
	return P(&f.now).DecodeChange(data)
}

// Check implements [field.Checker].
func (f *stepping[F, P]) Check(cs []field.Change) (later, earlier int, err error) {
	return P(&f.now).Check(cs)
}

// Infallible implements [field.Infallible].
func (f *stepping[F, P]) Infallible() bool {
	i, ok := any(P(&f.now)).(field.Infallible)
	return ok && i.Infallible()
}

// SchemaOf implements [field.Schemer].
func (f *stepping[F, P]) SchemaOf() any { return P(&f.now).SchemaOf() }
