package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"unicode"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// The schemas of tools without one: compatible servers need one.
const (
	noArguments       = `{"type":"object","properties":{}}`
	noArgumentsStrict = `{"type":"object","properties":{},"required":[],"additionalProperties":false}`
)

// body returns the JSON of a request.
func (m *Model) body(req *model.Request, streaming bool) ([]byte, error) {
	c := m.defaults.With(req.Config)
	if c.TopK != nil {
		return nil, invalid("the API doesn't know the setting TopK; a server that does takes it as Extra, often as top_k")
	}
	if c.ReasoningTokens != 0 {
		return nil, invalid("the API doesn't know the setting ReasoningTokens: set Reasoning; a server that counts takes its own field as Extra")
	}
	if c.Model == "" {
		c.Model = m.name
	}
	if c.Model == "" {
		return nil, invalid("the model has no name: give it to New or set Config.Model")
	}
	p := sdk.ChatCompletionNewParams{
		Model:            c.Model,
		Temperature:      opt(c.Temperature),
		TopP:             opt(c.TopP),
		FrequencyPenalty: opt(c.FrequencyPenalty),
		PresencePenalty:  opt(c.PresencePenalty),
		Seed:             opt(c.Seed),
		ReasoningEffort:  shared.ReasoningEffort(c.Reasoning),
	}
	if len(c.Stop) > 0 {
		p.Stop.OfStringArray = c.Stop
	}
	if c.MaxTokens != 0 {
		if m.maxTokens {
			p.MaxTokens = sdk.Int(int64(c.MaxTokens))
		} else {
			p.MaxCompletionTokens = sdk.Int(int64(c.MaxTokens))
		}
	}
	var err error
	if p.Messages, err = m.messages(req.Messages); err != nil {
		return nil, err
	}
	if p.Tools, err = tools(req.Tools); err != nil {
		return nil, err
	}
	if p.ToolChoice, err = toolChoice(req.ToolChoice, req.Tools); err != nil {
		return nil, err
	}
	if len(req.Tools) > 0 { // the API refuses it otherwise, and it would say nothing
		p.ParallelToolCalls = opt(c.ParallelTools)
	}
	if req.Output != nil {
		if p.ResponseFormat.OfJSONSchema, err = responseFormat(req.Output); err != nil {
			return nil, err
		}
	}
	extra, err := extraFields(&p, c.Extra)
	if err != nil {
		return nil, err
	}
	if streaming {
		extra["stream"] = true
		if _, ok := extra["stream_options"]; !ok && !m.noUsage {
			p.StreamOptions.IncludeUsage = sdk.Bool(true)
		}
	}
	p.SetExtraFields(extra)
	body, err := p.MarshalJSON()
	if err != nil {
		return nil, &model.Error{Provider: provider, Kind: model.ErrorInvalid, Message: "the request has no JSON: " + err.Error(), Err: err}
	}
	return body, nil
}

func opt[T comparable](v *T) param.Opt[T] {
	if v == nil {
		return param.Opt[T]{}
	}
	return param.NewOpt(*v)
}

// extraFields encodes the extra fields and refuses those that would replace what
// a setting says or that ask for answers which this package doesn't read.
func extraFields(p *sdk.ChatCompletionNewParams, extra map[string]any) (map[string]any, error) {
	by := map[string]string{"model": "Config.Model", "messages": "Request.Messages", "stream": "the method Stream"}
	for _, f := range []struct {
		field, setting string
		set            bool
	}{
		{"temperature", "Config.Temperature", p.Temperature.Valid()},
		{"top_p", "Config.TopP", p.TopP.Valid()},
		{"frequency_penalty", "Config.FrequencyPenalty", p.FrequencyPenalty.Valid()},
		{"presence_penalty", "Config.PresencePenalty", p.PresencePenalty.Valid()},
		{"max_tokens", "Config.MaxTokens", p.MaxTokens.Valid()},
		{"max_completion_tokens", "Config.MaxTokens", p.MaxCompletionTokens.Valid()},
		{"stop", "Config.Stop", len(p.Stop.OfStringArray) > 0},
		{"seed", "Config.Seed", p.Seed.Valid()},
		{"reasoning_effort", "Config.Reasoning", p.ReasoningEffort != ""},
		{"parallel_tool_calls", "Config.ParallelTools", p.ParallelToolCalls.Valid()},
		{"tools", "Request.Tools", len(p.Tools) > 0},
		{"tool_choice", "Request.ToolChoice", !param.IsOmitted(p.ToolChoice)},
		{"response_format", "Request.Output", p.ResponseFormat.OfJSONSchema != nil},
	} {
		if f.set {
			by[f.field] = f.setting
		}
	}
	fields := make(map[string]any, len(extra)+1)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		switch setting, ok := by[name]; {
		case ok:
			return nil, invalid("the extra field %q is given by %s", name, setting)
		case name == "n":
			return nil, invalid("the extra field %q asks for several answers; a response has one", name)
		case name == "audio":
			return nil, invalid("the extra field %q asks for an answer in sound, which isn't supported", name)
		}
		v, err := json.Marshal(extra[name])
		if err != nil {
			return nil, invalid("the extra field %q has no JSON: %v", name, err)
		}
		fields[name] = json.RawMessage(v)
	}
	return fields, nil
}

func tools(specs []chat.ToolSpec) ([]sdk.ChatCompletionToolUnionParam, error) {
	var out []sdk.ChatCompletionToolUnionParam
	for _, t := range specs {
		schema := t.Schema
		if schema == nil {
			schema = json.RawMessage(noArguments)
			if t.Strict {
				schema = json.RawMessage(noArgumentsStrict)
			}
		}
		if !isObject(schema) {
			return nil, invalid("the schema of the tool %q is not a JSON object", t.Name)
		}
		f := shared.FunctionDefinitionParam{Name: t.Name}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		if t.Strict {
			f.Strict = sdk.Bool(true)
		}
		// As it is: models read the properties in their order, which the SDK's
		// map would lose.
		f.SetExtraFields(map[string]any{"parameters": schema})
		out = append(out, sdk.ChatCompletionFunctionTool(f))
	}
	return out, nil
}

func isObject(v json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(v, &object) == nil && object != nil
}

func toolChoice(c model.ToolChoice, specs []chat.ToolSpec) (sdk.ChatCompletionToolChoiceOptionUnionParam, error) {
	var out sdk.ChatCompletionToolChoiceOptionUnionParam
	switch {
	case c == model.ToolAuto:
	case c == model.ToolNone:
		if len(specs) > 0 { // there is nothing to call otherwise, and the API refuses the field
			out.OfAuto = sdk.String("none")
		}
	case c == model.ToolRequired:
		if len(specs) == 0 {
			return out, invalid("a tool is required, but the request has none")
		}
		out.OfAuto = sdk.String("required")
	default:
		name := string(c)
		if !slices.ContainsFunc(specs, func(t chat.ToolSpec) bool { return t.Name == name }) {
			var names []string
			for _, t := range specs {
				names = append(names, t.Name)
			}
			return out, invalid("the tool choice %q is no tool of the request; it has %q", name, names)
		}
		out = sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: name})
	}
	return out, nil
}

func responseFormat(s *model.Schema) (*shared.ResponseFormatJSONSchemaParam, error) {
	if !isObject(s.Schema) {
		return nil, invalid("the schema of the output is not a JSON object")
	}
	f := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: s.Name, Schema: s.Schema, Strict: sdk.Bool(strict(s.Schema))}
	if f.Name == "" {
		f.Name = "answer"
	}
	if s.Description != "" {
		f.Description = sdk.String(s.Description)
	}
	return &shared.ResponseFormatJSONSchemaParam{JSONSchema: f}, nil
}

// messages maps a conversation. What tools returned beside text is held back
// until their last message, as nothing may stand between these.
func (m *Model) messages(in []chat.Message) ([]sdk.ChatCompletionMessageParamUnion, error) {
	out := make([]sdk.ChatCompletionMessageParamUnion, 0, len(in))
	var media []sdk.ChatCompletionContentPartUnionParam
	flush := func() {
		if len(media) > 0 {
			out = append(out, sdk.UserMessage(media))
			media = nil
		}
	}
	for i, msg := range in {
		where := fmt.Sprintf("message %d, of role %q", i, msg.Role)
		if msg.Role == chat.RoleTool {
			for _, p := range msg.Parts {
				r, ok := p.(chat.ToolResult)
				if !ok {
					return nil, invalid("%s: %s can't stand beside a tool's result", where, kind(p))
				}
				text, rest, err := m.toolResult(where, r)
				if err != nil {
					return nil, err
				}
				out = append(out, text)
				media = append(media, rest...)
			}
			if len(msg.Parts) == 0 {
				return nil, invalid("%s: it has no tool result", where)
			}
			continue
		}
		flush()
		var u sdk.ChatCompletionMessageParamUnion
		var err error
		switch msg.Role {
		case chat.RoleSystem:
			u, err = system(where, msg)
		case chat.RoleUser:
			u, err = user(where, msg)
		case chat.RoleAssistant:
			u, err = assistant(where, msg)
		default:
			err = invalid("%s: the roles are system, user, assistant and tool", where)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	flush()
	return out, nil
}

func system(where string, msg chat.Message) (u sdk.ChatCompletionMessageParamUnion, err error) {
	texts, err := textParts(where, msg.Parts)
	if err != nil {
		return u, err
	}
	if len(texts) == 1 {
		u = sdk.SystemMessage(texts[0].Text)
	} else {
		u = sdk.SystemMessage(texts)
	}
	u.OfSystem.Name = name(msg)
	return u, nil
}

func user(where string, msg chat.Message) (u sdk.ChatCompletionMessageParamUnion, err error) {
	if t, ok := soleText(msg.Parts); ok { // which every server takes
		u = sdk.UserMessage(t)
	} else {
		parts := make([]sdk.ChatCompletionContentPartUnionParam, 0, len(msg.Parts))
		for _, p := range msg.Parts {
			c, err := contentPart(where, p)
			if err != nil {
				return u, err
			}
			parts = append(parts, c)
		}
		u = sdk.UserMessage(parts)
	}
	u.OfUser.Name = name(msg)
	return u, nil
}

func assistant(where string, msg chat.Message) (u sdk.ChatCompletionMessageParamUnion, err error) {
	a := &sdk.ChatCompletionAssistantMessageParam{Name: name(msg)}
	var text strings.Builder
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case chat.Text:
			text.WriteString(p.Text)
		case chat.Reasoning:
			// The API has no place for it, and servers want it left out.
		case chat.ToolCall:
			args := p.Args
			if strings.TrimSpace(args) == "" {
				args = "{}"
			}
			a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID:       shortID(p.ID),
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.Name, Arguments: args},
				},
			})
		default:
			return u, invalid("%s: the API doesn't take %s there", where, kind(p))
		}
	}
	if text.Len() == 0 && len(a.ToolCalls) > 0 {
		// Not left out: the templates of some servers ask for it.
		a.Content = param.NullStruct[sdk.ChatCompletionAssistantMessageParamContentUnion]()
	} else {
		a.Content.OfString = sdk.String(text.String())
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: a}, nil
}

// toolResult maps a tool's result to its message and the parts for the user's
// message that follows.
func (m *Model) toolResult(where string, r chat.ToolResult) (u sdk.ChatCompletionMessageParamUnion, media []sdk.ChatCompletionContentPartUnionParam, err error) {
	id := shortID(r.CallID)
	var texts []chat.Part
	for _, p := range r.Content {
		switch p.(type) {
		case chat.Text:
			texts = append(texts, p)
			continue
		case chat.Image, chat.Audio, chat.File:
			if m.toolMedia {
				break
			}
			return u, nil, invalid("%s: the API doesn't take %s in a tool's result; openai.ToolMedia sends it in a message of the user", where, kind(p))
		}
		c, err := contentPart(where, p)
		if err != nil {
			return u, nil, err
		}
		if media == nil {
			media = append(media, sdk.TextContentPart(fmt.Sprintf("What the tool call %s of %s returned:", id, r.Name)))
		}
		media = append(media, c)
	}
	if len(texts) == 0 && media != nil {
		texts = []chat.Part{chat.Text{Text: "The result follows in the next message of the user."}}
	}
	parts, err := textParts(where, texts)
	if err != nil {
		return u, nil, err
	}
	if len(parts) == 1 {
		return sdk.ToolMessage(parts[0].Text, id), media, nil
	}
	return sdk.ToolMessage(parts, id), media, nil
}

// textParts maps parts that must be text. No parts are an empty text.
func textParts(where string, parts []chat.Part) ([]sdk.ChatCompletionContentPartTextParam, error) {
	var out []sdk.ChatCompletionContentPartTextParam
	for _, p := range parts {
		t, ok := p.(chat.Text)
		if !ok {
			return nil, invalid("%s: the API takes nothing but text there, not %s", where, kind(p))
		}
		out = append(out, sdk.ChatCompletionContentPartTextParam{Text: t.Text})
	}
	if out == nil {
		out = append(out, sdk.ChatCompletionContentPartTextParam{})
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

// contentPart maps a part of a user's message.
func contentPart(where string, p chat.Part) (u sdk.ChatCompletionContentPartUnionParam, err error) {
	var src chat.Source
	switch p := p.(type) {
	case chat.Text:
		return sdk.TextContentPart(p.Text), nil
	case chat.Image:
		src = p.Source
	case chat.Audio:
		src = p.Source
	case chat.File:
		src = p.Source
	default:
		return u, invalid("%s: the API doesn't take %s there", where, kind(p))
	}
	bad := func(format string, args ...any) error {
		return invalid("%s: %s %s", where, kind(p), fmt.Sprintf(format, args...))
	}
	given := 0
	for _, has := range []bool{src.Data != nil, src.URL != "", src.FileID != ""} {
		if has {
			given++
		}
	}
	if given != 1 {
		return u, bad("must have one of Data, URL and FileID; it has %d", given)
	}
	if src.Data != nil && src.MIME == "" {
		return u, bad("has data without a MIME type")
	}
	switch p := p.(type) {
	case chat.Image:
		if src.FileID != "" {
			return u, bad("is given by a file ID; the API takes URLs and data")
		}
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(src), Detail: p.Detail}), nil
	case chat.Audio:
		data, mediaType, ok := inlined(src)
		if !ok {
			return u, bad("is not given by data; the API takes nothing else")
		}
		return sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{Data: data, Format: audioFormat(mediaType)}), nil
	}
	var f sdk.ChatCompletionContentPartFileFileParam
	if src.FileID != "" {
		f.FileID = sdk.String(src.FileID)
		return sdk.FileContentPart(f), nil
	}
	if _, _, ok := inlined(src); !ok {
		return u, bad("is given by a URL; the API takes data and file IDs")
	}
	f.FileData = sdk.String(dataURL(src))
	f.Filename = sdk.String("file") // it must have one
	if p := p.(chat.File); p.Name != "" {
		f.Filename = sdk.String(p.Name)
	}
	return sdk.FileContentPart(f), nil
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
func name(msg chat.Message) param.Opt[string] {
	if msg.Name == "" {
		return param.Opt[string]{}
	}
	return sdk.String(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(`<|\/>`, r) {
			return '_'
		}
		return r
	}, msg.Name))
}

// maxCallID is how many bytes OpenAI takes in the ID of a tool call. Those of
// other providers in a conversation may be longer.
const maxCallID = 40

// shortID is the ID of a tool call, or a shorter one that follows from it.
func shortID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
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
