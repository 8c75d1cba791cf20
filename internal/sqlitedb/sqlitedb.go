// Package sqlitedb holds what the packages that keep data in SQLite do alike: they
// name its files, take turns to write, make their tables, and tell its errors apart.
package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/superstep-dev/superstep/internal/backend"
)

// Code returns SQLite's primary result code, 0 if err is not SQLite's. A file that
// ends within a page is a damaged one to us, and an I/O error to SQLite.
func Code(err error) int {
	e, ok := errors.AsType[*sqlite.Error](err)
	switch {
	case !ok:
		return 0
	case e.Code() == lib.SQLITE_IOERR_SHORT_READ:
		return lib.SQLITE_CORRUPT
	}
	return e.Code() & 0xff
}

// Busy reports whether somebody else holds the database.
func Busy(err error) bool { c := Code(err); return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED }

// DSN makes a name that SQLite reads as this very path.
func DSN(path, query string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return "file:" + (&url.URL{Path: p}).EscapedPath() + "?" + query
}

// BusyTimeout is how long a [Writer] waits for other processes unless its user says so.
const BusyTimeout = 10 * time.Second

// Memory is the path of a database in memory.
const Memory = ":memory:"

// Writer writes to a database. The writers of a process take turns, in the order in
// which they come: SQLite would let some wait until they give up.
type Writer struct {
	db   *sql.DB
	busy time.Duration
	turn chan struct{} // held by the writer of this process
}

// NewWriter returns a writer that waits for other processes as long as busy.
func NewWriter(db *sql.DB, busy time.Duration) *Writer {
	return &Writer{db: db, busy: busy, turn: make(chan struct{}, 1)}
}

// WAL sets the mode in which readers and a writer don't wait for one another.
func (w *Writer) WAL(ctx context.Context) error {
	// Another process that opens the file may be in the way for a moment.
	return w.Again(ctx, func() error {
		_, err := w.db.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
		return err
	})
}

// Again calls try until no other process is in its way.
func (w *Writer) Again(ctx context.Context, try func() error) error {
	end := time.Now().Add(w.busy)
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := try()
		if !Busy(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Rest returns when the write that is under way has ended.
func (w *Writer) Rest() {
	w.turn <- struct{}{}
	<-w.turn
}

// Write runs f in a transaction that writes.
func (w *Writer) Write(ctx context.Context, f func(c *sql.Conn) error) (err error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.turn }()
	c, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// From here on the connection must leave its transaction, context or not. If
	// the context has ended the driver says so even where BEGIN has begun one.
	end := context.WithoutCancel(ctx)
	done := false
	defer func() {
		if !done {
			_, _ = c.ExecContext(end, `ROLLBACK`) // there may be none any more
		}
	}()
	if err := w.Again(ctx, func() error {
		_, err := c.ExecContext(ctx, `BEGIN IMMEDIATE`)
		return err
	}); err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	_, err = c.ExecContext(end, `COMMIT`)
	done = err == nil
	return err
}

// Tables are the tables of a package.
type Tables struct {
	Meta       string   // name of the table of versions
	Migrations []string // SQL, in order: the version is how many were run
	Unread     int      // versions up to this one are not read, and their migrations not run
	Another    string   // one of the tables: it is never there without Meta
}

// Version returns how many migrations were run. It is a [*backend.VersionError] if they are
// not those of this program.
func (t *Tables) Version(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (v int, err error) {
	var meta, another bool
	err = q.QueryRowContext(ctx, `SELECT coalesce(max(name = ?1), 0), coalesce(max(name = ?2), 0) FROM sqlite_master WHERE type = 'table' AND name IN (?1, ?2)`, t.Meta, t.Another).
		Scan(&meta, &another)
	if err == nil && meta {
		err = q.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM `+t.Meta).Scan(&v)
	}
	switch {
	case err != nil:
		return 0, err
	case v > len(t.Migrations) || 0 < v && v <= t.Unread:
		return v, &backend.VersionError{Have: v, Known: len(t.Migrations)}
	case v == 0 && another:
		return v, ErrNoVersion
	}
	return v, nil
}

// Migrate brings the tables to the newest version.
func (w *Writer) Migrate(ctx context.Context, t *Tables) error {
	if v, err := t.Version(ctx, w.db); err != nil || v == len(t.Migrations) {
		return err
	}
	return w.Write(ctx, func(c *sql.Conn) error {
		v, err := t.Version(ctx, c) // another process may have been first
		if err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+t.Meta+` (
			version INTEGER PRIMARY KEY,
			applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
		)`); err != nil {
			return err
		}
		for v = max(v, t.Unread); v < len(t.Migrations); v++ {
			if _, err := c.ExecContext(ctx, t.Migrations[v]); err != nil {
				return fmt.Errorf("migrating to schema version %d: %w", v+1, err)
			}
			if _, err := c.ExecContext(ctx, `INSERT INTO `+t.Meta+` (version) VALUES (?)`, v+1); err != nil {
				return err
			}
		}
		return nil
	})
}
