package server

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// chunkJSON writes a chunk as LangChain's clients add it up: a message whose text
// is what is to be appended.
func chunkJSON(k chat.Chunk) (json.RawMessage, error) {
	var sum chat.Collector
	calls := k.ToolCalls
	k.ToolCalls = nil
	sum.Add(k)
	m := sum.Message()
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	o := objectOf(data)
	if m.Role == chat.RoleAssistant || m.Role == "" {
		o["type"] = jsonText("AIMessageChunk")
	}
	if o["content"] == nil || string(o["content"]) == "[]" || string(o["content"]) == "null" {
		o["content"] = jsonText("")
	}
	if len(calls) > 0 {
		type callChunk struct {
			Index int     `json:"index"`
			ID    *string `json:"id"`
			Name  *string `json:"name"`
			Args  string  `json:"args"`
			Type  string  `json:"type"`
		}
		list := make([]callChunk, len(calls))
		for i, c := range calls {
			list[i] = callChunk{Index: c.Index, Args: c.Args, Type: "tool_call_chunk"}
			if c.ID != "" {
				list[i].ID = &c.ID
			}
			if c.Name != "" {
				list[i].Name = &c.Name
			}
		}
		if o["tool_call_chunks"], err = json.Marshal(list); err != nil {
			return nil, err
		}
	}
	return o.raw(), nil
}

// toolEvent is what clients are told of a call of a tool.
func toolEvent(ev graph.Event) map[string]any {
	switch v := ev.Value.(type) {
	case tool.Started:
		return map[string]any{"event": "on_tool_start", "toolCallId": v.CallID, "name": v.Name, "input": v.Args}
	case tool.Ended:
		out := map[string]any{"event": "on_tool_end", "toolCallId": v.CallID, "name": v.Name}
		if v.Err != nil {
			out["event"], out["error"] = "on_tool_error", v.Err.Error()
		} else {
			out["output"] = v.Result.Text()
		}
		return out
	default:
		kind := "on_tool_start"
		if ev.Type == graph.EventToolResult {
			kind = "on_tool_end"
		}
		return map[string]any{"event": kind, "name": ev.Node, "data": v}
	}
}
