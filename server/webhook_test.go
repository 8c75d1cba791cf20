package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// receiver takes webhooks.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []object
	ids    []string
	refuse int // so many first
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	data, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse > 0 {
		r.refuse--
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	var o object
	_ = json.Unmarshal(data, &o)
	r.calls, r.ids = append(r.calls, o), append(r.ids, req.Header.Get("Webhook-Id"))
}

func (r *receiver) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

func TestAWebhookSaysWhatCameOfARun(t *testing.T) {
	r := newReceiver(t)
	c := start(t, server.Graph(booking(t)), server.Graph(boom(t)), server.AllowPrivateWebhooks(), quiet())
	for i, assistant := range []string{"booking", "boom"} {
		thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
		run := call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": assistant, "input": object{}, "webhook": r.URL + "/ended"})["run_id"]
		waitFor(t, "the webhook is called", func() bool { return r.taken() > i })
		got := r.calls[i]
		if got["run_id"] != run || r.ids[i] != run || got["thread_id"] != thread {
			t.Errorf("%s: it is of run %v, with the ID %s", assistant, got["run_id"], r.ids[i])
		}
		for _, at := range []string{"run_started_at", "run_ended_at", "webhook_sent_at"} {
			if when, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got[at])); err != nil || when.IsZero() {
				t.Errorf("%s: %s is %v", assistant, at, got[at])
			}
		}
		values, _ := got["values"].(object)
		failure, _ := got["error"].(object)
		if assistant == "boom" && (got["status"] != "error" || failure["message"] != "I am a teapot" || values != nil) {
			t.Errorf("a failure is told as %v", got)
		}
		if assistant == "booking" && (got["status"] != "interrupted" || values["city"] != "Ulm" || failure != nil) {
			t.Errorf("a question is told as %v", got)
		}
	}
}

// Also of a run whose thread goes with it.
func TestAWebhookIsTriedAgain(t *testing.T) {
	r := newReceiver(t)
	r.refuse = 1
	c := start(t, server.Graph(slow(t)), server.AllowPrivateWebhooks(), quiet())
	call[any](c, "POST", "/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1}, "webhook": r.URL})
	waitFor(t, "the webhook is called again", func() bool { return r.taken() > 0 })
	if r.refuse != 0 || r.calls[0]["values"].(object)["done"] != 1.0 {
		t.Errorf("the calls are %v", r.calls)
	}
}

// The server that ended a run closed, or died, before its webhook was called.
func TestTheNextServerCallsTheWebhooksThatTheLastOneOwes(t *testing.T) {
	for name, data := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "data.db") },
		"PostgreSQL": func(t *testing.T) string { return ownSchema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := data(t)
			r := newReceiver(t)
			r.refuse = 1 << 30
			first := launch(t, at)
			out := call[object](first.client, "POST", "/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1}, "webhook": r.URL})
			if out["done"] != 1.0 {
				t.Fatal(out)
			}
			first.kill()
			r.mu.Lock()
			r.refuse = 0
			r.mu.Unlock()
			// A call that the first one was making when it was killed is due after a while.
			launch(t, at)
			waitFor(t, "the webhook is called", func() bool { return r.taken() > 0 })
			if r.calls[0]["values"].(object)["done"] != 1.0 || r.ids[0] != r.calls[0]["run_id"] {
				t.Errorf("the call is %v", r.calls[0])
			}
		})
	}
}

func TestSeveralServersCallAWebhookOnce(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	a, b := pair(t, server.AllowPrivateWebhooks())
	const n = 20
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			[]client{a, b}[i%2].do("POST", "/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 1}, "webhook": r.URL})
		})
	}
	done.Wait()
	waitFor(t, "all webhooks are called", func() bool { return r.taken() >= n })
	seen := map[string]bool{}
	for _, id := range r.ids {
		if seen[id] {
			t.Errorf("run %s is told twice", id)
		}
		seen[id] = true
	}
}

func TestAWebhookThatIsAPathIsForAHandlerOfTheProgram(t *testing.T) {
	post := func(c client, hook string) (int, string) {
		status, _, text := c.do("POST", "/runs/wait", object{"assistant_id": "booking", "input": object{}, "webhook": hook})
		return status, text
	}
	without := start(t, server.Graph(booking(t)), quiet())
	for _, hook := range []string{"/hooks/ended", "//evil.example/x", "hooks", "ftp://a.example", "http://", "javascript:alert(1)"} {
		if status, text := post(without, hook); status != http.StatusUnprocessableEntity && !strings.HasPrefix(hook, "//") || !strings.Contains(text, "webhook") {
			t.Errorf("%s: %d %s", hook, status, text)
		}
	}
	r := &receiver{}
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/ended", r)
	mux.HandleFunc("POST /hooks/panic", func(http.ResponseWriter, *http.Request) { panic("no") })
	with := start(t, server.Graph(booking(t)), server.LocalWebhooks(mux), quiet())
	if status, text := post(with, "/hooks/panic"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := post(with, "/hooks/ended?by=ada"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	waitFor(t, "the handler is called", func() bool { return r.taken() == 1 })
}

func TestAWebhookToTheServersNetworkIsRefusedAtOnce(t *testing.T) {
	strict, open := calm(t), calm(t, server.AllowPrivateWebhooks())
	for url, want := range map[string]int{
		"http://169.254.169.254/latest": 422, "http://127.0.0.1:8080/": 422, "https://10.1.2.3/": 422, "http://[::1]/": 422, "http://[::ffff:127.0.0.1]/": 422, "http://[fe80::1%25eth0]/": 422,
		"http://localhost:9/": 422, "http://LOCALHOST./": 422, "http://a.localhost/": 422, "http://1.1.1.1/": 200, "https://hooks.example/": 200, "http://localhost.example/": 200,
	} {
		for _, path := range []string{"/runs", "/runs/crons"} {
			body := fmt.Sprintf(`{"assistant_id":"booking","input":{},"after_seconds":1000,"schedule":"0 0 1 1 *","webhook":%q}`, url)
			w := quick(t.Context(), strict, "POST", path, body)
			if w.Code != want || want == 422 && !strings.Contains(w.Body.String(), "server.AllowPrivateWebhooks") {
				t.Errorf("%s %s: %d %s", path, url, w.Code, w.Body)
			}
			if w := quick(t.Context(), open, "POST", path, body); w.Code != 200 {
				t.Errorf("%s %s, where they are allowed: %d %s", path, url, w.Code, w.Body)
			}
		}
	}
}

// echo answers with what nodes are configured with.
func echo(t *testing.T) *graph.Graph[echoed] {
	t.Helper()
	b := graph.New[echoed]("echo")
	b.AddNode("tell", func(ctx context.Context, s *echoed) error {
		all, err := graph.Configured[map[string]string](ctx)
		if err != nil {
			return err
		}
		for _, name := range []string{"x-tenant", "x-forwarded-access-token"} {
			if v, ok := all[name]; ok {
				s.Seen += name + "=" + v + ";"
			}
		}
		return nil
	})
	b.AddEdge(graph.Start, "tell")
	g, err := b.Compile(graph.Configurable(map[string]string{}))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type echoed struct {
	Seen string `json:"seen"`
}

func TestHeadersThatAreCredentialsAreNotKeptAndNoneAreToldToWebhooks(t *testing.T) {
	r := newReceiver(t)
	c := start(t, server.Graph(echo(t)), server.AllowPrivateWebhooks(), quiet())
	const hidden = "do-not-keep-me"
	headers := []string{"X-Tenant", "tenant-7", "Authorization", "Bearer " + hidden, "Cookie", hidden}
	for _, name := range []string{
		"X-Api-Key", "X-Service-Key", "X-Forwarded-Access-Token", "X-Auth-Request-User", "X-Amz-Security-Token", "X-Client-Secret", "X-Session-Id", "X-Csrf", "X-Xsrf",
		"X-Cookie", "X-Password", "X-Amzn-Oidc-Data", "X-Goog-Iap-Jwt-Assertion", "X-Credentials", "X-Hub-Signature-256",
	} {
		headers = append(headers, name, hidden)
	}
	status, _, text := c.ask(t.Context(), "POST", "/runs/wait", fmt.Sprintf(`{"assistant_id":"echo","input":{},"on_completion":"keep","webhook":%q}`, r.URL), headers...)
	if status != 200 || !strings.Contains(text, `"x-tenant=tenant-7;"`) {
		t.Errorf("the node sees %d %s", status, text)
	}
	waitFor(t, "the webhook is called", func() bool { return r.taken() > 0 })
	id := r.calls[0]["run_id"].(string)
	thread := r.calls[0]["thread_id"].(string)
	_, _, run := c.ask(t.Context(), "GET", "/threads/"+thread+"/runs/"+id, "")
	if strings.Contains(run, hidden) || !strings.Contains(run, "tenant-7") {
		t.Errorf("the run has %s", run)
	}
	told, err := json.Marshal(r.calls[0]["kwargs"])
	if err != nil || strings.Contains(string(told), "tenant-7") || strings.Contains(string(told), "__request_headers__") || !strings.Contains(string(told), "on_completion") {
		t.Errorf("the webhook is told %s, %v", told, err)
	}
}

func TestAUserWhoseReceiversAreSilentHoldsNobodyUp(t *testing.T) {
	var open, most atomic.Int64
	told, end := make(chan struct{}, 1), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/told" {
			told <- struct{}{}
			return
		}
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		<-end
	}))
	t.Cleanup(receiver.Close)
	t.Cleanup(func() { close(end) })
	s := calm(t, server.Authenticate(byHeader), server.AllowPrivateWebhooks())
	for range 40 {
		if w := quick(t.Context(), s, "POST", "/runs/wait", `{"assistant_id":"booking","input":{},"webhook":"`+receiver.URL+`/silent"}`, "X-Test-User", "bob"); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
	}
	waitFor(t, "bob's receivers are called", func() bool { return open.Load() > 0 })
	if w := quick(t.Context(), s, "POST", "/runs/wait", `{"assistant_id":"booking","input":{},"webhook":"`+receiver.URL+`/told"}`, "X-Test-User", "ada"); w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	within(t, "ada's receiver is called", told)
	if n := most.Load(); n > 4 {
		t.Errorf("%d calls of one user were made at a time", n)
	}
}
