package scripted

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Reply is what a [Model] answers to a call. It is a value: its methods return
// a changed copy.
type Reply struct {
	message func(context.Context, *model.Request) (chat.Message, error)

	when  func(*model.Request) bool
	times int // how many calls it answers; 0 means one
	every bool

	delay  time.Duration
	pause  time.Duration
	split  func(string) []string
	id     string
	usage  *chat.Usage
	finish chat.FinishReason

	broken   bool
	breakAt  int
	breakErr error

	// Of recordings:
	request json.RawMessage // nil: any
	chunks  []chat.Chunk    // instead of splitting the message
	failure error           // after the chunks
}

// Text replies with a text.
func Text(s string) Reply { return Message(chat.Assistant(s)) }

// Call replies with the wish to have a tool called. Args is the arguments' JSON.
// The call's ID is that of [Calls].
func Call(tool, args string) Reply { return Calls(chat.ToolCall{Name: tool, Args: args}) }

// Calls replies with the wish to have tools called. A call without an ID gets
// "call_N", where N counts the calls of the conversation from 1, those in the
// request included.
func Calls(calls ...chat.ToolCall) Reply { return Message(chat.Assistant("", calls...)) }

// Message replies with a message. A role, a reason to stop and IDs of tool calls
// that are missing are added.
func Message(m chat.Message) Reply {
	return Func(func(context.Context, *model.Request) (chat.Message, error) { return m, nil })
}

// Error replies with a failure, before anything of an answer.
func Error(err error) Reply {
	return Func(func(context.Context, *model.Request) (chat.Message, error) { return chat.Message{}, err })
}

// Func replies with what a function makes of the request, which it may not
// alter. What is missing is added as by [Message].
func Func(f func(context.Context, *model.Request) (chat.Message, error)) Reply {
	return Reply{message: f}
}

// When restricts the reply to requests that are accepted. All conditions of
// several must hold. They are called under the model's lock, so they can't use
// the model.
func (r Reply) When(accepts func(*model.Request) bool) Reply {
	if before := r.when; before != nil {
		r.when = func(req *model.Request) bool { return before(req) && accepts(req) }
	} else {
		r.when = accepts
	}
	return r
}

// Times makes the reply the answer to n calls. Without it, it answers one.
func (r Reply) Times(n int) Reply { r.times, r.every = n, false; return r }

// Repeat makes the reply the answer to any number of calls.
func (r Reply) Repeat() Reply { r.every = true; return r }

// After has the reply begin after d. The end of the context ends the wait.
func (r Reply) After(d time.Duration) Reply { r.delay = d; return r }

// Every puts a pause of d between the chunks of a stream.
func (r Reply) Every(d time.Duration) Reply { r.pause = d; return r }

// Split says how texts, reasoning and the arguments of tools are cut for a
// stream. The pieces must add up to the text. Without it, that is [Words].
func (r Reply) Split(f func(string) []string) Reply { r.split = f; return r }

// ID gives the message an ID.
func (r Reply) ID(id string) Reply { r.id = id; return r }

// Usage gives the message a usage. Without it, and without one of its own, it
// has none.
func (r Reply) Usage(u chat.Usage) Reply { r.usage = &u; return r }

// Finish gives the message a reason to stop. Without it, and without one of its
// own, it is [chat.FinishToolCalls] if it has calls and else [chat.FinishStop].
func (r Reply) Finish(f chat.FinishReason) Reply { r.finish = f; return r }

// Break has a stream fail with err after n chunks, and Generate fail with it
// at once. A nil err is a [model.Error] of kind [model.ErrorBrokenStream].
func (r Reply) Break(n int, err error) Reply {
	if err == nil {
		err = &model.Error{Provider: "scripted", Kind: model.ErrorBrokenStream, Message: "the script breaks the answer here"}
	}
	r.broken, r.breakAt, r.breakErr = true, n, err
	return r
}

// Says accepts requests whose last message of the user contains text.
func Says(text string) func(*model.Request) bool {
	return func(req *model.Request) bool { return strings.Contains(lastUser(req), text) }
}

// System accepts requests with a message of the system that contains text.
func System(text string) func(*model.Request) bool {
	return func(req *model.Request) bool {
		return slices.ContainsFunc(req.Messages, func(m chat.Message) bool {
			return m.Role == chat.RoleSystem && strings.Contains(m.Text(), text)
		})
	}
}

// Offers accepts requests that offer a tool.
func Offers(tool string) func(*model.Request) bool {
	return func(req *model.Request) bool {
		return slices.ContainsFunc(req.Tools, func(t chat.ToolSpec) bool { return t.Name == tool })
	}
}

// Returned accepts requests whose last message is the result of a tool.
func Returned(tool string) func(*model.Request) bool {
	return func(req *model.Request) bool {
		if len(req.Messages) == 0 {
			return false
		}
		m := req.Messages[len(req.Messages)-1]
		r, ok := m.ToolResult()
		return ok && (r.Name == tool || r.Name == "" && m.Name == tool)
	}
}

func lastUser(req *model.Request) string {
	for _, m := range slices.Backward(req.Messages) {
		if m.Role == chat.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// Words cuts a text behind its white space.
func Words(s string) []string {
	var words []string
	begin, space := 0, false
	for i, r := range s {
		if space && !unicode.IsSpace(r) {
			words = append(words, s[begin:i])
			begin = i
		}
		space = unicode.IsSpace(r)
	}
	return append(words, s[begin:])
}

// Runes cuts a text into characters.
func Runes(s string) []string {
	var runes []string
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		runes = append(runes, s[:n])
		s = s[n:]
	}
	return runes
}

// Whole doesn't cut.
func Whole(s string) []string { return []string{s} }

// complete adds to a message what is missing.
func (r *Reply) complete(m chat.Message, req *model.Request) chat.Message {
	if m.Role == "" {
		m.Role = chat.RoleAssistant
	}
	if r.id != "" {
		m.ID = r.id
	}
	if r.usage != nil {
		u := *r.usage
		m.Usage = &u
	}
	calls, owned := 0, false
	for i, p := range m.Parts {
		c, ok := p.(chat.ToolCall)
		if !ok {
			continue
		}
		if calls == 0 {
			for _, m := range req.Messages {
				calls += len(m.ToolCalls())
			}
		}
		calls++
		if c.ID == "" {
			if !owned { // the script's own isn't altered
				m.Parts, owned = slices.Clone(m.Parts), true
			}
			c.ID = "call_" + strconv.Itoa(calls)
			m.Parts[i] = c
		}
	}
	switch {
	case r.finish != "":
		m.Finish = r.finish
	case m.Finish != "":
	case calls > 0:
		m.Finish = chat.FinishToolCalls
	default:
		m.Finish = chat.FinishStop
	}
	return m
}

// chunksOf cuts a message for a stream: pieces of text and reasoning; for a
// tool call its ID and name, then pieces of its arguments; other parts whole;
// at last the model, the usage and the reason to stop.
func (r *Reply) chunksOf(m chat.Message) []chat.Chunk {
	split := r.split
	if split == nil {
		split = Words
	}
	var chunks []chat.Chunk
	calls := 0
	for i, p := range m.Parts {
		var before chat.Part
		if i > 0 {
			before = m.Parts[i-1]
		}
		switch p := p.(type) {
		case chat.Text:
			// A text right after another is sent whole: pieces would be added to
			// the one before.
			if t, ok := before.(chat.Text); p.Signature != "" || p.Text == "" || ok && t.Signature == "" {
				chunks = append(chunks, chat.Chunk{Parts: []chat.Part{p}})
				continue
			}
			for _, s := range split(p.Text) {
				chunks = append(chunks, chat.Chunk{Text: s})
			}
		case chat.Reasoning:
			if t, ok := before.(chat.Reasoning); p.Redacted || p.Text == "" || ok && t.Signature == "" {
				chunks = append(chunks, chat.Chunk{Parts: []chat.Part{p}})
				continue
			}
			for _, s := range split(p.Text) {
				chunks = append(chunks, chat.Chunk{Reasoning: s})
			}
			if p.Signature != "" || p.ID != "" {
				chunks = append(chunks, chat.Chunk{Parts: []chat.Part{chat.Reasoning{ID: p.ID, Signature: p.Signature}}})
			}
		case chat.ToolCall:
			chunks = append(chunks, chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: calls, ID: p.ID, Name: p.Name, Signature: p.Signature}}})
			for _, s := range split(p.Args) {
				if s != "" {
					chunks = append(chunks, chat.Chunk{ToolCalls: []chat.ToolCallChunk{{Index: calls, Args: s}}})
				}
			}
			calls++
		default:
			chunks = append(chunks, chat.Chunk{Parts: []chat.Part{p}})
		}
	}
	chunks = append(chunks, chat.Chunk{Model: m.Model, Usage: m.Usage, Finish: m.Finish})
	chunks[0].ID, chunks[0].Role, chunks[0].Name = m.ID, m.Role, m.Name
	return chunks
}
