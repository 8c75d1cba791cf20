package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/backend"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// Kinds of [Error], beside [checkpoint.ErrVersion] and [checkpoint.ErrCorrupt].
var (
	ErrURL            = pgdb.ErrURL
	ErrUnavailable    = pgdb.ErrUnavailable
	ErrUnknownOutcome = errors.New("connection was lost during a write: nobody knows whether it happened")
	ErrDenied         = pgdb.ErrDenied
	ErrNoDatabase     = pgdb.ErrNoDatabase
	ErrReadOnly       = pgdb.ErrReadOnly
	ErrFull           = pgdb.ErrFull
	ErrLocked         = pgdb.ErrLocked
	ErrNoTables       = pgdb.ErrNoTables
	ErrTooOld         = pgdb.ErrTooOld
)

// Error says what went wrong with a database and what to do about it. Its fields: what was
// tried (Op), host:port/database (Place), one of the errors of this package or of package
// checkpoint (Kind), what is wrong if that does not say it all (What), what to do (Fix), and
// the driver's error, which may be nil (Err).
type Error = backend.Error

// undone reports whether an error of a transaction means that it did not happen.
func undone(err error) bool {
	if _, ok := errors.AsType[notSent](err); ok || pgconn.SafeToRetry(err) || pgdb.Down(err) {
		return true
	}
	// A server that goes away says so with a fatal error, at any moment.
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.SeverityUnlocalized == "ERROR" || e.Severity == "ERROR")
}

// lost reports whether the connection is what failed.
func lost(err error) bool {
	c := pgdb.Code(err)
	if c == "" {
		return !isOurs(err) && !pgdb.Odd(err) && !ended(err)
	}
	return strings.HasPrefix(c, "57P") || strings.HasPrefix(c, "08")
}

// ended reports whether the caller's context is what ended. A connection that is not made in
// time (connect_timeout) says the same of a context that is not the caller's.
func ended(err error) bool {
	return !pgdb.Down(err) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

func isOurs(err error) bool { return backend.Explained(err) || engine.Agreed(err) }

// explain turns an error of the driver into one that says what to do. Errors of
// this package, of package checkpoint and of contexts stay as they are.
func explain(op, server string, err error) error {
	if err == nil || isOurs(err) && !backend.Explained(err) || ended(err) {
		return err
	}
	err = pgdb.Explain("postgres", op, server, err)
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Kind {
		case backend.ErrVersion:
			e.Kind = checkpoint.ErrVersion
		case ErrLocked:
			if pgdb.Code(err) == "55P03" {
				e.Fix = "another program holds the thread in a long transaction: end it, or raise Options.LockTimeout"
			}
		case pgdb.ErrCorrupt:
			e.Kind, e.What, e.Err = checkpoint.ErrCorrupt, "the server found damaged data", &checkpoint.CorruptError{Place: "database " + e.Place, Offset: -1, Err: e.Err}
		}
	}
	return err
}
