package sqlite_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/internal/race"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// paths remembers where the suite's stores stand.
var paths sync.Map

func openAt(t testing.TB, path string) checkpoint.Store {
	t.Helper()
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	paths.Store(s, path)
	return s
}

func pathOf(t testing.TB, s checkpoint.Store) string {
	t.Helper()
	p, ok := paths.Load(s)
	if !ok {
		t.Fatal("unknown store")
	}
	return p.(string)
}

func TestStore(t *testing.T) { // SONI-31, TRPC-50, TRPC-51
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		return openAt(t, filepath.Join(t.TempDir(), "threads.db"))
	}, checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, pathOf(t, s))
		},
		// What a killed process leaves is what stands in its files now.
		Crash: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			to := filepath.Join(t.TempDir(), "crashed.db")
			for _, suffix := range []string{"", "-wal"} {
				b, err := os.ReadFile(pathOf(t, s) + suffix)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return openAt(t, to)
		},
		Another: func(t *testing.T, s checkpoint.Store) checkpoint.Store { return openAt(t, pathOf(t, s)) },
		Size:    size,
	})
}

// size is what the database takes when its log is written back.
func size(t *testing.T, s checkpoint.Store) int64 {
	t.Helper()
	db := rawDB(t, pathOf(t, s))
	defer db.Close()
	if _, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(pathOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestStoreInMemory(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return openAt(t, ":memory:") })
}

func TestStoreOnAnExistingConnection(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		db := rawDB(t, filepath.Join(t.TempDir(), "app.db"))
		t.Cleanup(func() { db.Close() })
		s, err := sqlite.New(db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestModel(t *testing.T) {
	checkpointtest.Model(t, func(t *testing.T) checkpoint.Store {
		return openAt(t, filepath.Join(t.TempDir(), "threads.db"))
	}, checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, pathOf(t, s))
		},
		Another: func(t *testing.T, s checkpoint.Store) checkpoint.Store { return openAt(t, pathOf(t, s)) },
	})
}

// Several programs may open a new file in the same moment: each gets it.
func TestANewFileIsOpenedBySeveralAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "threads.db")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := sqlite.Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
