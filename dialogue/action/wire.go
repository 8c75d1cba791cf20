package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// maxBody are the bytes that a request and an answer may have.
const maxBody = 1 << 20

// listing is what a server of actions has.
type listing struct {
	Actions    map[string]contract     `json:"actions"`
	Validators map[string]program.Type `json:"validators"`
}

// contract is written as in programs: a name that ends in ? may be missing. Without inputs
// or outputs they are not known.
type contract struct {
	Effect  program.Effect          `json:"effect,omitempty"`
	Inputs  map[string]program.Type `json:"inputs,omitzero"`
	Outputs map[string]program.Type `json:"outputs,omitzero"`
}

func contractOf(s program.Signature) contract {
	c := contract{Effect: s.Effect}
	if !s.AnyInputs {
		c.Inputs = paramsTo(s.Inputs)
	}
	if !s.AnyOutputs {
		c.Outputs = paramsTo(s.Outputs)
	}
	return c
}

func (c contract) signature() (program.Signature, error) {
	s := program.Signature{Effect: c.Effect, AnyInputs: c.Inputs == nil, AnyOutputs: c.Outputs == nil}
	switch c.Effect {
	case "", program.Read, program.Write, program.Irreversible:
	default:
		return s, fmt.Errorf("there is no effect %q", c.Effect)
	}
	var err error
	if s.Inputs, err = paramsFrom(c.Inputs); err != nil {
		return s, err
	}
	s.Outputs, err = paramsFrom(c.Outputs)
	return s, err
}

func paramsTo(list []program.Param) map[string]program.Type {
	m := make(map[string]program.Type, len(list))
	for _, p := range list {
		if p.Optional {
			p.Name += "?"
		}
		m[p.Name] = p.Type
	}
	return m
}

func paramsFrom(m map[string]program.Type) ([]program.Param, error) {
	var list []program.Param
	for _, key := range slices.Sorted(maps.Keys(m)) {
		name, optional := strings.CutSuffix(key, "?")
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		if err := checkType(m[key]); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		list = append(list, program.Param{Name: name, Type: m[key], Optional: optional})
	}
	return list, nil
}

func checkType(t program.Type) error {
	if _, ok := t.Kind(); !ok && t != program.Any {
		return fmt.Errorf("there is no type %q", t)
	}
	return nil
}

// request asks for one attempt at an action, or about a value.
type request struct {
	Action  string                `json:"action,omitempty"`
	Inputs  map[string]expr.Value `json:"inputs,omitempty"`
	Effect  program.Effect        `json:"effect,omitempty"`
	Key     string                `json:"key,omitempty"`
	Flow    string                `json:"flow,omitempty"`
	Step    string                `json:"step,omitempty"`
	Timeout float64               `json:"timeout,omitempty"` // seconds

	Validator string     `json:"validator,omitempty"`
	Value     expr.Value `json:"value,omitzero"`
	Slot      string     `json:"slot,omitempty"`

	Thread   string `json:"thread,omitempty"`
	User     string `json:"user,omitempty"`
	Language string `json:"language,omitempty"`
}

// answer is what came of a request: one of the fields.
type answer struct {
	Outputs json.RawMessage `json:"outputs,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Refused *string         `json:"refused,omitempty"`
	Error   *wireError      `json:"error,omitempty"`
}

type wireError struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"`
}
