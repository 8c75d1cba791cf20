package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// office is a graph whose callers give a ticket and get a reply: its state is its own.
func office(t testing.TB) *graph.Graph[trip] {
	type ticket struct {
		City string `json:"to"`
	}
	type reply struct {
		Booked string `json:"booked"`
	}
	b := graph.New[trip]("office")
	graph.SetInput(b, func(s *trip, in ticket) error { s.City = in.City; return nil })
	graph.SetOutput(b, func(s *trip) reply { return reply{s.City} })
	b.AddNode("book", func(ctx context.Context, s *trip) error {
		yes, err := graph.Interrupt[bool](ctx, "sure", s.City)
		s.Booked = yes
		return err
	})
	b.AddEdge(graph.Start, "book")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestARunTakesTheInputTypeAndGivesTheOutputType(t *testing.T) {
	c := start(t, server.Graph(office(t)), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	path := "/threads/" + thread
	c.refused("POST", path+"/runs", object{"assistant_id": "office", "input": object{"city": "Ulm"}}, 422, `input: field "to": is missing`)
	out := call[object](c, "POST", path+"/runs/wait", object{"assistant_id": "office", "input": object{"to": "Ulm"}})
	if out["booked"] != "Ulm" || out["city"] != nil || out["__interrupt__"] == nil {
		t.Errorf("the run gives %v", out)
	}
	// Commands and edits are updates of the state.
	c.refused("POST", path+"/state", object{"values": object{"to": "Bonn"}}, 422, `unknown field "to"`)
	call[any](c, "POST", path+"/runs/wait", object{"assistant_id": "office", "command": object{"update": object{"city": "Bonn"}}})
	values := ""
	for _, p := range c.streamed(path+"/runs/stream", object{"assistant_id": "office", "command": object{"resume": true}, "stream_mode": []string{"values"}}) {
		if p.event == "values" {
			values = fmt.Sprint(p.data)
		}
	}
	if values != `map[booked:Bonn]` {
		t.Errorf("the last values are %s", values)
	}
	state := call[object](c, "GET", path+"/state", nil)["values"].(object)
	if state["city"] != "Bonn" || state["booked"] != true {
		t.Errorf("the thread's state is %v", state)
	}
	schemas := call[map[string]json.RawMessage](c, "GET", "/assistants/office/schemas", nil)
	for name, want := range map[string]string{"input_schema": "to", "output_schema": "booked", "state_schema": "messages"} {
		var s struct{ Properties map[string]any }
		if err := json.Unmarshal(schemas[name], &s); err != nil || s.Properties[want] == nil {
			t.Errorf("%s: %s, %v", name, fmt.Sprint(s.Properties), err)
		}
	}
}
