package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// groups are routes that read the same members, and a body that they take. The
// first of which a route contains the path is its own.
var groups = []struct {
	path, body string
	members    []string
}{
	{"/model_calls", `"request":{"messages":[{"type":"human","content":"x"}]}`, []string{"request"}},
	{"/replay", `"limit":1`, []string{"take_recorded", "ignore_fields", "ignore_entry", "limit"}},
	{"/threads/import", `"superstep":"recording","format":100,"thread":"t"`, []string{"superstep", "format", "thread", "graph", "version", "exported_at", "log", "record", "result", "end", "records", "results"}},
	{"/feedback", `"key":"k","score":1`, []string{"run_id", "key", "score", "comment"}},
	{"/commands", `"id":1,"method":"run.start","params":{"assistant_id":"booking","input":{}}`, []string{"id", "method", "params"}},
	{"/stream", `"channels":["values"],"assistant_id":"booking"`, []string{"channels", "namespaces", "depth", "since", "stream_mode", "input", "on_disconnect"}},
	{"/mcp", `"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"booking","arguments":{"city":"Ulm"}}`, []string{"jsonrpc", "id", "method", "params", "result"}},
	{"/agui", `"threadId":"0198f1c2-0000-7000-8000-000000000000","runId":"r","messages":[{"id":"m","role":"user","content":"x"}]`, []string{"threadId", "runId", "protocolVersion", "parentRunId", "state", "messages", "tools", "context", "forwardedProps", "resume"}},
	{"/v1/chat", `"model":"booking","messages":[{"role":"user","content":"x"}]`, []string{"model", "messages", "stream", "stream_options", "metadata", "tools", "tool_choice", "n", "stop", "response_format"}},
	{"/v1/responses", `"model":"booking","input":"x","store":false`, []string{"model", "input", "instructions", "stream", "store", "metadata", "previous_response_id", "conversation", "tools", "tool_choice", "text", "include"}},
	{"/crons", `"assistant_id":"booking","schedule":"0 0 1 1 *"`, []string{"assistant_id", "thread_id", "schedule", "timezone", "end_time", "enabled", "on_run_completed", "metadata", "input", "limit", "sort_by", "select", "webhook"}},
	{"/runs/search", `"limit":1`, []string{"status", "assistant_id", "graph_id", "thread_id", "user_id", "error", "created_after", "created_before", "min_tokens", "min_cost", "limit", "cursor", "select"}},
	{"/runs/figures", `"bucket_seconds":60`, []string{"status", "error", "created_after", "min_cost", "bucket_seconds"}},
	{"/runs/cancel", `"status":"pending"`, []string{"status", "run_ids", "thread_id"}},
	{"/runs", `"assistant_id":"booking","after_seconds":1000`, []string{"assistant_id", "input", "command", "config", "context", "metadata", "stream_mode", "interrupt_before", "checkpoint", "checkpoint_id", "webhook", "multitask_strategy", "on_completion", "after_seconds", "if_not_exists", "durability", "feedback_keys"}},
	{"/state", `"values":{}`, []string{"values", "as_node", "checkpoint", "checkpoint_id", "subgraphs", "metadata"}},
	{"/history", `"limit":1`, []string{"limit", "before", "metadata", "checkpoint"}},
	{"/threads", `"limit":1`, []string{"thread_id", "metadata", "if_exists", "graph_id", "supersteps", "ttl", "limit", "offset", "ids", "status", "values", "query", "sort_by", "sort_order", "select", "extract", "thread_ids", "strategy"}},
	{"/assistants", `"graph_id":"booking"`, []string{"graph_id", "assistant_id", "config", "context", "metadata", "if_exists", "name", "description", "limit", "offset", "select", "version"}},
	{"/store", `"namespace":["a"],"key":"k","value":{}`, []string{"namespace", "key", "value", "index", "ttl", "namespace_prefix", "filter", "query", "refresh_ttl", "prefix", "suffix", "max_depth", "limit", "offset"}},
	{"", `"a":1`, []string{"a"}},
}

// wrong are bodies for a route of which one member is wrong.
func wrong(pattern string) (out []string) {
	for _, g := range groups {
		if !strings.Contains(pattern, g.path) {
			continue
		}
		for i, m := range g.members {
			for j, v := range hostile {
				if underRace && (i+j+len(pattern))%41 != 0 {
					continue
				}
				body := "{" + g.body + `,"` + m + `":` + v + "}" // the last one counts
				if strings.HasSuffix(pattern, "/batch") {
					body = "[" + body + "]"
				}
				out = append(out, body)
			}
		}
		return out
	}
	return nil
}

// hostile are values that are not what anybody expects.
var hostile = []string{
	"null", "true", "-1", "0.5", "1e400", "-9223372036854775809", "9223372036854775807", "123456789012345678901234567890", `""`, `"x"`, `"\u0000"`, `"\ud800"`,
	`"../../etc/passwd"`, `"a\r\nX-Evil: 1"`, `"' OR 1=1 --"`, `"TZ=0"`, `"CRON_TZ=../x 0 0 * * *"`, `"@every -1s"`, `"0198f1c2-0000-7000-8000-000000000000"`,
	"[]", "[null]", "[[]]", `[""]`, `["\u0000"]`, `["x",1,{}]`, "{}", `{"":""}`, `{"\u0000":"\u0000"}`, `{"a":{"b":[1,{"c":null}]}}`,
	`{"configurable":1}`, `{"configurable":{"thread_id":"x","checkpoint_id":"y"}}`, `{"recursion_limit":9223372036854775807}`, `{"resume":null,"update":[["a"]],"goto":[{"node":1}]}`,
	`{"update":[[1,2]],"goto":{"node":"nope"}}`, `{"checkpoint_id":"x","checkpoint_ns":"\u0000"}`, `{"$overwrite":{}}`, `{"$gt":{"$gt":[]}}`, `{"owner":"\u0000","graph_id":"\u0000","assistant_id":"\u0000"}`,
}

// broken are bodies that are no JSON, or too much of it.
func broken() []string {
	deep := func(open, inner, shut string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	out := []string{
		"", " ", "nul", "{", "}", "[", `"`, `{"a"}`, `{"a":}`, `{"a":1,}`, "{}{}", "[1 2]", "\x00", "\xff\xfe", "\xef\xbb\xbf{}", "{\"a\":\"\xff\"}", "{\"\xc3\x28\":1}",
		"NaN", "Infinity", "'x'", "<xml/>", "a=b&c=d", "--x\r\nContent-Disposition: form-data", `{"a":1e999999999}`, "{\"a\":\"\x01\"}", "null", "true", "0", `"x"`, "[]", "[null]", "[[]]", "[{}]",
		deep("[", "", "]", 201), deep(`{"a":`, "1", "}", 201), deep("[", "", "]", 5000), deep("[", "", "]", 200_000), deep(`{"a":`, "1", "}", 100_000), strings.Repeat("[", 200_000),
		`{"metadata":` + deep("[", "", "]", 190) + `}`, `{"input":` + deep(`{"a":`, "1", "}", 190) + `,"assistant_id":"booking"}`, `{"values":` + deep("[", "", "]", 190) + "}",
		`{"x":"` + strings.Repeat("a", 1<<20) + `"}`, `{"name":"` + strings.Repeat("a", 1<<17) + `","graph_id":"booking"}`, `{"metadata":{"x":"` + strings.Repeat("a", 1<<17) + `"}}`,
		`{"thread_id":"` + strings.Repeat("a", 1<<17) + `"}`, `{"` + strings.Repeat("a", 1<<17) + `":1}`, `{"x":` + strings.Repeat("9", 1<<17) + `}`,
		`{"metadata":{"x":[` + strings.Repeat("1,", 1<<13) + `1]}}`, `{"ids":[` + strings.Repeat(`"x",`, 2000) + `"x"]}`, "[" + strings.Repeat("{},", 2000) + "{}]",
		`{"thread_id":"x","thread_id":null,"thread_id":1}`, `{"metadata":{"a":1,"a":2},"metadata":[]}`,
	}
	return out
}

// quick answers a request of a test without a network.
func quick(ctx context.Context, s http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	path, query, _ := strings.Cut(path, "?")
	r.URL.Path, r.URL.RawQuery = path, query
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// alarm is a log that fails a test when the server is at fault.
func alarm(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		t.Errorf("the server logs: %.2000s", p)
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelError}))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// calm is a server whose log must have no errors.
func calm(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	s, err := server.New(t.Context(), append([]server.Option{server.Graph(booking(t)), server.Logger(alarm(t))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func made(t *testing.T, s http.Handler) ids {
	t.Helper()
	post := func(path, body, id string) string {
		w := quick(t.Context(), s, "POST", path, body)
		var o object
		if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || w.Code != 200 {
			t.Fatalf("POST %s: %d %s", path, w.Code, w.Body)
		}
		return o[id].(string)
	}
	of := ids{"thread": post("/threads", "{}", "thread_id"), "assistant": post("/assistants", `{"graph_id":"booking"}`, "assistant_id")}
	of["run"] = post("/threads/"+of["thread"]+"/runs", `{"assistant_id":"booking","input":{"city":"Ulm"}}`, "run_id")
	quick(t.Context(), s, "GET", "/threads/"+of["thread"]+"/runs/"+of["run"]+"/join", "")
	of["cron"] = post("/runs/crons", `{"assistant_id":"booking","schedule":"0 0 1 1 *"}`, "cron_id")
	var state struct {
		Checkpoint struct {
			ID string `json:"checkpoint_id"`
		}
	}
	w := quick(t.Context(), s, "GET", "/threads/"+of["thread"]+"/state", "")
	if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil {
		t.Fatal(err)
	}
	of["checkpoint"], of["namespace"] = state.Checkpoint.ID, "x"
	return of
}

// sane reports what is wrong with an answer to a client that was wrong.
func sane(w *httptest.ResponseRecorder) error {
	text := w.Body.String()
	switch {
	case w.Code >= 500:
		return errors.New("that is the server's fault")
	case w.Code >= 400 && (strings.TrimSpace(text) == "" || len(text) > 2000 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b")):
		return fmt.Errorf("its text has %d bytes, or isn't for people", len(text))
	case w.Code >= 400 && !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") && !inOwnForm(w):
		return fmt.Errorf("its content type is %s", w.Header().Get("Content-Type"))
	case w.Code < 300 && w.Code != 204 && w.Code != 202 && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()):
		return errors.New("that is no JSON")
	}
	return nil
}

// inOwnForm reports whether an answer is an error in the form of another protocol.
func inOwnForm(w *httptest.ResponseRecorder) bool {
	var told struct {
		Error         struct{ Message, Type string }
		Code, Message string // of AG-UI
	}
	err := json.Unmarshal(w.Body.Bytes(), &told)
	return err == nil && (told.Error.Message != "" && told.Error.Type != "" || told.Code != "" && told.Message != "") && w.Header().Get("Content-Type") == "application/json"
}

func TestNoBodyMakesAServerFailOrPanic(t *testing.T) {
	nonsense := broken()
	s := calm(t)
	of := made(t, s)
	for _, pattern := range server.Routes(s) {
		method, path, _ := strings.Cut(pattern, " ")
		if method == "GET" {
			continue // the queries are below
		}
		if !underRace { // what many bodies make would slow searches down
			s = calm(t)
			of = made(t, s)
		}
		bodies := wrong(pattern)
		for i, body := range nonsense {
			if !underRace || i%12 == len(pattern)%12 {
				bodies = append(bodies, body)
			}
		}
		if method == "DELETE" && strings.Contains(path, "{") {
			bodies = bodies[:1]
		}
		// What streams and waits would stay open: such requests are over at once.
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(path, "/stream") || strings.HasSuffix(path, "/wait") {
			cancel()
		}
		for _, body := range bodies {
			w := quick(ctx, s, method, fill(path, of), body)
			if err := sane(w); err != nil {
				t.Errorf("%s with %.150q: %d %.300q: %v", pattern, body, w.Code, w.Body, err)
			}
		}
		cancel()
		if w := quick(t.Context(), s, "GET", "/ok", ""); w.Code != 200 {
			t.Errorf("after %s: %d", pattern, w.Code)
		}
		if method == "DELETE" || pattern == "POST /threads/prune" {
			of = made(t, s)
		}
	}
}

func TestNoQueryOrPathMakesAServerFail(t *testing.T) {
	s := calm(t)
	of := made(t, s)
	bad := []string{
		"..", ".", "../../../etc/passwd", "..\\..\\x", "%2e%2e%2f", "\x00", "\xff", "a b", "-", "null", "0", strings.Repeat("a", 5000), "0198f1c2-0000-7000-8000-00000000000g",
		"{0198f1c2-0000-7000-8000-000000000000}", "urn:uuid:0198f1c2-0000-7000-8000-000000000000", "0198f1c2000070008000000000000000", "x\r\nX-Evil: 1", "'; DROP TABLE superstep_runs; --", "<script>", "search", "\u202e",
	}
	queries := []string{
		"limit=-1", "limit=x", "limit=99999999999999999999", "offset=9223372036854775807", "before=x", "before=%7B%22checkpoint_id%22%3A1%7D", "before=%00", "subgraphs=maybe", "include=%5B", "status=%00", "status=x",
		"select=%00&select=x", "xray=-1", "xray=99999999999999999999", "xray=9223372036854775807", "recurse=x", "open=%5B1%5D", "layout=XX", "namespace=", "namespace=%00.%00", "namespace=a..b&key=k", "namespace=a&key=%00", "namespace=%5B%22a%22%2C1%5D&key=k",
		"key=" + strings.Repeat("k", 5000) + "&namespace=a", "refresh_ttl=x", "stream_mode=%5B", "stream_mode=x", "cancel_on_disconnect=x", "action=x", "wait=x", "%zz=%zz", ";;;", "delete_threads=2",
	}
	for _, pattern := range server.Routes(s) {
		method, path, _ := strings.Cut(pattern, " ")
		for name := range of {
			if !strings.Contains(path, "{"+name+"}") {
				continue
			}
			for i, id := range bad {
				if underRace && i%5 != len(pattern)%5 {
					continue
				}
				with := ids{}
				for k, v := range of {
					with[k] = v
				}
				with[name] = id
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				w := quick(ctx, s, method, fill(path, with), `{"channels":["values"],"assistant_id":"booking","version":1,"schedule":"0 0 * * *","id":1,"method":"run.start"}`)
				if ctx.Err() != nil {
					t.Errorf("%s with %s %.60q stays open", pattern, name, id)
				}
				cancel()
				moved := w.Code == 301 || w.Code == 307 || w.Code == 308        // the path is cleaned
				told := strings.Contains(w.Body.String(), "404: Run not found") // in the stream that is joined
				if err := sane(w); err != nil || w.Code < 400 && name != "namespace" && !moved && !told || w.Header().Get("X-Evil") != "" || strings.ContainsAny(w.Header().Get("Location"), "\r\n") {
					t.Errorf("%s with %s %.60q: %d %.300q: %v", pattern, name, id, w.Code, w.Body, err)
				}
			}
		}
		if method != "GET" && !strings.Contains(path, "{") {
			continue
		}
		for i, q := range queries {
			if underRace && i%4 != len(pattern)%4 {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if strings.Contains(path, "stream") {
				cancel()
			}
			w := quick(ctx, s, method, fill(path, of)+"?"+q, "", "Last-Event-ID", "x")
			if err := sane(w); err != nil && ctx.Err() == nil || w.Code >= 500 {
				t.Errorf("%s?%s: %d %.300q: %v", pattern, q, w.Code, w.Body, err)
			}
			cancel()
		}
		if method == "DELETE" {
			of = made(t, s)
		}
	}
}

func TestALimitIsSaidAndKept(t *testing.T) {
	limits := server.Limits{Body: 10_000, Depth: 5, Metadata: 100, Batch: 2}
	s := calm(t, server.WithLimits(limits))
	of := made(t, s)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"a body", "POST", "/threads", `{"x":"` + strings.Repeat("a", 10_000) + `"}`, 413, "10000 bytes"},
		{"depth", "POST", "/threads", `{"metadata":{"a":{"b":{"c":{"d":[]}}}}}`, 422, "5 levels"},
		{"depth that is allowed", "POST", "/threads", `{"metadata":{"a":{"b":{"c":[]}}}}`, 200, ""},
		{"brackets in a text", "POST", "/threads", `{"metadata":{"a":"[[[[[[[[\"[[[[[["}}`, 200, ""},
		{"a thread's metadata", "POST", "/threads", `{"metadata":{"a":"` + strings.Repeat("a", 100) + `"}}`, 422, "100 bytes"},
		{"an assistant's metadata", "POST", "/assistants", `{"graph_id":"booking","metadata":{"a":"` + strings.Repeat("a", 100) + `"}}`, 422, "100 bytes"},
		{"a run's metadata", "POST", "/runs", `{"assistant_id":"booking","metadata":{"a":"` + strings.Repeat("a", 100) + `"}}`, 422, "100 bytes"},
		{"a cron's metadata", "POST", "/runs/crons", `{"assistant_id":"booking","schedule":"@daily","metadata":{"a":"` + strings.Repeat("a", 100) + `"}}`, 422, "100 bytes"},
		{"some metadata", "PATCH", "/assistants/" + of["assistant"], `{"metadata":{"a":"` + strings.Repeat("a", 60) + `"}}`, 200, ""},
		{"and more metadata", "PATCH", "/assistants/" + of["assistant"], `{"metadata":{"b":"` + strings.Repeat("a", 60) + `"}}`, 422, "100 bytes"},
		{"a search", "POST", "/threads/search", `{"metadata":{"a":"` + strings.Repeat("a", 100) + `"}}`, 422, "too large"},
		{"a search of values", "POST", "/threads/count", `{"values":{"a":"` + strings.Repeat("a", 100) + `"}}`, 422, "too large"},
		{"a name", "POST", "/assistants", `{"graph_id":"booking","name":"` + strings.Repeat("a", 1001) + `"}`, 422, "name"},
		{"a batch", "POST", "/runs/batch", `[{},{},{}]`, 422, "2 elements"},
		{"threads to prune", "POST", "/threads/prune", `{"thread_ids":["a","b","c"]}`, 422, "2 elements"},
		{"runs to cancel", "POST", "/runs/cancel", `{"run_ids":["a","b","c"]}`, 422, "2 elements"},
		{"threads to find", "POST", "/threads/search", `{"ids":["a","b","c"]}`, 422, "2 elements"},
		{"a label", "PUT", "/store/items", `{"namespace":["` + strings.Repeat("a", 1001) + `"],"key":"k","value":{}}`, 422, "1000"},
		{"a key", "PUT", "/store/items", `{"namespace":["a"],"key":"` + strings.Repeat("a", 1001) + `","value":{}}`, 422, "1000"},
		{"a configuration that no run could use", "POST", "/assistants", `{"graph_id":"booking","config":{"recursion_limit":"many"}}`, 422, "recursion_limit"},
		{"a checkpoint's namespace", "POST", "/threads/" + of["thread"] + "/state/checkpoint", `{"checkpoint":{"checkpoint_ns":"` + strings.Repeat("a", 1001) + `"}}`, 422, "checkpoint_ns"},
	} {
		w := quick(t.Context(), s, tt.method, tt.path, tt.body)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
	free := calm(t, server.WithLimits(server.Limits{Metadata: -1, Depth: -1}))
	if w := quick(t.Context(), free, "POST", "/threads", `{"metadata":{"a":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)+`}}`); w.Code != 200 {
		t.Errorf("without limits: %d %s", w.Code, w.Body)
	}
}

func TestOnlySoManyRunsAreOpen(t *testing.T) {
	c := start(t, server.Graph(slow(t)), server.Authenticate(byHeader), server.WithLimits(server.Limits{OpenRuns: 5, OpenRunsPerUser: 3}), server.Logger(slog.New(slog.DiscardHandler)))
	later := `{"assistant_id":"slow","input":{"todo":1},"after_seconds":1000}`
	take := func(user string, n, want int) {
		t.Helper()
		got := 0
		for range n {
			switch status, text := (visitor{c, user}).send("POST", "/runs", later); {
			case status == 200:
				got++
			case status != 429 || !strings.Contains(text, "too many runs"):
				t.Errorf("%s: %d %s", user, status, text)
			}
		}
		if got != want {
			t.Errorf("%s began %d runs, want %d", user, got, want)
		}
	}
	take("ada", 5, 3)
	take("bob", 5, 2)
	take("eve", 2, 0)
	ada := visitor{c, "ada"}
	ada.json("POST", "/runs/cancel", `{"status":"all"}`)
	take("eve", 4, 3)
	if n := ada.json("POST", "/threads/count", `{}`); n != 0.0 {
		t.Errorf("%v threads are left of runs that could not begin", n)
	}
}

func TestOnlySoManyStreamsAreOpen(t *testing.T) {
	c := start(t, server.Graph(slow(t)), server.Authenticate(byHeader), server.WithLimits(server.Limits{Streams: 3, StreamsPerClient: 2}), server.Logger(slog.New(slog.DiscardHandler)))
	open := func(user string) (int, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "POST", c.url+"/threads/"+newThread()+"/stream/events", strings.NewReader(`{"channels":["values"]}`))
		r.Header.Set("X-Test-User", user)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, func() { cancel(); answer.Body.Close() }
	}
	var shut []func()
	for i, want := range []int{200, 200, 429} {
		status, stop := open("ada")
		if shut = append(shut, stop); status != want {
			t.Errorf("ada's stream %d: %d", i, status)
		}
	}
	for i, want := range []int{200, 429} {
		status, stop := open("bob")
		if shut = append(shut, stop); status != want {
			t.Errorf("bob's stream %d: %d", i, status)
		}
	}
	for _, stop := range shut {
		stop()
	}
	for { // the server notices
		status, stop := open("eve")
		stop()
		if status == 200 {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPagesOfOriginsThatAreNotAllowedAreRefused(t *testing.T) {
	anyone, some := calm(t, server.APIKeys(oldKey)), calm(t, server.APIKeys(oldKey), server.AllowOrigins("https://chat.example"))
	for _, tt := range []struct {
		name    string
		s       http.Handler
		method  string
		origin  string
		status  int
		allowed string
	}{
		{"by default", anyone, "GET", "https://evil.example", 200, "*"},
		{"by default, from nowhere", anyone, "GET", "", 200, "*"},
		{"the allowed one", some, "GET", "https://chat.example", 200, "https://chat.example"},
		{"another", some, "GET", "https://evil.example", 403, ""},
		{"one of this machine", some, "GET", "http://localhost:3000", 403, ""},
		{"one that looks alike", some, "GET", "https://chat.example.evil.example", 403, ""},
		{"another scheme", some, "GET", "http://chat.example", 403, ""},
		{"an opaque one", some, "GET", "null", 403, ""},
		{"the server's own page", some, "GET", "http://example.com", 200, ""},
		{"no page", some, "GET", "", 200, ""},
		{"a preflight of another", some, "OPTIONS", "https://evil.example", 403, ""},
		{"a preflight", some, "OPTIONS", "https://chat.example", 204, "https://chat.example"},
		{"a WebSocket of another", some, "WEBSOCKET", "https://evil.example", 403, ""},
	} {
		method, path, headers := tt.method, "/info", []string{"Access-Control-Request-Method", "POST"}
		if tt.origin != "" {
			headers = append(headers, "Origin", tt.origin)
		}
		if method == "WEBSOCKET" {
			method, path = "GET", "/threads/"+newThread()+"/stream/events"
			headers = append(headers, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
		}
		w := quick(t.Context(), tt.s, method, path, "", headers...)
		if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != tt.status || got != tt.allowed || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d, allowed is %q", tt.name, w.Code, got)
		}
		if tt.s == http.Handler(some) && !slices.Contains(w.Header().Values("Vary"), "Origin") {
			t.Errorf("%s: caches aren't told that it depends on the origin", tt.name)
		}
	}
}

func TestAnswersTellBrowsersWhatNotToDo(t *testing.T) {
	s := calm(t)
	for _, path := range []string{"/ok", "/threads/" + newThread(), "/nowhere"} {
		h := quick(t.Context(), s, "GET", path, "").Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

// What clients send stands in no header and ends no event of a stream.
func TestNothingIsInjected(t *testing.T) {
	c := start(t, server.Graph(booking(t)), server.Logger(slog.New(slog.DiscardHandler)))
	evil := "Ulm\r\n\r\nevent: evil\r\ndata: 1\r\n\r\n\u2028event: evil\u2028"
	body, _ := json.Marshal(object{"assistant_id": "booking", "input": object{"city": evil}, "metadata": object{"a\r\nevent: evil": evil}, "stream_mode": []string{"values", "updates", "tasks", "checkpoints", "debug"}})
	status, header, text := c.ask(t.Context(), "POST", "/runs/stream", string(body))
	if status != 200 {
		t.Fatal(status, text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "event: evil") || strings.Contains(line, "\r") {
			t.Errorf("the stream has the line %q", line)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) {
			t.Errorf("data is no JSON: %q", data)
		}
	}
	for name, values := range header {
		if strings.Contains(strings.ToLower(name+strings.Join(values, "")), "evil") {
			t.Errorf("header %s: %q", name, values)
		}
	}
	at := c.url[len("http://"):]
	for _, raw := range []string{
		"GET /threads/x%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET //evil.example/%0d%0aX-Evil:%201/.. HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /threads/../../x%0d%0aX-Evil:1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"OPTIONS /threads HTTP/1.1\r\nHost: a\r\nOrigin: x\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: a\rX-Evil: 1\r\n\r\n",
		"GET /ok HTTP/1.1\r\nHost: a\r\nX-Request-Id: a\x00b\r\n\r\n",
		"GET /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, strings.Replace(raw, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
		answer, _ := io.ReadAll(conn)
		conn.Close()
		head, _, _ := strings.Cut(string(answer), "\r\n\r\n")
		for line := range strings.SplitSeq(head, "\r\n") {
			if strings.HasPrefix(line, "X-Evil") || strings.ContainsAny(line, "\r\n\x00") {
				t.Errorf("%q: the answer has the header %q", raw, line)
			}
		}
		if strings.HasPrefix(head, "HTTP/1.1 5") {
			t.Errorf("%q: %s", raw, head)
		}
	}
}

// serveOn is a server as programs make it.
func serveOn(t *testing.T, s http.Handler, change func(*http.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := server.HTTPServer(s)
	h.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	change(h)
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Serve(l) }()
	t.Cleanup(func() { h.Close(); <-done })
	return l.Addr().String()
}

func TestTheHTTPServerWaitsForNobodyForever(t *testing.T) {
	h := server.HTTPServer(http.NotFoundHandler())
	if h.ReadHeaderTimeout <= 0 || h.IdleTimeout <= 0 || h.MaxHeaderBytes <= 0 || h.ReadTimeout != 0 || h.WriteTimeout != 0 {
		t.Errorf("%+v", h)
	}
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	s := calm(t, server.WithLimits(server.Limits{BodyTimeout: 50 * time.Millisecond}))
	at := serveOn(t, s, func(*http.Server) {})
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /threads HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%v: %s", err, answer)
	}
}

// A stream lasts longer than its request's body may take.
func TestAStreamOutlivesTheTimeForItsBody(t *testing.T) {
	c := start(t, server.Graph(slow(t)), server.WithLimits(server.Limits{BodyTimeout: 50 * time.Millisecond}), server.Logger(slog.New(slog.DiscardHandler)))
	_, _, text := c.ask(t.Context(), "POST", "/runs/stream", `{"assistant_id":"slow","input":{"todo":10},"on_disconnect":"cancel"}`)
	if !strings.Contains(text, `"done":10`) {
		t.Errorf("it ended with %s", text[max(0, len(text)-200):])
	}
}

// crowd is how many connections are opened.
func crowd() int {
	if underRace || testing.Short() {
		return 200
	}
	return 2000
}

func TestHalfOpenConnectionsAreClosedAndStopNobody(t *testing.T) {
	s := calm(t)
	at := serveOn(t, s, func(h *http.Server) { h.ReadHeaderTimeout = 300 * time.Millisecond })
	before := runtime.NumGoroutine()
	var conns []net.Conn
	for i := range crowd() {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, []string{"", "GET", "POST /threads HTTP/1.1\r\nHost: a\r\nX-A: ", "\x16\x03\x01\x02\x00"}[i%4])
		conns = append(conns, conn)
	}
	answer, err := http.Get("http://" + at + "/ok")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if n := runtime.NumGoroutine(); n > before+2*len(conns)+50 {
		t.Errorf("%d connections have %d goroutines", len(conns), n-before)
	}
	for _, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for runtime.NumGoroutine() > before+50 {
		time.Sleep(time.Millisecond)
	}
}

// metric reads a number of a server's metrics.
func (c client) metric(name string) float64 {
	c.t.Helper()
	_, _, text := c.do("GET", "/metrics", nil)
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	c.t.Fatalf("there is no metric %s", name)
	return 0
}

// Ten thousand at once, against a server as programs run it.
func TestTenThousandHalfOpenConnectionsLeaveNothing(t *testing.T) {
	n := 10_000
	if underRace || testing.Short() {
		n = 1000
	}
	t.Parallel()
	p := launch(t, "memory")
	at := strings.TrimPrefix(p.url, "http://")
	goroutines, memory := p.metric("go_goroutines"), p.metric("process_resident_memory_bytes")
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range n {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
		fmt.Fprint(conn, []string{"", "GET", "POST /threads HTTP/1.1\r\nHost: a\r\nX-A: ", "GET /ok HTTP/1.1\r\n"}[i%4])
	}
	if status, _, _ := p.do("GET", "/ok", nil); status != 200 {
		t.Errorf("meanwhile: %d", status)
	}
	if more := p.metric("process_resident_memory_bytes") - memory; more > 400<<20 {
		t.Errorf("%d connections hold %.0f MB", n, more/(1<<20))
	} else {
		t.Logf("%d connections hold %.0f MB, with %.0f goroutines", n, more/(1<<20), p.metric("go_goroutines")-goroutines)
	}
	waitFor(t, "the connections are closed", func() bool { return p.metric("go_goroutines") < goroutines+50 })
}

// Whatever comes over a WebSocket is answered, or ends it, and nothing else.
func TestNothingThatComesOverAWebSocketHarms(t *testing.T) {
	s := calm(t, server.WithLimits(server.Limits{Body: 300_000}))
	c := client{t, "http://" + serveOn(t, s, func(*http.Server) {})}
	of := made(t, s)
	frames := broken()
	for _, method := range []string{"run.start", "input.respond", "state.get", "state.listCheckpoints", "state.fork", "agent.getTree", "subscription.subscribe", "subscription.unsubscribe", "\u0000", ""} {
		for i, v := range hostile {
			if underRace && i%7 != 0 {
				continue
			}
			name, _ := json.Marshal(method)
			frames = append(frames, fmt.Sprintf(`{"id":1,"method":%s,"params":%s}`, name, v), fmt.Sprintf(`{"id":%s,"method":%s}`, v, name))
			for _, member := range []string{"assistant_id", "input", "config", "metadata", "namespace", "keys", "checkpoint_id", "interrupt_id", "responses", "channels", "namespaces", "depth", "since", "limit", "webhook", "subscription_id"} {
				if (len(member)+i)%5 == 0 {
					frames = append(frames, fmt.Sprintf(`{"id":1,"method":%s,"params":{"assistant_id":"booking","channels":["values"],%q:%s}}`, name, member, v))
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var p *page
	for _, frame := range frames {
		if p == nil {
			p = c.dial(of["thread"])
		}
		if err := p.conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			if len(frame) <= 300_000 { // else the server may have hung up before the end
				t.Fatalf("%.100q: %v", frame, err)
			}
			p = nil
			continue
		}
		for {
			_, data, err := p.conn.Read(ctx)
			if err != nil {
				if len(frame) <= 300_000 {
					t.Fatalf("%.100q: %v", frame, err)
				}
				p = nil
				break
			}
			var a struct{ Type, Error, Message string } // IDs may be any number
			if err := json.Unmarshal(data, &a); err != nil || !utf8.Valid(data) {
				t.Fatalf("%.100q: %q", frame, data)
			}
			if a.Type == "error" && (a.Error == "" || a.Error == "unknown_error" || a.Message == "" || len(a.Message) > 5000) {
				t.Errorf("%.150q: %.300q", frame, data)
			}
			if a.Type != "event" {
				break
			}
		}
	}
	if w := quick(t.Context(), s, "GET", "/ok", ""); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

type bulk struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// bulky writes much.
func bulky(t testing.TB, steps, size int) *graph.Graph[bulk] {
	t.Helper()
	b := graph.New[bulk]("bulky")
	b.AddNode("write", func(_ context.Context, s *bulk) error {
		s.N++
		s.Text = strings.Repeat(string(rune('a'+s.N%26)), size)
		return nil
	})
	b.AddEdge(graph.Start, "write")
	b.AddRoutes("write", func(_ context.Context, s *bulk) (string, error) {
		if s.N < steps {
			return "more", nil
		}
		return "done", nil
	}, map[string]string{"more": "write", "done": graph.End})
	g, err := b.Compile(graph.MaxSteps(steps + 10))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Clients that don't read hold neither a run up nor memory of their own: all read
// from one log.
func TestReadersThatDoNotReadCostLittle(t *testing.T) {
	const steps, size = 20, 256 << 10 // 5 MB, more than sockets hold
	s := calm(t, server.Graph(bulky(t, steps, size)))
	at := serveOn(t, s, func(*http.Server) {})
	post := func(path, body string) (out object) {
		answer, err := http.Post("http://"+at+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
			t.Fatal(path, err)
		}
		return out
	}
	thread := post("/threads", "{}")["thread_id"].(string)
	run := post("/threads/"+thread+"/runs", `{"assistant_id":"bulky","input":{},"stream_resumable":true,"after_seconds":0.5}`)["run_id"].(string)
	n := crowd() / 20
	for range n {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET /threads/%s/runs/%s/stream HTTP/1.1\r\nHost: a\r\nLast-Event-ID: -1\r\n\r\n", thread, run)
	}
	answer, err := http.Get("http://" + at + "/threads/" + thread + "/runs/" + run + "/join")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var end bulk
	if err := json.NewDecoder(answer.Body).Decode(&end); err != nil || end.N != steps {
		t.Errorf("the run ended at %d: %v", end.N, err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if limit := uint64(200<<20 + n*(1<<20)); m.HeapAlloc > limit {
		t.Errorf("%d MB are in use for %d readers", m.HeapAlloc>>20, n)
	}
}

func TestWebhooksReachOnlyThePublicInternet(t *testing.T) {
	for ip, want := range map[string]bool{
		"1.1.1.1": true, "2606:4700::1": true, "127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "fe80::1": false, "fd00::1": false, "100.64.0.1": false, "192.0.0.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001::1": false, "ff02::1": false, "::": false, "fec0::1": false, "::7f00:1": false, "100::1": false, "5f00::1": false, "fe80::1%eth0": false, "2a00:1450::1": true,
	} {
		if got := server.Public(ip); got != want {
			t.Errorf("%s: public is %v", ip, got)
		}
	}
}

// A server that has one graph more than yesterday isn't given another one's
// assistant for it, which a client had put there.
func TestAnAssistantCannotWaitForAGraphToCome(t *testing.T) {
	id := call[object](start(t, server.Graph(slow(t))), "GET", "/assistants/slow", nil)["assistant_id"]
	data := "sqlite:" + t.TempDir() + "/data.db"
	open := func(opts ...server.Option) (client, func()) {
		s, err := server.New(t.Context(), append(opts, server.Data(data), server.Logger(slog.New(slog.DiscardHandler)))...)
		if err != nil {
			t.Fatal(err)
		}
		h := httptest.NewServer(s)
		return client{t, h.URL}, func() {
			h.Close()
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	c, shut := open(server.Graph(booking(t)))
	call[any](c, "POST", "/assistants", object{"assistant_id": id, "graph_id": "booking"})
	shut()
	c, shut = open(server.Graph(booking(t)), server.Graph(slow(t)))
	defer shut()
	if got := call[object](c, "GET", "/assistants/slow", nil); got["graph_id"] != "slow" {
		t.Errorf("the graph's assistant is %v", got)
	}
}

func TestNestingIsThatOfJSON(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `[]`: 1, `[[],[[]]]`: 3, `{"a":{"b":1},"c":[]}`: 2, `"[[["`: 0, `["\"[[",["\\"]]`: 2, `["\\\"[["]`: 1} {
		if got := server.Nesting([]byte(text)); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
}

func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		`{"assistant_id":"a","input":{},"command":{"resume":1,"update":[["a",1]],"goto":["n",{"node":"m","input":1}]},"stream_mode":["values"]}`,
		`{"thread_id":"x","ttl":{"ttl":1,"strategy":"delete"},"supersteps":[{"updates":[{"values":{},"as_node":"a"}]}]}`,
		`{"before":{"configurable":{"checkpoint_id":"x"}},"checkpoint":{"checkpoint_ns":"a|b"}}`, `[{"interrupt_before":"*"}]`, `{"id":1,"method":"run.start","params":{}}`, `{"end_time":"2026-01-01T00:00:00Z","timezone":"UTC"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, err := range server.ReadBody(data) {
			if err == nil {
				if !json.Valid(data) || !utf8.Valid(data) {
					t.Errorf("%q was read", data)
				}
				continue
			}
			status, text, ok := server.Fault(err)
			if !ok || status < 400 || status >= 500 || text == "" {
				t.Errorf("%q: %d %v", data, status, err)
			}
		}
		if server.Nesting(data) > len(data) {
			t.Errorf("%q is nested %d levels", data, server.Nesting(data))
		}
		if depth := server.Nesting(data); json.Valid(data) && depth > bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) {
			t.Errorf("%q is nested %d levels", data, depth)
		}
	})
}

func TestAHeaderThatNamesNoThreadIsRefused(t *testing.T) {
	s := calm(t)
	of := made(t, s)
	for _, value := range []string{"x", "../../etc/passwd", "a\r\nX-Evil: 1", "\x00", "\xff", "{" + of["thread"] + "}", "urn:uuid:" + of["thread"], of["thread"] + ", " + newThread(), strings.Repeat("a", 60_000), "\u202e"} {
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"booking","messages":[{"role":"user","content":"x"}]}`, "/v1/responses": `{"model":"booking","input":"x"}`,
		} {
			w := quick(t.Context(), s, "POST", path, body, "X-Thread-Id", value)
			if err := sane(w); err != nil || w.Code != 400 || !strings.Contains(w.Body.String(), "invalid_thread_id") || w.Header().Get("X-Thread-Id") != "" || w.Header().Get("X-Evil") != "" {
				t.Errorf("%s with %.60q: %d %.300q: %v", path, value, w.Code, w.Body, err)
			}
		}
		// Where no thread is to be named by a header it says nothing.
		body := `{"threadId":"` + newThread() + `","runId":"r","messages":[{"id":"m","role":"user","content":"x"}]}`
		if w := quick(t.Context(), s, "POST", "/assistants/booking/agui", body, "X-Thread-Id", value, "Last-Event-ID", value, "Accept", value); w.Code != 200 || w.Header().Get("X-Evil") != "" {
			t.Errorf("AG-UI with %.60q: %d %.300q", value, w.Code, w.Body)
		}
	}
}
