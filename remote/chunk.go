package remote

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/chat"
)

// ChunkOf reads what a server tells of a message, the data of an event of
// [client.ModeMessages]: a piece of one as LangChain's classes write it, or a whole one,
// and where it comes from. Only what models say is a chunk; what can't be read is none,
// for it is not the stream that counts.
func ChunkOf(data json.RawMessage) (chat.Chunk, bool) {
	var pair []json.RawMessage
	var piece struct {
		Type  string `json:"type"`
		Calls []struct {
			Index    int
			ID, Name string
			Args     string
		} `json:"tool_call_chunks"`
	}
	if json.Unmarshal(data, &pair) != nil || len(pair) == 0 {
		return chat.Chunk{}, false
	}
	m, ok := MessageOf(pair[0])
	if !ok || m.Role != chat.RoleAssistant || json.Unmarshal(pair[0], &piece) != nil {
		return chat.Chunk{}, false
	}
	k := chat.ChunkOf(m)
	if piece.Type != "AIMessageChunk" {
		return k, true
	}
	k.Parts = nil
	for _, p := range m.Parts {
		switch p := p.(type) {
		case chat.Text: // to append
			if p.Signature == "" {
				k.Text += p.Text
				continue
			}
		case chat.Reasoning:
			if p.Signature == "" && !p.Redacted {
				k.Reasoning += p.Text
				continue
			}
		case chat.ToolCall:
			if len(piece.Calls) > 0 { // which say the same
				continue
			}
		}
		k.Parts = append(k.Parts, p)
	}
	for _, c := range piece.Calls {
		k.ToolCalls = append(k.ToolCalls, chat.ToolCallChunk{Index: c.Index, ID: c.ID, Name: c.Name, Args: c.Args})
	}
	return k, true
}

// MessageOf reads a message of a server for people to see: blocks of its content that nobody
// here knows are left out, where package chat refuses the whole.
func MessageOf(data json.RawMessage) (m chat.Message, ok bool) {
	if json.Unmarshal(data, &m) == nil {
		return m, true
	}
	var members map[string]json.RawMessage
	var blocks, known []json.RawMessage
	if json.Unmarshal(data, &members) != nil || json.Unmarshal(members["content"], &blocks) != nil {
		return chat.Message{}, false
	}
	with := func(blocks []json.RawMessage) (m chat.Message, err error) {
		members["content"], _ = json.Marshal(blocks) // of JSON
		data, _ := json.Marshal(members)
		return m, json.Unmarshal(data, &m)
	}
	for _, b := range blocks {
		var delta struct{ Type, Text string }
		if json.Unmarshal(b, &delta) == nil && delta.Type == "text_delta" { // as older servers call a text
			b, _ = json.Marshal(map[string]string{"type": "text", "text": delta.Text})
		}
		if _, err := with([]json.RawMessage{b}); err == nil {
			known = append(known, b)
		}
	}
	m, err := with(known)
	return m, err == nil
}
