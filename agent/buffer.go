package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// Buffer is the conversation of a graph whose agent is a [ReActNode]: a state
// that embeds it beside a [Scratch] has a memory. The node sends its messages
// before the question; [AddBuffer] adds the node that writes them. (A [State]
// needs neither: its nodes keep the conversation themselves.)
type Buffer struct {
	Messages chat.History `json:"messages"`
}

// BufferState returns b: it is how nodes find the Buffer in a struct that embeds
// it.
func (b *Buffer) BufferState() *Buffer { return b }

// Buffered is a pointer to a state that embeds a [Scratch] and a [Buffer].
type Buffered[S any] interface {
	Scratched[S]
	BufferState() *Buffer
}

// AddBuffer adds a node that appends the question and the answer of a
// [ReActNode] to the conversation. It may stand anywhere after that node.
func AddBuffer[S any, P Buffered[S]](b *graph.Builder[S], name string, opts ...graph.NodeOption) {
	b.AddNode(name, func(_ context.Context, s *S) error {
		scratch, h := P(s).ScratchState(), &P(s).BufferState().Messages
		if scratch.UserInput != "" {
			h.Add(chat.User(scratch.UserInput))
		}
		if scratch.FinalOutput != "" {
			h.Add(chat.Assistant(scratch.FinalOutput))
		}
		return nil
	}, opts...)
}

// Summary is a node that keeps a conversation short: when it is longer than
// MaxTokens, the older messages are replaced by a summary of them, which a model
// writes. Model and MaxTokens are needed.
type Summary struct {
	Model model.Model

	MaxTokens int

	// KeepTokens is how many tokens of the newest turns stay as they are; half
	// of MaxTokens if 0. The last turn stays in any case, unless it is longer than
	// MaxTokens by itself: then what tools were called for in it, and their results,
	// become a summary behind the user's message, but for the newest rounds that
	// fit. Calls and their results stay together, and the last round stays.
	KeepTokens int

	Count  chat.Counter // nil: chat.EstimateTokens
	Config model.Config

	// Instruction says how to summarize; [DefaultSummaryInstruction] if empty.
	Instruction string
}

// DefaultSummaryInstruction is the instruction of a [Summary] that gives none.
const DefaultSummaryInstruction = "Summarize the conversation below for somebody who goes on with it: names, facts, decisions, what was asked and what is still open. If it begins with a summary, bring that up to date. Write nothing but the summary."

// summaryKey marks a message that is a summary, in its Metadata.
const summaryKey = "summary"

// IsSummary reports whether a message is what a [Summary] wrote.
func IsSummary(m chat.Message) bool { return m.Metadata[summaryKey] != "" }

// AddSummary adds a node that keeps the conversation short that of returns.
func AddSummary[S any](b *graph.Builder[S], name string, c Summary, of func(s *S) *chat.History, opts ...graph.NodeOption) {
	var errs []error
	if c.Model == nil {
		errs = append(errs, errors.New("a summary needs a Model"))
	}
	if c.MaxTokens <= 0 || c.KeepTokens < 0 || c.KeepTokens > c.MaxTokens {
		errs = append(errs, fmt.Errorf("a summary needs positive MaxTokens and at most as many KeepTokens: they are %d and %d", c.MaxTokens, c.KeepTokens))
	}
	if of == nil {
		errs = append(errs, errors.New("a summary needs a function that returns the conversation"))
	}
	b.Mistake(name, errors.Join(errs...))
	b.AddNode(name, func(ctx context.Context, s *S) error {
		field := func() *UsageField {
			switch s := any(s).(type) {
			case interface{ AgentState() *State }:
				return &s.AgentState().Usage
			case interface{ ScratchState() *Scratch }:
				return &s.ScratchState().Usage
			}
			return new(UsageField) // the state has no usage
		}
		_, err := counted(ctx, field, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.run(ctx, of(s)) })
		return err
	}, opts...)
}

func (c *Summary) run(ctx context.Context, h *chat.History) error {
	count := c.Count
	if count == nil {
		count = chat.EstimateTokens
	}
	messages := h.Slice()
	if sum(messages, count) <= c.MaxTokens {
		return nil
	}
	keep := c.KeepTokens
	if keep == 0 {
		keep = c.MaxTokens / 2
	}
	for len(messages) > 0 && messages[0].Role == chat.RoleSystem && !IsSummary(messages[0]) {
		messages = messages[1:] // instructions stay
	}
	fit := newest(messages, keep, count)
	if err := c.replace(ctx, h, messages[:len(messages)-fit]); err != nil {
		return err
	}
	turn := messages[len(messages)-fit:]
	if len(turn) == 0 || sum(turn, count) <= c.MaxTokens {
		return nil
	}
	return c.replace(ctx, h, turn[1:1+chat.NewestRounds(turn[1:], keep-count(turn[0]), count)])
}

func sum(messages []chat.Message, count chat.Counter) (total int) {
	for _, m := range messages {
		total += count(m)
	}
	return total
}

// replace puts a summary in the place of messages that follow one another.
func (c *Summary) replace(ctx context.Context, h *chat.History, old []chat.Message) error {
	if len(old) == 0 || len(old) == 1 && IsSummary(old[0]) {
		return nil // what is left can't be shortened
	}
	summary, err := c.summarize(ctx, old)
	if err != nil {
		return err
	}
	Spend(ctx, summary.Used)
	m := chat.Message{ID: old[0].ID, Role: chat.RoleSystem, Parts: []chat.Part{chat.Text{Text: summary.Text}}, Metadata: map[string]string{summaryKey: "true"}}
	if n := answersSince(old); n > 0 {
		m.Metadata[summaryCalls] = strconv.Itoa(n)
	}
	h.Add(m)
	for _, m := range old[1:] {
		h.Remove(m.ID)
	}
	return nil
}

// summaryCalls is the key of the metadata of a summary that says how many answers of
// models since the user spoke are in it: they count for the limit of a turn.
const summaryCalls = "summary_calls"

// answersSince returns how many answers of models there are since the user spoke,
// those in summaries included.
func answersSince(messages []chat.Message) (n int) {
	for _, m := range slices.Backward(messages) {
		switch {
		case m.Role == chat.RoleUser:
			return n
		case m.Role == chat.RoleAssistant:
			n++
		case IsSummary(m):
			in, _ := strconv.Atoi(m.Metadata[summaryCalls]) // without: of turns before
			n += in
		}
	}
	return n
}

// newest returns how many messages of the newest turns fit: all of the last one
// in any case.
func newest(messages []chat.Message, max int, count chat.Counter) int {
	fit, total := 0, 0
	for i := len(messages) - 1; i >= 0; i-- {
		total += count(messages[i])
		if total > max && fit > 0 {
			break
		}
		if messages[i].Role == chat.RoleUser {
			fit = len(messages) - i
		}
	}
	return fit
}

// summarized is what is recorded of a summary.
type summarized struct {
	Text string
	Used Usage `json:",omitempty"`
}

func (c *Summary) summarize(ctx context.Context, old []chat.Message) (summarized, error) {
	instruction := c.Instruction
	if instruction == "" {
		instruction = DefaultSummaryInstruction
	}
	var b strings.Builder
	for _, m := range old {
		fmt.Fprintf(&b, "%s: %s", speaker(m), m.Text())
		for _, call := range m.ToolCalls() {
			fmt.Fprintf(&b, " [calls %s %s]", call.Name, call.Args)
		}
		b.WriteByte('\n')
	}
	req := &model.Request{Messages: []chat.Message{chat.System(instruction), chat.User(b.String())}, Config: c.Config}
	// The record is of this text: the conversation may be another by the time that
	// the node runs again.
	sum := sha256.Sum256([]byte(b.String()))
	return graph.Once(ctx, "summary "+hex.EncodeToString(sum[:6]), func(context.Context, string) (summarized, error) {
		resp, err := watched(ctx, req, "", func(ctx context.Context) (*model.Response, error) { return model.Ask(ctx, c.Model, req) })
		if err != nil {
			return summarized{}, err
		}
		if text := strings.TrimSpace(resp.Message.Text()); text != "" {
			return summarized{text, UsedBy("", resp)}, nil
		}
		return summarized{}, errors.New("the model wrote no summary")
	})
}

func speaker(m chat.Message) string {
	switch {
	case IsSummary(m):
		return "summary"
	case m.Name != "":
		return string(m.Role) + " " + m.Name
	}
	return string(m.Role)
}
