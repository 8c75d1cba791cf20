package core

import (
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// State is a state, whose type the core doesn't know: a pointer that only Values looks
// behind. Changes are what one task, an input or an edit wrote; nil is nothing.
type (
	State   = any
	Changes = any
)

// Values is how the core handles states. The package graph makes one for each state
// type.
type Values interface {
	// New returns a zero state.
	New() State

	// Fork returns a private copy of a state, ready for a task to write to.
	// Forks of one base may be made and used by several goroutines at once.
	// What is set for the superstep to come isn't in it.
	Fork(base State) State

	// Forks returns what makes forks for one goroutine.
	Forks() Forks

	// Ahead returns the state for those who look at it from outside: what is set for
	// the superstep to come stands for what it will replace. It is base itself where
	// nothing is, else a copy.
	Ahead(base State) State

	// Changes returns what was written to fork since Fork(base) returned it,
	// nil when nothing was. The result may refer to fork's memory; reuse, if
	// not nil, is a result that is no longer needed and may be recycled.
	Changes(base, fork State, reuse Changes) (Changes, error)

	// Fold applies changes in order and returns the new state, which may be
	// base itself, altered. Each of cs is by another task of one superstep,
	// and two that conflict give a *FoldError and leave base as it was; so
	// does a reducer that panics. The number differs from 0 when the state made
	// progress: it is the difference of a digest of the state.
	Fold(base State, cs []Changes, when When) (next State, digest uint64, err error)

	// Encode returns the recorded form of changes: a JSON object, field name
	// to update form; nil when nothing of it is to be recorded.
	Encode(changes Changes) (json.RawMessage, error)

	// Growth returns which growing fields changes touch.
	Growth(changes Changes) []Growth

	// Decode reads what Encode returned. If only is not nil, fields that it
	// doesn't name are skipped; fields the state no longer has always are.
	Decode(data json.RawMessage, only []string) (Changes, error)

	// DecodeAll is Decode for changes that are folded one after the other, in this
	// order: what a later one replaces is left out of those before it.
	DecodeAll(data []json.RawMessage) ([]Changes, error)

	// Snapshot returns the recorded form of a state without its growing
	// fields, or with them if full is set. Restore reads it into a copy of base,
	// or of the zero state if that is nil: fields that data lacks stay.
	Snapshot(base State, full bool) (json.RawMessage, error)
	Restore(base State, data json.RawMessage) (State, error)

	// Unrecorded reports whether Encode leaves something of changes out.
	Unrecorded(changes Changes) bool

	// Current reports whether what that version of the program recorded is what this
	// one would have.
	Current(version int) bool

	// Upgrade turns recorded changes, or the values of a snapshot, of a version that is
	// not Current into what this one would have recorded.
	Upgrade(version int, data json.RawMessage) (json.RawMessage, error)
}

// Forks makes forks for one goroutine, with room for several at a time.
type Forks interface {
	// Fork is that of Values.
	Fork(base State) State

	// Look is Fork for a state that nobody keeps: the next Look overwrites it.
	Look(base State) State
}

// Growth says that changes touch a growing field. Reset is set when they make
// all its earlier changes irrelevant.
type Growth struct {
	Field string
	Reset bool
}

// FoldError is returned by Values.Fold.
type FoldError struct {
	Field string
	Index int // of the change that could not be applied
	With  int // of the change it conflicts with; -1: none
	Err   error
}

func (e *FoldError) Error() string { return fmt.Sprintf("field %q: %v", e.Field, e.Err) }

// Unwrap returns the cause.
func (e *FoldError) Unwrap() error { return e.Err }

// When says when changes are folded, to which it matters for values that live for one
// superstep.
type When uint8

const (
	// Given to the superstep that is open, by an input, an edit or a send: its tasks
	// read it.
	Given When = iota
	// Written by tasks of the superstep, which goes on: it is for the next one.
	Written
	// Committed is Written at the superstep's end: what was for it is over, and what
	// was for the next one is for that which begins.
	Committed
)

// Upgrade is Values.Upgrade of what may be nothing.
func Upgrade(v Values, version int, data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 || v.Current(version) {
		return data, nil
	}
	return v.Upgrade(version, data)
}

// Recorded reads changes that some version of the program has recorded, nil if there are
// none.
func Recorded(v Values, version int, data json.RawMessage) (Changes, error) {
	data, err := Upgrade(v, version, data)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return v.Decode(data, nil)
}

// RecordedAll is Recorded for all changes of records that are folded one after the other,
// in one list.
func RecordedAll(v Values, records []*checkpoint.Record) ([]Changes, error) {
	var all []json.RawMessage
	for _, r := range records {
		for _, c := range r.Changes {
			data, err := Upgrade(v, r.Version, c.Data)
			if err != nil {
				return nil, err
			}
			all = append(all, data)
		}
	}
	return v.DecodeAll(all)
}
