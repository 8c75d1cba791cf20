package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A back-up can be looked at wherever it stands.
func TestADatabaseThatCannotBeWrittenCanBeRead(t *testing.T) {
	for name, dirMode := range map[string]os.FileMode{"in a directory that can be written": 0o777, "in one that cannot": 0o555} {
		t.Run(name, func(t *testing.T) {
			path := fill(t, 3)
			for p, mode := range map[string]os.FileMode{path: 0o444, filepath.Dir(path): dirMode, filepath.Dir(filepath.Dir(path)): 0o755} {
				if err := os.Chmod(p, mode); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { _ = os.Chmod(filepath.Dir(path), 0o700) })
			if os.Geteuid() == 0 { // whom nothing is closed to
				runtime.LockOSThread() // and not unlocked: the thread ends with the test
				set := func(uid uintptr) { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0) }
				set(65534)
				defer set(0)
			}
			if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
				_ = f.Close()
				t.Skip("rights cannot be dropped here")
			}
			wantReadable(t, path)
		})
	}
}
