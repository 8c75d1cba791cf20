package graph

import (
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
	m ephemeralMerger[T]
}

// Get returns the value that was set in the superstep before or earlier by this
// task, and the zero T when there is none.
func (e *Ephemeral[T]) Get() T { return e.m.now().Get() }

// Has reports whether there is a value.
func (e *Ephemeral[T]) Has() bool { return e.m.has() }

// Set sets the value.
func (e *Ephemeral[T]) Set(x T) { e.m.now().Set(x) }

// IsZero reports whether there is no value; encoding/json's omitzero uses it.
func (e Ephemeral[T]) IsZero() bool { return !e.m.has() && e.m.next == nil }

// String formats the value as fmt.Sprint does.
func (e Ephemeral[T]) String() string { return e.m.now().String() }

// MarshalJSON returns the JSON of the value, null when there is none.
func (e Ephemeral[T]) MarshalJSON() ([]byte, error) {
	if !e.Has() {
		return []byte("null"), nil
	}
	return e.m.now().MarshalJSON()
}

// UnmarshalJSON replaces the value; null leaves none.
func (e *Ephemeral[T]) UnmarshalJSON(data []byte) error {
	x, has, err := unmarshalOptional[T](data)
	if err != nil {
		return err
	}
	if *e = (Ephemeral[T]{}); has {
		e.m.base = &valueChange[T]{x}
	}
	return nil
}

// Merger implements [field.Merging], for the engine.
func (e *Ephemeral[T]) Merger() field.Merger { return &e.m }

// ephemeralMerger is an Ephemeral as the engine sees it.
type ephemeralMerger[T any] struct {
	valueMerger[T]
	next *valueChange[T] // what tasks of the open superstep have set that are folded already
}

func (f *ephemeralMerger[T]) has() bool { return f.base != nil || f.pend != nil }

// now returns the value and what the task has set, as a Value.
func (f *ephemeralMerger[T]) now() *Value[T] { return (*Value[T])(&f.valueMerger) }

// MarshalSnapshot implements [field.Snapshotting]: a null that was set is
// {"$overwrite":null}, and what is to come is the member "$next", beside the value as
// "$overwrite".
func (f *ephemeralMerger[T]) MarshalSnapshot() ([]byte, error) {
	if f.next == nil {
		return marshalOptional(&Ephemeral[T]{*f}, f.has())
	}
	ops := map[string]any{opNext: f.next.value}
	if f.has() {
		ops[opOverwrite] = f.now().value()
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
			read.base = new(valueChange[T])
			err = json.Unmarshal(value, &read.base.value)
		}
	} else {
		var x T
		var has bool
		if x, has, err = unmarshalSnapshot[T](data); has {
			read.base = &valueChange[T]{x}
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
	f.next = nil
	f.valueMerger.Bind()
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
		*f = ephemeralMerger[T]{valueMerger: valueMerger[T]{base: vc}}
	}
	return err
}

// EndStep implements [field.Stepped].
func (f *ephemeralMerger[T]) EndStep() bool {
	was := f.has() || f.next != nil
	*f = ephemeralMerger[T]{valueMerger: valueMerger[T]{base: f.next}}
	return was
}

// Ahead implements [field.Stepped].
func (f *ephemeralMerger[T]) Ahead() {
	if f.next != nil {
		f.EndStep()
	}
}

// AppendJSON appends what MarshalSnapshot returns: that of a Value would not do.
func (f *ephemeralMerger[T]) AppendJSON(b []byte) ([]byte, error) {
	data, err := f.MarshalSnapshot()
	return append(b, data...), err
}

// Replaces implements [state.Replacing]: a change replaces what is to come.
func (*ephemeralMerger[T]) Replaces() bool { return false }
