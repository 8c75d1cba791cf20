package checkpoint

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// now returns the lease if it is live, else none.
func (l Lease) now() Lease {
	if l.Live(time.Now()) {
		return l
	}
	return Lease{}
}

// hold does what a write asks for with the thread's lease and its time.
func (t *memThread) hold(w *Write) {
	switch {
	case w.Lease > 0:
		t.lease = Lease{Holder: w.Holder, Until: time.Now().Add(w.Lease), TTL: w.Lease}
	case w.Claim, w.Release:
		t.lease = Lease{}
	}
	if w.Claim {
		t.woken = time.Time{}
	}
	if w.Wake {
		t.woken = time.Now()
	}
}

// due returns when the thread is due, zero for never.
func (t *memThread) due() time.Time {
	at := t.woken
	if t.root != nil && len(t.root.records) > 0 {
		d := t.root.records[len(t.root.records)-1].Due
		if at.IsZero() || !d.IsZero() && d.Before(at) {
			at = d
		}
	}
	return at
}

// remove takes one result away. What is left is put together anew: places have
// moved.
func (l *memLog) remove(k *ResultKey) {
	of := Drop{Branch: k.Branch, Epoch: k.Epoch}
	e := l.open[of]
	if e == nil {
		return
	}
	left := slices.DeleteFunc(e.list(), func(r Result) bool { return r.Key() == *k })
	if len(left) == 0 {
		delete(l.open, of)
		return
	}
	l.open[of] = memResultsOf(left)
}

// memWaiting finds the threads of a shard that somebody may have to look after, at
// a cost that doesn't grow with those that nobody has to.
type memWaiting struct {
	mu     sync.Mutex // taken last
	due    memDue
	leased map[*memThread]ThreadID
}

// memNoted is what a shard's memWaiting knows of a thread. It changes with both
// locks held.
type memNoted struct {
	id     ThreadID
	due    time.Time // zero: not in the heap
	at     int       // in the heap
	leased bool
}

// memDue is a heap of threads by the time when they are due.
type memDue []*memThread

func (h memDue) Len() int           { return len(h) }
func (h memDue) Less(i, j int) bool { return h[i].noted.due.Before(h[j].noted.due) }
func (h memDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].noted.at, h[j].noted.at = i, j
}
func (h *memDue) Push(t any) {
	t.(*memThread).noted.at = len(*h)
	*h = append(*h, t.(*memThread))
}
func (h *memDue) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}

// until adds the threads at or below a place in the heap that are due by a time;
// zero means any.
func (h memDue) until(before time.Time, at int, out []memFound) []memFound {
	if at >= len(h) || !before.IsZero() && h[at].noted.due.After(before) {
		return out
	}
	out = append(out, memFound{h[at].noted.id, h[at]})
	return h.until(before, 2*at+2, h.until(before, 2*at+1, out))
}

type memFound struct {
	id ThreadID
	t  *memThread
}

// note keeps the index in step with a thread that is locked for writing. A write that
// changes neither when the thread is due nor whether it has a lease costs nothing.
func (m *Memory) note(id ThreadID, t *memThread) {
	var due time.Time
	leased := false
	if !t.gone {
		due, leased = t.due(), t.lease.Holder != ""
	}
	n := &t.noted
	if due.Equal(n.due) && leased == n.leased {
		return
	}
	w := &m.shard(id).waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	n.id = id
	if leased != n.leased {
		if n.leased = leased; leased {
			if w.leased == nil {
				w.leased = map[*memThread]ThreadID{}
			}
			w.leased[t] = id
		} else {
			delete(w.leased, t)
		}
	}
	was := n.due
	if due.Equal(was) {
		return
	}
	switch {
	case due.IsZero():
		heap.Remove(&w.due, n.at)
		n.due = due
	case was.IsZero():
		n.due = due
		heap.Push(&w.due, t)
	default:
		n.due = due
		heap.Fix(&w.due, n.at)
	}
}

// waiting yields those of the threads that find finds which pick selects.
func (m *Memory) waiting(ctx context.Context, limit int, find func(w *memWaiting) []memFound, pick func(t *memThread) (Waiting, bool)) iter.Seq2[Waiting, error] {
	return func(yield func(Waiting, error) bool) {
		if err := m.start(ctx, "all"); err != nil {
			yield(Waiting{}, err)
			return
		}
		var list []Waiting
		for i := range m.shards {
			w := &m.shards[i].waiting
			w.mu.Lock()
			found := find(w)
			w.mu.Unlock()
			for _, f := range found {
				f.t.mu.RLock()
				if w, ok := pick(f.t); ok && !f.t.gone {
					w.Thread = f.id
					list = append(list, w)
				}
				f.t.mu.RUnlock()
			}
		}
		slices.SortFunc(list, func(a, b Waiting) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Thread, b.Thread)) })
		each(ctx, list, limit, yield)
	}
}

// Due implements [Scheduler].
func (m *Memory) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[Waiting, error] {
	find := func(w *memWaiting) []memFound { return w.due.until(before, 0, nil) }
	return m.waiting(ctx, limit, find, func(t *memThread) (Waiting, bool) {
		at := t.due()
		return Waiting{Due: at, Lease: t.lease}, !at.IsZero() && (before.IsZero() || !at.After(before)) && !t.lease.Live(time.Now())
	})
}

// Abandoned implements [Scheduler].
func (m *Memory) Abandoned(ctx context.Context, limit int) iter.Seq2[Waiting, error] {
	find := func(w *memWaiting) (out []memFound) {
		for t, id := range w.leased {
			out = append(out, memFound{id, t})
		}
		return out
	}
	return m.waiting(ctx, limit, find, func(t *memThread) (Waiting, bool) {
		return Waiting{Due: t.due(), Lease: t.lease}, t.lease.Holder != "" && !t.lease.Live(time.Now())
	})
}

// Logs implements [Lister].
func (m *Memory) Logs(ctx context.Context, thread ThreadID) iter.Seq2[LogInfo, error] {
	return func(yield func(LogInfo, error) bool) {
		if err := m.start(ctx, thread); err != nil {
			yield(LogInfo{}, err)
			return
		}
		var list []LogInfo
		if t := m.find(thread); t != nil {
			t.mu.RLock()
			add := func(ns string, l *memLog) {
				if l != nil && len(l.records) > 0 {
					list = append(list, LogInfo{
						Log: Log{Thread: thread, Namespace: ns}, Head: l.records[len(l.records)-1].ID, Records: int64(len(l.records)), Bytes: l.bytes,
					})
				}
			}
			add("", t.root)
			for ns, l := range t.logs {
				add(ns, l)
			}
			t.mu.RUnlock()
		}
		slices.SortFunc(list, func(a, b LogInfo) int { return cmp.Compare(a.Log.Namespace, b.Log.Namespace) })
		each(ctx, list, 0, yield)
	}
}

// Rewrite implements [Rewriter].
func (m *Memory) Rewrite(ctx context.Context, r *Rewrite) error {
	if err := m.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	t := m.find(r.Log.Thread)
	if t == nil {
		return fmt.Errorf("%w: thread %q", ErrNotFound, r.Log.Thread)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.log(r.Log.Namespace)
	if t.gone || l == nil || len(l.records) == 0 {
		return fmt.Errorf("%w: %v", ErrNotFound, r.Log)
	}
	if err := r.CheckHold(t.fence, t.lease, time.Now()); err != nil {
		return err
	}
	if err := r.Log.CheckHead(l.head(), r.Head); err != nil {
		return err
	}
	gone, with, err := r.Find(len(l.records), func(i int) (ID, Branch, int64) {
		rec := l.records[i]
		return rec.ID, rec.Branch, rec.Seq
	})
	if err != nil {
		return err
	}
	n := &memLog{open: l.open}
	for i, rec := range l.records {
		if !gone[i] {
			n.append(cmp.Or(with[i], rec))
		}
	}
	if len(r.Remove) > 0 {
		t.fence = t.known(Fence(m.deleted.Load())).Cut()
	}
	if r.Log.Namespace == "" {
		t.root = n
	} else {
		t.logs[r.Log.Namespace] = n
	}
	m.note(r.Log.Thread, t)
	return nil
}
