package temporal

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
)

// The example counts in one process, and on three workers of which one is killed while it
// counts.
func TestTheExampleCountsWhereverItRuns(t *testing.T) {
	t.Parallel()
	s := onServer(t)
	program := filepath.Join(t.TempDir(), "mapreduce")
	if out, err := exec.Command("go", "build", "-o", program, "./examples/mapreduce").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		said := new(bytes.Buffer)
		cmd := exec.Command(program, append(args, "-each", "20ms")...)
		cmd.Env = append(os.Environ(), "TEMPORAL_NAMESPACE="+s.namespace)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("y\n"), said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, said
	}
	check := func(cmd *exec.Cmd, said *bytes.Buffer) {
		t.Helper()
		if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "Publish that it is 500500? [y/n] published: true") {
			t.Errorf("%v\n%s", err, said)
		}
	}
	check(start())

	url := "sqlite:" + filepath.Join(t.TempDir(), "reports.db")
	store, err := stores.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	fleet := []string{"-store", url, "-temporal", s.address}
	var workers []*exec.Cmd
	for range 3 {
		w, _ := start(append(fleet, "-work")...)
		t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
		workers = append(workers, w)
	}
	cmd, said := start(fleet...)
	for counted := 0; counted < 100; time.Sleep(10 * time.Millisecond) {
		for info, err := range store.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			results, err := store.Results(t.Context(), checkpoint.Log{Thread: info.Thread}, info.Head.Branch, info.Head.Epoch)
			if err != nil {
				t.Fatal(err)
			}
			counted = len(results)
			if info.Head.Step > 1 {
				t.Fatal("it was over before a worker was killed")
			}
		}
	}
	if err := workers[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	check(cmd, said)
}
