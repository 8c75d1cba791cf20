package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/tool"
)

// Approval has a human decide about the calls of a tool before they are made.
// All calls of one message are one question, an [ApprovalRequest] with the key
// [ApprovalKey]; the answer is an [ApprovalAnswer]. Agent Chat UI and LangGraph's
// Studio show it as a form. An answer that doesn't fit, be it that the arguments of
// an edit don't match the tool's schema, is a [*graph.AnswerError]: nothing is done,
// and the question stays open.
type Approval struct {
	Tool string // name; "*" stands for every tool that no other Approval names, but for [AnswerTool]

	// Allowed are the decisions that may be taken; none stands for approve, edit
	// and reject.
	Allowed []DecisionType

	// When, if set, says which calls need a decision. It must depend on the call
	// alone: it is asked again when the answer is there.
	When func(call chat.ToolCall) bool

	// Within, if positive, is how long a decision is waited for. Then Default is what
	// was decided: an approval, a response or, if it says nothing, a rejection. The thread
	// goes on by itself where a [graph.Runner] runs. Calls of the same message that may
	// wait for longer are then asked about by themselves.
	Within  time.Duration
	Default Decision
}

// ApprovalKey is the key of the question whether tools may be called.
const ApprovalKey = "approve"

// Approve returns approvals for some tools with the usual decisions.
func Approve(tools ...string) []Approval {
	as := make([]Approval, len(tools))
	for i, name := range tools {
		as[i].Tool = name
	}
	return as
}

// DecisionType is what a human decides about a call.
type DecisionType string

// The decisions.
const (
	ApproveCall DecisionType = "approve" // make the call
	EditCall    DecisionType = "edit"    // make another one in its place
	RejectCall  DecisionType = "reject"  // don't; the model is told so
	RespondCall DecisionType = "respond" // don't; the message is the tool's result
)

// ApprovalRequest is the question about calls of tools, as LangChain asks it.
type ApprovalRequest struct {
	Actions []ActionRequest `json:"action_requests"`
	Reviews []ReviewConfig  `json:"review_configs"` // one for each action
}

// Answer returns the answer that decides the same about all calls.
func (r ApprovalRequest) Answer(d Decision) ApprovalAnswer {
	return ApprovalAnswer{Decisions: slices.Repeat([]Decision{d}, len(r.Actions))}
}

// ActionRequest is a call that is to be decided about.
type ActionRequest struct {
	Name        string          `json:"name"`
	Args        json.RawMessage `json:"args"`
	Description string          `json:"description,omitempty"` // of the tool
}

// ReviewConfig says what may be decided about a call.
type ReviewConfig struct {
	Name       string          `json:"action_name"`
	Allowed    []DecisionType  `json:"allowed_decisions"`
	ArgsSchema json.RawMessage `json:"args_schema,omitempty"`
}

// ApprovalAnswer has one decision for each action of the request, in their
// order.
type ApprovalAnswer struct {
	Decisions []Decision `json:"decisions"`
}

// Decision is what a human decided about a call.
type Decision struct {
	Type    DecisionType  `json:"type"`
	Message string        `json:"message,omitempty"`       // why it is rejected, or the response
	Edited  *EditedAction `json:"edited_action,omitempty"` // of an edit
}

// EditedAction is the call that is made in the place of another.
type EditedAction struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

var usual = []DecisionType{ApproveCall, EditCall, RejectCall}

func (a *Approval) allowed() []DecisionType {
	if len(a.Allowed) == 0 {
		return usual
	}
	return a.Allowed
}

func (a *Approval) check(set *tool.Set) error {
	for _, d := range a.Allowed {
		if !slices.Contains([]DecisionType{ApproveCall, EditCall, RejectCall, RespondCall}, d) {
			return fmt.Errorf("Approve of tool %q: unknown decision %q: want approve, edit, reject or respond", a.Tool, d)
		}
	}
	switch d := a.Default; {
	case a.Within < 0:
		return fmt.Errorf("Approve of tool %q: Within is %v: give a positive duration, or 0 to wait for ever", a.Tool, a.Within)
	case a.Within == 0 && d != (Decision{}):
		return fmt.Errorf("Approve of tool %q: a Default needs Within, after which it holds", a.Tool)
	case d.Type != "" && d.Type != ApproveCall && d.Type != RejectCall && d.Type != RespondCall:
		return fmt.Errorf("Approve of tool %q: the Default is %q: want approve, reject or respond", a.Tool, d.Type)
	}
	if a.Tool == "*" {
		return nil
	}
	if _, err := set.Get(a.Tool); err != nil {
		return fmt.Errorf("Approve: %w", err)
	}
	return nil
}

// approval returns what holds for a call.
func (t *Tools[S]) approval(c chat.ToolCall) (*Approval, bool) {
	var found *Approval
	for i := range t.Approve {
		a := &t.Approve[i]
		if a.Tool == c.Name || a.Tool == "*" && found == nil && c.Name != AnswerTool {
			found = a
		}
	}
	if found == nil || found.When != nil && !found.When(c) {
		return nil, false
	}
	return found, true
}

// review asks about the calls that need it and does what was decided.
func (t *Tools[S]) review(ctx context.Context, set *tool.Set, jobs []*job) error {
	var asked []*job
	by := map[*job]*Approval{}
	for _, j := range jobs {
		if a, ok := t.approval(j.call); ok && !j.done {
			asked, by[j] = append(asked, j), a
		}
	}
	for len(asked) > 0 {
		late, err := t.ask(ctx, set, asked, by)
		if err != nil || late == 0 {
			return err
		}
		asked = slices.DeleteFunc(asked, func(j *job) bool { // nobody has decided about it in time
			a := by[j]
			if a.Within == 0 || a.Within > late {
				return false
			}
			d := a.Default
			if d.Type == "" {
				d.Type = RejectCall
			}
			if d.Type == RejectCall && d.Message == "" {
				d.Message = fmt.Sprintf("The call of %s was not approved within %v.", j.call.Name, a.Within)
			}
			err = errors.Join(err, j.decide(set, d))
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ask asks about some calls and does what was decided. If nobody has decided in time, it
// returns what time that was.
func (t *Tools[S]) ask(ctx context.Context, set *tool.Set, asked []*job, by map[*job]*Approval) (late time.Duration, err error) {
	var req ApprovalRequest
	for _, j := range asked {
		a, spec := by[j], j.tool.Spec()
		req.Actions = append(req.Actions, ActionRequest{Name: j.call.Name, Args: j.args, Description: spec.Description})
		req.Reviews = append(req.Reviews, ReviewConfig{Name: j.call.Name, Allowed: a.allowed(), ArgsSchema: spec.Schema})
		if a.Within > 0 && (late == 0 || a.Within < late) {
			late = a.Within
		}
	}
	opts := []graph.AskOption{graph.AnswerSchema(answerSchema(set, req))}
	if late > 0 {
		opts = append(opts, graph.Deadline(late))
	}
	// A decision is about just these calls: if others are to be decided about by
	// the time it comes, that is another question.
	h := sha256.New()
	h.Write([]byte(t.round)) // a model may say the same in another round
	for _, j := range asked {
		fmt.Fprintf(h, "%q %q %s\n", j.call.ID, j.call.Name, j.args)
	}
	answer, err := graph.Interrupt[ApprovalAnswer](graph.Scope(ctx, "approve "+hex.EncodeToString(h.Sum(nil)[:8])), ApprovalKey, req, opts...)
	if _, passed := errors.AsType[*graph.DeadlineError](err); passed {
		return late, nil
	}
	if err != nil {
		return 0, err
	}
	if len(answer.Decisions) != len(asked) {
		return 0, fmt.Errorf("approval: %d decisions about %d calls", len(answer.Decisions), len(asked))
	}
	for i, d := range answer.Decisions {
		if err := asked[i].decide(set, d); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (j *job) decide(set *tool.Set, d Decision) (err error) {
	switch d.Type {
	case ApproveCall:
		return nil
	case EditCall:
		if d.Edited == nil {
			return fmt.Errorf("approval: the edit of a call of %q has no edited_action", j.call.Name)
		}
		j.call.Name, j.call.Args, j.edited = d.Edited.Name, string(d.Edited.Args), true
		if j.tool, err = set.Get(j.call.Name); err != nil {
			return fmt.Errorf("approval: %w", err)
		}
		if j.args, err = j.call.Arguments(); err != nil {
			return fmt.Errorf("approval: the arguments of %q: %w", j.call.Name, err)
		}
		return nil
	case RejectCall:
		text := d.Message
		if text == "" {
			text = fmt.Sprintf("The user rejected the call of %s.", j.call.Name)
		}
		j.finish(failure(j.call, text))
		return nil
	case RespondCall:
		j.finish(chat.ResultText(j.call, d.Message))
		return nil
	}
	return errors.New("approval: unknown decision " + string(d.Type))
}

// schema is a JSON Schema in the making.
type schema map[string]any

// answerSchema describes the answer: an answer that doesn't fit is refused, and
// the thread goes on waiting.
func answerSchema(set *tool.Set, req ApprovalRequest) json.RawMessage {
	var names []string
	var fits []schema // of the arguments of an edit, by the tool
	for _, s := range set.Specs() {
		names = append(names, s.Name)
		if args := argsSchema(s, fmt.Sprintf("/$defs/edited_action/allOf/%d/then/properties/args", len(fits))); args != nil {
			fits = append(fits, schema{
				"if":   schema{"properties": schema{"name": schema{"const": s.Name}}},
				"then": schema{"properties": schema{"args": args}},
			})
		}
	}
	edited := schema{
		"type": "object", "required": []string{"name", "args"},
		"properties": schema{"name": schema{"enum": names}, "args": schema{"type": "object"}},
	}
	if len(fits) > 0 {
		edited["allOf"] = fits
	}
	items := make([]schema, len(req.Reviews))
	for i, r := range req.Reviews {
		items[i] = schema{
			"type": "object", "required": []string{"type"}, "additionalProperties": false,
			"properties": schema{
				"type": schema{"enum": r.Allowed}, "message": schema{"type": "string"}, "edited_action": schema{"$ref": "#/$defs/edited_action"},
			},
			"if":   schema{"properties": schema{"type": schema{"const": EditCall}}},
			"then": schema{"required": []string{"edited_action"}},
		}
	}
	return asJSON(schema{
		"type": "object", "required": []string{"decisions"}, "additionalProperties": false, "$defs": schema{"edited_action": edited},
		"properties": schema{"decisions": schema{"type": "array", "minItems": len(items), "maxItems": len(items), "prefixItems": items}},
	})
}

// argsSchema returns the schema of a tool's arguments as the part of that of an
// answer at a JSON pointer, nil if there is none that can be checked: of a tool from elsewhere it may
// be one that this program can't read, and the tool checks for itself.
func argsSchema(s chat.ToolSpec, at string) json.RawMessage {
	if len(s.Schema) == 0 {
		return nil
	}
	parsed, err := goschema.Parse(s.Schema)
	if err != nil {
		return nil
	}
	args := parsed.Schema
	takeNull(args, map[*jsonschema.Schema]bool{})
	if _, err := args.Resolve(nil); err != nil { // a reference went through a field
		return nil
	}
	goschema.Move(args, at)
	data, err := json.Marshal(args)
	if err != nil {
		return nil
	}
	return data
}

// takeNull makes a schema take null for a field that isn't required, as tools do:
// models and forms leave fields out like that.
func takeNull(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	for name, p := range s.Properties {
		takeNull(p, seen)
		if !slices.Contains(s.Required, name) {
			s.Properties[name] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{p, {Type: "null"}}}
		}
	}
	takeNull(s.Items, seen)
	for _, defs := range []map[string]*jsonschema.Schema{s.Defs, s.Definitions} {
		for _, d := range defs {
			takeNull(d, seen)
		}
	}
}
