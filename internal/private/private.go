// Package private makes files that their owner alone may read.
package private

import (
	"os"
	"path/filepath"
)

// Create makes an empty file at path that its owner alone may read and write, if
// there is none; where a symbolic link stands, it makes the file that it leads to.
// SQLite gives its -wal and -shm files the same mode. Whatever goes wrong, whoever
// opens the file finds out and says.
func Create(path string) {
	for range 40 { // links; systems follow no more
		// Only a file that is new is opened: closing another would end the locks
		// that this process holds on it.
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = f.Close()
			return
		}
		to, err := os.Readlink(path)
		if err != nil { // a file, or a path where there can be none
			return
		}
		if !filepath.IsAbs(to) {
			// Not cleaned: what .. means depends on where links lead.
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
}
