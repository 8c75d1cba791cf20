package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
)

// Spawn starts a turn on another thread, of the same graph or of another, and returns
// without waiting for it: [Spawned.Wait] does, if its end is of interest. The turn is run
// by a [Runner] that knows its graph, or by whoever continues that thread; the threads
// are otherwise strangers: each has its own checkpoints, questions and limits, and what
// becomes of the one that spawns (that its run is cancelled, that it fails, is given up
// or deleted) does not stop the other. Who wants that ends it with [Thread.EditAs] as
// [End], or with [Thread.Delete].
//
// The turn is started exactly once, however often the node runs: after a question, an
// error, a crash, and on forks inside the superstep. The key tells what a task spawns
// apart. A thread without an ID, g.Thread(""), gets one that follows from the task and the
// key: a UUID, the ID of [Spawned.Thread].
//
// The request is an Input, or a Restart that says where to begin. It is applied before
// Spawn returns; when it refuses, nothing is started. The thread must be new or have
// ended: one on which something is pending is a [SpawnError], and so is one that a run
// holds, unless it is waited for with [WhenBusy]. Both threads are in one store: a graph
// without a checkpointer is spawned in that of the node.
//
// Of the thread's options, those that a run is begun with hold, such as [Metadata]; the
// turn then runs with the options of its graph and its runner. Inside a function of [Do]
// a turn can be spawned, but not waited for.
func Spawn[S any](ctx context.Context, key string, t *Thread[S], req Request[S]) (*Spawned[S], error) {
	task, err := task(ctx, "Spawn")
	if err != nil {
		return nil, err
	}
	store, log := task.Store()
	if err := spawnable(task, key, store, log, t, req.kind); err != nil {
		return nil, err
	}
	own, set := *t, *t.set
	own.set, set.store = &set, store
	id, run := task.SpawnIDs(ctx, key)
	set.thread = cmp.Or(t.set.thread, id)
	start := func(ctx context.Context, _ string) (*checkpoint.Turn, error) {
		if t.set.store != nil && !sameStore(t.set.store, store) {
			reason := fmt.Sprintf("graph %q has another checkpointer: both threads must be in one store; compiled without one, it is spawned in that of the node", t.e.prog.Plan.Name)
			return nil, &CallError{Call: "Spawn", Node: task.Info().Node, Key: key, Reason: reason}
		}
		turn, err := t.e.spawn(ctx, &set, t.erase(req), run, log.Thread)
		if err != nil {
			if errors.Is(err, ErrThreadBusy) { // not the thread whose run this is
				err = errors.New(err.Error())
			}
			return nil, ofSpawned(ctx, &SpawnError{Node: task.Info().Node, Key: key, Thread: own.ID(), Err: err})
		}
		return turn, nil
	}
	var turn *checkpoint.Turn
	if info := Info(ctx); info.Do != "" {
		turn, err = start(ctx, "")
	} else {
		turn, err = Once(ctx, "Spawn "+key, start)
	}
	if err != nil {
		return nil, err
	}
	set.thread = turn.Thread
	return &Spawned[S]{key: key, turn: *turn, thread: &own}, nil
}

// spawnable reports what is wrong with a call of Spawn.
func spawnable[S any](task *local.Task, key string, store checkpoint.Store, log checkpoint.Log, t *Thread[S], kind requestKind) error {
	refuse := func(format string, args ...any) error {
		return &CallError{Call: "Spawn", Node: task.Info().Node, Key: key, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case key == "":
		return refuse("it needs a key")
	case t == nil:
		return refuse("its thread is nil")
	case t.err != nil:
		return t.err
	case kind != giveInput && kind != startAnew:
		return refuse("it begins a turn: the request must be an Input, or a Restart")
	case t.set.from != "" || len(t.around) > 0 || t.set.namespace != "":
		return refuse("it begins a turn where the thread stands: its handle must be made by Graph.Thread, without At, Inside and a namespace")
	case store == nil:
		return fmt.Errorf("graph.Spawn %q in node %q %w", key, task.Info().Node, ErrNoCheckpointer)
	case log.Namespace != "":
		return fmt.Errorf("graph.Spawn %q in node %q: %w, this thread has %q", key, task.Info().Node, local.ErrNamespace, log.Namespace)
	case t.set.thread == log.Thread:
		return refuse("thread %q is the one that spawns", log.Thread)
	}
	return nil
}

func sameStore(a, b checkpoint.Store) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Comparable() && a == b
}

// spawn begins a turn that a thread may wait for, once.
func (e *engine) spawn(ctx context.Context, set *settings, req request, run checkpoint.ID, caller checkpoint.ThreadID) (*checkpoint.Turn, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if set.durability == Exit {
		set.durability = Sync
	}
	var lo local.Options
	if err := e.depsOptions(ctx, &lo, set, nil); err != nil {
		return nil, err
	}
	lo.Run, lo.Caller = run, caller
	return local.TurnOf(ctx, e.prog, &lo, func(s *local.Session) error {
		_, err := e.prepare(ctx, s, set, req)
		return err
	})
}

// Spawned is a turn that [Spawn] has started.
type Spawned[S any] struct {
	key    string
	turn   checkpoint.Turn
	thread *Thread[S]
}

// Thread returns a handle to the thread on which the turn was started.
func (s *Spawned[S]) Thread() *Thread[S] { return s.thread }

// Wait returns the state with which the turn ended. As [WaitFor] it returns an error
// first, which the node must return: the thread is parked, and is due again when the turn
// has ended, be it before Wait was called or months after; a [Runner] then lets it go on,
// and the node runs again from its beginning. Where the other thread asks something, Wait
// waits until it is answered there. [Deadline] bounds the wait, and is then a
// [DeadlineError]; the other thread goes on.
//
// A turn that fails is a [SpawnError], and so is one whose thread was deleted (it wraps
// checkpoint.ErrNotFound) or went on from before it. What Wait has returned once is
// recorded, a failure too: it returns the same when the node runs again, whatever becomes
// of the other thread. After that was continued with success, [Requests.RestartStep] makes
// this one ask again.
func (s *Spawned[S]) Wait(ctx context.Context, opts ...AskOption) (*S, error) {
	t, err := task(ctx, "Spawned.Wait")
	if err != nil {
		return nil, err
	}
	c := askedWith(opts)
	if c.schema != nil {
		return nil, &CallError{Call: "Spawned.Wait", Node: t.Info().Node, Key: s.key, Reason: "nobody is asked: it takes no AnswerSchema"}
	}
	var end local.TurnEnd
	_, err = t.Ask(ctx, local.Asking{Key: s.key, Turn: &s.turn, For: c.in, Accept: func(q *checkpoint.Question) error {
		v, err := decode[local.TurnEnd](q.Answer)
		if err != nil || (v.Checkpoint == "") == (v.Failed == nil) {
			return &AnswerError{Key: q.Key, Reason: fmt.Sprintf("it waits for the end of thread %q and takes no answer", s.turn.Thread), Err: err}
		}
		end = v
		return nil
	}})
	if err != nil {
		return nil, err
	}
	failed := func(err error) error {
		return ofSpawned(ctx, &SpawnError{Node: t.Info().Node, Key: s.key, Thread: s.thread.ID(), Err: err})
	}
	if err := end.Err(); err != nil {
		return nil, failed(err)
	}
	e := s.thread.e
	got, err := Once(ctx, "Wait "+s.key, func(ctx context.Context, _ string) (wire spawnedState, err error) {
		snap, err := e.view(ctx, s.thread.set, end.Checkpoint)
		if err == nil {
			err = snap.incomplete
		}
		if err != nil {
			return wire, failed(err)
		}
		wire.Version = e.prog.Version
		wire.State, err = e.prog.Values.Snapshot(snap.State, true)
		return wire, err
	})
	if err != nil {
		return nil, err
	}
	data, err := core.Upgrade(e.prog.Values, got.Version, got.State)
	if err != nil {
		return nil, failed(err)
	}
	state, err := e.prog.Values.Restore(nil, data)
	if err != nil {
		return nil, failed(err)
	}
	out, err := s.thread.form.read(state)
	if err != nil {
		return nil, failed(err)
	}
	return &out, nil
}

// spawnedState is the state with which a turn ended, as it is recorded.
type spawnedState struct {
	Version int             `json:"version,omitempty"` // of its schema
	State   json.RawMessage `json:"state"`
}

// ofSpawned returns what has become of another thread; its cause alone, if that says
// nothing of that thread: the run is being stopped, or the store can't be reached.
func ofSpawned(ctx context.Context, e *SpawnError) error {
	var failed *CheckpointError
	var unreadable *local.UnreadableError
	switch {
	case errors.As(e.Err, &unreadable), errors.Is(e.Err, checkpoint.ErrNotFound), errors.Is(e.Err, checkpoint.ErrCorrupt):
	case errors.As(e.Err, &failed), ctx.Err() != nil && (errors.Is(e.Err, ctx.Err()) || errors.Is(e.Err, context.Cause(ctx))):
		return e.Err
	}
	return e
}

// SpawnError says that a turn could not be started on another thread, or has ended
// without a result.
type SpawnError struct {
	Node   string
	Key    string // given to Spawn
	Thread string // the other one
	Err    error  // of a run that failed: a *RecordedError
}

func (e *SpawnError) Error() string {
	return fmt.Sprintf("node %q: thread %q, spawned as %q: %v", e.Node, e.Thread, e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *SpawnError) Unwrap() error { return e.Err }
