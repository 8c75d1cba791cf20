package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// storeURLs returns, for each kind of store that outlives a process, what gives
// the URL of one to a test, or skips the test.
func storeURLs(dir string) map[string]func(t testing.TB) string {
	unique := fmt.Sprintf("cli_test_%d", time.Now().UnixNano())
	with := func(url, option string) string {
		sep := "?"
		if strings.Contains(url, "?") {
			sep = "&"
		}
		return url + sep + option + "=" + unique
	}
	return map[string]func(t testing.TB) string{
		"file":     func(testing.TB) string { return "file:" + filepath.Join(dir, "threads") },
		"sqlite":   func(testing.TB) string { return "sqlite:" + filepath.Join(dir, "t.db") },
		"postgres": func(t testing.TB) string { return with(servertest.Postgres(t), "schema") },
		"redis":    func(t testing.TB) string { return with(servertest.Redis(t), "prefix") },
	}
}

// Every command works over every kind of store, and none shows the password of a
// URL.
func TestEveryStore(t *testing.T) {
	t.Cleanup(servertest.Stop)
	for name, urlFor := range storeURLs(t.TempDir()) {
		t.Run(name, func(t *testing.T) {
			url := urlFor(t)
			run := func(code int, args ...string) []byte {
				t.Helper()
				var out, errs bytes.Buffer
				args = append([]string{"--store", url, "--json"}, args...)
				got := cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs, cli.Program("flow", ""), cli.Graph(jokes()), cli.Graph(fan()), cli.Graph(nap()), cli.Graph(order()))
				if got != code {
					t.Fatalf("%q: exit code %d, want %d\n%s%s", args, got, code, out.Bytes(), errs.Bytes())
				}
				if all := out.String() + errs.String(); strings.Contains(all, "secret") {
					t.Errorf("%q shows the password:\n%s", args, all)
				}
				return out.Bytes()
			}
			get := func(v any, args ...string) {
				t.Helper()
				if err := json.Unmarshal(run(0, args...), v); err != nil {
					t.Fatalf("%q: %v", args, err)
				}
			}
			run(3, "run", "jokes", "-t", "j", "--input", `{"topic": "cats"}`)
			run(3, "resume", "-t", "j", "-a", "no")
			run(0, "run", "fan", "-t", "f", "--input", `{"n": 20}`)
			run(3, "run", "order", "-t", "o")
			slept := time.Now()
			run(3, "run", "nap", "-t", "n", "--input", `{"millis": 500}`)

			var threads []struct {
				Thread, Status string
				Due            *time.Time
			}
			get(&threads, "threads")
			status := map[string]string{}
			for _, th := range threads {
				status[th.Thread] = th.Status
				if th.Due == nil == (th.Thread == "n") {
					t.Errorf("thread %s is due at %v", th.Thread, th.Due)
				}
			}
			if fmt.Sprint(status) != "map[f:done j:interrupted n:waiting o:waiting]" {
				t.Errorf("threads: %v", status)
			}
			var none []any
			if get(&none, "threads", "--stuck"); len(none) > 0 {
				t.Errorf("stuck: %v", none)
			}
			run(0, "copy", "j", "j2")
			run(1, "copy", "j", "j2")
			run(0, "update", "-t", "j2", "--input", `{"topic": "dogs"}`)
			var diff []struct{ Op, Path string }
			if get(&diff, "diff", "j", "j2"); len(diff) != 1 || diff[0].Path != "topic" {
				t.Errorf("diff: %v", diff)
			}
			var stats struct {
				Threads []struct {
					Thread         string
					Records, Bytes int64
				}
				Fields []any
			}
			if get(&stats, "stats"); len(stats.Threads) != 5 || len(stats.Fields) == 0 || stats.Threads[0].Records == 0 || stats.Threads[0].Bytes == 0 {
				t.Errorf("stats: %+v", stats)
			}
			var history []struct{ Checkpoint string }
			get(&history, "history", "-t", "j")
			var pruned struct{ Kept, Removed int }
			if get(&pruned, "prune", "j", "--last", "2"); pruned.Removed == 0 || pruned.Kept+pruned.Removed != len(history) {
				t.Errorf("prune: %+v of %d", pruned, len(history))
			}
			run(0, "prune", "--all", "--newer", "1d")
			var damage struct{ Found, Left []any }
			if get(&damage, "repair"); damage.Found == nil || len(damage.Found) > 0 {
				t.Errorf("damage: %v", damage)
			}
			run(0, "events", "send", "o", "paid", "12.5")
			time.Sleep(time.Until(slept.Add(time.Second)))
			run(0, "runner", "--once")
			var state struct {
				State struct {
					Paid   float64
					Rested bool
				}
			}
			if get(&state, "state", "-t", "o"); state.State.Paid != 12.5 {
				t.Errorf("order: %+v", state)
			}
			if get(&state, "state", "-t", "n"); !state.State.Rested {
				t.Errorf("nap: %+v", state)
			}
			run(0, "resume", "-t", "j", "-a", "yes")
			for _, id := range []string{"j", "j2", "f", "o", "n"} {
				run(0, "delete", "-t", id, "--yes")
			}
			if get(&none, "threads"); len(none) > 0 {
				t.Errorf("left: %v", none)
			}
		})
	}
}

// A runner that is stopped leaves what it was running to the next one.
func TestRunnerStops(t *testing.T) {
	dir := t.TempDir()
	start := program(t, dir, "flow", "run", "slow", "-t", "s", "-q")
	if err := start.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, filepath.Join(dir, "started"))
	_ = start.Process.Kill()
	_ = start.Wait()
	if err := os.Remove(filepath.Join(dir, "started")); err != nil {
		t.Fatal(err)
	}

	var out, errs bytes.Buffer
	runner := program(t, dir, "flow", "runner", "--poll", "20ms")
	runner.Stdout, runner.Stderr = &out, &errs
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	// The lease of the run that was killed must run out.
	await(t, filepath.Join(dir, "started"))
	if err := runner.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := runner.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.Bytes(), errs.Bytes())
	}
	if !strings.Contains(out.String(), "thread s (slow): run died, now stopped") || !strings.Contains(errs.String(), "Stopping.") {
		t.Errorf("the runner says:\n%s%s", out.Bytes(), errs.Bytes())
	}

	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := program(t, dir, "flow", "runner", "--once").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "thread s (slow): due, now done") {
		t.Errorf("the next runner says: %v\n%s", err, text)
	}
}
