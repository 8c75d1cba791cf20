package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

const maxFeed = 16 << 20

// fill sends events of a size that includes what they cost beside their data.
func fill(f *feed, n, bytes int) {
	for range n {
		f.send(db.FeedEvent{Method: "custom", Channel: "custom", Data: make([]byte, bytes-eventCost)})
	}
}

func TestAFeedKeepsTheNewestEventsOnly(t *testing.T) {
	all := newFeeds(Limits{Log: maxFeed, Logs: -1})
	f, err := all.open(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	first := f.next()
	fill(f, 40, 1<<20)
	if f.bytes > maxFeed || len(f.events) != maxFeed>>20 {
		t.Errorf("%d events with %d bytes are kept, want at most %d", len(f.events), f.bytes, maxFeed)
	}
	if got := f.since(0); got != first+40-int64(maxFeed>>20) {
		t.Errorf("the first of 40 events is %d after the feed's first number", got-first)
	}
	fill(f, 1, maxFeed+1)
	if len(f.events) != 1 {
		t.Errorf("%d events are kept beside one that is larger than all may be", len(f.events))
	}
}

func TestAReaderWhoseNextEventIsGoneIsCutOff(t *testing.T) {
	all := newFeeds(Limits{Log: maxFeed, Logs: -1})
	f, err := all.open(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	at := f.next()
	fill(f, 3, eventCost)
	if ev, err := f.read(t.Context(), at, 0, ""); err != nil || ev.Seq != at {
		t.Errorf("read %v, %v", ev, err)
	}
	fill(f, 40, 1<<20)
	if _, err := f.read(t.Context(), at+1, 0, ""); !errors.Is(err, errSlow) {
		t.Errorf("read: %v, want %v", err, errSlow)
	}
}

func TestWhoJoinsARunThatIsOverReadsItsEndAtOnce(t *testing.T) {
	all := newFeeds(Limits{Log: maxFeed})
	f, err := all.open(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	f.send(db.FeedEvent{Run: "a", Version: 1, Method: "values"}, endOf("a", nil), db.FeedEvent{Run: "b", Version: 1, Method: "values"})
	over := &stream{base: &base{feeds: all}, run: &db.Run{ID: "a"}, feed: f, ctx: t.Context()}
	if _, err := over.read(t.Context(), over.next()); !errors.Is(err, io.EOF) {
		t.Errorf("of the run that is over is read: %v", err)
	}
	if works := (&stream{run: &db.Run{ID: "b"}, feed: f}); works.next() != f.next() {
		t.Errorf("the next event of the run that works is %d, not %d", works.next(), f.next())
	}
}

func TestReadersOfAFeedWaitUntilTheyLeaveOrTheServerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newFeeds(Limits{Log: maxFeed, Logs: -1})
		f, err := all.open(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left, over := make(chan error, 1), make(chan error, 1)
		go func() { _, err := f.read(ctx, f.next(), 0, ""); left <- err }()
		go func() { _, err := f.read(t.Context(), f.next(), 0, ""); over <- err }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		all.end(t.Context())
		if err := <-over; !errors.Is(err, errOver) {
			t.Errorf("who stayed got %v", err)
		}
		if _, err := all.open(t.Context(), "other"); err == nil {
			t.Error("a feed was opened after the end")
		}
	})
}

func TestFeedsGoWhenNobodyHasComeForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newFeeds(Limits{Log: maxFeed, Logs: -1})
		f, err := all.open(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		before := f.next()
		fill(f, 3, eventCost)
		time.Sleep(time.Hour)
		if all.sweep(time.Now()); all.find("t") == nil {
			t.Fatal("it went while it was used")
		}
		all.leave(f)
		all.leave(f)
		time.Sleep(keepFeed)
		if all.sweep(time.Now()); len(all.byThread) != 1 {
			t.Error("it went at once")
		}
		time.Sleep(time.Second)
		if all.sweep(time.Now()); len(all.byThread) != 0 {
			t.Error("it stayed")
		}
		if f, err = all.open(t.Context(), "t"); err != nil || f.next() <= before+3 {
			t.Errorf("the next feed begins at %d, which clients may have seen; %v", f.next(), err)
		}
	})
}

func TestFiltersTakeNamespacesByTheirBeginnings(t *testing.T) {
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		filter     v2Filter
		channel    string
		namespace  string
		matches    bool
		whatItsFor string
	}{
		{v2Filter{Channels: []string{"values"}}, "values", "", true, "its channel"},
		{v2Filter{Channels: []string{"values"}}, "updates", "", false, "another channel"},
		{v2Filter{Channels: []string{"custom"}}, "custom:a", "", true, "all names of custom events"},
		{v2Filter{Channels: []string{"custom:a"}}, "custom:a", "", true, "one name of custom events"},
		{v2Filter{Channels: []string{"custom:a"}}, "custom:b", "", false, "another name"},
		{v2Filter{Channels: []string{"custom:a"}}, "custom", "", false, "no name"},
		{v2Filter{Channels: []string{"values"}}, "values", "a:1|b:2", true, "any namespace"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{"a"}}}, "values", "a:1|b:2", true, "below a node"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{"a:1"}}}, "values", "a:1", true, "one task"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{"a:1"}}}, "values", "a:2", false, "another task"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{"a"}}}, "values", "", false, "above it"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{"b"}, {}}}, "values", "a:1", true, "one of several"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{}}, Depth: number(1)}, "values", "a:1", true, "not too deep"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{}}, Depth: number(1)}, "values", "a:1|b:2", false, "too deep"},
		{v2Filter{Channels: []string{"values"}, Namespaces: [][]string{{"a"}}, Depth: number(1)}, "values", "a:1|b:2", true, "deep below a prefix"},
		{v2Filter{Channels: []string{"values"}, Depth: number(0)}, "values", "a:1", false, "the root only"},
	} {
		ev := db.FeedEvent{Version: 2, Channel: c.channel, Namespace: strings.FieldsFunc(c.namespace, func(r rune) bool { return r == '|' })}
		if got := c.filter.matches(&ev); got != c.matches {
			t.Errorf("%s: %+v of %s at %q: %v", c.whatItsFor, c.filter, c.channel, c.namespace, got)
		}
	}
}

func TestATreeHasTheGraphsOfTheNewestRun(t *testing.T) {
	all := newFeeds(Limits{Log: maxFeed, Logs: -1})
	f, err := all.open(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	f.mark(nil, statusRunning, "old")
	f.mark([]string{"gone:1"}, statusRunning, "gone")
	f.mark(nil, statusRunning, "root")
	f.mark([]string{"a:1"}, statusRunning, "a")
	f.mark([]string{"a:1", "b:2"}, statusRunning, "b")
	f.mark([]string{"a:1", "b:2"}, statusFailed, "")
	for i := range 2 * maxTree {
		f.mark([]string{"more:" + strings.Repeat("x", i)}, statusRunning, "more")
	}
	root, _ := all.tree(t.Context(), "t")
	if root.Graph != "root" || root.Children[0].Graph != "a" || root.Children[0].Children[0].Status != statusFailed {
		t.Errorf("the tree is %+v", root)
	}
	if slices.ContainsFunc(root.Children, func(n *v2Node) bool { return n.Graph == "gone" }) {
		t.Error("a graph of an earlier run is in the tree")
	}
	if n := len(root.Children); n > maxTree {
		t.Errorf("the tree has %d children", n)
	}
	if unknown, _ := all.tree(t.Context(), "unknown"); unknown != nil {
		t.Error("an unknown thread has a tree")
	}
}

func TestTheFeedsThatWereLeftFirstGoFirst(t *testing.T) {
	all := newFeeds(Limits{Log: -1, Logs: 1000})
	for _, thread := range []string{"a", "b", "c", "d"} {
		one, err := all.open(t.Context(), thread)
		if err != nil {
			t.Fatal(err)
		}
		one.send(db.FeedEvent{Data: make([]byte, 400)})
		if thread != "b" {
			all.leave(one)
		}
	}
	all.sweep(time.Now())
	if len(all.byThread) != 2 || all.byThread["b"] == nil || all.byThread["d"] == nil {
		t.Errorf("%v are left", all.byThread)
	}
}
