//go:build !unix

package server_test

import "os"

// Signals that make a process stand still, and go on: there are none.
var stopSignal, goOnSignal os.Signal
