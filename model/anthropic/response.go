package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// said is a message of the model's, or what is known of it when it begins.
type said struct {
	ID         string             `json:"id"`
	Model      string             `json:"model"`
	Content    *[]json.RawMessage `json:"content"`
	StopReason string             `json:"stop_reason"`
	Usage      usage              `json:"usage"`
}

// saidBlock is a block of content, or what a delta adds to one.
type saidBlock struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	Thinking    string          `json:"thinking"`
	Signature   string          `json:"signature"`
	Data        string          `json:"data"`
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Input       json.RawMessage `json:"input"`
	PartialJSON string          `json:"partial_json"` // of a delta

	Citations []json.RawMessage `json:"citations"`
	Citation  json.RawMessage   `json:"citation"` // of a delta
}

// native reports whether a block is about a tool that the server ran.
func (b saidBlock) native() bool {
	return b.Type == "server_tool_use" || b.Type == "mcp_tool_use" || b.Type == "container_upload" || b.Type != "tool_result" && strings.HasSuffix(b.Type, "_tool_result")
}

// cited returns the citations of a text.
func cited(list []json.RawMessage) (parts []chat.Part, err error) {
	for _, data := range list {
		var c struct {
			URL           string `json:"url"`
			Source        string `json:"source"`
			Title         string `json:"title"`
			DocumentTitle string `json:"document_title"`
			CitedText     string `json:"cited_text"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, unreadable("a citation is not the API's JSON: %w", err)
		}
		part := chat.Citation{URL: c.URL, Title: c.Title, Text: c.CitedText, Provider: provider, Data: string(data)}
		if part.URL == "" {
			part.URL = c.Source
		}
		if part.Title == "" {
			part.Title = c.DocumentTitle
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// usage counts tokens. In a stream counts are totals, and may be left out.
type usage struct {
	Input      *int `json:"input_tokens"`
	CacheRead  *int `json:"cache_read_input_tokens"`
	CacheWrite *int `json:"cache_creation_input_tokens"`
	Output     *int `json:"output_tokens"`
	Details    struct {
		Thinking *int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServiceTier string `json:"service_tier"`
}

// count takes over the counts that there are.
func (u usage) count(to *chat.Usage) {
	for _, c := range []struct {
		to   *int
		from *int
	}{
		{&to.Input, u.Input}, {&to.CacheRead, u.CacheRead}, {&to.CacheWrite, u.CacheWrite},
		{&to.Output, u.Output}, {&to.Reasoning, u.Details.Thinking},
	} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
}

// first is the chunk that a message begins with.
func (m said) first() chat.Chunk {
	k := chat.Chunk{ID: m.ID, Role: chat.RoleAssistant, Model: m.Model}
	if m.Usage.ServiceTier != "" {
		k.Metadata = map[string]string{chat.MetadataServiceTier: m.Usage.ServiceTier}
	}
	return k
}

// answer reads a whole message. It goes the way of chunks, so that it is what
// the chunks of the same message add up to.
func answer(body []byte) (chat.Message, error) {
	var m said
	if err := json.Unmarshal(body, &m); err != nil {
		return chat.Message{}, unreadable("the answer is not a message: %w", err)
	}
	if m.Content == nil {
		return chat.Message{}, unreadable("the answer is not a message: it has no content")
	}
	var c chat.Collector
	c.Add(m.first())
	calls := 0
	for _, data := range *m.Content {
		var b saidBlock
		if err := json.Unmarshal(data, &b); err != nil {
			return chat.Message{}, unreadable("a content block is not the API's JSON: %w", err)
		}
		if b.native() {
			c.Add(chat.Chunk{Parts: []chat.Part{chat.Native{Provider: provider, Type: b.Type, Data: string(data)}}})
			continue
		}
		switch b.Type {
		case "text":
			parts, err := cited(b.Citations)
			if err != nil {
				return chat.Message{}, err
			}
			c.Add(chat.Chunk{Text: b.Text, Parts: parts})
		case "thinking":
			c.Add(chat.Chunk{Reasoning: b.Thinking})
			c.Add(signed(b.Signature))
		case "redacted_thinking":
			c.Add(redactedThinking(b.Data))
		case "tool_use":
			c.Add(chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: calls, ID: b.ID, Name: b.Name, Args: arguments(b.Input)}}})
			calls++
		default:
			return chat.Message{}, unreadable("a content block of type %q", b.Type)
		}
	}
	var u chat.Usage
	m.Usage.count(&u)
	c.Add(last(finish(m.StopReason), u))
	return c.Message(), nil
}

// signed is the chunk that signs the thinking before it.
func signed(signature string) chat.Chunk {
	if signature == "" {
		return chat.Chunk{}
	}
	return chat.Chunk{Parts: []chat.Part{chat.Reasoning{Signature: signature}}}
}

func redactedThinking(data string) chat.Chunk {
	return chat.Chunk{Parts: []chat.Part{chat.Reasoning{Signature: data, Redacted: true}}}
}

func arguments(input json.RawMessage) string {
	if len(input) == 0 {
		return "{}"
	}
	return string(input)
}

// last is the last chunk. The API counts what has to do with the cache apart
// from the other input.
func last(f chat.FinishReason, u chat.Usage) chat.Chunk {
	u.Input += u.CacheRead + u.CacheWrite
	return chat.Chunk{Finish: f, Usage: &u}
}

func finish(reason string) chat.FinishReason {
	switch reason {
	case "":
		return ""
	case "end_turn", "stop_sequence":
		return chat.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return chat.FinishLength
	case "tool_use":
		return chat.FinishToolCalls
	case "refusal":
		return chat.FinishFilter
	}
	return chat.FinishOther
}

// event is an event of a stream.
type event struct {
	Type         string          `json:"type"`
	Message      said            `json:"message"`
	Index        int             `json:"index"`
	ContentBlock json.RawMessage `json:"content_block"` // a saidBlock
	Delta        json.RawMessage `json:"delta"`         // a saidBlock, or what a message ends with
	Usage        usage           `json:"usage"`
}

// decoder turns the events of a stream into chunks. It is a [vendor.Stream].
type decoder struct {
	started bool
	done    bool
	blocks  map[int]*openBlock
	calls   int // seen so far
	finish  chat.FinishReason
	usage   chat.Usage // cached input not yet added
}

// End implements [vendor.Stream].
func (d *decoder) End() ([]chat.Chunk, bool) { return nil, d.done }

// openBlock is a content block that isn't finished.
type openBlock struct {
	kind      string
	signature string
	call      int
	input     string // of a call, as it was when the block began
	args      bool   // some came after that

	whole json.RawMessage   // of a server's tool, as it was when the block began
	more  []byte            // of its input, after that
	cites []json.RawMessage // of a text
}

// Event implements [vendor.Stream].
func (d *decoder) Event(e vendor.Event) ([]chat.Chunk, bool, error) {
	var ev event
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		return nil, false, unreadable("an event is not the API's JSON: %w", err)
	}
	if ev.Type == "error" || e.Name == "error" {
		return nil, false, failure(0, e.Data)
	}
	chunk, some, err := d.event(ev)
	if err != nil || !some {
		return nil, false, err
	}
	return []chat.Chunk{chunk}, d.done, nil
}

// event returns the chunk that an event leads to, if any.
func (d *decoder) event(ev event) (chunk chat.Chunk, some bool, err error) {
	if !d.started && ev.Type != "message_start" && ev.Type != "ping" {
		return chunk, false, unreadable("event %q before the message began", ev.Type)
	}
	switch ev.Type {
	case "message_start":
		if d.started {
			return chunk, false, unreadable("the message began twice")
		}
		d.started = true
		d.blocks = map[int]*openBlock{}
		ev.Message.Usage.count(&d.usage)
		return ev.Message.first(), true, nil
	case "content_block_start":
		return d.start(ev)
	case "content_block_delta":
		return d.delta(ev)
	case "content_block_stop":
		return d.stop(ev)
	case "message_delta":
		var delta struct {
			StopReason string `json:"stop_reason"`
		}
		if err := json.Unmarshal(ev.Delta, &delta); err != nil {
			return chunk, false, unreadable("a delta of the message is not the API's JSON: %w", err)
		}
		if f := finish(delta.StopReason); f != "" {
			d.finish = f
		}
		ev.Usage.count(&d.usage)
	case "message_stop":
		d.done = true
		return last(d.finish, d.usage), true, nil
	}
	return chunk, false, nil // the API may add events that don't alter the message
}

func (d *decoder) start(ev event) (chunk chat.Chunk, some bool, err error) {
	var c saidBlock
	if err := json.Unmarshal(ev.ContentBlock, &c); err != nil {
		return chunk, false, unreadable("a content block is not the API's JSON: %w", err)
	}
	b := &openBlock{kind: c.Type, signature: c.Signature, cites: c.Citations}
	d.blocks[ev.Index] = b
	if c.native() {
		b.whole = ev.ContentBlock
		return chunk, false, nil
	}
	switch c.Type {
	case "text":
		return chat.Chunk{Text: c.Text}, c.Text != "", nil
	case "thinking":
		return chat.Chunk{Reasoning: c.Thinking}, c.Thinking != "", nil
	case "redacted_thinking":
		return redactedThinking(c.Data), true, nil
	case "tool_use":
		b.call = d.calls
		d.calls++
		b.input = arguments(c.Input)
		return chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: b.call, ID: c.ID, Name: c.Name}}}, true, nil
	}
	return chunk, false, unreadable("a content block of type %q", c.Type)
}

func (d *decoder) delta(ev event) (chunk chat.Chunk, some bool, err error) {
	b := d.blocks[ev.Index]
	if b == nil {
		return chunk, false, unreadable("a delta of content block %d, which isn't open", ev.Index)
	}
	var delta saidBlock
	if err := json.Unmarshal(ev.Delta, &delta); err != nil {
		return chunk, false, unreadable("a delta of content block %d is not the API's JSON: %w", ev.Index, err)
	}
	switch t := delta.Type; {
	case t == "text_delta" && b.kind == "text":
		return chat.Chunk{Text: delta.Text}, delta.Text != "", nil
	case t == "thinking_delta" && b.kind == "thinking":
		return chat.Chunk{Reasoning: delta.Thinking}, delta.Thinking != "", nil
	case t == "signature_delta" && b.kind == "thinking":
		b.signature += delta.Signature
		return chunk, false, nil
	case t == "input_json_delta" && b.kind == "tool_use":
		if delta.PartialJSON == "" {
			return chunk, false, nil
		}
		b.args = true
		return chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: b.call, Args: delta.PartialJSON}}}, true, nil
	case t == "input_json_delta" && b.whole != nil:
		b.more = append(b.more, delta.PartialJSON...)
		return chunk, false, nil
	case t == "citations_delta" && b.kind == "text":
		b.cites = append(b.cites, delta.Citation)
		return chunk, false, nil
	}
	return chunk, false, unreadable("a delta of type %q in a content block of type %q", delta.Type, b.kind)
}

func (d *decoder) stop(ev event) (chunk chat.Chunk, some bool, err error) {
	b := d.blocks[ev.Index]
	if b == nil {
		return chunk, false, unreadable("an end of content block %d, which isn't open", ev.Index)
	}
	delete(d.blocks, ev.Index)
	switch {
	case b.whole != nil:
		data := b.whole
		if len(b.more) > 0 {
			if data, err = vendor.Extend(data, map[string]any{"input": json.RawMessage(b.more)}, nil); err != nil {
				return chunk, false, unreadable("the input of a tool that the server ran is not JSON: %w", err)
			}
		}
		return chat.Chunk{Parts: []chat.Part{chat.Native{Provider: provider, Type: b.kind, Data: string(data)}}}, true, nil
	case b.kind == "text":
		parts, err := cited(b.cites)
		return chat.Chunk{Parts: parts}, len(parts) > 0, err
	case b.kind == "thinking":
		return signed(b.signature), b.signature != "", nil
	case b.kind == "tool_use" && !b.args:
		return chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: b.call, Args: b.input}}}, true, nil
	}
	return chunk, false, nil
}
