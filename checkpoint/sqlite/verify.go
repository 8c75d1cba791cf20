package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Verify implements [checkpoint.Verifier]. Of all threads, SQLite's own
// integrity_check comes first, and what belongs to no thread last. Each thread
// is read at one moment, in a transaction.
func (s *Store) Verify(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[*checkpoint.CorruptError, error] {
	return func(yield func(*checkpoint.CorruptError, error) bool) {
		if thread != "" {
			s.verify(ctx, yield, func(q *sql.Conn, v *verifier) error { return v.thread(ctx, q, thread) })
			return
		}
		if !s.verify(ctx, yield, func(q *sql.Conn, v *verifier) error { return v.file(ctx, q) }) {
			return
		}
		for last, more := "", true; more; {
			var names []string
			ok := s.verify(ctx, yield, func(q *sql.Conn, v *verifier) (err error) {
				names, err = texts(ctx, q, `SELECT thread FROM superstep_threads WHERE thread > ? ORDER BY thread LIMIT 256`, last)
				return err
			})
			if !ok {
				return
			}
			for _, name := range names {
				if !s.verify(ctx, yield, func(q *sql.Conn, v *verifier) error { return v.thread(ctx, q, checkpoint.ThreadID(name)) }) {
					return
				}
				last = name
			}
			more = len(names) > 0
		}
		s.verify(ctx, yield, func(q *sql.Conn, v *verifier) error { return v.orphans(ctx, q) })
	}
}

// verify runs f in a transaction that reads, and yields what it found. It
// reports whether to go on.
func (s *Store) verify(ctx context.Context, yield func(*checkpoint.CorruptError, error) bool, f func(q *sql.Conn, v *verifier) error) bool {
	v := &verifier{path: s.path}
	err := s.start(ctx, "all")
	if err == nil {
		err = s.query(ctx, func() error {
			q := s.conn
			if s.readDB != nil {
				var err error
				if q, err = s.readDB.Conn(ctx); err != nil {
					return err
				}
				defer func() { _ = q.Close() }()
			}
			// The driver reports the end of a context even where BEGIN has begun.
			defer func() { _, _ = q.ExecContext(bg, `ROLLBACK`) }()
			if _, err := q.ExecContext(ctx, `BEGIN`); err != nil {
				return err
			}
			return f(q, v)
		})
	}
	if errors.Is(err, ErrChanged) {
		v.found = nil
	}
	for _, c := range v.found {
		if !yield(c, nil) {
			return false
		}
	}
	// Damage that SQLite met is a finding, and the search goes on elsewhere.
	if c, ok := errors.AsType[*checkpoint.CorruptError](err); ok {
		return yield(&checkpoint.CorruptError{Thread: v.id, Place: c.Place, Offset: c.Offset, Err: c.Err}, nil)
	}
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return yield(&checkpoint.CorruptError{Thread: v.id, Place: s.path, Offset: -1, Err: err}, nil)
	}
	if err != nil {
		yield(nil, err)
		return false
	}
	return true
}

// verifier collects what is damaged.
type verifier struct {
	path  string
	id    checkpoint.ThreadID
	found []*checkpoint.CorruptError
}

func (v *verifier) add(place, format string, args ...any) {
	v.found = append(v.found, &checkpoint.CorruptError{Thread: v.id, Place: place, Offset: -1, Err: fmt.Errorf(format, args...)})
}

func texts(ctx context.Context, q *sql.Conn, query string, args ...any) (out []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// file lets SQLite look at the whole file.
func (v *verifier) file(ctx context.Context, q *sql.Conn) error {
	lines, err := texts(ctx, q, `PRAGMA integrity_check`)
	for _, l := range lines {
		if l != "ok" {
			v.add(v.path, "%s", l)
		}
	}
	return err
}

// orphans looks for rows that belong to nothing.
func (v *verifier) orphans(ctx context.Context, q *sql.Conn) error {
	for _, o := range []struct{ table, what, query string }{
		{"superstep_records", "log", `SELECT DISTINCT rid >> 32 FROM superstep_records WHERE rid >> 32 NOT IN (SELECT lid FROM superstep_logs)`},
		{"superstep_segments", "log", `SELECT DISTINCT lid FROM superstep_segments WHERE lid NOT IN (SELECT lid FROM superstep_logs)`},
		{"superstep_ids", "log", `SELECT DISTINCT lid FROM superstep_ids WHERE lid NOT IN (SELECT lid FROM superstep_logs)`},
		{"superstep_results", "log", `SELECT DISTINCT lid FROM superstep_results WHERE lid NOT IN (SELECT lid FROM superstep_logs)`},
		{"superstep_logs", "thread", `SELECT DISTINCT tid FROM superstep_logs WHERE tid NOT IN (SELECT tid FROM superstep_threads)`},
	} {
		ids, err := texts(ctx, q, o.query)
		if err != nil {
			return err
		}
		for _, id := range ids {
			v.add("table "+o.table, "rows of %s %s, which does not exist", o.what, id)
		}
	}
	return nil
}

type verifiedLog struct {
	lid            int64
	ns             string
	bucket         sql.NullInt64
	labels         sql.NullString
	removed, freed int64
}

func (v *verifier) thread(ctx context.Context, q *sql.Conn, id checkpoint.ThreadID) error {
	v.id = id
	var tid int64
	var th threadRow
	err := q.QueryRowContext(ctx, `SELECT tid, due, head_due, woken FROM superstep_threads WHERE thread = ?`, string(id)).Scan(&tid, &th.due, &th.headDue, &th.woken)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, err := q.QueryContext(ctx, `SELECT lid, ns, bucket, labels, removed, freed FROM superstep_logs WHERE tid = ? ORDER BY ns`, tid)
	if err != nil {
		return err
	}
	defer rows.Close()
	var logs []verifiedLog
	for rows.Next() {
		var l verifiedLog
		if err := rows.Scan(&l.lid, &l.ns, &l.bucket, &l.labels, &l.removed, &l.freed); err != nil {
			return err
		}
		logs = append(logs, l)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	var due sql.NullInt64 // of the head
	known := true
	for i := range logs {
		l := &logs[i]
		head, good, err := v.log(ctx, q, l)
		if err != nil {
			return err
		}
		if l.ns == "" && head != nil {
			due = micros(head.Due)
		}
		if l.ns == "" {
			known = good
		}
	}
	if at := fmt.Sprintf("table superstep_threads, tid %d", tid); known && due != th.headDue {
		v.add(at, "column head_due is %v, the head says %v", th.headDue.Int64, due.Int64)
	} else if e := earlier(th.headDue, th.woken); e != th.due {
		v.add(at, "column due is %v, head_due and woken say %v", th.due.Int64, e.Int64)
	}
	return nil
}

// pieceAt is a row of superstep_ids.
type pieceAt struct{ n, ord int64 }

// log looks at one log. It returns the head, nil if there is none, and whether
// it could be read.
func (v *verifier) log(ctx context.Context, q *sql.Conn, l *verifiedLog) (head *checkpoint.Record, good bool, err error) {
	pieces, err := v.pieces(ctx, q, l.lid)
	if err != nil {
		return nil, false, err
	}
	segments, err := readSegments(q.QueryContext(ctx, segmentsQuery, l.lid))
	if err != nil {
		return nil, false, err
	}
	rows, err := q.QueryContext(ctx, `SELECT r.rid, r.id, r.br, r.seq, r.at, r.sum, r.meta, b.id, r.data, r.total FROM superstep_records r
		LEFT JOIN superstep_records b ON r.br > 0 AND b.rid = (r.rid >> 32 << 32) + r.br
		WHERE r.rid > ?1 << 32 AND r.rid <= (?1 << 32) + 4294967295 ORDER BY r.rid`, l.lid)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	type newest struct{ seq, ord, holes int64 }
	var (
		log           = checkpoint.Log{Thread: v.id, Namespace: l.ns}
		branches      = map[int64]newest{}
		count, bytes  int64
		ord, total, k int64 // of the record before; k: the segment it is in
	)
	for rows.Next() {
		var r scanned
		var sum int64
		if err := rows.Scan(append(r.into(true), &sum)...); err != nil {
			return nil, false, err
		}
		rec, err := r.record(log, true)
		if c, ok := errors.AsType[*checkpoint.CorruptError](err); ok {
			v.found = append(v.found, c)
		} else if err != nil {
			return nil, false, err
		}
		head, good = rec, err == nil
		ord = r.rid & maxOrd
		count++
		bytes += int64(len(r.meta) + len(r.data))
		holes := ord - count
		bad := func(format string, args ...any) {
			v.found = append(v.found, damage(v.id, r.rid, fmt.Errorf(format, args...)).(*checkpoint.CorruptError))
		}
		if sum <= total {
			bad("column total is %d, and %d in the record before", sum, total)
		}
		total = sum
		b, known := branches[r.br]
		switch {
		case !known && r.br != 0 && r.br != ord:
			bad("branch %d has no first record", r.br)
		case known && (r.seq <= b.seq || r.seq-b.seq-1 > holes-b.holes):
			bad("column seq is %d, the record before in branch %d has %d", r.seq, r.br, b.seq)
		}
		branches[r.br] = newest{r.seq, ord, holes}
		for int(k)+1 < len(segments) && segments[k+1].ord <= ord {
			k++
		}
		if g := segments[k]; g.br != r.br || g.seq+ord-g.ord != r.seq {
			bad("table superstep_segments says it is record %d of branch %d, the row says %d of branch %d", g.seq+ord-g.ord, g.br, r.seq, r.br)
		}
		if id, err := unkey(r.id); err == nil {
			run, n := runOf(id)
			list := pieces[fmt.Sprintf("%T%s", run, run)]
			i, found := slices.BinarySearchFunc(list, n, func(p pieceAt, n int64) int { return int(p.n - n) })
			if !found {
				i--
			}
			if i < 0 || list[i].ord+n-list[i].n != ord {
				bad("table superstep_ids does not lead to record %s", id)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	place := fmt.Sprintf("table superstep_logs, lid %d", l.lid)
	if count == 0 {
		if l.bucket.Valid || l.removed != 0 || l.freed != 0 {
			v.add(place, "the log has no record, but bucket, removed or freed say otherwise")
		}
		return nil, true, nil
	}
	if ord-count != l.removed {
		v.add(place, "column removed is %d, %d of %d records are missing", l.removed, ord-count, ord)
	}
	if total-bytes != l.freed {
		v.add(place, "column freed is %d, the records say %d", l.freed, total-bytes)
	}
	var want sql.NullInt64
	if good && l.ns == "" {
		want = sql.NullInt64{Int64: bucketOf(head.CreatedAt), Valid: true}
	}
	if good && l.bucket != want {
		v.add(place, "column bucket is %v, the head says %v", l.bucket.Int64, want.Int64)
	}
	if l.labels.Valid {
		if good && l.ns == "" && l.labels.String != labelsOf(head.Metadata) {
			v.add(place, "column labels is not what the head's metadata say")
		}
		var differ int
		if err := q.QueryRowContext(ctx, `SELECT count(*) FROM json_each(?2) j LEFT JOIN superstep_labels x ON x.label = j.value AND x.lid = ?1 WHERE x.lid IS NULL`, l.lid, l.labels.String).Scan(&differ); err != nil {
			return nil, false, err
		}
		if differ > 0 {
			v.add(place, "table superstep_labels lacks %d of its labels", differ)
		}
	}
	return head, good, nil
}

func (v *verifier) pieces(ctx context.Context, q *sql.Conn, lid int64) (map[string][]pieceAt, error) {
	rows, err := q.QueryContext(ctx, `SELECT run, n, ord FROM superstep_ids WHERE lid = ? ORDER BY run, n`, lid)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]pieceAt{}
	for rows.Next() {
		var run any
		var p pieceAt
		if err := rows.Scan(&run, &p.n, &p.ord); err != nil {
			return nil, err
		}
		k := fmt.Sprintf("%T%s", run, run)
		out[k] = append(out[k], p)
	}
	return out, rows.Err()
}
