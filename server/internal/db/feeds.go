package db

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// FeedEvent is an event of what is told of a thread: a feed. A thread has one of
// each kind. Numbers grow over all of a thread's runs, whichever instance they are
// of, and events become visible in their order.
type FeedEvent struct {
	Seq       int64 // set by the database
	Method    string
	Channel   string
	Namespace []string
	Ending    bool
	Data      []byte
	Told      string // up to where all is told with this event; only written, see [DB.LastFeedTold]
}

// Feed is what is known of a feed. If its thread is removed it ends, and another one
// begins with a greater First.
type Feed struct {
	Thread, Kind string
	First, Next  int64 // the number of its first event, and of the next one
}

// AddFeed appends events that a run's holder sends, all or none. If another
// instance holds the run by now it returns ErrTaken. An empty run is for events
// that are not of one. Unless always is set nothing is appended if nobody follows.
func (d *DB) AddFeed(ctx context.Context, thread, kind, run, holder string, always bool, events []FeedEvent) error {
	return d.tx(ctx, func(tx execer) error {
		if run != "" {
			lock := ""
			if d.pg != nil {
				lock = " FOR SHARE" // nobody takes the run over meanwhile
			}
			if err := d.held(ctx, tx, run, holder, new(Run), lock); err != nil {
				return err
			}
		}
		return d.addFeed(ctx, tx, thread, kind, always, events)
	})
}

// KeepFeed is how long events are told after somebody followed a feed last.
const KeepFeed = 2 * time.Minute

// addFeed is AddFeed in a transaction. Whoever appends holds the feed's row until
// the end: so events become visible in the order of their numbers.
func (d *DB) addFeed(ctx context.Context, tx execer, thread, kind string, always bool, events []FeedEvent) error {
	if len(events) == 0 {
		return nil
	}
	n := int64(len(events))
	// Numbers begin at the time, in microseconds: so they grow even if the row went
	// meanwhile, and clients drop those that they have seen.
	query, args := `INSERT INTO @superstep_feeds (thread, kind, first, next, changed, wanted) VALUES (?, ?, `+d.now()+`, `+d.now()+` + ?, `+d.now()+`, 0)
		ON CONFLICT (thread, kind) DO UPDATE SET next = superstep_feeds.next + ?, changed = excluded.changed RETURNING next`, []any{thread, kind, n, n}
	if !always {
		query, args = `UPDATE @superstep_feeds SET next = next + ?, changed = `+d.now()+` WHERE thread = ? AND kind = ? AND wanted > `+d.now()+` - ? RETURNING next`,
			[]any{n, thread, kind, KeepFeed.Microseconds()}
	}
	rows, err := tx.QueryContext(ctx, d.bind(query), args...)
	if err != nil {
		return err
	}
	var next int64
	found := rows.Next()
	if found {
		err = rows.Scan(&next)
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
	}
	if err != nil || !found {
		return err
	}
	const most = 100 // rows of a statement
	for seq := next - n; len(events) > 0; {
		some := events[:min(most, len(events))]
		events = events[len(some):]
		var args []any
		for _, e := range some {
			namespace, err := json.Marshal(append([]string{}, e.Namespace...))
			if err != nil {
				return err
			}
			ending := 0
			if e.Ending {
				ending = 1
			}
			args = append(args, thread, kind, seq, ending, e.Method, e.Channel, string(namespace), string(e.Data), e.Told)
			seq++
		}
		values := strings.TrimSuffix(strings.Repeat(`(?, ?, ?, `+d.now()+`, ?, ?, ?, ?, ?, ?), `, len(some)), ", ")
		if _, err := d.exec(ctx, tx, `INSERT INTO @superstep_feed_events (thread, kind, seq, at, ending, method, channel, namespace, data, told) VALUES `+values, args...); err != nil {
			return err
		}
	}
	return nil
}

// FollowFeed notes that somebody follows a feed, and returns it.
func (d *DB) FollowFeed(ctx context.Context, thread, kind string) (f Feed, err error) {
	f.Thread, f.Kind = thread, kind
	err = d.tx(ctx, func(tx execer) error {
		return tx.QueryRowContext(ctx, d.bind(`INSERT INTO @superstep_feeds (thread, kind, first, next, changed, wanted) VALUES (?, ?, `+d.now()+`, `+d.now()+`, `+d.now()+`, `+d.now()+`)
			ON CONFLICT (thread, kind) DO UPDATE SET wanted = excluded.wanted RETURNING first, next`), thread, kind).Scan(&f.First, &f.Next)
	})
	return f, err
}

// named calls f with names of feeds, some at a time, as a list for IN and its
// parameters. Lists have few lengths, so that there are few statements.
func named(feeds []Feed, f func(list string, args []any) error) error {
	for len(feeds) > 0 {
		size := 1
		for size < len(feeds) && size < 512 {
			size *= 8
		}
		some := feeds[:min(size, len(feeds))]
		feeds = feeds[len(some):]
		args := make([]any, 0, 2*size)
		for i := range size {
			one := some[min(i, len(some)-1)]
			args = append(args, one.Thread, one.Kind)
		}
		if err := f(strings.TrimSuffix(strings.Repeat(`(?, ?), `, size), ", "), args); err != nil {
			return err
		}
	}
	return nil
}

// FollowFeeds notes that feeds are still followed.
func (d *DB) FollowFeeds(ctx context.Context, feeds []Feed) error {
	return named(feeds, func(list string, args []any) error {
		_, err := d.exec(ctx, d.sql, `UPDATE @superstep_feeds SET wanted = `+d.now()+` WHERE (thread, kind) IN (`+list+`)`, args...)
		return err
	})
}

// FeedsNamed returns feeds as they are now.
func (d *DB) FeedsNamed(ctx context.Context, feeds []Feed) (out []Feed, err error) {
	err = named(feeds, func(list string, args []any) error {
		return d.feeds(ctx, d.reads, &out, `SELECT thread, kind, first, next FROM @superstep_feeds WHERE (thread, kind) IN (`+list+`)`, args...)
	})
	return out, err
}

// ChangedFeeds returns the feeds of a kind that changed within a time.
func (d *DB) ChangedFeeds(ctx context.Context, kind string, within time.Duration) (out []Feed, err error) {
	err = d.feeds(ctx, d.reads, &out, `SELECT thread, kind, first, next FROM @superstep_feeds WHERE changed >= `+d.now()+` - ? AND kind = ?`, within.Microseconds(), kind)
	return out, err
}

func (d *DB) feeds(ctx context.Context, e execer, out *[]Feed, query string, args ...any) error {
	rows, err := e.QueryContext(ctx, d.bind(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var f Feed
		if err := rows.Scan(&f.Thread, &f.Kind, &f.First, &f.Next); err != nil {
			return err
		}
		*out = append(*out, f)
	}
	return rows.Err()
}

// FeedState returns a feed; zero numbers if there is none.
func (d *DB) FeedState(ctx context.Context, thread, kind string) (Feed, error) {
	var found []Feed
	err := d.feeds(ctx, d.reads, &found, `SELECT thread, kind, first, next FROM @superstep_feeds WHERE thread = ? AND kind = ?`, thread, kind)
	if err != nil || len(found) == 0 {
		return Feed{Thread: thread, Kind: kind}, err
	}
	return found[0], nil
}

// Followed reports whether somebody follows a feed, or did not long ago.
func (d *DB) Followed(ctx context.Context, thread, kind string) (bool, error) {
	var n int
	err := d.reads.QueryRowContext(ctx, d.bind(`SELECT count(*) FROM @superstep_feeds WHERE thread = ? AND kind = ? AND wanted > `+d.now()+` - ?`), thread, kind, KeepFeed.Microseconds()).Scan(&n)
	return n > 0, err
}

// NewestFeed returns the number from which on a feed's stored events have at most
// so many bytes; 0 if that is all.
func (d *DB) NewestFeed(ctx context.Context, thread, kind string, bytes int) (seq int64, err error) {
	err = d.reads.QueryRowContext(ctx, d.bind(`SELECT coalesce(max(seq), 0) FROM (
		SELECT seq, sum(length(data)) OVER (ORDER BY seq DESC) AS size FROM @superstep_feed_events WHERE thread = ? AND kind = ?) AS sizes WHERE size > CAST(? AS bigint)`), thread, kind, bytes).Scan(&seq)
	return seq, err
}

// FeedEvents returns stored events of a feed from a number on; none if the feed is
// over.
func (d *DB) FeedEvents(ctx context.Context, f Feed, from int64, limit int) ([]FeedEvent, error) {
	rows, err := d.reads.QueryContext(ctx, d.bind(`SELECT seq, ending, method, channel, namespace, data FROM @superstep_feed_events WHERE thread = ? AND kind = ? AND seq >= ?
		AND ? = (SELECT first FROM @superstep_feeds f WHERE f.thread = ? AND f.kind = ?) ORDER BY seq LIMIT ?`), f.Thread, f.Kind, from, f.First, f.Thread, f.Kind, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []FeedEvent
	for rows.Next() {
		var e FeedEvent
		var ending int
		var namespace string
		if err := rows.Scan(&e.Seq, &ending, &e.Method, &e.Channel, &namespace, &e.Data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(namespace), &e.Namespace); err != nil {
			return nil, err
		}
		e.Ending = ending != 0
		out = append(out, e)
	}
	return out, rows.Err()
}

// LastFeedTold returns up to where a feed's events tell all; empty if that isn't
// known.
func (d *DB) LastFeedTold(ctx context.Context, thread, kind string) (string, error) {
	return d.lastTold(ctx, `SELECT told FROM @superstep_feed_events WHERE thread = ? AND kind = ? AND told <> '' ORDER BY seq DESC LIMIT 1`, thread, kind)
}

// endFeeds ends the feeds of a thread that is gone: what is told from now on is of
// another thread of that ID, and of other feeds.
func (d *DB) endFeeds(ctx context.Context, tx execer, thread string) error {
	// The rows first, which those who append lock first. One number isn't given to any
	// event, so that feeds differ in where they begin.
	if _, err := d.exec(ctx, tx, `UPDATE @superstep_feeds SET first = next + 1, next = next + 1, changed = `+d.now()+` WHERE thread = ?`, thread); err != nil {
		return err
	}
	_, err := d.exec(ctx, tx, `DELETE FROM @superstep_feed_events WHERE thread = ?`, thread)
	return err
}

// SweepFeeds removes events that are older than a time and whose thread has no run
// that works, or that are very old, and feeds that nobody needs any more.
func (d *DB) SweepFeeds(ctx context.Context, age, most time.Duration) error {
	if _, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_feed_events WHERE at < `+d.now()+` - ? AND (at < `+d.now()+` - ? OR NOT EXISTS (
		SELECT 1 FROM @superstep_runs r WHERE r.thread = superstep_feed_events.thread AND r.status IN ('pending', 'running')))`, age.Microseconds(), most.Microseconds()); err != nil {
		return err
	}
	_, err := d.exec(ctx, d.sql, `DELETE FROM @superstep_feeds WHERE changed < `+d.now()+` - ? AND wanted < `+d.now()+` - ?`, 2*most.Microseconds(), most.Microseconds())
	return err
}
