package server

import (
	"cmp"
	"context"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// WithMetrics says whether the server counts what it does and shows it at GET /metrics,
// in the text format of Prometheus. It does by default: the counting costs next to
// nothing, and the numbers are there when they are needed. They are named in
// docs/server.md. Each server has its own, whatever else the program measures.
func WithMetrics(on bool) Option { return func(c *config) { c.metrics = on } }

// metrics is what a server counts, in a registry of its own. It is safe for
// concurrent use; one that is nil counts nothing.
type metrics struct {
	page     http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
	runs     *prometheus.CounterVec
	lasted   *prometheus.HistogramVec
}

// The streams that are counted.
const (
	streamSSE    = "sse"
	streamSocket = "websocket"
)

// rolledBack is counted of a run that was removed with what it had done. The other
// ends are the statuses of runs.
const rolledBack = "rolled_back"

func newMetrics(b *base, d *dispatcher) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "superstep_http_requests_total",
			Help: "Requests that were answered, by method, route and status; 499 if the client left before.",
		}, []string{"method", "route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "superstep_http_request_duration_seconds",
			Help:    "How long answers took; of streams, until they began.",
			Buckets: append(prometheus.DefBuckets, 30, 60, 300),
		}, []string{"method", "route"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "superstep_streams_open",
			Help: "Streams of events that clients read now.",
		}, []string{"kind"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "superstep_runs_total",
			Help: "Runs that ended here, by graph and status.",
		}, []string{"graph", "status"}),
		lasted: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "superstep_run_duration_seconds",
			Help:    "From the beginning of runs to their end.",
			Buckets: []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		}, []string{"graph"}),
	}
	// What has not happened yet is 0, so that its first time shows as an increase.
	m.streams.WithLabelValues(streamSSE)
	m.streams.WithLabelValues(streamSocket)
	for _, g := range b.names {
		m.lasted.WithLabelValues(g)
		for _, status := range []string{db.Success, db.Failed, db.Interrupted, db.Timeout, rolledBack} {
			m.runs.WithLabelValues(g, status)
		}
	}
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "superstep_runs_active",
		Help: "Runs that work here now.",
	}, func() float64 { return float64(d.working()) })
	r := prometheus.NewRegistry()
	r.MustRegister(m.requests, m.seconds, m.streams, m.runs, m.lasted, active, newPending(b),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.page = promhttp.HandlerFor(r, promhttp.HandlerOpts{
		// A database that doesn't answer must not hide the rest.
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(b.log.Handler(), slog.LevelWarn),
	})
	return m
}

// pending collects how many runs wait, which the database knows.
type pending struct {
	base *base
	desc *prometheus.Desc
}

func newPending(b *base) *pending {
	return &pending{b, prometheus.NewDesc("superstep_runs_pending", "Runs of this server that might begin, but wait for others to end.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (p *pending) Describe(ch chan<- *prometheus.Desc) { ch <- p.desc }

// Collect implements prometheus.Collector.
func (p *pending) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(p.base.besideCtx, readyWithin)
	defer cancel()
	n, err := p.base.db.Due(ctx, p.base.instance)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(p.desc, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(n))
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
	s.metrics.page.ServeHTTP(w, r)
	return nil
}

// ended counts a run that has ended, with a status.
func (m *metrics) ended(run *db.Run, status string) {
	if m == nil {
		return
	}
	graph := textOf(objectOf(run.Metadata)["graph_id"]) // which clients can't change
	m.runs.WithLabelValues(graph, status).Inc()
	if !run.StartedAt.IsZero() && !run.EndedAt.IsZero() {
		m.lasted.WithLabelValues(graph).Observe(run.EndedAt.Sub(run.StartedAt).Seconds())
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
			m.requests.WithLabelValues(method, route, strconv.Itoa(a.code)).Inc()
			took := a.first
			if a.stream == nil {
				took = time.Since(a.began)
			}
			m.seconds.WithLabelValues(method, route).Observe(took.Seconds())
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
	stream prometheus.Gauge // nil for what is no stream
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
		a.stream = a.m.streams.WithLabelValues(kind)
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
