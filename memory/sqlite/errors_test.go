package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	threads "github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "superstep")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(filepath.Join(dir, "agents.db"), sqlite.Options{Config: memory.Config{TTL: 30 * 24 * time.Hour, RefreshOnRead: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_, err = store.Put(ctx, []string{"users", "ann"}, "likes", []byte(`{"food":"pizza"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	item, err := store.Get(ctx, []string{"users", "ann"}, "likes")
	fmt.Println(string(item.Value), err)
	// Output: {"food":"pizza"} <nil>
}

func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func wantError(t *testing.T, err, kind error) {
	t.Helper()
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || !errors.Is(err, kind) || e.Fix == "" {
		t.Fatalf("got error %v, want %v", err, kind)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Run("an empty path", func(t *testing.T) {
		_, err := sqlite.Open("")
		wantError(t, err, sqlite.ErrCannotOpen)
	})
	t.Run("a directory", func(t *testing.T) {
		_, err := sqlite.Open(t.TempDir())
		wantError(t, err, sqlite.ErrCannotOpen)
	})
	t.Run("a missing directory", func(t *testing.T) {
		_, err := sqlite.Open(filepath.Join(t.TempDir(), "no", "x.db"))
		wantError(t, err, sqlite.ErrCannotOpen)
	})
	t.Run("no database", func(t *testing.T) {
		for _, n := range []int{1, 100} {
			path := filepath.Join(t.TempDir(), "x.db")
			if err := os.WriteFile(path, []byte(strings.Repeat("This is a letter.\n", n)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := sqlite.Open(path)
			wantError(t, err, sqlite.ErrNotDatabase)
		}
	})
	t.Run("tables of a newer version", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.db")
		openAt(t, path, memory.Config{}).Close()
		if _, err := rawDB(t, path).Exec(`INSERT INTO superstep_memory_meta (version) VALUES (1000)`); err != nil {
			t.Fatal(err)
		}
		_, err := sqlite.Open(path)
		wantError(t, err, sqlite.ErrVersion)
	})
	t.Run("a full disk", func(t *testing.T) {
		db := rawDB(t, filepath.Join(t.TempDir(), "x.db"))
		db.SetMaxOpenConns(1)
		s, err := sqlite.New(db)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := db.Exec(`PRAGMA max_page_count = 20`); err != nil {
			t.Fatal(err)
		}
		big := []byte(`{"x":"` + strings.Repeat("x", 200_000) + `"}`)
		if _, err := s.Put(t.Context(), []string{"a"}, "small", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		_, err = s.Put(t.Context(), []string{"a"}, "big", big)
		wantError(t, err, sqlite.ErrFull)
		if items, err := s.Search(t.Context(), nil, memory.Query{}); err != nil || len(items) != 1 {
			t.Fatal(items, err)
		}
	})
	t.Run("a database that somebody else holds", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.db")
		s, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := rawDB(t, path).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
			t.Fatal(err)
		}
		_, err = s.Put(t.Context(), []string{"a"}, "k", []byte(`{}`))
		wantError(t, err, sqlite.ErrLocked)
		if _, err := c.ExecContext(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		if _, err = s.Put(t.Context(), []string{"a"}, "k", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("options that are wrong", func(t *testing.T) {
		for _, o := range [][]sqlite.Options{{{BusyTimeout: -1}}, {{}, {}}, {{Config: memory.Config{TTL: -1}}}} {
			if s, err := sqlite.Open(":memory:", o...); err == nil {
				s.Close()
				t.Errorf("%+v was taken", o)
			}
		}
		if s, err := sqlite.New(rawDB(t, ":memory:"), sqlite.Options{Full: true}); err == nil {
			s.Close()
			t.Error("New took Full")
		}
	})
}

func TestThreadsAndMemoryInOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.db")
	var wg sync.WaitGroup
	for i := range 6 { // all at the same moment
		wg.Go(func() {
			if i%2 == 0 {
				s, err := threads.Open(path)
				if err != nil {
					t.Errorf("threads: %v", err)
					return
				}
				defer s.Close()
				return
			}
			s, err := sqlite.Open(path, sqlite.Options{Full: true})
			if err != nil {
				t.Errorf("memory: %v", err)
				return
			}
			defer s.Close()
			if _, err := s.Put(t.Context(), []string{"a"}, fmt.Sprint(i), []byte(`{}`)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := openAt(t, path, memory.Config{})
	defer s.Close()
	if items, err := s.Search(t.Context(), nil, memory.Query{}); err != nil || len(items) != 3 {
		t.Fatal(items, err)
	}
}

// A search below a prefix must not read all of the table.
func TestSearchesUseIndexes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := openAt(t, path, memory.Config{})
	defer s.Close()
	db := rawDB(t, path)
	for _, q := range []string{
		`SELECT value FROM superstep_memory_items i WHERE (i.expires IS NULL OR i.expires > 5) AND (i.namespace = 'a' OR i.namespace > 'a.' AND i.namespace < 'a/') ORDER BY +version DESC`,
		`SELECT value FROM superstep_memory_items i WHERE (i.expires IS NULL OR i.expires > 5) AND i.namespace = 'a' ORDER BY +version DESC`,
		`DELETE FROM superstep_memory_items WHERE expires <= 5`,
	} {
		rows, err := db.Query(`EXPLAIN QUERY PLAN ` + q)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		rows.Close()
		if text := strings.Join(plan, "; "); strings.Contains(text, "SCAN") {
			t.Errorf("%s\n%s", q, text)
		}
	}
}

// A value of a page and more stands in pages of its own.
func TestADatabaseThatEndsWithinAValueIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.db")
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), []string{"a"}, "k", []byte(`{"text":"`+strings.Repeat("x", 20_000)+`"}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-4000); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(path); err == nil {
		defer s.Close()
		_, err = s.Get(t.Context(), []string{"a"}, "k")
	}
	wantError(t, err, sqlite.ErrCorrupt)
}
