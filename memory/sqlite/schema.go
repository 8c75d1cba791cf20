package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// The tables. An item's version is its row's ID, which is never used again, so
// that the items written last stand at the end. Namespaces are their labels
// joined by points. Times are microseconds since 1970; the TTL is in
// microseconds. A vector has length 1 and is stored as float32, little endian.
var migrations = []string{
	`CREATE TABLE superstep_memory_items (
		version INTEGER PRIMARY KEY AUTOINCREMENT,
		namespace TEXT NOT NULL,
		key TEXT NOT NULL,
		created INTEGER NOT NULL,
		updated INTEGER NOT NULL,
		expires INTEGER,        -- NULL: never
		ttl INTEGER,
		value TEXT NOT NULL,
		UNIQUE (namespace, key)
	);
	CREATE INDEX superstep_memory_expires ON superstep_memory_items (expires) WHERE expires IS NOT NULL;
	CREATE TABLE superstep_memory_vectors (
		version INTEGER NOT NULL,
		n INTEGER NOT NULL,
		name TEXT NOT NULL,     -- of the index
		vector BLOB NOT NULL,
		PRIMARY KEY (version, n)
	) WITHOUT ROWID;`,
}

// migrate brings the tables to the newest version, in a transaction that the
// caller has begun.
func migrate(ctx context.Context, c *sql.Conn, path string) error {
	if _, err := c.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS superstep_memory_meta (
		version INTEGER PRIMARY KEY,
		applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
	)`); err != nil {
		return err
	}
	var v int
	if err := c.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM superstep_memory_meta`).Scan(&v); err != nil {
		return err
	}
	if v > len(migrations) {
		return &Error{
			Op: "open", Path: path, Kind: ErrVersion,
			What: fmt.Sprintf("the tables have schema version %d, this version of Superstep knows versions up to %d", v, len(migrations)),
			Fix:  "use a newer version of Superstep, or another file",
		}
	}
	for ; v < len(migrations); v++ {
		if _, err := c.ExecContext(ctx, migrations[v]); err != nil {
			return fmt.Errorf("migrating to schema version %d: %w", v+1, err)
		}
		if _, err := c.ExecContext(ctx, `INSERT INTO superstep_memory_meta (version) VALUES (?)`, v+1); err != nil {
			return err
		}
	}
	// A file that is read-only shows now.
	_, err := c.ExecContext(ctx, `UPDATE superstep_memory_meta SET version = version`)
	return err
}
