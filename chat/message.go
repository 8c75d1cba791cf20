package chat

import (
	"encoding/json"
	"strings"
)

// Role says who speaks in a [Message].
type Role string

// The roles. On the wire LangChain calls the user "human" and the assistant
// "ai"; both spellings are read.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a conversation. It is a value: once it was given to
// a [History] or a model, the memory that it refers to may not be altered any
// more.
type Message struct {
	// ID tells the message from the others of its conversation. A History gives
	// one to a message without. A message with a known ID replaces the known one.
	ID   string
	Role Role

	// Name tells apart several speakers of one role. It is the tool's name in a
	// message with a tool's result.
	Name string

	// Parts is what the message says, in order.
	Parts []Part

	// Of assistant messages, where the model reports them:
	Model  string       // that answered
	Finish FinishReason // why it stopped
	Usage  *Usage       // what it cost

	// Metadata is the user's own, and what a provider tells of an answer under the
	// keys below. It is stored and not sent to models.
	Metadata map[string]string

	// Extra is what programs on LangChain wrote beside that; nil if there is nothing. It
	// is stored, shown to clients and not sent to models.
	Extra *Extra
}

// Extra is what a message of LangChain's holds for which a [Message] has no field of its
// own. It is a value: nobody alters it.
type Extra struct {
	AdditionalKwargs map[string]json.RawMessage // of additional_kwargs, all members
	ResponseMetadata map[string]json.RawMessage // of response_metadata, those but the model's name and the finish reason
}

// Keys of [Message.Metadata] that providers' packages set, where the provider says
// it.
const (
	MetadataRequestID   = "request_id"   // the provider's name of the request, for its support
	MetadataServiceTier = "service_tier" // that the answer was made at
	MetadataLogProbs    = "logprobs"     // the probabilities of the tokens, in the provider's own JSON
)

// Part is a piece of a message: [Text], [Image], [Audio], [File], [Reasoning],
// [ToolCall], [ToolResult], [Citation] or [Native].
type Part interface{ part() }

// Text is a piece of text.
type Text struct {
	Text string

	// Signature is a provider's opaque data that must be sent back with the
	// part (Gemini's thought signatures).
	Signature string
}

// Source says where the content of an [Image], [Audio] or [File] is: one of
// Data, URL and FileID.
type Source struct {
	Data   []byte
	URL    string // http, https or data
	FileID string // of a file that was uploaded to the provider
	MIME   string // the media type, such as image/png; needed with Data
}

// Image is a picture.
type Image struct {
	Source
	Detail string // "low", "high", "auto": the provider's hint; may be empty
}

// Audio is a sound.
type Audio struct {
	Source
	Transcript string // what is said, if known
}

// File is a document.
type File struct {
	Source
	Name string
}

// Reasoning is what a model thought before it answered, as far as it shows it.
type Reasoning struct {
	Text string
	ID   string // the provider's, if it has one

	// Signature is the provider's opaque data that must be sent back with the
	// part: Anthropic's signature, OpenAI's encrypted content.
	Signature string

	// Redacted says that the provider hid the text; it is all in Signature.
	Redacted bool
}

// ToolCall is a model's wish to have a tool called.
type ToolCall struct {
	ID   string `json:"id"`   // answers refer to it
	Name string `json:"name"` // of the tool

	// Args is the arguments' JSON as the model wrote it, which may be invalid;
	// see [ToolCall.Arguments].
	Args string `json:"args,omitempty"`

	// Signature is a provider's opaque data that must be sent back with the
	// part (Gemini's thought signatures).
	Signature string `json:"signature,omitempty"`
}

// ToolResult is what a tool call led to. It stands alone in a message of
// [RoleTool].
type ToolResult struct {
	CallID  string // of the ToolCall
	Name    string // of the tool
	Content []Part // what the model is told: Text, Image, Audio and File parts
	IsError bool   // the content tells of a failure

	// Artifact is for the program and isn't sent to the model. It is JSON or
	// nil.
	Artifact json.RawMessage
}

// Citation says where something comes from that the text before it says. Several may
// follow a text.
type Citation struct {
	URL   string // of a page; may be empty
	Title string // of the page or the document; may be empty
	Text  string // what is cited, if the provider says it

	// Start and End are the place in the text before, as the provider counts; both
	// are 0 if it doesn't say.
	Start, End int

	// Provider is the one that the citation is of, and Data its own JSON of it, which
	// is sent back to it with the text.
	Provider string
	Data     string
}

// Native is a part in a provider's own form, for which there are no words here: a tool
// that the provider ran itself, or the result of one. It is kept and sent back to that
// provider as it came; others are not sent it.
type Native struct {
	Provider string // such as "openai"
	Type     string // the provider's word for it, such as "web_search_call"
	Data     string // its JSON
}

func (Text) part()       {}
func (Image) part()      {}
func (Audio) part()      {}
func (File) part()       {}
func (Reasoning) part()  {}
func (ToolCall) part()   {}
func (ToolResult) part() {}
func (Citation) part()   {}
func (Native) part()     {}

// FinishReason says why a model stopped.
type FinishReason string

// The reasons.
const (
	FinishStop      FinishReason = "stop"       // it had said everything
	FinishLength    FinishReason = "length"     // a limit of tokens
	FinishToolCalls FinishReason = "tool_calls" // it waits for tools
	FinishFilter    FinishReason = "content_filter"
	FinishOther     FinishReason = "other"
)

// Usage counts the tokens of a model call.
type Usage struct {
	Input  int `json:"input_tokens"`  // all of the request, cached ones included
	Output int `json:"output_tokens"` // all of the answer, reasoning included

	CacheRead  int `json:"cache_read_tokens,omitempty"`  // of Input: read from the provider's cache
	CacheWrite int `json:"cache_write_tokens,omitempty"` // of Input: written to it
	Reasoning  int `json:"reasoning_tokens,omitempty"`   // of Output
}

// Total is the sum of input and output.
func (u Usage) Total() int { return u.Input + u.Output }

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Reasoning: u.Reasoning + v.Reasoning,
	}
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string
	Description string

	// Schema is the JSON Schema of the arguments, an object's. Nil means no
	// arguments.
	Schema json.RawMessage

	// Strict asks the provider to keep the model to the schema, where it can.
	Strict bool
}

// System returns a message with instructions for the model.
func System(text string) Message { return ofText(RoleSystem, text) }

// User returns a message of the user.
func User(text string) Message { return ofText(RoleUser, text) }

// Human is [User] by LangChain's name.
func Human(text string) Message { return User(text) }

// Assistant returns a message of the model: its text, if not empty, and the
// tools it wants called.
func Assistant(text string, calls ...ToolCall) Message {
	m := Message{Role: RoleAssistant}
	if text != "" {
		m.Parts = append(m.Parts, Text{Text: text})
	}
	for _, c := range calls {
		m.Parts = append(m.Parts, c)
	}
	return m
}

// AI is [Assistant] by LangChain's name.
func AI(text string, calls ...ToolCall) Message { return Assistant(text, calls...) }

// Result returns the message that answers a tool call.
func Result(call ToolCall, content ...Part) Message {
	return Message{Role: RoleTool, Name: call.Name, Parts: []Part{ToolResult{CallID: call.ID, Name: call.Name, Content: content}}}
}

// ResultText is [Result] with a text.
func ResultText(call ToolCall, text string) Message { return Result(call, Text{Text: text}) }

func ofText(r Role, text string) Message {
	return Message{Role: r, Parts: []Part{Text{Text: text}}}
}

// Text returns the message's text parts joined; those of a tool's result for a
// message that holds one.
func (m Message) Text() string { return textOf(m.Parts) }

func textOf(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			if len(parts) == 1 {
				return p.Text
			}
			b.WriteString(p.Text)
		case ToolResult:
			b.WriteString(textOf(p.Content))
		}
	}
	return b.String()
}

// Reasoning returns the message's reasoning parts joined.
func (m Message) Reasoning() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if r, ok := p.(Reasoning); ok {
			b.WriteString(r.Text)
		}
	}
	return b.String()
}

// ToolCalls returns the tools that the message wants called, in order.
func (m Message) ToolCalls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if c, ok := p.(ToolCall); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// ToolResult returns the tool's result that the message holds.
func (m Message) ToolResult() (ToolResult, bool) {
	for _, p := range m.Parts {
		if r, ok := p.(ToolResult); ok {
			return r, true
		}
	}
	return ToolResult{}, false
}

// Arguments returns the arguments as JSON; none are an empty object. It returns
// an error when they are not a JSON object.
func (c ToolCall) Arguments() (json.RawMessage, error) {
	s := strings.TrimSpace(c.Args)
	if s == "" {
		return json.RawMessage("{}"), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &object); err != nil {
		return nil, err
	}
	if object == nil { // null
		return json.RawMessage("{}"), nil
	}
	return json.RawMessage(s), nil
}

// Text returns the result's text parts joined.
func (r ToolResult) Text() string { return textOf(r.Content) }
