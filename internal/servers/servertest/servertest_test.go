package servertest_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/internal/servers"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// verdict is a test that remembers how it ended.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (*verdict) Helper() {}

func (v *verdict) Skipf(format string, args ...any) { v.skipped = fmt.Sprintf(format, args...) }
func (v *verdict) Fatal(args ...any)                { v.failed = fmt.Sprint(args...) }

func TestAvailable(t *testing.T) {
	missing := fmt.Errorf("%w: install it", servers.ErrUnavailable)
	for name, c := range map[string]struct {
		ci              string
		err             error
		skipped, failed string
	}{
		"nothing is missing":      {ci: "true"},
		"a program is missing":    {err: missing, skipped: "NOT TESTED: " + missing.Error()},
		"missing where it counts": {ci: "true", err: missing, failed: missing.Error()},
		"something else is wrong": {err: errors.New("wrong"), failed: "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			v := &verdict{TB: t}
			if servertest.Available(v, c.err); v.skipped != c.skipped || v.failed != c.failed {
				t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
			}
		})
	}
}

func TestTheEnvironmentNamesServers(t *testing.T) {
	t.Setenv(servertest.PostgresEnv, "postgres://somewhere")
	t.Setenv(servertest.RedisEnv, "redis://somewhere")
	if got := servertest.Postgres(t, "fsync = on") + " " + servertest.Redis(t); got != "postgres://somewhere redis://somewhere" {
		t.Error(got)
	}
}

func TestServersAreSharedUntilTheyAreStopped(t *testing.T) {
	t.Setenv(servertest.RedisEnv, "")
	first := servertest.Redis(t)
	if again := servertest.Redis(t); again != first {
		t.Errorf("%s and %s for the same options", first, again)
	}
	if other := servertest.Redis(t, "--appendfsync", "always"); other == first {
		t.Error("one server for different options")
	}
	if own := servertest.OwnRedis(t); own.URL() == first {
		t.Error("a test's own server is shared")
	}
	servertest.Stop()
	if c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(first, "redis://"), "/0")); err == nil {
		c.Close()
		t.Error("the server is still up")
	}
	servertest.Redis(t)
}

func TestAMissingProgramIsNamedWithTheVariable(t *testing.T) {
	for _, env := range []string{"PATH", "CI", servertest.RedisEnv} {
		t.Setenv(env, "")
	}
	servertest.Stop()
	defer servertest.Stop() // or others would hear the same
	v := &verdict{TB: t}
	servertest.Redis(v)
	if !strings.HasPrefix(v.skipped, "NOT TESTED: ") || !strings.Contains(v.skipped, servertest.RedisEnv) {
		t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
	}
}

// echo starts a server that says what it is told, line by line.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					fmt.Fprintln(c, lines.Text())
				}
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l.Addr().String()
}

type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

func (c *client) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(c, line); err != nil {
		return "", err
	}
	answer, err := c.r.ReadString('\n')
	return strings.TrimSpace(answer), err
}

func TestProxy(t *testing.T) {
	p := servertest.NewProxy(t, echo(t), nil)
	for name, end := range map[string]func() int{"cut": p.Cut, "reset": p.Reset} {
		a, b := dial(t, p.Addr()), dial(t, p.Addr())
		for _, c := range []*client{a, b} {
			if got, err := c.ask("hello"); got != "hello" || err != nil {
				t.Fatal(got, err)
			}
		}
		if n := end(); n != 2 {
			t.Errorf("%s: %d clients lost their connections", name, n)
		}
		for _, c := range []*client{a, b} {
			if got, err := c.ask("hello"); err == nil {
				t.Errorf("%s: got %q", name, got)
			}
		}
		if n := end(); n != 0 {
			t.Errorf("%s: %d clients lost their connections again", name, n)
		}
	}
	c := dial(t, p.Addr())
	if _, err := c.ask("hello"); err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("a connection is taken")
	}
	if got, err := c.ask("still there?"); got != "still there?" || err != nil {
		t.Error(got, err)
	}
}

func TestProxyWithATap(t *testing.T) {
	var heard atomic.Value
	dropped := make(chan struct{})
	p := servertest.NewProxy(t, echo(t), func() servertest.Tap {
		return servertest.Tap{
			Request: func(b []byte) { heard.Store(string(b)) },
			Answer: func(b []byte) servertest.Verdict {
				switch string(b) {
				case "drop\n":
					close(dropped)
					return servertest.Drop
				case "cut\n":
					return servertest.Cut
				}
				return servertest.Pass
			},
		}
	})
	c := dial(t, p.Addr())
	if got, err := c.ask("pass"); got != "pass" || err != nil || heard.Load() != "pass\n" {
		t.Fatal(got, err, heard.Load())
	}
	if got, err := c.ask("cut"); err == nil {
		t.Fatalf("got %q", got)
	}
	c = dial(t, p.Addr())
	fmt.Fprintln(c, "drop")
	<-dropped
	if got, err := c.ask("pass"); got != "pass" || err != nil {
		t.Error(got, err)
	}
}
