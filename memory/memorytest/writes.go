package memorytest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/memory"
)

func testConditions(t *testing.T, open Opener, _ Options) {
	s := open(t, memory.Config{})
	ctx, user := t.Context(), ns("users", "ann")
	const never = 1 << 40

	_, err := s.Put(ctx, user, "k", object(`{"n":0}`), memory.PutOptions{IfVersion: never})
	wantConflict(t, err, never, 0)
	missing(t, s, user, "k")
	wantConflict(t, s.Delete(ctx, user, "k", memory.DeleteOptions{IfVersion: never}), never, 0)

	a := put(t, s, user, "k", object(`{"n":1}`), memory.PutOptions{IfAbsent: true})
	_, err = s.Put(ctx, user, "k", object(`{"n":2}`), memory.PutOptions{IfAbsent: true})
	wantConflict(t, err, 0, a.Version)
	sameItem(t, get(t, s, user, "k"), a)

	b := put(t, s, user, "k", object(`{"n":3}`), memory.PutOptions{IfVersion: a.Version})
	_, err = s.Put(ctx, user, "k", object(`{"n":4}`), memory.PutOptions{IfVersion: a.Version})
	wantConflict(t, err, a.Version, b.Version)
	wantConflict(t, s.Delete(ctx, user, "k", memory.DeleteOptions{IfVersion: a.Version}), a.Version, b.Version)
	sameItem(t, get(t, s, user, "k"), b)

	if err := s.Delete(ctx, user, "k", memory.DeleteOptions{IfVersion: b.Version}); err != nil {
		t.Fatal(err)
	}
	missing(t, s, user, "k")
	put(t, s, user, "k", object(`{"n":5}`)) // in its place
	_, err = s.Put(ctx, user, "k", object(`{"n":6}`), memory.PutOptions{IfVersion: b.Version})
	if !errors.Is(err, memory.ErrConflict) {
		t.Fatalf("a version came again: %v", err)
	}
}

func testRaces(t *testing.T, open Opener, o Options) {
	const writers, rounds = 8, 12
	stores := func(t *testing.T) [2]memory.Store {
		s := open(t, memory.Config{})
		if o.Another == nil {
			return [2]memory.Store{s, s}
		}
		return [2]memory.Store{s, closeLater(t, o.Another(t, s, memory.Config{}))}
	}
	type counter struct {
		N int `json:"n"`
	}

	t.Run("of those who change an item at once none loses a change", func(t *testing.T) {
		s := stores(t)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for range rounds {
					_, err := memory.Update(t.Context(), s[w%2], ns("a"), "k", func(c *counter) error {
						c.N++
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		got, err := memory.Get[counter](t.Context(), s[0], ns("a"), "k")
		if err != nil || got.Value.N != writers*rounds {
			t.Fatalf("counted to %+v, error %v", got, err)
		}
	})

	t.Run("one alone puts what isn't there, and one alone deletes it", func(t *testing.T) {
		s := stores(t)
		for round := range rounds {
			key := fmt.Sprint(round)
			var won, deleted atomic.Int64
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					item, err := s[w%2].Put(t.Context(), ns("a"), key, object(`{"n":%d}`, w), memory.PutOptions{IfAbsent: true})
					switch {
					case err == nil:
						won.Store(item.Version)
						deleted.Add(1)
					case !errors.Is(err, memory.ErrConflict):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := deleted.Swap(0); n != 1 {
				t.Fatalf("%d have put the item", n)
			}
			for w := range writers {
				wg.Go(func() {
					err := s[w%2].Delete(t.Context(), ns("a"), key, memory.DeleteOptions{IfVersion: won.Load()})
					switch {
					case err == nil:
						deleted.Add(1)
					case !errors.Is(err, memory.ErrConflict):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := deleted.Load(); n != 1 {
				t.Fatalf("%d have deleted the item", n)
			}
		}
	})

	t.Run("everything at once", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now, RefreshOnRead: true, Index: &memory.Index{Embedder: memory.HashEmbedder(16)}})
		var wg sync.WaitGroup
		check := func(err error) {
			if err != nil && !errors.Is(err, memory.ErrNotFound) {
				t.Error(err)
			}
		}
		for w := range writers {
			wg.Go(func() {
				for i := range rounds {
					namespace, key := ns("a", fmt.Sprint(i%3)), fmt.Sprint((i+w)%4)
					item, err := s.Put(t.Context(), namespace, key, object(`{"text":"word %d of %d"}`, i, w), memory.PutOptions{TTL: time.Duration(1+i%3) * time.Second})
					check(err)
					if item.UpdatedAt.Before(item.CreatedAt) {
						t.Errorf("updated before it was created: %+v", item)
					}
					_, err = s.Get(t.Context(), namespace, key)
					check(err)
					_, err = s.Search(t.Context(), ns("a"), memory.Query{Text: "word 1"})
					check(err)
					_, err = s.Search(t.Context(), ns("a"), memory.Query{})
					check(err)
					_, err = s.Namespaces(t.Context(), memory.NamespaceQuery{})
					check(err)
					check(s.Delete(t.Context(), namespace, fmt.Sprint(i%4)))
					c.advance(100 * time.Millisecond)
					_, err = s.Sweep(t.Context())
					check(err)
				}
			})
		}
		wg.Wait()
	})
}

func testTTL(t *testing.T, open Opener, o Options) {
	const second = time.Second
	t.Run("a clock that goes back makes no item older than itself", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now})
		a := put(t, s, ns("a"), "k", object(`{"n":1}`))
		c.advance(-time.Minute)
		b := put(t, s, ns("a"), "k", object(`{"n":2}`), memory.PutOptions{TTL: time.Hour})
		if !b.CreatedAt.Equal(a.CreatedAt) || !b.UpdatedAt.Equal(a.CreatedAt) || !b.ExpiresAt.Equal(c.stamp().Add(time.Hour)) {
			t.Fatalf("%+v after %+v", b, a)
		}
		sameItem(t, get(t, s, ns("a"), "k"), b)
	})

	t.Run("a reader that was held up takes no time from an item", func(t *testing.T) {
		if o.Another == nil {
			t.Skip("all readers share one clock")
		}
		c := newClock()
		s := open(t, memory.Config{Now: c.Now})
		var meanwhile func()
		slow := closeLater(t, o.Another(t, s, memory.Config{Now: func() time.Time {
			now := c.Now()
			if f := meanwhile; f != nil {
				meanwhile = nil
				f()
			}
			return now
		}}))
		put(t, s, ns("a"), "k", object(`{}`), memory.PutOptions{TTL: 10 * second})
		var until time.Time
		meanwhile = func() {
			c.advance(5 * second)
			until = get(t, s, ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshAlways}).ExpiresAt
		}
		if item := get(t, slow, ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshAlways}); !item.ExpiresAt.Equal(until) {
			t.Errorf("expires at %v, somebody else was told %v", item.ExpiresAt, until)
		}
		if item := get(t, s, ns("a"), "k"); !item.ExpiresAt.Equal(until) {
			t.Errorf("expires at %v then, want %v", item.ExpiresAt, until)
		}
	})

	t.Run("an item that expired is as if it were deleted", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now, Index: &memory.Index{Embedder: coordinates, Fields: ns("at")}})
		a := put(t, s, ns("a"), "k", object(`{"at":"1 0"}`), memory.PutOptions{TTL: 10 * second})
		put(t, s, ns("b"), "stays", object(`{"at":"1 0"}`))
		if want := c.stamp().Add(10 * second); !a.ExpiresAt.Equal(want) {
			t.Fatalf("expires at %v, want %v", a.ExpiresAt, want)
		}
		c.advance(10*second - time.Microsecond)
		sameItem(t, get(t, s, ns("a"), "k"), a)
		c.advance(time.Microsecond)
		missing(t, s, ns("a"), "k")
		if _, err := s.Get(t.Context(), ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshAlways}); !errors.Is(err, memory.ErrNotFound) {
			t.Fatal(err)
		}
		wantKeys(t, search(t, s, nil, memory.Query{}), "stays")
		wantKeys(t, search(t, s, nil, memory.Query{Text: "1 0", Refresh: memory.RefreshAlways}), "stays")
		if list, err := s.Namespaces(t.Context(), memory.NamespaceQuery{}); err != nil || fmt.Sprint(list) != "[[b]]" {
			t.Fatal(list, err)
		}
		_, err := s.Put(t.Context(), ns("a"), "k", object(`{}`), memory.PutOptions{IfVersion: a.Version})
		wantConflict(t, err, a.Version, 0)
		wantConflict(t, s.Delete(t.Context(), ns("a"), "k", memory.DeleteOptions{IfVersion: a.Version}), a.Version, 0)
		b := put(t, s, ns("a"), "k", object(`{}`), memory.PutOptions{IfAbsent: true})
		if !b.CreatedAt.Equal(c.stamp()) || !b.ExpiresAt.IsZero() || b.Version == a.Version {
			t.Fatalf("%+v", b)
		}
	})

	t.Run("sweeping removes what has expired, once", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now, TTL: 5 * second})
		put(t, s, ns("a"), "1", object(`{}`))
		put(t, s, ns("a"), "2", object(`{}`), memory.PutOptions{TTL: 20 * second})
		put(t, s, ns("a"), "3", object(`{}`), memory.PutOptions{TTL: memory.Forever})
		put(t, s, ns("b"), "4", object(`{}`))
		for i, want := range []int{0, 2, 0, 1, 0, 0} {
			n, err := s.Sweep(t.Context())
			if err != nil || n != want {
				t.Fatalf("sweep %d: removed %d, error %v, want %d", i, n, err, want)
			}
			if i%2 == 0 {
				c.advance(time.Duration(5+5*i) * second)
			}
		}
		wantKeys(t, search(t, s, nil, memory.Query{}), "3")
	})

	t.Run("a put sets the time anew", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now, TTL: 10 * second})
		put(t, s, ns("a"), "default", object(`{}`), memory.PutOptions{TTL: second})
		put(t, s, ns("a"), "forever", object(`{}`))
		c.advance(500 * time.Millisecond)
		put(t, s, ns("a"), "default", object(`{}`))
		put(t, s, ns("a"), "forever", object(`{}`), memory.PutOptions{TTL: memory.Forever})
		c.advance(9 * second)
		wantKeys(t, search(t, s, nil, memory.Query{}), "forever default")
		c.advance(second)
		wantKeys(t, search(t, s, nil, memory.Query{}), "forever")
		c.advance(1e6 * second)
		wantKeys(t, search(t, s, nil, memory.Query{}), "forever")
	})

	t.Run("a TTL of next to nothing and one of centuries", func(t *testing.T) {
		c := newClock()
		s := open(t, memory.Config{Now: c.Now})
		if a := put(t, s, ns("a"), "short", object(`{}`), memory.PutOptions{TTL: 1}); !a.ExpiresAt.Equal(c.stamp().Add(time.Microsecond)) {
			t.Fatalf("%+v", a)
		}
		b := put(t, s, ns("a"), "long", object(`{}`), memory.PutOptions{TTL: 1<<63 - 1})
		c.advance(time.Millisecond)
		missing(t, s, ns("a"), "short")
		sameItem(t, get(t, s, ns("a"), "long"), b)
		if got := b.ExpiresAt.Sub(b.CreatedAt); got != (1<<63 - 1 - 807) {
			t.Fatal(got)
		}
	})

	for _, onRead := range []bool{false, true} {
		for name, read := range map[string]func(t *testing.T, s memory.Store, r memory.Refresh) memory.Item{
			"get": func(t *testing.T, s memory.Store, r memory.Refresh) memory.Item {
				return get(t, s, ns("a"), "k", memory.GetOptions{Refresh: r})
			},
			"search": func(t *testing.T, s memory.Store, r memory.Refresh) memory.Item {
				items := search(t, s, ns("a"), memory.Query{Refresh: r, Limit: 1})
				wantKeys(t, items, "k")
				return items[0]
			},
			"search by text": func(t *testing.T, s memory.Store, r memory.Refresh) memory.Item {
				items := search(t, s, ns("a"), memory.Query{Refresh: r, Text: "1 0", Limit: 1})
				wantKeys(t, items, "k")
				items[0].Score = 0
				return items[0]
			},
		} {
			t.Run(fmt.Sprintf("a %s starts the time anew if it should, by default %v", name, onRead), func(t *testing.T) {
				c := newClock()
				s := open(t, memory.Config{Now: c.Now, RefreshOnRead: onRead, Index: &memory.Index{Embedder: coordinates, Fields: ns("at")}})
				put(t, s, ns("a"), "unread", object(`{"at":"0 1"}`), memory.PutOptions{TTL: 10 * second})
				item := put(t, s, ns("a"), "k", object(`{"at":"1 0"}`), memory.PutOptions{TTL: 10 * second})
				for i, r := range []memory.Refresh{memory.RefreshNever, memory.RefreshDefault, memory.RefreshAlways, memory.RefreshNever} {
					c.advance(3 * second)
					if r == memory.RefreshAlways || r == memory.RefreshDefault && onRead {
						item.ExpiresAt = c.stamp().Add(10 * second)
					}
					if got := read(t, s, r); !got.ExpiresAt.Equal(item.ExpiresAt) {
						t.Fatalf("read %d: expires at %v, want %v", i, got.ExpiresAt, item.ExpiresAt)
					}
				}
				missing(t, s, ns("a"), "unread")
				sameItem(t, get(t, s, ns("a"), "k", memory.GetOptions{Refresh: memory.RefreshNever}), item)
				if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			})
		}
	}
}
