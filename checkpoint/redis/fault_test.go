package redis_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// proxy passes on what a client and a server say. Armed, it cuts the connection
// of the next writes when the server has answered, before the client hears it.
type proxy struct {
	*servertest.Proxy
	server *url.URL

	mu    sync.Mutex
	cuts  int
	onCut func()
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	server, err := url.Parse(servertest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: server}
	p.Proxy = servertest.NewProxy(t, server.Host, p.tap)
	return p
}

func (p *proxy) url() string {
	u := *p.server
	u.Host = p.Addr()
	return u.String()
}

// arm makes the next n answers to writes vanish. Before the connection ends, do
// is called, if it is not nil.
func (p *proxy) arm(n int, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts, p.onCut = n, do
}

func (p *proxy) tap() servertest.Tap {
	var writes atomic.Bool // the client's last request
	return servertest.Tap{
		Request: func(b []byte) {
			for _, w := range redis.Writing {
				if bytes.Contains(b, []byte(w)) {
					writes.Store(true)
				}
			}
		},
		Answer: func(b []byte) servertest.Verdict {
			if !writes.Swap(false) || bytes.HasPrefix(b, []byte("-NOSCRIPT")) {
				return servertest.Pass
			}
			p.mu.Lock()
			cut, do := p.cuts > 0, p.onCut
			if cut {
				p.cuts--
			}
			p.mu.Unlock()
			if !cut {
				return servertest.Pass
			}
			if do != nil {
				do()
			}
			return servertest.Cut
		},
	}
}

// TestALostAnswer cuts the connection when the server has done a write and the
// client does not know: the write is sent again, done once, and answered as the
// first time.
func TestALostAnswer(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, p *proxy, o redis.Options) *redis.Store{
		"of the store's own client": func(t *testing.T, p *proxy, o redis.Options) *redis.Store {
			s, err := redis.Open(t.Context(), p.url(), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"of a client that retries": func(t *testing.T, p *proxy, o redis.Options) *redis.Store {
			s, err := redis.New(t.Context(), client(t, p.url()), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		for times := 1; times <= 2; times++ {
			t.Run(name, func(t *testing.T) {
				p := newProxy(t)
				prefix := newPrefix(t)
				s := open(t, p, redis.Options{Prefix: prefix})
				defer s.Close()
				other := openAt(t, prefix) // past the proxy
				defer other.Close()
				log := checkpoint.Log{Thread: "t"}
				run := checkpoint.NewRunID()
				first := logtest.Step(log, run, "", 1, logtest.Message)
				once := checkpoint.Result{Epoch: first.ID, Kind: checkpoint.KindOnce, Data: []byte(`1`)}

				p.arm(times, nil)
				w := logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "a", Lease: time.Hour, Record: first})
				fence := w.Fence
				p.arm(times, nil)
				if w = logtest.Write(t, s, &checkpoint.Write{Log: log, Fence: fence, Results: []checkpoint.Result{once}}); w.Ignored != 0 {
					t.Fatalf("%d results ignored: its own", w.Ignored)
				}
				p.arm(times, nil)
				if w = logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "a"}); w.Fence != fence+1 {
					t.Fatalf("fence %d after two claims, %d after one", w.Fence, fence)
				}
				if n := logtest.Count(t, other, log); n != 1 {
					t.Fatalf("%d records", n)
				}

				// Somebody else writes before the write is sent again.
				second := logtest.Step(log, run, first.ID, 2, logtest.Message)
				p.arm(times, func() {
					logtest.Write(t, other, &checkpoint.Write{Log: log, Claim: true})
				})
				w = logtest.Write(t, s, &checkpoint.Write{Log: log, Fence: fence + 1, Head: first.ID, Record: second, Results: []checkpoint.Result{once}})
				if w.Fence != fence+1 || w.Ignored != 1 {
					t.Fatalf("got %+v, want what the first try was answered", w)
				}
				late := checkpoint.Result{Epoch: second.ID, Kind: checkpoint.KindOnce}
				p.arm(times, func() {
					logtest.Write(t, other, &checkpoint.Write{Log: log, Wake: true})
				})
				if w = logtest.Write(t, s, &checkpoint.Write{Log: log, Results: []checkpoint.Result{late}}); w.Ignored != 0 {
					t.Fatalf("%d results ignored: its own", w.Ignored)
				}
				if n := logtest.Count(t, other, log); n != 2 {
					t.Fatalf("%d records", n)
				}

				p.arm(times, nil)
				if err := s.Copy(t.Context(), "t", "u"); err != nil {
					t.Fatal(err)
				}
				p.arm(times, nil)
				if err := s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: second.ID, Remove: []checkpoint.ID{first.ID}}); err != nil {
					t.Fatal(err)
				}
				if n := logtest.Count(t, other, log); n != 1 {
					t.Fatalf("%d records", n)
				}
				p.mu.Lock()
				if p.cuts != 0 {
					t.Errorf("%d answers are still to be cut: what was tested?", p.cuts)
				}
				p.mu.Unlock()
				p.arm(times, nil)
				if err := s.Delete(t.Context(), "t"); err != nil {
					t.Fatal(err)
				}
				p.arm(0, nil)
				for d, err := range other.Verify(t.Context(), "") {
					t.Fatal(d, err)
				}
			})
		}
	}
}

func TestAnAnswerThatNeverComes(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	prefix := newPrefix(t)
	s, err := redis.Open(t.Context(), p.url(), redis.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	p.arm(1000, nil)
	r := logtest.Step(log, checkpoint.NewRunID(), "", 1, logtest.Message)
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Record: r})
	wantError(t, err, redis.ErrUncertain, "unknown", "read the thread's head")
	p.arm(0, nil)
	head, _, err := s.Head(t.Context(), log)
	if err != nil || head.ID != r.ID {
		t.Fatal(head, err)
	}
	// The server goes away altogether.
	p.arm(1000, p.Refuse)
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	wantError(t, err, redis.ErrUncertain, "unknown")
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	wantError(t, err, redis.ErrUnreachable)
	if errors.Is(err, redis.ErrUncertain) {
		t.Fatalf("%v: nothing was sent", err)
	}
}

// TestAContextEndsAnyWait suspends the server, so that no answer comes.
func TestAContextEndsAnyWait(t *testing.T) {
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 1)
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r := logtest.Step(log, checkpoint.NewRunID(), head, 2, logtest.Message)
	for what, f := range map[string]func(ctx context.Context) error{
		"Write": func(ctx context.Context) error {
			_, err := s.Write(ctx, &checkpoint.Write{Log: log, Head: head, Record: r})
			return err
		},
		"Head": func(ctx context.Context) error {
			_, _, err := s.Head(ctx, log)
			return err
		},
		"Records": func(ctx context.Context) error {
			for _, err := range s.Records(ctx, checkpoint.Query{Log: log}) {
				return err
			}
			return nil
		},
		"Open": func(ctx context.Context) error {
			s, err := redis.Open(ctx, server.URL())
			if err == nil {
				s.Close()
			}
			return err
		},
	} {
		for _, cancelled := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			want := context.DeadlineExceeded
			if cancelled {
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				want = context.Canceled
			}
			begun := time.Now()
			err := f(ctx)
			cancel()
			if !errors.Is(err, want) {
				t.Fatalf("%s: %v, want %v", what, err, want)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Fatalf("%s took %v", what, took)
			}
		}
	}
	// A later write waits for the ones that were left, so it knows what they did.
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = server.Signal(syscall.SIGCONT)
	}()
	logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true})
	now, _, err := s.Head(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	n := logtest.Count(t, s, log)
	time.Sleep(50 * time.Millisecond)
	if later, _, err := s.Head(t.Context(), log); err != nil || later.ID != now.ID || logtest.Count(t, s, log) != n {
		t.Fatalf("a write that was given up came later: %v, %v", later, err)
	}
}

func TestAServerThatForgetsItsScripts(t *testing.T) {
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := client(t, server.URL())
	for i := range 5 {
		set(t, c, "SCRIPT", "FLUSH")
		logtest.Begin(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(rune('a' + i))}, 2)
		set(t, c, "SCRIPT", "FLUSH")
		if n := logtest.Count(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(rune('a' + i))}); n != 2 {
			t.Fatal(n)
		}
	}
}

func TestAServerThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}()
		}
	}()
	_, err = redis.Open(t.Context(), "redis://"+l.Addr().String()+"/0?read_timeout=50ms")
	wantError(t, err, redis.ErrUnreachable)
}

// Writers share round trips: each write is a script of its own nevertheless, also where
// the server forgets its scripts, and an answer is lost.
func TestWritesThatAreSentTogether(t *testing.T) {
	p := newProxy(t)
	prefix := newPrefix(t)
	s, err := redis.Open(t.Context(), p.url(), redis.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writers, each = 32, 20
	c := client(t, servertest.Redis(t))
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			log := checkpoint.Log{Thread: checkpoint.ThreadID(rune('A' + i))}
			run, head := checkpoint.NewRunID(), checkpoint.ID("")
			for seq := range int64(each) {
				if i == 0 && seq%7 == 3 {
					p.arm(1, nil)
					if err := c.ScriptFlush(context.Background()).Err(); err != nil {
						t.Error(err)
					}
				}
				r := logtest.Step(log, run, head, seq+1, logtest.Message)
				once := checkpoint.Result{Epoch: r.ID, Kind: checkpoint.KindOnce}
				w, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Head: head, Record: r, Results: []checkpoint.Result{once}})
				if err != nil || w.Ignored != 0 {
					t.Errorf("got %+v, %v", w, err)
					return
				}
				if _, err := s.Write(t.Context(), &checkpoint.Write{Log: log, Head: head, Record: r}); !errors.Is(err, checkpoint.ErrConflict) {
					t.Errorf("got %v for a record that is there", err)
				}
				head = r.ID
			}
		})
	}
	wg.Wait()
	p.arm(0, nil)
	for i := range writers {
		if n := logtest.Count(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(rune('A' + i))}); n != each {
			t.Errorf("%d records", n)
		}
	}
	for d, err := range s.Verify(t.Context(), "") {
		t.Error(d, err)
	}
}
