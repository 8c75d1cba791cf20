package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
)

// Turns makes what the user says start a turn where the last one failed or was cut
// short. Graphs with nodes of this package have it as a default; others whose state
// embeds a [State] may be given it.
//
// What the failed turn has recorded stays. Calls of tools that it left without a
// result are told as the records say: with the result, where there is one; else as
// called with an unknown outcome, where the call had begun; else as not called. What
// the user said in it stays as well if a model has answered it or an agent that is a
// node has begun with it; else the new input replaces it.
//
// While a question waits, such as whether a tool may be called, a message of the
// user is kept until the calls have been made, and answered with their results. It
// is refused with a [WaitingError] where no call waits, or another message does.
// [graph.Requests.Restart] starts a turn without the answer.
func Turns[S any, P Stateful[S]]() graph.RunOption {
	return graph.OnInput(func(s *S, open graph.Open) (bool, error) { return P(s).AgentState().onInput(open) })
}

// WaitingError refuses a message of the user: the thread waits for something else.
type WaitingError struct {
	For []string // what it waits for: keys of questions, and events
	// Kept is a message that waits already; empty if the answer to what is asked is
	// not followed by a call of a model that would take one.
	Kept string
}

func (e *WaitingError) Error() string {
	text := fmt.Sprintf("the message is not taken: the thread waits for %s", strings.Join(e.For, ", "))
	if e.Kept != "" {
		text += ", and a message of the user waits for that as well"
	}
	return text + ": answer it, or start a turn without the answer by Restart"
}

// onInput is the function of [Turns].
func (s *State) onInput(open graph.Open) (newTurn bool, err error) {
	from, calls := Pending(&s.Messages)
	if waits := waitsFor(open); len(waits) > 0 && !open.Restart {
		if s.UserInput != "" || len(calls) == 0 {
			return false, &WaitingError{For: waits, Kept: s.UserInput}
		}
		s.Messages.Add(marked(from, keeps, "true"))
		return false, nil
	}
	if named, changed := identified(from, s.Messages.Last().ID); changed && len(calls) > 0 {
		s.Messages.Add(named)
		from, calls = Pending(&s.Messages)
	}
	for _, c := range calls {
		call, out, err := toldOf(open.Tasks, c)
		if err != nil {
			return false, err
		}
		if call != c { // as a human has changed it
			from = replaced(from, call)
			s.Messages.Add(from)
		}
		s.Messages.Add(out.Message)
		spend(&s.Usage, out.Used)
	}
	stays := from.Metadata[keeps] != "" && !open.Restart // it was taken while a question waited, and the turn failed since
	if !stays {
		stays, err = s.begunWith(open.Tasks)
	}
	if stays && s.UserInput != "" {
		s.Messages.Add(chat.User(s.UserInput))
		s.UserInput = ""
	}
	return true, err
}

// begunWith reports whether an agent that is a node has begun with what the user says:
// it may have asked, and made calls.
func (s *State) begunWith(tasks []graph.TaskState) (bool, error) {
	for i := range tasks {
		var input string
		if found, err := tasks[i].Recorded(agentInput, &input); err != nil || found && input == s.UserInput {
			return err == nil, err
		}
	}
	return false, nil
}

// agentInput is the name of the record of the UserInput with which an agent that is a
// node has begun.
const agentInput = "user input of the agent inside"

// waitsFor returns what a thread waits for that is not a breakpoint.
func waitsFor(open graph.Open) (waits []string) {
	for _, t := range open.Tasks {
		for _, q := range t.Interrupts {
			if q.When == "inside" {
				waits = append(waits, fmt.Sprintf("an answer to %q of node %q", q.Key, q.Node))
			}
		}
		for _, w := range t.Waits {
			waits = append(waits, w.String())
		}
	}
	return waits
}

// keeps is the key of a message's metadata that says that what the user said next
// was taken while its calls waited for an answer, and doesn't stop them.
const keeps = "keeps_user_input"

// marked returns m with metadata.
func marked(m chat.Message, key, value string) chat.Message {
	if m.Metadata = maps.Clone(m.Metadata); m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	m.Metadata[key] = value
	return m
}

// replaced returns m with a call in the place of the one with its ID.
func replaced(m chat.Message, call chat.ToolCall) chat.Message {
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if c, ok := p.(chat.ToolCall); ok && c.ID == call.ID {
			m.Parts[i] = call
		}
	}
	return m
}

// toldOf returns what the records of given up tasks say of a call, and the call as
// it was made.
func toldOf(tasks []graph.TaskState, c chat.ToolCall) (chat.ToolCall, outcome, error) {
	for i := range tasks {
		t := &tasks[i]
		made, out, found, err := recordedOf(c, "", t.Recorded)
		if err != nil || !found {
			if err != nil {
				return c, out, err
			}
			continue
		}
		if t.Node != c.Name { // otherwise the agent's node of a supervisor; see placed
			out.Used = out.Used.below(t.Node)
		}
		return made, out, nil
	}
	return c, outcome{Message: notCalled(c, wentOn)}, nil
}

// wentOn is why a call was not made after which the user said something else.
const wentOn = "the user went on"

// begun is what is recorded of a call before it is made.
type begun struct {
	Call *chat.ToolCall `json:"call,omitempty"` // where a human has changed it
}

// recordedOf returns what is recorded of a call: found is false if it had not begun.
func recordedOf(c chat.ToolCall, round string, recorded func(name string, v any) (bool, error)) (made chat.ToolCall, out outcome, found bool, err error) {
	var b begun
	began, err := recorded(beginning(round, c), &b)
	if err != nil {
		return c, out, false, err
	}
	if b.Call != nil {
		c = *b.Call
	}
	if done, err := recorded(record(round, c), &out); done || err != nil {
		return c, out, true, err
	}
	return c, outcome{Message: failure(c, "was called; the outcome is unknown: the turn ended before it was recorded")}, began, nil
}

// record is the name of the record of a call's outcome.
func record(round string, c chat.ToolCall) string { return "tool " + round + c.ID }

// beginning is the name of the record that a call begins.
func beginning(round string, c chat.ToolCall) string { return "call " + round + c.ID }

// begin records that a call begins: whatever happens to it, the model is not told
// that it wasn't made.
func (t *Tools[S]) begin(node context.Context, j *job) error {
	_, err := graph.Once(node, beginning(t.round, j.call), func(context.Context, string) (b begun, err error) {
		if j.edited {
			b.Call = &j.call
		}
		return b, nil
	})
	return err
}

// look returns what is recorded of calls of the task that is running.
func look(ctx context.Context) func(name string, v any) (bool, error) {
	return func(name string, v any) (bool, error) {
		var err error
		switch v := v.(type) {
		case *begun:
			*v, err = graph.Once(ctx, name, func(context.Context, string) (begun, error) { return begun{}, errNoRecord })
		case *outcome:
			*v, err = graph.Once(ctx, name, func(context.Context, string) (outcome, error) { return outcome{}, errNoRecord })
		}
		if errors.Is(err, errNoRecord) {
			return false, nil
		}
		return err == nil, err
	}
}

// errNoRecord says that there is no record of a call.
var errNoRecord = errors.New("the call has no record")
