package db

import "context"

// Due returns how many runs an instance is to run that have not begun although
// they may.
func (d *DB) Due(ctx context.Context, instance string) (n int, err error) {
	err = d.reads.QueryRowContext(ctx, d.bind(`SELECT count(*) FROM @superstep_runs WHERE holder = ? AND status = 'pending' AND starts <= `+d.now()), instance).Scan(&n)
	return n, err
}
