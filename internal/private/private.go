// Package private makes files that their owner alone may read.
package private

import "os"

// Create makes an empty file at path that its owner alone may read and write, if
// there is none. SQLite gives its -wal and -shm files the same mode. Whatever goes
// wrong, whoever opens the file finds out and says.
func Create(path string) {
	// Only a file that is new is opened: closing another would end the locks that
	// this process holds on it.
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close()
	}
}
