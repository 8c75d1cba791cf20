package temporal

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

var update = flag.Bool("update", false, "write the history of a run anew: for a workflow that may break those that are at work")

const history = "testdata/run.json"

// The workflow does with a history what it did when the history was written: else it would
// break the runs that are at work when it is deployed.
func TestHistoriesAreReplayed(t *testing.T) {
	if *update {
		write(t, history)
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := replay(parsed(t, string(data))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestAHistoryThatTheWorkflowWouldNotWriteIsNoticed(t *testing.T) {
	data, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{advanceName, runTasksName, fusedName} {
		if other := strings.ReplaceAll(string(data), name, giveUpName); replay(parsed(t, other)) == nil {
			t.Errorf("%s in the place of %s was not noticed", giveUpName, name)
		}
	}
}

func parsed(t *testing.T, data string) *historypb.History {
	t.Helper()
	h, err := client.HistoryFromJSON(strings.NewReader(data), client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func replay(h *historypb.History) error {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowName})
	return r.ReplayWorkflowHistory(nil, h)
}

// write writes what a server has as the history of a run with a superstep of three tasks, one
// of a lone task, a sleep and an end.
func write(t *testing.T, file string) {
	s, store := onServer(t), checkpoint.NewMemory()
	b := graph.New[fleetState]("g")
	for _, n := range []string{"a", "b", "c"} {
		b.AddNode(n, func(_ context.Context, s *fleetState) error { s.N.Add(1); return nil })
		b.AddEdge(graph.Start, n)
	}
	b.AddNode("nap", func(ctx context.Context, s *fleetState) error { return graph.Sleep(ctx, "nap", time.Second) })
	b.AddJoin([]string{"a", "b", "c"}, "nap")
	g := b.MustCompile(graph.WithCheckpointer(store))
	d, c := s.fleet(t, Options{Batch: 2}, store, g)
	if _, err := fleet.Invoke(t.Context(), c, g.Thread("t"), g.Input(func(*fleetState) error { return nil })); err != nil {
		t.Fatal(err)
	}
	data, err := protojson.MarshalOptions{Multiline: true}.Marshal(s.history(t, d.o.Prefix+"t", ""))
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
