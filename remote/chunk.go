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
	var m chat.Message
	var piece struct {
		Type  string `json:"type"`
		Calls []struct {
			Index    int
			ID, Name string
			Args     string
		} `json:"tool_call_chunks"`
	}
	if json.Unmarshal(data, &pair) != nil || len(pair) == 0 ||
		json.Unmarshal(pair[0], &m) != nil || json.Unmarshal(pair[0], &piece) != nil || m.Role != chat.RoleAssistant {
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
