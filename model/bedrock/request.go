package bedrock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// wire is a request as the API takes it.
type wire struct {
	Messages []vendor.Turn[block] `json:"messages"`
	System   []block              `json:"system,omitempty"`
	Config   *inference           `json:"inferenceConfig,omitempty"`
	Tools    *toolConfig          `json:"toolConfig,omitempty"`
	Output   *outputConfig        `json:"outputConfig,omitempty"`
}

type inference struct {
	MaxTokens   int      `json:"maxTokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
	Stop        []string `json:"stopSequences,omitempty"`
}

type toolConfig struct {
	Tools  []toolOrPoint `json:"tools"`
	Choice any           `json:"toolChoice,omitempty"`
}

type toolOrPoint struct {
	Spec  *toolSpec   `json:"toolSpec,omitempty"`
	Cache *cachePoint `json:"cachePoint,omitempty"`
}

type toolSpec struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	InputSchema jsonSchema `json:"inputSchema"`
	Strict      bool       `json:"strict,omitempty"`
}

type jsonSchema struct {
	JSON json.RawMessage `json:"json"`
}

type outputConfig struct {
	Effort string      `json:"effort,omitempty"`
	Format *textFormat `json:"textFormat,omitempty"`
}

type textFormat struct {
	Type      string `json:"type"`
	Structure struct {
		Schema struct {
			Schema      string `json:"schema"` // JSON
			Name        string `json:"name,omitempty"`
			Description string `json:"description,omitempty"`
		} `json:"jsonSchema"`
	} `json:"structure"`
}

// block is a piece of content, of which one thing is set.
type block struct {
	Text       *string     `json:"text,omitempty"`
	Image      *media      `json:"image,omitempty"`
	Document   *media      `json:"document,omitempty"`
	Video      *media      `json:"video,omitempty"`
	Audio      *media      `json:"audio,omitempty"`
	ToolUse    *toolUse    `json:"toolUse,omitempty"`
	ToolResult *toolResult `json:"toolResult,omitempty"`
	Reasoning  *reasoning  `json:"reasoningContent,omitempty"`
	Cache      *cachePoint `json:"cachePoint,omitempty"`

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

type media struct {
	Name   string `json:"name,omitempty"` // of a document
	Format string `json:"format"`
	Source source `json:"source"`
}

type source struct {
	Bytes []byte   `json:"bytes,omitempty"`
	S3    *s3Place `json:"s3Location,omitempty"`
}

type s3Place struct {
	URI string `json:"uri"`
}

type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"`
	Status  string  `json:"status,omitempty"`
}

type reasoning struct {
	Text     *reasoningText `json:"reasoningText,omitempty"`
	Redacted string         `json:"redactedContent,omitempty"` // base64
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

type cachePoint struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

func pointOf(p *vendor.CachePoint) *cachePoint { return &cachePoint{Type: "default", TTL: p.TTL} }

// call returns the call for a request, and the name of the model.
func (m *Model) call(req *model.Request, streaming bool) (_ vendor.Call, name string, err error) {
	var none vendor.Call
	if m.err != nil {
		e := *m.err
		return none, "", &e
	}
	c := m.defaults.With(req.Config)
	if name = cmp.Or(c.Model, m.name); name == "" || strings.Trim(name, ".") == "" {
		return none, "", invalid("no model is named")
	}
	b := builder{model: name, names: map[string]bool{}}
	if err := b.configure(c, req.Output); err != nil {
		return none, "", err
	}
	after, points, err := vendor.CachePointsOf(provider, req)
	if err != nil {
		return none, "", err
	}
	able := vendor.AbleOf(m.table, name)
	if able.Known && !able.Has.Caching {
		after, points = nil, nil
	}
	if err := b.tools(req, after); err != nil {
		return none, "", err
	}
	b.turns = vendor.Turns[block]{
		Provider: provider, Able: able,
		Text: textBlock, Empty: vendor.Blank, Media: b.media, Said: b.assistant, Tool: b.returned, Whole: introduced, Mark: mark,
	}
	if err := b.turns.Add(req.Messages, points); err != nil {
		return none, "", err
	}
	b.System, b.Messages = b.turns.System, b.turns.Turns
	body, err := vendor.Body(provider, b.wire, c.Extra, given)
	if err != nil {
		return none, "", err
	}
	method := "/converse"
	if streaming {
		method = "/converse-stream"
	}
	return vendor.Call{Path: "model/" + inPath(name) + method, Header: c.Headers, Body: body, Stream: streaming}, name, nil
}

// given says what gives the fields of a request.
var given = map[string]string{
	"messages": "Request.Messages", "system": "Request.Messages", "toolConfig.tools": "Request.Tools", "toolConfig.toolChoice": "Request.ToolChoice",
	"outputConfig.textFormat": "Request.Output", "outputConfig.effort": "Config.Reasoning",
	"inferenceConfig.maxTokens": "Config.MaxTokens", "inferenceConfig.temperature": "Config.Temperature", "inferenceConfig.topP": "Config.TopP", "inferenceConfig.stopSequences": "Config.Stop",
}

// builder makes a request the API's.
type builder struct {
	wire
	model string
	names map[string]bool // of documents: each must be the only one
	turns vendor.Turns[block]
}

func (b *builder) configure(c model.Config, output *model.Schema) error {
	for name, set := range map[string]bool{
		"TopK": c.TopK != nil, "Seed": c.Seed != nil, "FrequencyPenalty": c.FrequencyPenalty != nil, "PresencePenalty": c.PresencePenalty != nil,
		"ParallelTools": c.ParallelTools != nil, "ReasoningTokens": c.ReasoningTokens != 0, "Reasoning none": c.Reasoning == "none",
	} {
		if set {
			return invalid(`%s is not supported by Converse: what the model has of its own is in Extra["additionalModelRequestFields"]`, name)
		}
	}
	if c.MaxTokens < 0 {
		return invalid("MaxTokens is %d", c.MaxTokens)
	}
	efforts := []string{"", "low", "medium", "high", "xhigh", "max"}
	if !slices.Contains(efforts, c.Reasoning) {
		return invalid("Reasoning %q is not supported: it is one of %s", c.Reasoning, strings.Join(efforts[1:], ", "))
	}
	if c.MaxTokens != 0 || c.Temperature != nil || c.TopP != nil || len(c.Stop) > 0 {
		b.Config = &inference{c.MaxTokens, c.Temperature, c.TopP, c.Stop}
	}
	if c.Reasoning != "" || output != nil {
		b.Output = &outputConfig{Effort: c.Reasoning}
	}
	if output != nil {
		if !vendor.IsObject(output.Schema) {
			return invalid("Output.Schema is not a JSON object")
		}
		f := &textFormat{Type: "json_schema"}
		s := &f.Structure.Schema
		s.Schema, s.Name, s.Description = string(output.Schema), cmp.Or(output.Name, "answer"), output.Description
		b.Output.Format = f
	}
	return nil
}

// tools offers the tools, if there are any to choose from. The API has no choice of none.
func (b *builder) tools(req *model.Request, after *vendor.CachePoint) error {
	if err := vendor.CheckTools(provider, req); err != nil || len(req.Tools) == 0 || req.ToolChoice == model.ToolNone {
		return err
	}
	c := &toolConfig{}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, toolOrPoint{Spec: &toolSpec{t.Name, t.Description, jsonSchema{vendor.SchemaOf(t)}, t.Strict}})
	}
	type named struct {
		Name string `json:"name"`
	}
	switch req.ToolChoice {
	case model.ToolAuto:
	case model.ToolRequired:
		c.Choice = map[string]struct{}{"any": {}}
	default:
		c.Choice = map[string]named{"tool": {string(req.ToolChoice)}}
	}
	if after != nil && !strings.Contains(b.model, "amazon.nova") {
		c.Tools = append(c.Tools, toolOrPoint{Cache: pointOf(after)})
	}
	b.Tools = c
	return nil
}

// introduced puts a text before documents that stand without one, which the API wants.
func introduced(turn []block) []block {
	document := slices.IndexFunc(turn, func(c block) bool { return c.Document != nil })
	if document >= 0 && !slices.ContainsFunc(turn, func(c block) bool { return c.Text != nil }) {
		turn = slices.Insert(turn, document, textBlock("The document "+turn[document].Document.Name+":"))
	}
	return turn
}

// mark puts a point behind the last block that can have one: the API takes none behind what
// the model thought.
func mark(blocks []block, p *vendor.CachePoint) ([]block, bool) {
	for i, c := range slices.Backward(blocks) {
		switch {
		case c.Reasoning != nil:
			continue
		case c.Cache == nil:
			blocks = slices.Insert(blocks, i+1, block{Cache: pointOf(p)})
		}
		return blocks, true
	}
	return blocks, false
}

func textBlock(text string) block { return block{Text: &text} }

// returned maps what a tool returned.
func (b *builder) returned(m chat.Message, r chat.ToolResult) ([]block, error) {
	content, err := b.turns.Pieces(r.Content, vendor.OfTool, true)
	if len(content) == 0 {
		content = []block{textBlock("(nothing)")}
	}
	if b.Tools == nil {
		verb := "returned"
		if r.IsError {
			verb = "failed"
		}
		head := textBlock(fmt.Sprintf("[The tool %s %s:]", cmp.Or(r.Name, m.Name, r.CallID), verb))
		return append([]block{head}, content...), err
	}
	result := &toolResult{ID: callID(r.CallID), Content: content}
	if r.IsError {
		result.Status = "error"
	}
	return []block{{ToolResult: result}}, err
}

func (b *builder) assistant(m chat.Message) (blocks []block, err error) {
	for _, part := range m.Parts {
		var c block
		switch part := part.(type) {
		case chat.Citation:
			continue
		case chat.Text:
			if vendor.Blank(part.Text) {
				continue
			}
			c = textBlock(part.Text)
		case chat.Native:
			if part.Provider != provider || b.Tools == nil || !vendor.IsObject(json.RawMessage(part.Data)) {
				continue
			}
			c.whole = json.RawMessage(part.Data)
		case chat.Reasoning:
			if part.Signature == "" || m.Model != b.model {
				continue
			}
			if part.Redacted {
				c.Reasoning = &reasoning{Redacted: part.Signature}
			} else {
				c.Reasoning = &reasoning{Text: &reasoningText{part.Text, part.Signature}}
			}
		case chat.ToolCall:
			if b.Tools == nil {
				c = textBlock(fmt.Sprintf("[The tool %s is called with %s]", part.Name, cmp.Or(part.Args, "{}")))
				break
			}
			args, err := vendor.Arguments(part)
			if err != nil {
				return nil, err
			}
			c.ToolUse = &toolUse{callID(part.ID), part.Name, args}
		case chat.Image, chat.Audio, chat.File:
			c = textBlock(vendor.Told(part, vendor.Misplaced(part, vendor.OfAssistant)))
		default:
			return nil, vendor.Misplaced(part, vendor.OfAssistant)
		}
		blocks = append(blocks, c)
	}
	return blocks, nil
}

var idForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// callID is the ID of a tool call, or one that follows from it and has the form that
// the API wants: other providers have other forms.
func callID(id string) string { return vendor.CallID(id, idForm.MatchString) }

// The formats that the API knows, by media type.
var (
	images = map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
	sounds = map[string]string{
		"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/aac": "aac", "audio/flac": "flac",
		"audio/ogg": "ogg", "audio/opus": "opus", "audio/mp4": "mp4", "audio/x-m4a": "m4a", "audio/webm": "webm",
	}
	videos = map[string]string{
		"video/mp4": "mp4", "video/quicktime": "mov", "video/webm": "webm", "video/x-matroska": "mkv", "video/mpeg": "mpeg", "video/x-flv": "flv",
		"video/x-ms-wmv": "wmv", "video/3gpp": "three_gp",
	}
	documents = map[string]string{
		"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
		"application/msword": "doc", "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.ms-excel": "xls", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
	}
)

// media maps a picture, a sound, a video or a document.
func (b *builder) media(part chat.Part, where string) (c block, err error) {
	var in *media
	switch part := part.(type) {
	case chat.Image:
		in, err = mediaOf("image", part.Source, images)
		c.Image = in
	case chat.Audio:
		in, err = mediaOf("audio", part.Source, sounds)
		if c.Audio = in; err == nil && where == vendor.OfTool {
			err = vendor.Misplaced(part, where)
		}
	case chat.File:
		if s, err := vendor.Resolve(part.Source); err == nil && videos[s.MIME] != "" {
			in, err = mediaOf("video", part.Source, videos)
			return block{Video: in}, err
		}
		if in, err = mediaOf(fmt.Sprintf("file %q", part.Name), part.Source, documents); err == nil {
			in.Name = b.name(part.Name)
		}
		c.Document = in
	}
	return c, err
}

func mediaOf(what string, s chat.Source, formats map[string]string) (*media, error) {
	s, err := vendor.Resolve(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	m := &media{Format: formats[s.MIME], Source: source{Bytes: s.Data}}
	switch {
	case m.Format == "":
		return nil, fmt.Errorf("%s: media type %q is not supported", what, s.MIME)
	case s.URL != "", s.FileID != "" && !strings.HasPrefix(s.FileID, "s3://"):
		return nil, fmt.Errorf("%s: it is not supported by URL or ID, only with its data or by s3://BUCKET/KEY in FileID", what)
	case s.FileID != "":
		m.Source.S3 = &s3Place{s.FileID}
	case len(s.Data) == 0:
		return nil, fmt.Errorf("%s: it is empty", what)
	}
	return m, nil
}

var notNamed = regexp.MustCompile(`[^A-Za-z0-9()\[\]-]+`)

// name is the name of a document, or what is near it: the API takes few letters, and each
// name once.
func (b *builder) name(name string) string {
	plain := cmp.Or(strings.TrimSpace(notNamed.ReplaceAllString(name, " ")), "document")
	if len(plain) > 150 {
		plain = strings.TrimSpace(plain[:150])
	}
	name = plain
	for n := 2; b.names[name]; n++ {
		name = fmt.Sprintf("%s (%d)", plain, n)
	}
	b.names[name] = true
	return name
}
