package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// The tables hold what an engine.Driver is told to keep. Numbers instead of names keep
// them small: tid is a thread's, lid a log's, and rid = lid<<32 | place a record's, so
// that the records of a log stand together, its head is the last of them, and appending
// one touches one page.
//
// A thread's columns beside its header are what it is found by: when it is due and its
// lease ends, in microseconds since 1970, the minute of its head's time if it is listed,
// and the labels of its head's metadata, which triggers keep in superstep_labels.
//
// Versions 1 to 3 were never released, and are not read.
var migrations = []string{
	oldest: `CREATE TABLE superstep_threads (
		tid INTEGER PRIMARY KEY,
		thread TEXT NOT NULL UNIQUE,
		version INTEGER NOT NULL,
		header BLOB NOT NULL,
		due INTEGER,
		lease INTEGER,
		minute INTEGER,
		labels TEXT
	);
	CREATE INDEX superstep_threads_due ON superstep_threads (due, thread) WHERE due IS NOT NULL;
	CREATE INDEX superstep_threads_lease ON superstep_threads (lease, thread) WHERE lease IS NOT NULL;
	CREATE INDEX superstep_threads_minute ON superstep_threads (minute) WHERE minute IS NOT NULL;
	CREATE TABLE superstep_logs (
		lid INTEGER PRIMARY KEY,
		tid INTEGER NOT NULL,
		ns TEXT NOT NULL,
		UNIQUE (tid, ns)
	);
	CREATE TABLE superstep_records (
		rid INTEGER PRIMARY KEY,
		facts BLOB NOT NULL,    -- see engine.AppendFacts
		meta TEXT NOT NULL,
		data BLOB NOT NULL
	);
	CREATE TABLE superstep_side (
		num INTEGER PRIMARY KEY,
		tid INTEGER NOT NULL,
		key BLOB NOT NULL,
		value BLOB NOT NULL,
		UNIQUE (tid, key)
	);
	CREATE TABLE superstep_labels (
		label TEXT NOT NULL,
		tid INTEGER NOT NULL,
		PRIMARY KEY (label, tid)
	) WITHOUT ROWID;
	CREATE TRIGGER superstep_labels_begin AFTER INSERT ON superstep_threads WHEN new.labels IS NOT NULL BEGIN
		INSERT INTO superstep_labels (label, tid) SELECT value, new.tid FROM json_each(new.labels);
	END;
	CREATE TRIGGER superstep_labels_change AFTER UPDATE OF labels ON superstep_threads WHEN old.labels IS NOT new.labels BEGIN
		DELETE FROM superstep_labels WHERE tid = old.tid AND label IN (SELECT value FROM json_each(old.labels));
		INSERT INTO superstep_labels (label, tid) SELECT value, new.tid FROM json_each(new.labels);
	END;
	CREATE TRIGGER superstep_labels_end AFTER DELETE ON superstep_threads WHEN old.labels IS NOT NULL BEGIN
		DELETE FROM superstep_labels WHERE tid = old.tid AND label IN (SELECT value FROM json_each(old.labels));
	END;`,
}

// oldest is the least version of tables that can be brought to the newest.
const oldest = 3

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

func tooOld(path string, v int) error {
	return &Error{
		Op: "open", Path: path, Kind: checkpoint.ErrVersion,
		What: fmt.Sprintf("the database has schema version %d, of before the first release, which is not read any more", v),
		Fix:  "use another file",
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
	if 0 < v && v <= oldest {
		return tooOld(path, v)
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
	for v = max(v, oldest); v < len(migrations); v++ {
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
