package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/session/sessiontest"
	"github.com/superstep-dev/superstep/session/sqlite"
)

func open(t *testing.T, path string, o sqlite.Options) *sqlite.Service {
	t.Helper()
	s, err := sqlite.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFile(t *testing.T) {
	paths := map[session.Service]string{}
	ttls := map[session.Service]time.Duration{}
	sessiontest.Run(t, sessiontest.Backend{
		New: func(t *testing.T, ttl time.Duration) session.Service {
			path := filepath.Join(t.TempDir(), "a b#?.db")
			s := open(t, path, sqlite.Options{TTL: ttl})
			paths[s], ttls[s] = path, ttl
			return s
		},
		Stored: func(t *testing.T, s session.Service) (n int) {
			db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: paths[s]}).EscapedPath())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.QueryRow(`SELECT count(*) FROM superstep_sessions`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		Reopen: func(t *testing.T, s session.Service) session.Service {
			return open(t, paths[s], sqlite.Options{TTL: ttls[s]})
		},
	})
}

func TestInMemory(t *testing.T) {
	sessiontest.Run(t, sessiontest.Backend{
		New: func(t *testing.T, ttl time.Duration) session.Service {
			return open(t, ":memory:", sqlite.Options{TTL: ttl})
		},
	})
}

func TestADatabaseOfTheCaller(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlite.New(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), session.Key{App: "a", User: "u"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(); err != nil {
		t.Errorf("the database was closed: %v", err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is a text and not a database, and it is long enough to be taken for one: no header of SQLite here"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	s := open(t, newer, sqlite.Options{})
	s.Close()
	db, err := sql.Open("sqlite", newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(context.Background(), `INSERT INTO superstep_session_meta (version) VALUES (99)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	whole, err := os.ReadFile(newer)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.db")
	if err := os.WriteFile(cut, whole[:4096+100], 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{cut: session.ErrDamaged, "": session.ErrConnection, text: session.ErrUnsupported, newer: session.ErrVersion, filepath.Join(dir, "no", "such.db"): session.ErrUnavailable} {
		_, err := sqlite.Open(path)
		e := new(session.Error)
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Fix == "" {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
	for _, o := range [][]sqlite.Options{{{TTL: -1}}, {{TTL: time.Microsecond}}, {{BusyTimeout: -1}}, {{}, {}}} {
		if _, err := sqlite.Open(":memory:", o...); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}

// The writers of one process wait for each other, not for another process that
// holds the file too long.
func TestManyWritersAreNoOtherProcess(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"), sqlite.Options{BusyTimeout: 30 * time.Millisecond})
	defer s.Close()
	key := session.Key{App: "a", User: "u", ID: "s"}
	if _, err := s.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	const writers, each = 64, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := s.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, err := s.Get(t.Context(), key, session.Window{Last: -1}); err != nil || got.Seq != writers*each {
		t.Errorf("%v, %+v", err, got)
	}
}

func ExampleOpen() {
	service, err := sqlite.Open(":memory:")
	if err != nil {
		panic(err)
	}
	defer service.Close()
	s, err := service.Create(context.Background(), session.Key{App: "support", User: "ann", ID: "s1"}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Key)
	// Output: "s1" of user "ann" of "support"
}
