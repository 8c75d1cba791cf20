package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// Commit implements [engine.Driver]: a commit is a line, or a new file.
func (d *driver) Commit(ctx context.Context, batch []*engine.Commit) error {
	for _, c := range batch {
		err := d.with(ctx, c.Thread, func(t *thread) error {
			return t.locked(ctx, true, c.Version == 0 && c.Header != nil, func() error { return t.commit(ctx, c) })
		})
		if err == fs.ErrNotExist {
			c.Err = engine.ErrStale
		} else if err != nil {
			c.Err = err
		}
	}
	return nil
}

// stale reports whether a commit is based on what is no longer so.
func (x *index) stale(c *engine.Commit) bool {
	if x.header.Version != c.Version || slices.ContainsFunc(c.Absent, x.side.Under) || c.Newest != 0 && x.logs[c.Changed()].newest() != c.Newest {
		return true
	}
	next := map[string]int64{}
	for i := range c.Append {
		r := &c.Append[i]
		at, ok := next[r.Namespace]
		if !ok {
			at = x.logs[r.Namespace].newest()
		}
		if r.Place <= at || r.Place != at+1 && c.Version != 0 { // a copy has the places of what it is of
			return true
		}
		next[r.Namespace] = r.Place
	}
	return false
}

func (t *thread) commit(ctx context.Context, c *engine.Commit) error {
	x := t.x
	if x.stale(c) {
		c.Err = engine.ErrStale
		return nil
	}
	if err := t.writable("append"); err != nil {
		return err
	}
	l := entry{at: time.Now().UnixNano(), beside: true, header: x.header}
	if c.Header != nil {
		l.header = *c.Header
	}
	x.sides(c, &l)
	if len(c.Append) > 1 || len(c.Replace) > 0 || len(c.Remove) > 0 {
		return t.rewrite(ctx, c, &l)
	}
	if len(c.Append) == 1 {
		l.row, l.at, l.beside = c.Append[0], c.Append[0].At, false
	} else if c.Header == nil && len(l.delete)+len(l.put)+len(l.clear) == 0 {
		return nil
	}
	if err := t.append(&l); err != nil {
		return err
	}
	t.tidy(ctx)
	return nil
}

// sides has a line say what a commit does with side rows, without what changes nothing.
func (x *index) sides(c *engine.Commit, l *entry) {
	for _, k := range c.Delete {
		if x.side.Has(k) {
			l.delete = append(l.delete, k)
		}
	}
	there := make(map[string]bool, len(l.delete)+len(c.Put)) // what isn't as it was
	for _, k := range l.delete {
		there[string(k)] = false
	}
	for _, p := range c.Put {
		is, changed := there[string(p.Key)]
		if !p.Replace && (is || !changed && x.side.Has(p.Key)) {
			c.Ignored++
			continue
		}
		there[string(p.Key)] = true
		if !slices.ContainsFunc(c.Clear, func(prefix []byte) bool { return bytes.HasPrefix(p.Key, prefix) }) {
			l.put = append(l.put, p)
		}
	}
	for _, prefix := range c.Clear {
		if x.side.Under(prefix) {
			l.clear = append(l.clear, prefix)
		}
	}
}

// Below how many bytes of no use a file is left as it is.
const tidyAt = 32 << 10

// tidy writes the file anew when more than half of it is of no use any more. It can fail
// without harm: the old file stays then.
func (t *thread) tidy(ctx context.Context) {
	if t.x == nil || t.size-t.x.live() < max(t.compactAt, tidyAt, t.size/2) {
		return
	}
	waste := t.size - t.x.live()
	if t.rewrite(ctx, &engine.Commit{}, &entry{header: t.x.header}) != nil {
		t.compactAt = 2 * waste
	}
}

// rewrite writes the thread's file anew, as it is after a commit, and puts it in the old
// one's place. What l says of the header and of side rows is what the commit does.
func (t *thread) rewrite(ctx context.Context, c *engine.Commit, l *entry) error {
	tmp := t.path + extTemp
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return ioError("create", tmp, t.id, err)
	}
	err = t.writeLeft(ctx, f, c, l)
	if err == nil {
		err = t.d.sys.sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		if !renamesOpenFiles {
			_ = t.f.Close()
		}
		err = t.d.sys.rename(tmp, t.path)
	}
	if err != nil {
		_ = t.d.sys.remove(tmp)
		if !renamesOpenFiles {
			t.forget()
		}
		if errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrInvalid) {
			return err
		}
		return ioError("rewrite", tmp, t.id, err)
	}
	t.forget() // the lock goes with the old file
	return ioError("sync", t.d.dir, t.id, t.d.sys.syncDir(t.d.dir))
}

// writeLeft writes the lines that are left: one for each row, and all else in the last.
func (t *thread) writeLeft(ctx context.Context, f *os.File, c *engine.Commit, l *entry) (err error) {
	type left struct {
		ns  string
		i   int         // in the log
		row *engine.Row // instead
		off int64
	}
	var rows []left
	for ns, lx := range t.x.logs {
		of := make([]left, len(lx.rows))
		for i, r := range lx.rows {
			of[i] = left{ns: ns, i: i, off: r.off}
		}
		for i := range c.Replace {
			if r := &c.Replace[i]; r.Namespace == ns {
				if n := lx.find(r.Place); n < len(of) && int64(lx.rows[n].place) == r.Place {
					of[n].row = r
				}
			}
		}
		for _, p := range c.Remove {
			if p.Namespace == ns {
				for n := lx.find(p.From); n < lx.find(p.To+1); n++ {
					of[n].i = -1
				}
			}
		}
		rows = append(rows, slices.DeleteFunc(of, func(k left) bool { return k.i < 0 })...)
	}
	slices.SortFunc(rows, func(a, b left) int { return cmp.Compare(a.off, b.off) })
	for i := range c.Append {
		rows = append(rows, left{row: &c.Append[i]})
	}
	if len(rows) == 0 {
		rows = append(rows, left{i: -1})
	}
	after := t.x.side
	after.Change(l.delete, l.put, l.clear)
	side := after.Select(engine.SideQuery{})
	slices.SortFunc(side, func(a, b engine.SideRow) int { return cmp.Compare(a.Order, b.Order) })
	y := newIndex()
	var out []byte
	off := int64(0)
	for n, k := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := entry{at: time.Now().UnixNano(), beside: k.row == nil && k.i < 0, loose: n < len(rows)-1}
		if k.row != nil {
			next.row = *k.row
		} else if k.i >= 0 {
			if next.row, err = t.row(k.ns, k.i, false); err != nil {
				return err
			}
		}
		if !next.beside {
			next.at = next.row.At
		}
		if !next.loose {
			next.header = l.header
			for _, s := range side {
				next.put = append(next.put, engine.Put{Key: s.Key, Value: s.Value})
			}
		}
		b, err := y.write(t.id, t.seed, &next)
		if err == nil {
			err = y.apply(&next, off+int64(len(out)), len(b))
		}
		if err != nil {
			return err
		}
		if out = append(out, b...); len(out) > 1<<20 || n == len(rows)-1 {
			if _, err := t.d.sys.writeAt(f, out, off); err != nil {
				return err
			}
			off += int64(len(out))
			out = out[:0]
		}
	}
	return nil
}

// Load implements [engine.Driver].
func (d *driver) Load(ctx context.Context, log checkpoint.Log) (l engine.Loaded, err error) {
	err = d.view(ctx, log.Thread, func(t *thread, x *index) error {
		l = engine.Loaded{Header: x.header, Now: time.Now()}
		lx := x.logs[log.Namespace]
		if lx == nil || len(lx.rows) == 0 {
			return nil
		}
		r, err := t.row(log.Namespace, len(lx.rows)-1, false)
		l.Newest = &r
		return err
	})
	return l, err
}

// row reads row i of a log.
func (t *thread) row(ns string, i int, meta bool) (engine.Row, error) {
	at := t.x.logs[ns].rows[i]
	b, err := t.lineAt(at.off, int(at.n))
	if err != nil {
		return engine.Row{}, err
	}
	return t.rowOf(ns, i, b, meta)
}

// rowOf returns row i of a log, whose line was read.
func (t *thread) rowOf(ns string, i int, body []byte, meta bool) (r engine.Row, err error) {
	if r, err = t.x.row(t.id, body, i, meta); err != nil {
		off := t.x.logs[ns].rows[i].off
		err = t.corrupt(t.lineNumber(off), off, err)
	}
	return r, err
}

// Rows that stand together are read together.
const (
	aheadBytes = 128 << 10
	aheadGap   = 1 << 10 // bytes between two of them that are read for nothing
)

// Rows implements [engine.Driver].
func (d *driver) Rows(ctx context.Context, q engine.RowQuery) (page []engine.Row, last bool, err error) {
	err = d.view(ctx, q.Log.Thread, func(t *thread, x *index) error {
		page, last = nil, true
		lx := x.logs[q.Log.Namespace]
		if lx == nil {
			return nil
		}
		from, to := lx.find(q.From), lx.find(q.To+1)
		n, size := 0, 0
		at := func(n int) int {
			if q.Desc {
				return to - 1 - n
			}
			return from + n
		}
		for n < to-from && n < q.Rows && size < q.Bytes {
			size += int(lx.rows[at(n)].n)
			n++
		}
		last = n >= to-from
		page = make([]engine.Row, 0, max(n, 0))
		var read []byte // from readAt on
		readAt := int64(0)
		for k := range n {
			r := &lx.rows[at(k)]
			if r.off < readAt || r.off+int64(r.n) > readAt+int64(len(read)) {
				a, b := r.off, r.off+int64(r.n)
				for j := k + 1; j < n; j++ {
					s := &lx.rows[at(j)]
					if s.off > b+aheadGap || s.off+int64(s.n) < a-aheadGap || max(b, s.off+int64(s.n))-min(a, s.off) > aheadBytes {
						break
					}
					a, b = min(a, s.off), max(b, s.off+int64(s.n))
				}
				if readAt = a; q.Meta && cap(read) >= int(b-a) {
					read = read[:b-a]
				} else {
					read = make([]byte, b-a)
				}
				if _, err := t.f.ReadAt(read, a); err != nil {
					return t.fail("read", err)
				}
			}
			text, err := t.body(read[r.off-readAt:r.off-readAt+int64(r.n):r.off-readAt+int64(r.n)], r.off)
			if err != nil {
				return err
			}
			row, err := t.rowOf(q.Log.Namespace, at(k), text, q.Meta)
			if err != nil {
				return err
			}
			page = append(page, row)
		}
		return nil
	})
	return page, last, err
}

// Side implements [engine.Driver].
func (d *driver) Side(ctx context.Context, id checkpoint.ThreadID, q engine.SideQuery) (out []engine.SideRow, err error) {
	err = d.view(ctx, id, func(_ *thread, x *index) error {
		out = x.side.Select(q)
		return nil
	})
	return out, err
}

// Logs implements [engine.Driver].
func (d *driver) Logs(ctx context.Context, id checkpoint.ThreadID) (out []engine.Row, err error) {
	err = d.view(ctx, id, func(t *thread, x *index) error {
		out = nil
		for _, ns := range slices.Sorted(maps.Keys(x.logs)) {
			if n := len(x.logs[ns].rows); n > 0 {
				r, err := t.row(ns, n-1, true)
				if err != nil {
					return err
				}
				out = append(out, r)
			}
		}
		return nil
	})
	return out, err
}

// Delete implements [engine.Driver]. It also removes what was put aside of the thread's
// damaged lines. A damaged thread can be deleted.
func (d *driver) Delete(ctx context.Context, id checkpoint.ThreadID) error {
	err := d.with(ctx, id, func(t *thread) error {
		if err := d.slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer d.slots.Release(1)
		t.x = nil // it is not read
		_, unlock, err := t.hold(ctx, true, false)
		if err != nil {
			return err
		}
		defer unlock()
		defer t.forget()
		return t.delete()
	})
	if err == fs.ErrNotExist {
		return nil
	}
	return err
}

func (t *thread) delete() error {
	// Only the first line says whose file it is.
	st, err := t.f.Stat()
	if err != nil {
		return t.fail("stat", err)
	}
	sc := lines(t.f, 0, st.Size())
	if b, _, err := sc.next(); err == nil {
		if _, err := t.parse(newIndex(), b, 1, 0); errors.Is(err, ErrThread) {
			return err
		}
	}
	if !renamesOpenFiles {
		_ = t.f.Close()
	}
	for _, path := range []string{t.path, t.path + extDamaged, t.path + extTemp} {
		if err := t.d.sys.remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError("remove", path, t.id, err)
		}
	}
	t.undo = nil
	if t.d.opts.Sync == SyncEvery {
		return ioError("sync", t.d.dir, t.id, t.d.sys.syncDir(t.d.dir))
	}
	return nil
}

// Compact writes the files anew in which something is of no use any more. Those of
// threads that were only ever appended to are never larger than what they hold.
func (s *Store) Compact(ctx context.Context) error {
	d := s.driver
	ids, err := d.Names(ctx, "", math.MaxInt)
	errs := []error{err}
	for _, id := range ids {
		err := d.with(ctx, id, func(t *thread) error {
			return t.locked(ctx, true, false, func() error {
				if t.size-t.x.live() < t.size/16 || t.x.lines < 2 {
					return nil
				}
				if err := t.writable("compact"); err != nil {
					return err
				}
				return t.rewrite(ctx, &engine.Commit{}, &entry{header: t.x.header})
			})
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, checkpoint.ErrClosed):
			return err
		case err != nil && err != fs.ErrNotExist:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
