// The command superstep runs a few example graphs, looks at their threads, and
// begins programs ("superstep init"). "superstep chat" talks with a model that reads
// files, calculates, and asks before it writes a file; "--model demo" tries it without
// a key, and a conversation goes on where it was after the process was killed.
//
// A program with graphs of its own gets the same commands from package cli.
package main

import (
	"context"
	"os"

	"github.com/superstep-dev/superstep/cmd/superstep/program"
)

func main() {
	os.Exit(program.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
