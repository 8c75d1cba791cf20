package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
)

// class is a message as LangChain's classes in JavaScript are serialised.
func class(name string, members object) object {
	return object{"lc": 1, "type": "constructor", "id": []string{"langchain_core", "messages", name}, "kwargs": members}
}

// Programs in JavaScript send messages of LangChain's classes as they are.
func TestMessagesOfLangChainsClassesAreTaken(t *testing.T) {
	b := graph.New[trip]("talk")
	b.AddNode("ask", func(ctx context.Context, s *trip) error {
		m, err := graph.Interrupt[chat.Message](ctx, "what", "What?")
		if err != nil {
			return err
		}
		s.Messages.Add(m)
		store, err := memory.From(ctx)
		if err != nil {
			return err
		}
		var kept chat.Message
		item, err := store.Get(ctx, []string{"kept"}, "m")
		if err == nil {
			err = json.Unmarshal(item.Value, &kept)
		}
		if err != nil {
			return err
		}
		s.Messages.Add(kept)
		return nil
	})
	b.AddEdge(graph.Start, "ask")
	c := start(t, server.Graph(b.MustCompile()), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	at := "/threads/" + thread
	texts := func() string {
		var out []string
		for _, m := range call[object](c, "GET", at+"/state", nil)["values"].(object)["messages"].([]any) {
			out = append(out, fmt.Sprint(m.(object)["type"], ":", m.(object)["content"]))
		}
		return strings.Join(out, " ")
	}
	call[any](c, "PUT", "/store/items", object{"namespace": []string{"kept"}, "key": "m", "value": class("SystemMessage", object{"content": "k"})})
	_, _, streamed := c.do("POST", at+"/runs/stream", object{"assistant_id": "talk", "stream_mode": []string{"messages", "values"}, "input": object{
		"messages": []any{class("HumanMessage", object{"content": "a", "id": "1", "additional_kwargs": object{}})},
	}})
	if !strings.Contains(streamed, "messages/complete") || strings.Contains(streamed, `"lc"`) {
		t.Errorf("the stream shows the message as\n%s", streamed)
	}
	call[any](c, "POST", at+"/state", object{"values": object{"messages": class("AIMessage", object{"content": "b"})}})
	call[any](c, "POST", at+"/runs/wait", object{"assistant_id": "talk", "command": object{
		"resume": class("HumanMessage", object{"content": "c"}),
		"update": object{"messages": []any{class("RemoveMessage", object{"id": "1"}), class("AIMessageChunk", object{"content": "d"})}},
	}})
	if got := texts(); got != "ai:b ai:d human:c system:k" {
		t.Errorf("the messages are %s", got)
	}
	c.refused("POST", at+"/runs", object{"assistant_id": "talk", "input": object{"messages": []any{class("FunctionMessage", object{"content": "x"})}}}, 422, `"function"`)
}

// The IDs of the assistants that graphs have are those of LangGraph's servers.
func TestAGraphsAssistantHasTheIDThatLangGraphGivesIt(t *testing.T) {
	b := graph.New[trip]("agent")
	b.AddNode("nothing", func(context.Context, *trip) error { return nil })
	b.AddEdge(graph.Start, "nothing")
	c := start(t, server.Graph(b.MustCompile()), quiet())
	const id = "fe096781-5601-53d2-b2f6-0d3403f7e9ca"
	if got := call[object](c, "GET", "/assistants/agent", nil)["assistant_id"]; got != id {
		t.Errorf("the ID is %v", got)
	}
	if got := call[object](c, "GET", "/assistants/"+id, nil)["graph_id"]; got != "agent" {
		t.Errorf("it is of %v", got)
	}
}

// Wherever a message is shown it has the members that LangChain's classes have, and what
// a client wrote into them.
func TestMessagesAreShownWhole(t *testing.T) {
	b := graph.New[trip]("talk")
	b.AddNode("say", func(_ context.Context, s *trip) error {
		s.Messages.Add(chat.Message{ID: "3", Role: chat.RoleAssistant, Model: "m", Parts: []chat.Part{chat.ToolCall{ID: "c", Name: "look", Args: `{"additional_kwargs":{"in":1}}`}}})
		s.Messages.Add(chat.Message{ID: "4", Role: chat.RoleTool, Name: "look", Parts: []chat.Part{chat.ToolResult{CallID: "c", Name: "look", Content: []chat.Part{chat.Text{Text: "seen"}}}}})
		return nil
	})
	b.AddEdge(graph.Start, "say")
	c := start(t, server.Graph(b.MustCompile()), quiet())
	at := "/threads/" + call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	_, _, streamed := c.do("POST", at+"/runs/stream", object{"assistant_id": "talk", "stream_mode": []string{"values", "updates", "tasks"}, "input": object{"messages": []object{
		{"type": "human", "id": "1", "content": "hello", "additional_kwargs": object{"from": object{"page": 1}}},
		{"type": "ai", "id": "2", "content": "hi", "response_metadata": object{"model_name": "m", "logprobs": []int{1}}},
	}}})
	want := map[string]string{
		"1": `{"additional_kwargs":{"from":{"page":1}},"content":"hello","id":"1","response_metadata":{},"type":"human"}`,
		"2": `{"additional_kwargs":{},"content":"hi","id":"2","invalid_tool_calls":[],"response_metadata":{"logprobs":[1],"model_name":"m"},"tool_calls":[],"type":"ai"}`,
		"3": `{"additional_kwargs":{},"content":"","id":"3","invalid_tool_calls":[],"response_metadata":{"model_name":"m"},"tool_calls":[{"args":{"additional_kwargs":{"in":1}},"id":"c","name":"look","type":"tool_call"}],"type":"ai"}`,
		"4": `{"additional_kwargs":{},"content":"seen","id":"4","name":"look","response_metadata":{},"status":"success","tool_call_id":"c","type":"tool"}`,
	}
	seen := 0
	check := func(where string, data any) {
		list, _ := data.(object)["messages"].([]any)
		for _, m := range list {
			seen++
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if id := fmt.Sprint(m.(object)["id"]); string(text) != want[id] {
				t.Errorf("%s: message %s is\n%s\nwant\n%s", where, id, text, want[id])
			}
		}
	}
	event := ""
	for line := range strings.Lines(streamed) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok {
			event = name
		}
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		var data object
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			t.Fatal(err)
		}
		switch {
		case event == "values":
			check(event, data)
		case event == "updates":
			check(event, data["say"])
		case event == "tasks" && data["result"] != nil:
			check(event, data["result"])
		case event == "tasks":
			check(event, data["input"])
		}
	}
	check("the state", call[object](c, "GET", at+"/state", nil)["values"])
	check("the thread", call[object](c, "GET", at, nil)["values"])
	for _, h := range call[[]object](c, "GET", at+"/history", nil) {
		check("history", h["values"])
	}
	check("joined", call[object](c, "GET", at+"/runs/"+call[[]object](c, "GET", at+"/runs", nil)[0]["run_id"].(string)+"/join", nil))
	if want := 2 + 4 + 2 + 2 + 2 + 4 + 4 + (4 + 2) + 4; seen != want { // two values, an update, a task and its result, three states, two moments
		t.Errorf("%d messages were shown, not %d", seen, want)
	}
}
