package graph

import (
	"cmp"
	"encoding/json"
	"fmt"

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
	stamp stamp
	now   *valueChange[T] // nil: there is none
	pend  *valueChange[T] // set since Bind
	next  *valueChange[T] // what tasks of the open superstep have set that are folded already
}

// Get returns the value that was set in the superstep before or earlier by this
// task, and the zero T when there is none.
func (e *Ephemeral[T]) Get() T { return cloned(e.value()) }

// Has reports whether there is a value.
func (e *Ephemeral[T]) Has() bool { return e.now != nil || e.pend != nil }

// Set sets the value.
func (e *Ephemeral[T]) Set(x T) {
	e.stamp.own()
	e.pend = &valueChange[T]{cloned(x)}
}

func (e *Ephemeral[T]) value() T { return cmp.Or(e.pend, e.now).get() }

// IsZero reports whether there is no value; encoding/json's omitzero uses it.
func (e Ephemeral[T]) IsZero() bool { return !e.Has() && e.next == nil }

// String formats the value as fmt.Sprint does.
func (e Ephemeral[T]) String() string { return fmt.Sprint(e.value()) }

// MarshalJSON returns the JSON of the value, null when there is none.
func (e Ephemeral[T]) MarshalJSON() ([]byte, error) {
	if !e.Has() {
		return []byte("null"), nil
	}
	return json.Marshal(e.value())
}

// UnmarshalJSON replaces the value; null leaves none.
func (e *Ephemeral[T]) UnmarshalJSON(data []byte) error {
	x, has, err := unmarshalOptional[T](data)
	if err != nil {
		return err
	}
	if *e = (Ephemeral[T]{}); has {
		e.now = &valueChange[T]{x}
	}
	return nil
}

// Merger implements [field.Merging], for the engine.
func (e *Ephemeral[T]) Merger() field.Merger { return (*ephemeralMerger[T])(e) }

// ephemeralMerger is an Ephemeral as the engine sees it.
type ephemeralMerger[T any] Ephemeral[T]

// MarshalSnapshot implements [field.Snapshotting]: a null that was set is
// {"$overwrite":null}, and what is to come is the member "$next", beside the value as
// "$overwrite".
func (f *ephemeralMerger[T]) MarshalSnapshot() ([]byte, error) {
	e := (*Ephemeral[T])(f)
	if e.next == nil {
		return marshalOptional(e, e.Has())
	}
	ops := map[string]any{opNext: e.next.value}
	if e.Has() {
		ops[opOverwrite] = e.value()
	}
	return json.Marshal(ops)
}

// UnmarshalSnapshot implements [field.Snapshotting].
func (f *ephemeralMerger[T]) UnmarshalSnapshot(data []byte) (err error) {
	var read ephemeralMerger[T]
	if ops, ok := operations(data, opOverwrite, opNext); ok && ops[opNext] != nil {
		read.next = new(valueChange[T])
		err = json.Unmarshal(ops[opNext], &read.next.value)
		if value := ops[opOverwrite]; value != nil && err == nil {
			read.now = new(valueChange[T])
			err = json.Unmarshal(value, &read.now.value)
		}
	} else {
		var x T
		var has bool
		if x, has, err = unmarshalSnapshot[T](data); has {
			read.now = &valueChange[T]{x}
		}
	}
	if err == nil {
		*f = read
	}
	return err
}

func unmarshalOptional[T any](data []byte) (x T, has bool, err error) {
	if string(data) == "null" {
		return x, false, nil
	}
	err = json.Unmarshal(data, &x)
	return x, err == nil, err
}

// marshalOptional returns the JSON of a field in a snapshot. That of a null that is
// set is wrapped in an overwrite, and so is what reads like that, or like an Ephemeral
// with a value to come.
func marshalOptional(field json.Marshaler, set bool) ([]byte, error) {
	data, err := json.Marshal(field)
	if err == nil && set && reserved(data) {
		return json.Marshal(map[string]json.RawMessage{opOverwrite: data})
	}
	return data, err
}

// unmarshalSnapshot is unmarshalOptional for what marshalOptional returned.
func unmarshalSnapshot[T any](data []byte) (x T, has bool, err error) {
	if ops, ok := operations(data, opOverwrite); ok && reserved(ops[opOverwrite]) {
		err = json.Unmarshal(ops[opOverwrite], &x)
		return x, err == nil, err
	}
	return unmarshalOptional[T](data)
}

// reserved reports whether data is null or has a value to come, wrapped in any number
// of overwrites.
func reserved(data []byte) bool {
	for {
		ops, ok := operations(data, opOverwrite, opNext)
		switch {
		case !ok:
			return string(data) == "null"
		case ops[opNext] != nil:
			return true
		}
		data = ops[opOverwrite]
	}
}

// Bind implements [field.Merger].
func (f *ephemeralMerger[T]) Bind() {
	f.now, f.pend, f.next = cmp.Or(f.pend, f.now), nil, nil
	f.stamp.bind()
}

// Change implements [field.Merger]. Setting the value that the field has is a
// change, since that value ends with the superstep.
func (f *ephemeralMerger[T]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if f.pend == nil {
		return nil, nil
	}
	if err := finite(f.pend.value); err != nil {
		return nil, err
	}
	return f.pend, nil
}

// Write implements [field.Merger].
func (f *ephemeralMerger[T]) Write(c field.Change) error {
	e := (*Ephemeral[T])(f)
	vc, err := changeAs[*valueChange[T]](c)
	if err == nil {
		e.Set(vc.value)
	}
	return err
}

// Apply implements [field.Merger].
func (f *ephemeralMerger[T]) Apply(c field.Change) error {
	vc, err := changeAs[*valueChange[T]](c)
	if err == nil {
		f.next = vc
	}
	return err
}

// Give implements [field.Stepped].
func (f *ephemeralMerger[T]) Give(c field.Change) error {
	vc, err := changeAs[*valueChange[T]](c)
	if err == nil {
		*f = ephemeralMerger[T]{now: vc}
	}
	return err
}

// EndStep implements [field.Stepped].
func (f *ephemeralMerger[T]) EndStep() bool {
	e := (*Ephemeral[T])(f)
	if e.IsZero() {
		return false
	}
	*e = Ephemeral[T]{now: e.next}
	return true
}

// Ahead implements [field.Stepped].
func (f *ephemeralMerger[T]) Ahead() {
	if f.next != nil {
		*f = ephemeralMerger[T]{now: f.next}
	}
}

// DecodeChange implements [field.Merger].
func (*ephemeralMerger[T]) DecodeChange(data []byte) (field.Change, error) {
	return decodeValueChange[T](data)
}

// Check implements [field.Checker].
func (*ephemeralMerger[T]) Check(cs []field.Change) (later, earlier int, err error) {
	return checkValues[T](cs)
}

// Infallible implements [field.Infallible].
func (*ephemeralMerger[T]) Infallible() bool { return true }

// SchemaOf implements [field.Schemer].
func (*ephemeralMerger[T]) SchemaOf() any { return zeroOf[T]() }
