package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// FeedEvent is an event of what is told of a thread: its feed. Numbers grow over all of
// a thread's runs, whichever instance they are of, and events become visible in their
// order.
type FeedEvent struct {
	// Seq, and Feed, which is the feed's First, are set by the database when the event is
	// stored. The Seq that the first of several has before is the least for it.
	Seq, Feed int64
	Run       string // empty: it is of none
	Nth       int64  // among what its run streams: numbers that grow, under which clients know it
	Version   int    // of the protocol, 1 or 2
	Method    string
	Channel   string
	Namespace []string
	Ending    bool
	Data      []byte
	Told      string // the checkpoint of which all is told with this event; only written, see [DB.LastTold]
}

// Feed is what is known of a feed. If its thread is removed it ends, and another one
// begins with a greater First.
type Feed struct {
	Thread      string
	First, Next int64 // the number of its first event, and of the next one; 0: it hasn't begun
}

// AddFeed appends events that a run's holder sends, all or none, and reports whether
// somebody follows, or did not long ago. If another instance holds the run by now it returns
// ErrTaken. An empty run is for events that are not of one. Unless always is set nothing is
// appended if nobody follows.
func (d *DB) AddFeed(ctx context.Context, thread, run, holder string, always bool, events []FeedEvent) (followed bool, err error) {
	if d.pg != nil { // all in one statement
		appended, followed, err := d.addFeed(ctx, d.sql, thread, run, holder, always, events)
		if err == nil && run != "" && !appended {
			_, err = d.held(ctx, d.sql, run, holder, "")
		}
		return followed, err
	}
	err = d.tx(ctx, func(tx execer) error {
		if run != "" {
			if _, err := d.held(ctx, tx, run, holder, ""); err != nil {
				return err
			}
		}
		_, followed, err = d.addFeed(ctx, tx, thread, "", "", always, events)
		return err
	})
	return followed, err
}

// KeepFeed is how long events are told after somebody followed a feed last.
const KeepFeed = 2 * time.Minute

// addFeed is AddFeed in a transaction; of PostgreSQL it is one statement, in which a run
// that is named must be its holder's. Whoever appends holds the feed's row until the end:
// so events become visible in the order of their numbers.
func (d *DB) addFeed(ctx context.Context, tx execer, thread, run, holder string, always bool, events []FeedEvent) (appended, followed bool, err error) {
	if len(events) == 0 {
		return false, false, nil
	}
	n, least := int64(len(events)), events[0].Seq
	of, held := `(SELECT `+d.now()+` AS t) AS time`, []any(nil)
	if run != "" { // nobody takes the run over meanwhile
		of, held = of+`, (SELECT 1 FROM @superstep_runs WHERE id = ? AND holder = ? FOR SHARE) AS held`, []any{run, holder}
	}
	// Numbers begin at the time, in microseconds: so they grow even if the row went
	// meanwhile, and clients drop those that they have seen.
	query, args := `INSERT INTO @superstep_feeds (thread, first, next, changed, wanted)
		SELECT CAST(? AS text), t, CASE WHEN t > CAST(? AS bigint) THEN t ELSE CAST(? AS bigint) END + CAST(? AS bigint), t, 0 FROM `+of+` WHERE true
		ON CONFLICT (thread) DO UPDATE SET changed = excluded.changed,
			next = CASE WHEN superstep_feeds.next > CAST(? AS bigint) THEN superstep_feeds.next ELSE CAST(? AS bigint) END + CAST(? AS bigint)`,
		slices.Concat([]any{thread, least, least, n}, held, []any{least, least, n})
	if !always {
		query, args = `UPDATE @superstep_feeds SET next = next + CAST(? AS bigint), changed = `+d.now()+` WHERE thread = ? AND wanted > `+d.now()+` - CAST(? AS bigint)`,
			[]any{n, thread, KeepFeed.Microseconds()}
	}
	query, args = query+` RETURNING first, next, CASE WHEN wanted > `+d.now()+` - CAST(? AS bigint) THEN 1 ELSE 0 END AS followed`, append(args, KeepFeed.Microseconds())
	columns := `run, nth, version, ending, method, channel, namespace, data, told`
	if d.pg != nil {
		query = `WITH f AS (` + query + `), stored AS (INSERT INTO @superstep_feed_events (thread, feed, seq, at, ` + columns + `)
			SELECT CAST(? AS text), f.first, f.next - CAST(? AS bigint) + e.place - 1, ` + d.now() + `, ` + columns + `
			FROM f, unnest(CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]), CAST(? AS text[]))
			WITH ORDINALITY AS e(` + columns + `, place)) SELECT first, next, followed FROM f`
		args = append(append(args, thread, n), inColumns(events)...)
	}
	var first, next int64
	if err := tx.QueryRowContext(ctx, d.bind(query), args...).Scan(&first, &next, &followed); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return false, false, err
	}
	for i := range events {
		events[i].Seq, events[i].Feed = next-n+int64(i), first
	}
	if d.pg != nil {
		return true, followed, nil
	}
	const most = 100 // rows of a statement
	for some := range slices.Chunk(events, most) {
		args = nil
		for _, e := range some {
			args = append(args, thread, e.Feed, e.Seq, e.Run, e.Nth, e.Version, e.ending(), e.Method, e.Channel, e.namespace(), string(e.Data), e.Told)
		}
		values := strings.TrimSuffix(strings.Repeat(`(?, ?, ?, `+d.now()+`, ?, ?, ?, ?, ?, ?, ?, ?, ?), `, len(some)), ", ")
		if _, err := d.exec(ctx, tx, `INSERT INTO @superstep_feed_events (thread, feed, seq, at, `+columns+`) VALUES `+values, args...); err != nil {
			return false, false, err
		}
	}
	return true, followed, nil
}

// inColumns returns events as arrays of what their columns have.
func inColumns(events []FeedEvent) []any {
	var run, method, channel, namespace, data, told []string
	var version, ending []int
	var nth []int64
	for _, e := range events {
		nth = append(nth, e.Nth)
		run, version, ending, method, channel = append(run, e.Run), append(version, e.Version), append(ending, e.ending()), append(method, e.Method), append(channel, e.Channel)
		namespace, data, told = append(namespace, e.namespace()), append(data, string(e.Data)), append(told, e.Told)
	}
	return []any{run, nth, version, ending, method, channel, namespace, data, told}
}

func (e *FeedEvent) ending() int {
	if e.Ending {
		return 1
	}
	return 0
}

func (e *FeedEvent) namespace() string {
	data, _ := json.Marshal(append([]string{}, e.Namespace...)) // of texts
	return string(data)
}

// FollowFeed notes that somebody follows a feed, and returns it.
func (d *DB) FollowFeed(ctx context.Context, thread string) (f Feed, err error) {
	f.Thread = thread
	err = d.tx(ctx, func(tx execer) error {
		return tx.QueryRowContext(ctx, d.bind(`INSERT INTO @superstep_feeds (thread, first, next, changed, wanted) SELECT CAST(? AS text), t, t, t, t FROM (SELECT `+d.now()+` AS t) AS time WHERE true
			ON CONFLICT (thread) DO UPDATE SET wanted = excluded.wanted RETURNING first, next`), thread).Scan(&f.First, &f.Next)
	})
	return f, err
}

// JoinFeed is FollowFeed for who needn't be noted at once: where somebody appends to the feed
// just now, it is left to [DB.FollowFeeds].
func (d *DB) JoinFeed(ctx context.Context, thread string) (Feed, error) {
	f, err := d.FeedState(ctx, thread)
	switch {
	case err != nil:
		return f, err
	case f.First == 0: // it hasn't begun
		return d.FollowFeed(ctx, thread)
	}
	return f, d.FollowFeeds(ctx, []string{thread})
}

// named calls f with names of threads, some at a time, as a list for IN and its
// parameters. Lists have few lengths, so that there are few statements.
func named(threads []string, f func(list string, args []any) error) error {
	for len(threads) > 0 {
		size := 1
		for size < len(threads) && size < 512 {
			size *= 8
		}
		some := threads[:min(size, len(threads))]
		threads = threads[len(some):]
		args := make([]any, size)
		for i := range args {
			args[i] = some[min(i, len(some)-1)]
		}
		if err := f(strings.TrimSuffix(strings.Repeat(`?, `, size), ", "), args); err != nil {
			return err
		}
	}
	return nil
}

// FollowFeeds notes that feeds of threads that have begun are followed. It doesn't wait for
// those that are being appended to on PostgreSQL: whoever calls it does so again.
func (d *DB) FollowFeeds(ctx context.Context, threads []string) error {
	return named(threads, func(list string, args []any) error {
		free := list
		if d.pg != nil {
			free = `SELECT thread FROM @superstep_feeds WHERE thread IN (` + list + `) FOR UPDATE SKIP LOCKED`
		}
		_, err := d.exec(ctx, d.sql, `UPDATE @superstep_feeds SET wanted = `+d.now()+` WHERE thread IN (`+free+`)`, args...)
		return err
	})
}

// FeedsOf returns the feeds of threads as they are now.
func (d *DB) FeedsOf(ctx context.Context, threads []string) (out []Feed, err error) {
	err = named(threads, func(names string, args []any) error {
		some, err := list(ctx, d, d.reads, scanFeed, `SELECT thread, first, next FROM @superstep_feeds WHERE thread IN (`+names+`)`, args...)
		out = append(out, some...)
		return err
	})
	return out, err
}

// ChangedFeeds returns the feeds that changed within a time.
func (d *DB) ChangedFeeds(ctx context.Context, within time.Duration) ([]Feed, error) {
	return list(ctx, d, d.reads, scanFeed, `SELECT thread, first, next FROM @superstep_feeds WHERE changed >= `+d.now()+` - ?`, within.Microseconds())
}

func scanFeed(r *sql.Rows, f *Feed) error { return r.Scan(&f.Thread, &f.First, &f.Next) }

// FeedState returns the feed of a thread; zero numbers if it hasn't begun.
func (d *DB) FeedState(ctx context.Context, thread string) (Feed, error) {
	found, err := d.FeedsOf(ctx, []string{thread})
	if err != nil || len(found) == 0 {
		return Feed{Thread: thread}, err
	}
	return found[0], nil
}

// Followed reports whether somebody follows a feed, or did not long ago.
func (d *DB) Followed(ctx context.Context, thread string) (bool, error) {
	n, err := value[int](ctx, d, d.reads, `SELECT count(*) FROM @superstep_feeds WHERE thread = ? AND wanted > `+d.now()+` - ?`, thread, KeepFeed.Microseconds())
	return n > 0, err
}

// NewestFeed returns the number from which on a feed's stored events have at most
// so many bytes; 0 if that is all.
func (d *DB) NewestFeed(ctx context.Context, f Feed, bytes int) (int64, error) {
	return value[int64](ctx, d, d.reads, `SELECT coalesce(max(seq), 0) FROM (
		SELECT seq, sum(length(data)) OVER (ORDER BY seq DESC) AS size FROM @superstep_feed_events WHERE thread = ? AND feed = ?) AS sizes WHERE size > CAST(? AS bigint)`, f.Thread, f.First, bytes)
}

// FeedEvents returns stored events of a feed, which may be over, from a number on.
func (d *DB) FeedEvents(ctx context.Context, f Feed, from int64, limit int) ([]FeedEvent, error) {
	return list(ctx, d, d.reads, func(r *sql.Rows, e *FeedEvent) error {
		var namespace string
		if err := r.Scan(&e.Seq, &e.Run, &e.Nth, &e.Version, &e.Ending, &e.Method, &e.Channel, &namespace, &e.Data); err != nil {
			return err
		}
		e.Feed = f.First
		return json.Unmarshal([]byte(namespace), &e.Namespace)
	}, `SELECT seq, run, nth, version, ending, method, channel, namespace, data FROM @superstep_feed_events
		WHERE thread = ? AND feed = ? AND seq >= ? ORDER BY seq LIMIT ?`, f.Thread, f.First, from, limit)
}

// NewestTold returns the number of the newest event of a version in a feed; 0 if there is
// none.
func (d *DB) NewestTold(ctx context.Context, thread string, version int) (int64, error) {
	return value[int64](ctx, d, d.reads, `SELECT seq FROM @superstep_feed_events WHERE thread = ? AND version = ?
		AND feed = (SELECT first FROM @superstep_feeds f WHERE f.thread = ?) ORDER BY seq DESC LIMIT 1`, thread, version, thread)
}

// LastTold returns the newest checkpoint of which all of a run's events are told; empty
// if there is none.
func (d *DB) LastTold(ctx context.Context, thread, run string) (string, error) {
	return value[string](ctx, d, d.reads, `SELECT told FROM @superstep_feed_events WHERE thread = ? AND run = ? AND told <> '' ORDER BY seq DESC LIMIT 1`, thread, run)
}

// EndFeed ends the feed of a thread that is gone: what is told from now on is of
// another thread of that ID, and of another feed.
func (d *DB) EndFeed(ctx context.Context, thread string) error {
	return d.tx(ctx, func(tx execer) error {
		if err := d.endFeed(ctx, tx, thread, ""); err != nil {
			return err
		}
		_, err := d.exec(ctx, tx, `DELETE FROM @superstep_feed_events WHERE thread = ?`, thread)
		return err
	})
}

func (d *DB) endFeed(ctx context.Context, tx execer, thread, where string) error {
	// One number isn't given to any event, so that feeds differ in where they begin.
	_, err := d.exec(ctx, tx, `UPDATE @superstep_feeds SET first = next + 1, next = next + 1, changed = `+d.now()+` WHERE thread = ?`+where, thread)
	return err
}

// SweepFeeds removes events that are older than a time and whose run has ended, those
// of the protocol's second version that are very old, and feeds that nobody needs any
// more.
func (d *DB) SweepFeeds(ctx context.Context, age, most time.Duration) error {
	if _, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_feed_events WHERE at < `+d.now()+` - ? AND (version = 2 AND at < `+d.now()+` - ? OR NOT EXISTS (
		SELECT 1 FROM @superstep_runs r WHERE r.id = superstep_feed_events.run AND r.status IN ('pending', 'running')))`, age.Microseconds(), most.Microseconds()); err != nil {
		return err
	}
	_, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_feeds WHERE changed < `+d.now()+` - ? AND wanted < `+d.now()+` - ? AND NOT EXISTS (
		SELECT 1 FROM @superstep_runs r WHERE r.thread = superstep_feeds.thread AND r.status IN ('pending', 'running'))`, age.Microseconds(), most.Microseconds())
	return err
}
