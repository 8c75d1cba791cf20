package server

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// Where several instances share a database, what is told of threads stands there:
// the instance that has a run appends, each under a number that the database gives,
// and every instance copies the feeds that are read from it.
//
// Whoever appends says so to the others, once that is stored, and they read it then. What
// was lost on the way is found by one question for all feeds of an instance, which is asked
// now and then, and often where a pooler doesn't let such notes through. Who joins a run says
// so as well: the instance that has it stores at once then what it tells.

const (
	feedPoll  = 50 * time.Millisecond // how often others' events are looked for if they don't say
	feedCheck = 10 * time.Second      // how often it is noted that feeds are followed
	feedBack  = 2 * time.Second       // how far is looked back; no transaction that appends takes longer, or else the check finds it
	feedPage  = 500                   // events read at once
	fewFeeds  = 512                   // of which is asked by name
	oldEvents = time.Hour             // after which events of the second version go even while their run works
)

// copy copies what is told of a thread, of which is known what it was in the database just
// now, until the context ends.
func (f *feeds) copy(ctx context.Context, one *feed, state db.Feed) {
	for wait, known := time.Duration(0), true; ; known = false {
		if wait > 0 && !pause(ctx, wait) {
			return
		}
		// Where the feed ends comes first: the events before that are there by then, as
		// far as they are still kept.
		var err error
		first := int64(0) // that is known to be the feed's as the database had it
		if !known {
			first = one.own().First
			state, err = f.db.FeedState(ctx, one.thread)
		}
		// What was read before the feed began says nothing of whether it is over.
		is := one.against(state)
		if err == nil && is > 0 && one.own().First != first {
			continue
		}
		ended := err == nil && is != 0
		if ended {
			state = one.own()
		}
		if err == nil && !one.begins() && state.First > 0 {
			var from int64
			if from, err = f.beginning(ctx, state); err == nil {
				one.begin(from)
			}
		}
		for more := one.begins(); err == nil && more && (ended || one.next() < state.Next); {
			var some []db.FeedEvent
			some, err = f.db.FeedEvents(ctx, state, one.next(), feedPage)
			one.take(some)
			more = len(some) == feedPage
		}
		if err == nil && ended {
			f.mu.Lock()
			f.remove(one)
			f.mu.Unlock()
			return
		}
		if err == nil {
			one.through(state)
		}
		if ctx.Err() != nil {
			return
		}
		if wait = 0; err != nil {
			f.log.LogAttrs(ctx, slog.LevelWarn, "server: what is told of a thread could not be read", slog.String("thread", one.thread), slog.Any("error", err))
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
	if f.limits.Log <= 0 || state.First == state.Next {
		return state.First, nil
	}
	over, err := f.db.NewestFeed(ctx, state, f.limits.Log)
	if err != nil {
		return -1, err
	}
	return max(state.First, over+1), nil
}

// own returns the feed as it was in the database when it ended.
func (f *feed) own() db.Feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return db.Feed{Thread: f.thread, First: f.first}
}

// begins reports whether it is known from which number on events are copied.
func (f *feed) begins() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at > 0
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

// heard appends events that this process has stored, if it has all before them: it needs
// not read them again.
func (f *feed) heard(some []db.FeedEvent) {
	f.order.Lock()
	defer f.order.Unlock()
	first := db.Feed{First: some[0].Feed}
	if some[0].Seq == first.First && f.against(first) == 0 { // they are the first of all
		f.begin(first.First)
	}
	if f.next() == some[0].Seq {
		f.take(some)
		return
	}
	f.poke()
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
func (f *feed) poke() { signal(f.kick) }

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

// Notes between instances, before the ID of a thread.
const (
	noteNews = "news " // there is something to copy
	noteJoin = "join " // somebody has come who reads what is told of it
)

// noteLook, which names no thread, says that an instance has come or gone, or that a run is to
// be stopped.
const noteLook = "look"

// lookAll has this instance and all others look who lives, and what they are asked.
func (s *base) lookAll() {
	signal(s.look)
	s.feeds.others.Tell(noteLook)
}

// tellOthers has the copies of a feed brought up to date, here and elsewhere.
func (f *feeds) tellOthers(thread string) {
	f.news(thread)
	f.others.Tell(noteNews + thread)
}

// stored is tellOthers of events that this process has stored: its own copy needn't read them
// again.
func (f *feeds) stored(thread string, some []db.FeedEvent) {
	f.moment(thread).Add(1)
	f.peek(thread, func(one *feed) { one.heard(some) })
	f.others.Tell(noteNews + thread)
}

// hear is told what another instance says.
func (f *feeds) hear(note string) {
	if thread, ok := strings.CutPrefix(note, noteNews); ok {
		f.news(thread)
	}
	if thread, ok := strings.CutPrefix(note, noteJoin); ok {
		f.mu.Lock()
		l := f.storing[thread]
		f.mu.Unlock()
		if l != nil {
			l.awaited.Store(true)
			l.events.urge()
		}
	}
}

// watch looks for what is new in the feeds that this process has copies of, and is told of
// it, until the context ends.
func (f *feeds) watch(ctx context.Context) {
	f.others.Run(ctx)
	f.others.Close()
}

// check looks for what is new in the feeds that this process has copies of.
func (f *feeds) check(ctx context.Context) error {
	now := time.Now()
	all, followed := f.copied()
	if len(all) == 0 {
		f.looked = now
		return nil
	}
	var news []db.Feed
	var err error
	if now.Sub(f.checked) >= feedCheck {
		f.checked = now
		if err = f.db.FollowFeeds(ctx, followed); err == nil {
			news, err = f.db.FeedsOf(ctx, all)
		}
	} else if len(all) <= fewFeeds {
		news, err = f.db.FeedsOf(ctx, all)
	} else {
		news, err = f.db.ChangedFeeds(ctx, now.Sub(f.looked)+feedBack)
	}
	if err != nil {
		if ctx.Err() == nil {
			f.log.LogAttrs(ctx, slog.LevelWarn, "server: what is told of threads could not be looked for", slog.Any("error", err))
		}
		return err
	}
	f.looked = now
	for _, state := range news {
		f.peek(state.Thread, func(one *feed) { one.hear(state) })
	}
	return nil
}

// peek calls a function with a feed that this process has. It doesn't count as use.
func (f *feeds) peek(thread string, look func(*feed)) {
	f.mu.Lock()
	one := f.byThread[thread]
	f.mu.Unlock()
	if one != nil {
		look(one)
	}
}

// news has a copy of a feed brought up to date, if there is one here.
func (f *feeds) news(thread string) {
	f.moment(thread).Add(1)
	f.peek(thread, (*feed).poke)
}

// moment counts news of a thread, and of some others: by it is seen that there was some while
// the feed was read that is entered then.
func (f *feeds) moment(thread string) *atomic.Uint64 {
	return &f.moments[maphash.String(f.seed, thread)%uint64(len(f.moments))]
}

// copied returns the threads whose feeds this process has copies of, and those of them
// that are followed.
func (f *feeds) copied() (all, followed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for thread, one := range f.byThread {
		all = append(all, thread)
		if one.followers > 0 {
			followed = append(followed, thread)
		}
	}
	return all, followed
}
