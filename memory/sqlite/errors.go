package sqlite

import (
	"context"
	"errors"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/superstep-dev/superstep/internal/sqlitedb"
	"github.com/superstep-dev/superstep/memory"
)

// Kinds of [Error].
var (
	ErrNotDatabase = errors.New("not a SQLite database")
	ErrCorrupt     = errors.New("database is damaged")
	ErrReadOnly    = errors.New("database cannot be written")
	ErrFull        = errors.New("no space left for the database")
	ErrLocked      = errors.New("database is locked")
	ErrCannotOpen  = errors.New("database cannot be opened")
	ErrIO          = errors.New("reading or writing the file failed")
	ErrVersion     = errors.New("tables were made by a newer version")
)

// Error says what went wrong with a database file and what to do about it.
type Error struct {
	Op   string // what was tried
	Path string // of the database
	Kind error  // one of the errors above
	What string // what is wrong, if Kind does not say it all
	Fix  string // what to do
	Err  error  // SQLite's error; may be nil
}

func (e *Error) Error() string {
	what := e.What
	if what == "" {
		what = e.Kind.Error()
	}
	s := fmt.Sprintf("memory/sqlite: %s %s: %s", e.Op, e.Path, what)
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	return s + "; " + e.Fix
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// agreed reports whether an error is one that the contract of a store names.
func agreed(err error) bool {
	for _, e := range []error{memory.ErrNotFound, memory.ErrConflict, memory.ErrInvalid, memory.ErrNoIndex, memory.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, ours := errors.AsType[*Error](err)
	return ours
}

// explain turns an error of the driver into one that says what to do.
func explain(op, path string, err error) error {
	if err == nil || agreed(err) {
		return err
	}
	e := &Error{Op: op, Path: path, Err: err}
	switch sqlitedb.Code(err) {
	case lib.SQLITE_NOTADB:
		e.Kind, e.Fix = ErrNotDatabase, "choose another path, or move the file away"
	case lib.SQLITE_CORRUPT:
		e.Kind, e.Fix = ErrCorrupt, "restore a backup, or save what can be read with `sqlite3 FILE .recover`"
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		e.Kind, e.Fix = ErrReadOnly, "make the file and its directory writable: SQLite keeps -wal and -shm files beside it"
	case lib.SQLITE_FULL:
		e.Kind, e.Fix = ErrFull, "free disk space, raise the quota or max_page_count, or delete items; nothing was written"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		e.Kind, e.Fix = ErrLocked, "another process holds the database in a long transaction: end it, or raise Options.BusyTimeout"
	case lib.SQLITE_CANTOPEN:
		e.Kind, e.Fix = ErrCannotOpen, "name a file in a directory that exists, and make both readable and writable"
	case lib.SQLITE_IOERR:
		e.Kind, e.Fix = ErrIO, "check the disk and the file system; a database must not stand on a network share"
	default:
		return fmt.Errorf("memory/sqlite: %s %s: %w", op, path, err)
	}
	return e
}
