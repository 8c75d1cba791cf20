package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/plainjson"
)

// Function is a tool that is a Go function. See [New].
type Function[In, Out any] struct {
	spec chat.ToolSpec
	fn   func(context.Context, In) (Out, error)
	args *goschema.Schema
	bad  error // a *DefinitionError
}

// New makes a function a tool.
//
// In is a struct, or another type whose JSON is an object, such as a map;
// struct{} takes no arguments. The JSON Schema that models are told is inferred
// from it. A field is named by its json tag and required unless that has
// omitempty or omitzero. More comes from these tags, all optional:
//
//	jsonschema:"what the field is for"
//	enum:"red,green,blue"   values that are allowed; for a list, of its elements
//	default:"10"            if there is no value; the field isn't required then
//	minimum, maximum        of a number
//	minLength, maxLength    of a text, in characters
//	minItems, maxItems      of a list
//	pattern, format         of a text: a regular expression; date, email, uri, ...
//
// A default is text for a string and JSON for the rest. Types that decode their
// own JSON may hold anything, those that decode text are strings. What
// can't be inferred is given with [Schema].
//
// What Out becomes for the model: a string is the text; a [chat.Part], a list of
// them or a [Result] is taken as it is; all else is written as JSON.
//
// New reports no mistakes in the definition: [Function.Check] and every Call do,
// and so does [NewSet].
func New[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...Option) *Function[In, Out] {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	f := &Function[In, Out]{spec: chat.ToolSpec{Name: name, Description: description, Strict: s.strict}, fn: fn}
	var d DefinitionError
	d.add(name, checkName(name))
	if fn == nil {
		d.add(name, errors.New("the function is nil"))
	}
	schema, raw, err := s.resolve(reflect.TypeFor[In]())
	f.spec.Schema = raw
	if err != nil {
		d.add(name, err)
	} else if f.args, err = goschema.Complete(schema, !s.hasSchema); err != nil {
		d.add(name, fmt.Errorf("the schema is wrong: %w", err))
	}
	f.bad = d.err()
	return f
}

// resolve returns the schema of the arguments, and its JSON.
func (s *settings) resolve(t reflect.Type) (*jsonschema.Schema, json.RawMessage, error) {
	schema := new(jsonschema.Schema)
	if s.hasSchema {
		if err := checkRoot(s.schema); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(s.schema, schema); err != nil {
			return nil, nil, fmt.Errorf("the schema is wrong: %w", err)
		}
		if len(s.edits) == 0 {
			return schema, s.schema, nil // to the letter
		}
	} else {
		var err error
		if schema, err = inferred(t); err != nil {
			return nil, nil, err
		}
		if schema.Type != "object" {
			return nil, nil, fmt.Errorf("the arguments must be a JSON object, which %v isn't; use a struct or the option Schema", t)
		}
	}
	var errs []error
	for _, edit := range s.edits {
		errs = append(errs, edit(schema))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(schema)
	return schema, raw, err
}

// SchemaOf returns the JSON Schema that [New] infers for arguments of type T. T may be
// any type whose JSON it can describe.
func SchemaOf[T any]() (json.RawMessage, error) {
	s, err := inferred(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// inferred returns the schema of what decodes into a type.
func inferred(t reflect.Type) (*jsonschema.Schema, error) {
	of := t
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	s, err := goschema.Of(of, goschema.Arguments)
	if err != nil {
		return nil, fmt.Errorf("no schema can be inferred from %v: %w", t, err)
	}
	return s, nil
}

// Spec describes the tool to models.
func (f *Function[In, Out]) Spec() chat.ToolSpec { return f.spec }

// Check returns what is wrong with the tool's definition, a [*DefinitionError],
// or nil.
func (f *Function[In, Out]) Check() error { return f.bad }

// Call checks the arguments, calls the function and encodes what it returns.
//
// No arguments at all and null are an empty object. Null for a field that isn't
// required is the same as leaving it out, unless the schema allows null.
//
// An error is an [*Error]: [ErrorArguments] for arguments that don't match the
// schema, saying about each field what is wrong; [ErrorPanic] with a
// [*PanicError] when the function panics; [ErrorFailed] with the function's error
// otherwise. A tool that is defined wrongly returns what Check returns.
func (f *Function[In, Out]) Call(ctx context.Context, args json.RawMessage) (res Result, err error) {
	if f.bad != nil {
		return Result{}, f.bad
	}
	defer func() {
		if v := recover(); v != nil {
			res, err = Result{}, panicked(f.spec.Name, v)
		}
	}()
	var in In
	if err := f.args.Read(args, &in); err != nil {
		return Result{}, &Error{Tool: f.spec.Name, Kind: ErrorArguments, Err: err}
	}
	out, err := f.fn(ctx, in)
	if err == nil {
		res, err = resultOf(out)
	}
	if err != nil {
		if e, ok := err.(*Error); ok && e.Tool == f.spec.Name {
			return Result{}, e // the function has said it itself
		}
		return Result{}, &Error{Tool: f.spec.Name, Err: err}
	}
	return res, nil
}

// PanicError is the cause of an [*Error] of the kind [ErrorPanic].
type PanicError struct {
	Value any    // what the tool panicked with
	Stack []byte // of the goroutine, as runtime/debug.Stack prints it
}

func (e *PanicError) Error() string { return fmt.Sprint(e.Value) }

// Unwrap returns the value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func panicked(tool string, v any) *Error {
	return &Error{Tool: tool, Kind: ErrorPanic, Err: &PanicError{Value: v, Stack: debug.Stack()}}
}

// resultOf encodes what a function returned.
func resultOf(out any) (Result, error) {
	switch out := out.(type) {
	case string:
		return Text(out), nil
	case Result:
		return out, checkResult(out)
	case chat.Part:
		r := Result{Content: []chat.Part{out}}
		return r, checkResult(r)
	case []chat.Part:
		r := Result{Content: out}
		return r, checkResult(r)
	}
	text, err := plainjson.Marshal(out)
	if err != nil {
		return Result{}, fmt.Errorf("the result has no JSON: %w", err)
	}
	return Text(string(text)), nil
}

// checkResult reports parts that a tool can't return.
func checkResult(r Result) error {
	for i, p := range r.Content {
		switch p.(type) {
		case chat.Text, chat.Image, chat.Audio, chat.File:
		case nil:
			return fmt.Errorf("part %d of the result is nil", i)
		default:
			return fmt.Errorf("part %d of the result is a %T; a tool returns text, images, audio and files", i, p)
		}
	}
	if r.Artifact != nil && !json.Valid(r.Artifact) {
		return errors.New("the result's artifact isn't JSON")
	}
	return nil
}
