package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Memory is a [Driver] in memory, under one lock: the smallest that keeps the contract. The
// zero value is ready to use.
type Memory struct {
	mu      sync.Mutex
	threads map[checkpoint.ThreadID]*memThread
}

type memThread struct {
	header Header
	logs   map[string][]Row
	side   SideRows
}

var _ Driver = (*Memory)(nil)

// Load implements [Driver].
func (d *Memory) Load(_ context.Context, log checkpoint.Log) (Loaded, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := Loaded{Now: time.Now()}
	if t := d.threads[log.Thread]; t != nil {
		l.Header = t.header
		if rows := t.logs[log.Namespace]; len(rows) > 0 {
			l.Newest = &rows[len(rows)-1]
		}
	}
	return l, nil
}

// Commit implements [Driver].
func (d *Memory) Commit(_ context.Context, batch []*Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range batch {
		c.Err = d.commit(c)
	}
	return nil
}

func (d *Memory) commit(c *Commit) error {
	t := d.threads[c.Thread]
	if t == nil {
		t = &memThread{logs: map[string][]Row{}}
	}
	if t.header.Version != c.Version {
		return ErrStale
	}
	if slices.ContainsFunc(c.Absent, t.side.Under) {
		return ErrStale
	}
	for _, r := range c.Append[:min(1, len(c.Append))] {
		if rows := t.logs[r.Namespace]; len(rows) > 0 && rows[len(rows)-1].Place >= r.Place {
			return ErrStale
		}
	}
	if c.Newest != 0 && t.logs[c.Changed()][len(t.logs[c.Changed()])-1].Place != c.Newest {
		return ErrStale
	}
	if d.threads == nil {
		d.threads = map[checkpoint.ThreadID]*memThread{}
	}
	d.threads[c.Thread] = t
	if c.Header != nil {
		t.header = *c.Header
	}
	for _, r := range c.Append {
		t.logs[r.Namespace] = append(t.logs[r.Namespace], r)
	}
	for _, r := range c.Replace {
		rows := slices.Clone(t.logs[r.Namespace])
		rows[slices.IndexFunc(rows, func(o Row) bool { return o.Place == r.Place })] = r
		t.logs[r.Namespace] = rows
	}
	for _, p := range c.Remove {
		t.logs[p.Namespace] = slices.DeleteFunc(slices.Clone(t.logs[p.Namespace]), func(r Row) bool { return p.From <= r.Place && r.Place <= p.To })
	}
	c.Ignored += t.side.Change(c.Delete, c.Put, c.Clear)
	return nil
}

// Rows implements [Driver].
func (d *Memory) Rows(_ context.Context, q RowQuery) (page []Row, last bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.threads[q.Log.Thread]
	if t == nil {
		return nil, true, nil
	}
	rows := slices.Clone(t.logs[q.Log.Namespace])
	if q.Desc {
		slices.Reverse(rows)
	}
	size := 0
	for _, r := range rows {
		if r.Place < q.From || r.Place > q.To {
			continue
		}
		if len(page) == q.Rows || len(page) > 0 && size >= q.Bytes {
			return page, false, nil
		}
		if q.Meta {
			r.Data = nil
		}
		size += len(r.Meta) + len(r.Data)
		page = append(page, r)
	}
	return page, true, nil
}

// Side implements [Driver].
func (d *Memory) Side(_ context.Context, thread checkpoint.ThreadID, q SideQuery) (out []SideRow, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.threads[thread]; t != nil {
		out = t.side.Select(q)
	}
	return out, nil
}

// Logs implements [Driver].
func (d *Memory) Logs(_ context.Context, thread checkpoint.ThreadID) (out []Row, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.threads[thread]; t != nil {
		for _, rows := range t.logs {
			if len(rows) > 0 {
				out = append(out, rows[len(rows)-1])
			}
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return out, nil
}

// List implements [Driver].
func (d *Memory) List(_ context.Context, q ListQuery) (page []Listed, below int64, more bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, t := range d.threads {
		if rows := t.logs[""]; q.Takes(id, &t.header) {
			page = append(page, Listed{Thread: id, Header: t.header, Head: rows[len(rows)-1], First: rows[0].At})
		}
	}
	return page, 0, false, nil
}

// Waiting implements [Driver].
func (d *Memory) Waiting(_ context.Context, q WaitQuery) (out []Waiter, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, t := range d.threads {
		if q.Takes(id, &t.header) {
			out = append(out, Waiter{Thread: id, Header: t.header, Now: time.Now()})
		}
	}
	slices.SortFunc(out, q.Compare)
	return out[:min(q.Limit, len(out))], nil
}

// Names implements [Driver].
func (d *Memory) Names(_ context.Context, above checkpoint.ThreadID, most int) (out []checkpoint.ThreadID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(d.threads)) {
		if id > above && len(out) < most {
			out = append(out, id)
		}
	}
	return out, nil
}

// Delete implements [Driver].
func (d *Memory) Delete(_ context.Context, thread checkpoint.ThreadID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.threads, thread)
	return nil
}

// Close implements [Driver]. It does nothing.
func (d *Memory) Close() error { return nil }
