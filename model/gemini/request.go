package gemini

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// filesURL is what the URIs of uploaded files begin with.
const filesURL = "https://generativelanguage.googleapis.com/v1beta/"

// wire is a request as the API takes it.
type wire struct {
	Contents          []content   `json:"contents"`
	SystemInstruction *content    `json:"systemInstruction,omitempty"`
	Tools             []wireTool  `json:"tools,omitempty"`
	ToolConfig        *toolConfig `json:"toolConfig,omitempty"`
	GenerationConfig  generation  `json:"generationConfig"`
}

// content is what one side says until the other does.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

const (
	roleUser  = "user"
	roleModel = "model"
)

// part is a piece of content: one of its fields but for the last two. It is read and
// written.
type part struct {
	Text             *string           `json:"text,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`

	Thought          bool   `json:"thought,omitempty"`
	ThoughtSignature []byte `json:"thoughtSignature,omitempty"`

	whole json.RawMessage // as it came, if it is set
}

// MarshalJSON writes the part.
func (p part) MarshalJSON() ([]byte, error) {
	if p.whole != nil {
		return p.whole, nil
	}
	type plain part
	return plainjson.Marshal(plain(p))
}

type inlineData struct {
	Data        []byte `json:"data"`
	MIMEType    string `json:"mimeType,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
}

type fileData struct {
	FileURI  string `json:"fileUri"`
	MIMEType string `json:"mimeType,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`

	PartialArgs  json.RawMessage `json:"partialArgs,omitempty"`  // read only
	WillContinue bool            `json:"willContinue,omitempty"` // read only
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []part            `json:"parts,omitempty"`
}

// wireTool has schemas as they are: decoded ones would lose the order of their
// properties, in which the model writes them.
type wireTool struct {
	FunctionDeclarations []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	Calling callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type generation struct {
	Temperature      *float64        `json:"temperature,omitempty"`
	TopP             *float64        `json:"topP,omitempty"`
	TopK             *int            `json:"topK,omitempty"`
	MaxOutputTokens  int             `json:"maxOutputTokens,omitempty"`
	StopSequences    []string        `json:"stopSequences,omitempty"`
	Seed             *int64          `json:"seed,omitempty"`
	FrequencyPenalty *float64        `json:"frequencyPenalty,omitempty"`
	PresencePenalty  *float64        `json:"presencePenalty,omitempty"`
	ResponseMIMEType string          `json:"responseMimeType,omitempty"`
	ResponseSchema   json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking         *thinkingConfig `json:"thinkingConfig,omitempty"`
}

type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	Budget          *int   `json:"thinkingBudget,omitempty"`
	Level           string `json:"thinkingLevel,omitempty"`
}

// call returns the call for a request.
func (m *Model) call(req *model.Request, streaming bool) (vendor.Call, error) {
	var none vendor.Call
	if m.err != nil {
		e := *m.err
		return none, &e
	}
	c := m.defaults.With(req.Config)
	var w wire
	if err := configure(&w.GenerationConfig, c); err != nil {
		return none, err
	}
	name := cmp.Or(c.Model, m.name)
	path, err := pathOf(name)
	if err != nil {
		return none, err
	}
	if err := tools(&w, req); err != nil {
		return none, err
	}
	if req.Output != nil {
		if w.GenerationConfig.ResponseSchema, err = vendor.OutputSchema(*req.Output); err != nil {
			return none, invalid("%w", err)
		}
		w.GenerationConfig.ResponseMIMEType = "application/json"
	}
	if err := messages(&w, req.Messages, vendor.AbleOf(m.table, name)); err != nil {
		return none, err
	}
	body, err := vendor.Body(provider, w, c.Extra, given)
	if err != nil {
		return none, err
	}
	call := vendor.Call{Path: path + ":generateContent", Header: c.Headers, Body: body, Stream: streaming}
	if streaming {
		call.Path, call.Query = path+":streamGenerateContent", "alt=sse"
	}
	return call, nil
}

// given says what gives the fields of a request.
var given = map[string]string{
	"contents": "Request.Messages", "systemInstruction": "Request.Messages", "systemInstruction.parts": "Request.Messages",
	"tools": "Request.Tools", "toolConfig.functionCallingConfig.mode": "Request.ToolChoice",
	"generationConfig.temperature": "Config.Temperature", "generationConfig.topP": "Config.TopP", "generationConfig.topK": "Config.TopK",
	"generationConfig.maxOutputTokens": "Config.MaxTokens", "generationConfig.stopSequences": "Config.Stop", "generationConfig.seed": "Config.Seed",
	"generationConfig.frequencyPenalty": "Config.FrequencyPenalty", "generationConfig.presencePenalty": "Config.PresencePenalty",
	"generationConfig.responseMimeType": "Request.Output", "generationConfig.responseJsonSchema": "Request.Output",
	"generationConfig.thinkingConfig.thinkingLevel": "Config.Reasoning", "generationConfig.thinkingConfig.thinkingBudget": "Config.ReasoningTokens",
}

// pathOf returns where a model is.
func pathOf(name string) (string, error) {
	switch {
	case name == "":
		return "", invalid("no model is named")
	case strings.ContainsAny(name, "?&#% ") || strings.Contains(name, ".."):
		return "", invalid("the model's name %q can't stand in a URL", name)
	}
	return "v1beta/" + resource(name), nil
}

// resource is the API's name of a model.
func resource(name string) string {
	if strings.HasPrefix(name, "models/") || strings.HasPrefix(name, "tunedModels/") {
		return name
	}
	return "models/" + name
}

func configure(g *generation, c model.Config) error {
	switch {
	case c.MaxTokens < 0 || c.MaxTokens > math.MaxInt32:
		return invalid("MaxTokens is %d", c.MaxTokens)
	case c.ReasoningTokens < 0 || c.ReasoningTokens > math.MaxInt32:
		return invalid("ReasoningTokens is %d", c.ReasoningTokens)
	case c.Seed != nil && (*c.Seed < math.MinInt32 || *c.Seed > math.MaxInt32):
		return invalid("Seed %d is not one of 32 bits", *c.Seed)
	case c.ParallelTools != nil && !*c.ParallelTools:
		return invalid("ParallelTools can't be turned off")
	case c.Reasoning != "" && c.ReasoningTokens > 0:
		return invalid("Reasoning %q and ReasoningTokens %d: only one is supported", c.Reasoning, c.ReasoningTokens)
	}
	for _, f := range []struct {
		name string
		from *float64
	}{
		{"Temperature", c.Temperature}, {"TopP", c.TopP}, {"FrequencyPenalty", c.FrequencyPenalty}, {"PresencePenalty", c.PresencePenalty},
	} {
		if f.from != nil && (math.IsNaN(*f.from) || math.IsInf(*f.from, 0)) {
			return invalid("%s is %v", f.name, *f.from)
		}
	}
	*g = generation{
		Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK, MaxOutputTokens: c.MaxTokens, StopSequences: c.Stop,
		Seed: c.Seed, FrequencyPenalty: c.FrequencyPenalty, PresencePenalty: c.PresencePenalty,
	}
	switch {
	case c.ReasoningTokens > 0:
		g.Thinking = &thinkingConfig{IncludeThoughts: true, Budget: &c.ReasoningTokens}
	case c.Reasoning == "":
	case c.Reasoning == "none":
		g.Thinking = &thinkingConfig{Budget: new(int)}
	case slices.Contains([]string{"minimal", "low", "medium", "high"}, c.Reasoning):
		g.Thinking = &thinkingConfig{IncludeThoughts: true, Level: strings.ToUpper(c.Reasoning)}
	default:
		return invalid("Reasoning %q is not supported: it is none, minimal, low, medium or high", c.Reasoning)
	}
	return nil
}

func tools(w *wire, req *model.Request) error {
	if err := vendor.CheckTools(provider, req); err != nil || len(req.Tools) == 0 {
		return err // there is nothing to choose from
	}
	var list []function
	strict := false
	for _, t := range req.Tools {
		strict = strict || t.Strict
		list = append(list, function{t.Name, t.Description, t.Schema})
	}
	w.Tools = []wireTool{{list}}
	var c callingConfig
	switch choice := req.ToolChoice; choice {
	case model.ToolAuto:
		if !strict {
			return nil
		}
		c.Mode = "VALIDATED"
	case model.ToolNone:
		c.Mode = "NONE"
	case model.ToolRequired:
		c.Mode = "ANY"
	default:
		c.Mode, c.Allowed = "ANY", []string{string(choice)}
	}
	w.ToolConfig = &toolConfig{c}
	return nil
}

// messages puts the conversation into w.
func messages(w *wire, list []chat.Message, able vendor.Able) error {
	t := vendor.Turns[part]{
		Provider: provider, Able: able,
		Text:  func(text string) part { return part{Text: &text} },
		Empty: func(text string) bool { return text == "" },
		Media: media,
	}
	calls := map[string]string{} // names by ID
	t.Said = func(m chat.Message) ([]part, error) {
		for _, c := range m.ToolCalls() {
			calls[c.ID] = c.Name
		}
		return assistant(&t, m)
	}
	t.Tool = func(m chat.Message, r chat.ToolResult) ([]part, error) {
		return toolResult(&t, r, cmp.Or(r.Name, m.Name, calls[r.CallID]))
	}
	if err := t.Add(list, nil); err != nil {
		return err
	}
	if len(t.System) > 0 {
		w.SystemInstruction = &content{Role: roleUser, Parts: t.System}
	}
	for _, one := range t.Turns {
		role := roleUser
		if one.Role == chat.RoleAssistant {
			role = roleModel
		}
		w.Contents = append(w.Contents, content{role, one.Content})
	}
	return nil
}

func assistant(of *vendor.Turns[part], m chat.Message) ([]part, error) {
	var parts []part
	for i, p := range m.Parts {
		switch p := p.(type) {
		case chat.Text:
			signature, err := base64.StdEncoding.DecodeString(p.Signature)
			if err != nil {
				return nil, fmt.Errorf("the signature of a text is not Gemini's: %w", err)
			}
			switch {
			case p.Text == "" && p.Signature == "":
			case p.Text == "" && signs(m.Parts, i):
				parts[len(parts)-1].ThoughtSignature = signature
			default:
				parts = append(parts, part{Text: &p.Text, ThoughtSignature: signature})
			}
		case chat.Citation: // the API doesn't take them back
		case chat.Native:
			if p.Provider == provider && vendor.IsObject(json.RawMessage(p.Data)) {
				parts = append(parts, part{whole: json.RawMessage(p.Data)})
			}
		case chat.Reasoning:
			if t, ok := thought(p, m.Model); ok {
				parts = append(parts, t)
			}
		case chat.ToolCall:
			signature, err := base64.StdEncoding.DecodeString(p.Signature)
			if err != nil {
				return nil, fmt.Errorf("the signature of tool call %q is not Gemini's: %w", p.ID, err)
			}
			args, err := vendor.Arguments(p)
			if err != nil {
				return nil, err
			}
			if string(args) == "{}" {
				args = nil
			}
			parts = append(parts, part{FunctionCall: &functionCall{ID: p.ID, Name: p.Name, Args: args}, ThoughtSignature: signature})
		default:
			q, err := of.Pieces([]chat.Part{p}, vendor.OfAssistant, true)
			if err != nil {
				return nil, err
			}
			parts = append(parts, q...)
		}
	}
	return parts, nil
}

// signs reports whether the empty text at i carries the signature of the part
// before it, as the answers of this package have it.
func signs(parts []chat.Part, i int) bool {
	if i == 0 {
		return false
	}
	switch p := parts[i-1].(type) {
	case chat.Text:
		return p.Text != "" && p.Signature == ""
	case chat.Image, chat.Audio, chat.File:
		return true
	}
	return false
}

// thought returns reasoning as a part, if it is Gemini's. Another provider's
// signature would be refused.
func thought(r chat.Reasoning, madeBy string) (part, bool) {
	known := strings.Contains(madeBy, "gemini")
	foreign := r.Redacted || r.ID != "" || strings.Contains(madeBy, "claude")
	signature, err := base64.StdEncoding.DecodeString(r.Signature)
	if foreign || err != nil || !known && r.Signature == "" {
		return part{}, false
	}
	return part{Text: &r.Text, Thought: true, ThoughtSignature: signature}, true
}

// toolResult maps what a tool of a name returned: its texts, and with them what is told of
// media that can't be sent, are one.
func toolResult(of *vendor.Turns[part], r chat.ToolResult, name string) ([]part, error) {
	if name == "" {
		return nil, fmt.Errorf("the result of tool call %q has no name of the tool, and there is no such call", r.CallID)
	}
	parts, err := of.Pieces(r.Content, vendor.OfTool, true)
	f := &functionResponse{ID: r.CallID, Name: name}
	var text strings.Builder
	for _, p := range parts {
		if p.Text != nil {
			text.WriteString(*p.Text)
		} else {
			f.Parts = append(f.Parts, p)
		}
	}
	key := "output"
	if r.IsError {
		key = "error"
	}
	f.Response = map[string]string{key: text.String()}
	return []part{{FunctionResponse: f}}, err
}

// media returns a picture, a sound or a file.
func media(p chat.Part, where string) (part, error) {
	var s chat.Source
	var what string
	switch p := p.(type) {
	case chat.Image:
		s, what = p.Source, "image"
	case chat.Audio:
		s, what = p.Source, "audio"
	case chat.File:
		s, what = p.Source, fmt.Sprintf("file %q", p.Name)
	default:
		return part{}, vendor.Misplaced(p, where)
	}
	s, err := vendor.Resolve(s)
	if err != nil {
		return part{}, fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case s.Data != nil:
		return part{InlineData: &inlineData{Data: s.Data, MIMEType: s.MIME}}, nil
	case s.URL != "":
		return part{FileData: &fileData{FileURI: s.URL, MIMEType: s.MIME}}, nil
	case strings.Contains(s.FileID, "://"):
		return part{FileData: &fileData{FileURI: s.FileID, MIMEType: s.MIME}}, nil
	}
	uri := filesURL + "files/" + strings.TrimPrefix(s.FileID, "files/")
	return part{FileData: &fileData{FileURI: uri, MIMEType: s.MIME}}, nil
}
