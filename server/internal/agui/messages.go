package agui

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
)

// message is one of a conversation as clients have it.
type message struct {
	ID         string     `json:"id"`
	Role       string     `json:"role"`
	Name       string     `json:"name,omitempty"`
	Content    any        `json:"content,omitempty"` // a text or a list of part
	ToolCalls  []toolCall `json:"toolCalls,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`
	Error      string     `json:"error,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
}

type part struct {
	Type   string  `json:"type"`
	Text   *string `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
}

type source struct {
	Type  string `json:"type"` // data, url or file
	Value string `json:"value"`
	MIME  string `json:"mimeType,omitempty"`
}

// read reads a message of a client's; nil for those that are only for people to see.
func read(raw json.RawMessage) (*chat.Message, error) {
	var content json.RawMessage
	m := message{Content: &content}
	if json.Unmarshal(raw, &m) != nil {
		return nil, errors.New("it is not a message as AG-UI describes it")
	}
	if m.Role == "activity" || m.Role == "reasoning" {
		return nil, nil
	}
	if m.ID == "" || len(m.ID) > 1000 {
		return nil, errors.New("a message must have an ID of at most 1000 bytes")
	}
	parts, err := partsOf(content)
	if err != nil {
		return nil, err
	}
	out := &chat.Message{ID: m.ID, Name: m.Name, Parts: parts}
	switch m.Role {
	case "user":
		out.Role = chat.RoleUser
	case "system", "developer":
		out.Role = chat.RoleSystem
	case "assistant":
		out.Role = chat.RoleAssistant
		for _, c := range m.ToolCalls {
			out.Parts = append(out.Parts, chat.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args})
		}
	case "tool":
		if m.ToolCallID == "" {
			return nil, errors.New("a message of a tool must have a toolCallId")
		}
		out.Role = chat.RoleTool
		if m.Error != "" && len(parts) == 0 {
			parts = []chat.Part{chat.Text{Text: m.Error}}
		}
		out.Parts = []chat.Part{chat.ToolResult{CallID: m.ToolCallID, Name: m.Name, Content: parts, IsError: m.Error != ""}}
	default:
		return nil, fmt.Errorf("there is no role %.80q: there are user, assistant, tool, system and developer", m.Role)
	}
	return out, nil
}

func partsOf(raw json.RawMessage) ([]chat.Part, error) {
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []chat.Part{chat.Text{Text: text}}, nil
	}
	var list []part
	if json.Unmarshal(raw, &list) != nil {
		return nil, errors.New("content must be a text, or a list of parts")
	}
	var out []chat.Part
	for _, p := range list {
		if p.Type == "text" && p.Text != nil {
			out = append(out, chat.Text{Text: *p.Text})
			continue
		}
		if p.Source == nil {
			return nil, fmt.Errorf("a part of the type %.80q must have a source", p.Type)
		}
		from := chat.Source{MIME: p.Source.MIME}
		switch p.Source.Type {
		case "data":
			data, err := base64.StdEncoding.DecodeString(p.Source.Value)
			if err != nil || from.MIME == "" {
				return nil, errors.New("data must be base64, with a mimeType")
			}
			from.Data = data
		case "url":
			from.URL = p.Source.Value
		case "file":
			from.FileID = p.Source.Value
		default:
			return nil, fmt.Errorf("there is no source of the type %.80q: there are data, url and file", p.Source.Type)
		}
		switch p.Type {
		case "image":
			out = append(out, chat.Image{Source: from})
		case "audio":
			out = append(out, chat.Audio{Source: from})
		case "document":
			out = append(out, chat.File{Source: from})
		default:
			return nil, fmt.Errorf("parts of the type %.80q can't be read: there are text, image, audio and document", p.Type)
		}
	}
	return out, nil
}

// shown returns a message as clients have it.
func shown(m chat.Message) message {
	out := message{ID: m.ID, Role: string(m.Role), Name: m.Name, Content: contentOf(m.Parts)}
	for _, c := range m.ToolCalls() {
		one := toolCall{ID: c.ID, Type: "function"}
		one.Function.Name, one.Function.Args = c.Name, c.Args
		out.ToolCalls = append(out.ToolCalls, one)
	}
	if r, ok := m.ToolResult(); ok {
		out.ToolCallID, out.Name, out.Content = r.CallID, "", contentOf(r.Content)
		if r.IsError {
			out.Error = r.Text()
		}
	}
	return out
}

// contentOf is a text, or a list of parts if there is more to it.
func contentOf(parts []chat.Part) any {
	text, list, rich := "", []part{}, false
	media := func(kind string, s chat.Source) {
		rich = true
		from := source{"url", s.URL, s.MIME}
		if s.FileID != "" {
			from = source{"file", s.FileID, s.MIME}
		} else if s.Data != nil {
			from = source{"data", base64.StdEncoding.EncodeToString(s.Data), s.MIME}
		}
		list = append(list, part{Type: kind, Source: &from})
	}
	for _, p := range parts {
		switch p := p.(type) {
		case chat.Text:
			text += p.Text
			list = append(list, part{Type: "text", Text: &p.Text})
		case chat.Image:
			media("image", p.Source)
		case chat.Audio:
			media("audio", p.Source)
		case chat.File:
			media("document", p.Source)
		}
	}
	if rich {
		return list
	}
	return text
}
