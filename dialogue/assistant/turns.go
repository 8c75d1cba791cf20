package assistant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

// Turn is what happened in a turn of a conversation, as it may be shown: sensitive values
// are masked.
type Turn struct {
	Number   int                   `json:"turn"`
	Time     time.Time             `json:"time,omitzero"`
	Began    Began                 `json:"began"`
	Said     []string              `json:"user"`                // nothing if no message began it
	Asked    bool                  `json:"understanding_asked"` // what the message means
	Commands []dialogue.Command    `json:"commands"`
	Trace    []dialogue.TraceEvent `json:"trace"`
	Replies  []dialogue.Entry      `json:"replies"`
	Ended    bool                  `json:"ended"`

	// How the conversation stands at its end, or now.
	State    string  `json:"state"`
	Waiting  string  `json:"waiting_for_slot,omitempty"`
	Question string  `json:"question,omitempty"` // the ID of the open one, for buttons
	Stack    []Frame `json:"stack"`              // the last is active

	// What is here only the program can mask: there is nothing of it without one.
	Messages    []dialogue.Said       `json:"messages,omitempty"` // of the reply
	Rephrased   bool                  `json:"rephrased,omitempty"`
	Actions     []Ran                 `json:"actions,omitempty"`
	Validations []Validation          `json:"validations,omitempty"`
	Answers     []dialogue.Answer     `json:"model_answers,omitempty"`
	Slots       map[string]expr.Value `json:"slots,omitempty"` // of the active flow, or the one that ended last
	Session     map[string]expr.Value `json:"session,omitempty"`
	Hidden      []string              `json:"hidden,omitempty"` // "message" and "reply", if something is masked in them
}

// Began is what a turn began with.
type Began struct {
	// By is message, button, event, release, operator or deadline; empty if the record of
	// it is gone.
	By       string             `json:"by,omitempty"`
	Language string             `json:"language,omitempty"` // of the message
	Channel  string             `json:"channel,omitempty"`
	Question string             `json:"question,omitempty"` // that a button answers
	Event    *dialogue.Event    `json:"event,omitempty"`
	Release  *dialogue.Release  `json:"release,omitempty"`
	Operator *dialogue.Operator `json:"operator,omitempty"`
}

// Frame is where a flow on the stack stands.
type Frame struct {
	FlowID  string             `json:"flow_id"`
	Flow    string             `json:"flow"`
	Version string             `json:"version"` // see [program.Flow]
	State   dialogue.FlowState `json:"state"`
	Step    string             `json:"step,omitempty"`
	Role    dialogue.Role      `json:"role"`
	Why     string             `json:"why,omitempty"` // it is in this state
	Waits   bool               `json:"waits"`         // for the user, or for what happens
}

// Ran is an action that was run. Recorded is false if its result wasn't kept: it ran with
// an earlier version of this package, or hasn't ended.
type Ran struct {
	Action   string                `json:"action"`
	Effect   program.Effect        `json:"effect"`
	Flow     string                `json:"flow,omitempty"`
	Step     string                `json:"step,omitempty"`
	Inputs   map[string]expr.Value `json:"inputs"`
	Outputs  map[string]expr.Value `json:"outputs,omitempty"`
	Error    *dialogue.Failure     `json:"error,omitempty"`
	Attempts int                   `json:"attempts"`
	Recorded bool                  `json:"recorded"`
}

// Validation is what a validator said of a value: what is kept, or why it was refused.
type Validation struct {
	Validator string            `json:"validator"`
	Kept      expr.Value        `json:"kept,omitzero"`
	Refused   string            `json:"refused,omitempty"`
	Error     *dialogue.Failure `json:"error,omitempty"`
}

// TurnQuery selects turns. The zero value is all of them.
type TurnQuery struct {
	Last   int // at most so many, the newest; 0: all
	Before int // only those before this one; 0: all
}

// moment is a checkpoint of a conversation.
type moment struct {
	graph.Entry[State]
	state State
}

// begins says whether what a turn begins with was read there.
func (m *moment) begins() bool {
	return slices.Contains(m.Nodes, understand) && !busy(&m.state) && !m.state.Turn.Get().Decided
}

// Turns returns what happened on a thread, the oldest turn first. A thread on which
// nothing was said has none. P is the program, which knows what is sensitive; without it
// turns hold what is masked as it is stored.
func Turns(ctx context.Context, t *graph.Thread[State], p *program.Program, q TurnQuery) ([]Turn, error) {
	// The history is read from its end, as far as it is asked for.
	var line []moment
	newest := 0 // turn that is wanted
	for e, err := range t.History(ctx, graph.HistoryQuery{}) {
		if err != nil {
			return nil, err
		}
		s, err := e.State(ctx)
		if err != nil {
			return nil, err
		}
		if newest == 0 {
			newest = s.TurnCount
			if q.Before > 0 {
				newest = min(newest, q.Before-1)
			}
		}
		if q.Before > 0 && s.TurnCount >= q.Before {
			continue
		}
		line = append(line, moment{e, s})
		if q.Last > 0 && s.TurnCount < newest-q.Last {
			break
		}
	}
	slices.Reverse(line)
	r := &retelling{p: p, turns: map[int]*Turn{}}
	last := map[int]int{} // where turns end, or are
	for i := range line {
		if err := r.read(ctx, line, i); err != nil {
			return nil, err
		}
		if n := line[i].state.TurnCount; n > 0 && !line[i].begins() {
			last[n] = i
		}
	}
	for _, i := range last {
		r.stands(&line[i].state, line[i].CreatedAt)
	}
	var out []Turn
	for _, n := range slices.Sorted(maps.Keys(r.turns)) {
		if (q.Last == 0 || n > newest-q.Last) && (q.Before == 0 || n < q.Before) {
			out = append(out, *r.turns[n])
		}
	}
	return out, nil
}

// retelling puts turns together out of a history.
type retelling struct {
	p     *program.Program
	turns map[int]*Turn
	texts map[int]string // of messages, as they were given
}

func (r *retelling) turn(n int) *Turn {
	t := r.turns[n]
	if t == nil {
		t = &Turn{Number: n, Said: []string{}, Commands: []dialogue.Command{}, Trace: []dialogue.TraceEvent{}, Replies: []dialogue.Entry{}, Stack: []Frame{}}
		r.turns[n] = t
	}
	return t
}

// read takes what a checkpoint adds.
func (r *retelling) read(ctx context.Context, line []moment, i int) error {
	s := &line[i].state
	if line[i].begins() {
		r.begins(s, s.Turn.Get())
	}
	if r.p != nil && i > 0 && line[i].Did != nil {
		return r.results(ctx, &line[i], &line[i-1].state)
	}
	return nil
}

// begins takes what a turn begins with.
func (r *retelling) begins(s *State, open underWay) {
	in := s.Inbox.Get()
	if len(in) == 0 {
		return
	}
	t := r.turn(s.TurnCount + 1)
	t.Time, t.Asked = *in[0].at(), !open.Called.IsZero()
	t.Began = Began{By: "deadline"}
	d := s.Dialogue()
	masked := func(in dialogue.Input) dialogue.Input {
		if r.p == nil {
			return nil
		}
		return d.MaskedInput(r.p, in)
	}
	switch b := in[0]; {
	case b.Message != nil:
		t.Began = Began{By: "message", Language: b.Message.Language, Channel: b.Message.Channel, Question: b.Message.Question}
		if r.texts == nil {
			r.texts = map[int]string{}
		}
		r.texts[t.Number] = b.Message.Text
		if n := s.NLUResult.Get(); open.Read && n != nil {
			t.Commands = append(t.Commands, n.Commands...)
		}
		if len(b.Message.Commands) > 0 || b.Message.Question != "" && !open.Read {
			t.Began.By = "button"
			if m, ok := masked(*b.Message).(dialogue.Message); ok {
				t.Commands = append(t.Commands, m.Commands...)
			}
		}
	case b.Event != nil:
		t.Began = Began{By: "event", Event: &dialogue.Event{Name: b.Event.Name, Time: b.Event.Time}}
		if e, ok := masked(*b.Event).(dialogue.Event); ok {
			t.Began.Event = &e
		}
	case b.Release != nil:
		t.Began = Began{By: "release", Release: &dialogue.Release{Time: b.Release.Time}}
		if e, ok := masked(*b.Release).(dialogue.Release); ok {
			t.Began.Release = &e
		}
	case b.Operator != nil:
		t.Began.By = "operator" // its text is in the transcript
	}
}

// results takes what was done in the world, where its results are kept.
func (r *retelling) results(ctx context.Context, m *moment, before *State) error {
	kept, err := m.Recorded(ctx)
	if err != nil {
		return err
	}
	n := m.state.TurnCount
	waited := before.Dialogue()
	now := m.state.Dialogue()
	calls := waited.Pending()
	shown := waited.Masked(r.p)
	for i, e := range calls {
		if e.Action == nil || !slices.Contains(m.Nodes, executeAction) {
			continue
		}
		masked := shown.Metadata.Machine.Pending[i].Action
		ran := Ran{Action: e.Action.Action, Effect: e.Action.Effect, Step: e.Action.Step, Inputs: masked.Inputs}
		for _, f := range waited.FlowStack {
			if f.FlowID == e.Action.FlowID {
				ran.Flow = f.FlowName
			}
		}
		for _, k := range kept {
			var result dialogue.Result
			if k.Name != e.Action.Action || k.Data == nil || json.Unmarshal(k.Data, &result) != nil || result.ID != e.Action.ID {
				continue
			}
			if result, ok := waited.MaskedInput(r.p, result).(dialogue.Result); ok {
				ran.Outputs, ran.Error, ran.Recorded = result.Outputs, result.Error, true
			}
			for ran.Attempts = 1; result.Error != nil && e.Action.Retry.Applies(result.Error.Type, ran.Attempts); {
				ran.Attempts++
			}
			break
		}
		r.turn(n).Actions = append(r.turn(n).Actions, ran)
	}
	for _, k := range kept {
		if k.Data == nil {
			continue
		}
		name, isValidator := strings.CutPrefix(k.Name, "validate ")
		switch {
		case isValidator:
			var v dialogue.Validated
			if err := json.Unmarshal(k.Data, &v); err != nil {
				return fmt.Errorf("the recorded result of validator %q: %w", name, err)
			}
			said := Validation{Validator: name}
			if v, ok := now.MaskedInput(r.p, v).(dialogue.Validated); ok {
				if said.Refused, said.Error = v.Reason, v.Error; v.Reason == "" && v.Error == nil && !r.guards(name) {
					said.Kept = v.Value
				}
			}
			r.turn(n).Validations = append(r.turn(n).Validations, said)
		case k.Name == "model" && slices.Contains(m.Nodes, executeAction):
			var a dialogue.Answer
			if err := json.Unmarshal(k.Data, &a); err != nil {
				return fmt.Errorf("the recorded answer of a model: %w", err)
			}
			if a, ok := now.MaskedInput(r.p, a).(dialogue.Answer); ok {
				r.turn(n).Answers = append(r.turn(n).Answers, a)
			}
		case k.Name == "rephrase":
			r.turn(n).Rephrased = true
		}
	}
	return nil
}

// guards says whether a validator is asked about something sensitive.
func (r *retelling) guards(validator string) bool {
	for _, f := range r.p.Flows {
		for _, s := range f.Slots {
			if s.Sensitive && slices.Contains(s.Validate, validator) {
				return true
			}
		}
		for _, s := range f.Steps {
			if x, ok := s.Body.(*program.Collect); ok && slices.Contains(x.Validate, validator) &&
				slices.ContainsFunc(x.Slots, func(name string) bool { return f.Slots[name] != nil && f.Slots[name].Sensitive }) {
				return true
			}
		}
	}
	return false
}

// stands takes how the conversation stands at the end of a turn, or as far as it is.
func (r *retelling) stands(s *State, at time.Time) {
	t := r.turn(s.TurnCount)
	t.Ended = s.Machine.Get().Turn == nil
	if r.p == nil {
		var closed State
		s.Turn = closed.Turn // what is under way may not be masked yet
	}
	raw := s.Dialogue()
	d := raw
	if r.p != nil {
		d = raw.Masked(r.p)
	}
	for _, m := range d.Messages {
		switch {
		case m.Turn != t.Number:
		case m.Role == "user":
			t.Said = append(t.Said, m.Text)
			if was, ok := r.texts[t.Number]; ok && was != m.Text && strings.Contains(m.Text, "*") {
				t.Hidden = append(t.Hidden, "message")
			}
		default:
			t.Replies = append(t.Replies, m)
			if m.Role == operator && t.Began.By == operator {
				t.Began.Operator = &dialogue.Operator{Text: m.Text}
			}
		}
	}
	for _, e := range d.Trace {
		if e.Turn == t.Number {
			t.Trace = append(t.Trace, e)
		}
	}
	if t.Time.IsZero() {
		t.Time = at
		if len(t.Trace) > 0 {
			t.Time = t.Trace[0].Time
		}
	}
	t.State, t.Waiting = string(d.ConversationState), d.WaitingForSlot
	if q := d.Metadata.Machine.Question; q != nil {
		t.Question = q.ID
	}
	for i, f := range d.FlowStack {
		frame := Frame{FlowID: f.FlowID, Flow: f.FlowName, State: f.FlowState, Step: f.CurrentStep, Why: f.Context, Role: dialogue.ByUser}
		if x := d.Metadata.Machine.Frames[f.FlowID]; x != nil {
			frame.Version, frame.Role = x.Version, x.Role
		}
		frame.Waits = i == len(d.FlowStack)-1 && t.Ended
		t.Stack = append(t.Stack, frame)
	}
	if r.p == nil {
		return
	}
	m := d.Metadata.Machine
	if reply := m.LastReply; t.Ended && reply != nil && reply.Turn == t.Number {
		t.Messages = reply.Messages
		if reply.Text != raw.Metadata.Machine.LastReply.Text {
			t.Hidden = append(t.Hidden, "reply")
		}
	}
	t.Slots, t.Session = m.Ended, d.FlowSlots["session"]
	if f, ok := d.Active(); ok {
		t.Slots = d.FlowSlots[f.FlowID]
	}
}
