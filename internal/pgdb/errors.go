package pgdb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/internal/backend"
)

// Kinds of errors, beside [backend.ErrVersion].
var (
	ErrURL         = errors.New("connection string cannot be understood")
	ErrUnavailable = errors.New("server cannot be reached")
	ErrDenied      = errors.New("access denied")
	ErrNoDatabase  = errors.New("database does not exist")
	ErrReadOnly    = errors.New("database cannot be written")
	ErrFull        = errors.New("server has no space left")
	ErrLocked      = errors.New("waited too long for another transaction")
	ErrNoTables    = errors.New("store's tables are not there or not as they should be")
	ErrTooOld      = errors.New("server is too old")
	ErrCorrupt     = errors.New("server found damaged data")
)

// Code returns the server's code of an error, "" if it is not the server's.
func Code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// Again reports whether the server undid a transaction that may be tried again:
// a deadlock or a serialisation failure.
func Again(err error) bool { c := Code(err); return c == "40P01" || c == "40001" }

// Down reports whether no connection could be made.
func Down(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// Odd reports whether an answer was not what its query asks for.
func Odd(err error) bool {
	_, ok := errors.AsType[pgx.ScanArgError](err)
	return ok
}

// Explain turns an error of a package that uses a database into one that says what to do. An
// [*backend.Error] stays as it is.
func Explain(pkg, op, server string, err error) error {
	if err == nil || backend.Explained(err) {
		return err
	}
	e := &backend.Error{Package: pkg, Op: op, Place: server, Err: err}
	if v, ok := errors.AsType[*backend.VersionError](err); ok {
		e.Kind, e.What, e.Fix, e.Err = backend.ErrVersion, v.Error(), v.Fix("database or schema"), nil
		return e
	}
	switch code := Code(err); {
	case errors.Is(err, errNoSchema):
		e.Kind, e.What, e.Fix, e.Err = ErrNoTables, err.Error(), "create one, set search_path, or name one in Options.Schema", nil
	case Odd(err):
		e.Kind, e.Fix = ErrNoTables, "somebody changed them: restore a backup"
	case code == "":
		e.Kind, e.Fix = ErrUnavailable, "check that the server runs and that host, port and TLS settings are right; the store goes on by itself when it is back"
	case Down(err) && (code == "22023" || code == "42704" || code == "08P01"):
		e.Kind, e.What = ErrURL, "a setting is refused when connecting"
		e.Fix = "correct it in the URL; if it is not there, a pooler stands in between: add default_query_exec_mode=exec to the URL"
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
		e.Kind, e.Fix = ErrLocked, "another program is in the way with a long transaction: end it, or raise lock_timeout"
	case code == "57014":
		e.Kind, e.What, e.Fix = ErrLocked, "the server cancelled the statement", "raise statement_timeout for this user, or look for what holds the server up"
	case code == "42P01", code == "42883", code == "42703", code == "3F000":
		e.Kind, e.Fix = ErrNoTables, "somebody dropped or changed them: restore a backup, or drop what is left of superstep_* and open the store again"
	case strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "08"):
		e.Kind, e.What, e.Fix = ErrUnavailable, "the server is starting up, shutting down or gone", "wait for it; the store goes on by itself when it is back"
	case code == "XX001", code == "XX002":
		e.Kind, e.Fix = ErrCorrupt, "see the server's log, and restore a backup"
	default:
		return fmt.Errorf("%s: %s %s: %w", pkg, op, server, err)
	}
	return e
}
