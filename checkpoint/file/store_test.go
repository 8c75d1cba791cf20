package file

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/internal/race"
)

func mustOpen(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStorePassesTheSuite(t *testing.T) { // W7-29, W7-30
	for name, opts := range map[string]Options{
		"durable":         {},
		"not synced":      {Sync: SyncNever},
		"one thread open": {Sync: SyncNever, MaxOpen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if race.Enabled && name == "not synced" {
				t.Skip("one thread open is not synced either: run without -race")
			}
			t.Parallel()
			reopen := func(t *testing.T, s checkpoint.Store) checkpoint.Store {
				return mustOpen(t, s.(*Store).driver.dir, opts)
			}
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
				return mustOpen(t, t.TempDir(), opts)
			}, checkpointtest.Options{
				Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return reopen(t, s)
				},
				Crash:   reopen,
				Another: reopen,
				Size: func(t *testing.T, s checkpoint.Store) (n int64) {
					err := filepath.WalkDir(s.(*Store).driver.dir, func(_ string, d fs.DirEntry, err error) error {
						if err != nil || d.IsDir() {
							return err
						}
						st, err := d.Info()
						n += st.Size()
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
					return n
				},
			})
		})
	}
}

func TestModel(t *testing.T) {
	opts := Options{Sync: SyncNever}
	checkpointtest.Model(t, func(t *testing.T) checkpoint.Store { return mustOpen(t, t.TempDir(), opts) }, checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return mustOpen(t, s.(*Store).driver.dir, opts)
		},
		Another: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			return mustOpen(t, s.(*Store).driver.dir, opts)
		},
	})
}
