package sqlite

import "github.com/superstep-dev/superstep/internal/sqlitedb"

// The tables hold what an engine.Driver is told to keep. Numbers instead of names keep
// them small: tid is a thread's, lid a log's, and rid = lid<<32 | place a record's, so
// that the records of a log stand together, its head is the last of them, and appending
// one touches one page.
//
// A thread's columns beside its header are what it is found by: when it is due and its
// lease ends, in microseconds since 1970, the minute of its head's time if it is listed,
// and the labels of its head's metadata, which triggers keep in superstep_labels.
//
// Versions 1 to 4 were never released, and are not read.
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
		meta BLOB NOT NULL,     -- see engine.AppendRow
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
const oldest = 4

var tables = sqlitedb.Tables{Meta: "superstep_meta", Migrations: migrations, Unread: oldest, Another: "superstep_threads"}
