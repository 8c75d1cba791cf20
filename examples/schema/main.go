// Schema builds a graph that isn't known when the program is compiled: its
// fields and nodes come from a description in JSON.
//
// The state is a map whose fields a schema declares, and nodes return updates.
// Everything else (supersteps, reducers, checkpoints, interrupts) is as for a
// state that is a struct; both run on the same engine.
//
//	go run ./examples/schema
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

const description = `{
	"fields": [
		{"name": "text",   "type": "string"},
		{"name": "words",  "type": "list"},
		{"name": "length", "type": "number"}
	],
	"nodes": [
		{"name": "trim",  "do": "trim"},
		{"name": "split", "do": "split", "after": "trim"},
		{"name": "count", "do": "count", "after": "trim"}
	]
}`

// types are the types of fields that a description may use.
var types = map[string]graph.Field{
	"string": graph.FieldOf("", nil), // no reducer: an update replaces the value
	"list":   graph.FieldOf([]string(nil), graph.AppendReducer),
	"number": graph.FieldOf(0, graph.SumReducer),
}

// actions are what its nodes may do.
var actions = map[string]func(ctx context.Context, state graph.MapState) (any, error){
	"trim": func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"text": strings.TrimSpace(s["text"].(string))}, nil
	},
	"split": func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"words": strings.Fields(s["text"].(string))}, nil
	},
	"count": func(_ context.Context, s graph.MapState) (any, error) {
		return graph.MapState{"length": len(s["text"].(string))}, nil
	},
}

func build(description string) (*graph.Graph[graph.SchemaState], error) {
	var d struct {
		Fields []struct{ Name, Type string }
		Nodes  []struct{ Name, Do, After string }
	}
	if err := json.Unmarshal([]byte(description), &d); err != nil {
		return nil, err
	}
	schema := graph.NewSchema().Strict()
	for _, f := range d.Fields {
		schema.AddField(f.Name, types[f.Type])
	}
	b := graph.NewSchemaGraph("described", schema)
	for _, n := range d.Nodes {
		graph.AddMapNode(b, n.Name, actions[n.Do])
		if n.After == "" {
			n.After = graph.Start
		}
		b.AddEdge(n.After, n.Name)
	}
	return b.Compile()
}

func main() {
	g, err := build(description)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g)
	snap, err := g.Invoke(context.Background(), graph.MapState{"text": "  to be or not  "}.Into)
	if err != nil {
		log.Fatal(err)
	}
	for _, field := range []string{"text", "words", "length"} {
		fmt.Printf("%s: %v\n", field, snap.State.Get(field))
	}

	_, err = build(strings.Replace(description, `"after": "trim"`, `"after": "trimm"`, 1))
	fmt.Println(err)
}
