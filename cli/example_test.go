package cli_test

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/server"
)

func ExampleServeFlags() {
	runs := cli.ServeFlags(func(f *pflag.FlagSet) func(context.Context, cli.Service) ([]server.Option, error) {
		n := f.Int("max-runs", 64, "how many runs work at a time")
		return func(context.Context, cli.Service) ([]server.Option, error) {
			if *n < 1 {
				return nil, cli.Hint(cli.Usage("--max-runs is %d", *n), "let at least one run work: --max-runs 1")
			}
			return []server.Option{server.MaxRuns(*n)}, nil
		}
	})
	args := []string{"serve", "--max-runs", "0"}
	cli.Run(context.Background(), args, strings.NewReader(""), os.Stdout, os.Stdout, cli.Program("reports", "Writes reports."), cli.Graph(jokes()), runs)
	// Output:
	// reports: --max-runs is 0
	//   let at least one run work: --max-runs 1
}
