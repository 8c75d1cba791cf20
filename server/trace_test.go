package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/otel"
	"github.com/superstep-dev/superstep/server"
)

const (
	askersTrace = "0af7651916cd43dd8448eb211c80319c"
	askersSpan  = "b7ad6b7169203331"
)

// from sends a request out of a trace.
func (c client) from(path, body string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("traceparent", "00-"+askersTrace+"-"+askersSpan+"-01")
	r.Header.Set("tracestate", "vendor=1")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", path, resp.Status)
	}
}

// hooked is where webhooks go: it passes their headers on.
func hooked(t *testing.T) (url string, calls <-chan http.Header) {
	seen := make(chan http.Header, 10)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	t.Cleanup(h.Close)
	return h.URL, seen
}

// observed is a graph whose runs are reported.
func observed(t *testing.T) (graph.Option, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	tel, err := otel.New(otel.Options{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))})
	if err != nil {
		t.Fatal(err)
	}
	return tel.Observe(), spans
}

func parentOf(s tracetest.SpanStub) string {
	return "00-" + s.SpanContext.TraceID().String() + "-" + s.SpanContext.SpanID().String() + "-01"
}

// A run stands in the trace of the caller who waits for it, and its webhook in that of
// the run. A run for which nobody waits is a trace of its own with a link.
func TestARunStandsInTheTraceOfWhoeverAskedForIt(t *testing.T) {
	watch, spans := observed(t)
	b := graph.New[steps]("traced")
	b.AddNode("step", func(context.Context, *steps) error { return nil })
	b.AddEdge(graph.Start, "step")
	g := b.MustCompile(watch)
	url, calls := hooked(t)
	c := start(t, server.Graph(g), server.AllowPrivateWebhooks(), quiet())
	for path, waits := range map[string]bool{"/runs/wait": true, "/runs/stream": true, "/runs": false} {
		c.from(path, `{"assistant_id":"traced","input":{},"webhook":"`+url+`"}`)
		called := <-calls
		var run tracetest.SpanStub
		for _, s := range spans.GetSpans() {
			if strings.HasPrefix(s.Name, "invoke_workflow") {
				run = s
			}
		}
		spans.Reset()
		if got := run.Parent.TraceID().String() == askersTrace && run.Parent.SpanID().String() == askersSpan && run.Parent.IsRemote(); got != waits {
			t.Errorf("%s: the run's parent is %v", path, run.Parent)
		}
		linked := len(run.Links) == 1 && run.Links[0].SpanContext.SpanID().String() == askersSpan && run.Links[0].SpanContext.TraceState().Get("vendor") == "1"
		if linked == waits {
			t.Errorf("%s: the run's links are %v", path, run.Links)
		}
		if got, want := called.Get("traceparent"), parentOf(run); got != want {
			t.Errorf("%s: the webhook comes from %q, want %q", path, got, want)
		}
	}
}

// Without an observer the caller's headers are passed on as they came, and a tracer of
// one's own sees them.
func TestATracerOfOnesOwnSeesWhoAskedForARun(t *testing.T) {
	type asked struct {
		parent, state string
		waits         bool
	}
	seen := make(chan asked, 10)
	b := graph.New[steps]("traced")
	b.AddNode("step", func(context.Context, *steps) error { return nil })
	b.AddEdge(graph.Start, "step")
	g := b.MustCompile(graph.Trace(tracerFunc(func(ctx context.Context, p graph.Part) {
		if p.Kind == graph.PartRun {
			parent, state, waits := server.TraceParent(ctx)
			seen <- asked{parent, state, waits}
		}
	})))
	url, calls := hooked(t)
	c := start(t, server.Graph(g), server.AllowPrivateWebhooks(), quiet())
	c.from("/runs", `{"assistant_id":"traced","input":{},"webhook":"`+url+`","__trace__":{"traceparent":"evil"}}`)
	want := asked{"00-" + askersTrace + "-" + askersSpan + "-01", "vendor=1", false}
	if got := <-seen; got != want {
		t.Errorf("the tracer sees %v, want %v", got, want)
	}
	if h := <-calls; h.Get("traceparent") != want.parent || h.Get("tracestate") != want.state {
		t.Errorf("the webhook has %v", h)
	}
	call[any](c, "POST", "/runs/wait", object{"assistant_id": "traced", "input": object{}, "webhook": url, "__trace__": object{"traceparent": want.parent}})
	if got := <-seen; got != (asked{}) {
		t.Errorf("of a request without a trace the tracer sees %v", got)
	}
	if h := <-calls; h.Get("traceparent") != "" {
		t.Errorf("the webhook has %v", h)
	}
}

type tracerFunc func(context.Context, graph.Part)

func (f tracerFunc) Begin(ctx context.Context, p graph.Part) (context.Context, func(graph.Outcome)) {
	f(ctx, p)
	return ctx, func(graph.Outcome) {}
}

// The next server to which a run is left knows its caller's trace.
func TestARunThatMovesStaysInItsCallersTrace(t *testing.T) {
	watch, spans := observed(t)
	g, w := gated(t, watch)
	opts := []server.Option{server.Data("sqlite:" + filepath.Join(t.TempDir(), "threads.db")), server.Graph(g), quiet()}
	first, h, c := program(t, opts...)
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	c.from("/threads/"+thread+"/runs", `{"assistant_id":"gated","input":{}}`)
	<-w.reached
	drained := make(chan struct{})
	go func() { defer close(drained); first.Drain(t.Context()) }()
	waitFor(t, "the server drains", func() bool {
		status, _, _ := c.do("GET", "/ready", nil)
		return status == http.StatusServiceUnavailable
	})
	w.open()
	<-drained
	h.Close()
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, next := program(t, opts...)
	run := call[[]object](next, "GET", "/threads/"+thread+"/runs", nil)[0]["run_id"].(string)
	if out := call[object](next, "GET", "/threads/"+thread+"/runs/"+run+"/join", nil); out["n"] != 3.0 {
		t.Errorf("the run ends with %v", out)
	}
	n := 0
	for _, s := range spans.GetSpans() {
		if !strings.HasPrefix(s.Name, "invoke_workflow") {
			continue
		}
		n++
		found := false
		for _, l := range s.Links {
			found = found || l.SpanContext.SpanID().String() == askersSpan
		}
		if !found {
			t.Errorf("a span of the run has the links %v", s.Links)
		}
	}
	if n != 2 {
		t.Errorf("the run has %d spans, want one by each server", n)
	}
}
