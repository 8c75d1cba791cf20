package assistant

import (
	"slices"
	"strconv"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

// State is a conversation as the graph keeps it: a [dialogue.State] in fields that are
// stored by what changed, so that a turn costs the same however long the conversation is.
// [State.Dialogue] returns it whole.
type State struct {
	UserMessage        string                                        `json:"user_message"`
	LastResponse       string                                        `json:"last_response"`
	Messages           chat.History                                  `json:"messages"`
	FlowStack          graph.Value[[]dialogue.FlowContext]           `json:"flow_stack"` // the last is active
	FlowSlots          graph.Value[map[string]map[string]expr.Value] `json:"flow_slots"` // by flow_id, and "session"
	ConversationState  string                                        `json:"conversation_state"`
	CurrentStep        string                                        `json:"current_step"`
	WaitingForSlot     string                                        `json:"waiting_for_slot"` // or confirm:STEP
	NLUResult          graph.Value[*dialogue.NLUResult]              `json:"nlu_result"`
	LastNLUCall        graph.Value[*time.Time]                       `json:"last_nlu_call"`
	DigressionDepth    int                                           `json:"digression_depth"`
	LastDigressionType string                                        `json:"last_digression_type"`
	TurnCount          int                                           `json:"turn_count"`
	Trace              graph.List[dialogue.TraceEvent]               `json:"trace"`
	Metadata           graph.Value[Metadata]                         `json:"metadata"`

	// Machine is the manager's own: read it, but leave it as it is.
	Machine graph.Value[dialogue.Machine] `json:"machine,omitzero"`
	// Answered are the replies to messages that may be delivered again.
	Answered graph.List[dialogue.Answered] `json:"answered,omitzero"`

	// Inbox is what turns are yet to begin with, the first one under way.
	Inbox graph.Value[[]begun] `json:"inbox,omitzero"`
	// Turn is what is there of the turn under way alone.
	Turn graph.Value[underWay] `json:"turn,omitzero"`
}

// Metadata is what a conversation keeps beside its own fields.
type Metadata struct {
	CompletedFlows  []dialogue.FlowContext `json:"completed_flows"` // the archive, the newest last
	Error           string                 `json:"error,omitempty"`
	ErrorType       string                 `json:"error_type,omitempty"`
	ErrorAt         time.Time              `json:"error_at,omitzero"`
	ActionResult    map[string]expr.Value  `json:"action_result,omitempty"`
	ActionTimestamp time.Time              `json:"action_timestamp,omitzero"`
}

// underWay is what is there of a turn until it ends: what may still be masked in the
// transcript and the trace is not yet in the lists that only grow.
type underWay struct {
	Commands []dialogue.Command    `json:"commands,omitempty"` // of the message, as understood
	Called   time.Time             `json:"called,omitzero"`    // when a model was asked for them
	Read     bool                  `json:"read,omitempty"`     // the message's words were understood
	Before   string                `json:"before,omitempty"`   // the conversation_state then
	Messages []dialogue.Entry      `json:"messages,omitempty"`
	Trace    []dialogue.TraceEvent `json:"trace,omitempty"`
	Decided  bool                  `json:"decided,omitempty"` // what it begins with was worked out
	Reply    *dialogue.Reply       `json:"reply,omitempty"`   // what it says
	Ended    bool                  `json:"ended,omitempty"`   // what it begins with has left the inbox
}

// Dialogue returns the conversation as package dialogue has it.
func (s *State) Dialogue() dialogue.State {
	d := s.whole(s.Messages.Len())
	d.Trace = append(s.Trace.Slice(), s.Turn.Get().Trace...)
	d.Metadata.Machine.Answered = s.Answered.Slice()
	return d
}

// whole is Dialogue without the lists of the manager's own, and with the last messages.
func (s *State) whole(messages int) dialogue.State {
	d := dialogue.New(s.Machine.Get().Thread)
	d.UserMessage, d.LastResponse = s.UserMessage, s.LastResponse
	if v := s.FlowStack.Get(); v != nil {
		d.FlowStack = v
	}
	if v := s.FlowSlots.Get(); v != nil {
		d.FlowSlots = v
	}
	if s.ConversationState != "" {
		d.ConversationState = dialogue.ConversationState(s.ConversationState)
	}
	d.CurrentStep, d.WaitingForSlot = s.CurrentStep, s.WaitingForSlot
	d.NLUResult, d.LastNLUCall = s.NLUResult.Get(), s.LastNLUCall.Get()
	d.DigressionDepth, d.LastDigressionType, d.TurnCount = s.DigressionDepth, s.LastDigressionType, s.TurnCount
	m := s.Metadata.Get()
	d.Metadata = dialogue.Metadata{
		CompletedFlows: m.CompletedFlows, Error: m.Error, ErrorType: m.ErrorType, ErrorAt: m.ErrorAt,
		ActionResult: m.ActionResult, ActionTimestamp: m.ActionTimestamp, Machine: s.Machine.Get(),
	}
	if d.Metadata.CompletedFlows == nil {
		d.Metadata.CompletedFlows = []dialogue.FlowContext{}
	}
	d.Messages = append(entries(&s.Messages, messages), s.Turn.Get().Messages...)
	return d
}

// entries returns the last messages, with room for two more.
func entries(h *chat.History, n int) []dialogue.Entry {
	list := make([]dialogue.Entry, 0, min(n, h.Len())+2)
	for m := range h.Backward() {
		if len(list) == n {
			break
		}
		list = append(list, entryOf(m))
	}
	slices.Reverse(list)
	return list
}

// dialogue is Dialogue with what the next input depends on: nothing of what was traced in
// earlier turns, and so many messages of them.
func (s *State) dialogue(messages int) dialogue.State {
	d := s.whole(messages)
	d.Trace = s.Turn.Get().Trace
	d.Metadata.Machine.Answered = s.answered()
	return d
}

// answered are the replies to messages that may be delivered again.
func (s *State) answered() []dialogue.Answered { return last(s.Answered.Slice(), keptAnswers) }

// outline is a conversation without what it would cost to read: what it waits for is
// there, and what it said last.
func (s *State) outline() dialogue.State {
	return dialogue.State{Metadata: dialogue.Metadata{Machine: s.Machine.Get()}}
}

// keptAnswers is how many replies to messages that may be delivered again stay.
const keptAnswers = 20

// set takes over what became of a conversation. Its lists grow by what a turn added once
// the turn has ended, since until then that may still be masked.
func (s *State) set(d dialogue.State, keep program.Settings) {
	listed := s.TurnCount
	if s.Machine.Get().Turn != nil {
		listed--
	}
	s.UserMessage, s.LastResponse = d.UserMessage, d.LastResponse
	s.FlowStack.Set(d.FlowStack)
	s.FlowSlots.Set(d.FlowSlots)
	s.ConversationState, s.CurrentStep, s.WaitingForSlot = string(d.ConversationState), d.CurrentStep, d.WaitingForSlot
	s.NLUResult.Set(d.NLUResult)
	s.LastNLUCall.Set(d.LastNLUCall)
	s.DigressionDepth, s.LastDigressionType, s.TurnCount = d.DigressionDepth, d.LastDigressionType, d.TurnCount
	x := d.Metadata
	s.Metadata.Set(Metadata{
		CompletedFlows: x.CompletedFlows, Error: x.Error, ErrorType: x.ErrorType, ErrorAt: x.ErrorAt,
		ActionResult: x.ActionResult, ActionTimestamp: x.ActionTimestamp,
	})

	turn := s.Turn.Get()
	turn.Messages = from(d.Messages, func(e dialogue.Entry) bool { return e.Turn > listed })
	turn.Trace = from(d.Trace, func(e dialogue.TraceEvent) bool { return e.Turn > listed })
	if d.Waiting() {
		said := make([]chat.Message, len(turn.Messages))
		for i, e := range turn.Messages {
			said[i] = messageOf(e, i, s.messageID())
		}
		s.Messages.Add(said...)
		s.Trace.Add(turn.Trace...)
		turn.Messages, turn.Trace = nil, nil
		cut(&s.Trace, keep.TraceEvents)
		if n := s.Messages.Len(); n > 2*keep.HistoryMessages {
			var gone []string
			for m := range s.Messages.All() {
				if len(gone) == n-keep.HistoryMessages {
					break
				}
				gone = append(gone, m.ID)
			}
			s.Messages.Remove(gone...)
		}
	}
	s.Turn.Set(turn)

	known := s.Answered.Slice()
	for _, a := range x.Machine.Answered {
		if !slices.ContainsFunc(known, func(b dialogue.Answered) bool { return b.ID == a.ID }) {
			s.Answered.Add(a)
		}
	}
	cut(&s.Answered, keptAnswers)
	x.Machine.Answered = nil
	s.Machine.Set(x.Machine)
}

// from returns what begins with the first item that will do.
func from[T any](list []T, will func(T) bool) []T {
	if i := slices.IndexFunc(list, will); i >= 0 {
		return slices.Clip(list[i:])
	}
	return nil
}

// cut shortens a list to the last n, once it is twice as long: so it costs little.
func cut[T any](l *graph.List[T], n int) {
	if all := l.Len(); all > 2*n {
		rest := make([]T, 0, n)
		for i := all - n; i < all; i++ {
			rest = append(rest, l.At(i))
		}
		l.Overwrite(rest...)
	}
}

func last[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// messageID is the ID that the message under way was delivered with.
func (s *State) messageID() string {
	if in := s.Inbox.Get(); len(in) > 0 && in[0].Message != nil {
		return in[0].Message.ID
	}
	return ""
}

// operator is the name under which a person speaks for the assistant.
const operator = "operator"

const turnKey = "turn" // of the metadata of messages

// messageOf is a line of the transcript, the i-th one of its turn.
func messageOf(e dialogue.Entry, i int, id string) chat.Message {
	m := chat.Assistant(e.Text)
	switch e.Role {
	case "user":
		m = chat.User(e.Text)
		m.ID = id
	case operator:
		m.Name = operator
	}
	if m.ID == "" {
		m.ID = "turn-" + strconv.Itoa(e.Turn) + "-" + strconv.Itoa(i)
	}
	m.Metadata = map[string]string{turnKey: strconv.Itoa(e.Turn)}
	return m
}

func entryOf(m chat.Message) dialogue.Entry {
	e := dialogue.Entry{Role: "assistant", Text: m.Text()}
	switch {
	case m.Role == chat.RoleUser:
		e.Role = "user"
	case m.Name == operator:
		e.Role = operator
	}
	e.Turn, _ = strconv.Atoi(m.Metadata[turnKey]) // 0 of one that somebody edited in
	return e
}

// reword has the reply of the turn said in other words.
func (s *State) reword(r dialogue.Reply) {
	s.LastResponse = r.Text
	if m := s.Messages.Last(); m.Role == chat.RoleAssistant {
		m.Parts = chat.Assistant(r.Text).Parts
		s.Messages.Add(m)
	}
	machine := s.Machine.Get()
	was := machine.LastReply
	machine.LastReply = &r
	s.Machine.Set(machine)
	answered := s.Answered.Slice()
	if n := len(answered) - 1; n >= 0 && was != nil && answered[n].Reply.Turn == was.Turn {
		answered[n].Reply = r
		s.Answered.Overwrite(answered...)
	}
}
