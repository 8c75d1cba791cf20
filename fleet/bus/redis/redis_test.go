package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/bustest"
	"github.com/superstep-dev/superstep/fleet/bus/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(servertest.Quiet{})
	servertest.Main(m, servertest.IgnoreRedisDial())
}

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("bus-test*?:%d-%d:", os.Getpid(), prefixes.Add(1)) }

func open(t testing.TB, url, prefix string) *redis.Bus {
	t.Helper()
	b, err := redis.Open(t.Context(), url, redis.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBus(t *testing.T) {
	url, prefix := servertest.Redis(t), newPrefix()
	bustest.Run(t, func(t *testing.T) bus.Bus { return open(t, url, prefix) })
}

func TestBusesWithOtherPrefixesAreNotConnected(t *testing.T) {
	url := servertest.Redis(t)
	a, b := open(t, url, newPrefix()), open(t, url, newPrefix())
	s, err := b.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := a.Publish(t.Context(), "t", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(t.Context()); len(got) > 0 || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestAStreamIsBounded(t *testing.T) {
	url, prefix := servertest.Redis(t), newPrefix()
	b := open(t, url, prefix)
	s, err := b.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 1500 {
		if err := b.Publish(t.Context(), "t", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Read(t.Context())
	if err != nil || len(got) < 1000 || len(got) > 1200 || string(got[len(got)-1]) != "1499" {
		t.Errorf("%d are left, %v", len(got), err)
	}
	c := goredis.NewClient(&goredis.Options{Addr: strings.TrimSuffix(strings.TrimPrefix(url, "redis://"), "/0")})
	defer c.Close()
	for _, key := range []string{"newest:t", "batches:t"} {
		if left, err := c.TTL(t.Context(), prefix+key).Result(); err != nil || left <= 0 || left > time.Minute {
			t.Errorf("%s goes in %v, %v", key, left, err)
		}
	}
}

func TestASubscriptionOutlivesARestartOfTheServer(t *testing.T) {
	server := servertest.OwnRedis(t, "--appendonly", "no", "--save", "")
	bustest.Outlives(t, open(t, server.URL(), ""), open(t, server.URL(), ""), server.Kill, server.Start)
}

func TestWhatCanNotBeUsedIsRefused(t *testing.T) {
	if _, err := redis.Open(t.Context(), "redis://127.0.0.1:1/0"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
	if _, err := redis.Open(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "redis://user:password@host") {
		t.Error(err)
	}
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	if _, err := redis.New(t.Context(), ring); err == nil || !strings.Contains(err.Error(), "use a client of one server") {
		t.Error(err)
	}
}

func TestAClosedBusSaysSo(t *testing.T) {
	b := open(t, servertest.Redis(t), newPrefix())
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Subscribe(t.Context(), "t")
	for _, err := range []error{err, b.Publish(t.Context(), "t", nil)} {
		if !errors.Is(err, bus.ErrClosed) {
			t.Error(err)
		}
	}
}

func BenchmarkBus(b *testing.B) {
	url := servertest.Redis(b)
	bustest.Bench(b, func(b *testing.B) bus.Bus { return open(b, url, "bench:") })
}

func ExampleOpen() {
	ctx := context.Background()
	b, err := redis.Open(ctx, "redis://user:password@localhost:6379/0")
	if err != nil {
		log.Print(err)
		return
	}
	defer b.Close()
	// fleet.Options{Bus: b} of the workers, fleet.Client{Bus: b} of who streams their runs
}
