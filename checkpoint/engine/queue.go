package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// queue lets writers share commits. Whoever finds the driver free commits all that
// waits, at once; a lone writer does not wait.
type queue struct {
	driver Driver
	leave  time.Duration // see Options.Leave
	lead   chan struct{} // held by whoever calls Commit
	stop   chan struct{} // closed when the store is

	mu      sync.Mutex
	waiting []*waiting
	closed  bool
	going   sync.WaitGroup                          // calls that callers may leave; begun with mu held
	left    map[checkpoint.ThreadID][]chan struct{} // those that were, closed when they end
}

type waiting struct {
	commit *Commit
	err    error
	done   chan struct{}
}

func (q *queue) init(d Driver, o Options) {
	q.driver, q.leave, q.lead, q.stop = d, o.Leave, make(chan struct{}, max(o.Writers, 1)), make(chan struct{})
	q.left = map[checkpoint.ThreadID][]chan struct{}{}
}

// close waits for the commits that are under way, and lets no other begin.
func (q *queue) close() {
	for range cap(q.lead) {
		q.lead <- struct{}{}
	}
	close(q.stop)
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.going.Wait()
}

// change calls the driver to change a thread. If the caller leaves, and [Options.Leave] is set,
// the call goes on for a while: whoever comes to the thread next waits for it.
func (q *queue) change(ctx context.Context, id checkpoint.ThreadID, call func(context.Context) error) error {
	if q.leave == 0 || ctx.Done() == nil {
		return call(ctx)
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return checkpoint.ErrClosed
	}
	q.going.Add(1)
	q.mu.Unlock()
	var err error
	done := make(chan struct{})
	going, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer q.going.Done()
		defer end()
		err = call(going)
		q.ended(id, done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
	}
	time.AfterFunc(q.leave, end)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaves(id, done)
	return ctx.Err()
}

// leaves notes, with mu held, that the caller of what changes a thread has left, unless that
// has ended.
func (q *queue) leaves(id checkpoint.ThreadID, done chan struct{}) {
	select {
	case <-done:
	default:
		q.left[id] = append(q.left[id], done)
	}
}

// ended says that what changes a thread has ended.
func (q *queue) ended(id checkpoint.ThreadID, done chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(done)
	if len(q.left[id]) == 0 {
		return
	}
	if l := slices.DeleteFunc(slices.Clone(q.left[id]), func(c chan struct{}) bool { return c == done }); len(l) > 0 {
		q.left[id] = l
	} else {
		delete(q.left, id)
	}
}

// await waits for the calls that were left which change a thread.
func (q *queue) await(ctx context.Context, id checkpoint.ThreadID) error {
	for q.leave > 0 {
		q.mu.Lock()
		left := q.left[id]
		q.mu.Unlock()
		if len(left) == 0 {
			break
		}
		select {
		case <-left[0]:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// submit commits c. Its own error is c.Err.
func (q *queue) submit(ctx context.Context, c *Commit) error {
	if err := q.await(ctx, c.Thread); err != nil {
		return err
	}
	select {
	case q.lead <- struct{}{}:
		q.mu.Lock()
		none := len(q.waiting) == 0
		q.mu.Unlock()
		if none {
			defer func() { <-q.lead }()
			return q.commit(ctx, []*Commit{c})
		}
		<-q.lead
	default:
	}
	mine := &waiting{commit: c, done: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, mine)
	q.mu.Unlock()
	for lead := q.lead; ; {
		select {
		case <-mine.done:
			return mine.err
		case lead <- struct{}{}:
			if !q.run(ctx, mine) {
				lead = nil // somebody else commits it: there is nothing to lead for
			}
			<-q.lead
		case <-ctx.Done():
			q.withdraw(mine)
			return ctx.Err()
		case <-q.stop:
			select {
			case <-mine.done:
				return mine.err
			default:
				return checkpoint.ErrClosed
			}
		}
	}
}

// commit commits. Callers leave none but those of their own alone.
func (q *queue) commit(ctx context.Context, batch []*Commit) error {
	if q.leave == 0 { // which needs no memory
		return q.driver.Commit(ctx, batch)
	}
	return q.change(ctx, batch[0].Thread, func(ctx context.Context) error { return q.driver.Commit(ctx, batch) })
}

// withdraw has nobody begin to commit w. If somebody has, its caller leaves that.
func (q *queue) withdraw(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else if q.leave > 0 {
		q.leaves(w.commit.Thread, w.done)
	}
}

// maxBatch is how many commits are made together at most.
const maxBatch = 128

// run commits what waits, mine among it if nobody else has. It reports whether anything
// waited.
func (q *queue) run(ctx context.Context, mine *waiting) bool {
	q.mu.Lock()
	n := min(len(q.waiting), maxBatch)
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	q.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	if len(batch) > 1 || batch[0] != mine {
		ctx = context.WithoutCancel(ctx) // the others' writes are no matter of this one's
	}
	commits := make([]*Commit, len(batch))
	for i, w := range batch {
		commits[i] = w.commit
	}
	err := q.commit(ctx, commits)
	_, apart := errors.AsType[undone](err)
	apart = apart && len(batch) > 1
	for _, w := range batch {
		if w.err = err; apart { // each gets its own answer
			w.commit.Err, w.commit.Ignored = nil, 0
			w.err = q.driver.Commit(ctx, []*Commit{w.commit})
		}
		q.ended(w.commit.Thread, w.done)
	}
	return true
}
