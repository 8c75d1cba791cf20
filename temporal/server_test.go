package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
)

// testServer is a server of Temporal.
type testServer struct {
	c                  client.Client
	address, namespace string
	life               io.Closer // it ends when this is closed, with this process at the latest
}

// theServer is that of TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, or one that is built and
// started for the tests of this process.
var theServer = sync.OnceValues(func() (*testServer, error) {
	s := &testServer{address: os.Getenv("TEMPORAL_ADDRESS"), namespace: cmp.Or(os.Getenv("TEMPORAL_NAMESPACE"), client.DefaultNamespace)}
	if s.address == "" {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var err error
	s.c, err = client.DialContext(ctx, client.Options{
		HostPort: s.address, Namespace: s.namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	return s, err
})

// start builds the server, which Go's build cache keeps, and starts it.
func (s *testServer) start() error {
	log.Print("Temporal's server is built, which takes minutes the first time")
	build := exec.Command("go", "tool", "-n", "devserver")
	build.Dir = filepath.Join("internal", "devserver")
	build.Env = append(os.Environ(), "GOWORK=off")
	path, err := build.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		return fmt.Errorf("building Temporal's server: %w", err)
	}
	cmd := exec.Command(strings.TrimSpace(string(path)))
	cmd.Stderr = os.Stderr
	if s.life, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := fmt.Fscan(out, &s.address, &s.namespace); err != nil {
		return fmt.Errorf("Temporal's server did not say where it is: %w", err)
	}
	return nil
}

// onServer returns the server, without which a test is skipped, unless CI runs it.
func onServer(t testing.TB) *testServer {
	t.Helper()
	s, err := theServer()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		log.Print("NOT TESTED: ", err)
		t.Skip(err)
	}
	return s
}

var queues atomic.Int64

// dispatcher returns one with a queue and workflows of its own.
func (s *testServer) dispatcher(t testing.TB, o Options) *Dispatcher {
	t.Helper()
	o.TaskQueue = fmt.Sprintf("%s %d %d", t.Name(), os.Getpid(), queues.Add(1))
	o.Prefix = o.TaskQueue + "/"
	d, err := New(s.c, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// work starts a worker of Temporal for a dispatcher's queue, which works until it is
// stopped or the test is over.
func (s *testServer) work(t testing.TB, d *Dispatcher, fw *fleet.Worker) (stop func()) {
	t.Helper()
	w := worker.New(s.c, d.o.TaskQueue, worker.Options{MaxHeartbeatThrottleInterval: 500 * time.Millisecond})
	Register(w, fw)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	return stop
}

func TestTheWorkflowPassesTheSuiteOnAServer(t *testing.T) {
	s := onServer(t)
	fleettest.Run(t, fleettest.Suite{New: func(t *testing.T, fw *fleet.Worker) fleet.Dispatcher {
		d := s.dispatcher(t, Options{Batch: 7, Heartbeat: 3 * time.Second})
		s.work(t, d, fw)
		return d
	}})
}
