package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
)

// logsOf returns the logs of a thread. It runs with conn held.
func (s *Store) logsOf(ctx context.Context, thread checkpoint.ThreadID) (tid int64, lids []int64, err error) {
	rows, err := s.conn.QueryContext(ctx, `SELECT t.tid, l.lid FROM superstep_threads t
		LEFT JOIN superstep_logs l ON l.tid = t.tid WHERE t.thread = ? ORDER BY l.lid`, string(thread))
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var lid sql.NullInt64
		if err := rows.Scan(&tid, &lid); err != nil {
			return 0, nil, err
		}
		if lid.Valid {
			lids = append(lids, lid.Int64)
		}
	}
	return tid, lids, rows.Err()
}

func (s *Store) execAll(ctx context.Context, queries []string, args ...any) error {
	for _, q := range queries {
		if _, err := s.conn.ExecContext(ctx, q, args...); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements [checkpoint.Store].
func (s *Store) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	if err := s.start(ctx, thread); err != nil {
		return err
	}
	err := s.submit(ctx, &request{do: func(ctx context.Context) error {
		tid, lids, err := s.logsOf(ctx, thread)
		if err != nil || tid == 0 {
			return err
		}
		for _, lid := range lids {
			if err := s.execAll(ctx, []string{
				`DELETE FROM superstep_records WHERE rid > ?1 << 32 AND rid <= (?1 << 32) + 4294967295`,
				`DELETE FROM superstep_segments WHERE lid = ?1`,
				`DELETE FROM superstep_ids WHERE lid = ?1`,
				`DELETE FROM superstep_results WHERE lid = ?1`,
			}, lid); err != nil {
				return err
			}
		}
		for log := range s.logs {
			if log.Thread == thread {
				delete(s.logs, log)
			}
		}
		return s.execAll(ctx, []string{
			`DELETE FROM superstep_logs WHERE tid = ?1`,
			`DELETE FROM superstep_threads WHERE tid = ?1`,
		}, tid)
	}})
	return s.failed("delete a thread of", err)
}

// Copy implements [checkpoint.Copier].
func (s *Store) Copy(ctx context.Context, from, to checkpoint.ThreadID) error {
	if err := s.start(ctx, from); err != nil {
		return err
	}
	if to == "" {
		return checkpoint.ErrNoThread
	}
	err := s.submit(ctx, &request{do: func(ctx context.Context) error {
		tid, lids, err := s.logsOf(ctx, from)
		if err != nil {
			return err
		}
		if tid == 0 {
			return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, from)
		}
		var n int64
		err = s.conn.QueryRowContext(ctx, `SELECT tid FROM superstep_threads WHERE thread = ?`, string(to)).Scan(&n)
		if err == nil {
			return fmt.Errorf("%w: thread %q exists already", checkpoint.ErrConflict, to)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		res, err := s.conn.ExecContext(ctx, `INSERT INTO superstep_threads (thread, due, head_due, woken)
			SELECT ?, due, head_due, woken FROM superstep_threads WHERE tid = ?`, string(to), tid)
		if err != nil {
			return err
		}
		if n, err = res.LastInsertId(); err != nil {
			return err
		}
		for _, lid := range lids {
			res, err := s.conn.ExecContext(ctx, `INSERT INTO superstep_logs (tid, ns, bucket, labels, removed, freed)
				SELECT ?, ns, bucket, labels, removed, freed FROM superstep_logs WHERE lid = ?`, n, lid)
			if err != nil {
				return err
			}
			target, err := res.LastInsertId()
			if err != nil {
				return err
			}
			if err := s.execAll(ctx, []string{
				`INSERT INTO superstep_records (rid, id, br, seq, at, total, sum, meta, data)
					SELECT (?2 << 32) + (rid & 4294967295), id, br, seq, at, total, sum, meta, data FROM superstep_records
					WHERE rid > ?1 << 32 AND rid <= (?1 << 32) + 4294967295 ORDER BY rid`,
				`INSERT INTO superstep_segments (lid, ord, br, seq) SELECT ?2, ord, br, seq FROM superstep_segments WHERE lid = ?1`,
				`INSERT INTO superstep_ids (lid, run, n, ord) SELECT ?2, run, n, ord FROM superstep_ids WHERE lid = ?1`,
				`INSERT INTO superstep_results (lid, epoch, branch, task, gen, kind, name, replaces, data)
					SELECT ?2, epoch, branch, task, gen, kind, name, replaces, data FROM superstep_results WHERE lid = ?1 ORDER BY num`,
			}, lid, target); err != nil {
				return err
			}
		}
		return nil
	}})
	return s.failed("copy a thread of", err)
}
