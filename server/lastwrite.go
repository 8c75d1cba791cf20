package server

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// lastWrite is the store that a run works on where checkpoints and the server's tables are in
// one database. What the run writes last, when its graph has come to its end, waits here for
// the end of the run to be noted, and is stored in the same transaction: it saves one, and
// the run is not over before its last checkpoint is there, nor after. Until then the thread is
// the run's. Whoever reads the thread by this store sees what waits; what else is done by it
// has that stored before.
//
// A nil *lastWrite is one in which nothing ever waits.
type lastWrite struct {
	*postgres.Store
	thread checkpoint.ThreadID

	mu      sync.Mutex
	waits   *checkpoint.Write
	release func()
}

// lastWrite returns the store of a run on a thread; nil if it is the server's.
func (s *executor) lastWrite(run *db.Run) *lastWrite {
	// What came of an earlier attempt is read where it is stored.
	if s.joint == nil || s.fleet != nil || run.Attempt > 1 {
		return nil
	}
	return &lastWrite{Store: s.joint, thread: checkpoint.ThreadID(run.ThreadID)}
}

// on returns the run's thread, with what waits.
func (x *execution) on(g *served) *graph.Thread[json.RawMessage] {
	if x.last == nil {
		return x.base.on(g, x.run.ThreadID)
	}
	return g.Thread(x.run.ThreadID, graph.WithCheckpointer(x.last), memory.Use(x.memory))
}

// isLast reports whether with a write a run gives its thread up, at the end of its graph.
func (l *lastWrite) isLast(w *checkpoint.Write) bool {
	r := w.Record
	return w.Log == checkpoint.Log{Thread: l.thread} && w.Release && !w.Claim && r != nil && r.Epoch == r.ID && len(r.Tasks)+len(r.Paused) == 0
}

// Write implements [checkpoint.Store].
func (l *lastWrite) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if err := l.flush(ctx); err != nil {
		return checkpoint.Written{}, err
	}
	if !l.isLast(w) {
		return l.Store.Write(ctx, w)
	}
	own := *w
	own.Results, own.Remove = slices.Clone(w.Results), slices.Clone(w.Remove)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = &own
	return checkpoint.Written{Fence: w.Fence}, nil
}

// store stores what waits, alone. The caller holds the lock.
func (l *lastWrite) store(ctx context.Context) error {
	if l.waits == nil {
		return nil
	}
	_, err := l.Store.Write(ctx, l.waits)
	l.stored(err)
	return err
}

// stored notes what came of storing what waits. After an error of the database's it goes on
// waiting. The caller holds the lock.
func (l *lastWrite) stored(err error) {
	if err != nil && !engine.Agreed(err) {
		return
	}
	l.waits = nil
	l.giveUp()
}

// giveUp gives the thread up, if the run has. The caller holds the lock.
func (l *lastWrite) giveUp() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}

// flush stores what waits, alone.
func (l *lastWrite) flush(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store(ctx)
}

// storeIn stores what waits in a transaction, see [db.End].
func (l *lastWrite) storeIn(ctx context.Context, within postgres.Within) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits == nil {
		return within(ctx, func(postgres.Tx) error { return nil })
	}
	_, err := l.WriteIn(ctx, l.waits, func(ctx context.Context, write func(postgres.Tx) error) error {
		return within(ctx, func(tx postgres.Tx) error {
			err := write(tx)
			if err == nil { // whoever sees that the run is over finds its thread free
				l.giveUp()
			}
			return err
		})
	})
	l.stored(err)
	return err
}

// end stores what still waits, since the run's end could not be noted. If that can't be
// done either, whoever goes on with the run does the superstep again.
func (l *lastWrite) end(ctx context.Context) {
	if l.flush(ctx) != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stored(nil)
	}
}

// any reports whether something waits.
func (l *lastWrite) any() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits != nil
}

// Lock implements [checkpoint.Locker]. While something waits the thread isn't given up.
func (l *lastWrite) Lock(ctx context.Context, thread checkpoint.ThreadID, holder string, mode checkpoint.LockMode, evict func()) (func(stopped bool), []string, error) {
	release, evicted, err := l.Store.Lock(ctx, thread, holder, mode, evict)
	if err != nil || thread != l.thread {
		return release, evicted, err
	}
	return func(stopped bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waits != nil {
			l.release = func() { release(stopped) }
			return
		}
		release(stopped)
	}, evicted, nil
}

// Head implements [checkpoint.Store].
func (l *lastWrite) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	l.mu.Lock()
	w := l.waits
	l.mu.Unlock()
	if w != nil && w.Log == log {
		return w.Record, w.Fence, nil
	}
	return l.Store.Head(ctx, log)
}

// Records implements [checkpoint.Store].
func (l *lastWrite) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		newest, err := l.selected(ctx, &q)
		if err != nil {
			yield(nil, err)
			return
		}
		if newest != nil && q.Desc && !yield(newest, nil) {
			return
		}
		for r, err := range l.Store.Records(ctx, q) {
			if !yield(r, err) || err != nil {
				return
			}
		}
		if newest != nil && !q.Desc {
			yield(newest, nil)
		}
	}
}

// selected returns the record that waits if a query selects it, nil if not. It stores it if
// that isn't easily told.
func (l *lastWrite) selected(ctx context.Context, q *checkpoint.Query) (*checkpoint.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waits == nil || q.Log != l.waits.Log:
		return nil, nil
	case q.AllBranches || q.Limit > 0:
		return nil, l.store(ctx)
	}
	if r := l.waits.Record; r.Branch == q.Branch && r.Seq >= q.From && (q.To == 0 || r.Seq <= q.To) {
		return r, nil
	}
	return nil, nil
}

// Get implements [checkpoint.Store].
func (l *lastWrite) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	return l.Store.Get(ctx, log, id)
}

// Results implements [checkpoint.Store].
func (l *lastWrite) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	return l.Store.Results(ctx, log, branch, epoch)
}
