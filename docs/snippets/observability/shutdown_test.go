package observability_test

import (
	"context"
	"os"

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
func main() { os.Exit(run()) }

func run() int {
	ctx := context.Background()
	provider := trace.NewTracerProvider(trace.WithBatcher(newExporter(ctx)))
	defer provider.Shutdown(ctx) // after the command, before the process ends
	tel, err := otel.New(otel.Options{TracerProvider: provider})
	if err != nil {
		panic(err)
	}
	return cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, cli.Graph(newGraph(tel.Observe())))
}

//snippet:end
