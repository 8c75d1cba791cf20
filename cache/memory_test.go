package cache_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/cache/cachetest"
)

func TestMemory(t *testing.T) {
	cachetest.Run(t, func(*testing.T) cache.Store { return &cache.Memory{} })
}

func TestMemoryForgetsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cache.Memory{}
		if err := c.Set(t.Context(), "k", nil, time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			if _, ok, err := c.Get(t.Context(), "k"); ok != want || err != nil {
				t.Errorf("%v, %v, want %v", ok, err, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A cache in memory is bounded, and drops what was not used for the longest time.
func TestMemoryIsBounded(t *testing.T) {
	ctx := t.Context()
	kept := func(c *cache.Memory, keys ...string) (got []string) {
		for _, k := range keys {
			if _, ok, _ := c.Get(ctx, k); ok {
				got = append(got, k)
			}
		}
		return got
	}
	c := &cache.Memory{MaxEntries: 2}
	for _, k := range []string{"a", "b"} {
		_ = c.Set(ctx, k, []byte(k), 0)
	}
	kept(c, "a")
	_ = c.Set(ctx, "c", nil, 0)
	_ = c.Set(ctx, "c", []byte("again"), 0)
	if got := kept(c, "a", "b", "c"); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("by entries: %v", got)
	}

	c = &cache.Memory{MaxBytes: 10_000}
	for _, k := range []string{"a", "b", "c"} {
		_ = c.Set(ctx, k, make([]byte, 4000), 0)
	}
	_ = c.Set(ctx, "large", make([]byte, 10_000), 0)
	if got := kept(c, "a", "b", "c", "large"); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("by bytes: %v", got)
	}
	if err := c.Clear(ctx, ""); err != nil {
		t.Error(err)
	}
	if got := kept(c, "b", "c"); !slices.Equal(got, []string(nil)) {
		t.Errorf("cleared: %v", got)
	}

	c = &cache.Memory{}
	for i := range 2 * cache.DefaultBytes / (1 << 20) {
		_ = c.Set(ctx, fmt.Sprint(i), make([]byte, 1<<20), 0)
	}
	if got := kept(c, "0", "127"); !slices.Equal(got, []string{"127"}) {
		t.Errorf("by default: %v", got)
	}
}
