package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/cli"
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

func TestNobodyElseIsLetInUnasked(t *testing.T) {
	dir := t.TempDir()
	_, msg := must(t, cli.ExitUsage, superstep(t, dir, "serve", "--host", "0.0.0.0"))
	if !strings.Contains(msg, "no authentication") || !strings.Contains(msg, "--allow-anyone") {
		t.Errorf("it says %s", msg)
	}
	_, url := serving(t, dir)
	port := url[strings.LastIndexByte(url, ':')+1:]
	_, msg = must(t, cli.ExitError, superstep(t, t.TempDir(), "serve", "--port", port))
	if !strings.Contains(msg, "port "+port+" is taken") {
		t.Errorf("it says %s", msg)
	}
}
