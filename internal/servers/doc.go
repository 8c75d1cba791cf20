// Package servers starts throw-away database servers from the programs that are
// installed on this machine, for tests: on a free port of 127.0.0.1, with data in
// a directory of the caller's. A server can be killed and started again on the
// same data. It ends with the program that started it, however that ends.
package servers

import "errors"

// ErrUnavailable: the server's programs are not installed. The error that wraps
// it says what to install.
var ErrUnavailable = errors.New("servers: not installed")
