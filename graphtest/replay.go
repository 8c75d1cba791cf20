package graphtest

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
)

// Replay runs a graph against a recorded thread, the file that `superstep export`
// or recording.Export wrote, and fails the test with the first difference: in
// what nodes write, where they lead, what they ask. All of them are logged with
// go test -v. See [graph.Graph.Replay] for what is compared. Dependencies are those of
// the graph: give stand-ins by [graph.Graph.With]. At most one ReplayOptions may be
// given.
func Replay[S any](tb testing.TB, g *graph.Graph[S], path string, opts ...graph.ReplayOptions) {
	tb.Helper()
	rec, err := recording.ReadFile(path)
	if err != nil {
		tb.Fatalf("graphtest: %v", err)
	}
	var o graph.ReplayOptions
	switch {
	case len(opts) > 1:
		tb.Fatal("graphtest: Replay was given more than one ReplayOptions")
	case len(opts) == 1:
		o = opts[0]
	}
	if g, err = g.With(graph.CheckMutations()); err != nil {
		tb.Fatalf("graphtest: %v", err)
	}
	n := 0
	for d, err := range g.Replay(tb.Context(), rec, o) {
		if err != nil {
			tb.Fatalf("graphtest: replay of %s: %v", path, err)
		}
		if n++; n == 1 {
			tb.Errorf("graphtest: graph %q differs from %s (thread %q, checkpoint %s):\n%s", g.Name(), path, rec.Header.Thread, d.Checkpoint, &d)
			if !testing.Verbose() {
				return
			}
			continue
		}
		tb.Logf("difference %d, checkpoint %s:\n%s", n, d.Checkpoint, &d)
	}
}
