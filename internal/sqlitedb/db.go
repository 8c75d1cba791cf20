package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/backend"
	"github.com/superstep-dev/superstep/internal/private"
)

// Config says how a package uses a database.
type Config struct {
	Package     string // for errors
	Tables      Tables
	Connections int              // that read at once
	Pragmas     []string         // of each connection, as in "synchronous(NORMAL)"
	Busy        time.Duration    // how long to wait for other processes; 0: [BusyTimeout]
	Closed      error            // of methods after Close
	Agreed      func(error) bool // of errors that say enough as they are
}

// DB is a database with the tables of a package, which has one writer at a time.
type DB struct {
	*sql.DB
	c      Config
	path   string
	writer *Writer
	own    bool
	closed atomic.Bool
}

// Open opens the database at a path, and makes it if there is none, for its owner alone.
func Open(path string, c Config) (*DB, error) {
	if err := Look(c.Package, path); err != nil {
		return nil, err
	}
	db, err := Connect(path, c.Connections, c.Busy, c.Pragmas...)
	if err != nil {
		return nil, Explain(c.Package, "open", path, err)
	}
	d, err := open(db, path, c)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d.own = true
	return d, nil
}

// New uses a database that is open already, and leaves it open.
func New(db *sql.DB, c Config) (*DB, error) { return open(db, "database", c) }

// Connect opens the database at a path for so many connections at once. Settings are
// pragmas of each, or parameters of the driver, as in "_txlock=immediate".
func Connect(path string, connections int, busy time.Duration, settings ...string) (*sql.DB, error) {
	query := fmt.Sprintf("_pragma=busy_timeout(%d)", min(or(busy), time.Second).Milliseconds()) // a Writer waits for the rest
	for _, p := range settings {
		if query += "&"; p[0] != '_' {
			query += "_pragma="
		}
		query += p
	}
	name := path + "?" + query
	if path == Memory {
		connections = 1
	} else {
		private.Create(path)
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

func or(busy time.Duration) time.Duration {
	if busy == 0 {
		return BusyTimeout
	}
	return busy
}

func open(db *sql.DB, path string, c Config) (*DB, error) {
	if c.Busy < 0 {
		return nil, errors.New(c.Package + ": Options.BusyTimeout must not be negative")
	}
	d := &DB{DB: db, c: c, path: path, writer: NewWriter(db, or(c.Busy))}
	ctx := context.Background()
	err := d.writer.WAL(ctx)
	if err == nil {
		err = d.writer.Migrate(ctx, &c.Tables)
	}
	if err == nil { // a file that is read-only shows now
		err = d.writer.Write(ctx, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, `UPDATE `+c.Tables.Meta+` SET version = version`)
			return err
		})
	}
	if err != nil {
		return nil, Explain(c.Package, "open", path, err)
	}
	return d, nil
}

// Start returns why a method can't begin.
func (d *DB) Start(ctx context.Context) error {
	if d.closed.Load() {
		return d.c.Closed
	}
	return ctx.Err()
}

// Failed explains an error of a method. A database that is being closed says so.
func (d *DB) Failed(ctx context.Context, op string, err error) error {
	switch {
	case err == nil || d.c.Agreed(err) || backend.Explained(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err() // however the driver put it
	case d.closed.Load():
		return d.c.Closed
	}
	return Explain(d.c.Package, op, d.path, err)
}

// Write runs f in a transaction that writes.
func (d *DB) Write(ctx context.Context, op string, f func(c *sql.Conn) error) error {
	if err := d.Start(ctx); err != nil {
		return err
	}
	return d.Failed(ctx, op, d.writer.Write(ctx, func(c *sql.Conn) error {
		if err := d.Start(ctx); err != nil { // it may have been closed meanwhile
			return err
		}
		return f(c)
	}))
}

// Read runs f in a transaction that sees one moment of the database.
func (d *DB) Read(ctx context.Context, op string, f func(c *sql.Conn) error) error {
	if err := d.Start(ctx); err != nil {
		return err
	}
	return d.Failed(ctx, op, d.read(ctx, f))
}

func (d *DB) read(ctx context.Context, f func(c *sql.Conn) error) (err error) {
	c, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	defer func() { _, _ = c.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`) }() // see Writer.Write
	if _, err := c.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	return f(c)
}

// Close finishes writes that have begun. Later calls return Config.Closed.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return d.c.Closed
	}
	d.writer.Rest()
	if !d.own {
		return nil
	}
	return Explain(d.c.Package, "close", d.path, d.DB.Close())
}
