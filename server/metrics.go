package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	counted "github.com/VictoriaMetrics/metrics"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// WithMetrics says whether the server counts what it does and shows it at GET /metrics,
// in the text format of Prometheus. It does by default: the counting costs next to
// nothing, and the numbers are there when they are needed. They are named in
// docs/server.md. Each server has its own, whatever else the program measures.
func WithMetrics(on bool) Option { return func(c *config) { c.metrics = on } }

// metrics is what a server counts, in a set of its own. It is safe for concurrent use;
// one that is nil counts nothing.
type metrics struct {
	set     *counted.Set
	pending func(context.Context) (int, error)
}

// The streams that are counted.
const (
	streamSSE    = "sse"
	streamSocket = "websocket"
)

// rolledBack is counted of a run that was removed with what it had done. The other
// ends are the statuses of runs.
const rolledBack = "rolled_back"

// The names of what is counted.
const (
	requestsTotal   = "superstep_http_requests_total"
	requestDuration = "superstep_http_request_duration_seconds"
	streamsOpen     = "superstep_streams_open"
	runsTotal       = "superstep_runs_total"
	runDuration     = "superstep_run_duration_seconds"
	runsActive      = "superstep_runs_active"
	runsPending     = "superstep_runs_pending"
)

// families are what Prometheus is told of them.
var families = map[string]struct{ kind, help string }{
	requestsTotal:   {"counter", "Requests that were answered, by method, route and status; 499 if the client left before."},
	requestDuration: {"histogram", "How long answers took; of streams, until they began."},
	streamsOpen:     {"gauge", "Streams of events that clients read now."},
	runsTotal:       {"counter", "Runs that ended here, by graph and status."},
	runDuration:     {"histogram", "From the beginning of runs to their end."},
	runsActive:      {"gauge", "Runs that work here now."},
	runsPending:     {"gauge", "Runs of this server that might begin, but wait for others to end."},
}

var (
	requestBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	runBounds     = []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
)

func newMetrics(b *base, d *dispatcher) *metrics {
	m := &metrics{counted.NewSet(), func(ctx context.Context) (int, error) { return b.db.Due(ctx, b.instance) }}
	// What has not happened yet is 0, so that its first time shows as an increase.
	m.open(streamSSE)
	m.open(streamSocket)
	for _, g := range b.names {
		m.lasted(g)
		for _, status := range []string{db.Success, db.Failed, db.Interrupted, db.Timeout, rolledBack} {
			m.runs(g, status)
		}
	}
	m.set.NewGauge(runsActive, func() float64 { return float64(d.working()) })
	return m
}

func (m *metrics) open(kind string) *counted.Gauge {
	return m.set.GetOrCreateGauge(named(streamsOpen, "kind", kind), nil)
}

func (m *metrics) runs(graph, status string) *counted.Counter {
	return m.set.GetOrCreateCounter(named(runsTotal, "graph", graph, "status", status))
}

func (m *metrics) lasted(graph string) *counted.PrometheusHistogram {
	return m.set.GetOrCreatePrometheusHistogramExt(named(runDuration, "graph", graph), runBounds)
}

var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// named returns the name of one of a family, by pairs of a label and its value.
func named(family string, labels ...string) string {
	b := []byte(family)
	for i := 0; i < len(labels); i += 2 {
		b = append(b, "{,"[min(i, 1)])
		b = fmt.Appendf(b, `%s="%s"`, labels[i], escaped.Replace(labels[i+1]))
	}
	return string(append(b, '}'))
}

// write writes what was counted, and what the program's process is like.
func (m *metrics) write(ctx context.Context, log *slog.Logger) []byte {
	var text bytes.Buffer
	m.set.WritePrometheus(&text)
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if n, err := m.pending(ctx); err == nil {
		fmt.Fprintln(&text, runsPending, n)
	} else { // it must not hide the rest
		log.LogAttrs(ctx, slog.LevelWarn, "server: the runs that wait can't be counted", slog.Any("error", err))
	}
	var page bytes.Buffer
	last := ""
	for line := range bytes.Lines(text.Bytes()) {
		name := string(line[:bytes.IndexAny(line, "{ ")])
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if whole := strings.TrimSuffix(name, suffix); families[whole].kind == "histogram" {
				name = whole
			}
		}
		if about, known := families[name]; known && name != last {
			fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s %s\n", name, about.help, name, about.kind)
			last = name
		}
		page.Write(line)
	}
	counted.WriteProcessMetrics(&page)
	counted.WriteFDMetrics(&page)
	return page.Bytes()
}

// working returns how many runs work.
func (d *dispatcher) working() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.active)
}

// showMetrics answers with the metrics.
func (s *meta) showMetrics(w http.ResponseWriter, r *http.Request) error {
	if s.metrics == nil {
		return notFound("this server keeps no metrics")
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err := w.Write(s.metrics.write(r.Context(), s.log))
	return err
}

// ended counts a run that has ended, with a status.
func (m *metrics) ended(run *db.Run, status string) {
	if m == nil {
		return
	}
	graph := textOf(objectOf(run.Metadata)["graph_id"]) // which clients can't change
	m.runs(graph, status).Inc()
	if !run.StartedAt.IsZero() && !run.EndedAt.IsZero() {
		m.lasted(graph).Update(run.EndedAt.Sub(run.StartedAt).Seconds())
	}
}

// clientGone is the status of requests whose client left before the answer, as
// nginx writes it.
const clientGone = 499

// measure counts the requests that a mux answers.
func (m *metrics) measure(mux *http.ServeMux) http.Handler {
	if m == nil {
		return mux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answering{ResponseWriter: w, m: m, began: time.Now()}
		whole := false
		defer func() {
			switch {
			case a.code != 0:
			case !whole: // a panic
				a.code = http.StatusInternalServerError
			case r.Context().Err() != nil:
				a.code = clientGone
			default:
				a.code = http.StatusOK
			}
			if a.stream != nil {
				a.stream.Dec()
			}
			// The mux has noted the pattern; of what it doesn't know there is none.
			method, route, found := strings.Cut(r.Pattern, " ")
			if !found {
				method, route = "any", cmp.Or(r.Pattern, "unknown")
			}
			m.set.GetOrCreateCounter(named(requestsTotal, "code", strconv.Itoa(a.code), "method", method, "route", route)).Inc()
			took := a.first
			if a.stream == nil {
				took = time.Since(a.began)
			}
			m.set.GetOrCreatePrometheusHistogramExt(named(requestDuration, "method", method, "route", route), requestBounds).Update(took.Seconds())
		}()
		mux.ServeHTTP(a, r)
		whole = true
	})
}

// answering notes what an answer is.
type answering struct {
	http.ResponseWriter
	m      *metrics
	began  time.Time
	first  time.Duration // until the answer began
	code   int
	stream *counted.Gauge // nil for what is no stream
}

func (a *answering) WriteHeader(code int) {
	if a.code == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		a.note(code)
	}
	a.ResponseWriter.WriteHeader(code)
}

func (a *answering) note(code int) {
	a.code, a.first = code, time.Since(a.began)
	kind := ""
	switch media, _, _ := mime.ParseMediaType(a.Header().Get("Content-Type")); {
	case code == http.StatusSwitchingProtocols:
		kind = streamSocket
	case media == "text/event-stream":
		kind = streamSSE
	}
	if kind != "" {
		a.stream = a.m.open(kind)
		a.stream.Inc()
	}
}

func (a *answering) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.note(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what flushes.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }
