package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/seam"
)

// engine is what package graph does for this one alone.
var engine = seam.Graph.(interface {
	Do(ctx context.Context, g graph.Runnable, store checkpoint.Store, thread string, opts []graph.RunOption, bus *local.Bus, f func(context.Context, *local.Program, *local.Options) error) error
	Stream(ctx context.Context, thread any, opts []graph.StreamOption, run func(context.Context, local.Followed) error) iter.Seq2[graph.Event, error]
	Submit(ctx context.Context, thread, request any, opts []graph.RunOption) error
	Watch(ctx context.Context, store checkpoint.Store, o graph.RunnerOptions, hand func(ctx context.Context, thread string) (over func(context.Context) error, err error)) error
})

// Ref refers to where a run of a thread stands, whoever is to go on with it. It is small,
// is the same as JSON, and holds nothing of the state, which the store has.
type Ref struct {
	Graph   string `json:"graph"`
	Version string `json:"version,omitempty"` // of the program, where several are at work
	Thread  string `json:"thread"`
	Run     string `json:"run"`   // that holds the thread: the ID of its checkpoints
	Fence   int64  `json:"fence"` // of the run's claim; before the run has begun, of the thread

	// Superstep is the checkpoint that planned the superstep which is open. It is empty
	// before the run has begun, and when it is over.
	Superstep string `json:"superstep,omitempty"`

	Deadline time.Time `json:"deadline,omitzero"` // of a run with a [graph.RunTimeout]

	Watched bool `json:"watched,omitempty"` // see [Client]

	// Tell is what workers tell over their bus, beside what nodes send, to whoever streams
	// the run; see [Stream]. TopOnly is that of [Client].
	Tell    graph.Mode `json:"tell,omitempty"`
	TopOnly bool       `json:"top_only,omitempty"`
}

// NewRef returns what a run of a stored thread begins with: the next call is
// [Worker.Advance].
func NewRef(ctx context.Context, store checkpoint.Store, thread string) (Ref, error) {
	if thread == "" {
		return Ref{}, graph.ErrThreadRequired
	}
	head, fence, err := store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(thread)})
	if err != nil {
		return Ref{}, &graph.CheckpointError{Thread: checkpoint.ThreadID(thread), Op: "load", Err: err}
	}
	return Ref{Graph: head.Graph, Thread: thread, Run: string(checkpoint.NewRunID()), Fence: int64(fence)}, nil
}

// Progress is where a run stands after [Worker.Advance].
type Progress struct {
	Ref

	Status     RunStatus `json:"status"`
	Checkpoint string    `json:"checkpoint"` // the thread's newest

	// From and To say which tasks are to be run, the last not included, if the run goes
	// on. Some of them may have ended or wait: those are left alone.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`

	Wake  time.Time `json:"wake,omitzero"`   // when a run that is over is to begin again: a sleep or a deadline ends
	Error string    `json:"error,omitempty"` // of a run that has failed
	Err   error     `json:"-"`               // the same, in the process that found it

	// Which limit it has reached, if that is why.
	Limit   *graph.LimitError   `json:"limit,omitempty"`
	Timeout *graph.TimeoutError `json:"timeout,omitempty"`
}

// RunStatus says how a run goes on, or why it is over.
type RunStatus string

// The statuses.
const (
	RunGoesOn RunStatus = "running" // tasks are to be run
	RunSleeps RunStatus = "asleep"  // it is over until a time has come, and the dispatcher begins it again
	RunWaits  RunStatus = "waiting" // it is over until an answer, an event or the end of another thread has come, or until Progress.Wake
	RunEnded  RunStatus = "ended"   // the thread has come to its end
	RunFailed RunStatus = "failed"  // tasks or the superstep failed; a request to continue tries again
)

// Over reports whether the run has nothing more to do.
func (s RunStatus) Over() bool { return s != RunGoesOn }

// TaskError says that tasks have failed, and that this is recorded: the run is to be
// advanced, and tells of it. After other errors of [Worker.RunTasks] the tasks are to be
// run again.
type TaskError struct{ Err error }

func (e *TaskError) Error() string { return e.Err.Error() }

// Unwrap returns the errors of the tasks, in plan order.
func (e *TaskError) Unwrap() error { return e.Err }

// RunTasks runs tasks of the superstep that a reference names, those from from to to-1,
// and records what each comes to as it ends. It may be called twice, late, and for ranges
// that overlap, by any worker: tasks that have ended are left alone, and of two that run
// one task what is recorded first stands. Tasks that fail are a *[TaskError], after which
// the run is to be advanced. A run that does not hold its thread any more gets
// graph.ErrThreadBusy; about other errors see [Retryable].
//
// A task runs as in any other run, with its timeouts, retries, caches and graph.Once; the
// concurrency and the timeout of a superstep are those of the range. Dependencies are made
// for each call, and an Untracked field begins at zero. The guard against cycles does not
// watch such runs: graph.MaxSteps bounds them.
func (w *Worker) RunTasks(ctx context.Context, ref Ref, from, to int) error {
	return w.do(ctx, ref, w.publisher(ctx, ref, sent|local.Kind(ref.Tell)&course, rand.Text()), func(ctx context.Context, prog *local.Program, lo *local.Options) error {
		if ref.Superstep == "" {
			return errors.New("fleet: RunTasks of a run that has not begun, or is over: call Advance")
		}
		var over error = &graph.TimeoutError{Kind: "run", Limit: lo.RunTimeout}
		if !ref.Deadline.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadlineCause(ctx, ref.Deadline, over)
			defer cancel()
		}
		recorded, err := local.RunTasks(ctx, prog, lo, checkpoint.ID(ref.Superstep), from, to)
		if err != nil && (recorded || context.Cause(ctx) == over) { // of which Advance tells
			return &TaskError{err}
		}
		return err
	})
}

// Fuse runs the lone task of a superstep and advances, and again while what follows is a
// lone task, too, and less than d has gone by: for engines, to which that is one operation
// instead of many. It does one superstep at least, and is idempotent as what it calls.
func (w *Worker) Fuse(ctx context.Context, p Progress, d time.Duration) (Progress, error) {
	for begun := time.Now(); ; {
		err := w.RunTasks(ctx, p.Ref, p.From, p.To)
		if _, failed := errors.AsType[*TaskError](err); err != nil && !failed {
			return p, err
		}
		next, err := w.Advance(ctx, p.Ref)
		if err != nil {
			return p, err
		}
		if p = next; p.Status.Over() || p.To-p.From > 1 || time.Since(begun) >= d {
			return p, nil
		}
	}
}

// Advance closes the superstep that a reference names when its tasks have been run: all
// that they recorded is folded and committed, and what follows is planned. It says how to
// go on: with which tasks, or why the run is over. It may be called twice and late: what
// was advanced already is not advanced again. With a reference whose Superstep is empty it
// begins the run: it claims the thread for it, which fails with graph.ErrThreadBusy if
// another run has it, or has had it since the reference was made.
//
// It is to be called when [Worker.RunTasks] has returned for the whole range, with nil or a
// [TaskError]. The error is why the run could not be advanced; one by which the run itself
// has failed is in the [Progress].
func (w *Worker) Advance(ctx context.Context, ref Ref) (p Progress, err error) {
	err = w.do(ctx, ref, w.publisher(ctx, ref, local.Kind(ref.Tell)&local.InterruptRaised, ""), func(ctx context.Context, prog *local.Program, lo *local.Options) error {
		limit := lo.RunTimeout
		if lo.RunTimeout = 0; limit > 0 && ref.Superstep == "" {
			ref.Deadline = time.Now().Add(limit).UTC().Round(0)
		}
		st, err := local.AdvanceThread(ctx, prog, lo, checkpoint.ID(ref.Superstep))
		if err != nil {
			return err
		}
		ref.Fence, ref.Superstep = int64(st.Fence), string(st.Epoch)
		if st.To > 0 && !ref.Deadline.IsZero() && !time.Now().Before(ref.Deadline) {
			lo.Hold = &local.Hold{Fence: st.Fence}
			if err := local.GiveUp(ctx, prog, lo, false); err != nil {
				return err
			}
			st.To, st.Err = 0, &graph.TimeoutError{Kind: "run", Limit: limit}
		}
		p = Progress{Ref: ref, Checkpoint: string(st.At), From: st.From, To: st.To, Wake: st.Due}
		switch {
		case st.Err != nil:
			p.Status, p.Error, p.Err = RunFailed, st.Err.Error(), st.Err
			p.Limit, _ = errors.AsType[*graph.LimitError](st.Err)
			p.Timeout, _ = errors.AsType[*graph.TimeoutError](st.Err)
		case st.To > 0:
			p.Status = RunGoesOn
		case st.Ended:
			p.Status = RunEnded
		case st.Asks || st.Due.IsZero() || ref.Watched:
			p.Status = RunWaits
		default:
			p.Status = RunSleeps
		}
		if p.Status.Over() {
			p.Superstep, p.Deadline, p.From, p.To = "", time.Time{}, 0, 0
		}
		return nil
	})
	return p, err
}

// GiveUp ends a run where it stands, for one that is cancelled or that can't be advanced:
// what its tasks have recorded stays, and the next run of the thread goes on from there.
// What is still at work for the run is stopped, and what comes late gets
// graph.ErrThreadBusy; so does GiveUp if the run does not hold its thread.
func (w *Worker) GiveUp(ctx context.Context, ref Ref) error { return w.giveUp(ctx, ref, false) }

// giveUp is GiveUp, after which the thread is due if somebody else is to go on with it.
func (w *Worker) giveUp(ctx context.Context, ref Ref, due bool) error {
	return w.do(ctx, ref, nil, func(ctx context.Context, prog *local.Program, lo *local.Options) error {
		lo.ClaimFirst = due // it is as a run that a graph.Runner had begun
		return local.GiveUp(ctx, prog, lo, true)
	})
}

// do calls f with the options of a session of the run. What it tells goes to a stream of
// this process, or else to p, unless that is nil.
func (w *Worker) do(ctx context.Context, ref Ref, p *publisher, f func(context.Context, *local.Program, *local.Options) error) error {
	g, err := w.program(ref)
	if err != nil {
		return err
	}
	run := checkpoint.ID(ref.Run)
	switch {
	case ref.Thread == "":
		return graph.ErrThreadRequired
	case !run.Valid() || run.Run() != run:
		return fmt.Errorf("fleet: %q is not the ID of a run: make references with NewRef", ref.Run)
	}
	var opts []graph.RunOption
	if w.o.Run != nil {
		if g, opts, err = w.o.Run(ctx, ref, g); err != nil {
			return err
		}
	}
	told, drain := w.tells(ref.Thread)
	var recording func()
	if told == nil && p != nil {
		defer p.flush()
		told, recording = &local.Bus{Wants: p.wants, Live: true, Send: p.send}, p.flush
	}
	return engine.Do(ctx, g, w.store, ref.Thread, opts, told, func(ctx context.Context, prog *local.Program, lo *local.Options) error {
		lo.Run, lo.Drain, lo.Recording = run, drain, recording
		lo.Hold = &local.Hold{Fence: checkpoint.Fence(ref.Fence), Claim: ref.Superstep == ""}
		return f(ctx, prog, lo)
	})
}
