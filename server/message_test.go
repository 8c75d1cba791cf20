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
		store, err := graph.Deps[memory.Store](ctx)
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
