package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
)

// stuck is a trace that blocks whoever writes to it until it is released.
type stuck struct {
	begun, release chan struct{}
	once           sync.Once
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.release
	return len(p), nil
}

// --fresh does not take away what a run works on.
func TestAFreshDigestLeavesARunAlone(t *testing.T) {
	root, dir := generate(t, 3), t.TempDir()
	store, err := sqlite.Open(filepath.Join(dir, "superstep.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	trace := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
	type end struct {
		snap *graph.Snapshot[digestState]
		err  error
	}
	done := make(chan end)
	go func() {
		thread := digestGraph().Thread("digest:"+root, graph.WithCheckpointer(store))
		snap, err := thread.Invoke(t.Context(), thread.Input(func(s *digestState) error {
			s.Folder, s.Out, s.MaxFiles, s.Started = root, filepath.Join(dir, "texts-digest.md"), 100, time.Now().UTC()
			return nil
		}), graph.UseDeps(&tracker{trace: trace}))
		done <- end{snap, err}
	}()
	select {
	case <-trace.begun:
	case e := <-done:
		t.Fatal(e.err)
	}
	out, err := superstep(t, dir, "demo", "digest", root, "--yes", "--fresh").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitBusy || !strings.Contains(string(out), "another run") {
		t.Errorf("%v\n%s", err, out)
	}
	close(trace.release)
	if e := <-done; e.err != nil || len(e.snap.Interrupts) == 0 {
		t.Errorf("the run that was there ended with %v", e.err)
	}
}
