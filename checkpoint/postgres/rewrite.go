package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// stands is what of a record matters for a rewrite.
type stands struct {
	id, branch checkpoint.ID
	seq, size  int64
	gone       bool
}

// Rewrite implements [checkpoint.Rewriter].
func (s *Store) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := s.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	type row struct {
		meta, data []byte
	}
	rows := make([]row, len(r.Replace))
	for i, rec := range r.Replace {
		meta, data, err := checkpoint.MarshalBody(rec)
		if err != nil {
			return err
		}
		if data == nil {
			data = []byte{}
		}
		rows[i] = row{meta, data}
	}
	thread, ns := place(r.Log)
	return s.transaction(ctx, "rewrite a log of", func(tx pgx.Tx) error {
		var tid, lid int64
		var live bool
		var fence checkpoint.Fence
		var holder []byte
		var until *time.Time
		var ttl *int64
		err := tx.QueryRow(ctx, s.sql.lockThread, thread).Scan(&tid, &fence, &live, &holder, &until, &ttl)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, r.Log.Thread)
		}
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, s.sql.log, tid, ns).Scan(&lid)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var all []stands
		if err == nil {
			if all, err = s.standing(ctx, tx, lid, r.Log); err != nil {
				return err
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("%w: log %v", checkpoint.ErrNotFound, r.Log)
		}
		if live {
			return &checkpoint.BusyError{Thread: r.Log.Thread, Lease: leaseOf(holder, until, ttl)}
		}
		if err := r.CheckHold(fence, checkpoint.Lease{}, time.Time{}); err != nil {
			return err
		}
		head := all[len(all)-1].id
		if head != r.Head {
			return backend.Conflict(r.Log, head, r.Head)
		}
		at := make(map[checkpoint.ID]*stands, len(all))
		for i := range all {
			at[all[i].id] = &all[i]
		}
		var freed int64
		remove := make([][]byte, 0, len(r.Remove))
		for _, id := range r.Remove {
			st := at[id]
			if st == nil {
				return fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, id)
			}
			st.gone = true
			freed += st.size
			remove = append(remove, key(id))
		}
		var newHead *checkpoint.Record
		b := &pgx.Batch{}
		for i, rec := range r.Replace {
			st := at[rec.ID]
			if st == nil {
				return fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, rec.ID)
			}
			if checkpoint.ID(rec.Branch) != st.branch || rec.Seq != st.seq {
				return fmt.Errorf("%w: record %s of log %v stands elsewhere than its replacement", checkpoint.ErrInvalid, rec.ID, r.Log)
			}
			if rec.ID == head {
				newHead = rec
			}
			meta, data := rows[i].meta, rows[i].data
			freed += st.size - int64(len(meta)+len(data))
			b.Queue(s.sql.replace, lid, key(rec.ID), rec.CreatedAt.UnixNano(), backend.Checksum(meta, data), meta, data)
		}
		empty, err := remains(r, all)
		if err != nil {
			return err
		}
		if len(remove) > 0 {
			b.Queue(s.sql.raise, tid)
			b.Queue(s.sql.shorten, lid, remove)
			b.Queue(s.sql.segments, lid)
		}
		var bucket *int64
		var labels []string
		if newHead != nil && len(ns) == 0 {
			n := bucketOf(newHead.CreatedAt)
			bucket, labels = &n, backend.Labels(newHead.Metadata)
		}
		b.Queue(s.sql.shrinkLog, tid, ns, empty, int64(len(remove)), freed, bucket, labels)
		if len(ns) == 0 && (empty || newHead != nil) {
			var due *time.Time
			if newHead != nil {
				due = stamp(newHead.Due)
			}
			b.Queue(s.sql.setDue, tid, due)
		}
		return tx.SendBatch(ctx, b).Close()
	})
}

// standing returns all records of a log in the order appended.
func (s *Store) standing(ctx context.Context, tx pgx.Tx, lid int64, log checkpoint.Log) ([]stands, error) {
	rows, err := tx.Query(ctx, s.sql.logRecords, lid)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []stands
	var names checkpoint.ID // of the branch before: mostly the same
	var named []byte
	for rows.Next() {
		var st stands
		var id, branch []byte
		if err := rows.Scan(&id, &branch, &st.seq, &st.size); err != nil {
			return nil, err
		}
		if st.id, err = unkey(id); err != nil {
			return nil, damage(log, int64(len(all)+1), err)
		}
		if !bytes.Equal(branch, named) {
			if names, err = unkey(branch); err != nil {
				return nil, damage(log, int64(len(all)+1), err)
			}
			named = branch
		}
		st.branch = names
		all = append(all, st)
	}
	return all, rows.Err()
}

// remains checks that what remains of all can stand, and reports whether it is
// nothing.
func remains(r *checkpoint.Rewrite, all []stands) (empty bool, err error) {
	last := map[checkpoint.ID]*stands{} // newest of each branch
	kept := map[checkpoint.ID]bool{}    // branches with records left
	left := 0
	for i := range all {
		st := &all[i]
		last[st.branch] = st
		if st.gone {
			continue
		}
		if st.branch != "" && !kept[st.branch] && st.id != st.branch {
			return false, fmt.Errorf("%w: the first record of branch %s of log %v goes, though others stay", checkpoint.ErrInvalid, st.branch, r.Log)
		}
		kept[st.branch] = true
		left++
	}
	if left == 0 {
		return true, nil
	}
	for branch := range kept {
		if st := last[branch]; st.gone {
			return false, fmt.Errorf("%w: record %s, the newest of its branch, goes, though others stay", checkpoint.ErrInvalid, st.id)
		}
	}
	if all[len(all)-1].gone {
		return false, fmt.Errorf("%w: the head of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
	}
	return false, nil
}

const verifyPage = 500

// Verify implements [checkpoint.Verifier]. Each thread is looked at as of one
// moment: all records are decoded and compared with their checksums, and with
// what the other tables say of them.
func (s *Store) Verify(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[*checkpoint.CorruptError, error] {
	return func(yield func(*checkpoint.CorruptError, error) bool) {
		query, at, args := s.sql.allThreads, []byte{}, []any{int64(verifyPage)}
		if thread != "" {
			query, args = s.sql.oneThread, nil
			at, _ = clip([]byte(thread))
		}
		for {
			if err := s.start(ctx, "all"); err != nil {
				yield(nil, err)
				return
			}
			type found struct {
				tid    int64
				thread checkpoint.ThreadID
			}
			var page []found
			var bad []*checkpoint.CorruptError
			err := s.query(ctx, "verify", query, append([]any{at}, args...), func(rows pgx.Rows) error {
				var f found
				var key, long []byte
				if err := rows.Scan(&f.tid, &key, &long); err != nil {
					return err
				}
				f.thread = checkpoint.ThreadID(whole(key, long))
				if k, _ := clip([]byte(f.thread)); !bytes.Equal(k, key) {
					bad = append(bad, &checkpoint.CorruptError{
						Thread: f.thread, Place: fmt.Sprintf("table superstep_threads, tid %d", f.tid), Offset: -1, Err: errors.New("column key is not that of column thread"),
					})
				}
				page, at = append(page, f), key
				return nil
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, f := range page {
				more, err := s.verify(ctx, f.tid, f.thread)
				for _, b := range append(bad, more...) {
					if !yield(b, nil) {
						return
					}
				}
				bad = nil
				if err != nil {
					yield(nil, err)
					return
				}
			}
			if thread != "" || len(page) < verifyPage {
				return
			}
		}
	}
}

type verifiedLog struct {
	lid, removed, freed int64
	bucket              *int64
	labels              []string
	log                 checkpoint.Log
}

func (s *Store) verify(ctx context.Context, tid int64, thread checkpoint.ThreadID) (bad []*checkpoint.CorruptError, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var logs []verifiedLog
		err := each(ctx, tx, s.sql.threadLogs, tid, func(rows pgx.Rows) error {
			l := verifiedLog{log: checkpoint.Log{Thread: thread}}
			var ns, namespace []byte
			if err := rows.Scan(&l.lid, &ns, &namespace, &l.bucket, &l.labels, &l.removed, &l.freed); err != nil {
				return err
			}
			l.log.Namespace = whole(ns, namespace)
			if k, _ := clip(bytesOf(l.log.Namespace)); !bytes.Equal(k, ns) {
				bad = append(bad, damage(l.log, 0, errors.New("table superstep_logs: column ns is not that of column namespace")))
			}
			logs = append(logs, l)
			return nil
		})
		for i := range logs {
			if err == nil {
				err = s.verifyLog(ctx, tx, &logs[i], func(ord int64, err error) { bad = append(bad, damage(logs[i].log, ord, err)) })
			}
		}
		return err
	})
	return bad, s.failed(ctx, "verify", err)
}

func each(ctx context.Context, tx pgx.Tx, query string, arg int64, f func(rows pgx.Rows) error) error {
	rows, err := tx.Query(ctx, query, arg)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *Store) verifyLog(ctx context.Context, tx pgx.Tx, l *verifiedLog, bad func(ord int64, err error)) error {
	type segment struct {
		ord, seq int64
		branch   []byte
	}
	var segments []segment
	err := each(ctx, tx, s.sql.logSegments, l.lid, func(rows pgx.Rows) error {
		var g segment
		segments = append(segments, g)
		at := &segments[len(segments)-1]
		return rows.Scan(&at.ord, &at.seq, &at.branch)
	})
	if err != nil {
		return err
	}
	var n, bytesThere, ord, total int64
	var head *checkpoint.Record
	at := -1
	err = each(ctx, tx, s.sql.wholeLog, l.lid, func(rows pgx.Rows) error {
		var r scanned
		if err := rows.Scan(append(r.into(true), &total)...); err != nil {
			return err
		}
		n++
		bytesThere += int64(len(r.meta) + len(r.data))
		ord = r.ord
		for at+1 < len(segments) && segments[at+1].ord <= r.ord {
			at++
		}
		if at < 0 || !bytes.Equal(segments[at].branch, r.branch) || r.seq-segments[at].seq != r.ord-segments[at].ord {
			bad(r.ord, errors.New("table superstep_segments places it elsewhere"))
		}
		rec, err := r.record(l.log, true)
		if c, ok := errors.AsType[*checkpoint.CorruptError](err); ok {
			bad(r.ord, c.Err)
		} else if err != nil {
			return err
		}
		head = rec
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case n > 0 && ord-l.removed != n:
		bad(ord, fmt.Errorf("the log has %d records, it should have %d", n, ord-l.removed))
	case n > 0 && total-l.freed != bytesThere:
		bad(ord, fmt.Errorf("the log's records have %d bytes, they should have %d", bytesThere, total-l.freed))
	}
	if l.log.Namespace == "" && head != nil && (l.bucket == nil || *l.bucket != bucketOf(head.CreatedAt)) {
		bad(ord, errors.New("table superstep_logs: column bucket is not that of the head"))
	}
	if l.log.Namespace == "" && head != nil && l.labels != nil && !slices.Equal(l.labels, backend.Labels(head.Metadata)) {
		bad(ord, errors.New("table superstep_logs: column labels is not that of the head's metadata"))
	}
	return each(ctx, tx, s.sql.logResults, l.lid, func(rows pgx.Rows) error {
		var num int64
		var key, long []byte
		if err := rows.Scan(&num, &key, &long); err != nil {
			return err
		}
		var r checkpoint.Result
		from := key
		if long != nil {
			from = long
		}
		if err := parseResultKey(from, &r); err != nil {
			bad(0, fmt.Errorf("table superstep_results, num %d: %w", num, err))
			return nil
		}
		if k, _ := resultKey(r.Task, r.Gen, r.Kind, r.Name); !bytes.Equal(k, key) {
			bad(0, fmt.Errorf("table superstep_results, num %d: its key is not that of its name", num))
		}
		return nil
	})
}
