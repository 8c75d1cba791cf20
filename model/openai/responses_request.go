package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

const responsesPath = "responses"

// encryptedReasoning asks for what a model thought in a form that can be sent back.
const encryptedReasoning = "reasoning.encrypted_content"

// Types of the items that a conversation is made of.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
)

// responsesWire is a request as the Responses API takes it.
type responsesWire struct {
	Model             string             `json:"model"`
	Input             []any              `json:"input"`
	Tools             []responsesTool    `json:"tools,omitempty"`
	ToolChoice        any                `json:"tool_choice,omitempty"` // a word or a chosenTool
	ParallelToolCalls *bool              `json:"parallel_tool_calls,omitempty"`
	Text              *textFormat        `json:"text,omitempty"`
	Reasoning         *reasoningSettings `json:"reasoning,omitempty"`
	Temperature       *float64           `json:"temperature,omitempty"`
	TopP              *float64           `json:"top_p,omitempty"`
	MaxOutputTokens   int                `json:"max_output_tokens,omitempty"`
	Include           []string           `json:"include,omitempty"`
	Store             bool               `json:"store"`
	Stream            bool               `json:"stream,omitempty"`
}

// responsesTool is a function. The API takes one for strict that doesn't say.
type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

type chosenTool struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type textFormat struct {
	Format struct {
		Type string `json:"type"`
		wireSchema
	} `json:"format"`
}

type reasoningSettings struct {
	Effort string `json:"effort"`
}

// inputMessage is a message of anybody. Content is a string or a list of inputPart.
type inputMessage struct {
	Role    chat.Role `json:"role"`
	Content any       `json:"content"`
}

// inputPart is what anybody but the model says.
type inputPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Detail   string  `json:"detail,omitempty"` // of an image
	ImageURL string  `json:"image_url,omitempty"`
	FileID   string  `json:"file_id,omitempty"` // of an image or a file
	FileURL  string  `json:"file_url,omitempty"`
	FileData string  `json:"file_data,omitempty"`
	Filename string  `json:"filename,omitempty"`
}

// outputText is what the model said.
type outputText struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations"`
}

type reasoningItem struct {
	Type             string        `json:"type"`
	ID               string        `json:"id"`
	Summary          []summaryText `json:"summary"`
	EncryptedContent string        `json:"encrypted_content"`
}

type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type callItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// outputItem is the result of a call. Output is a string or a list of inputPart.
type outputItem struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"`
}

// responsesCall returns the call of the Responses API for a request.
func (m *Model) responsesCall(req *model.Request, streaming bool) (vendor.Call, error) {
	var none vendor.Call
	c, err := m.settings(req)
	if err != nil {
		return none, err
	}
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"FrequencyPenalty", c.FrequencyPenalty != nil}, {"PresencePenalty", c.PresencePenalty != nil},
		{"Stop", len(c.Stop) > 0}, {"Seed", c.Seed != nil},
	} {
		if s.set {
			return none, invalid("the Responses API doesn't know the setting %s: leave it out, or use chat completions", s.name)
		}
	}
	able := vendor.AbleOf(m.table, c.Model)
	_, own := c.Extra["reasoning"]
	thinks := able.Has.Reasoning || c.Reasoning != "" || own
	w := responsesWire{
		Model:           c.Model,
		Temperature:     c.Temperature,
		TopP:            c.TopP,
		MaxOutputTokens: c.MaxTokens,
		Stream:          streaming,
	}
	if c.Reasoning != "" {
		w.Reasoning = &reasoningSettings{c.Reasoning}
	}
	if w.Include, c.Extra, err = included(c.Extra, thinks); err != nil {
		return none, err
	}
	// Models that don't think refuse what others thought.
	if w.Input, err = input(req.Messages, able, thinks || !able.Known); err != nil {
		return none, err
	}
	functions, choice, err := tools(req)
	if err != nil {
		return none, err
	}
	for _, t := range functions {
		f := t.Function
		w.Tools = append(w.Tools, responsesTool{t.Type, f.Name, f.Description, f.Parameters, f.Strict})
	}
	w.ToolChoice = choice
	if t, ok := choice.(wireTool); ok {
		w.ToolChoice = chosenTool{t.Type, t.Function.Name}
	}
	if len(req.Tools) > 0 { // it would say nothing otherwise
		w.ParallelToolCalls = c.ParallelTools
	}
	if req.Output != nil {
		f, err := outputFormat(req.Output)
		if err != nil {
			return none, err
		}
		w.Text = &textFormat{}
		w.Text.Format.Type, w.Text.Format.wireSchema = f.Type, f.JSONSchema
	}
	body, err := extended(w, c.Extra, responsesUnread, responsesGiven)
	return vendor.Call{Path: responsesPath, Header: c.Headers, Body: body, Stream: streaming}, err
}

var responsesUnread = map[string]string{
	"stream":               "is given by the method Stream",
	"background":           "asks for an answer at another time, which isn't supported",
	"previous_response_id": "asks for a conversation that the server keeps; Request.Messages is the whole of it",
	"conversation":         "asks for a conversation that the server keeps; Request.Messages is the whole of it",
}

var responsesGiven = map[string]string{
	"model": "Config.Model", "input": "Request.Messages",
	"temperature": "Config.Temperature", "top_p": "Config.TopP", "max_output_tokens": "Config.MaxTokens",
	"reasoning.effort": "Config.Reasoning", "parallel_tool_calls": "Config.ParallelTools",
	"tools": "Request.Tools", "tool_choice": "Request.ToolChoice", "tool_choice.type": "Request.ToolChoice",
	"tool_choice.name": "Request.ToolChoice", "text.format": "Request.Output", "text.format.type": "Request.Output",
	"text.format.name": "Request.Output", "text.format.description": "Request.Output",
	"text.format.schema": "Request.Output", "text.format.strict": "Request.Output",
}

// included returns what an answer should have besides, with what extra fields ask for,
// and the other extra fields.
func included(extra map[string]any, thinks bool) ([]string, map[string]any, error) {
	var list []string
	if own, ok := extra["include"]; ok {
		data, err := plainjson.Marshal(own)
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			return nil, nil, invalid(`the extra field "include" is no list of texts: %w`, err)
		}
		extra = maps.Clone(extra)
		delete(extra, "include")
	}
	if thinks && !slices.Contains(list, encryptedReasoning) {
		list = append(list, encryptedReasoning)
	}
	return list, extra, nil
}

// input maps a conversation to items.
func input(in []chat.Message, able vendor.Able, thoughts bool) ([]any, error) {
	last := vendor.Last(in)
	items := make([]any, 0, len(in))
	for i, msg := range in {
		where := fmt.Sprintf("message %d, of role %q", i, msg.Role)
		var err error
		u := inputMessage{Role: msg.Role}
		part := func(p chat.Part) (inputPart, error) { return inputPartOf(where, p) }
		switch msg.Role {
		case chat.RoleSystem:
			u.Content, err = texts(where, msg.Parts, inputText)
			items = append(items, u)
		case chat.RoleUser:
			u.Content, err = content(msg.Parts, able, i < last, inputText, part)
			items = append(items, u)
		case chat.RoleTool:
			var results []chat.ToolResult
			results, err = toolResults(where, msg)
			for _, r := range results {
				o := outputItem{Type: itemOutput, CallID: shortID(r.CallID)}
				if o.Output, err = content(r.Content, able, true, inputText, part); err != nil {
					return nil, err
				}
				items = append(items, o)
			}
		case chat.RoleAssistant:
			var said []any
			said, err = outputItems(where, msg, thoughts)
			items = append(items, said...)
		default:
			err = unknownRole(where)
		}
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

func inputText(text string) inputPart { return inputPart{Type: "input_text", Text: &text} }

// inputPartOf maps a part of what the user says or a tool returned.
func inputPartOf(where string, p chat.Part) (u inputPart, err error) {
	if t, ok := p.(chat.Text); ok {
		return inputText(t.Text), nil
	}
	src, err := source(where, p)
	if err != nil {
		return u, err
	}
	_, mediaType, data := inlined(src)
	switch p := p.(type) {
	case chat.Image:
		mediaType, _, _ = strings.Cut(mediaType, ";")
		if data && !slices.Contains([]string{"image/png", "image/jpeg", "image/webp", "image/gif"}, mediaType) {
			return u, badMedium(where, p, fmt.Sprintf("is of type %q; the API takes image/png, image/jpeg, image/webp and image/gif", mediaType))
		}
		u = inputPart{Type: "input_image", Detail: cmp.Or(p.Detail, "auto"), FileID: src.FileID}
		if src.FileID == "" {
			u.ImageURL = dataURL(src)
		}
	case chat.File:
		u = inputPart{Type: "input_file", FileID: src.FileID}
		switch {
		case data:
			u.FileData, u.Filename = dataURL(src), filename(p)
		case strings.HasPrefix(src.URL, "https://"), strings.HasPrefix(src.URL, "http://"):
			u.FileURL = src.URL
		case src.URL != "":
			return u, badMedium(where, p, fmt.Sprintf("is at %s; the API reads http, https and data in base64", src.URL))
		}
	default:
		return u, badMedium(where, p, "can't be sent: the Responses API takes images and files; chat completions take sounds, by data")
	}
	return u, nil
}

// outputItems maps what the model said, in its order. Thoughts are left out if they
// aren't wanted, were another provider's, or came without what they can be told by.
func outputItems(where string, msg chat.Message, thoughts bool) ([]any, error) {
	var items []any
	var said []outputText // of the message that isn't finished
	flush := func(head json.RawMessage) error {
		item, err := outputMessage(said, head)
		if item != nil {
			items = append(items, item)
		}
		said = nil
		return err
	}
	for _, p := range msg.Parts {
		var item any
		switch p := p.(type) {
		case chat.Text:
			if p.Text != "" {
				said = append(said, outputText{"output_text", p.Text, []json.RawMessage{}})
			}
			continue
		case chat.Citation:
			if n := len(said); n > 0 && p.Provider == provider && vendor.IsObject(json.RawMessage(p.Data)) {
				said[n-1].Annotations = append(said[n-1].Annotations, json.RawMessage(p.Data))
			}
			continue
		case chat.Image, chat.Audio, chat.File: // of a model that makes some
			said = append(said, outputText{"output_text", vendor.Told(p, errNoOwnMedia), []json.RawMessage{}})
			continue
		case chat.Reasoning:
			if !thoughts || p.ID == "" || p.Signature == "" {
				continue
			}
			r := reasoningItem{Type: itemReasoning, ID: p.ID, Summary: []summaryText{}, EncryptedContent: p.Signature}
			if p.Text != "" {
				r.Summary = append(r.Summary, summaryText{"summary_text", p.Text})
			}
			item = r
		case chat.ToolCall:
			item = callItem{itemCall, shortID(p.ID), p.Name, arguments(p)}
		case chat.Native:
			data := json.RawMessage(p.Data)
			if p.Provider != provider || !vendor.IsObject(data) {
				continue
			}
			if p.Type == itemMessage {
				if err := flush(data); err != nil {
					return nil, err
				}
				continue
			}
			item = data
		default:
			return nil, misplaced(where, p)
		}
		if err := flush(nil); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	if err := flush(nil); err != nil {
		return nil, err
	}
	// The API refuses thoughts that led to nothing, such as those of an answer that
	// was cut off.
	for len(items) > 0 {
		if _, ok := items[len(items)-1].(reasoningItem); !ok {
			break
		}
		items = items[:len(items)-1]
	}
	return items, nil
}

// outputMessage returns the message of texts, nil if there are none: with its head, if
// it had one that says more than texts do, and else in the form that every server
// takes.
func outputMessage(said []outputText, head json.RawMessage) (any, error) {
	if len(said) == 0 {
		return nil, nil
	}
	if head == nil {
		var text strings.Builder
		for _, t := range said {
			text.WriteString(t.Text)
		}
		return inputMessage{chat.RoleAssistant, text.String()}, nil
	}
	item, err := vendor.Extend(head, map[string]any{"content": said}, nil)
	if err != nil {
		return nil, invalid("the head of a message can't be sent back: %w", err)
	}
	return json.RawMessage(item), nil
}
