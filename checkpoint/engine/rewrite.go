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
// in one commit.
func (e *Engine) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := e.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	return e.change(ctx, r.Log.Thread, func(t *thread) (*Commit, error) { return e.planRewrite(ctx, t, r) })
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

func (e *Engine) planRewrite(ctx context.Context, t *thread, r *checkpoint.Rewrite) (*Commit, error) {
	l, err := e.driver.Load(ctx, r.Log)
	if err != nil {
		return nil, err
	}
	st := t.knows(r.Log.Namespace, &l)
	h := t.header
	if st.place == 0 {
		return nil, fmt.Errorf("%w: log %v", checkpoint.ErrNotFound, r.Log)
	}
	if err := r.CheckHold(h.Fence, h.Lease, l.Now); err != nil {
		return nil, err
	}
	if st.id != r.Head {
		return nil, conflict(r.Log, st.id, r.Head)
	}
	var all []Row // without their contents
	var newest Row
	for row, err := range e.rows(ctx, r.Log, false) {
		if err != nil {
			return nil, err
		}
		newest = *row
		k := *row
		k.Bytes = row.size()
		k.Meta, k.Data = nil, nil
		all = append(all, k)
	}
	if newest.Place != st.place {
		return nil, ErrStale
	}
	at := make(map[checkpoint.ID]int, len(all))
	for i := range all {
		at[all[i].ID] = i
	}
	gone := make(map[int]bool, len(r.Remove))
	for _, id := range r.Remove {
		i, ok := at[id]
		if !ok {
			return nil, fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, id)
		}
		gone[i] = true
	}
	head := len(all) - 1
	with := map[int]Row{}
	for _, rec := range r.Replace {
		i, ok := at[rec.ID]
		if !ok {
			return nil, fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, rec.ID)
		}
		if old := &all[i]; old.Branch != rec.Branch || old.Seq != rec.Seq {
			return nil, fmt.Errorf("%w: record %s of log %v stands elsewhere than its replacement", checkpoint.ErrInvalid, rec.ID, r.Log)
		}
		row, err := rowOf(rec)
		if err != nil {
			return nil, err
		}
		row.Place = all[i].Place
		all[i].Bytes = row.size()
		with[i] = row
		if i == head && r.Log.Namespace == "" {
			h.HeadDue = micro(rec.Due)
			h.list(rec, &logState{})
		}
	}
	if err := left(r, all, gone); err != nil {
		return nil, err
	}
	c := &Commit{Thread: r.Log.Thread, Version: h.Version, Newest: st.place, Ref: l.Ref}
	if len(gone) > 0 {
		h.raise(l.Now)
	}
	ns := r.Log.Namespace
	var count, bytes int64
	kept := map[checkpoint.Branch]bool{}
	for i := range all {
		if gone[i] {
			if n := len(c.Remove); n > 0 && gone[i-1] {
				c.Remove[n-1].To = all[i].Place
			} else {
				c.Remove = append(c.Remove, Places{ns, all[i].Place, all[i].Place})
			}
			continue
		}
		kept[all[i].Branch] = true
		count++
		bytes += all[i].Bytes
	}
	if count == 0 { // places begin anew, as nobody's knowledge of the thread holds any more
		c.Clear = [][]byte{logKey(keyRun, ns), logKey(keySegment, ns)}
		if ns == "" {
			h.HeadDue, h.Listed, h.Minute, h.Labels = time.Time{}, false, 0, nil
		}
	} else {
		if _, ok := with[head]; !ok { // it says how much there is before it
			with[head] = newest
		}
		if err := e.forgetBranches(ctx, c, ns, kept); err != nil {
			return nil, err
		}
	}
	for i := range all {
		row, ok := with[i]
		if !ok {
			continue
		}
		row.Namespace, row.Count, row.Bytes = ns, int64(i+1), all[i].Bytes
		if i == head {
			row.Count, row.Bytes = count, bytes
		}
		row.Sum = row.sums(r.Log.Thread)
		c.Replace = append(c.Replace, row)
	}
	h.Renew(l.Now)
	c.Header = &h
	return c, nil
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

// left checks that what remains can stand.
func left(r *checkpoint.Rewrite, all []Row, gone map[int]bool) error {
	if len(gone) == len(all) {
		return nil
	}
	newest := map[checkpoint.Branch]int{}
	kept := map[checkpoint.Branch]bool{}
	for i := range all {
		p := &all[i]
		newest[p.Branch] = i
		if gone[i] {
			continue
		}
		if p.Branch != "" && !kept[p.Branch] && checkpoint.Branch(p.ID) != p.Branch {
			return fmt.Errorf("%w: the first record of branch %s of log %v goes, though others stay", checkpoint.ErrInvalid, p.Branch, r.Log)
		}
		kept[p.Branch] = true
	}
	for b, i := range newest {
		if kept[b] && gone[i] {
			return fmt.Errorf("%w: record %s, the newest of its branch, goes, though others stay", checkpoint.ErrInvalid, all[i].ID)
		}
	}
	if gone[len(all)-1] {
		return fmt.Errorf("%w: the head of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
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
