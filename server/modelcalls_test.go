package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
)

func TestCallsOfModelsAreListedAndShownWhole(t *testing.T) {
	answer := chat.Assistant("Oslo")
	answer.Model = "gpt-5"
	m := scripted.New(
		scripted.Message(answer).Usage(chat.Usage{Input: 1_000_000, Output: 100_000}),
		scripted.Error(&model.Error{Provider: "there", Kind: model.ErrorOverloaded, Message: "later"}),
		scripted.Error(errors.New("broken")).Repeat(),
	)
	g, err := agent.New(agent.ReAct[agent.State]{Name: "guide", Model: m, Instruction: "Be brief."})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c := start(t, server.Graph(g), quiet(), server.AskAgain(func(_ context.Context, c *calls.Call) (model.Model, error) {
		if c.Model != "gpt-5" || c.Node != "agent" {
			return nil, errors.New("unknown model")
		}
		return model.Func(func(_ context.Context, req *model.Request) (*model.Response, error) {
			if asked++; asked > 1 {
				return nil, &model.Error{Provider: "there", Kind: model.ErrorOverloaded, Message: "later"}
			}
			return &model.Response{Message: chat.Assistant("You said: " + req.Messages[0].Text())}, nil
		}), nil
	}))
	thread := "/threads/" + call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	if got := call[[]object](c, "GET", thread+"/model_calls", nil); len(got) != 0 {
		t.Fatalf("of a new thread: %v", got)
	}
	call[any](c, "POST", thread+"/runs/wait", object{"assistant_id": "guide", "input": object{"user_input": "Where?"}})
	call[any](c, "POST", thread+"/runs/wait", object{"assistant_id": "guide", "input": object{"user_input": "Why?"}})
	list := call[[]object](c, "GET", thread+"/model_calls", nil)
	if len(list) != 2 {
		t.Fatalf("%d calls: %v", len(list), list)
	}
	failed, first := list[0], list[1]
	if failed["error_kind"] != "overloaded" || failed["provider"] != "there" || failed["checkpoint_id"] != nil || failed["usage"] != nil || !strings.Contains(failed["error"].(string), "later") {
		t.Errorf("the one that failed: %v", failed)
	}
	if first["model"] != "gpt-5" || first["node"] != "agent" || first["run_id"] == nil || first["cost"] != 2.25 || first["step"] != 1.0 || first["request"] != nil || first["error"] != nil {
		t.Errorf("the first: %v", first)
	}
	if got := call[[]object](c, "GET", thread+"/model_calls?before="+failed["call_id"].(string), nil); len(got) != 1 || got[0]["call_id"] != first["call_id"] {
		t.Errorf("before the newest: %v", got)
	}
	whole := call[object](c, "GET", thread+"/model_calls/"+first["call_id"].(string), nil)
	said := whole["request"].(object)["messages"].([]any)
	if len(said) != 2 || said[0].(object)["content"] != "Be brief." || said[1].(object)["content"] != "Where?" || whole["answer"].(object)["content"] != "Oslo" {
		t.Errorf("whole: %v", whole)
	}
	body := object{"request": object{"messages": []any{object{"role": "user", "content": "Who?"}}}}
	again := call[object](c, "POST", thread+"/model_calls/"+first["call_id"].(string), body)
	if again["answer"].(object)["content"] != "You said: Who?" || again["call_id"] != first["call_id"] || again["error"] != nil || again["request"] != nil {
		t.Errorf("asked again: %v", again)
	}
	if failed := call[object](c, "POST", thread+"/model_calls/"+first["call_id"].(string), body); failed["answer"] != nil || failed["error_kind"] != "overloaded" {
		t.Errorf("asked again, in vain: %v", failed)
	}
	if n := len(call[[]object](c, "GET", thread+"/model_calls", nil)); n != 2 {
		t.Errorf("afterwards %d calls are recorded", n)
	}
	for name, tt := range map[string]struct {
		id     any
		body   object
		status int
	}{
		"of a model that can't be opened": {failed["call_id"], body, 409},
		"of no call":                      {"0198f3c2-5b7a-7d10-8e21-4c3b00000000", body, 404},
		"nothing":                         {first["call_id"], object{}, 422},
		"no messages":                     {first["call_id"], object{"request": object{"messages": []any{}}}, 422},
		"messages that are none":          {first["call_id"], object{"request": object{"messages": []any{1}}}, 422},
	} {
		if status, _, text := c.do("POST", thread+"/model_calls/"+tt.id.(string), tt.body); status != tt.status {
			t.Errorf("asking again %s: %d %s, want %d", name, status, text, tt.status)
		}
	}
	for path, status := range map[string]int{
		"/model_calls?limit=0": 422, "/model_calls?limit=x": 422, "/model_calls?limit=1001": 422, "/model_calls?before=x": 422,
		"/model_calls/x": 422, "/model_calls/0198f3c2-5b7a-7d10-8e21-4c3b00000000": 404,
	} {
		resp, err := http.Get(c.url + thread + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %s, want %d", path, resp.Status, status)
		}
	}
}

func TestCallsOfToolsAreListed(t *testing.T) {
	c := start(t, server.Graph(answering(t)), quiet())
	thread := "/threads/" + call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	if got := call[[]object](c, "GET", thread+"/tool_calls", nil); len(got) != 0 {
		t.Fatalf("of a new thread: %v", got)
	}
	for range 2 {
		call[any](c, "POST", thread+"/runs/wait", object{"assistant_id": "agent", "input": object{"user_input": "What is 6 times 7?"}})
	}
	list := call[[]object](c, "GET", thread+"/tool_calls", nil)
	if len(list) != 2 {
		t.Fatalf("%d calls: %v", len(list), list)
	}
	for _, got := range list {
		if got["tool"] != "multiply" || got["tool_call_id"] == "" || got["node"] != "tools" || got["failed"] != false || got["attempt"] != 1.0 || got["checkpoint_id"] == nil || got["run_id"] == nil || got["began_at"] == nil || got["took"] == nil {
			t.Errorf("%v", got)
		}
	}
	if got := call[[]object](c, "GET", thread+"/tool_calls?before="+list[0]["call_id"].(string), nil); len(got) != 1 || got[0]["call_id"] != list[1]["call_id"] {
		t.Errorf("before the newest: %v", got)
	}
	if got := call[[]object](c, "GET", thread+"/tool_calls?limit=1", nil); len(got) != 1 {
		t.Errorf("one: %v", got)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "before=x"} {
		if status, _, text := c.do("GET", thread+"/tool_calls?"+query, nil); status != 422 {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}
