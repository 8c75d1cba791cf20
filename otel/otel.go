package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/superstep-dev/superstep/otel"

// Options are the settings of [New]. The zero value is fine.
type Options struct {
	// TracerProvider and MeterProvider make the spans and the metrics. Nil means
	// OpenTelemetry's global ones, which do nothing until the program sets them.
	// To have one without the other, give the other's package noop.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Content reports what messages say, what tools are called with and what they
	// return. Of pictures, sounds and documents only the kind, type, size and
	// address are reported.
	Content bool
}

// Telemetry reports to OpenTelemetry. It is safe for concurrent use.
type Telemetry struct {
	tracer  trace.Tracer
	content bool

	runs       metric.Float64Histogram
	active     metric.Int64UpDownCounter
	nodes      metric.Float64Histogram
	operations metric.Float64Histogram
	firsts     metric.Float64Histogram
	tokens     metric.Int64Histogram
}

// seconds are buckets for what takes from a millisecond to a day.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400}

// The buckets that the semantic conventions name.
var (
	operationSeconds = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	firstSeconds     = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	tokenCounts      = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// New returns a Telemetry. The error is that of a provider that refuses an
// instrument.
func New(o Options) (*Telemetry, error) {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	t := &Telemetry{tracer: o.TracerProvider.Tracer(scope), content: o.Content}
	meter := o.MeterProvider.Meter(scope)
	var errs []error
	histogram := func(to *metric.Float64Histogram, name, what string, buckets []float64) {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(buckets...))
		*to, errs = h, append(errs, err)
	}
	histogram(&t.runs, "superstep.run.duration", "Duration of runs.", seconds)
	histogram(&t.nodes, "superstep.node.duration", "Duration of attempts of nodes.", seconds)
	histogram(&t.operations, "gen_ai.client.operation.duration", "Duration of calls of models and tools.", operationSeconds)
	histogram(&t.firsts, "gen_ai.client.operation.time_to_first_chunk", "Time until the first chunk of a streamed answer.", firstSeconds)
	var err error
	t.tokens, err = meter.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens of requests and answers."), metric.WithExplicitBucketBoundaries(tokenCounts...))
	errs = append(errs, err)
	t.active, err = meter.Int64UpDownCounter("superstep.run.active", metric.WithUnit("{run}"), metric.WithDescription("Runs that have begun and not ended."))
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return t, nil
}

func since(start time.Time) float64 { return time.Since(start).Seconds() }

func with(attrs []attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attrs...))
}

// cancelled reports whether err is that the context's owner has ended it.
func cancelled(ctx context.Context, err error) bool {
	return ctx.Err() == context.Canceled && errors.Is(err, context.Canceled)
}
