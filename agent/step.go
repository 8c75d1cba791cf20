package agent

import (
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/chat"
)

// Step is an entry of a scratchpad: what a [ReActNode] thought, did or saw.
type Step struct {
	Kind StepKind

	Text        string          // of a thought, a final answer and an error
	Call        chat.ToolCall   // of an action, and whose result an observation is
	Observation json.RawMessage // any JSON
}

// StepKind tells the kinds of steps.
type StepKind string

// The kinds.
const (
	StepThought     StepKind = "thought"
	StepAction      StepKind = "action"
	StepObservation StepKind = "observation"
	StepFinalAnswer StepKind = "final_answer"
	StepError       StepKind = "error"
)

// Thought is what the model said beside its calls.
func Thought(text string) Step { return Step{Kind: StepThought, Text: text} }

// Action is a call of a tool.
func Action(call chat.ToolCall) Step { return Step{Kind: StepAction, Call: call} }

// Observation is what a call led to: any JSON.
func Observation(call chat.ToolCall, value json.RawMessage) Step {
	return Step{Kind: StepObservation, Call: call, Observation: value}
}

// FinalAnswer is the answer.
func FinalAnswer(text string) Step { return Step{Kind: StepFinalAnswer, Text: text} }

// ErrorStep says what went wrong.
func ErrorStep(text string) Step { return Step{Kind: StepError, Text: text} }

type stepJSON struct {
	Kind        StepKind        `json:"kind"`
	Text        string          `json:"text,omitempty"`
	Call        *chat.ToolCall  `json:"call,omitempty"`
	Observation json.RawMessage `json:"observation,omitempty"`
}

// MarshalJSON writes {"kind", "text", "call", "observation"}, without what a kind
// doesn't have.
func (s Step) MarshalJSON() ([]byte, error) {
	j := stepJSON{Kind: s.Kind, Text: s.Text}
	switch s.Kind {
	case StepThought, StepFinalAnswer, StepError:
	case StepObservation:
		if j.Observation = s.Observation; j.Observation == nil {
			j.Observation = json.RawMessage("null")
		}
		fallthrough
	case StepAction:
		j.Call = &s.Call
	default:
		return nil, fmt.Errorf("agent: a step of the unknown kind %q", s.Kind)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Step) UnmarshalJSON(data []byte) error {
	var j stepJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	switch j.Kind {
	case StepThought, StepFinalAnswer, StepError, StepObservation, StepAction:
	default:
		return fmt.Errorf("agent: a step of the unknown kind %q", j.Kind)
	}
	*s = Step{Kind: j.Kind, Text: j.Text}
	if j.Call != nil {
		s.Call = *j.Call
	}
	if j.Kind == StepObservation {
		if s.Observation = j.Observation; s.Observation == nil {
			s.Observation = json.RawMessage("null")
		}
	}
	return nil
}
