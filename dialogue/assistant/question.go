package assistant

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Question is what a conversation shows while it waits: the value of its interrupt. An
// answer is a text, or an [Input].
type Question struct {
	// Type is collect, confirm, inform or choice; handoff while a person has the
	// conversation; wait if the user is asked nothing.
	Type     string            `json:"type"`
	ID       string            `json:"id,omitempty"` // for the buttons of the question
	Flow     string            `json:"flow,omitempty"`
	Step     string            `json:"step,omitempty"`
	Slot     string            `json:"slot,omitempty"`
	Prompt   string            `json:"prompt"` // what was said last
	Options  []dialogue.Option `json:"options,omitempty"`
	Schema   json.RawMessage   `json:"schema,omitempty"` // JSON Schema of the slot's value
	Messages []dialogue.Said   `json:"messages,omitempty"`
}

// question is what is shown while a conversation waits: what its last reply asked.
func (a *Assistant) question(d dialogue.State) Question {
	q := Question{Type: "wait"}
	m := &d.Metadata.Machine
	if m.Handoff != nil {
		q.Type = "handoff"
	}
	if r := m.LastReply; r != nil {
		q.Prompt, q.Messages = r.Text, r.Messages
		if w := r.Waiting; w != nil && m.Question != nil {
			q.Type, q.ID, q.Flow, q.Step, q.Slot, q.Options = string(w.Type), w.ID, w.Flow, w.Step, w.Slot, w.Options
		}
	}
	if f, ok := a.config.Program.Flow(q.Flow); ok {
		q.Schema = schemaOf(f.Slots[q.Slot])
	}
	return q
}

// schemaOf is the JSON Schema of a slot's value.
func schemaOf(slot *program.Slot) json.RawMessage {
	if slot == nil {
		return nil
	}
	schema := struct {
		Description string       `json:"description,omitempty"`
		Enum        []expr.Value `json:"enum,omitempty"`
		Maximum     *expr.Value  `json:"maximum,omitempty"`
		Minimum     *expr.Value  `json:"minimum,omitempty"`
		Type        string       `json:"type,omitempty"`
	}{Description: slot.Description, Maximum: slot.Maximum, Minimum: slot.Minimum}
	switch slot.Type {
	case program.Number, program.Integer, program.Boolean, program.Object:
		schema.Type = string(slot.Type)
	case program.List:
		schema.Type = "array"
	case program.Any:
	default:
		schema.Type = "string"
	}
	for _, o := range slot.Options {
		schema.Enum = append(schema.Enum, o.Value)
	}
	data, err := json.Marshal(&schema)
	if err != nil {
		return nil
	}
	return data
}
