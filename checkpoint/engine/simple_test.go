package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// simple is the simplest driver that keeps the contract: everything in maps, under one
// lock. Told, if there is one, hears of each commit.
type simple struct {
	mu      sync.Mutex
	threads map[checkpoint.ThreadID]*simpleThread
	told    func(*engine.Commit)
}

type simpleThread struct {
	header engine.Header
	logs   map[string][]engine.Row
	side   map[string]engine.SideRow
	order  int64
}

func (d *simple) Load(_ context.Context, log checkpoint.Log) (engine.Loaded, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := engine.Loaded{Now: time.Now()}
	if t := d.threads[log.Thread]; t != nil {
		l.Header = t.header
		if rows := t.logs[log.Namespace]; len(rows) > 0 {
			l.Newest = &rows[len(rows)-1]
		}
	}
	return l, nil
}

func (d *simple) Commit(_ context.Context, batch []*engine.Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range batch {
		if c.Err = d.commit(c); d.told != nil {
			d.told(c)
		}
	}
	return nil
}

func (d *simple) commit(c *engine.Commit) error {
	t := d.threads[c.Thread]
	if t == nil {
		t = &simpleThread{logs: map[string][]engine.Row{}, side: map[string]engine.SideRow{}}
	}
	if t.header.Version != c.Version {
		return engine.ErrStale
	}
	for _, prefix := range c.Absent {
		for k := range t.side {
			if strings.HasPrefix(k, string(prefix)) {
				return engine.ErrStale
			}
		}
	}
	for _, r := range c.Append[:min(1, len(c.Append))] {
		if rows := t.logs[r.Namespace]; len(rows) > 0 && rows[len(rows)-1].Place >= r.Place {
			return engine.ErrStale
		}
	}
	if c.Newest != 0 && t.logs[c.Changed()][len(t.logs[c.Changed()])-1].Place != c.Newest {
		return engine.ErrStale
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
		rows[slices.IndexFunc(rows, func(o engine.Row) bool { return o.Place == r.Place })] = r
		t.logs[r.Namespace] = rows
	}
	for _, p := range c.Remove {
		t.logs[p.Namespace] = slices.DeleteFunc(slices.Clone(t.logs[p.Namespace]), func(r engine.Row) bool { return p.From <= r.Place && r.Place <= p.To })
	}
	for _, k := range c.Delete {
		delete(t.side, string(k))
	}
	for _, p := range c.Put {
		old, ok := t.side[string(p.Key)]
		if ok && !p.Replace {
			c.Ignored++
			continue
		}
		if !ok {
			t.order++
			old.Order = t.order
		}
		t.side[string(p.Key)] = engine.SideRow{Key: p.Key, Value: p.Value, Order: old.Order}
	}
	for _, prefix := range c.Clear {
		maps.DeleteFunc(t.side, func(k string, _ engine.SideRow) bool { return strings.HasPrefix(k, string(prefix)) })
	}
	return nil
}

func (d *simple) Rows(_ context.Context, q engine.RowQuery) (page []engine.Row, last bool, err error) {
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

func (d *simple) Side(_ context.Context, thread checkpoint.ThreadID, q engine.SideQuery) (out []engine.SideRow, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.threads[thread]; t != nil {
		for _, r := range t.side {
			if bytes.Compare(r.Key, q.From) >= 0 && (q.Below == nil || bytes.Compare(r.Key, q.Below) < 0) {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b engine.SideRow) int { return bytes.Compare(a.Key, b.Key) })
	if q.Desc {
		slices.Reverse(out)
	}
	if q.Limit > 0 {
		out = out[:min(q.Limit, len(out))]
	}
	return out, nil
}

func (d *simple) Logs(_ context.Context, thread checkpoint.ThreadID) (out []engine.Row, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.threads[thread]; t != nil {
		for _, rows := range t.logs {
			if len(rows) > 0 {
				out = append(out, rows[len(rows)-1])
			}
		}
	}
	slices.SortFunc(out, func(a, b engine.Row) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return out, nil
}

func (d *simple) List(_ context.Context, q engine.ListQuery) (page []engine.Listed, below int64, more bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, t := range d.threads {
		if !t.header.Listed || t.header.Minute >= q.Below || !strings.HasPrefix(string(id), q.Prefix) {
			continue
		}
		rows := t.logs[""]
		page = append(page, engine.Listed{Thread: id, Header: t.header, Head: rows[len(rows)-1], First: rows[0].At})
	}
	return page, 0, false, nil
}

func (d *simple) Waiting(_ context.Context, q engine.WaitQuery) (out []engine.Waiter, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := func(h *engine.Header) time.Time {
		if q.Leased {
			return h.Lease.Until
		}
		return h.Due()
	}
	for id, t := range d.threads {
		due := at(&t.header)
		if due.IsZero() || !q.Until.IsZero() && due.After(q.Until) || cmp.Or(due.Compare(q.After), cmp.Compare(id, q.Thread)) <= 0 {
			continue
		}
		out = append(out, engine.Waiter{Thread: id, Header: t.header, Now: time.Now()})
	}
	slices.SortFunc(out, func(a, b engine.Waiter) int {
		return cmp.Or(at(&a.Header).Compare(at(&b.Header)), cmp.Compare(a.Thread, b.Thread))
	})
	return out[:min(q.Limit, len(out))], nil
}

func (d *simple) Names(_ context.Context, above checkpoint.ThreadID, most int) (out []checkpoint.ThreadID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(d.threads)) {
		if id > above && len(out) < most {
			out = append(out, id)
		}
	}
	return out, nil
}

func (d *simple) Delete(_ context.Context, thread checkpoint.ThreadID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.threads, thread)
	return nil
}

func (d *simple) Close() error { return nil }

func newSimple() *simple { return &simple{threads: map[checkpoint.ThreadID]*simpleThread{}} }
