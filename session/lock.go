package session

import (
	"context"
	"fmt"
	"sync"
)

// BusyError says that another run is working in a session.
type BusyError struct {
	Key Key
	Err error // that of the graph's thread, if it was that which is busy
}

func (e *BusyError) Error() string {
	s := fmt.Sprintf("%v: %v: another run is working in it; wait for its end, or set Options.Queue", ErrBusy, e.Key)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Unwrap returns the cause.
func (e *BusyError) Unwrap() error { return e.Err }

// queues lets one run at a time work in a session, in the order in which they
// came.
type queues struct {
	mu  sync.Mutex
	all map[Key][]chan struct{} // the first one works; the others wait for theirs to be closed
}

// enter returns when the caller may work in a session.
func (q *queues) enter(ctx context.Context, key Key, wait bool) error {
	q.mu.Lock()
	if q.all == nil {
		q.all = map[Key][]chan struct{}{}
	}
	line := q.all[key]
	if len(line) > 0 && !wait {
		q.mu.Unlock()
		return &BusyError{Key: key}
	}
	turn := make(chan struct{})
	if len(line) == 0 {
		close(turn)
	}
	q.all[key] = append(line, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		q.leave(key, turn)
		return ctx.Err()
	}
}

// done ends the work of the first one.
func (q *queues) done(key Key) { q.leave(key, nil) }

// leave takes somebody, nil means the first one, out of the line.
func (q *queues) leave(key Key, who chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.all[key]
	for i, c := range line {
		if who != nil && c != who {
			continue
		}
		rest := append(line[:i:i], line[i+1:]...)
		if len(rest) == 0 {
			delete(q.all, key)
			return
		}
		if q.all[key] = rest; i == 0 {
			close(rest[0])
		}
		return
	}
}
