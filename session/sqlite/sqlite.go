// Package sqlite keeps sessions in a SQLite database: one file, which several
// processes on one machine may use.
//
//	service, err := sqlite.Open("sessions.db")
//
// The file may be that of a checkpoint store: the tables of this package begin
// with superstep_session. The database is in WAL mode.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver
	lib "modernc.org/sqlite/lib"

	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
	"github.com/superstep-dev/superstep/session"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	// TTL, if positive, is how long a session is kept after it was last written
	// to; the shortest is a millisecond. Expired ones are removed when others are
	// made. The state of users and apps is kept for ever.
	TTL time.Duration

	// BusyTimeout is how long to wait for another process to finish its
	// transaction; 0 means 10 seconds.
	BusyTimeout time.Duration
}

const (
	page     = 256 // sessions of a list, or events, that are read at once
	sweepMax = 100 // sessions that are removed at once

	connections = 4 // of a service to its file
)

// Service is a [session.Service] in a SQLite database.
type Service struct {
	path   string
	ttl    time.Duration
	db     *sql.DB
	writer *sqlitedb.Writer
	own    bool
	closed atomic.Bool

	mu    sync.Mutex
	swept time.Time
}

var _ session.Service = (*Service)(nil)

// Open opens the database at path and makes it if there is none. The path
// ":memory:" means a database in memory that ends with the service. Errors about
// the file are a [*session.Error].
func Open(path string, opts ...Options) (*Service, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, &session.Error{Op: "open", Kind: session.ErrConnection, Fix: `name a file, or ":memory:"`}
	}
	db, err := sqlitedb.Open(path, connections, o.BusyTimeout, "synchronous(NORMAL)")
	if err != nil {
		return nil, &session.Error{Op: "open", Place: path, Kind: session.ErrUnavailable, Err: err}
	}
	s, err := open(db, path, o)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// New uses a database that is open already, through the driver
// modernc.org/sqlite, and puts its tables into it. It sets WAL mode. Close leaves
// db open.
func New(db *sql.DB, opts ...Options) (*Service, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	return open(db, "database", o)
}

func optionsOf(opts []Options) (Options, error) {
	o, err := options.Only("session/sqlite", opts)
	if err != nil {
		return o, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond {
		return o, fmt.Errorf("session/sqlite: Options.TTL is %v; the shortest is a millisecond, 0 means for ever", o.TTL)
	}
	if o.BusyTimeout < 0 {
		return o, errors.New("session/sqlite: Options.BusyTimeout must not be negative")
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = sqlitedb.BusyTimeout
	}
	return o, nil
}

// The tables. Times are in microseconds since 1970. A value of state belongs to
// the session with that sid; with sid 0 to a user, and with usr empty to the app.
var migrations = []string{
	`CREATE TABLE superstep_sessions (
		sid INTEGER PRIMARY KEY AUTOINCREMENT,
		app TEXT NOT NULL,
		usr TEXT NOT NULL,
		id TEXT NOT NULL,
		created INTEGER NOT NULL,
		updated INTEGER NOT NULL,
		until INTEGER NOT NULL,
		seq INTEGER NOT NULL DEFAULT 0,
		synced INTEGER NOT NULL DEFAULT 0,
		UNIQUE (app, usr, id)
	);
	CREATE INDEX superstep_sessions_until ON superstep_sessions (until);
	CREATE TABLE superstep_session_events (
		sid INTEGER NOT NULL,
		seq INTEGER NOT NULL,
		id TEXT NOT NULL,
		at INTEGER NOT NULL,
		data BLOB NOT NULL,
		PRIMARY KEY (sid, seq),
		UNIQUE (sid, id)
	) WITHOUT ROWID;
	CREATE TABLE superstep_session_state (
		sid INTEGER NOT NULL,
		app TEXT NOT NULL,
		usr TEXT NOT NULL,
		key TEXT NOT NULL,
		value BLOB NOT NULL,
		PRIMARY KEY (sid, app, usr, key)
	) WITHOUT ROWID;`,
}

func open(db *sql.DB, path string, o Options) (*Service, error) {
	s := &Service{path: path, ttl: o.TTL, db: db, writer: sqlitedb.NewWriter(db, o.BusyTimeout)}
	ctx := context.Background()
	err := s.writer.WAL(ctx)
	if err == nil {
		err = s.writer.Migrate(ctx, "superstep_session_meta", migrations)
	}
	if e, ok := errors.AsType[*sqlitedb.VersionError](err); ok {
		return nil, &session.Error{Op: "open", Place: path, Kind: session.ErrVersion, Err: e, Fix: "use a newer version of this module, or another file"}
	}
	if err != nil {
		return nil, s.explain(ctx, "open", err)
	}
	return s, nil
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
	e := &session.Error{Op: op, Place: s.path, Err: err}
	if errors.Is(err, session.ErrDamaged) {
		e.Kind, e.Fix = session.ErrDamaged, "restore a backup, or delete the session"
	}
	switch sqlitedb.Code(err) {
	case lib.SQLITE_CORRUPT:
		e.Kind, e.Fix = session.ErrDamaged, "restore a backup, or save what can be read with `sqlite3 FILE .recover`"
	case lib.SQLITE_NOTADB:
		e.Kind, e.Fix = session.ErrUnsupported, "it is not a SQLite database: choose another path"
	case lib.SQLITE_CANTOPEN:
		e.Kind, e.Fix = session.ErrUnavailable, "make the directory, and let the program write to it"
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		e.Kind, e.Fix = session.ErrDenied, "make the file and its directory writable"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		e.Kind, e.Fix = session.ErrUnavailable, "another process holds the database in a long transaction: end it, or raise Options.BusyTimeout"
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

func micros(t time.Time) int64 { return t.UnixMicro() }

// until returns when a session that is written to now expires.
func (s *Service) until(now time.Time) int64 {
	if s.ttl <= 0 {
		return math.MaxInt64
	}
	return micros(now.Add(s.ttl))
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
	var out *session.Session
	err = s.writer.Write(ctx, func(c *sql.Conn) error {
		now := time.Now()
		if err := s.sweep(ctx, c, now); err != nil {
			return err
		}
		// An expired one of that name.
		if _, err := remove(ctx, c, `app = ? AND usr = ? AND id = ? AND until <= ?`, key.App, key.User, key.ID, micros(now)); err != nil {
			return err
		}
		r, err := c.ExecContext(ctx, `INSERT INTO superstep_sessions (app, usr, id, created, updated, until) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			key.App, key.User, key.ID, micros(now), micros(now), s.until(now))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, &session.ExistsError{Key: key})
		}
		sid, err := r.LastInsertId()
		if err != nil {
			return err
		}
		if err := apply(ctx, c, sid, key, d); err != nil {
			return err
		}
		out, _, err = s.read(ctx, c, key, now)
		return err
	})
	if err != nil {
		return nil, s.explain(ctx, "create", err)
	}
	return out, nil
}

// sweep removes some expired sessions, now and then; where there may be more, with
// the next session that is made.
func (s *Service) sweep(ctx context.Context, c *sql.Conn, now time.Time) error {
	s.mu.Lock()
	due := s.ttl > 0 && now.Sub(s.swept) > min(s.ttl, time.Minute)/sweepMax
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	n, err := remove(ctx, c, `sid IN (SELECT sid FROM superstep_sessions WHERE until <= ? ORDER BY until LIMIT ?)`, micros(now), sweepMax)
	if n == sweepMax {
		s.mu.Lock()
		s.swept = time.Time{}
		s.mu.Unlock()
	}
	return err
}

// remove returns how many sessions it has removed.
func remove(ctx context.Context, c *sql.Conn, where string, args ...any) (n int64, err error) {
	const which = ` WHERE sid IN (SELECT sid FROM superstep_sessions WHERE `
	for _, q := range []string{
		`DELETE FROM superstep_session_events` + which + where + `)`,
		`DELETE FROM superstep_session_state` + which + where + `)`,
		`DELETE FROM superstep_sessions WHERE ` + where,
	} {
		r, err := c.ExecContext(ctx, q, args...)
		if err != nil {
			return 0, err
		}
		if n, err = r.RowsAffected(); err != nil { // the sessions are the last
			return 0, err
		}
	}
	return n, nil
}

func apply(ctx context.Context, c *sql.Conn, sid int64, key session.Key, d session.Delta) error {
	for _, part := range []struct {
		sid      int64
		app, usr string
		values   map[string]json.RawMessage
	}{{0, key.App, "", d.App}, {0, key.App, key.User, d.User}, {sid, "", "", d.Session}} {
		for _, k := range slices.Sorted(maps.Keys(part.values)) {
			var err error
			if v := part.values[k]; v == nil {
				_, err = c.ExecContext(ctx, `DELETE FROM superstep_session_state WHERE sid = ? AND app = ? AND usr = ? AND key = ?`, part.sid, part.app, part.usr, k)
			} else {
				_, err = c.ExecContext(ctx, `INSERT INTO superstep_session_state (sid, app, usr, key, value) VALUES (?, ?, ?, ?, ?)
					ON CONFLICT DO UPDATE SET value = excluded.value`, part.sid, part.app, part.usr, k, []byte(v))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reader is a connection or a transaction.
type reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// read returns a session without its events, and its sid.
func (s *Service) read(ctx context.Context, q reader, key session.Key, now time.Time) (*session.Session, int64, error) {
	out := &session.Session{Info: session.Info{Key: key}}
	var sid, created, updated int64
	err := q.QueryRowContext(ctx, `SELECT sid, created, updated, seq, synced FROM superstep_sessions WHERE app = ? AND usr = ? AND id = ? AND until > ?`,
		key.App, key.User, key.ID, micros(now)).Scan(&sid, &created, &updated, &out.Seq, &out.Synced)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, &session.NotFoundError{Key: key}
	}
	if err != nil {
		return nil, 0, err
	}
	out.Created, out.Updated = time.UnixMicro(created), time.UnixMicro(updated)
	rows, err := q.QueryContext(ctx, `SELECT sid, usr, key, value FROM superstep_session_state
		WHERE sid = ? AND app = '' AND usr = '' OR sid = 0 AND app = ? AND usr = '' OR sid = 0 AND app = ? AND usr = ?`, sid, key.App, key.App, key.User)
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
	out, err := s.get(ctx, key, win)
	if err != nil {
		return nil, s.explain(ctx, "get", err)
	}
	return out, nil
}

func (s *Service) get(ctx context.Context, key session.Key, w session.Window) (*session.Session, error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	out, sid, err := s.read(ctx, tx, key, time.Now())
	if err != nil || w.Last < 0 {
		return out, err
	}
	limit, since := int64(-1), int64(math.MinInt64)
	switch {
	case !w.Since.IsZero(): // Cut knows it to the nanosecond
		since = micros(w.Since)
	case w.Last > 0:
		limit = int64(w.Last)
	}
	rows, err := tx.QueryContext(ctx, `SELECT seq, data FROM superstep_session_events WHERE sid = ? AND seq > ? AND at >= ? ORDER BY seq DESC LIMIT ?`,
		sid, w.After, since, limit)
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
	rows, err := s.db.QueryContext(ctx, `SELECT id, created, updated, seq, synced FROM superstep_sessions
		WHERE app = ? AND usr = ? AND id > ? AND until > ? ORDER BY id LIMIT ?`, app, user, after, micros(time.Now()), page)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []session.Info
	for rows.Next() {
		info := session.Info{Key: session.Key{App: app, User: user}}
		var created, updated int64
		if err := rows.Scan(&info.ID, &created, &updated, &info.Seq, &info.Synced); err != nil {
			return nil, err
		}
		info.Created, info.Updated = time.UnixMicro(created), time.UnixMicro(updated)
		out = append(out, info)
	}
	return out, rows.Err()
}

// Delete implements [session.Service].
func (s *Service) Delete(ctx context.Context, key session.Key) error {
	if err := s.start(ctx, key.Check); err != nil {
		return err
	}
	return s.explain(ctx, "delete", s.writer.Write(ctx, func(c *sql.Conn) error {
		_, err := remove(ctx, c, `app = ? AND usr = ? AND id = ?`, key.App, key.User, key.ID)
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
	err = s.writer.Write(ctx, func(c *sql.Conn) error {
		now := time.Now()
		var sid int64
		err := c.QueryRowContext(ctx, `SELECT sid, seq FROM superstep_sessions WHERE app = ? AND usr = ? AND id = ? AND until > ?`,
			key.App, key.User, key.ID, micros(now)).Scan(&sid, &seq)
		if errors.Is(err, sql.ErrNoRows) {
			return &session.NotFoundError{Key: key}
		}
		if err != nil {
			return err
		}
		var there int64
		switch err := c.QueryRowContext(ctx, `SELECT seq FROM superstep_session_events WHERE sid = ? AND id = ?`, sid, r.ID).Scan(&there); {
		case err == nil:
			seq = there
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		seq++
		if _, err := c.ExecContext(ctx, `INSERT INTO superstep_session_events (sid, seq, id, at, data) VALUES (?, ?, ?, ?, ?)`, sid, seq, r.ID, micros(r.Time), r.Data); err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, `UPDATE superstep_sessions SET seq = ?, updated = ?, until = ?, synced = max(synced, ?) WHERE sid = ?`,
			seq, micros(now), s.until(now), r.Synced, sid); err != nil {
			return err
		}
		return apply(ctx, c, sid, key, r.Delta)
	})
	if err != nil {
		return s.explain(ctx, "append", err)
	}
	ev.Seq = seq
	return nil
}

// Close implements [session.Service]. A database that was given to [New] stays
// open.
func (s *Service) Close() error {
	if s.closed.Swap(true) {
		return session.ErrClosed
	}
	if !s.own {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return &session.Error{Op: "close", Place: s.path, Err: err}
	}
	return nil
}
