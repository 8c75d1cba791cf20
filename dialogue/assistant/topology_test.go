package assistant_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

var update = flag.Bool("update", false, "rewrite testdata")

// SONI-25
func TestTheGraphHasOneTopologyWhateverTheProgram(t *testing.T) {
	drawing := build(t, assistant.Config{}).Graph().Drawing(0)
	edges := map[string]bool{}
	for _, e := range drawing.Edges {
		edges[e.From+" "+e.To] = true
	}
	for _, want := range []string{
		graph.Start + " understand",
		"understand validate_slot", "understand handle_digression", "understand handle_intent_change", "understand generate_response",
		"handle_digression generate_response",
		"validate_slot execute_action", "validate_slot collect_next_slot",
		"collect_next_slot understand",
		"execute_action generate_response",
		"generate_response " + graph.End,
	} {
		if !edges[want] {
			t.Errorf("there is no edge %s", want)
		}
	}
	golden := "testdata/topology.mmd"
	have := []byte(draw.Mermaid(drawing, nil))
	if *update {
		if err := os.WriteFile(golden, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("the drawing is\n%s\nwant\n%s", have, want)
	}
	other := build(t, assistant.Config{Program: compile(t, "version: \"2.0\"\nflows:\n  greet: {description: Greet., steps: [{say: {text: Hello}}]}\n"), Actions: new(airline)})
	if !slices.Equal(other.Graph().Nodes(), build(t, assistant.Config{}).Graph().Nodes()) {
		t.Errorf("another program has the nodes %v", other.Graph().Nodes())
	}
}
