package graph

import "github.com/superstep-dev/superstep/field"

// MergeEphemeral is an [Ephemeral] that several tasks of a superstep may add to: what
// they add is folded with a reducer, in plan order, and the result can be read in the next
// superstep and is gone after that. So tasks that run at once hand something to whoever
// comes next:
//
//	type all struct{}
//
//	func (all) Reduce(current, update []string) []string { return append(current, update...) }
//
//	type State struct {
//		Found graph.MergeEphemeral[[]string, all]
//	}
//
// The first update is stored as it is; an overwrite replaces what stands before it in plan
// order, as in a [Reduced]. What a task reads of its own updates is provisional: they are
// folded into what it can read, but the next superstep can read updates alone. So does the
// state of a thread whose superstep is open. An input or an edit adds to what can be
// read now.
//
// The zero MergeEphemeral is unset and ready to use. Like all field types it may be
// copied, and is used by one goroutine at a time.
type MergeEphemeral[T any, R Reducer[T]] struct {
	m stepping[reducedMerger[T, R], *reducedMerger[T, R]]
}

// now returns the value and what the task has added, as a Reduced.
func (e *MergeEphemeral[T, R]) now() *Reduced[T, R] { return (*Reduced[T, R])(&e.m.now) }

// Add folds update into what the next superstep can read.
func (e *MergeEphemeral[T, R]) Add(update T) { e.now().Add(update) }

// Overwrite replaces what the next superstep can read.
func (e *MergeEphemeral[T, R]) Overwrite(x T) { e.now().Overwrite(x) }

// Get returns what was added in the superstep before, with what this task has added; the
// zero T when there is nothing.
func (e *MergeEphemeral[T, R]) Get() T { return e.now().Get() }

// Has reports whether there is a value.
func (e *MergeEphemeral[T, R]) Has() bool { return e.m.now.has() }

// IsZero reports whether there is no value; encoding/json's omitzero uses it.
func (e MergeEphemeral[T, R]) IsZero() bool { return e.m.none() }

// String formats the value as fmt.Sprint does.
func (e MergeEphemeral[T, R]) String() string { return e.now().String() }

// MarshalJSON returns the JSON of the value, null when there is none.
func (e MergeEphemeral[T, R]) MarshalJSON() ([]byte, error) { return e.now().MarshalJSON() }

// UnmarshalJSON replaces the value; null leaves none.
func (e *MergeEphemeral[T, R]) UnmarshalJSON(data []byte) error {
	var read MergeEphemeral[T, R]
	err := read.now().UnmarshalJSON(data)
	if err == nil {
		*e = read
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (e *MergeEphemeral[T, R]) Merger() field.Merger { return &e.m }
