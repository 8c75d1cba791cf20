package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Redis is a Redis server of its own that listens on 127.0.0.1.
type Redis struct {
	dir  string
	port int
	args []string

	mu   sync.Mutex
	life io.Closer     // the server ends when this is closed
	done chan struct{} // closed when the server has ended; nil before Start
}

const (
	redisPatience = 20 * time.Second
	redisTries    = 5 // another process may take the port in between
)

// StartRedis starts a redis-server that keeps its data in dir, with appendonly
// yes and appendfsync everysec. Args are more of its options, such as
// "--appendfsync", "always". It returns when the server answers. The error is
// [ErrUnavailable] when the PATH has no redis-server.
func StartRedis(dir string, args ...string) (*Redis, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("%w: redis-server is not in the PATH; install the package redis-server (%w)", ErrUnavailable, err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for range redisTries {
		r := &Redis{dir: abs, args: args}
		if r.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = r.Start(); err == nil {
			return r, nil
		}
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	return nil, err
}

// Addr returns host and port.
func (r *Redis) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// URL returns what to connect to: database 0, without a password.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// Start starts the server again, on the same data and port, and returns when it
// answers. A server that runs is left alone.
func (r *Redis) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running() {
		return nil
	}
	logfile := filepath.Join(r.dir, "redis.log")
	if err := os.Remove(logfile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_ = os.Remove(r.pidFile())
	// A shell holds the server and kills it when this program ends: then what it
	// reads, which nobody else has, is at its end.
	cmd := exec.Command("/bin/sh", append([]string{
		"-c", `exec 3<&0; "$@" </dev/null 3<&- & server=$!; (cat <&3 >/dev/null; kill -KILL $server 2>/dev/null) & wait $server`, "sh",
		"redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(r.port), "--dir", r.dir, "--logfile", logfile, "--pidfile", r.pidFile(),
		"--daemonize", "no", "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
	}, r.args...)...)
	cmd.Dir = r.dir
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	// A file: the cat that outlives the server would hold a pipe open.
	out, err := os.Create(filepath.Join(r.dir, "output"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("servers: starting Redis: %w", err)
	}
	done := make(chan struct{})
	r.life, r.done = life, done
	go func() {
		_ = cmd.Wait() // closes life
		close(done)
	}()
	end := time.Now().Add(redisPatience)
	for !r.answers() {
		select {
		case <-done:
			said, _ := os.ReadFile(out.Name())
			log, _ := os.ReadFile(logfile)
			return fmt.Errorf("servers: redis-server ended:\n%s%s", said, log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			_ = r.life.Close()
			<-done
			return fmt.Errorf("servers: redis-server in %s does not answer", r.dir)
		}
	}
	return nil
}

// running reports whether there is a process. The caller holds mu.
func (r *Redis) running() bool {
	if r.done == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// answers reports whether the server is up and has loaded its data; that it asks
// for a password is an answer.
func (r *Redis) answers() bool {
	c, err := net.DialTimeout("tcp", r.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") || strings.HasPrefix(line, "-NOPERM"))
}

// Stop ends the server as an administrator would: it writes what it has to disk.
func (r *Redis) Stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end(syscall.SIGTERM)
}

// Kill kills the server: it has no time to do anything more.
func (r *Redis) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end(os.Kill)
}

// end sends a signal and waits for the process. The caller holds mu.
func (r *Redis) end(sig os.Signal) error {
	if !r.running() {
		return nil
	}
	if err := r.signal(sig); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-time.After(redisPatience):
		_ = r.life.Close()
		<-r.done
		return fmt.Errorf("servers: redis-server in %s had to be killed", r.dir)
	}
	return nil
}

// Signal sends a signal to the server's process, such as one that suspends it.
func (r *Redis) Signal(sig os.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running() {
		return os.ErrProcessDone
	}
	return r.signal(sig)
}

func (r *Redis) signal(sig os.Signal) error {
	b, err := os.ReadFile(r.pidFile())
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (r *Redis) pidFile() string { return filepath.Join(r.dir, "redis.pid") }
