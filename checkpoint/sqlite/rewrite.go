package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/backend"
)

// place is where a record stands, and what it takes.
type place struct {
	id           checkpoint.ID
	ord, br, seq int64
	bytes        int64
}

// Rewrite implements [checkpoint.Rewriter], in one transaction.
func (s *Store) Rewrite(ctx context.Context, r *checkpoint.Rewrite) error {
	if err := s.start(ctx, r.Log.Thread); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	rows := make([]row, len(r.Replace))
	for i, rec := range r.Replace {
		meta, data, err := checkpoint.MarshalBody(rec)
		if err != nil {
			return err
		}
		rows[i] = row{id: key(rec.ID), meta: meta, data: data, sum: backend.Checksum(meta, data)}
	}
	err := s.submit(ctx, &request{do: func(ctx context.Context) error { return s.rewrite(ctx, r, rows) }})
	return s.failed("rewrite a thread of", err)
}

func (s *Store) rewrite(ctx context.Context, r *checkpoint.Rewrite, rows []row) error {
	st, th, err := s.load(r.Log)
	if err != nil {
		return err
	}
	if st.ord == 0 {
		return fmt.Errorf("%w: log %v", checkpoint.ErrNotFound, r.Log)
	}
	if err := r.CheckHold(checkpoint.Fence(th.fence), th.lease(), time.Now()); err != nil {
		return err
	}
	if st.head != r.Head {
		return backend.Conflict(r.Log, st.head, r.Head)
	}
	all, err := s.places(ctx, st, r.Log)
	if err != nil {
		return err
	}
	at := make(map[checkpoint.ID]int, len(all))
	for i, p := range all {
		at[p.id] = i
	}
	gone := make(map[int]bool, len(r.Remove))
	var freed int64
	for _, id := range r.Remove {
		i, ok := at[id]
		if !ok {
			return fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, id)
		}
		gone[i] = true
		freed += all[i].bytes
	}
	for i, rec := range r.Replace {
		n, ok := at[rec.ID]
		if !ok {
			return fmt.Errorf("%w: log %v has no record %s", checkpoint.ErrNotFound, r.Log, rec.ID)
		}
		p := all[n]
		here := p.br == 0 && rec.Branch == ""
		if p.br > 0 {
			first, ok := at[checkpoint.ID(rec.Branch)]
			here = ok && all[first].ord == p.br
		}
		if !here || p.seq != rec.Seq {
			return fmt.Errorf("%w: record %s of log %v stands elsewhere than its replacement", checkpoint.ErrInvalid, rec.ID, r.Log)
		}
		freed += p.bytes - int64(len(rows[i].meta)+len(rows[i].data))
	}
	if err := left(r, all, gone); err != nil {
		return err
	}
	// What is known of the thread's logs may not be true any more.
	for log := range s.logs {
		if log.Thread == r.Log.Thread {
			delete(s.logs, log)
		}
	}
	if len(r.Remove) > 0 {
		th.raise(st.tid)
	}
	if len(gone) == len(all) {
		return s.empty(ctx, st, th, r.Log)
	}
	for i := 0; i < len(all); i++ {
		if !gone[i] {
			continue
		}
		from := i
		for i+1 < len(all) && gone[i+1] {
			i++
		}
		if _, err := s.conn.ExecContext(ctx, `DELETE FROM superstep_records WHERE rid >= ? AND rid <= ?`, st.rid(all[from].ord), st.rid(all[i].ord)); err != nil {
			return err
		}
	}
	for i, rec := range r.Replace {
		p := all[at[rec.ID]]
		if _, err := s.conn.ExecContext(ctx, `UPDATE superstep_records SET at = ?2, sum = ?3, meta = ?4, data = ?5 WHERE rid = ?1`,
			st.rid(p.ord), rec.CreatedAt.UnixNano(), rows[i].sum, text(rows[i].meta), rows[i].data); err != nil {
			return err
		}
		if p.ord != st.ord || r.Log.Namespace != "" {
			continue
		}
		th.headDue = micros(rec.Due)
		th.due = earlier(th.headDue, th.woken)
		if err := exec(s.write.bucket, st.lid, bucketOf(rec.CreatedAt), labelsOf(rec.Metadata)); err != nil {
			return err
		}
	}
	if err := exec(s.write.setThread, append([]any{st.tid}, th.values()...)...); err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, `UPDATE superstep_logs SET removed = removed + ?2, freed = freed + ?3 WHERE lid = ?1`, st.lid, len(gone), freed); err != nil {
		return err
	}
	// The pieces of IDs begin anew after each gap, so that an ID that is gone
	// and comes again does not stand in the midst of one.
	if _, err := s.conn.ExecContext(ctx, `DELETE FROM superstep_ids WHERE lid = ?`, st.lid); err != nil {
		return err
	}
	var last place
	for i, p := range all {
		if gone[i] {
			continue
		}
		if p.ord != last.ord+1 || !isNext(p.id, last.id) {
			run, n := runOf(p.id)
			if err := exec(s.write.addPiece, st.lid, run, n, p.ord); err != nil {
				return err
			}
		}
		last = p
	}
	return nil
}

// places returns where the records of a log stand, in the order appended.
func (s *Store) places(ctx context.Context, st *logState, log checkpoint.Log) (out []place, err error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT rid, id, br, seq, octet_length(meta) + octet_length(data)
		FROM superstep_records WHERE rid > ? AND rid <= ? ORDER BY rid`, st.rid(0), st.rid(maxOrd))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p place
		var rid int64
		var id any
		if err := rows.Scan(&rid, &id, &p.br, &p.seq, &p.bytes); err != nil {
			return nil, err
		}
		if p.id, err = unkey(id); err != nil {
			return nil, damage(log.Thread, rid, err)
		}
		p.ord = rid & maxOrd
		out = append(out, p)
	}
	return out, rows.Err()
}

// left checks that what remains can stand.
func left(r *checkpoint.Rewrite, all []place, gone map[int]bool) error {
	if len(gone) == len(all) {
		return nil
	}
	newest := make(map[int64]int) // of each branch
	kept := make(map[int64]bool)
	for i, p := range all {
		newest[p.br] = i
		if gone[i] {
			continue
		}
		if p.br > 0 && !kept[p.br] && p.ord != p.br {
			return fmt.Errorf("%w: the first record of the branch of %s of log %v goes, though others stay", checkpoint.ErrInvalid, p.id, r.Log)
		}
		kept[p.br] = true
	}
	for br, i := range newest {
		if kept[br] && gone[i] {
			return fmt.Errorf("%w: record %s, the newest of its branch, goes, though others stay", checkpoint.ErrInvalid, all[i].id)
		}
	}
	if gone[len(all)-1] {
		return fmt.Errorf("%w: the head of log %v goes, though others stay", checkpoint.ErrInvalid, r.Log)
	}
	return nil
}

// empty removes all records of a log. The thread gets a new number: whoever
// knows the old one, in another process, would else append to a head that is gone.
func (s *Store) empty(ctx context.Context, st *logState, th threadRow, log checkpoint.Log) error {
	if err := s.execAll(ctx, []string{
		`DELETE FROM superstep_records WHERE rid > ?1 << 32 AND rid <= (?1 << 32) + 4294967295`,
		`DELETE FROM superstep_segments WHERE lid = ?1`,
		`DELETE FROM superstep_ids WHERE lid = ?1`,
		`UPDATE superstep_logs SET bucket = NULL, labels = NULL, removed = 0, freed = 0 WHERE lid = ?1`,
	}, st.lid); err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, `DELETE FROM superstep_threads WHERE tid = ?`, st.tid); err != nil {
		return err
	}
	if log.Namespace == "" {
		th.due, th.headDue = th.woken, sql.NullInt64{}
	}
	res, err := s.write.addThread.ExecContext(ctx, string(log.Thread))
	if err != nil {
		return err
	}
	tid, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if err := exec(s.write.setThread, append([]any{tid}, th.values()...)...); err != nil {
		return err
	}
	_, err = s.conn.ExecContext(ctx, `UPDATE superstep_logs SET tid = ?2 WHERE tid = ?1`, st.tid, tid)
	return err
}

// Compact gives the space that deleted and shortened threads left back to the
// file system (VACUUM). The database is written anew, which needs as much free
// disk space again, and nobody writes meanwhile. Without it the space is used
// for what is written next. A database that other programs share is compacted
// as a whole.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.start(ctx, "all"); err != nil {
		return err
	}
	if err := s.writable("compact"); err != nil {
		return err
	}
	if err := s.hold(ctx); err != nil {
		return err
	}
	defer s.letGo()
	if s.closed.Load() {
		return checkpoint.ErrClosed
	}
	// The copy does not go into memory.
	if _, err := s.conn.ExecContext(ctx, `PRAGMA temp_store = FILE`); err != nil {
		return s.failed("compact", err)
	}
	defer func() { _, _ = s.conn.ExecContext(bg, `PRAGMA temp_store = MEMORY`) }()
	for _, q := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		err := s.patiently(ctx, func() error {
			_, err := s.conn.ExecContext(ctx, q)
			return err
		})
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return s.failed("compact", err)
		}
	}
	return nil
}
