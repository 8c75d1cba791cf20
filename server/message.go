package server

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// wholeMessages returns a state, an output or an update with its messages as LangChain's classes
// write them: with members that say nothing there, and that its clients read without
// looking.
func wholeMessages(data json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil || !bytes.Contains(data, []byte(`{"type":"`)) {
		return data, err
	}
	fields, changed := objectOf(data), false
	for name, value := range fields {
		var list []json.RawMessage
		if !bytes.HasPrefix(value, []byte(`[{"type":"`)) || json.Unmarshal(value, &list) != nil {
			continue
		}
		n := len(value)
		for i, one := range list {
			if list[i] = wholeMessage(one); len(list[i]) != len(one) {
				n, changed = n+len(list[i])-len(one), true
			}
		}
		out := append(make(json.RawMessage, 0, n), '[')
		for i, one := range list {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, one...)
		}
		fields[name] = append(out, ']')
	}
	if !changed {
		return data, nil
	}
	return fields.raw(), nil
}

// wholeMessage is [wholeMessages] for a message as [chat.Message] writes it. What isn't one stays as
// it is.
func wholeMessage(raw json.RawMessage) json.RawMessage {
	kind := ""
	for _, k := range []string{"human", "ai", "system", "tool"} {
		if bytes.HasPrefix(raw, []byte(`{"type":"`+k+`",`)) {
			kind = k
		}
	}
	if kind == "" || !bytes.Contains(raw, []byte(`"content":`)) {
		return raw
	}
	out := slices.Clone(raw[:len(raw)-1])
	var all object // the members, if it takes a closer look to know them
	add := func(name, value string) {
		member := []byte(`,"` + name + `":`)
		if bytes.Contains(raw, member) {
			if all == nil {
				all = objectOf(raw)
			}
			if all[name] != nil {
				return
			}
		}
		out = append(append(out, member...), value...)
	}
	add("additional_kwargs", "{}")
	add("response_metadata", "{}")
	switch kind {
	case "ai":
		add("tool_calls", "[]")
		add("invalid_tool_calls", "[]")
	case "tool":
		add("status", `"success"`)
	}
	return append(out, '}')
}

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
	for name, value := range map[string]string{"additional_kwargs": "{}", "response_metadata": "{}", "tool_calls": "[]", "invalid_tool_calls": "[]"} {
		if o[name] == nil {
			o[name] = json.RawMessage(value)
		}
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

// toolMessage is what a tool returned, as the message that its caller makes of it.
func toolMessage(e tool.Ended) json.RawMessage {
	r := chat.ToolResult{CallID: e.CallID, Name: e.Name, Content: e.Result.Content, Artifact: e.Result.Artifact}
	data, err := json.Marshal(chat.Message{Role: chat.RoleTool, Name: e.Name, Parts: []chat.Part{r}})
	if err != nil { // which the conversation will fail with
		return jsonText(e.Result.Text())
	}
	return wholeMessage(data)
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
