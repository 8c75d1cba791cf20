// Package cachetest is the suite that every store of results passes.
package cachetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/cache"
)

// Run checks that what open returns, each time an empty store with room for some
// hundred kilobytes, is a [cache.Store].
func Run(t *testing.T, open func(t *testing.T) cache.Store) {
	t.Run("what was set is got", func(t *testing.T) {
		s := open(t)
		for _, key := range []string{"", "g/n//k", "g/n/1/\x00\xff*?[a]\\", "ä", string(bytes.Repeat([]byte("long"), 5000))} {
			has(t, s, key, "")
			for _, data := range []string{"one", "another", "\x00\xff"} {
				set(t, s, key, data, 0)
				has(t, s, key, data)
			}
		}
		set(t, s, "empty", "", 0)
		if data, ok, err := s.Get(t.Context(), "empty"); !ok || err != nil || len(data) > 0 {
			t.Errorf("empty data: %q, %v, %v", data, ok, err)
		}
	})
	t.Run("data may be changed once it was set", func(t *testing.T) {
		s := open(t)
		data := []byte("before")
		if err := s.Set(t.Context(), "k", data, 0); err != nil {
			t.Fatal(err)
		}
		copy(data, "after!")
		has(t, s, "k", "before")
	})
	t.Run("what has a time is gone after it, the rest is not", func(t *testing.T) {
		s := open(t)
		set(t, s, "short", "x", 20*time.Millisecond)
		set(t, s, "tiny", "x", time.Nanosecond)
		set(t, s, "long", "x", time.Hour)
		set(t, s, "for ever", "x", 0)
		set(t, s, "renewed", "x", 20*time.Millisecond)
		set(t, s, "renewed", "y", time.Hour)
		gone(t, s, "short")
		gone(t, s, "tiny")
		has(t, s, "long", "x")
		has(t, s, "for ever", "x")
		has(t, s, "renewed", "y")
		set(t, s, "short", "y", 0)
		has(t, s, "short", "y")
	})
	t.Run("a prefix is cleared and nothing else", func(t *testing.T) {
		s := open(t)
		keys := []string{"g/a/1/x", "g/a/2/x", "g/a/", "g/ab/1/x", "g/b/1/x", "G/a/1/x", "h/a/1/x", "g/a", "g/*/x", "g/\xff\xff", "g/\xff\xffx", "h/\xff"}
		for prefix, cleared := range map[string][]string{
			"g/a/":     {"g/a/1/x", "g/a/2/x", "g/a/"},
			"g/*/":     {"g/*/x"},
			"g/\xff":   {"g/\xff\xff", "g/\xff\xffx"},
			"g/?":      nil,
			"g/[ab]":   nil,
			"g/a/1/x":  {"g/a/1/x"},
			"nothing":  nil,
			"":         keys,
			"g/a/1/x/": nil,
		} {
			for _, key := range keys {
				set(t, s, key, key, 0)
			}
			if err := s.Clear(t.Context(), prefix); err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				want := key
				for _, c := range cleared {
					if c == key {
						want = ""
					}
				}
				if has(t, s, key, want); t.Failed() {
					t.Fatalf("after clearing %q", prefix)
				}
			}
		}
	})
	t.Run("many entries are cleared", func(t *testing.T) {
		s := open(t)
		for i := range 2500 {
			set(t, s, fmt.Sprintf("g/%d/%d", i%2, i), "x", time.Hour)
		}
		if err := s.Clear(t.Context(), "g/0/"); err != nil {
			t.Fatal(err)
		}
		for i := range 2500 {
			want := ""
			if i%2 == 1 {
				want = "x"
			}
			has(t, s, fmt.Sprintf("g/%d/%d", i%2, i), want)
		}
	})
	t.Run("many use it at once", func(t *testing.T) {
		s := open(t)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 20 {
					key := fmt.Sprintf("%d/%d", w, i)
					set(t, s, "all", "same", 0)
					set(t, s, key, key, 0)
					has(t, s, key, key)
					has(t, s, "all", "same")
				}
				if err := s.Clear(t.Context(), fmt.Sprintf("%d/", w)); err != nil {
					t.Error(err)
				}
				has(t, s, fmt.Sprintf("%d/0", w), "")
			})
		}
		wg.Wait()
	})
	t.Run("a context that has ended is an error, if the store waits for anything", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok, err := s.Get(ctx, "k"); ok || err != nil && err != context.Canceled {
			t.Errorf("get: %v, %v", ok, err)
		}
		for what, err := range map[string]error{"set": s.Set(ctx, "k", nil, 0), "clear": s.Clear(ctx, "")} {
			if err != nil && err != context.Canceled {
				t.Errorf("%s: %v", what, err)
			}
		}
		set(t, s, "k", "x", 0)
		has(t, s, "k", "x")
	})
	t.Run("a store that can be closed says so afterwards", func(t *testing.T) {
		s := open(t)
		c, ok := s.(interface{ Close() error })
		if !ok {
			return
		}
		set(t, s, "k", "x", 0)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		_, _, get := s.Get(t.Context(), "k")
		for what, err := range map[string]error{"get": get, "set": s.Set(t.Context(), "k", nil, 0), "clear": s.Clear(t.Context(), ""), "close": c.Close()} {
			if err != cache.ErrClosed {
				t.Errorf("%s of a closed store: %v", what, err)
			}
		}
	})
}

func set(t *testing.T, s cache.Store, key, data string, ttl time.Duration) {
	t.Helper()
	if err := s.Set(t.Context(), key, []byte(data), ttl); err != nil {
		t.Errorf("set %q: %v", key, err)
	}
}

// has checks what a key has, "" meaning nothing.
func has(t *testing.T, s cache.Store, key, want string) {
	t.Helper()
	data, ok, err := s.Get(t.Context(), key)
	if err != nil || ok != (want != "") || string(data) != want {
		t.Errorf("%q has %q, %v, %v, want %q", key, data, ok, err, want)
	}
}

// gone waits until a key has nothing.
func gone(t *testing.T, s cache.Store, key string) {
	t.Helper()
	for {
		if _, ok, err := s.Get(t.Context(), key); !ok || err != nil || t.Context().Err() != nil {
			if err != nil {
				t.Error(err)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}
