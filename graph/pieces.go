package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// Ref refers to where a run of a thread stands that is done in pieces, by any number of
// processes: see package fleet. It is small, is the same as JSON, and holds nothing of the
// state, which the store has.
type Ref struct {
	Graph   string `json:"graph"`
	Version string `json:"version,omitempty"` // of the program, where several are at work
	Thread  string `json:"thread"`
	Run     string `json:"run"`   // that holds the thread: the ID of its checkpoints
	Fence   int64  `json:"fence"` // of the run's claim; before the run has begun, of the thread

	// Superstep is the checkpoint that planned the superstep which is open. It is empty
	// before the run has begun, and when it is over.
	Superstep string `json:"superstep,omitempty"`

	Deadline time.Time `json:"deadline,omitzero"` // of a run with a [RunTimeout]
}

// NewRef returns what a run of a stored thread begins with: the next call is [Advance].
func NewRef(ctx context.Context, store checkpoint.Store, thread string) (Ref, error) {
	if thread == "" {
		return Ref{}, ErrThreadRequired
	}
	head, fence, err := store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(thread)})
	if err != nil {
		return Ref{}, &CheckpointError{Thread: checkpoint.ThreadID(thread), Op: "load", Err: err}
	}
	return Ref{Graph: head.Graph, Thread: thread, Run: string(checkpoint.NewRunID()), Fence: int64(fence)}, nil
}

// Progress is where a run stands after [Advance].
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
}

// RunStatus says how a run goes on, or why it is over.
type RunStatus string

// The statuses.
const (
	RunGoesOn RunStatus = "running" // tasks are to be run
	RunSleeps RunStatus = "asleep"  // it is over until a time has come
	RunWaits  RunStatus = "waiting" // it is over until an answer, an event or the end of another thread has come, or until Progress.Wake
	RunEnded  RunStatus = "ended"   // the thread has come to its end
	RunFailed RunStatus = "failed"  // tasks or the superstep failed; Requests.Continue tries again
)

// Over reports whether the run has nothing more to do.
func (s RunStatus) Over() bool { return s != RunGoesOn }

// TaskError says that tasks have failed, and that this is recorded: the run is to be
// advanced, and tells of it. After other errors of [RunTasks] the tasks are to be run
// again.
type TaskError struct{ Err error }

func (e *TaskError) Error() string { return e.Err.Error() }

// Unwrap returns the errors of the tasks, in plan order.
func (e *TaskError) Unwrap() error { return e.Err }

// RunTasks runs tasks of the superstep that a reference names, those from from to to-1,
// and records what each comes to as it ends. It may be called twice, late, and for ranges
// that overlap, by any process that has the graph and the store: tasks that have ended are
// left alone, and of two that run one task what is recorded first stands. Tasks that fail
// are a [TaskError]. A run that does not hold its thread any more gets [ErrThreadBusy].
//
// A task runs as in any other run, with its timeouts, retries, caches and [Once]; the
// concurrency and the timeout of a superstep are those of the range. Options are those of
// the runner; dependencies are made for each call, and an [Untracked] field begins at zero.
// The guard against cycles (see [CycleGuard]) does not watch such runs: [MaxSteps] bounds
// them.
func RunTasks(ctx context.Context, g Runnable, store checkpoint.Store, ref Ref, from, to int, opts ...RunOption) error {
	return piece(ctx, g, store, ref, opts, func(ctx context.Context, prog *local.Program, lo *local.Options) error {
		if ref.Superstep == "" {
			return errors.New("graph: RunTasks of a run that has not begun, or is over: call Advance")
		}
		var over error = &TimeoutError{Kind: "run", Limit: lo.RunTimeout}
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

// Advance closes the superstep that a reference names when its tasks have been run: all
// that they recorded is folded and committed, and what follows is planned. It says how to
// go on: with which tasks, or why the run is over. It may be called twice and late:
// what was advanced already is not advanced again. With a reference whose Superstep is
// empty it begins the run: it claims the thread for it, which fails with [ErrThreadBusy]
// if another run has it, or has had it since the reference was made.
//
// It is to be called when [RunTasks] has returned for the whole range, with nil or a
// [TaskError]. The error is why the run could not be advanced; one by which the run itself
// has failed is in the [Progress].
func Advance(ctx context.Context, g Runnable, store checkpoint.Store, ref Ref, opts ...RunOption) (p Progress, err error) {
	err = piece(ctx, g, store, ref, opts, func(ctx context.Context, prog *local.Program, lo *local.Options) error {
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
			if err := local.GiveUp(ctx, prog, lo); err != nil {
				return err
			}
			st.To, st.Err = 0, &TimeoutError{Kind: "run", Limit: limit}
		}
		p = Progress{Ref: ref, Checkpoint: string(st.At), From: st.From, To: st.To, Wake: st.Due}
		switch {
		case st.Err != nil:
			p.Status, p.Error, p.Err = RunFailed, st.Err.Error(), st.Err
		case st.To > 0:
			p.Status = RunGoesOn
		case st.Ended:
			p.Status = RunEnded
		case st.Asks || st.Due.IsZero():
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

// GiveUp ends a run that has begun where it stands: what its tasks have recorded stays,
// and the next run of the thread goes on from there.
func GiveUp(ctx context.Context, g Runnable, store checkpoint.Store, ref Ref, opts ...RunOption) error {
	if ref.Superstep == "" {
		return nil
	}
	return piece(ctx, g, store, ref, opts, func(ctx context.Context, prog *local.Program, lo *local.Options) error {
		return local.GiveUp(ctx, prog, lo)
	})
}

// piece calls f with the options of a session of the run.
func piece(ctx context.Context, g Runnable, store checkpoint.Store, ref Ref, opts []RunOption, f func(context.Context, *local.Program, *local.Options) error) (err error) {
	if ctx == nil {
		return errNilContext
	}
	e, err := g.engine()
	if err != nil {
		return err
	}
	switch run := checkpoint.ID(ref.Run); {
	case store == nil:
		return fmt.Errorf("a run in pieces %w", ErrNoCheckpointer)
	case ref.Thread == "":
		return ErrThreadRequired
	case ref.Graph != g.Name():
		return fmt.Errorf("%w of thread %q: %q, and this is %q", ErrUnknownGraph, ref.Thread, ref.Graph, g.Name())
	case !run.Valid() || run.Run() != run:
		return fmt.Errorf("graph: %q is not the ID of a run: make references with NewRef", ref.Run)
	}
	set, err := with(&e.settings, opts)
	if err != nil {
		return err
	}
	if set.CycleStrict || set.CycleWindow > 0 && set.CycleWindow != defaultCycleWindow {
		return fmt.Errorf("%w: graph %q asks for a CycleGuard, and what it has seen is not known between two pieces of a run: bound runs by MaxSteps", errors.ErrUnsupported, g.Name())
	}
	set.store, set.thread, set.busy = store, checkpoint.ThreadID(ref.Thread), BusyReject
	if set.tracer != nil {
		var end func(*local.Session, error)
		own := *set // the tracer adds to its metadata
		set = &own
		ctx, end = e.enter(ctx, set)
		defer func() { end(nil, err) }()
	}
	var lo local.Options
	if err := e.options(&lo, set, nil); err != nil {
		return err
	}
	if lo.Deps, err = provide(ctx, set); err != nil {
		return err
	}
	lo.Lease, lo.Run = cmp.Or(set.lease, local.DefaultLease), checkpoint.ID(ref.Run)
	lo.Hold = &local.Hold{Fence: checkpoint.Fence(ref.Fence), Claim: ref.Superstep == ""}
	return f(ctx, e.program(set, e.emitter(lo.Bus, set.thread)), &lo)
}

// Submit does to the thread what the request says and makes it due, but runs nothing: a
// [Runner] does, or a dispatcher of package fleet. It returns the thread as it then is. It
// fails where [Thread.Invoke] would before it runs something.
func (t *Thread[S]) Submit(ctx context.Context, req Request[S], opts ...RunOption) (*Snapshot[S], error) {
	if err := t.stored(ctx); err != nil {
		return nil, err
	}
	return t.present(t.submit(ctx, req.erase(t.form), opts))
}

func (h *handle) submit(ctx context.Context, req request, opts []RunOption) (none Snapshot[any], err error) {
	set, err := with(h.set, opts)
	switch {
	case err != nil:
		return none, err
	case len(h.around) > 0 || set.namespace != "":
		return none, fmt.Errorf("thread %q: %w, this one has %q", set.thread, local.ErrNamespace, set.namespace)
	case req.start != nil && req.start.IsZero():
		return none, errors.New("graph: Restart at a command without destinations")
	}
	if set.durability == Exit {
		set.durability = Sync
	}
	e := h.e
	var lo local.Options
	if err := e.options(&lo, set, nil); err != nil {
		return none, err
	}
	if lo.Deps, err = provide(ctx, set); err != nil {
		return none, err
	}
	lo.Lease, lo.Wake = cmp.Or(set.lease, local.DefaultLease), true
	s, err := local.Run(ctx, e.program(set, nil), &lo, set.from, func(s *local.Session) error {
		run, err := e.prepare(ctx, s, set, req)
		if err != nil || !run {
			return err
		}
		return s.Submit(ctx)
	})
	if s != nil {
		defer s.Close()
	}
	if err != nil {
		return none, err
	}
	return e.snapshot(s, set), nil
}
