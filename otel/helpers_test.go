package otel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/otel"
)

var bg = context.Background()

// recorder keeps what was reported.
type recorder struct {
	*otel.Telemetry
	spans    *tracetest.InMemoryExporter
	provider *trace.TracerProvider
	reader   *metric.ManualReader
}

func record(t testing.TB, content bool) *recorder {
	t.Helper()
	r := &recorder{spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	r.provider = trace.NewTracerProvider(trace.WithSyncer(r.spans))
	var err error
	r.Telemetry, err = otel.New(otel.Options{
		TracerProvider: r.provider, MeterProvider: metric.NewMeterProvider(metric.WithReader(r.reader)), Content: content,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tree returns the spans so far as text, with those of the attributes that have
// the named keys, and forgets them. Nodes that stand side by side are in the
// order of their names.
func (r *recorder) tree(keys ...string) string {
	spans := r.spans.GetSpans()
	r.spans.Reset()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	var write func(parent api.SpanID, indent string)
	write = func(parent api.SpanID, indent string) {
		var children []tracetest.SpanStub
		for _, s := range spans {
			known := slices.ContainsFunc(spans, func(o tracetest.SpanStub) bool { return o.SpanContext.SpanID() == s.Parent.SpanID() })
			if s.Parent.SpanID() == parent || !parent.IsValid() && !known {
				children = append(children, s)
			}
		}
		slices.SortStableFunc(children, func(x, y tracetest.SpanStub) int {
			if strings.HasPrefix(x.Name, "node ") && strings.HasPrefix(y.Name, "node ") {
				return strings.Compare(x.Name, y.Name)
			}
			return 0
		})
		for _, s := range children {
			b.WriteString("\n" + indent + describe(s, keys))
			write(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	write(api.SpanID{}, "\t\t")
	return b.String()
}

func describe(s tracetest.SpanStub, keys []string) string {
	text := s.Name
	for _, k := range keys {
		for _, a := range s.Attributes {
			if string(a.Key) == k {
				text += fmt.Sprintf(" %s=%s", k[strings.LastIndexByte(k, '.')+1:], a.Value.String())
			}
		}
	}
	for _, e := range s.Events {
		text += " !" + e.Name
		for _, a := range e.Attributes {
			if !strings.HasSuffix(string(a.Key), ".id") {
				text += fmt.Sprintf(" %s=%s", a.Key[strings.LastIndexByte(string(a.Key), '.')+1:], a.Value.String())
			}
		}
	}
	if s.Status.Code == codes.Error {
		text += " ERROR " + s.Status.Description
	}
	return text
}

func wantTree(t *testing.T, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("spans:%s\nwant:%s", got, want)
	}
}

// metrics returns a line for each data point, in order: sums with their value,
// histograms with their count, and of tokens the sum.
func (r *recorder) metrics(t *testing.T) string {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.reader.Collect(bg, &rm); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					lines = append(lines, fmt.Sprintf("%s [%s] %d", m.Name, p.Attributes.Encoded(plain{}), p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					lines = append(lines, fmt.Sprintf("%s [%s] %d times", m.Name, p.Attributes.Encoded(plain{}), p.Count))
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					lines = append(lines, fmt.Sprintf("%s [%s] %d times, sum %d", m.Name, p.Attributes.Encoded(plain{}), p.Count, p.Sum))
				}
			default:
				t.Fatalf("%s is a %T", m.Name, d)
			}
		}
	}
	slices.Sort(lines)
	return "\n\t\t" + strings.Join(lines, "\n\t\t")
}

// State is the state of the tests' graphs.
type State struct{ Ran graph.List[string] }

func visit(name string) func(context.Context, *State) error {
	return func(_ context.Context, s *State) error { s.Ran.Add(name); return nil }
}

func visits(name string, nodes ...string) *graph.Builder[State] {
	b := graph.New[State](name)
	for _, n := range nodes {
		b.AddNode(n, visit(n))
	}
	return b
}

func compile(t testing.TB, b *graph.Builder[State], opts ...graph.Option) *graph.Graph[State] {
	t.Helper()
	g, err := b.Compile(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func once(d time.Duration, attempts int) graph.NodeOption {
	return graph.Retry(graph.RetryPolicy{MaxAttempts: attempts, Initial: d, NoJitter: true})
}
