// Package postgres is a bus for the events of a fleet's workers in a PostgreSQL database.
//
// A batch is a row of an unlogged table, of any size; it is not flushed to disk, and gone
// after a crash of the server. Rows are kept for a minute, and written only while somebody
// follows the thread. A process tells the others by NOTIFY in which threads there is
// something new, and has a connection on which it listens once it has followed one. A pooler
// that shares connections between transactions doesn't let that through: then what is new is
// asked for 40 times a second, with one query for all threads of a process.
package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/internal/logged"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	// Schema is where the tables stand. It is made if it does not exist. Empty means the
	// first one of the connection's search path.
	Schema string
}

// Bus is a [bus.Bus] in a PostgreSQL database.
type Bus struct {
	logged *logged.Bus
	log    *rows
}

var _ bus.Bus = (*Bus)(nil)

// Open connects to a database, and makes the bus's tables if there are none.
func Open(ctx context.Context, url string, opts ...Options) (*Bus, error) {
	return open(ctx, opts, func(c pgdb.Config) (*pgdb.DB, error) { return pgdb.Open(ctx, url, c) })
}

// New uses a pool of connections that is there already; Close leaves it open.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Options) (*Bus, error) {
	return open(ctx, opts, func(c pgdb.Config) (*pgdb.DB, error) { return pgdb.New(ctx, pool, c) })
}

const name = "fleet/bus/postgres"

func open(ctx context.Context, opts []Options, with func(pgdb.Config) (*pgdb.DB, error)) (*Bus, error) {
	o, err := options.Only(name, opts)
	if err != nil {
		return nil, err
	}
	db, err := with(pgdb.Config{
		Package: name, Schema: o.Schema,
		Tables: pgdb.Tables{Meta: "superstep_bus_meta", Migrations: migrations, In: in},
		Uses:   []string{"superstep_bus_threads", "superstep_bus_batches"},
	})
	if err != nil {
		return nil, err
	}
	l := &rows{db: db}
	b := &Bus{logged.New(l, db.Wire("bus")), l}
	if err := l.sweep(ctx); err != nil { // what processes left that died
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Publish implements [bus.Bus].
func (b *Bus) Publish(ctx context.Context, thread string, batch []byte) error {
	return b.logged.Publish(ctx, thread, batch)
}

// Subscribe implements [bus.Bus].
func (b *Bus) Subscribe(ctx context.Context, thread string) (bus.Subscription, error) {
	return b.logged.Subscribe(ctx, thread)
}

// Close ends all subscriptions, and the connections that [Open] made.
func (b *Bus) Close() error {
	b.logged.Close()
	b.log.db.Close()
	return nil
}

// Times are microseconds. What is lost when the server crashes was not to last; numbers
// begin at the time, so that they grow nevertheless.
var migrations = []string{`
	CREATE UNLOGGED TABLE @superstep_bus_threads (
		thread text COLLATE "C" PRIMARY KEY,
		newest bigint NOT NULL,
		wanted bigint NOT NULL
	) WITH (fillfactor = 50);
	CREATE UNLOGGED TABLE @superstep_bus_batches (
		thread text COLLATE "C" NOT NULL,
		seq bigint NOT NULL,
		at bigint NOT NULL,
		data bytea NOT NULL,
		PRIMARY KEY (thread, seq)
	);
	CREATE INDEX superstep_bus_batches_at ON @superstep_bus_batches (at);
`}

func in(quoted, query string) string { return strings.ReplaceAll(query, "@", quoted+".") }

const now = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// rows is a [logged.Log].
type rows struct {
	db    *pgdb.DB
	swept atomic.Int64
}

func (r *rows) sql(query string) string { return in(r.db.Quoted, query) }

func (r *rows) failed(op string, err error) error {
	return pgdb.Explain(name, op, r.db.Server, err)
}

// Publish holds the thread's row until the batch is visible, so that batches become
// visible in the order of their numbers.
func (r *rows) Publish(ctx context.Context, thread string, batch []byte) (wanted bool, err error) {
	done, err := r.db.Exec(ctx, r.sql(`WITH t AS (
		UPDATE @superstep_bus_threads SET newest = newest + 1 WHERE thread = $1::text AND wanted > `+now+` - $3::bigint RETURNING newest)
		INSERT INTO @superstep_bus_batches (thread, seq, at, data) SELECT $1::text, newest, `+now+`, $2::bytea FROM t`),
		thread, batch, logged.Wanted.Microseconds())
	return done.RowsAffected() > 0, r.failed("publish", err)
}

func (r *rows) Want(ctx context.Context, threads []string) error {
	// In one order, so that two processes don't wait for one another.
	_, err := r.db.Exec(ctx, r.sql(`INSERT INTO @superstep_bus_threads (thread, newest, wanted)
		SELECT thread, t, t FROM unnest($1::text[]) AS thread, (SELECT `+now+` AS t) AS time ORDER BY thread COLLATE "C"
		ON CONFLICT (thread) DO UPDATE SET wanted = excluded.wanted`), threads)
	if err == nil {
		err = r.sweep(ctx)
	}
	return r.failed("subscribe", err)
}

// sweep removes what nobody reads any more, unless that was done just now.
func (r *rows) sweep(ctx context.Context) error {
	last := r.swept.Load()
	if t := time.Now().UnixMicro(); t-last < (10*time.Second).Microseconds() || !r.swept.CompareAndSwap(last, t) {
		return nil
	}
	if _, err := r.db.Exec(ctx, r.sql(`DELETE FROM @superstep_bus_batches WHERE at < `+now+` - $1::bigint`), logged.Kept.Microseconds()); err != nil {
		return r.failed("sweep", err)
	}
	_, err := r.db.Exec(ctx, r.sql(`DELETE FROM @superstep_bus_threads WHERE wanted < `+now+` - $1::bigint`), 2*logged.Wanted.Microseconds())
	return r.failed("sweep", err)
}

func (r *rows) Newest(ctx context.Context, threads []string) (map[string]string, error) {
	found, err := r.db.Query(ctx, r.sql(`SELECT thread, newest FROM @superstep_bus_threads WHERE thread = ANY($1::text[])`), threads)
	out := map[string]string{}
	if err == nil {
		var thread string
		var newest int64
		_, err = pgx.ForEachRow(found, []any{&thread, &newest}, func() error {
			out[thread] = strconv.FormatInt(newest, 10)
			return nil
		})
	}
	return out, r.failed("read", err)
}

func (r *rows) Read(ctx context.Context, thread, after string) (batches [][]byte, last string, err error) {
	from, _ := strconv.ParseInt(after, 10, 64) // of Newest
	found, err := r.db.Query(ctx, r.sql(`SELECT seq, data FROM @superstep_bus_batches WHERE thread = $1::text AND seq > $2::bigint ORDER BY seq`), thread, from)
	if err == nil {
		var seq int64
		var data []byte
		_, err = pgx.ForEachRow(found, []any{&seq, &data}, func() error {
			batches, last = append(batches, data), strconv.FormatInt(seq, 10)
			data = nil
			return nil
		})
	}
	return batches, last, r.failed("read", err)
}
