package dbos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/graph"
)

// The environment of a process that is a worker of the tests: a database and a queue.
const workerEnv = "SUPERSTEP_DBOS_WORKER"

// work is such a process, until it is killed.
func work(database, queue string) error {
	ctx := context.Background()
	store, err := postgres.Open(ctx, database)
	if err != nil {
		return err
	}
	g, err := fleettest.CrashGraph(store)
	if err != nil {
		return err
	}
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		return err
	}
	if _, err := Start(ctx, database, fw, WorkerOptions{Queue: queue, Poll: 20 * time.Millisecond, Heartbeat: 3 * time.Second, Concurrency: 3}); err != nil {
		return err
	}
	fmt.Println("started")
	select {}
}

// What a process that was killed was at is done by others, and nothing twice.
func TestAWorkerIsKilledInTheMiddle(t *testing.T) {
	store, err := postgres.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	first, err := Start(t.Context(), database, noProgram(t, store), WorkerOptions{Queue: "kills.none"}) // which makes the tables
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := New(t.Context(), database, Options{Queue: "kills", Batch: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var workers []*exec.Cmd
	for range 3 {
		w := exec.Command(os.Args[0])
		w.Env, w.Stderr = append(os.Environ(), workerEnv+"="+database+" kills"), os.Stderr
		workers = append(workers, w)
	}
	fleettest.Crash(t, &fleet.Client{Dispatcher: d, Store: store}, workers...)
}

func noProgram(t *testing.T, store checkpoint.Store) *fleet.Worker {
	t.Helper()
	g, err := fleettest.Wide(store, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type nap struct{ Done graph.Set[string] }

// A thread that sleeps costs a row; it gives way to a run that begins, and can be cancelled.
func TestARunThatSleepsGivesWay(t *testing.T) {
	ctx, store := t.Context(), checkpoint.NewMemory()
	b := graph.New[nap]("nap")
	b.AddNode("nap", func(ctx context.Context, s *nap) error { return graph.Sleep(ctx, "nap", 72*time.Hour) })
	b.AddEdge(graph.Start, "nap")
	g := b.MustCompile(graph.WithCheckpointer(store))
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	d := started(t, fw)
	c := &fleet.Client{Dispatcher: d, Store: store}
	asleep := func(n int) {
		t.Helper()
		for range 3000 {
			found, err := sdk.ListWorkflows(d.c, sdk.WithFilterWorkflowIDPrefix(prefix("a/b")), sdk.WithFilterStatus(sdk.WorkflowStatusDelayed))
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == n {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("there are not %d runs asleep", n)
	}
	first, err := fleet.Start(ctx, c, g.Thread("a/b"), g.Input(func(*nap) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	asleep(1)
	second, err := c.Wake(ctx, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := first.Wait(ctx); err != nil || p.Status != fleet.RunSleeps {
		t.Errorf("the run that gave way: %+v, %v", p, err)
	}
	asleep(1)
	if err := d.Cancel(ctx, "a"); err != nil {
		t.Errorf("a thread that is not there: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := second.Wait(short); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a context that has ended: %v", err)
	}
	if err := d.Cancel(ctx, "a/b"); err != nil {
		t.Fatal(err)
	}
	if p, err := second.Wait(ctx); !errors.Is(err, fleet.ErrCancelled) {
		t.Errorf("the run that was cancelled asleep: %+v, %v", p, err)
	}
	asleep(0)
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	ctx := t.Context()
	w := noProgram(t, checkpoint.NewMemory())
	for want, make := range map[string]func() error{
		"URL of a database":  func() error { _, err := New(ctx, "", Options{Queue: "q"}); return err },
		"Options.Queue":      func() error { _, err := New(ctx, database, Options{}); return err },
		"Batch, Fuse":        func() error { _, err := New(ctx, database, Options{Queue: "q", Batch: -1}); return err },
		"worker of package":  func() error { _, err := Start(ctx, database, nil, WorkerOptions{Queue: "q"}); return err },
		"the URL":            func() error { _, err := Start(ctx, "", w, WorkerOptions{Queue: "q"}); return err },
		"WorkerOptions.Queu": func() error { _, err := Start(ctx, database, w, WorkerOptions{}); return err },
		"Heartbeat must not": func() error { _, err := Start(ctx, database, w, WorkerOptions{Queue: "q", Heartbeat: -1}); return err },
		"dbos:": func() error {
			_, err := Start(ctx, "postgres://127.0.0.1:1/none?connect_timeout=1&%", w, WorkerOptions{Queue: "q"})
			return err
		},
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// What a worker was at that is closed is done by the others: it is not cancelled.
func TestARunGoesOnWhenItsWorkerIsClosed(t *testing.T) {
	ctx, store := t.Context(), checkpoint.NewMemory()
	begun := make(chan bool, 2) // whether it is the first attempt
	var attempts atomic.Int64
	b := graph.New[nap]("closed")
	b.AddNode("work", func(ctx context.Context, s *nap) error {
		first := attempts.Add(1) == 1
		begun <- first
		if first {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		s.Done.Add("work")
		return nil
	})
	b.AddEdge(graph.Start, "work")
	g := b.MustCompile(graph.WithCheckpointer(store))
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	start := func() *Worker {
		w, err := Start(ctx, database, fw, WorkerOptions{Queue: "closed", Poll: 10 * time.Millisecond, Look: 100 * time.Millisecond, Heartbeat: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := start()
	d, err := New(ctx, database, Options{Queue: "closed", Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	run, err := fleet.Start(ctx, &fleet.Client{Dispatcher: d, Store: store}, g.Thread("t"), g.Input(func(*nap) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	defer start().Close()
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if p, err := run.Wait(wait); err != nil || p.Status != fleet.RunEnded {
		t.Errorf("%+v, %v", p, err)
	}
}
