package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

// Program is a compiled assistant. It is immutable: nothing that it leads to may be
// changed, so one Program serves any number of conversations at once.
type Program struct {
	Name, Description string
	Languages         Languages
	Settings          Settings
	Patterns          Patterns

	Session   map[string]*Slot     // values of the whole conversation
	Slots     map[string]*Slot     // by name, as flows share them
	Actions   map[string]*Action   // contracts
	Responses map[string]*Response // the assistant's and the built-in ones
	Flows     map[string]*Flow     // the assistant's and the built-in ones
	Order     []string             // the assistant's flows, as written

	// Warnings are the findings that are no errors.
	Warnings Findings

	former map[string]string // earlier names of flows
	older  []*Program        // that conversations may still stand in
}

// Flow returns the flow of a name, or of an earlier name.
func (p *Program) Flow(name string) (*Flow, bool) {
	f, ok := p.Flows[name]
	if !ok {
		f, ok = p.Flows[p.former[name]]
	}
	return f, ok
}

// Languages are the tags of the languages in which an assistant speaks.
type Languages struct {
	Default string
	Also    []string
}

// Has says whether the tag is declared.
func (l Languages) Has(tag string) bool { return tag == l.Default || slices.Contains(l.Also, tag) }

// Settings are the limits of an assistant.
type Settings struct {
	StackDepth    int
	StackOnLimit  string // cancel_oldest or reject_new
	MaxAttempts   int
	OnInvalid     Target
	NoProgress    int
	OnNoProgress  string // handoff, fallback or retry
	SessionAfter  time.Duration
	ForgetSession bool
	DefaultFlow   string
	FallbackFlow  string

	HistoryMessages, TraceEvents, CompletedFlows int

	StepExecutions, FlowIterations, Advances, Commands, MessageChars, CallDepth int

	Rephrase     bool
	RephraseTone string
	Models       map[string]Model
	Persistence  map[string]string
}

// Model names the model of a purpose: nlu, generate or rephrase.
type Model struct {
	Provider, Model string
	Temperature     float64
}

// Patterns say how a conversation is repaired. A Flow, where it is given, replaces the
// built-in one.
type Patterns struct {
	Resume            string // immediate, ask or announce
	Correction        bool
	AnnounceCorrected bool
	ClarifyDepth      int
	ClarifyOnLimit    Target
	ConfirmCancel     bool
	ConfirmRetries    int
	ConfirmOnLimit    Target
	UnclearRetries    int
	UnclearOnLimit    Target
	LastFirst         bool // of several flows started, the last named runs first
	Queue             string
	HandoffDeadline   time.Duration
	HandoffOnDeadline string // resume or cancel
	Recovery          string // keep or reset: an error clears the stack
	OnTimeout         string // ask_retry or end: a timeout is not asked about
	Flows             map[string]string
}

// Type is what a slot holds.
type Type string

// The types of slots.
const (
	String   Type = "string"
	Integer  Type = "integer"
	Number   Type = "number"
	Boolean  Type = "boolean"
	Date     Type = "date"
	Time     Type = "time"
	DateTime Type = "datetime"
	List     Type = "list"
	Object   Type = "object"
	Any      Type = "any"
)

var types = []Type{String, Integer, Number, Boolean, Date, Time, DateTime, List, Object, Any}

// Kind returns the kind of the type's values, and whether there is one.
func (t Type) Kind() (expr.Kind, bool) {
	switch t {
	case String, Date, Time, DateTime:
		return expr.Text, true
	case Integer, Number:
		return expr.Number, true
	case Boolean:
		return expr.Boolean, true
	case List:
		return expr.List, true
	case Object:
		return expr.Object, true
	}
	return expr.None, false
}

// Source says who gave a slot its value.
type Source string

// The sources of values.
const (
	FromUser    Source = "user"
	FromButton  Source = "button"
	FromAction  Source = "action"
	FromSet     Source = "set"
	FromDefault Source = "default"
	FromInput   Source = "input"
	FromAgent   Source = "agent"
)

var sources = []Source{FromUser, FromButton, FromAction, FromSet, FromDefault, FromInput, FromAgent}

// Slot is a value that a flow collects or works out.
type Slot struct {
	Name        string
	Description string
	Examples    []string
	Type        Type
	Items       Type // of a list
	Ask         *Response
	Explain     *Response
	Invalid     *Response
	Options     []Option

	Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum *expr.Value

	MinLength, MaxLength int // MaxLength 0 is without a limit

	Format    string
	Validate  []string
	Required  bool
	Default   *expr.Value
	Eager     bool
	Sensitive bool
	From      []Source // as written; nil is the default of section 3
	Implicit  bool     // declared by what writes it
	Local     bool     // of one flow

	pos Position
}

// Option is one of a closed set of values.
type Option struct {
	Value    expr.Value
	Label    map[string]string // by language; "" is every language
	Synonyms []string
}

// LabelIn returns the option's label in a language.
func (o Option) LabelIn(tag, fallback string) string {
	for _, t := range []string{tag, "", fallback} {
		if l, ok := o.Label[t]; ok {
			return l
		}
	}
	return o.Value.String()
}

// Effect says what repeating an action does.
type Effect string

// The effects of actions.
const (
	Read         Effect = "read"
	Write        Effect = "write"
	Irreversible Effect = "irreversible"
)

// Param is a name of an action's or a flow's inputs and outputs.
type Param struct {
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Optional bool   `json:"optional,omitempty"`
}

// Action is the contract of what an assistant can do.
type Action struct {
	Name, Description string
	Inputs, Outputs   []Param
	Effect            Effect
	Guard             *expr.Expr
	Timeout           time.Duration
	Retry             Retry
	Compensate        string

	// Command, if there is one, says when users mean the action itself: it is then a
	// further command that understanding may return, with the action's name as its type.
	Command string

	pos      Position
	implicit bool // of an old version, which has no contracts
}

// Retry says when an action is tried again.
type Retry struct {
	MaxAttempts int           `json:"max_attempts"`
	Delay       time.Duration `json:"delay,omitempty"`
	Backoff     string        `json:"backoff,omitempty"` // fixed, linear or exponential
	MaxDelay    time.Duration `json:"max_delay,omitempty"`
	On          []string      `json:"retry_on,omitempty"` // types of errors; none means all
}

// Applies says whether an error of the type is tried again after an attempt. An
// answer "refused" or "invalid" never is.
func (r Retry) Applies(errorType string, attempt int) bool {
	if attempt >= r.MaxAttempts || errorType == "refused" || errorType == "invalid" {
		return false
	}
	return len(r.On) == 0 || slices.Contains(r.On, errorType)
}

// After returns the pause after an attempt, counted from 1.
func (r Retry) After(attempt int) time.Duration {
	d := r.Delay
	switch r.Backoff {
	case "linear":
		d *= time.Duration(attempt)
	case "exponential":
		d <<= min(max(attempt-1, 0), 30)
	}
	if d < 0 || d > r.MaxDelay && r.MaxDelay > 0 {
		return r.MaxDelay
	}
	return d
}

// Flow is one task.
type Flow struct {
	Name, Description string
	Examples          []*Text
	Guard             *expr.Expr
	Internal          bool
	BuiltIn           bool
	Inputs, Outputs   []Param
	Slots             map[string]*Slot // every slot that the flow knows
	OnError           *Target
	Interruptible     bool
	Resume            string
	Formerly          []string
	Migrate           string
	Steps             []*Step // those of loops too; Step.Continue leads through them
	First             int     // index of the first step
	Hash              string  // of what the flow does

	// Collects are the slots that a step of the flow asks for, Mentions all that it
	// reads or writes, in order.
	Collects, Mentions []string

	pos Position
}

// Step returns the step of a name, or of an earlier name.
func (f *Flow) Step(name string) (*Step, bool) {
	for _, s := range f.Steps {
		if s.Name == name {
			return s, true
		}
	}
	for _, s := range f.Steps {
		if slices.Contains(s.Formerly, name) {
			return s, true
		}
	}
	return nil, false
}

// Pos returns where the flow is written.
func (f *Flow) Pos() Position { return f.pos }

// Collect says whether a step of the flow asks for the slot.
func (f *Flow) Collect(slot string) bool {
	_, ok := slices.BinarySearch(f.Collects, slot)
	return ok
}

// Given says whether the slot's value may come from outside of the program: from the
// user, from a caller or from a model.
func (f *Flow) Given(slot string) bool {
	if f.Collect(slot) || slices.ContainsFunc(f.Inputs, func(p Param) bool { return p.Name == slot }) {
		return true
	}
	for _, s := range f.Steps {
		switch x := s.Body.(type) {
		case *Agent:
			if slices.Contains(x.MaySet, slot) {
				return true
			}
		case *Generate:
			if x.Store == slot {
				return true
			}
		}
	}
	return false
}

// Allows says whether a source may write the slot in this flow.
func (f *Flow) Allows(s *Slot, from Source) bool {
	if s.From != nil {
		return slices.Contains(s.From, from)
	}
	switch from {
	case FromUser, FromButton, FromAgent:
		return f.Collect(s.Name)
	}
	return true
}

// Step is one step of a flow.
type Step struct {
	Name        string
	Type        string // its key in the YAML
	Index       int
	Description string
	When        *expr.Expr
	Next        Target
	Formerly    []string
	Continue    int // index of the step after this one, End at the end
	Loop        int // index of the loop around it, End without one
	Body        Body

	// Reads are the slots whose values the step looks at, Writes those it stores;
	// values of the session are written session.NAME.
	Reads, Writes []string

	pos Position
}

// Pos returns where the step is written.
func (s *Step) Pos() Position { return s.pos }

// Exits are where a step leads when it fails, is cancelled or waits for too long; nil is
// the flow's own way.
type Exits struct{ OnError, OnCancel, OnDeadline *Target }

// Exits returns where the step leads in these cases.
func (s *Step) Exits() Exits {
	switch x := s.Body.(type) {
	case *Collect:
		return Exits{OnCancel: x.OnCancel, OnDeadline: x.OnDeadline}
	case *Confirm:
		return Exits{OnDeadline: x.OnDeadline}
	case *Invoke:
		return Exits{OnError: x.OnError}
	case *Call:
		return Exits{OnError: x.OnError, OnCancel: x.OnCancel}
	case *Agent:
		return Exits{OnError: x.OnError}
	case *Handoff:
		return Exits{OnDeadline: x.OnDeadline}
	case *Wait:
		return Exits{OnDeadline: x.OnDeadline}
	}
	return Exits{}
}

// WayKind says when a way on from a step is taken.
type WayKind string

// The kinds of ways.
const (
	WayNext     WayKind = "next"
	WayPast     WayKind = "past"  // its condition doesn't hold
	WayCase     WayKind = "case"  // of a branch
	WayElse     WayKind = "else"  // no case of a branch holds
	WayRound    WayKind = "round" // of a loop
	WayLeave    WayKind = "leave" // a loop is over
	WayYes      WayKind = "yes"
	WayNo       WayKind = "no"
	WayChanged  WayKind = "changed" // what a confirm shows
	WayUnclear  WayKind = "unclear" // an answer, too often
	WayRefused  WayKind = "refused" // an answer, too often
	WayDeadline WayKind = "deadline"
	WayError    WayKind = "error"
	WayCancel   WayKind = "cancel"
)

// Way is a way on from a step.
type Way struct {
	Kind  WayKind
	Case  int           // of [WayCase], counted from 1
	After time.Duration // of [WayDeadline]
	To    *Target       // nil if it is up to the patterns
	Step  int           // index of the step to which it leads, End out of the flow
}

// Ways returns the ways on from a step of the flow.
func (f *Flow) Ways(s *Step) []Way {
	var ways []Way
	lead := func(k WayKind, t, goesOn *Target) {
		w := Way{Kind: k, To: t, Step: End}
		if t.Kind == ToContinue {
			t = goesOn
		}
		if t.Kind == ToContinue {
			w.Step = s.Continue
		} else if to, ok := f.Step(t.Step); ok && t.Kind == ToStep {
			w.Step = to.Index
		}
		ways = append(ways, w)
	}
	written := func(k WayKind, t *Target) {
		if t != nil {
			lead(k, t, &Target{})
		}
	}
	deadline := func(after time.Duration, t *Target) {
		if after > 0 || t != nil {
			lead(WayDeadline, cmp.Or(t, &Target{Kind: ToCancel}), &Target{})
			ways[len(ways)-1].After = after
		}
	}
	if s.When != nil {
		written(WayPast, &Target{})
	}
	switch x := s.Body.(type) {
	case *Branch:
		open := true
		for i := range x.Cases {
			c := &x.Cases[i]
			lead(WayCase, &c.Then, &s.Next)
			ways[len(ways)-1].Case = i + 1
			open = open && (c.When != nil || c.Subject != nil)
		}
		if open {
			written(WayElse, &s.Next)
		}
		return ways
	case *While:
		ways = append(ways, Way{Kind: WayRound, To: &Target{}, Step: x.Body})
		written(WayLeave, &x.Exit)
		return ways
	case *Confirm:
		lead(WayYes, &x.OnYes, &s.Next)
		written(WayNo, cmp.Or(x.OnNo, &Target{Kind: ToCancel}))
		written(WayChanged, x.OnChange)
		written(WayUnclear, x.OnLimit)
		deadline(x.Deadline, x.OnDeadline)
		return ways
	case *Link:
		written(WayNext, &Target{Kind: ToEnd})
		return ways
	case *Collect:
		written(WayRefused, x.OnInvalid)
		deadline(x.Deadline, x.OnDeadline)
	case *Wait:
		deadline(x.Deadline, x.OnDeadline)
	case *Handoff:
		if deadline(x.Deadline, x.OnDeadline); x.Deadline > 0 && x.OnDeadline == nil {
			ways[len(ways)-1].To = nil
		}
	}
	written(WayNext, &s.Next)
	switch x := s.Body.(type) {
	case *Invoke, *Call, *Agent, *Generate:
		written(WayError, cmp.Or(s.Exits().OnError, f.OnError))
	case *Parallel:
		written(WayError, f.OnError)
		for _, a := range x.Actions {
			written(WayError, a.OnError)
		}
	}
	written(WayCancel, s.Exits().OnCancel)
	return ways
}

// Outputs returns where a step that runs an action, alone or among others, puts what it
// answers.
func (s *Step) Outputs(action string) []Out {
	for _, x := range s.invokes() {
		if x.Action != nil && x.Action.Name == action {
			return x.Outputs
		}
	}
	return nil
}

// invokes returns the actions that the step runs.
func (s *Step) invokes() []*Invoke {
	switch x := s.Body.(type) {
	case *Invoke:
		return []*Invoke{x}
	case *Parallel:
		return x.Actions
	}
	return nil
}

// End is the index after the last step.
const End = -1

// Body is what a step of a type does: one of *Say, *Collect, *Set, *Invoke, *Branch,
// *While, *Confirm, *Call, *Link, *Generate, *Agent, *Handoff, *Wait and *Parallel.
type Body interface{ body() }

// Say puts a text into the reply.
type Say struct {
	Response   *Response
	Rephrase   *bool
	WaitForAck bool
}

// Collect waits until its slots are filled.
type Collect struct {
	Slots       []string
	Ask         *Response // one question for all
	Invalid     *Response
	Validate    []string
	Force       bool
	OptionsFrom string
	Display     *Text
	PageSize    int
	MaxAttempts int
	OnInvalid   *Target
	Deadline    time.Duration
	OnDeadline  *Target
	OnCancel    *Target
}

// Set stores values.
type Set struct{ Assign []Assign }

// Assign stores a value in a slot.
type Assign struct {
	Slot  string
	Value Operand
}

// Operand is where a value comes from: a constant, a text or an expression.
type Operand struct {
	Const expr.Value
	Text  *Text
	Expr  *expr.Expr
	pos   Position
}

// Arg gives an input its value.
type Arg struct {
	Name     string
	Value    Operand
	Type     Type
	Optional bool
}

// Out stores an output in a slot.
type Out struct {
	Output   string
	Slot     string
	Type     Type
	Optional bool
}

// Invoke runs an action.
type Invoke struct {
	Action  *Action
	Inputs  []Arg
	Outputs []Out
	OnError *Target
	Timeout time.Duration
	Retry   Retry
}

// Branch leads to the target of the first case that holds.
type Branch struct{ Cases []Case }

// Case is a condition, or a comparison of a slot; without either it always holds.
type Case struct {
	When    *expr.Expr
	Subject []string
	Sign    string
	Value   expr.Value
	Then    Target
}

// While repeats steps.
type While struct {
	Cond *expr.Expr
	Body int // index of the first step in the loop
	Exit Target
}

// Confirm asks whether what it shows is right.
type Confirm struct {
	Slots      []string
	Ask        *Response
	OnYes      Target
	OnNo       *Target
	OnChange   *Target
	MaxRetries int
	OnLimit    *Target
	Store      string
	Deadline   time.Duration
	OnDeadline *Target
}

// Call runs another flow and comes back.
type Call struct {
	Flow     string
	Inputs   []Arg
	Outputs  []Out
	OnError  *Target
	OnCancel *Target
}

// Link goes over into another flow.
type Link struct {
	Flow   string
	Inputs []Arg
}

// Generate has a model write a text.
type Generate struct {
	Instruction *Text
	Context     []string
	MaxTokens   int
	Store       string
}

// Agent lets a model work with tools.
type Agent struct {
	Instruction *Text
	Tools       []*Action
	MaySet      []string
	MaxSteps    int
	ExitWhen    *expr.Expr
	OnError     *Target
}

// Handoff passes the conversation to a person.
type Handoff struct {
	Queue      string
	Context    []string
	Deadline   time.Duration
	OnDeadline *Target
}

// Wait sleeps for a time or until an event.
type Wait struct {
	For        time.Duration
	Event      string
	Outputs    []Out
	Deadline   time.Duration
	OnDeadline *Target
}

// Parallel runs actions at once.
type Parallel struct{ Actions []*Invoke }

func (*Say) body()      {}
func (*Collect) body()  {}
func (*Set) body()      {}
func (*Invoke) body()   {}
func (*Branch) body()   {}
func (*While) body()    {}
func (*Confirm) body()  {}
func (*Call) body()     {}
func (*Link) body()     {}
func (*Generate) body() {}
func (*Agent) body()    {}
func (*Handoff) body()  {}
func (*Wait) body()     {}
func (*Parallel) body() {}

// Target says where a flow goes on.
type Target struct {
	Kind TargetKind
	Step string
	pos  Position
}

// TargetKind is a kind of target.
type TargetKind uint8

// The kinds of targets.
const (
	ToContinue TargetKind = iota
	ToStep
	ToEnd
	ToCancel
	ToError
	ToHandoff
)

var targetWords = map[string]TargetKind{
	"continue": ToContinue, "end": ToEnd, "cancel": ToCancel, "error": ToError, "handoff": ToHandoff,
	"__end__": ToEnd, "__end_flow__": ToEnd, "END": ToEnd, "cancel_flow": ToCancel,
}

// Pos returns where the target is written; it is zero for one that isn't.
func (t Target) Pos() Position { return t.pos }

// String returns the target as it is written.
func (t Target) String() string {
	return [...]string{"continue", t.Step, "end", "cancel", "error", "handoff"}[t.Kind]
}

// Response is what an assistant says under one name.
type Response struct {
	Name    string // of an inline one FLOW.STEP
	BuiltIn bool
	Inline  bool
	Entries []Entry            // for every language that has no translation
	In      map[string][]Entry // translations

	pos Position
}

// Pos returns where the response is written.
func (r *Response) Pos() Position { return r.pos }

// Entry is one variation of a response.
type Entry struct {
	Channels []string
	When     *expr.Expr
	Words    map[string]*Words // by language; "" is the default one
	Buttons  []Button
	Media    expr.Value
	Custom   expr.Value
	Rephrase *bool
}

// Words are a text, in the plural forms of its language.
type Words struct {
	Count *expr.Expr
	Forms map[string]*Text // a text without a count is "other"
}

// Button is an answer that a reply offers.
type Button struct {
	Label    map[string]*Text // by language; "" is every language
	Value    *expr.Value
	Start    string
	Slots    map[string]expr.Value
	Commands []expr.Value
}

// Finding is one mistake, or one thing worth a look.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	Flow     string   `json:"flow,omitempty"`
	Step     string   `json:"step,omitempty"`
	Message  string   `json:"message"`
}

// Severity says how bad a finding is.
type Severity string

// The severities of findings.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// String returns the finding in its one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s: ", f.File, f.Line, f.Column, f.Severity)
	if f.Flow != "" {
		fmt.Fprintf(&b, "flow %q", f.Flow)
		if f.Step != "" {
			fmt.Fprintf(&b, ", step %q", f.Step)
		}
		b.WriteString(": ")
	}
	b.WriteString(strings.NewReplacer("\n", " ", "\r", " ").Replace(f.Message))
	return b.String()
}

// Findings are all the findings of a program, by file and position. As an error they
// are one finding a line.
type Findings []Finding

// Error returns the findings, one a line.
func (f Findings) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// Errors returns those that are no warnings.
func (f Findings) Errors() Findings {
	var errs Findings
	for _, x := range f {
		if x.Severity == Error {
			errs = append(errs, x)
		}
	}
	return errs
}
