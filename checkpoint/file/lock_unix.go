//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lockFile takes the advisory lock of an open file; unlock releases it. The
// lock goes with the open file: a killed process leaves none behind.
func lockFile(ctx context.Context, f *os.File, _ string, exclusive bool) (unlock func(), err error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	fd := int(f.Fd())
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, time.Millisecond) {
		err := syscall.Flock(fd, how|syscall.LOCK_NB)
		switch {
		case err == nil:
			// A file that was closed has no lock, and no number that another file may have.
			return func() { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, os.NewSyscallError("flock", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}

// renamesOpenFiles: files can be renamed, replaced and removed while open.
const renamesOpenFiles = true
