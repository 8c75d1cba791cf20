package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

func TestRunsAreConfiguredAsTheGraphDeclares(t *testing.T) {
	type manner struct {
		Tone   string `json:"tone"`
		Tenant string `json:"x-tenant"`
	}
	b := graph.New[trip]("mannered")
	b.AddNode("tell", func(ctx context.Context, s *trip) error {
		m, err := graph.Configured[manner](ctx)
		s.City = m.Tone
		return err
	})
	b.AddEdge(graph.Start, "tell")
	g, err := b.Compile(graph.Configurable(manner{Tone: "plain"}))
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Graph(g), server.Graph(booking(t)), quiet())
	made := call[object](c, "POST", "/assistants", object{"graph_id": "mannered", "context": object{"tone": "dry"}})["assistant_id"]
	in := func(tone string) object {
		return object{"configurable": object{"tone": tone, "thread_id": "x", "langgraph_x": 1}}
	}
	for name, tt := range map[string]struct {
		body object
		want string
	}{
		"the default":                {object{"assistant_id": "mannered"}, "plain"},
		"an assistant's":             {object{"assistant_id": made}, "dry"},
		"the run's over it":          {object{"assistant_id": made, "context": object{"tone": "loud"}}, "loud"},
		"configurable":               {object{"assistant_id": "mannered", "config": in("soft")}, "soft"},
		"the context goes over that": {object{"assistant_id": "mannered", "config": in("soft"), "context": object{"tone": "loud"}}, "loud"},
		"that which is the server's": {object{"assistant_id": "mannered", "context": object{"x-tenant": 5, "langgraph_auth_user": 5}}, "plain"},
	} {
		tt.body["input"] = object{}
		if got := call[object](c, "POST", "/runs/wait", tt.body)["city"]; got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// A thread keeps what the runs of its graph are configured with.
	thread := "/threads/" + newThread()
	for _, tt := range []struct {
		body object
		want string
	}{
		{object{"assistant_id": made}, "dry"},
		{object{"assistant_id": "mannered", "config": in("soft")}, "soft"},
		{object{"assistant_id": "mannered"}, "soft"},
		{object{"assistant_id": "mannered", "config": in("loud")}, "loud"},
		{object{"assistant_id": "mannered", "config": object{"configurable": object{"other": 1}}}, "loud"},
	} {
		tt.body["input"], tt.body["if_not_exists"] = object{}, "create"
		if got := call[object](c, "POST", thread+"/runs/wait", tt.body)["city"]; got != tt.want {
			t.Errorf("on a thread, %v: %v", tt.body, got)
		}
	}
	if got := call[object](c, "GET", thread, nil)["config"].(object)["configurable"].(object)["tone"]; got != "loud" {
		t.Errorf("the thread's configuration has %v", got)
	}
	for says, part := range map[string]object{
		`context: field "tnoe": unknown field; did you mean "tone"?`: {"context": object{"tnoe": "dry"}},
		`config.configurable: field "tnoe": unknown field`:           {"config": object{"configurable": object{"tnoe": "dry"}}},
		`context: field "tone": must be a string`:                    {"context": object{"tone": 5}},
	} {
		part["assistant_id"], part["graph_id"], part["input"] = "mannered", "mannered", object{}
		if status, _, answer := c.ask(t.Context(), "POST", "/runs", string(encoded(part)), "Prefer", "handling=strict"); status != 422 || !strings.Contains(answer, says) {
			t.Errorf("%v: %d %s", part, status, answer)
		}
		delete(part, "input")
		delete(part, "assistant_id")
		for path, method := range map[string]string{"/assistants": "POST", "/assistants/" + made.(string): "PATCH"} {
			if status, _, answer := c.ask(t.Context(), method, path, string(encoded(part)), "Prefer", "handling=strict"); status != 422 || !strings.Contains(answer, says) {
				t.Errorf("%s %s %v: %d %s", method, path, part, status, answer)
			}
		}
	}
	c.refused("POST", "/assistants", object{"graph_id": "mannered", "context": object{"tone": 5}}, 422, `context: field "tone": must be a string`)
	// What the graph doesn't know stays in the assistant, and out of its runs.
	status, header, text := c.ask(t.Context(), "POST", "/assistants", `{"graph_id":"mannered","config":{"configurable":{"tone":"dry","other":1}}}`)
	var more struct {
		ID     string `json:"assistant_id"`
		Config struct{ Configurable map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &more); status != 200 || err != nil || more.Config.Configurable["other"] != 1.0 || !strings.Contains(plain(header.Get("Warning")), `config.configurable: unknown field other was left out`) {
		t.Errorf("%d, Warning %q: %s", status, header.Get("Warning"), text)
	}
	if got := call[object](c, "POST", "/runs/wait", object{"assistant_id": more.ID, "input": object{}})["city"]; got != "dry" {
		t.Errorf("it runs with %v", got)
	}
	// A graph that declares none is sent what there is, and doesn't see it.
	call[object](c, "POST", "/runs/wait", object{"assistant_id": "booking", "input": object{}, "context": object{"any": 1}})

	schemas := call[map[string]json.RawMessage](c, "GET", "/assistants/mannered/schemas", nil)
	for _, name := range []string{"config_schema", "context_schema"} {
		var s struct {
			Properties map[string]struct{ Default any }
		}
		if err := json.Unmarshal(schemas[name], &s); err != nil || len(s.Properties) != 1 || s.Properties["tone"].Default != "plain" {
			t.Errorf("%s: %s", name, schemas[name])
		}
	}
}
