// Package fleet runs the threads of a graph on more than one machine, by an engine for
// durable execution, or in one process.
//
// A run is two operations over the store that all machines share, both idempotent: a
// [Worker] runs tasks of the superstep that is open ([Worker.RunTasks]), and it closes the
// superstep and plans the next ([Worker.Advance]). What they are given and return is a
// [Ref] and a [Progress], some hundred bytes, whatever the state. The store is the truth:
// an engine, which is a [Dispatcher], has to call the first at least once for all of the
// tasks, the second after them, and each again if a worker died. The checkpoints are those
// of any other run, so that a thread goes from graph.Thread.Invoke to a fleet and back
// between any two supersteps.
//
// [Local] is a dispatcher in this process; packages temporal and dbos, modules of their
// own, are ones on Temporal and on PostgreSQL. Package fleettest has the suite that each
// passes.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/local"
)

// Program is a graph that a worker has, in one of its versions.
type Program struct {
	Graph   graph.Runnable
	Version string // any text; empty is one, too
}

// Options are the settings of a [Worker]. The zero value is fine.
type Options struct {
	// Run says with what an operation of a run is done: with options, and by which graph, if
	// that is not g but one of its name. It is called for each operation, on any worker. An
	// error ends the run, unless it is [Retryable]. Nil: by g, without options.
	Run func(ctx context.Context, ref Ref, g graph.Runnable) (graph.Runnable, []graph.RunOption, error)

	// Bus has told what happens while tasks run, and is not recorded as such, to those who
	// stream a run from other processes, whose [Client] has the same bus: see [Stream]. Nil:
	// it is told to a stream of [Local] alone.
	Bus bus.Bus

	// Log is told once if the bus can't be reached, which is no error of a run. Nil means
	// slog.Default().
	Log *slog.Logger
}

// Worker runs tasks and advances runs. It is safe for concurrent use.
type Worker struct {
	store    checkpoint.Store
	o        Options
	programs map[programID]graph.Runnable

	mu      sync.Mutex
	streams map[string]local.Followed // by thread

	busDown atomic.Int64 // until when nothing is published, as Unix nanoseconds; 0: the bus works
}

type programID struct{ graph, version string }

func (id programID) String() string {
	if id.version == "" {
		return fmt.Sprintf("%q", id.graph)
	}
	return fmt.Sprintf("%q in version %q", id.graph, id.version)
}

// NewWorker returns a worker for threads of the programs in a store, which all workers
// share: one that other processes don't see does for [Local] alone.
func NewWorker(store checkpoint.Store, o Options, programs ...Program) (*Worker, error) {
	if store == nil {
		return nil, errors.New("fleet: NewWorker needs a store")
	}
	if len(programs) == 0 {
		return nil, errors.New("fleet: NewWorker needs a program")
	}
	w := &Worker{store: store, o: o, programs: map[programID]graph.Runnable{}, streams: map[string]local.Followed{}}
	for _, p := range programs {
		if p.Graph == nil {
			return nil, errors.New("fleet: NewWorker: a program without a graph")
		}
		id := programID{p.Graph.Name(), p.Version}
		if w.programs[id] != nil {
			return nil, fmt.Errorf("fleet: NewWorker: two programs are graph %v", id)
		}
		w.programs[id] = p.Graph
	}
	return w, nil
}

// ProgramError says that a worker doesn't have the program of a run. The run waits, or
// ends: its thread stays as it is, and goes on where there is such a worker.
type ProgramError struct {
	Graph, Version string
	Has            []string // what the worker has
}

func (e *ProgramError) Error() string {
	return fmt.Sprintf("fleet: this worker does not have graph %v; it has %v", programID{e.Graph, e.Version}, e.Has)
}

func (w *Worker) program(ref Ref) (graph.Runnable, error) {
	if g := w.programs[programID{ref.Graph, ref.Version}]; g != nil {
		return g, nil
	}
	has := slices.SortedFunc(maps.Keys(w.programs), func(a, b programID) int {
		return cmp.Or(cmp.Compare(a.graph, b.graph), cmp.Compare(a.version, b.version))
	})
	e := &ProgramError{Graph: ref.Graph, Version: ref.Version}
	for _, id := range has {
		e.Has = append(e.Has, id.String())
	}
	return nil, e
}

// Retryable reports whether an operation that failed may succeed when it is called again
// as it was: the store could not be reached. Otherwise the run ends, also where this program
// can't read the thread; what is recorded stays.
func Retryable(err error) bool {
	if _, ok := errors.AsType[*graph.CheckpointError](err); !ok {
		return false
	}
	if _, ok := errors.AsType[*local.UnreadableError](err); ok {
		return false
	}
	for _, final := range []error{
		graph.ErrThreadBusy, checkpoint.ErrNotFound, checkpoint.ErrCorrupt, checkpoint.ErrVersion, checkpoint.ErrClosed, checkpoint.ErrInvalid, context.Canceled,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// Try calls an operation until it succeeds or there is no use in it: while its errors are
// [Retryable] and ctx lasts, at growing intervals up to five seconds.
func Try(ctx context.Context, op func() error) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := op()
		if !Retryable(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// Dispatcher sees to it that threads are run: it calls the operations of workers. It is
// safe for concurrent use.
type Dispatcher interface {
	// Dispatch begins a run of the thread, whose ref is fresh (see [NewRef]), and
	// returns when that is sure to happen. A thread has one run at a time: one that
	// sleeps is over then, and after one that is at work the thread is looked at again, so
	// that what came to the thread meanwhile is not overlooked.
	Dispatch(ctx context.Context, ref Ref) (Run, error)

	// Cancel ends the run of a thread where it stands, be it at work or asleep: the
	// contexts of its nodes end, and what was recorded stays. Without a run it does
	// nothing.
	Cancel(ctx context.Context, thread string) error
}

// Run is a run that was dispatched.
type Run interface {
	// Wait returns when the run is over, and how. One that sleeps is waited for. The
	// error is why the run could not go on, ErrThreadBusy if another has its thread and
	// [ErrCancelled] if it was cancelled; a run that has failed is none: see
	// [Progress.Status].
	Wait(ctx context.Context) (Progress, error)
}

// ErrCancelled: the run was cancelled, and can be continued.
var ErrCancelled = errors.New("fleet: run was cancelled")

// Client gives work to a dispatcher.
type Client struct {
	Dispatcher Dispatcher
	Store      checkpoint.Store // of the threads, the one that the workers have

	// Version says which version of a graph its threads are run by from now on; nil: the
	// empty one.
	Version func(graph string) string

	// Watched says that threads are woken by whoever has the client, as [Client.Watch] does:
	// their runs are over when they sleep, and no dispatcher keeps a timer for them.
	Watched bool

	// Bus tells streams what happens on workers that have the same: see [Options]. Log is
	// told once by a stream if it can't be reached; nil means slog.Default().
	Bus bus.Bus
	Log *slog.Logger

	// TopOnly says that nobody wants to be told what happens inside of subgraphs and calls of
	// graph.Do, but for what nodes send there: workers of other processes spare it.
	TopOnly bool
}

// Submit does to a thread what a request says, in this process, and makes the thread due,
// but runs nothing: [Client.Watch] does, or [Client.Wake]. It fails where
// graph.Thread.Invoke would before it runs something.
func Submit[S any](ctx context.Context, t *graph.Thread[S], req graph.Request[S], opts ...graph.RunOption) error {
	return engine.Submit(ctx, t, req, opts)
}

// Start submits a request and has the thread run: see [Submit] for what it refuses. If the
// dispatcher can't be reached the thread is due, and [Client.Watch] runs it later.
func Start[S any](ctx context.Context, c *Client, t *graph.Thread[S], req graph.Request[S], opts ...graph.RunOption) (Run, error) {
	if err := Submit(ctx, t, req, opts...); err != nil {
		return nil, err
	}
	return c.Wake(ctx, t.ID())
}

// Invoke is graph.Thread.Invoke by the workers: it starts a run, waits until it is over and
// returns the thread as it then is. If ctx ends first the run goes on.
func Invoke[S any](ctx context.Context, c *Client, t *graph.Thread[S], req graph.Request[S], opts ...graph.RunOption) (*graph.Snapshot[S], error) {
	run, err := Start(ctx, c, t, req, opts...)
	if err != nil {
		return nil, err
	}
	p, err := run.Wait(ctx)
	if err == nil && p.Status == RunFailed {
		err = p.failure()
	}
	snap, serr := t.State(ctx)
	return snap, errors.Join(err, serr)
}

// Wake has a stored thread run that may be able to go on: after graph.Thread.SendEvent, say.
func (c *Client) Wake(ctx context.Context, thread string) (Run, error) {
	return c.wake(ctx, thread, 0)
}

// wake is Wake for a stream that wants to be told of something.
func (c *Client) wake(ctx context.Context, thread string, wants local.Kind) (Run, error) {
	ref, err := NewRef(ctx, c.Store, thread)
	if err != nil {
		return nil, err
	}
	ref.Tell = graph.Mode(wants & course)
	ref.TopOnly = c.TopOnly && ref.Tell != 0
	if c.Version != nil {
		ref.Version = c.Version(ref.Graph)
	}
	ref.Watched = c.Watched
	run, err := c.Dispatcher.Dispatch(ctx, ref)
	if err != nil {
		return nil, &DispatchError{thread, err}
	}
	return run, nil
}

// DispatchError says that the dispatcher could not be given a thread, which stays as it is.
type DispatchError struct {
	Thread string
	Err    error
}

func (e *DispatchError) Error() string {
	return fmt.Sprintf("dispatching thread %q: %v", e.Thread, e.Err)
}

// Unwrap returns the dispatcher's error.
func (e *DispatchError) Unwrap() error { return e.Err }

// Watch wakes threads that are due, and those whose run died with its process, until ctx
// ends: see [graph.Runner]. One watch for a store is enough, and more do no harm. It must
// not go together with runners that run such threads themselves. What runs are begun with
// is a matter of the workers: RunnerOptions.Options are refused.
//
// Each thread is run by the version that Version names, whoever began it. One with which the
// workers of that version can't go on stays as it is, and due, for the watch of another; it is
// reported, and given out again after a while, at most a minute.
func (c *Client) Watch(ctx context.Context, o graph.RunnerOptions) error {
	if len(o.Options) > 0 {
		return errors.New("fleet: Watch runs nothing that RunnerOptions.Options could be for: give them to NewWorker")
	}
	return engine.Watch(ctx, c.Store, o, func(ctx context.Context, thread string) (func(context.Context) error, error) {
		run, err := c.Wake(ctx, thread)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			if _, err := run.Wait(ctx); !errors.Is(err, ErrCancelled) {
				return err
			}
			return nil
		}, nil
	})
}
