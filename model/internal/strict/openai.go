package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type openaiRequest struct {
	Model               string          `json:"model"`
	Messages            []openaiMessage `json:"messages"`
	Tools               []openaiTool    `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      json.RawMessage `json:"response_format"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MaxTokens           *int            `json:"max_tokens"`
	Stop                []string        `json:"stop"`
	Seed                *int64          `json:"seed"`
	ReasoningEffort     *string         `json:"reasoning_effort"`
	Stream              *bool           `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage       *bool `json:"include_usage"`
		IncludeObfuscation *bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	LogProbs       *bool             `json:"logprobs"`
	TopLogProbs    *int              `json:"top_logprobs"`
	ServiceTier    *string           `json:"service_tier"`
	User           *string           `json:"user"`
	Store          *bool             `json:"store"`
	Metadata       map[string]string `json:"metadata"`
	PromptCacheKey *string           `json:"prompt_cache_key"`
}

type openaiMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       *string         `json:"name"`
	ToolCalls  []openaiCall    `json:"tool_calls"`
	ToolCallID *string         `json:"tool_call_id"`
}

type openaiCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

type openaiTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

type openaiPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *struct {
		URL    string  `json:"url"`
		Detail *string `json:"detail"`
	} `json:"image_url"`
	InputAudio *struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	File *struct {
		ID       *string `json:"file_id"`
		Data     *string `json:"file_data"`
		Filename *string `json:"filename"`
	} `json:"file"`
}

// OpenAI checks a request to OpenAI's chat completions.
func OpenAI(r *http.Request, body []byte) error {
	var q openaiRequest
	if err := decode(body, &q); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions"):
		return fmt.Errorf("%s %s", r.Method, r.URL.Path)
	case r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		return errors.New("the headers")
	case q.Model == "" || len(q.Messages) == 0:
		return errors.New("no model or no messages")
	case len(q.Stop) > 4:
		return errors.New("more than four stops")
	case len(q.Tools) == 0 && (q.ToolChoice != nil || q.ParallelToolCalls != nil || q.Tools != nil):
		return errors.New("tool_choice or parallel_tool_calls without tools")
	case q.StreamOptions != nil && (q.Stream == nil || !*q.Stream):
		return errors.New("stream_options without stream")
	case q.MaxTokens != nil && q.MaxCompletionTokens != nil:
		return errors.New("two limits")
	case q.MaxCompletionTokens != nil && *q.MaxCompletionTokens < 1:
		return errors.New("a limit below one")
	}
	var names []string
	for _, t := range q.Tools {
		if t.Type != "function" || !functionName.MatchString(t.Function.Name) {
			return fmt.Errorf("the tool %+v", t)
		}
		if err := object(t.Function.Parameters); err != nil {
			return err
		}
		names = append(names, t.Function.Name)
	}
	if q.ToolChoice != nil {
		var one struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		word, ok := text(q.ToolChoice)
		switch {
		case ok && slices.Contains([]string{"none", "auto", "required"}, word):
		case !ok && decode(q.ToolChoice, &one) == nil && one.Type == "function" && slices.Contains(names, one.Function.Name):
		default:
			return fmt.Errorf("tool_choice %s", q.ToolChoice)
		}
	}
	if q.ResponseFormat != nil {
		var f struct {
			Type       string `json:"type"`
			JSONSchema struct {
				Name        string          `json:"name"`
				Description *string         `json:"description"`
				Schema      json.RawMessage `json:"schema"`
				Strict      *bool           `json:"strict"`
			} `json:"json_schema"`
		}
		if err := decode(q.ResponseFormat, &f); err != nil {
			return err
		}
		if f.Type != "json_schema" || !functionName.MatchString(f.JSONSchema.Name) || object(f.JSONSchema.Schema) != nil {
			return fmt.Errorf("response_format %s", q.ResponseFormat)
		}
	}
	var open calls
	for i, m := range q.Messages {
		if err := m.check(&open); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return open.closed()
}

func (m openaiMessage) check(open *calls) error {
	if m.Name != nil && !speakerName.MatchString(*m.Name) {
		return fmt.Errorf("the name %q", *m.Name)
	}
	if m.Role != "tool" {
		if err := open.closed(); err != nil {
			return err
		}
		if m.ToolCallID != nil {
			return errors.New("tool_call_id")
		}
	}
	if m.Role != "assistant" && m.ToolCalls != nil {
		return errors.New("tool_calls")
	}
	switch m.Role {
	case "system", "developer":
		return openaiContent(m.Content, "text")
	case "user":
		return openaiContent(m.Content, "text", "image_url", "input_audio", "file")
	case "tool":
		if m.ToolCallID == nil || m.Name != nil {
			return errors.New("a tool's message without tool_call_id, or with a name")
		}
		if err := open.answer(*m.ToolCallID); err != nil {
			return err
		}
		return openaiContent(m.Content, "text")
	case "assistant":
		if m.ToolCalls != nil && len(m.ToolCalls) == 0 {
			return errors.New("empty tool_calls")
		}
		for _, c := range m.ToolCalls {
			if c.Type != "function" || !functionName.MatchString(c.Function.Name) || c.Function.Arguments == nil || len(c.ID) > 40 {
				return fmt.Errorf("the call %+v", c)
			}
			if err := open.add(c.ID); err != nil {
				return err
			}
		}
		if len(m.ToolCalls) > 0 && string(m.Content) == "null" {
			return nil
		}
		return openaiContent(m.Content, "text")
	}
	return fmt.Errorf("the role %q", m.Role)
}

func openaiContent(content json.RawMessage, kinds ...string) error {
	if _, ok := text(content); ok {
		return nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(content, &parts); err != nil || len(parts) == 0 {
		return fmt.Errorf("the content %.80s", content)
	}
	for _, raw := range parts {
		var p openaiPart
		if err := decode(raw, &p); err != nil {
			return err
		}
		if !slices.Contains(kinds, p.Type) {
			return fmt.Errorf("a part of type %q", p.Type)
		}
		has := map[string]bool{"text": p.Text != nil, "image_url": p.ImageURL != nil, "input_audio": p.InputAudio != nil, "file": p.File != nil}
		if err := only(p.Type, p.Type, has); err != nil {
			return err
		}
		switch {
		case p.ImageURL != nil && !strings.HasPrefix(p.ImageURL.URL, "http") && !strings.HasPrefix(p.ImageURL.URL, "data:image/"):
			return fmt.Errorf("the image at %.40q", p.ImageURL.URL)
		case p.InputAudio != nil && (p.InputAudio.Data == "" || !slices.Contains([]string{"wav", "mp3"}, p.InputAudio.Format)):
			return fmt.Errorf("a sound of format %q", p.InputAudio.Format)
		case p.File != nil && (p.File.ID == nil) == (p.File.Data == nil || p.File.Filename == nil):
			return errors.New("a file that has not one of an ID, and data with a name")
		}
	}
	return nil
}
