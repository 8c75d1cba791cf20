package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/a2a"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

type trip struct {
	City  string             `json:"city"`
	Notes graph.List[string] `json:"notes"`
}

// booking takes data and asks two questions, the one after the other.
func booking() *graph.Graph[trip] {
	b := graph.New[trip]("booking")
	b.AddNode("seat", func(ctx context.Context, s *trip) error {
		if err := graph.Emit(ctx, map[string]string{"booking": s.City}); err != nil {
			return err
		}
		answer, err := graph.Interrupt[string](ctx, "seat", "Which seat?")
		s.Notes.Add("seat " + answer)
		return err
	})
	b.AddNode("sure", func(ctx context.Context, s *trip) error {
		sure, err := graph.Interrupt[bool](ctx, "sure", map[string]string{"book": s.City})
		s.Notes.Add(fmt.Sprint("sure ", sure))
		return err
	})
	return b.AddSequence("seat", "sure").AddEdge(graph.Start, "seat").MustCompile()
}

func boom() *graph.Graph[trip] {
	b := graph.New[trip]("boom")
	b.AddNode("boom", func(context.Context, *trip) error { return errors.New("out of paper") })
	return b.AddEdge(graph.Start, "boom").MustCompile()
}

// parrot says the same to all.
func parrot(t testing.TB) *graph.Graph[agent.State] {
	g, err := agent.New(agent.ReAct[agent.State]{Name: "parrot", Model: scripted.New(scripted.Text("Good day to you.").Repeat())})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// gate works until it is let through.
func gate(entered chan<- struct{}, open <-chan struct{}) *graph.Graph[trip] {
	b := graph.New[trip]("gate")
	b.AddNode("wait", func(ctx context.Context, s *trip) error {
		entered <- struct{}{}
		if err := graph.Emit(ctx, "at work"); err != nil {
			return err
		}
		select {
		case <-open:
			s.Notes.Add("through")
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return b.AddEdge(graph.Start, "wait").MustCompile()
}

func serve(t testing.TB, opts ...server.Option) *httptest.Server {
	t.Helper()
	s, err := server.New(context.Background(), append(opts, server.WithoutStudio(), server.Logger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a2a.Handler(s, a2a.Options{MaxBody: 10000}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return web
}

// byKey takes a key for the name of a user.
func byKey(r *http.Request) (*server.User, error) {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return &server.User{ID: key}, nil
	}
	return nil, server.ErrUnauthenticated
}

type object = map[string]any

// post sends a request, and returns the status and the answer.
func post(t testing.TB, url, key, version, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	if version != "" {
		r.Header.Set("A2A-Version", version)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// ask calls a method of an agent and returns its result, or its error as a text.
func ask(t testing.TB, url, key, method string, params any) (object, string) {
	t.Helper()
	data, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	status, text := post(t, url, key, "1.0", string(data))
	var answer struct {
		Result object
		Error  *struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
		t.Fatalf("%s: %d %s", method, status, text)
	}
	if e := answer.Error; e != nil {
		return nil, fmt.Sprint(e.Code, " ", e.Message)
	}
	return answer.Result, ""
}

func message(id string, more object, parts ...object) object {
	m := object{"messageId": id, "role": "ROLE_USER", "parts": parts}
	for k, v := range more {
		m[k] = v
	}
	return object{"message": m}
}

func data(v any) object    { return object{"data": v} }
func text(s string) object { return object{"text": s} }

// sent sends a message and returns the task.
func sent(t testing.TB, url, key string, m object) (id, context, state string, task object) {
	t.Helper()
	result, refused := ask(t, url, key, "SendMessage", m)
	if refused != "" {
		t.Fatal(refused)
	}
	task = result["task"].(object)
	return task["id"].(string), task["contextId"].(string), task["status"].(object)["state"].(string), task
}

func TestATaskAsksUntilItIsDone(t *testing.T) {
	url := serve(t, server.Graph(booking())).URL + "/a2a/booking"
	id, ctx, state, task := sent(t, url, "", message("m1", nil, data(object{"city": "Bonn"})))
	parts := task["status"].(object)["message"].(object)["parts"].([]any)
	if got := fmt.Sprintf("%s %s %s", state, parts[0].(object)["text"], parts[1].(object)["data"].(object)["key"]); got != "TASK_STATE_INPUT_REQUIRED Which seat? seat" {
		t.Errorf("it asks %s", got)
	}
	if again, _, state, _ := sent(t, url, "", message("m1", object{"contextId": ctx}, data(object{"city": "Bonn"}))); again != id || state != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("the message that is sent again is task %s, not %s, and %s", again, id, state)
	}
	_, _, state, _ = sent(t, url, "", message("m2", object{"taskId": id}, text("12a")))
	if state != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("after the first answer it is %s", state)
	}
	if _, _, again, _ := sent(t, url, "", message("m2", object{"taskId": id}, text("12a"))); again != state {
		t.Errorf("an answer that is sent again leads to %s", again)
	}
	_, _, state, task = sent(t, url, "", message("m3", object{"taskId": id, "contextId": ctx}, text("true"))) // a text that is a bool
	if got, _ := json.Marshal(task["artifacts"]); state != "TASK_STATE_COMPLETED" || string(got) != `[{"artifactId":"values","name":"values","parts":[{"data":{"city":"Bonn","notes":["seat 12a","sure true"]}}]}]` {
		t.Errorf("it is %s and has made %s", state, got)
	}
	// Another task of the context leaves it as it was.
	other, _, _, _ := sent(t, url, "", message("m4", object{"contextId": ctx}, data(object{"city": "Rom"})))
	if got, _ := ask(t, url, "", "GetTask", object{"id": id}); got["status"].(object)["state"] != "TASK_STATE_COMPLETED" || !strings.Contains(fmt.Sprint(got["artifacts"]), "Bonn") {
		t.Errorf("then it is %v", got)
	}
	// One that waits is given up.
	if got, refused := ask(t, url, "", "CancelTask", object{"id": other}); refused != "" || got["status"].(object)["state"] != "TASK_STATE_CANCELED" {
		t.Errorf("cancelled it is %v, %s", got, refused)
	}
	list, _ := ask(t, url, "", "ListTasks", object{"contextId": ctx, "pageSize": 1})
	if got := fmt.Sprintf("%v %v %v", list["tasks"].([]any)[0].(object)["id"] == other, list["totalSize"], list["nextPageToken"]); got != "true 2 1" {
		t.Errorf("the list is %s: %v", got, list)
	}
	list, _ = ask(t, url, "", "ListTasks", object{"status": "TASK_STATE_COMPLETED"})
	if tasks := list["tasks"].([]any); len(tasks) != 1 || tasks[0].(object)["id"] != id {
		t.Errorf("completed are %v", tasks)
	}
}

func TestAnAgentIsTalkedWith(t *testing.T) {
	url := serve(t, server.Graph(parrot(t))).URL + "/a2a/parrot"
	for _, id := range []string{"m1", "m2"} {
		_, _, state, task := sent(t, url, "", message(id, nil, text("Hello"), object{"raw": "aGk=", "mediaType": "text/plain", "filename": "hi.txt"}))
		if got := fmt.Sprint(task["artifacts"]); state != "TASK_STATE_COMPLETED" || !strings.Contains(got, "parts:[map[text:Good day to you.]]") {
			t.Errorf("it is %s and says %s", state, got)
		}
	}
}

func TestARunThatFailsIsATaskThatFailed(t *testing.T) {
	url := serve(t, server.Graph(boom())).URL + "/a2a/boom"
	_, _, state, task := sent(t, url, "", message("m1", nil, data(object{"city": "Bonn"})))
	if got := fmt.Sprint(task["status"].(object)["message"]); state != "TASK_STATE_FAILED" || !strings.Contains(got, "out of paper") {
		t.Errorf("it is %s and says %s", state, got)
	}
}

func TestBadInputIsRefusedInTheProtocolsWords(t *testing.T) {
	entered, open := make(chan struct{}, 1), make(chan struct{})
	defer close(open)
	web := serve(t, server.Graph(booking()), server.Graph(parrot(t)), server.Graph(gate(entered, open)), server.Authenticate(byKey), server.Authorize(server.OwnedByUser()))
	url := web.URL + "/a2a/booking"
	id, ctx, _, _ := sent(t, url, "kim:1", message("m1", nil, data(object{"city": "Bonn"})))
	over, _, _, _ := sent(t, url, "kim:1", message("m2", nil, data(object{"city": "Rom"})))
	if _, refused := ask(t, url, "kim:1", "CancelTask", object{"id": over}); refused != "" {
		t.Fatal(refused)
	}
	busy := object{"configuration": object{"returnImmediately": true}}
	for k, v := range message("m3", nil, data(object{})) {
		busy[k] = v
	}
	working, _, _, _ := sent(t, web.URL+"/a2a/gate", "kim:1", busy)
	<-entered
	for _, tt := range []struct {
		name, agent, key, method string
		params                   any
		want                     string
	}{
		{"an unknown task", "booking", "kim:1", "GetTask", object{"id": "x"}, "-32001 there is no task"},
		{"one of another agent", "gate", "kim:1", "GetTask", object{"id": id}, "-32001 there is no task"},
		{"the task of another user", "booking", "lee:2", "GetTask", object{"id": id}, "-32001 there is no task"},
		{"cancelling it", "booking", "lee:2", "CancelTask", object{"id": id}, "-32001 there is no task"},
		{"answering it", "booking", "lee:2", "SendMessage", message("m9", object{"taskId": id}, text("1")), "-32001 there is no task"},
		{"following it", "booking", "lee:2", "SubscribeToTask", object{"id": id}, "-32001 there is no task"},
		{"beginning a task in the context of another user", "booking", "lee:2", "SendMessage", message("m9", object{"contextId": ctx}, data(object{})), "-32602 "},
		{"a task of another context", "booking", "kim:1", "SendMessage", message("m9", object{"taskId": id, "contextId": "7e4b7b1e-2f5b-4a5c-9d5e-0a8c9a1b2c3d"}, text("1")), "-32602 the task"},
		{"a context that is no ID", "booking", "kim:1", "SendMessage", message("m9", object{"contextId": "x"}, data(object{})), "-32602 the context"},
		{"an answer to a task that is over", "booking", "kim:1", "SendMessage", message("m9", object{"taskId": over}, text("1")), "-32004 the task is TASK_STATE_CANCELED"},
		{"an answer to one at work", "gate", "kim:1", "SendMessage", message("m9", object{"taskId": working}, text("1")), "-32004 the task is TASK_STATE_WORKING"},
		{"an answer of another shape", "booking", "kim:1", "SendMessage", message("m9", object{"taskId": id}, data(7)), "-32602 the answer to \"seat\""},
		{"an answer in two parts", "booking", "kim:1", "SendMessage", message("m9", object{"taskId": id}, text("1"), text("2")), "-32602 an answer is one part"},
		{"cancelling what is over", "booking", "kim:1", "CancelTask", object{"id": over}, "-32002 the task is TASK_STATE_CANCELED"},
		{"following what is over", "booking", "kim:1", "SubscribeToTask", object{"id": over}, "-32004 the task is TASK_STATE_CANCELED"},
		{"no message", "booking", "kim:1", "SendMessage", object{}, "-32602 a message needs"},
		{"no parts", "booking", "kim:1", "SendMessage", message("m9", nil), "-32602 a message needs"},
		{"a message of an agent", "booking", "kim:1", "SendMessage", message("m9", object{"role": "ROLE_AGENT"}, text("1")), "-32602 a message to an agent"},
		{"text for who takes data", "booking", "kim:1", "SendMessage", message("m9", nil, text("Bonn")), "-32005 this agent takes no text and no files, but a part of data with city, notes"},
		{"data of another shape", "booking", "kim:1", "SendMessage", message("m9", nil, data(object{"town": 1})), "-32602 input: "},
		{"data that is no object", "booking", "kim:1", "SendMessage", message("m9", nil, data(1)), "-32602 a part of data"},
		{"push notifications", "booking", "kim:1", "CreateTaskPushNotificationConfig", object{"taskId": id, "url": "http://x"}, "-32003 push notifications"},
		{"a message that wants some", "booking", "kim:1", "SendMessage", object{"message": message("m9", nil, data(object{}))["message"], "configuration": object{"taskPushNotificationConfig": object{"url": "http://x"}}}, "-32003 push notifications"},
		{"the extended card", "booking", "kim:1", "GetExtendedAgentCard", object{}, "-32004 there is no extended card"},
		{"a page of no size", "booking", "kim:1", "ListTasks", object{"pageSize": 1000}, "-32602 pageSize"},
		{"a method of 0.3", "booking", "kim:1", "message/send", object{}, "-32601 "},
		{"parameters of another type", "booking", "kim:1", "GetTask", 7, "-32602 "},
	} {
		url := web.URL + "/a2a/" + tt.agent
		if tt.method == "SubscribeToTask" {
			body, _ := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": tt.method, "params": tt.params})
			code, message, _ := strings.Cut(tt.want, " ")
			if _, got := post(t, url, tt.key, "1.0", string(body)); !strings.Contains(got, `"code":`+code+`,"message":"`+message) {
				t.Errorf("%s: %s", tt.name, got)
			}
			continue
		}
		if got, refused := ask(t, url, tt.key, tt.method, tt.params); !strings.HasPrefix(refused, tt.want) {
			t.Errorf("%s: %s %v, want %s", tt.name, refused, got, tt.want)
		}
	}
	get := `{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"` + id + `"}}`
	for _, tt := range []struct{ name, agent, key, version, body, want string }{
		{"no key", "booking", "", "1.0", get, "401 "},
		{"no such agent", "nope", "kim:1", "1.0", get, "404 "},
		{"no JSON", "booking", "kim:1", "1.0", "{", `200 {"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		{"no JSON-RPC", "booking", "kim:1", "1.0", `{"id":1,"method":"GetTask"}`, `200 {"jsonrpc":"2.0","id":1,"error":{"code":-32600`},
		{"too large", "booking", "kim:1", "1.0", strings.Repeat(" ", 10001), "413 body is larger than 10000 bytes"},
		{"a version to come", "booking", "kim:1", "2.0", get, `200 {"error":{"code":-32009,"message":"version \"2.0\" of the protocol is not spoken here`},
		{"no version, which is 0.3", "booking", "kim:1", "", get, `200 {"error":{"code":-32009`},
	} {
		status, got := post(t, web.URL+"/a2a/"+tt.agent, tt.key, tt.version, tt.body)
		if got := fmt.Sprint(status, " ", got); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	page, err := http.NewRequest("POST", url, strings.NewReader(get))
	if err != nil {
		t.Fatal(err)
	}
	page.Header = http.Header{"X-Api-Key": {"kim:1"}, "A2a-Version": {"1.0"}, "Origin": {"https://elsewhere.example"}}
	if resp, err := http.DefaultClient.Do(page); err != nil || resp.StatusCode != 403 {
		t.Errorf("a page of another origin is answered with %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	if list, _ := ask(t, url, "lee:2", "ListTasks", object{}); fmt.Sprint(list["totalSize"]) != "0" {
		t.Errorf("another user sees the tasks %v", list)
	}
	if now, _ := ask(t, url, "kim:1", "GetTask", object{"id": id}); now["status"].(object)["state"] != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("after all that the task is %v", now)
	}
}

// stream calls a streaming method and calls f with the data of each event, until it
// returns false or the stream ends.
func stream(t testing.TB, ctx context.Context, url, method string, params any, f func(object) bool) {
	t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := &lines{r: resp.Body}
	for line := range d.all() {
		if raw, ok := strings.CutPrefix(line, "data: "); ok {
			var e struct{ Result, Error object }
			if err := json.Unmarshal([]byte(raw), &e); err != nil || e.Error != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			if !f(e.Result) {
				return
			}
		}
	}
}

type lines struct{ r io.Reader }

func (l *lines) all() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		buf, rest := make([]byte, 4096), ""
		for {
			n, err := l.r.Read(buf)
			for rest += string(buf[:n]); strings.Contains(rest, "\n"); {
				var line string
				line, rest, _ = strings.Cut(rest, "\n")
				if !yield(strings.TrimSuffix(line, "\r")) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

func told(e object) string {
	switch {
	case e["task"] != nil:
		return "task " + e["task"].(object)["status"].(object)["state"].(string)
	case e["statusUpdate"] != nil:
		s := e["statusUpdate"].(object)["status"].(object)
		if m, ok := s["message"].(object); ok {
			return fmt.Sprint(s["state"], " ", m["parts"])
		}
		return fmt.Sprint(s["state"])
	}
	u := e["artifactUpdate"].(object)
	return fmt.Sprint("artifact ", u["append"], " ", u["artifact"].(object)["parts"])
}

func TestATaskIsStreamed(t *testing.T) {
	web := serve(t, server.Graph(parrot(t)), server.Graph(booking()))
	for _, tt := range []struct {
		agent string
		m     object
		want  string
	}{
		{"parrot", message("m1", nil, text("Hello")), "artifact <nil> [map[text:Good ]] artifact true [map[text:day ]] artifact true [map[text:to ]] artifact true [map[text:you.]] artifact <nil> [map[text:Good day to you.]] artifact <nil> [map[data:"},
		{"booking", message("m1", nil, data(object{"city": "Bonn"})), "TASK_STATE_WORKING [map[data:map[booking:Bonn]]] TASK_STATE_INPUT_REQUIRED [map[text:Which seat?]"},
	} {
		var all []string
		stream(t, t.Context(), web.URL+"/a2a/"+tt.agent, "SendStreamingMessage", tt.m, func(e object) bool { all = append(all, told(e)); return true })
		if got := strings.Join(all, " "); !strings.Contains(got, tt.want) || !strings.HasPrefix(got, "task TASK_STATE_") {
			t.Errorf("%s streams %s\nwant %s", tt.agent, got, tt.want)
		}
	}
}

// The server goes away in the middle of a stream, and another takes its place.
func TestATaskIsFollowedAgainAfterTheServerHasDied(t *testing.T) {
	file := "sqlite:" + filepath.Join(t.TempDir(), "threads.db")
	entered, open := make(chan struct{}, 9), make(chan struct{})
	var h http.Handler
	start := func() *server.Server {
		s, err := server.New(context.Background(), server.Data(file), server.Graph(gate(entered, open)), server.WithoutStudio(), server.Logger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		h = a2a.Handler(s, a2a.Options{})
		return s
	}
	first := start()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	defer web.Close()
	id := ""
	ctx, leave := context.WithCancel(t.Context())
	stream(t, ctx, web.URL+"/a2a/gate", "SendStreamingMessage", message("m1", nil, data(object{})), func(e object) bool {
		if task, ok := e["task"].(object); ok {
			id = task["id"].(string)
			return true
		}
		return !strings.Contains(told(e), "at work")
	})
	leave()
	<-entered
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = first.Close(soon) // what is at work is cut off
	second := start()
	defer second.Close(context.Background())
	<-entered // it is taken up
	var all []string
	stream(t, t.Context(), web.URL+"/a2a/gate", "SubscribeToTask", object{"id": id}, func(e object) bool {
		if all = append(all, told(e)); len(all) == 1 {
			close(open)
		}
		return true
	})
	if got := strings.Join(all, "\n"); !strings.HasPrefix(got, "task TASK_STATE_WORKING") || !strings.HasSuffix(got, "TASK_STATE_COMPLETED") || !strings.Contains(got, "through") {
		t.Errorf("it is followed as\n%s", got)
	}
}

// A receiver is told when its task asks and when it is done, with its token.
func TestNotificationsAreSent(t *testing.T) {
	store, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	push := a2a.NewPush(store, a2a.PushOptions{AllowPrivate: true})
	s, err := server.New(context.Background(), server.Graph(booking()), server.LocalWebhooks(push.Webhooks()), server.WithoutStudio(),
		server.Authenticate(byKey), server.Authorize(server.OwnedByUser()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	web := httptest.NewServer(a2a.Handler(s, a2a.Options{Push: push}))
	defer web.Close()
	got := make(chan string, 9)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e object
		_ = json.NewDecoder(r.Body).Decode(&e)
		got <- told(e) + " " + r.Header.Get("A2A-Notification-Token") + " " + e["task"].(object)["id"].(string)
	}))
	defer receiver.Close()
	url := web.URL + "/a2a/booking"
	m := message("m1", nil, data(object{"city": "Bonn"}))
	m["configuration"] = object{"taskPushNotificationConfig": object{"id": "c1", "url": receiver.URL, "token": "secret"}}
	id, _, _, _ := sent(t, url, "kim", m)
	if told := <-got; told != "task TASK_STATE_INPUT_REQUIRED secret "+id {
		t.Errorf("it is told %s", told)
	}
	for _, tt := range []struct {
		name, key, method string
		params            object
		want              string
	}{
		{"another user", "lee", "GetTaskPushNotificationConfig", object{"taskId": id, "id": "c1"}, "-32001 "},
		{"another user, who listens", "lee", "CreateTaskPushNotificationConfig", object{"taskId": id, "url": receiver.URL}, "-32001 "},
		{"no URL", "kim", "CreateTaskPushNotificationConfig", object{"taskId": id, "url": "file:///x"}, "-32602 notifications are sent"},
		{"an ID that is none", "kim", "CreateTaskPushNotificationConfig", object{"taskId": id, "url": receiver.URL, "id": "a.b"}, "-32602 the id"},
		{"an unknown one", "kim", "GetTaskPushNotificationConfig", object{"taskId": id, "id": "c9"}, "-32602 the task has no"},
	} {
		if found, refused := ask(t, url, tt.key, tt.method, tt.params); !strings.HasPrefix(refused, tt.want) {
			t.Errorf("%s: %s %v", tt.name, refused, found)
		}
	}
	for i, want := range []string{"2", "1"} {
		if i == 0 {
			ask(t, url, "kim", "CreateTaskPushNotificationConfig", object{"taskId": id, "id": "c2", "url": receiver.URL})
		} else {
			ask(t, url, "kim", "DeleteTaskPushNotificationConfig", object{"taskId": id, "id": "c2"})
		}
		list, _ := ask(t, url, "kim", "ListTaskPushNotificationConfigs", object{"taskId": id})
		if n := fmt.Sprint(len(list["configs"].([]any))); n != want {
			t.Errorf("there are %s configurations, want %s", n, want)
		}
	}
	sent(t, url, "kim", message("m2", object{"taskId": id}, text("12a")))
	<-got
	sent(t, url, "kim", message("m3", object{"taskId": id}, text("true")))
	if told := <-got; told != "task TASK_STATE_COMPLETED secret "+id {
		t.Errorf("then it is told %s", told)
	}
}

func TestACardSaysWhereItsAgentIs(t *testing.T) {
	web := serve(t, server.Graph(booking(), server.Describe("Books trips.")))
	for _, path := range []string{"/a2a/booking/.well-known/agent-card.json", "/.well-known/agent-card.json?assistant_id=booking", "/.well-known/agent-card.json"} {
		resp, err := http.Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		var card struct {
			Name, Description   string
			SupportedInterfaces []struct{ URL, ProtocolBinding, ProtocolVersion string }
		}
		err = json.NewDecoder(resp.Body).Decode(&card)
		resp.Body.Close()
		if got := fmt.Sprint(card.Name, " ", card.Description, " ", card.SupportedInterfaces); err != nil || !strings.HasPrefix(got, "booking Books trips. [{"+web.URL+"/a2a/") || !strings.HasSuffix(got, " JSONRPC 1.0}]") {
			t.Errorf("%s: %s %v", path, got, err)
		}
	}
	if resp, err := http.Get(web.URL + "/ok"); err != nil || resp.StatusCode != 200 {
		t.Errorf("the server's own routes answer %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// The protocol's own SDK for JavaScript talks with the agents as it is published.
func TestTheJavaScriptSDK(t *testing.T) {
	servertest.Packages(t, "the JavaScript SDK of A2A", "clients")
	entered, open := make(chan struct{}, 9), make(chan struct{})
	defer close(open)
	web := serve(t, server.Graph(booking()), server.Graph(parrot(t)), server.Graph(boom()), server.Graph(gate(entered, open)))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "--test-timeout=60000", "--test-force-exit", "clients/")
	cmd.Env, cmd.WaitDelay = append(os.Environ(), "SUPERSTEP_URL="+web.URL), 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
