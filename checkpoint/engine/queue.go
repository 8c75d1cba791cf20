package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
)

// queue lets writers share commits. Whoever finds the driver free commits all that
// waits, at once; a lone writer does not wait.
type queue struct {
	driver Driver
	lead   chan struct{} // held by whoever calls Commit
	stop   chan struct{} // closed when the store is

	mu      sync.Mutex
	waiting []*waiting
}

type waiting struct {
	commit *Commit
	err    error
	done   chan struct{}
}

func (q *queue) init(d Driver, writers int) {
	q.driver, q.lead, q.stop = d, make(chan struct{}, writers), make(chan struct{})
}

// close waits for the commits that are under way, and lets no other begin.
func (q *queue) close() {
	for range cap(q.lead) {
		q.lead <- struct{}{}
	}
	close(q.stop)
}

// submit commits c. Its own error is c.Err.
func (q *queue) submit(ctx context.Context, c *Commit) error {
	select {
	case q.lead <- struct{}{}:
		q.mu.Lock()
		none := len(q.waiting) == 0
		q.mu.Unlock()
		if none {
			defer func() { <-q.lead }()
			return q.driver.Commit(ctx, []*Commit{c})
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

// withdraw has nobody begin to commit w.
func (q *queue) withdraw(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
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
	err := q.driver.Commit(ctx, commits)
	_, apart := errors.AsType[undone](err)
	apart = apart && len(batch) > 1
	for _, w := range batch {
		if w.err = err; apart { // each gets its own answer
			w.commit.Err, w.commit.Ignored = nil, 0
			w.err = q.driver.Commit(ctx, []*Commit{w.commit})
		}
		close(w.done)
	}
	return true
}
