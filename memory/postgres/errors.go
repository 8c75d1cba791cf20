package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/internal/pgdb"
	"github.com/superstep-dev/superstep/memory"
)

// Kinds of [Error].
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
	ErrVersion     = errors.New("tables were made by a newer version")
	ErrNoHNSW      = errors.New("the database has no approximate index")
)

// Error says what went wrong with a database and what to do about it.
type Error struct {
	Op     string // what was tried
	Server string // host:port/database
	Kind   error  // one of the errors above
	What   string // what is wrong, if Kind does not say it all
	Fix    string // what to do
	Err    error  // the driver's error; may be nil
}

func (e *Error) Error() string {
	what := e.What
	if what == "" {
		what = e.Kind.Error()
	}
	s := "memory/postgres: " + e.Op
	if e.Server != "" {
		s += " " + e.Server
	}
	s += ": " + what
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

// badURL explains a connection string that cannot be parsed.
func badURL(conn string, err error) error {
	what, fix := pgdb.Unparsed(conn, err)
	return &Error{Op: "open", Kind: ErrURL, What: what, Fix: fix}
}

// again reports whether the server undid a transaction that may be tried again:
// a deadlock or a serialisation failure.
func again(err error) bool {
	p, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (p.Code == "40P01" || p.Code == "40001")
}

// agreed reports whether an error is one that the contract of a store names. That
// of a context isn't among them: the driver has deadlines of its own.
func agreed(err error) bool {
	for _, e := range []error{memory.ErrNotFound, memory.ErrConflict, memory.ErrInvalid, memory.ErrNoIndex, memory.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, ours := errors.AsType[*Error](err)
	return ours
}

// explain turns an error of the driver into one that says what to do.
func explain(op, server string, err error) error {
	if err == nil || agreed(err) {
		return err
	}
	e := &Error{Op: op, Server: server, Err: err}
	if _, ok := errors.AsType[pgx.ScanArgError](err); ok {
		e.Kind, e.Fix = ErrNoTables, "somebody changed them: restore a backup"
		return e
	}
	p, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		e.Kind, e.Fix = ErrUnavailable, "check that the server runs and that host, port and TLS settings are right; if it went away during a write, nobody knows whether that happened"
		return e
	}
	switch code := p.Code; {
	case strings.HasPrefix(code, "28"):
		e.Kind, e.Fix = ErrDenied, "correct user and password in the URL, PGPASSWORD or the password file, or allow the user in the server's pg_hba.conf"
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
	case code == "55P03", code == "57014":
		e.Kind, e.Fix = ErrLocked, "another program is in the way with a long transaction: end it, or raise lock_timeout or statement_timeout"
	case code == "42P01", code == "42883", code == "42703", code == "3F000":
		e.Kind, e.Fix = ErrNoTables, "somebody dropped or changed them: restore a backup, or drop what is left of superstep_memory_* and open the store again"
	case strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "08"):
		e.Kind, e.What, e.Fix = ErrUnavailable, "the server is starting up, shutting down or gone", "wait for it; the store goes on by itself when it is back"
	default:
		return fmt.Errorf("memory/postgres: %s %s: %w", op, server, err)
	}
	return e
}
