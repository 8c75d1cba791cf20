package otlp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/otel"
	"github.com/superstep-dev/superstep/otel/otlp"
)

func Example() {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path, r.Header.Get("Content-Type"))
	}))
	defer collector.Close()

	exporter, err := otlp.New(otlp.Options{URL: collector.URL + "/v1/traces"}) // or what otlp.Environment returns
	if err != nil {
		panic(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	tel, err := otel.New(otel.Options{TracerProvider: provider})
	if err != nil {
		panic(err)
	}
	b := graph.New[struct{}]("hello")
	b.AddNode("hello", func(context.Context, *struct{}) error { return nil })
	b.AddEdge(graph.Start, "hello")
	g := b.MustCompile(tel.Observe())
	if _, err := g.Invoke(context.Background(), func(*struct{}) error { return nil }); err != nil {
		panic(err)
	}
	if err := provider.Shutdown(context.Background()); err != nil { // which sends what is left
		panic(err)
	}
	// Output: /v1/traces application/json
}
