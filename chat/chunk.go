package chat

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// Chunk is a piece of a message that is being streamed. The chunks of a message
// add up to it with a [Collector]. All fields may be empty.
type Chunk struct {
	// ID is the message's, in at least the first chunk.
	ID   string `json:"id,omitempty"`
	Role Role   `json:"role,omitempty"` // in the first chunk; empty means the assistant
	Name string `json:"name,omitempty"`

	Text      string          `json:"text,omitempty"`       // to append
	Reasoning string          `json:"reasoning,omitempty"`  // to append
	ToolCalls []ToolCallChunk `json:"tool_calls,omitempty"` // to append

	// Parts are whole parts: media, text that is complete, reasoning with its
	// signature. In JSON they are those of a message.
	Parts []Part `json:"parts,omitempty"`

	// Of the message, once known: usually in the last chunk.
	Model  string       `json:"model,omitempty"`
	Finish FinishReason `json:"finish,omitempty"`
	Usage  *Usage       `json:"usage,omitempty"`

	Metadata map[string]string `json:"metadata,omitempty"` // to add
}

// ToolCallChunk is a piece of a tool call. Pieces with the same Index belong
// together; ID and Name come whole, in the first one; Args are to append.
type ToolCallChunk struct {
	Index     int    `json:"index"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Args      string `json:"args,omitempty"`
	Signature string `json:"signature,omitempty"` // whole
}

type plainChunk Chunk

// chunkJSON is a chunk whose parts are where JSON can have them.
type chunkJSON struct {
	plainChunk
	Parts *Message `json:"parts,omitempty"`
}

// MarshalJSON writes {"id", "text", "tool_calls", …}, without what the chunk doesn't have.
func (k Chunk) MarshalJSON() ([]byte, error) {
	j := chunkJSON{plainChunk: plainChunk(k)}
	if len(k.Parts) > 0 {
		j.Parts = &Message{Role: RoleAssistant, Parts: k.Parts}
	}
	return plainjson.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (k *Chunk) UnmarshalJSON(data []byte) error {
	var j chunkJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*k = Chunk(j.plainChunk)
	if j.Parts != nil {
		k.Parts = j.Parts.Parts
	}
	return nil
}

// ChunkOf returns a message as one chunk.
func ChunkOf(m Message) Chunk {
	return Chunk{ID: m.ID, Role: m.Role, Name: m.Name, Parts: m.Parts, Model: m.Model, Finish: m.Finish, Usage: m.Usage, Metadata: m.Metadata}
}

// Collector adds chunks up to a message. The zero Collector is ready to use.
type Collector struct {
	m     Message
	calls map[int]int // index of a call: of its part

	// grown is the text of parts that came in more than one piece, by the part's
	// place: of a string each piece would copy all that came before.
	grown map[int][]byte
}

// Add appends a chunk. Text goes to the last part if that is text, and begins a
// new one otherwise; so does reasoning.
func (c *Collector) Add(k Chunk) {
	m := &c.m
	set(&m.ID, k.ID)
	set(&m.Role, k.Role)
	set(&m.Name, k.Name)
	set(&m.Model, k.Model)
	set(&m.Finish, k.Finish)
	if k.Usage != nil {
		u := *k.Usage
		m.Usage = &u
	}
	if len(k.Metadata) > 0 {
		all := make(map[string]string, len(m.Metadata)+len(k.Metadata))
		maps.Copy(all, m.Metadata)
		maps.Copy(all, k.Metadata)
		m.Metadata = all // what Message returned before isn't altered
	}
	if k.Reasoning != "" {
		if r, ok := last[Reasoning](m.Parts); ok && r.Signature == "" {
			c.grow(len(m.Parts)-1, r.Text, k.Reasoning)
		} else {
			m.Parts = append(m.Parts, Reasoning{Text: k.Reasoning})
		}
	}
	if k.Text != "" {
		if t, ok := last[Text](m.Parts); ok && t.Signature == "" {
			c.grow(len(m.Parts)-1, t.Text, k.Text)
		} else {
			m.Parts = append(m.Parts, Text{Text: k.Text})
		}
	}
	for _, p := range k.Parts {
		c.whole(p)
	}
	for _, t := range k.ToolCalls {
		c.call(t)
	}
}

// grow appends to the text of the part at i, which was first.
func (c *Collector) grow(i int, first, more string) {
	b, ok := c.grown[i]
	if !ok {
		if c.grown == nil {
			c.grown = map[int][]byte{}
		}
		b = append(b, first...)
	}
	c.grown[i] = append(b, more...)
}

// whole appends a whole part. Reasoning that only carries the signature of what
// was streamed before completes that.
func (c *Collector) whole(p Part) {
	m := &c.m
	if r, ok := p.(Reasoning); ok && r.Text == "" && !r.Redacted {
		if l, ok := last[Reasoning](m.Parts); ok && l.Signature == "" {
			l.Signature = r.Signature
			set(&l.ID, r.ID)
			m.Parts[len(m.Parts)-1] = l
			return
		}
	}
	m.Parts = append(m.Parts, p)
}

func (c *Collector) call(t ToolCallChunk) {
	m := &c.m
	i, ok := c.calls[t.Index]
	if !ok {
		if c.calls == nil {
			c.calls = map[int]int{}
		}
		i = len(m.Parts)
		c.calls[t.Index] = i
		m.Parts = append(m.Parts, ToolCall{})
	}
	call := m.Parts[i].(ToolCall)
	set(&call.ID, t.ID)
	set(&call.Name, t.Name)
	set(&call.Signature, t.Signature)
	switch {
	case t.Args == "":
	case call.Args == "":
		call.Args = t.Args
	default:
		c.grow(i, call.Args, t.Args)
	}
	m.Parts[i] = call
}

// Message returns the sum of the chunks so far. Later Adds don't alter it.
func (c *Collector) Message() Message {
	m := c.m
	if m.Role == "" {
		m.Role = RoleAssistant
	}
	m.Parts = slices.Clone(m.Parts)
	for i, b := range c.grown {
		switch p := m.Parts[i].(type) {
		case Text:
			p.Text = string(b)
			m.Parts[i] = p
		case Reasoning:
			p.Text = string(b)
			m.Parts[i] = p
		case ToolCall:
			p.Args = string(b)
			m.Parts[i] = p
		}
	}
	return m
}

func set[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

func last[P Part](parts []Part) (P, bool) {
	if len(parts) == 0 {
		var none P
		return none, false
	}
	p, ok := parts[len(parts)-1].(P)
	return p, ok
}
