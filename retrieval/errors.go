package retrieval

import (
	"errors"
	"fmt"
)

// What is wrong with a document, for errors.Is. The error is a [*DocumentError].
var (
	ErrUnreadable  = errors.New("it can't be read")
	ErrEmpty       = errors.New("there is no text in it")
	ErrUnknownType = errors.New("no loader knows its type")
	ErrTooLarge    = errors.New("it is too large")
	ErrInvalid     = errors.New("it is not as a document must be")
	ErrEmbedding   = errors.New("its chunks could not be embedded")
	ErrStore       = errors.New("the store failed")
)

// DocumentError says what is wrong with a document and what to do about it.
type DocumentError struct {
	Document string // its ID or source; may be empty
	Kind     error  // one of the errors above
	Fix      string // what to do
	Err      error  // the cause; may be nil
}

func (e *DocumentError) Error() string {
	s := fmt.Sprintf("retrieval: document %q: %v", e.Document, e.Kind)
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	return s + "; " + e.Fix
}

// Unwrap returns the kind and the cause.
func (e *DocumentError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// OptionError says what is wrong with how something of this package was set up or
// asked.
type OptionError struct {
	Option string // such as Splitter.Size
	Reason string // with what to do
}

func (e *OptionError) Error() string { return "retrieval: " + e.Option + ": " + e.Reason }
