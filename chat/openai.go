package chat

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// OpenAI is a message that is written in the shape of OpenAI's chat
// completions: {"role": "system", "user", "assistant" or "tool", "content", …},
// as of November 2026. It reads what [Message] reads.
//
// That shape knows no IDs, usage, metadata, artifacts, status of results and
// signatures, citations and parts of a provider's own: they are left out. Reasoning is written as reasoning_content, as
// compatible servers do.
type OpenAI Message

// UnmarshalJSON reads a message.
func (m *OpenAI) UnmarshalJSON(data []byte) error { return (*Message)(m).UnmarshalJSON(data) }

type openAIMessage struct {
	Role       string          `json:"role"`
	Name       string          `json:"name,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  []openAICall    `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

type openAICall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type openAIPart struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text,omitempty"`
	ImageURL *openAIImageURL `json:"image_url,omitempty"`
	Audio    *openAIAudio    `json:"input_audio,omitempty"`
	File     *openAIFile     `json:"file,omitempty"`
}

type openAIImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type openAIAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type openAIFile struct {
	Data string `json:"file_data,omitempty"`
	ID   string `json:"file_id,omitempty"`
	Name string `json:"filename,omitempty"`
}

// MarshalJSON writes the message. A part that the shape has no words for is an
// error.
func (m OpenAI) MarshalJSON() ([]byte, error) {
	o := openAIMessage{Role: string(m.Role), Name: m.Name}
	switch m.Role {
	case RoleSystem, RoleUser, RoleAssistant, RoleTool:
	default:
		return nil, &RoleError{Role: string(m.Role)}
	}
	parts := m.Parts
	if m.Role == RoleTool {
		r, ok := alone[ToolResult](parts)
		if !ok {
			return nil, fmt.Errorf("chat: a message of a tool has %d parts and not one result", len(parts))
		}
		o.Name, o.ToolCallID, parts = "", r.CallID, r.Content
	}
	var content []openAIPart
	plain := true // content is at most one text
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			plain = plain && len(content) == 0
			content = append(content, openAIPart{Type: "text", Text: &p.Text})
			continue
		case Reasoning:
			o.Reasoning += p.Text
			continue
		case Citation, Native:
			continue
		case ToolCall:
			args := p.Args
			if strings.TrimSpace(args) == "" { // readers parse it
				args = "{}"
			}
			o.ToolCalls = append(o.ToolCalls, openAICall{ID: p.ID, Type: "function", Function: wireFunction{Name: p.Name, Arguments: args}})
			continue
		}
		plain = false
		c, err := openAIMedia(p)
		if err != nil {
			return nil, err
		}
		content = append(content, c)
	}
	var err error
	switch {
	case len(content) == 0 && len(o.ToolCalls) > 0: // no content
	case len(content) == 0:
		o.Content = json.RawMessage(`""`)
	case plain:
		o.Content, err = plainjson.Marshal(*content[0].Text)
	default:
		o.Content, err = plainjson.Marshal(content)
	}
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(o)
}

func openAIMedia(p Part) (openAIPart, error) {
	switch p := p.(type) {
	case Image:
		if url := p.Source.url(); url != "" {
			return openAIPart{Type: "image_url", ImageURL: &openAIImageURL{URL: url, Detail: p.Detail}}, nil
		}
		return openAIPart{}, fmt.Errorf("chat: OpenAI's shape takes an image by its data or URL only")
	case Audio:
		format, ok := strings.CutPrefix(p.MIME, "audio/")
		if ok && len(p.Data) > 0 {
			return openAIPart{Type: "input_audio", Audio: &openAIAudio{Data: base64.StdEncoding.EncodeToString(p.Data), Format: format}}, nil
		}
		return openAIPart{}, fmt.Errorf("chat: OpenAI's shape takes audio by its data only, with a type audio/…")
	case File:
		f := &openAIFile{ID: p.FileID, Name: p.Name}
		if f.ID == "" {
			if f.Data = p.Source.url(); !strings.HasPrefix(f.Data, "data:") {
				return openAIPart{}, fmt.Errorf("chat: OpenAI's shape takes a file by its data or ID only")
			}
		}
		return openAIPart{Type: "file", File: f}, nil
	}
	return openAIPart{}, fmt.Errorf("chat: OpenAI's shape has no part for %T here", p)
}

// url returns the source's URL, for data a data URL.
func (s Source) url() string {
	if len(s.Data) > 0 {
		return "data:" + s.MIME + ";base64," + base64.StdEncoding.EncodeToString(s.Data)
	}
	return s.URL
}
