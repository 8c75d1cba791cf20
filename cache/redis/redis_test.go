package redis_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/cache/cachetest"
	"github.com/superstep-dev/superstep/cache/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(servertest.Quiet{})
	servertest.Main(m, servertest.IgnoreRedisDial())
}

var prefixes atomic.Int64

// open returns a store with a prefix of its own, which a pattern would take for
// another, and whose keys go with the test.
func open(t *testing.T) *redis.Store {
	t.Helper()
	o := redis.Options{Prefix: fmt.Sprintf("cache-test*?:%d-%d:", os.Getpid(), prefixes.Add(1))}
	s, err := redis.Open(t.Context(), servertest.Redis(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Clear(context.Background(), ""); err == nil {
			_ = s.Close()
		}
	})
	return s
}

func TestStore(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store { return open(t) })
}

func TestStoresWithOtherPrefixesKeepWhatTheyHave(t *testing.T) {
	a, b := open(t), open(t)
	for _, s := range []*redis.Store{a, b} {
		if err := s.Set(t.Context(), "k", []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Clear(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.Get(t.Context(), "k"); !ok || err != nil {
		t.Error(ok, err)
	}
}

func TestAClientOfTheCallerStaysOpen(t *testing.T) {
	o, err := goredis.ParseURL(servertest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	defer c.Close()
	s, err := redis.New(t.Context(), c)
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = c.Ping(t.Context()).Err()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:hidden@127.0.0.1:1/0?max_retries=-1": "127.0.0.1:1",
		"http://u:hidden@host":                          "write it like",
		"redis://u:hidden@host:x y":                     "write it like",
		"":                                              "write it like",
	} {
		if _, err := redis.Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	if _, err := redis.New(t.Context(), cluster); err == nil || !strings.Contains(err.Error(), "one server") {
		t.Error(err)
	}
	if _, err := redis.Open(t.Context(), servertest.Redis(t), redis.Options{}, redis.Options{}); err == nil {
		t.Error("two Options were taken")
	}
}
