package dialogue

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// State is a conversation: everything that the next turn depends on. It is plain data
// and survives a round trip through JSON.
type State struct {
	UserMessage        string                           `json:"user_message"`
	LastResponse       string                           `json:"last_response"`
	Messages           []Entry                          `json:"messages"`
	FlowStack          []FlowContext                    `json:"flow_stack"` // the last is active
	FlowSlots          map[string]map[string]expr.Value `json:"flow_slots"` // by flow_id, and "session"
	ConversationState  ConversationState                `json:"conversation_state"`
	CurrentStep        string                           `json:"current_step"`
	WaitingForSlot     string                           `json:"waiting_for_slot"` // or confirm:STEP
	NLUResult          *NLUResult                       `json:"nlu_result"`
	LastNLUCall        *time.Time                       `json:"last_nlu_call"`
	DigressionDepth    int                              `json:"digression_depth"`
	LastDigressionType string                           `json:"last_digression_type"`
	TurnCount          int                              `json:"turn_count"`
	Trace              []TraceEvent                     `json:"trace"`
	Metadata           Metadata                         `json:"metadata"`
}

// New returns the state of a conversation that has not begun. The thread is the
// conversation's identifier: keys of actions and the choice of words depend on it.
func New(thread string) State {
	return State{
		ConversationState: Idle,
		Messages:          []Entry{},
		FlowStack:         []FlowContext{},
		Trace:             []TraceEvent{},
		FlowSlots:         map[string]map[string]expr.Value{},
		Metadata:          Metadata{CompletedFlows: []FlowContext{}, Machine: Machine{Thread: thread}},
	}
}

// session is the key of FlowSlots under which the values of the conversation are.
const session = "session"

// Active returns the flow on top of the stack.
func (s *State) Active() (FlowContext, bool) {
	if len(s.FlowStack) == 0 {
		return FlowContext{}, false
	}
	return s.FlowStack[len(s.FlowStack)-1], true
}

// Slot returns a slot of the active flow.
func (s *State) Slot(name string) (expr.Value, bool) {
	f, ok := s.Active()
	if !ok {
		return expr.Value{}, false
	}
	v, ok := s.FlowSlots[f.FlowID][name]
	return v, ok
}

// SlotsOf returns the slots of the topmost instance of a flow.
func (s *State) SlotsOf(flow string) map[string]expr.Value {
	for _, f := range slices.Backward(s.FlowStack) {
		if f.FlowName == flow {
			return maps.Clone(s.FlowSlots[f.FlowID])
		}
	}
	return nil
}

// Waiting says whether a person has to say or do something before the conversation can
// go on, and false while effects are under way.
func (s *State) Waiting() bool {
	return s.Metadata.Machine.Turn == nil && s.Metadata.Machine.Incoming == nil
}

// Answer returns the reply to a message that was answered. The last one is as it was
// given; in earlier ones sensitive values are masked, as they are kept no longer than
// they are needed.
func (s *State) Answer(id string) (Reply, bool) {
	m := &s.Metadata.Machine
	if id == "" {
		return Reply{}, false
	}
	if id == m.LastID && m.LastReply != nil {
		return *m.LastReply, true
	}
	i := slices.IndexFunc(m.Answered, func(a Answered) bool { return a.ID == id })
	if i < 0 {
		return Reply{}, false
	}
	return m.Answered[i].Reply, true
}

// Pending returns the effects that are under way, so that they can be started again
// after a crash.
func (s *State) Pending() []Effect { return slices.Clone(s.Metadata.Machine.Pending) }

// Due returns when the conversation goes on by itself: [Wake] is the input of that
// moment.
func (s *State) Due() (time.Time, bool) {
	m := &s.Metadata.Machine
	if m.Turn != nil || m.Incoming != nil {
		return time.Time{}, false
	}
	var due time.Time
	for _, t := range []time.Time{m.Deadline, m.SessionEnd} {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	return due, !due.IsZero()
}

// FlowContext is one instance of a flow.
type FlowContext struct {
	FlowID      string                `json:"flow_id"`
	FlowName    string                `json:"flow_name"`
	FlowState   FlowState             `json:"flow_state"`
	CurrentStep string                `json:"current_step"`
	Outputs     map[string]expr.Value `json:"outputs"`
	StartedAt   *time.Time            `json:"started_at"`
	PausedAt    *time.Time            `json:"paused_at"`
	CompletedAt *time.Time            `json:"completed_at"`
	Context     string                `json:"context"` // why it is in this state
}

// FlowState is the state of an instance of a flow.
type FlowState string

// The states of flows. Active is only the top of the stack.
const (
	Active    FlowState = "active"
	Paused    FlowState = "paused"
	Completed FlowState = "completed"
	Cancelled FlowState = "cancelled"
	Abandoned FlowState = "abandoned"
	Failed    FlowState = "error"
)

var flowStates = []FlowState{Active, Paused, Completed, Cancelled, Abandoned, Failed}

// UnmarshalJSON reads a state by its name; another is an error.
func (f *FlowState) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if !slices.Contains(flowStates, FlowState(s)) {
		return fmt.Errorf("unknown flow_state %q; known are %v", s, flowStates)
	}
	*f = FlowState(s)
	return nil
}

// ConversationState says what a conversation is doing.
type ConversationState string

// The states of conversations.
const (
	Idle               ConversationState = "idle"
	Understanding      ConversationState = "understanding"
	WaitingForSlot     ConversationState = "waiting_for_slot"
	ValidatingSlot     ConversationState = "validating_slot"
	ExecutingAction    ConversationState = "executing_action"
	Confirming         ConversationState = "confirming"
	GeneratingResponse ConversationState = "generating_response"
	Done               ConversationState = "completed"
	InHandoff          ConversationState = "handoff"
	Fallback           ConversationState = "fallback"
	InError            ConversationState = "error"
)

var conversationStates = []ConversationState{Idle, Understanding, WaitingForSlot, ValidatingSlot, ExecutingAction, Confirming, GeneratingResponse, Done, InHandoff, Fallback, InError}

var synonyms = map[ConversationState]ConversationState{
	"collecting": WaitingForSlot, "ready_for_action": ExecutingAction, "ready_for_confirmation": Confirming,
}

// UnmarshalJSON reads a state by its name or a synonym of it; another is an error.
func (c *ConversationState) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	v := ConversationState(s)
	if known, ok := synonyms[v]; ok {
		v = known
	}
	if !slices.Contains(conversationStates, v) {
		return fmt.Errorf("unknown conversation_state %q; known are %v", s, conversationStates)
	}
	*c = v
	return nil
}

// Entry is one line of the transcript. Sensitive values are masked in it.
type Entry struct {
	Role string `json:"role"` // user, assistant or operator
	Text string `json:"content"`
	Turn int    `json:"turn"`
}

// NLUResult is what understanding returned for a message.
type NLUResult struct {
	Commands []Command `json:"commands"`
}

// TraceEvent is one thing that happened. Sensitive values are masked in it.
type TraceEvent struct {
	Turn    int       `json:"turn"`
	Time    time.Time `json:"time,omitzero"` // of the turn
	Kind    string    `json:"kind"`
	Flow    string    `json:"flow,omitempty"`
	Step    string    `json:"step,omitempty"`
	Command string    `json:"command,omitempty"`
	Slot    string    `json:"slot,omitempty"`
	Value   string    `json:"value,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// Side is the case that a branch took, counted from 1, and 0 if none held; 1 if a
	// loop went into another round, and 0 if it was left.
	Side int `json:"side,omitempty"`
}

// Metadata is what a conversation keeps beside its own fields.
type Metadata struct {
	CompletedFlows  []FlowContext         `json:"completed_flows"` // the archive, the newest last
	Error           string                `json:"error,omitempty"`
	ErrorType       string                `json:"error_type,omitempty"`
	ErrorAt         time.Time             `json:"error_at,omitzero"`
	ActionResult    map[string]expr.Value `json:"action_result,omitempty"`
	ActionTimestamp time.Time             `json:"action_timestamp,omitzero"`
	Machine         Machine               `json:"machine"`
}

// Machine is the manager's own part of a state: read it, but leave it as it is.
type Machine struct {
	Thread     string                `json:"thread"`
	Frames     map[string]*Frame     `json:"frames,omitempty"` // by flow_id
	Session    map[string]Provenance `json:"session,omitempty"`
	Flows      int                   `json:"flows,omitempty"`     // instances so far
	Questions  int                   `json:"questions,omitempty"` // questions asked so far
	Question   *Question             `json:"question,omitempty"`  // the open one
	Language   string                `json:"language,omitempty"`
	Incoming   *Message              `json:"incoming,omitempty"` // being understood
	Before     ConversationState     `json:"before,omitempty"`
	Turn       *Turn                 `json:"turn,omitempty"` // under way
	Pending    []Effect              `json:"pending,omitempty"`
	Handoff    *HandoffMode          `json:"handoff,omitempty"`
	Deadline   time.Time             `json:"deadline,omitzero"`
	SessionEnd time.Time             `json:"session_end,omitzero"`
	Idle       int                   `json:"without_progress,omitempty"`
	Answered   []Answered            `json:"answered,omitempty"`
	LastReply  *Reply                `json:"last_reply,omitempty"`
	LastID     string                `json:"last_id,omitempty"` // of the message that it answers
	Secrets    []string              `json:"secrets,omitempty"` // what LastReply shows of sensitive values; see [State.Masked]
	// Ended are the slots of the flow that ended last in this turn, sensitive ones
	// masked, for tools that show a turn.
	Ended map[string]expr.Value `json:"ended,omitempty"`
}

// answeredKept is how many replies are kept for messages that are delivered again.
const answeredKept = 20

// Answered is the reply to a message that may be delivered again, with sensitive values
// masked.
type Answered struct {
	ID    string `json:"id"`
	Reply Reply  `json:"reply"`
}

// Role says why a frame is on the stack.
type Role string

// The roles of frames.
const (
	ByUser    Role = "user"
	ByCall    Role = "call"
	ByPattern Role = "pattern" // a repair of the conversation; not counted and not archived
)

// Frame is the manager's data about one flow on the stack.
type Frame struct {
	Version    string                `json:"version"`
	Role       Role                  `json:"role"`
	Entered    bool                  `json:"entered,omitempty"` // the current step was begun
	Clock      int                   `json:"clock,omitempty"`   // visits so far
	Visits     map[string]Visit      `json:"visits,omitempty"`
	Provenance map[string]Provenance `json:"provenance,omitempty"`
	Confirmed  []Confirmation        `json:"confirmed,omitempty"`
	Walk       string                `json:"walk,omitempty"`       // the step at which a correction came in
	WalkFrom   int                   `json:"walk_from,omitempty"`  // the places among the visits that it has
	WalkSince  int                   `json:"walk_since,omitempty"` // yet to come by, or leads around
	Changed    []string              `json:"changed,omitempty"`    // slots that the walk found changed
	Deadline   time.Time             `json:"deadline,omitzero"`    // of the step it waits at
	Resumed    bool                  `json:"resumed,omitempty"`    // became active again
	Event      *Event                `json:"event,omitempty"`      // came while it was paused
	Repair     *Repair               `json:"repair,omitempty"`     // of a pattern
	Agent      *AgentRun             `json:"agent,omitempty"`      // of an agent step under way
	Results    map[string]*Result    `json:"results,omitempty"`    // of actions at once, by effect
	Retry      bool                  `json:"retry,omitempty"`      // an action timed out, the user is asked about it
	Waited     bool                  `json:"waited,omitempty"`     // the time of a wait step is over, or a person gave the conversation back
	Caller     string                `json:"caller,omitempty"`     // flow_id of the caller
	Counted    map[string]int        `json:"executed,omitempty"`   // executions of steps in this turn
}

// Visit is the last execution of a step.
type Visit struct {
	N       int      `json:"n"`                 // how often the step was visited
	At      int      `json:"at"`                // its place among the frame's visits
	Reads   string   `json:"reads"`             // digest of what it read
	Wrote   []string `json:"wrote"`             // slots
	Past    bool     `json:"past,omitempty"`    // of an earlier round of its loop
	Off     bool     `json:"off,omitempty"`     // a correction led around it
	Skipped bool     `json:"skipped,omitempty"` // its condition did not hold
	Ran     int      `json:"ran,omitempty"`     // when an action was called, among the frame's visits
	Done    bool     `json:"done,omitempty"`    // an action was executed
	Kept    bool     `json:"kept,omitempty"`    // before the flow changed and began anew
	As      string   `json:"as,omitempty"`      // the step's name when it was visited first, if it has another now
	// Inputs and Outputs of an action that is irreversible or can be compensated.
	Inputs  map[string]expr.Value `json:"inputs,omitempty"`
	Outputs map[string]expr.Value `json:"outputs,omitempty"`
}

// Provenance says where a value comes from.
type Provenance struct {
	Source program.Source `json:"source"`
	Turn   int            `json:"turn"`
	Span   string         `json:"span,omitempty"`
	Read   []string       `json:"read,omitempty"`
}

// Confirmation is what a confirm showed and the user agreed to.
type Confirmation struct {
	Step   string                `json:"step"`
	Values map[string]expr.Value `json:"values"`
	At     int                   `json:"at"` // the yes, among the frame's visits
}

// Question is what was asked last and is still open.
type Question struct {
	ID      string       `json:"id"`
	Kind    QuestionKind `json:"kind"`
	FlowID  string       `json:"flow_id,omitempty"`
	Step    string       `json:"step,omitempty"`
	Slot    string       `json:"slot,omitempty"`
	Slots   []string     `json:"slots,omitempty"` // shown, or asked for at once
	Digest  string       `json:"digest,omitempty"`
	Options []Option     `json:"options,omitempty"`
	More    bool         `json:"more,omitempty"` // there is a further page
	Page    int          `json:"page,omitempty"`
	Refused int          `json:"refused,omitempty"`
	Unclear int          `json:"unclear,omitempty"`
	Turn    int          `json:"turn"` // whose reply asked it
}

// QuestionKind is a kind of question.
type QuestionKind string

// The kinds of questions.
const (
	AskCollect QuestionKind = "collect"
	AskConfirm QuestionKind = "confirm"
	AskInform  QuestionKind = "inform" // waits for any message
	AskChoice  QuestionKind = "choice" // which flow is meant
	AskResume  QuestionKind = "resume" // built-in: shall a paused flow go on
	AskCancel  QuestionKind = "cancel" // built-in: shall the flow be cancelled
	AskRetry   QuestionKind = "retry"  // built-in: shall an action that timed out run again
)

// same says whether two questions ask the same, so that attempts count on.
func (q *Question) same(o *Question) bool {
	return q != nil && o != nil && q.Kind == o.Kind && q.FlowID == o.FlowID && q.Step == o.Step && q.Slot == o.Slot
}

// HandoffMode is a conversation with a person.
type HandoffMode struct {
	Queue  string `json:"queue"`
	Reason string `json:"reason,omitempty"`
	FlowID string `json:"flow_id,omitempty"` // of a handoff step
}

// Repair is what repair.… reads.
type Repair struct {
	Command string     `json:"command,omitempty"`
	Slot    string     `json:"slot,omitempty"`
	Value   expr.Value `json:"value,omitzero"`
	Topic   string     `json:"topic,omitempty"`
	Error   *Failure   `json:"error,omitempty"`
	About   string     `json:"about,omitempty"` // the flow_id that flow.… is about
}

// Failure is why an action, or a step, failed.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"`
	Action  string `json:"action,omitempty"`
}

// Error returns the type and the message.
func (f *Failure) Error() string {
	if f.Message == "" {
		return f.Type
	}
	return f.Type + ": " + f.Message
}

// AgentRun is an agent step under way.
type AgentRun struct {
	Steps int          `json:"steps"`
	Log   []AgentEntry `json:"log,omitempty"`
}

// AgentEntry is what a model of an agent step did, and what came of it.
type AgentEntry struct {
	Tool   string                `json:"tool,omitempty"`
	Args   map[string]expr.Value `json:"args,omitempty"`
	Result map[string]expr.Value `json:"result,omitempty"`
	Error  string                `json:"error,omitempty"`
	Text   string                `json:"text,omitempty"`
}

// Turn is a turn under way.
type Turn struct {
	Number     int                `json:"number"`
	Time       time.Time          `json:"time"`
	Language   string             `json:"language"`
	Channel    string             `json:"channel,omitempty"`
	Text       string             `json:"text,omitempty"`
	MessageID  string             `json:"message_id,omitempty"`
	Queue      []Command          `json:"queue,omitempty"`
	Started    []string           `json:"started,omitempty"` // flow_ids started by commands
	Asked      *Question          `json:"asked,omitempty"`   // the question as the turn began
	Messages   []Said             `json:"messages,omitempty"`
	Events     []Event            `json:"events,omitempty"`
	Verdicts   map[string]Verdict `json:"verdicts,omitempty"` // of validators
	Error      *Failure           `json:"error,omitempty"`
	Repair     Repair             `json:"repair,omitzero"`
	Secrets    []string           `json:"secrets,omitempty"`
	User       bool               `json:"user,omitempty"`
	Effective  bool               `json:"effective,omitempty"` // a command had an effect or an answer
	Agreed     bool               `json:"agreed,omitempty"`    // a confirm was answered with yes
	Settled    bool               `json:"settled,omitempty"`   // the commands are done with
	Progress   bool               `json:"progress,omitempty"`
	Ended      bool               `json:"ended,omitempty"` // a flow ended
	Failed     bool               `json:"failed,omitempty"`
	Fell       bool               `json:"fell,omitempty"` // nothing was understood
	Iterations int                `json:"iterations,omitempty"`
	Advances   int                `json:"advances,omitempty"`
}

// Verdict is what a validator said of a value.
type Verdict struct {
	Value  expr.Value `json:"value,omitzero"`
	Reason string     `json:"reason,omitempty"`
}

// copyOf returns a copy of a map, empty for nil.
func copyOf[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m))
	maps.Copy(c, m)
	return c
}

// clone returns a copy that can be changed without s changing. Values are immutable and
// shared.
func (s *State) clone() *State {
	c := *s
	c.Messages = slices.Clip(s.Messages) // the lists that only grow are copied when they do
	c.FlowStack = slices.Clone(s.FlowStack)
	c.Trace = slices.Clip(s.Trace)
	c.FlowSlots = make(map[string]map[string]expr.Value, len(s.FlowSlots))
	for id, slots := range s.FlowSlots {
		c.FlowSlots[id] = maps.Clone(slots)
	}
	c.Metadata.CompletedFlows = slices.Clip(s.Metadata.CompletedFlows)
	m := &c.Metadata.Machine
	m.Frames = make(map[string]*Frame, len(m.Frames))
	for id, f := range s.Metadata.Machine.Frames {
		g := *f
		g.Visits = copyOf(f.Visits)
		g.Provenance = copyOf(f.Provenance)
		g.Confirmed = slices.Clone(f.Confirmed)
		g.Results = maps.Clone(f.Results)
		g.Counted = maps.Clone(f.Counted)
		if f.Agent != nil {
			a := *f.Agent
			a.Log = slices.Clone(a.Log)
			g.Agent = &a
		}
		m.Frames[id] = &g
	}
	for _, f := range c.FlowStack { // JSON leaves out what is empty
		if m.Frames[f.FlowID] == nil {
			m.Frames[f.FlowID] = &Frame{Role: ByUser, Visits: map[string]Visit{}, Provenance: map[string]Provenance{}}
		}
		if c.FlowSlots[f.FlowID] == nil {
			c.FlowSlots[f.FlowID] = map[string]expr.Value{}
		}
	}
	m.Session = maps.Clone(m.Session)
	if m.Question != nil {
		q := *m.Question
		m.Question = &q
	}
	if m.Turn != nil {
		t := *m.Turn
		t.Queue = slices.Clone(t.Queue)
		t.Started = slices.Clone(t.Started)
		t.Messages = slices.Clone(t.Messages)
		t.Events = slices.Clone(t.Events)
		t.Verdicts = maps.Clone(t.Verdicts)
		t.Secrets = slices.Clone(t.Secrets)
		m.Turn = &t
	}
	m.Pending = slices.Clone(m.Pending)
	m.Answered = slices.Clip(m.Answered)
	return &c
}
