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
// A pooler such as PgBouncer may stand in between: set [Options.NoPrepare]. In
// session mode, or where it tracks prepared statements, that is not needed if it
// lets the settings lock_timeout, enable_seqscan and enable_bitmapscan pass or
// ignores them (ignore_startup_parameters).
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

	// NoPrepare does without prepared statements and settings of the session,
	// for poolers. It is somewhat slower, and leaves LockTimeout to the server's
	// settings. It is for [Open] alone; for [New], a pool says so with its
	// DefaultQueryExecMode.
	NoPrepare bool
}

const (
	defaultMaxConns    = 8
	defaultWriters     = 4
	defaultTimeout     = time.Minute
	defaultLockTimeout = 10 * time.Second

	oldestServer = 120000 // server_version_num

	removeMost = 5000 // rows in a transaction
)

// Store is a [checkpoint.Store] in a PostgreSQL database, with all that an
// [engine.Engine] can do.
type Store struct{ *engine.Engine }

// driver keeps an engine's rows.
type driver struct {
	pool    *pgxpool.Pool
	own     bool   // the pool is ours
	server  string // for errors
	timeout time.Duration
	bracket bool // transactions must say that they are READ COMMITTED
	sql     statements

	sending sync.WaitGroup
	closed  atomic.Bool
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
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL(url, err)
	}
	switch {
	case o.MaxConns > 0:
		c.MaxConns = int32(o.MaxConns)
	case !strings.Contains(url, "pool_max_conns"):
		c.MaxConns = defaultMaxConns
	}
	if o.NoPrepare {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	} else {
		set := c.ConnConfig.RuntimeParams
		for name, value := range map[string]string{
			"lock_timeout": fmt.Sprint(max(1, o.LockTimeout.Milliseconds())), "application_name": "superstep",
			"enable_seqscan": "off", "enable_bitmapscan": "off",
		} {
			if _, ok := set[name]; !ok {
				set[name] = value
			}
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, explain("open", pgdb.Server(c.ConnConfig), err)
	}
	d, err := open(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	d.own = true
	return storeOf(d, o), nil
}

func storeOf(d *driver, o Options) *Store {
	return &Store{engine.New(d, engine.Options{Writers: max(1, min(o.Writers, int(d.pool.Config().MaxConns)-1)), Remove: removeMost})}
}

// New uses a pool of connections that is there already; Close leaves it open. The
// store uses at most all but one of its connections at once to write.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Options) (*Store, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, pool, o)
	if err != nil {
		return nil, err
	}
	return storeOf(d, o), nil
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("postgres", opts)
	if err != nil {
		return o, err
	}
	if o.MaxConns < 0 || o.Writers < 0 || o.Timeout < 0 || o.LockTimeout < 0 {
		return o, errors.New("postgres: Options must not be negative")
	}
	if strings.ContainsRune(o.Schema, 0) {
		return o, errors.New("postgres: Options.Schema must not contain a zero byte")
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

func open(ctx context.Context, pool *pgxpool.Pool, o Options) (*driver, error) {
	d := &driver{pool: pool, server: pgdb.Server(pool.Config().ConnConfig), timeout: o.Timeout}
	fail := func(err error) (*driver, error) {
		if ctx.Err() != nil && !isOurs(err) {
			return nil, ctx.Err()
		}
		return nil, explain("open", d.server, err)
	}
	var version int
	var isolation, readOnly, output string
	err := pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('default_transaction_isolation'),
		CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE current_setting('transaction_read_only') END,
		current_setting('bytea_output')`).Scan(&version, &isolation, &readOnly, &output)
	if err != nil {
		return fail(err)
	}
	if version < oldestServer {
		return nil, &Error{
			Op: "open", Server: d.server, Kind: ErrTooOld, What: fmt.Sprintf("the server is PostgreSQL %d", version/10000),
			Fix: fmt.Sprintf("use PostgreSQL %d or newer", oldestServer/10000),
		}
	}
	if readOnly != "off" {
		e := &Error{Op: "open", Server: d.server, Kind: ErrReadOnly}
		if e.What, e.Fix = "transactions are read-only by default", "set default_transaction_read_only=off for this user, database or URL"; readOnly == "standby" {
			e.What, e.Fix = "the server is a standby", "connect to the primary; with several hosts in the URL add target_session_attrs=read-write"
		}
		return nil, e
	}
	if mode := pool.Config().ConnConfig.DefaultQueryExecMode; output != "hex" && (mode == pgx.QueryExecModeSimpleProtocol || mode == pgx.QueryExecModeExec) {
		return nil, &Error{
			Op: "open", Server: d.server, Kind: ErrURL, What: fmt.Sprintf("bytea_output is %q, which the driver cannot read without prepared statements", output),
			Fix: "set bytea_output=hex for this user, database or URL",
		}
	}
	d.bracket = isolation != "read committed"
	schema, err := migrate(ctx, pool, d.server, o.Schema)
	if err != nil {
		return fail(err)
	}
	d.sql = newStatements(pgx.Identifier{schema}.Sanitize())
	// A table that this user may not read or write shows now.
	if err := d.mayUse(ctx, schema); err != nil {
		return fail(err)
	}
	return d, nil
}

// Close implements [engine.Driver]. Commits that have begun are finished.
func (d *driver) Close() error {
	d.closed.Store(true)
	d.sending.Wait()
	if d.own {
		d.pool.Close()
	}
	return nil
}
