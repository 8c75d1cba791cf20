// Package dbos runs the threads of graphs on DBOS: it is a dispatcher of package fleet for
// which DBOS remembers in PostgreSQL what is to be done, and workers in any number of
// processes do it. There is no other server.
//
// There are two workflows, and neither depends on a graph: one is a run, the other, which
// runs enqueue, a batch of the tasks of a superstep. They are given references to a thread,
// which is in the store that the workers share. What the nodes read and write never goes
// through DBOS.
package dbos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
)

// Options are the settings of a [Dispatcher]. Queue is needed.
type Options struct {
	// Queue is where workers take their work from. Versions of a graph that are at work
	// side by side, on different workers, have a queue and a dispatcher each.
	Queue string

	Batch int // how many tasks of a superstep are given to one worker; 0 means 100

	// Fuse is how long a worker may go on, superstep after superstep, while each is a lone
	// task, before DBOS is told; 0 means 5 seconds. It does at least one.
	Fuse time.Duration

	// Poll is how often [fleet.Run.Wait] looks; 0 means every 100 ms.
	Poll time.Duration

	Schema string       // of DBOS's tables; empty means "dbos"
	Logger *slog.Logger // of DBOS; nil means none
}

// Dispatcher is a [fleet.Dispatcher]. It is safe for concurrent use.
type Dispatcher struct {
	c sdk.Client
	o Options
}

// application and version are what DBOS knows all workers by: the workflows are the same
// whatever the programs are.
const application, version = "superstep", "1"

// New returns a dispatcher for a database of PostgreSQL, given by its URL, in which a worker
// has been started. It is to be closed.
func New(ctx context.Context, database string, o Options) (*Dispatcher, error) {
	switch {
	case database == "":
		return nil, errors.New("dbos: New needs the URL of a database")
	case o.Queue == "":
		return nil, errors.New("dbos: Options.Queue is empty")
	case o.Batch < 0 || o.Fuse < 0 || o.Poll < 0:
		return nil, errors.New("dbos: Options.Batch, Fuse and Poll must not be negative")
	}
	o.Batch, o.Fuse, o.Poll = cmp.Or(o.Batch, 100), cmp.Or(o.Fuse, 5*time.Second), cmp.Or(o.Poll, 100*time.Millisecond)
	c, err := sdk.NewClient(context.WithoutCancel(ctx), sdk.ClientConfig{AppName: application, DatabaseURL: database, DatabaseSchema: o.Schema, Logger: quiet(o.Logger)})
	if err != nil {
		return nil, fmt.Errorf("dbos: %w", err)
	}
	return &Dispatcher{c, o}, nil
}

func quiet(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return l
}

// Close ends the dispatcher, and no run.
func (d *Dispatcher) Close() error { return sdk.Shutdown(d.c, time.Minute) }

// prefix is what the IDs of a thread's workflows begin with, and those of no other thread's.
func prefix(thread string) string { return "superstep/" + url.PathEscape(thread) + "/" }

// What a workflow is asked for by an attribute, since DBOS interrupts no step.
const (
	asked      = "superstep"
	toStop     = "cancel"     // end where it stands
	toGiveWay  = "superseded" // end if it sleeps: another run begins
	failedStep = "superstep.failed"
)

// Dispatch begins a run: see [fleet.Dispatcher]. It returns when the database has it. As long
// as no run has claimed the thread, all that is dispatched of it is one run.
func (d *Dispatcher) Dispatch(ctx context.Context, ref fleet.Ref) (fleet.Run, error) {
	id, begun, err := d.next(ref)
	if err == nil && !begun {
		err = d.ask(ctx, ref.Thread, toGiveWay, sdk.WorkflowStatusDelayed)
	}
	if err == nil && !begun {
		_, err = enqueue(d.c, d.o.Queue, call{Ref: ref, Batch: d.o.Batch, Fuse: d.o.Fuse}, id, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("dbos: dispatching thread %q: %w", ref.Thread, err)
	}
	return &handle{d, id, ref.Thread}, nil
}

// runID returns the ID of the n-th run that is to claim a thread as a reference found it. Of
// all that try one does; another follows one that ended before, since somebody else had the
// thread, say.
func runID(ref fleet.Ref, queue string, n int) string {
	return fmt.Sprintf("%s%s/%d/%d", prefix(ref.Thread), url.PathEscape(queue), ref.Fence, n)
}

// next returns the ID of the run that is to claim a thread, and whether it is in the queue or
// at work already.
func (d *Dispatcher) next(ref fleet.Ref) (id string, begun bool, err error) {
	for n, size := 0, 10; ; size *= 10 {
		ids := make([]string, size)
		for i := range ids {
			ids[i] = runID(ref, d.o.Queue, n+i)
		}
		found, err := sdk.ListWorkflows(d.c, sdk.WithFilterWorkflowIDs(ids...), sdk.WithFilterLoadInput(false), sdk.WithFilterLoadOutput(false))
		if err != nil {
			return "", false, err
		}
		last, begun := -1, false
		for _, r := range found {
			if i := slices.Index(ids, r.ID); i > last {
				last, begun = i, r.Attributes[asked] == nil && (r.Status == sdk.WorkflowStatusEnqueued || r.Status == sdk.WorkflowStatusPending)
			}
		}
		switch n += last + 1; {
		case begun:
			return ids[last], true, nil
		case last < size-1:
			return runID(ref, d.o.Queue, n), false, nil
		}
	}
}

// enqueue has a run begin, which waits for others of its thread.
func enqueue(c sdk.Client, queue string, in call, id string, after time.Duration) (sdk.WorkflowHandle[outcome], error) {
	opts := []sdk.EnqueueOption{sdk.WithEnqueueWorkflowID(id), sdk.WithEnqueueQueuePartitionKey(in.Ref.Thread), sdk.WithEnqueueApplicationVersion(version)}
	if after > 0 {
		opts = append(opts, sdk.WithEnqueueDelay(after))
	}
	return sdk.Enqueue[outcome](c, queue, runName, in, opts...)
}

// Cancel ends the runs of a thread.
func (d *Dispatcher) Cancel(ctx context.Context, thread string) error {
	if err := d.ask(ctx, thread, toStop, sdk.WorkflowStatusPending, sdk.WorkflowStatusEnqueued, sdk.WorkflowStatusDelayed); err != nil {
		return fmt.Errorf("dbos: cancelling the run of thread %q: %w", thread, err)
	}
	return nil
}

// ask tells the workflows of a thread what they are to do, and wakes those that sleep.
func (d *Dispatcher) ask(ctx context.Context, thread, what string, of ...sdk.WorkflowStatusType) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	runs, err := sdk.ListWorkflows(d.c, sdk.WithFilterWorkflowIDPrefix(prefix(thread)), sdk.WithFilterStatus(of...),
		sdk.WithFilterName(runName), sdk.WithFilterLoadInput(false), sdk.WithFilterLoadOutput(false))
	for _, r := range runs {
		if !strings.HasPrefix(r.ID, prefix(thread)) { // DBOS takes a prefix for a pattern of LIKE
			continue
		}
		if err == nil {
			err = sdk.SetWorkflowAttributes(d.c, r.ID, map[string]any{asked: what}, sdk.WithMergeAttributes())
		}
		if err == nil {
			err = sdk.SetWorkflowDelay(d.c, r.ID, sdk.WithDelayUntil(time.Now()))
		}
	}
	return err
}

type handle struct {
	d          *Dispatcher
	id, thread string
}

// Wait returns how the run came to its end.
func (h *handle) Wait(ctx context.Context) (fleet.Progress, error) {
	last := fleet.Progress{Ref: fleet.Ref{Thread: h.thread}, Status: fleet.RunSleeps} // only those give way
	for id := h.id; ; {
		out, err := h.d.outcome(ctx, id)
		if err != nil {
			return fleet.Progress{}, fmt.Errorf("dbos: the run of thread %q: %w", h.thread, err)
		}
		if out.Kind == superseded {
			return last, nil
		}
		if err := out.err(); err != nil {
			return fleet.Progress{}, err
		}
		if out.Next == "" {
			return out.Progress, nil
		}
		last, id = out.Progress, out.Next
	}
}

// outcome waits for a workflow.
func (d *Dispatcher) outcome(ctx context.Context, id string) (out outcome, err error) {
	for wait := min(10*time.Millisecond, d.o.Poll); ; wait = min(2*wait, d.o.Poll) {
		found, err := sdk.ListWorkflows(d.c, sdk.WithFilterWorkflowIDs(id), sdk.WithFilterLoadInput(false), sdk.WithFilterLoadOutput(false))
		switch {
		case err != nil:
			return out, err
		case len(found) == 0:
			return out, fmt.Errorf("workflow %s is not there any more", id)
		}
		switch found[0].Status {
		case sdk.WorkflowStatusSuccess, sdk.WorkflowStatusError:
			h, err := sdk.RetrieveWorkflow[outcome](d.c, id)
			if err != nil {
				return out, err
			}
			return h.GetResult()
		case sdk.WorkflowStatusCancelled:
			return outcome{failure: failure{Kind: cancelled}}, nil
		case sdk.WorkflowStatusMaxRecoveryAttemptsExceeded:
			return out, fmt.Errorf("workflow %s is %s", id, found[0].Status)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

// failure is why a run can't go on.
type failure struct {
	Kind    string              `json:"kind,omitempty"` // empty: it can
	Text    string              `json:"text,omitempty"`
	Program *fleet.ProgramError `json:"program,omitempty"`
}

// The kinds of failures.
const (
	busy       = "busy"
	cancelled  = "cancelled"
	superseded = "superseded"
	program    = "program"
	final      = "final"
)

// fail returns how an error is told to others.
func fail(err error) failure {
	if err == nil {
		return failure{}
	}
	f := failure{Kind: final, Text: err.Error()}
	switch unknown, ok := errors.AsType[*fleet.ProgramError](err); {
	case ok:
		f.Kind, f.Program = program, unknown
	case errors.Is(err, graph.ErrThreadBusy):
		f.Kind = busy
	}
	return f
}

func (f failure) err() error {
	switch f.Kind {
	case "":
		return nil
	case busy:
		return fmt.Errorf("%w (%s)", graph.ErrThreadBusy, f.Text)
	case cancelled:
		return fleet.ErrCancelled
	case program:
		return f.Program
	}
	return fmt.Errorf("dbos: the run ended: %s", f.Text)
}
