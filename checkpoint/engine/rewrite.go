package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Rewrite implements [checkpoint.Rewriter]. What is left of the log is read, and changed
// in one commit, or in several if much goes: see [Options].
func (e *Engine) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := e.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	w := rewriting{e: e, r: r}
	for !w.done {
		if err := e.change(ctx, r.Log.Thread, func(t *thread) (*Commit, error) { return w.plan(ctx, t) }); err != nil {
			return err
		}
		w.begun, w.rows, w.version, w.done = true, w.after.rows, w.after.version, w.after.done
	}
	return nil
}

// change commits what plan says, again and again until nobody has changed the thread
// meanwhile.
func (e *Engine) change(ctx context.Context, id checkpoint.ThreadID, plan func(t *thread) (*Commit, error)) error {
	t := e.thread(id)
	if err := e.enter(ctx, t); err != nil {
		return err
	}
	defer func() { <-t.turn }()
	defer t.forget()
	for range tries {
		t.forget()
		c, err := plan(t)
		if err == nil {
			err = e.queue.submit(ctx, c)
		}
		if err == nil {
			err = c.Err
		}
		if !errors.Is(err, ErrStale) {
			return e.failed(ctx, err)
		}
	}
	return errRestless
}

// rewriting is a rewrite under way. The first commit has all that is replaced, and raises
// the fence. What goes goes with it and with those that follow, the newest first: a record
// that is there meanwhile still has all that comes before it, and what stays needs none of
// it.
type rewriting struct {
	e *Engine
	r *checkpoint.Rewrite

	begun, done bool
	version     int64 // of the header after the last commit
	rows        []Row // of the log at that version, without their contents; Bytes is the size of each
	newest      Row   // of these, whole

	after struct { // what the next commit leads to
		done    bool
		version int64
		rows    []Row
	}
}

// read reads the rows of the log, if they are not known.
func (w *rewriting) read(ctx context.Context, h *Header, st *logState) error {
	if w.rows != nil && w.version == h.Version && w.newest.Place == st.place {
		return nil
	}
	w.rows, w.version = nil, h.Version
	for row, err := range w.e.rows(ctx, w.r.Log, false) {
		if err != nil {
			return err
		}
		w.newest = *row
		k := *row
		k.Bytes = row.size()
		k.Meta, k.Data = nil, nil
		w.rows = append(w.rows, k)
	}
	if w.newest.Place != st.place {
		w.rows = nil
		return ErrStale
	}
	return nil
}

// find returns where the records that go and those that are replaced stand in w.rows. Once
// it has begun, some of what goes is gone.
func (w *rewriting) find() (gone map[int]bool, with map[int]Row, err error) {
	with = map[int]Row{}
	if w.begun {
		gone = make(map[int]bool, len(w.r.Remove))
		goes := make(map[checkpoint.ID]bool, len(w.r.Remove))
		for _, id := range w.r.Remove {
			goes[id] = true
		}
		for i := range w.rows {
			if goes[w.rows[i].ID] {
				gone[i] = true
			}
		}
		return gone, with, nil
	}
	gone, recs, err := w.r.Find(len(w.rows), func(i int) (checkpoint.ID, checkpoint.Branch, int64) {
		return w.rows[i].ID, w.rows[i].Branch, w.rows[i].Seq
	})
	for i, rec := range recs {
		row, err := rowOf(rec)
		if err != nil {
			return nil, nil, err
		}
		row.Place, row.Top = w.rows[i].Place, w.rows[i].Top
		with[i] = row
	}
	return gone, with, err
}

func (w *rewriting) plan(ctx context.Context, t *thread) (*Commit, error) {
	r, ns := w.r, w.r.Log.Namespace
	l, err := w.e.driver.Load(ctx, r.Log)
	if err != nil {
		return nil, err
	}
	st := t.knows(ns, &l)
	h := t.header
	if st.place == 0 {
		return nil, fmt.Errorf("%w: %v", checkpoint.ErrNotFound, r.Log)
	}
	if !w.begun {
		if err := r.CheckHold(h.Fence, h.Lease, l.Now); err != nil {
			return nil, err
		}
		if err := r.Log.CheckHead(st.id, r.Head); err != nil {
			return nil, err
		}
	}
	if err := w.read(ctx, &h, st); err != nil {
		return nil, err
	}
	gone, with, err := w.find()
	if err != nil {
		return nil, err
	}
	head := len(w.rows) - 1
	if len(gone) > 0 && !w.begun {
		h.Fence = h.fence(l.Now).Cut()
	}
	stay := w.later(gone)
	c := &Commit{Thread: r.Log.Thread, Version: h.Version, Newest: st.place, Ref: l.Ref}
	w.after.done, w.after.rows = stay == 0, make([]Row, 0, len(w.rows)-len(gone))
	var bytes int64
	kept := map[checkpoint.Branch]bool{}
	for i := range w.rows {
		k := w.rows[i]
		if gone[i] {
			if n := len(c.Remove); n > 0 && gone[i-1] {
				c.Remove[n-1].To = k.Place
			} else {
				c.Remove = append(c.Remove, Places{ns, k.Place, k.Place})
			}
			continue
		}
		if row, ok := with[i]; ok {
			k.Bytes = row.size()
		}
		kept[k.Branch] = true
		bytes += k.Bytes
		w.after.rows = append(w.after.rows, k)
	}
	count := int64(len(w.after.rows))
	if count == 0 { // places begin anew, as nobody's knowledge of the thread holds any more
		c.Clear = [][]byte{logKey(keyRun, ns), logKey(keySegment, ns)}
		if ns == "" {
			h.HeadDue, h.Listed, h.Minute, h.Labels = time.Time{}, false, 0, nil
		}
	} else {
		if row, ok := with[head]; !ok { // it says how much there is before it
			with[head] = w.newest
		} else if ns == "" {
			rec := r.Replace[slices.IndexFunc(r.Replace, func(rec *checkpoint.Record) bool { return rec.ID == row.ID })]
			h.HeadDue = micro(rec.Due)
			h.list(rec, &logState{})
		}
		if w.after.done {
			if err := w.e.forgetBranches(ctx, c, ns, kept); err != nil {
				return nil, err
			}
		}
	}
	for i := range w.rows {
		row, ok := with[i]
		if !ok {
			continue
		}
		row.Namespace, row.Count, row.Bytes = ns, int64(i+1), row.size()
		if i == head {
			row.Count, row.Bytes = count, bytes
			w.newest = row
		}
		row.Sum = row.sums(r.Log.Thread)
		c.Replace = append(c.Replace, row)
	}
	h.Renew(l.Now)
	c.Header, w.after.version = &h, h.Version
	return c, nil
}

// later takes from gone what is for a later commit, and returns how much that is.
func (w *rewriting) later(gone map[int]bool) (stay int) {
	if w.e.remove == 0 || len(gone) == len(w.rows) { // nothing is left that could be the head meanwhile
		return 0
	}
	n := 0
	for i := len(w.rows) - 1; i >= 0; i-- {
		if gone[i] {
			if n++; n > w.e.remove {
				delete(gone, i)
				stay++
			}
		}
	}
	return stay
}

// forgetBranches removes the segments of branches that have no records left.
func (e *Engine) forgetBranches(ctx context.Context, c *Commit, ns string, kept map[checkpoint.Branch]bool) error {
	prefix := logKey(keySegment, ns)
	rows, err := e.driver.Side(ctx, c.Thread, SideQuery{From: prefix, Below: Below(prefix)})
	if err != nil {
		return err
	}
	for i := range rows {
		g, err := parseSegment(c.Thread, &rows[i])
		if err != nil {
			return err
		}
		if !kept[g.branch] {
			c.Delete = append(c.Delete, rows[i].Key)
		}
	}
	return nil
}

// Copy implements [checkpoint.Copier], in one commit.
func (e *Engine) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := e.start(ctx, from); err != nil {
		return err
	}
	if to == "" {
		return checkpoint.ErrNoThread
	}
	return e.change(ctx, to, func(t *thread) (*Commit, error) {
		target, err := e.driver.Load(ctx, checkpoint.Log{Thread: to})
		if err != nil {
			return nil, err
		}
		if target.Header.Version != 0 {
			return nil, fmt.Errorf("%w: thread %q exists already", checkpoint.ErrConflict, to)
		}
		return e.planCopy(ctx, from, to)
	})
}

func (e *Engine) planCopy(ctx context.Context, from, to checkpoint.ThreadID) (*Commit, error) {
	l, err := e.driver.Load(ctx, checkpoint.Log{Thread: from})
	if err != nil {
		return nil, err
	}
	if l.Header.Version == 0 {
		return nil, fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
	}
	c := &Commit{Thread: to}
	logs, err := e.driver.Logs(ctx, from)
	if err != nil {
		return nil, err
	}
	for _, newest := range logs {
		for row, err := range e.rows(ctx, checkpoint.Log{Thread: from, Namespace: newest.Namespace}, false) {
			if err != nil {
				return nil, err
			}
			if row.sums(from) != row.Sum {
				_, err := row.record(from, whole)
				return nil, err
			}
			if row.Place > newest.Place {
				break
			}
			k := *row
			k.Sum = k.sums(to)
			c.Append = append(c.Append, k)
		}
	}
	side, err := e.driver.Side(ctx, from, SideQuery{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(side, func(a, b SideRow) int { return cmp.Compare(a.Order, b.Order) })
	for i := range side {
		v, err := OpenSide(from, &side[i])
		if err != nil {
			return nil, err
		}
		c.Put = append(c.Put, sidePut(to, side[i].Key, slices.Clone(v), true))
	}
	// What was read piece by piece is one thread if nobody wrote to it meanwhile.
	again, err := e.driver.Logs(ctx, from)
	if err != nil {
		return nil, err
	}
	after, err := e.driver.Load(ctx, checkpoint.Log{Thread: from})
	if err != nil {
		return nil, err
	}
	same := func(a, b Row) bool { return a.Namespace == b.Namespace && a.ID == b.ID && a.Place == b.Place }
	if after.Header.Version != l.Header.Version || !slices.EqualFunc(logs, again, same) {
		return nil, ErrStale
	}
	h := Header{Woken: l.Header.Woken, HeadDue: l.Header.HeadDue, Listed: l.Header.Listed, Minute: l.Header.Minute, Labels: l.Header.Labels}
	h.Renew(l.Now)
	c.Header = &h
	return c, nil
}
