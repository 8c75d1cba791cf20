package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/superstep-dev/superstep/chat"
)

// answer reads a whole message. It goes the way of chunks, so that it is what
// the chunks of the same message add up to.
func answer(body []byte) (chat.Message, error) {
	var m sdk.Message
	if err := json.Unmarshal(body, &m); err != nil {
		e := unreadable("the answer is not a message: %v", err)
		e.Err = err
		return chat.Message{}, e
	}
	if !m.JSON.Content.Valid() {
		return chat.Message{}, unreadable("the answer is not a message: it has no content")
	}
	var c chat.Collector
	c.Add(chat.Chunk{ID: m.ID, Role: chat.RoleAssistant, Model: m.Model})
	calls := 0
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			c.Add(chat.Chunk{Text: b.Text})
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
	u := chat.Usage{
		Input: int(m.Usage.InputTokens), CacheRead: int(m.Usage.CacheReadInputTokens), CacheWrite: int(m.Usage.CacheCreationInputTokens),
		Output: int(m.Usage.OutputTokens), Reasoning: int(m.Usage.OutputTokensDetails.ThinkingTokens),
	}
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

func finish(r sdk.StopReason) chat.FinishReason {
	switch r {
	case "":
		return ""
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence:
		return chat.FinishStop
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return chat.FinishLength
	case sdk.StopReasonToolUse:
		return chat.FinishToolCalls
	case sdk.StopReasonRefusal:
		return chat.FinishFilter
	}
	return chat.FinishOther
}

// decoder turns the events of a stream into chunks.
type decoder struct {
	started bool
	done    bool
	blocks  map[int64]*block
	calls   int // seen so far
	finish  chat.FinishReason
	usage   chat.Usage // cached input not yet added
}

// block is a content block that isn't finished.
type block struct {
	kind      string
	signature string
	call      int
	input     string // of a call, as it was when the block began
	args      bool   // some came after that
}

// event returns the chunk that an event leads to, if any.
func (d *decoder) event(ev sdk.MessageStreamEventUnion) (chunk chat.Chunk, some bool, err error) {
	if !d.started && ev.Type != "message_start" {
		return chunk, false, unreadable("event %q before the message began", ev.Type)
	}
	switch ev.Type {
	case "message_start":
		if d.started {
			return chunk, false, unreadable("the message began twice")
		}
		d.started = true
		d.blocks = map[int64]*block{}
		u := ev.Message.Usage
		d.usage = chat.Usage{
			Input: int(u.InputTokens), CacheRead: int(u.CacheReadInputTokens), CacheWrite: int(u.CacheCreationInputTokens),
			Output: int(u.OutputTokens), Reasoning: int(u.OutputTokensDetails.ThinkingTokens),
		}
		return chat.Chunk{ID: ev.Message.ID, Role: chat.RoleAssistant, Model: ev.Message.Model}, true, nil
	case "content_block_start":
		return d.start(ev)
	case "content_block_delta":
		return d.delta(ev)
	case "content_block_stop":
		return d.stop(ev)
	case "message_delta":
		if f := finish(ev.Delta.StopReason); f != "" {
			d.finish = f
		}
		d.count(ev.Usage)
	case "message_stop":
		d.done = true
		return last(d.finish, d.usage), true, nil
	}
	return chunk, false, nil // the API may add events that don't alter the message
}

// count takes over the counts of an event, which are totals, as far as it has
// them.
func (d *decoder) count(u sdk.MessageDeltaUsage) {
	if u.JSON.InputTokens.Valid() {
		d.usage.Input = int(u.InputTokens)
	}
	if u.JSON.CacheReadInputTokens.Valid() {
		d.usage.CacheRead = int(u.CacheReadInputTokens)
	}
	if u.JSON.CacheCreationInputTokens.Valid() {
		d.usage.CacheWrite = int(u.CacheCreationInputTokens)
	}
	if u.JSON.OutputTokens.Valid() {
		d.usage.Output = int(u.OutputTokens)
	}
	if u.OutputTokensDetails.JSON.ThinkingTokens.Valid() {
		d.usage.Reasoning = int(u.OutputTokensDetails.ThinkingTokens)
	}
}

func (d *decoder) start(ev sdk.MessageStreamEventUnion) (chunk chat.Chunk, some bool, err error) {
	c := ev.ContentBlock
	b := &block{kind: c.Type, signature: c.Signature}
	d.blocks[ev.Index] = b
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
		b.input = arguments(json.RawMessage(c.JSON.Input.Raw()))
		return chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: b.call, ID: c.ID, Name: c.Name}}}, true, nil
	}
	return chunk, false, unreadable("a content block of type %q", c.Type)
}

func (d *decoder) delta(ev sdk.MessageStreamEventUnion) (chunk chat.Chunk, some bool, err error) {
	b := d.blocks[ev.Index]
	if b == nil {
		return chunk, false, unreadable("a delta of content block %d, which isn't open", ev.Index)
	}
	switch t := ev.Delta.Type; {
	case t == "text_delta" && b.kind == "text":
		return chat.Chunk{Text: ev.Delta.Text}, ev.Delta.Text != "", nil
	case t == "thinking_delta" && b.kind == "thinking":
		return chat.Chunk{Reasoning: ev.Delta.Thinking}, ev.Delta.Thinking != "", nil
	case t == "signature_delta" && b.kind == "thinking":
		b.signature += ev.Delta.Signature
		return chunk, false, nil
	case t == "input_json_delta" && b.kind == "tool_use":
		if ev.Delta.PartialJSON == "" {
			return chunk, false, nil
		}
		b.args = true
		return chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: b.call, Args: ev.Delta.PartialJSON}}}, true, nil
	case t == "citations_delta":
		return chunk, false, nil
	}
	return chunk, false, unreadable("a delta of type %q in a content block of type %q", ev.Delta.Type, b.kind)
}

func (d *decoder) stop(ev sdk.MessageStreamEventUnion) (chunk chat.Chunk, some bool, err error) {
	b := d.blocks[ev.Index]
	if b == nil {
		return chunk, false, unreadable("an end of content block %d, which isn't open", ev.Index)
	}
	delete(d.blocks, ev.Index)
	switch {
	case b.kind == "thinking":
		return signed(b.signature), b.signature != "", nil
	case b.kind == "tool_use" && !b.args:
		return chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: b.call, Args: b.input}}}, true, nil
	}
	return chunk, false, nil
}
