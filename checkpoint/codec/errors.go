package codec

import (
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/zip"
)

// Errors of reading. All name the thread and the record or result.
var (
	// ErrKey: the key that something was sealed with, or that names were hashed
	// with, is not in the key ring. It comes as a *KeyError.
	ErrKey = errors.New("codec: no such key")

	// ErrPlain: something stands in the store in clear, and the store is to be
	// encrypted. It comes as a *PlainError.
	ErrPlain = errors.New("codec: not encrypted")

	// ErrTooLarge: something would take more memory than Options.MaxSize
	// allows when decompressed. It comes in a *[checkpoint.CorruptError].
	ErrTooLarge = zip.ErrTooLarge
)

// errOpen says no more than that the check failed: nothing else is known.
var errOpen = errors.New("authentication failed: it was changed or moved, or sealed with another key of the same ID")

// KeyError says which key is missing. errors.Is(err, ErrKey) holds.
type KeyError struct {
	Thread checkpoint.ThreadID
	Place  string // the record or result
	Key    string // the key's ID; empty if it is the key of the names
}

func (e *KeyError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("codec: thread %q, %s: its name was hashed with another key than that of this key ring (KeyRing.Names)", e.Thread, e.Place)
	}
	return fmt.Sprintf("codec: thread %q, %s: it was sealed with key %q, which is not in the key ring", e.Thread, e.Place, e.Key)
}

// Is reports whether target is [ErrKey].
func (e *KeyError) Is(target error) bool { return target == ErrKey }

// PlainError says what stands in clear. errors.Is(err, ErrPlain) holds.
type PlainError struct {
	Thread checkpoint.ThreadID
	Place  string // the record or result
}

func (e *PlainError) Error() string {
	return fmt.Sprintf("codec: thread %q, %s is not encrypted; Options.AllowPlain lets it be read, for a migration", e.Thread, e.Place)
}

// Is reports whether target is [ErrPlain].
func (e *PlainError) Is(target error) bool { return target == ErrPlain }

func recordPlace(r *checkpoint.Record) string {
	return inNamespace(fmt.Sprintf("record %s", r.ID), r.Log)
}

// resultPlace leaves the name out: it may be secret.
func resultPlace(log checkpoint.Log, r *checkpoint.Result) string {
	return inNamespace(fmt.Sprintf("result %s of task %d of epoch %s", r.Kind, r.Task, r.Epoch), log)
}

func inNamespace(place string, log checkpoint.Log) string {
	if log.Namespace != "" {
		return fmt.Sprintf("%s of namespace %q", place, log.Namespace)
	}
	return place
}

// failed completes an error of opening what stands at a place.
func failed(thread checkpoint.ThreadID, place string, err error) error {
	if k, ok := errors.AsType[*KeyError](err); ok {
		return &KeyError{thread, place, k.Key}
	}
	if errors.Is(err, ErrPlain) {
		return &PlainError{thread, place}
	}
	if errors.Is(err, checkpoint.ErrVersion) {
		return fmt.Errorf("codec: thread %q, %s: %w", thread, place, err)
	}
	return &checkpoint.CorruptError{Thread: thread, Place: place, Offset: -1, Err: err}
}
