package program

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// serving starts a server in dir and returns where it is.
func serving(t *testing.T, dir string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := superstep(t, dir, append([]string{"serve", "--demo", "--port", "0", "--json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ URL string }
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return cmd, said.URL
}

// ask sends a request and decodes the answer.
func ask[T any](t *testing.T, method, url string, body any) (v T) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(method, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s", method, url, answer.Status, text)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

type m = map[string]any

// A run goes on with the next server where its own was killed, however often.
func TestRunsOutliveTheirServer(t *testing.T) {
	dir := t.TempDir()
	cmd, url := serving(t, dir)
	thread := ask[m](t, "POST", url+"/threads", m{})["thread_id"].(string)
	run := ask[m](t, "POST", url+"/threads/"+thread+"/runs", m{"assistant_id": "trip", "input": m{"days": 2}})["run_id"].(string)
	for range 3 {
		// Somewhere in the middle: the first superstep takes no time, the second some.
		for len(ask[[]any](t, "POST", url+"/threads/"+thread+"/history", m{})) < 2 {
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		cmd, url = serving(t, dir)
	}
	out := ask[m](t, "GET", url+"/threads/"+thread+"/runs/"+run+"/join", nil)
	if costs, ok := out["costs"].(m); !ok || len(costs) != 3 || out["__interrupt__"] == nil {
		t.Errorf("the run came to %v", out)
	}
	if got := ask[m](t, "GET", url+"/threads/"+thread+"/runs/"+run, nil)["status"]; got != "interrupted" {
		t.Errorf("the run is %v", got)
	}
	out = ask[m](t, "POST", url+"/threads/"+thread+"/runs/wait", m{"assistant_id": "trip", "command": m{"resume": "Oslo"}})
	if out["booked"] != "2 days in Oslo" {
		t.Errorf("after the answer: %v", out)
	}
}

// A server that is told to end lets a run finish its superstep, and the next one
// goes on with it.
func TestAServerThatEndsLeavesItsRunsToTheNext(t *testing.T) {
	dir := t.TempDir()
	cmd, url := serving(t, dir)
	thread := ask[m](t, "POST", url+"/threads", m{})["thread_id"].(string)
	run := ask[m](t, "POST", url+"/threads/"+thread+"/runs", m{"assistant_id": "trip", "input": m{}})["run_id"].(string)
	for len(ask[[]any](t, "POST", url+"/threads/"+thread+"/history", m{})) < 2 {
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	_, url = serving(t, dir)
	if out := ask[m](t, "GET", url+"/threads/"+thread+"/runs/"+run+"/join", nil); out["__interrupt__"] == nil {
		t.Errorf("the run came to %v", out)
	}
}

// So it does while clients are attached, whose connections it ends; on a database that
// it shares, the other server goes on with the runs.
func TestAServerThatEndsIsHeldByNobody(t *testing.T) {
	for name, args := range map[string][]string{"SQLite": nil, "PostgreSQL": {"--store", servertest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd, url := serving(t, dir, args...)
			thread := ask[m](t, "POST", url+"/threads", m{})["thread_id"].(string)
			at := "/threads/" + thread
			run := ask[m](t, "POST", url+at+"/runs", m{"assistant_id": "trip", "input": m{}})["run_id"].(string)
			var done sync.WaitGroup
			attach := func(method, path, body string) {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("%s: %v %v", path, answer, err)
				}
				done.Go(func() {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				})
			}
			attach("GET", at+"/stream", "")
			attach("POST", at+"/stream/events", `{"channels":["values"]}`)
			attach("GET", at+"/runs/"+run+"/stream", "")
			attach("POST", at+"/runs/stream", `{"assistant_id":"trip","input":{}}`)
			attach("POST", "/runs/stream", `{"assistant_id":"trip","input":{},"stream_resumable":true}`)
			attach("POST", "/runs/stream", `{"assistant_id":"trip","input":{},"stream_resumable":false}`)
			if args != nil {
				_, url = serving(t, dir, args...)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			done.Wait()
			if args == nil {
				_, url = serving(t, dir)
			}
			if out := ask[m](t, "GET", url+at+"/runs/"+run+"/join", nil); out["__interrupt__"] == nil {
				t.Errorf("the run came to %v", out)
			}
		})
	}
}

func TestNobodyElseIsLetInUnasked(t *testing.T) {
	dir := t.TempDir()
	_, msg := must(t, cli.ExitUsage, superstep(t, dir, "serve", "--demo", "--host", "0.0.0.0"))
	if !strings.Contains(msg, "no authentication") || !strings.Contains(msg, "--allow-anyone") {
		t.Errorf("it says %s", msg)
	}
	_, url := serving(t, dir)
	port := url[strings.LastIndexByte(url, ':')+1:]
	_, msg = must(t, cli.ExitError, superstep(t, t.TempDir(), "serve", "--demo", "--port", port))
	if !strings.Contains(msg, "port "+port+" is taken") {
		t.Errorf("it says %s", msg)
	}
}

func TestOnlyExamplesAreServed(t *testing.T) {
	dir := t.TempDir()
	_, msg := must(t, cli.ExitUsage, superstep(t, dir, "serve", "--port", "0"))
	if !strings.Contains(msg, "nothing to serve") || !strings.Contains(msg, "--demo") || !strings.Contains(msg, "cli.Main") {
		t.Errorf("it says %s", msg)
	}
	_, url := serving(t, dir)
	var names []string
	for _, a := range ask[[]m](t, "POST", url+"/assistants/search", m{}) {
		names = append(names, a["graph_id"].(string))
	}
	slices.Sort(names)
	if want := []string{"approval", "assistant", "banking", "grader", "hello", "trip"}; !slices.Equal(names, want) {
		t.Errorf("%v are served, not %v", names, want)
	}
}

// fleet is several servers on one database, behind no proxy: a client goes to
// whichever lives.
type fleet struct {
	t    *testing.T
	args []string

	mu      sync.Mutex
	servers []*exec.Cmd
	urls    []string
}

func (f *fleet) add(i int) {
	cmd, url := serving(f.t, f.t.TempDir(), f.args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if i == len(f.urls) {
		f.servers, f.urls = append(f.servers, nil), append(f.urls, "")
	}
	f.servers[i], f.urls[i] = cmd, url
}

func (f *fleet) kill(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.servers[i].Process.Kill()
	_ = f.servers[i].Wait()
}

func (f *fleet) any() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.urls[rand.IntN(len(f.urls))]
}

// watch runs a graph and reads its stream to the end, from whichever server
// answers. It returns the names of the events; their IDs must grow.
func (f *fleet) watch(thread string) (events []string, last string) {
	body := `{"assistant_id":"trip","input":{"days":2},"stream_mode":["updates","custom"],"if_not_exists":"create","multitask_strategy":"reject"}`
	at, back := -1, ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		method, url := "POST", f.any()+"/threads/"+thread+"/runs/stream"
		if back != "" {
			method, url = "GET", f.any()+back
		}
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			f.t.Error(err)
			return nil, ""
		}
		if back != "" {
			r.Header.Set("Last-Event-ID", strconv.Itoa(at))
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		if answer.StatusCode == http.StatusUnprocessableEntity {
			// The request reached a server that died before it could say so.
			answer.Body.Close()
			var runs []m
			if list, err := http.Get(f.any() + "/threads/" + thread + "/runs"); err == nil {
				_ = json.NewDecoder(list.Body).Decode(&runs)
				list.Body.Close()
			}
			if len(runs) > 0 {
				back = "/threads/" + thread + "/runs/" + runs[0]["run_id"].(string) + "/stream"
			}
			continue
		}
		if answer.StatusCode != http.StatusOK {
			answer.Body.Close()
			continue
		}
		if to := answer.Header.Get("Location"); to != "" {
			back = to
		}
		var name, data string
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "event":
				name = value
			case "data":
				data = value
			case "id":
				id, _ := strconv.Atoi(value)
				if id <= at {
					f.t.Errorf("thread %s: event %d after %d", thread, id, at)
				}
				at = id
				events, last = append(events, name), data
			}
		}
		answer.Body.Close()
		if lines.Err() == nil { // an orderly end
			return events, last
		}
	}
	f.t.Errorf("thread %s: no end", thread)
	return events, last
}

// Servers on one database take over from those that are killed. No run is lost,
// each stream is whole and has no event twice, and no superstep is there twice. It
// goes on for at least as many kills as the environment variable SUPERSTEP_KILLS
// asks for.
func TestServersTakeOverFromEachOther(t *testing.T) {
	f := &fleet{t: t, args: []string{"--store", servertest.Postgres(t)}}
	for i := range 3 {
		f.add(i)
	}
	least := 2
	if n, err := strconv.Atoi(os.Getenv("SUPERSTEP_KILLS")); err == nil {
		least = n
	}
	var done sync.WaitGroup
	var kills atomic.Int64
	for range 8 {
		done.Go(func() {
			for i := 0; i < 3 || int(kills.Load()) < least; i++ {
				thread := string(checkpoint.NewRunID())
				events, last := f.watch(thread)
				if !strings.Contains(last, "Which city shall it be?") {
					t.Errorf("thread %s: %d events, the last is %s", thread, len(events), last)
				}
				var history []m
				answer, err := http.Get(f.any() + "/threads/" + thread + "/history")
				if err != nil { // it was just killed
					continue
				}
				data, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil {
					continue
				}
				if err := json.Unmarshal(data, &history); err != nil || len(history) != 4 { // with what is before the first
					t.Errorf("thread %s: %d checkpoints, want 4: %s, %v: %.300s", thread, len(history), answer.Status, err, data)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { done.Wait(); close(over) }()
	for i := 0; ; i = (i + 1) % 3 {
		select {
		case <-over:
			t.Logf("%d servers were killed", kills.Load())
			return
		case <-time.After(700 * time.Millisecond):
			f.kill(i)
			kills.Add(1)
			f.add(i)
		}
	}
}
