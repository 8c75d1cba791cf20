package servers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PgBouncer is a pooler of its own before a PostgreSQL server.
type PgBouncer struct {
	server *Postgres
	port   int
	life   io.Closer // it ends when this is closed
	said   string    // the file of its log
	ended  chan struct{}
}

// StartPgBouncer starts a pooler that shares a server's connections between
// transactions, and returns when it takes connections. It keeps its files in dir, which
// as root it hands to the user "postgres". Settings are lines of its section [pgbouncer],
// as "name = value", and come after those that this sets. The error is [ErrUnavailable]
// when PgBouncer is not installed.
func StartPgBouncer(dir string, server *Postgres, settings ...string) (*PgBouncer, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil { // Debian has it where only root's PATH leads
		if bin, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return nil, fmt.Errorf("%w: pgbouncer is neither in PATH nor in /usr/sbin; install the package pgbouncer", ErrUnavailable)
		}
	}
	b := &PgBouncer{server: server, ended: make(chan struct{})}
	if b.port, err = freePort(); err != nil {
		return nil, err
	}
	b.said = filepath.Join(dir, "pgbouncer.log")
	users, config := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", server.port),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", b.port), "unix_socket_dir =",
		"auth_type = scram-sha-256", "auth_file = " + users,
		"pool_mode = transaction", "default_pool_size = 10", "max_client_conn = 1000",
	}, settings...)
	for path, text := range map[string]string{
		users: fmt.Sprintf("%q %q\n", pgUser, pgPassword), config: strings.Join(lines, "\n") + "\n", b.said: "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		if err := give(path); err != nil {
			return nil, fmt.Errorf("servers: %w", err)
		}
	}
	if err := give(dir); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	log, err := os.OpenFile(b.said, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// As PostgreSQL, it ends when this program does. It has nothing to keep.
	cmd := exec.Command("/bin/sh", "-c", `"$@" </dev/null & pooler=$!; cat >/dev/null; kill -KILL $pooler; wait $pooler`, "sh", bin, config)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = asServer()
	if b.life, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("servers: starting PgBouncer: %w", err)
	}
	go func() {
		_ = cmd.Wait()
		close(b.ended)
	}()
	for end := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", b.addr(), time.Second)
		if err == nil {
			return b, c.Close()
		}
		if time.Now().After(end) {
			b.Stop()
			return nil, errors.Join(fmt.Errorf("servers: PgBouncer did not start within %v:\n%s", startTimeout, b.Log()), err)
		}
	}
}

func (b *PgBouncer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// URL returns how to connect, with user, password and database.
func (b *PgBouncer) URL() string {
	u, _ := url.Parse(b.server.URL()) // which has made it
	u.Host = b.addr()
	return u.String()
}

// Log returns what the pooler has said.
func (b *PgBouncer) Log() string {
	out, _ := os.ReadFile(b.said)
	return string(out)
}

// Stop ends the pooler and its connections.
func (b *PgBouncer) Stop() {
	_ = b.life.Close()
	<-b.ended
}
