package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"

	"github.com/superstep-dev/superstep/internal/backend"
)

// Kinds of errors, beside [backend.ErrVersion].
var (
	ErrNotDatabase = errors.New("not a SQLite database")
	ErrCorrupt     = errors.New("database is damaged")
	ErrReadOnly    = errors.New("database cannot be written")
	ErrFull        = errors.New("no space left for the database")
	ErrLocked      = errors.New("database is locked")
	ErrCannotOpen  = errors.New("database cannot be opened")
	ErrIO          = errors.New("reading or writing the file failed")
)

// ErrNoVersion says that the tables of a package are there without the one of their
// version: the file is damaged.
var ErrNoVersion = errors.New("its tables are there, and their version is not")

const fixDamage = "restore a backup, or save what can be read with `sqlite3 FILE .recover`"

// Explain turns an error of a package that uses a database into one that says what to do. An
// [*backend.Error] and errors of contexts stay as they are.
func Explain(pkg, op, path string, err error) error {
	if err == nil || backend.Explained(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &backend.Error{Package: pkg, Op: op, Place: path, Err: err}
	if v, ok := errors.AsType[*backend.VersionError](err); ok {
		e.Kind, e.What, e.Fix, e.Err = backend.ErrVersion, v.Error(), v.Fix("file"), nil
		return e
	}
	if errors.Is(err, ErrNoVersion) {
		e.Kind, e.Fix = ErrCorrupt, fixDamage
		return e
	}
	switch Code(err) {
	case lib.SQLITE_NOTADB:
		e.Kind, e.Fix = ErrNotDatabase, "choose another path, or move the file away"
	case lib.SQLITE_CORRUPT:
		e.Kind, e.Fix = ErrCorrupt, fixDamage
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		e.Kind, e.Fix = ErrReadOnly, "make the file and its directory writable: SQLite keeps -wal and -shm files beside it"
	case lib.SQLITE_FULL:
		e.Kind, e.Fix = ErrFull, "free disk space, raise the quota or max_page_count, or delete what is not needed; nothing was written"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		e.Kind, e.Fix = ErrLocked, "another process holds the database in a long transaction: end it, or raise Options.BusyTimeout"
	case lib.SQLITE_CANTOPEN:
		e.Kind, e.Fix = ErrCannotOpen, whyNot(path)
	case lib.SQLITE_IOERR:
		e.Kind, e.Fix = ErrIO, "check the disk and the file system; a database must not stand on a network share"
	default:
		return fmt.Errorf("%s: %s %s: %w", pkg, op, path, err)
	}
	return e
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
	return "make the file and its directory readable and writable"
}

const headerBytes = 100 // of every SQLite database

// Look finds what is wrong with the path of a database that SQLite would not mind, or not
// explain.
func Look(pkg, path string) error {
	e := &backend.Error{Package: pkg, Op: "open", Place: path, Kind: ErrCannotOpen}
	if path == "" {
		e.Place, e.What, e.Fix = `""`, "the path is empty", `name a file, or ":memory:"`
		return e
	}
	if path == Memory {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // SQLite says it
		return nil
	case info.IsDir():
		e.What, e.Fix = "it is a directory", "name a file"
		return e
	case info.Size() > 0 && info.Size() < headerBytes: // SQLite would take it for an empty database
		e.Kind, e.What = ErrNotDatabase, fmt.Sprintf("the file has %d bytes, too few for a SQLite database", info.Size())
		e.Fix = "restore a backup, or delete the file"
		return e
	}
	return nil
}
