package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// noArgumentsStrict is the schema of a strict tool without one.
const noArgumentsStrict = `{"type":"object","properties":{},"required":[],"additionalProperties":false}`

// wire is a request as the API takes it.
type wire struct {
	Model               string          `json:"model"`
	Messages            []wireMessage   `json:"messages"`
	Tools               []wireTool      `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"` // a word or a wireTool
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty,omitempty"`
	PresencePenalty     *float64        `json:"presence_penalty,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// wireMessage is a message of any role. Content is a string, a list of wirePart or
// nil, which is null.
type wireMessage struct {
	Role       chat.Role  `json:"role"`
	Content    any        `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`

	// Of the assistant's, for servers that want one of them.
	ReasoningContent string `json:"reasoning_content,omitempty"`
	Reasoning        string `json:"reasoning,omitempty"`
}

type wirePart struct {
	Type       string      `json:"type"`
	Text       *string     `json:"text,omitempty"`
	ImageURL   *wireImage  `json:"image_url,omitempty"`
	InputAudio *wireAudio  `json:"input_audio,omitempty"`
	File       *wireUpload `json:"file,omitempty"`
}

type wireImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type wireAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type wireUpload struct {
	ID       string `json:"file_id,omitempty"`
	Data     string `json:"file_data,omitempty"`
	Filename string `json:"filename,omitempty"`
}

type wireCall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function calledFunction `json:"function"`
}

type calledFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

// wireFunction describes a function, or names one.
type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // as it is: models read the properties in their order
	Strict      bool            `json:"strict,omitempty"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema wireSchema `json:"json_schema"`
}

type wireSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

// settings returns the settings of a request, as far as both APIs agree on them.
func (m *Model) settings(req *model.Request) (c model.Config, err error) {
	if m.err != nil {
		e := *m.err
		return c, &e
	}
	c = m.defaults.With(req.Config)
	if c.TopK != nil {
		return c, invalid("the API doesn't know the setting TopK; a server that does takes it as Extra, often as top_k")
	}
	if c.ReasoningTokens != 0 {
		return c, invalid("the API doesn't know the setting ReasoningTokens: set Reasoning; a server that counts takes its own field as Extra")
	}
	if c.Model = cmp.Or(c.Model, m.name); c.Model == "" {
		return c, invalid("the model has no name: give it to New or set Config.Model")
	}
	return c, nil
}

// call returns the call of chat completions for a request.
func (m *Model) call(req *model.Request, streaming bool) (vendor.Call, error) {
	var none vendor.Call
	c, err := m.settings(req)
	if err != nil {
		return none, err
	}
	w := wire{
		Model:            c.Model,
		Temperature:      c.Temperature,
		TopP:             c.TopP,
		FrequencyPenalty: c.FrequencyPenalty,
		PresencePenalty:  c.PresencePenalty,
		Stop:             c.Stop,
		Seed:             c.Seed,
		ReasoningEffort:  c.Reasoning,
		Stream:           streaming,
	}
	if m.maxTokens {
		w.MaxTokens = c.MaxTokens
	} else {
		w.MaxCompletionTokens = c.MaxTokens
	}
	able := vendor.AbleOf(m.table, c.Model)
	if w.Messages, err = m.messages(req.Messages, able); err != nil {
		return none, err
	}
	if w.Tools, w.ToolChoice, err = tools(req); err != nil {
		return none, err
	}
	if len(req.Tools) > 0 { // the API refuses it otherwise, and it would say nothing
		w.ParallelToolCalls = c.ParallelTools
	}
	if req.Output != nil {
		if w.ResponseFormat, err = outputFormat(req.Output); err != nil {
			return none, err
		}
	}
	if _, own := c.Extra["stream_options"]; streaming && !own && !m.noUsage {
		w.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	body, err := extended(w, c.Extra, unread, given)
	return vendor.Call{Path: completionsPath, Header: c.Headers, Body: body, Stream: streaming}, err
}

const completionsPath = "chat/completions"

// unread says why there can't be some extra fields: they ask for answers that this
// package doesn't read.
var unread = map[string]string{
	"n":      "asks for several answers; a response has one",
	"audio":  "asks for an answer in sound, which isn't supported",
	"stream": "is given by the method Stream",
}

// given says what gives the fields of a request.
var given = map[string]string{
	"model": "Config.Model", "messages": "Request.Messages",
	"temperature": "Config.Temperature", "top_p": "Config.TopP",
	"frequency_penalty": "Config.FrequencyPenalty", "presence_penalty": "Config.PresencePenalty",
	"max_tokens": "Config.MaxTokens", "max_completion_tokens": "Config.MaxTokens",
	"stop": "Config.Stop", "seed": "Config.Seed", "reasoning_effort": "Config.Reasoning",
	"parallel_tool_calls": "Config.ParallelTools", "tools": "Request.Tools",
	"tool_choice": "Request.ToolChoice", "response_format": "Request.Output",
}

// extended is the body of a request with the extra fields, but for those that can't
// be.
func extended(w any, extra map[string]any, unread, given map[string]string) ([]byte, error) {
	for name, why := range unread {
		if _, ok := extra[name]; ok {
			return nil, invalid("the extra field %q %s", name, why)
		}
	}
	return vendor.Body(provider, w, extra, given)
}

// tools offers the tools of a request, and says which choice there is among them: nil if
// none has to be made.
func tools(req *model.Request) (out []wireTool, choice any, err error) {
	if err := vendor.CheckTools(provider, req); err != nil {
		return nil, nil, err
	}
	for _, t := range req.Tools {
		schema := vendor.SchemaOf(t)
		if t.Schema == nil && t.Strict {
			schema = json.RawMessage(noArgumentsStrict)
		}
		out = append(out, wireTool{"function", wireFunction{Name: t.Name, Description: t.Description, Parameters: schema, Strict: t.Strict}})
	}
	switch c := req.ToolChoice; c {
	case model.ToolAuto:
	case model.ToolNone:
		if len(out) > 0 { // there is nothing to call otherwise, and the API refuses the field
			choice = "none"
		}
	case model.ToolRequired:
		choice = "required"
	default:
		choice = wireTool{"function", wireFunction{Name: string(c)}}
	}
	return out, choice, nil
}

func outputFormat(s *model.Schema) (*responseFormat, error) {
	if !vendor.IsObject(s.Schema) {
		return nil, invalid("the schema of the output is not a JSON object")
	}
	f := wireSchema{Name: s.Name, Description: s.Description, Schema: s.Schema, Strict: strict(s.Schema)}
	if f.Name == "" {
		f.Name = "answer"
	}
	return &responseFormat{"json_schema", f}, nil
}

// messages maps a conversation. What tools returned beside text is held back
// until their last message, as nothing may stand between these.
func (m *Model) messages(in []chat.Message, able vendor.Able) ([]wireMessage, error) {
	last := vendor.Last(in)
	out := make([]wireMessage, 0, len(in))
	var media []wirePart
	flush := func() {
		if len(media) > 0 {
			out = append(out, wireMessage{Role: chat.RoleUser, Content: media})
			media = nil
		}
	}
	for i, msg := range in {
		where := fmt.Sprintf("message %d, of role %q", i, msg.Role)
		if msg.Role == chat.RoleTool {
			results, err := toolResults(where, msg)
			if err != nil {
				return nil, err
			}
			for _, r := range results {
				text, rest, err := m.toolResult(where, r, able)
				if err != nil {
					return nil, err
				}
				out = append(out, text)
				media = append(media, rest...)
			}
			continue
		}
		flush()
		u := wireMessage{Role: msg.Role, Name: name(msg)}
		var err error
		switch msg.Role {
		case chat.RoleSystem:
			u.Content, err = texts(where, msg.Parts, textPart)
		case chat.RoleUser:
			u.Content, err = content(msg.Parts, able, i < last, textPart, func(p chat.Part) (wirePart, error) { return contentPart(where, p) })
		case chat.RoleAssistant:
			err = m.assistant(&u, where, msg)
		default:
			err = unknownRole(where)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	flush()
	return out, nil
}

func unknownRole(where string) error {
	return invalid("%s: the roles are system, user, assistant and tool", where)
}

// toolResults returns what a message of a tool holds.
func toolResults(where string, msg chat.Message) ([]chat.ToolResult, error) {
	var list []chat.ToolResult
	for _, p := range msg.Parts {
		r, ok := p.(chat.ToolResult)
		if !ok {
			return nil, invalid("%s: %s can't stand beside a tool's result", where, kind(p))
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, invalid("%s: it has no tool result", where)
	}
	return list, nil
}

// content maps the parts of a message: a sole text, which every server takes, or a
// list. If told, the media that can't be sent are told in words.
func content[P any](parts []chat.Part, able vendor.Able, told bool, text func(string) P, part func(chat.Part) (P, error)) (any, error) {
	if t, ok := soleText(parts); ok {
		return t, nil
	}
	out := make([]P, 0, len(parts))
	for _, p := range parts {
		c, err := part(p)
		if told && vendor.Media(p) {
			if err == nil {
				err = able.Untaken(p)
			}
			if err != nil {
				c, err = text(vendor.Told(p, err)), nil
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (m *Model) assistant(u *wireMessage, where string, msg chat.Message) error {
	var text, thoughts strings.Builder
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case chat.Text:
			text.WriteString(p.Text)
		case chat.Reasoning:
			thoughts.WriteString(p.Text)
		case chat.Citation, chat.Native: // the API has no place for them
		case chat.Image, chat.Audio, chat.File: // of a model that makes some
			text.WriteString(vendor.Told(p, errNoOwnMedia))
		case chat.ToolCall:
			u.ToolCalls = append(u.ToolCalls, wireCall{shortID(p.ID), "function", calledFunction{p.Name, arguments(p)}})
		default:
			return misplaced(where, p)
		}
	}
	if thoughts.Len() == 0 {
		thoughts.WriteByte(' ') // the field is demanded, and an empty one is taken for none
	}
	switch m.reasoning { // else the API has no place for it, and servers want it left out
	case reasoningContent:
		u.ReasoningContent = thoughts.String()
	case reasoningPlain:
		u.Reasoning = thoughts.String()
	}
	if text.Len() > 0 || len(u.ToolCalls) == 0 { // else null, which the templates of some servers ask for
		u.Content = text.String()
	}
	return nil
}

// arguments are those of a call; none are an empty object.
func arguments(c chat.ToolCall) string {
	if strings.TrimSpace(c.Args) == "" {
		return "{}"
	}
	return c.Args
}

// errNoOwnMedia is why media that a model has made aren't sent.
var errNoOwnMedia = errors.New("the API takes nothing but text of a model")

// errNoToolMedia is why media of tools aren't sent.
var errNoToolMedia = errors.New("the API takes nothing but text from a tool; the option openai.ToolMedia sends the rest in a message of the user")

// toolResult maps a tool's result to its message and the parts for the user's
// message that follows. Media that can't be sent are told: nobody could take them out
// of the conversation, which would fail for ever.
func (m *Model) toolResult(where string, r chat.ToolResult, able vendor.Able) (u wireMessage, media []wirePart, err error) {
	u = wireMessage{Role: chat.RoleTool, ToolCallID: shortID(r.CallID)}
	var said []chat.Part
	for _, p := range r.Content {
		if !vendor.Media(p) {
			said = append(said, p)
			continue
		}
		var c wirePart
		why := errNoToolMedia
		if m.toolMedia {
			if c, why = contentPart(where, p); why == nil {
				why = able.Untaken(p)
			}
		}
		if why != nil {
			said = append(said, chat.Text{Text: vendor.Told(p, why)})
			continue
		}
		if media == nil {
			media = append(media, textPart(fmt.Sprintf("What the tool call %s of %s returned:", u.ToolCallID, r.Name)))
		}
		media = append(media, c)
	}
	if len(said) == 0 && media != nil {
		said = []chat.Part{chat.Text{Text: "The result follows in the next message of the user."}}
	}
	u.Content, err = texts(where, said, textPart)
	return u, media, err
}

func textPart(text string) wirePart { return wirePart{Type: "text", Text: &text} }

// texts maps parts that must be text, to a sole text or a list.
func texts[P any](where string, parts []chat.Part, text func(string) P) (any, error) {
	if t, ok := soleText(parts); ok {
		return t, nil
	}
	var out []P
	for _, p := range parts {
		t, ok := p.(chat.Text)
		if !ok {
			return nil, invalid("%s: the API takes nothing but text there, not %s", where, kind(p))
		}
		out = append(out, text(t.Text))
	}
	return out, nil
}

// soleText returns the text of parts that are one text, or none.
func soleText(parts []chat.Part) (string, bool) {
	if len(parts) == 0 {
		return "", true
	}
	t, ok := parts[0].(chat.Text)
	return t.Text, ok && len(parts) == 1
}

// misplaced says that a part can't stand where it does.
func misplaced(where string, p chat.Part) error {
	return invalid("%s: the API doesn't take %s there", where, kind(p))
}

// badMedium says what is wrong with a medium.
func badMedium(where string, p chat.Part, what string) error {
	return invalid("%s: %s %s", where, kind(p), what)
}

// source returns where the content of a medium is.
func source(where string, p chat.Part) (src chat.Source, err error) {
	switch p := p.(type) {
	case chat.Image:
		src = p.Source
	case chat.Audio:
		src = p.Source
	case chat.File:
		src = p.Source
	default:
		return src, misplaced(where, p)
	}
	given := 0
	for _, has := range []bool{src.Data != nil, src.URL != "", src.FileID != ""} {
		if has {
			given++
		}
	}
	if given != 1 {
		return src, badMedium(where, p, fmt.Sprintf("must have one of Data, URL and FileID; it has %d", given))
	}
	if src.Data != nil && src.MIME == "" {
		return src, badMedium(where, p, "has data without a MIME type")
	}
	return src, nil
}

// filename is a file's name: it must have one.
func filename(f chat.File) string { return cmp.Or(f.Name, "file") }

// contentPart maps a part of a user's message.
func contentPart(where string, p chat.Part) (u wirePart, err error) {
	if t, ok := p.(chat.Text); ok {
		return textPart(t.Text), nil
	}
	src, err := source(where, p)
	if err != nil {
		return u, err
	}
	switch p := p.(type) {
	case chat.Image:
		if src.FileID != "" {
			return u, badMedium(where, p, "is given by a file ID; the API takes URLs and data")
		}
		return wirePart{Type: "image_url", ImageURL: &wireImage{dataURL(src), p.Detail}}, nil
	case chat.Audio:
		data, mediaType, ok := inlined(src)
		if !ok {
			return u, badMedium(where, p, "is not given by data; the API takes nothing else")
		}
		return wirePart{Type: "input_audio", InputAudio: &wireAudio{data, audioFormat(mediaType)}}, nil
	}
	f := &wireUpload{ID: src.FileID}
	if src.FileID == "" {
		if _, _, ok := inlined(src); !ok {
			return u, badMedium(where, p, "is given by a URL; the API takes data and file IDs")
		}
		f.Data = dataURL(src)
		f.Filename = filename(p.(chat.File))
	}
	return wirePart{Type: "file", File: f}, nil
}

// dataURL returns where a URL or data is, as a URL.
func dataURL(s chat.Source) string {
	if s.Data == nil {
		return s.URL
	}
	return "data:" + s.MIME + ";base64," + base64.StdEncoding.EncodeToString(s.Data)
}

// inlined returns the base64 and the media type of data, also that in a URL.
func inlined(s chat.Source) (data, mediaType string, ok bool) {
	if s.Data != nil {
		return base64.StdEncoding.EncodeToString(s.Data), s.MIME, true
	}
	rest, ok := strings.CutPrefix(s.URL, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	mediaType, isBase64 := strings.CutSuffix(head, ";base64")
	return data, mediaType, ok && isBase64
}

// audioFormat returns the API's name of a sound's media type: the subtype, for
// what it doesn't know and a compatible server may.
func audioFormat(mediaType string) string {
	if t, _, err := mime.ParseMediaType(mediaType); err == nil {
		mediaType = t
	}
	_, sub, _ := strings.Cut(mediaType, "/")
	sub = strings.TrimPrefix(sub, "x-")
	switch sub {
	case "wave", "vnd.wave":
		return "wav"
	case "mpeg":
		return "mp3"
	}
	return sub
}

// name is a speaker's, with underscores for the characters that the API refuses
// in one.
func name(msg chat.Message) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(`<|\/>`, r) {
			return '_'
		}
		return r
	}, msg.Name)
}

// maxCallID is how many bytes OpenAI takes in the ID of a tool call. Those of
// other providers in a conversation may be longer.
const maxCallID = 40

// shortID is the ID of a tool call, or a shorter one that follows from it.
func shortID(id string) string {
	return vendor.CallID(id, func(id string) bool { return len(id) <= maxCallID })
}

// kind names a part's kind for errors.
func kind(p chat.Part) string {
	switch p.(type) {
	case chat.Text:
		return "a text"
	case chat.Image:
		return "an image"
	case chat.Audio:
		return "a sound"
	case chat.File:
		return "a file"
	case chat.Reasoning:
		return "reasoning"
	case chat.ToolCall:
		return "a tool call"
	case chat.ToolResult:
		return "a tool result"
	}
	return fmt.Sprintf("a part of type %T", p)
}
