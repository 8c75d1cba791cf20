package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

type hinted struct{ error }

type of[T any] struct{ error }

// hinting is a graph that fails with errors of several types.
func hinting(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("hinting")
	b.AddNode("fail", func(_ context.Context, s *trip) error {
		switch s.City {
		case "private":
			return hinted{errors.New("no model was chosen")}
		case "generic":
			return of[graph.Observer]{errors.New("no model was chosen")}
		}
		return TeapotError{}
	})
	b.AddEdge(graph.Start, "fail")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refused checks that a request is refused with a status and a text that says why,
// and returns the text.
func (c client) refused(method, path string, body any, want int, says ...string) string {
	c.t.Helper()
	status, _, text := c.do(method, path, body)
	if status != want {
		c.t.Errorf("%s %s %v: %d %s, want %d", method, path, body, status, text, want)
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			c.t.Errorf("%s %s %v: %q does not say %q", method, path, body, text, s)
		}
	}
	for _, s := range []string{"json:", "Go value", "Go struct", "RawMessage", "strconv", "[* "} {
		if strings.Contains(text, s) {
			c.t.Errorf("%s %s %v shows Go: %s", method, path, body, text)
		}
	}
	return text
}

func members(o object) string {
	var names []string
	for name := range o {
		names = append(names, name)
	}
	return fmt.Sprint(len(names), " ", o["run_id"] != nil, " ", o["status"])
}

func TestASelectionIsAListOrIsRefused(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := c.asked("booking")
	for _, query := range []string{"select=" + url.QueryEscape(`["run_id","status"]`), "select=run_id&select=status"} {
		runs := call[[]object](c, "GET", "/threads/"+thread+"/runs?"+query, nil)
		if len(runs) != 1 || members(runs[0]) != "2 true interrupted" {
			t.Errorf("%s: %v", query, runs)
		}
	}
	c.refused("GET", "/threads/"+thread+"/runs?select=zap", nil, 422, `"zap"`, "run_id", "multitask_strategy")
	c.refused("GET", "/threads/"+thread+"/runs?select="+url.QueryEscape(`["run_id","zap"]`), nil, 422, `"zap"`, "run_id")
	c.refused("GET", "/threads/"+thread+"/runs?select="+url.QueryEscape(`["run_id`), nil, 422, "select must be a list")
	for path, fields := range map[string][]string{ // those of the SDK's types
		"/assistants/search": {"assistant_id", "graph_id", "name", "description", "config", "context", "created_at", "updated_at", "metadata", "version"},
		"/threads/search":    {"thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "context", "status", "values", "interrupts"},
		"/runs/crons/search": {"cron_id", "assistant_id", "thread_id", "end_time", "schedule", "created_at", "updated_at", "user_id", "payload", "next_run_date", "metadata", "now"},
	} {
		for _, one := range call[[]object](c, "POST", path, object{"select": fields}) {
			if len(one) != len(fields) {
				t.Errorf("%s: %v", path, one)
			}
		}
		c.refused("POST", path, object{"select": []string{"zap"}}, 422, `"zap"`, fields[0])
	}
	c.refused("POST", "/runs/crons/search", object{"select": []string{"user"}}, 422)
}

// sorted reads a list in pages of two, in both directions, and checks that each is
// in order of a member, and that they are the same list.
func (c client) sorted(path, id, by string, n int) {
	c.t.Helper()
	var all [2][]object
	for i, order := range []string{"asc", "desc"} {
		for offset := 0; offset < n; offset += 2 {
			all[i] = append(all[i], call[[]object](c, "POST", path, object{"sort_by": by, "sort_order": order, "limit": 2, "offset": offset})...)
		}
	}
	for i := range all[0] {
		up, down := all[0][i], all[1][len(all[1])-1-i]
		if up[id] != down[id] || len(all[0]) != n || len(all[1]) != n {
			c.t.Fatalf("%s by %s: up %v, down %v", path, by, all[0], all[1])
		}
		if i == 0 {
			continue
		}
		before, _ := all[0][i-1][by].(string)
		this, _ := up[by].(string)
		if strings.HasSuffix(by, "_at") { // 09:19:10.76Z is before 09:19:10.761Z
			before, this = strings.TrimSuffix(before, "Z"), strings.TrimSuffix(this, "Z")
		}
		if before > this && up[by] != nil {
			c.t.Errorf("%s by %s: %q comes before %q", path, by, before, this)
		}
	}
}

func TestListsAreSortedByAllThatClientsKnow(t *testing.T) {
	for name, data := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "a.db") },
		"PostgreSQL": func(t *testing.T) string { return ownSchema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, server.Data(data(t)), server.Graph(booking(t)), server.Graph(asking(t, "stays", "stay")), quiet())
			for i, name := range []string{"b", "a", "b", "C", "é", "", "a b"} {
				graph := []string{"stays", "booking"}[i%2]
				call[any](c, "POST", "/assistants", object{"graph_id": graph, "name": name})
			}
			var threads []string
			for i := range 5 {
				threads = append(threads, call[object](c, "POST", "/threads", object{})["thread_id"].(string))
				cron := object{"assistant_id": []string{"stays", "booking"}[i%2], "schedule": fmt.Sprintf("%d 0 * * *", (i*37)%60), "enabled": i != 2, "input": object{}}
				call[any](c, "POST", []string{"/runs/crons", "/threads/" + threads[i] + "/runs/crons"}[i%2], cron)
			}
			for _, i := range []int{3, 1, 4} { // the newest state is the last one's
				call[any](c, "POST", "/threads/"+threads[i]+"/runs/wait", object{"assistant_id": "stays", "input": object{}})
			}
			for _, by := range []string{"assistant_id", "graph_id", "name", "created_at", "updated_at"} {
				c.sorted("/assistants/search", "assistant_id", by, 9)
			}
			for _, by := range []string{"thread_id", "status", "created_at", "updated_at", "state_updated_at"} {
				c.sorted("/threads/search", "thread_id", by, 5)
			}
			for _, by := range []string{"cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date"} {
				c.sorted("/runs/crons/search", "cron_id", by, 5)
			}
			newest := call[[]object](c, "POST", "/threads/search", object{"sort_by": "state_updated_at", "limit": 1})
			if newest[0]["thread_id"] != threads[4] {
				t.Errorf("the state that changed last is said to be that of %v", newest[0])
			}
			for path, known := range map[string]string{"/assistants/search": "name", "/threads/search": "state_updated_at", "/runs/crons/search": "next_run_date"} {
				c.refused("POST", path, object{"sort_by": "zap"}, 422, known)
				if got := call[[]object](c, "POST", path, object{"sort_by": "created_at", "offset": 1 << 62}); len(got) != 0 {
					t.Errorf("%s: %v is after the end", path, got)
				}
			}
			if got := call[[]object](c, "POST", "/assistants/search", object{"sort_by": "name", "offset": 1<<63 - 1, "limit": 1000}); len(got) != 0 {
				t.Errorf("%v is after the end", got)
			}
		})
	}
}

func TestTheAssistantOfAGraphStays(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	own := call[object](c, "GET", "/assistants/booking", nil)["assistant_id"].(string)
	thread := c.asked("booking")
	for _, id := range []string{"booking", own} {
		c.refused("DELETE", "/assistants/"+id+"?delete_threads=true", nil, http.StatusConflict, `belongs to graph "booking"`)
	}
	call[any](c, "GET", "/assistants/"+own, nil)
	call[any](c, "GET", "/threads/"+thread, nil)
	made := call[object](c, "POST", "/assistants", object{"graph_id": "booking"})["assistant_id"].(string)
	call[any](c, "DELETE", "/assistants/"+made, nil)
	c.refused("GET", "/assistants/"+made, nil, 404)
}

const nowhere = "01a20283-be24-7000-8000-000000000000"

func TestARunFromACheckpointThatIsNotThereIsNotMade(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Graph(slow(t)), quiet())
	thread := c.asked("booking")
	before := fmt.Sprint(call[object](c, "GET", "/threads/"+thread, nil))
	for _, body := range []object{
		{"checkpoint_id": nowhere}, {"checkpoint": object{"checkpoint_id": nowhere}}, {"checkpoint_id": nowhere, "input": object{}},
		{"checkpoint_id": nowhere, "command": object{"resume": true}},
	} {
		body["assistant_id"] = "booking"
		for _, path := range []string{"/runs", "/runs/wait", "/runs/stream"} {
			c.refused("POST", "/threads/"+thread+path, body, 404, "Checkpoint "+nowhere+" not found")
			c.refused("POST", path, body, 404, "Checkpoint "+nowhere+" not found")
		}
		body["if_not_exists"] = "create"
		c.refused("POST", "/threads/01a20283-be24-7000-8000-000000000001/runs", body, 404, "Checkpoint "+nowhere+" not found")
	}
	if after := fmt.Sprint(call[object](c, "GET", "/threads/"+thread, nil)); after != before {
		t.Errorf("the thread was %s, and is %s", before, after)
	}
	if n := call[float64](c, "POST", "/threads/count", object{}); n != 1 {
		t.Errorf("%v threads", n)
	}
	if runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil); len(runs) != 1 {
		t.Errorf("runs: %v", runs)
	}
	first := call[[]object](c, "GET", "/threads/"+thread+"/history", nil)[1]["checkpoint"].(object)["checkpoint_id"]
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "checkpoint_id": first})
	if out["__interrupt__"] == nil {
		t.Errorf("from a checkpoint that is there: %v", out)
	}
}

func TestAHistoryEndsBeforeACheckpoint(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := c.asked("booking")
	path := "/threads/" + thread + "/history"
	all := call[[]object](c, "GET", path, nil)
	for _, before := range []string{"zap", "123", url.QueryEscape(`"zap"`), url.QueryEscape(`{"checkpoint_id":"zap"}`)} {
		c.refused("GET", path+"?before="+before, nil, 422, "is not a UUID")
	}
	for _, before := range []any{"zap", object{"checkpoint_id": "zap"}, object{"configurable": object{"checkpoint_id": "zap"}}} {
		c.refused("POST", path, object{"before": before}, 422, "is not a UUID")
	}
	empty := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	c.refused("GET", "/threads/"+empty+"/history?before=zap", nil, 422, "is not a UUID")
	id := all[0]["checkpoint"].(object)["checkpoint_id"]
	for _, before := range []any{id, object{"checkpoint_id": id}, object{"configurable": object{"checkpoint_id": id}}, object{"checkpoint_id": id, "configurable": object{"checkpoint_id": id}}} {
		if got := call[[]object](c, "POST", path, object{"before": before}); len(got) != len(all)-1 {
			t.Errorf("before %v: %v", before, got)
		}
	}
	if got := call[[]object](c, "GET", path+"?before="+nowhere, nil); len(got) != 0 {
		t.Errorf("before one that isn't there: %v", got)
	}
}

func TestACronThatNeverFiresIsRefused(t *testing.T) {
	c := start(t, server.Graph(slow(t)), quiet())
	past, soon := time.Now().Add(-time.Hour).UTC(), time.Now().Add(time.Minute).UTC()
	for _, wrong := range []struct {
		body object
		says string
	}{
		{object{"schedule": "0 0 31 2 *"}, `"0 0 31 2 *" never comes`},
		{object{"schedule": "0 0 31 2 *", "enabled": false}, "never comes"},
		{object{"schedule": "* * * * *", "end_time": past}, "end_time " + past.Format(time.RFC3339) + " is past"},
		{object{"schedule": "0 0 29 2 *", "end_time": soon}, "after end_time"},
		{object{"schedule": "* * * * * *"}, `must be five fields, such as "0 9 * * 1-5"; "* * * * * *" has 6`},
		{object{"schedule": ""}, "has 0"},
		{object{"schedule": "0 99 * * *"}, `"99" is no hour (0-23)`},
		{object{"schedule": "zap * * * *"}, `"zap" is no minute`},
		{object{"schedule": "* * * * MOON"}, `"MOON" is no day of the week`},
		{object{"schedule": "@zap"}, "@daily"},
		{object{"schedule": "@every zap"}, "@every with a duration"},
		{object{"schedule": "* * * * *", "timezone": "Zap/Zap"}, `timezone: there is no "Zap/Zap"`},
	} {
		wrong.body["assistant_id"], wrong.body["input"] = "slow", object{}
		c.refused("POST", "/runs/crons", wrong.body, 422, wrong.says)
	}
	if n := call[float64](c, "POST", "/runs/crons/count", object{}); n != 0 {
		t.Errorf("%v crons", n)
	}
	made := call[object](c, "POST", "/runs/crons", object{"assistant_id": "slow", "schedule": "0 0 29 2 *", "input": object{}})
	path := "/runs/crons/" + made["cron_id"].(string)
	c.refused("PATCH", path, object{"schedule": "0 0 30 2 *"}, 422, "never comes")
	c.refused("PATCH", path, object{"end_time": past}, 422, "is past")
	if got := call[object](c, "PATCH", path, object{"metadata": object{"a": 1}}); got["schedule"] != "0 0 29 2 *" || got["next_run_date"] == nil {
		t.Errorf("after patches: %v", got)
	}
}

func TestACronThatHasEndedCanStillBeChanged(t *testing.T) {
	dir := t.TempDir()
	c := start(t, server.Data("sqlite:"+filepath.Join(dir, "a.db")), server.Graph(slow(t)), quiet())
	path := "/runs/crons/" + call[object](c, "POST", "/runs/crons", yearly)["cron_id"].(string)
	inFile(t, filepath.Join(dir, "a.server.db"), `UPDATE superstep_crons SET next = NULL, data = json_set(data, '$.next_run_date', NULL, '$.end_time', '2020-01-01T00:00:00Z')`)
	if got := call[object](c, "PATCH", path, object{"metadata": object{"a": 1}}); got["next_run_date"] != nil {
		t.Errorf("it is due again: %v", got)
	}
	call[any](c, "PATCH", path, object{"enabled": false})
	c.refused("PATCH", path, object{"enabled": true}, 422, "end_time 2020-01-01T00:00:00Z is past")
	if got := call[object](c, "PATCH", path, object{"enabled": true, "end_time": time.Now().AddDate(2, 0, 0)}); got["next_run_date"] == nil {
		t.Errorf("it is not due: %v", got)
	}
}

func TestWhatIsWrongIsSaidInTheWordsOfTheProtocol(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Graph(hinting(t)), quiet())
	thread := c.asked("booking")
	for _, w := range []struct {
		body object
		says string
	}{
		{object{"input": []int{1}}, "input must be an object"},
		{object{"input": "zap"}, "input must be an object"},
		{object{"input": object{"city": 5}}, `field "city": must be a string, not a number`},
		{object{"input": object{"booked": "yes", "city": object{}}}, `field "booked": must be a boolean, not a string`},
		{object{"input": object{"booked": "yes", "city": object{}}}, `field "city": must be a string, not an object`},
		{object{"input": object{"messages": 5}}, `field "messages"`},
		{object{"input": object{"messages": []any{object{"type": 5}}}}, `field "messages"`},
		{object{"command": object{"update": 5}}, "command.update must be an object"},
		{object{"command": object{"update": object{"city": 5}}}, `command.update: field "city": must be a string`},
		{object{"command": "zap"}, "command must be an object with resume, update and goto"},
		{object{"command": object{"goto": 5}}, "command.goto must be"},
	} {
		w.body["assistant_id"] = "booking"
		c.refused("POST", "/threads/"+thread+"/runs", w.body, 422, w.says)
	}
	c.refused("POST", "/threads/"+thread+"/state", object{"values": object{"city": 5}}, 422, `values: field "city": must be a string, not a number`)
	c.refused("POST", "/threads/"+thread+"/state", object{"values": 5}, 422, "values must be an object")
	for city, name := range map[string]string{"private": "Error", "public": "TeapotError", "generic": "Error"} {
		out := call[object](c, "POST", "/runs/wait", object{"assistant_id": "hinting", "input": object{"city": city}})
		if got := out["__error__"].(object)["error"]; got != name {
			t.Errorf("a %s error is called %v", city, got)
		}
	}
}

func TestAThreadIsRemovedAfterItsTime(t *testing.T) {
	dir := t.TempDir()
	c := start(t, server.Data("sqlite:"+filepath.Join(dir, "a.db")), server.Graph(booking(t)), quiet())
	ttlOf := func(v object) string {
		ttl, _ := v["ttl"].(object)
		return fmt.Sprint(ttl["strategy"], " ", ttl["ttl_minutes"])
	}
	create := func(ttl any) string {
		v := call[object](c, "POST", "/threads", object{"ttl": ttl})
		if got := ttlOf(v); got != "delete 30" {
			t.Errorf("ttl %v makes %s", ttl, got)
		}
		return v["thread_id"].(string)
	}
	short, other := create(30), create(object{"ttl": 30, "strategy": "delete"})
	lasting := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	if got := ttlOf(call[object](c, "PATCH", "/threads/"+other, object{"ttl": 60})); got != "delete 60" {
		t.Errorf("a patch makes it %s", got)
	}
	expires := func() time.Time {
		at, err := time.Parse(time.RFC3339Nano, call[object](c, "GET", "/threads/"+short, nil)["ttl"].(object)["expires_at"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	file := filepath.Join(dir, "a.server.db")
	before := expires()
	call[any](c, "POST", "/threads/"+short+"/runs/wait", object{"assistant_id": "booking", "input": object{}})
	if !expires().After(before) {
		t.Error("a run does not put the end off")
	}
	for _, ttl := range []any{0, -1, "zap", object{"ttl": 5, "strategy": "zap"}, 1e9} {
		c.refused("POST", "/threads", object{"ttl": ttl}, 422, "ttl")
	}
	inFile(t, file, fmt.Sprintf(`UPDATE superstep_server_threads SET expires = 1 WHERE id = '%s'`, short))
	waitFor(t, "the thread is gone", func() bool {
		status, _, _ := c.do("GET", "/threads/"+short, nil)
		return status == http.StatusNotFound
	})
	call[any](c, "GET", "/threads/"+other, nil)
	call[any](c, "GET", "/threads/"+lasting, nil)
	waitFor(t, "its ID is free", func() bool { // once its checkpoints are removed as well
		status, _, _ := c.do("POST", "/threads", object{"thread_id": short})
		return status == http.StatusOK
	})
	if got := call[[]object](c, "GET", "/threads/"+short+"/history", nil); len(got) != 0 {
		t.Errorf("its checkpoints are still there: %v", got)
	}
}

func TestANewThreadBeginsWithAHistory(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	steps := func(updates ...object) object { return object{"updates": updates} }
	v := call[object](c, "POST", "/threads", object{"graph_id": "booking", "supersteps": []object{
		steps(object{"values": object{"city": "Rom"}, "as_node": "__start__"}),
		steps(object{"values": object{"city": "Bonn"}, "as_node": "plan"}),
	}})
	thread := v["thread_id"].(string)
	if got := v["values"].(object)["city"]; got != "Bonn" {
		t.Errorf("the city is %v", got)
	}
	var seen []string
	for _, h := range call[[]object](c, "GET", "/threads/"+thread+"/history", nil) {
		seen = append(seen, fmt.Sprint(h["values"].(object)["city"], h["next"]))
	}
	if want := []string{"Bonn[book]", "Rom[plan]", "[__start__]"}; !slices.Equal(seen, want) {
		t.Errorf("the history is %q", seen)
	}
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": nil})
	if got := fmt.Sprint(out["__interrupt__"]); !strings.Contains(got, "Book Bonn?") {
		t.Errorf("it asks %s", got)
	}
	ended := call[object](c, "POST", "/threads", object{"metadata": object{"graph_id": "booking"}, "supersteps": []object{
		steps(object{"values": object{"city": "Rom"}, "as_node": "plan", "command": object{"goto": "__end__"}}),
	}})
	if state := call[object](c, "GET", "/threads/"+ended["thread_id"].(string)+"/state", nil); fmt.Sprint(state["next"]) != "[]" {
		t.Errorf("after a command that ends it: %v", state)
	}
	closed := call[object](c, "POST", "/threads", object{"metadata": object{"graph_id": "booking"}, "supersteps": []object{
		steps(object{"values": object{"city": "Rom"}, "as_node": "__start__"}), steps(object{"values": object{"city": "Bari"}, "as_node": "__end__"}),
	}})
	if state := call[object](c, "GET", "/threads/"+closed["thread_id"].(string)+"/state", nil); fmt.Sprint(state["next"]) != "[]" || state["values"].(object)["city"] != "Bari" {
		t.Errorf("after an edit as the end: %v", state)
	}
	for _, as := range []string{"", "__end__"} {
		c.refused("POST", "/threads", object{"graph_id": "booking", "supersteps": []object{
			steps(object{"values": object{"city": "Rom"}, "as_node": as, "command": object{"goto": "plan"}}),
		}}, 422, "as_node")
	}
	c.refused("POST", "/threads", object{"supersteps": []object{steps(object{"values": object{}})}}, 422, "graph_id")
	id := "01a20283-be24-7000-8000-000000000002"
	c.refused("POST", "/threads", object{"thread_id": id, "graph_id": "booking", "supersteps": []object{
		steps(object{"values": object{"city": "Rom"}, "as_node": "plan"}), steps(object{"values": object{}, "as_node": "zap"}),
	}}, 422, `no node "zap"`)
	c.refused("GET", "/threads/"+id, nil, 404)
}

func TestAPatchAnswersWithAsLittleAsIsPreferred(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	path := "/threads/" + call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	status, _, body := c.ask(t.Context(), "PATCH", path, `{"metadata":{"a":1}}`, "Prefer", "return=minimal")
	if status != http.StatusNoContent || body != "" {
		t.Errorf("%d %s", status, body)
	}
	if got := call[object](c, "GET", path, nil)["metadata"].(object)["a"]; got != 1.0 {
		t.Errorf("a is %v", got)
	}
	if status, _, body := c.ask(t.Context(), "PATCH", path, `{"metadata":{"a":2}}`); status != http.StatusOK || !strings.Contains(body, `"a":2`) {
		t.Errorf("without it: %d %s", status, body)
	}
}

func TestAMemberThatIsWrongIsNamedAsTheBodyHasIt(t *testing.T) {
	s := calm(t)
	for path, bodies := range map[string]map[string]string{
		"/threads/search":    {`{"limit":"x"}`: "limit must not be a JSON string"},
		"/assistants/search": {`{"sort_order":1}`: "sort_order must not be a JSON number", `[]`: "body must not be a JSON array"},
		"/runs/search":       {`{"limit":true}`: "limit must not be a JSON bool", `{"status":[""]}`: "status must have no empty text"},
	} {
		for body, want := range bodies {
			w := quick(t.Context(), s, "POST", path, body)
			if w.Code != 422 || strings.TrimSpace(w.Body.String()) != want {
				t.Errorf("%s %s: %d %s", path, body, w.Code, w.Body)
			}
		}
	}
}
