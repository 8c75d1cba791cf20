package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Error is a failure of the file system. It says what was tried on which file
// and what helps; Unwrap gives the operating system's error, so that
// errors.Is(err, fs.ErrPermission) or errors.Is(err, syscall.ENOSPC) work.
type Error struct {
	Op     string              // what was tried: "append", "open", "sync", ...
	Path   string              // the file or directory
	Thread checkpoint.ThreadID // empty when no single thread is meant
	Err    error               // the cause
	Fix    string              // what helps; may be empty

	// Unsettled is set when a write failed and could not be undone yet: the
	// file may end in part of it. The store tries again at the thread's next
	// write, and reads nothing of it until then.
	Unsettled bool
}

func (e *Error) Error() string {
	s := fmt.Sprintf("checkpoint/file: %s %s", e.Op, e.Path)
	if e.Thread != "" {
		s += fmt.Sprintf(" (thread %q)", e.Thread)
	}
	s += ": " + e.Err.Error()
	if e.Unsettled {
		s += "; the part already written could not be taken back yet"
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrReadOnly is wrapped by the [Error] of a write to a thread whose file can
// be read but not written.
var ErrReadOnly = errors.New("file is read-only")

// ErrThread is wrapped by the [checkpoint.CorruptError] of a file whose records
// belong to another thread than its name says.
var ErrThread = errors.New("file belongs to another thread")

// A VersionError says that a file was written by another version of this package, which
// this one cannot read. errors.Is(err, checkpoint.ErrVersion) holds.
type VersionError struct {
	Path      string
	Line      int64
	Found     int // the file's format version
	Supported int // the one that this package reads
}

func (e *VersionError) Error() string {
	what := "update the program"
	if e.Found < e.Supported {
		what = "the file is of a program from before the first release: move it away and begin the thread anew"
	}
	return fmt.Sprintf("checkpoint/file: %s, line %d: %v: the file has format %d, this program reads %d; %s",
		e.Path, e.Line, checkpoint.ErrVersion, e.Found, e.Supported, what)
}

// Is reports whether target is [checkpoint.ErrVersion].
func (e *VersionError) Is(target error) bool { return target == checkpoint.ErrVersion }

func ioError(op, path string, thread checkpoint.ThreadID, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return newError(op, path, thread, err)
}

func newError(op, path string, thread checkpoint.ThreadID, err error) *Error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the path is said once
	}
	return &Error{Op: op, Path: path, Thread: thread, Err: err, Fix: fix(err)}
}

func fix(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "nothing was stored: free some space and try again"
	case errors.Is(err, syscall.EFBIG):
		return "nothing was stored: raise the limit on file sizes (ulimit -f) or start a new thread"
	case errors.Is(err, syscall.EROFS), errors.Is(err, ErrReadOnly):
		return "nothing was stored: make the file and its directory writable"
	case errors.Is(err, syscall.ENOTDIR):
		return "the store needs a directory there: choose another path or move the file away"
	case errors.Is(err, syscall.EISDIR):
		return "a directory stands where the thread's file belongs: move it away"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many files are open: lower Options.MaxOpen or raise the limit (ulimit -n)"
	case errors.Is(err, fs.ErrPermission):
		return "give this user read and write access to the file and its directory"
	case errors.Is(err, fs.ErrNotExist):
		return "the store's directory was removed or moved: put it back, or open the store anew to start empty"
	case errors.Is(err, syscall.EIO):
		return "the disk reports errors: check it before going on"
	}
	return ""
}
