package pgdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/internal/backend"
)

const (
	defaultMaxConns = 8
	oldestServer    = 120000 // server_version_num
)

// grace is how long a query goes on whose context has ended. What is cut off costs a
// connection, and a request to the server to cancel it; PgBouncer 1.18 (Debian 12) ends
// itself now and then by such ("server in bad state: 11").
const grace = 500 * time.Millisecond

// Config says how a package uses a database.
type Config struct {
	Package string // for errors
	Tables  Tables
	Uses    []string // tables that must be readable and writable, without their schema
	Schema  string   // where they stand, made if it isn't there; "": where the search path leads

	MaxConns int               // of Open; 0: pool_max_conns of the URL, or else 8
	Settings map[string]string // of connections, unless the URL has them or does without prepared statements
}

// DB is a database with the tables of a package.
type DB struct {
	*pgxpool.Pool
	Server string // as errors name it: host:port/database
	Schema string
	Quoted string // the schema's name for SQL
	Strict bool   // transactions are not READ COMMITTED by themselves

	own bool // the pool is ours
}

// Open connects to a database.
func Open(ctx context.Context, url string, c Config) (*DB, error) {
	if c.MaxConns < 0 {
		return nil, errors.New(c.Package + ": Options.MaxConns must not be negative")
	}
	p, err := pgxpool.ParseConfig(url)
	if err != nil {
		what, fix := unparsed(url, err)
		return nil, &backend.Error{Package: c.Package, Op: "open", Kind: ErrURL, What: what, Fix: fix}
	}
	switch {
	case c.MaxConns > 0:
		p.MaxConns = int32(c.MaxConns)
	case !strings.Contains(url, "pool_max_conns"):
		p.MaxConns = defaultMaxConns
	}
	set := p.ConnConfig.RuntimeParams
	if set["application_name"] == "" {
		set["application_name"] = "superstep"
	}
	p.ConnConfig.OnNotification = handOn
	p.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: grace}
	}
	if !unprepared(p.ConnConfig) { // poolers don't let settings pass
		for name, value := range c.Settings {
			if _, ok := set[name]; !ok {
				set[name] = value
			}
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, p)
	if err != nil {
		return nil, Explain(c.Package, "open", server(p.ConnConfig), err)
	}
	d, err := New(ctx, pool, c)
	if err != nil {
		pool.Close()
		return nil, err
	}
	d.own = true
	return d, nil
}

func unprepared(c *pgx.ConnConfig) bool {
	return c.DefaultQueryExecMode == pgx.QueryExecModeExec || c.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
}

// New uses a pool that is there already, and leaves it open.
func New(ctx context.Context, pool *pgxpool.Pool, c Config) (*DB, error) {
	d := &DB{Pool: pool, Server: server(pool.Config().ConnConfig)}
	if err := d.prepare(ctx, c); err != nil {
		if ctx.Err() != nil && !backend.Explained(err) {
			return nil, ctx.Err()
		}
		return nil, Explain(c.Package, "open", d.Server, err)
	}
	return d, nil
}

func (d *DB) prepare(ctx context.Context, c Config) error {
	bad := func(kind error, what, fix string) error {
		return &backend.Error{Package: c.Package, Op: "open", Place: d.Server, Kind: kind, What: what, Fix: fix}
	}
	if strings.ContainsRune(c.Schema, 0) {
		return bad(ErrNoTables, "Options.Schema has a zero byte", "use a name without")
	}
	var version int
	var encoding, isolation, readOnly string
	err := d.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('default_transaction_isolation'),
		CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE current_setting('transaction_read_only') END`).Scan(&version, &encoding, &isolation, &readOnly)
	switch {
	case err != nil:
		return err
	case version < oldestServer:
		return bad(ErrTooOld, fmt.Sprintf("the server is PostgreSQL %d", version/10000), fmt.Sprintf("use PostgreSQL %d or newer", oldestServer/10000))
	case readOnly == "standby":
		return bad(ErrReadOnly, "the server is a standby", "connect to the primary; with several hosts in the URL add target_session_attrs=read-write")
	case readOnly != "off":
		return bad(ErrReadOnly, "transactions are read-only by default", "set default_transaction_read_only=off for this user, database or URL")
	case c.Tables.UTF8 && encoding != "UTF8":
		return bad(ErrNoDatabase, "the database has the encoding "+encoding, "use one that was created with ENCODING 'UTF8'")
	}
	d.Strict = isolation != "read committed"
	if d.Schema, err = c.Tables.migrate(ctx, d.Pool, c.Schema); err != nil {
		return err
	}
	d.Quoted = pgx.Identifier{d.Schema}.Sanitize()
	// A table that this user may not read or write shows now.
	var missing *string
	err = d.QueryRow(ctx, `SELECT string_agg(p || ' on ' || t, ', ') FROM unnest($1::text[]) t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p
		WHERE NOT has_table_privilege(format('%I.%I', $2::text, t), p)`, c.Uses, d.Schema).Scan(&missing)
	if err == nil && missing != nil {
		err = bad(ErrDenied, "this user lacks permissions: "+*missing, "let the tables' owner grant them, and USAGE on sequences beside them")
	}
	return err
}

// Close closes the pool, unless it was there already.
func (d *DB) Close() {
	if d.own {
		d.Pool.Close()
	}
}

// Forget has connections made anew after one broke: others may have too.
func (d *DB) Forget() {
	if d.own {
		d.Reset()
	}
}
