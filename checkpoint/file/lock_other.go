//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package file

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const extLock = ".lock"

// lockFile takes the lock of a file. Locks are mandatory on some of these
// systems, so a file of its own, <name>.lock, is locked. It stays when the
// thread is deleted, or two processes could hold locks of the same name.
func lockFile(ctx context.Context, _ *os.File, path string, exclusive bool) (unlock func(), err error) {
	l := flock.New(strings.TrimSuffix(path, extMain)+extLock, flock.SetPermissions(0o600))
	if exclusive {
		_, err = l.TryLockContext(ctx, time.Millisecond)
	} else {
		_, err = l.TryRLockContext(ctx, time.Millisecond)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}

// renamesOpenFiles: files cannot be renamed, replaced or removed while open.
const renamesOpenFiles = false
