package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// mostHeld bounds the writes that wait under Async.
const mostHeld = 64

const defaultSaveTimeout = 10 * time.Second

// saver stores the writes of one run, in order.
type saver struct {
	store   checkpoint.Store
	thread  checkpoint.ThreadID
	mode    Durability
	timeout time.Duration

	mu      sync.Mutex
	fence   checkpoint.Fence // of the claim; before it, that of what was read
	claimed bool
	lease   lease
	held    []*checkpoint.Write // to be stored: under Async in the background, under Exit at the end
	spare   []*checkpoint.Write // room for more of them
	behind  bool                // somebody is about to store them
	failed  error               // why one could not be stored
	storing chan struct{}       // has room for one who does so, in order; nil under Sync

	// Of the write under way, and kept for the next one.
	clock  sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	slow   watch
}

func newSaver(o *Options) *saver {
	s := &saver{store: o.Store, thread: o.Log.Thread, mode: o.Durability, timeout: o.SaveTimeout}
	if s.timeout <= 0 {
		s.timeout = defaultSaveTimeout
	}
	s.slow.limit, s.slow.of = s.timeout, s
	if s.mode != Sync {
		s.storing = make(chan struct{}, 1)
	}
	if s.mode != Exit { // which writes when all is over
		s.lease.ttl = o.Lease
	}
	return s
}

// overdue is told of a write that takes too long.
func (s *saver) overdue() { s.cancel(context.DeadlineExceeded) }

// save stores w as the durability says. The context's end doesn't stop it:
// what was done is to be kept. The caller may alter w when save has returned.
func (s *saver) save(ctx context.Context, w *checkpoint.Write) error {
	if s.mode == Sync || s.mode == Async && !s.isClaimed() {
		return s.write(ctx, w)
	}
	full, start := s.hold(new(*w))
	switch {
	case s.mode == Exit:
		return nil
	case full:
		return s.storeHeld(ctx)
	case start:
		go s.storeHeld(ctx)
	}
	return s.failure()
}

// saveNow stores w before it returns, unless all is kept for the end.
func (s *saver) saveNow(ctx context.Context, w *checkpoint.Write) error {
	if s.mode != Async || !s.isClaimed() {
		return s.save(ctx, w)
	}
	s.hold(w)
	return s.storeHeld(ctx)
}

// hold adds a write to those that are to be stored. It reports whether there are many, and
// whether nobody is about to store them: then the caller does so.
func (s *saver) hold(w *checkpoint.Write) (full, start bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, w)
	full, start = len(s.held) > mostHeld, !s.behind
	s.behind = true
	return full, start
}

// seen notes the fence of what was read, on which the claim will be based.
func (s *saver) seen(fence checkpoint.Fence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.claimed {
		s.fence = fence
	}
}

// forget drops what is held for a log and the logs below it: what wrote it
// starts again.
func (s *saver) forget(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = slices.DeleteFunc(s.held, func(w *checkpoint.Write) bool {
		ns := w.Log.Namespace
		return ns == namespace || checkpoint.Below(ns, namespace)
	})
}

func (s *saver) isClaimed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed
}

func (s *saver) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// flush stores everything that waits.
func (s *saver) flush(ctx context.Context) error {
	if s.mode == Sync {
		return nil
	}
	return s.storeHeld(ctx)
}

// storeHeld stores what is held, in order; after a failure nothing more.
func (s *saver) storeHeld(ctx context.Context) error {
	s.storing <- struct{}{}
	defer func() { <-s.storing }()
	for {
		s.mu.Lock()
		held, failed := s.held, s.failed
		s.held, s.spare = s.spare[:0], held
		s.behind = len(held) > 0 && failed == nil
		s.mu.Unlock()
		if len(held) == 0 || failed != nil {
			clear(held)
			return failed
		}
		for _, w := range held {
			if failed = s.write(ctx, w); failed != nil {
				break
			}
		}
		clear(held)
		s.mu.Lock()
		s.failed = failed
		s.mu.Unlock()
	}
}

// readable has what this run wrote to the log of a subgraph that keeps its state in the store,
// where another task is to read it. A log that is a task's own is read by its next attempt,
// before which Async has stored what waits, and Exit begins it anew.
func (s *saver) readable(ctx context.Context, namespace string, keeps bool) error {
	switch {
	case s.mode == Exit && !keeps:
		s.forget(namespace)
	case s.mode == Exit && s.holds(namespace), s.mode == Async && keeps:
		return s.storeHeld(ctx)
	}
	return nil
}

// holds reports whether something is held for a log.
func (s *saver) holds(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held, func(w *checkpoint.Write) bool { return w.Log.Namespace == namespace })
}

// writeInTime writes with the save timeout. The context's own end doesn't count.
// A context with a deadline costs more than a small write, so one is kept from
// write to write until one was in time no more.
func (s *saver) writeInTime(ctx context.Context, w *checkpoint.Write, now time.Time) (checkpoint.Written, error) {
	if !s.clock.TryLock() { // tasks that save at the same time have their own
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		return s.store.Write(ctx, w)
	}
	defer s.clock.Unlock()
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	}
	s.slow.begin(now)
	written, err := s.store.Write(s.ctx, w)
	if s.slow.end() {
		if err != nil {
			err = fmt.Errorf("%w after %v: %w", context.DeadlineExceeded, s.timeout, err)
		}
		s.ctx = nil
	}
	return written, err
}

func (s *saver) write(ctx context.Context, w *checkpoint.Write) error {
	s.mu.Lock()
	claim := !s.claimed
	w.Fence = s.fence
	if claim {
		w.Claim, w.Lease, w.Holder = true, s.lease.ttl, s.lease.holder
		if w.Release {
			w.Lease = 0
		}
	} else if w.Release {
		w.Holder = s.lease.holder
	} else if s.lease.shared { // each session of the run renews it
		w.Lease, w.Holder = s.lease.ttl, s.lease.holder
	}
	s.mu.Unlock()
	now := time.Now()
	if w.Record != nil {
		w.Record.CreatedAt = now.UTC().Truncate(time.Microsecond)
		if c := w.Record.Changes; len(c) == 1 && c[0].Began != 0 {
			c[0].Began = now.UnixMicro() - c[0].Took // which the record needn't say
		}
	}
	if w.Release && !claim { // not while the lease is being renewed
		s.lease.mu.Lock()
		defer s.lease.mu.Unlock()
	}
	written, err := s.writeInTime(ctx, w, now)
	for claim && takeOver(w, err) {
		written, err = s.writeInTime(ctx, w, time.Now())
	}
	switch {
	case errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrBusy):
		return &busyError{s.thread, err}
	case err != nil:
		return &CheckpointError{Thread: s.thread, Op: "save", Err: err}
	}
	if claim || written.Fence != w.Fence {
		s.mu.Lock()
		s.fence, s.claimed = written.Fence, true
		s.mu.Unlock()
	}
	switch {
	case claim && w.Lease > 0:
		s.lease.begin(s)
	case w.Release && s.lease.held:
		s.lease.end()
	}
	return nil
}

// busyError is ErrThreadBusy with its cause.
type busyError struct {
	thread checkpoint.ThreadID
	cause  error
}

func (e *busyError) Error() string {
	return "thread " + string(e.thread) + ": " + ErrThreadBusy.Error() + " (" + e.cause.Error() + ")"
}

func (e *busyError) Is(target error) bool { return target == ErrThreadBusy }

func (e *busyError) Unwrap() error { return e.cause }
