package graph_test

import (
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

type tuned struct {
	Tone  string              `json:"tone,omitempty" enum:"dry,loud"`
	Sizes graph.List[int]     `json:"sizes" enum:"1,2"`
	Deep  graph.Value[tuning] `json:"deep,omitzero"`
}

type tuning struct {
	Kind string `json:"kind" enum:"a,b"`
}

// What an enum tag lists is in the schemas, and nothing else is taken from outside.
func TestEnumTagsLimitWhatIsTaken(t *testing.T) {
	b := graph.New[tuned]("tuned")
	b.AddNode("n", func(context.Context, *tuned) error { return nil }).AddEdge(graph.Start, "n")
	g := compile(t, b, graph.Configurable(tuning{Kind: "a"}))
	for kind, want := range map[graph.JSONKind][]string{
		graph.JSONState:  {`"tone":{"type":"string","enum":["dry","loud"]}`, `"items":{"type":"integer","enum":[1,2]}`, `"kind":{"type":"string","enum":["a","b"]}`},
		graph.JSONUpdate: {`"enum":["dry","loud"]`, `"enum":[1,2]`},
		graph.JSONConfig: {`"enum":["a","b"]`},
	} {
		schema, err := g.JSONSchema(kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(schema), part) {
				t.Errorf("the schema of kind %d lacks %s: %s", kind, part, schema)
			}
		}
	}
	for data, says := range map[string]string{
		`{"tone":"shrill"}`:            `field "tone": must be one of "dry", "loud"`,
		`{"sizes":[1,3]}`:              `must be one of 1, 2`,
		`{"sizes":{"$overwrite":[3]}}`: `must be one of 1, 2`,
		`{"deep":{"kind":"c"}}`:        `must be one of "a", "b"`,
		`{"tone":"dry","sizes":[2,1]}`: "",
		`{"deep":{"kind":"b"}}`:        "",
	} {
		switch err := g.CheckJSON(graph.JSONUpdate, []byte(data)); {
		case says == "" && err != nil, says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v", data, err)
		}
	}
	if err := g.CheckJSON(graph.JSONConfig, []byte(`{"kind":"z"}`)); err == nil || !strings.Contains(err.Error(), `"kind": must be one of "a", "b"`) {
		t.Errorf("a configuration that isn't listed: %v", err)
	}

	type wrong struct {
		N int `json:"n" enum:"one,2"`
	}
	_, err := graph.New[wrong]("wrong").AddNode("n", func(context.Context, *wrong) error { return nil }).AddEdge(graph.Start, "n").Compile()
	if err == nil || !strings.Contains(err.Error(), `tag enum:"one,2"`) {
		t.Errorf("an enum of no numbers: %v", err)
	}

	type flags struct {
		B bool              `json:"b" enum:"1,0"`
		C graph.Value[bool] `json:"c" enum:"yes"`
	}
	_, err = graph.New[flags]("flags").AddNode("n", func(context.Context, *flags) error { return nil }).AddEdge(graph.Start, "n").Compile()
	if err == nil || !strings.Contains(err.Error(), `tag enum:"1,0"`) || !strings.Contains(err.Error(), `tag enum:"yes"`) {
		t.Errorf("an enum of no booleans: %v", err)
	}
}
