package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// wire is a request as the API takes it.
type wire struct {
	Model         string               `json:"model"`
	MaxTokens     int                  `json:"max_tokens"`
	System        []block              `json:"system,omitempty"`
	Messages      []vendor.Turn[block] `json:"messages"`
	Tools         []wireTool           `json:"tools,omitempty"`
	ToolChoice    *toolChoice          `json:"tool_choice,omitempty"`
	OutputConfig  *outputConfig        `json:"output_config,omitempty"`
	Thinking      *thinking            `json:"thinking,omitempty"`
	Temperature   *float64             `json:"temperature,omitempty"`
	TopP          *float64             `json:"top_p,omitempty"`
	TopK          *int                 `json:"top_k,omitempty"`
	StopSequences []string             `json:"stop_sequences,omitempty"`
	Stream        bool                 `json:"stream,omitempty"`
}

// block is a piece of content of any type.
type block struct {
	Type string `json:"type"`

	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"` // of thinking
	Data      string          `json:"data,omitempty"`      // of redacted_thinking
	Source    *source         `json:"source,omitempty"`    // of an image or a document
	Title     string          `json:"title,omitempty"`     // of a document
	ID        string          `json:"id,omitempty"`        // of tool_use
	Name      string          `json:"name,omitempty"`      // of tool_use
	Input     json.RawMessage `json:"input,omitempty"`     // of tool_use
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []block         `json:"content,omitempty"`  // of tool_result
	IsError   bool            `json:"is_error,omitempty"` // of tool_result

	Citations []json.RawMessage `json:"citations,omitempty"` // of text

	Cache *cacheControl `json:"cache_control,omitempty"`

	whole json.RawMessage // as it came, if it is set
}

// MarshalJSON writes the block.
func (b block) MarshalJSON() ([]byte, error) {
	if b.whole != nil {
		return b.whole, nil
	}
	type plain block
	return plainjson.Marshal(plain(b))
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      any    `json:"data,omitempty"` // bytes, in base64, or a text
	URL       string `json:"url,omitempty"`
	FileID    string `json:"file_id,omitempty"`
}

type wireTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
	Cache       *cacheControl   `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type   string `json:"type"`
	Name   string `json:"name,omitempty"`
	Serial *bool  `json:"disable_parallel_tool_use,omitempty"`
}

type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

// outputFormat has the schema as it is: a decoded one would lose the order of its
// properties, in which the model writes them.
type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// call returns the call for a request, and how many tokens the answer may have.
func (m *Model) call(req *model.Request, streaming bool) (_ vendor.Call, tokens int, err error) {
	var none vendor.Call
	if m.err != nil {
		e := *m.err
		return none, 0, &e
	}
	c := m.defaults.With(req.Config)
	w := wire{Stream: streaming}
	if err := configure(&w, c, m.name); err != nil {
		return none, 0, err
	}
	if err := tools(&w, req, c.ParallelTools); err != nil {
		return none, 0, err
	}
	if req.Output != nil {
		schema, err := vendor.OutputSchema(*req.Output)
		if err != nil {
			return none, 0, invalid("%w", err)
		}
		if w.OutputConfig == nil {
			w.OutputConfig = &outputConfig{}
		}
		w.OutputConfig.Format = &outputFormat{"json_schema", schema}
	}
	after, points, err := vendor.CachePointsOf(provider, req)
	if err != nil {
		return none, 0, err
	}
	if after != nil {
		w.Tools[len(w.Tools)-1].Cache = controlOf(after)
	}
	t := vendor.Turns[block]{
		Provider: provider, Able: vendor.AbleOf(m.table, w.Model),
		Text: textBlock, Empty: vendor.Blank, Media: media, Said: assistant, Mark: mark,
	}
	t.Tool = func(_ chat.Message, r chat.ToolResult) ([]block, error) {
		content, err := t.Pieces(r.Content, vendor.OfTool, true)
		return []block{{Type: "tool_result", ToolUseID: callID(r.CallID), IsError: r.IsError, Content: content}}, err
	}
	if err := t.Add(req.Messages, points); err != nil {
		return none, 0, err
	}
	w.System, w.Messages = t.System, t.Turns
	if _, ok := c.Extra["stream"]; ok {
		return none, 0, invalid(`Extra["stream"] is not allowed: use Generate or Stream`)
	}
	body, err := vendor.Body(provider, w, c.Extra, given)
	return vendor.Call{Path: "v1/messages", Header: c.Headers, Body: body, Stream: streaming}, w.MaxTokens, err
}

// given says what gives the fields of a request.
var given = map[string]string{
	"model": "Config.Model", "max_tokens": "Config.MaxTokens", "messages": "Request.Messages",
	"system": "Request.Messages", "tools": "Request.Tools", "tool_choice": "Request.ToolChoice",
	"output_config.format": "Request.Output", "output_config.effort": "Config.Reasoning",
	"thinking.type": "Config.Reasoning", "thinking.budget_tokens": "Config.ReasoningTokens",
	"temperature": "Config.Temperature", "top_p": "Config.TopP", "top_k": "Config.TopK", "stop_sequences": "Config.Stop",
}

func configure(w *wire, c model.Config, name string) error {
	switch {
	case c.FrequencyPenalty != nil:
		return invalid("FrequencyPenalty is not supported")
	case c.PresencePenalty != nil:
		return invalid("PresencePenalty is not supported")
	case c.Seed != nil:
		return invalid("Seed is not supported")
	case c.MaxTokens < 0:
		return invalid("MaxTokens is %d", c.MaxTokens)
	case c.ReasoningTokens < 0:
		return invalid("ReasoningTokens is %d", c.ReasoningTokens)
	case c.Reasoning == "none" && c.ReasoningTokens > 0:
		return invalid(`Reasoning is "none" and ReasoningTokens is %d`, c.ReasoningTokens)
	}
	w.Model = name
	if c.Model != "" {
		w.Model = c.Model
	}
	if w.Model == "" {
		return invalid("no model is named")
	}
	w.MaxTokens = c.MaxTokens
	if c.MaxTokens == 0 {
		w.MaxTokens = DefaultMaxTokens + c.ReasoningTokens
	}
	w.Temperature, w.TopP, w.TopK, w.StopSequences = c.Temperature, c.TopP, c.TopK, c.Stop

	efforts := []string{"low", "medium", "high", "xhigh", "max"}
	switch {
	case c.Reasoning == "":
	case c.Reasoning == "none":
		w.Thinking = &thinking{Type: "disabled"}
	case slices.Contains(efforts, c.Reasoning):
		w.OutputConfig = &outputConfig{Effort: c.Reasoning}
		w.Thinking = &thinking{Type: "adaptive"}
	default:
		return invalid("Reasoning %q is not supported: it is none or one of %s", c.Reasoning, strings.Join(efforts, ", "))
	}
	if c.ReasoningTokens > 0 {
		w.Thinking = &thinking{Type: "enabled", Budget: c.ReasoningTokens}
	}
	return nil
}

func tools(w *wire, req *model.Request, parallel *bool) error {
	if err := vendor.CheckTools(provider, req); err != nil || len(req.Tools) == 0 {
		return err // there is nothing to choose from
	}
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, wireTool{Name: t.Name, Description: t.Description, InputSchema: vendor.SchemaOf(t), Strict: t.Strict})
	}
	var serial *bool
	if parallel != nil {
		serial = new(!*parallel)
	}
	switch choice := req.ToolChoice; choice {
	case model.ToolAuto:
		if parallel != nil {
			w.ToolChoice = &toolChoice{Type: "auto", Serial: serial}
		}
	case model.ToolNone:
		w.ToolChoice = &toolChoice{Type: "none"}
	case model.ToolRequired:
		w.ToolChoice = &toolChoice{Type: "any", Serial: serial}
	default:
		w.ToolChoice = &toolChoice{Type: "tool", Name: string(choice), Serial: serial}
	}
	return nil
}

func textBlock(text string) block { return block{Type: "text", Text: &text} }

// media maps what may stand in what the user says or a tool returned.
func media(part chat.Part, where string) (block, error) {
	switch part := part.(type) {
	case chat.Image:
		return image(part)
	case chat.File:
		return document(part)
	}
	return block{}, vendor.Misplaced(part, where)
}

func assistant(m chat.Message) (blocks []block, err error) {
	said := false // the last block is the text before
	for _, part := range m.Parts {
		var b block
		cites, ok := part.(chat.Citation)
		if ok && said && cites.Provider == provider && json.Valid([]byte(cites.Data)) {
			last := &blocks[len(blocks)-1]
			last.Citations = append(last.Citations, json.RawMessage(cites.Data))
		}
		if ok {
			continue
		}
		said = false
		switch part := part.(type) {
		case chat.Text:
			if vendor.Blank(part.Text) {
				continue
			}
			b, said = textBlock(part.Text), true
		case chat.Native:
			if part.Provider != provider || !vendor.IsObject(json.RawMessage(part.Data)) {
				continue
			}
			b.whole = json.RawMessage(part.Data)
		case chat.Reasoning:
			// Only what Anthropic signed is accepted back.
			if part.Signature == "" || part.ID != "" || strings.Contains(m.Model, "gemini") {
				continue
			}
			if part.Redacted {
				b = block{Type: "redacted_thinking", Data: part.Signature}
			} else {
				b = block{Type: "thinking", Thinking: &part.Text, Signature: part.Signature}
			}
		case chat.ToolCall:
			args, err := vendor.Arguments(part)
			if err != nil {
				return nil, err
			}
			b = block{Type: "tool_use", ID: callID(part.ID), Name: part.Name, Input: args}
		case chat.Image, chat.Audio, chat.File: // of another provider's model that makes some
			b = textBlock(vendor.Told(part, vendor.Misplaced(part, vendor.OfAssistant)))
		default:
			return nil, vendor.Misplaced(part, vendor.OfAssistant)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// callID is the ID of a tool call, or one that follows from it and has the form that
// the API wants: other providers have other forms.
func callID(id string) string {
	return vendor.CallID(id, func(id string) bool {
		return !strings.ContainsFunc(id, func(r rune) bool {
			return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
	})
}

func image(i chat.Image) (block, error) {
	s, err := vendor.Resolve(i.Source)
	if err != nil {
		return block{}, fmt.Errorf("image: %w", err)
	}
	b := block{Type: "image"}
	switch {
	case s.FileID != "":
		b.Source = &source{Type: "file", FileID: s.FileID}
	case s.URL != "":
		b.Source = &source{Type: "url", URL: s.URL}
	case slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, s.MIME):
		b.Source = &source{Type: "base64", MediaType: s.MIME, Data: s.Data}
	default:
		return b, fmt.Errorf("image: media type %q is not supported", s.MIME)
	}
	return b, nil
}

func document(f chat.File) (block, error) {
	s, err := vendor.Resolve(f.Source)
	if err != nil {
		return block{}, fmt.Errorf("file %q: %w", f.Name, err)
	}
	b := block{Type: "document", Title: f.Name}
	switch {
	case s.FileID != "":
		b.Source = &source{Type: "file", FileID: s.FileID}
	case s.URL != "" && (s.MIME == "" || s.MIME == "application/pdf"):
		b.Source = &source{Type: "url", URL: s.URL}
	case s.URL != "":
		return b, fmt.Errorf("file %q: media type %q is not supported by URL: only PDF is", f.Name, s.MIME)
	case s.MIME == "application/pdf":
		b.Source = &source{Type: "base64", MediaType: s.MIME, Data: s.Data}
	case strings.HasPrefix(s.MIME, "text/") && utf8.Valid(s.Data):
		b.Source = &source{Type: "text", MediaType: "text/plain", Data: string(s.Data)}
	case strings.HasPrefix(s.MIME, "text/"):
		return b, fmt.Errorf("file %q: the text is not UTF-8", f.Name)
	default:
		return b, fmt.Errorf("file %q: media type %q is not supported", f.Name, s.MIME)
	}
	return b, nil
}
