package sqlite

import (
	"context"
	"database/sql"
	"iter"
	"math"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// threadRow is what a row of superstep_threads says beside whose it is.
type threadRow struct {
	fence      int64
	holder     sql.NullString
	until, ttl sql.NullInt64

	due, headDue, woken sql.NullInt64
}

func (t *threadRow) values() []any {
	return []any{t.fence, t.holder, t.until, t.ttl, t.due, t.headDue, t.woken}
}

func (t *threadRow) lease() checkpoint.Lease {
	if !t.until.Valid {
		return checkpoint.Lease{}
	}
	return checkpoint.Lease{Holder: t.holder.String, Until: time.UnixMicro(t.until.Int64).UTC(), TTL: time.Duration(t.ttl.Int64)}
}

func (t *threadRow) dueTime() time.Time {
	if !t.due.Valid {
		return time.Time{}
	}
	return time.UnixMicro(t.due.Int64).UTC()
}

func micros(at time.Time) sql.NullInt64 {
	if at.IsZero() {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: at.UnixMicro(), Valid: true}
}

// leaseOf returns the lease that w begins, none if it begins none.
func leaseOf(w *checkpoint.Write, now time.Time) (t threadRow) {
	if w.Lease > 0 {
		t.holder = sql.NullString{String: w.Holder, Valid: true}
		t.until = micros(now.Add(w.Lease))
		t.ttl = sql.NullInt64{Int64: int64(w.Lease), Valid: true}
	}
	return t
}

// raise raises the fence of thread tid. Its fences begin at the tid, which is never
// used again, so that they are above all that a deleted thread of its name had.
func (t *threadRow) raise(tid int64) {
	if t.fence == 0 {
		t.fence = tid << 28
	}
	t.fence++
}

// after returns what becomes of thread tid by a write.
func (t threadRow) after(tid int64, w *checkpoint.Write, now time.Time) threadRow {
	if w.Claim {
		t.raise(tid)
		t.woken = sql.NullInt64{}
	}
	if w.Claim || w.Lease > 0 || w.Release {
		l := leaseOf(w, now)
		t.holder, t.until, t.ttl = l.holder, l.until, l.ttl
	}
	if w.Record != nil && w.Log.Namespace == "" {
		t.headDue = micros(w.Record.Due)
	}
	if w.Wake {
		t.woken = micros(now)
	}
	t.due = earlier(t.headDue, t.woken)
	return t
}

func earlier(a, b sql.NullInt64) sql.NullInt64 {
	if !a.Valid || b.Valid && b.Int64 < a.Int64 {
		return b
	}
	return a
}

// Due implements [checkpoint.Scheduler].
func (s *Store) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	until := int64(math.MaxInt64)
	if !before.IsZero() {
		until = before.UnixMicro()
	}
	return s.waiting(ctx, limit, func(t *threadRow) bool { return !t.lease().Live(time.Now()) },
		func(after threadRow, thread checkpoint.ThreadID) (*sql.Rows, error) {
			from := int64(math.MinInt64)
			if after.due.Valid {
				from = after.due.Int64
			}
			return s.read.due.QueryContext(ctx, from, string(thread), until)
		})
}

// Abandoned implements [checkpoint.Scheduler]. Leases that are live are looked
// at too, as the clock may have been set back.
func (s *Store) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.waiting(ctx, limit, func(t *threadRow) bool { return !t.lease().Live(time.Now()) },
		func(after threadRow, thread checkpoint.ThreadID) (*sql.Rows, error) {
			from := int64(math.MinInt64)
			if after.until.Valid {
				from = after.until.Int64
			}
			return s.read.leases.QueryContext(ctx, from, string(thread))
		})
}

const waitingPage = 256 // rows that due and leases give at most

// waiting yields the threads that a query finds, page by page, and that want
// takes. Query gets the last one of the page before.
func (s *Store) waiting(ctx context.Context, limit int, want func(t *threadRow) bool,
	query func(after threadRow, thread checkpoint.ThreadID) (*sql.Rows, error),
) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) {
		var (
			last   threadRow
			thread checkpoint.ThreadID
			n      int
		)
		for {
			if err := s.start(ctx, "all"); err != nil {
				yield(checkpoint.Waiting{}, err)
				return
			}
			var page []checkpoint.Waiting
			read := 0
			err := s.query(ctx, func() error {
				rows, err := query(last, thread)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					last = threadRow{}
					if err := rows.Scan((*string)(&thread), &last.due, &last.holder, &last.until, &last.ttl); err != nil {
						return err
					}
					read++
					if want(&last) {
						page = append(page, checkpoint.Waiting{Thread: thread, Due: last.dueTime(), Lease: last.lease()})
					}
				}
				return rows.Err()
			})
			if err != nil {
				yield(checkpoint.Waiting{}, err)
				return
			}
			for _, w := range page {
				if err := ctx.Err(); err != nil {
					yield(checkpoint.Waiting{}, err)
					return
				}
				if !yield(w, nil) {
					return
				}
				if n++; n == limit {
					return
				}
			}
			if read < waitingPage {
				return
			}
		}
	}
}
