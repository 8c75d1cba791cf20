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

	"github.com/superstep-dev/superstep/internal/private"
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

// Damaged reports whether the file is no database, or a damaged one.
func Damaged(err error) bool {
	c := Code(err)
	return c == lib.SQLITE_CORRUPT || c == lib.SQLITE_NOTADB
}

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

// Open opens the database at a path for readers, as many connections at once, and a
// [Writer] that waits as long as busy. The file is made if there is none, for its owner
// alone. Each connection has the pragmas, as in "synchronous(NORMAL)".
func Open(path string, connections int, busy time.Duration, pragmas ...string) (*sql.DB, error) {
	name := path
	if path == Memory {
		connections = 1
	} else {
		private.Create(path)
		query := fmt.Sprintf("_pragma=busy_timeout(%d)", min(busy, time.Second).Milliseconds()) // the writer waits for the rest
		for _, p := range pragmas {
			query += "&_pragma=" + p
		}
		name = DSN(path, query)
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

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
	return w.again(ctx, func() error {
		_, err := w.db.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
		return err
	})
}

// again calls try until no other process is in its way.
func (w *Writer) again(ctx context.Context, try func() error) error {
	end := time.Now().Add(w.busy)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
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
	if err := w.again(ctx, func() error {
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

// VersionError says that the tables were made by a newer program.
type VersionError struct{ Have, Known int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the tables have schema version %d, this version of Superstep knows versions up to %d", e.Have, e.Known)
}

// Migrate brings the tables of a package to the newest version. Meta is the table of
// versions, migrations are SQL, in order: the version is how many were run.
func (w *Writer) Migrate(ctx context.Context, meta string, migrations []string) error {
	return w.Write(ctx, func(c *sql.Conn) error {
		if _, err := c.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+meta+` (
			version INTEGER PRIMARY KEY,
			applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
		)`); err != nil {
			return err
		}
		var v int
		if err := c.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM `+meta).Scan(&v); err != nil {
			return err
		}
		if v > len(migrations) {
			return &VersionError{Have: v, Known: len(migrations)}
		}
		for ; v < len(migrations); v++ {
			if _, err := c.ExecContext(ctx, migrations[v]); err != nil {
				return fmt.Errorf("migrating to schema version %d: %w", v+1, err)
			}
			if _, err := c.ExecContext(ctx, `INSERT INTO `+meta+` (version) VALUES (?)`, v+1); err != nil {
				return err
			}
		}
		return nil
	})
}
