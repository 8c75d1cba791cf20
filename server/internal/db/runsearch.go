package db

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RunFilter selects runs: empty fields select all.
type RunFilter struct {
	Statuses               []string
	Graph, Assistant, User string
	Thread                 string
	Error                  string    // a part of what the error says, in any case
	From, Until            time.Time // when the run was created; Until is excluded

	// MinTokens and MinCost select runs whose models are known to have used as much;
	// 0 or less is all runs.
	MinTokens int64
	MinCost   float64

	// ThreadOwner owns the threads. It selects some that are not the owner's as well, as
	// that of [ThreadFilter] does.
	ThreadOwner string
}

// What of a run is in an index is short: PostgreSQL limits the rows of one.
const (
	maxError = 1000 // bytes of an error that are searched
	maxOwner = 256  // bytes; other owners count as no text
)

// folded returns what a search knows of an error.
func (e *RunError) folded() string {
	if e == nil {
		return ""
	}
	return fold(e.Error+": "+e.Message, maxError)
}

// owner returns the owner of a thread as its runs have it.
func (t *Thread) owner() string {
	if _, _, owner := t.labels(); len(owner) <= maxOwner {
		return owner
	}
	return ""
}

// conditions returns the filter in SQL. Owned says that the owner of threads is left out:
// there is an index for each, with the newest runs first.
//
// SQLite doesn't know how many rows have a value. So only one of the columns with an index
// is compared in a way that has the index used, the others in one that PostgreSQL alone
// recognises. Runs that have not succeeded are few: their index goes first, and has all
// these columns, as that of runs whose models used something has.
func (f *RunFilter) conditions() (where string, args []any, owned bool) {
	where = `1 = 1`
	add := func(condition string, values ...any) {
		where, args = where+` AND `+condition, append(args, values...)
	}
	amiss := f.Error != "" || len(f.Statuses) > 0 && !slices.Contains(f.Statuses, Success)
	spent := f.MinTokens > 0 || f.MinCost > 0
	owned = f.ThreadOwner != "" && f.Thread == "" && !amiss && !spent
	if f.ThreadOwner != "" && !owned {
		add(`NOT (thread_owner <> ? AND thread_owner <> '')`, f.ThreadOwner)
	}
	indexed := owned
	for _, c := range []struct{ column, value string }{{"thread", f.Thread}, {"owner", f.User}, {"assistant", f.Assistant}, {"graph", f.Graph}} {
		switch {
		case c.value == "":
		case indexed || (amiss || spent) && c.column != "thread":
			add(`NOT `+c.column+` <> ?`, c.value)
		default:
			indexed = true
			add(c.column+` = ?`, c.value)
			if c.column == "owner" {
				add(`owner <> ''`) // as the index says
			}
		}
	}
	if amiss {
		add(`status <> 'success'`)
	}
	if spent {
		add(`tokens_in + tokens_out > 0`)
	}
	if f.MinTokens > 0 {
		add(`tokens_in + tokens_out >= ?`, f.MinTokens)
	}
	if f.MinCost > 0 {
		add(`cost >= ?`, f.MinCost)
	}
	if n := len(f.Statuses); n > 0 {
		add(`status IN (?`+strings.Repeat(`, ?`, n-1)+`)`, anys(f.Statuses)...)
	}
	if f.Error != "" {
		add(`error LIKE ? ESCAPE '\'`, containing(f.Error))
	}
	if !f.From.IsZero() {
		add(`created >= ?`, f.From.UnixMicro())
	}
	if !f.Until.IsZero() {
		add(`created < ?`, f.Until.UnixMicro())
	}
	return where, args, owned
}

// containing is a pattern of texts that have a part, which may be in any case.
func containing(part string) string {
	return `%` + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(part)) + `%`
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// ErrCursor says that a text is not a cursor that [DB.FindRuns] has returned.
var ErrCursor = errors.New("that is no cursor")

// place is where a run stands among all. The zero place is before them.
type place struct {
	created int64
	id      string
}

func (p place) String() string { return fmt.Sprintf("%d.%s", p.created, p.id) }

func placeOf(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	created, id, ok := strings.Cut(cursor, ".")
	if p.created, err = strconv.ParseInt(created, 10, 64); err != nil || !ok || strings.ContainsRune(id, 0) {
		return p, ErrCursor
	}
	p.id = id
	return p, nil
}

// FindRuns returns runs, newest first, of the threads that accepts selects, from the
// cursor on: at most limit of them, and the cursor of the next page, which is empty if
// there is none.
func (d *DB) FindRuns(ctx context.Context, f RunFilter, cursor string, limit int, accepts func(*Thread) bool) (found []*Run, next string, err error) {
	last, err := placeOf(cursor)
	if err != nil || limit <= 0 {
		return nil, "", err
	}
	for batch := limit + 1; ; batch = min(2*batch, 1000) {
		rows, err := d.runsAfter(ctx, &f, last, batch)
		if err != nil {
			return nil, "", err
		}
		for _, r := range rows {
			if r.thread != nil && r.thread.Status != removed && accepts(r.thread) {
				if len(found) == limit {
					return found, last.String(), nil
				}
				found = append(found, r.run)
			}
			last = r.place
		}
		if len(rows) < batch {
			return found, "", nil
		}
	}
}

type foundRun struct {
	place
	run    *Run
	thread *Thread // nil if it is gone
}

// runsAfter returns the first runs after a place, with their threads.
func (d *DB) runsAfter(ctx context.Context, f *RunFilter, after place, limit int) (out []foundRun, err error) {
	where, args, owned := f.conditions()
	if after != (place{}) {
		where, args = where+` AND (created, id) < (?, ?)`, append(args, after.created, after.id)
	}
	const newest = ` ORDER BY created DESC, id DESC LIMIT ?`
	query := `SELECT created, id FROM @superstep_runs WHERE ` + where
	if owned {
		query = `SELECT * FROM (` + query + ` AND thread_owner = ?` + newest + `) AS own UNION ALL SELECT * FROM (` + query + ` AND thread_owner = ''` + newest + `) AS others`
		args = slices.Concat(args, []any{f.ThreadOwner, limit}, args, []any{limit})
	}
	// Which they are is found in an index, and no other rows are read.
	rows, err := d.rare(ctx, `SELECT r.created, r.id, r.owner, r.data, (SELECT t.data FROM @superstep_server_threads t WHERE t.id = r.thread)
		FROM (`+query+newest+`) AS found JOIN @superstep_runs r ON r.id = found.id ORDER BY r.created DESC, r.id DESC`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := foundRun{run: new(Run)}
		var data, thread sql.RawBytes
		if err := rows.Scan(&r.created, &r.id, &r.run.Owner, &data, &thread); err != nil {
			return nil, err
		}
		if thread != nil {
			r.thread = new(Thread)
			err = json.Unmarshal(thread, r.thread)
		}
		if err := cmp.Or(err, json.Unmarshal(data, r.run)); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// rare is QueryContext of what only reads and has many forms: they don't take the place
// of what is prepared.
func (d *DB) rare(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.reads.DB.QueryContext(ctx, d.bind(query), args...)
}

// RunFigures are what runs came to that were created in some time.
type RunFigures struct {
	From         time.Time
	Runs, Failed int

	// P50 and P95 are how long half of the runs took that have ended, and 95 in 100, to
	// three digits; negative if none has.
	P50, P95 time.Duration

	// Input and Output are the tokens, and Cost what they cost, of those runs of which it is
	// known; nil if it is of none.
	Input, Output *int64
	Cost          *float64

	took map[int64]int // runs, by microseconds
}

// ErrTooFine says that figures would have too many parts.
var ErrTooFine = errors.New("too many parts")

// RunFigures returns what the runs came to that a filter selects, of each time of a
// width in which there were some, in order: of at most so many, or else ErrTooFine.
// Accepts selects threads, and must not use the database; nil selects all.
func (d *DB) RunFigures(ctx context.Context, f RunFilter, width time.Duration, most int, accepts func(*Thread) bool) ([]*RunFigures, error) {
	where, args, owned := f.conditions()
	if owned {
		where, args = where+` AND thread_owner IN (?, '')`, append(args, f.ThreadOwner)
	}
	// Of a million rows each column counts.
	var created int64
	var took, in, out sql.NullInt64
	var cost sql.NullFloat64
	var status, thread, data sql.RawBytes
	columns, into := `created, status, ended - began, tokens_in, tokens_out, cost`, []any{&created, &status, &took, &in, &out, &cost}
	if accepts != nil {
		columns, into = columns+`, thread, (SELECT t.data FROM @superstep_server_threads t WHERE t.id = r.thread)`, append(into, &thread, &data)
	}
	rows, err := d.rare(ctx, `SELECT `+columns+` FROM @superstep_runs r WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	parts, accepted := map[int64]*RunFigures{}, map[string]bool{}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if accepts != nil {
			ok, known := accepted[string(thread)]
			if !known {
				t := new(Thread)
				ok = data != nil && json.Unmarshal(data, t) == nil && t.Status != removed && accepts(t)
				accepted[string(thread)] = ok
			}
			if !ok {
				continue
			}
		}
		n := created / width.Microseconds()
		p := parts[n]
		if p == nil {
			if len(parts) == most {
				return nil, ErrTooFine
			}
			p = &RunFigures{From: time.UnixMicro(n * width.Microseconds()).UTC(), took: map[int64]int{}}
			parts[n] = p
		}
		p.Runs++
		if s := string(status); s == Failed || s == Timeout {
			p.Failed++
		}
		if took.Valid {
			p.took[rounded(took.Int64)]++
		}
		if in.Valid {
			p.Input, p.Output = plus(p.Input, in.Int64), plus(p.Output, out.Int64)
		}
		if cost.Valid {
			p.Cost = plus(p.Cost, cost.Float64)
		}
	}
	all := []*RunFigures{}
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		p := parts[n]
		p.P50, p.P95 = percentile(p.took, 50), percentile(p.took, 95)
		all = append(all, p)
	}
	return all, rows.Err()
}

// plus adds to a sum, which is nil as long as nothing was added.
func plus[T int64 | float64](sum *T, v T) *T {
	if sum == nil {
		sum = new(T)
	}
	*sum += v
	return sum
}

// rounded returns a number with three digits.
func rounded(n int64) int64 {
	unit := int64(1)
	for n/unit >= 1000 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// percentile returns what so many of 100 values are below or at: values are the keys.
func percentile(took map[int64]int, percent int) time.Duration {
	all := 0
	for _, n := range took {
		all += n
	}
	below := 0
	for _, v := range slices.Sorted(maps.Keys(took)) {
		if below += took[v]; 100*below >= percent*all {
			return time.Duration(v) * time.Microsecond
		}
	}
	return -1
}
