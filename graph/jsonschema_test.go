package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

func ExampleGraph_JSONSchema() {
	type State struct {
		Topic string             `json:"topic"`
		Jokes graph.List[string] `json:"jokes"`
		Score graph.Sum[int]     `json:"score"`
	}
	b := graph.New[State]("jokes")
	b.AddNode("write", func(_ context.Context, s *State) error { return nil })
	b.AddEdge(graph.Start, "write")
	g := b.MustCompile()
	schema, err := g.JSONSchema(false)
	if err != nil {
		panic(err)
	}
	var s struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		panic(err)
	}
	fmt.Println(s.Type, len(s.Properties), string(s.Properties["score"]))
	// Output: object 3 {"type":"integer"}
}

func TestJSONSchemaOfASchemaGraphIsUnsupported(t *testing.T) {
	b := graph.NewSchemaGraph("g", graph.NewSchema())
	b.AddNode("a", func(_ context.Context, _ graph.MapState) (any, error) { return nil, nil }).AddEdge(graph.Start, "a")
	if _, err := b.MustCompile().JSONSchema(true); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
