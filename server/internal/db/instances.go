package db

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
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

// Beat says that an instance lives.
func (d *DB) Beat(ctx context.Context, instance string) error {
	_, err := d.exec(ctx, d.sql, `INSERT INTO @superstep_instances (id, beat) VALUES (?, `+d.now()+`) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat`, instance)
	return err
}

// Leave says that an instance has ended, and reports whether nobody had said so.
func (d *DB) Leave(ctx context.Context, instance string) (bool, error) {
	n, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_instances WHERE id = ?`, instance)
	return n > 0, err
}

// Look returns which of its runs an instance shall stop, and how, and which
// instances hold runs that have not ended and have given no sign of life for a time
// or are gone, which is asked for the others.
func (d *DB) Look(ctx context.Context, instance string, silence time.Duration, gone func(instance string) bool) (stops map[string]int, left []string, err error) {
	rows, err := d.reads.QueryContext(ctx, d.bind(`SELECT id, '', stop FROM @superstep_runs WHERE holder = ? AND status IN ('pending', 'running') AND stop > 0
		UNION ALL SELECT '', r.holder, max(CASE WHEN i.beat > `+d.now()+` - ? THEN 1 ELSE 0 END)
		FROM @superstep_runs r LEFT JOIN @superstep_instances i ON i.id = r.holder
		WHERE r.status IN ('pending', 'running') GROUP BY r.holder`), instance, silence.Microseconds())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	stops = map[string]int{}
	for rows.Next() {
		var run, holder string
		var n int // how the run shall stop, or whether the holder lives
		if err := rows.Scan(&run, &holder, &n); err != nil {
			return nil, nil, err
		}
		switch {
		case run != "":
			stops[run] = n
		case n == 0 || gone(holder):
			left = append(left, holder)
		}
	}
	return stops, left, rows.Err()
}

// TakeOver gives the runs of an instance that have not ended to another one, and
// returns their threads.
func (d *DB) TakeOver(ctx context.Context, from, to string) (threads []string, err error) {
	rows, err := d.sql.QueryContext(ctx, d.bind(`UPDATE @superstep_runs SET holder = ? WHERE holder = ? AND status IN ('pending', 'running') RETURNING thread`), to, from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var thread string
		if err := rows.Scan(&thread); err != nil {
			return nil, err
		}
		threads = append(threads, thread)
	}
	return threads, rows.Err()
}

// Stop asks the instance that holds a run to stop it, as why says; greater ones
// win.
func (d *DB) Stop(ctx context.Context, run string, why int) error {
	_, err := d.exec(ctx, d.sql, `UPDATE @superstep_runs SET stop = ? WHERE id = ? AND stop < ? AND status IN ('pending', 'running')`, why, run, why)
	return err
}

// Event is what a run has sent to those who watch it.
type Event struct {
	Seq   int
	Event string
	Data  []byte

	// Told is the checkpoint of which all is told with this event; it is only
	// written, see [DB.LastTold].
	Told string
}

// AddEvents stores events of a run that its holder sends, all or none. If another
// instance holds it by now, it returns ErrTaken.
func (d *DB) AddEvents(ctx context.Context, run, holder string, events []Event) error {
	return d.tx(ctx, func(tx execer) error {
		lock := ""
		if d.pg != nil {
			lock = " FOR SHARE" // nobody takes the run over meanwhile
		}
		if err := d.held(ctx, tx, run, holder, new(Run), lock); err != nil {
			return err
		}
		return d.addEvents(ctx, tx, run, events)
	})
}

func (d *DB) addEvents(ctx context.Context, tx execer, run string, events []Event) error {
	const most = 100 // rows of a statement
	for some := range slices.Chunk(events, most) {
		var args []any
		for _, e := range some {
			args = append(args, run, e.Seq, e.Event, string(e.Data), e.Told)
		}
		values := strings.TrimSuffix(strings.Repeat(`(?, ?, `+d.now()+`, ?, ?, ?), `, len(some)), ", ")
		if _, err := d.exec(ctx, tx, `INSERT INTO @superstep_events (run, seq, at, event, data, told) VALUES `+values, args...); err != nil {
			return err
		}
	}
	return nil
}

// Events returns events of a run from a number on.
func (d *DB) Events(ctx context.Context, run string, from, limit int) ([]Event, error) {
	rows, err := d.reads.QueryContext(ctx, d.bind(`SELECT seq, event, data FROM @superstep_events WHERE run = ? AND seq >= ? ORDER BY seq LIMIT ?`), run, from, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Event
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.Seq, &e.Event, &e.Data); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// NextEvent returns the number that a run's next event has.
func (d *DB) NextEvent(ctx context.Context, run string) (n int, err error) {
	err = d.reads.QueryRowContext(ctx, d.bind(`SELECT coalesce(max(seq) + 1, 0) FROM @superstep_events WHERE run = ?`), run).Scan(&n)
	return n, err
}

// LastTold returns the newest checkpoint of which a run's events tell all; empty
// if there is none.
func (d *DB) LastTold(ctx context.Context, run string) (string, error) {
	return d.lastTold(ctx, `SELECT told FROM @superstep_events WHERE run = ? AND told <> '' ORDER BY seq DESC LIMIT 1`, run)
}

func (d *DB) lastTold(ctx context.Context, query string, args ...any) (told string, err error) {
	if err = d.reads.QueryRowContext(ctx, d.bind(query), args...).Scan(&told); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return told, err
}

// SweepEvents removes events that are older than a time and whose run has ended.
func (d *DB) SweepEvents(ctx context.Context, age time.Duration) error {
	_, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_events WHERE at < `+d.now()+` - ? AND NOT EXISTS (
		SELECT 1 FROM @superstep_runs r WHERE r.id = superstep_events.run AND r.status IN ('pending', 'running'))`, age.Microseconds())
	return err
}
