package strict

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type anthropicRequest struct {
	Model         string             `json:"model"`
	MaxTokens     *int               `json:"max_tokens"`
	System        []json.RawMessage  `json:"system"`
	Messages      []anthropicMessage `json:"messages"`
	Tools         []json.RawMessage  `json:"tools"`
	ToolChoice    *anthropicChoice   `json:"tool_choice"`
	OutputConfig  *anthropicOutput   `json:"output_config"`
	Thinking      *anthropicThinking `json:"thinking"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	TopK          *int               `json:"top_k"`
	StopSequences []string           `json:"stop_sequences"`
	Stream        *bool              `json:"stream"`
	ServiceTier   *string            `json:"service_tier"`
	Metadata      *struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
}

type anthropicMessage struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

type anthropicChoice struct {
	Type   string  `json:"type"`
	Name   *string `json:"name"`
	Serial *bool   `json:"disable_parallel_tool_use"`
}

type anthropicOutput struct {
	Effort *string `json:"effort"`
	Format *struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

type anthropicThinking struct {
	Type    string  `json:"type"`
	Budget  *int    `json:"budget_tokens"`
	Display *string `json:"display"`
}

type cacheControl struct {
	Type string  `json:"type"`
	TTL  *string `json:"ttl"`
}

type anthropicBlock struct {
	Type         string           `json:"type"`
	Text         *string          `json:"text"`
	Citations    json.RawMessage  `json:"citations"`
	Source       *anthropicSource `json:"source"`
	Title        *string          `json:"title"`
	Context      *string          `json:"context"`
	Thinking     *string          `json:"thinking"`
	Signature    *string          `json:"signature"`
	Data         *string          `json:"data"`
	ID           *string          `json:"id"`
	Name         *string          `json:"name"`
	Input        json.RawMessage  `json:"input"`
	ToolUseID    *string          `json:"tool_use_id"`
	Content      json.RawMessage  `json:"content"`
	IsError      *bool            `json:"is_error"`
	CacheControl *cacheControl    `json:"cache_control"`
}

type anthropicSource struct {
	Type      string  `json:"type"`
	MediaType *string `json:"media_type"`
	Data      *string `json:"data"`
	URL       *string `json:"url"`
	FileID    *string `json:"file_id"`
}

// The fields of blocks, those with a question mark at will.
var anthropicBlocks = map[string]string{
	"text":                   "text citations? cache_control?",
	"image":                  "source cache_control?",
	"document":               "source title? context? citations? cache_control?",
	"tool_use":               "id name input cache_control?",
	"tool_result":            "tool_use_id content? is_error? cache_control?",
	"thinking":               "thinking signature",
	"redacted_thinking":      "data",
	"server_tool_use":        "id name input cache_control?",
	"web_search_tool_result": "tool_use_id content cache_control?",
}

// Anthropic checks a request to Anthropic's messages.
func Anthropic(r *http.Request, body []byte) error {
	var q anthropicRequest
	if err := decode(body, &q); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages"):
		return fmt.Errorf("%s %s", r.Method, r.URL.Path)
	case r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Api-Key") == "" || r.Header.Get("Anthropic-Version") != "2023-06-01":
		return errors.New("the headers")
	case q.Model == "" || q.MaxTokens == nil || *q.MaxTokens < 1:
		return errors.New("no model or no max_tokens")
	case q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 1):
		return errors.New("the temperature")
	}
	if err := q.Thinking.check(q); err != nil {
		return err
	}
	cached, err := anthropicTools(q) // the points of the cache, in the order in which the API reads
	if err != nil {
		return err
	}
	if o := q.OutputConfig; o != nil {
		if o.Effort != nil && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, *o.Effort) {
			return fmt.Errorf("the effort %q", *o.Effort)
		}
		if o.Format != nil && (o.Format.Type != "json_schema" || object(o.Format.Schema) != nil) {
			return errors.New("the format")
		}
	}
	for _, raw := range q.System {
		b, err := anthropicBlockOf(raw, "text")
		if err != nil {
			return fmt.Errorf("system: %w", err)
		}
		cached = append(cached, b.CacheControl)
	}
	if len(q.Messages) == 0 || q.Messages[0].Role != "user" {
		return errors.New("the first message is not the user's")
	}
	var open calls
	for i, m := range q.Messages {
		if i > 0 && m.Role == q.Messages[i-1].Role {
			return fmt.Errorf("messages %d and %d are of one role", i-1, i)
		}
		n, err := m.check(&open)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		cached = append(cached, n...)
	}
	if err := checkCache(cached); err != nil {
		return err
	}
	return open.closed()
}

func (t *anthropicThinking) check(q anthropicRequest) error {
	if t == nil {
		return nil
	}
	switch t.Type {
	case "disabled", "adaptive":
		if t.Budget != nil {
			return errors.New("a budget of thinking that has none")
		}
	case "enabled":
		if t.Budget == nil || *t.Budget < 1024 || *t.Budget >= *q.MaxTokens {
			return errors.New("the budget of thinking")
		}
	default:
		return fmt.Errorf("thinking %q", t.Type)
	}
	if t.Type != "disabled" && (q.Temperature != nil && *q.Temperature != 1 || q.TopK != nil || q.ToolChoice != nil && (q.ToolChoice.Type == "any" || q.ToolChoice.Type == "tool")) {
		return errors.New("thinking with a temperature, top_k or a forced tool")
	}
	return nil
}

// checkCache checks the points of the cache, those that are none left out.
func checkCache(points []*cacheControl) error {
	points = slices.DeleteFunc(points, func(c *cacheControl) bool { return c == nil })
	if len(points) > 4 {
		return fmt.Errorf("%d breakpoints of the cache", len(points))
	}
	short := false
	for _, c := range points {
		switch {
		case c.Type != "ephemeral" || c.TTL != nil && *c.TTL != "5m" && *c.TTL != "1h":
			return fmt.Errorf("cache_control %+v", *c)
		case c.TTL == nil || *c.TTL == "5m":
			short = true
		case short:
			return errors.New("a breakpoint of an hour after one of five minutes")
		}
	}
	return nil
}

func anthropicTools(q anthropicRequest) (cached []*cacheControl, err error) {
	var names []string
	for _, raw := range q.Tools {
		var kind struct{ Type string }
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, err
		}
		if kind.Type != "" && kind.Type != "custom" {
			continue // one that the server runs
		}
		var t struct {
			Type         *string         `json:"type"`
			Name         string          `json:"name"`
			Description  *string         `json:"description"`
			InputSchema  json.RawMessage `json:"input_schema"`
			Strict       *bool           `json:"strict"`
			CacheControl *cacheControl   `json:"cache_control"`
		}
		if err := decode(raw, &t); err != nil {
			return nil, err
		}
		var schema struct{ Type string }
		if !functionName.MatchString(t.Name) || json.Unmarshal(t.InputSchema, &schema) != nil || schema.Type != "object" {
			return nil, fmt.Errorf("the tool %s", raw)
		}
		names = append(names, t.Name)
		cached = append(cached, t.CacheControl)
	}
	c := q.ToolChoice
	switch {
	case c == nil:
		return cached, nil
	case len(q.Tools) == 0:
		return nil, errors.New("tool_choice without tools")
	case c.Type == "tool" && c.Name != nil && slices.Contains(names, *c.Name):
	case c.Type == "none" && c.Name == nil && c.Serial == nil:
	case (c.Type == "auto" || c.Type == "any") && c.Name == nil:
	default:
		return nil, fmt.Errorf("tool_choice %+v", *c)
	}
	return cached, nil
}

var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func anthropicBlockOf(raw json.RawMessage, kinds ...string) (b anthropicBlock, err error) {
	if err := decode(raw, &b); err != nil {
		return b, err
	}
	if !slices.Contains(kinds, b.Type) {
		return b, fmt.Errorf("a block of type %q", b.Type)
	}
	err = only(b.Type, anthropicBlocks[b.Type], map[string]bool{
		"text": b.Text != nil, "citations": b.Citations != nil, "source": b.Source != nil, "title": b.Title != nil, "context": b.Context != nil,
		"thinking": b.Thinking != nil, "signature": b.Signature != nil, "data": b.Data != nil, "id": b.ID != nil, "name": b.Name != nil,
		"input": b.Input != nil, "tool_use_id": b.ToolUseID != nil, "content": b.Content != nil, "is_error": b.IsError != nil, "cache_control": b.CacheControl != nil,
	})
	switch {
	case err != nil:
	case b.Text != nil && strings.TrimSpace(*b.Text) == "":
		err = errors.New("a text of white space")
	case b.Source != nil:
		err = b.Source.check(b.Type)
	case b.Type == "tool_use" && (!anthropicID.MatchString(*b.ID) || !functionName.MatchString(*b.Name) || object(b.Input) != nil):
		err = fmt.Errorf("the call %s", raw)
	}
	return b, err
}

func (s *anthropicSource) check(of string) error {
	fields := map[string]string{"base64": "media_type data", "url": "url", "file": "file_id", "text": "media_type data"}[s.Type]
	if fields == "" {
		return fmt.Errorf("a source of type %q", s.Type)
	}
	if err := only(s.Type, fields, map[string]bool{"media_type": s.MediaType != nil, "data": s.Data != nil, "url": s.URL != nil, "file_id": s.FileID != nil}); err != nil {
		return err
	}
	if s.Type == "base64" {
		if _, err := base64.StdEncoding.DecodeString(*s.Data); err != nil {
			return err
		}
	}
	if s.MediaType != nil && !slices.Contains(map[string][]string{
		"image base64": {"image/jpeg", "image/png", "image/gif", "image/webp"}, "document base64": {"application/pdf"}, "document text": {"text/plain"},
	}[of+" "+s.Type], *s.MediaType) {
		return fmt.Errorf("a %s by %s of type %q", of, s.Type, *s.MediaType)
	}
	return nil
}

// check returns what the blocks say of the cache.
func (m anthropicMessage) check(open *calls) (cached []*cacheControl, err error) {
	kinds := map[string][]string{
		"user":      {"text", "image", "document", "tool_result"},
		"assistant": {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result"},
	}[m.Role]
	if kinds == nil || len(m.Content) == 0 {
		return nil, fmt.Errorf("the role %q with %d blocks", m.Role, len(m.Content))
	}
	results := true
	for _, raw := range m.Content {
		b, err := anthropicBlockOf(raw, kinds...)
		if err != nil {
			return nil, err
		}
		cached = append(cached, b.CacheControl)
		switch b.Type {
		case "tool_use":
			err = open.add(*b.ID)
		case "tool_result":
			if !results {
				return nil, errors.New("a result after something else")
			}
			if err = open.answer(*b.ToolUseID); err != nil || b.Content == nil {
				break
			}
			var inner []json.RawMessage
			if err = json.Unmarshal(b.Content, &inner); err != nil {
				break
			}
			for _, raw := range inner {
				if _, err := anthropicBlockOf(raw, "text", "image", "document"); err != nil {
					return nil, err
				}
			}
		default:
			results = false
		}
		if err != nil {
			return nil, err
		}
	}
	if m.Role == "user" {
		err = open.closed()
	}
	return cached, err
}
