package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/memory/memorytest"
	"github.com/superstep-dev/superstep/memory/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paths remembers where the suite's stores stand.
var paths sync.Map

func openAt(t testing.TB, path string, c memory.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(path, sqlite.Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	paths.Store(memory.Store(s), path)
	return s
}

func pathOf(t testing.TB, s memory.Store) string {
	t.Helper()
	p, ok := paths.Load(s)
	if !ok {
		t.Fatal("unknown store")
	}
	return p.(string)
}

// items returns how many items the suite's test with many of them puts: as many as
// it likes, and fewer under the race detector, which takes minutes over them.
func items() int {
	if race.Enabled {
		return 500
	}
	return 0
}

func TestStore(t *testing.T) {
	memorytest.Run(t, func(t *testing.T, c memory.Config) memory.Store {
		return openAt(t, filepath.Join(t.TempDir(), "what #?%20 is.db"), c)
	}, memorytest.Options{
		Reopen: func(t *testing.T, s memory.Store, c memory.Config) memory.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, pathOf(t, s), c)
		},
		Another:   func(t *testing.T, s memory.Store, c memory.Config) memory.Store { return openAt(t, pathOf(t, s), c) },
		ManyItems: items(),
	})
}

func TestStoreInMemory(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	memorytest.Run(t, func(t *testing.T, c memory.Config) memory.Store { return openAt(t, ":memory:", c) }, memorytest.Options{ManyItems: 500})
}
