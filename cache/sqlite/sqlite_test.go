package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/cache/cachetest"
	"github.com/superstep-dev/superstep/cache/sqlite"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

func open(t *testing.T, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestFile(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store {
		return open(t, filepath.Join(t.TempDir(), "a b#?.db"), sqlite.Options{})
	})
}

func TestInMemory(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store { return open(t, ":memory:", sqlite.Options{}) })
}

func database(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", sqlitedb.DSN(path, "_pragma=busy_timeout(10000)"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestADatabaseOfTheCaller(t *testing.T) {
	db := database(t, filepath.Join(t.TempDir(), "x.db"))
	cachetest.Run(t, func(t *testing.T) cache.Store {
		s, err := sqlite.New(db)
		if err == nil {
			err = s.Clear(t.Context(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	if err := db.Ping(); err != nil {
		t.Errorf("the database was closed: %v", err)
	}
}

func TestStoresOfOneFileShareWhatItHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	a, b := open(t, path, sqlite.Options{}), open(t, path, sqlite.Options{})
	if err := a.Set(t.Context(), "g/n/k", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if data, ok, err := b.Get(t.Context(), "g/n/k"); string(data) != "x" || !ok || err != nil {
		t.Error(data, ok, err)
	}
	if err := b.Clear(t.Context(), "g/n/"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := a.Get(t.Context(), "g/n/k"); ok || err != nil {
		t.Error(ok, err)
	}
}

// count returns how many rows there are, and their size as it is kept and as it is.
func count(t *testing.T, path string) (rows, kept, size int) {
	t.Helper()
	err := database(t, path).QueryRow(`SELECT count(*), (SELECT bytes FROM superstep_cache_size), coalesce(sum(cost), 0) FROM superstep_cache`).Scan(&rows, &kept, &size)
	if err != nil {
		t.Fatal(err)
	}
	return rows, kept, size
}

func TestItIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, sqlite.Options{MaxBytes: 10_000})
	there := func(want string) {
		t.Helper()
		got := ""
		for _, key := range []string{"a", "b", "c", "d"} {
			if _, ok, err := s.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			} else if ok {
				got += key
			}
		}
		rows, kept, size := count(t, path)
		if got != want || rows != len(want) || kept != size || size > 10_000 {
			t.Errorf("%q are there, want %q; %d rows of %d bytes, counted as %d", got, want, rows, size, kept)
		}
	}
	set := func(key string, size int) {
		t.Helper()
		if err := s.Set(t.Context(), key, make([]byte, size), 0); err != nil {
			t.Fatal(err)
		}
	}
	set("a", 4000)
	set("b", 4000)
	set("a", 4000)
	there("ab")
	set("c", 4000)
	there("ac")
	set("c", 10_000) // too large: what it had is gone, and nothing else
	there("a")
	set("d", 9000)
	there("d")
	if err := s.Clear(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	there("")
}

func TestWhatHasExpiredIsRemovedWhenOthersAreSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, sqlite.Options{})
	for _, key := range []string{"a", "b", "c"} {
		if err := s.Set(t.Context(), key, nil, time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Millisecond)
	if err := s.Set(t.Context(), "d", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if rows, kept, size := count(t, path); rows != 1 || kept != size {
		t.Errorf("%d rows of %d bytes, counted as %d", rows, size, kept)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is a text and not a database, and it is long enough to be taken for one: no header of SQLite here"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	open(t, newer, sqlite.Options{}).Close()
	if _, err := database(t, newer).Exec(`INSERT INTO superstep_cache_meta (version) VALUES (99)`); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "the path is empty", dir: "is a directory", text: "move the file away", newer: "use a newer version", filepath.Join(dir, "no", "such.db"): "such.db"} {
		if _, err := sqlite.Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	for _, o := range [][]sqlite.Options{{{MaxBytes: -1}}, {{BusyTimeout: -1}}, {{}, {}}} {
		if _, err := sqlite.Open(":memory:", o...); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}
