package dbos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

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

// What a process that was killed was at is done by others, and nothing twice, while a watch
// finds threads whose run died.
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
	c := &fleet.Client{Dispatcher: d, Store: store}
	go func() {
		_ = c.Watch(t.Context(), graph.RunnerOptions{Poll: 20 * time.Millisecond, Report: func(graph.RunnerReport) {}})
	}()
	fleettest.Crash(t, c, workers...)
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

// counting counts what a dispatcher is given of each thread.
type counting struct {
	fleet.Dispatcher
	mu    sync.Mutex
	given map[string]int
}

func (c *counting) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	run, err := c.Dispatcher.Dispatch(ctx, ref)
	if err == nil {
		c.mu.Lock()
		c.given[ref.Thread]++
		c.mu.Unlock()
	}
	return run, err
}

// least says how often each of n threads was given, at least.
func (c *counting) least(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.given) < n {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(c.given)))
}

// While no worker has time, what a thread is due for waits in the queue once.
func TestWhatIsDueIsInTheQueueOnceByHoweverManyItIsWatched(t *testing.T) {
	ctx, store := t.Context(), checkpoint.NewMemory()
	fw := noProgram(t, store)
	first, err := Start(ctx, database, fw, WorkerOptions{Queue: "once.none"}) // which makes the tables
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := New(ctx, database, Options{Queue: "once", Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	g, err := fleettest.Wide(store, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5
	thread := func(i int) *graph.Thread[fleettest.State] { return g.Thread(fmt.Sprint("once-", i)) }
	for i := range n {
		if err := fleet.Submit(ctx, thread(i), g.Input(func(*fleettest.State) error { return nil })); err != nil {
			t.Fatal(err)
		}
	}
	queued := func() (ids []string) {
		t.Helper()
		found, err := sdk.ListWorkflows(d.c, sdk.WithFilterQueueName("once"), sdk.WithFilterName(runName))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			ids = append(ids, s.ID)
		}
		return ids
	}
	given := &counting{Dispatcher: d, given: map[string]int{}}
	watching, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	for range 3 {
		watches.Go(func() {
			for watching.Err() == nil { // each as one that has just begun
				short, cancel := context.WithTimeout(watching, 50*time.Millisecond)
				_ = (&fleet.Client{Dispatcher: given, Store: store}).Watch(short, graph.RunnerOptions{Poll: time.Millisecond, Report: func(graph.RunnerReport) {}})
				cancel()
			}
		})
	}
	for range 3000 {
		if given.least(n) >= 10 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	watches.Wait()
	if least, ids := given.least(n), queued(); least < 10 || len(ids) != n {
		t.Errorf("each thread was given %d times at least; in the queue are %q", least, ids)
	}
	w, err := Start(ctx, database, fw, WorkerOptions{Queue: "once", Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for i := range n {
		run, err := (&fleet.Client{Dispatcher: d, Store: store}).Wake(ctx, thread(i).ID())
		if err != nil {
			t.Fatal(err)
		}
		if p, err := run.Wait(ctx); err != nil || p.Status != fleet.RunEnded {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// Workers begin at once on a database that has nothing yet.
func TestWorkersBeginAtOnceOnAFreshDatabase(t *testing.T) {
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE DATABASE fresh`); err != nil {
		t.Fatal(err)
	}
	fresh, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	fresh.Path = "/fresh"
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			w, err := Start(ctx, fresh.String(), noProgram(t, checkpoint.NewMemory()), WorkerOptions{Queue: "q"})
			if err != nil {
				t.Error(err)
				return
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
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
