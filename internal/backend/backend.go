// Package backend says what went wrong with a back end, for all packages that keep data in one.
package backend

import (
	"errors"
	"fmt"
)

// Error says what went wrong with a back end and what to do about it. It never holds a
// password.
type Error struct {
	Package string // of the back end
	Op      string // what was tried
	Place   string // the file, server/database or bucket; may be empty
	Kind    error  // one of the errors that the package names
	What    string // what is wrong, if Kind does not say it all
	Fix     string // what to do
	Err     error  // the driver's error; may be nil
}

func (e *Error) Error() string {
	what := e.What
	if what == "" {
		what = e.Kind.Error()
	}
	s := e.Package + ": " + e.Op
	if e.Place != "" {
		s += " " + e.Place
	}
	s += ": " + what
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the kind and the driver's error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Explained reports whether an error says enough as it is: an [*Error] does.
func Explained(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// ErrVersion is of tables that this program doesn't read.
var ErrVersion = errors.New("tables were made by another version")

// VersionError says that tables were made by a newer program, or by one whose tables are
// not read any more. It is an [ErrVersion].
type VersionError struct{ Have, Known int }

// Old reports whether they are not read any more.
func (e *VersionError) Old() bool { return e.Have < e.Known }

func (e *VersionError) Error() string {
	if e.Old() {
		return fmt.Sprintf("the tables have schema version %d, of before the first release, which is not read any more", e.Have)
	}
	return fmt.Sprintf("the tables have schema version %d, this version of Superstep knows versions up to %d", e.Have, e.Known)
}

// Is reports whether target is [ErrVersion].
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// Fix says what to do about it, given what else there could be, such as a file.
func (e *VersionError) Fix(place string) string {
	if e.Old() {
		return "use another " + place
	}
	return "use a newer version of Superstep, or another " + place
}
