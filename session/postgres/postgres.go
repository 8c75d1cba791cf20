// Package postgres keeps sessions in a PostgreSQL database, for programs that run
// on several machines.
//
//	service, err := postgres.Open(ctx, "postgres://user:password@host:5432/database")
//
// The service makes its tables by itself, whose names begin with
// superstep_session, where the connection's search path leads or in
// [Options.Schema]. Several programs may use one database. Times are the
// server's. PostgreSQL 12 or newer is needed.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/pgdb"
	"github.com/superstep-dev/superstep/session"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	// Schema is where the tables stand. It is made if it does not exist. Empty
	// means the first one of the connection's search path.
	Schema string

	// TTL, if positive, is how long a session is kept after it was last written
	// to; the shortest is a millisecond. Expired ones are removed when others are
	// made. The state of users and apps is kept for ever.
	TTL time.Duration
}

const (
	page     = 256 // sessions of a list that are read at once
	sweepMax = 100 // sessions that are removed at once
	tries    = 5   // of a transaction that the server undoes
)

// Service is a [session.Service] in a PostgreSQL database.
type Service struct {
	pool   *pgxpool.Pool
	own    bool
	server string
	ttl    time.Duration
	schema string // quoted
	closed atomic.Bool

	mu    sync.Mutex
	swept time.Time
}

var _ session.Service = (*Service)(nil)

// Open connects to a database and makes the tables if there are none. The URL is
// one as psql takes it; what it leaves out comes from the environment. Errors
// about the database are a [*session.Error].
func Open(ctx context.Context, rawURL string, opts ...Options) (*Service, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		return nil, badURL(rawURL, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, &session.Error{Op: "open", Place: pgdb.Server(c.ConnConfig), Kind: session.ErrUnavailable, Err: err}
	}
	s, err := open(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// New uses a pool of connections that is there already; Close leaves it open.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Options) (*Service, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, pool, o)
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("session/postgres", opts)
	if err != nil {
		return o, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return o, fmt.Errorf("session/postgres: Options.TTL is %v; the shortest is a millisecond, 0 means for ever", o.TTL)
	}
	if strings.ContainsRune(o.Schema, 0) {
		return o, errors.New("session/postgres: Options.Schema must not contain a zero byte")
	}
	return o, nil
}

// badURL explains a connection string that cannot be parsed.
func badURL(conn string, err error) error {
	what, fix := pgdb.Unparsed(conn, err)
	e := &session.Error{Op: "open", Kind: session.ErrConnection, Fix: fix}
	if what != "" {
		e.Err = errors.New(what)
	}
	return e
}

// The tables; @ stands for the schema. Names of users are compared
// byte by byte. A value of state belongs to the session with that sid; with sid 0
// to a user, and with usr empty to the app. JSON is kept as bytes, so that it
// comes back as it was.
var migrations = []string{
	`CREATE TABLE @superstep_sessions (
		sid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		app text COLLATE "C" NOT NULL,
		usr text COLLATE "C" NOT NULL,
		id text COLLATE "C" NOT NULL,
		created timestamptz NOT NULL,
		updated timestamptz NOT NULL,
		until timestamptz NOT NULL,
		seq bigint NOT NULL DEFAULT 0,
		synced bigint NOT NULL DEFAULT 0,
		UNIQUE (app, usr, id)
	);
	CREATE INDEX superstep_sessions_until ON @superstep_sessions (until);
	CREATE TABLE @superstep_session_events (
		sid bigint NOT NULL REFERENCES @superstep_sessions ON DELETE CASCADE,
		seq bigint NOT NULL,
		id text COLLATE "C" NOT NULL,
		at bigint NOT NULL, -- nanoseconds since 1970
		data bytea NOT NULL,
		PRIMARY KEY (sid, seq),
		UNIQUE (sid, id)
	);
	CREATE TABLE @superstep_session_state (
		sid bigint NOT NULL,
		app text COLLATE "C" NOT NULL,
		usr text COLLATE "C" NOT NULL,
		key text COLLATE "C" NOT NULL,
		value bytea NOT NULL,
		PRIMARY KEY (sid, app, usr, key)
	);`,
}

func open(ctx context.Context, pool *pgxpool.Pool, o Options) (*Service, error) {
	s := &Service{pool: pool, server: pgdb.Server(pool.Config().ConnConfig), ttl: o.TTL}
	t := pgdb.Tables{Meta: "superstep_session_meta", Migrations: migrations, In: in}
	schema, err := t.Migrate(ctx, pool, o.Schema)
	if errors.Is(err, pgdb.ErrNoSchema) {
		return nil, &session.Error{Op: "open", Place: s.server, Kind: session.ErrDenied, Err: err, Fix: "create one, set search_path, or name one in Options.Schema"}
	}
	if _, ok := errors.AsType[*pgdb.VersionError](err); ok {
		return nil, &session.Error{Op: "open", Place: s.server, Kind: session.ErrVersion, Err: err, Fix: "use a newer version of Superstep, or another database or schema"}
	}
	if err != nil {
		return nil, s.explain(ctx, "open", err)
	}
	s.schema = pgx.Identifier{schema}.Sanitize()
	return s, nil
}

// in writes the schema's name into SQL.
func in(quoted, query string) string { return strings.ReplaceAll(query, "@", quoted+".") }

func (s *Service) sql(query string) string { return in(s.schema, query) }

// write runs f in a transaction, again if the server undid it for the sake of
// another one.
func (s *Service) write(ctx context.Context, f func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || e.Code != "40P01" && e.Code != "40001" || try == tries {
			return err
		}
	}
}

func (s *Service) explain(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if told := session.Told(ctx, err); told != nil {
		return told
	}
	if s.closed.Load() {
		return session.ErrClosed
	}
	e := &session.Error{Op: op, Place: s.server, Err: err}
	p, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, session.ErrDamaged):
		e.Kind, e.Fix = session.ErrDamaged, "restore a backup, or delete the session"
	case !ok:
		e.Kind, e.Fix = session.ErrUnavailable, "check that the server runs and that host, port and TLS settings are right; when it is back, the service goes on by itself"
	case strings.HasPrefix(p.Code, "28"), p.Code == "42501", p.Code == "25006":
		e.Kind, e.Fix = session.ErrDenied, "correct user and password, or grant the user what it lacks"
	case p.Code == "3D000":
		e.Kind, e.Fix = session.ErrUnavailable, "create the database, or correct its name at the end of the URL"
	case strings.HasPrefix(p.Code, "57P"), strings.HasPrefix(p.Code, "08"), p.Code == "53300":
		e.Kind, e.Fix = session.ErrUnavailable, "wait for the server; the service goes on by itself when it is back"
	}
	return e
}

func (s *Service) start(ctx context.Context, check func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return session.ErrClosed
	}
	return check()
}

// until is when a session that is written to now expires, given the TTL in
// microseconds as the parameter n.
func until(n int) string {
	return fmt.Sprintf(`CASE WHEN $%d::bigint > 0 THEN clock_timestamp() + $%[1]d::bigint * interval '1 microsecond' ELSE 'infinity' END`, n)
}

// Create implements [session.Service].
func (s *Service) Create(ctx context.Context, key session.Key, state map[string]json.RawMessage) (*session.Session, error) {
	if key.ID == "" {
		key.ID = session.NewID()
	}
	if err := s.start(ctx, key.Check); err != nil {
		return nil, err
	}
	d, err := session.DeltaOf(state)
	if err != nil {
		return nil, err
	}
	if err := s.sweep(ctx); err != nil {
		return nil, s.explain(ctx, "create", err)
	}
	var out *session.Session
	err = s.write(ctx, func(tx pgx.Tx) error {
		// An expired one of that name.
		if _, err := s.remove(ctx, tx, `app = $1 AND usr = $2 AND id = $3 AND until <= clock_timestamp()`, key.App, key.User, key.ID); err != nil {
			return err
		}
		var sid int64
		err := tx.QueryRow(ctx, s.sql(`INSERT INTO @superstep_sessions (app, usr, id, created, updated, until)
			VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp(), `+until(4)+`) ON CONFLICT DO NOTHING RETURNING sid`),
			key.App, key.User, key.ID, s.ttl.Microseconds()).Scan(&sid)
		if errors.Is(err, pgx.ErrNoRows) {
			return &session.ExistsError{Key: key}
		}
		if err != nil {
			return err
		}
		if err := s.apply(ctx, tx, sid, key, d); err != nil {
			return err
		}
		out, _, err = s.read(ctx, tx, key, "")
		return err
	})
	if err != nil {
		return nil, s.explain(ctx, "create", err)
	}
	return out, nil
}

// sweep removes some expired sessions, now and then; where there may be more, with
// the next session that is made.
func (s *Service) sweep(ctx context.Context) error {
	s.mu.Lock()
	now := time.Now()
	due := s.ttl > 0 && now.Sub(s.swept) > min(s.ttl, time.Minute)/sweepMax
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	var n int64
	err := s.write(ctx, func(tx pgx.Tx) (err error) {
		n, err = s.remove(ctx, tx, `sid IN (SELECT sid FROM @superstep_sessions WHERE until <= clock_timestamp() LIMIT $1 FOR UPDATE SKIP LOCKED)`, sweepMax)
		return err
	})
	if n == sweepMax {
		s.mu.Lock()
		s.swept = time.Time{}
		s.mu.Unlock()
	}
	return err
}

// remove returns how many sessions it has removed.
func (s *Service) remove(ctx context.Context, tx pgx.Tx, where string, args ...any) (n int64, err error) {
	err = tx.QueryRow(ctx, s.sql(`WITH gone AS (DELETE FROM @superstep_sessions WHERE `+where+` RETURNING sid),
		state AS (DELETE FROM @superstep_session_state WHERE sid IN (SELECT sid FROM gone))
		SELECT count(*) FROM gone`), args...).Scan(&n)
	return n, err
}

// apply changes values in the order of their names, so that two transactions
// don't wait for each other.
func (s *Service) apply(ctx context.Context, tx pgx.Tx, sid int64, key session.Key, d session.Delta) error {
	b := &pgx.Batch{}
	for _, part := range []struct {
		sid      int64
		app, usr string
		values   map[string]json.RawMessage
	}{{0, key.App, "", d.App}, {0, key.App, key.User, d.User}, {sid, "", "", d.Session}} {
		for _, k := range slices.Sorted(maps.Keys(part.values)) {
			if v := part.values[k]; v == nil {
				b.Queue(s.sql(`DELETE FROM @superstep_session_state WHERE sid = $1 AND app = $2 AND usr = $3 AND key = $4`), part.sid, part.app, part.usr, k)
			} else {
				b.Queue(s.sql(`INSERT INTO @superstep_session_state (sid, app, usr, key, value) VALUES ($1, $2, $3, $4, $5)
					ON CONFLICT (sid, app, usr, key) DO UPDATE SET value = excluded.value`), part.sid, part.app, part.usr, k, []byte(v))
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// live is the condition that a session hasn't expired.
const live = ` AND until > clock_timestamp()`

// read returns a session without its events, and its sid.
func (s *Service) read(ctx context.Context, tx pgx.Tx, key session.Key, and string) (*session.Session, int64, error) {
	out := &session.Session{Info: session.Info{Key: key}}
	var sid int64
	err := tx.QueryRow(ctx, s.sql(`SELECT sid, created, updated, seq, synced FROM @superstep_sessions WHERE app = $1 AND usr = $2 AND id = $3`+and),
		key.App, key.User, key.ID).Scan(&sid, &out.Created, &out.Updated, &out.Seq, &out.Synced)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, &session.NotFoundError{Key: key}
	}
	if err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, s.sql(`SELECT sid, usr, key, value FROM @superstep_session_state
		WHERE (sid, app, usr) IN (($1::bigint, '', ''), (0, $2::text, ''), (0, $2::text, $3::text))`), sid, key.App, key.User)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	app, user, own := map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for rows.Next() {
		var of int64
		var usr, k string
		var v []byte
		if err := rows.Scan(&of, &usr, &k, &v); err != nil {
			return nil, 0, err
		}
		switch {
		case of != 0:
			own[k] = v
		case usr != "":
			user[k] = v
		default:
			app[k] = v
		}
	}
	out.State = session.StateOf(app, user, own)
	return out, sid, rows.Err()
}

// Get implements [session.Service].
func (s *Service) Get(ctx context.Context, key session.Key, w ...session.Window) (*session.Session, error) {
	if err := s.start(ctx, key.Check); err != nil {
		return nil, err
	}
	win, err := session.Only(w)
	if err != nil {
		return nil, err
	}
	var out *session.Session
	// One snapshot, so that the state is that of the last event.
	how := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, how, func(tx pgx.Tx) (err error) {
		out, err = s.get(ctx, tx, key, win)
		return err
	})
	if err != nil {
		return nil, s.explain(ctx, "get", err)
	}
	return out, nil
}

func (s *Service) get(ctx context.Context, tx pgx.Tx, key session.Key, w session.Window) (*session.Session, error) {
	out, sid, err := s.read(ctx, tx, key, live)
	if err != nil || w.Last < 0 {
		return out, err
	}
	var limit, since *int64 // nil: all
	switch {
	case !w.Since.IsZero(): // Cut knows it better
		n := nanos(w.Since)
		since = &n
	case w.Last > 0:
		n := int64(w.Last)
		limit = &n
	}
	rows, err := tx.Query(ctx, s.sql(`SELECT seq, data FROM @superstep_session_events
		WHERE sid = $1 AND seq > $2 AND ($3::bigint IS NULL OR at >= $3) ORDER BY seq DESC LIMIT $4`), sid, w.After, since, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var data []byte
		if err := rows.Scan(&seq, &data); err != nil {
			return nil, err
		}
		e, err := session.EventOf(seq, data)
		if err != nil {
			return nil, err
		}
		out.Events = append(out.Events, e)
	}
	slices.Reverse(out.Events)
	out.Events = w.Cut(out.Events)
	return out, rows.Err()
}

// The first and the last time that nanoseconds since 1970 can tell.
var first, last = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// nanos returns a time as it is stored: what is beyond the first and the last one
// is as these.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(first):
		return math.MinInt64
	case t.After(last):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// List implements [session.Service].
func (s *Service) List(ctx context.Context, app, user string) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		if err := s.start(ctx, session.Key{App: app, User: user}.CheckUser); err != nil {
			yield(session.Info{}, err)
			return
		}
		for after := ""; ; {
			infos, err := s.page(ctx, app, user, after)
			if err != nil {
				yield(session.Info{}, s.explain(ctx, "list", err))
				return
			}
			for _, info := range infos {
				if err := ctx.Err(); err != nil {
					yield(session.Info{}, err)
					return
				}
				if !yield(info, nil) {
					return
				}
				after = info.ID
			}
			if len(infos) < page {
				return
			}
		}
	}
}

func (s *Service) page(ctx context.Context, app, user, after string) ([]session.Info, error) {
	rows, err := s.pool.Query(ctx, s.sql(`SELECT id, created, updated, seq, synced FROM @superstep_sessions
		WHERE app = $1 AND usr = $2 AND id > $3 AND until > clock_timestamp() ORDER BY id LIMIT $4`), app, user, after, page)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (session.Info, error) {
		info := session.Info{Key: session.Key{App: app, User: user}}
		err := row.Scan(&info.ID, &info.Created, &info.Updated, &info.Seq, &info.Synced)
		return info, err
	})
}

// Delete implements [session.Service].
func (s *Service) Delete(ctx context.Context, key session.Key) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	return s.explain(ctx, "delete", s.write(ctx, func(tx pgx.Tx) error {
		_, err := s.remove(ctx, tx, `app = $1 AND usr = $2 AND id = $3`, key.App, key.User, key.ID)
		return err
	}))
}

// AppendEvent implements [session.Service].
func (s *Service) AppendEvent(ctx context.Context, key session.Key, ev *session.Event) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	r, err := ev.Record()
	if err != nil {
		return err
	}
	var seq int64
	err = s.write(ctx, func(tx pgx.Tx) error {
		var sid int64
		// The row is locked: appends to a session come one after the other.
		err := tx.QueryRow(ctx, s.sql(`SELECT sid, seq FROM @superstep_sessions WHERE app = $1 AND usr = $2 AND id = $3 AND until > clock_timestamp() FOR UPDATE`),
			key.App, key.User, key.ID).Scan(&sid, &seq)
		if errors.Is(err, pgx.ErrNoRows) {
			return &session.NotFoundError{Key: key}
		}
		if err != nil {
			return err
		}
		seq++
		tag, err := tx.Exec(ctx, s.sql(`INSERT INTO @superstep_session_events (sid, seq, id, at, data) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (sid, id) DO NOTHING`),
			sid, seq, r.ID, nanos(r.Time), r.Data)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return tx.QueryRow(ctx, s.sql(`SELECT seq FROM @superstep_session_events WHERE sid = $1 AND id = $2`), sid, r.ID).Scan(&seq)
		}
		if _, err := tx.Exec(ctx, s.sql(`UPDATE @superstep_sessions SET seq = $2, synced = greatest(synced, $3), updated = clock_timestamp(), until = `+until(4)+` WHERE sid = $1`),
			sid, seq, r.Synced, s.ttl.Microseconds()); err != nil {
			return err
		}
		return s.apply(ctx, tx, sid, key, r.Delta)
	})
	if err != nil {
		return s.explain(ctx, "append", err)
	}
	ev.Seq = seq
	return nil
}

// Close implements [session.Service]. A pool that was given to [New] stays open.
func (s *Service) Close() error {
	if s.closed.Swap(true) {
		return session.ErrClosed
	}
	if s.own {
		s.pool.Close()
	}
	return nil
}
