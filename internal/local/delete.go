package local

import (
	"context"
	"errors"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Delete removes a thread. A run that holds it makes the deletion fail with
// [ErrThreadBusy], or wait for the run's end, or stops the run, as the policy says:
// [Rollback] is [Interrupt]. A run that has certainly died holds nothing. An
// unknown thread is no error. If the context ends before the thread is deleted,
// nothing is, and the error is its cause.
func Delete(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID, policy BusyPolicy) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := visitor(store, thread)
	unlock, err := s.lock(ctx, policy)
	if err != nil {
		return err
	}
	defer unlock(false)
	defer func() { _ = s.release(ctx, func(context.Context) bool { return false }) }()
	if _, err := s.acquire(ctx, policy); errors.Is(err, checkpoint.ErrBusy) {
		return err
	}
	if ctx.Err() != nil { // which the claim does not mind
		return context.Cause(ctx)
	}
	forsake(ctx, store, thread)
	// Whatever else keeps the claim from being written, a full disk or a damaged
	// thread, must not keep the thread from being deleted.
	if err := store.Delete(ctx, thread); err != nil {
		return err
	}
	s.disclaim() // the lease is gone with the thread
	return nil
}

// visitor returns what holds a thread for something that is no run. Its lease keeps
// others out.
func visitor(store checkpoint.Store, thread checkpoint.ThreadID) *saver {
	s := newSaver(&Options{Store: store, Log: checkpoint.Log{Thread: thread}})
	s.lease.ttl, s.lease.holder, s.lease.lost = DefaultLease, holderOf(checkpoint.NewRunID()), func(error) {}
	return s
}

// lock gets the thread among the runs of this process, as the policy says.
func (s *saver) lock(ctx context.Context, policy BusyPolicy) (unlock func(stopped bool), err error) {
	locker, ok := s.store.(checkpoint.Locker)
	if !ok {
		return func(bool) {}, nil
	}
	if unlock, _, err = locker.Lock(ctx, s.thread, s.lease.holder, policy.lock(), nil); err != nil {
		return nil, &busyError{s.thread, err}
	}
	return unlock, nil
}
