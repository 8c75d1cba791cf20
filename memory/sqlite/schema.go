package sqlite

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
