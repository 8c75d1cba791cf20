package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/superstep-dev/superstep/memory"
)

// planner is asked how it would search.
type planner struct {
	*kept
	plan string
}

func (s *planner) Search(ctx context.Context, p *memory.PreparedSearch) ([]memory.Item, error) {
	q := s.near(p, p.Limit)
	rows, err := s.db.Query(ctx, "EXPLAIN "+q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	s.plan = strings.Join(lines, "\n")
	return nil, err
}

// Plan returns how the server would look for the nearest items by the index.
func Plan(ctx context.Context, s *Store, prefix []string, query memory.Query) (string, error) {
	p := &planner{kept: s.kept}
	_, err := memory.Over(p, s.kept.config).Search(ctx, prefix, query)
	return p.plan, err
}
