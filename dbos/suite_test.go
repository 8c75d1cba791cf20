package dbos

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/internal/servers"
)

var database string // of the tests

func TestMain(m *testing.M) {
	if url, queue, is := strings.Cut(os.Getenv(workerEnv), " "); is {
		log.Fatal(work(url, queue))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "dbos")
		if err != nil {
			log.Print(err)
			return 1
		}
		defer os.RemoveAll(dir)
		server, err := servers.StartPostgres(dir)
		if errors.Is(err, servers.ErrUnavailable) && os.Getenv("CI") != "true" {
			log.Print("not tested: ", err)
			return 0
		}
		if err != nil {
			log.Print(err)
			return 1
		}
		defer server.Stop()
		database = server.URL()
		return m.Run()
	}())
}

var queues atomic.Int64

// started returns a dispatcher with two workers.
func started(t *testing.T, fw *fleet.Worker) *Dispatcher {
	t.Helper()
	queue := fmt.Sprint(strings.ToLower(t.Name()), queues.Add(1))
	for range 2 {
		w, err := Start(t.Context(), database, fw, WorkerOptions{Queue: queue, Poll: 10 * time.Millisecond, Look: 100 * time.Millisecond, Heartbeat: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	d, err := New(t.Context(), database, Options{Queue: queue, Batch: 7, Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestTheWorkflowsPassTheSuite(t *testing.T) {
	fleettest.Run(t, fleettest.Suite{New: func(t *testing.T, w *fleet.Worker) fleet.Dispatcher { return started(t, w) }})
}
