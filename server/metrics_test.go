package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/superstep-dev/superstep/graph"
)

// metric returns the lines of the metrics that begin with a name.
func metric(t *testing.T, s *Server, name string) string {
	t.Helper()
	code, text := asking(s, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", code, text)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// until waits for lines of the metrics.
func until(t *testing.T, s *Server, name, want string) {
	t.Helper()
	got := ""
	for range 2000 {
		if got = metric(t, s, name); got == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("metrics are\n%s\nwant\n%s", got, want)
}

func posting(t *testing.T, s *Server, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	if w.Code >= 300 {
		t.Fatalf("POST %s: %d %s", path, w.Code, w.Body)
	}
	return w
}

// held is a graph whose runs wait for a channel, and then fail.
func held(t *testing.T, free <-chan struct{}) *graph.Graph[travel] {
	t.Helper()
	b := graph.New[travel]("held")
	b.AddNode("wait", func(ctx context.Context, _ *travel) error {
		select {
		case <-free:
			return errors.New("no more")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	b.AddEdge(graph.Start, "wait")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestRunsAreCountedByGraphAndStatus(t *testing.T) {
	free := make(chan struct{})
	s := serving(t, Graph(trips(t)), Graph(held(t, free)))
	const thread, other = "0198f3c2-5b7a-7d10-8e21-4c3b2a19aaaa", "0198f3c2-5b7a-7d10-8e21-4c3b2a19bbbb"
	posting(t, s, "/threads", `{"thread_id": "`+thread+`"}`)
	posting(t, s, "/threads", `{"thread_id": "`+other+`"}`)
	posting(t, s, "/threads/"+thread+"/runs/wait", `{"assistant_id": "trip", "input": {"days": 2}}`)
	posting(t, s, "/threads/"+thread+"/runs/wait", `{"assistant_id": "trip", "command": {"resume": "Oslo"}}`)
	on := "/threads/" + other + "/runs"
	posting(t, s, on, `{"assistant_id": "held", "input": {}}`)
	until(t, s, "superstep_runs_active", "superstep_runs_active 1")
	posting(t, s, on, `{"assistant_id": "held", "input": {}}`)                        // waits its turn
	posting(t, s, on, `{"assistant_id": "held", "input": {}, "after_seconds": 3600}`) // is not due
	until(t, s, "superstep_runs_pending", "superstep_runs_pending 1")
	never := posting(t, s, on, `{"assistant_id": "held", "input": {}, "after_seconds": 3600}`)
	posting(t, s, never.Header().Get("Content-Location")+"/cancel?wait=1", ``)
	close(free)
	until(t, s, "superstep_runs_total", `superstep_runs_total{graph="held",status="error"} 2
superstep_runs_total{graph="held",status="interrupted"} 1
superstep_runs_total{graph="held",status="rolled_back"} 0
superstep_runs_total{graph="held",status="success"} 0
superstep_runs_total{graph="held",status="timeout"} 0
superstep_runs_total{graph="trip",status="error"} 0
superstep_runs_total{graph="trip",status="interrupted"} 1
superstep_runs_total{graph="trip",status="rolled_back"} 0
superstep_runs_total{graph="trip",status="success"} 1
superstep_runs_total{graph="trip",status="timeout"} 0`)
	until(t, s, "superstep_run_duration_seconds_count", `superstep_run_duration_seconds_count{graph="held"} 2
superstep_run_duration_seconds_count{graph="trip"} 2`)
	until(t, s, "superstep_runs_active", "superstep_runs_active 0")
	until(t, s, "superstep_runs_pending", "superstep_runs_pending 0")
}

func TestARunThatIsRolledBackIsCountedAsSuch(t *testing.T) {
	s := serving(t, Graph(held(t, nil)))
	run := posting(t, s, "/runs", `{"assistant_id": "held", "input": {}}`).Header().Get("Content-Location")
	until(t, s, "superstep_runs_active", "superstep_runs_active 1")
	posting(t, s, "/runs/cancel?action=rollback", `{"run_ids": ["`+strings.TrimPrefix(run, "/runs/")+`"]}`)
	until(t, s, `superstep_runs_total{graph="held",status="rolled_back"}`, `superstep_runs_total{graph="held",status="rolled_back"} 1`)
}

func TestRequestsAreCountedByRouteAndStatus(t *testing.T) {
	s := serving(t, Graph(trips(t)))
	for _, path := range []string{
		"/ok", "/threads/0198f3c2-5b7a-7d10-8e21-4c3b2a190001", "/threads/0198f3c2-5b7a-7d10-8e21-4c3b2a190002", "/nowhere", "/favicon.ico",
	} {
		asking(s, path)
	}
	asking(s, "/metrics") // which counts itself when it has answered
	if got, want := metric(t, s, "superstep_http_requests_total"), `superstep_http_requests_total{code="200",method="GET",route="/metrics"} 1
superstep_http_requests_total{code="200",method="GET",route="/ok"} 1
superstep_http_requests_total{code="404",method="GET",route="/threads/{thread}"} 2
superstep_http_requests_total{code="404",method="any",route="unknown"} 2`; got != want {
		t.Errorf("requests are\n%s\nwant\n%s", got, want)
	}
	if got, want := metric(t, s, `superstep_http_request_duration_seconds_count{method="GET",route="/threads/{thread}"}`),
		`superstep_http_request_duration_seconds_count{method="GET",route="/threads/{thread}"} 2`; got != want {
		t.Errorf("durations are %s, want %s", got, want)
	}
}

func TestStreamsAreCountedWhileTheyAreOpen(t *testing.T) {
	s := serving(t, Graph(trips(t)))
	h := httptest.NewServer(s)
	defer h.Close()
	const at = "/threads/0198f3c2-5b7a-7d10-8e21-4c3b2a190001/stream/events"
	sse, err := http.Post(h.URL+at, "application/json", strings.NewReader(`{"channels": ["values"]}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+at, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "c3VwZXJzdGVwIHNvY2tldA=="} {
		r.Header.Set(k, v)
	}
	socket, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	until(t, s, "superstep_streams_open", `superstep_streams_open{kind="sse"} 1
superstep_streams_open{kind="websocket"} 1`)
	sse.Body.Close()
	socket.Body.Close()
	until(t, s, "superstep_streams_open", `superstep_streams_open{kind="sse"} 0
superstep_streams_open{kind="websocket"} 0`)
}

func TestTheMetricsAreAsPrometheusWantsThem(t *testing.T) {
	s := serving(t, Graph(trips(t)))
	asking(s, "/ok")
	_, text := asking(s, "/metrics")
	own, _, _ := strings.Cut(text, "\ngo_") // before the program's own, of which Prometheus is told no more than the numbers
	problems, err := promlint.New(strings.NewReader(own + "\n")).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if !strings.Contains(text, "go_goroutines") {
		t.Error("the program's own metrics are missing")
	}
}

func TestMetricsThatTheDatabaseKnowsDoNotHideTheOthers(t *testing.T) {
	s := serving(t, Graph(trips(t)))
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := metric(t, s, "superstep_runs_pending"); got != "" {
		t.Errorf("pending runs are %s although nobody knows", got)
	}
	if got := metric(t, s, "superstep_runs_active"); got != "superstep_runs_active 0" {
		t.Errorf("active runs are %q", got)
	}
}

func TestAServerWithoutMetrics(t *testing.T) {
	s := serving(t, Graph(trips(t)), WithMetrics(false))
	if code, text := asking(s, "/metrics"); code != http.StatusNotFound || text != "this server keeps no metrics" {
		t.Errorf("GET /metrics: %d %s", code, text)
	}
	posting(t, s, "/runs/wait", `{"assistant_id": "trip", "input": {"days": 2}}`) // nothing is counted
}
