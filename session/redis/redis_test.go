package redis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/session"
	"github.com/superstep-dev/superstep/session/redis"
	"github.com/superstep-dev/superstep/session/sessiontest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(servertest.Quiet{})
	servertest.Main(m, servertest.IgnoreRedisDial())
}

var prefixes atomic.Int64

// newPrefix returns a prefix whose keys go with the test.
func newPrefix(t testing.TB) string {
	t.Helper()
	prefix := fmt.Sprintf("sessions-test:%d-%d:", os.Getpid(), prefixes.Add(1))
	c := client(t)
	t.Cleanup(func() {
		for _, k := range keys(t, c, prefix) {
			c.Unlink(context.Background(), k)
		}
	})
	return prefix
}

func client(t testing.TB) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(servertest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

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

func open(t *testing.T, o redis.Options) *redis.Service {
	t.Helper()
	s, err := redis.Open(context.Background(), servertest.Redis(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestService(t *testing.T) { // TRPC-08
	options := map[session.Service]redis.Options{}
	sessiontest.Run(t, sessiontest.Backend{
		New: func(t *testing.T, ttl time.Duration) session.Service {
			o := redis.Options{Prefix: newPrefix(t), TTL: ttl}
			s := open(t, o)
			options[s] = o
			return s
		},
		Reopen: func(t *testing.T, s session.Service) session.Service { return open(t, options[s]) },
	})
}

func TestADeletedSessionLeavesNoKeys(t *testing.T) {
	prefix := newPrefix(t)
	c := client(t)
	s, err := redis.New(t.Context(), c, redis.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	key := session.Key{App: "a", User: "u", ID: "s"}
	if _, err := s.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	ev := &session.Event{Kind: session.KindState, Author: "n", StateDelta: map[string]json.RawMessage{"x": json.RawMessage(`1`)}}
	if err := s.AppendEvent(t.Context(), key, ev); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, c, prefix); len(got) != 6 { // version, data, events, IDs, state, list
		t.Errorf("keys %v", got)
	}
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, c, prefix); len(got) != 1 {
		t.Errorf("keys %v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client was closed: %v", err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	prefix := newPrefix(t)
	c := client(t)
	if err := c.Set(t.Context(), prefix+"version", 99, 0).Err(); err != nil {
		t.Fatal(err)
	}
	wrong := servertest.Redis(t)
	if i := strings.LastIndex(wrong, "@"); i > 0 {
		wrong = "redis://u:hidden" + wrong[i:]
	} else {
		wrong = "redis://u:hidden@" + strings.TrimPrefix(wrong, "redis://")
	}
	for name, x := range map[string]struct {
		url  string
		want error
	}{
		"newer keys":       {servertest.Redis(t), session.ErrVersion},
		"no server":        {"redis://u:hidden@127.0.0.1:1/0?max_retries=-1", session.ErrUnavailable},
		"a wrong URL":      {"http://u:hidden@host", session.ErrConnection},
		"nothing":          {"", session.ErrConnection},
		"a wrong password": {wrong, session.ErrDenied},
	} {
		_, err := redis.Open(t.Context(), x.url, redis.Options{Prefix: prefix})
		e := new(session.Error)
		if !errors.Is(err, x.want) || !errors.As(err, &e) || e.Fix == "" || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	if _, err := redis.New(t.Context(), cluster); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("a cluster: %v", err)
	}
	for _, o := range [][]redis.Options{{{TTL: -1}}, {{TTL: time.Microsecond}}, {{}, {}}} {
		if _, err := redis.Open(t.Context(), servertest.Redis(t), o...); err == nil {
			t.Errorf("%v was taken", o)
		}
	}
}
