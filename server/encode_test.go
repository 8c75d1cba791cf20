package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// streamed returns the parts of a stream.
func (c client) streamed(path string, body object) []pythonPart {
	c.t.Helper()
	parts, _ := python{t: c.t, url: c.url}.stream("POST", path, body)
	return parts
}

// said is what the parts of a stream say of whole messages, with the events beside
// them.
func said(parts []pythonPart) string {
	var lines []string
	for _, p := range parts {
		switch p.event {
		case "messages/partial":
			if n := len(lines); n > 0 && lines[n-1] == p.event {
				continue
			}
			lines = append(lines, p.event)
		case "messages/complete":
			list := p.data.([]any)
			m := list[0].(object)
			if m["id"] == nil || len(list) != 1 {
				lines = append(lines, fmt.Sprintf("without an ID: %v", list))
			}
			lines = append(lines, fmt.Sprint(m["type"], " ", m["content"]))
		case "values":
			lines = append(lines, fmt.Sprint("values ", len(p.data.(object)["messages"].([]any))))
		default:
			lines = append(lines, p.event)
		}
	}
	return strings.Join(lines, "\n")
}

func TestTheModeMessagesTellsOfWholeMessagesAfterTheValues(t *testing.T) {
	c := start(t, server.Graph(answering(t)), server.Graph(booking(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread + "/runs/stream"
	both := []string{"messages", "values"}
	parts := c.streamed(at, object{"assistant_id": "agent", "input": object{"messages": []object{{"role": "user", "content": "6 times 7?"}}}, "stream_mode": both})
	if got, want := said(parts), `metadata
values 1
human 6 times 7?
messages/metadata
messages/partial
values 2
ai 
values 3
messages/metadata
tool 42
messages/metadata
messages/partial
values 4
ai The answer is 42.`; got != want {
		t.Errorf("the stream is\n%s\nwant\n%s", got, want)
	}
	// Later runs tell of what is new: here of one message that has an ID and of one
	// that gets one.
	parts = c.streamed(at, object{"assistant_id": "booking", "input": object{"messages": []object{{"type": "human", "content": "Hm", "id": "h"}, {"type": "human", "content": "Go"}}}, "stream_mode": "messages"})
	if got, want := said(parts), "metadata\nhuman Hm\nhuman Go\nmessages/metadata\nai Off to Ulm"; got != want {
		t.Errorf("the stream is\n%s\nwant\n%s", got, want)
	}
	parts = c.streamed(at, object{"assistant_id": "booking", "command": object{"resume": true}, "stream_mode": "messages"})
	if got := said(parts); got != "metadata" {
		t.Errorf("an answer is told as %s", got)
	}
	// One message may stand for a list.
	parts = c.streamed("/runs/stream", object{"assistant_id": "booking", "input": object{"messages": object{"type": "human", "content": "Go"}}, "stream_mode": "messages"})
	if got, want := said(parts), "metadata\nhuman Go\nmessages/metadata\nai Off to Ulm"; got != want {
		t.Errorf("the stream is\n%s\nwant\n%s", got, want)
	}
}

// spreading sends numbers to tasks, after a subgraph has counted them.
func spreading(t *testing.T) *graph.Graph[numbers] {
	t.Helper()
	type counted struct {
		N int `json:"n"`
	}
	in := graph.New[counted]("count")
	in.AddNode("up", func(_ context.Context, s *counted) error { s.N++; return nil })
	in.AddNode("again", func(_ context.Context, s *counted) error { s.N++; return nil })
	in.AddEdge(graph.Start, "up").AddEdge("up", "again")
	b := graph.New[numbers]("spreading")
	graph.AddSubgraph(b, "count", in.MustCompile(), graph.Mapping[numbers, counted]{
		In:  func(p *numbers, c *counted) { c.N = p.N },
		Out: func(c *counted, p *numbers) { p.N = c.N },
	})
	square := graph.AddTask(b, "square", func(ctx context.Context, _ *numbers, n int) error { return graph.Emit(ctx, n*n) })
	b.AddCommandNode("spread", func(_ context.Context, s *numbers) (graph.Command, error) {
		return graph.Dispatch(square.Send(s.N), square.Send(s.N+1)), nil
	})
	b.AddEdge(graph.Start, "count").AddEdge("count", "spread")
	return b.MustCompile()
}

type numbers struct {
	N int `json:"n"`
}

// What tasks begin with: the payload of a send, or the state of the graph that they
// are of.
const beginnings = `count {"n":5}
count|up {"n":5}
count|again {"n":6}
spread {"n":7}
square 7
square 8`

func TestTasksSayWhatTheyBeginWith(t *testing.T) {
	c := start(t, server.Graph(spreading(t)))
	for _, mode := range []string{"tasks", "debug", "events"} {
		parts := c.streamed("/runs/stream", object{"assistant_id": "spreading", "input": object{"n": 5}, "stream_mode": mode, "stream_subgraphs": true})
		var lines []string
		for _, p := range parts {
			data, _ := p.data.(object)
			_, path, _ := strings.Cut(p.event, "|")
			name, input := data["name"], data["input"]
			switch mode {
			case "tasks":
				if data["triggers"] == nil {
					continue
				}
			case "debug":
				if data["type"] != "task" {
					continue
				}
				name, input = data["payload"].(object)["name"], data["payload"].(object)["input"]
			default:
				if data["event"] != "on_chain_start" || name == "spreading" {
					continue
				}
				if parents := data["parent_ids"].([]any); len(parents) > 1 {
					path = "count:"
				}
				input = data["data"].(object)["input"]
			}
			lines = append(lines, task(path, name, input))
		}
		if got := strings.Join(lines, "\n"); got != beginnings {
			t.Errorf("%s: tasks begin with\n%s\nwant\n%s", mode, got, beginnings)
		}
	}
}

func task(path string, name, input any) string {
	if path, _, _ = strings.Cut(path, ":"); path != "" {
		path += "|"
	}
	return fmt.Sprintf("%s%v %s", path, name, encoded(input))
}

func TestTasksOfTheSecondVersionSayWhatTheyBeginWith(t *testing.T) {
	for name, data := range map[string]func() string{
		"memory":     func() string { return "memory" },
		"SQLite":     func() string { return "sqlite:" + filepath.Join(t.TempDir(), "threads.db") },
		"PostgreSQL": func() string { return ownSchema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, server.Graph(spreading(t)), server.Data(data()))
			thread := newThread()
			only := object{"channels": []string{"tasks", "lifecycle"}}
			s, socket := c.follow(thread, only), c.dial(thread)
			socket.command("subscription.subscribe", only)
			for range 2 { // the second run begins with its own state
				c.must(thread, "run.start", object{"assistant_id": "spreading", "input": object{"n": 5}})
				for way, list := range map[string][]told{"a stream": s.until(told.ending), "a WebSocket": socket.until(told.ending)} {
					var lines []string
					for _, e := range list {
						if e.Method == "tasks" && e.data()["triggers"] != nil {
							lines = append(lines, task(strings.Join(e.Params.Namespace, "|"), e.data()["name"], e.data()["input"]))
						}
					}
					if got := strings.Join(lines, "\n"); got != beginnings {
						t.Errorf("%s: tasks begin with\n%s\nwant\n%s", way, got, beginnings)
					}
				}
			}
		})
	}
}

// A thread that is removed ends the streams of its runs with an error, also of one
// that hasn't begun.
func TestAStreamWhoseThreadIsRemovedEndsWithAnError(t *testing.T) {
	c := start(t, server.Graph(slow(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	body := object{"assistant_id": "slow", "input": object{"todo": 5000}, "stream_mode": "custom"}
	ends := make(chan string)
	open := func(path string, body object) {
		opened := make(chan struct{})
		go func() {
			resp, err := http.Post(c.url+path, "application/json", strings.NewReader(string(encoded(body))))
			close(opened)
			if err != nil {
				ends <- err.Error()
				return
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			if err != nil {
				data = []byte(err.Error())
			}
			ends <- string(data)
		}()
		if !strings.HasSuffix(path, "/wait") { // whose answer begins a second later
			<-opened
		}
	}
	open("/threads/"+thread+"/runs/stream", body)
	waitFor(t, "the run works", func() bool { done, _ := c.values(thread)["done"].(float64); return done > 0 })
	open("/threads/"+thread+"/runs/stream", body)
	run := call[[]object](c, "GET", "/threads/"+thread+"/runs?status=running", nil)[0]["run_id"].(string)
	open("/threads/"+thread+"/runs/wait", body)
	waitFor(t, "all are there", func() bool { return len(call[[]object](c, "GET", "/threads/"+thread+"/runs", nil)) == 3 })
	call[any](c, "DELETE", "/threads/"+thread, nil)
	want := `{"error":"ThreadRemoved","message":"Thread with ID ` + thread + ` was removed"}`
	for range 3 {
		select {
		case got := <-ends:
			if strings.HasPrefix(strings.TrimSpace(got), "{") {
				var o map[string]json.RawMessage
				if err := json.Unmarshal([]byte(got), &o); err != nil || string(o["__error__"]) != want {
					t.Errorf("waiting ends with %s", got)
				}
				continue
			}
			parts := strings.Split(strings.TrimSpace(got), "\n\n")
			if last := parts[len(parts)-1]; !slices.Contains(strings.Split(last, "\n"), "data: "+want) || !strings.HasPrefix(last, "event: error\n") {
				t.Errorf("run %s: the stream ends with %s", run, last)
			}
		case <-time.After(patience):
			t.Fatal("a stream never ends")
		}
	}
}

// choir has many tasks call one subgraph, each of which says something.
func choir(t *testing.T, singers int) *graph.Graph[trip] {
	t.Helper()
	in := graph.New[trip]("singer")
	in.AddNode("sing", func(_ context.Context, s *trip) error {
		named := chat.AI("la la " + s.City)
		named.ID = s.City
		s.Messages.Add(named, chat.AI("Thanks from "+s.City))
		return nil
	})
	in.AddEdge(graph.Start, "sing")
	singer := in.MustCompile()
	b := graph.New[trip]("choir")
	each := graph.AddTask(b, "each", func(ctx context.Context, _ *trip, city string) error {
		_, err := graph.Call(ctx, "", singer, func(s *trip) error {
			s.City = city
			return nil
		})
		return err
	}, graph.Contains(singer))
	b.AddCommandNode("split", func(context.Context, *trip) (graph.Command, error) {
		var sends []graph.Send
		for i := range singers {
			sends = append(sends, each.Send(fmt.Sprint("city ", i)))
		}
		return graph.Dispatch(sends...), nil
	})
	b.AddEdge(graph.Start, "split")
	return b.MustCompile()
}

func TestSubgraphsThatRunAtOnceDontTellEachOthersMessages(t *testing.T) {
	const singers = 200
	c := start(t, server.Graph(choir(t, singers)))
	parts := c.streamed("/runs/stream", object{"assistant_id": "choir", "input": object{}, "stream_mode": []string{"messages", "values"}, "stream_subgraphs": true})
	places, shown := map[string]string{}, map[string]bool{}
	for _, p := range parts {
		kind, ns, _ := strings.Cut(p.event, "|")
		switch kind {
		case "values":
			shown[ns] = shown[ns] || len(p.data.(object)["messages"].([]any)) > 0
		case "messages/complete":
			text := p.data.([]any)[0].(object)["content"].(string)
			if !shown[ns] {
				t.Errorf("%q is told of before the values of %s", text, ns)
			}
			places[text] = ns
		}
	}
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"messages", "lifecycle"}})
	c.must(thread, "run.start", object{"assistant_id": "choir", "input": object{}})
	followed := map[string]string{}
	for _, e := range s.until(told.ending) {
		if data := e.data(); e.Method == "messages" && data["event"] == "content-block-finish" {
			followed[data["content"].(object)["text"].(string)] = e.Params.Namespace[0]
		}
	}
	for _, places := range []map[string]string{places, followed} {
		own := map[string]bool{}
		for i := range singers {
			named, thanks := places[fmt.Sprint("la la city ", i)], places[fmt.Sprint("Thanks from city ", i)]
			if named == "" || named != thanks {
				t.Errorf("what singer %d says is told of %q and %q", i, named, thanks)
			}
			own[named] = true
		}
		if len(own) != singers {
			t.Errorf("what %d singers say is told of %d places", singers, len(own))
		}
	}
}
