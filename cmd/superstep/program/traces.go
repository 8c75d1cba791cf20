package program

import (
	"context"
	"os"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/otel"
	"github.com/superstep-dev/superstep/otel/otlp"
)

// traces are sent to where the environment says; nil: nowhere.
type traces struct {
	tel      *otel.Telemetry
	provider *trace.TracerProvider
}

// tracing reads from the environment where traces go.
func tracing(ctx context.Context) (*traces, error) {
	o, on, err := otlp.Environment()
	if err != nil || !on {
		return nil, err
	}
	exporter, err := otlp.New(o)
	if err != nil {
		return nil, err
	}
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", "superstep"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	t := &traces{provider: trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))}
	t.tel, err = otel.New(otel.Options{
		TracerProvider: t.provider, MeterProvider: noop.NewMeterProvider(), // the server has metrics of its own
		Content: strings.EqualFold(os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"), "true"),
	})
	return t, err
}

// options make each run traced.
func (t *traces) options() []cli.Option {
	if t == nil {
		return nil
	}
	return []cli.Option{cli.EachRun(t.tel.Observe()), cli.AtEnd(t.provider.Shutdown)}
}

// model returns a model, known by a name such as openai:gpt-5, whose calls are traced.
func (t *traces) model(name string, m model.Model) model.Model {
	if t == nil {
		return m
	}
	provider, name, found := strings.Cut(name, ":")
	if !found {
		name = provider
	}
	return t.tel.Model(m, otel.ModelInfo{Provider: provider, Name: name})
}
