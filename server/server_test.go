package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// trip is the state of a graph that asks before it books.
type trip struct {
	Messages chat.History `json:"messages"`
	City     string       `json:"city"`
	Booked   bool         `json:"booked"`
}

func booking(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("booking")
	b.AddNode("plan", func(ctx context.Context, s *trip) error {
		if s.City == "" {
			s.City = "Ulm"
		}
		s.Messages.Add(chat.AI("Off to " + s.City))
		return nil
	})
	b.AddNode("book", func(ctx context.Context, s *trip) error {
		yes, err := graph.Interrupt[bool](ctx, "sure", map[string]string{"question": "Book " + s.City + "?"})
		if err != nil {
			return err
		}
		s.Booked = yes
		return nil
	})
	b.AddEdge(graph.Start, "plan")
	b.AddEdge("plan", "book")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// client calls a server.
type client struct {
	t   testing.TB
	url string
}

func start(t testing.TB, opts ...server.Option) client {
	t.Helper()
	s, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client{t, h.URL}
}

func (c client) do(method, path string, body any) (status int, header http.Header, answer string) {
	c.t.Helper()
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		if raw, ok := body.(string); ok {
			data = []byte(raw)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, c.url+path, r)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

// call is do for what must succeed; it decodes the answer.
func call[T any](c client, method, path string, body any) T {
	c.t.Helper()
	status, _, answer := c.do(method, path, body)
	var v T
	if status >= 300 {
		c.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if status != http.StatusNoContent && status != http.StatusAccepted {
		if err := json.Unmarshal([]byte(answer), &v); err != nil {
			c.t.Fatalf("%s %s: %v: %s", method, path, err, answer)
		}
	}
	return v
}

type object = map[string]any

func TestAThreadIsAskedAnsweredAndRemembered(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	asked := out["__interrupt__"].([]any)[0].(object)
	if got := fmt.Sprint(asked["value"]); got != "map[question:Book Bonn?]" {
		t.Errorf("it asks %s", got)
	}
	if got := call[object](c, "GET", "/threads/"+thread, nil)["status"]; got != "interrupted" {
		t.Errorf("the thread is %v", got)
	}
	state := call[object](c, "GET", "/threads/"+thread+"/state", nil)
	if got := fmt.Sprint(state["next"]); got != "[book]" {
		t.Errorf("next is %s", got)
	}
	out = call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "command": object{"resume": true}})
	if out["booked"] != true {
		t.Errorf("after the answer: %v", out)
	}
	history := call[[]object](c, "POST", "/threads/"+thread+"/history", object{})
	var lines []string
	for _, h := range history {
		lines = append(lines, fmt.Sprintf("%v %v %v %d %v", h["metadata"].(object)["source"], h["metadata"].(object)["step"], h["next"], len(h["tasks"].([]any)), h["values"].(object)["booked"]))
	}
	if got, want := strings.Join(lines, "\n"), "loop 2 [] 0 true\nloop 1 [book] 1 false\nloop 0 [plan] 1 false\ninput -1 [__start__] 1 false"; got != want {
		t.Errorf("history:\n%s\nwant\n%s", got, want)
	}
	for i, h := range history[:len(history)-1] {
		if got, want := h["parent_checkpoint"].(object)["checkpoint_id"], history[i+1]["checkpoint"].(object)["checkpoint_id"]; got != want {
			t.Errorf("the parent of checkpoint %d is %v, want %v", i, got, want)
		}
	}
}

func TestARunIsStreamed(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	_, header, body := c.do("POST", "/threads/"+thread+"/runs/stream", object{
		"assistant_id": "booking", "input": object{"messages": []object{{"type": "human", "content": "Go", "id": "1"}}},
		"stream_mode": []string{"values", "updates", "messages-tuple", "checkpoints", "tasks"},
	})
	var names []string
	for _, line := range strings.Split(body, "\n") {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, name)
		}
	}
	if got, want := strings.Join(names, " "), "metadata checkpoints checkpoints values tasks tasks messages updates checkpoints values tasks values updates"; got != want {
		t.Errorf("events:\n%s\nwant\n%s", got, want)
	}
	if got := header.Get("Location"); got != header.Get("Content-Location")+"/stream" || !strings.HasPrefix(got, "/threads/"+thread+"/runs/") {
		t.Errorf("Location is %q, Content-Location %q", got, header.Get("Content-Location"))
	}
}

// What a task wrote is streamed when it is recorded: its sibling is still at work. The
// checkpoint that commits both comes after, and tells neither again.
func TestUpdatesAreStreamedBeforeTheSuperstepEnds(t *testing.T) {
	goOn := make(chan struct{})
	b := graph.New[trip]("halves")
	b.AddNode("fast", func(_ context.Context, s *trip) error { s.City = "Ulm"; return nil })
	b.AddNode("slow", func(ctx context.Context, s *trip) error {
		select {
		case <-goOn:
			s.Booked = true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	g, err := b.AddEdge(graph.Start, "fast").AddEdge(graph.Start, "slow").Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Graph(g))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	resp, err := http.Post(c.url+"/threads/"+thread+"/runs/stream", "application/json",
		strings.NewReader(`{"assistant_id":"halves","input":{},"stream_mode":["updates","checkpoints"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var told []string
	event := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case ok && event == "updates":
			told = append(told, data)
			if strings.Contains(data, "fast") {
				close(goOn) // until then the stream has nothing more to say
			}
		case ok:
			told = append(told, event)
		}
	}
	want := `metadata checkpoints checkpoints {"fast":{"city":"Ulm"}} {"slow":{"booked":true}} checkpoints`
	if got := strings.Join(told, " "); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// A client reads from IDs what it has missed of a run, whatever else is told of the thread.
func TestEventsOfARunAreNumberedFromZero(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	c.follow(thread, everything)
	ids := func(body string) string { return strings.Join(eventIDs(body), " ") }
	for range 2 {
		_, header, body := c.do("POST", "/threads/"+thread+"/runs/stream", object{"assistant_id": "booking", "input": object{"city": "Ulm"}, "stream_mode": "updates"})
		if got := ids(body); got != "0 1 2" {
			t.Errorf("the IDs are %s:\n%s", got, body)
		}
		path := header.Get("Location")
		for last, want := range map[string]string{"-1": "0 1 2", "0": "1 2", "2": "", "99999": ""} {
			if _, _, rest := c.ask(t.Context(), "GET", path, "", "Last-Event-ID", last); ids(rest) != want {
				t.Errorf("after %s there is %q", last, rest)
			}
		}
	}
}

// eventIDs returns the IDs of a stream's events.
func eventIDs(body string) (out []string) {
	for line := range strings.Lines(body) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			out = append(out, strings.TrimSpace(id))
		}
	}
	return out
}
