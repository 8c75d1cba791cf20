package postgres

import (
	"errors"

	"github.com/superstep-dev/superstep/internal/backend"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// Kinds of [Error]. Most are those of package checkpoint/postgres, too.
var (
	ErrURL         = pgdb.ErrURL
	ErrUnavailable = pgdb.ErrUnavailable
	ErrDenied      = pgdb.ErrDenied
	ErrNoDatabase  = pgdb.ErrNoDatabase
	ErrReadOnly    = pgdb.ErrReadOnly
	ErrFull        = pgdb.ErrFull
	ErrLocked      = pgdb.ErrLocked
	ErrNoTables    = pgdb.ErrNoTables
	ErrTooOld      = pgdb.ErrTooOld
	ErrCorrupt     = pgdb.ErrCorrupt
	ErrVersion     = backend.ErrVersion
	ErrNoHNSW      = errors.New("the database has no approximate index")
)

// Error says what went wrong with a database and what to do about it. Its fields: what was
// tried (Op), host:port/database (Place), one of the errors above (Kind), what is wrong if
// that does not say it all (What), what to do (Fix), and the driver's error, which may be
// nil (Err).
type Error = backend.Error
