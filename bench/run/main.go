// Run builds the peers, measures each workload with one after the other, round
// after round, and prints a table of medians beside ours and the goals.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/bench/measure"
)

// ours is measured first and is what the others are compared with.
const ours = "superstep"

var peers = []string{ours, "langgraphgo", "eino", "adk", "trpcagent", "langgraphjs"}

func main() {
	rounds := flag.Int("rounds", 5, "how often each workload is measured with each peer")
	each := flag.Duration("for", 500*time.Millisecond, "how long it is measured at least")
	only := flag.String("peers", strings.Join(peers, ","), "the folders to measure, ours among them")
	limit := flag.Duration("limit", 3*time.Minute, "after which a measurement is given up")
	cpu := flag.Bool("cpu", false, "print the time of all cores instead of the clock's, for a machine that isn't idle")
	from := flag.String("from", "", "print what an earlier run wrote to this file, measuring nothing")
	write := flag.String("write", "", "a page whose table to replace, between the comments <!-- bench --> and <!-- /bench -->")
	flag.Parse()
	t := table{cpu: *cpu, results: map[[2]string][]measure.Result{}}
	var err error
	if *from != "" {
		err = t.read(*from)
	} else {
		err = t.measure(strings.Split(*only, ","), *rounds, *each, *limit)
	}
	if err == nil && t.results[[2]string{ours, measure.Workloads[0].Name}] == nil {
		err = fmt.Errorf("no results of %s, with which the others are compared", ours)
	}
	if err == nil {
		fmt.Print(t.markdown())
		if *write != "" {
			err = replace(*write, t.markdown())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// table has what was measured, by folder and workload.
type table struct {
	cpu     bool
	peers   []string // in order
	absent  []string // why a peer could not be measured
	results map[[2]string][]measure.Result
}

// A line of the file of results.
type line struct {
	Folder string         `json:"folder"`
	Absent string         `json:"absent,omitempty"` // why it could not be built
	Result measure.Result `json:"result"`
}

func (t *table) add(l line) {
	if l.Absent != "" {
		t.absent = append(t.absent, l.Folder+": "+l.Absent)
		return
	}
	if !slices.Contains(t.peers, l.Folder) {
		t.peers = append(t.peers, l.Folder)
	}
	at := [2]string{l.Folder, l.Result.Workload}
	t.results[at] = append(t.results[at], l.Result)
}

func (t *table) read(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var l line
		if err := dec.Decode(&l); err != nil {
			return err
		}
		t.add(l)
	}
	return nil
}

// measure goes through the workloads, with all peers after each other, and then
// again: what the machine does beside it meets all of them. What is slow enough
// is measured once.
func (t *table) measure(folders []string, rounds int, each, limit time.Duration) error {
	if err := os.MkdirAll("results", 0o755); err != nil {
		return err
	}
	name := filepath.Join("results", time.Now().UTC().Format("20060102-150405")+".jsonl")
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	fmt.Fprintln(os.Stderr, "results in", name)
	out := json.NewEncoder(file)
	keep := func(l line) error {
		t.add(l)
		return out.Encode(l)
	}
	programs := map[string][]string{}
	for _, folder := range folders {
		program, err := build(folder)
		if err != nil {
			if err := keep(line{Folder: folder, Absent: err.Error()}); err != nil {
				return err
			}
			continue
		}
		programs[folder] = program
	}
	done := map[[2]string]bool{}
	for round := range rounds {
		for _, w := range measure.Workloads {
			for _, folder := range folders {
				at := [2]string{folder, w.Name}
				if programs[folder] == nil || done[at] {
					continue
				}
				began := time.Now()
				r := one(programs[folder], w.Name, each, limit)
				done[at] = r.NA != "" || time.Since(began) > limit/10
				if err := keep(line{Folder: folder, Result: r}); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return nil
}

// build returns the command that runs a peer.
func build(folder string) ([]string, error) {
	name, args := "go", []string{"build", "-buildvcs=false", "-p", "1", "-o", "../results/" + folder, "."}
	program := []string{"./" + folder}
	if _, err := os.Stat(filepath.Join(folder, "package.json")); err == nil {
		name, args = "npm", []string{"ci", "--no-audit", "--no-fund"}
		program = []string{"node", "../" + folder + "/main.js"}
		if _, err := os.Stat(filepath.Join(folder, "node_modules")); err == nil {
			return program, nil
		}
	}
	fmt.Fprintln(os.Stderr, "building", folder)
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=") // no race detector, whatever is set for tests
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, lines[len(lines)-1])
	}
	return program, nil
}

// one measures a workload once, in a process of its own.
func one(program []string, workload string, each, limit time.Duration) measure.Result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], "--workload", workload, "--for", fmt.Sprint(each.Milliseconds(), "ms"))...)
	cmd.Dir = "results"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	r := measure.Result{Workload: workload}
	if ctx.Err() != nil {
		r.NA = fmt.Sprintf("took more than %s", limit)
		return r
	}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		r.NA = fmt.Sprintf("failed: %v", err)
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n%s", program, workload, err, stderr.Bytes())
	}
	return r
}

func (t *table) time(r measure.Result) float64 {
	if t.cpu {
		return r.CPU
	}
	return r.Ns
}

// median returns that of a figure of a peer's results, or false without any.
func (t *table) median(folder, workload string, of func(measure.Result) float64) (float64, bool) {
	var all []float64
	for _, r := range t.results[[2]string{folder, workload}] {
		if r.NA == "" {
			all = append(all, of(r))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2, true
}

// markdown is the table: a row for each workload, ours first, then the goal.
func (t *table) markdown() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, p := range t.peers {
		fmt.Fprintf(&b, " %s |", t.heading(p))
		if p == ours {
			b.WriteString(" goal (ours in goals) |")
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(t.peers)+1) + "\n")
	var notes []string
	note := func(text string) string {
		i := slices.Index(notes, text)
		if i < 0 {
			notes = append(notes, text)
			i = len(notes) - 1
		}
		return fmt.Sprintf(" [%d]", i+1)
	}
	for _, w := range measure.Workloads {
		fmt.Fprintf(&b, "| %s |", w.Title)
		our, _ := t.median(ours, w.Name, t.time)
		for _, p := range t.peers {
			rs := t.results[[2]string{p, w.Name}]
			if len(rs) == 0 {
				b.WriteString(" |")
				continue
			}
			r := rs[len(rs)-1]
			cell := "n/a"
			if m, ok := t.median(p, w.Name, t.time); ok {
				cell = duration(m)
				if p != ours && our > 0 {
					cell += fmt.Sprintf(" (%s ×)", short(m/our))
				}
				if a, _ := t.median(p, w.Name, func(r measure.Result) float64 { return r.Allocs }); a > 0 {
					cell += ", " + count(a) + " allocations"
				}
				if d, _ := t.median(p, w.Name, func(r measure.Result) float64 { return r.Stored }); d > 0 {
					cell += ", " + size(d) + " on disk"
				}
				if r.Note != "" {
					cell += note(r.Note)
				}
			} else {
				cell += note(r.NA)
			}
			fmt.Fprintf(&b, " %s |", cell)
			if p == ours {
				fmt.Fprintf(&b, " %s |", t.goal(w))
			}
		}
		b.WriteString("\n")
	}
	for _, store := range []string{"memory", "sqlite"} {
		fmt.Fprintf(&b, "| 400 turns against 200, %s |", map[string]string{"memory": "in memory: time, bytes allocated", "sqlite": "on SQLite: time, bytes on disk"}[store])
		for _, p := range t.peers {
			space := func(r measure.Result) float64 { return r.Bytes }
			if store == "sqlite" {
				space = func(r measure.Result) float64 { return r.Stored }
			}
			fmt.Fprintf(&b, " %s |", t.growth(p, "turns-"+store, t.time, space))
			if p == ours {
				b.WriteString(" 2.1 ×, 2.1 × |")
			}
		}
		b.WriteString("\n")
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "\n[%d] %s.", i+1, n)
		if i+1 < len(notes) {
			b.WriteString("  ")
		}
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for _, a := range t.absent {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", a)
	}
	return b.String()
}

func (t *table) heading(folder string) string {
	for _, w := range measure.Workloads {
		for _, r := range t.results[[2]string{folder, w.Name}] {
			if r.Peer != "" {
				return r.Peer + map[bool]string{false: " " + r.Version}[folder == ours]
			}
		}
	}
	return folder
}

func (t *table) growth(p, workload string, of ...func(measure.Result) float64) string {
	var all []string
	for _, f := range of {
		few, _ := t.median(p, workload, f)
		many, _ := t.median(p, workload+"-400", f)
		if few > 0 && many > 0 {
			all = append(all, fmt.Sprintf("%.1f ×", many/few))
		}
	}
	return strings.Join(all, ", ")
}

// goal says what is wanted and how many times that we take.
func (t *table) goal(w measure.Workload) string {
	var all []string
	add := func(want float64, format func(float64) string, of func(measure.Result) float64) {
		if m, ok := t.median(ours, w.Name, of); ok && want > 0 {
			all = append(all, fmt.Sprintf("%s (%s ×)", format(want), short(m/want)))
		}
	}
	add(w.Goal.Ns, duration, t.time)
	add(w.Goal.Allocs, func(n float64) string { return count(n) + " allocations" }, func(r measure.Result) float64 { return r.Allocs })
	add(w.Goal.Stored, func(n float64) string { return size(n) + " on disk" }, func(r measure.Result) float64 { return r.Stored })
	if w.Name == "sqlite" {
		if bare, ok := t.median(ours, "commits", t.time); ok {
			add(1.2*bare, func(n float64) string { return "or 1.2 × the commits: " + duration(n) }, t.time)
		}
	}
	return strings.Join(all, ", ")
}

func duration(ns float64) string {
	for _, u := range []struct {
		over float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if ns >= u.over {
			return short(ns/u.over) + " " + u.name
		}
	}
	return short(ns/1e3) + " µs"
}

func size(bytes float64) string {
	if bytes >= 1e5 {
		return short(bytes/1e6) + " MB"
	}
	return short(bytes/1e3) + " kB"
}

// short has two digits, or all before the point.
func short(x float64) string {
	switch {
	case x < 1:
		return fmt.Sprintf("%.2f", x)
	case x < 10:
		return fmt.Sprintf("%.1f", x)
	}
	return count(x)
}

// count groups the digits of a number by three.
func count(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

var between = regexp.MustCompile(`(?s)(<!-- bench -->\n).*(<!-- /bench -->)`)

// replace puts a table into a page.
func replace(name, table string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !between.Match(page) {
		return fmt.Errorf("%s has no <!-- bench --> and <!-- /bench -->", name)
	}
	at := between.FindSubmatchIndex(page)
	page = slices.Concat(page[:at[3]], []byte("\n"+table+"\n"), page[at[4]:])
	return os.WriteFile(name, page, 0o644)
}
