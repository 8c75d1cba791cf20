// Package words does a piece of work for each file of a folder, some at a time: here it
// counts words. What was done stays done when the process is killed.
package words

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// State is the batch and what came of it.
type State struct {
	Dir    string                 `json:"dir"`
	Files  int                    `json:"files"`
	Words  graph.Map[string, int] `json:"words"`  // by file
	Failed graph.List[string]     `json:"failed"` // what could not be read, and why
	Report string                 `json:"report"`
}

// Builder returns the graph, to be compiled.
func Builder() *graph.Builder[State] {
	b := graph.New[State]("words")
	count := graph.AddTask(b, "count", count, graph.Retry()) // three attempts
	b.AddCommandNode("list", func(_ context.Context, s *State) (graph.Command, error) {
		var sends []graph.Send
		err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && (filepath.Ext(path) == ".md" || filepath.Ext(path) == ".txt") {
				sends = append(sends, count.Send(path))
			}
			return err
		})
		if s.Files = len(sends); err == nil && s.Files == 0 {
			err = fmt.Errorf("%s has no .md or .txt files", s.Dir)
		}
		return graph.Dispatch(sends...), err
	}, graph.Destinations("count"))
	b.AddNode("report", report)
	b.AddEdge(graph.Start, "list").AddEdge("count", "report").AddEdge("report", graph.End)
	return b
}

// count is one task. A call of a model or a service comes here.
func count(ctx context.Context, s *State, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		s.Failed.Add(err.Error()) // one bad file doesn't end the batch; return an error to try again
		return nil
	}
	n := len(strings.Fields(string(text)))
	s.Words.Put(path, n)
	return graph.Emit(ctx, fmt.Sprintf("%s: %d words", path, n)) // progress, for those who stream the run
}

func report(_ context.Context, s *State) error {
	total := 0
	for _, n := range s.Words.All() {
		total += n
	}
	s.Report = fmt.Sprintf("%d words in %d files; %d could not be read", total, s.Words.Len(), s.Failed.Len())
	return nil
}
