package otel

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/chat"
)

// The form that the semantic conventions give to messages.
type (
	message struct {
		Role   chat.Role `json:"role"`
		Name   string    `json:"name,omitempty"`
		Parts  []part    `json:"parts"`
		Finish string    `json:"finish_reason,omitempty"`
	}

	part struct {
		Type     string          `json:"type"`
		Content  string          `json:"content,omitempty"`
		ID       string          `json:"id,omitempty"`
		Name     string          `json:"name,omitempty"`
		Args     json.RawMessage `json:"arguments,omitempty"`
		Response *string         `json:"response,omitempty"`
		Modality string          `json:"modality,omitempty"`
		MIME     string          `json:"mime_type,omitempty"`
		URI      string          `json:"uri,omitempty"`
		FileID   string          `json:"file_id,omitempty"`
		Size     int             `json:"size,omitempty"` // of data that is left out
	}

	definition struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
)

func messages(list []chat.Message) string {
	out := make([]message, len(list))
	for i, m := range list {
		out[i] = message{Role: m.Role, Name: m.Name, Parts: make([]part, len(m.Parts)), Finish: string(m.Finish)}
		for k, p := range m.Parts {
			out[i].Parts[k] = partOf(p)
		}
	}
	return encode(out)
}

func definitions(tools []chat.ToolSpec) string {
	out := make([]definition, len(tools))
	for i, t := range tools {
		out[i] = definition{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Schema}
	}
	return encode(out)
}

// encode returns JSON, or what keeps v from being some.
func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil { // a schema that isn't JSON
		return strconv.Quote("not encoded: " + err.Error())
	}
	return string(data)
}

func partOf(p chat.Part) part {
	switch p := p.(type) {
	case chat.Text:
		return part{Type: "text", Content: p.Text}
	case chat.Reasoning:
		return part{Type: "reasoning", Content: p.Text}
	case chat.ToolCall:
		args := json.RawMessage(p.Args)
		if !json.Valid(args) {
			args = json.RawMessage(encode(p.Args))
		}
		return part{Type: "tool_call", ID: p.ID, Name: p.Name, Args: args}
	case chat.ToolResult:
		text := p.Text()
		return part{Type: "tool_call_response", ID: p.CallID, Response: &text}
	case chat.Image:
		return media("image", p.Source)
	case chat.Audio:
		return media("audio", p.Source)
	case chat.File:
		return media("document", p.Source)
	}
	return part{Type: "unknown"}
}

func media(kind string, s chat.Source) part {
	p := part{Type: "blob", Modality: kind, MIME: s.MIME}
	switch {
	case s.FileID != "":
		p.Type, p.FileID = "file", s.FileID
	case strings.HasPrefix(s.URL, "data:"):
		p.Size = len(s.URL)
	case s.URL != "":
		p.Type, p.URI = "uri", s.URL
	default:
		p.Size = len(s.Data)
	}
	return p
}
