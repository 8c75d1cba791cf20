package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
)

// replayed is what a server says of a replay.
type replayed struct {
	Differences []graph.Difference
	More        bool
	Supersteps  int
	Error       *struct{ Error, Message string }
}

func replay(t *testing.T, s *server.Server, thread, body string) (out replayed) {
	t.Helper()
	if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads/"+thread+"/replay", body)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type guided struct {
	City   string `json:"city"`
	Advice string `json:"advice"`
	Fare   int    `json:"fare"`
	Booked bool   `json:"booked"`
}

// edition is what a version of the program does.
type edition struct {
	greets string // what the first node writes
	fare   int
	looks  string                // what a node of the subgraph writes
	asks   string                // what is asked
	ran    func()                // as the first node runs
	holds  func(context.Context) // it, where it is set
}

// guide is a graph with a subgraph and a question.
func guide(t testing.TB, e edition) *graph.Graph[guided] {
	t.Helper()
	in := graph.New[guided]("inner")
	in.AddNode("look", func(_ context.Context, s *guided) error {
		s.Advice += ", " + e.looks
		return nil
	}).AddEdge(graph.Start, "look")
	b := graph.New[guided]("guide")
	b.AddNode("greet", func(ctx context.Context, s *guided) error {
		if e.ran != nil {
			e.ran()
		}
		if e.holds != nil {
			e.holds(ctx)
		}
		s.Advice, s.Fare = e.greets+" "+s.City, e.fare
		return ctx.Err()
	})
	graph.AddSubgraph(b, "research", in.MustCompile(), graph.Mapping[guided, guided]{
		In:  func(p *guided, c *guided) { c.Advice = p.Advice },
		Out: func(c *guided, p *guided) { p.Advice = c.Advice },
	})
	b.AddNode("book", func(ctx context.Context, s *guided) (err error) {
		s.Booked, err = graph.Interrupt[bool](ctx, "sure", e.asks)
		return err
	})
	b.AddEdge(graph.Start, "greet").AddEdge("greet", "research").AddEdge("research", "book")
	return b.MustCompile()
}

var first = edition{greets: "Off to", fare: 10, looks: "take a coat", asks: "Book it?"}

// recorded leaves a thread of the first edition in a database, and returns its ID.
func recorded(t *testing.T, data string) string {
	t.Helper()
	s, err := server.New(t.Context(), server.Data(data), server.Graph(guide(t, first)), server.Logger(alarm(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	id := threadOn(t, s)
	okay(t, s, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	okay(t, s, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","command":{"resume":true}}`)
	return id
}

func TestAThreadIsReplayedAgainstItsGraphAsItIsServedNow(t *testing.T) {
	data := "sqlite:" + filepath.Join(t.TempDir(), "threads.db")
	id := recorded(t, data)
	changed := first
	changed.greets, changed.fare, changed.looks, changed.asks = "Away to", 12, "take an umbrella", "Shall it be booked?"
	for name, tt := range map[string]struct {
		served edition
		body   string
		want   []string
		more   bool
	}{
		"the same program": {first, `{}`, nil, false},
		"no body":          {first, ``, nil, false},
		"another one": {changed, `{}`, []string{
			`1 greet state advice "Off to Bonn" "Away to Bonn"`, `1 greet state fare 10 12`,
			`2 research/look state advice "Off to Bonn, take a coat" "Off to Bonn, take an umbrella"`,
			`3 book question  asks "sure": "Book it?" asks "sure": "Shall it be booked?"`,
		}, false},
		"the first difference alone":       {changed, `{"limit":1}`, []string{`1 greet state advice "Off to Bonn" "Away to Bonn"`}, true},
		"as many as there are":             {changed, `{"limit":2,"take_recorded":["research","book"]}`, []string{`1 greet state advice "Off to Bonn" "Away to Bonn"`, `1 greet state fare 10 12`}, false},
		"without fields":                   {changed, `{"ignore_fields":["advice","research/advice"],"take_recorded":["book"]}`, []string{`1 greet state fare 10 12`}, false},
		"with what was recorded of a node": {changed, `{"take_recorded":["greet","research/look","book"]}`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := calm(t, server.Data(data), server.Graph(guide(t, tt.served)))
			before := okay(t, s, "GET", "/threads/"+id+"/history", "")
			got := replay(t, s, id, tt.body)
			var list []string
			for _, d := range got.Differences {
				list = append(list, fmt.Sprintf("%d %s %s %s %s %s", d.Step, strings.Join(append(d.Path, d.Node), "/"), d.Kind, d.Field, d.Want, d.Got))
				if w := quick(t.Context(), s, "GET", "/threads/"+id+"/state/"+string(d.Checkpoint), ""); w.Code != 200 || !strings.Contains(before, string(d.Checkpoint)) {
					t.Errorf("no checkpoint %s is shown: %d", d.Checkpoint, w.Code)
				}
			}
			if strings.Join(list, "\n") != strings.Join(tt.want, "\n") || got.More != tt.more || got.Supersteps != 3 || got.Error != nil {
				t.Errorf("%+v\n%s", got, strings.Join(list, "\n"))
			}
			if after := okay(t, s, "GET", "/threads/"+id+"/history", ""); after != before {
				t.Errorf("the thread was\n%s\nand is\n%s", before, after)
			}
			if runs := okay(t, s, "GET", "/threads/"+id+"/runs", ""); strings.Count(runs, `"run_id"`) != 2 {
				t.Errorf("its runs are %s", runs)
			}
		})
	}
}

func TestAReplayThatCannotBeIsRefused(t *testing.T) {
	data := "sqlite:" + filepath.Join(t.TempDir(), "threads.db")
	id := recorded(t, data)
	s := calm(t, server.Data(data), server.Graph(guide(t, first)), server.Graph(bulky(t, 4, 10_000)), server.WithLimits(server.Limits{Read: 20_000, Batch: 3}))
	refuses := func(id, body string, status int, says ...string) {
		t.Helper()
		w := quick(t.Context(), s, "POST", "/threads/"+id+"/replay", body)
		for _, text := range says {
			if w.Code != status || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%.80s: %d %s", body, w.Code, w.Body)
			}
		}
	}
	refuses(id, `{"take_recorded":["gret"]}`, 422, `take_recorded: graph "guide" has no node "gret"; there are greet, research, book`)
	refuses(id, `{"ignore_fields":["Fare"]}`, 422, `ignore_fields: graph "guide" has no field "Fare"; there are city, advice, fare, booked`)
	refuses(id, `{"limit":0}`, 422, "limit must be from 1 to 1000")
	refuses(id, `{"limit":1001}`, 422, "limit must be from 1 to 1000")
	refuses(id, `{"limit":"all"}`, 422, "limit must not be a JSON string")
	refuses(id, `{"take_recorded":"greet"}`, 422, "take_recorded must not be a JSON string")
	refuses(id, `{"ignore_fields":["a","b","c","d"]}`, 422, "ignore_fields has more than 3 elements")
	refuses(id, `[]`, 422, "must not be a JSON array")
	refuses(id, `{`, 400, "not JSON")
	refuses(newThread(), `{}`, 404, "not found")
	refuses("x", `{}`, 422, "not a UUID")
	refuses(threadOn(t, s), `{}`, 409, "has no graph")
	other := threadOn(t, s)
	okay(t, s, "PATCH", "/threads/"+other, `{"metadata":{"graph_id":"gone"}}`)
	refuses(other, `{}`, 409, `graph "gone", which is not served; graphs are booking, guide, bulky`)
	okay(t, s, "PATCH", "/threads/"+other, `{"metadata":{"graph_id":"guide"}}`)
	refuses(other, `{}`, 404, "no checkpoints yet")
	large := threadOn(t, s)
	okay(t, s, "POST", "/threads/"+large+"/runs/wait", `{"assistant_id":"bulky","input":{}}`)
	refuses(large, `{}`, 422, "superstep export")
	okay(t, s, "POST", "/threads/"+id+"/runs", `{"assistant_id":"guide","input":{},"after_seconds":1000}`)
	refuses(id, `{}`, 409, "busy")
}

func TestAReplayEndsWithItsClientAndAfterItsTime(t *testing.T) {
	data := "sqlite:" + filepath.Join(t.TempDir(), "threads.db")
	id := recorded(t, data)
	held := first
	entered, left := make(chan struct{}, 100), make(chan struct{}, 100)
	held.holds = func(ctx context.Context) {
		entered <- struct{}{}
		<-ctx.Done()
		left <- struct{}{}
	}
	long := calm(t, server.Data(data), server.Graph(guide(t, held)))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan *httptest.ResponseRecorder)
	for range 4 {
		go func() { done <- quick(ctx, long, "POST", "/threads/"+id+"/replay", `{}`) }()
	}
	for range 4 {
		<-entered
	}
	if w := quick(t.Context(), long, "POST", "/threads/"+id+"/replay", `{}`); w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "at most 4 of one client") {
		t.Errorf("a fifth one: %d %s", w.Code, w.Body)
	}
	leave()
	for range 4 {
		<-left
		<-done
	}

	short := calm(t, server.Data(data), server.Graph(guide(t, held)), server.ReplayTime(time.Millisecond))
	got := replay(t, short, id, `{}`)
	if got.Error == nil || !strings.Contains(got.Error.Message, "superstep replay") || len(got.Differences) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAReplayIsForThoseWhoMayRunAndReadTheThread(t *testing.T) {
	ran := new(atomic.Int32)
	e := first
	e.ran = func() { ran.Add(1) }
	only := func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if strings.Contains(strings.Join(u.Permissions, " "), "no:"+string(a.Resource)+":"+string(a.Verb)) {
			return server.Filter{}, fmt.Errorf("%w: %s %s", server.ErrForbidden, a.Verb, a.Resource)
		}
		return server.Filter{}, nil
	}
	c := start(t, server.Graph(guide(t, e)), server.Authenticate(byHeader), server.Authorize(only), quiet())
	ann := visitor{c, "ann"}
	id := ann.json("POST", "/threads", `{}`).(object)["thread_id"].(string)
	ann.json("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	for user, want := range map[string]int{"ann": 200, "bob/no:runs:create_run": 403, "bob/no:threads:read": 403, "bob/no:assistants:read": 403, "bob/no:threads:update": 200, "": 401} {
		before := ran.Load()
		status, text := visitor{c, user}.send("POST", "/threads/"+id+"/replay", `{}`)
		if status != want || (ran.Load() > before) != (want == http.StatusOK) {
			t.Errorf("%s: %d %s", user, status, text)
		}
	}
}

// What nodes remember in a replay is nothing that others see, and they are told who asks.
func TestAReplayWritesToNoMemoryAndIsForWhoAsks(t *testing.T) {
	c := start(t, server.Graph(remembering(t)), server.Authenticate(byHeader), quiet())
	ann, bob := visitor{c, "ann"}, visitor{c, "bob"}
	id := ann.json("POST", "/threads", `{}`).(object)["thread_id"].(string)
	ann.json("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"remembering","input":{}}`)
	list := func() string {
		_, text := ann.send("POST", "/store/items/search", `{"namespace_prefix":[]}`)
		return text
	}
	before := list()
	if !strings.Contains(before, `"ann"`) {
		t.Fatalf("remembered: %s", before)
	}
	if status, text := ann.send("POST", "/threads/"+id+"/replay", `{}`); status != 200 || !strings.Contains(text, `"differences":[]`) {
		t.Errorf("by who ran it: %d %s", status, text)
	}
	if status, text := bob.send("POST", "/threads/"+id+"/replay", `{}`); status != 200 || !strings.Contains(text, `"want":"\"ann\"","got":"\"bob\""`) {
		t.Errorf("by another: %d %s", status, text)
	}
	if after := list(); after != before {
		t.Errorf("remembered was %s and is %s", before, after)
	}
}

type remembered struct {
	Who string `json:"who"`
}

// remembering is a graph that notes for whom it runs, in its state and in the long-term
// memory.
func remembering(t testing.TB) *graph.Graph[remembered] {
	t.Helper()
	b := graph.New[remembered]("remembering")
	b.AddNode("note", func(ctx context.Context, s *remembered) error {
		c, err := graph.Configured[known](ctx)
		if err != nil {
			return err
		}
		s.Who = c.User.ID
		store, err := memory.From(ctx)
		if err != nil {
			return err
		}
		_, err = store.Put(ctx, []string{"who"}, s.Who, json.RawMessage(`{}`))
		return err
	})
	b.AddEdge(graph.Start, "note")
	g, err := b.Compile(graph.Configurable(known{}))
	if err != nil {
		t.Fatal(err)
	}
	return g
}
