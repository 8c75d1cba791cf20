package chat

import (
	"maps"
	"slices"
)

// Chunk is a piece of a message that is being streamed. The chunks of a message
// add up to it with a [Collector]. All fields may be empty.
type Chunk struct {
	// ID is the message's, in at least the first chunk.
	ID   string
	Role Role // in the first chunk; empty means the assistant
	Name string

	Text      string          // to append
	Reasoning string          // to append
	ToolCalls []ToolCallChunk // to append

	// Parts are whole parts: media, text that is complete, reasoning with its
	// signature.
	Parts []Part

	// Of the message, once known: usually in the last chunk.
	Model  string
	Finish FinishReason
	Usage  *Usage

	Metadata map[string]string // to add
}

// ToolCallChunk is a piece of a tool call. Pieces with the same Index belong
// together; ID and Name come whole, in the first one; Args are to append.
type ToolCallChunk struct {
	Index     int
	ID        string
	Name      string
	Args      string
	Signature string // whole
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
