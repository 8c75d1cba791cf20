package file

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Logs implements [checkpoint.Lister]. Bytes are those of the lines with the
// log's records.
func (s *Store) Logs(ctx context.Context, id checkpoint.ThreadID) iter.Seq2[checkpoint.LogInfo, error] {
	return func(yield func(checkpoint.LogInfo, error) bool) {
		var list []checkpoint.LogInfo
		err := s.view(ctx, id, func(t *thread, x *index) error {
			list = nil
			for _, l := range x.logs {
				if len(l.recs) == 0 {
					continue
				}
				head, err := t.idAt(l.recs[len(l.recs)-1])
				if err != nil {
					return err
				}
				info := checkpoint.LogInfo{
					Log: checkpoint.Log{Thread: id, Namespace: l.ns}, Head: head, Records: int64(len(l.recs)),
				}
				for _, pos := range l.recs {
					info.Bytes += int64(x.recs[pos].n)
				}
				list = append(list, info)
			}
			return nil
		})
		if err != nil {
			yield(checkpoint.LogInfo{}, err)
			return
		}
		slices.SortFunc(list, func(a, b checkpoint.LogInfo) int { return cmp.Compare(a.Log.Namespace, b.Log.Namespace) })
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
