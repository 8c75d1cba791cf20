//go:build unix

// Newcomer does what the README tells whoever has just cloned the repository, in an empty
// folder and with an empty build cache, and prints what each command took: until it said
// something, until it was done, of all cores, and of memory. Downloads don't count.
//
//	cd bench && go run ./newcomer
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	clone := flag.String("clone", "..", "the repository; what is committed there is cloned")
	warm := flag.Bool("warm", false, "compile with the build cache that there is: whether it works, and how fast the second time")
	templates := flag.String("templates", "agent,batch,approval,dialogue,rag", "which programs of their own newcomers begin")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := newcomer{warm: *warm, out: os.Stdout}
	if err := n.do(ctx, *clone, strings.Split(*templates, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "newcomer:", err)
		os.Exit(1)
	}
}

type newcomer struct {
	warm  bool
	out   io.Writer
	cache string // of builds; empty: the one that there is
}

func (n *newcomer) do(ctx context.Context, from string, templates []string) error {
	home, err := os.MkdirTemp("", "newcomer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	clone := filepath.Join(home, "superstep")
	if out, err := exec.CommandContext(ctx, "git", "clone", "-q", from, clone).CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w: %s", err, out)
	}
	if _, err := n.run(ctx, clone, nil, "go", "mod", "download"); err != nil {
		return err
	}
	fmt.Fprintln(n.out, "| | to its first words | to its end | of all cores | memory |\n|---|---:|---:|---:|---:|")

	if err := n.empty(home); err != nil {
		return err
	}
	took, err := n.run(ctx, clone, strings.NewReader("yes\n"), "go", "run", "./examples/digest", "-pace", "1ms", "docs")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(clone, "digest.md")); err != nil {
		return fmt.Errorf("the first command wrote no overview: %w", err)
	}
	n.row("`go run ./examples/digest docs`", took)

	if took, err = n.studio(ctx, clone); err != nil {
		return err
	}
	n.row("then `go run ./cmd/superstep serve --demo`, until the studio's page is there", took)

	if err := n.empty(home); err != nil {
		return err
	}
	binary := filepath.Join(home, "bin", "superstep")
	if took, err = n.run(ctx, clone, nil, "go", "build", "-o", binary, "./cmd/superstep"); err != nil {
		return err
	}
	size, err := os.Stat(binary)
	if err != nil {
		return err
	}
	n.row(fmt.Sprintf("`go build ./cmd/superstep`: %.1f MB", float64(size.Size())/1e6), took)

	for _, template := range templates {
		all := spent{}
		dir := filepath.Join(home, "my-"+template)
		for _, c := range [][]string{
			{binary, "init", dir, "--template", template, "--replace", clone},
			{"go", "mod", "tidy"},
			{"go", "test", "./..."},
		} {
			in := dir
			if c[0] == binary {
				in = home
			}
			took, err := n.run(ctx, in, nil, c...)
			if err != nil {
				return err
			}
			all.first = cmp.Or(all.first, took.first)
			all.end += took.end
			all.cpu += took.cpu
			all.memory = max(all.memory, took.memory)
		}
		n.row("`superstep init --template "+template+"`, `go mod tidy` and `go test ./...`", all)
	}
	return nil
}

// empty begins with an empty cache of builds.
func (n *newcomer) empty(home string) (err error) {
	if !n.warm {
		n.cache, err = os.MkdirTemp(home, "cache")
	}
	return err
}

func (n *newcomer) row(what string, s spent) {
	fmt.Fprintf(n.out, "| %s | %.1f s | %.1f s | %.0f s | %.2f GB |\n", what, s.first.Seconds(), s.end.Seconds(), s.cpu.Seconds(), float64(s.memory)/1e9)
}

// spent is what a command took.
type spent struct {
	first, end, cpu time.Duration
	memory          int64 // the most that all its processes had at once, in bytes
}

func (n *newcomer) command(ctx context.Context, dir string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if n.cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+n.cache)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// run runs a command to its end, which must be a good one.
func (n *newcomer) run(ctx context.Context, dir string, in io.Reader, args ...string) (spent, error) {
	cmd := n.command(ctx, dir, args)
	said := &words{began: time.Now()}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, said, said
	s, err := watched(cmd)
	s.first = said.first
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return s, nil
}

// studio starts a server, and stops it when its page is there.
func (n *newcomer) studio(ctx context.Context, clone string) (spent, error) {
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	cmd := n.command(stopped, clone, []string{"go", "run", "./cmd/superstep", "serve", "--demo", "--port", "0", "--store", filepath.Join(filepath.Dir(clone), "demo.db")})
	said := &words{began: time.Now()}
	cmd.Stdout, cmd.Stderr = said, said
	there := make(chan error, 1)
	go func() {
		there <- said.page(stopped)
		stop()
	}()
	s, err := watched(cmd)
	stop()
	if perr := <-there; perr != nil {
		return s, fmt.Errorf("serve --demo: %w: %w\n%s", perr, err, said)
	}
	s.first, s.end = said.first, said.there
	return s, nil
}

// words are what a command said.
type words struct {
	began        time.Time
	mu           sync.Mutex
	text         bytes.Buffer
	first, there time.Duration
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == 0 {
		w.first = time.Since(w.began)
	}
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/studio/`)

// page waits until the page at the address that was said is there.
func (w *words) page(ctx context.Context) error {
	for {
		if at := address.FindString(w.String()); at != "" {
			resp, err := http.Get(at)
			if err == nil {
				page, rerr := io.ReadAll(resp.Body)
				resp.Body.Close()
				if rerr == nil && resp.StatusCode == http.StatusOK && bytes.Contains(page, []byte("<script")) {
					w.there = time.Since(w.began)
					return nil
				}
				return fmt.Errorf("%s answers %s without a page", at, resp.Status)
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("it ended before its page was there")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// watched runs a command and looks what its processes have of memory, where /proc tells.
func watched(cmd *exec.Cmd) (s spent, err error) {
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	over, looked := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		for {
			select {
			case <-over:
				looked <- most
				return
			case <-time.After(50 * time.Millisecond):
				most = max(most, resident(cmd.Process.Pid))
			}
		}
	}()
	err = cmd.Wait()
	s.end = time.Since(began)
	close(over)
	s.memory = <-looked
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return s, err
}

// resident is the memory that the processes of a group have.
func resident(group int) (bytes int64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ") // after the name: state, parent, group, …, pages
		f := strings.Fields(rest)
		if len(f) < 22 || f[2] != strconv.Itoa(group) {
			continue
		}
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		bytes += pages * int64(os.Getpagesize())
	}
	return bytes
}
