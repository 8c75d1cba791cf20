package temporal

import (
	"cmp"
	"errors"
	"time"

	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep/fleet"
)

// plan is what a workflow begins with.
type plan struct {
	Batch     int           `json:"batch"`
	Fuse      time.Duration `json:"fuse"`
	Heartbeat time.Duration `json:"heartbeat"`
	Limit     time.Duration `json:"limit"`

	// Where the workflow before it stood, and what it was called with and had not come to.
	Progress *fleet.Progress `json:"progress,omitempty"`
	Call     *fleet.Ref      `json:"call,omitempty"`
}

func (o *Options) plan() plan {
	return plan{
		Batch: cmp.Or(o.Batch, 100), Fuse: cmp.Or(o.Fuse, 5*time.Second), Heartbeat: cmp.Or(o.Heartbeat, 10*time.Second), Limit: cmp.Or(o.Limit, 24*time.Hour),
	}
}

// run is the workflow: it calls activities by what they say, and knows nothing else. What
// it does is replayed from histories of earlier versions, see workflow.GetVersion, for which
// histories are kept in testdata.
func run(ctx workflow.Context, pl plan) (p fleet.Progress, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: pl.Limit,
		HeartbeatTimeout:    pl.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         &sdk.RetryPolicy{InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
	calls := workflow.GetSignalChannel(ctx, dispatched)
	if pl.Progress == nil {
		var ref fleet.Ref
		calls.Receive(ctx, &ref)
		if last, more := newest(calls); more {
			ref = last
		}
		if p, err = advance(ctx, ref); err != nil {
			return p, giveUp(ctx, ref, err)
		}
	} else {
		p = *pl.Progress
	}
	early := false // it was woken before its time, by the store's clock
	for {
		for !p.Status.Over() {
			at := p.Ref
			if p, err = superstep(ctx, pl, p); err != nil {
				return p, giveUp(ctx, at, err)
			}
			if (!p.Status.Over() || p.Status == fleet.RunSleeps) && workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
				pl.Progress = &p
				if ref, called := newest(calls); called {
					pl.Call = &ref
				}
				return p, workflow.NewContinueAsNewError(ctx, workflowName, pl)
			}
		}
		ref, called := newest(calls)
		if !called && pl.Call != nil {
			ref, called = *pl.Call, true
		}
		pl.Call = nil
		switch {
		case called:
			early = false
		case p.Status != fleet.RunSleeps:
			return p, nil
		default:
			d := p.Wake.Sub(workflow.Now(ctx))
			if early {
				d = max(d, time.Second)
			}
			if err = rest(ctx, d, calls); err != nil {
				return p, err
			}
			if ref, called = newest(calls); !called {
				ref = p.Ref
			}
			early = !called
		}
		if p, err = advance(ctx, ref); err != nil {
			return p, giveUp(ctx, ref, err)
		}
	}
}

// newest takes in what has come, of which the last is the newest.
func newest(calls workflow.ReceiveChannel) (ref fleet.Ref, called bool) {
	for calls.ReceiveAsync(&ref) {
		called = true
	}
	return ref, called
}

// rest waits until a time has gone by or the thread is called for.
func rest(ctx workflow.Context, d time.Duration, calls workflow.ReceiveChannel) error {
	_, err := workflow.AwaitWithTimeout(ctx, max(d, 0), func() bool { return calls.Len() > 0 })
	return err
}

func advance(ctx workflow.Context, ref fleet.Ref) (p fleet.Progress, err error) {
	err = workflow.ExecuteActivity(ctx, advanceName, ref).Get(ctx, &p)
	return p, err
}

// superstep runs the tasks of one and advances. When some fail the others are cancelled.
func superstep(ctx workflow.Context, pl plan, p fleet.Progress) (next fleet.Progress, err error) {
	if p.To-p.From == 1 {
		err = workflow.ExecuteActivity(ctx, fusedName, p, pl.Fuse).Get(ctx, &next)
		return next, err
	}
	all, cancel := workflow.WithCancel(ctx)
	defer cancel()
	failed, left := false, 0
	tasks := workflow.NewSelector(ctx)
	for from := p.From; from < p.To; from += pl.Batch {
		left++
		tasks.AddFuture(workflow.ExecuteActivity(all, runTasksName, p.Ref, from, min(from+pl.Batch, p.To)), func(f workflow.Future) {
			var done tasksDone
			if ferr := f.Get(ctx, &done); ferr != nil && !failed && err == nil {
				err = ferr
			}
			if failed = failed || done.Failed; failed || err != nil {
				cancel()
			}
		})
	}
	for ; left > 0; left-- {
		tasks.Select(ctx)
	}
	if err != nil {
		return p, err
	}
	return advance(ctx, p.Ref)
}

// giveUp lets others have the thread of a run that can't go on for a reason, be it
// cancelled, and returns the reason.
func giveUp(ctx workflow.Context, ref fleet.Ref, reason error) error {
	switch failed, ok := errors.AsType[*sdk.ApplicationError](reason); {
	case ok && failed.Type() == kindBusy: // they have it
		return reason
	case ref.Superstep == "" && !sdk.IsCanceledError(reason): // it has not begun, and stays due for another worker
		return reason
	}
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 5}})
	_ = workflow.ExecuteActivity(ctx, giveUpName, ref).Get(ctx, nil) // else the lease runs out
	return reason
}
