package bedrock

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// said is a whole answer.
type said struct {
	Output struct {
		Message *struct {
			Content []json.RawMessage `json:"content"` // of saidBlock
		} `json:"message"`
	} `json:"output"`
	StopReason string `json:"stopReason"`
	ended
}

// ended is what an answer ends with.
type ended struct {
	Usage struct {
		Input      int `json:"inputTokens"`
		Output     int `json:"outputTokens"`
		CacheRead  int `json:"cacheReadInputTokens"`
		CacheWrite int `json:"cacheWriteInputTokens"`
	} `json:"usage"`
	ServiceTier struct {
		Type string `json:"type"`
	} `json:"serviceTier"`
}

// chunk is the last chunk. The API counts what has to do with the cache apart from the
// other input.
func (e ended) chunk(reason string) chat.Chunk {
	u := e.Usage
	k := chat.Chunk{Finish: finish(reason), Usage: &chat.Usage{Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}}
	if e.ServiceTier.Type != "" {
		k.Metadata = map[string]string{chat.MetadataServiceTier: e.ServiceTier.Type}
	}
	return k
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
	case "guardrail_intervened", "content_filtered":
		return chat.FinishFilter
	}
	return chat.FinishOther
}

// saidBlock is a block of content, of which one thing is set.
type saidBlock struct {
	Text      *string    `json:"text"`
	Image     *saidMedia `json:"image"`
	ToolUse   *saidCall  `json:"toolUse"`
	Reasoning *struct {
		Text *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		Redacted []byte `json:"redactedContent"`
	} `json:"reasoningContent"`
	Cited *struct {
		Citations []json.RawMessage `json:"citations"`
		Content   []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"citationsContent"`
}

type saidMedia struct {
	Format string `json:"format"`
	Source struct {
		Bytes []byte   `json:"bytes"`
		S3    *s3Place `json:"s3Location"`
	} `json:"source"`
}

func (m saidMedia) part() chat.Part {
	s := chat.Source{Data: m.Source.Bytes, MIME: "image/" + m.Format}
	if m.Source.S3 != nil {
		s.FileID = m.Source.S3.URI
	}
	return chat.Image{Source: s}
}

type saidCall struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Type  string          `json:"type"` // of one that the server ran
	Input json.RawMessage `json:"input"`
}

// answered reads a whole answer. It goes the way of chunks, so that it is what the chunks
// of the same answer add up to.
func answered(name string, body []byte) (chat.Message, error) {
	var a said
	if err := json.Unmarshal(body, &a); err != nil {
		return chat.Message{}, unreadable("the answer is not the API's JSON: %w", err)
	}
	if a.Output.Message == nil {
		return chat.Message{}, unreadable("the answer has no message")
	}
	var c chat.Collector
	c.Add(chat.Chunk{Role: chat.RoleAssistant, Model: name})
	calls := 0
	for _, data := range a.Output.Message.Content {
		var b saidBlock
		if err := json.Unmarshal(data, &b); err != nil {
			return chat.Message{}, unreadable("a content block is not the API's JSON: %w", err)
		}
		switch {
		case b.Text != nil:
			c.Add(chat.Chunk{Text: *b.Text})
		case b.ToolUse != nil && b.ToolUse.Type == "":
			c.Add(chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: calls, ID: b.ToolUse.ID, Name: b.ToolUse.Name, Args: string(b.ToolUse.Input)}}})
			calls++
		case b.Reasoning != nil && b.Reasoning.Text != nil:
			c.Add(chat.Chunk{Reasoning: b.Reasoning.Text.Text})
			c.Add(signed(b.Reasoning.Text.Signature))
		case b.Reasoning != nil:
			c.Add(redacted(b.Reasoning.Redacted))
		case b.Cited != nil:
			for _, t := range b.Cited.Content {
				c.Add(chat.Chunk{Text: t.Text})
			}
			cites, err := cited(b.Cited.Citations)
			if err != nil {
				return chat.Message{}, err
			}
			c.Add(chat.Chunk{Parts: cites})
		case b.Image != nil:
			c.Add(chat.Chunk{Parts: []chat.Part{b.Image.part()}})
		default:
			k, err := native(data)
			if err != nil {
				return chat.Message{}, err
			}
			c.Add(k)
		}
	}
	c.Add(a.chunk(a.StopReason))
	return c.Message(), nil
}

// native is a block for which there are no words here.
func native(data json.RawMessage) (chat.Chunk, error) {
	var kinds map[string]json.RawMessage
	if err := json.Unmarshal(data, &kinds); err != nil || len(kinds) != 1 {
		return chat.Chunk{}, unreadable("a content block is not one thing: %s", vendor.Shorten(data))
	}
	kind := slices.Collect(maps.Keys(kinds))[0]
	return chat.Chunk{Parts: []chat.Part{chat.Native{Provider: provider, Type: kind, Data: string(data)}}}, nil
}

// signed is the chunk that signs the reasoning before it.
func signed(signature string) chat.Chunk {
	if signature == "" {
		return chat.Chunk{}
	}
	return chat.Chunk{Parts: []chat.Part{chat.Reasoning{Signature: signature}}}
}

func redacted(data []byte) chat.Chunk {
	return chat.Chunk{Parts: []chat.Part{chat.Reasoning{Signature: base64.StdEncoding.EncodeToString(data), Redacted: true}}}
}

// cited returns the citations of a text.
func cited(list []json.RawMessage) (parts []chat.Part, err error) {
	for _, data := range list {
		var c struct {
			Title    string `json:"title"`
			Source   string `json:"source"`
			Contents []struct {
				Text string `json:"text"`
			} `json:"sourceContent"`
			Location struct {
				Web struct {
					URL string `json:"url"`
				} `json:"web"`
			} `json:"location"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, unreadable("a citation is not the API's JSON: %w", err)
		}
		part := chat.Citation{URL: c.Location.Web.URL, Title: c.Title, Provider: provider, Data: string(data)}
		if part.URL == "" {
			part.URL = c.Source
		}
		for _, t := range c.Contents {
			part.Text += t.Text
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// decoder turns the events of a stream into chunks. It is a [vendor.Stream].
type decoder struct {
	model         string
	started, done bool
	reason        string // to stop, once it has
	stopped       bool
	blocks        map[int]*openBlock
	calls         int // seen so far
}

// openBlock is a content block that isn't finished.
type openBlock struct {
	call      int
	called    bool
	native    map[string]any // the member of the block
	kind      string         // of native
	input     []byte         // of a tool that the server ran
	results   []json.RawMessage
	signature string
	redacted  []byte
	cites     []json.RawMessage
	image     *saidMedia
}

// End implements [vendor.Stream]: the usage may not come.
func (d *decoder) End() ([]chat.Chunk, bool) {
	if !d.stopped || d.done {
		return nil, d.done
	}
	return []chat.Chunk{{Finish: finish(d.reason)}}, true
}

// streamed is the data of an event of any name.
type streamed struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse    *saidCall      `json:"toolUse"`
		ToolResult map[string]any `json:"toolResult"`
		Image      *saidMedia     `json:"image"`
	} `json:"start"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		ToolResult []json.RawMessage `json:"toolResult"`
		Reasoning  struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
			Redacted  []byte `json:"redactedContent"`
		} `json:"reasoningContent"`
		Citation json.RawMessage `json:"citation"`
		Image    *saidMedia      `json:"image"`
	} `json:"delta"`
	StopReason string `json:"stopReason"`
	ended
}

// Event implements [vendor.Stream].
func (d *decoder) Event(e vendor.Event) (chunks []chat.Chunk, done bool, err error) {
	var ev streamed
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		return nil, false, unreadable("an event is not the API's JSON: %w", err)
	}
	if d.started == (e.Name == "messageStart") {
		return nil, false, unreadable("event %q where the message has or has not begun", e.Name)
	}
	switch e.Name {
	case "messageStart":
		d.started, d.blocks = true, map[int]*openBlock{}
		return []chat.Chunk{{Role: chat.RoleAssistant, Model: d.model}}, false, nil
	case "contentBlockStart":
		return d.start(ev), false, nil
	case "contentBlockDelta":
		chunks, err = d.delta(ev)
		return chunks, false, err
	case "contentBlockStop":
		chunks, err = d.stop(ev.Index)
		return chunks, false, err
	case "messageStop":
		d.reason, d.stopped = ev.StopReason, true
		return nil, false, nil
	case "metadata":
		d.done = true
		return []chat.Chunk{ev.chunk(d.reason)}, true, nil
	}
	return nil, false, unreadable("an event %q", e.Name)
}

func (d *decoder) start(ev streamed) []chat.Chunk {
	b := &openBlock{image: ev.Start.Image}
	d.blocks[ev.Index] = b
	switch c := ev.Start.ToolUse; {
	case c != nil && c.Type == "":
		b.call, b.called = d.calls, true
		d.calls++
		return []chat.Chunk{{ToolCalls: []chat.ToolCallChunk{{Index: b.call, ID: c.ID, Name: c.Name}}}}
	case c != nil:
		b.kind, b.native = "toolUse", map[string]any{"toolUseId": c.ID, "name": c.Name, "type": c.Type}
	case ev.Start.ToolResult != nil:
		b.kind, b.native = "toolResult", ev.Start.ToolResult
	}
	return nil
}

func (d *decoder) delta(ev streamed) ([]chat.Chunk, error) {
	b := d.blocks[ev.Index]
	if b == nil { // texts and thoughts have no start
		b = &openBlock{}
		d.blocks[ev.Index] = b
	}
	switch in, r := ev.Delta.ToolUse.Input, ev.Delta.Reasoning; {
	case ev.Delta.Text != "":
		return []chat.Chunk{{Text: ev.Delta.Text}}, nil
	case r.Text != "":
		return []chat.Chunk{{Reasoning: r.Text}}, nil
	case in != "" && b.called:
		return []chat.Chunk{{ToolCalls: []chat.ToolCallChunk{{Index: b.call, Args: in}}}}, nil
	case in != "" && b.kind != "toolUse":
		return nil, unreadable("the input of a call in content block %d, which is none", ev.Index)
	case in != "":
		b.input = append(b.input, in...)
	case ev.Delta.Citation != nil:
		b.cites = append(b.cites, ev.Delta.Citation)
	case ev.Delta.Image != nil:
		if b.image == nil {
			return nil, unreadable("an image in content block %d, which is none", ev.Index)
		}
		b.image.Source.Bytes = append(b.image.Source.Bytes, ev.Delta.Image.Source.Bytes...)
		if ev.Delta.Image.Source.S3 != nil {
			b.image.Source.S3 = ev.Delta.Image.Source.S3
		}
	default:
		b.signature += r.Signature
		b.redacted = append(b.redacted, r.Redacted...)
		b.results = append(b.results, ev.Delta.ToolResult...)
	}
	return nil, nil
}

func (d *decoder) stop(index int) ([]chat.Chunk, error) {
	b := d.blocks[index]
	delete(d.blocks, index)
	switch {
	case b == nil: // a text of nothing
	case b.native != nil:
		if b.kind == "toolUse" {
			if len(b.input) == 0 {
				b.input = []byte("{}")
			}
			b.native["input"] = json.RawMessage(b.input)
		} else {
			b.native["content"] = append([]json.RawMessage{}, b.results...)
		}
		data, err := plainjson.Marshal(map[string]any{b.kind: b.native})
		if err != nil {
			return nil, unreadable("content block %d is not JSON: %w", index, err)
		}
		k, err := native(data)
		return []chat.Chunk{k}, err
	case b.signature != "":
		return []chat.Chunk{signed(b.signature)}, nil
	case b.redacted != nil:
		return []chat.Chunk{redacted(b.redacted)}, nil
	case b.cites != nil:
		cites, err := cited(b.cites)
		return []chat.Chunk{{Parts: cites}}, err
	case b.image != nil:
		return []chat.Chunk{{Parts: []chat.Part{b.image.part()}}}, nil
	}
	return nil, nil
}
