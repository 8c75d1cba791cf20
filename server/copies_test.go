package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// Several clients may open the feed of a thread at its very beginning: what one of them has
// read of it in the database is old when another has already found that it has begun.
func TestAFeedIsNotOverForWhoLookedBeforeItBegan(t *testing.T) {
	d, err := db.OpenSQLite(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var copies sync.WaitGroup
	defer copies.Wait()
	all := newFeeds(Limits{Log: maxFeed, Logs: -1})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	all.ctx, all.db, all.shared, all.log, all.copies = ctx, d, true, slog.New(slog.DiscardHandler), &copies

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
	copies.Go(func() { all.copy(ctx, one, before) })
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
