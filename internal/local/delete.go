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
	s := &saver{store: store, thread: thread, timeout: defaultSaveTimeout}
	// The lease keeps others out until the thread is gone.
	s.lease.ttl, s.lease.holder, s.lease.lost = DefaultLease, holderOf(checkpoint.NewRunID()), func(error) {}
	if locker, ok := store.(checkpoint.Locker); ok {
		mode := checkpoint.TryLock
		switch policy {
		case Queue:
			mode = checkpoint.WaitLock
		case Interrupt, Rollback:
			mode = checkpoint.EvictLock
		}
		release, _, err := locker.Lock(ctx, thread, s.lease.holder, mode, nil)
		if err != nil {
			return &busyError{thread, err}
		}
		defer release()
	}
	defer s.release(ctx, func(context.Context) bool { return false })
	if _, err := s.acquire(ctx, policy); errors.Is(err, checkpoint.ErrBusy) {
		return err
	}
	if ctx.Err() != nil { // which the claim does not mind
		return context.Cause(ctx)
	}
	// Whatever else keeps the claim from being written, a full disk or a damaged
	// thread, must not keep the thread from being deleted.
	if err := store.Delete(ctx, thread); err != nil {
		return err
	}
	s.disclaim() // the lease is gone with the thread
	return nil
}
