package gemini

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// filesURL is what the URIs of uploaded files begin with.
const filesURL = "https://generativelanguage.googleapis.com/v1beta/"

// params makes a request to the API of one of ours.
func (m *Model) params(req *model.Request) (name string, contents []*genai.Content, g *genai.GenerateContentConfig, err error) {
	fail := func(err error) (string, []*genai.Content, *genai.GenerateContentConfig, error) {
		return "", nil, nil, err
	}
	if m.err != nil {
		return fail(m.err)
	}
	c := m.defaults.With(req.Config)
	g = &genai.GenerateContentConfig{AutomaticContinuation: genai.Ptr(false)} // it repeats requests
	if err := configure(g, c); err != nil {
		return fail(err)
	}
	name = m.name
	if c.Model != "" {
		name = c.Model
	}
	if name == "" {
		return fail(invalid("no model is named"))
	}
	if err := tools(g, req); err != nil {
		return fail(err)
	}
	var schema json.RawMessage
	if req.Output != nil {
		if schema, err = vendor.OutputSchema(*req.Output); err != nil {
			return fail(invalid("%v", err))
		}
		g.ResponseMIMEType = "application/json"
	}
	if contents, err = messages(g, req.Messages); err != nil {
		return fail(err)
	}
	if _, err := json.Marshal(c.Extra); err != nil {
		return fail(invalid("Extra: %v", err))
	}
	g.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
		addEmptyTexts(body)
		if schema != nil {
			// Not by the SDK's own field: it would lose the order of the
			// properties, in which the model writes them.
			extend(body, map[string]any{"generationConfig": map[string]any{"responseJsonSchema": schema}})
		}
		extend(body, c.Extra)
		return body
	}}
	return name, contents, g, nil
}

// addEmptyTexts gives a text to the parts that carry nothing but a signature,
// which the SDK leaves out as it is empty: the API wants each part to be one of
// something.
func addEmptyTexts(body map[string]any) {
	contents, _ := body["contents"].([]map[string]any)
	for _, c := range contents {
		parts, _ := c["parts"].([]map[string]any)
		for _, p := range parts {
			bare := true
			for k := range p {
				bare = bare && (k == "thought" || k == "thoughtSignature")
			}
			if bare {
				p["text"] = ""
			}
		}
	}
}

// extend puts the fields into the object; objects in both become one.
func extend(object, fields map[string]any) {
	for k, v := range fields {
		inner, ok := v.(map[string]any)
		if !ok {
			object[k] = v
			continue
		}
		to, ok := object[k].(map[string]any)
		if !ok {
			to = map[string]any{}
			object[k] = to
		}
		extend(to, inner)
	}
}

func configure(g *genai.GenerateContentConfig, c model.Config) error {
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
		to   **float32
	}{
		{"Temperature", c.Temperature, &g.Temperature}, {"TopP", c.TopP, &g.TopP},
		{"FrequencyPenalty", c.FrequencyPenalty, &g.FrequencyPenalty}, {"PresencePenalty", c.PresencePenalty, &g.PresencePenalty},
	} {
		if f.from == nil {
			continue
		}
		if math.IsNaN(*f.from) || math.IsInf(*f.from, 0) { // the SDK would send an empty request
			return invalid("%s is %v", f.name, *f.from)
		}
		*f.to = genai.Ptr(float32(*f.from))
	}
	if c.TopK != nil {
		g.TopK = genai.Ptr(float32(*c.TopK))
	}
	if c.Seed != nil {
		g.Seed = genai.Ptr(int32(*c.Seed))
	}
	g.MaxOutputTokens = int32(c.MaxTokens)
	g.StopSequences = c.Stop

	levels := map[string]genai.ThinkingLevel{
		"minimal": genai.ThinkingLevelMinimal, "low": genai.ThinkingLevelLow,
		"medium": genai.ThinkingLevelMedium, "high": genai.ThinkingLevelHigh,
	}
	level, known := levels[c.Reasoning]
	switch {
	case c.ReasoningTokens > 0:
		g.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr(int32(c.ReasoningTokens))}
	case c.Reasoning == "":
	case c.Reasoning == "none":
		g.ThinkingConfig = &genai.ThinkingConfig{ThinkingBudget: genai.Ptr(int32(0))}
	case known:
		g.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingLevel: level}
	default:
		return invalid("Reasoning %q is not supported: it is none, minimal, low, medium or high", c.Reasoning)
	}
	return nil
}

func tools(g *genai.GenerateContentConfig, req *model.Request) error {
	var names []string
	var list []*genai.FunctionDeclaration
	strict := false
	for _, t := range req.Tools {
		f := &genai.FunctionDeclaration{Name: t.Name, Description: t.Description}
		if t.Schema != nil {
			if !isObject(t.Schema) {
				return invalid("the schema of tool %q is not a JSON object", t.Name)
			}
			f.ParametersJsonSchema = t.Schema
		}
		strict = strict || t.Strict
		list = append(list, f)
		names = append(names, t.Name)
	}

	choice := req.ToolChoice
	if len(names) == 0 {
		if choice != model.ToolAuto && choice != model.ToolNone {
			return invalid("ToolChoice %q without tools", choice)
		}
		return nil // there is nothing to choose from
	}
	g.Tools = []*genai.Tool{{FunctionDeclarations: list}}
	config := &genai.FunctionCallingConfig{}
	switch {
	case choice == model.ToolAuto && !strict:
		return nil
	case choice == model.ToolAuto:
		config.Mode = genai.FunctionCallingConfigModeValidated
	case choice == model.ToolNone:
		config.Mode = genai.FunctionCallingConfigModeNone
	case choice == model.ToolRequired:
		config.Mode = genai.FunctionCallingConfigModeAny
	case slices.Contains(names, string(choice)):
		config.Mode = genai.FunctionCallingConfigModeAny
		config.AllowedFunctionNames = []string{string(choice)}
	default:
		return invalid("ToolChoice %q is none of the tools %s", choice, strings.Join(names, ", "))
	}
	g.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: config}
	return nil
}

func isObject(data json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(data, &fields) == nil && fields != nil
}

// messages returns the conversation. A content of the API is what one side says
// until the other does.
func messages(g *genai.GenerateContentConfig, list []chat.Message) ([]*genai.Content, error) {
	var contents []*genai.Content
	var role genai.Role
	var results, parts []*genai.Part
	flush := func() {
		if len(results)+len(parts) > 0 {
			// Results answer the content before, so they come first.
			contents = append(contents, &genai.Content{Role: string(role), Parts: append(results, parts...)})
		}
		results, parts = nil, nil
	}
	speaker := func(r genai.Role) {
		if r != role {
			flush()
			role = r
		}
	}
	calls := map[string]string{} // names by ID
	for i, m := range list {
		var err error
		switch m.Role {
		case chat.RoleSystem:
			err = system(g, m)
		case chat.RoleUser:
			speaker(genai.RoleUser)
			parts, err = user(parts, m)
		case chat.RoleTool:
			speaker(genai.RoleUser)
			results, err = toolResults(results, m, calls)
		case chat.RoleAssistant:
			speaker(genai.RoleModel)
			var said []*genai.Part
			said, err = assistant(m)
			parts = append(parts, said...)
			for _, c := range m.ToolCalls() {
				calls[c.ID] = c.Name
			}
		default:
			err = fmt.Errorf("role %q is not supported", m.Role)
		}
		if err != nil {
			return nil, invalid("Messages[%d]: %v", i, err)
		}
	}
	flush()
	if len(contents) == 0 {
		return nil, invalid("Messages has nothing but messages of the system, or nothing at all")
	}
	return contents, nil
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

func system(g *genai.GenerateContentConfig, m chat.Message) error {
	for _, part := range m.Parts {
		t, ok := part.(chat.Text)
		if !ok {
			return misplaced(part, "a message of the system")
		}
		if t.Text == "" {
			continue
		}
		if g.SystemInstruction == nil {
			g.SystemInstruction = &genai.Content{Role: string(genai.RoleUser)}
		}
		g.SystemInstruction.Parts = append(g.SystemInstruction.Parts, &genai.Part{Text: t.Text})
	}
	return nil
}

func user(parts []*genai.Part, m chat.Message) ([]*genai.Part, error) {
	for _, part := range m.Parts {
		if t, ok := part.(chat.Text); ok {
			if t.Text != "" {
				parts = append(parts, &genai.Part{Text: t.Text})
			}
			continue
		}
		p, err := media(part, "a message of the user")
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func assistant(m chat.Message) ([]*genai.Part, error) {
	var parts []*genai.Part
	for i, part := range m.Parts {
		switch part := part.(type) {
		case chat.Text:
			signature, err := base64.StdEncoding.DecodeString(part.Signature)
			if err != nil {
				return nil, fmt.Errorf("the signature of a text is not Gemini's: %w", err)
			}
			switch {
			case part.Text == "" && part.Signature == "":
			case part.Text == "" && signs(m.Parts, i):
				parts[len(parts)-1].ThoughtSignature = signature
			default:
				parts = append(parts, &genai.Part{Text: part.Text, ThoughtSignature: signature})
			}
		case chat.Reasoning:
			if p := thought(part, m.Model); p != nil {
				parts = append(parts, p)
			}
		case chat.ToolCall:
			signature, err := base64.StdEncoding.DecodeString(part.Signature)
			if err != nil {
				return nil, fmt.Errorf("the signature of tool call %q is not Gemini's: %w", part.ID, err)
			}
			call := &genai.FunctionCall{ID: part.ID, Name: part.Name}
			if args, err := part.Arguments(); err != nil {
				call.Args = map[string]any{"INVALID_JSON": part.Args}
			} else if err := json.Unmarshal(args, &call.Args); err != nil {
				return nil, fmt.Errorf("arguments of tool call %q: %w", part.ID, err)
			}
			parts = append(parts, &genai.Part{FunctionCall: call, ThoughtSignature: signature})
		default:
			p, err := media(part, "a message of the assistant")
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
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

// thought returns reasoning that is Gemini's as a part, else nil. Another
// provider's signature would be refused.
func thought(r chat.Reasoning, madeBy string) *genai.Part {
	known := strings.Contains(madeBy, "gemini")
	foreign := r.Redacted || r.ID != "" || strings.Contains(madeBy, "claude")
	signature, err := base64.StdEncoding.DecodeString(r.Signature)
	if foreign || err != nil || !known && r.Signature == "" {
		return nil
	}
	return &genai.Part{Text: r.Text, Thought: true, ThoughtSignature: signature}
}

func toolResults(results []*genai.Part, m chat.Message, calls map[string]string) ([]*genai.Part, error) {
	for _, part := range m.Parts {
		r, ok := part.(chat.ToolResult)
		if !ok {
			return nil, misplaced(part, "a message of a tool")
		}
		name := r.Name
		for _, n := range []string{m.Name, calls[r.CallID]} {
			if name == "" {
				name = n
			}
		}
		if name == "" {
			return nil, fmt.Errorf("the result of tool call %q has no name of the tool, and there is no such call", r.CallID)
		}
		f := &genai.FunctionResponse{ID: r.CallID, Name: name}
		var text strings.Builder
		for _, content := range r.Content {
			if t, ok := content.(chat.Text); ok {
				text.WriteString(t.Text)
				continue
			}
			p, err := media(content, "the result of a tool")
			if err != nil {
				return nil, err
			}
			fp := &genai.FunctionResponsePart{}
			if p.InlineData != nil {
				fp.InlineData = &genai.FunctionResponseBlob{Data: p.InlineData.Data, MIMEType: p.InlineData.MIMEType}
			} else {
				fp.FileData = &genai.FunctionResponseFileData{FileURI: p.FileData.FileURI, MIMEType: p.FileData.MIMEType}
			}
			f.Parts = append(f.Parts, fp)
		}
		key := "output"
		if r.IsError {
			key = "error"
		}
		f.Response = map[string]any{key: text.String()}
		results = append(results, &genai.Part{FunctionResponse: f})
	}
	return results, nil
}

// media returns a picture, a sound or a file.
func media(part chat.Part, where string) (*genai.Part, error) {
	var s chat.Source
	var what string
	switch part := part.(type) {
	case chat.Image:
		s, what = part.Source, "image"
	case chat.Audio:
		s, what = part.Source, "audio"
	case chat.File:
		s, what = part.Source, fmt.Sprintf("file %q", part.Name)
	default:
		return nil, misplaced(part, where)
	}
	s, err := vendor.Resolve(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case s.Data != nil:
		return &genai.Part{InlineData: &genai.Blob{Data: s.Data, MIMEType: s.MIME}}, nil
	case s.URL != "":
		return &genai.Part{FileData: &genai.FileData{FileURI: s.URL, MIMEType: s.MIME}}, nil
	case strings.Contains(s.FileID, "://"):
		return &genai.Part{FileData: &genai.FileData{FileURI: s.FileID, MIMEType: s.MIME}}, nil
	}
	uri := filesURL + "files/" + strings.TrimPrefix(s.FileID, "files/")
	return &genai.Part{FileData: &genai.FileData{FileURI: uri, MIMEType: s.MIME}}, nil
}
