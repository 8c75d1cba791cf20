package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type responsesRequest struct {
	Model             string            `json:"model"`
	Input             []json.RawMessage `json:"input"`
	Instructions      *string           `json:"instructions"`
	Tools             []json.RawMessage `json:"tools"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
	MaxToolCalls      *int              `json:"max_tool_calls"`
	Text              *struct {
		Format *struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description *string         `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict"`
		} `json:"format"`
		Verbosity *string `json:"verbosity"`
	} `json:"text"`
	Reasoning *struct {
		Effort  *string `json:"effort"`
		Summary *string `json:"summary"`
	} `json:"reasoning"`
	Temperature      *float64          `json:"temperature"`
	TopP             *float64          `json:"top_p"`
	MaxOutputTokens  *int              `json:"max_output_tokens"`
	Include          []string          `json:"include"`
	Store            *bool             `json:"store"`
	Stream           *bool             `json:"stream"`
	ServiceTier      *string           `json:"service_tier"`
	Metadata         map[string]string `json:"metadata"`
	User             *string           `json:"user"`
	SafetyIdentifier *string           `json:"safety_identifier"`
	PromptCacheKey   *string           `json:"prompt_cache_key"`
	TopLogProbs      *int              `json:"top_logprobs"`
	Truncation       *string           `json:"truncation"`
}

var responsesIncludes = []string{
	"code_interpreter_call.outputs", "computer_call_output.output.image_url", "file_search_call.results",
	"message.input_image.image_url", "message.output_text.logprobs", "reasoning.encrypted_content",
	"web_search_call.action.sources",
}

// The fields of items, those with a question mark at will. Messages are apart.
var responsesItems = map[string]string{
	"function_call":         "call_id name arguments id? status?",
	"function_call_output":  "call_id output id? status?",
	"reasoning":             "id summary encrypted_content content? status?",
	"web_search_call":       "id status action",
	"file_search_call":      "id status queries results?",
	"code_interpreter_call": "id status container_id code outputs?",
	"image_generation_call": "id status result",
	"x":                     "id? kept?", // of the tests: one that nobody knows yet
}

// The fields of tools.
var responsesTools = map[string]string{
	"function":         "name parameters strict description?",
	"web_search":       "search_context_size? user_location? filters?",
	"file_search":      "vector_store_ids max_num_results? filters? ranking_options?",
	"code_interpreter": "container",
}

// Responses checks a request to OpenAI's Responses API that keeps nothing at the
// server.
func Responses(r *http.Request, body []byte) error {
	var q responsesRequest
	if err := decode(body, &q); err != nil {
		return err
	}
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses"):
		return fmt.Errorf("%s %s", r.Method, r.URL.Path)
	case r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		return errors.New("the headers")
	case q.Model == "" || len(q.Input) == 0:
		return errors.New("no model or no input")
	case q.Store == nil || *q.Store:
		return errors.New("store is not false: these tests keep nothing at the server")
	case len(q.Tools) == 0 && (q.ToolChoice != nil || q.ParallelToolCalls != nil || q.Tools != nil):
		return errors.New("tool_choice or parallel_tool_calls without tools")
	case q.MaxOutputTokens != nil && *q.MaxOutputTokens < 16:
		return errors.New("a limit below 16")
	}
	for _, name := range q.Include {
		if !slices.Contains(responsesIncludes, name) {
			return fmt.Errorf("%q can't be included", name)
		}
	}
	if err := q.tools(); err != nil {
		return err
	}
	if q.Text != nil && q.Text.Format != nil {
		if f := q.Text.Format; f.Type != "json_schema" || !functionName.MatchString(f.Name) || object(f.Schema) != nil || f.Strict == nil {
			return fmt.Errorf("text.format %+v", f)
		}
	}
	var open calls
	thought := false
	for i, raw := range q.Input {
		kind, err := responsesItem(raw, &open)
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if thought && (kind == "user" || kind == "system" || kind == "function_call_output") {
			return fmt.Errorf("item %d: a reasoning item comes without the item that it led to", i)
		}
		thought = kind == "reasoning"
	}
	if thought {
		return errors.New("a reasoning item comes without the item that it led to")
	}
	return open.closed()
}

func (q responsesRequest) tools() error {
	var names []string
	for _, raw := range q.Tools {
		fields, kind, err := typed(raw, responsesTools)
		if err != nil {
			return err
		}
		if kind != "function" {
			names = append(names, kind)
			continue
		}
		name, _ := text(fields["name"])
		if err := object(fields["parameters"]); err != nil || !functionName.MatchString(name) {
			return fmt.Errorf("the tool %s: %w", raw, err)
		}
		names = append(names, name)
	}
	if q.ToolChoice == nil {
		return nil
	}
	var one struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	word, ok := text(q.ToolChoice)
	switch {
	case ok && slices.Contains([]string{"none", "auto", "required"}, word):
		return nil
	case !ok && decode(q.ToolChoice, &one) == nil && (one.Type == "function" && slices.Contains(names, one.Name) || one.Name == "" && slices.Contains(names, one.Type)):
		return nil
	}
	return fmt.Errorf("tool_choice %s", q.ToolChoice)
}

// typed checks the fields of a thing against those of its type.
func typed(raw json.RawMessage, kinds map[string]string) (map[string]json.RawMessage, string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, "", err
	}
	kind, _ := text(fields["type"])
	needs, known := kinds[kind]
	if !known {
		return nil, kind, fmt.Errorf("the type %q", kind)
	}
	has := map[string]bool{}
	for name, v := range fields {
		if name != "type" {
			has[name] = v != nil
		}
	}
	return fields, kind, only(kind, needs, has)
}

// responsesItem checks an item. Kind is its type, or the role of a message.
func responsesItem(raw json.RawMessage, open *calls) (kind string, err error) {
	var of struct {
		Type *string `json:"type"`
		Role string  `json:"role"`
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return "", err
	}
	if of.Type == nil || *of.Type == "message" {
		if err := open.closed(); err != nil {
			return "", err
		}
		return of.Role, responsesMessage(raw)
	}
	fields, kind, err := typed(raw, responsesItems)
	if err != nil {
		return kind, err
	}
	id, _ := text(fields["call_id"])
	switch kind {
	case "function_call":
		name, _ := text(fields["name"])
		_, isText := text(fields["arguments"])
		if !functionName.MatchString(name) || !isText || len(id) > 64 {
			return kind, fmt.Errorf("the call %s", raw)
		}
		return kind, open.add(id)
	case "function_call_output":
		if err := open.answer(id); err != nil {
			return kind, err
		}
		return kind, responsesContent(fields["output"])
	case "reasoning":
		var r struct {
			Summary []struct {
				Type string  `json:"type"`
				Text *string `json:"text"`
			} `json:"summary"`
		}
		if json.Unmarshal(raw, &r) != nil || r.Summary == nil {
			return kind, fmt.Errorf("the summary %s", fields["summary"])
		}
		for _, s := range r.Summary {
			if s.Type != "summary_text" || s.Text == nil {
				return kind, fmt.Errorf("the summary %s", fields["summary"])
			}
		}
		if key, _ := text(fields["encrypted_content"]); key == "" {
			return kind, errors.New("the reasoning item is not found: nothing is kept where store is false")
		}
	}
	return kind, nil
}

func responsesMessage(raw json.RawMessage) error {
	var m struct {
		Type    *string         `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		ID      *string         `json:"id"`
		Status  *string         `json:"status"`
		Phase   *string         `json:"phase"`
	}
	if err := decode(raw, &m); err != nil {
		return err
	}
	switch m.Role {
	case "user", "system", "developer":
		if m.ID != nil || m.Status != nil || m.Phase != nil {
			return fmt.Errorf("what only the model's messages have in one of role %q", m.Role)
		}
		return responsesContent(m.Content)
	case "assistant":
	default:
		return fmt.Errorf("the role %q", m.Role)
	}
	if s, ok := text(m.Content); ok {
		if s == "" {
			return errors.New("a message of the model's that says nothing")
		}
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return fmt.Errorf("the content %.80s", m.Content)
	}
	for _, p := range parts {
		if _, _, err := typed(p, map[string]string{"output_text": "text annotations logprobs?", "refusal": "refusal", "x": "kept?"}); err != nil {
			return err
		}
	}
	return nil
}

// responsesContent checks what anybody but the model says.
func responsesContent(content json.RawMessage) error {
	if _, ok := text(content); ok {
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil || len(parts) == 0 {
		return fmt.Errorf("the content %.80s", content)
	}
	for _, p := range parts {
		fields, kind, err := typed(p, map[string]string{
			"input_text": "text", "input_image": "detail image_url? file_id?", "input_file": "file_id? file_url? file_data? filename?",
		})
		if err != nil {
			return err
		}
		given := 0
		for _, name := range []string{"image_url", "file_id", "file_url", "file_data"} {
			if fields[name] != nil {
				given++
			}
		}
		u, _ := text(fields["image_url"])
		switch {
		case kind != "input_text" && given != 1:
			return fmt.Errorf("%d sources of one %s", given, kind)
		case u != "" && !strings.HasPrefix(u, "http") && !strings.HasPrefix(u, "data:image/"):
			return fmt.Errorf("the image at %.40q", u)
		case (fields["file_data"] != nil) != (fields["filename"] != nil):
			return errors.New("a file with one of data and a name")
		}
	}
	return nil
}
