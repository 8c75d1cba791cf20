package db

import (
	"context"
	"time"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/postgres"
	"github.com/superstep-dev/superstep/internal/pgdb"
)

// now is the database's time in SQL: clocks of instances may differ.
func (d *DB) now() string {
	if d.pg == nil {
		return `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`
	}
	return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
}

// Shared reports whether several instances may use the database at once.
func (d *DB) Shared() bool { return d.pg != nil }

// Wire carries notes between the instances that use a shared database.
func (d *DB) Wire(name string) *pgdb.Wire { return d.pg.Wire(name) }

// Bus returns what carries events of runs between those that use the database. It is to be
// closed before the database, if it is an io.Closer.
func (d *DB) Bus(ctx context.Context) (bus.Bus, error) {
	if !d.Shared() {
		return bus.NewMemory(), nil
	}
	return postgres.New(ctx, d.pg.Pool, postgres.Options{Schema: d.pg.Schema})
}

// Beat says that an instance lives.
func (d *DB) Beat(ctx context.Context, instance string) error {
	_, err := d.exec(ctx, d.sql, `INSERT INTO @superstep_instances (id, beat) VALUES (?, `+d.now()+`) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat`, instance)
	return err
}

// Leave says that an instance has ended which has given no sign of life for so long, and
// reports whether nobody had said so.
func (d *DB) Leave(ctx context.Context, instance string, silence time.Duration) (bool, error) {
	n, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_instances WHERE id = ? AND beat <= `+d.now()+` - ?`, instance, silence.Microseconds())
	return n > 0, err
}

// Look returns which of its runs an instance shall stop, and how, and in which time which
// instances count as dead unless they give another sign of life. Those that have left are
// dead, if they hold runs that have not ended.
func (d *DB) Look(ctx context.Context, instance string, silence time.Duration) (stops map[string]int, lives map[string]time.Duration, err error) {
	rows, err := d.reads.QueryContext(ctx, d.bind(`SELECT id, '', stop FROM @superstep_runs WHERE holder = ? AND status IN ('pending', 'running') AND stop > 0
		UNION ALL SELECT '', id, beat + ? - `+d.now()+` FROM @superstep_instances
		UNION ALL SELECT DISTINCT '', r.holder, 0 FROM @superstep_runs r
		WHERE r.status IN ('pending', 'running') AND NOT EXISTS (SELECT 1 FROM @superstep_instances i WHERE i.id = r.holder)`), instance, silence.Microseconds())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	stops, lives = map[string]int{}, map[string]time.Duration{}
	for rows.Next() {
		var run, holder string
		var n int64 // how the run shall stop, or for how long the holder lives
		if err := rows.Scan(&run, &holder, &n); err != nil {
			return nil, nil, err
		}
		if run != "" {
			stops[run] = int(n)
		} else {
			lives[holder] = time.Duration(n) * time.Microsecond
		}
	}
	return stops, lives, rows.Err()
}

// TakeOver gives the runs of an instance that have not ended to another one, and
// returns their threads.
func (d *DB) TakeOver(ctx context.Context, from, to string) ([]string, error) {
	return d.texts(ctx, d.sql, `UPDATE @superstep_runs SET holder = ? WHERE holder = ? AND status IN ('pending', 'running') RETURNING thread`, to, from)
}

// Due returns how many runs an instance is to run that have not begun although
// they may.
func (d *DB) Due(ctx context.Context, instance string) (int, error) {
	return value[int](ctx, d, d.reads, `SELECT count(*) FROM @superstep_runs WHERE holder = ? AND status = 'pending' AND starts <= `+d.now(), instance)
}

// Stop asks the instance that holds a run to stop it, as why says; greater ones
// win.
func (d *DB) Stop(ctx context.Context, run string, why int) error {
	_, err := d.exec(ctx, d.sql, `UPDATE @superstep_runs SET stop = ? WHERE id = ? AND stop < ? AND status IN ('pending', 'running')`, why, run, why)
	return err
}
