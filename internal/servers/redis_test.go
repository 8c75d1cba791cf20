package servers_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/servers"
)

func TestRedis(t *testing.T) {
	dir, err := os.MkdirTemp("", "superstep-redis")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r, err := servers.StartRedis(dir, "--appendfsync", "always")
	if errors.Is(err, servers.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Kill()
	ask := func(what string) (string, error) {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			return "", err
		}
		defer c.Close()
		fmt.Fprint(c, what+"\r\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		return strings.TrimSpace(line), err
	}
	if !strings.HasPrefix(r.URL(), "redis://127.0.0.1:") {
		t.Fatal(r.URL())
	}
	for i, end := range []func() error{r.Kill, r.Stop, r.Kill} {
		if got, err := ask("INCR x"); got != fmt.Sprint(":", i+1) || err != nil {
			t.Fatalf("round %d: got %q, %v: what was written is lost", i, got, err)
		}
		if err := errors.Join(end(), end()); err != nil {
			t.Fatal(err)
		}
		if got, err := ask("PING"); err == nil {
			t.Fatalf("the server answers %q after it was ended", got)
		}
		if err := errors.Join(r.Start(), r.Start()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRedisSaysWhatIsWrong(t *testing.T) {
	t.Run("a wrong option", func(t *testing.T) {
		_, err := servers.StartRedis(t.TempDir(), "--no-such-option", "1")
		if errors.Is(err, servers.ErrUnavailable) {
			t.Skip(err)
		}
		if err == nil || !strings.Contains(err.Error(), "no-such-option") {
			t.Fatal(err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := servers.StartRedis(t.TempDir())
		if !errors.Is(err, servers.ErrUnavailable) || !strings.Contains(err.Error(), "redis-server") {
			t.Fatal(err)
		}
	})
}
