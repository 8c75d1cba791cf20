// Package sqlite keeps a long-term memory in a SQLite database: one file, many
// processes.
//
//	store, err := sqlite.Open("agents.db")
//
// The file may be the one where package checkpoint/sqlite keeps threads. The
// database is in WAL mode: beside the file stand two others, -wal and -shm.
//
// A search by text compares the text's vector with those of all items below the
// prefix; filters are applied while reading. Both cost time in proportion to the
// items below the prefix, not to those of the whole store.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
	"github.com/superstep-dev/superstep/memory"
)

// Options changes how a database is used. The zero value is fine.
type Options struct {
	memory.Config

	// Full makes every commit wait until the disk has it
	// (synchronous=FULL): a power failure loses nothing. Without it, such a
	// failure may undo the last writes but never damages the file. It is for
	// [Open] alone.
	Full bool

	// BusyTimeout is how long to wait for another process to finish its
	// transaction; 0 means 10 seconds.
	BusyTimeout time.Duration
}

// Store is a [memory.Store] in a SQLite database. Close finishes writes that have begun.
type Store struct{ memory.Store }

// kept is a [memory.Backend].
type kept struct {
	config memory.Config
	db     *sqlitedb.DB
}

// Open opens the database at path and makes it if there is none. The path
// ":memory:" means a database in memory that ends with the store. Errors about
// the file are an [*Error].
func Open(path string, opts ...Options) (*Store, error) {
	level := "synchronous(NORMAL)"
	if len(opts) == 1 && opts[0].Full {
		level = "synchronous(FULL)"
	}
	return open(opts, func(c sqlitedb.Config) (*sqlitedb.DB, error) {
		c.Connections, c.Pragmas = 4, []string{level, "temp_store(MEMORY)"}
		return sqlitedb.Open(path, c)
	})
}

// New uses a database that is open already, through the driver
// modernc.org/sqlite, and puts its tables into it; their names begin with
// superstep_memory_. It sets WAL mode. Each call takes a connection for a moment,
// so db needs one more than what others keep for good, as a store of threads does.
// Close leaves db open.
func New(db *sql.DB, opts ...Options) (*Store, error) {
	if len(opts) == 1 && opts[0].Full {
		return nil, errors.New("memory/sqlite: Options.Full is for Open alone; set synchronous on the connections of the database")
	}
	return open(opts, func(c sqlitedb.Config) (*sqlitedb.DB, error) { return sqlitedb.New(db, c) })
}

func open(opts []Options, with func(sqlitedb.Config) (*sqlitedb.DB, error)) (*Store, error) {
	o, err := options.Only("memory/sqlite", opts)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return nil, err
	}
	db, err := with(sqlitedb.Config{
		Package: "memory/sqlite", Tables: sqlitedb.Tables{Meta: "superstep_memory_meta", Migrations: migrations, Another: "superstep_memory_items"},
		Busy: o.BusyTimeout, Closed: memory.ErrClosed, Agreed: memory.Agreed,
	})
	if err != nil {
		return nil, err
	}
	return &Store{memory.Over(&kept{o.Config, db}, o.Config)}, nil
}

// Explain implements [memory.Backend].
func (s *kept) Explain(op string, err error) error {
	return s.db.Failed(context.Background(), op, err)
}

// Close implements [memory.Backend].
func (s *kept) Close() error { return s.db.Close() }

const columns = `version, namespace, key, created, updated, expires, ttl, value`

type row struct {
	item memory.Item
	ttl  sql.NullInt64
}

func scan(from interface{ Scan(dest ...any) error }) (r row, err error) {
	var namespace, value string
	var created, updated int64
	var expires sql.NullInt64
	if err := from.Scan(&r.item.Version, &namespace, &r.item.Key, &created, &updated, &expires, &r.ttl, &value); err != nil {
		return row{}, err
	}
	r.item.Namespace, r.item.Value = memory.Split(namespace), json.RawMessage(value)
	r.item.CreatedAt, r.item.UpdatedAt = at(created), at(updated)
	if expires.Valid {
		r.item.ExpiresAt = at(expires.Int64)
	}
	return r, nil
}

func at(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// querier is a database or one of its connections.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// find returns a live item, or sql.ErrNoRows.
func find(ctx context.Context, q querier, namespace, key string, now time.Time) (row, error) {
	return scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM superstep_memory_items
		WHERE namespace = ? AND key = ? AND (expires IS NULL OR expires > ?)`, namespace, key, now.UnixMicro()))
}

// refresh starts the time of items anew and says so in them.
func refresh(ctx context.Context, c *sql.Conn, rows []row, now time.Time) error {
	for i := range rows {
		if !rows[i].ttl.Valid {
			continue
		}
		expires := max(now.UnixMicro()+rows[i].ttl.Int64, rows[i].item.ExpiresAt.UnixMicro())
		if _, err := c.ExecContext(ctx, `UPDATE superstep_memory_items SET expires = ? WHERE version = ?`, expires, rows[i].item.Version); err != nil {
			return err
		}
		rows[i].item.ExpiresAt = at(expires)
	}
	return nil
}

// Get implements [memory.Backend].
func (s *kept) Get(ctx context.Context, p *memory.PreparedGet) (memory.Item, error) {
	now := s.config.Time()
	r, err := find(ctx, s.db, p.Namespace, p.Key, now)
	if err == nil && p.Refresh && r.ttl.Valid {
		err = s.db.Write(ctx, "get from", func(c *sql.Conn) error {
			now := s.config.Time() // not before its turn
			if r, err = find(ctx, c, p.Namespace, p.Key, now); err != nil {
				return err
			}
			one := []row{r}
			err := refresh(ctx, c, one, now)
			r = one[0]
			return err
		})
	}
	if errors.Is(err, sql.ErrNoRows) {
		return memory.Item{}, nil
	}
	return r.item, err
}

// current returns the item that a writer meets, a zero one if there is none, and
// an error if a condition isn't met.
func current(ctx context.Context, c *sql.Conn, namespace, key string, now time.Time, version int64, absent bool) (row, error) {
	r, err := find(ctx, c, namespace, key, now)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return row{}, err
	}
	if have := r.item.Version; absent && have != 0 || version != 0 && have != version {
		return row{}, &memory.ConflictError{Namespace: memory.Split(namespace), Key: key, Want: version, Have: have}
	}
	return r, nil
}

// remove deletes what stands under a key, expired or not; its vectors may stay.
func remove(ctx context.Context, c *sql.Conn, namespace, key string, keep bool) error {
	if !keep {
		if _, err := c.ExecContext(ctx, `DELETE FROM superstep_memory_vectors
			WHERE version = (SELECT version FROM superstep_memory_items WHERE namespace = ? AND key = ?)`, namespace, key); err != nil {
			return err
		}
	}
	_, err := c.ExecContext(ctx, `DELETE FROM superstep_memory_items WHERE namespace = ? AND key = ?`, namespace, key)
	return err
}

// Put implements [memory.Backend].
func (s *kept) Put(ctx context.Context, p *memory.PreparedPut) (item memory.Item, err error) {
	err = s.db.Write(ctx, "put into", func(c *sql.Conn) error {
		now := s.config.Time()
		old, err := current(ctx, c, p.Namespace, p.Key, now, p.IfVersion, p.IfAbsent)
		if err != nil {
			return err
		}
		if err := remove(ctx, c, p.Namespace, p.Key, p.Keep); err != nil {
			return err
		}
		item = memory.Item{CreatedAt: now, UpdatedAt: now}
		if old.item.Version != 0 {
			item.CreatedAt = old.item.CreatedAt
			if now.Before(item.CreatedAt) { // the clock went back
				item.UpdatedAt = item.CreatedAt
			}
		}
		var expires, ttl sql.NullInt64
		if p.TTL > 0 {
			item.ExpiresAt = now.Add(p.TTL)
			expires = sql.NullInt64{Int64: item.ExpiresAt.UnixMicro(), Valid: true}
			ttl = sql.NullInt64{Int64: p.TTL.Microseconds(), Valid: true}
		}
		if err := c.QueryRowContext(ctx, `INSERT INTO superstep_memory_items (namespace, key, created, updated, expires, ttl, value)
			VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING version`, p.Namespace, p.Key, item.CreatedAt.UnixMicro(), item.UpdatedAt.UnixMicro(), expires, ttl, string(p.Value)).
			Scan(&item.Version); err != nil {
			return err
		}
		if p.Keep {
			_, err := c.ExecContext(ctx, `UPDATE superstep_memory_vectors SET version = ? WHERE version = ?`, item.Version, old.item.Version)
			return err
		}
		for n, v := range p.Vectors {
			if _, err := c.ExecContext(ctx, `INSERT INTO superstep_memory_vectors (version, n, name, vector) VALUES (?, ?, ?, ?)`,
				item.Version, n, p.Index, encode(v)); err != nil {
				return err
			}
		}
		return nil
	})
	return item, err
}

func encode(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func decode(b []byte, into []float32) {
	for i := range into {
		into[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// Delete implements [memory.Backend].
func (s *kept) Delete(ctx context.Context, p *memory.PreparedDelete) error {
	return s.db.Write(ctx, "delete from", func(c *sql.Conn) error {
		if _, err := current(ctx, c, p.Namespace, p.Key, s.config.Time(), p.IfVersion, false); err != nil {
			return err
		}
		return remove(ctx, c, p.Namespace, p.Key, false)
	})
}

// below returns a condition for the live items of a prefix.
func below(prefix string, exact bool, now time.Time) (where string, args []any) {
	where, args = `(i.expires IS NULL OR i.expires > ?)`, []any{now.UnixMicro()}
	switch {
	case exact:
		where += ` AND i.namespace = ?`
		args = append(args, prefix)
	case prefix != "":
		// The character after the separator ends the range.
		where += ` AND (i.namespace = ? OR i.namespace > ? AND i.namespace < ?)`
		args = append(args, prefix, prefix+memory.Separator, prefix+string(memory.Separator[0]+1))
	}
	return where, args
}

// Search implements [memory.Backend].
func (s *kept) Search(ctx context.Context, p *memory.PreparedSearch) (out []memory.Item, err error) {
	var rows []row
	var now time.Time
	find := func(c *sql.Conn) (err error) {
		now = s.config.Time() // not before its turn
		if p.Ranked {
			rows, err = ranked(ctx, c, p, now)
		} else {
			rows, err = latest(ctx, c, p, now)
		}
		return err
	}
	if p.Refresh {
		err = s.db.Write(ctx, "search", func(c *sql.Conn) error {
			if err := find(c); err != nil {
				return err
			}
			return refresh(ctx, c, rows, now)
		})
	} else {
		err = s.db.Read(ctx, "search", find)
	}
	for _, r := range rows {
		out = append(out, r.item)
	}
	return out, err
}

// each calls f with each row of a query until f returns false.
func each(ctx context.Context, c *sql.Conn, query string, args []any, f func(rows *sql.Rows) (bool, error)) (err error) {
	rows, err := c.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if more, err := f(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// latest finds the items that were written last.
func latest(ctx context.Context, c *sql.Conn, p *memory.PreparedSearch, now time.Time) (out []row, err error) {
	where, args := below(p.Prefix, p.Exact, now)
	order := `version`
	if p.Prefix != "" {
		order = `+version` // not by a scan of the whole table, which is in that order
	}
	query := `SELECT ` + columns + ` FROM superstep_memory_items i WHERE ` + where + ` ORDER BY ` + order + ` DESC`
	skip, match := p.Offset, p.Filter.Matcher()
	if len(p.Filter) == 0 {
		query += ` LIMIT ? OFFSET ?`
		args, skip = append(args, p.Limit, p.Offset), 0
	}
	err = each(ctx, c, query, args, func(rows *sql.Rows) (bool, error) {
		r, err := scan(rows)
		if err != nil || !match(r.item.Value) {
			return true, err
		}
		if skip > 0 {
			skip--
			return true, nil
		}
		out = append(out, r)
		return len(out) != p.Limit, nil
	})
	return out, err
}

// ranked finds the items whose vectors are nearest.
func ranked(ctx context.Context, c *sql.Conn, p *memory.PreparedSearch, now time.Time) ([]row, error) {
	if p.Vector == nil {
		return nil, nil
	}
	where, args := below(p.Prefix, p.Exact, now)
	value := `i.value`
	if len(p.Filter) == 0 {
		value = `''`
	}
	args = append(args, p.Index, 4*len(p.Vector))
	var scored []memory.Scored
	match := p.Filter.Matcher()
	vector := make([]float32, len(p.Vector))
	err := each(ctx, c, `SELECT i.version, `+value+`, v.vector FROM superstep_memory_items i
		CROSS JOIN superstep_memory_vectors v ON v.version = i.version
		WHERE `+where+` AND v.name = ? AND length(v.vector) = ?`, args, func(rows *sql.Rows) (bool, error) {
		var version int64
		var value, raw sql.RawBytes
		if err := rows.Scan(&version, &value, &raw); err != nil {
			return false, err
		}
		if match(json.RawMessage(value)) {
			decode(raw, vector)
			scored = append(scored, memory.Scored{Version: version, Score: memory.Cosine(p.Vector, vector)})
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	var out []row
	for _, x := range p.Rank(scored) {
		r, err := scan(c.QueryRowContext(ctx, `SELECT `+columns+` FROM superstep_memory_items WHERE version = ?`, x.Version))
		if err != nil {
			return nil, err
		}
		r.item.Score = x.Score
		out = append(out, r)
	}
	return out, nil
}

// Namespaces implements [memory.Backend].
func (s *kept) Namespaces(ctx context.Context, root string) (all []string, err error) {
	where, args := below(root, false, s.config.Time())
	err = s.db.Read(ctx, "list", func(c *sql.Conn) error {
		return each(ctx, c, `SELECT DISTINCT i.namespace FROM superstep_memory_items i WHERE `+where, args, func(rows *sql.Rows) (bool, error) {
			var ns string
			err := rows.Scan(&ns)
			all = append(all, ns)
			return true, err
		})
	})
	return all, err
}

// Sweep implements [memory.Backend].
func (s *kept) Sweep(ctx context.Context) (int, error) {
	var n int64
	err := s.db.Write(ctx, "sweep", func(c *sql.Conn) error {
		now := s.config.Time().UnixMicro()
		if _, err := c.ExecContext(ctx, `DELETE FROM superstep_memory_vectors
			WHERE version IN (SELECT version FROM superstep_memory_items WHERE expires <= ?)`, now); err != nil {
			return err
		}
		res, err := c.ExecContext(ctx, `DELETE FROM superstep_memory_items WHERE expires <= ?`, now)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return int(n), err
}
