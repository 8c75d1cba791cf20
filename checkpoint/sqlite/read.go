package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

type readStmts struct {
	stmts
	head, get, log, segments, byID             *sql.Stmt
	page, pageDesc, metaPage, metaPageDesc     *sql.Stmt
	foldingPage                                *sql.Stmt
	results, buckets, threads, threadsByPrefix *sql.Stmt
	labelledBuckets, labelledThreads           *sql.Stmt
	logs, due, leases                          *sql.Stmt
}

func (q *readStmts) prepare(ctx context.Context, p preparer) error {
	const cols = `r.rid, r.id, r.br, r.seq, r.at, r.sum, r.meta, b.id`
	const branch = ` LEFT JOIN superstep_records b ON r.br > 0 AND b.rid = (r.rid >> 32 << 32) + r.br`
	const log = ` FROM superstep_threads t JOIN superstep_logs l ON l.tid = t.tid`
	const head = ` JOIN superstep_records r ON r.rid =
		(SELECT max(rid) FROM superstep_records WHERE rid > l.lid << 32 AND rid <= (l.lid << 32) + 4294967295)`
	const pageWhere = ` WHERE r.rid >= ?1 AND r.rid <= ?2 AND (?3 < 0 OR r.br = ?3)
		AND r.seq >= ?4 AND (?5 = 0 OR r.seq <= ?5) ORDER BY r.rid`
	const page = ` FROM superstep_records r` + branch + pageWhere
	const lease = `t.holder, t.lease_until, t.lease_ttl`
	const info = `SELECT t.thread, r.total - l.freed, (r.rid & 4294967295) - l.removed, ` + lease + `, f.rid, f.meta, f.at, f.sum, ` +
		cols + log + head + branch + `
		JOIN superstep_records f ON f.rid = (SELECT min(rid) FROM superstep_records WHERE rid > l.lid << 32)
		WHERE l.ns = '' AND l.bucket IS NOT NULL`
	// Logs with all labels of ?3, and those of which nothing is known.
	const labelled = `lid IN (
		SELECT x.lid FROM json_each(?3) j CROSS JOIN superstep_labels x ON x.label = j.value GROUP BY x.lid HAVING count(*) = json_array_length(?3)
		UNION ALL SELECT u.lid FROM superstep_logs u WHERE u.bucket IS NOT NULL AND u.labels IS NULL)`
	for _, s := range []struct {
		into  **sql.Stmt
		query string
	}{
		{&q.head, `SELECT t.fence, coalesce(r.rid, 0), r.id, coalesce(r.br, 0), coalesce(r.seq, 0), coalesce(r.at, 0), coalesce(r.sum, 0), r.meta, b.id, r.data
			FROM superstep_threads t LEFT JOIN superstep_logs l ON l.tid = t.tid AND l.ns = ?2 LEFT` + head + branch + ` WHERE t.thread = ?1`},
		{&q.get, `SELECT ` + cols + `, r.data` + log + `
			JOIN superstep_ids p ON p.lid = l.lid AND p.run = ?3 AND p.n =
				(SELECT max(n) FROM superstep_ids WHERE lid = l.lid AND run = ?3 AND n <= ?4)
			JOIN superstep_records r ON r.rid = (l.lid << 32) + p.ord + (?4 - p.n) AND r.id = ?5` + branch + `
			WHERE t.thread = ?1 AND l.ns = ?2`},
		{&q.logs, `SELECT l.ns, r.rid, r.id, (r.rid & 4294967295) - l.removed, r.total - l.freed` + log + head + ` WHERE t.thread = ? ORDER BY l.ns`},
		{&q.log, `SELECT l.lid` + log + ` WHERE t.thread = ? AND l.ns = ?`},
		{&q.segments, segmentsQuery},
		{&q.byID, byIDQuery},
		{&q.foldingPage, `SELECT r.rid, r.seq, r.sum, r.meta, r.data FROM superstep_records r` + pageWhere},
		{&q.page, `SELECT ` + cols + `, r.data` + page},
		{&q.pageDesc, `SELECT ` + cols + `, r.data` + page + ` DESC`},
		{&q.metaPage, `SELECT ` + cols + page},
		{&q.metaPageDesc, `SELECT ` + cols + page + ` DESC`},
		{&q.results, `SELECT x.task, x.gen, x.kind, x.name, x.replaces, x.data` + log + `
			JOIN superstep_results x ON x.lid = l.lid AND x.epoch = ?3 AND x.branch = ?4
			WHERE t.thread = ?1 AND l.ns = ?2 ORDER BY x.task, x.num`},
		{&q.buckets, `SELECT bucket, count(*) FROM superstep_logs
			WHERE bucket IS NOT NULL AND bucket < ? GROUP BY bucket ORDER BY bucket DESC LIMIT 64`},
		{&q.threads, info + ` AND l.bucket >= ?1 AND l.bucket <= ?2`},
		{&q.labelledBuckets, `SELECT bucket, count(*) FROM superstep_logs
			WHERE +bucket IS NOT NULL AND +bucket < ?1 AND ` + labelled + ` GROUP BY bucket ORDER BY bucket DESC LIMIT 64`},
		{&q.labelledThreads, info + ` AND +l.bucket >= ?1 AND +l.bucket <= ?2 AND ` + labelled},
		{&q.threadsByPrefix, info + ` AND t.thread >= ?1 AND substr(t.thread, 1, length(?1)) = ?1
			AND (?2 = '' OR t.thread < ?2)`},
		{&q.due, `SELECT t.thread, t.due, ` + lease + ` FROM superstep_threads t
			WHERE t.due IS NOT NULL AND (t.due, t.thread) > (?1, ?2) AND t.due <= ?3 ORDER BY t.due, t.thread LIMIT 256`},
		{&q.leases, `SELECT t.thread, t.due, ` + lease + ` FROM superstep_threads t
			WHERE t.lease_until IS NOT NULL AND (t.lease_until, t.thread) > (?1, ?2) ORDER BY t.lease_until, t.thread LIMIT 256`},
	} {
		if err := q.add(ctx, p, s.into, s.query); err != nil {
			return err
		}
	}
	return nil
}

// query runs f with the right to read. f must not call back into the store.
func (s *Store) query(ctx context.Context, f func() error) error {
	if s.readDB == nil {
		if err := s.hold(ctx); err != nil {
			return err
		}
		defer s.letGo()
		if s.closed.Load() {
			return checkpoint.ErrClosed
		}
	}
	if err := s.changed(); err != nil {
		return err
	}
	err := f()
	if err := s.changed(); err != nil {
		return err
	}
	if err != nil && ctx.Err() != nil && !backend.Agreed(err) {
		return ctx.Err() // however the driver put it
	}
	return s.failed("read", err)
}

func damage(thread checkpoint.ThreadID, rid int64, err error) error {
	return &checkpoint.CorruptError{
		Thread: thread, Place: fmt.Sprintf("table superstep_records, rid %d (log %d, record %d)", rid, rid>>32, rid&maxOrd),
		Offset: -1, Err: err,
	}
}

// scanned is a row of superstep_records.
type scanned struct {
	rid, br, seq, at, sum int64
	id, branch            any
	meta, data            []byte
}

func (r *scanned) into(withData bool) []any {
	to := []any{&r.rid, &r.id, &r.br, &r.seq, &r.at, &r.sum, &r.meta, &r.branch}
	if withData {
		to = append(to, &r.data)
	}
	return to
}

// record decodes the row.
func (r *scanned) record(log checkpoint.Log, withData bool) (*checkpoint.Record, error) {
	fail := func(err error) (*checkpoint.Record, error) { return nil, r.undecoded(log, err) }
	id, err := unkey(r.id)
	if err != nil {
		return fail(err)
	}
	out := &checkpoint.Record{ID: id, Log: log, Seq: r.seq, CreatedAt: time.Unix(0, r.at).UTC()}
	if r.br > 0 {
		b, err := unkey(r.branch)
		if err != nil {
			return fail(fmt.Errorf("first record of branch %d: %w", r.br, err))
		}
		out.Branch = checkpoint.Branch(b)
	}
	if err := backend.Decode(out, r.meta, r.data, r.sum, withData); err != nil {
		return fail(err)
	}
	return out, nil
}

// folding reports whether a page of records for a query has the columns of
// foldingPage.
func folding(q checkpoint.Query) bool { return q.Folding && !q.Meta && !q.Desc }

func (r *scanned) intoFolding() []any { return []any{&r.rid, &r.seq, &r.sum, &r.meta, &r.data} }

// of decodes the row of a page.
func (r *scanned) of(q checkpoint.Query) (*checkpoint.Record, error) {
	if folding(q) {
		return r.foldingRecord(q.Log)
	}
	return r.record(q.Log, !q.Meta)
}

// foldingRecord decodes the row of a foldingPage.
func (r *scanned) foldingRecord(log checkpoint.Log) (*checkpoint.Record, error) {
	out := &checkpoint.Record{Log: log, Seq: r.seq}
	return out, r.undecoded(log, backend.DecodeFolding(out, r.meta, r.data, r.sum))
}

// undecoded says which row could not be decoded.
func (r *scanned) undecoded(log checkpoint.Log, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, checkpoint.ErrVersion) {
		return fmt.Errorf("thread %q, record %d: %w", log.Thread, r.rid, err)
	}
	return damage(log.Thread, r.rid, err)
}

// one reads a single row.
func (s *Store) one(ctx context.Context, st *sql.Stmt, args []any, into ...any) error {
	return s.query(ctx, func() error {
		err := st.QueryRowContext(ctx, args...).Scan(into...)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
}

func missing(log checkpoint.Log, what string) error {
	return fmt.Errorf("%w: thread %q, namespace %q has no %s", checkpoint.ErrNotFound, log.Thread, log.Namespace, what)
}

// Head implements [checkpoint.Store].
func (s *Store) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, 0, err
	}
	var row scanned
	var fence checkpoint.Fence
	err := s.one(ctx, s.read.head, []any{string(log.Thread), log.Namespace}, append([]any{&fence}, row.into(true)...)...)
	if err != nil {
		return nil, 0, err
	}
	if row.rid == 0 {
		return nil, fence.Read(), missing(log, "record")
	}
	r, err := row.record(log, true)
	return r, fence.Read(), err
}

// Get implements [checkpoint.Store].
func (s *Store) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	run, n := runOf(id)
	var row scanned
	if err := s.one(ctx, s.read.get, []any{string(log.Thread), log.Namespace, run, n, key(id)}, row.into(true)...); err != nil {
		return nil, err
	}
	if row.rid == 0 {
		return nil, missing(log, "record "+string(id))
	}
	return row.record(log, true)
}

// A page of records is read by one query; nothing is locked while the caller
// looks at it.
const (
	pageRecords     = 256
	pageRecordsDesc = 16 // of the first page: who reads back from the newest mostly stops soon
	pageBytes       = 1 << 20
)

// Records implements [checkpoint.Store]. Reading a page of records is one query,
// and the store is free between pages; records appended meanwhile may be seen.
func (s *Store) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		if err := s.start(ctx, q.Log.Thread); err != nil {
			yield(nil, err)
			return
		}
		lo, hi, br, err := s.bounds(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		left, size := q.Limit, pageRecords
		if q.Desc {
			size = pageRecordsDesc
		}
		for ; lo <= hi; size = min(4*size, pageRecords) {
			want := size
			if q.Limit > 0 {
				want = min(want, left)
			}
			page, err := s.pageOf(ctx, q, lo, hi, br, want)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.rows {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				r, err := page.rows[i].of(q)
				page.rows[i] = scanned{}
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(r, nil) {
					return
				}
			}
			left -= len(page.rows)
			if page.last || q.Limit > 0 && left == 0 {
				return
			}
			if q.Desc {
				hi = page.end - 1
			} else {
				lo = page.end + 1
			}
			if err := s.start(ctx, q.Log.Thread); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

type page struct {
	rows []scanned
	end  int64 // rid of the last one
	last bool  // there are no more
}

func (s *Store) pageOf(ctx context.Context, q checkpoint.Query, lo, hi, br int64, want int) (p page, err error) {
	st := s.read.page
	switch {
	case folding(q):
		st = s.read.foldingPage
	case q.Meta && q.Desc:
		st = s.read.metaPageDesc
	case q.Meta:
		st = s.read.metaPage
	case q.Desc:
		st = s.read.pageDesc
	}
	from, to := q.From, q.To
	if q.AllBranches {
		from, to = 0, 0
	}
	err = s.query(ctx, func() error {
		rows, err := st.QueryContext(ctx, lo, hi, br, from, to)
		if err != nil {
			return err
		}
		defer rows.Close()
		bytes := 0
		for len(p.rows) < want && bytes < pageBytes {
			if !rows.Next() {
				p.last = true
				return rows.Err()
			}
			var r scanned
			into := r.into(!q.Meta)
			if folding(q) {
				into = r.intoFolding()
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			bytes += len(r.meta) + len(r.data)
			p.rows = append(p.rows, r)
			p.end = r.rid
		}
		return nil
	})
	return p, err
}

// bounds finds between which rids the records of a query stand, and of which
// branch they are; -1 for all.
func (s *Store) bounds(ctx context.Context, q checkpoint.Query) (lo, hi, br int64, err error) {
	hi = -1
	err = s.query(ctx, func() error {
		var lid int64
		err := s.read.log.QueryRowContext(ctx, string(q.Log.Thread), q.Log.Namespace).Scan(&lid)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		base := lid << 32
		if q.AllBranches {
			lo, hi, br = base+1, base+maxOrd, -1
			return nil
		}
		if q.Branch != "" {
			if br, err = s.find(s.read.byID, lid, checkpoint.ID(q.Branch)); err != nil {
				if errors.Is(err, sql.ErrNoRows) {
					return nil
				}
				return err
			}
		}
		segments, err := readSegments(s.read.segments.QueryContext(ctx, lid))
		if err != nil {
			return err
		}
		first, last := ordRange(segments, br, q.From, q.To)
		lo, hi = base+first, base+last
		return nil
	})
	return lo, hi, br, err
}

// segment is a piece of a branch: records from ord on, the first with number seq.
type segment struct{ ord, br, seq int64 }

const segmentsQuery = `SELECT ord, br, seq FROM superstep_segments WHERE lid = ? ORDER BY ord`

func readSegments(rows *sql.Rows, err error) ([]segment, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []segment{{ord: 1, br: 0, seq: 1}}
	for rows.Next() {
		var g segment
		if err := rows.Scan(&g.ord, &g.br, &g.seq); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, rows.Err()
}

// ordRange returns where the records of a branch with numbers from..to stand, at
// least; records of other branches may stand between them.
func ordRange(segments []segment, br, from, to int64) (first, last int64) {
	first, last = 1, 0
	found := false
	for i, g := range segments {
		if g.br != br {
			continue
		}
		end := int64(maxOrd) // of the segment
		if i+1 < len(segments) {
			end = segments[i+1].ord - 1
		}
		a, b := g.ord, end
		if from > g.seq {
			a = g.ord + (from - g.seq)
		}
		if to != 0 {
			b = min(b, g.ord+(to-g.seq))
		}
		if a > b {
			continue
		}
		if !found {
			first, found = a, true
		}
		last = b
	}
	return first, last
}

// Results implements [checkpoint.Store].
func (s *Store) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	var out []checkpoint.Result
	err := s.query(ctx, func() error {
		rows, err := s.read.results.QueryContext(ctx, string(log.Thread), log.Namespace, key(epoch), key(checkpoint.ID(branch)))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r := checkpoint.Result{Branch: branch, Epoch: epoch}
			var data []byte
			if err := rows.Scan(&r.Task, &r.Gen, (*string)(&r.Kind), &r.Name, &r.Replace, &data); err != nil {
				return err
			}
			if data != nil {
				r.Data = data
			}
			out = append(out, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Threads implements [checkpoint.Lister]. Threads whose heads are of the same
// minute are read by one query; so are all that have a prefix.
func (s *Store) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	return func(yield func(checkpoint.ThreadInfo, error) bool) {
		if err := s.start(ctx, "all"); err != nil {
			yield(checkpoint.ThreadInfo{}, err)
			return
		}
		left := f.Limit
		// emit yields what a query found and reports whether to go on.
		emit := func(infos []checkpoint.ThreadInfo, err error) bool {
			if err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return false
			}
			for _, info := range infos {
				if err := ctx.Err(); err != nil {
					yield(checkpoint.ThreadInfo{}, err)
					return false
				}
				if !f.Takes(&info) {
					continue
				}
				if !yield(info, nil) {
					return false
				}
				if left--; left == 0 {
					return false
				}
			}
			return true
		}
		if f.Prefix != "" {
			emit(s.infos(ctx, s.read.threadsByPrefix, f.Prefix, after(f.Prefix)))
			return
		}
		below := int64(1<<63 - 1)
		if f.After.Thread != "" {
			below = bucketOf(f.After.At) + 1
		}
		labels := ""
		if len(f.Metadata) > 0 {
			labels = labelsOf(f.Metadata)
		}
		for {
			low, err := s.nextBuckets(ctx, below, left, labels)
			if err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return
			}
			if low == below {
				return
			}
			st, args := s.read.threads, []any{low, below - 1}
			if labels != "" {
				st, args = s.read.labelledThreads, append(args, labels)
			}
			if !emit(s.infos(ctx, st, args...)) {
				return
			}
			below = low
			if err := s.start(ctx, "all"); err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return
			}
		}
	}
}

// nextBuckets returns the lowest of the next buckets that hold enough threads, those
// with labels if there are any, or below itself if there are no more.
func (s *Store) nextBuckets(ctx context.Context, below int64, want int, labels string) (low int64, err error) {
	if want <= 0 || want > pageRecords {
		want = pageRecords
	}
	low = below
	err = s.query(ctx, func() error {
		st, args := s.read.buckets, []any{below}
		if labels != "" {
			st, args = s.read.labelledBuckets, []any{below, nil, labels}
		}
		rows, err := st.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for n := 0; n < want && rows.Next(); {
			var k int
			if err := rows.Scan(&low, &k); err != nil {
				return err
			}
			n += k
		}
		return rows.Err()
	})
	return low, err
}

func (s *Store) infos(ctx context.Context, st *sql.Stmt, args ...any) ([]checkpoint.ThreadInfo, error) {
	var out []checkpoint.ThreadInfo
	err := s.query(ctx, func() error {
		rows, err := st.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var info checkpoint.ThreadInfo
			var head, first scanned
			var th threadRow
			if err := rows.Scan(append([]any{
				(*string)(&info.Thread), &info.Bytes, &info.Records, &th.holder, &th.until, &th.ttl, &first.rid, &first.meta, &first.at, &first.sum,
			}, head.into(false)...)...); err != nil {
				return err
			}
			log := checkpoint.Log{Thread: info.Thread}
			if info.Head, err = head.record(log, false); err != nil {
				return err
			}
			first.id, first.seq = key("first"), 1
			f, err := first.record(log, false)
			if err != nil {
				return err
			}
			info.CreatedAt = f.CreatedAt
			if l := th.lease(); l.Live(time.Now()) {
				info.Lease = l
			}
			out = append(out, info)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b checkpoint.ThreadInfo) int {
		return cmp.Or(b.Head.CreatedAt.Compare(a.Head.CreatedAt), cmp.Compare(a.Thread, b.Thread))
	})
	return out, nil
}

// after returns the least string that is greater than all with the prefix, or ""
// if there is none. Its last byte may make it invalid as UTF-8; SQLite compares
// bytes.
func after(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return string(b)
		}
		b = b[:len(b)-1]
	}
	return ""
}
