package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/server"
)

func TestTheModeEventsTellsOfChainsModelsAndTools(t *testing.T) {
	c := start(t, server.Graph(answering(t)), server.Graph(boom(t)), quiet())
	stream := func(assistant string, input any) (list []object, raw string) {
		_, _, body := c.do("POST", "/runs/stream", object{"assistant_id": assistant, "input": input, "stream_mode": "events"})
		event := ""
		for line := range strings.SplitSeq(body, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				event = name
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && event == "events" {
				var o object
				if err := json.Unmarshal([]byte(data), &o); err != nil {
					t.Fatal(err)
				}
				list = append(list, o)
			}
		}
		return list, body
	}
	list, _ := stream("agent", object{"messages": []object{{"type": "human", "content": "What is 6 times 7?"}}})
	open, counts := map[any]string{}, map[string]int{}
	for i, e := range list {
		kind := e["event"].(string)
		counts[kind]++
		id, name := e["run_id"], fmt.Sprint(e["name"])
		if _, ok := e["metadata"].(object)["thread_id"]; !ok || name == "" || e["tags"] == nil {
			t.Errorf("event %d has too little: %v", i, e)
		}
		for _, parent := range e["parent_ids"].([]any) {
			if open[parent] == "" {
				t.Errorf("event %d, %s of %s, is inside of what doesn't run: %v", i, kind, name, parent)
			}
		}
		switch {
		case strings.HasSuffix(kind, "_start"):
			open[id] = name
		case open[id] == "" || open[id] != name && kind != "on_chat_model_end":
			t.Errorf("event %d, %s, is of %s, which didn't begin: %q", i, kind, name, open[id])
		case strings.HasSuffix(kind, "_end"):
			delete(open, id)
		}
	}
	if len(open) > 0 {
		t.Errorf("never ended: %v", open)
	}
	for kind, want := range map[string]int{"on_chain_start": 4, "on_chain_end": 4, "on_chat_model_start": 2, "on_chat_model_end": 2, "on_tool_start": 1, "on_tool_end": 1} {
		if counts[kind] != want {
			t.Errorf("%d times %s, want %d; all are %v", counts[kind], kind, want, counts)
		}
	}
	if counts["on_chat_model_stream"] == 0 {
		t.Error("no model speaks")
	}
	said := ""
	for _, e := range list {
		if e["event"] == "on_chat_model_stream" {
			said += fmt.Sprint(e["data"].(object)["chunk"].(object)["content"])
		}
	}
	if said != "The answer is 42." {
		t.Errorf("the models said %q", said)
	}
	end := list[len(list)-1]
	if n := len(end["data"].(object)["output"].(object)["messages"].([]any)); end["event"] != "on_chain_end" || n != 4 {
		t.Errorf("the end is %v", end)
	}
	list, raw := stream("boom", object{})
	if slices.ContainsFunc(list, func(e object) bool { return e["event"] == "on_chain_end" }) || !strings.Contains(raw, "event: error") {
		t.Errorf("a failure: %s", raw)
	}
	status, _, text := c.do("POST", "/runs/stream", object{"assistant_id": "agent", "input": object{}, "stream_mode": "all"})
	if status != 422 || !strings.Contains(text, "checkpoints, custom, debug, events") {
		t.Errorf("a mode that there isn't: %d %s", status, text)
	}
}
