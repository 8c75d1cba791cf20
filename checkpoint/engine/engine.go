package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Options are what an engine may make of its driver. The zero value is fine.
type Options struct {
	// Writers is how many calls of Commit may be under way at once; 0 means one.
	Writers int

	// Remove is how many rows a commit removes at most while others are left: more go in
	// several commits, so that nobody waits long for one; 0 means any number.
	Remove int

	// Leave is for drivers that can't take back what they sent: a caller whose context ends
	// leaves their Commit or Delete to itself, of which the context ends only so much later,
	// and the next one with something to do with the thread waits for it: so it finds a change
	// done or not done, and not done later. That of a Commit of several callers has no end.
	Leave time.Duration
}

// Engine is a [checkpoint.Store] over a [Driver]. It also implements [checkpoint.Lister],
// [checkpoint.Copier], [checkpoint.Scheduler], [checkpoint.Rewriter],
// [checkpoint.Verifier] and, for the runs of this process, [checkpoint.Locker].
type Engine struct {
	checkpoint.Locks
	driver Driver
	remove int
	closed atomic.Bool
	queue  queue

	mu      sync.Mutex
	threads map[checkpoint.ThreadID]*thread
}

var (
	_ checkpoint.Store     = (*Engine)(nil)
	_ checkpoint.Lister    = (*Engine)(nil)
	_ checkpoint.Copier    = (*Engine)(nil)
	_ checkpoint.Locker    = (*Engine)(nil)
	_ checkpoint.Scheduler = (*Engine)(nil)
	_ checkpoint.Rewriter  = (*Engine)(nil)
	_ checkpoint.Verifier  = (*Engine)(nil)
)

// New returns the store of a driver. Closing it closes the driver.
func New(d Driver, o Options) *Engine {
	e := &Engine{driver: d, remove: o.Remove, threads: map[checkpoint.ThreadID]*thread{}}
	e.queue.init(d, o)
	return e
}

// thread is what this process knows of a thread. Another one may have moved on: then
// what is based on it has no effect, as the driver compares the header's version and the
// place of what is appended.
type thread struct {
	turn   chan struct{} // held by whoever writes
	header Header
	clock  clock
	logs   map[string]*logState
}

// clock is the store's: what it was, and when by ours.
type clock struct{ store, ours time.Time }

func clockAt(now time.Time) clock { return clock{now, time.Now()} }

func (c clock) now() time.Time { return c.store.Add(time.Since(c.ours)) }

// clockAge is for how long a look at the store's clock is trusted: ours may be faster.
const clockAge = time.Minute

const maxThreads = 4096 // known at a time

func (e *Engine) thread(id checkpoint.ThreadID) *thread {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.threads[id]
	if t == nil {
		if len(e.threads) >= maxThreads {
			clear(e.threads)
		}
		t = &thread{turn: make(chan struct{}, 1)}
		e.threads[id] = t
	}
	return t
}

// forget drops what is known of a thread.
func (t *thread) forget() { t.header, t.logs = Header{}, nil }

// knows notes what was loaded of a log.
func (t *thread) knows(ns string, l *Loaded) *logState {
	if t.logs == nil || l.Header.Version != t.header.Version {
		t.logs = map[string]*logState{}
	}
	st := stateOf(l)
	t.header, t.clock, t.logs[ns] = l.Header, clockAt(l.Now), &st
	return &st
}

func (e *Engine) start(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.closed.Load() {
		return checkpoint.ErrClosed
	}
	if strings.HasPrefix(string(thread), string(Reserved)) {
		return fmt.Errorf("%w: the ID of a thread can't begin with %q", checkpoint.ErrInvalid, Reserved)
	}
	if err := (checkpoint.Log{Thread: thread}).Check(); err != nil {
		return err
	}
	return e.queue.await(ctx, thread)
}

// Reserved begins the IDs that rows other than those of threads stand under.
const Reserved checkpoint.ThreadID = "\x00\x00"

// Beside returns the driver, for rows other than those of threads: side rows alone, under IDs
// that begin with [Reserved]. Their commits are shared with those of threads. Closing it
// does nothing; once the engine is closed it fails with checkpoint.ErrClosed.
func (e *Engine) Beside() Driver { return others{e.driver, e} }

type others struct {
	Driver
	e *Engine
}

func (o others) Load(ctx context.Context, log checkpoint.Log) (l Loaded, err error) {
	if err = o.e.queue.await(ctx, log.Thread); err == nil {
		l, err = o.Driver.Load(ctx, log)
	}
	return l, o.e.failed(ctx, err)
}

func (o others) Side(ctx context.Context, of checkpoint.ThreadID, q SideQuery) (rows []SideRow, err error) {
	if err = o.e.queue.await(ctx, of); err == nil {
		rows, err = o.Driver.Side(ctx, of, q)
	}
	return rows, o.e.failed(ctx, err)
}

func (o others) Commit(ctx context.Context, batch []*Commit) error {
	for _, c := range batch {
		if err := o.e.queue.submit(ctx, c); err != nil {
			return o.e.failed(ctx, err)
		}
	}
	return nil
}

func (o others) Close() error { return nil }

// failed returns what is told of an error of the driver's: of one that is being closed,
// that it is.
func (e *Engine) failed(ctx context.Context, err error) error {
	if u, ok := err.(undone); ok {
		err = u.error
	}
	switch {
	case err == nil, Agreed(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err() // however the driver put it
	case e.closed.Load():
		return checkpoint.ErrClosed
	}
	return err
}

// tries is how often a change is planned anew because others changed the thread.
const tries = 1000

var errRestless = fmt.Errorf("%w: others keep writing to it", checkpoint.ErrConflict)

// Write implements [checkpoint.Store].
func (e *Engine) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	return e.WriteBy(ctx, w, e.queue.submit)
}

// WriteBy is Write by whom commits are shared with something else than commits of threads:
// commit is called in place of [Driver.Commit], with one commit whose Err it sets, and again
// with another while that is [ErrStale]. Nobody else of this process writes to the thread
// meanwhile.
func (e *Engine) WriteBy(ctx context.Context, w *checkpoint.Write, commit func(context.Context, *Commit) error) (checkpoint.Written, error) {
	if err := e.start(ctx, w.Log.Thread); err != nil {
		return checkpoint.Written{}, err
	}
	if err := w.Check(); err != nil {
		return checkpoint.Written{}, err
	}
	var row Row
	if w.Record != nil {
		var err error
		if row, err = rowOf(w.Record); err != nil {
			return checkpoint.Written{}, err
		}
	}
	t := e.thread(w.Log.Thread)
	if err := e.enter(ctx, t); err != nil {
		return checkpoint.Written{}, err
	}
	defer func() { <-t.turn }()
	out, err := e.write(ctx, t, w, &row, commit)
	if err != nil {
		t.forget()
	}
	return out, e.failed(ctx, err)
}

// enter waits for the caller's turn to write to a thread.
func (e *Engine) enter(ctx context.Context, t *thread) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) write(ctx context.Context, t *thread, w *checkpoint.Write, row *Row, commit func(context.Context, *Commit) error) (checkpoint.Written, error) {
	var see looked
	fresh := false
	for range tries {
		st := t.logs[w.Log.Namespace]
		if st == nil || time.Since(t.clock.ours) > clockAge {
			l, err := e.driver.Load(ctx, w.Log)
			if err != nil {
				return checkpoint.Written{}, err
			}
			st, fresh, see = t.knows(w.Log.Namespace, &l), true, looked{}
		}
		p, err := planWrite(&t.header, st, w, row, see, t.clock.now())
		switch {
		case err != nil && fresh:
			return checkpoint.Written{}, err
		case err != nil: // perhaps for what is no longer so
			t.forget()
			continue
		case p.needs.id || p.needs.branch:
			if err := e.look(ctx, w.Record, p.needs, &see); err != nil {
				return checkpoint.Written{}, err
			}
			continue
		case p.commit == nil && !fresh:
			t.forget()
			continue
		case p.commit == nil:
			return checkpoint.Written{Fence: p.fence}, nil
		}
		c := p.commit
		if err := commit(ctx, c); err != nil {
			return checkpoint.Written{}, err
		}
		if c.Err == nil {
			if c.Header != nil {
				t.header = *c.Header
			}
			p.log.ref = c.Ref
			*st = p.log
			return checkpoint.Written{Fence: p.fence, Ignored: c.Ignored}, nil
		}
		if !errors.Is(c.Err, ErrStale) {
			return checkpoint.Written{}, c.Err
		}
		t.forget()
		see, fresh = looked{}, false
	}
	return checkpoint.Written{}, errRestless
}

// look looks up what a plan needs to know of a record.
func (e *Engine) look(ctx context.Context, r *checkpoint.Record, needs looked, see *looked) error {
	if needs.id {
		row, err := e.find(ctx, r.Log, r.ID, true)
		if err != nil {
			return err
		}
		see.id, see.exists = true, row != nil
	}
	if needs.branch {
		see.branch, see.last = true, 0
		ranges, err := e.places(ctx, r.Log, r.Branch, 0, 0)
		if err != nil {
			return err
		}
		for i := len(ranges) - 1; i >= 0 && see.last == 0; i-- {
			rows, _, err := e.driver.Rows(ctx, RowQuery{Log: r.Log, From: ranges[i].From, To: ranges[i].To, Desc: true, Meta: true, Rows: 1, Bytes: 1})
			if err != nil {
				return err
			}
			if len(rows) > 0 {
				see.last = rows[0].Seq
			}
		}
	}
	return nil
}

// find returns the row of the record with an ID, nil if there is none.
func (e *Engine) find(ctx context.Context, log checkpoint.Log, id checkpoint.ID, meta bool) (*Row, error) {
	place, err := e.inOrder(ctx, log, id)
	if err == nil && place == 0 {
		run, n := runKey(log.Namespace, id)
		var rows []SideRow
		if rows, err = e.driver.Side(ctx, log.Thread, SideQuery{From: run, Below: append(pieceKey(run, n), 0), Desc: true, Limit: 1}); len(rows) > 0 && err == nil {
			var p piece
			p, err = parsePiece(log.Thread, &rows[0])
			place = p.place + int64(n-p.n)
		}
	}
	if err != nil || place == 0 {
		return nil, err
	}
	page, _, err := e.driver.Rows(ctx, RowQuery{Log: log, From: place, To: place, Meta: meta, Rows: 1, Bytes: 1})
	if err != nil || len(page) == 0 || page[0].ID != id {
		return nil, err
	}
	return &page[0], nil
}

// inOrder returns the place of the row that has an ID and is in order, 0 if there is none. As
// the rows' highest IDs grow it is found by halves, or sooner: IDs say when they were made.
func (e *Engine) inOrder(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (int64, error) {
	if !id.Valid() {
		return 0, nil
	}
	// Rows below low have lower ones. Where the highest is not lower, the row stands before
	// it: up to high.
	q := RowQuery{Log: log, From: 1, To: maxPlace, Desc: true, Meta: true, Rows: pageRowsDesc, Bytes: pageBytes}
	low, high := int64(1), int64(maxPlace)
	when, since, until := begun(id), int64(0), int64(0)
	for n := 0; low <= high; n++ {
		page, last, err := e.driver.Rows(ctx, q)
		if err != nil {
			return 0, err
		}
		if len(page) == 0 {
			high = q.From - 1
		} else {
			if q.Desc {
				slices.Reverse(page)
			}
			for i := range page {
				if page[i].ID == id {
					return page[i].Place, nil
				}
			}
			first, end := &page[0], &page[len(page)-1]
			switch {
			case first.Top >= id && (q.Desc && !last || !q.Desc && q.From > low):
				if high = q.From - 1; q.Desc {
					high = first.Place - 1
				}
				until = begun(first.Top)
			case end.Top < id && !q.Desc && !last:
				low, since = end.Place+1, begun(end.Top)
			default: // it would be here
				return 0, nil
			}
		}
		q.Desc, q.From, q.To = false, low+(high-low)/2, high
		if span := float64(until - since); n%2 == 0 && since > 0 && span > 0 {
			q.From = low + int64(float64(high-low)*float64(when-since)/span)
		}
		q.From = max(low, min(high, q.From)-pageRowsDesc/2)
	}
	return 0, nil
}

// maxPlace is above all places.
const maxPlace = 1<<31 - 1

// places returns where the records of a branch with these numbers stand, at least: to 0
// means to its end. Records of other branches may stand between them.
func (e *Engine) places(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, from, to int64) (out []Places, err error) {
	prefix := logKey(keySegment, log.Namespace)
	rows, err := e.driver.Side(ctx, log.Thread, SideQuery{From: prefix, Below: Below(prefix)})
	if err != nil {
		return nil, err
	}
	list := []segment{{1, "", 1}}
	for i := range rows {
		g, err := parseSegment(log.Thread, &rows[i])
		if err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	for i, g := range list {
		end := int64(maxPlace)
		if i+1 < len(list) {
			end = list[i+1].place - 1
		}
		if g.branch != branch {
			continue
		}
		a := g.place + max(from-g.seq, 0)
		if to != 0 {
			end = min(end, g.place+(to-g.seq))
		}
		if a <= end {
			out = append(out, Places{log.Namespace, a, end})
		}
	}
	return out, nil
}

func missing(log checkpoint.Log, what string) error {
	return fmt.Errorf("%w: thread %q, namespace %q has no %s", checkpoint.ErrNotFound, log.Thread, log.Namespace, what)
}

// Head implements [checkpoint.Store].
func (e *Engine) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if err := e.start(ctx, log.Thread); err != nil {
		return nil, 0, err
	}
	l, err := e.driver.Load(ctx, log)
	if err != nil {
		return nil, 0, e.failed(ctx, err)
	}
	t := e.thread(log.Thread)
	select { // a run begins by reading: then it need not read again to write
	case t.turn <- struct{}{}:
		t.knows(log.Namespace, &l)
		<-t.turn
	default:
	}
	fence := l.Header.Fence.Read()
	if l.Newest == nil {
		return nil, fence, missing(log, "record")
	}
	r, err := l.Newest.record(log.Thread, whole)
	return r, fence, err
}

// Get implements [checkpoint.Store].
func (e *Engine) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	if err := e.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	row, err := e.find(ctx, log, id, false)
	switch {
	case err != nil:
		return nil, e.failed(ctx, err)
	case row == nil:
		return nil, missing(log, "record "+string(id))
	}
	return row.record(log.Thread, whole)
}

// A page of records is one query; nothing is held while the caller looks at it.
const (
	pageRows     = 256
	pageRowsDesc = 16 // of the first page: who reads back from the newest mostly stops soon
	pageBytes    = 1 << 20
)

// Records implements [checkpoint.Store]. Records that are appended meanwhile may be seen.
func (e *Engine) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		err := e.start(ctx, q.Log.Thread)
		var ranges []Places
		switch {
		case err != nil:
		case q.AllBranches:
			ranges = []Places{{q.Log.Namespace, 1, maxPlace}}
		default:
			ranges, err = e.places(ctx, q.Log, q.Branch, q.From, q.To)
		}
		if err != nil {
			yield(nil, e.failed(ctx, err))
			return
		}
		if q.Desc {
			slices.Reverse(ranges)
		}
		d := whole
		switch {
		case q.Meta:
			d = metaOnly
		case q.Folding:
			d = folding
		}
		left, size := q.Limit, pageRows
		if q.Desc {
			size = pageRowsDesc
		}
		for _, r := range ranges {
			for last := false; !last; size = min(4*size, pageRows) {
				rq := RowQuery{Log: q.Log, From: r.From, To: r.To, Desc: q.Desc, Meta: q.Meta, Rows: size, Bytes: pageBytes}
				if q.Limit > 0 {
					rq.Rows = min(size, left)
				}
				var page []Row
				if err := e.start(ctx, q.Log.Thread); err != nil {
					yield(nil, err)
					return
				}
				page, last, err = e.driver.Rows(ctx, rq)
				for i := range page {
					row := &page[i]
					if q.Desc {
						r.To = row.Place - 1
					} else {
						r.From = row.Place + 1
					}
					if !q.AllBranches && (row.Branch != q.Branch || row.Seq < q.From || q.To != 0 && row.Seq > q.To) {
						continue
					}
					if err := ctx.Err(); err != nil {
						yield(nil, err)
						return
					}
					rec, err := row.record(q.Log.Thread, d)
					page[i] = Row{}
					if !yield(rec, err) || err != nil {
						return
					}
					if left--; left == 0 {
						return
					}
				}
				if err != nil {
					yield(nil, e.failed(ctx, err))
					return
				}
				last = last || len(page) == 0 || r.From > r.To
			}
		}
	}
}

// Results implements [checkpoint.Store].
func (e *Engine) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if err := e.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	d := checkpoint.Drop{Branch: branch, Epoch: epoch}
	step := stepKey(log.Namespace, d)
	rows, err := e.driver.Side(ctx, log.Thread, SideQuery{From: step, Below: Below(step)})
	if err != nil {
		return nil, e.failed(ctx, err)
	}
	slices.SortStableFunc(rows, func(a, b SideRow) int { return cmp.Compare(a.Order, b.Order) })
	out := make([]checkpoint.Result, len(rows))
	for i := range rows {
		if out[i], err = parseResult(log.Thread, step, d, &rows[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b checkpoint.Result) int { return cmp.Compare(a.Task, b.Task) })
	return out, nil
}

// Delete implements [checkpoint.Store].
func (e *Engine) Delete(ctx context.Context, id checkpoint.ThreadID) error {
	if err := e.start(ctx, id); err != nil {
		return err
	}
	t := e.thread(id)
	if err := e.enter(ctx, t); err != nil {
		return err
	}
	defer func() { <-t.turn }()
	t.forget()
	if err := e.queue.await(ctx, id); err != nil { // which may have been left since
		return err
	}
	return e.failed(ctx, e.queue.change(ctx, id, func(ctx context.Context) error { return e.driver.Delete(ctx, id) }))
}

// Close implements [checkpoint.Store]. Writes that have begun are finished.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return checkpoint.ErrClosed
	}
	e.queue.close()
	return e.driver.Close()
}
