package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// TurnEnd is how a turn has ended that a thread waited for: at a checkpoint, or by an
// error.
type TurnEnd struct {
	Checkpoint checkpoint.ID       `json:"checkpoint,omitempty"`
	Failed     *checkpoint.Failure `json:"failed,omitempty"`
}

// Err returns the error by which the turn has ended, nil if it came to its end.
func (e *TurnEnd) Err() error {
	if e.Failed == nil {
		return nil
	}
	return &RecordedError{e.Failed.Handled, e.Failed.Causes}
}

// failureOf returns what is recorded of an error by which a turn has ended.
func failureOf(err error) *checkpoint.Failure {
	return &checkpoint.Failure{Handled: cmp.Or(err.Error(), "unknown error"), Causes: causes(err)}
}

// gone says why nobody can tell how a turn has ended.
func gone(why string) *TurnEnd {
	return &TurnEnd{Failed: failureOf(fmt.Errorf("%w: %s", checkpoint.ErrNotFound, why))}
}

// endOf returns how a turn has ended that a thread waits for, nil if it has not.
func endOf(ctx context.Context, store checkpoint.Store, t *checkpoint.Turn, caller checkpoint.ThreadID) (end *TurnEnd, err error) {
	log := checkpoint.Log{Thread: t.Thread}
	err = Settled(ctx, store, log, func() error {
		end, err = readEnd(ctx, store, log, t, caller)
		return err
	})
	return end, failedLoad(t.Thread, err)
}

func readEnd(ctx context.Context, store checkpoint.Store, log checkpoint.Log, t *checkpoint.Turn, caller checkpoint.ThreadID) (*TurnEnd, error) {
	head, _, err := store.Head(ctx, log)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return gone("the thread was deleted"), nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := store.Get(ctx, log, t.Record); errors.Is(err, checkpoint.ErrNotFound) && head.Caller != caller {
		return gone("the thread was deleted, or what had become of the turn was pruned"), nil
	} else if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return nil, err
	}
	if branch, ok := branchAt(spans(head), t.Seq); !ok || branch != t.Branch {
		return gone("the thread went on from a checkpoint before the turn"), nil
	}
	open := true
	for r, err := range Line(ctx, store, head, checkpoint.Query{From: t.Seq, Meta: true}) {
		if err != nil {
			return nil, err
		}
		if r.Epoch == r.ID {
			open = len(r.Tasks) > 0
		}
		if !open && len(r.Paused) == 0 {
			return &TurnEnd{Checkpoint: r.ID}, nil
		}
	}
	results, err := store.Results(ctx, log, head.Branch, head.Epoch)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Kind != checkpoint.KindFailed {
			continue
		}
		end := new(TurnEnd)
		if err := json.Unmarshal(r.Data, &end.Failed); err != nil {
			return nil, fmt.Errorf("why the run failed: %w: %w", checkpoint.ErrCorrupt, err)
		}
		return end, nil
	}
	return nil, nil
}

// awaited is what a run owes to a thread that waits for the end of its turn.
type awaited struct {
	failure error // that the run came to; nil: the turn has not failed by it
	told    bool  // those that wait know that it is over
}

// callers are the threads that wait for the end of a turn which is over.
func (a *awaited) callers(s *Session) (ids []checkpoint.ThreadID) {
	if s.m == nil || s.o.parent != nil {
		return nil
	}
	// Whoever ended it may have died before it told so.
	if tip := s.tip; tip != nil && tip.Record.Caller != "" && len(tip.Epoch.Tasks)+len(tip.Record.Paused) == 0 {
		ids = append(ids, tip.Record.Caller)
	}
	if c := s.m.Caller(); c != "" && (!s.m.Pending() || a.failure != nil) && !slices.Contains(ids, c) {
		ids = append(ids, c)
	}
	return ids
}

// calledFor reports whether a thread waits, or has waited, for a turn of this one.
func calledFor(s *Session) bool {
	return s.m.Caller() != "" || s.tip != nil && s.tip.Record.Caller != ""
}

// ended notes the error that a run came to, if the turn has failed by it. A run that was
// cut short, or refused an answer, has not failed.
func (a *awaited) ended(ctx context.Context, s *Session, err error) {
	a.failure = nil
	if !s.flushing && s.m.Caller() != "" && s.m.Pending() && s.concludes(ctx) && (len(s.flight.failure) > 0 || s.m.Outcome().Err != nil || ctx.Err() != nil) {
		a.failure = err
	}
}

// tell records why the turn has failed, and makes those due that wait for its end.
func (a *awaited) tell(ctx context.Context, s *Session) error {
	callers := a.callers(s)
	if a.told = a.failure == nil && len(callers) == 0; a.told { // as with most runs
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.saver.timeout)
	defer cancel()
	if a.failure != nil {
		w := &checkpoint.Write{Log: s.o.Log, Results: failedResult(s.m.Branch(), s.m.Epoch(), a.failure)}
		if err := s.saver.write(ctx, w); err != nil {
			return err
		}
	}
	for _, id := range callers {
		if err := makeDue(ctx, s.o.Store, id); err != nil {
			return err
		}
	}
	a.told = true
	return nil
}

// failedResult says in an open superstep why its turn has come to nothing.
func failedResult(branch checkpoint.Branch, epoch checkpoint.ID, err error) []checkpoint.Result {
	data, _ := json.Marshal(failureOf(err)) // of texts
	return []checkpoint.Result{{Branch: branch, Epoch: epoch, Kind: checkpoint.KindFailed, Data: data, Replace: true}}
}

// letGo gives the thread up; see saver.release. Before, a thread that waits for the end
// of its turn is made due. Where that can't be, the lease stays until it runs out, and
// whoever then looks after the thread does it.
func (s *Session) letGo(ctx context.Context) error {
	if s.saver.isClaimed() && !s.awaited.told {
		if s.awaited.tell(ctx, s) != nil {
			s.saver.abandon()
			return nil
		}
	}
	return s.saver.release(ctx, s.wakes)
}

// makeDue makes a thread due, if there is one.
func makeDue(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) error {
	log := checkpoint.Log{Thread: thread}
	_, _, err := store.Head(ctx, log)
	if err == nil {
		_, err = store.Write(ctx, &checkpoint.Write{Log: log, Wake: true})
	}
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	return err
}

// abandon lets the lease run out.
func (s *saver) abandon() {
	s.slow.stop()
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	if s.lease.held {
		s.lease.end()
	}
}

// forsake tells the thread that waits for the end of a thread's turn that the thread
// is being deleted. What keeps it from being told does not keep the thread.
func forsake(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID) {
	log := checkpoint.Log{Thread: thread}
	head, _, err := store.Head(ctx, log)
	if err != nil || head.Caller == "" {
		return
	}
	_, err = store.Write(ctx, &checkpoint.Write{Log: log, Results: failedResult(head.Branch, head.Epoch, fmt.Errorf("%w: the thread was deleted", checkpoint.ErrNotFound))})
	if err == nil {
		_ = makeDue(ctx, store, head.Caller)
	}
}

// TurnOf returns the turn that a run begins, or has begun, whose ID is known before: of a
// thread that has ended, or that there isn't yet. Begin is called to begin it.
func TurnOf(ctx context.Context, prog *Program, o *Options, begin func(*Session) error) (*checkpoint.Turn, error) {
	turn := func() (*checkpoint.Turn, error) {
		rec, err := o.Store.Get(ctx, o.Log, o.Run.Checkpoint(1))
		if err != nil {
			return nil, err
		}
		return &checkpoint.Turn{Thread: o.Log.Thread, Record: rec.ID, Branch: rec.Branch, Seq: rec.Seq}, nil
	}
	t, err := turn()
	if !errors.Is(err, checkpoint.ErrNotFound) {
		return t, failedLoad(o.Log.Thread, err)
	}
	s, err := Run(ctx, prog, o, "", func(s *Session) error {
		if s.m.Pending() {
			return ErrPending
		}
		if err := begin(s); err != nil {
			return err
		}
		return s.Flush(ctx)
	})
	if s != nil {
		s.Close()
	}
	if t, got := turn(); got == nil { // by this call, or by another meanwhile
		return t, nil
	} else if err == nil {
		err = failedLoad(o.Log.Thread, got)
	}
	return nil, err
}

// ErrPending: something is pending on a thread that a turn was to begin on.
var ErrPending = errors.New("something is pending on the thread, and Spawn begins a turn: answer or continue it first, or end it with EditAs as graph.End")

// SpawnIDs returns IDs for what the task spawns, the same whenever it runs: that of a
// thread, a UUID, and that of the run that begins its turn.
func (t *Task) SpawnIDs(ctx context.Context, key string) (checkpoint.ThreadID, checkpoint.ID) {
	top := t.top()
	name := "Spawn " + scopeOf(ctx) + key
	id := onceID{top.at.epoch, top.at.step(), top.index(), t.onceName(name)}
	if c, ok := ctx.Value(doKey{}).(*doContext); ok {
		id = c.d.id
		id.name += " " + name
	}
	k := t.idempotencyKey(id)
	thread := k[:8] + "-" + k[8:12] + "-8" + k[13:16] + "-8" + k[17:20] + "-" + k[20:]
	// The time is that of the superstep.
	return checkpoint.ThreadID(thread), top.at.epoch[:len("01234567-0123-")] + checkpoint.ID("7"+k[:3]+"-8"+k[3:6]+"-"+k[6:10]+"00000000")
}

// Store returns where the run's thread is stored, and which it is; nil if nothing is.
func (t *Task) Store() (checkpoint.Store, checkpoint.Log) {
	o := &t.top().s.o
	return o.Store, o.Log
}
