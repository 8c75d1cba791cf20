// Package field is the contract between the engine and a merging field of a
// state: a field whose type carries its own reducer, such as graph.List or
// chat.History.
//
// A merging field type F is a struct with a true zero value. Its methods are what
// a node reads and writes with, and few more: F itself implements json.Marshaler
// with a value receiver, and *F implements [Merging]. All that only the engine
// calls is on a second type with the same memory, the [Merger]:
//
//	type Max struct{ base, pend int }
//
//	func (m *Max) Merger() field.Merger { return (*maxMerger)(m) }
//
//	type maxMerger Max
//
//	func (m *maxMerger) Bind() { ... }
//
// The life of a field: the engine holds the committed state. For every task it
// copies the whole state struct and calls Bind on each merging field of the
// copy. The node reads and writes the copy. When the node has returned, the
// engine calls Change on each field to learn what was written, and at the end
// of the superstep it calls Apply on the committed state's fields with the
// changes of all tasks, in plan order. Replay decodes the recorded changes and
// calls Apply in the same order, so live and replayed state are the same fold.
package field

import (
	"encoding/json"
	"errors"
)

// ErrReplaced is returned by [Merger.Change] when the field is not the one
// that Bind was called on: it was replaced by assignment, as in
// *s = State{...} or s.Items = other.Items, so what was written to it since the
// superstep began cannot be known. Use the field's Overwrite or Set instead.
var ErrReplaced = errors.New("field was replaced by assignment; use its Overwrite or Set method")

// Merging is implemented by a pointer to a merging field type.
type Merging interface {
	// UnmarshalJSON replaces the value.
	json.Unmarshaler

	// Merger returns the receiver as the engine sees it: converted to a pointer
	// type that implements [Merger], which may be its own. The engine asks once
	// for each state type, and from then on takes the address of any field of
	// type F for such a pointer.
	Merger() Merger
}

// Merger is a merging field as the engine sees it. What more it can do, it tells by
// implementing [Growing], [Keeping], [Stepped] and the like.
//
// Bind, Change and the type's own verbs are called by one goroutine at a time.
// Several copies of one committed field are read and written at the same time,
// each by its own goroutine: a write to one copy must never touch memory that
// another copy can reach, and Apply must never alter memory that an earlier
// copy can see (it may append behind what they see, if it is the only owner of
// that space).
type Merger interface {
	// Bind marks the receiver, a field of a fresh copy of the state, as the
	// place where a task's writes are recorded. It must be cheap: it is called
	// for every merging field of every task.
	Bind()

	// Change returns what was written since Bind, or nil when nothing was. A
	// write that leaves the value as it was is no change, unless another
	// task's change could make it one: an overwrite is recorded, whatever it
	// writes, as it replaces what tasks before it in plan order add; removing
	// what isn't there may be, since another task may add it. It returns
	// ErrReplaced (or an error wrapping it) when the receiver is not the field
	// that was bound.
	Change() (Change, error)

	// Write records c in the receiver, a task's copy or an unbound value, as if
	// the type's own verbs had been called.
	Write(c Change) error

	// Apply folds c, a Change that came from this type's Change or
	// DecodeChange, into the receiver, a field of the committed state.
	Apply(c Change) error

	// DecodeChange reads the JSON form of a change (see [Change]).
	DecodeChange(data []byte) (Change, error)
}

// Change is what one task wrote to one merging field. A Change is immutable
// and does not refer to memory that the task's copy can still alter.
//
// Its JSON form is the update form that input from outside uses as well: for a
// list the items to add, for a map the keys to put, with {"$overwrite": v} to
// replace the value. Keys of a map that begin with "$" are written with one
// more "$".
type Change interface {
	json.Marshaler
}

// Stepped is implemented by the Merger of a field whose value ends with the
// superstep that could read it (graph.Ephemeral, graph.MergeEphemeral). Beside its value it holds the one to
// come: Apply, which is called with what tasks wrote, folds into that, and a copy that
// is bound is without it.
type Stepped interface {
	Merger

	// Give is Apply for what an input or an edit wrote: it is folded into the
	// value. What it replaces is what Apply has folded since the superstep began, too.
	Give(c Change) error

	// EndStep is called at each commit, after the changes are applied: the value is
	// now what they made of the one to come, if anything. It reports whether the
	// value or what was to come was there.
	EndStep() bool

	// Ahead makes the value what is to come, if there is that.
	Ahead()
}

// Unrecorded is implemented by the Merger of a field that is never stored
// (graph.Untracked): its changes are folded like all others but don't reach a
// checkpoint.
type Unrecorded interface {
	Merger

	// Unrecorded is a marker.
	Unrecorded()
}

// Growing is implemented by the Merger of a field whose changes mostly add to its
// value, such as a list of messages: a snapshot inside the log refers to the
// records that hold the additions and does not repeat them.
type Growing interface {
	Merger

	// Resets reports whether c makes all earlier changes of the field
	// irrelevant, as an overwrite does.
	Resets(c Change) bool
}

// Keeping is implemented by the Merger of a field whose changes may leave its
// value as it is. Such a change is recorded (see Change) but is no progress: a
// cycle that does nothing else is stopped by the cycle guard.
type Keeping interface {
	Merger

	// Keeps reports whether c leaves the value of the receiver, a field of the
	// committed state, as it is: an overwrite with that value, a put of what is
	// there or a removal of what isn't. It is asked for every change and must be
	// cheap: it may report false where finding out would cost much.
	Keeps(c Change) bool
}

// Snapshotting is implemented by the Merger of a field whose JSON doesn't tell all
// of its value, such as a field that tells a null that was set from no value: a
// snapshot holds it in a form of its own.
type Snapshotting interface {
	Merger

	// MarshalSnapshot returns what UnmarshalSnapshot, which replaces the value,
	// reads. It must also read what MarshalJSON returns.
	MarshalSnapshot() ([]byte, error)
	UnmarshalSnapshot(data []byte) error
}

// Schemer is implemented by the Merger of a field that describes its JSON for a
// JSON Schema: the schema of the state is then taken from the Go type of the
// returned zero value ([]T for a list of T, map[string]V for a map and so on; a
// pointer to it when it is of an interface type). A json.RawMessage that isn't empty is
// the schema itself.
type Schemer interface {
	SchemaOf() any
}

// Checker is implemented by the Merger of a field whose changes don't always merge.
type Checker interface {
	Merger

	// Check is given the changes of the tasks of one superstep to this field,
	// in plan order, at least two. It returns the index of the first one that
	// cannot follow an earlier one, the index of that one, and why; or a nil
	// error. It does not depend on the receiver's value and should take linear time.
	Check(cs []Change) (later, earlier int, err error)
}

// Infallible is implemented by the Merger of a field whose Apply cannot fail.
// Other fields are folded on a copy of the state, so that a failure leaves the
// state as it was.
type Infallible interface {
	Merger

	// Infallible reports whether Apply never fails or panics for a change
	// that came from this type.
	Infallible() bool
}
