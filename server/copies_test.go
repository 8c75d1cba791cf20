package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// copyingFeeds are those of an instance that shares its database.
func copyingFeeds(t *testing.T) *feeds {
	t.Helper()
	d, err := db.OpenSQLite(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	copies := new(sync.WaitGroup)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		copies.Wait()
		d.Close()
	})
	all := newFeeds(Limits{Log: maxFeed, Logs: -1})
	all.ctx, all.db, all.shared, all.log, all.copies = ctx, d, true, slog.New(slog.DiscardHandler), copies
	return all
}

// Several clients may open the feed of a thread at its very beginning: what one of them has
// read of it in the database is old when another has already found that it has begun.
func TestAFeedIsNotOverForWhoLookedBeforeItBegan(t *testing.T) {
	all := copyingFeeds(t)
	d := all.db

	before, err := d.FeedState(t.Context(), "t")
	if err != nil || before.First != 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	one := &feed{of: all, thread: "t", changed: make(chan struct{}), kick: make(chan struct{}, 1), stop: func() {}}
	one.users++
	all.byThread["t"] = one
	now, err := d.FollowFeed(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	other, err := all.entered(now) // before the copying has begun
	if err != nil || other != one {
		t.Fatalf("%v, %v", other, err)
	}
	all.copies.Go(func() { all.copy(all.ctx, one, before) })
	next := now.First
	for _, data := range []string{"1", "2"} {
		event := []db.FeedEvent{{Method: "custom", Channel: "custom", Data: []byte(data)}}
		if _, err := d.AddFeed(t.Context(), "t", "", "", true, event); err != nil {
			t.Fatal(err)
		}
		one.poke()
		ev, err := one.read(t.Context(), next, 0, "")
		if err != nil || string(ev.Data) != data {
			t.Fatalf("event %s: %v, %v", data, ev, err)
		}
		next = ev.Seq + 1
	}

	// But it is when its thread is removed.
	if err := d.EndFeed(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	one.poke()
	if _, err := one.read(t.Context(), next, 0, ""); !errors.Is(err, errRemoved) {
		t.Errorf("after the thread was removed: %v", err)
	}
}

// What a run tells that nobody reads is stored once a second: whoever joins it at another
// instance doesn't wait for that.
func TestWhatARunTellsIsStoredWhenSomebodyJoinsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeeds(Limits{})
		stored := make(chan struct{}, 10)
		l := &line{base: &base{feeds: f}, run: &db.Run{ThreadID: "t"}}
		l.events = newBatcher(t.Context(), 0, func(context.Context, []db.FeedEvent) error {
			stored <- struct{}{}
			return nil
		}, l.read, nil)
		leave := f.stores("t", l)
		begin := time.Now()
		l.put(db.FeedEvent{})
		synctest.Wait()
		f.hear(noteJoin + "another")
		f.hear(noteJoin + "t")
		<-stored
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("what was told before is stored after %v", waited)
		}
		for range 3 {
			l.put(db.FeedEvent{})
			<-stored
		}
		if waited := time.Since(begin); waited > 3*gather {
			t.Errorf("what is told after is stored after %v", waited)
		}
		if err := l.events.close(); err != nil {
			t.Error(err)
		}
		leave()
		f.hear(noteJoin + "t") // which it isn't stored for any more
	})
}

// What happens between reading a feed in the database and copying it is copied.
func TestNewsOfAFeedThatIsBeingOpenedIsCopied(t *testing.T) {
	all := copyingFeeds(t)
	one, err := all.reachAsOf(t.Context(), "t", func(ctx context.Context, thread string) (db.Feed, error) {
		state, err := all.db.FollowFeed(ctx, thread)
		if err == nil {
			_, err = all.db.AddFeed(ctx, thread, "", "", true, []db.FeedEvent{{Method: "custom", Channel: "custom", Data: []byte("1")}})
			all.hear(noteNews + thread)
		}
		return state, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := one.read(t.Context(), one.first, 0, ""); err != nil || string(ev.Data) != "1" {
		t.Errorf("%v, %v", ev, err)
	}
}
