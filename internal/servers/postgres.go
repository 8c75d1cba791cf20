package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Postgres is a PostgreSQL server of its own: a cluster with one superuser, one
// database, and a password that is needed to get in.
type Postgres struct {
	bin, dir string
	port     int
	settings []string

	mu      sync.Mutex
	cmd     *exec.Cmd // nil while the server is down
	life    io.Closer // the server ends when this is closed
	ended   chan struct{}
	crashed bool
}

const (
	pgUser, pgPassword, pgDatabase = "superstep", "secret/of:tests@1", "superstep"

	startTimeout = time.Minute
)

// StartPostgres makes a cluster in dir, which should be empty, and starts a
// server on it. As root it hands dir to the user "postgres", who must be able to
// reach it. Settings are lines of postgresql.conf, as "name = value"; without
// one, fsync is off: a killed server loses nothing by that, a machine that fails
// does. The error is [ErrUnavailable] when PostgreSQL is not installed.
func StartPostgres(dir string, settings ...string) (*Postgres, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	p := &Postgres{bin: bin, dir: dir, settings: settings}
	if err := give(dir); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	pw := filepath.Join(dir, "password")
	if err := os.WriteFile(pw, []byte(pgPassword+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := give(pw); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", p.data(), "-U", pgUser, "--pwfile", pw,
		"--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C")
	initdb.Dir = dir
	initdb.SysProcAttr = asServer()
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("servers: initdb: %w\n%s", err, out)
	}
	if err := p.configure(); err != nil {
		return nil, err
	}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	create := exec.Command(filepath.Join(bin, "psql"), p.urlOf("postgres"), "-qc", "CREATE DATABASE "+pgDatabase)
	if out, err := create.CombinedOutput(); err != nil {
		p.Stop()
		return nil, fmt.Errorf("servers: creating a database: %w\n%s", err, out)
	}
	return p, nil
}

// findPostgres returns the directory with the server's programs.
func findPostgres() (string, error) {
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"} {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found) // newer versions first
		dirs = append(dirs, found...)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append([]string{filepath.Dir(path)}, dirs...)
	}
	for _, dir := range dirs {
		complete := true
		for _, name := range []string{"initdb", "postgres", "psql"} {
			if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
				complete = false
			}
		}
		if complete {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: PostgreSQL's initdb, postgres and psql are neither in PATH nor in /usr/lib/postgresql/*/bin; install the package postgresql", ErrUnavailable)
}

func (p *Postgres) configure() error {
	f, err := os.OpenFile(filepath.Join(p.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	lines := append([]string{
		"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "max_connections = 100", "fsync = off", "shared_buffers = '64MB'",
	}, p.settings...)
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// URL returns how to connect, with user, password and database.
func (p *Postgres) URL() string { return p.urlOf(pgDatabase) }

func (p *Postgres) urlOf(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(pgUser, pgPassword),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Start starts the server again after [Postgres.Stop] or [Postgres.Kill], on the
// same data and port, and returns when it takes connections.
func (p *Postgres) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return errors.New("servers: PostgreSQL is running")
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// A shell holds the server and ends it when this program does: then its
	// input, which nobody else has, is at its end.
	cmd := exec.Command("/bin/sh", "-c", `"$@" </dev/null & server=$!; cat >/dev/null; kill -QUIT $server; wait $server`, "sh",
		filepath.Join(p.bin, "postgres"), "-D", p.data(), "-p", strconv.Itoa(p.port))
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = asServer()
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if p.crashed { // what it left says nothing about the new one
		_ = os.Remove(p.pidFile())
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("servers: starting PostgreSQL: %w", err)
	}
	p.cmd, p.life, p.ended, p.crashed = cmd, life, make(chan struct{}), false
	go func(ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(p.ended)
	for end := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		// The eighth line is the server's state; pg_ctl waits for it as well.
		b, _ := os.ReadFile(p.pidFile())
		if lines := bytes.Split(b, []byte("\n")); len(lines) > 7 && string(bytes.TrimSpace(lines[7])) == "ready" {
			return nil
		}
		if time.Now().After(end) {
			p.end()
			out, _ := os.ReadFile(p.logFile())
			return fmt.Errorf("servers: PostgreSQL did not start within %v:\n%s", startTimeout, out)
		}
	}
}

func (p *Postgres) logFile() string { return filepath.Join(p.dir, "log") }
func (p *Postgres) pidFile() string { return filepath.Join(p.data(), "postmaster.pid") }

// end closes the server's life line and waits.
func (p *Postgres) end() {
	_ = p.life.Close()
	<-p.ended
	p.cmd = nil
}

// Stop ends the server as its owner would, without waiting for its clients.
func (p *Postgres) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if pid := p.pid(); pid != 0 {
		interrupt(pid)
		for end := time.Now().Add(startTimeout); alive(pid) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
	}
	p.end()
}

// Kill ends the server as a crash would: none of its processes gets to do
// anything more.
func (p *Postgres) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if pid := p.pid(); pid != 0 {
		suspend(pid) // it starts no new processes meanwhile
		all := append(children(pid), pid)
		for _, pid := range all {
			kill(pid)
		}
		for _, pid := range all {
			for alive(pid) {
				time.Sleep(time.Millisecond)
			}
		}
		p.crashed = true
	}
	p.end()
}

// pid returns the process that is the server, 0 if there is none.
func (p *Postgres) pid() int {
	b, err := os.ReadFile(p.pidFile())
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

// children returns the processes that a process started.
func children(of int) []int {
	var out []int
	for line := range strings.Lines(processes()) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		parent, err2 := strconv.Atoi(f[1])
		if err == nil && err2 == nil && parent == of {
			out = append(out, pid)
		}
	}
	return out
}

// processes lists processes and their parents, a line each.
func processes() string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
		return string(out)
	}
	var s strings.Builder
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		// The name in parentheses may hold anything.
		end := bytes.LastIndexByte(b, ')')
		if f := strings.Fields(string(b[end+1:])); len(f) > 1 {
			fmt.Fprintln(&s, filepath.Base(filepath.Dir(path)), f[1])
		}
	}
	return s.String()
}
