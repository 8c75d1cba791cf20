package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

type writeStmts struct {
	stmts
	begin, commit, rollback, savepoint, undo, keep *sql.Stmt

	log, head, branchStart, byID         *sql.Stmt
	addThread, addLog, setThread         *sql.Stmt
	hold, renew, remove                  *sql.Stmt
	appendSub, appendSubDrop             *sql.Stmt // to a log with a namespace
	nextPiece, addPiece, addSegment      *sql.Stmt
	bucket, record, append, appendDrop   *sql.Stmt
	putFirst, putReplace, known, dropAll *sql.Stmt
	lastOf                               *sql.Stmt
}

func (w *writeStmts) prepare(ctx context.Context, p preparer) error {
	const values = `?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9`
	const fast = `INSERT OR IGNORE INTO superstep_records (rid, id, br, seq, at, total, sum, meta, data)
		SELECT ` + values + ` FROM superstep_threads WHERE tid = ?10 AND fence = ?11`
	const notDue = ` AND head_due IS NULL`                         // else the thread's row changes too
	const mine = ` AND (?3 = '' OR holder IS NULL OR holder = ?3)` // for certain
	const noResults = ` AND NOT EXISTS (SELECT 1 FROM superstep_results WHERE lid = ?12 AND epoch = ?13 AND branch = ?14)`
	for _, q := range []struct {
		into  **sql.Stmt
		query string
	}{
		{&w.begin, `BEGIN IMMEDIATE`},
		{&w.commit, `COMMIT`},
		{&w.rollback, `ROLLBACK`},
		{&w.savepoint, `SAVEPOINT one`},
		{&w.undo, `ROLLBACK TO one`},
		{&w.keep, `RELEASE one`},
		{&w.log, `SELECT t.tid, t.fence, t.holder, t.lease_until, t.lease_ttl, t.due, t.head_due, t.woken, l.lid, l.bucket, l.labels FROM superstep_threads t
			LEFT JOIN superstep_logs l ON l.tid = t.tid AND l.ns = ?2 WHERE t.thread = ?1`},
		{&w.head, `SELECT r.rid, r.id, r.br, r.seq, r.total, b.id FROM superstep_records r
			LEFT JOIN superstep_records b ON r.br > 0 AND b.rid = ?1 + r.br
			WHERE r.rid > ?1 AND r.rid <= ?2 ORDER BY r.rid DESC LIMIT 1`},
		{&w.byID, byIDQuery},
		{&w.branchStart, `SELECT r.rid FROM superstep_records r WHERE r.rid = ?1 AND r.br = ?2`},
		{&w.addThread, `INSERT INTO superstep_threads (thread) VALUES (?)`},
		{&w.addLog, `INSERT INTO superstep_logs (tid, ns) VALUES (?, ?)`},
		{&w.setThread, `UPDATE superstep_threads SET fence = ?2, holder = ?3, lease_until = ?4, lease_ttl = ?5, due = ?6, head_due = ?7, woken = ?8 WHERE tid = ?1`},
		{&w.hold, `UPDATE superstep_threads SET holder = ?4, lease_until = ?5, lease_ttl = ?6 WHERE tid = ?1 AND fence = ?2` + mine},
		{&w.renew, `UPDATE superstep_threads SET holder = ?4, lease_until = ?5, lease_ttl = ?6 WHERE thread = ?1 AND fence = ?2` + mine},
		{&w.remove, `DELETE FROM superstep_results WHERE lid = ? AND epoch = ? AND branch = ? AND task = ? AND gen = ? AND kind = ? AND name = ?`},
		{&w.nextPiece, `SELECT min(n) FROM superstep_ids WHERE lid = ? AND run = ? AND n >= ?`},
		{&w.addPiece, `INSERT INTO superstep_ids (lid, run, n, ord) VALUES (?, ?, ?, ?)`},
		{&w.addSegment, `INSERT INTO superstep_segments (lid, ord, br, seq) VALUES (?, ?, ?, ?)`},
		{&w.lastOf, `SELECT seq FROM superstep_records
			WHERE br = ?3 AND rid > ?1 AND rid <= ?2 ORDER BY rid DESC LIMIT 1`},
		{&w.bucket, `UPDATE superstep_logs SET bucket = ?2, labels = ?3 WHERE lid = ?1`},
		{&w.record, `INSERT INTO superstep_records (rid, id, br, seq, at, total, sum, meta, data) VALUES (` + values + `)`},
		{&w.append, fast + notDue},
		{&w.appendSub, fast},
		{&w.appendDrop, fast + notDue + noResults},
		{&w.appendSubDrop, fast + noResults},
		{&w.putFirst, `INSERT INTO superstep_results (lid, epoch, branch, task, gen, kind, name, replaces, data)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`},
		{&w.putReplace, `INSERT INTO superstep_results (lid, epoch, branch, task, gen, kind, name, replaces, data)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET replaces = excluded.replaces, data = excluded.data`},
		{&w.known, `SELECT 1 FROM superstep_results WHERE lid = ? AND epoch = ? AND branch = ? AND task = ? AND gen = ? AND kind = ? AND name = ?`},
		{&w.dropAll, `DELETE FROM superstep_results WHERE lid = ? AND epoch = ? AND branch = ?`},
	} {
		if err := w.add(ctx, p, q.into, q.query); err != nil {
			return err
		}
	}
	return nil
}

// request is a write that waits for its turn, or another change that runs alone.
type request struct {
	w    *checkpoint.Write
	row  row
	do   func(ctx context.Context) error // instead of w
	out  checkpoint.Written
	err  error
	done chan struct{}
}

// row is a record, encoded.
type row struct {
	id         any
	meta, data []byte
	sum        int64
}

// key returns an ID as it is stored: 16 bytes if it is a UUID.
func key(id checkpoint.ID) any {
	if b, ok := id.Bytes(); ok {
		return b[:]
	}
	return string(id)
}

func unkey(v any) (checkpoint.ID, error) {
	switch v := v.(type) {
	case []byte:
		if len(v) == 16 {
			return checkpoint.IDFromBytes([16]byte(v)), nil
		}
		return "", fmt.Errorf("ID of %d bytes: %s", len(v), hex.EncodeToString(v))
	case string:
		return checkpoint.ID(v), nil
	}
	return "", fmt.Errorf("ID of type %T", v)
}

// runOf splits an ID for superstep_ids.
func runOf(id checkpoint.ID) (run any, n int64) {
	if b, ok := id.Bytes(); ok {
		return b[:12], int64(id.Count())
	}
	return string(id), 0
}

// logState is what the writer knows of a log. Another process may have moved on;
// then writing with it has no effect, see fast.
type logState struct {
	tid, lid  int64 // lid 0: the log does not exist
	fence     int64
	due       bool // the head of the thread is due at some time
	bucket    sql.NullInt64
	labels    sql.NullString
	metadata  map[string]string // has the labels, if it isn't nil
	ord       int64             // of the head; 0: the log is empty
	head      checkpoint.ID
	branch    checkpoint.Branch
	br, seq   int64
	total     int64
	growing   bool // the next ID of the head's run is free
	nextCount uint32
}

const maxLogs = 4096 // states kept

func (st *logState) rid(ord int64) int64 { return st.lid<<32 | ord }

// Write implements [checkpoint.Store].
func (s *Store) Write(ctx context.Context, w *checkpoint.Write) (checkpoint.Written, error) {
	if err := s.start(ctx, w.Log.Thread); err != nil {
		return checkpoint.Written{}, err
	}
	if err := w.Check(); err != nil {
		return checkpoint.Written{}, err
	}
	req := &request{w: w}
	if w.Record != nil {
		meta, data, err := checkpoint.MarshalBody(w.Record)
		if err != nil {
			return checkpoint.Written{}, err
		}
		req.row = row{id: key(w.Record.ID), meta: meta, data: data, sum: backend.Checksum(meta, data)}
	}
	err := s.submit(ctx, req)
	return req.out, s.failed("write", err)
}

// submit queues a request and waits for it. Whoever finds the connection free
// runs all that is queued, in one transaction.
func (s *Store) submit(ctx context.Context, req *request) error {
	if err := s.writable("write to"); err != nil {
		return err
	}
	// Alone: no queue.
	select {
	case s.lead <- struct{}{}:
		s.mu.Lock()
		waiting := len(s.queue)
		s.mu.Unlock()
		if waiting == 0 {
			err := s.alone(ctx, req)
			s.letGo()
			return err
		}
		s.letGo()
	default:
	}
	// The batch's leader writes to the request; a caller that has left must
	// not share it.
	mine := *req
	mine.done = make(chan struct{})
	if mine.w != nil {
		w := *mine.w
		w.Results = append([]checkpoint.Result(nil), w.Results...)
		w.Remove = append([]checkpoint.ResultKey(nil), w.Remove...)
		mine.w = &w
	}
	s.mu.Lock()
	s.queue = append(s.queue, &mine)
	s.mu.Unlock()
	for {
		select {
		case <-mine.done:
			req.out = mine.out
			return mine.err
		case s.lead <- struct{}{}:
			err := s.runQueue(ctx, &mine)
			s.letGo()
			if err != nil {
				return err
			}
		case <-ctx.Done():
			s.withdraw(&mine)
			return ctx.Err()
		case <-s.stop:
			select {
			case <-mine.done:
				req.out = mine.out
				return mine.err
			default:
				return checkpoint.ErrClosed
			}
		}
	}
}

func (s *Store) withdraw(req *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.queue {
		if r == req {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return
		}
	}
}

// runQueue runs what is queued. An error means that the caller, whose request
// is mine, gave up waiting for another process; the others stay queued.
func (s *Store) runQueue(ctx context.Context, mine *request) error {
	s.mu.Lock()
	batch := s.queue
	s.queue = nil
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	finish := func(r *request, err error) {
		r.err = err
		close(r.done)
	}
	err := s.together(ctx, batch)
	if err == nil {
		for _, r := range batch {
			close(r.done)
		}
		return nil
	}
	if ctx.Err() != nil {
		s.mu.Lock()
		for i, r := range batch {
			if r == mine {
				batch = append(batch[:i], batch[i+1:]...)
				break
			}
		}
		s.queue = append(batch, s.queue...)
		s.mu.Unlock()
		return ctx.Err()
	}
	if sqlitedb.Busy(err) || len(batch) == 1 {
		for _, r := range batch {
			finish(r, err)
		}
		return nil
	}
	// Something failed that is nobody's conflict: each on its own, so that each
	// gets its own answer.
	for _, r := range batch {
		r.out, r.err = checkpoint.Written{}, nil
		finish(r, s.alone(context.WithoutCancel(ctx), r))
	}
	return nil
}

var bg = context.Background()

// patiently tries until f does not meet another process's lock.
func (s *Store) patiently(ctx context.Context, f func() error) error {
	err := f()
	if err == nil || !sqlitedb.Busy(err) {
		return err
	}
	end := time.Now().Add(s.timeout)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err = f(); err == nil || !sqlitedb.Busy(err) || time.Now().After(end) {
			return err
		}
		timer.Reset(wait)
	}
}

func exec(st *sql.Stmt, args ...any) error {
	_, err := st.ExecContext(bg, args...)
	return err
}

// transaction runs f between BEGIN and COMMIT. All that f told s.logs is
// forgotten if that fails.
func (s *Store) transaction(ctx context.Context, f func() error) error {
	if err := s.patiently(ctx, func() error { return exec(s.write.begin) }); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = exec(s.write.commit)
	}
	if err != nil {
		clear(s.logs)
		// Fails if SQLite has rolled back already.
		_ = exec(s.write.rollback)
	}
	return err
}

// alone runs one request.
func (s *Store) alone(ctx context.Context, r *request) error {
	if s.closed.Load() {
		return checkpoint.ErrClosed
	}
	if r.do != nil {
		return s.transaction(ctx, func() error { return r.do(bg) })
	}
	if w := r.w; w.Record != nil && (w.Lease > 0 || w.Release) {
		return s.transaction(ctx, func() error {
			if done, err := s.fastWithLease(r); done || err != nil {
				return err
			}
			return s.slow(r)
		})
	}
	done := false
	err := s.patiently(ctx, func() (err error) {
		done, err = s.fast(r)
		return err
	})
	if err != nil || done {
		if err != nil {
			clear(s.logs)
		}
		return err
	}
	return s.transaction(ctx, func() error { return s.slow(r) })
}

// together runs requests in one transaction. Each gets its own answer, unless
// together fails.
func (s *Store) together(ctx context.Context, batch []*request) error {
	if len(batch) == 1 {
		err := s.alone(ctx, batch[0])
		if err != nil && backend.Agreed(err) {
			batch[0].err, err = err, nil
		}
		return err
	}
	return s.transaction(ctx, func() error {
		for _, r := range batch {
			if r.do == nil {
				done, err := s.fastWithLease(r)
				if err != nil {
					return err
				}
				if done {
					continue
				}
			}
			if err := exec(s.write.savepoint); err != nil {
				return err
			}
			var err error
			if r.do != nil {
				err = r.do(bg)
			} else {
				err = s.slow(r)
			}
			if err != nil {
				if !backend.Agreed(err) {
					return err
				}
				r.err = err
				if r.w != nil {
					delete(s.logs, r.w.Log)
				}
				if err := exec(s.write.undo); err != nil {
					return err
				}
			}
			if err := exec(s.write.keep); err != nil {
				return err
			}
		}
		return nil
	})
}

// fastWithLease is fast for a write that also renews or releases a lease. It
// runs in a transaction.
func (s *Store) fastWithLease(req *request) (bool, error) {
	done, err := s.fast(req)
	w := req.w
	if !done || err != nil || w.Record == nil || w.Lease == 0 && !w.Release {
		return done, err
	}
	st, now := s.logs[w.Log], time.Now()
	l := leaseOf(w, now)
	res, err := s.write.hold.ExecContext(bg, st.tid, st.fence, w.Holder, l.holder, l.until, l.ttl)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); n > 0 || err != nil {
		return true, err
	}
	_, th, err := s.load(w.Log)
	if err != nil {
		return false, err
	}
	if err := w.CheckHold(checkpoint.Fence(st.fence), th.lease(), now); err != nil {
		return false, err // which takes the record back
	}
	return true, exec(s.write.hold, st.tid, st.fence, "", l.holder, l.until, l.ttl)
}

// fast appends a record in one statement, if what is known of its log is still
// true and nothing but the record changes. Otherwise it does nothing and returns
// false. The statement itself checks: the row's key is taken if anybody appended
// since, and the thread's row is another one if anybody claimed or deleted it. A
// write that does nothing but renew or release a lease is one statement too.
func (s *Store) fast(req *request) (bool, error) {
	w := req.w
	if w.Claim || w.Wake || len(w.Remove) > 0 {
		return false, nil
	}
	if w.Record == nil {
		if w.Lease == 0 && !w.Release || len(w.Results) > 0 || w.Drop != nil {
			return false, nil
		}
		l := leaseOf(w, time.Now())
		res, err := s.write.renew.ExecContext(bg, string(w.Log.Thread), int64(w.Fence), w.Holder, l.holder, l.until, l.ttl)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		if n > 0 {
			req.out = checkpoint.Written{Fence: w.Fence}
		}
		return n > 0, err
	}
	st := s.logs[w.Log]
	r := w.Record
	root := w.Log.Namespace == ""
	if st == nil || st.ord == 0 || st.head != w.Head || r.Branch != st.branch || r.Seq != st.seq+1 ||
		w.Fence != 0 && int64(w.Fence) != st.fence || !st.growing || !isNext(r.ID, st.head) ||
		root && (st.due || !r.Due.IsZero() || !st.bucket.Valid || st.bucket.Int64 != bucketOf(r.CreatedAt) || !st.labelled(r.Metadata)) {
		return false, nil
	}
	if len(w.Results) > 0 && (w.Drop == nil || !allDropped(w)) {
		return false, nil
	}
	total := st.total + int64(len(req.row.meta)+len(req.row.data))
	args := [...]any{
		st.rid(st.ord + 1), req.row.id, st.br, r.Seq, r.CreatedAt.UnixNano(), total, req.row.sum, text(req.row.meta), req.row.data,
		st.tid, st.fence, st.lid, nil, nil,
	}
	stmt, withDrop := s.write.append, s.write.appendDrop
	if !root {
		stmt, withDrop = s.write.appendSub, s.write.appendSubDrop
	}
	n := 11
	if w.Drop != nil {
		stmt, n = withDrop, 14
		args[12], args[13] = key(w.Drop.Epoch), key(checkpoint.ID(w.Drop.Branch))
	}
	res, err := stmt.ExecContext(bg, args[:n]...)
	if err != nil {
		return false, err
	}
	if rows, err := res.RowsAffected(); err != nil || rows == 0 {
		delete(s.logs, w.Log)
		return false, err
	}
	st.ord++
	st.head, st.seq, st.total = r.ID, r.Seq, total
	st.growing = st.nextCount == 0 || r.ID.Count()+1 < st.nextCount
	req.out = checkpoint.Written{Fence: checkpoint.Fence(st.fence)}
	return true, nil
}

// allDropped reports whether each result is of the superstep that w drops, and
// none is there twice.
func allDropped(w *checkpoint.Write) bool {
	for i := range w.Results {
		r := &w.Results[i]
		if r.Branch != w.Drop.Branch || r.Epoch != w.Drop.Epoch {
			return false
		}
		for j := range w.Results[:i] {
			if sameKey(r, &w.Results[j]) {
				return false
			}
		}
		if i > 16 {
			return false // comparing all with all would not be fast
		}
	}
	return true
}

func sameKey(a, b *checkpoint.Result) bool {
	return a.Task == b.Task && a.Kind == b.Kind && a.Name == b.Name && a.Gen == b.Gen && a.Epoch == b.Epoch && a.Branch == b.Branch
}

// isNext reports whether id is the one after prev in the same run.
func isNext(id, prev checkpoint.ID) bool {
	n := prev.Count()
	return prev.Valid() && n != 1<<32-1 && id == prev.Checkpoint(n+1)
}

func bucketOf(t time.Time) int64 { return t.Unix() / 60 }

// labelsOf returns the labels of metadata as superstep_logs has them.
func labelsOf(metadata map[string]string) string {
	b, err := json.Marshal(backend.Labels(metadata))
	if err != nil {
		panic(err) // of texts in hexadecimal
	}
	return string(b)
}

// labelled reports whether the labels of the log are those of metadata.
func (st *logState) labelled(metadata map[string]string) bool {
	if st.metadata != nil && maps.Equal(st.metadata, metadata) {
		return true
	}
	if !st.labels.Valid || st.labels.String != labelsOf(metadata) {
		return false
	}
	st.metadata = metadata
	return true
}

// text passes bytes to a TEXT column.
func text(b []byte) string { return string(b) }

// slow does all that a write may ask for. It runs in a transaction.
func (s *Store) slow(req *request) error {
	w := req.w
	st, th, err := s.load(w.Log)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := w.CheckHold(checkpoint.Fence(st.fence), th.lease(), now); err != nil {
		return err
	}
	if w.Record != nil && st.head != w.Head {
		return backend.Conflict(w.Log, st.head, w.Head)
	}
	if err := s.ensure(st, th, w, now); err != nil {
		return err
	}
	req.out.Fence = checkpoint.Fence(st.fence)
	if w.Record != nil {
		if err := s.appendTo(st, req); err != nil {
			return err
		}
	}
	if st.lid != 0 {
		if req.out.Ignored, err = s.results(st.lid, w); err != nil {
			return err
		}
		if len(s.logs) >= maxLogs {
			clear(s.logs)
		}
		if w.Claim {
			// Other logs of the thread hold the old fence. They would notice,
			// but why let them try.
			for l, o := range s.logs {
				if o.tid == st.tid {
					delete(s.logs, l)
				}
			}
		}
		s.logs[w.Log] = st
	}
	return nil
}

// load reads what is known of a log and its thread.
func (s *Store) load(log checkpoint.Log) (st *logState, th threadRow, err error) {
	st = new(logState)
	var lid sql.NullInt64
	err = s.write.log.QueryRowContext(bg, string(log.Thread), log.Namespace).Scan(
		&st.tid, &th.fence, &th.holder, &th.until, &th.ttl, &th.due, &th.headDue, &th.woken, &lid, &st.bucket, &st.labels)
	st.fence, st.due = th.fence, th.headDue.Valid
	if errors.Is(err, sql.ErrNoRows) || err == nil && !lid.Valid {
		return st, th, nil
	}
	if err != nil {
		return nil, th, err
	}
	st.lid = lid.Int64
	var rid int64
	var id, branch any
	err = s.write.head.QueryRowContext(bg, st.rid(0), st.rid(maxOrd)).Scan(&rid, &id, &st.br, &st.seq, &st.total, &branch)
	if errors.Is(err, sql.ErrNoRows) {
		return st, th, nil
	}
	if err != nil {
		return nil, th, err
	}
	st.ord = rid & maxOrd
	if st.head, err = unkey(id); err != nil {
		return nil, th, damage(log.Thread, rid, err)
	}
	if st.br > 0 {
		b, err := unkey(branch)
		if err != nil {
			return nil, th, damage(log.Thread, rid, fmt.Errorf("branch %d: %w", st.br, err))
		}
		st.branch = checkpoint.Branch(b)
	}
	return st, th, nil
}

const maxOrd = 1<<32 - 1

// ensure makes the thread and the log if w needs them, and does with the thread
// what w asks for.
func (s *Store) ensure(st *logState, th threadRow, w *checkpoint.Write, now time.Time) error {
	needLog := w.Record != nil || len(w.Results) > 0
	if st.tid == 0 {
		if !needLog && !w.Claim && !w.Wake {
			return nil
		}
		res, err := s.write.addThread.ExecContext(bg, string(w.Log.Thread))
		if err != nil {
			return err
		}
		if st.tid, err = res.LastInsertId(); err != nil {
			return err
		}
	}
	next := th.after(st.tid, w, now)
	if next != th {
		if err := exec(s.write.setThread, append([]any{st.tid}, next.values()...)...); err != nil {
			return err
		}
	}
	st.fence, st.due = next.fence, next.headDue.Valid
	if st.lid == 0 && needLog {
		res, err := s.write.addLog.ExecContext(bg, st.tid, w.Log.Namespace)
		if err != nil {
			return err
		}
		if st.lid, err = res.LastInsertId(); err != nil {
			return err
		}
	}
	return nil
}

// appendTo appends the record; the head was compared.
func (s *Store) appendTo(st *logState, req *request) error {
	r := req.w.Record
	ord := st.ord + 1
	if ord > maxOrd || st.lid > 1<<31-1 {
		return fmt.Errorf("%w: thread %q has reached the limit of records", checkpoint.ErrInvalid, req.w.Log.Thread)
	}
	run, n := runOf(r.ID)
	// IDs first: is this one new?
	if _, err := s.find(s.write.byID, st.lid, r.ID); err == nil {
		return fmt.Errorf("%w: thread %q has a record %s already", checkpoint.ErrInvalid, req.w.Log.Thread, r.ID)
	} else if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	br, last := st.br, st.seq
	if r.Branch != st.branch || st.ord == 0 {
		br, last = 0, 0
		if r.Branch != "" {
			start, err := s.find(s.write.byID, st.lid, checkpoint.ID(r.Branch))
			switch {
			case err == nil:
				// The record may stand in another branch than its own.
				if err := s.write.branchStart.QueryRowContext(bg, st.rid(start), start).Scan(&start); err == nil {
					br = start & maxOrd
				} else if !errors.Is(err, sql.ErrNoRows) {
					return err
				}
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
		}
		if br > 0 || r.Branch == "" {
			err := s.write.lastOf.QueryRowContext(bg, st.rid(0), st.rid(maxOrd), br).Scan(&last)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
	}
	if err := r.CheckPlace(last); err != nil {
		return err
	}
	if last == 0 && r.Branch != "" {
		br = ord
	}
	total := st.total + int64(len(req.row.meta)+len(req.row.data))
	if err := exec(s.write.record, st.rid(ord), req.row.id, br, r.Seq, r.CreatedAt.UnixNano(), total, req.row.sum, text(req.row.meta), req.row.data); err != nil {
		return err
	}
	if !isNext(r.ID, st.head) {
		if err := exec(s.write.addPiece, st.lid, run, n, ord); err != nil {
			return err
		}
	}
	var next sql.NullInt64
	if err := s.write.nextPiece.QueryRowContext(bg, st.lid, run, n+1).Scan(&next); err != nil {
		return err
	}
	st.nextCount, st.growing = 0, true
	if next.Valid {
		st.nextCount = uint32(next.Int64)
		st.growing = next.Int64 > n+1
	}
	if first := st.ord == 0 && br == 0; !first && br != st.br || st.ord == 0 && !first {
		if err := exec(s.write.addSegment, st.lid, ord, br, r.Seq); err != nil {
			return err
		}
	}
	if b := bucketOf(r.CreatedAt); req.w.Log.Namespace == "" && (!st.bucket.Valid || st.bucket.Int64 != b || !st.labelled(r.Metadata)) {
		labels := labelsOf(r.Metadata)
		if err := exec(s.write.bucket, st.lid, b, labels); err != nil {
			return err
		}
		st.bucket = sql.NullInt64{Int64: b, Valid: true}
		st.labels, st.metadata = sql.NullString{String: labels, Valid: true}, r.Metadata
	}
	st.ord, st.head, st.branch, st.br, st.seq, st.total = ord, r.ID, r.Branch, br, r.Seq, total
	return nil
}

// byIDQuery finds the ord of the record with an ID.
const byIDQuery = `SELECT r.rid FROM superstep_ids p
	JOIN superstep_records r ON r.rid = (p.lid << 32) + p.ord + (?3 - p.n) AND r.id = ?4
	WHERE p.lid = ?1 AND p.run = ?2 AND p.n = (SELECT max(n) FROM superstep_ids WHERE lid = ?1 AND run = ?2 AND n <= ?3)`

func (s *Store) find(st *sql.Stmt, lid int64, id checkpoint.ID) (ord int64, err error) {
	run, n := runOf(id)
	err = st.QueryRowContext(bg, lid, run, n, key(id)).Scan(&ord)
	return ord & maxOrd, err
}

type resultKey struct {
	task, gen int
	kind      checkpoint.ResultKind
	name      string
}

// results removes, puts and drops results and counts the ignored ones.
func (s *Store) results(lid int64, w *checkpoint.Write) (ignored int, err error) {
	for i := range w.Remove {
		k := &w.Remove[i]
		if err := exec(s.write.remove, lid, key(k.Epoch), key(checkpoint.ID(k.Branch)), k.Task, k.Gen, string(k.Kind), k.Name); err != nil {
			return 0, err
		}
	}
	var seen map[resultKey]bool // of those that are dropped at once
	for i := range w.Results {
		r := &w.Results[i]
		epoch, branch := key(r.Epoch), key(checkpoint.ID(r.Branch))
		if w.Drop != nil && r.Epoch == w.Drop.Epoch && r.Branch == w.Drop.Branch {
			k := resultKey{r.Task, r.Gen, r.Kind, r.Name}
			known := seen[k]
			if seen == nil {
				seen = make(map[resultKey]bool)
			}
			seen[k] = true
			if r.Replace {
				continue
			}
			if !known {
				var one int
				err := s.write.known.QueryRowContext(bg, lid, epoch, branch, r.Task, r.Gen, string(r.Kind), r.Name).Scan(&one)
				if err != nil && !errors.Is(err, sql.ErrNoRows) {
					return 0, err
				}
				known = err == nil
			}
			if known {
				ignored++
			}
			continue
		}
		put := s.write.putFirst
		if r.Replace {
			put = s.write.putReplace
		}
		var data any
		if len(r.Data) > 0 {
			data = []byte(r.Data)
		}
		res, err := put.ExecContext(bg, lid, epoch, branch, r.Task, r.Gen, string(r.Kind), r.Name, r.Replace, data)
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return 0, err
		}
		if n == 0 {
			ignored++
		}
	}
	if w.Drop != nil {
		if err := exec(s.write.dropAll, lid, key(w.Drop.Epoch), key(checkpoint.ID(w.Drop.Branch))); err != nil {
			return 0, err
		}
	}
	return ignored, nil
}
