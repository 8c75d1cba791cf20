package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/checkpoint"
)

// transaction runs f in a transaction, again if the server undid it for others'
// sake.
func (s *Store) transaction(ctx context.Context, op string, f func(tx pgx.Tx) error) error {
	var err error
	for range 4 {
		committing := false
		err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			committing = true
			return nil
		})
		if committing && err != nil && !undone(err) && ctx.Err() == nil && !s.closed.Load() {
			return &Error{Op: op, Server: s.server, Kind: ErrUnknownOutcome, Fix: "look whether it happened, or do it again", Err: err}
		}
		if err == nil || !again(err) && !pgconn.SafeToRetry(err) || ctx.Err() != nil {
			break
		}
	}
	return s.failed(ctx, op, err)
}

// Delete implements [checkpoint.Store].
func (s *Store) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := s.start(ctx, thread); err != nil {
		return err
	}
	k, _ := clip([]byte(thread))
	return s.transaction(ctx, "delete a thread of", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.sql.remove, k)
		return err
	})
}

// Copy implements [checkpoint.Copier].
func (s *Store) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := s.start(ctx, from); err != nil {
		return err
	}
	if to == "" {
		return checkpoint.ErrNoThread
	}
	fromKey, _ := clip([]byte(from))
	toKey, toWhole := clip([]byte(to))
	return s.transaction(ctx, "copy a thread of", func(tx pgx.Tx) error {
		var src, dst int64
		find := func() error {
			var live bool
			var holder []byte
			var fence checkpoint.Fence
			var until *time.Time
			var ttl *int64
			err := tx.QueryRow(ctx, s.sql.lockThread, fromKey).Scan(&src, &fence, &live, &holder, &until, &ttl)
			if errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
			}
			return err
		}
		add := func() error {
			err := tx.QueryRow(ctx, s.sql.newThread, toKey, toWhole).Scan(&dst)
			if errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("%w: thread %q exists already", checkpoint.ErrConflict, to)
			}
			return err
		}
		if from == to {
			if err := find(); err != nil {
				return err
			}
			return add()
		}
		// As every writer does: in the order of keys.
		first, second := find, add
		if bytes.Compare(toKey, fromKey) < 0 {
			first, second = add, find
		}
		err := first()
		if errors.Is(err, checkpoint.ErrConflict) {
			// That the other does not exist is the better answer.
			if other := second(); errors.Is(other, checkpoint.ErrNotFound) {
				return other
			}
		}
		if err == nil {
			err = second()
		}
		if err != nil {
			return err
		}
		for _, q := range append([]string{s.sql.copyThread, s.sql.copyLogs}, s.sql.copies...) {
			if _, err := tx.Exec(ctx, q, src, dst); err != nil {
				return err
			}
		}
		return nil
	})
}

// The bounds of what stamp returns, and beyond.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

const waitingPage = 500

// Due implements [checkpoint.Scheduler].
func (s *Store) Due(ctx context.Context, before time.Time, limit int) iter.Seq2[checkpoint.Waiting, error] {
	until := latest
	if b := stamp(before); b != nil {
		until = *b
	}
	return s.waiting(ctx, s.sql.due, []any{until}, limit, func(_ *checkpoint.Lease, due time.Time) time.Time { return due })
}

// Abandoned implements [checkpoint.Scheduler].
func (s *Store) Abandoned(ctx context.Context, limit int) iter.Seq2[checkpoint.Waiting, error] {
	return s.waiting(ctx, s.sql.abandoned, nil, limit, func(l *checkpoint.Lease, _ time.Time) time.Time { return l.Until })
}

// waiting yields what a query finds, page after page. By says what it is ordered
// by, before the thread's key.
func (s *Store) waiting(ctx context.Context, query string, args []any, limit int, by func(*checkpoint.Lease, time.Time) time.Time) iter.Seq2[checkpoint.Waiting, error] {
	return func(yield func(checkpoint.Waiting, error) bool) {
		at, key, left := earliest, []byte{}, limit
		for {
			if err := s.start(ctx, "all"); err != nil {
				yield(checkpoint.Waiting{}, err)
				return
			}
			want := waitingPage
			if limit > 0 {
				want = min(want, left)
			}
			var page []checkpoint.Waiting
			err := s.query(ctx, "list the waiting threads of", query, append(args[:len(args):len(args)], at, key, int64(want)), func(rows pgx.Rows) error {
				var k, thread, holder []byte
				var due, until *time.Time
				var ttl *int64
				if err := rows.Scan(&k, &thread, &due, &holder, &until, &ttl); err != nil {
					return err
				}
				lease := leaseOf(holder, until, ttl)
				page = append(page, checkpoint.Waiting{Thread: checkpoint.ThreadID(whole(k, thread)), Due: unstamp(due), Lease: lease})
				at, key = by(&lease, unstamp(due)), k
				return nil
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
			}
			left -= len(page)
			if len(page) < want || limit > 0 && left <= 0 {
				return
			}
		}
	}
}
