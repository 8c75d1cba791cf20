package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// params makes a request to the API of one of ours. Extra fields are among the
// options.
func (m *Model) params(req *model.Request) (p sdk.MessageNewParams, opts []option.RequestOption, err error) {
	if m.err != nil {
		return p, nil, m.err
	}
	c := m.defaults.With(req.Config)
	if err := configure(&p, c, m.name); err != nil {
		return p, nil, err
	}
	if err := tools(&p, req, c.ParallelTools); err != nil {
		return p, nil, err
	}
	if req.Output != nil {
		schema, err := vendor.OutputSchema(*req.Output)
		if err != nil {
			return p, nil, invalid("%v", err)
		}
		// As it is: a decoded schema would lose the order of its properties, in
		// which the model writes them.
		p.OutputConfig.Format = param.Override[sdk.JSONOutputFormatParam](
			json.RawMessage(fmt.Sprintf(`{"type":"json_schema","schema":%s}`, schema)))
	}
	if err := messages(&p, req.Messages); err != nil {
		return p, nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(c.Extra)) {
		if k == "stream" {
			return p, nil, invalid(`Extra["stream"] is not allowed: use Generate or Stream`)
		}
		opts = append(opts, option.WithJSONSet(param.EscapeSJSONKey(k), c.Extra[k]))
	}
	return p, opts, nil
}

func configure(p *sdk.MessageNewParams, c model.Config, name string) error {
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
	p.Model = name
	if c.Model != "" {
		p.Model = c.Model
	}
	if p.Model == "" {
		return invalid("no model is named")
	}
	p.MaxTokens = int64(c.MaxTokens)
	if c.MaxTokens == 0 {
		p.MaxTokens = DefaultMaxTokens + int64(c.ReasoningTokens)
	}
	if c.Temperature != nil {
		p.Temperature = param.NewOpt(*c.Temperature)
	}
	if c.TopP != nil {
		p.TopP = param.NewOpt(*c.TopP)
	}
	if c.TopK != nil {
		p.TopK = param.NewOpt(int64(*c.TopK))
	}
	p.StopSequences = c.Stop

	efforts := []string{"low", "medium", "high", "xhigh", "max"}
	switch {
	case c.Reasoning == "":
	case c.Reasoning == "none":
		disabled := sdk.NewThinkingConfigDisabledParam()
		p.Thinking.OfDisabled = &disabled
	case slices.Contains(efforts, c.Reasoning):
		p.OutputConfig.Effort = sdk.OutputConfigEffort(c.Reasoning)
		p.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{}
	default:
		return invalid("Reasoning %q is not supported: it is none or one of %s", c.Reasoning, strings.Join(efforts, ", "))
	}
	if c.ReasoningTokens > 0 {
		// The typed form makes the SDK write warnings to the program's standard
		// error.
		p.Thinking = param.Override[sdk.ThinkingConfigParamUnion](
			json.RawMessage(fmt.Sprintf(`{"type":"enabled","budget_tokens":%d}`, c.ReasoningTokens)))
	}
	return nil
}

func tools(p *sdk.MessageNewParams, req *model.Request, parallel *bool) error {
	var names []string
	for _, t := range req.Tools {
		schema := json.RawMessage(`{"type":"object","properties":{}}`)
		if t.Schema != nil {
			if !isObject(t.Schema) {
				return invalid("the schema of tool %q is not a JSON object", t.Name)
			}
			schema = t.Schema
		}
		tool := &sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		if t.Strict {
			tool.Strict = param.NewOpt(true)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool})
		names = append(names, t.Name)
	}

	choice := req.ToolChoice
	if len(names) == 0 {
		if choice != model.ToolAuto && choice != model.ToolNone {
			return invalid("ToolChoice %q without tools", choice)
		}
		return nil // there is nothing to choose from
	}
	var serial param.Opt[bool]
	if parallel != nil {
		serial = param.NewOpt(!*parallel)
	}
	switch {
	case choice == model.ToolAuto:
		if parallel != nil {
			p.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{DisableParallelToolUse: serial}
		}
	case choice == model.ToolNone:
		none := sdk.NewToolChoiceNoneParam()
		p.ToolChoice.OfNone = &none
	case choice == model.ToolRequired:
		p.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{DisableParallelToolUse: serial}
	case slices.Contains(names, string(choice)):
		p.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: string(choice), DisableParallelToolUse: serial}
	default:
		return invalid("ToolChoice %q is none of the tools %s", choice, strings.Join(names, ", "))
	}
	return nil
}

func isObject(data json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(data, &fields) == nil && fields != nil
}

// messages puts the conversation into p. A message of the API is what one side
// says until the other does.
func messages(p *sdk.MessageNewParams, list []chat.Message) error {
	var role sdk.MessageParamRole
	var results, blocks []sdk.ContentBlockParamUnion
	flush := func() {
		if len(results)+len(blocks) > 0 {
			// Results answer the message before, so they come first.
			p.Messages = append(p.Messages, sdk.MessageParam{Role: role, Content: append(results, blocks...)})
		}
		results, blocks = nil, nil
	}
	speaker := func(r sdk.MessageParamRole) {
		if r != role {
			flush()
			role = r
		}
	}
	for i, m := range list {
		var err error
		switch m.Role {
		case chat.RoleSystem:
			err = system(p, m)
		case chat.RoleUser:
			speaker(sdk.MessageParamRoleUser)
			blocks, err = user(blocks, m)
		case chat.RoleTool:
			speaker(sdk.MessageParamRoleUser)
			results, err = toolResults(results, m)
		case chat.RoleAssistant:
			speaker(sdk.MessageParamRoleAssistant)
			blocks, err = assistant(blocks, m)
		default:
			err = fmt.Errorf("role %q is not supported", m.Role)
		}
		if err != nil {
			return invalid("Messages[%d]: %v", i, err)
		}
	}
	flush()
	if len(p.Messages) == 0 {
		return invalid("Messages has nothing but messages of the system, or nothing at all")
	}
	return nil
}

// misplaced is the error for a part that can't stand where it does.
func misplaced(p chat.Part, where string) error {
	var what string
	switch p.(type) {
	case chat.Text:
		what = "text"
	case chat.Image:
		what = "an image"
	case chat.Audio:
		what = "audio"
	case chat.File:
		what = "a file"
	case chat.Reasoning:
		what = "reasoning"
	case chat.ToolCall:
		what = "a tool call"
	case chat.ToolResult:
		what = "a tool result"
	default:
		what = fmt.Sprintf("a part of type %T", p)
	}
	return fmt.Errorf("%s is not supported in %s", what, where)
}

// blank reports whether a text says nothing: the API refuses empty blocks, and
// messages of white space alone, though its models write them.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

func system(p *sdk.MessageNewParams, m chat.Message) error {
	for _, part := range m.Parts {
		t, ok := part.(chat.Text)
		if !ok {
			return misplaced(part, "a message of the system")
		}
		if !blank(t.Text) {
			p.System = append(p.System, sdk.TextBlockParam{Text: t.Text})
		}
	}
	return nil
}

func user(blocks []sdk.ContentBlockParamUnion, m chat.Message) ([]sdk.ContentBlockParamUnion, error) {
	for _, part := range m.Parts {
		var b sdk.ContentBlockParamUnion
		var err error
		switch part := part.(type) {
		case chat.Text:
			if blank(part.Text) {
				continue
			}
			b.OfText = &sdk.TextBlockParam{Text: part.Text}
		case chat.Image:
			b.OfImage, err = image(part)
		case chat.File:
			b.OfDocument, err = document(part)
		default:
			err = misplaced(part, "a message of the user")
		}
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func assistant(blocks []sdk.ContentBlockParamUnion, m chat.Message) ([]sdk.ContentBlockParamUnion, error) {
	for _, part := range m.Parts {
		var b sdk.ContentBlockParamUnion
		switch part := part.(type) {
		case chat.Text:
			if blank(part.Text) {
				continue
			}
			b.OfText = &sdk.TextBlockParam{Text: part.Text}
		case chat.Reasoning:
			// Only what Anthropic signed is accepted back.
			if part.Signature == "" || part.ID != "" || strings.Contains(m.Model, "gemini") {
				continue
			}
			if part.Redacted {
				b.OfRedactedThinking = &sdk.RedactedThinkingBlockParam{Data: part.Signature}
			} else {
				b.OfThinking = &sdk.ThinkingBlockParam{Thinking: part.Text, Signature: part.Signature}
			}
		case chat.ToolCall:
			args, err := part.Arguments()
			if err != nil {
				if args, err = json.Marshal(map[string]string{"INVALID_JSON": part.Args}); err != nil {
					return nil, fmt.Errorf("arguments of tool call %q: %w", part.ID, err)
				}
			}
			b.OfToolUse = &sdk.ToolUseBlockParam{ID: part.ID, Name: part.Name, Input: args}
		default:
			return nil, misplaced(part, "a message of the assistant")
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func toolResults(results []sdk.ContentBlockParamUnion, m chat.Message) ([]sdk.ContentBlockParamUnion, error) {
	for _, part := range m.Parts {
		r, ok := part.(chat.ToolResult)
		if !ok {
			return nil, misplaced(part, "a message of a tool")
		}
		b := &sdk.ToolResultBlockParam{ToolUseID: r.CallID}
		if r.IsError {
			b.IsError = param.NewOpt(true)
		}
		for _, content := range r.Content {
			var c sdk.ToolResultBlockParamContentUnion
			var err error
			switch content := content.(type) {
			case chat.Text:
				if blank(content.Text) {
					continue
				}
				c.OfText = &sdk.TextBlockParam{Text: content.Text}
			case chat.Image:
				c.OfImage, err = image(content)
			case chat.File:
				c.OfDocument, err = document(content)
			default:
				err = misplaced(content, "the result of a tool")
			}
			if err != nil {
				return nil, err
			}
			b.Content = append(b.Content, c)
		}
		results = append(results, sdk.ContentBlockParamUnion{OfToolResult: b})
	}
	return results, nil
}

func image(i chat.Image) (*sdk.ImageBlockParam, error) {
	s, err := vendor.Resolve(i.Source)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	b := &sdk.ImageBlockParam{}
	switch {
	case s.FileID != "":
		b.Source.OfFile = &sdk.FileImageSourceParam{FileID: s.FileID}
	case s.URL != "":
		b.Source.OfURL = &sdk.URLImageSourceParam{URL: s.URL}
	default:
		switch t := sdk.Base64ImageSourceMediaType(s.MIME); t {
		case sdk.Base64ImageSourceMediaTypeImageJPEG, sdk.Base64ImageSourceMediaTypeImagePNG,
			sdk.Base64ImageSourceMediaTypeImageGIF, sdk.Base64ImageSourceMediaTypeImageWebP:
			b.Source.OfBase64 = &sdk.Base64ImageSourceParam{MediaType: t, Data: base64.StdEncoding.EncodeToString(s.Data)}
		default:
			return nil, fmt.Errorf("image: media type %q is not supported", s.MIME)
		}
	}
	return b, nil
}

func document(f chat.File) (*sdk.DocumentBlockParam, error) {
	s, err := vendor.Resolve(f.Source)
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", f.Name, err)
	}
	b := &sdk.DocumentBlockParam{}
	if f.Name != "" {
		b.Title = param.NewOpt(f.Name)
	}
	switch {
	case s.FileID != "":
		b.Source.OfFile = &sdk.FileDocumentSourceParam{FileID: s.FileID}
	case s.URL != "" && (s.MIME == "" || s.MIME == "application/pdf"):
		b.Source.OfURL = &sdk.URLPDFSourceParam{URL: s.URL}
	case s.URL != "":
		return nil, fmt.Errorf("file %q: media type %q is not supported by URL: only PDF is", f.Name, s.MIME)
	case s.MIME == "application/pdf":
		b.Source.OfBase64 = &sdk.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(s.Data)}
	case strings.HasPrefix(s.MIME, "text/") && utf8.Valid(s.Data):
		b.Source.OfText = &sdk.PlainTextSourceParam{Data: string(s.Data)}
	case strings.HasPrefix(s.MIME, "text/"):
		return nil, fmt.Errorf("file %q: the text is not UTF-8", f.Name)
	default:
		return nil, fmt.Errorf("file %q: media type %q is not supported", f.Name, s.MIME)
	}
	return b, nil
}
