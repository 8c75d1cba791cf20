package openai

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// answer reads an answer that isn't streamed.
func answer(body []byte) (chat.Message, error) {
	var c sdk.ChatCompletion
	if err := json.Unmarshal(body, &c); err != nil {
		return chat.Message{}, unreadable(err, "the answer is not the API's JSON")
	}
	if plain(json.RawMessage(c.JSON.ExtraFields["error"].Raw())) != "" { // some send it with status 200
		return chat.Message{}, failure(body, 0)
	}
	choice, ok := first(c.Choices, func(c sdk.ChatCompletionChoice) int64 { return c.Index })
	if !ok {
		return chat.Message{}, unreadable(nil, "the answer has no choices")
	}
	said := choice.Message
	text, thought, err := content(said.JSON.Content, said.Content)
	if err != nil {
		return chat.Message{}, err
	}
	m := chat.Message{ID: messageID(c.ID), Role: chat.RoleAssistant, Model: c.Model, Usage: usage(c.Usage)}
	if thought = reasoning(said.JSON.ExtraFields) + thought; thought != "" {
		m.Parts = append(m.Parts, chat.Reasoning{Text: thought})
	}
	if text += said.Refusal; text != "" {
		m.Parts = append(m.Parts, chat.Text{Text: text})
	}
	for _, t := range said.ToolCalls {
		if err := function(t.Type); err != nil {
			return chat.Message{}, err
		}
		id := t.ID
		if id == "" {
			id = callID()
		}
		m.Parts = append(m.Parts, chat.ToolCall{ID: id, Name: t.Function.Name, Args: t.Function.Arguments})
	}
	m.Finish = finish(choice.FinishReason, len(said.ToolCalls) > 0, said.Refusal != "")
	return m, nil
}

// stream reads an answer that comes in events.
type stream struct {
	id      string // the message's; empty before its first chunk
	begun   bool   // a chunk was given out
	choice  bool   // the answer has one
	ended   bool   // the reason to stop came
	done    bool   // the server said that nothing follows
	refused bool
	calls   []call
}

// call is what is known of a tool call: its place is the Index of its pieces.
type call struct {
	index   int64 // the server's; -1 if it gave none
	id      string
	name    string
	guessed bool   // the ID isn't the server's
	args    []byte // so far; of a guessed one
}

// complete reports whether the whole answer has come. Some servers don't tell
// the reason to stop, some don't end with [DONE]; one of them must be there.
func (s *stream) complete() bool { return s.ended || s.done && s.choice }

// event reads an event. It reports whether there is something to give out:
// events that only say who speaks, or nothing, wait for the first that does.
func (s *stream) event(ev ssestream.Event) (chat.Chunk, bool, error) {
	data := bytes.TrimSpace(ev.Data)
	if bytes.Equal(data, []byte("[DONE]")) {
		s.done = true
		return chat.Chunk{}, false, nil
	}
	if ev.Type == "error" {
		return chat.Chunk{}, false, failure(data, 0)
	}
	var c sdk.ChatCompletionChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return chat.Chunk{}, false, unreadable(err, "a chunk of the stream is not the API's JSON")
	}
	if plain(json.RawMessage(c.JSON.ExtraFields["error"].Raw())) != "" {
		return chat.Chunk{}, false, failure(data, 0)
	}
	if s.id == "" {
		s.id = messageID(c.ID)
	}
	k := chat.Chunk{Usage: usage(c.Usage)}
	if choice, ok := first(c.Choices, func(c sdk.ChatCompletionChunkChoice) int64 { return c.Index }); ok {
		s.choice = true
		delta := choice.Delta
		text, thought, err := content(delta.JSON.Content, delta.Content)
		if err != nil {
			return chat.Chunk{}, false, err
		}
		k.Reasoning = reasoning(delta.JSON.ExtraFields) + thought
		k.Text = text + delta.Refusal
		s.refused = s.refused || delta.Refusal != ""
		for _, t := range delta.ToolCalls {
			if err := function(t.Type); err != nil {
				return chat.Chunk{}, false, err
			}
			k.ToolCalls = append(k.ToolCalls, s.call(t))
		}
		k.Finish = finish(choice.FinishReason, len(s.calls) > 0, s.refused)
		s.ended = s.ended || k.Finish != ""
	}
	if k.Text == "" && k.Reasoning == "" && len(k.ToolCalls) == 0 && k.Finish == "" && k.Usage == nil {
		return chat.Chunk{}, false, nil
	}
	k.ID, k.Model = s.id, c.Model
	if !s.begun {
		k.Role = chat.RoleAssistant
		s.begun = true
	}
	return k, true, nil
}

// call finds out which call a piece belongs to. Pieces of a call have the same
// index. Servers that send calls whole may give none, or 0 to all: a piece that
// has a name begins a call if its ID or its name isn't that of the call with its
// index, or if that is without an ID and has all its arguments; and one without
// index and name goes on with the last.
func (s *stream) call(t sdk.ChatCompletionChunkChoiceDeltaToolCall) chat.ToolCallChunk {
	index := int64(-1)
	if t.JSON.Index.Valid() {
		index = t.Index
	}
	at := -1
	for i := len(s.calls) - 1; i >= 0 && at < 0; i-- {
		if c := s.calls[i]; c.index == index || index < 0 && t.Function.Name == "" {
			at = i
		}
	}
	if at >= 0 && t.Function.Name != "" {
		c := s.calls[at]
		another := t.ID != "" && !c.guessed && t.ID != c.id || c.name != "" && t.Function.Name != c.name
		whole := c.guessed && t.ID == "" && strings.HasPrefix(strings.TrimSpace(t.Function.Arguments), "{") && json.Valid(c.args)
		if another || whole || index < 0 && t.ID == "" {
			at = -1
		}
	}
	if at < 0 {
		at = len(s.calls)
		s.calls = append(s.calls, call{index: index, guessed: true})
	}
	c := &s.calls[at]
	k := chat.ToolCallChunk{Index: at, Args: t.Function.Arguments}
	if c.name == "" && t.Function.Name != "" {
		c.name = t.Function.Name
		k.Name = c.name
	}
	if c.id == "" {
		if c.id, c.guessed = t.ID, false; c.id == "" {
			c.id, c.guessed = callID(), true
		}
		k.ID = c.id
	}
	if c.guessed {
		c.args = append(c.args, k.Args...)
	}
	return k
}

// first returns the choice with index 0.
func first[C any](choices []C, index func(C) int64) (C, bool) {
	i := slices.IndexFunc(choices, func(c C) bool { return index(c) == 0 })
	if i < 0 {
		var none C
		return none, false
	}
	return choices[i], true
}

// content returns the text of a message's content. Some servers send it in parts,
// some of which are thoughts.
func content(field respjson.Field, s string) (text, thought string, err error) {
	if raw := field.Raw(); field.Valid() || raw == "" || raw == "null" {
		return s, "", nil
	}
	type part struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"` // a text or parts
	}
	var parts []part
	if err := json.Unmarshal([]byte(field.Raw()), &parts); err != nil {
		return "", "", unreadable(err, "the content is neither a text nor parts")
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			text += p.Text
		case "thinking":
			var inner []part
			if json.Unmarshal(p.Thinking, &inner) != nil {
				inner = []part{{Text: plain(p.Thinking)}}
			}
			for _, i := range inner {
				thought += i.Text
			}
		default:
			return "", "", unreadable(nil, "the content has a part of the unknown type %q", p.Type)
		}
	}
	return text, thought, nil
}

// reasoning returns the thoughts that compatible servers send beside the content.
// Some send them under both names.
func reasoning(extra map[string]respjson.Field) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if s := text(json.RawMessage(extra[name].Raw())); s != "" {
			return s
		}
	}
	return ""
}

// text returns the text of a JSON string, and nothing for other values.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// function refuses calls of tools that aren't functions.
func function(kind string) error {
	if kind != "" && kind != "function" {
		return unreadable(nil, "the model calls a tool of the unknown type %q", kind)
	}
	return nil
}

func finish(reason string, calls, refused bool) chat.FinishReason {
	switch reason {
	case "":
		return ""
	case "stop":
		switch {
		case calls: // the API says so when a tool was demanded, some servers always
			return chat.FinishToolCalls
		case refused:
			return chat.FinishFilter
		}
		return chat.FinishStop
	case "length":
		return chat.FinishLength
	case "tool_calls", "function_call":
		return chat.FinishToolCalls
	case "content_filter":
		return chat.FinishFilter
	}
	return chat.FinishOther
}

func usage(u sdk.CompletionUsage) *model.Usage {
	if u.RawJSON() == "" || u.RawJSON() == "null" {
		return nil
	}
	return &model.Usage{
		Input:      int(u.PromptTokens),
		Output:     int(u.CompletionTokens),
		CacheRead:  int(u.PromptTokensDetails.CachedTokens),
		CacheWrite: int(u.PromptTokensDetails.CacheWriteTokens),
		Reasoning:  int(u.CompletionTokensDetails.ReasoningTokens),
	}
}

// minID is the length of completions' IDs that are taken for unique. Some servers
// send none, or a number below a thousand, and a conversation takes a message
// whose ID it knows for a new version of the known one.
const minID = 20

func messageID(id string) string {
	switch {
	case id == "":
		return "chatcmpl-" + rand.Text()
	case len(id) < minID:
		return id + "-" + rand.Text()
	}
	return id
}

// callID makes the ID of a tool call that came without.
func callID() string { return "call_" + rand.Text() }
