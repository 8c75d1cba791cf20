package otel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/otel"
	"github.com/superstep-dev/superstep/tool"
)

func ExampleTelemetry_Observe() {
	spans := tracetest.NewInMemoryExporter() // a program has an exporter to its collector
	tel, err := otel.New(otel.Options{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))})
	if err != nil {
		panic(err)
	}
	b := graph.New[State]("orders")
	b.AddNode("pack", visit("pack"))
	b.AddNode("send", visit("send"))
	b.AddEdge(graph.Start, "pack")
	b.AddEdge("pack", "send")
	g, err := b.Compile(tel.Observe())
	if err != nil {
		panic(err)
	}
	if _, err := g.Invoke(context.Background(), nil); err != nil {
		panic(err)
	}
	for _, s := range spans.GetSpans() { // in the order of their ends
		fmt.Println(s.Name)
	}
	// Output:
	// node pack
	// superstep
	// node send
	// superstep
	// invoke_workflow orders
}

func ExampleTelemetry_Model() {
	spans := tracetest.NewInMemoryExporter()
	tel, err := otel.New(otel.Options{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))})
	if err != nil {
		panic(err)
	}
	var m model.Model = scripted.New(scripted.Call("weather", `{"city": "Bern"}`), scripted.Text("Yes: it snows."))
	weather := tool.New("weather", "Tells the weather.", func(context.Context, place) (string, error) { return "snow", nil })
	a, err := agent.New(agent.ReAct[agent.State]{
		Model: tel.Model(m, otel.ModelInfo{Provider: "openai", Name: "gpt-5-mini"}),
		Tools: tel.Tools(weather),
	}, tel.Observe())
	if err != nil {
		panic(err)
	}
	if _, err := a.Invoke(context.Background(), agent.Ask[agent.State]("Do I need a coat in Bern?")); err != nil {
		panic(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// chat gpt-5-mini
	// node agent
	// superstep
	// execute_tool weather
	// node tools
	// superstep
	// chat gpt-5-mini
	// node agent
	// superstep
	// invoke_workflow agent
}
