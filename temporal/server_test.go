package temporal

import (
	"bytes"
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

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// testServer is a server of Temporal.
type testServer struct {
	c                  client.Client
	address, namespace string
	life               io.Closer // it ends when this is closed, with this process at the latest
	cmd                *exec.Cmd // nil: it isn't this process's
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
	if s.c == nil {
		return s, s.dial()
	}
	return s, nil
})

// start builds the server, which Go's build cache keeps, and starts it: in memory, or on a file
// of SQLite and a port.
func (s *testServer) start(where ...string) error {
	log.Print("Temporal's server is built, which takes minutes the first time")
	build := exec.Command("go", "tool", "-n", "devserver")
	build.Dir = filepath.Join("internal", "devserver")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false -ldflags=-w") // no race detector, whatever is set for tests; as .ci/run builds it
	path, err := build.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		return fmt.Errorf("building Temporal's server: %w", err)
	}
	s.cmd = exec.Command(strings.TrimSpace(string(path)), where...)
	return s.run()
}

// run runs the server, again if it was killed, until it answers: while it begins, it may
// panic (https://github.com/temporalio/ringpop-go, swim/labels.go).
func (s *testServer) run() error {
	for {
		s.cmd = exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
		said := new(bytes.Buffer)
		s.cmd.Stderr = said
		var err error
		if s.life, err = s.cmd.StdinPipe(); err != nil {
			return err
		}
		out, err := s.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := s.cmd.Start(); err != nil {
			return err
		}
		if _, err = fmt.Fscan(out, &s.address, &s.namespace); err == nil {
			if err = s.dial(); err == nil {
				return nil
			}
		}
		s.kill()
		if !bytes.Contains(said.Bytes(), []byte("ringpop-go/swim.(*NodeLabels)")) {
			return fmt.Errorf("Temporal's server did not begin: %w\n%s", err, said)
		}
	}
}

func (s *testServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// dial connects to the server. A connection that there is already comes back by itself.
func (s *testServer) dial() error {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: s.address, Namespace: s.namespace, Identity: "a test", Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err == nil && s.c != nil {
		c.Close()
	} else if err == nil {
		s.c = c
	}
	return err
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
	o.TaskQueue = fmt.Sprintf("%s %d %d", t.Name(), time.Now().UnixNano(), queues.Add(1))
	o.Prefix = o.TaskQueue + "/"
	d, err := New(s.c, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// work starts a worker for a dispatcher's queue, which works until it is stopped or the
// test is over.
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

// fleet returns a dispatcher with a worker that has a graph, and a client of it.
func (s *testServer) fleet(t testing.TB, o Options, store checkpoint.Store, g graph.Runnable) (*Dispatcher, *fleet.Client) {
	t.Helper()
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	d := s.dispatcher(t, o)
	s.work(t, d, fw)
	return d, &fleet.Client{Dispatcher: d, Store: store}
}

// history returns that of a workflow: of its newest run, if none is said.
func (s *testServer) history(t testing.TB, id, run string) *historypb.History {
	t.Helper()
	h := new(historypb.History)
	it := s.c.GetWorkflowHistory(context.WithoutCancel(t.Context()), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	return h
}

// sees waits for the n-th event of a kind in the history of a thread's workflow.
func (s *testServer) sees(t testing.TB, d *Dispatcher, thread string, kind enumspb.EventType, n int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	it := s.c.GetWorkflowHistory(ctx, d.o.Prefix+thread, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.EventType == kind {
			if n--; n == 0 {
				return
			}
		}
	}
	t.Fatalf("the workflow is over without as many events %v", kind)
}

// replayed is a dispatcher whose workflows do again what they did when they are replayed.
type replayed struct {
	*Dispatcher
	mu   sync.Mutex
	runs []client.WorkflowRun
}

func (d *replayed) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	run, err := d.Dispatcher.Dispatch(ctx, ref)
	if h, ok := run.(*handle); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.runs = append(d.runs, h.run)
	}
	return run, err
}

func (s *testServer) replay(t *testing.T, d *replayed) {
	for _, r := range d.runs {
		if err := replay(s.history(t, r.GetID(), r.GetRunID())); err != nil {
			t.Errorf("the workflow is not replayed: %v", err)
		}
	}
}

func TestTheWorkflowPassesTheSuiteOnAServer(t *testing.T) {
	t.Parallel()
	s := onServer(t)
	fleettest.Run(t, fleettest.Suite{New: func(t *testing.T, fw *fleet.Worker) fleet.Dispatcher {
		d := &replayed{Dispatcher: s.dispatcher(t, Options{Batch: 7, Heartbeat: 3 * time.Second})}
		t.Cleanup(func() { s.replay(t, d) })
		s.work(t, d.Dispatcher, fw)
		return d
	}})
}

// The environment of a process that is a worker of the tests: a queue, a store, and which
// of the graphs it has.
const workerEnv = "SUPERSTEP_TEMPORAL_WORKER"

var graphs = map[string]func(checkpoint.Store) (*graph.Graph[fleettest.State], error){
	"crash":    fleettest.CrashGraph,
	"thousand": thousand,
	"journey":  journey,
}

// thousand is a thousand sends and a join.
func thousand(store checkpoint.Store) (*graph.Graph[fleettest.State], error) {
	return fleettest.Wide(store, 1000, 0)
}

func TestMain(m *testing.M) {
	if what := strings.Split(os.Getenv(workerEnv), "\n"); len(what) == 3 {
		log.Fatal(work(what[0], what[1], what[2]))
	}
	code := m.Run()
	servertest.Stop()
	os.Exit(code)
}

// work is such a process, until it is killed. It waits for what isn't there yet.
func work(queue, url, name string) error {
	var s *testServer
	var store checkpoint.Store
	for {
		var err error
		s = &testServer{address: os.Getenv("TEMPORAL_ADDRESS"), namespace: os.Getenv("TEMPORAL_NAMESPACE")}
		if err = s.dial(); err == nil {
			if store, err = stores.Open(context.Background(), url); err == nil {
				break
			}
			s.c.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	if name == "talks" {
		return serveTalks(s.c, queue, url)
	}
	g, err := graphs[name](store)
	if err != nil {
		return err
	}
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		return err
	}
	w := worker.New(s.c, queue, worker.Options{MaxConcurrentActivityExecutionSize: 4})
	Register(w, fw)
	return w.Run(nil)
}

// worker returns such a process.
func (s *testServer) worker(d *Dispatcher, url, name string) *exec.Cmd {
	w := exec.Command(os.Args[0])
	w.Env = append(os.Environ(), workerEnv+"="+strings.Join([]string{d.o.TaskQueue, url, name}, "\n"), "TEMPORAL_ADDRESS="+s.address, "TEMPORAL_NAMESPACE="+s.namespace)
	w.Stderr = os.Stderr
	return w
}

// What a process that was killed was at is done by others, and nothing twice.
func TestAWorkerIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	s, path := onServer(t), filepath.Join(t.TempDir(), "threads.db")
	store, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	d := &replayed{Dispatcher: s.dispatcher(t, Options{Heartbeat: 3 * time.Second})}
	var workers []*exec.Cmd
	for range 3 {
		workers = append(workers, s.worker(d.Dispatcher, "sqlite:"+path, "crash"))
	}
	fleettest.Crash(t, &fleet.Client{Dispatcher: d, Store: store}, workers...)
	s.replay(t, d)
}

type napState struct{ Done graph.List[string] }

func napping(t *testing.T, store checkpoint.Store, d time.Duration) *graph.Graph[napState] {
	t.Helper()
	b := graph.New[napState]("g")
	b.AddNode("nap", func(ctx context.Context, s *napState) error {
		if err := graph.Sleep(ctx, "nap", d); err != nil {
			return err
		}
		s.Done.Add("slept")
		return nil
	})
	b.AddEdge(graph.Start, "nap")
	g, err := b.Compile(graph.WithCheckpointer(store))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What a worker was at that is stopped is done by another: it is not cancelled.
func TestARunGoesOnWhenItsWorkerIsStopped(t *testing.T) {
	t.Parallel()
	s, store := onServer(t), checkpoint.NewMemory()
	begun := make(chan struct{}, 8)
	var attempts atomic.Int64
	b := graph.New[fleettest.State]("g")
	b.AddNode("work", func(ctx context.Context, st *fleettest.State) error {
		first := attempts.Add(1) == 1
		begun <- struct{}{}
		if first {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		st.Last = "done"
		return nil
	})
	b.AddEdge(graph.Start, "work")
	g := b.MustCompile(graph.WithCheckpointer(store))
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	d := s.dispatcher(t, Options{Heartbeat: 3 * time.Second})
	stop := s.work(t, d, fw)
	run, err := fleet.Start(t.Context(), &fleet.Client{Dispatcher: d, Store: store}, g.Thread("t"), g.Input(func(*fleettest.State) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	stop()
	s.work(t, d, fw)
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if p, err := run.Wait(wait); err != nil || p.Status != fleet.RunEnded {
		t.Errorf("%+v, %v", p, err)
	}
}

// A thread that sleeps needs no worker: Temporal has a timer for it, and whatever worker
// there is then goes on.
func TestASleepIsATimerOfTheServer(t *testing.T) {
	t.Parallel()
	s, ctx, store := onServer(t), t.Context(), checkpoint.NewMemory()
	g := napping(t, store, 2*time.Second)
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	d := s.dispatcher(t, Options{})
	stop := s.work(t, d, fw)
	run, err := fleet.Start(ctx, &fleet.Client{Dispatcher: d, Store: store}, g.Thread("t"), g.Input(func(*napState) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	s.sees(t, d, "t", enumspb.EVENT_TYPE_TIMER_STARTED, 1)
	stop()
	s.sees(t, d, "t", enumspb.EVENT_TYPE_TIMER_FIRED, 1)
	if snap, err := g.Thread("t").State(ctx); err != nil || snap.State.Done.Len() > 0 {
		t.Fatalf("without a worker: %+v, %v", snap, err)
	}
	s.work(t, d, fw)
	if p, err := run.Wait(ctx); err != nil || p.Status != fleet.RunEnded {
		t.Fatalf("%+v, %v", p, err)
	}
	if snap, err := g.Thread("t").State(ctx); err != nil || snap.State.Done.Len() != 1 {
		t.Errorf("%+v, %v", snap, err)
	}
}

// A thread that sleeps is looked at when it is called, and sleeps on; cancelled, it is as it
// was.
func TestARunThatSleepsIsCalledAndCancelled(t *testing.T) {
	t.Parallel()
	s, ctx, store := onServer(t), t.Context(), checkpoint.NewMemory()
	g := napping(t, store, 72*time.Hour)
	d, c := s.fleet(t, Options{}, store, g)
	run, err := fleet.Start(ctx, c, g.Thread("t"), g.Input(func(*napState) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	s.sees(t, d, "t", enumspb.EVENT_TYPE_TIMER_STARTED, 1)
	if _, err := c.Wake(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	s.sees(t, d, "t", enumspb.EVENT_TYPE_TIMER_STARTED, 2)
	if err := d.Cancel(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if p, err := run.Wait(ctx); !errors.Is(err, fleet.ErrCancelled) {
		t.Errorf("%+v, %v; want ErrCancelled", p, err)
	}
	s.sees(t, d, "t", enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, 1)
	if snap, err := g.Thread("t").State(ctx); err != nil || len(snap.Waits) != 1 {
		t.Errorf("%+v, %v; want it to sleep", snap, err)
	}
}

// A thousand sends and a join are some activities to Temporal, whatever is sent.
func TestTheHistoryOfAThousandSendsIsShort(t *testing.T) {
	s, store := onServer(t), checkpoint.NewMemory()
	g, err := fleettest.Wide(store, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	d, c := s.fleet(t, Options{}, store, g)
	snap, err := fleet.Invoke(t.Context(), c, g.Thread("t"), g.Input(func(*fleettest.State) error { return nil }))
	if err != nil || snap.State.Log.Len() != 1000 || snap.State.Last != "joined" {
		t.Fatalf("%+v, %v", snap, err)
	}
	events, bytes := s.size(t, d, "t")
	t.Logf("%d events, %d bytes", events, bytes)
	if bytes > 20_000 {
		t.Errorf("the history has %d bytes in %d events, want at most 20,000", bytes, events)
	}
}

// size is that of the history of a thread's workflow, as the server counts it.
func (s *testServer) size(t testing.TB, d *Dispatcher, thread string) (events, bytes int64) {
	t.Helper()
	desc, err := s.c.DescribeWorkflowExecution(t.Context(), d.o.Prefix+thread, "")
	if err != nil {
		t.Fatal(err)
	}
	return desc.WorkflowExecutionInfo.HistoryLength, desc.WorkflowExecutionInfo.HistorySizeBytes
}

// A run that is long is continued as a new workflow, for which whoever waits for it waits,
// too.
func TestALongRunIsContinuedAsNewOnAServer(t *testing.T) {
	t.Parallel()
	s, store := onServer(t), checkpoint.NewMemory()
	if s.life == nil {
		t.Skip("it isn't known after how many events the server wants a new workflow")
	}
	const rounds, wide = 5, 60
	b := graph.New[fleettest.State]("g")
	work := graph.AddTask(b, "work", func(_ context.Context, s *fleettest.State, n int) error { s.N.Add(n); return nil })
	b.AddCommandNode("split", func(_ context.Context, s *fleettest.State) (graph.Command, error) {
		s.Log.Add("split")
		if s.Log.Len() > rounds {
			return graph.Goto(graph.End), nil
		}
		sends := make([]graph.Send, wide)
		for i := range sends {
			sends[i] = work.Send(1)
		}
		return graph.Dispatch(sends...), nil
	}, graph.Destinations("work", graph.End))
	b.AddEdge(graph.Start, "split").AddEdge("work", "split")
	g := b.MustCompile(graph.WithCheckpointer(store), graph.MaxSteps(3*rounds))
	d, c := s.fleet(t, Options{Batch: 1}, store, g)
	snap, err := fleet.Invoke(t.Context(), c, g.Thread("t"), g.Input(func(*fleettest.State) error { return nil }))
	if err != nil || !snap.Done() || snap.State.N.Get() != rounds*wide {
		t.Fatalf("%+v, %v", snap, err)
	}
	first := s.history(t, d.o.Prefix+"t", "").Events[0].GetWorkflowExecutionStartedEventAttributes()
	if first.ContinuedExecutionRunId == "" {
		events, _ := s.size(t, d, "t")
		t.Errorf("the workflow has %d events and was never begun anew", events)
	}
}

// A workflow that is terminated does nothing more, not even for its thread: its node's context
// ends, and a watch has the thread run again when the run's lease is over.
func TestAWorkflowIsTerminated(t *testing.T) {
	t.Parallel()
	s, ctx, store := onServer(t), t.Context(), checkpoint.NewMemory()
	var runs atomic.Int64
	begun, ended, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := graph.New[napState]("g")
	b.AddNode("wait", func(ctx context.Context, s *napState) error {
		if runs.Add(1) > 1 {
			close(again)
			return nil
		}
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	b.AddEdge(graph.Start, "wait")
	g := b.MustCompile(graph.WithCheckpointer(store))
	d, c := s.fleet(t, Options{Heartbeat: 3 * time.Second}, store, g)
	run, err := fleet.Start(ctx, c, g.Thread("t"), g.Input(func(*napState) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	await(t, begun)
	if err := s.c.TerminateWorkflow(ctx, d.o.Prefix+"t", "", "enough"); err != nil {
		t.Fatal(err)
	}
	if p, err := run.Wait(ctx); err == nil || !strings.Contains(err.Error(), `thread "t"`) {
		t.Errorf("%+v, %v; want an error that names the thread", p, err)
	}
	await(t, ended)
	var watch sync.WaitGroup
	wctx, stop := context.WithCancel(ctx)
	watch.Go(func() { _ = c.Watch(wctx, graph.RunnerOptions{}) })
	await(t, again)
	stop()
	watch.Wait()
}

func await(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(time.Minute):
		t.Fatal("waited for a minute")
	}
}

// A worker that gives signs of life may take its time.
func TestANodeTakesLongerThanTheHeartbeat(t *testing.T) {
	t.Parallel()
	s, store := onServer(t), checkpoint.NewMemory()
	o := Options{Heartbeat: 3 * time.Second}
	var runs atomic.Int64
	b := graph.New[napState]("g")
	b.AddNode("slow", func(ctx context.Context, s *napState) error {
		runs.Add(1)
		select {
		case <-time.After(2 * o.Heartbeat):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	b.AddEdge(graph.Start, "slow")
	g := b.MustCompile(graph.WithCheckpointer(store))
	_, c := s.fleet(t, o, store, g)
	snap, err := fleet.Invoke(t.Context(), c, g.Thread("t"), g.Input(func(*napState) error { return nil }))
	if err != nil || !snap.Done() || runs.Load() != 1 {
		t.Errorf("%+v, %v; the node ran %d times", snap, err, runs.Load())
	}
}
