// Package db keeps what the server knows beside the checkpoints of threads:
// assistants, threads, runs and crons, in SQLite or PostgreSQL. Statements are
// written once, for both.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/superstep-dev/superstep/internal/backend"
	"github.com/superstep-dev/superstep/internal/pgdb"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

// Errors.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrVersion  = backend.ErrVersion // tables were made by a newer version of Superstep
)

const what = "server's database" // in errors

// DB is a database. It is safe for concurrent use.
type DB struct {
	sql   *prepared
	reads *prepared // for statements that only read; of SQLite in memory it is sql
	pg    *pgdb.DB  // nil for SQLite
}

// readers is how many searches of SQLite may go on at a time. Each is a connection.
const readers = 4

// OpenSQLite opens a file, and makes it if it is not there. An empty path means
// a database in memory.
func OpenSQLite(ctx context.Context, path string) (*DB, error) {
	// Files that are made now give back what they need no more; see GiveBack.
	settings := []string{"auto_vacuum(incremental)", "foreign_keys(1)", "synchronous(NORMAL)", "busy_timeout(10000)", "_txlock=immediate"}
	path = cmp.Or(path, sqlitedb.Memory)
	if err := sqlitedb.Look(what, path); err != nil {
		return nil, err
	}
	connect := func(connections int, more ...string) (*prepared, error) {
		db, err := sqlitedb.Connect(path, connections, 0, append(more, settings...)...)
		return newPrepared(db), err
	}
	// One connection, for ever: writers take turns anyway, and what is in memory goes
	// with it.
	all, err := connect(1)
	if err != nil {
		return nil, sqlitedb.Explain(what, "open", path, err)
	}
	writer := sqlitedb.NewWriter(all.DB, sqlitedb.BusyTimeout)
	if err = writer.WAL(ctx); err == nil {
		t := sqlitedb.Tables{Meta: meta, Unread: oldest}
		for _, m := range migrations {
			t.Migrations = append(t.Migrations, in("", m))
		}
		err = writer.Migrate(ctx, &t)
	}
	d := &DB{sql: all, reads: all}
	if err == nil && path != sqlitedb.Memory {
		// Who reads holds no writer up, nor the other way round: that is what the log of
		// writes is for.
		d.reads, err = connect(readers, "query_only(1)")
	}
	if err != nil {
		return nil, errors.Join(sqlitedb.Explain(what, "open", path, err), all.Close())
	}
	return d, nil
}

// OpenPostgres connects to a server. Tables stand in schema, or where the search
// path leads if that is empty.
func OpenPostgres(ctx context.Context, conn, schema string) (*DB, error) {
	pg, err := pgdb.Open(ctx, conn, pgdb.Config{
		Package: what, Schema: schema, Tables: pgdb.Tables{Meta: meta, Migrations: migrations, Unread: oldest, In: in},
		// An instance that stands still in the middle of a transaction must not keep the
		// others from taking its runs over. Poolers don't let settings pass.
		Settings: map[string]string{"idle_in_transaction_session_timeout": "5000"}, // milliseconds
	})
	if err != nil {
		return nil, err
	}
	all := &prepared{DB: stdlib.OpenDBFromPool(pg.Pool)} // which prepares by itself
	return &DB{sql: all, reads: all, pg: pg}, nil
}

const meta = "superstep_server_meta"

// in writes the schema's name into SQL, if there is one.
func in(quoted, query string) string {
	if quoted != "" {
		quoted += "."
	}
	return strings.ReplaceAll(query, "@", quoted)
}

// Close frees what the database holds.
func (d *DB) Close() error {
	err := d.sql.Close()
	if d.reads != d.sql {
		err = errors.Join(d.reads.Close(), err) // the last one to close writes the log back
	}
	if d.pg != nil {
		d.pg.Close()
	}
	return err
}

// GiveBack gives pages of SQLite that are free back to the file system: as many as
// take no time to speak of.
func (d *DB) GiveBack(ctx context.Context) error {
	if d.pg != nil {
		return nil // PostgreSQL does so by itself
	}
	return d.tx(ctx, func(tx execer) error {
		rows, err := tx.QueryContext(ctx, `PRAGMA incremental_vacuum(10000)`)
		if err != nil {
			return err
		}
		for rows.Next() { // each step frees a page
		}
		return errors.Join(rows.Err(), rows.Close())
	})
}

// Ping reports whether the database answers.
func (d *DB) Ping(ctx context.Context) error { return d.sql.PingContext(ctx) }

// oldest is the least version of tables that can be brought to the newest.
const oldest = 11

// @ stands for the schema. Times are microseconds since 1970, JSON is text.
// Latest versions of assistants stand whole in superstep_assistants. A run's
// holder is the instance that is to run it; stop says that it shall not go on.
// Of a thread's feed, first is the number with which it begins, next that of the
// next event, and wanted when somebody followed it last. Labels of threads are those of
// their metadata, see [Labels]. A run's owner is who started it; its graph, the owner of
// its thread, its error, when it began and ended, and what its models used, are for searches; so are a thread's title and what its state says, in
// small letters: says is null until that was noted.
var migrations = []string{oldest: `
	CREATE TABLE @superstep_assistants (
		id text PRIMARY KEY,
		graph text NOT NULL,
		version bigint NOT NULL,
		created bigint NOT NULL,
		updated bigint NOT NULL,
		data text NOT NULL
	);
	CREATE TABLE @superstep_assistant_versions (
		id text NOT NULL,
		version bigint NOT NULL,
		data text NOT NULL,
		PRIMARY KEY (id, version)
	);
	CREATE TABLE @superstep_server_threads (
		id text PRIMARY KEY,
		graph text NOT NULL,
		assistant text NOT NULL,
		owner text NOT NULL,
		status text NOT NULL,
		created bigint NOT NULL,
		updated bigint NOT NULL,
		expires bigint,
		data text NOT NULL,
		title text NOT NULL,
		says text
	);
	CREATE INDEX superstep_server_threads_created ON @superstep_server_threads (created, id);
	CREATE INDEX superstep_server_threads_updated ON @superstep_server_threads (updated, id);
	CREATE INDEX superstep_server_threads_graph ON @superstep_server_threads (graph, created);
	CREATE INDEX superstep_server_threads_assistant ON @superstep_server_threads (assistant, created);
	CREATE INDEX superstep_server_threads_owner ON @superstep_server_threads (owner, created);
	CREATE INDEX superstep_server_threads_expires ON @superstep_server_threads (expires) WHERE expires IS NOT NULL;
	CREATE TABLE @superstep_server_labels (
		label text NOT NULL,
		thread text NOT NULL REFERENCES @superstep_server_threads (id) ON DELETE CASCADE,
		PRIMARY KEY (label, thread)
	);
	CREATE INDEX superstep_server_labels_thread ON @superstep_server_labels (thread);
	CREATE TABLE @superstep_feedback (
		id text PRIMARY KEY,
		thread text NOT NULL REFERENCES @superstep_server_threads (id) ON DELETE CASCADE,
		data text NOT NULL
	);
	CREATE INDEX superstep_feedback_thread ON @superstep_feedback (thread, id);
	CREATE TABLE @superstep_runs (
		id text PRIMARY KEY,
		thread text NOT NULL,
		assistant text NOT NULL,
		status text NOT NULL,
		created bigint NOT NULL,
		updated bigint NOT NULL,
		starts bigint NOT NULL,
		holder text NOT NULL,
		owner text NOT NULL,
		stop bigint NOT NULL DEFAULT 0,
		data text NOT NULL,
		graph text NOT NULL,
		thread_owner text NOT NULL,
		error text NOT NULL DEFAULT '',
		began bigint,
		ended bigint,
		tokens_in bigint,
		tokens_out bigint,
		cost double precision
	);
	CREATE INDEX superstep_runs_thread ON @superstep_runs (thread, created, id);
	CREATE INDEX superstep_runs_open ON @superstep_runs (holder) WHERE status IN ('pending', 'running');
	CREATE INDEX superstep_runs_owner ON @superstep_runs (owner) WHERE status IN ('pending', 'running');
	CREATE INDEX superstep_runs_turn ON @superstep_runs (thread, created, id) WHERE status IN ('pending', 'running');
	CREATE INDEX superstep_runs_created ON @superstep_runs (created, id, status, began, ended, tokens_in, tokens_out, cost);
	CREATE INDEX superstep_runs_graph ON @superstep_runs (graph, created, id);
	CREATE INDEX superstep_runs_assistant ON @superstep_runs (assistant, created, id);
	CREATE INDEX superstep_runs_started_by ON @superstep_runs (owner, created, id) WHERE owner <> '';
	CREATE INDEX superstep_runs_thread_owner ON @superstep_runs (thread_owner, created, id);
	CREATE INDEX superstep_runs_amiss ON @superstep_runs (created, id, status, graph, assistant, owner, thread_owner, error) WHERE status <> 'success';
	CREATE INDEX superstep_runs_spent ON @superstep_runs (created, id, tokens_in, tokens_out, cost, status, graph, assistant, owner, thread_owner) WHERE tokens_in + tokens_out > 0;
	CREATE TABLE @superstep_instances (
		id text PRIMARY KEY,
		beat bigint NOT NULL
	);
	CREATE TABLE @superstep_crons (
		id text PRIMARY KEY,
		owner text NOT NULL,
		assistant text NOT NULL,
		thread text NOT NULL,
		enabled bigint NOT NULL,
		created bigint NOT NULL,
		updated bigint NOT NULL,
		next bigint,
		data text NOT NULL
	);
	CREATE INDEX superstep_crons_next ON @superstep_crons (next) WHERE next IS NOT NULL;
	CREATE INDEX superstep_crons_owner ON @superstep_crons (owner, next) WHERE next IS NOT NULL;
	CREATE TABLE @superstep_feeds (
		thread text PRIMARY KEY,
		first bigint NOT NULL,
		next bigint NOT NULL,
		changed bigint NOT NULL,
		wanted bigint NOT NULL
	);
	CREATE INDEX superstep_feeds_changed ON @superstep_feeds (changed);
	CREATE TABLE @superstep_feed_events (
		thread text NOT NULL,
		feed bigint NOT NULL,
		seq bigint NOT NULL,
		at bigint NOT NULL,
		run text NOT NULL,
		nth bigint NOT NULL,
		version bigint NOT NULL,
		ending bigint NOT NULL,
		method text NOT NULL,
		channel text NOT NULL,
		namespace text NOT NULL,
		data text NOT NULL,
		told text NOT NULL,
		PRIMARY KEY (thread, seq)
	);
	CREATE INDEX superstep_feed_events_at ON @superstep_feed_events (at);
	CREATE TABLE @superstep_webhooks (
		id text PRIMARY KEY,
		owner text NOT NULL,
		due bigint NOT NULL,
		tries bigint NOT NULL,
		url text NOT NULL,
		data text NOT NULL
	);
	CREATE INDEX superstep_webhooks_due ON @superstep_webhooks (due);
	CREATE INDEX superstep_webhooks_owner ON @superstep_webhooks (owner, due);
`}

// bind writes a statement for the database at hand: @ is the schema, ? a
// parameter.
func (d *DB) bind(query string) string {
	if d.pg == nil {
		return in("", query)
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		switch r {
		case '?':
			n++
			b.WriteString("$" + strconv.Itoa(n))
		case '@':
			b.WriteString(d.pg.Quoted + ".")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (d *DB) tx(ctx context.Context, f func(execer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var o sql.TxOptions
	if d.pg != nil { // whatever the database does by itself
		o.Isolation = sql.LevelReadCommitted
	}
	// SQLite's driver reports the end of a context even where BEGIN has begun, and
	// would leave the transaction open.
	tx, err := d.sql.BeginTx(context.WithoutCancel(ctx), &o)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	in := &preparedTx{Tx: tx, of: d.sql}
	if err := f(in); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	in.prepare()
	return nil
}

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (d *DB) exec(ctx context.Context, e execer, query string, args ...any) (int64, error) {
	r, err := e.ExecContext(ctx, d.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// one reads the JSON of one row.
func one[T any](ctx context.Context, d *DB, e execer, query string, args ...any) (*T, error) {
	var data string
	switch err := e.QueryRowContext(ctx, d.bind(query), args...).Scan(&data); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	}
	v := new(T)
	return v, json.Unmarshal([]byte(data), v)
}

// value reads the one value of one row; the zero one if there is no row.
func value[T any](ctx context.Context, d *DB, e execer, query string, args ...any) (v T, err error) {
	if err = e.QueryRowContext(ctx, d.bind(query), args...).Scan(&v); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}

// list reads rows.
func list[T any](ctx context.Context, d *DB, e execer, scan func(*sql.Rows, *T) error, query string, args ...any) (out []T, err error) {
	rows, err := e.QueryContext(ctx, d.bind(query), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// texts is list for rows of one text.
func (d *DB) texts(ctx context.Context, e execer, query string, args ...any) ([]string, error) {
	return list(ctx, d, e, func(r *sql.Rows, s *string) error { return r.Scan(s) }, query, args...)
}

// remove is exec for what must be there.
func (d *DB) remove(ctx context.Context, e execer, query string, args ...any) error {
	n, err := d.exec(ctx, e, query, args...)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// Page selects a part of what a search finds.
type Page struct {
	Limit, Offset int
	Ascending     bool
	uncounted     bool // nobody asks how many there are
}

// search reads rows in order, keeps those that match accepts, and returns a page
// of them and how many there are.
func search[T any](ctx context.Context, d *DB, p Page, accepts func(*T) bool, query string, args ...any) (found []*T, total int, err error) {
	rows, err := d.reads.QueryContext(ctx, d.bind(query), args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	found = []*T{}
	for rows.Next() {
		var data sql.RawBytes
		if err := rows.Scan(&data); err != nil {
			return nil, 0, err
		}
		v := new(T)
		if err := json.Unmarshal(data, v); err != nil {
			return nil, 0, err
		}
		if accepts != nil && !accepts(v) {
			continue
		}
		if total++; total > p.Offset && len(found) < p.Limit {
			found = append(found, v)
		}
		if p.uncounted && len(found) >= p.Limit {
			break
		}
	}
	return found, total, rows.Err()
}

// ranked is search for an order that no column has. It keeps about as many rows as
// there are up to the end of the page.
func ranked[T any](ctx context.Context, d *DB, p Page, accepts func(*T) bool, compare func(a, b *T) int, query string, args ...any) ([]*T, int, error) {
	if !p.Ascending {
		ascending := compare
		compare = func(a, b *T) int { return ascending(b, a) }
	}
	var first []*T
	rank := func() {
		slices.SortFunc(first, compare)
		if most := p.Offset + p.Limit; most >= 0 { // else there are fewer
			first = first[:min(len(first), most)]
		}
	}
	_, total, err := search(ctx, d, Page{}, func(v *T) bool {
		if accepts != nil && !accepts(v) {
			return false
		}
		first = append(first, v)
		if n := len(first); n >= 1000 && n/2-p.Limit >= p.Offset {
			rank()
		}
		return true
	}, query, args...)
	if err != nil {
		return nil, 0, err
	}
	rank()
	return append([]*T{}, first[min(p.Offset, len(first)):]...), total, nil
}

func encode(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func direction(p Page) string {
	if p.Ascending {
		return "ASC"
	}
	return "DESC"
}
