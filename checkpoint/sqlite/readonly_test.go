package sqlite_test

import (
	"database/sql"
	"net/url"
	"testing"
)

// readOnlyDB opens a database that SQLite will not write.
func readOnlyDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	return db
}
