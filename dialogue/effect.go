package dialogue

import (
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Input is what makes a conversation go on: one of [Message], [Understood], [Result],
// [Validated], [Answer], [Event], [Release], [Operator] and [Wake].
type Input interface{ input() }

// Message is what a user says or presses.
type Message struct {
	ID       string    `json:"id,omitempty"` // of one that may be delivered twice
	Text     string    `json:"text,omitempty"`
	Language string    `json:"language,omitempty"`
	Channel  string    `json:"channel,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	// Commands are given by buttons and callers; such a message isn't understood.
	Commands []Command `json:"commands,omitempty"`
	// Question is the waiting.id of the question that a button answers.
	Question string `json:"question,omitempty"`
}

// Understood is the result of [Understand].
type Understood struct {
	// Message is the one that was understood, for a state that hasn't taken it: it takes
	// it, too. It is nil otherwise.
	Message  *Message
	Commands []Command
	Time     time.Time // of the call; zero if no model was called
	Err      error     // understanding failed: the message counts as never sent
}

// Result is the result of [ActionCall].
type Result struct {
	ID      string                `json:"id"`
	Outputs map[string]expr.Value `json:"outputs,omitempty"`
	Error   *Failure              `json:"error,omitempty"`
}

// Validated is the result of [Validation].
type Validated struct {
	ID     string
	Value  expr.Value // to keep
	Reason string     // of a refusal; "" keeps the value
	Error  *Failure   // the validator itself failed
}

// Answer is the result of [ModelCall]: a text, or the call of a tool.
type Answer struct {
	ID    string
	Text  string
	Tool  string
	Args  map[string]expr.Value
	Error *Failure
}

// Event is something that happened outside. It goes to the flow that waits for it. In a
// reply it is something that happened inside.
type Event struct {
	Name   string                `json:"name"`
	Fields map[string]expr.Value `json:"fields,omitempty"`
	Time   time.Time             `json:"time,omitzero"`
}

// Release ends a handoff.
type Release struct {
	Summary string                `json:"summary,omitempty"`
	Slots   map[string]expr.Value `json:"slots,omitempty"`
	Time    time.Time             `json:"time,omitzero"`
}

// Operator is what a person says in a handoff.
type Operator struct {
	Text string    `json:"text"`
	Time time.Time `json:"time,omitzero"`
}

// Wake is a deadline that is due.
type Wake struct {
	Time time.Time `json:"time"`
}

// late says whether an input from outside comes at or after a moment.
func (in Message) late(due time.Time) bool  { return !due.After(in.Time) }
func (in Event) late(due time.Time) bool    { return !due.After(in.Time) }
func (in Release) late(due time.Time) bool  { return !due.After(in.Time) }
func (in Operator) late(due time.Time) bool { return !due.After(in.Time) }

// answers says whether a result is that of an effect.
func (in Result) answers(e Effect) bool    { return e.Action != nil && e.Action.ID == in.ID }
func (in Validated) answers(e Effect) bool { return e.Validate != nil && e.Validate.ID == in.ID }
func (in Answer) answers(e Effect) bool    { return e.Model != nil && e.Model.ID == in.ID }

func (Message) input()    {}
func (Understood) input() {}
func (Result) input()     {}
func (Validated) input()  {}
func (Answer) input()     {}
func (Event) input()      {}
func (Release) input()    {}
func (Operator) input()   {}
func (Wake) input()       {}

// Effect is what [Advance] wants done. One of the fields is set. The result of each but
// Reply comes back into Advance as an [Input]; effects handed out together may be done
// in any order.
type Effect struct {
	Understand *Understand `json:"understand,omitempty"`
	Action     *ActionCall `json:"action,omitempty"`
	Validate   *Validation `json:"validate,omitempty"`
	Model      *ModelCall  `json:"model,omitempty"`
	// Reply ends the turn.
	Reply *Reply `json:"reply,omitempty"`
}

// Understand asks for the commands that a message means. The flows and slots are those
// that may be started and filled now.
type Understand struct {
	Message   Message     `json:"message"`
	Language  string      `json:"language"`
	Languages []string    `json:"languages,omitempty"` // that may be spoken, if there are several
	Flows     []FlowOffer `json:"flows"`
	Slots     []SlotOffer `json:"slots"`
	// Commands are those that the program has beside the ones that every program has.
	Commands []CommandOffer `json:"commands,omitempty"`
	// Asked is the open question. Its options are without their values, and those of a
	// sensitive slot are masked.
	Asked   *Question     `json:"asked,omitempty"`
	History []Entry       `json:"history,omitempty"` // the last messages, HistoryShown at most
	Stack   []FlowContext `json:"stack,omitempty"`
}

// HistoryShown is how many of a conversation's messages [Understand] has at most.
const HistoryShown = 10

// CommandOffer is a further command, with what goes into its slots.
type CommandOffer struct {
	Type        CommandType     `json:"type"`
	Description string          `json:"description"`
	Slots       []program.Param `json:"slots,omitempty"`
}

// FlowOffer is a flow that may start now.
type FlowOffer struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Examples    []string    `json:"examples,omitempty"` // what users say, with {slot} in it
	Slots       []SlotOffer `json:"slots,omitempty"`
}

// SlotOffer is a slot that may be filled now. A sensitive value is masked.
type SlotOffer struct {
	Flow        string       `json:"flow"`
	Name        string       `json:"name"`
	Type        program.Type `json:"type"`
	Items       program.Type `json:"items,omitempty"` // of a list
	Format      string       `json:"format,omitempty"`
	Description string       `json:"description,omitempty"`
	Options     []string     `json:"options,omitempty"`
	Value       string       `json:"value,omitempty"`
	Optional    bool         `json:"optional,omitempty"` // it may be skipped
}

// ActionCall is the call of an action. Its ID is the idempotency key, the same for all
// attempts.
type ActionCall struct {
	ID      string                `json:"id"`
	Action  string                `json:"action"`
	Effect  program.Effect        `json:"effect"`
	Inputs  map[string]expr.Value `json:"inputs"`
	Timeout time.Duration         `json:"timeout"`
	Retry   program.Retry         `json:"retry"`
	FlowID  string                `json:"flow_id"`
	Step    string                `json:"step"`
}

// Validation asks a registered validator about a value.
type Validation struct {
	ID        string     `json:"id"`
	Validator string     `json:"validator"`
	Slot      string     `json:"slot"`
	Value     expr.Value `json:"value"`
	Language  string     `json:"language"`
	Sensitive bool       `json:"sensitive,omitempty"`
}

// ModelCall asks a model for a text, or for the next move of an agent step.
type ModelCall struct {
	ID          string                `json:"id"`
	Instruction string                `json:"instruction"`
	Context     map[string]expr.Value `json:"context,omitempty"`
	MaxTokens   int                   `json:"max_tokens,omitempty"`
	Agent       bool                  `json:"agent,omitempty"`
	Tools       []string              `json:"tools,omitempty"`   // actions
	MaySet      []SlotOffer           `json:"may_set,omitempty"` // by the tool set_slot
	Log         []AgentEntry          `json:"log,omitempty"`
	Language    string                `json:"language"`
}

// Reply is what a turn says.
type Reply struct {
	Text       string            `json:"text"`
	Messages   []Said            `json:"messages"`
	Waiting    *Waiting          `json:"waiting,omitempty"`
	State      ConversationState `json:"state"`
	ActiveFlow string            `json:"active_flow,omitempty"`
	Turn       int               `json:"turn"`
	Language   string            `json:"language"`
	Events     []Event           `json:"events,omitempty"`
}

// Said is one message of a reply.
type Said struct {
	Type      string     `json:"type"` // text, buttons, media or custom
	Text      string     `json:"text,omitempty"`
	Options   []Option   `json:"options,omitempty"`
	Media     expr.Value `json:"media,omitzero"`
	Custom    expr.Value `json:"custom,omitzero"`
	Response  string     `json:"response,omitempty"`
	Generated bool       `json:"generated,omitempty"`
	// Rephrase says that the text may be worded anew, with the Values that were put into it,
	// which are here in their order.
	Rephrase bool     `json:"rephrase,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// Option is a button, or one of the values to choose from.
type Option struct {
	ID       string     `json:"id,omitempty"`
	Label    string     `json:"label"`
	Value    expr.Value `json:"value,omitzero"`
	Commands []Command  `json:"commands,omitempty"`
}

// Waiting is the question that a reply leaves open.
type Waiting struct {
	Type    QuestionKind `json:"type"` // collect, confirm, inform or choice
	Flow    string       `json:"flow,omitempty"`
	Step    string       `json:"step,omitempty"`
	Slot    string       `json:"slot,omitempty"`
	Options []Option     `json:"options,omitempty"`
	ID      string       `json:"id"`
}
