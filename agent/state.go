package agent

import (
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
)

// State is what the nodes of this package read and write. It is a whole state
// for a simple agent; a graph with more to say embeds it:
//
//	type State struct {
//		agent.State
//		Topic string
//	}
type State struct {
	// Messages is the conversation. Instructions for the model are not in it.
	Messages chat.History `json:"messages"`

	// UserInput is what the user says in this turn. The next node that asks a
	// model or an agent appends it to Messages together with the answer and
	// clears it; until then other nodes may rewrite it. If the node fails, it
	// stays.
	UserInput string `json:"user_input,omitempty"`

	// OneShot, if not empty, is all that the next model is sent, in the stead
	// of Messages and UserInput. It is cleared then. UserInput stays for the node
	// after it, and doesn't stop the calls of tools in the answer: see [LLM].
	OneShot graph.Value[[]chat.Message] `json:"one_shot_messages,omitzero"`

	// LastResponse is the text of the last answer of a model or an agent: of
	// several in one superstep, the last in plan order. An answer without text
	// leaves it as it is.
	LastResponse graph.Reduced[string, graph.Latest[string]] `json:"last_response,omitzero"`

	// NodeResponses has the last answer of each node, by its name.
	NodeResponses graph.Map[string, string] `json:"node_responses,omitzero"`

	// Structured is the answer in the form that [ReAct.Output] or [LLM.Output]
	// asks for.
	Structured graph.Value[json.RawMessage] `json:"structured_response,omitzero"`

	// Stopped says why the last model call was the last one of its turn.
	Stopped graph.Reduced[StopReason, graph.Latest[StopReason]] `json:"stop_reason,omitzero"`

	// Usage is what models have used on this thread, by node; that of agents inside
	// is in it. It is added to and never cleared.
	Usage UsageField `json:"model_usage,omitzero"`

	// Active is the agent of a [Swarm] that talks with the user.
	Active string `json:"active_agent,omitempty"`

	// Escalated says that an agent ends the [Cycle] that it is in.
	Escalated bool `json:"escalated,omitempty"`

	// Rounds counts the rounds of a [Cycle] in this run.
	Rounds int `json:"rounds,omitempty"`

	// Metadata is the user's own.
	Metadata graph.Map[string, json.RawMessage] `json:"metadata,omitzero"`
}

// AgentState returns s: it is how the nodes of this package find the State in a
// struct that embeds it.
func (s *State) AgentState() *State { return s }

// Stateful is a pointer to a state that is, or embeds, a [State].
type Stateful[S any] interface {
	*S
	AgentState() *State
}

// awaited is the key of a message's metadata under which stands the UserInput that
// was there and not sent when a model wrote the message: it answered OneShot.
const awaited = "waiting_user_input"

// wentOn reports whether the user has spoken since a message with calls of tools
// was written.
func (s *State) wentOn(from chat.Message) bool {
	if s.UserInput == "" || from.Metadata[keeps] != "" {
		return false
	}
	waiting, ok := from.Metadata[awaited]
	return !ok || waiting != s.UserInput
}

// StopReason says why an agent stopped.
type StopReason string

// The reasons.
const (
	StopAnswer        StopReason = "answer"         // the model called no more tools
	StopMaxIterations StopReason = "max_iterations" // it would have, but a limit was reached
	StopDirect        StopReason = "tool"           // a tool's result is the answer
	StopLength        StopReason = "length"         // the answer was cut at a limit of tokens
	StopFilter        StopReason = "content_filter" // the provider refused, or cut off, the answer
)

// stopOf returns why a turn has ended with an answer.
func stopOf(answer chat.Message) StopReason {
	switch answer.Finish {
	case chat.FinishLength:
		return StopLength
	case chat.FinishFilter:
		return StopFilter
	}
	return StopAnswer
}

// Ask is the input of a run: the user's text, in which bytes that are no UTF-8 become
// U+FFFD, as in any message. Invoke takes it:
//
//	snap, err := a.Invoke(ctx, agent.Ask[agent.State]("What is 6 times 7?"))
func Ask[S any, P Stateful[S]](text string) func(s *S) error {
	return func(s *S) error {
		P(s).AgentState().UserInput = strings.ToValidUTF8(text, "\uFFFD")
		return nil
	}
}

// Say is the input of a run that adds messages to the conversation. The model
// answers it as it stands.
func Say[S any, P Stateful[S]](messages ...chat.Message) func(s *S) error {
	return func(s *S) error {
		P(s).AgentState().Messages.Add(messages...)
		return nil
	}
}

// Pending returns the calls of tools that wait for their results: those of the
// last message of the assistant that calls tools, as far as they have no result
// yet. There are none when the user has spoken since.
func Pending(h *chat.History) (from chat.Message, calls []chat.ToolCall) {
	answered := map[string]bool{}
	for m := range h.Backward() {
		if m.Role == chat.RoleUser {
			return from, nil
		}
		if r, ok := m.ToolResult(); ok {
			answered[r.CallID] = true
			continue
		}
		if all := m.ToolCalls(); len(all) > 0 && m.Role == chat.RoleAssistant {
			for _, c := range all {
				if c.ID == "" || !answered[c.ID] {
					calls = append(calls, c)
				}
			}
			return m, calls
		}
	}
	return from, nil
}
