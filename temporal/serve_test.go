package temporal_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/cli"
	httpclient "github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/temporal"
	"github.com/superstep-dev/superstep/temporal/serve"
)

// text is what several goroutines write.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// job is the state of a graph that does something or blocks.
type job struct {
	Do   string             `json:"do"`
	Done graph.List[string] `json:"done"`
}

func jobs() *graph.Graph[job] {
	b := graph.New[job]("jobs")
	b.AddNode("work", func(ctx context.Context, j *job) error {
		if j.Do == "block" {
			if err := graph.EmitMessage(ctx, chat.Chunk{ID: "m", Text: "I block"}); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		j.Done.Add(j.Do)
		return nil
	})
	return b.AddEdge(graph.Start, "work").MustCompile()
}

// where reads where a server says that it is.
func where(t *testing.T, out io.Reader, notes fmt.Stringer) *httpclient.Client {
	t.Helper()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the server did not begin: %v\n%s", err, notes)
	}
	var said struct{ URL string }
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	c, err := httpclient.New(said.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newThread(t *testing.T, c *httpclient.Client) string {
	t.Helper()
	th, err := c.CreateThread(t.Context(), httpclient.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	return th.ID
}

// A server that is told where Temporal is has runs done there, one that is told nothing does
// them itself. Runs end, and are cancelled while they stream.
func TestServeHandsItsRunsToTemporalIfItIsTold(t *testing.T) {
	t.Parallel()
	address, namespace := temporal.OnServer(t).Where()
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := fmt.Sprint(t.Name(), time.Now().UnixNano())
			args := []string{"serve", "--json", "--port", "0", "--store", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}
			if told {
				args = append(args, "--temporal", address, "--temporal-namespace", namespace, "--task-queue", queue)
			} else if os.Getenv("TEMPORAL_ADDRESS") != "" {
				t.Skip("TEMPORAL_ADDRESS tells it")
			}
			ctx, stop := context.WithCancel(t.Context())
			out, in := io.Pipe()
			notes := &text{}
			code := make(chan int, 1)
			go func() {
				code <- cli.Run(ctx, args, strings.NewReader(""), in, notes, cli.Graph(jobs()),
					serve.OnTemporal(temporal.Options{Prefix: queue + "/", Heartbeat: 3 * time.Second}, worker.Options{MaxHeartbeatThrottleInterval: 500 * time.Millisecond}))
				in.Close()
			}()
			defer func() {
				stop()
				if got := <-code; got != cli.ExitDone {
					t.Errorf("the server ended with %d\n%s", got, notes)
				}
			}()
			c := where(t, out, notes)
			thread := newThread(t, c)
			got, err := c.Wait(t.Context(), thread, httpclient.RunRequest{Assistant: "jobs", Input: map[string]any{"do": "this"}})
			if err != nil || !strings.Contains(string(got.Values), `"done":["this"]`) {
				t.Fatalf("%+v, %v", got, err)
			}
			if is := known(t, address, namespace, queue+"/"+thread); is != told {
				t.Errorf("Temporal knows of the run: %v", is)
			}
			if warned := strings.Contains(notes.String(), "no other server can do runs of this one"); warned != told {
				t.Errorf("it says that SQLite can't be shared: %v\n%s", warned, notes)
			}

			run, heard := "", false
			for ev, err := range c.Stream(t.Context(), thread, httpclient.RunRequest{Assistant: "jobs", Input: map[string]any{"do": "block"}, Modes: []httpclient.Mode{httpclient.ModeMessages}}) {
				if err != nil {
					break // which says that it was cancelled
				}
				switch ev.Name {
				case "metadata":
					var about struct {
						Run string `json:"run_id"`
					}
					if err := json.Unmarshal(ev.Data, &about); err != nil {
						t.Fatal(err)
					}
					run = about.Run
				case "messages":
					heard = true
					if err := c.Cancel(t.Context(), thread, run, true); err != nil {
						t.Fatal(err)
					}
				}
			}
			if r, err := c.Run(t.Context(), thread, run); !heard || err != nil || r.Status != "interrupted" {
				t.Errorf("heard it: %v; the run is %+v, %v", heard, r, err)
			}
		})
	}
}

// known reports whether Temporal knows a workflow.
func known(t *testing.T, address, namespace, workflow string) bool {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.DescribeWorkflowExecution(t.Context(), workflow, "")
	return err == nil
}

func TestANamespaceThatIsNotThereIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	address, _ := temporal.OnServer(t).Where()
	out, notes := &text{}, &text{}
	code := cli.Run(t.Context(), []string{"serve", "--port", "0", "--store", "sqlite:" + filepath.Join(t.TempDir(), "a.db"), "--temporal", address, "--temporal-namespace", "nowhere"},
		strings.NewReader(""), out, notes, cli.Graph(jobs()), serve.OnTemporal(temporal.Options{}, worker.Options{}))
	if code != cli.ExitError || !strings.Contains(notes.String(), "nowhere") || !strings.Contains(notes.String(), "--temporal-namespace") {
		t.Errorf("%d %s", code, notes)
	}
}

// superstep starts the command, serving its examples, and returns a client of it.
func superstep(t *testing.T, program string, args ...string) (*exec.Cmd, *httpclient.Client) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"serve", "--demo", "--json", "--port", "0"}, args...)...)
	notes := &text{}
	cmd.Stderr = notes
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, where(t, out, notes)
}

// The server that was asked for a run is killed in the middle of it, and the other one tells
// what it led to, as if nobody had killed.
func TestOfTwoServersOnTemporalOneIsKilled(t *testing.T) {
	t.Parallel()
	address, namespace := temporal.OnServer(t).Where()
	url := servertest.Postgres(t)
	join := "?"
	if strings.Contains(url, "?") {
		join = "&"
	}
	url += fmt.Sprintf("%sschema=served_%d", join, os.Getpid())
	program := filepath.Join(t.TempDir(), "superstep")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/superstep").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args := []string{"--store", url, "--temporal", address, "--temporal-namespace", namespace, "--task-queue", fmt.Sprint(t.Name(), time.Now().UnixNano())}
	first, one := superstep(t, program, args...)
	_, two := superstep(t, program, args...)

	trip := httpclient.RunRequest{Assistant: "trip", Input: map[string]any{"days": 2}, Modes: []httpclient.Mode{httpclient.ModeCustom}}
	thread, run := newThread(t, one), ""
	for ev, err := range one.Stream(t.Context(), thread, trip) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name == "metadata" {
			var about struct {
				Run string `json:"run_id"`
			}
			if err := json.Unmarshal(ev.Data, &about); err != nil {
				t.Fatal(err)
			}
			run = about.Run
		}
		if ev.Name == "custom" { // the prices are being asked for
			break
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	out, err := two.Join(t.Context(), thread, run)
	if err != nil || len(out.Interrupts) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}

	calm := newThread(t, two)
	if _, err := two.Wait(t.Context(), calm, trip); err != nil {
		t.Fatal(err)
	}
	var ends, steps [2]string
	for i, thread := range []string{thread, calm} {
		out, err := two.Wait(t.Context(), thread, httpclient.RunRequest{Assistant: "trip", Command: &httpclient.Command{Resume: "Oslo"}})
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = string(out.Values)
		n := 0
		for _, err := range two.History(t.Context(), thread, httpclient.HistoryQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		steps[i] = fmt.Sprint(n, " checkpoints")
	}
	if ends[0] != ends[1] || !strings.Contains(ends[0], "2 days in Oslo") || steps[0] != steps[1] {
		t.Errorf("killed: %s, %s\nnot:    %s, %s", ends[0], steps[0], ends[1], steps[1])
	}
}
