package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// asking is a graph with a node that asks.
func asking(t testing.TB, name, node string) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip](name)
	b.AddNode(node, func(ctx context.Context, s *trip) (err error) {
		s.Booked, err = graph.Interrupt[bool](ctx, "sure", "Sure?")
		return err
	})
	b.AddEdge(graph.Start, node)
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// number is a state in which a city is none.
type number struct {
	City int `json:"city"`
}

func counting(t testing.TB) *graph.Graph[number] {
	t.Helper()
	b := graph.New[number]("counting")
	b.AddNode("plan", func(context.Context, *number) error { return nil })
	b.AddNode("book", func(context.Context, *number) error { return nil })
	b.AddEdge(graph.Start, "plan")
	b.AddEdge("plan", "book")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// asked makes a thread that waits for an answer in a graph.
func (c client) asked(name string) string {
	c.t.Helper()
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": name, "input": object{"city": "Bonn"}})
	if out["__interrupt__"] == nil {
		c.t.Fatalf("it does not ask: %v", out)
	}
	return thread
}

// misfits checks a server with a thread that its graph cannot read, as the text
// says, and another one that is in order.
func (c client) misfits(graph, thread, other, text string) {
	c.t.Helper()
	for _, body := range []object{{}, {"extract": object{"city": "values.city"}}, {"select": []string{"thread_id", "values", "status", "error"}}} {
		views := map[any]object{}
		for _, v := range call[[]object](c, "POST", "/threads/search", body) {
			views[v["thread_id"]] = v
		}
		v := views[thread]
		told, _ := v["error"].(object)
		if v["values"] != nil || v["status"] != "error" || !strings.Contains(told["message"].(string), text) {
			c.t.Errorf("search %v shows %v", body, v)
		}
		if views[other]["status"] != "interrupted" || views[other]["values"] == nil {
			c.t.Errorf("search %v shows the other as %v", body, views[other])
		}
	}
	if n := call[float64](c, "POST", "/threads/count", object{"values": object{"city": "Bonn"}}); n != 1 {
		c.t.Errorf("%v threads have the city", n)
	}
	if v := call[object](c, "GET", "/threads/"+thread, nil); v["status"] != "error" || v["values"] != nil {
		c.t.Errorf("the thread is %v", v)
	}
	run := fmt.Sprintf(`{"assistant_id":%q,"command":{"resume":true}}`, graph)
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/state", ``}, {"GET", "/state?subgraphs=true", ``}, {"POST", "/state/checkpoint", `{}`},
		{"GET", "/history", ``}, {"POST", "/history", `{}`}, {"POST", "/state", `{"values":{}}`},
		{"POST", "/runs", run}, {"POST", "/runs/wait", run}, {"POST", "/runs/stream", run},
		{"POST", "/runs/wait", fmt.Sprintf(`{"assistant_id":%q,"input":{}}`, graph)},
	} {
		status, _, answer := c.do(r.method, "/threads/"+thread+r.path, r.body)
		another := strings.HasPrefix(r.path, "/runs") && strings.Contains(answer, `is of graph "trips", and graph "`+graph+`" can't go on with it`)
		if status != http.StatusConflict || !strings.Contains(answer, text) && !another || strings.Contains(answer, "Go ") {
			c.t.Errorf("%s %s: %d %s", r.method, r.path, status, answer)
		}
	}
	if v := call[object](c, "PATCH", "/threads/"+thread, object{"metadata": object{"a": 1}}); v["status"] != "error" {
		c.t.Errorf("a patch shows %v", v)
	}
	made := call[object](c, "POST", "/threads/"+thread+"/copy", nil)
	for _, id := range []any{made["thread_id"], thread} {
		if status, _, answer := c.do("DELETE", "/threads/"+id.(string), nil); status != http.StatusNoContent {
			c.t.Errorf("DELETE: %d %s", status, answer)
		}
	}
}

func TestAThreadThatWaitsAtANodeThatWasRenamedDisturbsNoOther(t *testing.T) {
	data := server.Data("sqlite:" + filepath.Join(t.TempDir(), "a.db"))
	former, err := server.New(t.Context(), data, server.Graph(asking(t, "trips", "book")), quiet())
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(former)
	thread := client{t, h.URL}.asked("trips")
	h.Close()
	if err := former.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := start(t, data, server.Graph(asking(t, "trips", "reserve")), quiet())
	c.misfits("trips", thread, c.asked("trips"), `waits at node "book", which the graph does not have`)
}

func TestAThreadThatIsSaidToBeOfAnotherGraphDisturbsNoOther(t *testing.T) {
	c := start(t, server.Graph(asking(t, "trips", "book")), server.Graph(asking(t, "stays", "reserve")), server.Graph(counting(t)), quiet())
	for graph, text := range map[string]string{
		"stays":    `waits in graph "trips"`,
		"counting": `field "city"`,
	} {
		thread, other := c.asked("trips"), c.asked("trips")
		call[any](c, "PATCH", "/threads/"+thread, object{"metadata": object{"graph_id": graph}})
		c.misfits(graph, thread, other, text)
		call[any](c, "DELETE", "/threads/"+other, nil)
	}
	thread := c.asked("trips")
	call[any](c, "PATCH", "/threads/"+thread, object{"metadata": object{"graph_id": "stays"}})
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "trips", "command": object{"resume": true}})
	if v := call[object](c, "GET", "/threads/"+thread, nil); out["booked"] != true || v["status"] != "idle" || v["error"] != nil {
		t.Errorf("with its own graph: %v, and the thread is %v", out, v)
	}
}

func TestARunOfAnotherGraphThatCannotBeginChangesNothing(t *testing.T) {
	c := start(t, server.Graph(asking(t, "trips", "book")), server.Graph(asking(t, "stays", "reserve")), quiet())
	thread := c.asked("trips")
	before := call[object](c, "GET", "/threads/"+thread, nil)
	for _, body := range []object{{"input": object{"city": "Rom"}}, {"input": nil}, {"command": object{"resume": true}}} {
		body["assistant_id"] = "stays"
		for _, path := range []string{"/runs", "/runs/wait", "/runs/stream"} {
			status, _, answer := c.do("POST", "/threads/"+thread+path, body)
			if status != http.StatusConflict || !strings.Contains(answer, `is of graph "trips", and graph "stays" can't go on with it`) || strings.Contains(answer, "Formerly") {
				t.Errorf("%s %v: %d %s", path, body, status, answer)
			}
		}
	}
	if after := call[object](c, "GET", "/threads/"+thread, nil); !reflect.DeepEqual(before, after) {
		t.Errorf("the thread was %v, and is %v", before, after)
	}
	call[any](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "trips", "command": object{"resume": true}})
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "stays", "input": object{"city": "Rom"}})
	if out["__interrupt__"] == nil || out["city"] != "Rom" {
		t.Errorf("on a thread that has ended: %v", out)
	}
}

func TestACronOnAThreadThatItsGraphCannotReadWaitsForItsNextTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := new(logged)
	c := start(t, server.Data("sqlite:"+filepath.Join(dir, "a.db")), server.Graph(asking(t, "trips", "book")), server.Graph(asking(t, "stays", "reserve")), server.Logger(slog.New(slog.NewTextHandler(log, nil))))
	thread := c.asked("trips")
	call[any](c, "POST", "/threads/"+thread+"/runs/crons", object{"assistant_id": "stays", "schedule": "@yearly", "input": object{}})
	overdue(t, filepath.Join(dir, "a.server.db"))
	waitFor(t, "the cron was moved on", func() bool { return c.later(1) })
	waitFor(t, "it is logged", func() bool { return strings.Contains(log.String(), "can't go on with it") })
	if runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil); len(runs) != 1 {
		t.Errorf("the runs: %v", runs)
	}
}
