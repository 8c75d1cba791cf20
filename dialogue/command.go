package dialogue

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// CommandType is a type of command.
type CommandType string

// The commands: all that understanding, buttons and callers can ask for, beside the
// actions that a program has as commands ([program.Action.Command]).
const (
	StartFlow    CommandType = "start_flow"
	CancelFlow   CommandType = "cancel_flow"
	CompleteFlow CommandType = "complete_flow" // from callers only
	SetSlot      CommandType = "set_slot"
	CorrectSlot  CommandType = "correct_slot"
	ClearSlot    CommandType = "clear_slot"
	Affirm       CommandType = "affirm"
	Deny         CommandType = "deny"
	Select       CommandType = "select"
	NextOption   CommandType = "next_option"
	Repeat       CommandType = "repeat"
	Skip         CommandType = "skip"
	ResumeFlow   CommandType = "resume"
	Clarify      CommandType = "clarify"
	AskQuestion  CommandType = "question"
	Chitchat     CommandType = "chitchat"
	OutOfScope   CommandType = "out_of_scope"
	Handoff      CommandType = "handoff"
	SetLanguage  CommandType = "set_language"
)

// ranks order the commands of one message; those without a rank keep their order at
// the end.
var ranks = map[CommandType]int{SetLanguage: 1, CancelFlow: 2, Deny: 3, CorrectSlot: 4, ClearSlot: 5, Affirm: 7, StartFlow: 8, SetSlot: 9}

const askedRank = 6

// Command is one thing that a user wants, as understood. Which fields count depends on
// the type.
type Command struct {
	Type     CommandType           `json:"type"`
	Flow     string                `json:"flow,omitempty"`
	Slots    map[string]expr.Value `json:"slots,omitempty"`
	Slot     string                `json:"slot,omitempty"`
	Value    expr.Value            `json:"value,omitzero"`
	Span     string                `json:"span,omitempty"`
	Option   string                `json:"option,omitempty"`
	Options  []string              `json:"options,omitempty"` // flows to choose from
	Topic    string                `json:"topic,omitempty"`
	Reason   string                `json:"reason,omitempty"`
	Language string                `json:"language,omitempty"`

	// Source is who gave the command: the user's words, a button or a caller. Advance
	// sets it.
	Source program.Source `json:"source,omitempty"`
	// Of is the flow_id for which a slot was given together with a start.
	Of string `json:"of,omitempty"`
}

// IsZero says whether the command is empty.
func (c Command) IsZero() bool { return c.Type == "" }

// UnmarshalJSON reads a command. Earlier names of fields are read too; unknown fields,
// and fields of another type than theirs, are dropped.
func (c *Command) UnmarshalJSON(data []byte) error {
	var v expr.Value
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*c = commandOf(v)
	return nil
}

// commandOf reads a command from a value; one that is none has no type.
func commandOf(v expr.Value) Command {
	text := func(names ...string) string {
		for _, n := range names {
			if m, ok := v.Get(n); ok {
				switch m.Kind() {
				case expr.Text, expr.Number:
					return m.String()
				}
			}
		}
		return ""
	}
	var c Command
	c.Type = CommandType(text("type"))
	c.Flow = text("flow", "flow_name")
	c.Slot = text("slot", "slot_to_change")
	for _, n := range []string{"value", "new_value"} {
		if m, ok := v.Get(n); ok {
			c.Value = m
			break
		}
	}
	c.Span, c.Option, c.Reason = text("span"), text("option"), text("reason")
	c.Topic, c.Language = text("topic", "hint", "message"), text("language")
	c.Source, c.Of = program.Source(text("source")), text("of")
	if m, ok := v.Get("slots"); ok && m.Kind() == expr.Object {
		c.Slots = map[string]expr.Value{}
		for _, k := range m.Keys() {
			c.Slots[k], _ = m.Get(k)
		}
	}
	if m, ok := v.Get("options"); ok {
		for _, o := range m.Items() {
			if t, ok := o.Str(); ok {
				c.Options = append(c.Options, t)
			}
		}
	}
	return c
}

// digression says whether the command leaves everything as it is.
func (t CommandType) digression() bool {
	return t == Clarify || t == AskQuestion || t == Chitchat || t == OutOfScope
}
