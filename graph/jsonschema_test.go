package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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
	schema, err := g.JSONSchema(graph.JSONState)
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

func TestJSONSchemaOfASchemaGraph(t *testing.T) {
	build := func(s *graph.Schema) *graph.Graph[graph.SchemaState] {
		s.AddField("topic", graph.Field{Type: reflect.TypeFor[string](), Required: true}).
			AddField("tags", graph.Field{Type: reflect.TypeFor[[]string](), Reducer: graph.AppendReducer}).
			AddField("score", graph.FieldOf(0, graph.SumReducer)).
			AddField("any", graph.Field{Type: reflect.TypeFor[any]()}).
			AddField("odd", graph.Field{Type: reflect.TypeFor[int](), Reducer: graph.ReducerOf(func(a int, _ any) int { return a })})
		return graph.AddMapNode(graph.NewSchemaGraph("g", s), "a", returns(nil)).SetEntryPoint("a").MustCompile()
	}
	type schema struct {
		Properties           map[string]any
		Required             []string
		AdditionalProperties any
	}
	of := func(g *graph.Graph[graph.SchemaState], kind graph.JSONKind) (s schema) {
		data, err := g.JSONSchema(kind)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	state := of(build(graph.NewSchema().Strict()), graph.JSONState)
	equal(t, "fields", fmt.Sprint(state.Properties), "map[any:true odd:map[type:integer] score:map[type:integer] tags:map[items:map[type:string] type:[null array]] topic:map[type:string]]")
	equalSlice(t, "required", state.Required, []string{"topic", "score"})
	equal(t, "a strict schema allows more", state.AdditionalProperties == nil, false)
	open := of(build(graph.NewSchema()), graph.JSONState)
	equal(t, "fields of an open schema", len(open.Properties), 5)
	equal(t, "an open schema forbids more", open.AdditionalProperties, nil)

	g := build(graph.NewSchema())
	equal(t, "forms of an update", len(of(g, graph.JSONUpdate).Properties["tags"].(map[string]any)["anyOf"].([]any)), 2)
	s := must[*graph.SchemaState](t)(graph.NewSchema().NewState())
	err := g.UpdateJSON(s, []byte(`{"topic":"x"}`))
	if err == nil || !strings.Contains(err.Error(), "another schema") {
		t.Error(err)
	}
}
