package memory

import (
	"errors"
	"fmt"
	"strings"
)

// What went wrong, for errors.Is.
var (
	// ErrNotFound: there is no such item, or it has expired.
	ErrNotFound = errors.New("memory: item not found")

	// ErrConflict: the item isn't as the caller's condition says.
	ErrConflict = errors.New("memory: the item is not as expected")

	// ErrNoIndex: the store was made without an [Index], so it can't search by
	// meaning nor embed fields.
	ErrNoIndex = errors.New("memory: the store has no index for texts")

	// ErrClosed: the store is closed.
	ErrClosed = errors.New("memory: store is closed")

	// ErrInvalid: an argument is wrong. The error is an [*InvalidError].
	ErrInvalid = errors.New("memory: invalid")
)

// Agreed reports whether an error is one that the contract of a [Store] names: a back end
// hands it on as it is.
func Agreed(err error) bool {
	for _, e := range []error{ErrNotFound, ErrConflict, ErrNoIndex, ErrClosed, ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Kinds of [InvalidError].
var (
	ErrEmptyNamespace = errors.New("empty namespace")
	ErrLabel          = errors.New("invalid label of a namespace")
	ErrKey            = errors.New("invalid key")
	ErrValue          = errors.New("invalid value")
	ErrFilter         = errors.New("invalid filter")
	ErrField          = errors.New("invalid field to index")
	ErrOption         = errors.New("invalid option")
)

// InvalidError says which argument is wrong. It is an [ErrInvalid] too.
type InvalidError struct {
	Kind   error  // one of the kinds above
	Name   string // of the label, key, field or option; may be empty
	Reason string
}

func (e *InvalidError) Error() string {
	s := "memory: " + e.Kind.Error()
	if e.Name != "" {
		s += fmt.Sprintf(" %q", e.Name)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Unwrap returns the kind and [ErrInvalid].
func (e *InvalidError) Unwrap() []error { return []error{e.Kind, ErrInvalid} }

func invalid(kind error, name, reason string, args ...any) error {
	return &InvalidError{Kind: kind, Name: name, Reason: fmt.Sprintf(reason, args...)}
}

// NotFoundError names the item that isn't there. It is an [ErrNotFound].
type NotFoundError struct {
	Namespace []string
	Key       string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%v: %s", ErrNotFound, place(e.Namespace, e.Key))
}

// Unwrap returns [ErrNotFound].
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// ConflictError says how an item isn't as expected. It is an [ErrConflict].
type ConflictError struct {
	Namespace []string
	Key       string
	Want      int64 // the version that the caller expected; 0: none
	Have      int64 // the version that was there a moment later; 0: none
}

func (e *ConflictError) Error() string {
	show := func(v int64) string {
		if v == 0 {
			return "no item"
		}
		return fmt.Sprintf("version %d", v)
	}
	return fmt.Sprintf("%v: %s: expected %s, found %s", ErrConflict, place(e.Namespace, e.Key), show(e.Want), show(e.Have))
}

// Unwrap returns [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// DecodeError says that an item's value doesn't fit the Go type that was asked
// for.
type DecodeError struct {
	Namespace []string
	Key       string
	Err       error // of the type's JSON
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("memory: the value of %s can't be decoded: %v", place(e.Namespace, e.Key), e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

func place(namespace []string, key string) string {
	return fmt.Sprintf("key %q in namespace %q", key, strings.Join(namespace, Separator))
}
