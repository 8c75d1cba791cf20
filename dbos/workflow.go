package dbos

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/superstep-dev/superstep/fleet"
)

// The names by which DBOS knows what it has begun: they stay.
const (
	runName   = "superstep.run"
	tasksName = "superstep.tasks"
)

// call is what a run begins with.
type call struct {
	Ref   fleet.Ref     `json:"ref"`
	Batch int           `json:"batch"`
	Fuse  time.Duration `json:"fuse"`
}

// outcome is what a run, or one of its steps, came to.
type outcome struct {
	Progress fleet.Progress `json:"progress"`
	Next     string         `json:"next,omitempty"` // the run that follows a sleep
	failure
}

// batch are tasks of a superstep, and done is what they came to.
type batch struct {
	Run  string    `json:"run"` // the workflow that waits for them
	Ref  fleet.Ref `json:"ref"`
	From int       `json:"from"`
	To   int       `json:"to"`
}

type done struct {
	Failed bool `json:"failed,omitempty"`
	failure
}

// run is the workflow of a run: it does by steps what they say, and knows nothing else.
func (w *Worker) run(c sdk.Context, in call) (out outcome, err error) {
	id, err := sdk.GetWorkflowID(c)
	if err != nil {
		return out, err
	}
	stop, end := w.watch(c, id, "")
	defer end()
	step := func(name string, f func(ctx context.Context) (fleet.Progress, error)) (outcome, error) {
		return sdk.RunAsStep(c, func(ctx context.Context) (out outcome, _ error) {
			ctx, end := until(ctx, stop)
			defer end()
			err := ctx.Err()
			if err == nil {
				err = fleet.Try(ctx, func() (err error) { out.Progress, err = f(ctx); return err })
			}
			out.failure = told(ctx, err)
			return out, nil
		}, sdk.WithStepName(name))
	}
	at := in.Ref
	out, err = step("advance", func(ctx context.Context) (fleet.Progress, error) { return w.w.Advance(ctx, at) })
	for n := 0; err == nil && out.Kind == "" && !out.Progress.Status.Over(); n++ {
		p := out.Progress
		at = p.Ref
		if p.To-p.From == 1 {
			out, err = step("fused", func(ctx context.Context) (fleet.Progress, error) { return w.w.Fuse(ctx, p, in.Fuse) })
			continue
		}
		var tasks done
		if tasks, err = w.tasks(c, id, n, in.Batch, p); err != nil || tasks.Kind != "" {
			out = outcome{failure: tasks.failure}
			break
		}
		out, err = step("advance", func(ctx context.Context) (fleet.Progress, error) { return w.w.Advance(ctx, at) })
	}
	switch {
	case err != nil && (c.Err() != nil || errors.Is(err, sdk.ErrConflictingWorkflowID)): // somebody else goes on with it
		return out, err
	case err != nil || out.Kind != "":
		begun := at.Superstep != "" // else it stays due for another worker
		if out.Kind != cancelled && (!begun || out.Kind == superseded || out.Kind == busy) {
			break
		}
		if gerr := w.w.GiveUp(context.WithoutCancel(c), at); gerr != nil { // then the lease runs out
			w.log.Warn("dbos: giving up a thread", "thread", at.Thread, "error", gerr)
		}
	case out.Progress.Status == fleet.RunSleeps:
		next := in
		next.Ref = out.Progress.Ref
		out.Next = runID(next.Ref, w.o.Queue, 0) // which is in the queue already if the thread was woken meanwhile
		_, err = enqueue(c, w.o.Queue, next, out.Next, max(time.Until(out.Progress.Wake), time.Millisecond))
	}
	return out, err
}

// tasks has the workers run the tasks of the n-th superstep of a run, and waits for them.
func (w *Worker) tasks(c sdk.Context, id string, n, size int, p fleet.Progress) (all done, err error) {
	var batches []sdk.WorkflowHandle[done]
	for from := p.From; from < p.To; from += size {
		b, err := sdk.Enqueue[done](c, w.tasksQueue(), tasksName, batch{Run: id, Ref: p.Ref, From: from, To: min(from+size, p.To)},
			sdk.WithEnqueueWorkflowID(fmt.Sprintf("%s.%d.%d", id, n, from)), sdk.WithEnqueueApplicationVersion(version))
		if err != nil {
			return all, err
		}
		batches = append(batches, b)
	}
	for _, b := range batches {
		got, err := b.GetResult(sdk.WithHandlePollingInterval(w.o.Poll))
		if err != nil {
			return all, err
		}
		all.Failed = all.Failed || got.Failed
		if all.Kind == "" {
			all.failure = got.failure
		}
	}
	if all.Failed { // the others were cancelled for it
		all.failure = failure{}
	}
	return all, nil
}

// batch is the workflow of a batch. It has no steps: its tasks are done once whatever
// happens to it. When one fails, the other batches are stopped.
func (w *Worker) batch(c sdk.Context, b batch) (out done, err error) {
	stop, end := w.watch(c, b.Run, b.Ref.Superstep)
	defer end()
	ctx, over := until(c, stop)
	defer over()
	if err = ctx.Err(); err == nil {
		err = fleet.Try(ctx, func() error { return w.w.RunTasks(ctx, b.Ref, b.From, b.To) })
	}
	if c.Err() != nil {
		return out, c.Err()
	}
	if _, failed := errors.AsType[*fleet.TaskError](err); failed {
		out.Failed = true
		return out, sdk.SetWorkflowAttributes(w.c, b.Run, map[string]any{failedStep: b.Ref.Superstep}, sdk.WithMergeAttributes())
	}
	out.failure = told(ctx, err)
	return out, nil
}

// told returns how an error is told to others; of what was stopped it is the reason.
func told(ctx context.Context, err error) failure {
	if why, stopped := errors.AsType[stopError](context.Cause(ctx)); err != nil && stopped {
		return failure{Kind: string(why)}
	}
	return fail(err)
}

// stopError is why a run is stopped.
type stopError string

func (e stopError) Error() string { return "dbos: the run is " + string(e) }

// until returns a context of a step that ends with another one, and for its reason.
func until(ctx, stop context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if stop.Err() != nil { // AfterFunc would tell a moment later
		cancel(context.Cause(stop))
	}
	after := context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })
	return ctx, func() { after(); cancel(nil) }
}

// watch looks what a run is asked for, at once and then every o.Look, since DBOS interrupts
// nobody. For a batch it looks at the superstep, too. A run gives way only before it begins.
func (w *Worker) watch(c sdk.Context, id, superstep string) (stop context.Context, end func()) {
	stop, cancel := context.WithCancelCause(context.Background())
	look := func(first bool) {
		found, err := sdk.ListWorkflows(w.c, sdk.WithFilterWorkflowIDs(id), sdk.WithFilterLoadInput(false), sdk.WithFilterLoadOutput(false))
		if err != nil || len(found) == 0 {
			return // the database has a bad moment: the next look will tell
		}
		switch s := found[0]; {
		case s.Status == sdk.WorkflowStatusCancelled, s.Attributes[asked] == toStop:
			cancel(stopError(cancelled))
		case first && superstep == "" && s.Attributes[asked] == toGiveWay:
			cancel(stopError(superseded))
		case superstep != "" && s.Attributes[failedStep] == superstep:
			cancel(stopError(cancelled))
		}
	}
	look(true)
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(w.o.Look)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				look(false)
			case <-stop.Done():
				return
			}
		}
	}()
	return stop, func() { cancel(nil); <-over }
}
