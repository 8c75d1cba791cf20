package graph

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/field"
)

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
	now  Reduced[T, R]
	next reducedChange[T] // what tasks of the open superstep have added that are folded already
	sum  optional[T]      // what comes of it; set if there is any
}

// Add folds update into what the next superstep can read.
func (e *MergeEphemeral[T, R]) Add(update T) { e.now.Add(update) }

// Overwrite replaces what the next superstep can read.
func (e *MergeEphemeral[T, R]) Overwrite(x T) { e.now.Overwrite(x) }

// Get returns what was added in the superstep before, with what this task has added; the
// zero T when there is nothing.
func (e *MergeEphemeral[T, R]) Get() T { return e.now.Get() }

// Has reports whether there is a value.
func (e *MergeEphemeral[T, R]) Has() bool { return !e.now.IsZero() }

// IsZero reports whether there is no value; encoding/json's omitzero uses it.
func (e MergeEphemeral[T, R]) IsZero() bool { return e.now.IsZero() && !e.sum.set }

// String formats the value as fmt.Sprint does.
func (e MergeEphemeral[T, R]) String() string { return e.now.String() }

// MarshalJSON returns the JSON of the value, null when there is none.
func (e MergeEphemeral[T, R]) MarshalJSON() ([]byte, error) { return e.now.MarshalJSON() }

// UnmarshalJSON replaces the value; null leaves none.
func (e *MergeEphemeral[T, R]) UnmarshalJSON(data []byte) error {
	var read MergeEphemeral[T, R]
	err := read.now.UnmarshalJSON(data)
	if err == nil {
		*e = read
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (e *MergeEphemeral[T, R]) Merger() field.Merger { return (*mergeEphemeralMerger[T, R])(e) }

// mergeEphemeralMerger is a MergeEphemeral as the engine sees it: to a task it is a
// Reduced.
type mergeEphemeralMerger[T any, R Reducer[T]] MergeEphemeral[T, R]

func (f *mergeEphemeralMerger[T, R]) reduced() *reducedMerger[T, R] {
	return (*reducedMerger[T, R])(&f.now)
}

// MarshalSnapshot implements [field.Snapshotting]: what was added to the value to come is
// the member "$next", beside the value as "$overwrite".
func (f *mergeEphemeralMerger[T, R]) MarshalSnapshot() ([]byte, error) {
	if !f.sum.set {
		return marshalOptional(&f.now, !f.now.IsZero())
	}
	ops := map[string]any{opNext: &f.next}
	if !f.now.IsZero() {
		ops[opOverwrite] = f.now.current().value
	}
	return json.Marshal(ops)
}

// UnmarshalSnapshot implements [field.Snapshotting].
func (f *mergeEphemeralMerger[T, R]) UnmarshalSnapshot(data []byte) error {
	var read mergeEphemeralMerger[T, R]
	ops, ok := operations(data, opOverwrite, opNext)
	if !ok || ops[opNext] == nil {
		err := read.reduced().UnmarshalSnapshot(data)
		if err == nil {
			*f = read
		}
		return err
	}
	next, err := read.DecodeChange(ops[opNext])
	if err == nil {
		err = read.Apply(next)
	}
	if value := ops[opOverwrite]; value != nil && err == nil {
		read.now.base.set, err = true, json.Unmarshal(value, &read.now.base.value)
	}
	if err == nil {
		*f = read
	}
	return err
}

// Bind implements [field.Merger].
func (f *mergeEphemeralMerger[T, R]) Bind() {
	f.next, f.sum = reducedChange[T]{}, optional[T]{}
	f.reduced().Bind()
}

// Change implements [field.Merger].
func (f *mergeEphemeralMerger[T, R]) Change() (field.Change, error) { return f.reduced().Change() }

// Write implements [field.Merger].
func (f *mergeEphemeralMerger[T, R]) Write(c field.Change) error { return f.reduced().Write(c) }

// Apply implements [field.Merger]. A reducer that panics is an error and leaves
// the value as it was.
func (f *mergeEphemeralMerger[T, R]) Apply(c field.Change) error {
	rc, err := changeAs[*reducedChange[T]](c)
	if err != nil || len(rc.updates) == 0 {
		return err
	}
	sum := reducedMerger[T, R]{base: f.sum}
	if err := sum.Apply(rc); err != nil {
		return err
	}
	if f.sum = sum.base; rc.over {
		f.next = *rc
	} else { // those before it may be another copy's too
		before := f.next.updates
		f.next.updates = append(before[:len(before):len(before)], rc.updates...)
	}
	return nil
}

// Give implements [field.Stepped].
func (f *mergeEphemeralMerger[T, R]) Give(c field.Change) error {
	rc, err := changeAs[*reducedChange[T]](c)
	if err == nil {
		err = f.reduced().Apply(rc)
	}
	if err == nil && rc.over {
		f.next, f.sum = reducedChange[T]{}, optional[T]{}
	}
	return err
}

// EndStep implements [field.Stepped].
func (f *mergeEphemeralMerger[T, R]) EndStep() bool {
	was := !(*MergeEphemeral[T, R])(f).IsZero()
	if was {
		*f = mergeEphemeralMerger[T, R]{now: Reduced[T, R]{base: f.sum}}
	}
	return was
}

// Ahead implements [field.Stepped].
func (f *mergeEphemeralMerger[T, R]) Ahead() {
	if !f.sum.set {
		return
	}
	ahead := f.now
	if (*reducedMerger[T, R])(&ahead).Apply(&f.next) != nil { // what is to come stands alone
		ahead = Reduced[T, R]{base: f.sum}
	}
	*f = mergeEphemeralMerger[T, R]{now: ahead}
}

// DecodeChange implements [field.Merger], as Reduced does.
func (f *mergeEphemeralMerger[T, R]) DecodeChange(data []byte) (field.Change, error) {
	return f.reduced().DecodeChange(data)
}

// Check implements [field.Checker]: only overwrites can conflict.
func (f *mergeEphemeralMerger[T, R]) Check(cs []field.Change) (later, earlier int, err error) {
	return f.reduced().Check(cs)
}

// SchemaOf implements [field.Schemer].
func (*mergeEphemeralMerger[T, R]) SchemaOf() any { return zeroOf[T]() }
