package postgres

import (
	"cmp"
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

// statements are the queries, with the schema's name in them.
type statements struct {
	write, remove                     string
	head, get, results                string
	pages                             [8]string // by pageKind
	threads, threadsByPrefix, logs    string
	labelled                          string
	due, abandoned                    string
	lockThread, shrinkLog, logRecords string
	shorten, replace, segments, log   string
	raise, setDue, copyThread         string
	copyLogs, newThread               string
	copies                            []string
	allThreads, oneThread             string
	threadLogs, logSegments           string
	wholeLog, logResults              string
}

const (
	recordCols = `r.ord, r.id, r.branch, r.seq, r.at, r.sum, r.meta`
	live       = `(clock_timestamp() < t.lease_until AND t.lease_until <= clock_timestamp() + t.lease_us * interval '1 microsecond')`
)

func newStatements(schema string) statements {
	const log = ` FROM @.superstep_threads t JOIN @.superstep_logs l ON l.tid = t.tid`
	const last = ` JOIN LATERAL (SELECT * FROM @.superstep_records h WHERE h.lid = l.lid ORDER BY h.ord DESC LIMIT 1) r ON true`
	const info = `SELECT t.key, t.thread, ` + live + ` IS TRUE, t.holder, t.lease_until, t.lease_us, l.removed, l.freed, r.total, f.at, f.meta, ` + recordCols + log + last + `
		JOIN LATERAL (SELECT e.at, e.meta FROM @.superstep_records e WHERE e.lid = l.lid ORDER BY e.ord LIMIT 1) f ON true`
	const waiting = `SELECT t.key, t.thread, t.due, t.holder, t.lease_until, t.lease_us FROM @.superstep_threads t `
	s := statements{
		write:  `SELECT status, fence, ignored, head, last, holder, until, ttl FROM @.superstep_write(` + writeArgs + `)`,
		remove: `SELECT @.superstep_delete($1::bytea)`,
		head: `SELECT t.fence, coalesce(r.ord, 0), r.id, r.branch, coalesce(r.seq, 0), coalesce(r.at, 0), coalesce(r.sum, 0), r.meta, r.data
			FROM @.superstep_threads t LEFT JOIN @.superstep_logs l ON l.tid = t.tid AND l.ns = $2::bytea LEFT` + last + ` WHERE t.key = $1::bytea`,
		get: `SELECT ` + recordCols + `, r.data` + log + ` JOIN @.superstep_records r ON r.lid = l.lid AND r.id = $3::bytea
			WHERE t.key = $1::bytea AND l.ns = $2::bytea`,
		results: `SELECT x.key, x.whole, x.replaces, x.data` + log + ` JOIN @.superstep_results x ON x.lid = l.lid AND x.scope = $3::bytea
			WHERE t.key = $1::bytea AND l.ns = $2::bytea ORDER BY x.num`,
		threads: info + ` WHERE l.bucket < $1::bigint AND l.bucket >= (
				SELECT min(b.bucket) FROM (SELECT o.bucket FROM @.superstep_logs o WHERE o.bucket < $1::bigint ORDER BY o.bucket DESC LIMIT $2::bigint) b
			)`,
		labelled: info + ` WHERE l.bucket < $1::bigint AND (l.labels @> $3::text[] OR l.labels IS NULL) AND l.bucket >= (
				SELECT min(b.bucket) FROM (SELECT o.bucket FROM @.superstep_logs o
					WHERE o.bucket < $1::bigint AND (o.labels @> $3::text[] OR o.labels IS NULL) ORDER BY o.bucket DESC LIMIT $2::bigint) b
			)`,
		threadsByPrefix: info + ` WHERE l.bucket IS NOT NULL AND t.key >= $1::bytea AND ($2::bytea IS NULL OR t.key < $2::bytea)
			ORDER BY r.at DESC, t.key LIMIT $3::bigint`,
		logs: `SELECT l.ns, l.namespace, l.removed, l.freed, r.ord, r.id, r.total` + log + last + `
			WHERE t.key = $1::bytea ORDER BY l.ns`,
		due: waiting + `WHERE t.due <= $1::timestamptz AND t.due >= $2::timestamptz AND (t.due, t.key) > ($2::timestamptz, $3::bytea) AND ` + live + ` IS NOT TRUE
			ORDER BY t.due, t.key LIMIT $4::bigint`,
		abandoned: waiting + `WHERE t.lease_until >= $1::timestamptz AND (t.lease_until, t.key) > ($1::timestamptz, $2::bytea) AND ` + live + ` IS NOT TRUE
			ORDER BY t.lease_until, t.key LIMIT $3::bigint`,

		lockThread: `SELECT t.tid, t.fence, ` + live + ` IS TRUE, t.holder, t.lease_until, t.lease_us FROM @.superstep_threads t WHERE t.key = $1::bytea FOR NO KEY UPDATE`,
		log:        `SELECT l.lid FROM @.superstep_logs l WHERE l.tid = $1::bigint AND l.ns = $2::bytea`,
		logRecords: `SELECT r.id, r.branch, r.seq, octet_length(r.meta) + octet_length(r.data) FROM @.superstep_records r WHERE r.lid = $1::bigint ORDER BY r.ord`,
		shorten:    `DELETE FROM @.superstep_records r WHERE r.lid = $1::bigint AND r.id = ANY ($2::bytea[])`,
		replace:    `UPDATE @.superstep_records r SET at = $3::bigint, sum = $4::bigint, meta = $5::bytea, data = $6::bytea WHERE r.lid = $1::bigint AND r.id = $2::bytea`,
		segments: `DELETE FROM @.superstep_segments g WHERE g.lid = $1::bigint AND NOT EXISTS (
			SELECT 1 FROM @.superstep_records r WHERE r.lid = g.lid AND r.branch = g.branch)`,
		shrinkLog: `UPDATE @.superstep_logs l SET removed = CASE WHEN $3::boolean THEN 0 ELSE l.removed + $4::bigint END,
			freed = CASE WHEN $3::boolean THEN 0 ELSE l.freed + $5::bigint END,
			bucket = CASE WHEN $3::boolean THEN NULL ELSE coalesce($6::bigint, l.bucket) END,
			labels = CASE WHEN $3::boolean THEN NULL ELSE coalesce($7::text[], l.labels) END WHERE l.tid = $1::bigint AND l.ns = $2::bytea`,
		raise:  `UPDATE @.superstep_threads t SET fence = CASE WHEN t.fence = 0 THEN (t.tid << 28) + 1 ELSE t.fence + 1 END WHERE t.tid = $1::bigint`,
		setDue: `UPDATE @.superstep_threads t SET head_due = $2::timestamptz WHERE t.tid = $1::bigint AND t.head_due IS DISTINCT FROM $2::timestamptz`,

		newThread:  `INSERT INTO @.superstep_threads (key, thread) VALUES ($1::bytea, $2::bytea) ON CONFLICT (key) DO NOTHING RETURNING tid`,
		copyThread: `UPDATE @.superstep_threads t SET woken = f.woken, head_due = f.head_due FROM @.superstep_threads f WHERE f.tid = $1::bigint AND t.tid = $2::bigint`,
		copyLogs: `INSERT INTO @.superstep_logs (tid, ns, namespace, bucket, labels, removed, freed)
			SELECT $2::bigint, ns, namespace, bucket, labels, removed, freed FROM @.superstep_logs WHERE tid = $1::bigint`,
	}
	const thread = `SELECT t.tid, t.key, t.thread FROM @.superstep_threads t WHERE t.key `
	s.allThreads = thread + `> $1::bytea ORDER BY t.key LIMIT $2::bigint`
	s.oneThread = thread + `= $1::bytea`
	s.threadLogs = `SELECT l.lid, l.ns, l.namespace, l.bucket, l.labels, l.removed, l.freed FROM @.superstep_logs l WHERE l.tid = $1::bigint ORDER BY l.ns`
	s.logSegments = `SELECT g.ord, g.seq, g.branch FROM @.superstep_segments g WHERE g.lid = $1::bigint ORDER BY g.ord`
	s.wholeLog = `SELECT ` + recordCols + `, r.data, r.total FROM @.superstep_records r WHERE r.lid = $1::bigint ORDER BY r.ord`
	s.logResults = `SELECT x.num, x.key, x.whole FROM @.superstep_results x WHERE x.lid = $1::bigint ORDER BY x.num`
	const both = ` FROM @.superstep_logs a JOIN @.superstep_logs b ON b.tid = $2::bigint AND b.ns = a.ns `
	s.copies = []string{
		`INSERT INTO @.superstep_records (lid, ord, seq, at, total, sum, id, branch, meta, data)
			SELECT b.lid, r.ord, r.seq, r.at, r.total, r.sum, r.id, r.branch, r.meta, r.data` + both + `JOIN @.superstep_records r ON r.lid = a.lid WHERE a.tid = $1::bigint`,
		`INSERT INTO @.superstep_segments (lid, ord, seq, branch)
			SELECT b.lid, g.ord, g.seq, g.branch` + both + `JOIN @.superstep_segments g ON g.lid = a.lid WHERE a.tid = $1::bigint`,
		`INSERT INTO @.superstep_results (lid, replaces, scope, key, whole, data)
			SELECT b.lid, x.replaces, x.scope, x.key, x.whole, x.data` + both + `JOIN @.superstep_results x ON x.lid = a.lid WHERE a.tid = $1::bigint ORDER BY x.num`,
	}
	for i := range s.copies {
		s.copies[i] = in(schema, s.copies[i])
	}
	for i := range s.pages {
		s.pages[i] = in(schema, pageQuery(i&pageAll != 0, i&pageDesc != 0, i&pageMeta != 0))
	}
	for _, q := range []*string{
		&s.write, &s.remove, &s.head, &s.get, &s.results, &s.threads, &s.labelled, &s.threadsByPrefix, &s.logs, &s.due, &s.abandoned,
		&s.lockThread, &s.log, &s.logRecords, &s.shorten, &s.replace, &s.segments, &s.shrinkLog, &s.raise, &s.setDue, &s.newThread, &s.copyThread, &s.copyLogs,
		&s.allThreads, &s.oneThread, &s.threadLogs, &s.logSegments, &s.wholeLog, &s.logResults,
	} {
		*q = in(schema, *q)
	}
	return s
}

// Kinds of pages.
const (
	pageAll  = 1 // branches
	pageDesc = 2
	pageMeta = 4
)

// A page of records is one query; nothing is held while the caller looks at it.
const (
	firstPage = 32 // who looks for something near the end is soon done
	maxPage   = 512
	pageBytes = 4 << 20
	noEnd     = int64(1) << 60
)

// pageQuery returns the query for a page: records after (or before) ord $3, at
// most $4 of them, and so many that they have $5 bytes; of branch $6, with
// sequence numbers from $7 to $8. The last column says how many there would be
// without the limit of bytes. The records of a segment have consecutive places
// where nothing was removed, and no others have a number of the range.
func pageQuery(all, desc, meta bool) string {
	order, beyond := "", ">"
	if desc {
		order, beyond = " DESC", "<"
	}
	cols := recordCols
	if !meta {
		cols += ", r.data"
	}
	from := ` FROM @.superstep_threads t JOIN @.superstep_logs l ON l.tid = t.tid`
	where := `p.lid = l.lid AND p.ord ` + beyond + ` $3::bigint`
	if !all {
		from += ` JOIN @.superstep_segments g ON g.lid = l.lid AND g.branch = $6::bytea`
		where += ` AND p.branch = $6::bytea AND p.ord >= g.ord + greatest($7::bigint - g.seq, 0) AND p.ord <= g.ord + ($8::bigint - g.seq)
			AND p.ord < coalesce((SELECT min(n.ord) FROM @.superstep_segments n WHERE n.lid = g.lid AND n.ord > g.ord), 9223372036854775807)`
	}
	return `SELECT ` + cols + `, r.found FROM (
		SELECT w.*, count(*) OVER () AS found,
			sum(octet_length(w.meta) + octet_length(w.data)) OVER (ORDER BY w.ord` + order + ` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
		FROM (
			SELECT s.*` + from + `
			JOIN LATERAL (SELECT p.* FROM @.superstep_records p WHERE ` + where + ` ORDER BY p.ord` + order + ` LIMIT $4::bigint) s ON true
			WHERE t.key = $1::bytea AND l.ns = $2::bytea ORDER BY s.ord` + order + ` LIMIT $4::bigint
		) w
	) r WHERE r.before IS NULL OR r.before < $5::bigint ORDER BY r.ord` + order
}

// query runs a query and f for each row. It asks again if the connection was gone
// before it began to answer.
func (s *Store) query(ctx context.Context, op, query string, args []any, f func(rows pgx.Rows) error) error {
	var err error
	for range 4 {
		n := 0
		var rows pgx.Rows
		if rows, err = s.pool.Query(ctx, query, args...); err == nil {
			for rows.Next() {
				n++
				if err = f(rows); err != nil {
					break
				}
			}
			rows.Close()
			err = cmp.Or(err, rows.Err())
		}
		if err == nil || n > 0 || ctx.Err() != nil || s.closed.Load() || down(err) || !lost(err) && !again(err) {
			break
		}
		if lost(err) {
			s.forget()
		}
	}
	return s.failed(ctx, op, err)
}

// scanned is a row of superstep_records.
type scanned struct {
	ord, seq, at, sum int64
	id, branch        []byte
	meta, data        []byte
}

func (r *scanned) into(withData bool) []any {
	to := []any{&r.ord, &r.id, &r.branch, &r.seq, &r.at, &r.sum, &r.meta}
	if withData {
		to = append(to, &r.data)
	}
	return to
}

func damage(log checkpoint.Log, ord int64, err error) *checkpoint.CorruptError {
	return &checkpoint.CorruptError{
		Thread: log.Thread, Place: fmt.Sprintf("table superstep_records, namespace %q, ord %d", log.Namespace, ord), Offset: -1, Err: err,
	}
}

// record decodes the row.
func (r *scanned) record(log checkpoint.Log, withData bool) (*checkpoint.Record, error) {
	fail := func(err error) (*checkpoint.Record, error) {
		if errors.Is(err, checkpoint.ErrVersion) {
			return nil, fmt.Errorf("thread %q, record %d: %w", log.Thread, r.ord, err)
		}
		return nil, damage(log, r.ord, err)
	}
	id, err := unkey(r.id)
	if err != nil {
		return fail(err)
	}
	branch, err := unkey(r.branch)
	if err != nil {
		return fail(fmt.Errorf("branch: %w", err))
	}
	out := &checkpoint.Record{ID: id, Log: log, Branch: checkpoint.Branch(branch), Seq: r.seq, CreatedAt: time.Unix(0, r.at).UTC()}
	if err := backend.Decode(out, r.meta, r.data, r.sum, withData); err != nil {
		return fail(err)
	}
	return out, nil
}

// place returns what a log is found by.
func place(log checkpoint.Log) (thread, ns []byte) {
	thread, _ = clip([]byte(log.Thread))
	ns, _ = clip(bytesOf(log.Namespace))
	return thread, ns
}

// one reads a single record, after other columns.
func (s *Store) one(ctx context.Context, log checkpoint.Log, what, query string, more []any, before ...any) (*checkpoint.Record, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	thread, ns := place(log)
	var row scanned
	err := s.query(ctx, "read", query, append([]any{thread, ns}, more...), func(rows pgx.Rows) error {
		return rows.Scan(append(before, row.into(true)...)...)
	})
	if err != nil {
		return nil, err
	}
	if row.ord == 0 {
		return nil, fmt.Errorf("%w: thread %q, namespace %q has no %s", checkpoint.ErrNotFound, log.Thread, log.Namespace, what)
	}
	return row.record(log, true)
}

// Head implements [checkpoint.Store].
func (s *Store) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	var fence checkpoint.Fence
	r, err := s.one(ctx, log, "record", s.sql.head, nil, &fence)
	return r, fence.Read(), err
}

// Get implements [checkpoint.Store].
func (s *Store) Get(ctx context.Context, log checkpoint.Log, id checkpoint.ID) (*checkpoint.Record, error) {
	return s.one(ctx, log, "record "+string(id), s.sql.get, []any{key(id)})
}

// Records implements [checkpoint.Store]. Reading a page of records is one query;
// records appended meanwhile may be seen.
func (s *Store) Records(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Record, error] {
	return func(yield func(*checkpoint.Record, error) bool) {
		kind := 0
		if q.AllBranches {
			kind |= pageAll
		}
		if q.Desc {
			kind |= pageDesc
		}
		if q.Meta {
			kind |= pageMeta
		}
		to := q.To
		if to == 0 || to > noEnd {
			to = noEnd
		}
		thread, ns := place(q.Log)
		at, left, size := int64(0), q.Limit, int64(firstPage)
		if q.Desc {
			at = noEnd
		}
		for {
			if err := s.start(ctx, q.Log.Thread); err != nil {
				yield(nil, err)
				return
			}
			if !q.AllBranches && (to < 1 || q.From > to) {
				return
			}
			want := size
			if q.Limit > 0 {
				want = min(want, int64(left))
			}
			args := []any{thread, ns, at, want, int64(pageBytes)}
			if !q.AllBranches {
				args = append(args, key(checkpoint.ID(q.Branch)), max(q.From, 0), to)
			}
			var page []scanned
			var found int64
			err := s.query(ctx, "read", s.sql.pages[kind], args, func(rows pgx.Rows) error {
				var r scanned
				if err := rows.Scan(append(r.into(!q.Meta), &found)...); err != nil {
					return err
				}
				page = append(page, r)
				return nil
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				at = page[i].ord
				r, err := page[i].record(q.Log, !q.Meta)
				page[i] = scanned{}
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(r, nil) {
					return
				}
			}
			left -= len(page)
			if q.Limit > 0 && left <= 0 || found < want && int64(len(page)) == found {
				return
			}
			size = min(2*size, maxPage)
		}
	}
}

// Results implements [checkpoint.Store].
func (s *Store) Results(ctx context.Context, log checkpoint.Log, branch checkpoint.Branch, epoch checkpoint.ID) ([]checkpoint.Result, error) {
	if err := s.start(ctx, log.Thread); err != nil {
		return nil, err
	}
	thread, ns := place(log)
	var out []checkpoint.Result
	err := s.query(ctx, "read", s.sql.results, []any{thread, ns, scope(branch, epoch)}, func(rows pgx.Rows) error {
		r := checkpoint.Result{Branch: branch, Epoch: epoch}
		var key, long, data []byte
		if err := rows.Scan(&key, &long, &r.Replace, &data); err != nil {
			return err
		}
		if long != nil {
			key = long
		}
		if err := parseResultKey(key, &r); err != nil {
			return &checkpoint.CorruptError{Thread: log.Thread, Place: "table superstep_results, key", Offset: -1, Err: err}
		}
		if data != nil {
			r.Data = data
		}
		out = append(out, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b checkpoint.Result) int { return cmp.Compare(a.Task, b.Task) })
	return out, nil
}

// after returns the least bytes that are greater than all with the prefix, or nil
// if there are none.
func after(prefix []byte) []byte {
	b := slices.Clone(prefix)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return b
		}
		b = b[:len(b)-1]
	}
	return nil
}

// Threads implements [checkpoint.Lister]. Threads whose heads are of the same
// minute are read by one query; so are all that have a prefix. Labels find those with
// the metadata.
func (s *Store) Threads(ctx context.Context, f checkpoint.ThreadFilter) iter.Seq2[checkpoint.ThreadInfo, error] {
	return func(yield func(checkpoint.ThreadInfo, error) bool) {
		left := f.Limit
		below := int64(1<<63 - 1)
		if f.After.Thread != "" {
			below = bucketOf(f.After.At) + 1
		}
		for {
			if err := s.start(ctx, "all"); err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return
			}
			var infos []checkpoint.ThreadInfo
			var err error
			if f.Prefix != "" {
				// What is cut in the index is compared whole below; then a limit
				// would come too early.
				prefix, limit := []byte(f.Prefix), int64(f.Limit)
				if len(prefix) > maxKey-32 {
					prefix, limit = prefix[:maxKey-32], 0
				}
				if f.After.Thread != "" || len(f.Metadata) > 0 {
					limit = 0
				}
				infos, err = s.infos(ctx, s.sql.threadsByPrefix, prefix, after(prefix), cmp.Or(limit, noEnd))
			} else {
				want := int64(maxPage)
				if left > 0 {
					want = min(want, int64(left))
				}
				query, args := s.sql.threads, []any{below, want}
				if len(f.Metadata) > 0 {
					query, args = s.sql.labelled, append(args, backend.Labels(f.Metadata))
				}
				infos, err = s.infos(ctx, query, args...)
			}
			if err != nil {
				yield(checkpoint.ThreadInfo{}, err)
				return
			}
			before := below
			for _, info := range infos {
				below = min(below, bucketOf(info.Head.CreatedAt))
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
			if f.Prefix != "" || len(infos) == 0 || below == before {
				return
			}
		}
	}
}

func (s *Store) infos(ctx context.Context, query string, args ...any) ([]checkpoint.ThreadInfo, error) {
	var out []checkpoint.ThreadInfo
	err := s.query(ctx, "list the threads of", query, args, func(rows pgx.Rows) error {
		var info checkpoint.ThreadInfo
		var head, first scanned
		var key, thread, holder []byte
		var live bool
		var until *time.Time
		var ttl *int64
		var removed, freed, total int64
		if err := rows.Scan(append([]any{&key, &thread, &live, &holder, &until, &ttl, &removed, &freed, &total, &first.at, &first.meta}, head.into(false)...)...); err != nil {
			return err
		}
		info.Thread = checkpoint.ThreadID(whole(key, thread))
		log := checkpoint.Log{Thread: info.Thread}
		var err error
		if info.Head, err = head.record(log, false); err != nil {
			return err
		}
		// Its time may stand in meta.
		oldest := checkpoint.Record{ID: "oldest", Log: log, Seq: 1, CreatedAt: time.Unix(0, first.at).UTC()}
		if err := checkpoint.UnmarshalBody(&oldest, first.meta, nil); err != nil {
			return damage(log, 1, err)
		}
		info.CreatedAt, info.Records, info.Bytes = oldest.CreatedAt, head.ord-removed, total-freed
		if live {
			info.Lease = leaseOf(holder, until, ttl)
		}
		out = append(out, info)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b checkpoint.ThreadInfo) int { return a.Place().Compare(b.Place()) })
	return out, nil
}

// Logs implements [checkpoint.Lister].
func (s *Store) Logs(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	return func(yield func(checkpoint.LogInfo, error) bool) {
		if err := s.start(ctx, thread); err != nil {
			yield(checkpoint.LogInfo{}, err)
			return
		}
		tk, _ := clip([]byte(thread))
		var out []checkpoint.LogInfo
		err := s.query(ctx, "list the logs of", s.sql.logs, []any{tk}, func(rows pgx.Rows) error {
			var ns, namespace, id []byte
			var removed, freed, ord, total int64
			if err := rows.Scan(&ns, &namespace, &removed, &freed, &ord, &id, &total); err != nil {
				return err
			}
			info := checkpoint.LogInfo{Log: checkpoint.Log{Thread: thread, Namespace: whole(ns, namespace)}, Records: ord - removed, Bytes: total - freed}
			var err error
			if info.Head, err = unkey(id); err != nil {
				return damage(info.Log, ord, err)
			}
			out = append(out, info)
			return nil
		})
		if err != nil {
			yield(checkpoint.LogInfo{}, err)
			return
		}
		slices.SortFunc(out, func(a, b checkpoint.LogInfo) int { return cmp.Compare(a.Log.Namespace, b.Log.Namespace) })
		for _, info := range out {
			if !yield(info, nil) {
				return
			}
		}
	}
}
