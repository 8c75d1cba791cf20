package graph

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/field"
)

// Untracked is a state field that is never stored: it lives for one run, and
// holds the zero T again when a thread is resumed in a new run. It takes any
// type, such as a client, a channel or a function. Of several tasks that set it
// in one superstep, the last in plan order wins.
//
// The value is shared by all tasks, so what it refers to must be safe for use by
// several goroutines. Dependencies that every run needs are better passed with
// Deps, which a resumed run has too.
//
// The zero Untracked holds the zero T and is ready to use. Like all field types
// it may be copied, and is used by one goroutine at a time.
type Untracked[T any] struct {
	stamp stamp
	base  T
	pend  T
	set   bool // pend holds the value
}

// Get returns the value.
func (u *Untracked[T]) Get() T {
	if u.set {
		return u.pend
	}
	return u.base
}

// Set sets the value.
func (u *Untracked[T]) Set(x T) {
	u.stamp.own()
	u.pend, u.set = x, true
}

// IsZero returns true, as there is nothing to store; encoding/json's omitzero
// uses it.
func (u Untracked[T]) IsZero() bool { return true }

// String formats the value as fmt.Sprint does.
func (u Untracked[T]) String() string { return fmt.Sprint(u.Get()) }

// MarshalJSON returns null.
func (u Untracked[T]) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// UnmarshalJSON replaces the value; null leaves the zero T.
func (u *Untracked[T]) UnmarshalJSON(data []byte) error {
	x, err := unmarshalOptional[T](data)
	if err == nil {
		*u = Untracked[T]{base: x.value}
	}
	return err
}

// Merger implements [field.Merging], for the engine.
func (u *Untracked[T]) Merger() field.Merger { return (*untrackedMerger[T])(u) }

// untrackedMerger is an Untracked as the engine sees it.
type untrackedMerger[T any] Untracked[T]

// Bind implements [field.Merger].
func (f *untrackedMerger[T]) Bind() {
	if f.set {
		*f = untrackedMerger[T]{base: f.pend}
	}
	f.stamp.bind()
}

// Change implements [field.Merger].
func (f *untrackedMerger[T]) Change() (field.Change, error) {
	if err := f.stamp.check(); err != nil {
		return nil, err
	}
	if !f.set {
		return nil, nil
	}
	return &untrackedChange[T]{value: f.pend}, nil
}

// Write implements [field.Merger].
func (f *untrackedMerger[T]) Write(c field.Change) error {
	u := (*Untracked[T])(f)
	uc, err := changeAs[*untrackedChange[T]](c)
	if err == nil {
		u.Set(uc.value)
	}
	return err
}

// Apply implements [field.Merger].
func (f *untrackedMerger[T]) Apply(c field.Change) error {
	uc, err := changeAs[*untrackedChange[T]](c)
	if err == nil {
		*f = untrackedMerger[T]{base: uc.value}
	}
	return err
}

// DecodeChange implements [field.Merger].
func (*untrackedMerger[T]) DecodeChange(data []byte) (field.Change, error) {
	c := new(untrackedChange[T])
	if err := json.Unmarshal(data, &c.value); err != nil {
		return nil, err
	}
	return c, nil
}

// Keeps implements [field.Keeping].
func (f *untrackedMerger[T]) Keeps(c field.Change) bool {
	uc, ok := c.(*untrackedChange[T])
	return ok && identical(uc.value, f.base)
}

// identical compares as == does, and is false when that doesn't apply. Other
// goroutines may be at work on what the values refer to, so it looks no deeper.
func identical[T any](a, b T) bool {
	va, vb := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	return va.Comparable() && vb.Comparable() && va.Equal(vb)
}

// Infallible implements [field.Infallible].
func (*untrackedMerger[T]) Infallible() bool { return true }

// Unrecorded implements [field.Unrecorded].
func (*untrackedMerger[T]) Unrecorded() {}

// SchemaOf implements [field.Schemer].
func (*untrackedMerger[T]) SchemaOf() any { return zeroOf[T]() }

type untrackedChange[T any] struct{ value T }

func (c *untrackedChange[T]) MarshalJSON() ([]byte, error) { return []byte("null"), nil }
