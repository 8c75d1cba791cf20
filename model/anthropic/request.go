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
	Model         string        `json:"model"`
	MaxTokens     int           `json:"max_tokens"`
	System        []block       `json:"system,omitempty"`
	Messages      []turn        `json:"messages"`
	Tools         []wireTool    `json:"tools,omitempty"`
	ToolChoice    *toolChoice   `json:"tool_choice,omitempty"`
	OutputConfig  *outputConfig `json:"output_config,omitempty"`
	Thinking      *thinking     `json:"thinking,omitempty"`
	Temperature   *float64      `json:"temperature,omitempty"`
	TopP          *float64      `json:"top_p,omitempty"`
	TopK          *int          `json:"top_k,omitempty"`
	StopSequences []string      `json:"stop_sequences,omitempty"`
	Stream        bool          `json:"stream,omitempty"`
}

// turn is a message of the API: what one side says until the other does.
type turn struct {
	Role    chat.Role `json:"role"`
	Content []block   `json:"content"`
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
	if err := messages(&w, req.Messages, points, vendor.AbleOf(m.table, w.Model)); err != nil {
		return none, 0, err
	}
	body, err := plainjson.Marshal(w)
	if err != nil {
		return none, 0, invalid("the request has no JSON: %w", err)
	}
	if _, ok := c.Extra["stream"]; ok {
		return none, 0, invalid(`Extra["stream"] is not allowed: use Generate or Stream`)
	}
	if body, err = vendor.Extend(body, c.Extra, given); err != nil {
		return none, 0, invalid("%w", err)
	}
	return vendor.Call{Path: "v1/messages", Header: c.Headers, Body: body, Stream: streaming}, w.MaxTokens, nil
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
	var names []string
	for _, t := range req.Tools {
		schema := json.RawMessage(`{"type":"object","properties":{}}`)
		if t.Schema != nil {
			if !vendor.IsObject(t.Schema) {
				return invalid("the schema of tool %q is not a JSON object", t.Name)
			}
			schema = t.Schema
		}
		w.Tools = append(w.Tools, wireTool{Name: t.Name, Description: t.Description, InputSchema: schema, Strict: t.Strict})
		names = append(names, t.Name)
	}

	choice := req.ToolChoice
	if len(names) == 0 {
		if choice != model.ToolAuto && choice != model.ToolNone {
			return invalid("ToolChoice %q without tools", choice)
		}
		return nil // there is nothing to choose from
	}
	var serial *bool
	if parallel != nil {
		serial = new(!*parallel)
	}
	switch {
	case choice == model.ToolAuto:
		if parallel != nil {
			w.ToolChoice = &toolChoice{Type: "auto", Serial: serial}
		}
	case choice == model.ToolNone:
		w.ToolChoice = &toolChoice{Type: "none"}
	case choice == model.ToolRequired:
		w.ToolChoice = &toolChoice{Type: "any", Serial: serial}
	case slices.Contains(names, string(choice)):
		w.ToolChoice = &toolChoice{Type: "tool", Name: string(choice), Serial: serial}
	default:
		return invalid("ToolChoice %q is none of the tools %s", choice, strings.Join(names, ", "))
	}
	return nil
}

// messages puts the conversation into w.
func messages(w *wire, list []chat.Message, points map[int][]vendor.CachePoint, able vendor.Able) error {
	last := vendor.Last(list)
	var role chat.Role
	var results, blocks []block
	flush := func() {
		// Results answer the message before, so they come first.
		all := append(results, blocks...)
		results, blocks = nil, nil
		switch n := len(w.Messages); {
		case len(all) == 0:
		case n > 0 && w.Messages[n-1].Role == role: // the other side had nothing to say
			w.Messages[n-1].Content = append(w.Messages[n-1].Content, all...)
		default:
			w.Messages = append(w.Messages, turn{role, all})
		}
	}
	speaker := func(r chat.Role) {
		if r != role {
			flush()
			role = r
		}
	}
	for i, m := range list {
		for _, piece := range vendor.Pieces(m, points[i]) {
			var err error
			switch m.Role {
			case chat.RoleSystem:
				err = system(w, piece.Message)
				mark(piece.Cache, nil, w.System)
			case chat.RoleUser:
				speaker(chat.RoleUser)
				blocks, err = user(blocks, piece.Message, able, i < last)
				mark(piece.Cache, w.Messages, blocks, results)
			case chat.RoleTool:
				speaker(chat.RoleUser)
				results, err = toolResults(results, piece.Message, able)
				mark(piece.Cache, w.Messages, results)
			case chat.RoleAssistant:
				speaker(chat.RoleAssistant)
				blocks, err = assistant(blocks, piece.Message)
				mark(piece.Cache, w.Messages, blocks)
			default:
				err = fmt.Errorf("role %q is not supported", m.Role)
			}
			if err != nil {
				return invalid("Messages[%d]: %w", i, err)
			}
		}
	}
	flush()
	if len(w.Messages) == 0 {
		return invalid("Messages has nothing but messages of the system, or nothing at all")
	}
	return nil
}

// blank reports whether a text says nothing: the API refuses empty blocks, and
// messages of white space alone, though its models write them.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

func textBlock(text string) block { return block{Type: "text", Text: &text} }

func system(w *wire, m chat.Message) error {
	for _, part := range m.Parts {
		t, ok := part.(chat.Text)
		if !ok {
			return vendor.Misplaced(part, "a message of the system")
		}
		if !blank(t.Text) {
			w.System = append(w.System, textBlock(t.Text))
		}
	}
	return nil
}

// content maps a part that may stand in what the user says or a tool returned, if
// there is something to say.
func content(blocks []block, part chat.Part, where string) ([]block, error) {
	var b block
	var err error
	switch part := part.(type) {
	case chat.Text:
		if blank(part.Text) {
			return blocks, nil
		}
		b = textBlock(part.Text)
	case chat.Image:
		b, err = image(part)
	case chat.File:
		b, err = document(part)
	default:
		err = vendor.Misplaced(part, where)
	}
	return append(blocks, b), err
}

// contentOrWords is content that tells of media which can't be sent.
func contentOrWords(blocks []block, part chat.Part, where string, able vendor.Able) ([]block, error) {
	if !vendor.Media(part) {
		return content(blocks, part, where)
	}
	all, err := content(blocks, part, where)
	if err == nil {
		err = able.Untaken(part)
	}
	if err != nil {
		return append(blocks, textBlock(vendor.Told(part, err))), nil
	}
	return all, nil
}

// user maps what the user says. Of an old message the media that can't be sent are told.
func user(blocks []block, m chat.Message, able vendor.Able, old bool) ([]block, error) {
	const where = "a message of the user"
	for _, part := range m.Parts {
		var err error
		if old {
			blocks, err = contentOrWords(blocks, part, where, able)
		} else {
			blocks, err = content(blocks, part, where)
		}
		if err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

func assistant(blocks []block, m chat.Message) ([]block, error) {
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
			if blank(part.Text) {
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
			args, err := part.Arguments()
			if err != nil {
				if args, err = plainjson.Marshal(map[string]string{"INVALID_JSON": part.Args}); err != nil {
					return nil, fmt.Errorf("arguments of tool call %q: %w", part.ID, err)
				}
			}
			b = block{Type: "tool_use", ID: callID(part.ID), Name: part.Name, Input: args}
		case chat.Image, chat.Audio, chat.File: // of another provider's model that makes some
			b = textBlock(vendor.Told(part, vendor.Misplaced(part, "a message of the assistant")))
		default:
			return nil, vendor.Misplaced(part, "a message of the assistant")
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

// toolResults maps what tools returned. Media that can't be sent are told: nobody could
// take them out of the conversation, which would fail for ever.
func toolResults(results []block, m chat.Message, able vendor.Able) ([]block, error) {
	for _, part := range m.Parts {
		r, ok := part.(chat.ToolResult)
		if !ok {
			return nil, vendor.Misplaced(part, "a message of a tool")
		}
		b := block{Type: "tool_result", ToolUseID: callID(r.CallID), IsError: r.IsError}
		for _, p := range r.Content {
			var err error
			if b.Content, err = contentOrWords(b.Content, p, "the result of a tool", able); err != nil {
				return nil, err
			}
		}
		results = append(results, b)
	}
	return results, nil
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
