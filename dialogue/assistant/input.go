package assistant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue"
)

// Input is what a turn begins with: a message of the user (a text, the commands of a
// button), an event, or what a person says who has the conversation. One of them is
// given.
//
// It is the input of the graph in JSON, and the answer to the question at which a
// conversation waits; an answer may also be a text alone.
type Input struct {
	dialogue.Message

	// UserMessage is another name for the text.
	UserMessage string `json:"user_message,omitempty"`
	// Messages are those of a chat, as LangGraph's clients send them; the last one is the
	// user's, and its ID that of the message.
	Messages []chat.Message `json:"messages,omitempty"`

	Event    *dialogue.Event    `json:"event,omitempty"`
	Release  *dialogue.Release  `json:"release,omitempty"`
	Operator *dialogue.Operator `json:"operator,omitempty"`
}

// InputError says what is wrong with an [Input].
type InputError struct{ Reason string }

// Error says what is wrong.
func (e *InputError) Error() string { return "assistant: the input " + e.Reason }

// answer is an [Input], or a text.
type answer struct{ Input }

// UnmarshalJSON reads either.
func (a *answer) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &a.Text)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(&a.Input)
}

// answerSchema is what the question of a conversation takes.
var answerSchema = json.RawMessage(`{"anyOf": [{"type": "string"}, {"type": "object", "properties": {
	"text": {"type": "string"}, "user_message": {"type": "string"}, "messages": {"type": "array"},
	"commands": {"type": "array", "items": {"type": "object"}}, "question": {"type": "string"},
	"id": {"type": "string"}, "language": {"type": "string"}, "channel": {"type": "string"}, "time": {"type": "string"},
	"event": {"type": "object"}, "release": {"type": "object"}, "operator": {"type": "object"}}, "additionalProperties": false}]}`)

// begun is what a turn begins with, one of its fields.
type begun struct {
	Message  *dialogue.Message  `json:"message,omitempty"`
	Event    *dialogue.Event    `json:"event,omitempty"`
	Release  *dialogue.Release  `json:"release,omitempty"`
	Operator *dialogue.Operator `json:"operator,omitempty"`
	Wake     *dialogue.Wake     `json:"wake,omitempty"`
}

// begins returns what a turn begins with, or an [*InputError].
func (in Input) begins() (begun, error) {
	refuse := func(format string, args ...any) (begun, error) {
		return begun{}, &InputError{fmt.Sprintf(format, args...)}
	}
	m := in.Message
	given := 0
	for _, is := range []bool{in.UserMessage != "", len(in.Messages) > 0, m.Text != "" || len(m.Commands) > 0, in.Event != nil, in.Release != nil, in.Operator != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return refuse("has several things that begin a turn; give one of text (or commands), user_message, messages, event, release and operator")
	}
	switch {
	case in.Event != nil:
		if in.Event.Name == "" {
			return refuse("has an event without a name")
		}
		return begun{Event: in.Event}, nil
	case in.Release != nil:
		return begun{Release: in.Release}, nil
	case in.Operator != nil:
		return begun{Operator: in.Operator}, nil
	case in.UserMessage != "":
		m.Text = in.UserMessage
	case len(in.Messages) > 0:
		last := in.Messages[len(in.Messages)-1]
		if last.Role != chat.RoleUser {
			return refuse("ends with a message of %q; the last of messages is the user's", last.Role)
		}
		for _, p := range last.Parts {
			if _, ok := p.(chat.Text); !ok {
				return refuse("has a message with a part that is no text")
			}
		}
		m.Text = last.Text()
		if m.ID == "" {
			m.ID = last.ID
		}
	}
	return begun{Message: &m}, nil
}

// input returns what is begun for the manager.
func (b begun) input() dialogue.Input {
	switch {
	case b.Message != nil:
		return *b.Message
	case b.Event != nil:
		return *b.Event
	case b.Release != nil:
		return *b.Release
	case b.Operator != nil:
		return *b.Operator
	case b.Wake != nil:
		return *b.Wake
	}
	return nil
}

// at returns the place of its time.
func (b begun) at() *time.Time {
	switch {
	case b.Message != nil:
		return &b.Message.Time
	case b.Event != nil:
		return &b.Event.Time
	case b.Release != nil:
		return &b.Release.Time
	case b.Operator != nil:
		return &b.Operator.Time
	}
	return &b.Wake.Time
}

var errNothingSaid = errors.New("assistant: nothing was said; give the thread an Input")

// Begin has a turn begin with an input: what [graph.Requests.Input] is given. It returns
// an [*InputError] for one that says nothing, or several things.
func (s *State) Begin(in Input) error {
	b, err := in.begins()
	if err != nil {
		return err
	}
	s.put(b)
	return nil
}

func (s *State) put(b begun) { s.Inbox.Set(append(slices.Clone(s.Inbox.Get()), b)) }

// on returns b with a time.
func (b begun) on(now time.Time) begun {
	b = begun{Message: clone(b.Message), Event: clone(b.Event), Release: clone(b.Release), Operator: clone(b.Operator), Wake: clone(b.Wake)}
	*b.at() = now
	return b
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
