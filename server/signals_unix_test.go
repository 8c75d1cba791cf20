//go:build unix

package server_test

import (
	"os"
	"syscall"
)

// Signals that make a process stand still, and go on.
var stopSignal, goOnSignal os.Signal = syscall.SIGSTOP, syscall.SIGCONT
