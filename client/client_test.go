package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

type trip struct {
	Messages chat.History `json:"messages"`
	City     string       `json:"city"`
	Booked   bool         `json:"booked"`
}

// booking asks before it books. It waits for gate, if there is one, before it
// plans.
func booking(t testing.TB, gate <-chan struct{}) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("booking")
	b.AddNode("plan", func(ctx context.Context, s *trip) error {
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if s.City == "nowhere" {
			return errors.New("there is no such city")
		}
		s.Messages.Add(chat.AI("Off to " + s.City))
		return graph.Emit(ctx, map[string]string{"planned": s.City})
	})
	b.AddNode("book", func(ctx context.Context, s *trip) (err error) {
		s.Booked, err = graph.Interrupt[bool](ctx, "sure", "Book "+s.City+"?")
		return err
	})
	b.AddEdge(graph.Start, "plan").AddEdge("plan", "book")
	return b.MustCompile()
}

// serve serves the graph, with middleware around it, and returns where.
func serve(t testing.TB, gate <-chan struct{}, around func(http.Handler) http.Handler, opts ...server.Option) string {
	t.Helper()
	opts = append(opts, server.Graph(booking(t, gate), server.Describe("Books trips.")), server.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	s, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	var h http.Handler = s
	if around != nil {
		h = around(s)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return web.URL
}

func open(t testing.TB, url string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// must returns a value that came without an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// all collects a sequence.
func all[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for one, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// names collects a stream: the names of its events, those of a mode once in a row.
func names(t testing.TB, seq func(func(client.Event, error) bool)) []string {
	t.Helper()
	var out []string
	for ev, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if len(out) == 0 || out[len(out)-1] != ev.Name {
			out = append(out, ev.Name)
		}
	}
	return out
}

func TestAGraphIsRunAskedAndResumed(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil))
	info := must(c.Info(ctx))(t)
	if !info.Flags["assistants"] {
		t.Errorf("info %+v", info)
	}
	thread := must(c.CreateThread(ctx, client.NewThread{Metadata: map[string]any{"user": "ada"}}))(t)
	run := ""
	got := names(t, c.Stream(ctx, thread.ID, client.RunRequest{
		Assistant: "booking", Input: map[string]string{"city": "Ulm"},
		Modes:   []client.Mode{client.ModeValues, client.ModeCustom, client.ModeUpdates, client.ModeMessages},
		Created: func(_, id string) { run = id },
	}))
	for _, want := range []string{"values", "custom", "updates", "messages"} {
		if got[0] != "metadata" || !slices.Contains(got, want) {
			t.Errorf("events %v lack %s", got, want)
		}
	}
	if run == "" {
		t.Error("the run was not named")
	}
	if r := must(c.Run(ctx, thread.ID, run))(t); r.Status != client.RunInterrupted || r.ThreadID != thread.ID {
		t.Errorf("run %+v", r)
	}
	s := must(c.State(ctx, thread.ID, false))(t)
	qs := s.Questions()
	if len(qs) != 1 || string(qs[0].Value) != `"Book Ulm?"` || qs[0].Schema == nil || fmt.Sprint(s.Next) != "[book]" || s.Source() != "loop" || s.Step() != 1 {
		t.Fatalf("state %+v", s)
	}
	if th := must(c.Thread(ctx, thread.ID))(t); th.Status != client.ThreadInterrupted || th.GraphID() != "booking" || th.Metadata["user"] != "ada" || len(th.Interrupts) != 1 {
		t.Errorf("thread %+v", th)
	}
	out := must(c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "booking", Command: &client.Command{Resume: map[string]any{qs[0].ID: true}}}))(t)
	var after trip
	if err := json.Unmarshal(out.Values, &after); err != nil || !after.Booked || len(out.Interrupts) != 0 {
		t.Errorf("led to %s, %+v, %v", out.Values, out.Interrupts, err)
	}
	if runs := all(t, c.Runs(ctx, thread.ID, client.RunSearch{Status: client.RunSuccess})); len(runs) != 1 {
		t.Errorf("runs %+v", runs)
	}
	if err := c.DeleteRun(ctx, thread.ID, run); err != nil {
		t.Error(err)
	}
}

func TestThreadsAreSearchedByWhenTheyAreDue(t *testing.T) {
	ctx := t.Context()
	b := graph.New[trip]("sleeper")
	b.AddNode("sleep", func(ctx context.Context, _ *trip) error { return graph.Sleep(ctx, "night", time.Hour) })
	g := must(b.AddEdge(graph.Start, "sleep").Compile())(t)
	c := open(t, serve(t, nil, nil, server.Graph(g)))
	id := must(c.CreateThread(ctx, client.NewThread{}))(t).ID
	must(c.CreateThread(ctx, client.NewThread{}))(t) // which waits for nothing
	must(c.Wait(ctx, id, client.RunRequest{Assistant: "sleeper", Input: trip{}}))(t)
	if due := all(t, c.Threads(ctx, client.ThreadSearch{DueBefore: time.Now()})); len(due) != 0 {
		t.Errorf("due already: %+v", due)
	}
	due := all(t, c.Threads(ctx, client.ThreadSearch{DueBefore: time.Now().Add(2 * time.Hour)}))
	if len(due) != 1 || due[0].ID != id || due[0].DueAt.IsZero() {
		t.Errorf("due in two hours: %+v", due)
	}
}

func TestThreadsAreSearchedEditedCopiedAndDeleted(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil))
	for i := range 3 {
		out := must(c.Wait(ctx, must(c.CreateThread(ctx, client.NewThread{}))(t).ID, client.RunRequest{Assistant: "booking", Input: trip{City: fmt.Sprint("city ", i)}}))(t)
		if len(out.Interrupts) != 1 || strings.Contains(string(out.Values), "__interrupt__") {
			t.Fatalf("%s %+v", out.Values, out.Interrupts)
		}
	}
	var threads []*client.Thread
	for th, err := range c.Threads(ctx, client.ThreadSearch{Metadata: map[string]any{"graph_id": "booking"}, Limit: 2, Select: []string{"thread_id", "status"}}) {
		threads = append(threads, must(th, err)(t))
	}
	for query, want := range map[string]int{"BOOKING": 2, "no such words": 0} {
		n := 0
		for _, err := range c.Threads(ctx, client.ThreadSearch{Query: query, Limit: 2}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%q finds %d threads", query, n)
		}
	}
	if len(threads) != 2 || threads[0].Status != client.ThreadInterrupted || threads[0].Values != nil {
		t.Fatalf("threads %+v", threads)
	}
	id := threads[0].ID
	at := must(c.UpdateState(ctx, id, client.Update{Values: map[string]bool{"booked": true}, AsNode: "book"}))(t)
	s := must(c.StateAt(ctx, id, client.Checkpoint{ID: at.ID}, false))(t)
	if len(s.Next) != 0 || !strings.Contains(string(s.Values), `"booked":true`) {
		t.Errorf("state %+v", s)
	}
	var history []*client.State
	for s, err := range c.History(ctx, id, client.HistoryQuery{}) {
		history = append(history, must(s, err)(t))
	}
	if len(history) < 3 || history[0].Checkpoint.ID != at.ID || history[len(history)-1].Source() != "input" {
		t.Errorf("history of %d", len(history))
	}
	var older []*client.State
	for s, err := range c.History(ctx, id, client.HistoryQuery{Before: history[0].Checkpoint.ID, Limit: 1}) {
		older = append(older, must(s, err)(t))
	}
	if len(older) != 1 || older[0].Checkpoint.ID != history[1].Checkpoint.ID {
		t.Errorf("before the newest there is %+v", older)
	}
	copied := must(c.CopyThread(ctx, id))(t)
	if copied.ID == id || !strings.Contains(string(copied.Values), `"booked":true`) {
		t.Errorf("copy %+v", copied)
	}
	if err := c.DeleteThread(ctx, copied.ID); err != nil {
		t.Error(err)
	}
	_, err := c.Thread(ctx, copied.ID)
	var e *client.Error
	if !errors.Is(err, client.ErrNotFound) || !errors.As(err, &e) || e.Status != 404 || !strings.Contains(e.Message, copied.ID) {
		t.Errorf("a thread that is gone: %v", err)
	}
}

func TestAssistantsAreDescribed(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil))
	var all []*client.Assistant
	for a, err := range c.Assistants(ctx, client.AssistantSearch{GraphID: "booking"}) {
		all = append(all, must(a, err)(t))
	}
	if len(all) != 1 || all[0].Name != "booking" || all[0].Description != "Books trips." || all[0].Metadata["created_by"] != "system" {
		t.Fatalf("assistants %+v", all)
	}
	if a := must(c.Assistant(ctx, "booking"))(t); a.ID != all[0].ID {
		t.Errorf("by its graph: %+v", a)
	}
	d := must(c.Drawing(ctx, "booking", -1))(t)
	if len(d.Nodes) != 4 || d.Nodes[0].ID != "__start__" || len(d.Edges) != 2 {
		t.Errorf("drawing %+v", d)
	}
	if s := must(c.Schemas(ctx, "booking"))(t); !strings.Contains(string(s.State), `"city"`) {
		t.Errorf("schemas %+v", s)
	}
	if _, err := c.Assistant(ctx, "../threads"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an ID that looks like a path: %v", err)
	}
}

func TestTheMemoryIsReadAndWritten(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil))
	ns := []string{"users", "ada"}
	if err := c.PutItem(ctx, ns, "likes", map[string]string{"city": "Ulm"}); err != nil {
		t.Fatal(err)
	}
	if item := must(c.Item(ctx, ns, "likes"))(t); item == nil || string(item.Value) != `{"city":"Ulm"}` {
		t.Errorf("item %+v", item)
	}
	if item, err := c.Item(ctx, ns, "hates"); item != nil || !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an item that isn't there: %+v, %v", item, err)
	}
	if found := all(t, c.SearchItems(ctx, client.ItemSearch{Prefix: []string{"users"}, Filter: map[string]any{"city": "Ulm"}})); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
	if list := all(t, c.Namespaces(ctx, "users")); len(list) != 1 || list[0][1] != "ada" {
		t.Errorf("namespaces %v", list)
	}
	if err := c.DeleteItem(ctx, ns, "likes"); err != nil {
		t.Error(err)
	}
}

func TestAFailedRunIsAnError(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil))
	r := client.RunRequest{Assistant: "booking", Input: trip{City: "nowhere"}}
	var failed *client.RunError
	for _, err := range c.Stream(ctx, "", r) {
		if err != nil && (!errors.As(err, &failed) || err.Error() != "there is no such city" || failed.Run == "") {
			t.Errorf("streamed: %v", err)
		}
	}
	if failed == nil {
		t.Error("the stream ended without an error")
	}
	if _, err := c.Wait(ctx, "", r); !errors.As(err, &failed) || failed.Message != "there is no such city" {
		t.Errorf("waited: %v", err)
	}
	var e *client.Error
	if _, err := c.Wait(ctx, "", client.RunRequest{Assistant: "booking", Input: map[string]int{"town": 3}}); !errors.As(err, &e) || e.Status != 422 || !strings.Contains(e.Message, "town") {
		t.Errorf("a wrong input: %v", err)
	}
	if _, err := c.Start(ctx, "", client.RunRequest{Assistant: "unknown"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown graph: %v", err)
	}
	if _, err := c.Start(ctx, "00000000-0000-4000-8000-000000000000", client.RunRequest{Assistant: "booking"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown thread: %v", err)
	}
}

// cutter cuts the connections of streams after some events each.
type cutter struct {
	after int
	cuts  atomic.Int32
	most  int32
	asked []string // what Last-Event-ID said
	mu    sync.Mutex
}

func (k *cutter) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/stream") {
			k.mu.Lock()
			k.asked = append(k.asked, r.Header.Get("Last-Event-ID"))
			k.mu.Unlock()
			w = &cutting{ResponseWriter: w, k: k}
		}
		h.ServeHTTP(w, r)
	})
}

type cutting struct {
	http.ResponseWriter
	k *cutter
	n int
}

func (w *cutting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *cutting) Write(p []byte) (int, error) {
	if w.n++; w.n > w.k.after && w.k.cuts.Add(1) <= w.k.most {
		_, _ = w.ResponseWriter.Write(p[:len(p)/2])
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(p)
}

func TestAStreamThatWasCutGoesOnAfterItsLastEvent(t *testing.T) {
	ctx := t.Context()
	modes := []client.Mode{client.ModeValues, client.ModeUpdates, client.ModeCustom, client.ModeTasks}
	whole := names(t, open(t, serve(t, nil, nil)).Stream(ctx, "", client.RunRequest{Assistant: "booking", Input: trip{City: "Ulm"}, Modes: modes}))
	k := &cutter{after: 1, most: 4}
	told := 0
	c := open(t, serve(t, nil, k.around), client.OnReconnect(func(err error, wait time.Duration) {
		if told++; err == nil || wait <= 0 {
			t.Errorf("told of %v, %v", err, wait)
		}
	}))
	thread := must(c.CreateThread(ctx, client.NewThread{}))(t)
	seen := map[string]bool{}
	var got []string
	for ev, err := range c.Stream(ctx, thread.ID, client.RunRequest{Assistant: "booking", Input: trip{City: "Ulm"}, Modes: modes}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[ev.ID] {
			t.Errorf("event %s came twice", ev.ID)
		}
		seen[ev.ID] = true
		if len(got) == 0 || got[len(got)-1] != ev.Name {
			got = append(got, ev.Name)
		}
	}
	if !slices.Equal(got, whole) {
		t.Errorf("events %v, uncut %v", got, whole)
	}
	if told != 4 || k.asked[0] != "" || !seen[k.asked[1]] {
		t.Errorf("told %d times; asked for the rest after %q", told, k.asked)
	}
	// A run that is over can be followed from its beginning.
	if again := names(t, c.JoinStream(ctx, thread.ID, all(t, c.Runs(ctx, thread.ID, client.RunSearch{Limit: 1}))[0].ID, client.Join{})); !slices.Equal(again, whole) {
		t.Errorf("joined %v", again)
	}
}

func TestAConnectionThatIsGoneIsAnError(t *testing.T) {
	ctx := t.Context()
	k := &cutter{after: 1, most: 1 << 30}
	url := serve(t, nil, k.around)
	c := open(t, url, client.Reconnects(0))
	thread := must(c.CreateThread(ctx, client.NewThread{}))(t)
	var lost *client.LostError
	for _, err := range c.Stream(ctx, thread.ID, client.RunRequest{Assistant: "booking", Input: trip{City: "Ulm"}}) {
		if err != nil && !errors.As(err, &lost) {
			t.Errorf("%v", err)
		}
	}
	if lost == nil || lost.Run == "" || lost.Thread != thread.ID || lost.LastEventID == "" || !strings.Contains(lost.Error(), "may go on there") {
		t.Errorf("lost %+v", lost)
	}
	if out := must(c.Join(ctx, thread.ID, lost.Run))(t); len(out.Interrupts) != 1 {
		t.Errorf("joined %+v", out)
	}
}

func TestLeavingAStreamCancelsTheRunIfThatIsWanted(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave bool // the loop; else the context ends
		want  bool // it is cancelled
	}{
		{"the context ends", false, true}, {"the loop is left", true, true}, {"the run is to go on", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := make(chan struct{})
			open := open(t, serve(t, gate, nil))
			thread := must(open.CreateThread(t.Context(), client.NewThread{}))(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			run := ""
			var failed error
			for ev, err := range open.Stream(ctx, thread.ID, client.RunRequest{
				Assistant: "booking", Input: trip{City: "Ulm"}, CancelOnLeave: c.want, Created: func(_, id string) { run = id },
			}) {
				if err != nil {
					failed = err
				}
				if ev.Name == "values" {
					if c.leave {
						break
					}
					cancel(enough)
				}
			}
			if !c.leave && !errors.Is(failed, enough) {
				t.Errorf("the stream ended with %v", failed)
			}
			cancel(nil)
			if c.want {
				if _, err := open.Join(t.Context(), thread.ID, run); err != nil && !errors.As(err, new(*client.RunError)) {
					t.Fatal(err)
				}
			} else {
				close(gate)
				if out := must(open.Join(t.Context(), thread.ID, run))(t); len(out.Interrupts) != 1 {
					t.Errorf("it led to %+v", out)
				}
			}
			s := must(open.State(t.Context(), thread.ID, false))(t)
			if cancelled := fmt.Sprint(s.Next) == "[plan]"; cancelled != c.want {
				t.Errorf("next is %v", s.Next)
			}
		})
	}
}

func TestCancelStopsARun(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, make(chan struct{}), nil))
	thread := must(c.CreateThread(ctx, client.NewThread{}))(t)
	r := client.RunRequest{Assistant: "booking", Input: trip{City: "Ulm"}, IfBusy: "reject"}
	run := must(c.Start(ctx, thread.ID, r))(t)
	if _, err := c.Start(ctx, thread.ID, r); !errors.Is(err, client.ErrBusy) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := c.UpdateState(ctx, thread.ID, client.Update{}); !errors.Is(err, client.ErrBusy) {
		t.Errorf("an edit beside a run: %v", err)
	}
	if err := c.Cancel(ctx, thread.ID, run.ID, true); err != nil {
		t.Fatal(err)
	}
	if r := must(c.Run(ctx, thread.ID, run.ID))(t); !r.Status.Ended() {
		t.Errorf("the run is %s", r.Status)
	}
}

func TestCredentials(t *testing.T) {
	ctx := t.Context()
	const key = "0123456789abcdef"
	url := serve(t, nil, nil, server.APIKeys(key))
	search := func(c *client.Client) error {
		for _, err := range c.Threads(ctx, client.ThreadSearch{}) {
			return err
		}
		return nil
	}
	if err := search(open(t, url, client.APIKey(key))); err != nil {
		t.Error(err)
	}
	if err := search(open(t, url, client.Header("Authorization", "Bearer "+key))); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "x"} {
		if err := search(open(t, url, client.APIKey(wrong))); !errors.Is(err, client.ErrUnauthenticated) || strings.Contains(err.Error(), key) {
			t.Errorf("with %q: %v", wrong, err)
		}
	}
	// Nobody else is sent the key.
	var got string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Api-Key") }))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	if err := search(open(t, away.URL, client.APIKey(key))); err == nil || got != "" || !strings.Contains(err.Error(), "redirects to") {
		t.Errorf("redirected: %v, and the key was sent to another: %q", err, got)
	}
}

func TestNothingListensThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := open(t, "http://me:secret@"+l.Addr().String())
	_, err = c.Info(t.Context())
	var u *client.UnreachableError
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "start the server, or check the address") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	for _, err := range c.Stream(t.Context(), "", client.RunRequest{}) {
		if !errors.As(err, &u) {
			t.Errorf("streamed: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Info(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestURLsThatCannotBeServers(t *testing.T) {
	for _, url := range []string{"", "localhost:8123", "ftp://x", "http://", "http://me:secret@x:y"} {
		if _, err := client.New(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if got := open(t, "http://me:secret@localhost:1/a/").URL(); got != "http://me:xxxxx@localhost:1/a" {
		t.Error(got)
	}
}

func TestWhatIsNotTheProtocol(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		kind, body string
		location   string
		want       string
	}{
		"a page":                   {"text/html", "<html>", "", "of type \"text/html\""},
		"data that is not JSON":    {"text/event-stream", "event: values\ndata: {\"a\": \n\n", "", "is not JSON"},
		"an end inside an event":   {"text/event-stream", "event: values\ndata: {}", "", "unexpected EOF"},
		"a rest at another server": {"text/event-stream", "event: values\ndata: {}\nid: 1\n\n", "http://evil.example/x", "not below the server"},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			if c.location != "" {
				w.Header().Set("Location", c.location)
			}
			_, _ = io.WriteString(w, c.body)
		}))
		var failed error
		for _, err := range open(t, web.URL).Stream(ctx, "", client.RunRequest{}) {
			failed = err
		}
		if failed == nil || !strings.Contains(failed.Error(), c.want) {
			t.Errorf("%s: %v", name, failed)
		}
		if _, err := open(t, web.URL).Info(ctx); !errors.As(err, new(*client.ProtocolError)) {
			t.Errorf("%s: info: %v", name, err)
		}
		web.Close()
	}
	if _, err := open(t, serve(t, nil, nil)+"/wrong").Info(ctx); !errors.As(err, new(*client.ProtocolError)) {
		t.Errorf("a wrong path: %v", err)
	}
}

// The forms that lines, events and signs of life may have.
func TestStreamsOfOtherServers(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, piece := range []string{"\xef\xbb\xbfdata: {\"run_id\": \"r\"}\r", "\nevent:metadata\r\n\r\n", ": heartbeat\n", "\n", "ignored\nevent: values|a:1|b\rdata: {\r", "data: \"x\": \"\u2028\"}\rid: 7\r\r", "event: end\n\n"} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer web.Close()
	var got []string
	for ev, err := range open(t, web.URL).Stream(t.Context(), "", client.RunRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %v %s", ev.ID, ev.Name, ev.Namespace, strings.ReplaceAll(string(ev.Data), "\n", "")))
	}
	want := []string{` metadata [] {"run_id": "r"}`, "7 values [a:1 b] {\"x\": \"\u2028\"}"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// trip is a round tripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAConnectionThatFallsSilentIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		began := time.Now()
		h := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			head := http.Header{"Content-Type": {"text/event-stream"}, "Content-Location": {"/runs/r"}, "Location": {"/runs/r/stream"}}
			pr, pw := io.Pipe()
			go func() {
				if r.Header.Get("Last-Event-ID") == "5" {
					_, _ = io.WriteString(pw, "event: values\ndata: {}\nid: 6\n\n")
					pw.Close()
					return
				}
				_, _ = io.WriteString(pw, "event: values\ndata: {}\nid: 5\n\n")
				for range 2 {
					time.Sleep(5 * time.Second)
					_, _ = io.WriteString(pw, ": heartbeat\n")
				}
			}()
			return &http.Response{StatusCode: 200, Header: head, Body: pr, Request: r}, nil
		})}
		c, err := client.New("http://silent.example", client.HTTPClient(h))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for ev, err := range c.Stream(t.Context(), "", client.RunRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, ev.ID)
		}
		if took := time.Since(began); fmt.Sprint(ids) != "[5 6]" || calls != 2 || took < 25*time.Second || took > 26*time.Second {
			t.Errorf("events %v after %d calls and %v", ids, calls, took)
		}
	})
}

func TestAFailureMayBeATextAlone(t *testing.T) {
	for text, want := range map[string]*client.Failure{
		`{"error": "boom"}`: {Message: "boom"},
		`{"error": {"error": "ValueError", "message": "boom"}}`: {Name: "ValueError", Message: "boom"},
		`{"error": null}`: nil,
		`{}`:              nil,
	} {
		var thread client.Thread
		if err := json.Unmarshal([]byte(text), &thread); err != nil || !reflect.DeepEqual(thread.Failure, want) {
			t.Errorf("%s: %v, %v", text, thread.Failure, err)
		}
	}
}
