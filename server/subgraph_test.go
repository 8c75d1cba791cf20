package server_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// A thread that waits inside of a subgraph is shown, edited there and answered.
func TestSubgraphsAreShownAndEdited(t *testing.T) {
	type inner struct {
		Word string `json:"word"`
	}
	type outer struct {
		Text string `json:"text"`
	}
	in := graph.New[inner]("inner")
	in.AddNode("ask", func(ctx context.Context, s *inner) error {
		word, err := graph.Interrupt[string](ctx, "word", s.Word)
		s.Word = word + s.Word
		return err
	}).AddEdge(graph.Start, "ask")
	out := graph.New[outer]("outer")
	graph.AddSubgraph(out, "sub", in.MustCompile(), graph.Mapping[outer, inner]{
		In:  func(p *outer, c *inner) { c.Word = p.Text },
		Out: func(c *inner, p *outer) { p.Text = c.Word },
	})
	out.AddEdge(graph.Start, "sub")
	c := start(t, server.Graph(out.MustCompile()))

	subgraphs := call[map[string]object](c, "GET", "/assistants/outer/subgraphs", nil)
	if s := subgraphs["sub"]; s["graph_id"] != "inner" || s["state_schema"].(object)["properties"].(object)["word"] == nil {
		t.Errorf("subgraphs: %v", subgraphs)
	}
	drawn := call[object](c, "GET", "/assistants/outer/graph?xray=true", nil)
	if ids := drawn["nodes"].([]any); ids[1].(object)["id"] != "sub:ask" {
		t.Errorf("drawn: %v", drawn)
	}
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "outer", "input": object{"text": "x"}})
	task := call[object](c, "GET", "/threads/"+thread+"/state", nil)["tasks"].([]any)[0].(object)
	if task["state"] != nil || task["checkpoint"] == nil {
		t.Fatalf("closed: %v", task)
	}
	ns := task["checkpoint"].(object)["checkpoint_ns"]
	nested := call[object](c, "GET", "/threads/"+thread+"/state?subgraphs=true", nil)["tasks"].([]any)[0].(object)
	if got := nested["state"].(object)["values"].(object)["word"]; got != "x" || nested["checkpoint"] != nil {
		t.Errorf("open: %v", nested)
	}
	call[object](c, "POST", "/threads/"+thread+"/state", object{"values": object{"word": "y"}, "checkpoint": object{"checkpoint_ns": ns}})
	part := call[object](c, "POST", "/threads/"+thread+"/state/checkpoint", object{"checkpoint": object{"checkpoint_ns": ns}})
	if got := part["values"].(object)["word"]; got != "y" {
		t.Errorf("edited: %v", part)
	}
	if got := call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "outer", "command": object{"resume": "a"}}); got["text"] != "ay" {
		t.Errorf("after the answer: %v", got)
	}
	if status, _, text := c.do("POST", "/threads/"+thread+"/state/checkpoint", object{"checkpoint": object{"checkpoint_ns": "/nowhere"}}); status != 404 {
		t.Errorf("an unknown namespace: %d %s", status, text)
	}
}
