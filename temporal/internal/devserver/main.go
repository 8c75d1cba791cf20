// Command devserver is a server of Temporal for tests: it keeps everything in memory,
// prints its address and a namespace, and ends when its standard input does. Its module is its
// own: the server takes minutes to build, and wants other versions than the rest.
package main

import (
	"fmt"
	"io"
	"os"

	"go.temporal.io/server/temporaltest"
)

func main() {
	s := temporaltest.NewServer()
	fmt.Println(s.GetFrontendHostPort(), s.GetDefaultNamespace())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
