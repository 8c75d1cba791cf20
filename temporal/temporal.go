// Package temporal runs the threads of graphs on Temporal: it is a dispatcher of package
// fleet for which Temporal remembers what is to be done, and workers in any number of
// processes do it.
//
// There is one workflow, and it does not depend on a graph: it calls activities with
// references to a thread, which is in the store that the workers share. What the nodes
// read and write, their changes, never goes through Temporal. A thread has at most one
// workflow at a time, whose ID is the thread's.
//
// A server with the commands of package cli has its runs done so with what package serve
// gives it: serve --temporal HOST:PORT.
package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// Options are the settings of a [Dispatcher]. TaskQueue is needed.
type Options struct {
	// TaskQueue is where workers take their work from. Versions of a graph that are at
	// work side by side, on different workers, have a queue and a dispatcher each.
	TaskQueue string

	// Prefix stands before a thread's ID in its workflow's; empty means "superstep/".
	Prefix string

	Batch int // how many tasks of a superstep an activity runs; 0 means 100

	// Fuse is how long an activity may go on, superstep after superstep, while each is a
	// lone task; 0 means 5 seconds. It runs at least one.
	Fuse time.Duration

	// Heartbeat is after which time without a sign of life a worker counts as dead, and how
	// long it takes at most until the nodes of a run that is cancelled know it; 0 means 10
	// seconds.
	Heartbeat time.Duration

	// Limit bounds an activity; 0 means a day. Nodes that take longer are run again.
	Limit time.Duration
}

// Dispatcher is a [fleet.Dispatcher]. It is safe for concurrent use.
type Dispatcher struct {
	c client.Client
	o Options
}

// New returns a dispatcher by a client of Temporal, which stays the caller's.
func New(c client.Client, o Options) (*Dispatcher, error) {
	switch {
	case c == nil:
		return nil, errors.New("temporal: New needs a client")
	case o.TaskQueue == "":
		return nil, errors.New("temporal: Options.TaskQueue is empty")
	case o.Batch < 0 || o.Fuse < 0 || o.Heartbeat < 0 || o.Limit < 0:
		return nil, errors.New("temporal: Options.Batch, Fuse, Heartbeat and Limit must not be negative")
	}
	o.Prefix = cmp.Or(o.Prefix, "superstep/")
	return &Dispatcher{c, o}, nil
}

// maxID is how long an ID of a workflow may be.
const maxID = 1000

func (d *Dispatcher) id(thread string) (string, error) {
	id := d.o.Prefix + thread
	if len(id) > maxID {
		return "", fmt.Errorf("temporal: the thread's ID has %d bytes and Temporal takes %d", len(thread), maxID-len(d.o.Prefix))
	}
	return id, nil
}

// Dispatch begins a run: see [fleet.Dispatcher]. It returns when Temporal knows of it.
func (d *Dispatcher) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	id, err := d.id(ref.Thread)
	if err != nil {
		return nil, err
	}
	run, err := d.c.SignalWithStartWorkflow(ctx, id, dispatched, ref, client.StartWorkflowOptions{TaskQueue: d.o.TaskQueue}, workflowName, d.o.plan())
	if err != nil {
		return nil, fmt.Errorf("temporal: dispatching thread %q: %w", ref.Thread, err)
	}
	return &handle{run, ref.Thread}, nil
}

// Cancel ends the run of a thread.
func (d *Dispatcher) Cancel(ctx context.Context, thread string) error {
	id, err := d.id(thread)
	if err != nil {
		return err
	}
	err = d.c.CancelWorkflow(ctx, id, "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); err != nil && !none {
		return fmt.Errorf("temporal: cancelling the run of thread %q: %w", thread, err)
	}
	return nil
}

type handle struct {
	run    client.WorkflowRun
	thread string
}

// Wait returns how the run came to its end.
func (h *handle) Wait(ctx context.Context) (p fleet.Progress, err error) {
	if err := h.run.Get(ctx, &p); err != nil {
		return fleet.Progress{}, outcome(h.thread, err)
	}
	return p, nil
}

// The kinds of errors by which a run ends, in Temporal's terms.
const (
	kindBusy    = "superstep.busy"
	kindProgram = "superstep.program"
	kindFinal   = "superstep.final"
)

// outcome returns the error of a workflow as one of package fleet.
func outcome(thread string, err error) error {
	if cancelled := new(sdk.CanceledError); errors.As(err, &cancelled) {
		return fleet.ErrCancelled
	}
	failed := new(sdk.ApplicationError)
	if !errors.As(err, &failed) {
		return fmt.Errorf("temporal: the run of thread %q: %w", thread, err)
	}
	switch failed.Type() {
	case kindBusy:
		return fmt.Errorf("%w (%s)", graph.ErrThreadBusy, failed.Message())
	case kindProgram:
		unknown := new(fleet.ProgramError)
		if failed.Details(unknown) == nil {
			return unknown
		}
	}
	return fmt.Errorf("temporal: the run of thread %q: %w", thread, err)
}

// final makes an error that a retry can't mend one that Temporal does not retry.
func final(err error) error {
	if err == nil || fleet.Retryable(err) {
		return err
	}
	if unknown, ok := errors.AsType[*fleet.ProgramError](err); ok {
		return sdk.NewNonRetryableApplicationError(short(err.Error()), kindProgram, nil, unknown)
	}
	if errors.Is(err, graph.ErrThreadBusy) {
		return sdk.NewNonRetryableApplicationError(short(err.Error()), kindBusy, nil)
	}
	return sdk.NewNonRetryableApplicationError(short(err.Error()), kindFinal, nil)
}

const maxText = 2000

// short bounds what is said of an error: the store has the whole of it.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// Register gives what a worker of Temporal has to do to a worker of package fleet: the
// workflow, and the activities for its programs. The worker of Temporal takes its work from
// the queue of the dispatcher.
func Register(r worker.Registry, w *fleet.Worker) {
	r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowName})
	a := activities{w}
	r.RegisterActivityWithOptions(a.advance, activity.RegisterOptions{Name: advanceName})
	r.RegisterActivityWithOptions(a.runTasks, activity.RegisterOptions{Name: runTasksName})
	r.RegisterActivityWithOptions(a.fused, activity.RegisterOptions{Name: fusedName})
	r.RegisterActivityWithOptions(a.giveUp, activity.RegisterOptions{Name: giveUpName})
}

// Begin returns what server.Dispatch takes: a function that has this process do work of the
// queue, for the graphs and the store of a worker, and returns the dispatcher. When that is
// closed the process takes no more work, and has worker.Options.WorkerStopTimeout, or 10
// seconds, for what it is at; the rest is done by another.
func Begin(c client.Client, o Options, wo worker.Options) func(*fleet.Worker) (fleet.Dispatcher, error) {
	return func(fw *fleet.Worker) (fleet.Dispatcher, error) {
		d, err := New(c, o)
		if err != nil {
			return nil, err
		}
		wo.WorkerStopTimeout = cmp.Or(wo.WorkerStopTimeout, 10*time.Second)
		w := worker.New(c, o.TaskQueue, wo)
		Register(w, fw)
		if err := w.Start(); err != nil {
			return nil, fmt.Errorf("temporal: starting the worker: %w", err)
		}
		return &working{d, w}, nil
	}
}

// working is a dispatcher in a process that is a worker, too.
type working struct {
	*Dispatcher
	w worker.Worker
}

func (w *working) Close() error {
	w.w.Stop()
	return nil
}

// The names by which Temporal knows what it has begun: they stay.
const (
	workflowName = "superstep.run"
	dispatched   = "superstep.dispatch"
	advanceName  = "superstep.advance"
	runTasksName = "superstep.tasks"
	fusedName    = "superstep.fused"
	giveUpName   = "superstep.giveup"
)

type activities struct{ w *fleet.Worker }

// tasksDone is what tasks came to.
type tasksDone struct {
	Failed bool `json:"failed,omitempty"`
}

func (a activities) advance(ctx context.Context, ref fleet.Ref) (fleet.Progress, error) {
	ctx, stop := beat(ctx)
	defer stop()
	p, err := a.w.Advance(ctx, ref)
	p.Error = short(p.Error)
	return p, ended(ctx, err)
}

func (a activities) runTasks(ctx context.Context, ref fleet.Ref, from, to int) (tasksDone, error) {
	ctx, stop := beat(ctx)
	defer stop()
	err := a.w.RunTasks(ctx, ref, from, to)
	if _, failed := errors.AsType[*fleet.TaskError](err); failed {
		return tasksDone{Failed: true}, nil
	}
	return tasksDone{}, ended(ctx, err)
}

// fused runs a lone task and advances, and again while there is time.
func (a activities) fused(ctx context.Context, p fleet.Progress, fuse time.Duration) (fleet.Progress, error) {
	ctx, stop := beat(ctx)
	defer stop()
	p, err := a.w.Fuse(ctx, p, fuse)
	p.Error = short(p.Error)
	return p, ended(ctx, err)
}

func (a activities) giveUp(ctx context.Context, ref fleet.Ref) error {
	return final(a.w.GiveUp(ctx, ref))
}

// ended returns the error of an activity: that of its context, if that has ended.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return final(err)
}

// beat gives signs of life for an activity until it is stopped, by which it learns that it
// is cancelled.
func beat(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	every := activity.GetInfo(ctx).HeartbeatTimeout / 3
	if every <= 0 {
		return ctx, stop
	}
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, stop
}
