// Package backend holds what the stores of several back ends do alike.
package backend

import (
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Failure is the text and the causes of an error that says what went wrong with
// a back end and what to do about it.
type Failure struct {
	Package string
	Op      string // what was tried
	Place   string // on which server or file; may be empty
	Kind    error
	What    string // what is wrong, if Kind does not say it all
	Fix     string // what to do
	Err     error  // the driver's error; may be nil
}

func (f Failure) String() string {
	what := f.What
	if what == "" {
		what = f.Kind.Error()
	}
	s := f.Package + ": " + f.Op
	if f.Place != "" {
		s += " " + f.Place
	}
	s += ": " + what
	if f.Err != nil {
		s += fmt.Sprintf(" (%v)", f.Err)
	}
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// Causes returns the kind and the driver's error, for Unwrap.
func (f Failure) Causes() []error {
	if f.Err == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Err}
}

// Agreed reports whether an error is one of those that the contract of a store
// names: it says enough as it is.
func Agreed(err error) bool {
	for _, e := range []error{
		checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrBusy, checkpoint.ErrInvalid,
		checkpoint.ErrNoThread, checkpoint.ErrClosed, checkpoint.ErrVersion, checkpoint.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
