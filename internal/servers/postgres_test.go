package servers_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/servers"
)

func TestPostgres(t *testing.T) {
	dir, err := os.MkdirTemp("", "superstep-postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := servers.StartPostgres(dir)
	if errors.Is(err, servers.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	up := func() bool {
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			return false
		}
		c.Close()
		return true
	}
	for _, end := range []func(){p.Kill, p.Stop, p.Kill} {
		if !up() {
			t.Fatal("the server is not up")
		}
		end()
		if up() {
			t.Fatal("the server is still up")
		}
		end() // nothing to end
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(); err == nil {
		t.Fatal("a server that runs was started")
	}
}

func TestPostgresSaysWhatIsWrong(t *testing.T) {
	dir, err := os.MkdirTemp("", "superstep-postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(dir+"/data", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = servers.StartPostgres(dir)
	if errors.Is(err, servers.ErrUnavailable) {
		if !strings.Contains(err.Error(), "install") {
			t.Fatalf("error %q does not say what to install", err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "initdb") {
		t.Fatalf("got error %v, want one of initdb", err)
	}
}
