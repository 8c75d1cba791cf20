package openai

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// completion is an answer, or a chunk of one, as servers send it.
type completion struct {
	ID          string          `json:"id"`
	Model       string          `json:"model"`
	ServiceTier string          `json:"service_tier"`
	Choices     []choice        `json:"choices"`
	Usage       *wireUsage      `json:"usage"`
	Error       json.RawMessage `json:"error"`
}

type choice struct {
	Index        int             `json:"index"`
	Message      said            `json:"message"`
	Delta        said            `json:"delta"` // of a chunk
	FinishReason string          `json:"finish_reason"`
	LogProbs     json.RawMessage `json:"logprobs"`
}

// said is a message, or what a chunk adds to it.
type said struct {
	Content          json.RawMessage `json:"content"` // a text or parts
	Refusal          string          `json:"refusal"`
	Reasoning        json.RawMessage `json:"reasoning"`         // of compatible servers
	ReasoningContent json.RawMessage `json:"reasoning_content"` // of others
	ToolCalls        []saidCall      `json:"tool_calls"`
	Annotations      []annotation    `json:"annotations"`
}

// annotation is about a text: a page that it cites.
type annotation struct {
	Type string `json:"type"`
	URL  struct {
		URL   string `json:"url"`
		Title string `json:"title"`
		Start int    `json:"start_index"`
		End   int    `json:"end_index"`
	} `json:"url_citation"`
}

func (m said) citations() []chat.Part {
	var list []chat.Part
	for _, a := range m.Annotations {
		if a.Type == "url_citation" {
			list = append(list, chat.Citation{URL: a.URL.URL, Title: a.URL.Title, Start: a.URL.Start, End: a.URL.End, Provider: provider})
		}
	}
	return list
}

type saidCall struct {
	Index    *int   `json:"index"` // of a chunk; some servers give none
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a text; some servers send the object
	} `json:"function"`
}

type wireUsage struct {
	PromptTokens        int `json:"prompt_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens     int `json:"cached_tokens"`
		CacheWriteTokens int `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// decode reads an answer or a chunk of one.
func decode(data []byte, what string) (c completion, _ choice, ok bool, err error) {
	if err := json.Unmarshal(data, &c); err != nil {
		return c, choice{}, false, unreadable("%s is not the API's JSON: %w", what, err)
	}
	if plain(c.Error) != "" { // some send it with status 200
		return c, choice{}, false, failure(0, data)
	}
	i := slices.IndexFunc(c.Choices, func(c choice) bool { return c.Index == 0 })
	if i < 0 {
		return c, choice{}, false, nil
	}
	return c, c.Choices[i], true, nil
}

// metadata is what the server tells of an answer beside it.
func (c completion) metadata(of choice) map[string]string {
	var m map[string]string
	for key, v := range map[string]string{chat.MetadataServiceTier: c.ServiceTier, chat.MetadataLogProbs: string(of.LogProbs)} {
		if v != "" && v != "null" {
			if m == nil {
				m = map[string]string{}
			}
			m[key] = v
		}
	}
	return m
}

// answer reads an answer that isn't streamed.
func answer(body []byte) (chat.Message, error) {
	c, choice, ok, err := decode(body, "the answer")
	if err != nil {
		return chat.Message{}, err
	}
	if !ok {
		return chat.Message{}, unreadable("the answer has no choices")
	}
	said := choice.Message
	text, thought, err := saidContent(said.Content)
	if err != nil {
		return chat.Message{}, err
	}
	m := chat.Message{ID: messageID(c.ID), Role: chat.RoleAssistant, Model: c.Model, Usage: c.Usage.usage(), Metadata: c.metadata(choice)}
	if thought = said.reasoning() + thought; thought != "" {
		m.Parts = append(m.Parts, chat.Reasoning{Text: thought})
	}
	if text += said.Refusal; text != "" {
		m.Parts = append(m.Parts, chat.Text{Text: text})
		m.Parts = append(m.Parts, said.citations()...)
	}
	for _, t := range said.ToolCalls {
		if err := function(t.Type); err != nil {
			return chat.Message{}, err
		}
		id := t.ID
		if id == "" {
			id = callID()
		}
		m.Parts = append(m.Parts, chat.ToolCall{ID: id, Name: t.Function.Name, Args: plain(t.Function.Arguments)})
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
	told    map[string]string // beside the answer; not yet given out
	probs   []json.RawMessage // of the tokens so far
	cites   []chat.Part       // of the text
	calls   []call
}

// call is what is known of a tool call: its place is the Index of its pieces.
type call struct {
	index   int // the server's; -1 if it gave none
	id      string
	name    string
	guessed bool   // the ID isn't the server's
	args    []byte // so far; of a guessed one
}

// End implements [vendor.Stream]. Some servers don't tell the reason to stop, some
// don't end with [DONE]; one of them must be there.
func (s *stream) End() ([]chat.Chunk, bool) {
	if !s.ended && !(s.done && s.choice) {
		return nil, false
	}
	k := chat.Chunk{Parts: s.cites}
	if len(s.probs) > 0 {
		probs, err := plainjson.Marshal(map[string][]json.RawMessage{"content": s.probs})
		if err == nil { // they were read as JSON
			k.Metadata = map[string]string{chat.MetadataLogProbs: string(probs)}
		}
	}
	if k.Parts == nil && k.Metadata == nil {
		return nil, true
	}
	return []chat.Chunk{k}, true
}

// Event implements [vendor.Stream]. Events that only say who speaks, or nothing, wait
// for the first that does.
func (s *stream) Event(ev vendor.Event) ([]chat.Chunk, bool, error) {
	data := bytes.TrimSpace(ev.Data)
	if bytes.Equal(data, []byte("[DONE]")) {
		s.done = true
		return nil, true, nil
	}
	if ev.Name == "error" {
		return nil, false, failure(0, data)
	}
	c, choice, ok, err := decode(data, "a chunk of the stream")
	if err != nil {
		return nil, false, err
	}
	if s.id == "" {
		s.id = messageID(c.ID)
	}
	k := chat.Chunk{Usage: c.Usage.usage()}
	if ok {
		s.choice = true
		delta := choice.Delta
		text, thought, err := saidContent(delta.Content)
		if err != nil {
			return nil, false, err
		}
		k.Reasoning = delta.reasoning() + thought
		k.Text = text + delta.Refusal
		s.cites = append(s.cites, delta.citations()...)
		s.refused = s.refused || delta.Refusal != ""
		for _, t := range delta.ToolCalls {
			if err := function(t.Type); err != nil {
				return nil, false, err
			}
			k.ToolCalls = append(k.ToolCalls, s.call(t))
		}
		k.Finish = finish(choice.FinishReason, len(s.calls) > 0, s.refused)
		s.ended = s.ended || k.Finish != ""
		var probs struct{ Content []json.RawMessage }
		if json.Unmarshal(choice.LogProbs, &probs) == nil {
			s.probs = append(s.probs, probs.Content...)
		}
	}
	choice.LogProbs = nil // they are told whole, at the end
	if told := c.metadata(choice); told != nil {
		s.told = told
	}
	if k.Text == "" && k.Reasoning == "" && len(k.ToolCalls) == 0 && k.Finish == "" && k.Usage == nil {
		return nil, false, nil
	}
	k.ID, k.Model = s.id, c.Model
	k.Metadata, s.told = s.told, nil
	if !s.begun {
		k.Role = chat.RoleAssistant
		s.begun = true
	}
	return []chat.Chunk{k}, false, nil
}

// call finds out which call a piece belongs to. Pieces of a call have the same
// index. Servers that send calls whole may give none, or 0 to all: a piece that
// has a name begins a call if its ID or its name isn't that of the call with its
// index, or if that is without an ID and has all its arguments; and one without
// index and name goes on with the last.
func (s *stream) call(t saidCall) chat.ToolCallChunk {
	index := -1
	if t.Index != nil {
		index = *t.Index
	}
	args := plain(t.Function.Arguments)
	at := -1
	for i := len(s.calls) - 1; i >= 0 && at < 0; i-- {
		if c := s.calls[i]; c.index == index || index < 0 && t.Function.Name == "" {
			at = i
		}
	}
	if at >= 0 && t.Function.Name != "" {
		c := s.calls[at]
		another := t.ID != "" && !c.guessed && t.ID != c.id || c.name != "" && t.Function.Name != c.name
		whole := c.guessed && t.ID == "" && strings.HasPrefix(strings.TrimSpace(args), "{") && json.Valid(c.args)
		if another || whole || index < 0 && t.ID == "" {
			at = -1
		}
	}
	if at < 0 {
		at = len(s.calls)
		s.calls = append(s.calls, call{index: index, guessed: true})
	}
	c := &s.calls[at]
	k := chat.ToolCallChunk{Index: at, Args: args}
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

// saidContent returns the text of a message's content. Some servers send it in parts,
// some of which are thoughts.
func saidContent(field json.RawMessage) (text, thought string, err error) {
	if len(field) == 0 || json.Unmarshal(field, &text) == nil { // null, too
		return text, "", nil
	}
	type part struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"` // a text or parts
	}
	var parts []part
	if err := json.Unmarshal(field, &parts); err != nil {
		return "", "", unreadable("the content is neither a text nor parts: %w", err)
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
			return "", "", unreadable("the content has a part of the unknown type %q", p.Type)
		}
	}
	return text, thought, nil
}

// reasoning returns the thoughts that compatible servers send beside the content.
// Some send them under both names.
func (m said) reasoning() string {
	if s := text(m.ReasoningContent); s != "" {
		return s
	}
	return text(m.Reasoning)
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
		return unreadable("the model calls a tool of the unknown type %q", kind)
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

func (u *wireUsage) usage() *model.Usage {
	if u == nil {
		return nil
	}
	return &model.Usage{
		Input:      u.PromptTokens,
		Output:     u.CompletionTokens,
		CacheRead:  u.PromptTokensDetails.CachedTokens,
		CacheWrite: u.PromptTokensDetails.CacheWriteTokens,
		Reasoning:  u.CompletionTokensDetails.ReasoningTokens,
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
