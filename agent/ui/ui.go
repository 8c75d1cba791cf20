// Package ui lets nodes show components of a page beside a conversation: a chart, a form, a
// card. A node pushes a [Message] with the name of a component and its props; a page that
// was made with LangGraph's React hooks (useStream, LoadExternalComponent, uiMessageReducer)
// or a reader of this package's JSON shows it. What was pushed is streamed as it happens, as
// a custom event, and stays in the state:
//
//	type State struct {
//		agent.State
//		UI ui.Messages `json:"ui"`
//	}
//
// The components themselves are the page's own.
package ui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/graph"
)

// The types of messages.
const (
	TypeShow   = "ui"
	TypeRemove = "remove-ui"
)

// Message shows a component, or takes one away. Its JSON is that of LangGraph's clients.
type Message struct {
	Type     string          `json:"type"` // TypeShow or TypeRemove
	ID       string          `json:"id"`
	Name     string          `json:"name,omitempty"`  // of the component
	Props    json.RawMessage `json:"props,omitempty"` // an object
	Metadata *Metadata       `json:"metadata,omitempty"`
}

// Metadata says more of a message.
type Metadata struct {
	Merge     bool   `json:"merge,omitempty"`      // the props are added to those of the message with this ID
	MessageID string `json:"message_id,omitempty"` // the message of the conversation beside which it stands
}

// Messages is a field of a state that holds what is shown, in the order in which it was
// pushed first. A message with the ID of another replaces it.
type Messages = graph.Reduced[[]Message, shown]

// shown is the reducer.
type shown struct{}

// Reduce applies messages to those that are shown.
func (shown) Reduce(current, update []Message) []Message {
	out := slices.Clone(current)
	for _, m := range update {
		i := slices.IndexFunc(out, func(o Message) bool { return o.ID == m.ID })
		switch {
		case m.Type == TypeRemove && i >= 0:
			out = slices.Delete(out, i, i+1)
		case m.Type == TypeRemove:
		case i < 0:
			out = append(out, m)
		default:
			if m.Metadata != nil && m.Metadata.Merge {
				m.Props = merged(out[i].Props, m.Props)
				if old := out[i].Metadata; old != nil && m.Metadata.MessageID == "" {
					m.Metadata = &Metadata{Merge: true, MessageID: old.MessageID}
				}
			}
			out[i] = m
		}
	}
	return out
}

// merged returns props with others added.
func merged(props, more json.RawMessage) json.RawMessage {
	var all, add map[string]json.RawMessage
	if json.Unmarshal(props, &all) != nil || json.Unmarshal(more, &add) != nil || all == nil {
		return more
	}
	maps.Copy(all, add)
	data, err := json.Marshal(all)
	if err != nil { // of JSON
		return more
	}
	return data
}

// Option is a setting of [Push].
type Option func(*Message)

// ID names what is pushed, so that it can be changed or removed. The default follows from the
// task and what it has pushed before: it is the same when the node runs again.
func ID(id string) Option { return func(m *Message) { m.ID = id } }

// Beside has it stand beside a message of the conversation.
func Beside(messageID string) Option {
	return func(m *Message) { m.metadata().MessageID = messageID }
}

// Merge adds the props to those of the message with the same [ID], in the place of
// replacing them.
func Merge() Option { return func(m *Message) { m.metadata().Merge = true } }

func (m *Message) metadata() *Metadata {
	if m.Metadata == nil {
		m.Metadata = &Metadata{}
	}
	return m.Metadata
}

// Push shows a component, by its name, with props that are an object in JSON (nil for none),
// and returns the ID of what it pushed. It belongs in a node.
func Push(ctx context.Context, to *Messages, component string, props any, opts ...Option) (id string, err error) {
	if component == "" {
		return "", errors.New("ui.Push: a component has a name")
	}
	m := Message{Type: TypeShow, Name: component, Props: json.RawMessage("{}")}
	if props != nil {
		if m.Props, err = json.Marshal(props); err != nil {
			return "", fmt.Errorf("ui.Push: the props of %s: %w", component, err)
		}
		if len(m.Props) == 0 || m.Props[0] != '{' {
			return "", fmt.Errorf("ui.Push: the props of %s are no object in JSON, but %.80s", component, m.Props)
		}
	}
	for _, o := range opts {
		o(&m)
	}
	if m.ID == "" {
		h := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", graph.Info(ctx).Task, component, len(to.Get())))
		m.ID = "ui_" + hex.EncodeToString(h[:12])
	}
	return m.ID, send(ctx, to, m)
}

// Remove takes away what was pushed with an ID.
func Remove(ctx context.Context, from *Messages, id string) error {
	return send(ctx, from, Message{Type: TypeRemove, ID: id})
}

func send(ctx context.Context, to *Messages, m Message) error {
	if err := graph.Emit(ctx, m); err != nil {
		return fmt.Errorf("ui: %w", err)
	}
	if m.Type == TypeShow || !to.IsZero() { // or else nothing is shown
		to.Add([]Message{m})
	}
	return nil
}
