package assistant

import (
	"context"
	"errors"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/graph"
)

// Output is what a run of the graph gives to its caller, without what is the
// conversation's own.
type Output struct {
	LastResponse      string          `json:"last_response"`
	Messages          []chat.Message  `json:"messages"`
	Reply             *dialogue.Reply `json:"reply,omitempty"`
	ConversationState string          `json:"conversation_state"`
	WaitingForSlot    string          `json:"waiting_for_slot,omitempty"`
	TurnCount         int             `json:"turn_count"`
}

func outputOf(s *State) Output {
	out := Output{
		LastResponse: s.LastResponse, Messages: []chat.Message{}, Reply: s.Machine.Get().LastReply,
		ConversationState: s.ConversationState, WaitingForSlot: s.WaitingForSlot, TurnCount: s.TurnCount,
	}
	for m := range s.Messages.All() {
		out.Messages = append(out.Messages, m)
	}
	return out
}

// Say is one turn of the conversation of a thread: it returns the reply when it is stored.
// A message that was delivered before, told by its ID, gets the reply that it got. If the
// conversation is busy with a turn, elsewhere too, the message waits for its end.
//
// An error of type [*dialogue.UnderstandingError] means that the message counts as never
// sent. After any other error, as after a crash, the turn goes on with the next message,
// or as soon as a [graph.Runner] finds it.
func (a *Assistant) Say(ctx context.Context, thread string, m dialogue.Message, opts ...graph.RunOption) (dialogue.Reply, error) {
	return a.Take(ctx, thread, Input{Message: m}, opts...)
}

// Take is [Assistant.Say] with anything that a turn begins with.
func (a *Assistant) Take(ctx context.Context, thread string, in Input, opts ...graph.RunOption) (dialogue.Reply, error) {
	b, err := in.begins()
	if err != nil {
		return dialogue.Reply{}, err
	}
	return a.take(ctx, thread, b, opts)
}

func (a *Assistant) take(ctx context.Context, thread string, b begun, opts []graph.RunOption) (dialogue.Reply, error) {
	if b.at().IsZero() {
		b = b.on(a.config.Now())
	}
	t := a.graph.Thread(thread, graph.WhenBusy(graph.BusyQueue))
	snap, err := t.Invoke(ctx, t.Input(func(s *State) error {
		s.put(b)
		return nil
	}), opts...)
	if err != nil {
		return dialogue.Reply{}, err
	}
	d := snap.State.outline()
	if b.Message != nil && b.Message.ID != "" {
		d.Metadata.Machine.Answered = snap.State.answered()
		if r, ok := d.Answer(b.Message.ID); ok {
			return r, nil
		}
	}
	if r := d.Metadata.Machine.LastReply; r != nil {
		return *r, nil
	}
	return dialogue.Reply{}, nil
}

// State returns the conversation of a thread. That of a thread on which nothing was said
// has not begun.
func (a *Assistant) State(ctx context.Context, thread string) (dialogue.State, error) {
	snap, err := a.graph.Thread(thread).State(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return dialogue.New(thread), nil
	}
	if err != nil {
		return dialogue.State{}, err
	}
	return snap.State.Dialogue(), nil
}

// Wake does what is due on a thread by the assistant's clock, and returns what it says
// then; nothing if nothing is due. A [graph.Runner] does it by itself, by the real one.
func (a *Assistant) Wake(ctx context.Context, thread string, opts ...graph.RunOption) (dialogue.Reply, error) {
	d, err := a.State(ctx, thread)
	if err != nil {
		return dialogue.Reply{}, err
	}
	due, ok := d.Due()
	if !ok || due.After(a.config.Now()) {
		return dialogue.Reply{}, nil
	}
	return a.take(ctx, thread, begun{Wake: &dialogue.Wake{Time: due}}, opts)
}
