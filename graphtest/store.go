package graphtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// ErrCrashed is returned by a [Store] that has crashed.
var ErrCrashed = errors.New("graphtest: the store has crashed")

// ErrFault is the error of a fault that doesn't name another.
var ErrFault = errors.New("graphtest: injected fault")

// Effect is what a [StoreFault] does to a write.
type Effect int

// The effects.
const (
	// Fail makes the write return an error. Others work.
	Fail Effect = iota

	// Crash makes the write and every later call fail, as if the process had
	// died, until [Store.Restart].
	Crash

	// Block makes the write wait until its context ends.
	Block
)

// StoreFault is a fault of one write.
type StoreFault struct {
	Write  int // which write, counted from 1 over the life of the Store
	Effect Effect
	After  bool  // the write takes effect, and only its answer is lost
	Err    error // of Fail; nil means ErrFault
}

// Store is a [checkpoint.Store] whose writes fail as told. It hands everything
// else on to the store it wraps, locks, copies and lists included. It is safe
// for concurrent use.
type Store struct {
	inner checkpoint.Store

	mu      sync.Mutex
	faults  []StoreFault
	writes  int
	fired   int
	crashed bool
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Lister = (*Store)(nil)
	_ checkpoint.Copier = (*Store)(nil)
	_ checkpoint.Locker = (*Store)(nil)

	_ checkpoint.Scheduler = (*Store)(nil)
	_ checkpoint.Rewriter  = (*Store)(nil)
)

// NewStore wraps inner. The store is closed with inner.
func NewStore(inner checkpoint.Store, faults ...StoreFault) *Store {
	return &Store{inner: inner, faults: faults}
}

// Writes returns how many writes have been asked for.
func (s *Store) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Fired returns how many faults have happened.
func (s *Store) Fired() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}

// Restart ends a crash: what was written before it is there.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = false
}

func (s *Store) alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashed {
		return ErrCrashed
	}
	return nil
}

// next counts a write and returns its fault, if it has one.
func (s *Store) next() (f StoreFault, has bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashed {
		return f, false, ErrCrashed
	}
	s.writes++
	for _, f := range s.faults {
		if f.Write == s.writes {
			s.fired++
			if f.Effect == Crash {
				s.crashed = true
			}
			return f, true, nil
		}
	}
	return f, false, nil
}

// Write implements [checkpoint.Store].
func (s *Store) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	f, faulty, err := s.next()
	if err != nil {
		return checkpoint.Written{}, err
	}
	if !faulty {
		return s.inner.Write(ctx, w)
	}
	if f.After {
		if out, err := s.inner.Write(ctx, w); err != nil {
			return out, err
		}
	}
	switch f.Effect {
	case Crash:
		err = ErrCrashed
	case Block:
		<-ctx.Done()
		err = ctx.Err()
	default:
		if err = f.Err; err == nil {
			err = fmt.Errorf("%w: write %d", ErrFault, f.Write)
		}
	}
	return checkpoint.Written{}, err
}

// Head implements [checkpoint.Store].
func (s *Store) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if err := s.alive(); err != nil {
		return nil, 0, err
	}
	return s.inner.Head(ctx, log)
}

// Get implements [checkpoint.Store].
func (s *Store) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.inner.Get(ctx, log, id)
}

// Records implements [checkpoint.Store].
func (s *Store) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	if err := s.alive(); err != nil {
		return func(yield func(*checkpoint.Record, error) bool) { yield(nil, err) }
	}
	return s.inner.Records(ctx, q)
}

// Results implements [checkpoint.Store].
func (s *Store) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.inner.Results(ctx, log, branch, epoch)
}

// Delete implements [checkpoint.Store].
func (s *Store) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := s.alive(); err != nil {
		return err
	}
	return s.inner.Delete(ctx, thread)
}

// Close implements [checkpoint.Store].
func (s *Store) Close() error { return s.inner.Close() }

// Lock implements [checkpoint.Locker]. If the wrapped store has no locks, every
// lock is given.
func (s *Store) Lock(ctx context.Context, thread checkpoint.ThreadID, holder string, mode checkpoint.LockMode, evict func()) (release func(stopped bool), evicted []string, err error) {
	if l, ok := s.inner.(checkpoint.Locker); ok {
		return l.Lock(ctx, thread, holder, mode, evict)
	}
	return func(bool) {}, nil, nil
}

// Threads implements [checkpoint.Lister]. If the wrapped store can't list, it
// yields errors.ErrUnsupported.
func (s *Store) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	err := s.alive()
	if l, ok := s.inner.(checkpoint.Lister); ok && err == nil {
		return l.Threads(ctx, f)
	} else if err == nil {
		err = fmt.Errorf("listing threads: %w", errors.ErrUnsupported)
	}
	return func(yield func(checkpoint.ThreadInfo, error) bool) { yield(checkpoint.ThreadInfo{}, err) }
}

// Logs implements [checkpoint.Lister].
func (s *Store) Logs(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	err := s.alive()
	if l, ok := s.inner.(checkpoint.Lister); ok && err == nil {
		return l.Logs(ctx, thread)
	} else if err == nil {
		err = fmt.Errorf("listing logs: %w", errors.ErrUnsupported)
	}
	return func(yield func(checkpoint.LogInfo, error) bool) { yield(checkpoint.LogInfo{}, err) }
}

// Due implements [checkpoint.Scheduler]. If the wrapped store knows nothing of
// time, it yields errors.ErrUnsupported.
func (s *Store) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.waiting(func(sch checkpoint.Scheduler) iter.Seq2[checkpoint.Waiting, error] {
		return sch.Due(ctx, before, limit)
	})
}

// Abandoned implements [checkpoint.Scheduler], as Due.
func (s *Store) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.waiting(func(sch checkpoint.Scheduler) iter.Seq2[checkpoint.Waiting, error] { return sch.Abandoned(ctx, limit) })
}

func (s *Store) waiting(list func(checkpoint.Scheduler) iter.Seq2[checkpoint.Waiting, error]) iter.Seq2[checkpoint.Waiting, error] {
	err := s.alive()
	if sch, ok := s.inner.(checkpoint.Scheduler); ok && err == nil {
		return list(sch)
	} else if err == nil {
		err = fmt.Errorf("listing threads that wait: %w", errors.ErrUnsupported)
	}
	return func(yield func(checkpoint.Waiting, error) bool) { yield(checkpoint.Waiting{}, err) }
}

// Rewrite implements [checkpoint.Rewriter]. If the wrapped store can't shorten
// logs, it returns errors.ErrUnsupported.
func (s *Store) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := s.alive(); err != nil {
		return err
	}
	if rw, ok := s.inner.(checkpoint.Rewriter); ok {
		return rw.Rewrite(ctx, r)
	}
	return fmt.Errorf("shortening a thread: %w", errors.ErrUnsupported)
}

// Copy implements [checkpoint.Copier]. If the wrapped store can't copy, it
// returns errors.ErrUnsupported.
func (s *Store) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := s.alive(); err != nil {
		return err
	}
	if c, ok := s.inner.(checkpoint.Copier); ok {
		return c.Copy(ctx, from, to)
	}
	return fmt.Errorf("copying a thread: %w", errors.ErrUnsupported)
}
