package s3

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// heads reads the heads of threads by their escaped IDs. With an error of some, which are nil,
// come the others.
func (d *driver) heads(ctx context.Context, threads []string) ([]*head, error) {
	out, errs := make([]*head, len(threads)), make([]error, len(threads))
	parallel(len(threads), func(i int) {
		id, _ := unescape(threads[i])
		out[i], errs[i] = d.head(ctx, id, dirHeads+threads[i])
	})
	return out, errors.Join(errs...)
}

// named calls f with the heads of all threads whose IDs have a prefix. With an error of
// some come the others.
func (d *driver) named(ctx context.Context, prefix checkpoint.ThreadID, f func(*head)) error {
	var threads []string
	for o, err := range d.b.list(ctx, dirHeads+beginning(prefix), "") {
		if err != nil {
			return err
		}
		threads = append(threads, o.Key[len(dirHeads):])
	}
	heads, err := d.heads(ctx, threads)
	for _, h := range heads {
		if h != nil && h.etag != "" && strings.HasPrefix(string(h.Thread), string(prefix)) {
			f(h)
		}
	}
	return err
}

// someHeads is how many heads are read at once for a list.
const someHeads = 64

// indexed looks through an index behind a key and up to a place ("": all), until takes has
// taken want of the heads that its entries lead to, and all of the place of the last. It
// returns that place; more is false if it came to the end.
func (d *driver) indexed(ctx context.Context, dir, after, until string, want int, takes func(h *head, e *entry) bool) (last string, more bool, err error) {
	kind := slices.Index([]string{dirMinutes, dirDue, dirLeases}, dir)
	var some []entry
	var rubbish []string
	look := func(some []entry) {
		threads := make([]string, len(some))
		for i := range some {
			threads[i] = some[i].thread
		}
		heads, bad := d.heads(ctx, threads)
		err = errors.Join(err, bad)
		for i, h := range heads {
			e := &some[i]
			if h == nil {
				continue
			}
			if takes(h, e) {
				want--
			}
			old := time.Since(e.made) > abandoned
			if h.etag == "" && old || h.etag != "" && h.Entries[kind] != e.key && e.version <= h.header.Version {
				rubbish = append(rubbish, e.key) // of a commit that came to nothing, or of one before
			}
		}
	}
	for o, err := range d.b.list(ctx, dir, after) {
		if err != nil {
			return last, false, err
		}
		e, ok := parseEntry(dir, o.Key)
		if !ok {
			continue
		}
		if until != "" && e.place > until {
			break
		}
		if e.made = o.LastModified; e.place != last && len(some) >= min(want, someHeads) {
			look(some)
			if some = nil; want <= 0 {
				more = true
				break
			}
		}
		some, last = append(some, e), e.place
	}
	look(some)
	_ = d.b.remove(ctx, rubbish...) // what stays is looked at again
	return last, more, cmp.Or(ctx.Err(), err)
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, q engine.ListQuery) (page []engine.Listed, below int64, more bool, err error) {
	seen := map[string]bool{}
	var bad error
	take := func(h *head) bool {
		if !q.Takes(h.thread(), &h.header) || seen[string(h.Thread)] {
			return false
		}
		seen[string(h.Thread)] = true
		v := view{head: h}
		row, err := v.parseRow(&h.Newest, true)
		if err != nil {
			bad = errors.Join(bad, err)
			return false
		}
		page = append(page, engine.Listed{Thread: h.thread(), Header: h.header, Head: row, First: h.First})
		return true
	}
	if q.Prefix != "" {
		err = d.named(ctx, checkpoint.ThreadID(q.Prefix), func(h *head) { take(h) })
		return page, 0, false, errors.Join(bad, err)
	}
	// Who was written to since the entry was read stands higher up, and is taken here.
	minute := func(place string) int64 {
		n, _ := parseSortable(place)
		return ^n
	}
	last, more, err := d.indexed(ctx, dirMinutes, dirMinutes+inverted(q.Below)+"0", "", q.Want, func(h *head, e *entry) bool {
		return h.header.Minute >= minute(e.place) && take(h)
	})
	return page, minute(last), more, errors.Join(bad, err)
}

// Waiting implements [engine.Driver].
func (d *driver) Waiting(ctx context.Context, q engine.WaitQuery) (out []engine.Waiter, err error) {
	dir, kind, after, until := dirDue, 1, "", ""
	if !q.After.IsZero() {
		after = dirDue + sortable(engine.Microseconds(q.After))
	}
	if !q.Until.IsZero() {
		until = sortable(engine.Microseconds(q.Until))
	}
	if q.Leased { // in no order: a renewal leaves the entry as it is
		dir, kind, after, until = dirLeases, 2, "", ""
	}
	_, _, err = d.indexed(ctx, dir, after, until, q.Limit, func(h *head, e *entry) bool {
		if h.Entries[kind] != e.key || !q.Takes(h.thread(), &h.header) {
			return false
		}
		out = append(out, engine.Waiter{Thread: h.thread(), Header: h.header, Now: time.Now()})
		return true
	})
	slices.SortFunc(out, q.Compare)
	return out[:min(q.Limit, len(out))], err
}

// Names implements [engine.Driver].
func (d *driver) Names(ctx context.Context, above checkpoint.ThreadID, most int) (out []checkpoint.ThreadID, err error) {
	after, group := dirHeads+escape(above), ""
	if i := strings.Index(after, longMark); i >= 0 {
		after = after[:i] + longMark
	}
	if above == "" {
		after = ""
	}
	for o, err := range d.b.list(ctx, dirHeads, after) {
		if err != nil {
			return nil, err
		}
		name := o.Key[len(dirHeads):]
		begin, _, long := strings.Cut(name, longMark)
		if len(out) >= most && !(long && begin == group) {
			break
		}
		id, ok := unescape(name)
		if long { // the head knows it; those with the same beginning are in any order
			h, err := d.head(ctx, "", o.Key)
			if err != nil {
				return nil, err
			}
			group, id, ok = begin, h.thread(), h.etag != ""
		}
		if ok && id > above {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out[:min(most, len(out))], nil
}
