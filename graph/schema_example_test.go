package graph_test

import (
	"context"
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/graph"
)

// A graph whose state is a map: nodes return what they want changed.
func ExampleNewSchemaGraph() {
	schema := graph.NewSchema().
		AddField("topics", graph.FieldOf([]string(nil), nil)).
		AddField("topic", graph.Field{Type: reflect.TypeFor[string]()}).
		AddField("jokes", graph.FieldOf([]string(nil), graph.AppendReducer)).
		AddField("count", graph.FieldOf(0, graph.SumReducer))

	b := graph.NewSchemaGraph("jokes", schema)
	graph.AddMapNode(b, "spread", func(_ context.Context, s graph.MapState) (any, error) {
		var list []*graph.MapCommand // a task for each topic
		for _, topic := range s["topics"].([]string) {
			list = append(list, &graph.MapCommand{Update: graph.MapState{"topic": topic}, Goto: graph.Goto("write")})
		}
		return list, nil
	}, graph.Destinations("write"))
	graph.AddMapNode(b, "write", func(_ context.Context, s graph.MapState) (any, error) {
		joke := fmt.Sprintf("Why did the %s cross the road?", s["topic"])
		return graph.MapState{"jokes": joke, "count": 1}, nil
	})
	graph.AddMapNode(b, "report", func(_ context.Context, s graph.MapState) (any, error) {
		fmt.Println(s["count"], "jokes")
		return nil, nil
	})
	b.SetEntryPoint("spread").AddEdge("write", "report")
	g, err := b.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	snap, err := g.Invoke(context.Background(), graph.MapState{"topics": []string{"cat", "dog"}}.Into)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, joke := range snap.State.Get("jokes").([]string) {
		fmt.Println(joke)
	}
	// Output:
	// 2 jokes
	// Why did the cat cross the road?
	// Why did the dog cross the road?
}
