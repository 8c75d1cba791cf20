package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/local"
)

// inputType is what a graph takes from outside, if that is not an update of its state.
type inputType struct {
	schema *jsonschema.Schema
	read   func(data []byte) (write func(state any) error, err error)
}

// outputType is what a graph gives to its caller, if that is not its state.
type outputType struct {
	schema *jsonschema.Schema
	json   func(state any) (json.RawMessage, error)
}

// SetInput sets the type of what the graph is given from outside. Where an input is
// JSON (a graph from [JSON], a server, a command line), it is decoded as an In and put
// writes it to the state; an error of put refuses it, and nothing has happened then.
// Without SetInput such an input is an update of the state.
//
// The JSON must be as the schema of In has it ([Graph.JSONSchema]): members that a
// struct doesn't have, or lacks and that have no omitempty or omitzero, are refused
// with an [InputError] for each.
//
// Only the input of a run is an In: edits, and what comes with an answer, are updates
// of the state. A graph that contains this one as a node writes its state as it says
// itself. In Go, put is all that a caller needs:
//
//	g.Invoke(ctx, func(s *State) error { return put(s, in) })
//
// (A function, since methods have no type parameters.)
func SetInput[In, S any](b *Builder[S], put func(s *S, in In) error) *Builder[S] {
	d := b.made()
	schema := d.outside(reflect.TypeFor[In](), "SetInput", d.input != nil, put == nil)
	d.input = &inputType{schema: schema, read: func(data []byte) (func(any) error, error) {
		in := new(In)
		if err := goschema.Decode("input", data, schema, in); err != nil {
			return nil, err
		}
		return func(s any) error { return put(s.(*S), *in) }, nil
	}}
	return b
}

// SetOutput sets what a run gives to its caller, beside the state that the thread
// keeps: take makes it from the state, which it must not change. It is what
// [Snapshot.OutputJSON] and [Event.OutputJSON] return and [Graph.JSONSchema] tells:
// the values of runs over a server and of a command line. A thread's state, its history
// and its checkpoints show the whole state all the same. Without SetOutput the output
// is the state.
//
// Take is called by whoever looks, also at the values of a run that is not over, and
// by several goroutines at once. In Go, take is all that a caller needs: it is given
// &snap.State.
//
// (A function, since methods have no type parameters.)
func SetOutput[Out, S any](b *Builder[S], take func(s *S) Out) *Builder[S] {
	d := b.made()
	schema := d.outside(reflect.TypeFor[Out](), "SetOutput", d.output != nil, take == nil)
	d.output = &outputType{schema: schema, json: func(s any) (data json.RawMessage, err error) {
		err = local.Safely(func() (err error) {
			data, err = json.Marshal(take(s.(*S)))
			return err
		})
		if _, panicked := errors.AsType[*PanicError](err); panicked {
			err = fmt.Errorf("graph: SetOutput: %w", err)
		}
		return data, err
	}}
	return b
}

// outside returns the schema of a type that is seen outside, and reports mistakes.
func (d *draft) outside(t reflect.Type, what string, again, missing bool) *jsonschema.Schema {
	wrong := func(fix, format string, args ...any) {
		d.problem("option", "", fix, "%s: %s", what, fmt.Sprintf(format, args...))
	}
	if again {
		wrong("set it once", "it is set already")
	}
	if missing {
		wrong("pass a function or leave it out", "the function is nil")
	}
	if bad, why := state.Unstorable(t); bad != nil {
		wrong("use types that JSON can hold", "%v: %v: %s", t, bad, why)
	}
	schema, err := goschema.Of(t, goschema.Answer)
	if err != nil {
		wrong("use types that JSON can hold", "%v: %v", t, err)
	}
	return schema
}

// readInput returns what an input in JSON writes to the state.
func (e *engine) readInput(data []byte) (write func(state any) error, err error) {
	if e.input == nil {
		return func(state any) error { return e.state.Update(state, data) }, nil
	}
	return e.input.read(data)
}

// outputJSON returns what a run that ends with a state gives to its caller.
func (e *engine) outputJSON(state any) (json.RawMessage, error) {
	if e.output == nil {
		return json.Marshal(state)
	}
	return e.output.json(state)
}
