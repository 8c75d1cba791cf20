package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// gate holds runs back in their first superstep.
type gate struct {
	reached chan struct{} // by each run
	open    func()
}

type steps struct {
	N int `json:"n"`
}

// gated is a graph of three supersteps whose first lasts until the gate is open.
func gated(t testing.TB, opts ...graph.Option) (*graph.Graph[steps], *gate) {
	t.Helper()
	shut := make(chan struct{})
	w := &gate{make(chan struct{}, 100), sync.OnceFunc(func() { close(shut) })}
	b := graph.New[steps]("gated")
	b.AddNode("step", func(ctx context.Context, s *steps) error {
		if s.N == 0 {
			w.reached <- struct{}{}
			select {
			case <-shut:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.N++
		return nil
	})
	b.AddEdge(graph.Start, "step")
	b.AddRoutes("step", func(_ context.Context, s *steps) (string, error) {
		if s.N < 3 {
			return "step", nil
		}
		return graph.End, nil
	}, map[string]string{"step": "step", graph.End: graph.End})
	g, err := b.Compile(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g, w
}

// attached is a client that reads an answer until it breaks off.
type attached struct {
	name string
	resp *http.Response
	text strings.Builder // of the answer
	err  error           // at its end
	read chan struct{}
}

func (c client) attach(name, method, path, body string) *attached {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %v %v", name, resp, err)
	}
	a := &attached{name: name, resp: resp, read: make(chan struct{})}
	go func() {
		defer close(a.read)
		defer resp.Body.Close()
		_, a.err = io.Copy(&a.text, resp.Body)
	}()
	return a
}

// within waits for what has to happen, so that a test that hangs says where.
func within[T any](t *testing.T, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
}

// program is a server as programs run it, which the test ends.
func program(t *testing.T, opts ...server.Option) (*server.Server, *http.Server, client) {
	t.Helper()
	s, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := server.HTTPServer(s)
	served := make(chan struct{})
	go func() { defer close(served); _ = h.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		<-served
		now, stop := context.WithCancel(context.Background())
		stop()
		_ = s.Close(now) // of a test that has failed, runs may never end
	})
	return s, h, client{t, "http://" + l.Addr().String()}
}

// A server that is told to end lets go of all who wait for its runs or follow them,
// and leaves the runs to another, where those clients find them.
func TestAServerThatDrainsLetsGoOfWhoeverIsAttached(t *testing.T) {
	for name, data := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(t.TempDir(), "threads.db") },
		"PostgreSQL": func() string { return ownSchema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			g, w := gated(t)
			opts := []server.Option{server.Data(data()), server.Graph(g), quiet()}
			first, h, c := program(t, opts...)
			var next client
			if name == "PostgreSQL" {
				_, _, next = program(t, opts...)
			}
			begin := func() (thread, run string) {
				thread = call[object](c, "POST", "/threads", object{})["thread_id"].(string)
				run = call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "gated", "input": object{}, "stream_resumable": true})["run_id"].(string)
				within(t, "the run begins", w.reached)
				return thread, run
			}
			thread, run := begin()
			at := "/threads/" + thread
			const body = `{"assistant_id":"gated","input":{},"stream_mode":["values"]`
			runs := []*attached{
				c.attach("a run's stream", "GET", at+"/runs/"+run+"/stream", ""),
				c.attach("a run that is joined", "GET", at+"/runs/"+run+"/join", ""),
				c.attach("a queued run that is waited for", "POST", at+"/runs/wait", body+"}"),
				c.attach("a queued run's stream", "POST", at+"/runs/stream", body+"}"),
				c.attach("a queued run's resumable stream", "POST", at+"/runs/stream", body+`,"stream_resumable":true}`),
				c.attach("a run that is streamed", "POST", "/runs/stream", body+`,"on_completion":"keep"}`),
				c.attach("a run that is streamed and resumable", "POST", "/runs/stream", body+`,"on_completion":"keep","stream_resumable":true}`),
				c.attach("a run that is waited for", "POST", "/runs/wait", body+`,"on_completion":"keep"}`),
			}
			for range 3 {
				within(t, "the runs without a thread begin", w.reached)
			}
			threads := []*attached{
				c.attach("a thread that is joined", "GET", at+"/stream", ""),
				c.attach("a thread's events", "POST", at+"/stream/events", `{"channels":["values","lifecycle"]}`),
			}
			p := c.dial(thread)
			p.command("subscription.subscribe", everything)

			drained := make(chan struct{})
			go func() { defer close(drained); first.Drain(t.Context()) }()
			waitFor(t, "the server drains", func() bool {
				status, _, _ := c.do("GET", "/ready", nil)
				return status == http.StatusServiceUnavailable
			})
			w.open()
			within(t, "the server has drained", drained)
			patient, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			if next.url != "" { // before the first one has ended
				if status, _, out := next.ask(patient, "GET", at+"/runs/"+run+"/join", ""); status != http.StatusOK || !strings.Contains(out, `"n":3`) {
					t.Errorf("the other server ends the run with %d %s", status, out)
				}
			}
			var err error
			for err == nil {
				_, _, err = p.conn.Read(patient)
			}
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the WebSocket ends with %v", err)
			}
			if err := h.Shutdown(patient); err != nil {
				t.Errorf("somebody holds it: %v", err)
				h.Close()
			}
			if err := first.Close(patient); err != nil {
				t.Errorf("it ends with %v", err)
			}
			for _, a := range append(runs, threads...) {
				within(t, a.name+" ends", a.read)
			}
			if next.url == "" {
				_, _, next = program(t, opts...)
			}
			for _, a := range append(runs, threads...) {
				// The other server may have ended the run before this one let go: then it is whole.
				whole := a.err == nil && next.url != "" && strings.Contains(a.text.String(), `"n":3`)
				if !whole && !errors.Is(a.err, io.ErrUnexpectedEOF) {
					t.Errorf("%s ends with %v: its client takes it for whole", a.name, a.err)
				}
			}
			for _, a := range runs {
				back := a.resp.Header.Get("Location")
				if back == "" {
					t.Errorf("%s: its client can't come back", a.name)
					continue
				}
				status, _, answer := next.ask(patient, "GET", back, "")
				if status != http.StatusOK || strings.HasSuffix(back, "/join") && !strings.Contains(answer, `"n":`) {
					t.Errorf("%s: %s answers %d %s", a.name, back, status, answer)
				}
			}
			waitFor(t, "all runs are over", func() bool {
				for _, r := range call[[]object](next, "GET", at+"/runs", nil) {
					if r["status"] != "success" {
						return false
					}
				}
				return true
			})
		})
	}
}
