package observability_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/otel"
	"github.com/superstep-dev/superstep/tool"
)

func observedAgent(tel *otel.Telemetry, m model.Model, tools ...tool.Tool) (*graph.Graph[agent.State], error) {
	return agent.New(agent.ReAct[agent.State]{
		Name:  "helper",
		Model: tel.Model(m, otel.ModelInfo{Provider: "openai", Name: "gpt-5-mini"}),
		Tools: tel.Tools(tools...),
	}, tel.Observe())
}

func Example_observability() {
	exporter := tracetest.NewInMemoryExporter() // yours sends to a collector: otlptracehttp.New(ctx)
	tel, err := otel.New(otel.Options{
		TracerProvider: trace.NewTracerProvider(trace.WithSyncer(exporter)),
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
	})
	if err != nil {
		panic(err)
	}
	a, err := observedAgent(tel, scripted.New(scripted.Text("Hello!")))
	if err != nil {
		panic(err)
	}
	if _, err := a.Invoke(context.Background(), agent.Ask[agent.State]("Hi")); err != nil {
		panic(err)
	}
	for _, s := range exporter.GetSpans() { // in the order of their ends
		fmt.Println(s.Name)
	}
	// Output:
	// chat gpt-5-mini
	// node agent
	// superstep
	// invoke_workflow helper
}

func correlatedLogs() *slog.Logger {
	return slog.New(otel.LogHandler(slog.NewJSONHandler(os.Stderr, nil)))
}

// stopwatch is a tracer of one's own.
type stopwatch struct{ failed func(node string, err error) }

func (w stopwatch) Begin(ctx context.Context, p graph.Part) (context.Context, func(graph.Outcome)) {
	return ctx, func(o graph.Outcome) {
		if p.Kind == graph.PartAttempt && o.Err != nil && !o.Cancelled {
			w.failed(p.Node, o.Err)
		}
	}
}

func Example_tracer() {
	b := graph.New[struct{}]("article")
	b.AddNode("intro", func(context.Context, *struct{}) error { return fmt.Errorf("no idea") })
	b.AddEdge(graph.Start, "intro")
	g := b.MustCompile(graph.Trace(stopwatch{failed: func(node string, err error) { fmt.Println(node, "failed:", err) }}))
	_, err := g.Invoke(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// intro failed: no idea
	// node "intro" failed in step 1: no idea
}

var _ = correlatedLogs
