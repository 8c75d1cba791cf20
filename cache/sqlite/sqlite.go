// Package sqlite keeps results of nodes in a SQLite database: one file, which the
// processes of one machine may share.
//
//	results, err := sqlite.Open("results.db")
//
// The file may be that of a checkpoint store, but a cache of its own can simply be
// deleted. The tables of this package begin with superstep_cache. The database is in
// WAL mode. A power failure may undo the last writes but never damages the file.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/internal/options"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

// DefaultBytes is how many bytes a [Store] holds unless it says otherwise.
const DefaultBytes = 1 << 30

// Options changes how a database is used. The zero value is fine.
type Options struct {
	// MaxBytes bounds the keys and results, and what it takes to find them: beyond
	// it what was set first is dropped. 0 means [DefaultBytes]. Of processes that
	// share a file, the one that sets a result applies its own bound.
	MaxBytes int64

	// BusyTimeout is how long to wait for another process to finish its
	// transaction; 0 means 10 seconds.
	BusyTimeout time.Duration
}

const sweepMax = 100 // expired entries that a Set removes

// Store is a [cache.Store] in a SQLite database. Entries that have expired are
// removed when others are set.
type Store struct {
	max int64
	db  *sqlitedb.DB
}

var _ cache.Store = (*Store)(nil)

// Open opens the database at path and makes it if there is none. The path
// ":memory:" means a database in memory that ends with the store.
func Open(path string, opts ...Options) (*Store, error) {
	return open(opts, func(c sqlitedb.Config) (*sqlitedb.DB, error) {
		c.Connections, c.Pragmas = 4, []string{"synchronous(NORMAL)"}
		return sqlitedb.Open(path, c)
	})
}

// New uses a database that is open already, through the driver modernc.org/sqlite,
// and puts its tables into it. It sets WAL mode. Each call takes a connection for a
// moment, so db needs one more than what others keep for good, as a store of threads
// does. Close leaves db open.
func New(db *sql.DB, opts ...Options) (*Store, error) {
	return open(opts, func(c sqlitedb.Config) (*sqlitedb.DB, error) { return sqlitedb.New(db, c) })
}

func open(opts []Options, with func(sqlitedb.Config) (*sqlitedb.DB, error)) (*Store, error) {
	o, err := options.Only("cache/sqlite", opts)
	if err != nil {
		return nil, err
	}
	if o.MaxBytes < 0 {
		return nil, errors.New("cache/sqlite: Options.MaxBytes must not be negative")
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultBytes
	}
	db, err := with(sqlitedb.Config{
		Package: "cache/sqlite", Tables: sqlitedb.Tables{Meta: "superstep_cache_meta", Migrations: migrations, Another: "superstep_cache"},
		Busy: o.BusyTimeout, Closed: cache.ErrClosed, Agreed: func(err error) bool { return errors.Is(err, cache.ErrClosed) },
	})
	if err != nil {
		return nil, err
	}
	return &Store{max: o.MaxBytes, db: db}, nil
}

// The tables. Rows are numbered in the order in which they are set. Times are
// microseconds since 1970. A row costs what its key and data take, and about what it
// takes to find it.
var migrations = []string{
	`CREATE TABLE superstep_cache (
		n INTEGER PRIMARY KEY AUTOINCREMENT,
		expires INTEGER,        -- NULL: never
		cost INTEGER NOT NULL,
		key BLOB NOT NULL UNIQUE,
		data BLOB NOT NULL
	);
	CREATE INDEX superstep_cache_expires ON superstep_cache (expires) WHERE expires IS NOT NULL;
	CREATE TABLE superstep_cache_size (bytes INTEGER NOT NULL);
	INSERT INTO superstep_cache_size (bytes) VALUES (0);
	CREATE TRIGGER superstep_cache_grows AFTER INSERT ON superstep_cache
		BEGIN UPDATE superstep_cache_size SET bytes = bytes + new.cost; END;
	CREATE TRIGGER superstep_cache_shrinks AFTER DELETE ON superstep_cache
		BEGIN UPDATE superstep_cache_size SET bytes = bytes - old.cost; END;`,
}

// rowCost is about what a row takes beside its data, its key twice.
const rowCost = 64

// Get implements [cache.Store].
func (s *Store) Get(ctx context.Context, key string) (data []byte, ok bool, err error) {
	if err := s.db.Start(ctx); err != nil {
		return nil, false, err
	}
	err = s.db.QueryRowContext(ctx, `SELECT data FROM superstep_cache WHERE key = ? AND (expires IS NULL OR expires > ?)`, []byte(key), time.Now().UnixMicro()).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return data, err == nil, s.db.Failed(ctx, "get from", err)
}

// Set implements [cache.Store]. What is larger than MaxBytes is not kept.
func (s *Store) Set(ctx context.Context, key string, data []byte, ttl time.Duration) error {
	return s.db.Write(ctx, "set in", func(c *sql.Conn) error {
		now := time.Now()
		var expires any
		if ttl > 0 {
			expires = now.Add(ttl).UnixMicro()
		}
		if _, err := c.ExecContext(ctx, `DELETE FROM superstep_cache WHERE key = ?`, []byte(key)); err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, `DELETE FROM superstep_cache WHERE n IN
			(SELECT n FROM superstep_cache WHERE expires <= ? ORDER BY expires LIMIT ?)`, now.UnixMicro(), sweepMax); err != nil {
			return err
		}
		cost := int64(2*len(key) + len(data) + rowCost)
		if cost > s.max {
			return nil
		}
		if data == nil {
			data = []byte{} // nil would be NULL
		}
		if _, err := c.ExecContext(ctx, `INSERT INTO superstep_cache (expires, cost, key, data) VALUES (?, ?, ?, ?)`, expires, cost, []byte(key), data); err != nil {
			return err
		}
		return s.fit(ctx, c)
	})
}

// fit drops what was set first until the rest is not larger than it may be.
func (s *Store) fit(ctx context.Context, c *sql.Conn) error {
	var over int64
	if err := c.QueryRowContext(ctx, `SELECT bytes - ? FROM superstep_cache_size`, s.max).Scan(&over); err != nil || over <= 0 {
		return err
	}
	rows, err := c.QueryContext(ctx, `SELECT n, cost FROM superstep_cache ORDER BY n`)
	if err != nil {
		return err
	}
	var last int64
	for over > 0 && rows.Next() {
		var cost int64
		if err := rows.Scan(&last, &cost); err != nil {
			return errors.Join(err, rows.Close())
		}
		over -= cost
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, `DELETE FROM superstep_cache WHERE n <= ?`, last)
	return err
}

// Clear implements [cache.Store]. It costs what it removes.
func (s *Store) Clear(ctx context.Context, prefix string) error {
	return s.db.Write(ctx, "clear", func(c *sql.Conn) error {
		query, args := `DELETE FROM superstep_cache WHERE key >= ?`, []any{[]byte(prefix)}
		if end := after(prefix); end != nil {
			query, args = query+` AND key < ?`, append(args, end)
		}
		_, err := c.ExecContext(ctx, query, args...)
		return err
	})
}

// after returns the first key after all that begin with a prefix, nil if there is none.
func after(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// Close ends the store. Writes that have begun are finished. Later calls return
// [cache.ErrClosed].
func (s *Store) Close() error { return s.db.Close() }
