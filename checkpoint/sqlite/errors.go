package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

// Kinds of [Error], beside [checkpoint.ErrVersion] and [checkpoint.ErrCorrupt].
var (
	ErrNotDatabase = errors.New("not a SQLite database")
	ErrReadOnly    = errors.New("database cannot be written")
	ErrFull        = errors.New("no space left for the database")
	ErrLocked      = errors.New("database is locked")
	ErrCannotOpen  = errors.New("database cannot be opened")
	ErrChanged     = errors.New("database has changed since it was opened for reading alone")
	ErrIO          = errors.New("reading or writing the file failed")
)

// Error says what went wrong with a database file and what to do about it.
type Error struct {
	Op   string // what was tried
	Path string // of the database
	Kind error  // one of the errors of this package or of package checkpoint
	What string // what is wrong, if Kind does not say it all
	Fix  string // what to do
	Err  error  // SQLite's error; may be nil
}

func (e *Error) failure() backend.Failure {
	return backend.Failure{Package: "sqlite", Op: e.Op, Place: e.Path, Kind: e.Kind, What: e.What, Fix: e.Fix, Err: e.Err}
}

func (e *Error) Error() string { return e.failure().String() }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error { return e.failure().Causes() }

// explain turns an error of the driver into one that says what to do. Errors of
// this package, of package checkpoint and of contexts stay as they are.
func explain(op, path string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	e := &Error{Op: op, Path: path, Err: err}
	switch sqlitedb.Code(err) {
	case lib.SQLITE_NOTADB:
		e.Kind = notDatabase
		e.Fix = "choose another path, or move the file away"
	case lib.SQLITE_CORRUPT:
		e.Kind = checkpoint.ErrCorrupt
		e.What = "the file is damaged"
		e.Fix = "restore a backup, or save what can be read with `sqlite3 FILE .recover`"
		e.Err = &checkpoint.CorruptError{Place: path, Offset: -1, Err: err}
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		e.Kind = ErrReadOnly
		e.Fix = "make the file and its directory writable: SQLite keeps -wal and -shm files beside it"
	case lib.SQLITE_FULL:
		e.Kind = ErrFull
		e.Fix = "free disk space, raise the quota or max_page_count, or delete threads; nothing was written"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		e.Kind = ErrLocked
		e.Fix = "another process holds the database in a long transaction: end it, or raise Options.BusyTimeout"
	case lib.SQLITE_CANTOPEN:
		e.Kind = ErrCannotOpen
		e.Fix = whyNot(path)
	case lib.SQLITE_IOERR:
		e.Kind = ErrIO
		e.Fix = "check the disk and the file system; a database must not stand on a network share"
	default:
		return fmt.Errorf("sqlite: %s %s: %w", op, path, err)
	}
	return e
}

// notDatabase is damage too.
var notDatabase = damaged{}

type damaged struct{}

func (damaged) Error() string { return ErrNotDatabase.Error() }
func (damaged) Is(target error) bool {
	return target == ErrNotDatabase || target == checkpoint.ErrCorrupt
}

// whyNot looks for the reason why a database cannot be opened.
func whyNot(path string) string {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("directory %s does not exist: create it", dir)
	case err != nil:
		return fmt.Sprintf("directory %s: %v", dir, err)
	case !info.IsDir():
		return fmt.Sprintf("%s is not a directory", dir)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "it is a directory: name a file"
	}
	return "make the file and its directory readable and writable"
}
