package checkpoint

import (
	"errors"
	"sync"
)

// ErrBusy: a run holds the thread.
var ErrBusy = errors.New("checkpoint: thread is busy")

// Locker is implemented by stores that let one run at a time hold a thread.
// Where it reaches beyond the process depends on the store; two writers that
// it cannot see still meet [ErrConflict] or [ErrFenced].
type Locker interface {
	// TryLock holds the thread until release is called. It returns ErrBusy,
	// without waiting, when somebody holds it.
	TryLock(thread ThreadID) (release func(), err error)
}

// Locks is a [Locker] for the runs of one process, to be embedded by stores.
// The zero value is ready to use.
type Locks struct {
	mu   sync.Mutex
	held map[ThreadID]struct{}
}

// TryLock implements [Locker].
func (l *Locks) TryLock(thread ThreadID) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.held[thread]; ok {
		return nil, ErrBusy
	}
	if l.held == nil {
		l.held = map[ThreadID]struct{}{}
	}
	l.held[thread] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, thread)
	}, nil
}
