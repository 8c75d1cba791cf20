package db

import (
	"context"
	"database/sql"
)

// fairly returns the IDs of rows of a table that are due, at most limit of them, and
// of each owner as many as most says: the earliest, but in turns if there are more, so
// that no owner keeps others waiting. Its index has owner and due.
func (d *DB) fairly(ctx context.Context, e execer, table, due string, now int64, limit int, most func(owner string) int) ([]string, error) {
	rows, err := d.due(ctx, e, `SELECT id, owner FROM `+table+` WHERE `+due+` <= ? ORDER BY `+due+`, id LIMIT ?`, now, limit+1)
	if err != nil {
		return nil, err
	}
	if len(rows) <= limit {
		return take([][]dueRow{rows}, limit, most), nil
	}
	// One step in the index for each owner.
	owners, err := d.texts(ctx, d.reads, `WITH RECURSIVE o(owner) AS (
		SELECT (SELECT min(owner) FROM `+table+` WHERE `+due+` IS NOT NULL)
		UNION ALL SELECT (SELECT min(owner) FROM `+table+` WHERE `+due+` IS NOT NULL AND owner > o.owner) FROM o WHERE o.owner IS NOT NULL
	) SELECT owner FROM o WHERE owner IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	var all [][]dueRow
	for _, owner := range owners {
		n := min(limit, most(owner))
		if n <= 0 {
			continue
		}
		of, err := d.due(ctx, e, `SELECT id, owner FROM `+table+` WHERE owner = ? AND `+due+` <= ? ORDER BY `+due+`, id LIMIT ?`, owner, now, n)
		if err != nil {
			return nil, err
		}
		all = append(all, of)
	}
	return take(all, limit, most), nil
}

type dueRow struct{ id, owner string }

func (d *DB) due(ctx context.Context, e execer, query string, args ...any) ([]dueRow, error) {
	return list(ctx, d, e, func(rows *sql.Rows, r *dueRow) error { return rows.Scan(&r.id, &r.owner) }, query, args...)
}

// take takes rows of lists in turns.
func take(lists [][]dueRow, limit int, most func(owner string) int) (ids []string) {
	taken := map[string]int{}
	for turn, more := 0, true; more; turn++ {
		more = false
		for _, list := range lists {
			if turn >= len(list) {
				continue
			}
			more = true
			r := list[turn]
			if len(ids) < limit && taken[r.owner] < most(r.owner) {
				taken[r.owner]++
				ids = append(ids, r.id)
			}
		}
	}
	return ids
}
