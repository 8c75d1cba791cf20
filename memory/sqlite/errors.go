package sqlite

import (
	"github.com/superstep-dev/superstep/internal/backend"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

// Kinds of [Error]. They are those of package checkpoint/sqlite, too.
var (
	ErrNotDatabase = sqlitedb.ErrNotDatabase
	ErrCorrupt     = sqlitedb.ErrCorrupt
	ErrReadOnly    = sqlitedb.ErrReadOnly
	ErrFull        = sqlitedb.ErrFull
	ErrLocked      = sqlitedb.ErrLocked
	ErrCannotOpen  = sqlitedb.ErrCannotOpen
	ErrIO          = sqlitedb.ErrIO
	ErrVersion     = backend.ErrVersion
)

// Error says what went wrong with a database file and what to do about it. Its fields: what
// was tried (Op), the file's path (Place), one of the errors above (Kind), what is wrong if
// that does not say it all (What), what to do (Fix), and SQLite's error, which may be nil (Err).
type Error = backend.Error
