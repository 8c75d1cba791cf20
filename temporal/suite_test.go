package temporal

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
)

// inTest is the dispatcher with the SDK's test environment in the place of a server, in
// which timers are over at once.
type inTest struct {
	w *fleet.Worker
	o Options

	mu   sync.Mutex
	runs map[string]*testRun
}

type testRun struct {
	env    *testsuite.TestWorkflowEnvironment
	thread string
	done   chan struct{}
	p      fleet.Progress
	err    error
}

func newInTest(_ *testing.T, w *fleet.Worker) fleet.Dispatcher {
	return &inTest{w: w, o: Options{Batch: 7, Heartbeat: 2 * time.Second}, runs: map[string]*testRun{}}
}

func (d *inTest) Dispatch(_ context.Context, ref fleet.Ref) (fleet.Run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.runs[ref.Thread]; r != nil {
		r.env.SignalWorkflow(dispatched, ref)
		return r, nil
	}
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	r := &testRun{env: s.NewTestWorkflowEnvironment(), thread: ref.Thread, done: make(chan struct{})}
	r.env.SetTestTimeout(time.Minute)
	Register(r.env, d.w)
	r.env.RegisterDelayedCallback(func() { r.env.SignalWorkflow(dispatched, ref) }, 0)
	d.runs[ref.Thread] = r
	go func() {
		defer close(r.done)
		r.env.ExecuteWorkflow(workflowName, d.o.plan())
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.runs, ref.Thread)
		if r.err = r.env.GetWorkflowError(); r.err == nil {
			r.err = r.env.GetWorkflowResult(&r.p)
		}
	}()
	return r, nil
}

func (d *inTest) Cancel(_ context.Context, thread string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.runs[thread]; r != nil {
		r.env.CancelWorkflow()
	}
	return nil
}

func (r *testRun) Wait(ctx context.Context) (fleet.Progress, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return fleet.Progress{}, ctx.Err()
	}
	if r.err != nil {
		return fleet.Progress{}, outcome(r.thread, r.err)
	}
	return r.p, nil
}

func TestTheWorkflowPassesTheSuite(t *testing.T) {
	fleettest.Run(t, fleettest.Suite{New: newInTest})
}
