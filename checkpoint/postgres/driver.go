package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/checkpoint/internal/zip"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// statements are the queries, with the schema's name in them.
type statements struct {
	commit, appendAll, replace, shorten, delete string
	load, rows, rowsDesc, metas, metasDesc      string
	side, sideDesc, logs, names                 string
	listed, prefixed, due, leased, check        string
	newest                                      string
}

func newStatements(schema string) statements {
	const metas = `r.rid, r.meta`
	const newest = ` JOIN LATERAL (SELECT * FROM @.superstep_records h WHERE h.rid > l.lid << 28 AND h.rid <= (l.lid << 28) + 268435455 ORDER BY h.rid DESC LIMIT 1) r ON true`
	const log = ` FROM @.superstep_threads t JOIN @.superstep_logs l ON l.tid = t.tid`
	const info = `SELECT t.key, t.thread, t.header, f.meta, ` + metas + log + ` AND l.ns = ''` + newest + `
		JOIN LATERAL (SELECT e.meta FROM @.superstep_records e WHERE e.rid > l.lid << 28 ORDER BY e.rid LIMIT 1) f ON true`
	// How many bytes a page has is known when they are read: a row too many costs less
	// than to have the server add them up.
	page := func(cols, order string) string {
		return `SELECT ` + cols + log + ` JOIN LATERAL (
			SELECT * FROM @.superstep_records p WHERE p.rid >= (l.lid << 28) + $3::bigint AND p.rid <= (l.lid << 28) + $4::bigint ORDER BY p.rid` + order + ` LIMIT $5::bigint
		) r ON true WHERE t.key = $1::bytea AND l.ns = $2::bytea ORDER BY r.rid` + order
	}
	side := func(order string) string {
		return `SELECT s.key, s.value, s.num FROM @.superstep_threads t JOIN LATERAL (
			SELECT * FROM @.superstep_side x WHERE x.tid = t.tid AND x.key >= $2::bytea AND x.key < $3::bytea ORDER BY x.key` + order + ` LIMIT $4::bigint
		) s ON true WHERE t.key = $1::bytea ORDER BY s.key` + order
	}
	const wanted = ` o.minute < $1::bigint AND ($3::text[] IS NULL OR o.labels @> $3::text[])`
	s := statements{
		commit: `SELECT stale, ignored FROM @.superstep_commit(
			$1::bytea, $2::bytea, $3::bigint, $4::bigint, $5::bytea, $6::bigint, $7::bigint, $8::bigint, $9::text[],
			$10::bytea, $11::bytea, $12::bigint, $13::bytea, $14::bytea,
			$15::bytea[], $16::bytea[], $17::bytea[], $18::bytea[], $19::bytea[], $20::boolean[], $21::bytea[], $22::bytea[])`,
		appendAll: `WITH l AS (
			INSERT INTO @.superstep_logs AS l (tid, ns, namespace) SELECT t.tid, $2::bytea, $3::bytea FROM @.superstep_threads t WHERE t.key = $1::bytea
			ON CONFLICT ON CONSTRAINT superstep_logs_pkey DO UPDATE SET ns = excluded.ns RETURNING l.lid
		) INSERT INTO @.superstep_records (rid, meta, data)
			SELECT (l.lid << 28) + x.place, x.meta, x.data FROM l, unnest($4::bigint[], $5::bytea[], $6::bytea[]) AS x (place, meta, data)`,
		replace: `UPDATE @.superstep_records r SET meta = $4::bytea, data = $5::bytea` +
			log + ` WHERE t.key = $1::bytea AND l.ns = $2::bytea AND r.rid = (l.lid << 28) + $3::bigint`,
		shorten: `DELETE FROM @.superstep_records r USING @.superstep_threads t, @.superstep_logs l
			WHERE l.tid = t.tid AND t.key = $1::bytea AND l.ns = $2::bytea AND r.rid >= (l.lid << 28) + $3::bigint AND r.rid <= (l.lid << 28) + $4::bigint`,
		delete: `SELECT @.superstep_delete($1::bytea)`,
		load: `SELECT clock_timestamp(), x.* FROM (SELECT 1) one LEFT JOIN (
			SELECT t.header, ` + metas + `, r.data FROM @.superstep_threads t LEFT JOIN @.superstep_logs l ON l.tid = t.tid AND l.ns = $2::bytea LEFT` + newest + ` WHERE t.key = $1::bytea
		) x ON true`,
		rows: page(metas+`, r.data`, ``), rowsDesc: page(metas+`, r.data`, ` DESC`), metas: page(metas, ``), metasDesc: page(metas, ` DESC`),
		side: side(``), sideDesc: side(` DESC`),
		logs:  `SELECT l.ns, l.namespace, ` + metas + log + newest + ` WHERE t.key = $1::bytea ORDER BY l.ns`,
		names: `SELECT t.key, t.thread FROM @.superstep_threads t WHERE t.key > $1::bytea ORDER BY t.key LIMIT $2::bigint`,
		listed: info + ` WHERE t.minute < $1::bigint AND ($3::text[] IS NULL OR t.labels @> $3::text[]) AND t.minute >= (
			SELECT min(b.minute) FROM (SELECT o.minute FROM @.superstep_threads o WHERE` + wanted + ` ORDER BY o.minute DESC LIMIT $2::bigint) b)`,
		prefixed: info + ` WHERE t.minute IS NOT NULL AND t.key >= $1::bytea AND ($2::bytea IS NULL OR t.key < $2::bytea)`,
		due: `SELECT clock_timestamp(), t.key, t.thread, t.header FROM @.superstep_threads t WHERE t.due <= $1::bigint AND t.due >= $2::bigint
			AND (t.due, t.key) > ($2::bigint, $3::bytea) ORDER BY t.due, t.key LIMIT $4::bigint`,
		leased: `SELECT clock_timestamp(), t.key, t.thread, t.header FROM @.superstep_threads t WHERE t.lease <= $1::bigint AND t.lease >= $2::bigint
			AND (t.lease, t.key) > ($2::bigint, $3::bytea) ORDER BY t.lease, t.key LIMIT $4::bigint`,
	}
	s.newest = `SELECT coalesce((SELECT r.rid & 268435455` + log + newest + ` WHERE t.key = $1::bytea AND l.ns = $2::bytea), 0)`
	s.check = `SELECT t.header, t.version, t.due, t.lease, t.minute, t.labels FROM @.superstep_threads t WHERE t.key = $1::bytea`
	for _, q := range []*string{
		&s.commit, &s.appendAll, &s.replace, &s.shorten, &s.delete, &s.load, &s.rows, &s.rowsDesc, &s.metas, &s.metasDesc,
		&s.side, &s.sideDesc, &s.logs, &s.names, &s.listed, &s.prefixed, &s.due, &s.leased, &s.check, &s.newest,
	} {
		*q = in(schema, *q)
	}
	return s
}

// place returns what a log is found by.
func place(log checkpoint.Log) (thread, ns []byte) {
	thread, _ = clip([]byte(log.Thread))
	ns, _ = clip(bytesOf(log.Namespace))
	return thread, ns
}

// args returns what superstep_commit is given.
func args(c *engine.Commit) []any {
	threadKey, thread := clip([]byte(c.Thread))
	all := append(make([]any, 0, 22), threadKey, thread, c.Version)
	if h := c.Header; h != nil {
		labels := []string(nil)
		var minute *int64
		if h.Listed {
			minute, labels = &h.Minute, append([]string{}, h.Labels...)
		}
		all = append(all, h.Version, engine.AppendHeader(nil, c.Thread, h), micros(h.Due()), micros(h.Lease.Until), minute, labels)
	} else {
		all = append(all, nil, nil, nil, nil, nil, nil)
	}
	if len(c.Append) == 1 {
		r := &c.Append[0]
		ns, namespace := clip(bytesOf(r.Namespace))
		all = append(all, ns, namespace, r.Place, engine.AppendRow(nil, r), zip.Pack(r.Data))
	} else {
		all = append(all, nil, nil, nil, nil, nil)
	}
	from, below := ranges(c.Absent)
	var keys, values [][]byte
	var replace []bool
	for _, p := range c.Put {
		keys, values, replace = append(keys, p.Key), append(values, p.Value), append(replace, p.Replace)
	}
	all = append(all, from, below, c.Delete, keys, values, replace)
	from, below = ranges(c.Clear)
	return append(all, from, below)
}

func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := engine.Microseconds(t)
	return &us
}

func ranges(prefixes [][]byte) (from, below [][]byte) {
	for _, p := range prefixes {
		from, below = append(from, p), append(below, engine.Below(p))
	}
	return from, below
}

// maxPlace is the highest place of a row, as the schema has it.
const maxPlace = 1<<28 - 1

// plain reports whether superstep_commit is all of a commit.
func plain(c *engine.Commit) bool { return len(c.Append) <= 1 && len(c.Replace)+len(c.Remove) == 0 }

// Commit implements [engine.Driver]. It lasts for no longer than [Options.Timeout] each transaction.
func (d *driver) Commit(_ context.Context, batch []*engine.Commit) error {
	// Every writer, of any program, locks threads in the same order.
	batch = slices.DeleteFunc(slices.Clone(batch), tooLong)
	slices.SortStableFunc(batch, func(a, b *engine.Commit) int { return cmp.Compare(a.Thread, b.Thread) })
	for len(batch) > 0 {
		n := slices.IndexFunc(batch, func(c *engine.Commit) bool { return !plain(c) })
		switch n {
		case -1:
			n = len(batch)
		case 0:
			n = 1
		}
		if err := d.transaction(batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// tooLong reports whether a commit has no place for its rows, and sets its Err.
func tooLong(c *engine.Commit) bool {
	if n := len(c.Append); n == 0 || c.Append[n-1].Place <= maxPlace {
		return false
	}
	c.Err = fmt.Errorf("%w: thread %q has reached the limit of records", checkpoint.ErrInvalid, c.Thread)
	return true
}

// transaction makes commits in one transaction.
func (d *driver) transaction(batch []*engine.Commit) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	for try := 0; ; try++ {
		for _, c := range batch {
			c.Err, c.Ignored = nil, 0
		}
		// An idle connection that died is no reason to give up, if nothing was
		// sent; nor is a deadlock.
		if err = d.send(ctx, batch); err == nil || try == 3 || !pgdb.Again(err) && !pgconn.SafeToRetry(err) {
			break
		}
	}
	if err != nil && undone(err) && !lost(err) {
		return engine.Undone(d.explainCommit(err))
	}
	return d.explainCommit(err)
}

// notSent is an error that came before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// explainCommit explains why a transaction failed.
func (d *driver) explainCommit(err error) error {
	if err == nil {
		return nil
	}
	late := errors.Is(err, context.DeadlineExceeded) // its context is not the callers'
	if n, ok := errors.AsType[notSent](err); ok && late {
		return &Error{
			Package: "postgres", Op: "write", Place: d.db.Server, Kind: ErrUnavailable, What: fmt.Sprintf("no connection could be had within %v", d.timeout),
			Fix: "check that the server answers and that the pool's connections are given back", Err: n.error,
		}
	}
	if undone(err) {
		return explain("write", d.db.Server, err)
	}
	e := &Error{Package: "postgres", Op: "write", Place: d.db.Server, Kind: ErrUnknownOutcome, Fix: "read the log's head: it says whether the write happened", Err: err}
	if late {
		e.What = fmt.Sprintf("the server did not answer a write within %v: nobody knows whether it happened", d.timeout)
	}
	return e
}

// forget has connections made anew after one broke: others may have too.
func (d *driver) forget() {
	if !d.closed.Load() {
		d.db.Forget()
	}
}

// send runs a transaction. Commits that are stale say so.
func (d *driver) send(ctx context.Context, batch []*engine.Commit) (err error) {
	conn, err := d.db.Acquire(ctx)
	if err != nil {
		return notSent{err}
	}
	defer func() {
		conn.Release()
		if err != nil && lost(err) {
			d.forget()
		}
	}()
	if len(batch) == 1 && !plain(batch[0]) {
		return d.long(ctx, conn.Conn(), batch[0])
	}
	if len(batch) == 1 && !d.db.Strict {
		return scanCommit(conn.QueryRow(ctx, d.sql.commit, args(batch[0])...), batch[0])
	}
	b := &pgx.Batch{}
	if d.db.Strict {
		b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	}
	for _, c := range batch {
		b.Queue(d.sql.commit, args(c)...)
	}
	if d.db.Strict {
		b.Queue(`COMMIT`)
	}
	br := conn.SendBatch(ctx, b)
	err = func() error {
		if d.db.Strict {
			if _, err := br.Exec(); err != nil {
				return err
			}
		}
		for _, c := range batch {
			if err := scanCommit(br.QueryRow(), c); err != nil {
				return err
			}
		}
		if d.db.Strict {
			_, err := br.Exec()
			return err
		}
		return nil
	}()
	// The transaction has happened when this returns, not before.
	return cmp.Or(err, br.Close())
}

func scanCommit(row pgx.Row, c *engine.Commit) error {
	var stale bool
	var ignored int64
	if err := row.Scan(&stale, &ignored); err != nil {
		return err
	}
	if c.Ignored = int(ignored); stale {
		c.Err = engine.ErrStale
	}
	return nil
}

// long makes a commit of many rows, or one that replaces and removes some.
func (d *driver) long(ctx context.Context, conn *pgx.Conn, c *engine.Commit) error {
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := scanCommit(tx.QueryRow(ctx, d.sql.commit, args(c)...), c); err != nil || c.Err != nil {
			return err
		}
		threadKey, _ := clip([]byte(c.Thread))
		if c.Newest != 0 { // the thread is locked by now
			var newest int64
			ns, _ := clip(bytesOf(c.Changed()))
			if err := tx.QueryRow(ctx, d.sql.newest, threadKey, ns).Scan(&newest); err != nil {
				return err
			}
			if newest != c.Newest {
				c.Err = engine.ErrStale
				return errStale
			}
		}
		if len(c.Append) > 1 {
			for from := 0; from < len(c.Append); {
				to, size := from, 0
				for to < len(c.Append) && c.Append[to].Namespace == c.Append[from].Namespace && size < 4<<20 {
					size += len(c.Append[to].Meta) + len(c.Append[to].Data)
					to++
				}
				if err := d.appendAll(ctx, tx, threadKey, c.Append[from:to]); err != nil {
					return err
				}
				from = to
			}
		}
		for i := range c.Replace {
			r := &c.Replace[i]
			ns, _ := clip(bytesOf(r.Namespace))
			if _, err := tx.Exec(ctx, d.sql.replace, threadKey, ns, r.Place, engine.AppendRow(nil, r), zip.Pack(r.Data)); err != nil {
				return err
			}
		}
		for _, p := range c.Remove {
			ns, _ := clip(bytesOf(p.Namespace))
			if _, err := tx.Exec(ctx, d.sql.shorten, threadKey, ns, p.From, min(p.To, maxPlace)); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}

// errStale takes a transaction back whose commit is stale.
var errStale = errors.New("stale")

func (d *driver) appendAll(ctx context.Context, tx pgx.Tx, thread []byte, rows []engine.Row) error {
	ns, namespace := clip(bytesOf(rows[0].Namespace))
	n := len(rows)
	places, metas, datas := make([]int64, n), make([][]byte, n), make([][]byte, n)
	for i := range rows {
		r := &rows[i]
		places[i], metas[i], datas[i] = r.Place, engine.AppendRow(nil, r), zip.Pack(r.Data)
	}
	_, err := tx.Exec(ctx, d.sql.appendAll, thread, ns, namespace, places, metas, datas)
	return err
}

// query runs a query and f for each row. It asks again if the connection was gone
// before it began to answer.
func (d *driver) query(ctx context.Context, op, query string, args []any, f func(rows pgx.Rows) error) error {
	var err error
	for range 4 {
		n := 0
		var rows pgx.Rows
		if rows, err = d.db.Query(ctx, query, args...); err == nil {
			for rows.Next() {
				n++
				if err = f(rows); err != nil {
					break
				}
			}
			rows.Close()
			err = cmp.Or(err, rows.Err())
		}
		if err == nil || n > 0 || ctx.Err() != nil || d.closed.Load() || pgdb.Down(err) || !lost(err) && !pgdb.Again(err) {
			break
		}
		if lost(err) {
			d.forget()
		}
	}
	switch {
	case err == nil || isOurs(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err() // however the driver put it
	case d.closed.Load():
		return checkpoint.ErrClosed
	}
	return explain(op, d.db.Server, err)
}

// Delete implements [engine.Driver].
func (d *driver) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	k, _ := clip([]byte(thread))
	return d.query(ctx, "delete a thread of", d.sql.delete, []any{k}, func(pgx.Rows) error { return nil })
}

// scanned is a row of superstep_records.
type scanned struct {
	rid        *int64
	meta, data []byte
}

func (r *scanned) into(data bool) []any {
	to := []any{&r.rid, &r.meta}
	if data {
		to = append(to, &r.data)
	}
	return to
}

func (r *scanned) of(log checkpoint.Log) (engine.Row, error) {
	row, err := engine.ParseRow(log.Thread, log.Namespace, *r.rid&maxPlace, r.meta)
	row.Data = zip.Unpack(r.data)
	return row, err
}

// Load implements [engine.Driver].
func (d *driver) Load(ctx context.Context, log checkpoint.Log) (l engine.Loaded, err error) {
	thread, ns := place(log)
	err = d.query(ctx, "read", d.sql.load, []any{thread, ns}, func(rows pgx.Rows) error {
		var header []byte
		var r scanned
		err := rows.Scan(append([]any{&l.Now, &header}, r.into(true)...)...)
		if err != nil || header == nil {
			return err
		}
		if l.Header, err = engine.ParseHeader(log.Thread, header); err != nil || r.rid == nil {
			return err
		}
		row, err := r.of(log)
		l.Newest = &row
		return err
	})
	return l, err
}

// Rows implements [engine.Driver].
func (d *driver) Rows(ctx context.Context, q engine.RowQuery) (page []engine.Row, last bool, err error) {
	text := d.sql.rows
	switch {
	case q.Meta && q.Desc:
		text = d.sql.metasDesc
	case q.Meta:
		text = d.sql.metas
	case q.Desc:
		text = d.sql.rowsDesc
	}
	thread, ns := place(q.Log)
	size, read := 0, 0
	err = d.query(ctx, "read", text, []any{thread, ns, q.From, min(q.To, maxPlace), q.Rows}, func(rows pgx.Rows) error {
		if read++; len(page) > 0 && size >= q.Bytes {
			return nil
		}
		var r scanned
		if err := rows.Scan(r.into(!q.Meta)...); err != nil {
			return err
		}
		row, err := r.of(q.Log)
		if err == nil {
			size += len(row.Meta) + len(row.Data)
			page = append(page, row)
		}
		return err
	})
	return page, read < q.Rows && read == len(page), err
}

// Side implements [engine.Driver].
func (d *driver) Side(ctx context.Context, thread checkpoint.ThreadID, q engine.SideQuery) (out []engine.SideRow, err error) {
	text := d.sql.side
	if q.Desc {
		text = d.sql.sideDesc
	}
	var limit *int
	if q.Limit > 0 {
		limit = &q.Limit
	}
	k, _ := clip([]byte(thread))
	from, below := q.Range()
	err = d.query(ctx, "read", text, []any{k, from, below, limit}, func(rows pgx.Rows) error {
		var r engine.SideRow
		err := rows.Scan(&r.Key, &r.Value, &r.Order)
		out = append(out, r)
		return err
	})
	return out, err
}

// Logs implements [engine.Driver].
func (d *driver) Logs(ctx context.Context, thread checkpoint.ThreadID) (out []engine.Row, err error) {
	k, _ := clip([]byte(thread))
	err = d.query(ctx, "read", d.sql.logs, []any{k}, func(rows pgx.Rows) error {
		var ns, namespace []byte
		var r scanned
		if err := rows.Scan(append([]any{&ns, &namespace}, r.into(false)...)...); err != nil {
			return err
		}
		row, err := r.of(checkpoint.Log{Thread: thread, Namespace: whole(ns, namespace)})
		out = append(out, row)
		return err
	})
	slices.SortFunc(out, func(a, b engine.Row) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return out, err
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, q engine.ListQuery) (page []engine.Listed, below int64, more bool, err error) {
	text, in := d.sql.listed, []any{q.Below, q.Want, q.Labels}
	prefix := []byte(q.Prefix)
	if q.Prefix != "" {
		if len(prefix) > maxKey-32 { // what is cut agrees as far as it is whole
			prefix = prefix[:maxKey-32]
		}
		text, in = d.sql.prefixed, []any{prefix, engine.Below(prefix)}
	}
	below = q.Below
	err = d.query(ctx, "list threads of", text, in, func(rows pgx.Rows) error {
		var k, thread, header, first []byte
		var l engine.Listed
		var r scanned
		if err := rows.Scan(append([]any{&k, &thread, &header, &first}, r.into(false)...)...); err != nil {
			return err
		}
		l.Thread = checkpoint.ThreadID(whole(k, thread))
		oldest, err := engine.ParseRow(l.Thread, "", 1, first)
		if err != nil {
			return err
		}
		l.First = oldest.At
		if l.Header, err = engine.ParseHeader(l.Thread, header); err != nil {
			return err
		}
		if l.Head, err = r.of(checkpoint.Log{Thread: l.Thread}); err != nil {
			return err
		}
		below, more = min(below, l.Header.Minute), q.Prefix == ""
		page = append(page, l)
		return nil
	})
	return page, below, more, err
}

// Waiting implements [engine.Driver].
func (d *driver) Waiting(ctx context.Context, q engine.WaitQuery) (out []engine.Waiter, err error) {
	text, after, until := d.sql.due, int64(-1<<62), int64(1<<62)
	if q.Leased {
		text = d.sql.leased
	}
	if !q.After.IsZero() {
		after = q.After.UnixMicro()
	}
	if !q.Until.IsZero() {
		until = q.Until.UnixMicro()
	}
	k, _ := clip(bytesOf(string(q.Thread)))
	err = d.query(ctx, "look for work in", text, []any{until, after, k, q.Limit}, func(rows pgx.Rows) error {
		var w engine.Waiter
		var k, thread, header []byte
		err := rows.Scan(&w.Now, &k, &thread, &header)
		if err == nil {
			w.Thread = checkpoint.ThreadID(whole(k, thread))
			w.Header, err = engine.ParseHeader(w.Thread, header)
		}
		out = append(out, w)
		return err
	})
	return out, err
}

// Names implements [engine.Driver].
func (d *driver) Names(ctx context.Context, above checkpoint.ThreadID, most int) (out []checkpoint.ThreadID, err error) {
	k, _ := clip(bytesOf(string(above)))
	err = d.query(ctx, "read", d.sql.names, []any{k, most}, func(rows pgx.Rows) error {
		var k, thread []byte
		err := rows.Scan(&k, &thread)
		out = append(out, checkpoint.ThreadID(whole(k, thread)))
		return err
	})
	return out, err
}

// Check implements [engine.Checker]: that the columns by which a thread is found are what
// its header says.
func (d *driver) Check(ctx context.Context, thread checkpoint.ThreadID, found func(*checkpoint.CorruptError)) error {
	if thread == "" {
		return nil
	}
	k, _ := clip([]byte(thread))
	return d.query(ctx, "read", d.sql.check, []any{k}, func(rows pgx.Rows) error {
		var header []byte
		var version int64
		var due, lease, minute *int64
		var labels []string
		if err := rows.Scan(&header, &version, &due, &lease, &minute, &labels); err != nil {
			return err
		}
		h, err := engine.ParseHeader(thread, header)
		if err != nil {
			return err
		}
		var listed *int64
		if h.Listed {
			listed = &h.Minute
		}
		for _, c := range []struct {
			name      string
			got, want *int64
		}{{"version", &version, &h.Version}, {"due", due, micros(h.Due())}, {"lease", lease, micros(h.Lease.Until)}, {"minute", minute, listed}} {
			if (c.got == nil) != (c.want == nil) || c.got != nil && *c.got != *c.want {
				found(&checkpoint.CorruptError{
					Thread: thread, Place: "table superstep_threads", Offset: -1, Err: fmt.Errorf("column %s is not what the header says", c.name),
				})
			}
		}
		if !slices.Equal(labels, h.Labels) {
			found(&checkpoint.CorruptError{Thread: thread, Place: "table superstep_threads", Offset: -1, Err: errors.New("column labels is not what the header says")})
		}
		return nil
	})
}
