package sqlite

import (
	"context"
	"iter"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Logs implements [checkpoint.Lister].
func (s *Store) Logs(ctx context.Context, thread checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	return func(yield func(checkpoint.LogInfo, error) bool) {
		if err := s.start(ctx, thread); err != nil {
			yield(checkpoint.LogInfo{}, err)
			return
		}
		var list []checkpoint.LogInfo
		err := s.query(ctx, func() error {
			rows, err := s.read.logs.QueryContext(ctx, string(thread))
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				info := checkpoint.LogInfo{Log: checkpoint.Log{Thread: thread}}
				var rid int64
				var id any
				if err := rows.Scan(&info.Log.Namespace, &rid, &id, &info.Records, &info.Bytes); err != nil {
					return err
				}
				if info.Head, err = unkey(id); err != nil {
					return damage(thread, rid, err)
				}
				list = append(list, info)
			}
			return rows.Err()
		})
		if err != nil {
			yield(checkpoint.LogInfo{}, err)
			return
		}
		for _, info := range list {
			if err := ctx.Err(); err != nil {
				yield(checkpoint.LogInfo{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}
