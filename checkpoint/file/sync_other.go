//go:build !linux

package file

import "os"

// syncFile makes the file's content and size durable.
func syncFile(f *os.File) error { return f.Sync() }
