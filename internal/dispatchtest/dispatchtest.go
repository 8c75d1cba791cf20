// Package dispatchtest has the tests of a server that hold whoever does its runs: the
// server itself, or a dispatcher of package fleet.
package dispatchtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

// Suite says what is tested.
type Suite struct {
	// Begin returns what server.Dispatch takes, for the servers of one test; nil: they do
	// their runs themselves.
	Begin func(t *testing.T) func(*fleet.Worker) (fleet.Dispatcher, error)
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	for name, test := range map[string]func(*testing.T, Suite){
		"a question is answered":                          answered,
		"what happens is streamed":                        streamed,
		"a run is cancelled":                              cancelled,
		"a run is rolled back":                            rolledBack,
		"a run fails, and goes on":                        failed,
		"a run that takes too many supersteps fails":      endless,
		"a thread sleeps":                                 slept,
		"a thread waits for an event":                     sent,
		"a run is configured, and has a memory":           configured,
		"a thread goes on at an earlier checkpoint":       forked,
		"a run stops at a breakpoint":                     stopped,
		"a run is streamed from another server":           elsewhere,
		"what nodes send is streamed while they work":     sentLive,
		"what happens inside of subgraphs is streamed":    inside,
		"a run goes on when its server is closed":         closed,
		"a graph is made for each run, by another's name": perRun,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s) })
	}
}

// state is that of the graph.
type state struct {
	Do       string             `json:"do"`
	Done     graph.List[string] `json:"done"`
	N        int                `json:"n"`
	Messages chat.History       `json:"messages"`
}

type config struct {
	Name string `json:"name"`
}

// gates are where nodes wait for a test.
type gates struct {
	mu sync.Mutex
	by map[string]chan struct{}
}

// at returns the gate of a name.
func (g *gates) at(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == nil {
		g.by = map[string]chan struct{}{}
	}
	if g.by[name] == nil {
		g.by[name] = make(chan struct{})
	}
	return g.by[name]
}

// open opens a gate, if it isn't.
func (g *gates) open(name string) {
	gate := g.at(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// work is a graph that does as it is told.
func work(t *testing.T, at *gates, extra ...string) *graph.Graph[state] {
	t.Helper()
	b := graph.New[state]("work")
	part := graph.AddTask(b, "part", func(ctx context.Context, s *state, n int) error {
		s.Done.Add(fmt.Sprint("part ", n))
		return graph.Emit(ctx, n)
	})
	var tries atomic.Int64
	acts := map[string]func(context.Context, *state) error{
		"end": func(_ context.Context, s *state) error {
			s.Done.Add("end")
			s.Messages.Add(chat.AI("It is done"))
			return nil
		},
		"ask": func(ctx context.Context, s *state) error {
			yes, err := graph.Interrupt[bool](ctx, "sure", "Sure?")
			s.Done.Add(fmt.Sprint("sure ", yes))
			return err
		},
		"fail": func(context.Context, *state) error {
			if tries.Add(1) == 1 {
				return errors.New("it is broken")
			}
			return nil
		},
		"sleep": func(ctx context.Context, s *state) error {
			defer s.Done.Add("slept")
			return graph.Sleep(ctx, "nap", 10*time.Millisecond)
		},
		"event": func(ctx context.Context, s *state) error {
			got, err := graph.WaitFor[string](ctx, "", "post")
			s.Done.Add("got " + got)
			return err
		},
		"config": func(ctx context.Context, s *state) error {
			c, err := graph.Configured[config](ctx)
			if err != nil {
				return err
			}
			m, err := memory.From(ctx)
			if err != nil {
				return err
			}
			s.Done.Add("for " + c.Name)
			_, err = m.Put(ctx, []string{"seen"}, c.Name, json.RawMessage(`{"well":true}`))
			return err
		},
		"talk": func(ctx context.Context, s *state) error {
			for _, token := range []string{"Hel", "lo"} {
				if err := graph.EmitMessage(ctx, chat.Chunk{ID: "m", Text: token}); err != nil {
					return err
				}
			}
			if err := graph.Emit(ctx, "half way"); err != nil {
				return err
			}
			select {
			case <-at.at("go"):
			case <-ctx.Done():
				return ctx.Err()
			}
			returned, err := graph.EmitToolCall(ctx, tool.Started{CallID: "c", Name: "look", Args: json.RawMessage(`{}`)})
			if err == nil {
				err = returned(tool.Ended{CallID: "c", Name: "look", Result: tool.Text("seen")})
			}
			s.Messages.Add(chat.Message{ID: "m", Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "Hello"}}})
			return err
		},
		"block": func(ctx context.Context, s *state) error {
			at.open("in")
			select {
			case <-at.at("go"):
				s.Done.Add("went")
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	for _, name := range extra {
		acts[name] = func(_ context.Context, s *state) error { s.Done.Add(name); return nil }
	}
	var names []string
	for name, act := range acts {
		b.AddNode(name, act)
		if names = append(names, name); name != "end" {
			b.AddEdge(name, "end")
		}
	}
	inner := graph.New[state]("inner")
	for _, name := range []string{"first", "second"} {
		inner.AddNode(name, func(_ context.Context, s *state) error { s.Done.Add(name); return nil })
	}
	graph.AddShared(b, "inner", inner.AddEdge(graph.Start, "first").AddEdge("first", "second").MustCompile(), func(s *state) *state { return s })
	b.AddEdge("inner", "end")
	names = append(names, "inner")
	b.AddCommandNode("begin", func(ctx context.Context, s *state) (graph.Command, error) {
		s.Done.Add("begin")
		switch s.Do {
		case "parts":
			return graph.Dispatch(part.Send(1), part.Send(2), part.Send(3)), nil
		case "count":
			if s.N++; s.N < 5 {
				return graph.Goto("begin"), nil
			}
			return graph.Goto("end"), nil
		case "circle":
			return graph.Goto("begin"), nil
		}
		return graph.Goto(s.Do), nil
	}, graph.Destinations(append(names, "part", "begin")...))
	b.AddEdge(graph.Start, "begin").AddEdge("part", "end")
	g, err := b.Compile(graph.Configurable(config{Name: "nobody"}))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serve starts a server and returns a client of it, and what ends it.
func (s Suite) serve(t *testing.T, begin func(*fleet.Worker) (fleet.Dispatcher, error), opts ...server.Option) (*client.Client, func()) {
	t.Helper()
	opts = append(opts, server.Logger(slog.New(slog.DiscardHandler)))
	if begin != nil {
		opts = append(opts, server.Dispatch(begin))
	}
	srv, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(srv)
	end := sync.OnceFunc(func() {
		if err := srv.Close(context.Background()); err != nil {
			t.Error(err)
		}
		h.Close()
	})
	t.Cleanup(end)
	c, err := client.New(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c, end
}

func (s Suite) begin(t *testing.T) func(*fleet.Worker) (fleet.Dispatcher, error) {
	if s.Begin == nil {
		return nil
	}
	return s.Begin(t)
}

// one starts a server with the graph, and makes a thread.
func (s Suite) one(t *testing.T) (c *client.Client, thread string, at *gates) {
	t.Helper()
	at = &gates{}
	c, _ = s.serve(t, s.begin(t), server.Graph(work(t, at)))
	return c, newThread(t, c), at
}

func newThread(t *testing.T, c *client.Client) string {
	t.Helper()
	th, err := c.CreateThread(t.Context(), client.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	return th.ID
}

func do(what string) client.RunRequest {
	return client.RunRequest{Assistant: "work", Input: map[string]any{"do": what}}
}

// wait has a run done and returns what it led to.
func wait(t *testing.T, c *client.Client, thread string, r client.RunRequest) (*client.Outcome, []string) {
	t.Helper()
	out, err := c.Wait(t.Context(), thread, r)
	if err != nil {
		t.Fatal(err)
	}
	return out, doneOf(t, out.Values)
}

func doneOf(t *testing.T, values json.RawMessage) []string {
	t.Helper()
	var s struct{ Done []string }
	if err := json.Unmarshal(values, &s); err != nil {
		t.Fatalf("%v: %s", err, values)
	}
	return s.Done
}

func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func answered(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	out, done := wait(t, c, thread, do("ask"))
	if len(out.Interrupts) != 1 || string(out.Interrupts[0].Value) != `"Sure?"` {
		t.Errorf("it asks %+v", out.Interrupts)
	}
	is(t, done, "begin")
	if _, err := c.Wait(t.Context(), thread, client.RunRequest{Assistant: "work", Command: &client.Command{Resume: "perhaps"}}); err == nil {
		t.Error("an answer of the wrong type is taken")
	}
	_, done = wait(t, c, thread, client.RunRequest{Assistant: "work", Command: &client.Command{Resume: true}})
	is(t, done, "begin", "sure true", "end")
}

func streamed(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	r := do("parts")
	r.Modes = []client.Mode{client.ModeUpdates, client.ModeValues, client.ModeCheckpoints, client.ModeMessages, client.ModeCustom, client.ModeTasks}
	var names, updates []string
	for ev, err := range c.Stream(t.Context(), thread, r) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Name {
		case "updates":
			var by map[string]struct{ Done []string }
			if err := json.Unmarshal(ev.Data, &by); err != nil {
				t.Fatal(err)
			}
			for node, wrote := range by {
				updates = append(updates, fmt.Sprint(node, wrote.Done))
			}
		}
		names = append(names, ev.Name)
	}
	is(t, updates, "begin[begin]", "part[part 1]", "part[part 2]", "part[part 3]", "end[end]")
	want := map[string]int{"metadata": 1, "checkpoints": 5, "values": 4, "updates": 5, "messages": 1, "custom": 3, "tasks": 10}
	for name, n := range want {
		if got := len(slices.DeleteFunc(slices.Clone(names), func(o string) bool { return o != name })); got != n {
			t.Errorf("%d events %s, want %d: %s", got, name, n, strings.Join(names, " "))
		}
	}
}

func cancelled(t *testing.T, s Suite) {
	c, thread, at := s.one(t)
	run, err := c.Start(t.Context(), thread, do("block"))
	if err != nil {
		t.Fatal(err)
	}
	<-at.at("in")
	if err := c.Cancel(t.Context(), thread, run.ID, true); err != nil {
		t.Fatal(err)
	}
	if run, err = c.Run(t.Context(), thread, run.ID); err != nil || run.Status != "interrupted" {
		t.Errorf("%+v, %v", run, err)
	}
	_, done := wait(t, c, thread, do("end"))
	is(t, done, "begin", "begin", "end")
}

func rolledBack(t *testing.T, s Suite) {
	c, thread, at := s.one(t)
	wait(t, c, thread, do("end"))
	if _, err := c.Start(t.Context(), thread, do("block")); err != nil {
		t.Fatal(err)
	}
	<-at.at("in")
	r := do("count")
	r.IfBusy = client.BusyRollback
	_, done := wait(t, c, thread, r)
	is(t, done, "begin", "end", "begin", "begin", "begin", "begin", "begin", "end")
}

func failed(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	_, err := c.Wait(t.Context(), thread, do("fail"))
	if e, ok := errors.AsType[*client.RunError](err); !ok || !strings.Contains(e.Message, "it is broken") {
		t.Errorf("the run ended with %v", err)
	}
	_, done := wait(t, c, thread, client.RunRequest{Assistant: "work"})
	is(t, done, "begin", "end")
}

func endless(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	r := do("circle")
	r.Config.RecursionLimit = 7
	_, err := c.Wait(t.Context(), thread, r)
	if e, ok := errors.AsType[*client.RunError](err); !ok || e.Name != "GraphRecursionError" {
		t.Errorf("the run ended with %#v", err)
	}
	st, err := c.State(t.Context(), thread, false)
	if err != nil || len(doneOf(t, st.Values)) != 7 {
		t.Errorf("%+v, %v", st, err)
	}
}

// ended waits until a thread has had as many runs, and they are over.
func ended(t *testing.T, c *client.Client, thread string, n int) {
	t.Helper()
	for until := time.Now().Add(patience); ; {
		runs, open := 0, 0
		for r, err := range c.Runs(t.Context(), thread, client.RunSearch{}) {
			if err != nil {
				t.Fatal(err)
			}
			if runs++; r.Status == "pending" || r.Status == "running" {
				open++
			}
		}
		if runs >= n && open == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("of %d runs %d have not ended, and %d were to", runs, open, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// patience is how long is waited for what happens in a moment.
const patience = 2 * time.Minute

func slept(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	if _, done := wait(t, c, thread, do("sleep")); len(done) == 1 {
		is(t, done, "begin")
		ended(t, c, thread, 2)
	} // else the time was over before the run was, on a slow machine, and it went on
	st, err := c.State(t.Context(), thread, false)
	if err != nil {
		t.Fatal(err)
	}
	is(t, doneOf(t, st.Values), "begin", "slept", "end")
}

func sent(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	_, done := wait(t, c, thread, do("event"))
	is(t, done, "begin")
	resp, err := http.Post(c.URL()+"/threads/"+thread+"/events", "application/json", strings.NewReader(`{"name":"post","value":"a letter"}`))
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	ended(t, c, thread, 2)
	st, err := c.State(t.Context(), thread, false)
	if err != nil {
		t.Fatal(err)
	}
	is(t, doneOf(t, st.Values), "begin", "got a letter", "end")
}

func configured(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	r := do("config")
	r.Config.Configurable = map[string]any{"name": "Ada"}
	r.Metadata = map[string]any{"for": "Ada"}
	_, done := wait(t, c, thread, r)
	is(t, done, "begin", "for Ada", "end")
	if _, err := c.Item(t.Context(), []string{"seen"}, "Ada"); err != nil {
		t.Error(err)
	}
	for st, err := range c.History(t.Context(), thread, client.HistoryQuery{}) {
		if err != nil || st.Metadata["for"] != "Ada" {
			t.Errorf("the metadata of a checkpoint are %v, %v", st.Metadata, err)
		}
	}
}

func forked(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	wait(t, c, thread, do("count"))
	var from *client.Checkpoint
	for st, err := range c.History(t.Context(), thread, client.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(doneOf(t, st.Values)) == 3 {
			from = st.Checkpoint
		}
	}
	r := client.RunRequest{Assistant: "work", Checkpoint: from}
	r.Modes = []client.Mode{client.ModeUpdates}
	n := 0
	for ev, err := range c.Stream(t.Context(), thread, r) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name == "updates" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d updates", n)
	}
	st, err := c.State(t.Context(), thread, false)
	if err != nil {
		t.Fatal(err)
	}
	is(t, doneOf(t, st.Values), "begin", "begin", "begin", "begin", "begin", "end")
}

func stopped(t *testing.T, s Suite) {
	c, thread, _ := s.one(t)
	r := do("count")
	r.InterruptBefore = []string{"end"}
	_, done := wait(t, c, thread, r)
	is(t, done, "begin", "begin", "begin", "begin", "begin")
	_, done = wait(t, c, thread, client.RunRequest{Assistant: "work"})
	is(t, done, "begin", "begin", "begin", "begin", "begin", "end")
}

var schemas atomic.Int64

// two starts two servers on one database.
func (s Suite) two(t *testing.T) (a, b *client.Client, closeA func(), thread string, at *gates) {
	t.Helper()
	at = &gates{}
	url := servertest.Postgres(t)
	join := "?"
	if strings.Contains(url, "?") {
		join = "&"
	}
	data := server.Data(fmt.Sprintf("%s%sschema=dispatch_%d_%d", url, join, os.Getpid(), schemas.Add(1)))
	g, begin := work(t, at), s.begin(t)
	a, closeA = s.serve(t, begin, data, server.Graph(g))
	b, _ = s.serve(t, begin, data, server.Graph(g))
	return a, b, closeA, newThread(t, a), at
}

// follow returns the updates of a run's nodes, as a server streams them.
func follow(t *testing.T, c *client.Client, thread, run string) (nodes []string) {
	t.Helper()
	for ev, err := range c.JoinStream(t.Context(), thread, run, client.Join{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name == "updates" {
			var by map[string]json.RawMessage
			if err := json.Unmarshal(ev.Data, &by); err != nil {
				t.Fatal(err)
			}
			for node := range by {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

func elsewhere(t *testing.T, s Suite) {
	a, b, _, thread, at := s.two(t)
	r := do("block")
	r.Modes, r.Resumable = []client.Mode{client.ModeUpdates}, true
	run, err := a.Start(t.Context(), thread, r)
	if err != nil {
		t.Fatal(err)
	}
	<-at.at("in")
	go at.open("go")
	is(t, follow(t, b, thread, run.ID), "begin", "block", "end")
}

// A node waits until its token was seen by a client of another server than the one that was
// asked for the run.
func sentLive(t *testing.T, s Suite) {
	a, b, _, thread, at := s.two(t)
	r := do("talk")
	r.Modes, r.Resumable = []client.Mode{client.ModeMessages, client.ModeCustom, client.ModeTools, client.ModeUpdates}, true
	run, err := a.Start(t.Context(), thread, r)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for ev, err := range b.JoinStream(t.Context(), thread, run.ID, client.Join{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Name == "metadata" {
			continue
		}
		for _, what := range map[string][]string{
			"messages": {"Hel", "lo", "It is done"}, "custom": {"half way"}, "tools": {"on_tool_start", "on_tool_end"}, "updates": {`"talk":`, `"end":`},
		}[ev.Name] {
			if strings.Contains(string(ev.Data), what) {
				told = append(told, ev.Name+" "+what)
				break
			}
		}
		if ev.Name == "custom" {
			at.open("go")
		}
	}
	is(t, told, "messages Hel", "messages lo", "custom half way", "tools on_tool_start", "tools on_tool_end", `updates "talk":`, "messages It is done", `updates "end":`)
}

// What happens inside of a subgraph is told by another server than the one that was asked
// for the run, to who wants that.
func inside(t *testing.T, s Suite) {
	a, b, _, thread, _ := s.two(t)
	for _, all := range []bool{true, false} {
		r := do("inner")
		r.Modes, r.Subgraphs, r.Resumable = []client.Mode{client.ModeTasks, client.ModeUpdates, client.ModeValues, client.ModeCheckpoints}, all, true
		run, err := a.Start(t.Context(), thread, r)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]int{}
		for ev, err := range b.JoinStream(t.Context(), thread, run.ID, client.Join{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(ev.Namespace) > 0 {
				if !strings.HasPrefix(ev.Namespace[0], "inner:") || len(ev.Namespace) > 1 {
					t.Errorf("an event of %q", ev.Namespace)
				}
				told[ev.Name]++
			}
		}
		want := map[string]int{}
		if all {
			want = map[string]int{"tasks": 4, "updates": 2, "checkpoints": 4, "values": 3}
		}
		if !maps.Equal(told, want) {
			t.Errorf("of the subgraph %v is told, and %v is wanted", told, want)
		}
	}
}

func closed(t *testing.T, s Suite) {
	a, b, closeA, thread, at := s.two(t)
	r := do("block")
	r.Modes, r.Resumable = []client.Mode{client.ModeUpdates}, true
	run, err := a.Start(t.Context(), thread, r)
	if err != nil {
		t.Fatal(err)
	}
	<-at.at("in")
	go at.open("go")
	closeA()
	is(t, follow(t, b, thread, run.ID), "begin", "block", "end")
}

func perRun(t *testing.T, s Suite) {
	at := &gates{}
	c, _ := s.serve(t, s.begin(t),
		server.Graph(work(t, at)),
		server.GraphPerRun(work(t, at, "more"), func(_ context.Context, r server.RunRequest) (*graph.Graph[state], error) {
			return work(t, at, "more"), nil
		}, server.Named("more")))
	r := do("more")
	r.Assistant = "more"
	_, done := wait(t, c, newThread(t, c), r)
	is(t, done, "begin", "more", "end")
}
