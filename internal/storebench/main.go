// The command storebench measures the checkpoint stores side by side, and writes
// the tables of docs/checkpoints.md:
//
//	go run ./internal/storebench            # prints the tables
//	go run ./internal/storebench -update    # puts them into docs/checkpoints.md
//
// It starts servers of its own, which end with it, or uses those that -postgres
// and -redis name. Beside each store runs a bare loop: the same bytes, driver and
// server, one insert after the other, with nothing of what a store does. Run it
// on a machine that does nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/servers"
)

// settings are those of the command line.
type settings struct {
	duration        time.Duration
	turns           int
	only            string
	page            string
	update          bool
	postgres, redis string
	warning         string // about the machine
}

func main() {
	var s settings
	flag.DurationVar(&s.duration, "duration", 2*time.Second, "how long each figure is measured")
	flag.IntVar(&s.turns, "turns", 2000, "turns of the conversation whose size is measured")
	flag.StringVar(&s.only, "only", "", "measure only stores whose name contains this")
	flag.BoolVar(&s.update, "update", false, "write the tables into the page")
	flag.StringVar(&s.page, "page", "docs/checkpoints.md", "the page")
	flag.StringVar(&s.postgres, "postgres", "", "URL of a PostgreSQL server to use")
	flag.StringVar(&s.redis, "redis", "", "URL of a Redis server to use")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "storebench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "superstep-storebench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list, end, err := subjects(s, dir)
	defer end()
	if err != nil {
		return err
	}
	s.warning = otherWork()
	var all []*figures
	for _, x := range list {
		if !strings.Contains(x.name, s.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", x.name)
		f, err := measure(ctx, x, s)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		all = append(all, f)
	}
	text := tables(all, s)
	if !s.update {
		fmt.Print(text)
		return nil
	}
	data, err := os.ReadFile(s.page)
	if err != nil {
		return err
	}
	page, err := insert(string(data), text)
	if err != nil {
		return fmt.Errorf("%s: %w", s.page, err)
	}
	return os.WriteFile(s.page, []byte(page), 0o644)
}

// The tables stand between these lines of the page.
const (
	begin  = "<!-- measured by: go run ./internal/storebench -update -->\n"
	finish = "<!-- end of what was measured -->\n"
)

func insert(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, finish)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page has no place for the tables: it lacks the lines %q and %q", begin, finish)
	}
	return before + begin + "\n" + text + "\n" + finish + after, nil
}

func tables(all []*figures, s settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; each figure from %v of work.%s\n", machine(), s.duration, s.warning)
	head := func(cells ...string) {
		fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(cells, " | "), strings.Repeat("---|", len(cells)))
	}
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }

	head("one thread at a time", "append, p50", "p99", "newest record, p50", "p99")
	for _, f := range all {
		row(f.name, span(f.write.p50), span(f.write.p99), span(f.head.p50), span(f.head.p99))
	}
	cells := []string{"steps a second (bare loop)"}
	for _, n := range concurrency {
		cells = append(cells, fmt.Sprintf("%d threads", n))
	}
	cells[1] = "1 thread"
	head(cells...)
	for _, f := range all {
		cells := []string{f.name}
		for i := range concurrency {
			cell := count(f.steps[i])
			if f.bare != nil {
				cell += " (" + count(f.bare[i]) + ")"
			}
			cells = append(cells, cell)
		}
		row(cells...)
	}
	head(fmt.Sprintf("a conversation of %s turns", thousands(s.turns)), "bytes a turn", "loading it", "bytes after pruning", "a turn more")
	for _, f := range all {
		row(f.name, thousands(int(f.size)/s.turns), span(f.load), thousands(int(f.pruned)), span(f.turn))
	}
	return b.String()
}

func machine() string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}

// otherWork says so when the machine is busy before anything is measured.
func otherWork() string {
	data, err := os.ReadFile("/proc/loadavg")
	var load float64
	if _, bad := fmt.Sscan(string(data), &load); err != nil || bad != nil || load < float64(runtime.NumCPU())/2 {
		return ""
	}
	return fmt.Sprintf(" The machine did other work meanwhile (load %.0f): single figures may be far off.", load)
}

// span writes a time with two or three digits.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f ms", float64(d)/1e6)
}

// count writes a rate with two or three digits.
func count(perSecond float64) string {
	n := int(perSecond)
	for unit := 1; ; unit *= 10 {
		if n/unit < 1000 {
			return thousands((n + unit/2) / unit * unit)
		}
	}
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// missing explains that a server is not there.
func missing(err error, flag string) error {
	if errors.Is(err, servers.ErrUnavailable) {
		return fmt.Errorf("%w; or name one with -%s", err, flag)
	}
	return err
}
