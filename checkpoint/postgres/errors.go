package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// Kinds of [Error], beside [checkpoint.ErrVersion] and [checkpoint.ErrCorrupt].
var (
	ErrURL            = errors.New("connection string cannot be understood")
	ErrUnavailable    = errors.New("server cannot be reached")
	ErrUnknownOutcome = errors.New("connection was lost during a write: nobody knows whether it happened")
	ErrDenied         = errors.New("access denied")
	ErrNoDatabase     = errors.New("database does not exist")
	ErrReadOnly       = errors.New("database cannot be written")
	ErrFull           = errors.New("server has no space left")
	ErrLocked         = errors.New("waited too long for another transaction")
	ErrNoTables       = errors.New("store's tables are not there or not as they should be")
	ErrTooOld         = errors.New("server is too old")
)

// Error says what went wrong with a database and what to do about it.
type Error struct {
	Op     string // what was tried
	Server string // host:port/database
	Kind   error  // one of the errors of this package or of package checkpoint
	What   string // what is wrong, if Kind does not say it all
	Fix    string // what to do
	Err    error  // the driver's error; may be nil
}

func (e *Error) failure() backend.Failure {
	return backend.Failure{Package: "postgres", Op: e.Op, Place: e.Server, Kind: e.Kind, What: e.What, Fix: e.Fix, Err: e.Err}
}

func (e *Error) Error() string { return e.failure().String() }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error { return e.failure().Causes() }

// badURL explains a connection string that cannot be parsed.
func badURL(conn string, err error) error {
	what, fix := pgdb.Unparsed(conn, err)
	return &Error{Op: "open", Kind: ErrURL, What: what, Fix: fix}
}

// pgError returns the server's error, nil if err is none.
func pgError(err error) *pgconn.PgError {
	e, _ := errors.AsType[*pgconn.PgError](err)
	return e
}

func sqlState(err error) string {
	if e := pgError(err); e != nil {
		return e.Code
	}
	return ""
}

// again reports whether the server undid a transaction that may be tried again:
// a deadlock or a serialisation failure.
func again(err error) bool {
	c := sqlState(err)
	return c == "40P01" || c == "40001"
}

// undone reports whether an error of a transaction means that it did not happen.
func undone(err error) bool {
	if _, ok := errors.AsType[notSent](err); ok || pgconn.SafeToRetry(err) || down(err) {
		return true
	}
	// A server that goes away says so with a fatal error, at any moment.
	e := pgError(err)
	return e != nil && (e.SeverityUnlocalized == "ERROR" || e.Severity == "ERROR")
}

// down reports whether no connection could be made.
func down(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// odd reports whether an answer was not what its query asks for.
func odd(err error) bool {
	_, ok := errors.AsType[pgx.ScanArgError](err)
	return ok
}

// lost reports whether the connection is what failed.
func lost(err error) bool {
	e := pgError(err)
	if e == nil {
		return !isOurs(err) && !odd(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return strings.HasPrefix(e.Code, "57P") || strings.HasPrefix(e.Code, "08")
}

func isOurs(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok || backend.Agreed(err)
}

// explain turns an error of the driver into one that says what to do. Errors of
// this package, of package checkpoint and of contexts stay as they are.
func explain(op, server string, err error) error {
	if err == nil || isOurs(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &Error{Op: op, Server: server, Err: err}
	if odd(err) {
		e.Kind, e.Fix = ErrNoTables, "somebody changed them: restore a backup"
		return e
	}
	p := pgError(err)
	if p == nil {
		e.Kind = ErrUnavailable
		e.Fix = "check that the server runs and that host, port and TLS settings are right; the store goes on by itself when it is back"
		return e
	}
	code := p.Code
	switch {
	case down(err) && (code == "22023" || code == "42704" || code == "08P01"):
		e.Kind, e.What = ErrURL, "a setting is refused when connecting"
		e.Fix = "correct it in the URL; if it is not there, a pooler stands in between: set Options.NoPrepare"
	case code == "28P01":
		e.Kind, e.What, e.Fix = ErrDenied, "the password is wrong, or there is no such user", "correct user and password in the URL, PGPASSWORD or the password file"
	case strings.HasPrefix(code, "28"):
		e.Kind, e.Fix = ErrDenied, "correct the user, or allow it in the server's pg_hba.conf"
	case code == "42501":
		e.Kind, e.What = ErrDenied, "this user lacks a permission"
		e.Fix = "grant it CREATE on the schema once, so that the store can make its tables, or let their owner open the store first and grant SELECT, INSERT, UPDATE and DELETE on them"
	case code == "3D000":
		e.Kind, e.Fix = ErrNoDatabase, "create it with CREATE DATABASE, or correct the name at the end of the URL"
	case code == "25006":
		e.Kind, e.Fix = ErrReadOnly, "connect to the primary (target_session_attrs=read-write), or set default_transaction_read_only=off"
	case code == "53100":
		e.Kind, e.Fix = ErrFull, "free space on the server's disk; nothing was written"
	case code == "53300":
		e.Kind, e.What, e.Fix = ErrUnavailable, "the server has too many connections", "lower Options.MaxConns, raise the server's max_connections, or use a pooler"
	case code == "55P03":
		e.Kind, e.Fix = ErrLocked, "another program holds the thread in a long transaction: end it, or raise Options.LockTimeout"
	case code == "57014":
		e.Kind, e.What, e.Fix = ErrLocked, "the server cancelled the statement", "raise statement_timeout for this user, or look for what holds the server up"
	case code == "42P01", code == "42883", code == "42703", code == "3F000":
		e.Kind, e.Fix = ErrNoTables, "somebody dropped or changed them: restore a backup, or drop what is left of superstep_* and open the store again"
	case strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "08"):
		e.Kind, e.What, e.Fix = ErrUnavailable, "the server is starting up, shutting down or gone", "wait for it; the store goes on by itself when it is back"
	case code == "XX001", code == "XX002":
		e.Kind, e.What, e.Fix = checkpoint.ErrCorrupt, "the server found damaged data", "see the server's log, and restore a backup"
		e.Err = &checkpoint.CorruptError{Place: "database " + server, Offset: -1, Err: err}
	default:
		return fmt.Errorf("postgres: %s %s: %w", op, server, err)
	}
	return e
}
