package redis_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(servertest.Quiet{}) // servers go away on purpose here
	servertest.Main(m, servertest.IgnoreRedisDial())
}

var prefixes atomic.Int64

// newPrefix returns a prefix that nobody uses. Its keys go with the test.
func newPrefix(t testing.TB) string {
	t.Helper()
	prefix := fmt.Sprintf("superstep-test:%d-%d-%d:", os.Getpid(), time.Now().UnixNano(), prefixes.Add(1))
	c := client(t, servertest.Redis(t))
	t.Cleanup(func() {
		for _, k := range keys(t, c, prefix) {
			c.Unlink(context.Background(), k)
		}
	})
	return prefix
}

// client returns a bare client, closed at the end of the test.
func client(t testing.TB, url string) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// keys returns all keys with a prefix.
func keys(t testing.TB, c *goredis.Client, prefix string) []string {
	t.Helper()
	var out []string
	it := c.Scan(context.Background(), 0, prefix+"*", 1000).Iterator()
	for it.Next(context.Background()) {
		out = append(out, it.Val())
	}
	if err := it.Err(); err != nil {
		t.Error(err)
	}
	return out
}

// used remembers which prefixes the suite's stores have.
var used sync.Map

func openAt(t testing.TB, prefix string, opts ...redis.Options) *redis.Store {
	t.Helper()
	var o redis.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	o.Prefix = prefix
	s, err := redis.Open(t.Context(), servertest.Redis(t), o)
	if err != nil {
		t.Fatal(err)
	}
	used.Store(checkpoint.Store(s), prefix)
	return s
}

func prefixOf(t testing.TB, s checkpoint.Store) string {
	t.Helper()
	p, ok := used.Load(s)
	if !ok {
		t.Fatal("unknown store")
	}
	return p.(string)
}

func TestStore(t *testing.T) {
	suite(t, redis.Options{})
}

func TestStoreWithTTL(t *testing.T) { // SONI-33
	suite(t, redis.Options{TTL: time.Hour})
}

func TestModel(t *testing.T) {
	checkpointtest.Model(t, func(t *testing.T) checkpoint.Store { return openAt(t, newPrefix(t)) }, suiteOptions(redis.Options{}))
}

func suite(t *testing.T, o redis.Options) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return openAt(t, newPrefix(t), o) }, suiteOptions(o))
}

func suiteOptions(o redis.Options) checkpointtest.Options {
	return checkpointtest.Options{
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, prefixOf(t, s), o)
		},
		// A process that is killed leaves what the server was sent. For servers
		// that are killed see kill_test.go.
		Crash:   func(t *testing.T, s checkpoint.Store) checkpoint.Store { return openAt(t, prefixOf(t, s), o) },
		Another: func(t *testing.T, s checkpoint.Store) checkpoint.Store { return openAt(t, prefixOf(t, s), o) },
		Size:    size,
	}
}

// size is the memory that all keys of a store take.
func size(t *testing.T, s checkpoint.Store) int64 {
	t.Helper()
	c := client(t, servertest.Redis(t))
	var n int64
	for _, k := range keys(t, c, prefixOf(t, s)) {
		b, err := c.MemoryUsage(t.Context(), k, 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		n += b
	}
	return n
}

func TestStoreOnAnExistingClient(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("the suite once more: run without -race and -short")
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		c := client(t, servertest.Redis(t))
		s, err := redis.New(t.Context(), c, redis.Options{Prefix: newPrefix(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Ping(context.Background()).Err(); err != nil {
				t.Errorf("the client was closed with the store: %v", err)
			}
		})
		return s
	})
}

func TestPrefixesAreApart(t *testing.T) {
	a, b := openAt(t, newPrefix(t)), openAt(t, newPrefix(t))
	defer a.Close()
	defer b.Close()
	log := checkpoint.Log{Thread: "t"}
	logtest.Begin(t, a, log, 3)
	if n := logtest.Count(t, b, log); n != 0 {
		t.Fatalf("%d records under another prefix", n)
	}
	for info, err := range b.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		t.Fatalf("got %v, %v under another prefix", info, err)
	}
	p := prefixOf(t, a)
	for _, k := range keys(t, client(t, servertest.Redis(t)), p) {
		if !strings.HasPrefix(k, p) {
			t.Fatalf("key %q", k)
		}
	}
}

func TestDeletedThreadsLeaveNoKeys(t *testing.T) {
	p := newPrefix(t)
	s := openAt(t, p)
	defer s.Close()
	for _, ns := range []string{"", "n", "a:b"} {
		log := checkpoint.Log{Thread: "t{}%", Namespace: ns}
		head := logtest.Begin(t, s, log, 3)
		r := checkpoint.Result{Epoch: head, Kind: checkpoint.KindOnce, Data: []byte(`1`)}
		logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "me", Lease: time.Hour, Results: []checkpoint.Result{r}, Wake: true})
	}
	if err := s.Copy(t.Context(), "t{}%", "u"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []checkpoint.ThreadID{"t{}%", "u"} {
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if left := keys(t, client(t, servertest.Redis(t)), p); len(left) != 1 || left[0] != p+"version" {
		t.Fatalf("keys left: %q", left)
	}
}
