package stores_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
)

type conversation struct {
	Said graph.List[string]
}

// said is what takes 500 bytes as a change in JSON, {"Said":["…"]}.
var said = strings.Repeat("x", 500-13)

// Each turn is a run: it claims the thread, says what was said, and gives the
// thread up.
func TestAConversationTakesAtMostOneAndAHalfTimesItsMessagesOnDisk(t *testing.T) {
	const turns, each = 2000, 500
	for _, kind := range []string{"file", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			url := map[string]string{"file": "file:" + dir + "?sync=never", "sqlite": "sqlite:" + filepath.Join(dir, "threads.db")}[kind]
			s, err := stores.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			b := graph.New[conversation]("chat")
			b.AddNode("agent", func(_ context.Context, c *conversation) error {
				c.Said.Add(said)
				return nil
			})
			b.AddEdge(graph.Start, "agent")
			g, err := b.Compile(graph.WithCheckpointer(s))
			if err != nil {
				t.Fatal(err)
			}
			for range turns {
				if _, err := g.Thread("t").Invoke(t.Context(), g.Input(func(c *conversation) error {
					c.Said.Add(said)
					return nil
				})); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			size := int64(0)
			if err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				info, err := e.Info()
				if err == nil {
					size += info.Size()
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes a turn", size/turns)
			if 2*size > 3*turns*2*each {
				t.Fatalf("%d bytes on disk for %d bytes of messages", size, turns*2*each)
			}
		})
	}
}
