package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// Where several instances share a database, what is told of threads stands there:
// the instance that has a run appends, each under a number that the database gives,
// and every instance copies the feeds that are read from it.
//
// One question for all feeds of an instance, asked again and again, finds what is
// new. PostgreSQL's notifications would do that without asking; but each of them
// makes all commits of the database wait for one another, and they don't come
// through poolers that share connections between transactions.

const (
	feedPoll  = 50 * time.Millisecond // how often others' events are looked for
	feedCheck = 10 * time.Second      // how often it is noted that feeds are followed
	feedBack  = 2 * time.Second       // how far is looked back; no transaction that appends takes longer, or else the check finds it
	feedPage  = 500                   // events read at once
	fewFeeds  = 512                   // of which is asked by name
	oldEvents = time.Hour             // after which events go even while their run works
)

// copy copies what is told of a thread, until the context ends.
func (f *feeds) copy(ctx context.Context, thread string, one *feed) {
	next := int64(-1)
	for wait := time.Duration(0); ; {
		if wait > 0 && !pause(ctx, wait) {
			return
		}
		// Where the feed ends comes first: the events before that are there by then, as
		// far as they are still kept.
		state, err := f.db.FeedState(ctx, thread, f.kind)
		if err == nil && state.First != one.first {
			f.mu.Lock()
			f.remove(thread, one)
			f.mu.Unlock()
			return
		}
		if err == nil && next < 0 {
			next, err = f.beginning(ctx, state)
			one.begin(next)
		}
		for err == nil {
			var some []db.FeedEvent
			if some, err = f.db.FeedEvents(ctx, state, next, feedPage); err != nil || len(some) == 0 {
				break
			}
			one.append(some)
			next = some[len(some)-1].Seq + 1
		}
		if err == nil {
			one.through(state)
		}
		if ctx.Err() != nil {
			return
		}
		if wait = 0; err != nil {
			f.log.LogAttrs(ctx, slog.LevelWarn, "server: what is told of a thread could not be read", slog.String("thread", thread), slog.Any("error", err))
			wait = time.Second
			continue
		}
		select {
		case <-one.kick:
		case <-ctx.Done():
			return
		}
	}
}

// beginning returns the number from which on to copy: of more than a feed keeps,
// the newest.
func (f *feeds) beginning(ctx context.Context, state db.Feed) (int64, error) {
	over, err := f.db.NewestFeed(ctx, state.Thread, f.kind, maxFeed)
	if err != nil {
		return -1, err
	}
	return max(state.First, over+1), nil
}

// begin notes from which number on events are copied.
func (f *feed) begin(from int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = max(f.lost, from-1)
	f.at = max(f.at, from)
}

// through notes that all is copied that a feed had in the database.
func (f *feed) through(state db.Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = max(f.at, state.Next)
	f.wake()
}

// append adds events that have numbers.
func (f *feed) append(some []db.FeedEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range some {
		if e.Seq >= f.at {
			f.add(e.Seq, told{e.Method, e.Channel, e.Namespace, e.Ending, e.Data, ""})
		}
	}
	f.wake()
}

// hear takes note of what a feed is in the database.
func (f *feed) hear(state db.Feed) {
	f.mu.Lock()
	behind := f.at < state.Next || f.first != state.First
	f.mu.Unlock()
	if behind {
		f.poke()
	}
}

// poke has a feed copied on.
func (f *feed) poke() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// reach waits until all is copied that a feed had in the database.
func (f *feed) reach(ctx context.Context, state db.Feed) error {
	for {
		f.mu.Lock()
		behind, changed, over := f.at < state.Next, f.changed, f.over
		f.mu.Unlock()
		switch {
		case errors.Is(over, errOver):
			return errClosing
		case over != nil:
			return nil // who reads it finds out
		case !behind:
			return nil
		}
		f.poke()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch looks for what is new in the feeds that this process has copies of.
func (f *feeds) watch(ctx context.Context) {
	tick := time.NewTicker(feedPoll)
	defer tick.Stop()
	var checked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, used := f.copied()
		if len(all) == 0 {
			continue
		}
		var news []db.Feed
		var err error
		if time.Since(checked) >= feedCheck {
			checked = time.Now()
			if err = f.db.FollowFeeds(ctx, used); err == nil {
				news, err = f.db.FeedsNamed(ctx, all)
			}
		} else if len(all) <= fewFeeds {
			news, err = f.db.FeedsNamed(ctx, all)
		} else {
			news, err = f.db.ChangedFeeds(ctx, f.kind, feedBack)
		}
		if err != nil {
			if ctx.Err() == nil {
				f.log.LogAttrs(ctx, slog.LevelWarn, "server: what is told of threads could not be looked for", slog.Any("error", err))
			}
			pause(ctx, time.Second)
			continue
		}
		for _, state := range news {
			if one := f.find(state.Thread); one != nil {
				one.hear(state)
				f.leaveQuietly(one)
			}
		}
	}
}

// leaveQuietly is leave for whoever isn't a reader.
func (f *feeds) leaveQuietly(one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.users--
}

// copied returns the feeds that this process has copies of, and those of them that
// are used.
func (f *feeds) copied() (all, used []db.Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for thread, one := range f.byThread {
		state := db.Feed{Thread: thread, Kind: f.kind}
		all = append(all, state)
		if one.users > 0 {
			used = append(used, state)
		}
	}
	return all, used
}

// news has a copy of a feed brought up to date, if there is one here.
func (f *feeds) news(thread string) {
	if one := f.find(thread); one != nil {
		one.poke()
		f.leaveQuietly(one)
	}
}

// followed reports whether somebody follows a feed, or did not long ago.
func (f *feeds) followed(ctx context.Context, thread string) (bool, error) {
	if f.db != nil {
		return f.db.Followed(ctx, thread, f.kind)
	}
	one := f.find(thread)
	f.leaveIf(one)
	return one != nil, nil
}

func (f *feeds) leaveIf(one *feed) {
	if one != nil {
		f.leaveQuietly(one)
	}
}

// tell appends events that are of no run, or of one that is over, if somebody
// follows the feed.
func (f *feeds) tell(ctx context.Context, thread string, events ...told) error {
	if f.db != nil {
		err := f.db.AddFeed(ctx, thread, f.kind, "", "", false, stored(events))
		f.news(thread)
		return err
	}
	if one := f.find(thread); one != nil {
		defer f.leave(one)
		for _, ev := range events {
			one.send(ev)
		}
	}
	return nil
}

func stored(events []told) []db.FeedEvent {
	out := make([]db.FeedEvent, len(events))
	for i, e := range events {
		out[i] = db.FeedEvent{Method: e.method, Channel: e.channel, Namespace: e.namespace, Ending: e.ending, Data: e.data, Told: e.upTo}
	}
	return out
}

// line is where a run tells those who follow its thread. It is used by one
// goroutine.
type line interface {
	tell(told)

	// flush waits until what was told is there for all.
	flush() error

	// leave ends it.
	leave()
}

// line returns where a run tells of itself: always, or only if somebody follows.
// It is nil if nobody is to be told. Start says that the run is to be told of from
// its beginning on.
func (f *feeds) line(ctx context.Context, b *base, run *db.Run, always, start bool) (line, error) {
	if f.db != nil {
		if !always {
			if followed, err := f.followed(ctx, run.ThreadID); err != nil || !followed {
				return nil, err
			}
		}
		return newStoredLine(ctx, f, b, run, start), nil
	}
	one := f.find(run.ThreadID)
	if one == nil && always {
		one, _ = f.enter(db.Feed{Thread: run.ThreadID}) // a server that is closing has no readers
	}
	if one == nil {
		return nil, nil
	}
	return &localLine{f, one}, nil
}

// localLine tells the readers of this process.
type localLine struct {
	feeds *feeds
	feed  *feed
}

func (l *localLine) tell(ev told) { l.feed.send(ev) }
func (l *localLine) flush() error { return nil }
func (l *localLine) leave()       { l.feeds.leave(l.feed) }

// storedLine stores what is told.
type storedLine struct {
	feeds  *feeds
	run    *db.Run
	events *batcher[told]

	mu   sync.Mutex
	step step[told]
	of   string // what is told of with the next event
}

func newStoredLine(ctx context.Context, f *feeds, b *base, run *db.Run, start bool) *storedLine {
	store := func(ctx context.Context, some []told) error {
		err := f.db.AddFeed(ctx, run.ThreadID, f.kind, run.ID, b.instance, true, stored(some))
		if err == nil {
			f.news(run.ThreadID)
		}
		return err
	}
	gaveUp := func(ctx context.Context, err error) {
		if errors.Is(err, db.ErrTaken) || errors.Is(err, db.ErrNotFound) {
			return // another instance tells of it now, or it was removed
		}
		b.log.LogAttrs(ctx, slog.LevelWarn, "server: what a run tells could not be stored", slog.String("run", run.ID), slog.Any("error", err))
	}
	l := &storedLine{feeds: f, run: run, events: newBatcher(ctx, maxTold, store, gaveUp)}
	if start {
		l.of = l.mark(begunAt(run))
	}
	return l
}

// maxTold is how many events may wait to be stored until the run waits for them.
const maxTold = 10_000

func (l *storedLine) tell(ev told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.step.take(ev) {
		l.add(ev)
	}
}

// add is called with the lock held.
func (l *storedLine) add(events ...told) {
	if l.of != "" {
		events[0].upTo, l.of = l.of, ""
	}
	l.events.put(events...)
}

// mark is the text that notes up to which checkpoint the line's run was told of.
func (l *storedLine) mark(checkpoint string) string { return l.run.ID + "|" + checkpoint }

func (l *storedLine) beginStep(checkpoint string) {
	l.endStep()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step.begin(checkpoint)
}

func (l *storedLine) endStep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, of := l.step.end(); len(held) > 0 {
		held[len(held)-1].upTo = l.mark(of)
		l.add(held...)
	}
}

func (l *storedLine) tellFrom(but map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step.but = but
}

func (l *storedLine) toldOf(ctx context.Context) (string, bool, error) {
	mark, err := l.feeds.db.LastFeedTold(ctx, l.run.ThreadID, l.feeds.kind)
	run, at, ok := strings.Cut(mark, "|")
	if err != nil || ok && run == l.run.ID {
		return at, ok, err
	}
	// Who followed before the run began was told of nothing, if its process died before
	// anything was stored.
	feed, err := l.feeds.db.FeedState(ctx, l.run.ThreadID, l.feeds.kind)
	if err != nil || feed.First == 0 || l.run.StartedAt.Before(time.UnixMicro(feed.First)) {
		return "", false, err
	}
	return begunAt(l.run), true, nil
}

func (l *storedLine) flush() error { return l.events.flush() }

func (l *storedLine) leave() { _ = l.events.close() } // which has said what is wrong

// lateLine is a line that begins when somebody follows.
type lateLine struct {
	ctx   context.Context
	feeds *feeds
	base  *base
	run   *db.Run

	line   line
	looked time.Time
}

// late returns a line for those who follow, and who come later.
func (f *feeds) late(ctx context.Context, b *base, run *db.Run) *lateLine {
	return &lateLine{ctx: ctx, feeds: f, base: b, run: run}
}

func (l *lateLine) tell(ev told) {
	if l.line == nil && (l.feeds.db == nil || time.Since(l.looked) >= lookEvery) {
		start := l.looked.IsZero() && l.run.Attempt == 1
		l.looked = time.Now()
		var err error
		if l.line, err = l.feeds.line(l.ctx, l.base, l.run, false, start); err != nil {
			l.base.log.LogAttrs(l.ctx, slog.LevelWarn, "server: who follows a thread could not be read", slog.String("thread", l.run.ThreadID), slog.Any("error", err))
		}
	}
	if l.line != nil {
		l.line.tell(ev)
	}
}

func (l *lateLine) flush() error {
	if l.line == nil {
		return nil
	}
	return l.line.flush()
}

func (l *lateLine) leave() {
	if l.line != nil {
		l.line.leave()
	}
}

// stepsOf returns a line as what takes supersteps; none if what it tells isn't kept.
func stepsOf(l line) allSteps {
	if one, ok := l.(steps); ok {
		return allSteps{one}
	}
	return nil
}

// stored returns the line that was begun, nil if there is none.
func (l *lateLine) stored() *storedLine {
	one, _ := l.line.(*storedLine)
	return one
}

func (l *lateLine) beginStep(checkpoint string) {
	if one := l.stored(); one != nil {
		one.beginStep(checkpoint)
	}
}

func (l *lateLine) endStep() {
	if one := l.stored(); one != nil {
		one.endStep()
	}
}

func (l *lateLine) tellFrom(but map[string]bool) {
	if one := l.stored(); one != nil {
		one.tellFrom(but)
	}
}

func (l *lateLine) toldOf(ctx context.Context) (string, bool, error) {
	if one := l.stored(); one != nil {
		return one.toldOf(ctx)
	}
	return "", false, nil
}
