package local

import (
	"context"
	"errors"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Delete removes a thread. A run that holds it makes the deletion fail with
// [ErrThreadBusy], or wait for the run's end, or stops the run, as the policy says:
// [Rollback] is [Interrupt]. A run that has certainly died holds nothing. An
// unknown thread is no error.
func Delete(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID, policy BusyPolicy) error {
	s := &saver{store: store, thread: thread, timeout: defaultSaveTimeout}
	// The lease keeps others out until the thread is gone; nobody renews it.
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
	_, err := s.acquire(ctx, policy)
	held := err == nil
	if errors.Is(err, checkpoint.ErrBusy) || ctx.Err() != nil {
		return err
	}
	// Whatever else keeps the claim from being written, a full disk or a damaged
	// thread, must not keep the thread from being deleted.
	err = store.Delete(ctx, thread)
	if held {
		s.lease.mu.Lock()
		s.lease.end()
		s.lease.mu.Unlock()
	}
	if err != nil && held {
		s.lease.mu.Lock()
		defer s.lease.mu.Unlock()
		_, _ = store.Write(context.WithoutCancel(ctx), &checkpoint.Write{Log: checkpoint.Log{Thread: thread}, Fence: s.fence, Release: true})
	}
	return err
}
