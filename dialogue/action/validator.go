package action

import (
	"context"
	"errors"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Validator is the code of a validator. It is safe for concurrent use if its function is.
type Validator struct {
	name  string
	takes program.Type
	run   func(ctx context.Context, v dialogue.Validation) (expr.Value, error)
	bad   error
}

func (v *Validator) addTo(s *Set) error {
	if v == nil {
		return errors.New("a validator is nil")
	}
	if v.bad != nil {
		return &DefinitionError{Name: v.name, Err: v.bad}
	}
	if s.validators[v.name] != nil {
		return &DefinitionError{Name: v.name, Err: errors.New("there are two validators of this name; rename one")}
	}
	s.validators[v.name] = v
	return nil
}

// Refusal is the error of a validator that refuses a value. It is the reason, which the
// user is told.
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return string(r) }

// NewValidator makes a validator of a function. It gets the value of a slot and returns the
// one to keep, or a [Refusal]. Any other error says that the value could not be checked;
// its text goes to the log. T is a type for the slot's, as in [New]; a time.Time is a
// datetime.
//
// A validator has no side effects, and says the same of the same value.
func NewValidator[T any](name string, fn func(ctx context.Context, v T) (T, error)) *Validator {
	v := &Validator{name: name}
	if fn == nil {
		v.bad = errors.New("the function is nil")
		return v
	}
	type box struct {
		Value T `json:"value"`
	}
	a := New(name, func(ctx context.Context, in box) (box, error) {
		kept, err := fn(ctx, in.Value)
		return box{kept}, err
	})
	if v.bad = a.bad; v.bad != nil {
		return v
	}
	v.takes = a.signature.Inputs[0].Type
	v.run = func(ctx context.Context, in dialogue.Validation) (expr.Value, error) {
		out, err := a.act(ctx, map[string]expr.Value{"value": in.Value})
		return out["value"], err
	}
	return v
}
