package observability_test

import (
	"context"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/otel"
)

func newExporter(context.Context) trace.SpanExporter { return tracetest.NewInMemoryExporter() }

func newGraph(opts ...graph.Option) *graph.Graph[struct{}] {
	b := graph.New[struct{}]("hello")
	b.AddNode("hello", func(context.Context, *struct{}) error { return nil })
	b.AddEdge(graph.Start, "hello")
	return b.MustCompile(opts...)
}

var _ = main // it is shown, and compiled, and not run

//snippet:exported
func main() {
	provider := trace.NewTracerProvider(trace.WithBatcher(newExporter(context.Background())))
	tel, err := otel.New(otel.Options{TracerProvider: provider})
	if err != nil {
		panic(err)
	}
	cli.Main(cli.Graph(newGraph()), cli.EachRun(tel.Observe()), cli.AtEnd(provider.Shutdown))
}

//snippet:end
