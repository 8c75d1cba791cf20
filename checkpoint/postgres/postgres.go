// Package postgres keeps threads in a PostgreSQL database, for programs that run
// on several machines.
//
//	store, err := postgres.Open(ctx, "postgres://user:password@host:5432/database")
//	…
//	defer store.Close()
//
// [New] uses a pool that the program has already.
//
// The store makes its tables by itself; their names begin with superstep_, and
// they stand where the connection's search path leads, which is mostly the schema
// public, or in [Options.Schema]. Several programs, also ones that start at the
// same moment, may use one database; a write of one is seen by the others at once.
// PostgreSQL 12 or newer is needed.
//
// # Speed
//
// A write is one round trip to the server, whatever it holds. Writes to many
// threads at once share transactions, so throughput grows with the number of
// threads, while a lone writer does not wait. Who would rather lose the last
// moments before a failure of the database server than wait for its disk adds
// synchronous_commit=off to the URL: a write may then be undone up to a second
// after it was acknowledged, as if it had not happened; nothing is ever torn.
//
// # Leases
//
// Leases are timed by the server's clock alone, those of its clients may be wrong.
//
// # Failures
//
// When the server restarts or fails over, calls return [ErrUnavailable] while it
// is away; afterwards the store goes on by itself. If it went away during a
// write, the error is [ErrUnknownOutcome]: the write happened as a whole or not at
// all, and a look at the log's head says which. Who writes on without looking
// meets [checkpoint.ErrConflict] if it happened, and damages nothing. The same is
// true of a write whose context ended under way. Such a write may still be on its
// way to the disk for a moment; a claim settles that, since what comes after it
// with an older fence is refused.
//
// # Poolers
//
// A pooler such as PgBouncer may stand in between: add
// default_query_exec_mode=exec to the URL. The store does without prepared statements
// and settings of the session then, is somewhat slower, and leaves
// [Options.LockTimeout] to the server's settings. In session mode that is not needed if
// the pooler lets the settings lock_timeout, enable_seqscan and enable_bitmapscan pass
// or ignores them (ignore_startup_parameters).
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	// Schema is where the tables stand. It is made if it does not exist. Empty
	// means the first one of the connection's search path.
	Schema string

	// MaxConns is how many connections [Open] makes at most; 0 means
	// pool_max_conns of the URL, or else 8.
	MaxConns int

	// Writers is how many transactions of writes run at once; 0 means 4, or
	// less if there are few connections.
	Writers int

	// Timeout is how long the server may take to answer a write before the
	// connection is given up; 0 means a minute. Other calls wait for as long as
	// their contexts say.
	Timeout time.Duration

	// LockTimeout is how long a write waits for another program's transaction
	// that holds the same thread; 0 means 10 seconds. It is set by [Open]
	// alone; a pool that is given to [New] keeps its own.
	LockTimeout time.Duration
}

const (
	defaultWriters     = 4
	defaultTimeout     = time.Minute
	defaultLockTimeout = 10 * time.Second

	removeMost = 5000 // rows in a transaction
)

// Store is a [checkpoint.Store] in a PostgreSQL database, with all that an
// [engine.Engine] can do.
type Store struct {
	*engine.Engine
	driver *driver
}

// Tx is a transaction of the caller's: a *sql.Tx, say.
type Tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Within makes a transaction of the caller's: it begins it, calls write at its end, since from
// then on the transaction holds the thread for itself, and commits it, unless there is an error,
// which it returns.
type Within func(ctx context.Context, write func(Tx) error) error

// WriteIn is Write in a transaction of the caller's on the same database, which must be READ
// COMMITTED: what else is done in it happens with the write or not at all. Within is called
// again, with another write, if others have changed the thread meanwhile. Errors of within are
// returned as they are.
func (s *Store) WriteIn(ctx context.Context, w *checkpoint.Write, within Within) (checkpoint.Written, error) {
	ctx, cancel := context.WithTimeout(ctx, s.driver.timeout)
	defer cancel()
	return s.WriteBy(ctx, w, func(ctx context.Context, c *engine.Commit) error {
		if tooLong(c) {
			return c.Err
		}
		err := within(ctx, func(tx Tx) error {
			if err := scanCommit(tx.QueryRowContext(ctx, s.driver.sql.commit, args(c)...), c); err != nil {
				return err
			}
			return c.Err
		})
		if errors.Is(err, engine.ErrStale) {
			return nil // c says so
		}
		return err
	})
}

// driver keeps an engine's rows.
type driver struct {
	db      *pgdb.DB
	timeout time.Duration
	sql     statements

	closed atomic.Bool
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Checker = (*driver)(nil)
)

// Open connects to a database and makes the store's tables if there are none. The
// URL is one as psql takes it: postgres://user:password@host:port/database?…, or
// "host=… user=…"; what it leaves out comes from the environment (PGHOST,
// PGPASSWORD and so on). Settings of the server, such as synchronous_commit, may
// stand in it as parameters. Errors about the database are an [*Error].
func Open(ctx context.Context, url string, opts ...Options) (*Store, error) {
	return open(ctx, opts, func(c pgdb.Config) (*pgdb.DB, error) { return pgdb.Open(ctx, url, c) })
}

// New uses a pool of connections that is there already; Close leaves it open. The
// store uses at most all but one of its connections at once to write.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Options) (*Store, error) {
	return open(ctx, opts, func(c pgdb.Config) (*pgdb.DB, error) { return pgdb.New(ctx, pool, c) })
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("postgres", opts)
	if err != nil {
		return o, err
	}
	if o.MaxConns < 0 || o.Writers < 0 || o.Timeout < 0 || o.LockTimeout < 0 {
		return o, errors.New("postgres: Options must not be negative")
	}
	if o.Writers == 0 {
		o.Writers = defaultWriters
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultLockTimeout
	}
	return o, nil
}

func open(ctx context.Context, opts []Options, with func(pgdb.Config) (*pgdb.DB, error)) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	db, err := with(pgdb.Config{
		Package: "postgres", Schema: o.Schema, MaxConns: o.MaxConns,
		Settings: map[string]string{
			"lock_timeout": fmt.Sprint(max(1, o.LockTimeout.Milliseconds())), "enable_seqscan": "off", "enable_bitmapscan": "off",
		},
		Tables: pgdb.Tables{Meta: "superstep_meta", Migrations: migrations, Unread: oldest, In: in},
		Uses:   []string{"superstep_threads", "superstep_logs", "superstep_records", "superstep_side"},
	})
	if err != nil {
		return nil, explain("open", "", err)
	}
	var output string
	err = db.QueryRow(ctx, `SELECT current_setting('bytea_output')`).Scan(&output)
	if mode := db.Config().ConnConfig.DefaultQueryExecMode; err == nil && output != "hex" && (mode == pgx.QueryExecModeSimpleProtocol || mode == pgx.QueryExecModeExec) {
		err = &Error{
			Package: "postgres", Op: "open", Place: db.Server, Kind: ErrURL, Fix: "set bytea_output=hex for this user, database or URL",
			What: fmt.Sprintf("bytea_output is %q, which the driver cannot read without prepared statements", output),
		}
	}
	if err != nil {
		db.Close()
		return nil, explain("open", db.Server, err)
	}
	d := &driver{db: db, timeout: o.Timeout, sql: newStatements(db.Quoted)}
	return &Store{engine.New(d, engine.Options{Writers: max(1, min(o.Writers, int(db.Config().MaxConns)-1)), Remove: removeMost, Leave: o.Timeout}), d}, nil
}

// Close implements [engine.Driver].
func (d *driver) Close() error {
	d.closed.Store(true)
	d.db.Close()
	return nil
}
