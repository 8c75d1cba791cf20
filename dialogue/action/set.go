package action

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/tool"
)

// Set is the code that an assistant needs. Its zero value has none. It is safe for
// concurrent use.
type Set struct {
	// Log gets the failures that no action told on purpose, with the stacks of panics; nil
	// is [slog.Default]. Inputs and outputs are not logged. Set it before the first call.
	Log *slog.Logger

	actions    map[string]*Action
	validators map[string]*Validator
}

// Part is what sets are made of: an [*Action] or a [*Validator].
type Part interface{ addTo(s *Set) error }

// NewSet returns a set of actions and validators. What is wrong with them, all of it, is
// the error: a [*DefinitionError] for each that is defined wrongly or has the name of
// another.
func NewSet(parts ...Part) (*Set, error) {
	s := &Set{actions: map[string]*Action{}, validators: map[string]*Validator{}}
	var errs []error
	for _, p := range parts {
		if p == nil {
			errs = append(errs, errors.New("a part of the set is nil"))
			continue
		}
		errs = append(errs, p.addTo(s))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// Check says whether all actions and validators that the program names are there and fit
// what it says of them. The error is [program.Findings] with everything that doesn't. Code
// that the program doesn't name is no mistake: one set may serve several programs.
func (s *Set) Check(p *program.Program) error {
	code := program.Code{Actions: map[string]program.Signature{}, Validators: map[string]program.Type{}}
	for name, a := range s.actions {
		code.Actions[name] = a.signature
	}
	for name, v := range s.validators {
		code.Validators[name] = v.takes
	}
	return p.Check(code)
}

// Do makes one attempt at an action. Its context ends when the call's Timeout is over, and
// Do returns then, even if the action goes on; a Timeout of 0 is 30 seconds. If ctx ends
// before the action does, what became of it is not known: the failure is then cancelled,
// or timeout if it was a deadline.
func (s *Set) Do(ctx context.Context, call dialogue.ActionCall) dialogue.Result {
	ctx = withCall(ctx, Call{ID: call.ID, Action: call.Action, Effect: call.Effect, FlowID: call.FlowID, Step: call.Step})
	r := dialogue.Result{ID: call.ID}
	a, ok := s.actions[call.Action]
	if !ok {
		r.Error = &dialogue.Failure{Type: "action_not_found", Message: "it has no code", Action: call.Action}
		return r
	}
	outputs, err := within(ctx, call.Timeout, func(ctx context.Context) (map[string]expr.Value, error) { return a.act(ctx, call.Inputs) })
	if err != nil {
		r.Error = s.failure(ctx, "action", call.Action, call.ID, err)
		r.Error.Action = call.Action
		return r
	}
	r.Outputs = outputs
	return r
}

// Validate asks a validator about a value. It takes 30 seconds at most.
func (s *Set) Validate(ctx context.Context, v dialogue.Validation) dialogue.Validated {
	ctx = withCall(ctx, Call{Caller: Caller{Language: v.Language}})
	out := dialogue.Validated{ID: v.ID}
	x, ok := s.validators[v.Validator]
	if !ok {
		s.logger().LogAttrs(ctx, slog.LevelError, "there is no validator of this name", slog.String("validator", v.Validator))
		out.Error = &dialogue.Failure{Type: "action_not_found", Message: unchecked}
		return out
	}
	kept, err := within(ctx, 0, func(ctx context.Context) (expr.Value, error) { return x.run(ctx, v) })
	var refusal Refusal
	switch {
	case err == nil:
		out.Value = kept
	case errors.As(err, &refusal):
		out.Reason = cut(cmp.Or(string(refusal), "it is refused"), maxMessage)
	default:
		out.Error = s.failure(ctx, "validator", v.Validator, v.ID, err)
		out.Error.Message = cmp.Or(out.Error.Message, unchecked)
	}
	return out
}

// unchecked is the reason that users are told when a validator failed.
const unchecked = "it can't be checked now"

const defaultTimeout = 30 * time.Second // as programs have it

// within runs a function for a time at most. A panic is an error.
func within[T any](ctx context.Context, d time.Duration, fn func(context.Context) (T, error)) (T, error) {
	if d <= 0 {
		d = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("the function ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				a.err = &tool.PanicError{Value: v, Stack: debug.Stack()}
			}
			done <- a
		}()
		value, err := fn(ctx)
		a = answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done: // in time after all
		return a.value, a.err
	default:
		var none T
		return none, ctx.Err()
	}
}

// failure says which failure an error is, and logs what it doesn't tell.
func (s *Set) failure(ctx context.Context, what, name, id string, err error) *dialogue.Failure {
	f, level := &dialogue.Failure{}, slog.LevelWarn
	var said *dialogue.Failure
	switch {
	case errors.As(err, &said) && said != nil:
		f.Type, f.Message = cut(cmp.Or(said.Type, "unknown"), maxName), cut(said.Message, maxMessage)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		f.Type = "cancelled"
	case timedOut(err):
		f.Type = "timeout"
	default:
		f.Type, level = "unknown", slog.LevelError
	}
	cause := err
	if e, ok := err.(*tool.Error); ok && e.Kind == tool.ErrorFailed {
		cause = e.Err // as the function returned it
	}
	if cause == error(said) {
		return f
	}
	attrs := []slog.Attr{slog.String(what, name), slog.String("id", id), slog.String("type", f.Type), slog.String("error", cause.Error())}
	var panicked *tool.PanicError
	if errors.As(err, &panicked) {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	s.logger().LogAttrs(ctx, level, what+" failed", attrs...)
	return f
}

// maxMessage are the bytes of what users are told about a failure.
const maxMessage = 1000

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

func (s *Set) logger() *slog.Logger {
	if s.Log != nil {
		return s.Log
	}
	return slog.Default()
}
