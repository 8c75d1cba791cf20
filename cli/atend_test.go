package cli_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

func TestWhatIsRegisteredForTheEndIsCalledHoweverTheCommandEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		fails bool
		code  int
	}{
		"a command that works":             {[]string{"graphs"}, false, cli.ExitDone},
		"one that is wrong":                {[]string{"fly"}, false, cli.ExitUsage},
		"an end that fails after one that": {[]string{"graphs"}, true, cli.ExitError},
		"an end that fails after a wrong":  {[]string{"fly"}, true, cli.ExitUsage},
	} {
		var out, errs bytes.Buffer
		var called []string
		ends := func(name string) cli.Option {
			return cli.AtEnd(func(ctx context.Context) error {
				if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
					t.Error("the end has no time of its own")
				}
				called = append(called, name)
				if tt.fails && name == "spans" {
					return errors.New("the collector is gone")
				}
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		code := cli.Run(ctx, append([]string{"--store", "memory"}, tt.args...), strings.NewReader(""), &out, &errs, cli.Graph(fan()), ends("file"), ends("spans"))
		if code != tt.code || !slices.Equal(called, []string{"spans", "file"}) || tt.fails != strings.Contains(errs.String(), "the collector is gone") {
			t.Errorf("%s: code %d, called %q, said %s", name, code, called, errs.String())
		}
	}
}
