package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The tables. Numbers instead of names keep them small: lid is a log's number,
// ord the place of a record in the order appended, from 1, and rid both:
// lid<<32 | ord. So the records of a log stand together, its head is the last of
// them, and appending one touches one page.
//
// A branch's number (br) is the ord of its first record, and 0 for the first
// branch. Where the records of a branch stand follows from superstep_segments:
// one row each time that the branch written to changes. Which record has an ID
// follows from superstep_ids: one row each time that an ID is not the next one
// of the run that wrote the record before. Lids and tids are never used again.
//
// superstep_logs.bucket is the minute of the head's time, for logs with an
// empty namespace and at least one record: listing threads by time needs no
// write at each append.
//
// Since version 2 records can be removed, which leaves gaps in the ords: removed
// counts them, and freed is how much less than the head's total the log takes
// (total never changes, so that a writer who knows an old one is right). A
// thread's due is the earlier one of head_due, its head's, and of woken. Times of leases and
// of what is due are in microseconds since 1970, lease_ttl in nanoseconds.
//
// Since version 3 superstep_logs.labels, where bucket is, are the labels of the head's
// metadata, see backend.Labels; null says that the head was appended before. Triggers keep
// superstep_labels, which leads from a label to the logs that have it.
var migrations = []string{
	`CREATE TABLE superstep_threads (
		tid INTEGER PRIMARY KEY AUTOINCREMENT,
		thread TEXT NOT NULL UNIQUE,
		fence INTEGER NOT NULL DEFAULT 0
	);
	CREATE TABLE superstep_logs (
		lid INTEGER PRIMARY KEY AUTOINCREMENT,
		tid INTEGER NOT NULL,
		ns TEXT NOT NULL,
		bucket INTEGER,
		UNIQUE (tid, ns)
	);
	CREATE INDEX superstep_logs_bucket ON superstep_logs (bucket) WHERE bucket IS NOT NULL;
	CREATE TABLE superstep_records (
		rid INTEGER PRIMARY KEY,
		id NOT NULL,            -- 16 bytes of a UUID, else text
		br INTEGER NOT NULL,
		seq INTEGER NOT NULL,
		at INTEGER NOT NULL,    -- nanoseconds since 1970
		total INTEGER NOT NULL, -- bytes of meta and data of the log up to here
		sum INTEGER NOT NULL,   -- checksums of meta and data
		meta TEXT NOT NULL,
		data BLOB NOT NULL
	);
	CREATE TABLE superstep_segments (
		lid INTEGER NOT NULL,
		ord INTEGER NOT NULL,
		br INTEGER NOT NULL,
		seq INTEGER NOT NULL,
		PRIMARY KEY (lid, ord)
	) WITHOUT ROWID;
	CREATE TABLE superstep_ids (
		lid INTEGER NOT NULL,
		run NOT NULL,           -- 12 bytes of a UUID, else the whole ID
		n INTEGER NOT NULL,     -- the UUID's last 4 bytes
		ord INTEGER NOT NULL,
		PRIMARY KEY (lid, run, n)
	) WITHOUT ROWID;
	CREATE TABLE superstep_results (
		num INTEGER PRIMARY KEY,
		lid INTEGER NOT NULL,
		epoch NOT NULL,
		branch NOT NULL,        -- its name: it may have no record yet
		task INTEGER NOT NULL,
		gen INTEGER NOT NULL,
		kind TEXT NOT NULL,
		name TEXT NOT NULL,
		replaces INTEGER NOT NULL,
		data BLOB,
		UNIQUE (lid, epoch, branch, task, gen, kind, name)
	);`,
	`ALTER TABLE superstep_threads ADD COLUMN holder TEXT;
	ALTER TABLE superstep_threads ADD COLUMN lease_until INTEGER;
	ALTER TABLE superstep_threads ADD COLUMN lease_ttl INTEGER;
	ALTER TABLE superstep_threads ADD COLUMN due INTEGER;
	ALTER TABLE superstep_threads ADD COLUMN head_due INTEGER;
	ALTER TABLE superstep_threads ADD COLUMN woken INTEGER;
	ALTER TABLE superstep_logs ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE superstep_logs ADD COLUMN freed INTEGER NOT NULL DEFAULT 0;
	CREATE INDEX superstep_threads_due ON superstep_threads (due, thread) WHERE due IS NOT NULL;
	CREATE INDEX superstep_threads_lease ON superstep_threads (lease_until, thread) WHERE lease_until IS NOT NULL;`,
	`ALTER TABLE superstep_logs ADD COLUMN labels TEXT;
	CREATE INDEX superstep_logs_unlabelled ON superstep_logs (lid) WHERE bucket IS NOT NULL AND labels IS NULL;
	CREATE TABLE superstep_labels (
		label TEXT NOT NULL,
		lid INTEGER NOT NULL,
		PRIMARY KEY (label, lid)
	) WITHOUT ROWID;
	CREATE TRIGGER superstep_logs_begin AFTER INSERT ON superstep_logs WHEN new.labels IS NOT NULL BEGIN
		INSERT INTO superstep_labels (label, lid) SELECT value, new.lid FROM json_each(new.labels);
	END;
	CREATE TRIGGER superstep_logs_change AFTER UPDATE OF labels ON superstep_logs WHEN old.labels IS NOT new.labels BEGIN
		DELETE FROM superstep_labels WHERE lid = old.lid AND label IN (SELECT value FROM json_each(old.labels));
		INSERT INTO superstep_labels (label, lid) SELECT value, new.lid FROM json_each(new.labels);
	END;
	CREATE TRIGGER superstep_logs_end AFTER DELETE ON superstep_logs WHEN old.labels IS NOT NULL BEGIN
		DELETE FROM superstep_labels WHERE lid = old.lid AND label IN (SELECT value FROM json_each(old.labels));
	END;`,
}

// schemaVersion returns the version of the database's tables, 0 if there are none.
func schemaVersion(ctx context.Context, c interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (v int, err error) {
	var n int
	err = c.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'superstep_meta'`).Scan(&n)
	if err == nil && n > 0 {
		err = c.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM superstep_meta`).Scan(&v)
	}
	return v, err
}

func tooNew(path string, v int) error {
	return &Error{
		Op: "open", Path: path, Kind: checkpoint.ErrVersion,
		What: fmt.Sprintf("the database has schema version %d, this version of Superstep knows versions up to %d", v, len(migrations)),
		Fix:  "use a newer version of Superstep, or another file",
	}
}

// migrate brings the database to the newest version, in one transaction.
func migrate(ctx context.Context, c *sql.Conn, path string) error {
	v, err := schemaVersion(ctx, c)
	if err != nil {
		return err
	}
	if v == len(migrations) {
		return nil
	}
	if v > len(migrations) {
		return tooNew(path, v)
	}
	// The driver reports the end of a context even where BEGIN has begun.
	done := false
	defer func() {
		if !done {
			_, _ = c.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		}
	}()
	if _, err := c.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	// Another process may have been first.
	if v, err = schemaVersion(ctx, c); err != nil {
		return err
	}
	if v == 0 {
		// Tables without a version: what said it was lost.
		var n int
		if err := c.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'superstep_threads'`).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			err := errors.New("its tables are there, and their version is not")
			return &Error{
				Op: "open", Path: path, Kind: checkpoint.ErrCorrupt, What: "the file is damaged",
				Fix: "restore a backup, or save what can be read with `sqlite3 FILE .recover`; `superstep repair --check` says whether the result is sound",
				Err: &checkpoint.CorruptError{Place: path, Offset: -1, Err: err},
			}
		}
	}
	if _, err := c.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS superstep_meta (
		version INTEGER PRIMARY KEY,
		applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
	)`); err != nil {
		return err
	}
	for ; v < len(migrations); v++ {
		if _, err := c.ExecContext(ctx, migrations[v]); err != nil {
			return fmt.Errorf("migrating to schema version %d: %w", v+1, err)
		}
		if _, err := c.ExecContext(ctx, `INSERT INTO superstep_meta (version) VALUES (?)`, v+1); err != nil {
			return err
		}
	}
	if _, err := c.ExecContext(ctx, `COMMIT`); err != nil {
		return err
	}
	done = true
	return nil
}
