package sqlite

import (
	"errors"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/backend"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

// Kinds of [Error], beside [checkpoint.ErrVersion] and [checkpoint.ErrCorrupt].
var (
	ErrNotDatabase = sqlitedb.ErrNotDatabase
	ErrReadOnly    = sqlitedb.ErrReadOnly
	ErrFull        = sqlitedb.ErrFull
	ErrLocked      = sqlitedb.ErrLocked
	ErrCannotOpen  = sqlitedb.ErrCannotOpen
	ErrIO          = sqlitedb.ErrIO
	ErrChanged     = errors.New("database has changed since it was opened for reading alone")
)

// Error says what went wrong with a database file and what to do about it. Its fields: what
// was tried (Op), the file's path (Place), one of the errors of this package or of package
// checkpoint (Kind), what is wrong if that does not say it all (What), what to do (Fix), and
// SQLite's error, which may be nil (Err).
type Error = backend.Error

// explain turns an error of the driver into one that says what to do. Errors of
// this package, of package checkpoint and of contexts stay as they are.
func explain(op, path string, err error) error {
	err = sqlitedb.Explain("sqlite", op, path, err)
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Kind {
		case ErrNotDatabase:
			e.Kind = notDatabase
		case sqlitedb.ErrCorrupt:
			e.Kind, e.What, e.Err = checkpoint.ErrCorrupt, "the file is damaged", &checkpoint.CorruptError{Place: path, Offset: -1, Err: e.Err}
			e.Fix += "; `superstep repair --check` says whether the result is sound"
		case backend.ErrVersion:
			e.Kind = checkpoint.ErrVersion
		}
	}
	return err
}

// notDatabase is damage too.
var notDatabase = damaged{}

type damaged struct{}

func (damaged) Error() string { return ErrNotDatabase.Error() }
func (damaged) Is(target error) bool {
	return target == ErrNotDatabase || target == checkpoint.ErrCorrupt
}
