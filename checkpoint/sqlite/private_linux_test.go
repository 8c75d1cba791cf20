package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

// unwritable takes the right to write to a database, and to its directory if that
// is to be, away until it is given back.
func unwritable(t *testing.T, path string, dirMode os.FileMode) (giveBack func()) {
	t.Helper()
	chmod := func(modes map[string]os.FileMode) {
		t.Helper()
		for p, mode := range modes {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Dir(path)
	chmod(map[string]os.FileMode{path: 0o444, dir: dirMode, filepath.Dir(dir): 0o755})
	drop := func(int) {}
	if os.Geteuid() == 0 { // whom nothing is closed to
		runtime.LockOSThread() // and not unlocked: the thread ends with the test
		drop = func(uid int) { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0) }
	}
	drop(65534)
	giveBack = func() {
		drop(0)
		chmod(map[string]os.FileMode{path: 0o600, dir: 0o700})
	}
	t.Cleanup(giveBack)
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		_ = f.Close()
		t.Skip("rights cannot be dropped here")
	}
	return giveBack
}

// A back-up can be looked at wherever it stands.
func TestADatabaseThatCannotBeWrittenCanBeRead(t *testing.T) {
	for name, dirMode := range map[string]os.FileMode{"in a directory that can be written": 0o777, "in one that cannot": 0o555} {
		t.Run(name, func(t *testing.T) {
			path := fill(t, 3)
			unwritable(t, path, dirMode)
			wantReadable(t, path)
			_, err := sqlite.Open(path, sqlite.Options{Writable: true})
			wantError(t, err, sqlite.ErrReadOnly, "make the file and its directory writable")
		})
	}
}

// Who reads a database in a place that cannot be written to sees nothing of what
// its owner writes: it says so, instead of reading what isn't there any more.
func TestADatabaseThatChangesUnderWhoCannotWriteItIsNotDamaged(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *sqlite.Store){
		"by writing": func(*testing.T, *sqlite.Store) {},
		"by compacting": func(t *testing.T, s *sqlite.Store) {
			if err := s.Delete(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := fill(t, 3000)
			giveBack := unwritable(t, path, 0o555)
			reader, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if n, err := readAll(reader); err != nil || n != 3000 {
				t.Fatalf("%d records, %v", n, err)
			}
			giveBack()
			owner, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer owner.Close()
			if n, err := readAll(reader); err != nil || n != 3000 { // nothing has changed
				t.Fatalf("%d records, %v", n, err)
			}
			run, log := checkpoint.NewRunID(), checkpoint.Log{Thread: "new"}
			if _, err := owner.Write(t.Context(), &checkpoint.Write{Log: log, Record: logtest.Step(log, run, "", 1, message)}); err != nil {
				t.Fatal(err)
			}
			change(t, owner)
			wantChanged := func() {
				t.Helper()
				_, err := readAll(reader)
				wantError(t, err, sqlite.ErrChanged, "open it anew")
				for _, err := range reader.Threads(t.Context(), checkpoint.ThreadFilter{}) {
					wantError(t, err, sqlite.ErrChanged)
				}
				for c, err := range reader.Verify(t.Context(), "") {
					if c != nil {
						t.Fatalf("damage: %v", c)
					}
					wantError(t, err, sqlite.ErrChanged)
				}
			}
			wantChanged()
			if err := owner.Close(); err != nil {
				t.Fatal(err)
			}
			wantChanged()
			again, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if _, _, err := again.Head(t.Context(), log); err != nil {
				t.Fatal(err)
			}
		})
	}
}
