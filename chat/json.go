package chat

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/jsonscan"
	"github.com/superstep-dev/superstep/internal/plainjson"
)

// wire is a message as LangChain writes it, and what else is read.
type wire struct {
	Type string `json:"type,omitempty"`
	Role string `json:"role,omitempty"` // OpenAI's name of type
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`

	Content json.RawMessage `json:"content"` // a string or blocks

	ToolCalls        []wireCall `json:"tool_calls,omitempty"`
	InvalidToolCalls []wireCall `json:"invalid_tool_calls,omitempty"`

	ToolCallID string          `json:"tool_call_id,omitempty"`
	Status     string          `json:"status,omitempty"`
	Artifact   json.RawMessage `json:"artifact,omitempty"`

	UsageMetadata    *wireUsage        `json:"usage_metadata,omitempty"`
	AdditionalKwargs wireMembers       `json:"additional_kwargs,omitempty"`
	ResponseMetadata wireResponse      `json:"response_metadata,omitzero"`
	Metadata         map[string]string `json:"metadata,omitempty"`

	Refusal          string `json:"refusal,omitempty"`           // OpenAI's, read only
	ReasoningContent string `json:"reasoning_content,omitempty"` // of compatible servers, read only
}

type wireCall struct {
	Name     string          `json:"name,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"` // an object; of invalid calls a string
	ID       string          `json:"id,omitempty"`
	Error    string          `json:"error,omitempty"`
	Type     string          `json:"type,omitempty"`
	Extras   *wireExtras     `json:"extras,omitempty"`
	Function *wireFunction   `json:"function,omitempty"` // OpenAI's form
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireUsage struct {
	Input  int            `json:"input_tokens"`
	Output int            `json:"output_tokens"`
	Total  int            `json:"total_tokens"`
	In     *wireInDetail  `json:"input_token_details,omitempty"`
	Out    *wireOutDetail `json:"output_token_details,omitempty"`
}

type wireInDetail struct {
	Read  int `json:"cache_read,omitempty"`
	Write int `json:"cache_creation,omitempty"`
}

type wireOutDetail struct {
	Reasoning int `json:"reasoning,omitempty"`
}

// wireMembers is an object, or what stands in the place of one, which is none.
type wireMembers map[string]json.RawMessage

func (w *wireMembers) UnmarshalJSON(data []byte) error {
	var o map[string]json.RawMessage
	if json.Unmarshal(data, &o) == nil && len(o) > 0 {
		*w = o
	}
	return nil
}

type wireResponse struct {
	Model  string `json:"model_name,omitempty"`
	Finish string `json:"finish_reason,omitempty"`

	rest wireMembers // all others
}

func (w wireResponse) IsZero() bool { return w.Model == "" && w.Finish == "" && len(w.rest) == 0 }

func (w *wireResponse) UnmarshalJSON(data []byte) error {
	if err := w.rest.UnmarshalJSON(data); err != nil {
		return err
	}
	for name, to := range map[string]*string{"model_name": &w.Model, "finish_reason": &w.Finish} {
		if json.Unmarshal(w.rest[name], to) == nil {
			delete(w.rest, name)
		}
	}
	if len(w.rest) == 0 {
		w.rest = nil
	}
	return nil
}

func (w wireResponse) MarshalJSON() ([]byte, error) {
	type known wireResponse
	data, err := plainjson.Marshal(known(w))
	if err != nil || len(w.rest) == 0 {
		return data, err
	}
	rest, err := plainjson.Marshal(w.rest)
	if err != nil || len(data) == len("{}") {
		return rest, err
	}
	return slices.Concat(data[:len(data)-1], []byte{','}, rest[1:]), nil
}

// wireExtras is what LangChain has no field for.
type wireExtras struct {
	Signature  string `json:"signature,omitempty"`
	Redacted   bool   `json:"redacted,omitempty"`
	Detail     string `json:"detail,omitempty"`
	Transcript string `json:"transcript,omitempty"`
	Filename   string `json:"filename,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Type       string `json:"type,omitempty"`
	Data       string `json:"data,omitempty"`
}

// wireCitation is a citation of LangChain's standard content, which stands among the
// annotations of a text. Without a text before it, it is a block of its own.
type wireCitation struct {
	Type   string      `json:"type"`
	URL    string      `json:"url,omitempty"`
	Title  string      `json:"title,omitempty"`
	Cited  string      `json:"cited_text,omitempty"`
	Start  int         `json:"start_index,omitempty"`
	End    int         `json:"end_index,omitempty"`
	Extras *wireExtras `json:"extras,omitempty"`
}

func citationOut(c Citation) wireCitation {
	return wireCitation{"citation", c.URL, c.Title, c.Text, c.Start, c.End, extras(wireExtras{Provider: c.Provider, Data: c.Data})}
}

func (w wireCitation) citation() Citation {
	c := Citation{URL: w.URL, Title: w.Title, Text: w.Cited, Start: w.Start, End: w.End}
	if w.Extras != nil {
		c.Provider, c.Data = w.Extras.Provider, w.Extras.Data
	}
	return c
}

// block is a piece of content: LangChain's standard blocks, and those of
// OpenAI, Anthropic and earlier versions of LangChain, which are read only.
type block struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`

	Text        *string           `json:"text,omitempty"`
	Annotations []json.RawMessage `json:"annotations,omitempty"`
	Reasoning   *string           `json:"reasoning,omitempty"`

	URL    string `json:"url,omitempty"`
	Base64 string `json:"base64,omitempty"`
	FileID string `json:"file_id,omitempty"`
	MIME   string `json:"mime_type,omitempty"`

	Name  string          `json:"name,omitempty"`  // tool_call
	Args  json.RawMessage `json:"args,omitempty"`  // tool_call
	Error string          `json:"error,omitempty"` // invalid_tool_call

	ToolCallID string          `json:"tool_call_id,omitempty"` // tool_result
	Content    json.RawMessage `json:"content,omitempty"`
	IsError    bool            `json:"is_error,omitempty"`
	Artifact   json.RawMessage `json:"artifact,omitempty"`

	Value *wireExtras `json:"value,omitempty"` // non_standard

	Extras *wireExtras `json:"extras,omitempty"`
}

// foreign are the blocks' members that are read only.
type foreign struct {
	MIMEType   string          `json:"mimeType"`
	Data       string          `json:"data"`
	FileID     string          `json:"fileId"`
	ImageURL   json.RawMessage `json:"image_url"` // {"url", "detail"} or a string
	InputAudio *struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	File *struct {
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
		Name string `json:"filename"`
	} `json:"file"`
	Source *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
		FileID    string `json:"file_id"`
	} `json:"source"`
	Metadata *struct {
		Name     string `json:"name"`
		Filename string `json:"filename"`
	} `json:"metadata"`
	Title     string          `json:"title"` // of a document
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Input     json.RawMessage `json:"input"`       // tool_use
	ToolUseID string          `json:"tool_use_id"` // tool_result
	Refusal   string          `json:"refusal"`
}

// MarshalJSON returns the message as LangChain writes it: {"type": "human",
// "ai", "system" or "tool", "id", "content", …}, which LangGraph's clients
// read. The content is a string if the message has one text and nothing else
// but calls of tools after it, and else a list of LangChain's standard content
// blocks. Every message but one whose parts can't be encoded reads back as it
// was; a tool's result without a name then has that of its message.
func (m Message) MarshalJSON() ([]byte, error) {
	if b, ok := m.appendSimple(nil); ok {
		return b, nil
	}
	w := wire{ID: m.ID, Name: m.Name, Metadata: m.Metadata}
	switch m.Role {
	case RoleSystem:
		w.Type = "system"
	case RoleUser:
		w.Type = "human"
	case RoleAssistant:
		w.Type = "ai"
	case RoleTool:
		w.Type = "tool"
	default:
		return nil, &RoleError{Role: string(m.Role)}
	}
	parts := m.Parts
	if r, ok := alone[ToolResult](parts); ok && m.Role == RoleTool {
		if w.Name == r.Name || r.Name == "" {
			w.ToolCallID, w.Artifact = r.CallID, r.Artifact
			if r.IsError {
				w.Status = "error"
			}
			parts = r.Content
		}
	}
	calls := trailingCalls(parts)
	inline := slices.ContainsFunc(parts[:len(parts)-calls], isCall)
	for _, p := range parts {
		if c, ok := p.(ToolCall); ok {
			w.addCall(c)
		}
	}
	if !inline {
		parts = parts[:len(parts)-calls]
	}
	var err error
	if w.Content, err = marshalContent(parts); err != nil {
		return nil, err
	}
	if m.Usage != nil {
		w.UsageMetadata = usageOut(*m.Usage)
	}
	w.ResponseMetadata = wireResponse{Model: m.Model, Finish: string(m.Finish)}
	if m.Extra != nil {
		w.AdditionalKwargs, w.ResponseMetadata.rest = m.Extra.AdditionalKwargs, m.Extra.ResponseMetadata
	}
	return plainjson.Marshal(w)
}

// appendSimple appends what MarshalJSON returns for a message of a person or a model that
// is a text and nothing else, as most are.
func (m *Message) appendSimple(b []byte) (_ []byte, ok bool) {
	t, ok := alone[Text](m.Parts)
	if !ok || t.Signature != "" || m.Model != "" || m.Finish != "" || m.Usage != nil || m.Extra != nil || len(m.Metadata) > 1 {
		return b, false
	}
	member := func(name, value string) {
		if value != "" {
			b = plainjson.AppendString(append(append(append(b, ',', '"'), name...), '"', ':'), value)
		}
	}
	switch m.Role {
	case RoleUser:
		b = append(b, `{"type":"human"`...)
	case RoleAssistant:
		b = append(b, `{"type":"ai"`...)
	default:
		return b, false
	}
	member("id", m.ID)
	member("name", m.Name)
	b = plainjson.AppendString(append(b, `,"content":`...), t.Text)
	for k, v := range m.Metadata { // one at most
		b = plainjson.AppendString(append(b, `,"metadata":{`...), k)
		b = append(plainjson.AppendString(append(b, ':'), v), '}')
	}
	return append(b, '}'), true
}

func isCall(p Part) bool { _, ok := p.(ToolCall); return ok }

// trailingCalls returns how many tool calls, of which broken ones stand last,
// parts end with: those that a reader of the lists of calls puts back where they
// were.
func trailingCalls(parts []Part) int {
	n, valid := 0, false
	for n < len(parts) {
		c, ok := parts[len(parts)-1-n].(ToolCall)
		if !ok {
			break
		}
		if _, err := c.Arguments(); err == nil {
			valid = true
		} else if valid {
			break
		}
		n++
	}
	return n
}

func alone[P Part](parts []Part) (P, bool) {
	if len(parts) != 1 {
		var none P
		return none, false
	}
	p, ok := parts[0].(P)
	return p, ok
}

func (w *wire) addCall(c ToolCall) {
	wc := wireCall{ID: c.ID, Name: c.Name, Type: "tool_call"}
	if c.Signature != "" {
		wc.Extras = &wireExtras{Signature: c.Signature}
	}
	args, err := callArgs(c)
	wc.Args = args
	if err != nil {
		wc.Type, wc.Error = "invalid_tool_call", err.Error()
		w.InvalidToolCalls = append(w.InvalidToolCalls, wc)
		return
	}
	w.ToolCalls = append(w.ToolCalls, wc)
}

// callArgs returns the arguments as they are written: an object, or a string
// together with what is wrong with it.
func callArgs(c ToolCall) (json.RawMessage, error) {
	args, err := c.Arguments()
	if err != nil {
		text, _ := plainjson.Marshal(c.Args)
		return text, err
	}
	return args, nil
}

func marshalContent(parts []Part) (json.RawMessage, error) {
	if len(parts) == 0 {
		return json.RawMessage(`""`), nil
	}
	if t, ok := alone[Text](parts); ok && t.Signature == "" {
		return plainjson.Marshal(t.Text)
	}
	blocks := make([]any, 0, len(parts))
	var text *block // the last, if it is a text's
	for _, p := range parts {
		if c, ok := p.(Citation); ok {
			w := citationOut(c)
			if text == nil {
				blocks = append(blocks, w)
				continue
			}
			data, err := plainjson.Marshal(w)
			if err != nil {
				return nil, err
			}
			text.Annotations = append(text.Annotations, data)
			continue
		}
		b, err := blockOf(p)
		if err != nil {
			return nil, err
		}
		if text = nil; b.Type == "text" {
			text = &b
		}
		blocks = append(blocks, &b)
	}
	return plainjson.Marshal(blocks)
}

func blockOf(p Part) (block, error) {
	switch p := p.(type) {
	case Text:
		return block{Type: "text", Text: &p.Text, Extras: extras(wireExtras{Signature: p.Signature})}, nil
	case Reasoning:
		return block{Type: "reasoning", ID: p.ID, Reasoning: &p.Text, Extras: extras(wireExtras{Signature: p.Signature, Redacted: p.Redacted})}, nil
	case Image:
		return media("image", p.Source, wireExtras{Detail: p.Detail}), nil
	case Audio:
		return media("audio", p.Source, wireExtras{Transcript: p.Transcript}), nil
	case File:
		return media("file", p.Source, wireExtras{Filename: p.Name}), nil
	case ToolCall:
		b := block{Type: "tool_call", ID: p.ID, Name: p.Name, Extras: extras(wireExtras{Signature: p.Signature})}
		args, err := callArgs(p)
		if b.Args = args; err != nil {
			b.Type, b.Error = "invalid_tool_call", err.Error()
		}
		return b, nil
	case Native:
		// The data as a string, which stays as it is whoever writes it again.
		return block{Type: "non_standard", Value: &wireExtras{Provider: p.Provider, Type: p.Type, Data: p.Data}}, nil
	case ToolResult:
		content, err := marshalContent(p.Content)
		return block{Type: "tool_result", ToolCallID: p.CallID, Name: p.Name, Content: content, IsError: p.IsError, Artifact: p.Artifact}, err
	}
	return block{}, fmt.Errorf("chat: a message holds a part of type %T", p)
}

func extras(e wireExtras) *wireExtras {
	if e == (wireExtras{}) {
		return nil
	}
	return &e
}

func media(kind string, s Source, e wireExtras) block {
	b := block{Type: kind, URL: s.URL, FileID: s.FileID, MIME: s.MIME, Extras: extras(e)}
	if len(s.Data) > 0 {
		b.Base64 = base64.StdEncoding.EncodeToString(s.Data)
	}
	return b
}

func usageOut(u Usage) *wireUsage {
	w := &wireUsage{Input: u.Input, Output: u.Output, Total: u.Total()}
	if u.CacheRead != 0 || u.CacheWrite != 0 {
		w.In = &wireInDetail{Read: u.CacheRead, Write: u.CacheWrite}
	}
	if u.Reasoning != 0 {
		w.Out = &wireOutDetail{Reasoning: u.Reasoning}
	}
	return w
}

// RoleError says that a message has a role that there isn't.
type RoleError struct{ Role string }

func (e *RoleError) Error() string {
	return fmt.Sprintf("chat: unknown role %q: want system, user (human), assistant (ai) or tool", e.Role)
}

// plain returns an object as LangChain's classes write messages. What JSON.stringify
// makes of them in JavaScript, and dumps in Python, has that inside:
//
//	{"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {…}}
func plain(data []byte) []byte {
	if !bytes.Contains(data, []byte(`"lc"`)) {
		return data
	}
	var c struct {
		Version int                        `json:"lc"`
		Type    string                     `json:"type"`
		Class   []string                   `json:"id"`
		Members map[string]json.RawMessage `json:"kwargs"`
	}
	if json.Unmarshal(data, &c) != nil || c.Version != 1 || c.Type != "constructor" || len(c.Class) == 0 || c.Members == nil {
		return data
	}
	class := c.Class[len(c.Class)-1]
	if name, ok := strings.CutSuffix(strings.TrimSuffix(class, "Chunk"), "Message"); ok {
		class = strings.ToLower(name)
	}
	delete(c.Members, "type") // Python has it, too
	if class != "chat" {      // which has a role
		c.Members["type"], _ = plainjson.Marshal(class) // of a string
	}
	out, _ := plainjson.Marshal(c.Members) // of JSON
	return out
}

// UnmarshalJSON reads a message as LangChain, LangGraph's clients, OpenAI's
// chat completions or Anthropic write it, and as LangChain's classes are
// serialised. A member that it doesn't know is ignored, a role or a block of
// content that it doesn't know is an error.
func (m *Message) UnmarshalJSON(data []byte) error {
	if msg, ok := readSimple(data); ok {
		*m = msg
		return nil
	}
	var w wire
	if err := json.Unmarshal(plain(data), &w); err != nil {
		return err
	}
	msg, err := w.message()
	if err != nil {
		return err
	}
	*m = msg
	return nil
}

// readSimple reads what appendSimple writes.
func readSimple(data []byte) (m Message, ok bool) {
	ok = jsonscan.Members(data, func(key, value []byte) bool {
		if string(key) == "metadata" && m.Metadata == nil {
			m.Metadata = map[string]string{}
			return jsonscan.Members(value, func(key, value []byte) (ok bool) {
				m.Metadata[string(key)], ok = jsonscan.Text(value)
				return ok
			})
		}
		s, ok := jsonscan.Text(value)
		switch string(key) {
		case "type":
			switch s {
			case "human":
				m.Role = RoleUser
			case "ai":
				m.Role = RoleAssistant
			default:
				return false
			}
		case "id":
			m.ID = s
		case "name":
			m.Name = s
		case "content":
			m.Parts = []Part{Text{Text: s}}
			ok = ok && s != ""
		default:
			return false
		}
		return ok
	})
	return m, ok && m.Role != "" && m.Parts != nil
}

func (w *wire) message() (Message, error) {
	m := Message{ID: w.ID, Name: w.Name, Metadata: w.Metadata}
	role := w.Type
	if role == "" || role == "message" {
		role = w.Role
	}
	switch role {
	case "system", "developer":
		m.Role = RoleSystem
	case "human", "user":
		m.Role = RoleUser
	case "ai", "assistant", "AIMessageChunk":
		m.Role = RoleAssistant
	case "tool":
		m.Role = RoleTool
	default:
		return m, &RoleError{Role: role}
	}
	parts, err := unmarshalContent(w.Content)
	if err != nil {
		return m, err
	}
	if w.ReasoningContent != "" {
		parts = append([]Part{Reasoning{Text: w.ReasoningContent}}, parts...)
	}
	if w.Refusal != "" {
		parts = append(parts, Text{Text: w.Refusal})
		m.Finish = FinishFilter
	}
	inline := slices.ContainsFunc(parts, isCall)
	if !inline {
		for _, c := range slices.Concat(w.ToolCalls, w.InvalidToolCalls) {
			parts = append(parts, c.call())
		}
	}
	if _, whole := alone[ToolResult](parts); m.Role == RoleTool && !(whole && w.ToolCallID == "") {
		r := ToolResult{CallID: w.ToolCallID, Name: w.Name, Content: parts, IsError: w.Status == "error"}
		if len(w.Artifact) > 0 && string(w.Artifact) != "null" {
			r.Artifact = w.Artifact
		}
		parts = []Part{r}
	}
	m.Parts = parts
	if u := w.UsageMetadata; u != nil {
		m.Usage = &Usage{Input: u.Input, Output: u.Output}
		if u.In != nil {
			m.Usage.CacheRead, m.Usage.CacheWrite = u.In.Read, u.In.Write
		}
		if u.Out != nil {
			m.Usage.Reasoning = u.Out.Reasoning
		}
	}
	m.Model = w.ResponseMetadata.Model
	set(&m.Finish, FinishReason(w.ResponseMetadata.Finish))
	if rest := w.ResponseMetadata.rest; len(w.AdditionalKwargs)+len(rest) > 0 {
		m.Extra = &Extra{AdditionalKwargs: w.AdditionalKwargs, ResponseMetadata: rest}
	}
	return m, nil
}

func (c wireCall) call() ToolCall {
	t := ToolCall{ID: c.ID, Name: c.Name, Args: argsText(c.Args)}
	if c.Function != nil {
		t.Name, t.Args = c.Function.Name, c.Function.Arguments
	}
	if c.Extras != nil {
		t.Signature = c.Extras.Signature
	}
	return t
}

// argsText returns arguments as the model wrote them: those of an invalid call
// stand in a string.
func argsText(args json.RawMessage) string {
	var text string
	if json.Unmarshal(args, &text) == nil {
		return text
	}
	return string(args)
}

func unmarshalContent(data json.RawMessage) ([]Part, error) {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0, string(data) == "null", string(data) == `""`:
		return nil, nil
	case data[0] == '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return nil, err
		}
		return []Part{Text{Text: text}}, nil
	case data[0] != '[':
		return nil, errors.New("chat: the content of a message is neither a string nor a list of blocks")
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return nil, err
	}
	parts := make([]Part, 0, len(raws))
	for _, raw := range raws {
		p, cited, err := unmarshalBlock(raw)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		for _, c := range cited {
			parts = append(parts, c)
		}
	}
	return parts, nil
}

// citations reads those among a text's annotations. Others than LangChain's own, such
// as those of a provider, are ignored.
func citations(annotations []json.RawMessage) []Citation {
	var list []Citation
	for _, a := range annotations {
		var w wireCitation
		if json.Unmarshal(a, &w) == nil && w.Type == "citation" {
			list = append(list, w.citation())
		}
	}
	return list
}

// unmarshalBlock reads a block, and what a text cites.
func unmarshalBlock(data json.RawMessage) (Part, []Citation, error) {
	if data[0] == '"' { // LangChain mixes strings with blocks
		var text string
		err := json.Unmarshal(data, &text)
		return Text{Text: text}, nil, err
	}
	var b block
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, nil, fmt.Errorf("chat: a block of content: %w", err)
	}
	switch b.Type {
	case "text":
		p, err := b.part(data)
		return p, citations(b.Annotations), err
	case "citation":
		var w wireCitation
		err := json.Unmarshal(data, &w)
		return w.citation(), nil, err
	}
	p, err := b.part(data)
	return p, nil, err
}

// part reads a block's part; data is the block.
func (b *block) part(data json.RawMessage) (Part, error) {
	var f foreign
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("chat: a block of content of type %q: %w", b.Type, err)
	}
	var e wireExtras
	if b.Extras != nil {
		e = *b.Extras
	}
	set(&e.Signature, f.Signature)
	text := ""
	if b.Text != nil {
		text = *b.Text
	}
	switch b.Type {
	case "text", "input_text", "output_text":
		return Text{Text: text, Signature: e.Signature}, nil
	case "refusal":
		return Text{Text: f.Refusal}, nil
	case "reasoning", "thinking":
		r := Reasoning{ID: b.ID, Text: f.Thinking, Signature: e.Signature, Redacted: e.Redacted}
		if b.Reasoning != nil {
			r.Text = *b.Reasoning
		}
		return r, nil
	case "redacted_thinking":
		return Reasoning{Signature: f.Data, Redacted: true}, nil
	case "image", "image_url":
		s, err := b.source(&f)
		if err != nil {
			return nil, err
		}
		img := Image{Source: s, Detail: e.Detail}
		if len(f.ImageURL) > 0 {
			var o struct{ URL, Detail string }
			if json.Unmarshal(f.ImageURL, &img.URL) != nil {
				if err := json.Unmarshal(f.ImageURL, &o); err != nil {
					return nil, fmt.Errorf("chat: image_url: %w", err)
				}
				img.URL, img.Detail = o.URL, o.Detail
			}
		}
		return img, nil
	case "audio", "input_audio":
		if f.InputAudio != nil {
			data, err := decodeBase64(f.InputAudio.Data)
			return Audio{Source: Source{Data: data, MIME: "audio/" + f.InputAudio.Format}}, err
		}
		s, err := b.source(&f)
		return Audio{Source: s, Transcript: e.Transcript}, err
	case "file", "document":
		s, err := b.source(&f)
		if f.File != nil && err == nil {
			set(&s.FileID, f.File.ID)
			e.Filename = f.File.Name
			if strings.HasPrefix(f.File.Data, "data:") {
				s.URL = f.File.Data
			} else if f.File.Data != "" {
				s.Data, err = decodeBase64(f.File.Data)
			}
		}
		set(&e.Filename, f.Title)
		if f.Metadata != nil {
			set(&e.Filename, f.Metadata.Name)
			set(&e.Filename, f.Metadata.Filename)
		}
		return File{Source: s, Name: e.Filename}, err
	case "tool_call", "invalid_tool_call":
		return ToolCall{ID: b.ID, Name: b.Name, Args: argsText(b.Args), Signature: e.Signature}, nil
	case "tool_use":
		return ToolCall{ID: b.ID, Name: b.Name, Args: string(f.Input)}, nil
	case "non_standard":
		if b.Value == nil {
			return nil, errors.New("chat: a block of content of type \"non_standard\" has no value")
		}
		return Native{Provider: b.Value.Provider, Type: b.Value.Type, Data: b.Value.Data}, nil
	case "tool_result":
		content, err := unmarshalContent(b.Content)
		set(&b.ToolCallID, f.ToolUseID)
		return ToolResult{CallID: b.ToolCallID, Name: b.Name, Content: content, IsError: b.IsError, Artifact: b.Artifact}, err
	}
	return nil, fmt.Errorf("chat: a message has a block of content of the unknown type %q", b.Type)
}

// source reads where the content of a media block is.
func (b *block) source(f *foreign) (Source, error) {
	s := Source{URL: b.URL, FileID: b.FileID, MIME: b.MIME}
	set(&s.MIME, f.MIMEType)
	set(&s.FileID, f.FileID)
	data := b.Base64
	set(&data, f.Data)
	if f.Source != nil {
		set(&s.URL, f.Source.URL)
		set(&s.FileID, f.Source.FileID)
		set(&s.MIME, f.Source.MediaType)
		if f.Source.Type == "text" { // not in base64
			s.Data = []byte(f.Source.Data)
		} else {
			set(&data, f.Source.Data)
		}
	}
	if data != "" {
		raw, err := decodeBase64(data)
		if err != nil {
			return s, fmt.Errorf("chat: a block of content of type %q: %w", b.Type, err)
		}
		s.Data = raw
	}
	return s, nil
}

func decodeBase64(s string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(s)
}
