package checkpoint

import (
	"context"
	"sync"
)

// LockMode says what [Locker.Lock] does when another run holds the thread.
type LockMode uint8

// The modes.
const (
	TryLock   LockMode = iota // return a *BusyError
	WaitLock                  // wait in line, first come first served
	EvictLock                 // ask it, and those before it in the line, to give the thread up, and wait
)

// Locker is implemented by stores that let one run of this process at a time
// hold a thread. Runs of other processes meet [ErrBusy], [ErrFenced] or
// [ErrConflict] when they write.
type Locker interface {
	// Lock holds the thread for a run until release is called. Evict, which
	// may be nil, is called at most once, when another run asks for the
	// thread. Evicted are the holders that this call has asked to give it up
	// and that did, in order: those that released it as stopped. The others came
	// to an end of their own before they heard of it. When the context ends while
	// it waits, Lock returns its error.
	Lock(ctx context.Context, thread ThreadID, holder string, mode LockMode, evict func()) (release func(stopped bool), evicted []string, err error)
}

// Locks is a [Locker], to be embedded by stores. The zero value is ready to use.
type Locks struct {
	mu   sync.Mutex
	held map[ThreadID]*lock
}

// lock is a thread that is held: the claimant is its holder.
type lock struct {
	claimant
	line []*claimant
}

type claimant struct {
	holder  string
	evict   func()
	mode    LockMode
	turn    chan struct{}
	evicted []string
}

// Lock implements [Locker].
func (l *Locks) Lock(ctx context.Context, thread ThreadID, holder string, mode LockMode, evict func()) (release func(stopped bool), evicted []string, err error) {
	l.mu.Lock()
	k := l.held[thread]
	if k == nil {
		if l.held == nil {
			l.held = map[ThreadID]*lock{}
		}
		l.held[thread] = &lock{claimant: claimant{holder: holder, evict: evict}}
		l.mu.Unlock()
		return l.release(thread), nil, nil
	}
	if mode == TryLock {
		defer l.mu.Unlock()
		return nil, nil, &BusyError{Thread: thread, Lease: Lease{Holder: k.holder}}
	}
	w := &claimant{holder: holder, evict: evict, mode: mode, turn: make(chan struct{})}
	k.line = append(k.line, w)
	push := k.push()
	l.mu.Unlock()
	push()
	select {
	case <-w.turn:
		return l.release(thread), w.evicted, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for i := range k.line {
		if k.line[i] == w {
			k.line = append(k.line[:i], k.line[i+1:]...)
			l.mu.Unlock()
			return nil, w.evicted, ctx.Err()
		}
	}
	l.mu.Unlock()
	l.release(thread)(false) // its turn came at the same time
	return nil, w.evicted, ctx.Err()
}

// push notes the holder with all in the line who want it to go, and returns a
// function that tells it, to be called without l.mu.
func (k *lock) push() func() {
	wanted := false
	for _, w := range k.line {
		if n := len(w.evicted); w.mode == EvictLock && (n == 0 || w.evicted[n-1] != k.holder) {
			w.evicted = append(w.evicted, k.holder)
			wanted = true
		}
	}
	evict := k.evict
	if !wanted || evict == nil {
		return func() {}
	}
	k.evict = nil
	return evict
}

// pardon takes the holder from those whom the line has evicted.
func (k *lock) pardon() {
	for _, w := range k.line {
		if n := len(w.evicted); n > 0 && w.evicted[n-1] == k.holder {
			w.evicted = w.evicted[:n-1]
		}
	}
}

// release returns a function that hands the thread on, once.
func (l *Locks) release(thread ThreadID) func(stopped bool) {
	var once sync.Once
	return func(stopped bool) {
		once.Do(func() {
			l.mu.Lock()
			k := l.held[thread]
			if !stopped {
				k.pardon()
			}
			if len(k.line) == 0 {
				delete(l.held, thread)
				l.mu.Unlock()
				return
			}
			next := k.line[0]
			k.line = k.line[1:]
			k.holder, k.evict = next.holder, next.evict
			push := k.push()
			close(next.turn)
			l.mu.Unlock()
			push()
		})
	}
}
