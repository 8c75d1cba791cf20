package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/sqlitedb"
)

type writeStmts struct {
	stmts
	begin, commit, rollback                 *sql.Stmt
	version, newThread, header, log, newLog *sql.Stmt
	append, appendAlone, appendCleared      *sql.Stmt
	replace, remove, newest                 *sql.Stmt
	absent, put, putReplace, delete, clear  *sql.Stmt
}

func (w *writeStmts) prepare(ctx context.Context, p preparer) error {
	return w.addAll(ctx, p, []query{
		{&w.begin, `BEGIN IMMEDIATE`},
		{&w.commit, `COMMIT`},
		{&w.rollback, `ROLLBACK`},
		{&w.version, `SELECT tid, version FROM superstep_threads WHERE thread = ?`},
		{&w.newThread, `INSERT INTO superstep_threads (thread, version, header, due, lease, minute, labels) VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&w.header, `UPDATE superstep_threads SET version = ?2, header = ?3, due = ?4, lease = ?5, minute = ?6, labels = ?7 WHERE tid = ?1`},
		{&w.log, `SELECT lid FROM superstep_logs WHERE tid = ? AND ns = ?`},
		{&w.newLog, `INSERT INTO superstep_logs (tid, ns) VALUES (?, ?)`},
		{&w.append, `INSERT OR IGNORE INTO superstep_records (rid, meta, data) VALUES (?1, ?2, ?3)`},
		{&w.appendAlone, `INSERT OR IGNORE INTO superstep_records (rid, meta, data)
			SELECT ?1, ?2, ?3 FROM superstep_threads WHERE tid = ?4 AND version = ?5`},
		{&w.appendCleared, `INSERT OR IGNORE INTO superstep_records (rid, meta, data)
			SELECT ?1, ?2, ?3 FROM superstep_threads WHERE tid = ?4 AND version = ?5
			AND NOT EXISTS (SELECT 1 FROM superstep_side WHERE tid = ?4 AND key >= ?6 AND key < ?7)`},
		{&w.replace, `UPDATE superstep_records SET meta = ?2, data = ?3 WHERE rid = ?1`},
		{&w.remove, `DELETE FROM superstep_records WHERE rid >= ? AND rid <= ?`},
		{&w.newest, `SELECT max(r.rid) FROM superstep_logs l JOIN superstep_records r ON r.rid > l.lid << 32 AND r.rid <= (l.lid << 32) + 4294967295
			WHERE l.tid = ? AND l.ns = ?`},
		{&w.absent, `SELECT 1 FROM superstep_side WHERE tid = ? AND key >= ? AND key < ? LIMIT 1`},
		{&w.put, `INSERT INTO superstep_side (tid, key, value) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`},
		{&w.putReplace, `INSERT INTO superstep_side (tid, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`},
		{&w.delete, `DELETE FROM superstep_side WHERE tid = ? AND key = ?`},
		{&w.clear, `DELETE FROM superstep_side WHERE tid = ? AND key >= ? AND key < ?`},
	})
}

type readStmts struct {
	stmts
	load, rows, rowsDesc, metas, metasDesc *sql.Stmt
	side, sideDesc, logs, names            *sql.Stmt
	minutes, listed, labelled, prefixed    *sql.Stmt
	due, leased                            *sql.Stmt
}

func (q *readStmts) prepare(ctx context.Context, p preparer) error {
	const newest = ` JOIN superstep_records r ON r.rid =
		(SELECT max(rid) FROM superstep_records WHERE rid > l.lid << 32 AND rid <= (l.lid << 32) + 4294967295)`
	const metas = `r.rid, r.meta`
	const page = ` FROM superstep_threads t JOIN superstep_logs l ON l.tid = t.tid AND l.ns = ?2 JOIN superstep_records r ON
		r.rid >= (l.lid << 32) + ?3 AND r.rid <= (l.lid << 32) + ?4 WHERE t.thread = ?1 ORDER BY r.rid`
	const side = `SELECT s.key, s.value, s.num FROM superstep_threads t JOIN superstep_side s ON s.tid = t.tid AND s.key >= ?2 AND s.key < ?3
		WHERE t.thread = ?1 ORDER BY s.key`
	const info = `SELECT t.thread, t.header, f.meta, ` + metas + ` FROM superstep_threads t JOIN superstep_logs l ON l.tid = t.tid AND l.ns = ''` + newest + `
		JOIN superstep_records f ON f.rid = (SELECT min(rid) FROM superstep_records WHERE rid > l.lid << 32)`
	const labelled = `tid IN (
		SELECT x.tid FROM json_each(?3) j CROSS JOIN superstep_labels x ON x.label = j.value GROUP BY x.tid HAVING count(*) = json_array_length(?3))`
	return q.addAll(ctx, p, []query{
		{&q.load, `SELECT t.tid, t.header, coalesce(l.lid, 0), coalesce(r.rid, 0), r.meta, r.data FROM superstep_threads t LEFT JOIN superstep_logs l ON l.tid = t.tid AND l.ns = ?2 LEFT` + newest + ` WHERE t.thread = ?1`},
		{&q.rows, `SELECT ` + metas + `, r.data` + page},
		{&q.rowsDesc, `SELECT ` + metas + `, r.data` + page + ` DESC`},
		{&q.metas, `SELECT ` + metas + page},
		{&q.metasDesc, `SELECT ` + metas + page + ` DESC`},
		{&q.side, side + ` LIMIT ?4`},
		{&q.sideDesc, side + ` DESC LIMIT ?4`},
		{&q.logs, `SELECT l.ns, ` + metas + ` FROM superstep_threads t JOIN superstep_logs l ON l.tid = t.tid` + newest + ` WHERE t.thread = ? ORDER BY l.ns`},
		{&q.names, `SELECT thread FROM superstep_threads WHERE thread > ? ORDER BY thread LIMIT ?`},
		{&q.minutes, `SELECT minute, count(*) FROM superstep_threads WHERE minute IS NOT NULL AND minute < ?1
			AND (?2 = '' OR tid IN (SELECT x.tid FROM json_each(?2) j CROSS JOIN superstep_labels x ON x.label = j.value GROUP BY x.tid HAVING count(*) = json_array_length(?2)))
			GROUP BY minute ORDER BY minute DESC LIMIT 64`},
		{&q.listed, info + ` WHERE t.minute >= ?1 AND t.minute < ?2`},
		{&q.labelled, info + ` WHERE +t.minute >= ?1 AND +t.minute < ?2 AND t.` + labelled},
		{&q.prefixed, info + ` WHERE t.minute IS NOT NULL AND t.thread >= ?1 AND substr(t.thread, 1, length(?1)) = ?1 AND (?2 = '' OR t.thread < ?2)`},
		{&q.due, `SELECT thread, header FROM superstep_threads
			WHERE due IS NOT NULL AND (due, thread) > (?1, ?2) AND due <= ?3 ORDER BY due, thread LIMIT ?4`},
		{&q.leased, `SELECT thread, header FROM superstep_threads
			WHERE lease IS NOT NULL AND (lease, thread) > (?1, ?2) AND lease <= ?3 ORDER BY lease, thread LIMIT ?4`},
	})
}

// ref says where a log stands: 0 where it isn't known.
type ref struct{ tid, lid int64 }

const maxPlace = 1<<32 - 1

func rid(lid, place int64) int64 { return lid<<32 | place }

var bg = context.Background()

// Commit implements [engine.Driver].
func (d *driver) Commit(ctx context.Context, batch []*engine.Commit) error {
	if err := d.writable("write to"); err != nil {
		return err
	}
	if err := d.hold(ctx); err != nil {
		return err
	}
	defer d.letGo()
	if len(batch) == 1 {
		done := false
		err := d.turns.Again(ctx, func() (err error) {
			done, err = d.alone(batch[0])
			return err
		})
		if done || err != nil {
			return d.failed("write", err)
		}
	}
	err := d.transaction(ctx, func() error {
		for _, c := range batch {
			done, err := false, error(nil)
			if len(batch) > 1 {
				done, err = d.alone(c)
			}
			if !done && err == nil {
				err = d.apply(c)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !sqlitedb.Busy(err) {
		return engine.Undone(d.failed("write", err))
	}
	return d.failed("write", err)
}

// alone commits in one statement what does nothing but append a row to a log that is
// known, and clear side rows that there are not.
func (d *driver) alone(c *engine.Commit) (done bool, err error) {
	at, _ := c.Ref.(ref)
	if at.lid == 0 || c.Header != nil || len(c.Append) != 1 || len(c.Clear) > 1 || len(c.Absent)+len(c.Replace)+len(c.Remove)+len(c.Delete) > 0 || !cleared(c) {
		return false, nil
	}
	var buf [7]any
	args := append(rowArgs(buf[:0], at.lid, &c.Append[0]), at.tid, c.Version)
	st := d.write.appendAlone
	if len(c.Clear) > 0 {
		st, args = d.write.appendCleared, append(args, c.Clear[0], engine.Below(c.Clear[0]))
	}
	res, err := st.ExecContext(bg, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// cleared reports whether all side rows that a commit puts are then cleared, and none is
// put twice.
func cleared(c *engine.Commit) bool {
	if len(c.Put) > 16 { // comparing all with all would not be fast
		return false
	}
	for i, p := range c.Put {
		if len(c.Clear) == 0 || !bytes.HasPrefix(p.Key, c.Clear[0]) {
			return false
		}
		for _, q := range c.Put[:i] {
			if bytes.Equal(p.Key, q.Key) {
				return false
			}
		}
	}
	return true
}

func rowArgs(args []any, lid int64, r *engine.Row) []any {
	return append(args, rid(lid, r.Place), engine.AppendRow(make([]byte, 0, 128), r), blob(r.Data))
}

// blob keeps nil from becoming null.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func headerArgs(thread checkpoint.ThreadID, h *engine.Header) []any {
	null := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return engine.Microseconds(t)
	}
	args := []any{h.Version, engine.AppendHeader(nil, thread, h), null(h.Due()), null(h.Lease.Until), nil, nil}
	if h.Listed {
		args[4], args[5] = h.Minute, labelsText(h.Labels)
	}
	return args
}

func labelsText(labels []string) string {
	if len(labels) == 0 {
		return "[]"
	}
	b, err := json.Marshal(labels)
	if err != nil {
		panic(err) // of texts in hexadecimal
	}
	return string(b)
}

// apply does what a commit says. It runs in a transaction; all that may make the commit
// stale is looked at before anything is changed.
func (d *driver) apply(c *engine.Commit) error {
	w := &d.write
	var tid, version int64
	err := w.version.QueryRowContext(bg, string(c.Thread)).Scan(&tid, &version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if version != c.Version {
		c.Err = engine.ErrStale
		return nil
	}
	for _, prefix := range c.Absent {
		var one int
		switch err := w.absent.QueryRowContext(bg, tid, prefix, engine.Below(prefix)).Scan(&one); {
		case err == nil:
			c.Err = engine.ErrStale
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	if c.Newest != 0 {
		var newest sql.NullInt64
		if err := w.newest.QueryRowContext(bg, tid, c.Changed()).Scan(&newest); err != nil {
			return err
		}
		if newest.Int64&maxPlace != c.Newest {
			c.Err = engine.ErrStale
			return nil
		}
	}
	isNew := version == 0
	if isNew {
		if c.Header == nil {
			c.Err = engine.ErrStale
			return nil
		}
		if tid, err = inserted(w.newThread, append([]any{string(c.Thread)}, headerArgs(c.Thread, c.Header)...)...); err != nil {
			return err
		}
	}
	lids := map[string]int64{}
	lidOf := func(ns string) (int64, error) {
		if lid := lids[ns]; lid != 0 {
			return lid, nil
		}
		var lid int64
		err := w.log.QueryRowContext(bg, tid, ns).Scan(&lid)
		if errors.Is(err, sql.ErrNoRows) {
			lid, err = inserted(w.newLog, tid, ns)
		}
		lids[ns] = lid
		return lid, err
	}
	if len(c.Append) > 0 && !isNew {
		if at, ok := c.Ref.(ref); ok && at.tid == tid && at.lid != 0 {
			lids[c.Append[0].Namespace] = at.lid
		}
	}
	for i := range c.Append {
		r := &c.Append[i]
		lid, err := lidOf(r.Namespace)
		if err != nil {
			return err
		}
		if lid > 1<<31-1 || r.Place > maxPlace {
			return fmt.Errorf("%w: thread %q has reached the limit of records", checkpoint.ErrInvalid, c.Thread)
		}
		res, err := w.append.ExecContext(bg, rowArgs(nil, lid, r)...)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0 && i == 0 && !isNew: // nothing has happened yet
			c.Err = engine.ErrStale
			return nil
		case n == 0:
			return fmt.Errorf("%w: row %d of thread %q is there already", checkpoint.ErrInvalid, r.Place, c.Thread)
		}
		c.Ref = ref{tid, lid}
	}
	if c.Header != nil && !isNew {
		if err := exec(w.header, append([]any{tid}, headerArgs(c.Thread, c.Header)...)...); err != nil {
			return err
		}
	}
	for i := range c.Replace {
		r := &c.Replace[i]
		lid, err := lidOf(r.Namespace)
		if err == nil {
			err = exec(w.replace, rowArgs(nil, lid, r)...)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range c.Remove {
		lid, err := lidOf(p.Namespace)
		if err == nil {
			err = exec(w.remove, rid(lid, p.From), rid(lid, min(p.To, maxPlace)))
		}
		if err != nil {
			return err
		}
	}
	for _, k := range c.Delete {
		if err := exec(w.delete, tid, k); err != nil {
			return err
		}
	}
	for _, p := range c.Put {
		st := w.put
		if p.Replace {
			st = w.putReplace
		}
		res, err := st.ExecContext(bg, tid, p.Key, p.Value)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		c.Ignored += 1 - int(n)
	}
	for _, prefix := range c.Clear {
		if err := exec(w.clear, tid, prefix, engine.Below(prefix)); err != nil {
			return err
		}
	}
	return nil
}

func inserted(st *sql.Stmt, args ...any) (int64, error) {
	res, err := st.ExecContext(bg, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func exec(st *sql.Stmt, args ...any) error {
	_, err := st.ExecContext(bg, args...)
	return err
}

// transaction runs f between BEGIN and COMMIT.
func (d *driver) transaction(ctx context.Context, f func() error) error {
	if err := d.turns.Again(ctx, func() error { return exec(d.write.begin) }); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = exec(d.write.commit)
	}
	if err != nil {
		_ = exec(d.write.rollback) // fails if SQLite has rolled back already
	}
	return err
}

// Delete implements [engine.Driver].
func (d *driver) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := d.writable("delete a thread of"); err != nil {
		return err
	}
	if err := d.hold(ctx); err != nil {
		return err
	}
	defer d.letGo()
	return d.failed("delete a thread of", d.transaction(ctx, func() error {
		var tid, version int64
		err := d.write.version.QueryRowContext(bg, string(thread)).Scan(&tid, &version)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		for _, q := range []string{
			`DELETE FROM superstep_records WHERE rid IN (SELECT r.rid FROM superstep_logs l
				JOIN superstep_records r ON r.rid > l.lid << 32 AND r.rid <= (l.lid << 32) + 4294967295 WHERE l.tid = ?)`,
			`DELETE FROM superstep_logs WHERE tid = ?`,
			`DELETE FROM superstep_side WHERE tid = ?`,
			`DELETE FROM superstep_threads WHERE tid = ?`,
		} {
			if err == nil {
				_, err = d.conn.ExecContext(bg, q, tid)
			}
		}
		return err
	}))
}

func (d *driver) compact(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.writable("compact"); err != nil {
		return err
	}
	if err := d.hold(ctx); err != nil {
		return err
	}
	defer d.letGo()
	// The copy does not go into memory.
	if _, err := d.conn.ExecContext(ctx, `PRAGMA temp_store = FILE`); err != nil {
		return d.failed("compact", err)
	}
	defer func() { _, _ = d.conn.ExecContext(bg, `PRAGMA temp_store = MEMORY`) }()
	for _, q := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		err := d.turns.Again(ctx, func() error {
			_, err := d.conn.ExecContext(ctx, q)
			return err
		})
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return d.failed("compact", err)
		}
	}
	return nil
}

// query runs f with the right to read.
func (d *driver) query(ctx context.Context, f func() error) error {
	if d.readDB == nil {
		if err := d.hold(ctx); err != nil {
			return err
		}
		defer d.letGo()
	}
	if err := d.changed(); err != nil {
		return err
	}
	err := f()
	if err := d.changed(); err != nil {
		return err
	}
	return d.failed("read", err)
}

// scan calls f for each row that a statement finds. The first error ends it.
func scan(ctx context.Context, st *sql.Stmt, args []any, f func(rows *sql.Rows) (more bool, err error)) error {
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := f(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// scanned is a row of superstep_records.
type scanned struct {
	rid        int64
	meta, data []byte
}

func (r *scanned) into(to []any, data bool) []any {
	if to = append(to, &r.rid, &r.meta); data {
		to = append(to, &r.data)
	}
	return to
}

func (r *scanned) of(thread checkpoint.ThreadID, ns string) (engine.Row, error) {
	row, err := engine.ParseRow(thread, ns, r.rid&maxPlace, r.meta)
	row.Data = r.data
	return row, err
}

// Load implements [engine.Driver].
func (d *driver) Load(ctx context.Context, log checkpoint.Log) (l engine.Loaded, err error) {
	var at ref
	var header []byte
	var r scanned
	err = d.query(ctx, func() error {
		return d.read.load.QueryRowContext(ctx, string(log.Thread), log.Namespace).Scan(r.into([]any{&at.tid, &header, &at.lid}, true)...)
	})
	l.Now = time.Now()
	if errors.Is(err, sql.ErrNoRows) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.Ref = at
	if l.Header, err = engine.ParseHeader(log.Thread, header); err != nil || r.rid == 0 {
		return l, err
	}
	row, err := r.of(log.Thread, log.Namespace)
	l.Newest = &row
	return l, err
}

// Rows implements [engine.Driver].
func (d *driver) Rows(ctx context.Context, q engine.RowQuery) (page []engine.Row, last bool, err error) {
	st := d.read.rows
	switch {
	case q.Meta && q.Desc:
		st = d.read.metasDesc
	case q.Meta:
		st = d.read.metas
	case q.Desc:
		st = d.read.rowsDesc
	}
	err = d.query(ctx, func() error {
		last = true
		size := 0
		return scan(ctx, st, []any{string(q.Log.Thread), q.Log.Namespace, q.From, min(q.To, maxPlace)}, func(rows *sql.Rows) (bool, error) {
			if len(page) == q.Rows || len(page) > 0 && size >= q.Bytes {
				last = false
				return false, nil
			}
			var r scanned
			if err := rows.Scan(r.into(nil, !q.Meta)...); err != nil {
				return false, err
			}
			row, err := r.of(q.Log.Thread, q.Log.Namespace)
			if err == nil {
				size += len(row.Meta) + len(row.Data)
				page = append(page, row)
			}
			return true, err
		})
	})
	return page, last, err
}

// Side implements [engine.Driver].
func (d *driver) Side(ctx context.Context, thread checkpoint.ThreadID, q engine.SideQuery) (out []engine.SideRow, err error) {
	st, limit := d.read.side, int64(math.MaxInt64)
	if q.Desc {
		st = d.read.sideDesc
	}
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	from, below := q.Range()
	err = d.query(ctx, func() error {
		return scan(ctx, st, []any{string(thread), from, below, limit}, func(rows *sql.Rows) (bool, error) {
			var r engine.SideRow
			err := rows.Scan(&r.Key, &r.Value, &r.Order)
			out = append(out, r)
			return true, err
		})
	})
	return out, err
}

// Logs implements [engine.Driver].
func (d *driver) Logs(ctx context.Context, thread checkpoint.ThreadID) (out []engine.Row, err error) {
	err = d.query(ctx, func() error {
		return scan(ctx, d.read.logs, []any{string(thread)}, func(rows *sql.Rows) (bool, error) {
			var ns string
			var r scanned
			if err := rows.Scan(r.into([]any{&ns}, false)...); err != nil {
				return false, err
			}
			row, err := r.of(thread, ns)
			out = append(out, row)
			return true, err
		})
	})
	return out, err
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, q engine.ListQuery) (page []engine.Listed, below int64, more bool, err error) {
	below = q.Below
	labels := ""
	if len(q.Labels) > 0 {
		labels = labelsText(q.Labels)
	}
	err = d.query(ctx, func() error {
		st, args := d.read.prefixed, []any{q.Prefix, string(engine.Below([]byte(q.Prefix)))}
		if q.Prefix == "" {
			n := 0
			err := scan(ctx, d.read.minutes, []any{q.Below, labels}, func(rows *sql.Rows) (bool, error) {
				var k int
				err := rows.Scan(&below, &k)
				n += k
				return n < q.Want, err
			})
			if err != nil || n == 0 {
				return err
			}
			more = true
			if st, args = d.read.listed, []any{below, q.Below}; labels != "" {
				st, args = d.read.labelled, append(args, labels)
			}
		}
		return scan(ctx, st, args, func(rows *sql.Rows) (bool, error) {
			var l engine.Listed
			var header, first []byte
			var r scanned
			err := rows.Scan(r.into([]any{(*string)(&l.Thread), &header, &first}, false)...)
			if err == nil {
				var f engine.Row
				f, err = engine.ParseRow(l.Thread, "", 1, first)
				l.First = f.At
			}
			if err == nil {
				l.Header, err = engine.ParseHeader(l.Thread, header)
			}
			if err == nil {
				l.Head, err = r.of(l.Thread, "")
			}
			page = append(page, l)
			return true, err
		})
	})
	return page, below, more, err
}

// Waiting implements [engine.Driver].
func (d *driver) Waiting(ctx context.Context, q engine.WaitQuery) (out []engine.Waiter, err error) {
	st, after, until := d.read.due, int64(math.MinInt64), int64(math.MaxInt64)
	if q.Leased {
		st = d.read.leased
	}
	if !q.After.IsZero() {
		after = q.After.UnixMicro()
	}
	if !q.Until.IsZero() {
		until = q.Until.UnixMicro()
	}
	now := time.Now()
	err = d.query(ctx, func() error {
		return scan(ctx, st, []any{after, string(q.Thread), until, q.Limit}, func(rows *sql.Rows) (bool, error) {
			w := engine.Waiter{Now: now}
			var header []byte
			err := rows.Scan((*string)(&w.Thread), &header)
			if err == nil {
				w.Header, err = engine.ParseHeader(w.Thread, header)
			}
			out = append(out, w)
			return true, err
		})
	})
	return out, err
}

// Names implements [engine.Driver].
func (d *driver) Names(ctx context.Context, above checkpoint.ThreadID, most int) (out []checkpoint.ThreadID, err error) {
	err = d.query(ctx, func() error {
		return scan(ctx, d.read.names, []any{string(above), most}, func(rows *sql.Rows) (bool, error) {
			var name string
			err := rows.Scan(&name)
			out = append(out, checkpoint.ThreadID(name))
			return true, err
		})
	})
	return out, err
}

// Check implements [engine.Checker]: of the whole file SQLite's own integrity_check, and
// rows that belong to nothing; of a thread, that the columns that it is found by are what
// its header says.
func (d *driver) Check(ctx context.Context, thread checkpoint.ThreadID, found func(*checkpoint.CorruptError)) error {
	q := interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}(d.conn)
	if d.readDB != nil {
		q = d.readDB
	}
	each := func(query string, f func(text string), args ...any) error {
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			f(text)
		}
		return rows.Err()
	}
	add := func(place, format string, args ...any) {
		found(&checkpoint.CorruptError{Thread: thread, Place: place, Offset: -1, Err: fmt.Errorf(format, args...)})
	}
	return d.query(ctx, func() error {
		if thread == "" {
			err := each(`PRAGMA integrity_check`, func(line string) {
				if line != "ok" {
					add(d.path, "%s", line)
				}
			})
			for _, o := range []struct{ table, what, query string }{
				{"superstep_records", "log", `SELECT DISTINCT rid >> 32 FROM superstep_records WHERE rid >> 32 NOT IN (SELECT lid FROM superstep_logs)`},
				{"superstep_logs", "thread", `SELECT DISTINCT tid FROM superstep_logs WHERE tid NOT IN (SELECT tid FROM superstep_threads)`},
				{"superstep_side", "thread", `SELECT DISTINCT tid FROM superstep_side WHERE tid NOT IN (SELECT tid FROM superstep_threads)`},
			} {
				if err == nil {
					err = each(o.query, func(id string) { add("table "+o.table, "rows of %s %s, which does not exist", o.what, id) })
				}
			}
			return err
		}
		var header []byte
		var got [5]any
		err := q.(interface {
			QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
		}).QueryRowContext(ctx, `SELECT header, version, due, lease, minute, labels FROM superstep_threads WHERE thread = ?`, string(thread)).
			Scan(&header, &got[0], &got[1], &got[2], &got[3], &got[4])
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		h, err := engine.ParseHeader(thread, header)
		if err != nil {
			return err
		}
		want := headerArgs(thread, &h)
		for i, name := range []string{"version", "", "due", "lease", "minute", "labels"} {
			if i == 1 {
				continue
			}
			k := max(i-1, 0)
			if fmt.Sprint(got[k]) != fmt.Sprint(want[i]) {
				add("table superstep_threads", "column %s is %v, the header says %v", name, got[k], want[i])
			}
		}
		return each(`SELECT j.value FROM superstep_threads t JOIN json_each(t.labels) j LEFT JOIN superstep_labels x ON x.label = j.value AND x.tid = t.tid
			WHERE t.thread = ? AND x.tid IS NULL`, func(label string) { add("table superstep_labels", "it lacks label %s", label) }, string(thread))
	})
}
