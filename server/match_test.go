package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

type shelf struct {
	Books graph.List[any] `json:"books"`
}

// shelving keeps what it is given.
func shelving(t testing.TB) *graph.Graph[shelf] {
	t.Helper()
	b := graph.New[shelf]("shelving")
	b.AddNode("keep", func(context.Context, *shelf) error { return nil })
	b.AddEdge(graph.Start, "keep")
	g, err := b.Compile(graph.WarnSize(0))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// shelves is a server with threads that have books, such as "1,2".
func shelves(t *testing.T, threads int, books string, opts ...server.Option) *server.Server {
	t.Helper()
	s := calm(t, append(opts, server.Graph(shelving(t)))...)
	for range threads {
		okay(t, s, "POST", "/runs/wait", `{"assistant_id":"shelving","input":{"books":[`+books+`]},"on_completion":"keep"}`)
	}
	return s
}

func okay(t *testing.T, s *server.Server, method, path, body string) string {
	t.Helper()
	w := quick(t.Context(), s, method, path, body)
	if w.Code != 200 {
		t.Fatalf("%s %s: %d %.300s", method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

func TestASearchFindsElementsInLists(t *testing.T) {
	s := shelves(t, 1, `1, "a", null, {"n": 1, "of": [1, {"x": true}]}, [2], {"n": 2}`)
	for want, n := range map[string]string{
		`[]`: "1", `[1]`: "1", `["a", 1, null]`: "1", `[2]`: "0", `[[2]]`: "1", `[[]]`: "1", `[[1]]`: "0", `[{}]`: "1", `[{"n": 2}, {"n": 1}]`: "1", `[{"n": 3}]`: "0",
		`[{"of": [{"x": true}, 1]}]`: "1", `[{"of": [{"x": false}]}]`: "0", `[{"of": {}}]`: "0", `{}`: "0", `1`: "0", `null`: "0", `[1, 1, {"n": 1}, {"n": 1}]`: "1", `[true]`: "0",
	} {
		if got := strings.TrimSpace(okay(t, s, "POST", "/threads/count", `{"values":{"books":`+want+`}}`)); got != n {
			t.Errorf("%s is found in %s threads, want %s", want, got, n)
		}
	}
}

// allocated is how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestTheDepthOfAPathCostsNothing(t *testing.T) {
	s := calm(t)
	const depth = 150
	deep := strings.Repeat(`{"a":`, depth) + `[7,"` + strings.Repeat("x", 50_000) + `"]` + strings.Repeat("}", depth)
	okay(t, s, "POST", "/threads", `{"metadata":{"m":`+deep+`}}`)
	search := func(path string) string {
		var said []string
		for i := range 10 {
			said = append(said, fmt.Sprintf(`"p%d":%q`, i, path))
		}
		return okay(t, s, "POST", "/threads/search", `{"select":["thread_id"],"extract":{`+strings.Join(said, ",")+`}}`)
	}
	if got := search("metadata.m" + strings.Repeat(".a", depth) + "[-2]"); strings.Count(got, `":7`) != 10 {
		t.Errorf("it finds %.300s", got)
	}
	flat := allocated(func() { search("metadata.x") })
	if got := allocated(func() { search("metadata.m" + strings.Repeat(".a", depth) + "[0]") }); got > 2*flat+1<<20 {
		t.Errorf("deep paths take %d bytes, flat ones %d", got, flat)
	}
	w := quick(t.Context(), s, "POST", "/threads/search", `{"extract":{"p":"`+strings.Repeat("[-1]", 1000)+`"}}`)
	if w.Code != 422 || !strings.Contains(w.Body.String(), "path of extract") {
		t.Errorf("a path without end: %d %s", w.Code, w.Body)
	}
}

func TestARequestReadsAndComparesOnlySoMuch(t *testing.T) {
	const books = 2000
	list := make([]string, books)
	for i := range list {
		list[i] = fmt.Sprintf(`{"n":%d}`, i)
	}
	s := shelves(t, 3, strings.Join(list, ","), server.WithLimits(server.Limits{Read: 60_000}), server.Logger(slog.New(slog.DiscardHandler)))
	var want, some []string
	for i := range 500 {
		want, some = append(want, fmt.Sprintf(`{"n":%d}`, books+i)), append(some, fmt.Sprint(i))
	}
	var threads []map[string]any
	if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads/search", `{"limit":2}`)), &threads); err != nil {
		t.Fatal(err)
	}
	id := threads[0]["thread_id"].(string)
	for _, tt := range []struct {
		path, body, says string
	}{
		{"/threads/search", `{"limit":2}`, ""},
		{"/threads/search", `{"limit":3}`, "60000 bytes"},
		{"/threads/search", `{"limit":3,"select":["thread_id"]}`, ""},
		{"/threads/search", `{"limit":2,"extract":{"a":"values.books","b":"values.books"}}`, "60000 bytes"},
		{"/threads/count", `{}`, ""},
		{"/threads/count", `{"values":{"books":[1]}}`, "60000 bytes"},
		{"/threads/count", `{"ids":["` + id + `"],"values":{"books":[` + strings.Join(some, ",") + `]}}`, ""},
		{"/threads/count", `{"ids":["` + id + `"],"values":{"books":[` + strings.Join(want, ",") + `]}}`, "compares more than 7500 values"},
		{"/threads/" + id + "/history", `{"limit":2}`, ""},
		{"/threads/" + id + "/state", ``, ""},
	} {
		method := "POST"
		if strings.HasSuffix(tt.path, "/state") {
			method = "GET"
		}
		w := quick(t.Context(), s, method, tt.path, tt.body)
		if tt.says == "" && w.Code != 200 || tt.says != "" && (w.Code != 422 || !strings.Contains(w.Body.String(), tt.says)) {
			t.Errorf("%s %.60s: %d %.200s", tt.path, tt.body, w.Code, w.Body)
		}
	}
	// History reads as little.
	for range 3 {
		okay(t, s, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"shelving","input":{}}`)
	}
	if w := quick(t.Context(), s, "POST", "/threads/"+id+"/history", `{"limit":10}`); w.Code != 422 || !strings.Contains(w.Body.String(), "60000 bytes") {
		t.Errorf("a history: %d %.200s", w.Code, w.Body)
	}
}

// departing is a store whose reader leaves after having read from so many threads.
type departing struct {
	checkpoint.Store
	read  map[checkpoint.ThreadID]bool
	after int
	leave func()
}

func (l *departing) Head(ctx context.Context, log checkpoint.Log) (*checkpoint.Record, checkpoint.Fence, error) {
	if l.leave != nil {
		l.read[log.Thread] = true
		if len(l.read) == l.after {
			l.leave()
		}
	}
	return l.Store.Head(ctx, log)
}

func TestASearchEndsWhenItsClientLeaves(t *testing.T) {
	store := &departing{Store: checkpoint.NewMemory(), read: map[checkpoint.ThreadID]bool{}, after: 2}
	s := shelves(t, 6, "1", server.UseStore(store))
	ctx, leave := context.WithCancel(t.Context())
	store.leave = leave
	w := quick(ctx, s, "POST", "/threads/search", `{"values":{"books":[2]}}`)
	if len(store.read) != 2 || w.Body.Len() > 0 {
		t.Errorf("it reads %d threads, and is answered %s", len(store.read), w.Body)
	}
}
