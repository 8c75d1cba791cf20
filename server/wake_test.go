package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// order is the state of a graph that waits.
type order struct {
	Steps graph.List[string] `json:"steps"`
	How   string             `json:"how"`
}

// waiting is a graph that rests, is paid, or asks with a deadline, as its input
// says.
func waiting(t testing.TB) *graph.Graph[order] {
	t.Helper()
	b := graph.New[order]("waiting")
	b.AddNode("wait", func(ctx context.Context, s *order) error {
		switch s.How {
		case "rest":
			if err := graph.Sleep(ctx, "rest", 200*time.Millisecond); err != nil {
				return err
			}
			s.Steps.Add("rested")
		case "paid":
			amount, err := graph.WaitFor[int](ctx, "", "paid")
			if err != nil {
				return err
			}
			s.Steps.Add(fmt.Sprint("paid ", amount))
		case "ask":
			answer, err := graph.Interrupt[string](ctx, "well", "Well?", graph.Deadline(200*time.Millisecond))
			var late *graph.DeadlineError
			if errors.As(err, &late) {
				answer, err = "nobody answered", nil
			}
			if err != nil {
				return err
			}
			s.Steps.Add(answer)
		}
		return nil
	})
	b.AddNode("send", func(ctx context.Context, s *order) error {
		c, err := graph.Configured[greeting](ctx)
		s.Steps.Add("sent " + c.Greeting)
		return err
	})
	b.AddEdge(graph.Start, "wait").AddEdge("wait", "send")
	g, err := b.Compile(graph.Configurable(greeting{}))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// until looks at a thread until it has a status.
func (c client) until(thread, status string) object {
	c.t.Helper()
	for {
		v := call[object](c, "GET", "/threads/"+thread, nil)
		if v["status"] == status {
			return v
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("the thread stays %v", v["status"])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestAThreadGoesOnWhenItsTimeHasCome(t *testing.T) {
	for _, data := range []string{"memory", "sqlite:" + filepath.Join(t.TempDir(), "wake.db")} {
		c := start(t, server.Graph(waiting(t)), server.Data(data))
		for how, during := range map[string]string{"rest": "busy", "paid": "busy", "ask": "interrupted"} {
			thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
			input := object{"assistant_id": "waiting", "input": object{"how": how}, "config": object{"configurable": object{"greeting": "hello"}}}
			out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", input)
			if how != "rest" && fmt.Sprint(out["steps"]) != "[]" {
				t.Errorf("%s: %v before its time", how, out)
			}
			want := map[string]string{"rest": "[rested sent hello]", "paid": "[paid 120 sent hello]", "ask": "[nobody answered sent hello]"}[how]
			if how == "paid" {
				c.until(thread, during)
				if status, _, text := c.do("POST", "/threads/"+thread+"/events", object{"name": "paid", "value": 120}); status != http.StatusNoContent {
					t.Errorf("the event: %d %s", status, text)
				}
			}
			got := c.until(thread, "idle")["values"].(object)["steps"]
			if fmt.Sprint(got) != want {
				t.Errorf("%s on %.6s: %v, want %s", how, data, got, want)
			}
			if runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil); len(runs) > 2 || runs[0]["status"] != "success" || len(runs) == 2 && runs[1]["status"] != "interrupted" {
				t.Errorf("%s: %v", how, runs)
			}
		}
	}
}

// A thread that was made for a run stays until the run's work is done.
func TestAThreadWithoutANameWaitsToo(t *testing.T) {
	c := start(t, server.Graph(waiting(t)))
	run := call[object](c, "POST", "/runs", object{"assistant_id": "waiting", "input": object{"how": "paid"}})
	thread := run["thread_id"].(string)
	for {
		if runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil); len(runs) == 1 && runs[0]["status"] == "interrupted" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	call[object](c, "POST", "/threads/"+thread+"/events", object{"name": "paid", "value": 1})
	for {
		if status, _, _ := c.do("GET", "/threads/"+thread, nil); status == http.StatusNotFound {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAnEventThatCannotBeSent(t *testing.T) {
	c := start(t, server.Graph(waiting(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	for id, want := range map[string]int{
		thread:                                 http.StatusConflict, // nothing has run on it
		"00000000-0000-4000-8000-000000000000": http.StatusNotFound,
	} {
		if status, _, text := c.do("POST", "/threads/"+id+"/events", object{"name": "paid"}); status != want {
			t.Errorf("%s: %d %s, want %d", id, status, text, want)
		}
	}
	if status, _, text := c.do("POST", "/threads/"+thread+"/events", object{"value": 1}); status != http.StatusUnprocessableEntity {
		t.Errorf("without a name: %d %s", status, text)
	}
}

// Both servers find a thread due; one run goes on with it.
func TestOneOfSeveralServersGoesOn(t *testing.T) {
	url := ownSchema(t)
	opts := []server.Option{server.Data(url), server.Graph(waiting(t)), quiet()}
	a, b := start(t, opts...), start(t, opts...)
	var threads []string
	for range 20 {
		run := call[object](a, "POST", "/threads/"+newThread()+"/runs", object{"assistant_id": "waiting", "input": object{"how": "rest"}, "if_not_exists": "create"})
		threads = append(threads, run["thread_id"].(string))
	}
	for _, thread := range threads {
		if got := fmt.Sprint(b.until(thread, "idle")["values"].(object)["steps"]); got != "[rested sent ]" {
			t.Errorf("it went on to %s", got)
		}
		if runs := call[[]object](b, "GET", "/threads/"+thread+"/runs", nil); len(runs) > 2 { // one, if the time had come before it ended
			t.Errorf("%d runs: %v", len(runs), runs)
		}
	}
}

// A wrong answer fails its run; the thread waits as it did.
func TestAThreadWaitsAfterAWrongAnswer(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": object{}})
	out := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "command": object{"resume": "perhaps"}})
	if text := fmt.Sprint(out["__error__"]); !strings.Contains(text, "must be a boolean, not") {
		t.Errorf("the run came to %v", out)
	}
	if v := call[object](c, "GET", "/threads/"+thread, nil); v["status"] != "interrupted" || v["error"] != nil {
		t.Errorf("the thread is %v: %v", v["status"], v["error"])
	}
	if runs := call[[]object](c, "GET", "/threads/"+thread+"/runs", nil); runs[0]["status"] != "error" {
		t.Errorf("the run is %v", runs[0]["status"])
	}
}

// greeting is what the graph is configured with.
type greeting struct {
	Greeting string `json:"greeting"`
}

// spawning is a graph whose node spawns one that waits, and waits for its end.
func spawning(t testing.TB, other *graph.Graph[order]) *graph.Graph[order] {
	t.Helper()
	b := graph.New[order]("spawning")
	b.AddNode("spawn", func(ctx context.Context, s *order) error {
		how := s.How
		sp, err := graph.Spawn(ctx, "other", other.Thread(""), other.Input(func(o *order) error { o.How = how; return nil }))
		if err != nil {
			return err
		}
		o, err := sp.Wait(ctx)
		if err != nil {
			return err
		}
		s.Steps.Add(o.Steps.Slice()...)
		return nil
	})
	b.AddEdge(graph.Start, "spawn")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What a node spawns is a thread of the server's, of the same user, which can be answered
// as any, and whose end lets the thread that spawned it go on.
func TestASpawnedThreadIsOneOfTheServers(t *testing.T) {
	for _, data := range []string{"memory", "sqlite:" + filepath.Join(t.TempDir(), "spawn.db")} {
		other := waiting(t)
		c := start(t, server.Graph(spawning(t, other)), server.Graph(other), server.Data(data))
		for how, want := range map[string]string{"rest": "[rested sent ]", "paid": "[paid 120 sent ]"} {
			thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
			call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "spawning", "input": object{"how": how}})
			if how == "paid" {
				var spawned []object
				for len(spawned) == 0 {
					spawned = call[[]object](c, "POST", "/threads/search", object{"metadata": object{"graph_id": "waiting"}, "status": "busy"})
				}
				c.do("POST", "/threads/"+spawned[0]["thread_id"].(string)+"/events", object{"name": "paid", "value": 120})
			}
			if got := c.until(thread, "idle")["values"].(object)["steps"]; fmt.Sprint(got) != want {
				t.Errorf("%s on %.6s: %v, want %s", how, data, got, want)
			}
		}
		if all := call[[]object](c, "POST", "/threads/search", object{}); len(all) != 4 {
			t.Errorf("there are %d threads", len(all))
		}
		thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
		call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "spawning", "input": object{"how": "paid"}})
		var spawned []object
		for len(spawned) == 0 {
			spawned = call[[]object](c, "POST", "/threads/search", object{"metadata": object{"graph_id": "waiting"}, "status": "busy"})
		}
		c.do("DELETE", "/threads/"+spawned[0]["thread_id"].(string), nil)
		if failed := c.until(thread, "error"); !strings.Contains(fmt.Sprint(failed["error"]), "deleted") {
			t.Errorf("after the spawned thread was deleted: %v", failed["error"])
		}
	}
}

// naming is a graph whose node spawns one that waits, by a name.
func naming(t testing.TB, name string, other *graph.Graph[order]) *graph.Graph[order] {
	t.Helper()
	b := graph.New[order]("naming")
	b.AddNode("spawn", func(ctx context.Context, s *order) error {
		_, err := graph.Spawn(ctx, "other", other.Thread(name), other.Input(func(o *order) error { o.How = "paid"; return nil }))
		return err
	})
	b.AddEdge(graph.Start, "spawn")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A thread that is spawned by a name goes by it; where nobody has spawned one, IDs are UUIDs.
func TestASpawnedThreadGoesByTheNameThatItsNodeGave(t *testing.T) {
	const name = "item/srv 2-ä"
	other := waiting(t)
	c := start(t, server.Graph(naming(t, name, other)), server.Graph(other))
	at := "/threads/" + url.PathEscape(name)
	nobodys := "/threads/item-3"
	made := newThread()
	for _, path := range []string{at, nobodys} {
		for _, what := range []string{"", "/state", "/history", "/runs", "/stream"} {
			c.refused("GET", path+what, nil, 422, "is not a UUID")
		}
		c.refused("POST", path+"/stream/events", object{"channels": []string{"lifecycle"}}, 422, "is not a UUID")
		c.refused("POST", path+"/commands", object{"id": 1, "method": "run.start", "params": object{"assistant_id": "waiting"}}, 422, "is not a UUID")
		c.refused("POST", path+"/runs", object{"assistant_id": "waiting", "if_not_exists": "create"}, 422, "is not a UUID")
		c.refused("PATCH", path, object{"metadata": object{}}, 422, "is not a UUID")
		c.refused("DELETE", path, nil, 422, "is not a UUID")
	}
	c.refused("POST", "/threads", object{"thread_id": name}, 422, "is not a UUID")

	call[object](c, "POST", "/threads/"+made+"/runs/wait", object{"assistant_id": "naming", "input": object{}, "if_not_exists": "create"})
	for found := 0; found == 0; {
		found = len(call[[]object](c, "POST", "/threads/search", object{"ids": []string{name}, "status": "busy"}))
	}
	if got := call[object](c, "GET", at, nil); got["thread_id"] != name {
		t.Errorf("it is %v", got["thread_id"])
	}
	if got := call[object](c, "GET", at+"/state", nil); fmt.Sprint(got["next"]) != "[wait]" {
		t.Errorf("next is %v", got["next"])
	}
	runs := call[[]object](c, "GET", at+"/runs", nil)
	if len(runs) != 1 {
		t.Fatalf("its runs are %v", runs)
	}
	run := runs[0]["run_id"].(string)
	if got := call[object](c, "GET", at+"/runs/"+run, nil); got["thread_id"] != name {
		t.Errorf("its run is %v", got)
	}
	if _, h, _ := c.do("GET", at+"/runs/"+run+"/join", nil); h.Get("Content-Location") != at+"/runs/"+run {
		t.Errorf("its run is at %s", h.Get("Content-Location"))
	}
	if found := call[[]object](c, "POST", "/runs/search", object{"thread_id": name}); len(found) != 1 {
		t.Errorf("searched, its runs are %v", found)
	}
	c.do("PATCH", at, object{"metadata": object{"seen": true}})
	c.do("POST", at+"/events", object{"name": "paid", "value": 120})
	if got := c.until(url.PathEscape(name), "idle")["values"].(object)["steps"]; fmt.Sprint(got) != "[paid 120 sent ]" {
		t.Errorf("it came to %v", got)
	}
	if got := call[[]object](c, "GET", at+"/history", nil); len(got) < 2 {
		t.Errorf("its history is %v", got)
	}
	again := call[object](c, "POST", at+"/runs/wait", object{"assistant_id": "waiting", "input": object{"how": "sent"}})
	if again["__error__"] != nil {
		t.Errorf("another run came to %v", again)
	}
	c.do("DELETE", at, nil)
	c.refused("GET", at, nil, 422, "is not a UUID")
	call[object](c, "POST", "/threads/"+made+"/runs/wait", object{"assistant_id": "naming", "input": object{}})
	for found := 0; found == 0; {
		found = len(call[[]object](c, "POST", "/threads/search", object{"ids": []string{name}, "status": "busy"}))
	}
	if got := call[object](c, "POST", "/threads/prune", object{"thread_ids": []string{name, "item-3"}}); got["pruned_count"] != 1.0 {
		t.Errorf("pruned: %v", got)
	}
}

// Names can be guessed: they tell nobody who may not see a thread that there is one.
func TestTheAnswerForSomebodyElsesSpawnedThreadIsTheSameAsForNothing(t *testing.T) {
	c := start(t, server.Graph(naming(t, "item-2", waiting(t))), server.Graph(waiting(t)), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), quiet())
	alice, bob := visitor{c, "alice"}, visitor{c, "bob"}
	alice.json("POST", "/runs/wait", `{"assistant_id":"naming","input":{},"on_completion":"keep"}`)
	var runs []any
	for len(runs) == 0 {
		runs = alice.json("POST", "/runs/search", `{"thread_id":"item-2"}`).([]any)
	}
	for _, one := range [][3]string{
		{"GET", "", ""}, {"PATCH", "", "{}"}, {"DELETE", "", ""}, {"GET", "/state", ""}, {"GET", "/history", ""}, {"POST", "/copy", ""}, {"GET", "/runs", ""},
		{"POST", "/runs", `{"assistant_id":"waiting","input":{}}`}, {"POST", "/runs", `{"assistant_id":"waiting","input":{},"if_not_exists":"create"}`},
		{"GET", "/stream", ""}, {"POST", "/stream/events", `{"channels":["lifecycle"]}`}, {"POST", "/events", `{"name":"paid"}`},
		{"POST", "/commands", `{"id":1,"method":"run.start","params":{"assistant_id":"waiting"}}`},
	} {
		status, text := bob.send(one[0], "/threads/item-2"+one[1], one[2])
		nothing, said := bob.send(one[0], "/threads/item-3"+one[1], one[2])
		if status != nothing || strings.ReplaceAll(text, "item-2", "item-3") != said || status < 400 {
			t.Errorf("%s %s: %d %s, and for nothing %d %s", one[0], one[1], status, text, nothing, said)
		}
	}
	if status, text := bob.send("GET", "/runs/"+runs[0].(object)["run_id"].(string), ""); status != 404 || strings.Contains(text, "item") {
		t.Errorf("its run, without the thread: %d %s", status, text)
	}
	if n := bob.json("POST", "/threads/prune", `{"thread_ids":["item-2"]}`).(object)["pruned_count"]; n != 0.0 {
		t.Errorf("bob prunes %v threads", n)
	}
}
