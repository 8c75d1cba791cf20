package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// The two operations that a distributed engine needs: run tasks, and advance.
// Both are idempotent over the store, carry references and never state, and may
// be called twice, late, out of order and from several processes at once. Each is
// a session of its own; what makes them one run is its ID and its [Hold].

// Hold is a run's claim on its thread, where the run is made of several sessions, in
// any processes. Its lease is in the name of the run, so that each session renews it;
// between them it may run out, and then somebody else may take the thread.
type Hold struct {
	// Fence is that of the run's claim. With Claim it is the one that the thread had
	// before, and becomes that of the claim.
	Fence checkpoint.Fence
	Claim bool
}

// shared reports whether the session is one of several of its run.
func (s *Session) shared() bool { return s.o.Hold != nil && s.o.parent == nil && s.saver != nil }

// join gets the thread for a session of a run that has several.
func (s *Session) join(ctx context.Context) error {
	l := &s.saver.lease
	l.holder, l.lost, l.shared = string(s.o.Run), s.halt.stop, true
	if s.o.Hold.Claim {
		fence, err := s.claim(ctx)
		if err != nil {
			return err
		}
		s.o.Hold.Fence, s.o.Hold.Claim = fence, false
	}
	s.saver.fence, s.saver.claimed = s.o.Hold.Fence, true
	if l.ttl > 0 {
		l.begin(s.saver)
	}
	return nil
}

// claim claims the thread for the run, once: if it has the claim already, of which the
// caller was not told, it is that one.
func (s *Session) claim(ctx context.Context) (checkpoint.Fence, error) {
	thread, l := s.o.Log.Thread, &s.saver.lease
	w := &checkpoint.Write{Log: checkpoint.Log{Thread: thread}, Claim: true, Fence: s.o.Hold.Fence, Lease: l.ttl, Holder: l.holder}
	written, err := s.saver.writeInTime(ctx, w, time.Now())
	for takeOver(w, err) {
		written, err = s.saver.writeInTime(ctx, w, time.Now())
	}
	if fenced, ok := errors.AsType[*checkpoint.FencedError](err); ok && fenced.At == w.Fence+1 && l.ttl > 0 {
		w = &checkpoint.Write{Log: w.Log, Fence: fenced.At, Lease: l.ttl, Holder: l.holder}
		if again, aerr := s.saver.writeInTime(ctx, w, time.Now()); aerr == nil {
			written, err = again, nil
		}
	}
	switch {
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrBusy):
		return 0, &busyError{thread, err}
	case err != nil:
		return 0, &CheckpointError{Thread: thread, Op: "save", Err: err}
	}
	return written.Fence, nil
}

// handsOn reports whether other sessions of the run have tasks to run.
func (s *Session) handsOn() bool {
	return s.shared() && s.m != nil && len(s.flight.failure) == 0 && s.m.Outcome().Err == nil && s.unfinished()
}

// startable returns the range of the tasks that can be run, among which may be others;
// from is -1 if there are none.
func (s *Session) startable() (from, to int) {
	from = -1
	for i := range s.m.Tasks() {
		if s.m.Task(i).Startable() {
			if to = i + 1; from < 0 {
				from = i
			}
		}
	}
	return from, to
}

// openOp opens a thread for an operation.
func openOp(ctx context.Context, prog *Program, o *Options) (*Session, error) {
	if o.Store == nil {
		return nil, ErrNoCheckpointer
	}
	o.Durability = Sync
	s, err := Open(ctx, prog, o, "", false)
	if err != nil {
		return nil, err
	}
	if s.tip == nil {
		s.Close()
		return nil, &CheckpointError{Thread: o.Log.Thread, Op: "load", Err: fmt.Errorf("%w: the thread has no checkpoint", checkpoint.ErrNotFound)}
	}
	return s, nil
}

// RunTasks runs those tasks of the superstep that epoch planned whose index is in
// from..to-1, and records what each left beside the log: its changes and routing, its
// questions, or its error, which is returned. Tasks that have ended, ask or wait behind
// a breakpoint are left alone, and so is everything when the superstep is closed. Of two
// that run one task the first result recorded stands. Recorded says that what the error
// is about is recorded, so that the run is to be advanced. The error is [ErrUnderWay] as
// well while a task that was left behind is at a sub-step, until whose end the run's lease
// is renewed.
func RunTasks(ctx context.Context, prog *Program, o *Options, epoch checkpoint.ID, from, to int) (recorded bool, err error) {
	s, err := openOp(ctx, prog, o)
	if err != nil {
		return false, err
	}
	defer func() {
		if !s.close() && err != nil {
			err = errors.Join(err, ErrUnderWay)
		}
	}()
	if s.m.Epoch() != epoch {
		return true, nil
	}
	if n := len(s.m.Tasks()); from < 0 || to > n || from > to {
		return false, fmt.Errorf("superstep %s has %d tasks, and not those from %d to %d", epoch, n, from, to)
	}
	var due []int
	for i := from; i < to; i++ {
		if s.m.Task(i).Startable() {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return true, nil
	}
	// Renewing the lease shows that what the tasks do can be recorded: a sub-step whose
	// result can't be is not to be run again and again.
	if s.saver.lease.ttl > 0 {
		if err := s.saver.write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: o.Log.Thread}}); err != nil {
			return false, err
		}
	}
	ctx, cancel := s.halt.stoppable(ctx)
	defer cancel(nil)
	s.some = true
	s.m.Run(due)
	defer func() {
		if s.traced.end != nil {
			s.traced.leaveStep(false, err)
		}
	}()
	err = s.runStarted(ctx, due, func() error {
		if w := s.m.Results(); w != nil {
			if o.Recording != nil {
				o.Recording()
			}
			s.addNotes(w, false)
			if err := s.saver.write(ctx, w); err != nil {
				return err
			}
		}
		s.flight.tell.tell(s.flight.inbox == nil)
		if len(s.flight.failure) > 0 && s.flight.inbox != nil {
			s.flight.cancel(errSibling)
			s.flight.inbox.release()
		}
		return nil
	})
	if err != nil {
		return false, stoppedBy(ctx, err)
	}
	err = stoppedBy(ctx, s.over(ctx))
	return ctx.Err() == nil && !cutShort(err), err
}

// runStarted runs tasks that the machine counts as running and waits for them. Store
// is called each time some of them have ended.
func (s *Session) runStarted(ctx context.Context, tasks []int, store func() error) error {
	s.flight.start(ctx, tasks)
	for s.flight.inbox != nil {
		s.flight.wait(ctx)
		if err := store(); err != nil {
			s.flight.stopTasks(err)
			return err
		}
		if s.flight.inbox != nil { // workers wait for it before they take another task
			s.flight.inbox.settle()
		}
	}
	return store() // a lone task is not waited for
}

// Stand is where a run stands that is made of several sessions.
type Stand struct {
	Fence checkpoint.Fence // of its claim
	Epoch checkpoint.ID    // of the superstep that is open
	At    checkpoint.ID    // the thread's newest record

	// The tasks from From to To-1 are to be run, but for those among them that have
	// ended or wait. If there are none the run is over, and the thread given up.
	From, To int

	Asks  bool      // it is over since an answer, an event or another thread is waited for
	Due   time.Time // it is over until then: a sleep or a deadline ends
	Ended bool      // the thread has come to its end
	Err   error     // by which the run has failed
}

// AdvanceThread closes the superstep that epoch planned, whose tasks have been run, and
// plans the next: it folds what is recorded, and what the clock and events answer. Tasks
// that have failed end the run. If the superstep is closed already, it says where the run
// stands by now. An empty epoch is for the first call: it says where the thread stands, and
// tasks that failed are to be run again.
func AdvanceThread(ctx context.Context, prog *Program, o *Options, epoch checkpoint.ID) (Stand, error) {
	for {
		st, err := advance(ctx, prog, o, epoch)
		if !errors.Is(err, checkpoint.ErrConflict) { // else another call was quicker
			return st, err
		}
	}
}

func advance(ctx context.Context, prog *Program, o *Options, epoch checkpoint.ID) (Stand, error) {
	s, err := openOp(ctx, prog, o)
	if err != nil {
		return Stand{}, err
	}
	defer s.Close()
	s.KeepMetadata()
	switch {
	case epoch == "":
	case s.m.Epoch() == epoch:
		s.m.CountTasks()
		for i := range s.m.Tasks() {
			if t := s.m.Task(i); t.Status() == core.Failed {
				failed := &RecordedError{Text: t.ErrText}
				if t.Failure != nil {
					failed.causes = t.Failure.Causes
				}
				s.flight.failure = append(s.flight.failure, taskFailure{i, failed})
			}
		}
		if len(s.flight.failure) > 0 {
			s.m.Abort()
		}
	default:
		if err := s.passed(ctx, epoch); err != nil {
			return Stand{}, err
		}
		s.m.CountTasks() // whoever has run them may have died before this
	}
	if err = s.Drive(ctx); err != nil && (ctx.Err() != nil || cutShort(err)) {
		return Stand{}, err
	}
	st := Stand{Fence: s.o.Hold.Fence, Epoch: s.m.Epoch(), At: s.m.Head(), Ended: !s.m.Pending(), Err: err}
	if s.handsOn() {
		st.From, st.To = s.startable()
	}
	if st.To == 0 && err == nil {
		for _, q := range OpenQuestions(s.m) {
			if st.Asks = st.Asks || q.Due.IsZero() || q.Event != "" || !q.Wait; !q.Due.IsZero() && (st.Due.IsZero() || q.Due.Before(st.Due)) {
				st.Due = q.Due
			}
		}
	}
	return st, nil
}

// passed reports an error unless the thread has passed a superstep.
func (s *Session) passed(ctx context.Context, epoch checkpoint.ID) error {
	for r, err := range Line(ctx, s.o.Store, s.tip.Record, checkpoint.Query{Desc: true, Meta: true}) {
		if err != nil {
			return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
		}
		if r.Epoch == epoch {
			return nil
		}
	}
	return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: fmt.Errorf("%w: no superstep %s on the thread's line", checkpoint.ErrNotFound, epoch)}
}

// Submit stores what the machine has to say without starting a task, and makes the thread
// due; see Options.Wake.
func (s *Session) Submit(ctx context.Context) error {
	err := s.Flush(ctx)
	if err == nil && s.last == nil && s.m.Pending() {
		err = s.saver.write(ctx, &checkpoint.Write{Log: s.o.Log, Wake: true})
	}
	return err
}

// GiveUp ends a run that is made of several sessions where it stands. With forGood none
// of its other sessions can do anything for it any more.
func GiveUp(ctx context.Context, prog *Program, o *Options, forGood bool) error {
	s, err := openOp(ctx, prog, o)
	if err != nil {
		return err
	}
	defer s.Close()
	s.saver.lease.closing = forGood
	return s.letGo(ctx)
}
