package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

// wantReadable reads a database that cannot be written, and tries to write to it.
func wantReadable(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := readAll(s); err != nil || n == 0 {
		t.Fatalf("%d records, %v", n, err)
	}
	for c, err := range s.Verify(t.Context(), "") {
		t.Fatalf("%v, %v", c, err)
	}
	log := checkpoint.Log{Thread: "t"}
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	wantError(t, err, sqlite.ErrReadOnly, "opened for reading alone")
	wantError(t, s.Delete(t.Context(), "t"), sqlite.ErrReadOnly, "opened for reading alone")
	wantError(t, s.Compact(t.Context()), sqlite.ErrReadOnly, "opened for reading alone")
}

// Nobody but the owner reads what threads hold.
func TestANewDatabaseIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, path)
	if _, err := s.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", filepath.Base(name), info.Mode())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// What there is keeps its mode.
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Fatalf("%v, %v", info, err)
	}
}

func TestTablesWithoutTheirVersionAreDamage(t *testing.T) {
	path := fill(t, 3)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`DROP TABLE superstep_meta`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(path)
	wantError(t, err, checkpoint.ErrCorrupt, "superstep repair")
	var c *checkpoint.CorruptError
	if !errors.As(err, &c) || !strings.Contains(err.Error(), "damaged") {
		t.Fatal(err)
	}
}
