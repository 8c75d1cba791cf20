package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// driver keeps an engine's rows.
type driver struct {
	b        *bucket
	cache    *cache
	patience time.Duration // for how long a write waits for its answer
	release  func()        // what Close does with the client

	removals sync.WaitGroup // under way
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Checker = (*driver)(nil)
)

// head reads the head with a key, without an ETag if there is none.
func (d *driver) head(ctx context.Context, id checkpoint.ThreadID, key string) (*head, error) {
	known, _ := d.cache.get(key).(*head)
	etag := ""
	if known != nil {
		etag = known.etag
	}
	b, etag, err := d.b.get(ctx, key, etag)
	switch {
	case errors.Is(err, errSame):
		return known, nil
	case errors.Is(err, errAbsent):
		d.cache.drop(key)
		return &head{}, nil
	case err != nil:
		return nil, err
	}
	h := &head{etag: etag}
	if err := corrupt(id, "its head", decode(key, b, h)); err != nil {
		return nil, err
	}
	if h.header, err = engine.ParseHeader(h.thread(), h.Header); err != nil {
		return nil, err
	}
	var before any
	if known != nil {
		before = known
	}
	d.cache.put(key, before, h, len(b))
	return h, nil
}

func (d *driver) view(ctx context.Context, id checkpoint.ThreadID, h *head) view {
	return view{head: h, b: d.b, cache: d.cache, ctx: ctx, escaped: escape(id)}
}

// read calls f with a thread as it is, again if that has changed meanwhile.
func (d *driver) read(ctx context.Context, id checkpoint.ThreadID, f func(v *view) error) error {
	key := dirHeads + escape(id)
	for seen := ""; ; {
		h, err := d.head(ctx, id, key)
		if err != nil {
			return err
		}
		v := d.view(ctx, id, h)
		if err = f(&v); !errors.Is(err, errGone) || h.etag == seen {
			return err
		}
		seen = h.etag
	}
}

// Load implements [engine.Driver].
func (d *driver) Load(ctx context.Context, log checkpoint.Log) (l engine.Loaded, err error) {
	err = d.read(ctx, log.Thread, func(v *view) error {
		l = engine.Loaded{Header: v.header, Now: time.Now()}
		i, err := v.newest(log.Namespace)
		if err != nil || i == nil {
			return err
		}
		r, err := v.parseRow(i, false)
		l.Newest = &r
		return err
	})
	return l, err
}

// Rows implements [engine.Driver].
func (d *driver) Rows(ctx context.Context, q engine.RowQuery) (page []engine.Row, last bool, err error) {
	err = d.read(ctx, q.Log.Thread, func(v *view) error {
		page, last = nil, true
		size := 0
		var bad error
		err := v.scan(rowKey(q.Log.Namespace, q.From), rowKey(q.Log.Namespace, q.To+1), q.Desc, func(i *item) bool {
			if len(page) == q.Rows || len(page) > 0 && size >= q.Bytes {
				last = false
				return false
			}
			var r engine.Row
			if r, bad = v.parseRow(i, q.Meta); bad != nil {
				return false
			}
			size += len(r.Meta) + len(r.Data)
			page = append(page, r)
			return true
		})
		return cmp.Or(bad, err)
	})
	return page, last && err == nil, err
}

// Side implements [engine.Driver].
func (d *driver) Side(ctx context.Context, id checkpoint.ThreadID, q engine.SideQuery) (out []engine.SideRow, err error) {
	below := []byte{1}
	if q.Below != nil {
		below = sideKey(q.Below)
	}
	err = d.read(ctx, id, func(v *view) error {
		out = nil
		return v.scan(sideKey(q.From), below, q.Desc, func(i *item) bool {
			out = append(out, engine.SideRow{Key: bytes.Clone(i.Key[1:]), Value: bytes.Clone(i.Value), Order: i.Order})
			return len(out) != q.Limit
		})
	})
	return out, err
}

// Logs implements [engine.Driver].
func (d *driver) Logs(ctx context.Context, id checkpoint.ThreadID) (out []engine.Row, err error) {
	err = d.read(ctx, id, func(v *view) error {
		out = nil
		for from := []byte{1}; ; {
			i, err := v.one(from, nil, false)
			if err != nil || i == nil {
				return err
			}
			ns, _, _ := parseRowKey(i.Key)
			if i, err = v.newest(ns); err != nil {
				return err
			}
			r, err := v.parseRow(i, true)
			if err != nil {
				return err
			}
			out, from = append(out, r), engine.Below(logKey(ns))
		}
	})
	return out, err
}

// Commit implements [engine.Driver].
func (d *driver) Commit(ctx context.Context, batch []*engine.Commit) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range batch {
		w := &writing{d: d, c: c, key: dirHeads + escape(c.Thread), token: make([]byte, tokenLen)}
		_, _ = rand.Read(w.token) // never fails
		all.Go(func() { c.Ignored, c.Err = w.commit(ctx) })
		defer func() { d.remove(ctx, w.rubbish) }()
	}
	all.Wait()
	return nil
}

// remove removes what nobody needs any more, which nobody waits for.
func (d *driver) remove(ctx context.Context, rubbish []string) {
	if len(rubbish) > 0 {
		d.removals.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
			defer cancel()
			_ = d.b.remove(ctx, rubbish...) // what stays is in nobody's way
		})
	}
}

// writing is a commit under way.
type writing struct {
	d       *driver
	c       *engine.Commit
	key     string // of the head
	token   []byte
	rubbish []string // keys of what is to be removed
}

func (w *writing) commit(ctx context.Context) (ignored int, err error) {
	d := w.d
	h, _ := d.cache.get(w.key).(*head)
	if h == nil && w.c.Version == 0 {
		h = &head{} // else the server says that it isn't so
	}
	read := h == nil
	missing := ""
	for i := range tries {
		if read {
			if h, err = d.head(ctx, w.c.Thread, w.key); err != nil {
				return 0, err
			}
		}
		n := change{view: d.view(ctx, w.c.Thread, &head{}), pages: map[string][]byte{}}
		*n.head = *h
		ignored, err = n.plan(w.c, w.token)
		switch {
		case err != nil && read && !(errors.Is(err, errGone) && missing != h.etag):
			return 0, err
		case err != nil: // perhaps for what is no longer so
			read, missing = true, h.etag
			continue
		}
		done, err := w.write(ctx, &n, h)
		if done || err != nil {
			return ignored, err
		}
		read = true
		pause(ctx, i)
	}
	return 0, engine.ErrStale
}

// write makes n the head instead of h. It reports false if another has come before: then
// nothing has happened, nor will.
func (w *writing) write(ctx context.Context, n *change, h *head) (done bool, err error) {
	d := w.d
	var first, stale []string // what the new head refers to, and the old one alone
	for key := range n.pages {
		first = append(first, key)
	}
	for i, key := range n.Entries {
		if old := h.Entries[i]; key != old {
			if key != "" {
				first = append(first, key)
				n.pages[key] = n.Thread // some servers take no empty objects
			}
			if old != "" {
				stale = append(stale, old)
			}
		}
	}
	body, err := encode(w.key, n.head)
	if err != nil {
		return false, err
	}
	errs := make([]error, len(first))
	parallel(len(first), func(i int) { _, _, errs[i] = d.b.put(ctx, first[i], n.pages[first[i]], always) })
	if err := cmp.Or(errs...); err != nil {
		w.rubbish = append(w.rubbish, first...)
		return false, d.b.explain("write to", err)
	}
	match := isNew
	if h.etag != "" {
		match = h.etag
	}
	sent := 0
	for i := 0; ; i++ {
		etag, times, err := d.b.put(ctx, w.key, body, match)
		sent += times
		now, failed := n.head, err
		switch {
		case err == nil:
			if now.etag = etag; etag == "" { // it has to be asked
				d.cache.drop(w.key)
			} else {
				d.cache.put(w.key, d.cache.get(w.key), now, len(body))
			}
		case sent == 1 && conditional(err):
			w.rubbish = append(w.rubbish, first...)
			return false, nil
		case sent == 0, sent == 1 && refused(err):
			w.rubbish = append(w.rubbish, first...)
			return false, d.b.explain("write to", err)
		case ctx.Err() != nil:
			return false, d.b.uncertain("write to", err)
		default:
			if now, err = d.head(ctx, w.c.Thread, w.key); errors.Is(err, checkpoint.ErrCorrupt) {
				return false, err
			}
		}
		switch {
		case failed == nil || now.has(w.token):
			w.rubbish = append(append(w.rubbish, n.replaced...), stale...)
			return true, nil
		case err != nil, now.etag == h.etag: // it may be on its way yet: then the next one meets it
			pause(ctx, i)
		case now.follows(h):
			w.rubbish = append(w.rubbish, first...)
			return false, nil
		default:
			return false, d.b.uncertain("write to", failed)
		}
	}
}

// plan makes the change that a commit asks for.
func (n *change) plan(c *engine.Commit, token []byte) (ignored int, err error) {
	if n.header.Version != c.Version {
		return 0, engine.ErrStale
	}
	n.Delta = slices.Clone(n.Delta)
	if n.etag == "" {
		n.Thread, n.Birth, n.Header = []byte(c.Thread), token, engine.AppendHeader(nil, c.Thread, &engine.Header{})
	}
	n.Tokens = slices.Concat(n.Tokens[max(0, len(n.Tokens)-(keepTokens-1)*tokenLen):], token)
	for _, prefix := range c.Absent {
		key := sideKey(prefix)
		if i, err := n.one(key, engine.Below(key), false); err != nil || i != nil {
			return 0, cmp.Or(err, engine.ErrStale)
		}
	}
	newest := func(ns string) (place int64, err error) {
		i, err := n.newest(ns)
		if i != nil {
			_, place, _ = parseRowKey(i.Key)
		}
		return place, err
	}
	for i := range c.Append {
		if ns := c.Append[i].Namespace; i == 0 || ns != c.Append[i-1].Namespace {
			if place, err := newest(ns); err != nil || place >= c.Append[i].Place {
				return 0, cmp.Or(err, engine.ErrStale)
			}
		}
	}
	if c.Newest != 0 {
		if place, err := newest(c.Changed()); err != nil || place != c.Newest {
			return 0, cmp.Or(err, engine.ErrStale)
		}
	}
	root, oldest := false, n.First == 0 || len(c.Replace) > 0
	for _, rows := range [][]engine.Row{c.Append, c.Replace} {
		for i := range rows {
			r := &rows[i]
			n.set(item{Key: rowKey(r.Namespace, r.Place), Value: rowValue(r)})
			root = root || r.Namespace == ""
		}
	}
	for _, p := range c.Remove {
		if err := n.clear(rowKey(p.Namespace, p.From), rowKey(p.Namespace, p.To+1)); err != nil {
			return 0, err
		}
		if p.Namespace == "" {
			root, oldest = true, true
		}
	}
	if ignored, err = n.side(c); err != nil {
		return 0, err
	}
	if root {
		if err := n.summarize(oldest); err != nil {
			return 0, err
		}
	}
	if c.Header != nil {
		n.header = *c.Header
		n.Header = engine.AppendHeader(nil, c.Thread, c.Header)
		n.index()
	}
	if sizeOf(n.Delta) > deltaSize {
		err = n.settle()
	}
	return ignored, err
}

// side does what a commit asks for with side rows.
func (n *change) side(c *engine.Commit) (ignored int, err error) {
	for _, k := range c.Delete {
		key := sideKey(k)
		if err := n.clear(key, append(bytes.Clone(key), 0)); err != nil {
			return 0, err
		}
	}
	for i := range c.Put {
		p := &c.Put[i]
		key := sideKey(p.Key)
		old, err := n.get(key)
		switch {
		case err != nil:
			return 0, err
		case old != nil && !p.Replace:
			ignored++
			continue
		}
		put := item{Key: key, Value: append([]byte{}, p.Value...)}
		if old != nil {
			put.Order = old.Order
		} else {
			n.Order++
			put.Order = n.Order
		}
		n.set(put)
	}
	for _, prefix := range c.Clear {
		key := sideKey(prefix)
		if err := n.clear(key, engine.Below(key)); err != nil {
			return 0, err
		}
	}
	return ignored, nil
}

// summarize notes what lists tell of the log with the empty namespace.
func (n *change) summarize(oldest bool) error {
	i, err := n.newest("")
	if err != nil {
		return err
	}
	if i == nil {
		n.Newest, n.First = item{}, 0
		return nil
	}
	r, err := n.parseRow(i, true)
	if err != nil {
		return err
	}
	n.Newest = item{Key: i.Key, Value: rowValue(&r)}
	if oldest {
		prefix := logKey("")
		if i, err = n.one(prefix, engine.Below(prefix), false); err != nil {
			return err
		}
		if r, err = n.parseRow(i, true); err != nil {
			return err
		}
		n.First = r.At
	}
	return nil
}

// index names the entries that the thread has in the indexes. Each try has its own, as those
// of one that comes to nothing are removed.
func (n *change) index() {
	for i, at := range []struct {
		dir, place string
		some       bool
	}{
		{dirMinutes, inverted(n.header.Minute), n.header.Listed},
		{dirDue, sortable(engine.Microseconds(n.header.Due())), !n.header.Due().IsZero()},
		{dirLeases, "0", !n.header.Lease.Until.IsZero()},
	} {
		switch prefix := at.dir + at.place + "/"; {
		case !at.some:
			n.Entries[i] = ""
		case !strings.HasPrefix(n.Entries[i], prefix):
			n.Entries[i] = entryKey(at.dir, at.place, n.escaped, n.header.Version)
		}
	}
}

// Delete implements [engine.Driver]. The thread is gone when its head is.
func (d *driver) Delete(ctx context.Context, id checkpoint.ThreadID) error {
	key := dirHeads + escape(id)
	var pages []minio.ObjectInfo
	for o, err := range d.b.list(ctx, dirPages+escape(id)+"/", "") {
		if err != nil {
			return err
		}
		pages = append(pages, o)
	}
	h, err := d.head(ctx, id, key)
	damaged := errors.Is(err, checkpoint.ErrCorrupt)
	switch {
	case damaged:
		h = &head{}
	case err != nil:
		return err
	}
	if damaged || h.etag != "" {
		d.cache.drop(key)
		if err := d.b.remove(ctx, key); err != nil {
			return err
		}
	}
	var rubbish []string
	for _, e := range h.Entries {
		if e != "" {
			rubbish = append(rubbish, e)
		}
	}
	// Pages of other births may be those of a thread that is about to begin.
	v := d.view(ctx, id, h)
	mine := strings.TrimSuffix(v.pageKey(nil), "/") + "/"
	for _, o := range pages {
		if h.etag != "" && strings.HasPrefix(o.Key, mine) || time.Since(o.LastModified) > abandoned {
			rubbish = append(rubbish, o.Key)
		}
	}
	return d.b.remove(ctx, rubbish...)
}

// abandoned is after how long what nobody refers to is of a writer that came to nothing.
const abandoned = time.Hour

// Check implements [engine.Checker]: of a thread, all that its head refers to is there, and
// sound.
func (d *driver) Check(ctx context.Context, id checkpoint.ThreadID, found func(*checkpoint.CorruptError)) error {
	if id == "" {
		return nil
	}
	var all []error
	for seen := ""; ; {
		h, err := d.head(ctx, id, dirHeads+escape(id))
		if err != nil {
			return err
		}
		if seen == h.etag {
			break
		}
		seen, all = h.etag, nil // what is damaged is so when nobody writes, too
		v := d.view(ctx, id, h)
		v.fresh = true
		note := func(err error) { all = append(all, err) }
		v.check(h.Root, h.Height, note)
		for _, e := range h.Entries {
			if e == "" {
				continue
			}
			_, _, err := d.b.get(ctx, e, "")
			if errors.Is(err, errAbsent) {
				err = corrupt(id, fmt.Sprintf("entry %q of an index", e), errGone)
			}
			if err != nil {
				note(err)
			}
		}
		if len(all) == 0 {
			return nil
		}
	}
	for _, err := range all {
		c, ok := errors.AsType[*checkpoint.CorruptError](err)
		if !ok {
			return err
		}
		found(c)
	}
	return nil
}

// check reads pages and all below them.
func (v *view) check(pages []item, height int, note func(error)) {
	for i := range pages {
		items, err := v.page(pages[i].Value)
		if err != nil {
			note(err)
		} else if height > 1 {
			v.check(items, height-1, note)
		}
	}
}

// Close implements [engine.Driver].
func (d *driver) Close() error {
	d.removals.Wait()
	d.release()
	return nil
}
