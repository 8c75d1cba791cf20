package program_test

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/program"
)

func ExampleRun() {
	program.Run(context.Background(), []string{"--version"}, strings.NewReader(""), os.Stdout, io.Discard, cli.Version("of yours"))
	// Output: superstep version of yours
}
