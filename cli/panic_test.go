package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
)

func TestVerboseShowsWhereANodePanicked(t *testing.T) {
	b := graph.New[struct{ N int }]("g")
	b.AddNode("a", func(context.Context, *struct{ N int }) error { panic("boom") })
	g := b.AddEdge(graph.Start, "a").MustCompile()
	for flag, want := range map[string]string{"-q": "-v shows where it panicked", "-v": "panic_test.go:"} {
		var stderr bytes.Buffer
		code := cli.Run(t.Context(), []string{"run", "g", "-s", "memory", flag}, strings.NewReader(""), &bytes.Buffer{}, &stderr, cli.Graph(g))
		if code != cli.ExitError || !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "goroutine") != (flag == "-v") {
			t.Errorf("%s: exit code %d\n%s", flag, code, stderr.String())
		}
	}
}
