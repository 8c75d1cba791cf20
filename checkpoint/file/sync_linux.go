package file

import (
	"errors"
	"os"
	"syscall"
)

// syncFile makes the file's content and size durable.
func syncFile(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
