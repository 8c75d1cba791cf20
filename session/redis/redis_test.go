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

// A session that was written to by a service without a TTL stays, whatever the one
// that made it had.
func TestAServiceWithoutATTLKeepsWhatItWritesTo(t *testing.T) {
	prefix := newPrefix(t)
	c := client(t)
	short, forever := open(t, redis.Options{Prefix: prefix, TTL: time.Hour}), open(t, redis.Options{Prefix: prefix})
	defer short.Close()
	defer forever.Close()
	key := session.Key{App: "a", User: "u", ID: "s"}
	if _, err := short.Create(t.Context(), key, map[string]json.RawMessage{"x": json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*redis.Service{short, forever} {
		if err := s.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys(t, c, prefix+"s:") {
			if d := c.PTTL(t.Context(), k).Val(); (d > 0) != (s == short) {
				t.Errorf("%s lives for %v", k, d)
			}
		}
	}
}

// The list of a user whose sessions expire is cleaned by those who make sessions,
// even if nobody ever reads it.
func TestTheListOfSessionsThatExpireDoesNotGrow(t *testing.T) {
	prefix := newPrefix(t)
	c := client(t)
	s := open(t, redis.Options{Prefix: prefix, TTL: time.Millisecond})
	defer s.Close()
	for range 300 {
		if _, err := s.Create(t.Context(), session.Key{App: "a", User: "u"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.ZCard(t.Context(), prefix+"l:a/u").Val(); n > 150 {
		t.Errorf("the list has %d of 300 sessions", n)
	}
}

// between calls a function before the client's next command of a name.
type between struct {
	name string
	call func()
}

func (b *between) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (b *between) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		b.before(cmd)
		return next(ctx, cmd)
	}
}

func (b *between) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		b.before(cmds...)
		return next(ctx, cmds)
	}
}

func (b *between) before(cmds ...goredis.Cmder) {
	for _, cmd := range cmds {
		if call := b.call; cmd.Name() == b.name && call != nil {
			b.call = nil
			call()
		}
	}
}

// A session that is made anew while another one of its name is read isn't mixed
// with it.
func TestASessionIsReadAsOne(t *testing.T) {
	prefix := newPrefix(t)
	other := open(t, redis.Options{Prefix: prefix})
	defer other.Close()
	c := client(t)
	hook := &between{name: "hmget"}
	c.AddHook(hook)
	s, err := redis.New(t.Context(), c, redis.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	key := session.Key{App: "a", User: "u", ID: "s"}
	build := func(author string) {
		t.Helper()
		if err := other.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Create(t.Context(), key, map[string]json.RawMessage{"by": json.RawMessage(`"` + author + `"`)}); err != nil {
			t.Fatal(err)
		}
		if err := other.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: author}); err != nil {
			t.Fatal(err)
		}
	}
	build("old")
	hook.call = func() { build("new") }
	got, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if by := string(got.State["by"]); by != `"`+got.Events[0].Author+`"` {
		t.Errorf("state by %s, event by %q", by, got.Events[0].Author)
	}
	// One that is deleted meanwhile is not found.
	hook.call = func() {
		if err := other.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Get(t.Context(), key); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("deleted meanwhile: %v", err)
	}
}

// The client repeats a command whose answer was lost: the session is this call's
// own then.
func TestCreatingASurvivorOfALostAnswerIsNoConflict(t *testing.T) {
	c, err := goredis.ParseURL(servertest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	var lose atomic.Bool
	proxy := servertest.NewProxy(t, c.Addr, func() servertest.Tap {
		return servertest.Tap{Answer: func([]byte) servertest.Verdict {
			if lose.Swap(false) {
				return servertest.Cut
			}
			return servertest.Pass
		}}
	})
	c.Addr = proxy.Addr()
	through := goredis.NewClient(c)
	defer through.Close()
	s, err := redis.New(t.Context(), through, redis.Options{Prefix: newPrefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"loads the script", "s"} {
		lose.Store(id == "s")
		key := session.Key{App: "a", User: "u", ID: id}
		sess, err := s.Create(t.Context(), key, map[string]json.RawMessage{"x": json.RawMessage(`1`)})
		if err != nil || sess.Key != key || string(sess.State["x"]) != "1" {
			t.Errorf("%v, %+v", err, sess)
		}
		if _, err := s.Create(t.Context(), key, nil); !errors.Is(err, session.ErrExists) {
			t.Errorf("made again: %v", err)
		}
	}
}

// A session that somebody has spoilt is not a server that is away.
func TestWhatCannotBeReadIsDamaged(t *testing.T) {
	prefix := newPrefix(t)
	c := client(t)
	s := open(t, redis.Options{Prefix: prefix})
	defer s.Close()
	key := session.Key{App: "a", User: "u", ID: "s"}
	if _, err := s.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEvent(t.Context(), key, &session.Event{Kind: session.KindInput, Author: session.AuthorUser}); err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []string{"s:a/u/s/events", "s:a/u/s"} {
		if err := c.HSet(t.Context(), prefix+spoil, "1", "{", "created", "then").Err(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), key)
		e := new(session.Error)
		if !errors.As(err, &e) || e.Fix == "" || !errors.Is(err, session.ErrDamaged) {
			t.Errorf("%s: %v", spoil, err)
		}
	}
}
