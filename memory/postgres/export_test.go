package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/memory"
)

// Plan returns how the server would look for the nearest items by the index.
func Plan(ctx context.Context, s *Store, prefix []string, query memory.Query) (string, error) {
	p, err := s.config.PrepareSearch(ctx, prefix, query)
	if err != nil {
		return "", err
	}
	q := s.near(p, p.Limit)
	rows, err := s.db.Query(ctx, "EXPLAIN "+q.String(), q.args...)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}
