package engine

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// wantThreads is how many threads a list reads at least, if there are so many.
const wantThreads = 256

// Threads implements [checkpoint.Lister]. Threads whose heads are of the same minute are
// read together; so are all that have a prefix.
func (e *Engine) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	return func(yield func(checkpoint.ThreadInfo, error) bool) {
		q := ListQuery{Prefix: f.Prefix, Below: 1<<63 - 1, Labels: labelsOf(f.Metadata), Want: wantThreads}
		if f.Prefix == "" && f.After.Thread != "" {
			q.Below = minuteOf(f.After.At) + 1
		}
		left := f.Limit
		for more := true; more; {
			if left > 0 {
				q.Want = min(left, wantThreads)
			}
			err := e.start(ctx, "all")
			var page []Listed
			if err == nil {
				page, q.Below, more, err = e.driver.List(ctx, q)
			}
			infos := make([]checkpoint.ThreadInfo, 0, len(page))
			for i := range page {
				info, bad := page[i].info()
				if bad != nil {
					err = errors.Join(err, bad)
					continue
				}
				infos = append(infos, info)
			}
			slices.SortFunc(infos, func(a, b checkpoint.ThreadInfo) int { return a.Place().Compare(b.Place()) })
			for _, info := range infos {
				if !f.Takes(&info) {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(checkpoint.ThreadInfo{}, err)
					return
				}
				if !yield(info, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if err != nil {
				yield(checkpoint.ThreadInfo{}, e.failed(ctx, err))
				return
			}
		}
	}
}

func (l *Listed) info() (checkpoint.ThreadInfo, error) {
	head, err := l.Head.record(l.Thread, metaOnly)
	info := checkpoint.ThreadInfo{
		Thread: l.Thread, Head: head, CreatedAt: time.Unix(0, l.First).UTC(), Records: l.Head.Count, Bytes: l.Head.Bytes,
	}
	if l.Header.Lease.Live(time.Now()) {
		info.Lease = l.Header.Lease
	}
	return info, err
}

// Logs implements [checkpoint.Lister].
func (e *Engine) Logs(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	return func(yield func(checkpoint.LogInfo, error) bool) {
		err := e.start(ctx, thread)
		var rows []Row
		if err == nil {
			rows, err = e.driver.Logs(ctx, thread)
		}
		if err != nil {
			yield(checkpoint.LogInfo{}, e.failed(ctx, err))
			return
		}
		for _, r := range rows {
			log := checkpoint.Log{Thread: thread, Namespace: r.Namespace}
			if !yield(checkpoint.LogInfo{Log: log, Head: r.ID, Records: r.Count, Bytes: r.Bytes}, nil) {
				return
			}
		}
	}
}

const waitersPage = 256

// Due implements [checkpoint.Scheduler].
func (e *Engine) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return e.waiting(ctx, WaitQuery{Until: before, Limit: waitersPage}, limit)
}

// Abandoned implements [checkpoint.Scheduler]. Leases that are live are looked at too, as
// the clock may have been set back.
func (e *Engine) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return e.waiting(ctx, WaitQuery{Leased: true, Limit: waitersPage}, limit)
}

// waiting yields the threads of q that no live lease holds.
func (e *Engine) waiting(ctx context.Context, q WaitQuery, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) {
		for n := 0; ; {
			err := e.start(ctx, "all")
			var page []Waiter
			if err == nil {
				page, err = e.driver.Waiting(ctx, q)
			}
			for _, w := range page {
				due := w.Header.Due()
				if q.After, q.Thread = due, w.Thread; q.Leased {
					q.After = w.Header.Lease.Until
				}
				if w.Header.Lease.Live(w.Now) {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(checkpoint.Waiting{}, err)
					return
				}
				if !yield(checkpoint.Waiting{Thread: w.Thread, Due: due, Lease: w.Header.Lease}, nil) {
					return
				}
				if n++; n == limit {
					return
				}
			}
			if err != nil {
				yield(checkpoint.Waiting{}, e.failed(ctx, err))
				return
			}
			if len(page) < q.Limit {
				return
			}
		}
	}
}

// rows yields all rows of a log, by place.
func (e *Engine) rows(ctx context.Context, log checkpoint.Log, meta bool) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		q := RowQuery{Log: log, From: 1, To: maxPlace, Meta: meta, Rows: pageRows, Bytes: pageBytes}
		for last := false; !last; {
			var page []Row
			var err error
			page, last, err = e.driver.Rows(ctx, q)
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
				q.From = page[i].Place + 1
			}
			if err != nil {
				yield(nil, err)
				return
			}
			last = last || len(page) == 0
		}
	}
}
