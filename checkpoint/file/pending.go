package file

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

const (
	compactAt   = 32 << 10 // size at which a companion file is first looked at
	compactLine = 1 << 20  // size at which a line of a new companion ends
)

// appendPending appends a line to the companion file, which is made if there is
// none.
func (t *thread) appendPending(ln *line, ns string) error {
	if t.s.opts.Sync == SyncEvery && t.main.dirty && t.main.lines > 0 {
		// The line says that those of main are there.
		if err := t.s.sys.sync(t.main.f); err != nil {
			return t.fail("sync", &t.main, err)
		}
		t.main.dirty = false
	}
	created := false
	if t.pend.f == nil {
		f, err := os.OpenFile(t.pend.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return t.fail("create", &t.pend, err)
		}
		t.pend.f, t.synced, created = f, false, true
	}
	after := t.main.lines
	ln.After = &after
	if ns != "" {
		ln.NS = (*text)(&ns)
	}
	err := t.appendLine(&t.pend, ln)
	if err != nil && created && t.pend.undo == nil {
		_ = t.s.sys.remove(t.pend.path)
		t.pend.close()
	}
	return err
}

// removePending removes a companion file that is of no use.
func (t *thread) removePending() error {
	t.pend.close()
	if err := t.s.sys.remove(t.pend.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.x = nil
		return t.fail("remove", &t.pend, err)
	}
	t.leftover, t.synced = false, false
	return nil
}

// tidyPending writes the companion file anew when most of it is of no use any
// more. What it does can fail without harm: the old file stays then.
func (t *thread) tidyPending() {
	if t.x == nil || t.pend.f == nil || t.pend.size < max(t.compactAt, compactAt) {
		return
	}
	if err := t.rewritePending(t, t.x.fence, false); err == nil {
		t.compactAt = 2 * t.pend.size
	} else {
		t.compactAt = 2 * max(t.pend.size, compactAt)
	}
}

// rewritePending writes the fence, the lease and the results of t that count into
// a new companion file of the thread to, which may be t itself. A new companion
// that says all of it makes what the thread's file says of it count no more.
func (t *thread) rewritePending(to *thread, fence checkpoint.Fence, all bool) error {
	all = all || t.x.shadow
	tmp := to.base + extTemp
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return ioError("create", tmp, to.id, err)
	}
	abandon := func(err error) error {
		_ = f.Close()
		_ = to.s.sys.remove(tmp)
		return ioError("append", tmp, to.id, err)
	}
	var (
		seq, off int64
		moved    []func()
	)
	put := func(ln *line) (int64, int, error) {
		seq++
		after := t.main.lines
		ln.Seq, ln.After = seq, &after
		if seq == 1 {
			ln.Thread = (*text)(&to.id)
		}
		b, err := ln.encode(to.seed)
		if err != nil {
			return 0, 0, err
		}
		at := off
		if _, err := to.s.sys.writeAt(f, b, at); err != nil {
			return 0, 0, err
		}
		off += int64(len(b))
		return at, len(b), nil
	}
	first := line{Claim: fence, Reset: all}
	if to == t && t.x.lease.Holder != "" {
		first.Lease = newLease(t.x.lease)
	}
	first.Release = to == t && first.Lease == nil && t.x.leased
	if !t.x.woken.IsZero() {
		first.Wake = &t.x.woken
	}
	if fence > 0 || all || first.Lease != nil || first.Release || first.Wake != nil {
		if _, _, err := put(&first); err != nil {
			return abandon(err)
		}
	}
	for _, l := range t.x.logs {
		steps := make([]dropWire, 0, len(l.open))
		for of := range l.open {
			steps = append(steps, of)
		}
		slices.SortFunc(steps, func(a, b dropWire) int {
			return cmp.Or(cmp.Compare(a.Branch, b.Branch), cmp.Compare(a.Epoch, b.Epoch))
		})
		for _, of := range steps {
			list := l.open[of].list
			for i := 0; i < len(list); {
				if !list[i].pending && !all {
					i++
					continue
				}
				var idx []int
				var at []resultAt
				size := 0
				for ; i < len(list) && size < compactLine; i++ {
					if list[i].pending || all {
						idx, at = append(idx, i), append(at, list[i])
						size += int(list[i].n)
					}
				}
				rs, err := t.resultsAt(context.Background(), at)
				if err != nil {
					return abandon(err)
				}
				var ln line
				if err := ln.setResults(rs); err != nil {
					return abandon(err)
				}
				if l.ns != "" {
					ln.NS = (*text)(&l.ns)
				}
				start, n, err := put(&ln)
				if err != nil {
					return abandon(err)
				}
				moved = append(moved, func() {
					for nth, i := range idx {
						list[i].off, list[i].n, list[i].nth, list[i].pending = start, int32(n), int32(nth), true
					}
				})
			}
		}
	}
	if seq == 0 { // nothing to keep
		_ = abandon(nil)
		if to != t || t.pend.f == nil {
			return nil
		}
		err := t.removePending()
		if t.x != nil {
			t.x.pending = 0
		}
		return err
	}
	if to.s.opts.Sync == SyncEvery {
		if err := to.s.sys.sync(f); err != nil {
			return abandon(err)
		}
	}
	if to != t {
		if err := f.Close(); err != nil {
			return abandon(err)
		}
		if err := to.s.sys.rename(tmp, to.pend.path); err != nil {
			return abandon(err)
		}
		return nil
	}
	if t.pend.f != nil && !renamesOpenFiles {
		_ = t.pend.f.Close()
		t.pend.f = nil
	}
	if err := t.s.sys.rename(tmp, t.pend.path); err != nil {
		if t.pend.f == nil {
			t.x = nil // read it anew
		}
		return abandon(err)
	}
	t.pend.close()
	if !renamesOpenFiles {
		_ = f.Close()
		t.x = nil
		return nil
	}
	t.pend.f, t.pend.size, t.pend.lines = f, off, seq
	t.x.pending, t.x.shadow, t.x.fence = seq, all, fence
	for _, m := range moved {
		m()
	}
	if t.s.opts.Sync == SyncEvery {
		// A power failure may bring the old file back, which says the same;
		// but only one of the two may be appended to.
		t.synced = false
	}
	return nil
}
