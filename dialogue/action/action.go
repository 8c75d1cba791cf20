package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/tool"
)

// Action is the code of an action. It is safe for concurrent use if its function is.
type Action struct {
	name      string
	signature program.Signature
	run       func(ctx context.Context, inputs map[string]expr.Value) (map[string]expr.Value, error)
	bad       error
}

func (a *Action) addTo(s *Set) error {
	if a == nil {
		return errors.New("an action is nil")
	}
	if a.bad != nil {
		return &DefinitionError{Name: a.name, Err: a.bad}
	}
	if s.actions[a.name] != nil {
		return &DefinitionError{Name: a.name, Err: errors.New("there are two actions of this name; rename one")}
	}
	s.actions[a.name] = a
	return nil
}

// Option is a setting of [New] and [Tool].
type Option func(*Action)

// Effect says what repeating the action does. [Set.Check] then refuses a program that is
// less careful with it.
func Effect(e program.Effect) Option { return func(a *Action) { a.signature.Effect = e } }

// New makes an action of a function.
//
// In and Out are structs, whose fields are the inputs and outputs by their json tags;
// struct{} stands for none. A field that is a pointer, or has omitempty or omitzero, may
// be missing. In and Out may also be maps, whose names nobody checks beforehand.
//
//	string                          string, date, time, datetime
//	integers of Go                  integer
//	float32, float64                number
//	bool                            boolean
//	time.Time                       datetime; with the tag format:"date" or "time" that
//	time.Duration                   number of seconds
//	slices                          list; a nil one is empty
//	structs, maps                   object
//	expr.Value, any                 any
//
// The tags format:"date", "time" and "date-time" make a string that type. The other tags of
// [tool.New] limit inputs as they do there. A time.Time without a zone is in UTC. Times and
// durations inside of lists and objects are as encoding/json writes them.
//
// A value that doesn't fit is a failure: of type invalid for inputs, and invalid_output
// for outputs, such as an integer that a number of a dialogue can't hold exactly (most
// above 2^53; return it as a string).
//
// Mistakes in the definition are reported by [NewSet].
func New[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error), opts ...Option) *Action {
	a := &Action{name: name}
	for _, o := range opts {
		o(a)
	}
	if fn == nil {
		a.bad = errors.New("the function is nil")
		return a
	}
	f := tool.New(name, "", func(ctx context.Context, in In) (tool.Result, error) {
		out, err := fn(ctx, in)
		if f, ok := err.(*dialogue.Failure); ok && f == nil {
			err = errors.New("it returned a nil *dialogue.Failure as its error")
		}
		if err != nil {
			return tool.Result{}, err
		}
		data, err := json.Marshal(out)
		if err != nil {
			return tool.Result{}, fmt.Errorf("%w: %w", failure("invalid_output", "they have no JSON"), err)
		}
		return tool.Result{Artifact: data}, nil
	})
	output, err := tool.SchemaOf[Out]()
	if err := errors.Join(checkName(name), f.Check(), err); err != nil {
		a.bad = err
		return a
	}
	a.bad = a.calls(f, output)
	in, out := special(reflect.TypeFor[In]()), special(reflect.TypeFor[Out]())
	a.typed(a.signature.Inputs, in)
	a.typed(a.signature.Outputs, out)
	run, params, returned := a.run, slices.Clone(a.signature.Inputs), slices.Clone(a.signature.Outputs)
	a.run = func(ctx context.Context, inputs map[string]expr.Value) (map[string]expr.Value, error) {
		inputs = maps.Clone(inputs)
		for _, p := range params {
			v, ok := inputs[p.Name]
			if !ok || in[p.Name] == nil {
				continue
			}
			v, reason := toGo(in[p.Name], p.Type, v)
			if reason != "" {
				return nil, invalid("the input %q: %s", p.Name, reason)
			}
			inputs[p.Name] = v
		}
		outputs, err := run(ctx, inputs)
		for _, p := range returned {
			v, ok := outputs[p.Name]
			switch {
			case !ok:
			case out[p.Name] != nil:
				outputs[p.Name] = fromGo(out[p.Name], p.Type, v)
			case v.IsNone() && !p.Optional && p.Type == program.List: // a nil slice
				outputs[p.Name] = expr.ListOf()
			case v.IsNone() && !p.Optional && p.Type == program.Object:
				outputs[p.Name] = expr.ObjectOf(nil)
			}
		}
		return outputs, err
	}
	return a
}

// Tool makes an action of a tool, for example of the tools of an mcp.Client. The action's
// name is the tool's, and the inputs' names are those of its JSON Schema, with an
// underscore for each character that a name of a program can't have.
//
// The outputs are the fields of the result's artifact, which of a tool of MCP is its
// structured content. Without an artifact they are those of a text that is a JSON object;
// any other text is the output "text", and any other JSON the output "result". A tool with
// a method OutputSchema, as those of mcp.Client have, says with it which outputs there are;
// any other may return any.
//
// An error of the tool is of type unknown: its text is for a model, and goes to the log.
// Errors that are no [*tool.Error] are of type unavailable.
func Tool(t tool.Tool, opts ...Option) *Action {
	if t == nil {
		return &Action{bad: errors.New("the tool is nil")}
	}
	a := &Action{name: identifier(t.Spec().Name)}
	for _, o := range opts {
		o(a)
	}
	if a.bad = errors.Join(tool.Check(t), checkName(a.name)); a.bad != nil {
		return a
	}
	var output json.RawMessage
	if x, ok := t.(interface{ OutputSchema() json.RawMessage }); ok {
		output = x.OutputSchema()
	}
	a.bad = a.calls(t, output)
	return a
}

// calls has the action call a tool, and take its signature from the schemas.
func (a *Action) calls(t tool.Tool, output json.RawMessage) error {
	in, err := readSchema(t.Spec().Schema)
	if err != nil {
		return fmt.Errorf("the inputs: %w", err)
	}
	out := fields{open: true}
	if output != nil {
		if out, err = readSchema(output); err != nil {
			return fmt.Errorf("the outputs: %w", err)
		}
	}
	a.signature.Inputs, a.signature.AnyInputs = in.params, in.open
	a.signature.Outputs, a.signature.AnyOutputs = out.params, out.open
	a.run = func(ctx context.Context, inputs map[string]expr.Value) (map[string]expr.Value, error) {
		args := make(map[string]expr.Value, len(inputs))
		for name, v := range inputs {
			if original, ok := in.original[name]; ok {
				name = original
			}
			args[name] = v
		}
		for _, name := range in.nullable {
			if _, ok := args[name]; !ok {
				args[name] = expr.Value{}
			}
		}
		data, err := json.Marshal(args)
		if err != nil {
			return nil, invalid("the inputs have no JSON")
		}
		id := CallOf(ctx).ID
		r, err := t.Call(tool.WithInfo(ctx, tool.Info{CallID: id, IdempotencyKey: id}), data)
		if err != nil {
			return nil, ofTool(err)
		}
		values, err := readResult(r)
		if err != nil {
			return nil, err
		}
		outputs := make(map[string]expr.Value, len(values))
		for name, v := range values {
			outputs[identifier(name)] = v
		}
		return outputs, nil
	}
	return nil
}

// typed gives the inputs or outputs that are no JSON of their own their types.
func (a *Action) typed(params []program.Param, special map[string]reflect.Type) {
	for i, p := range params {
		if special[p.Name] == durationType {
			params[i].Type = program.Number
		}
	}
}

// act checks the inputs and runs the action. It names what doesn't fit, and not the value:
// that may be a secret.
func (a *Action) act(ctx context.Context, given map[string]expr.Value) (map[string]expr.Value, error) {
	inputs := make(map[string]expr.Value, len(given))
	for name, v := range given {
		if !v.IsNone() {
			inputs[name] = v
		}
	}
	for _, p := range a.signature.Inputs {
		v, ok := inputs[p.Name]
		if !ok {
			if !p.Optional {
				return nil, invalid("the input %q is missing", p.Name)
			}
			continue
		}
		if p.Type == program.DateTime && program.Conforms(program.Date, v) == "" {
			continue // its midnight
		}
		if reason := program.Conforms(p.Type, v); reason != "" {
			return nil, invalid("the input %q: %s", p.Name, reason)
		}
	}
	if !a.signature.AnyInputs {
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			if !slices.ContainsFunc(a.signature.Inputs, func(p program.Param) bool { return p.Name == name }) {
				return nil, invalid("there is no input %q", name)
			}
		}
	}
	outputs, err := a.run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		data, err := json.Marshal(outputs[name])
		if err != nil {
			return nil, invalidOutput("the output %q: %v", name, err)
		}
		if len(data) > dialogue.MaxOutput {
			return nil, invalidOutput("the output %q has %d bytes, more than %d", name, len(data), dialogue.MaxOutput)
		}
	}
	return outputs, nil
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// special returns the top-level fields of a struct whose JSON is not that of dialogues.
func special(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	found := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		ft := f.Type
		for ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if !f.IsExported() || ft != timeType && ft != durationType {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		found[name] = ft
	}
	return found
}

// toGo returns a value of a dialogue as encoding/json takes it.
func toGo(t reflect.Type, as program.Type, v expr.Value) (expr.Value, string) {
	if t == durationType {
		n, ok := v.Num()
		if n *= float64(time.Second); !ok || math.Abs(n) >= math.MaxInt64 {
			return v, "it is no number of seconds that a duration can have"
		}
		return expr.Num(math.Round(n)), ""
	}
	text, _ := v.Str()
	iso := language.Of("en")
	if clock, ok := iso.ParseTime(text); ok && as == program.Time {
		if len(clock) == len("15:04") {
			clock += ":00"
		}
		return expr.Str("0000-01-01T" + clock + "Z"), ""
	}
	if day, ok := iso.ParseDate(text); ok {
		return expr.Str(day + "T00:00:00Z"), ""
	}
	moment, ok := iso.ParseDateTime(text)
	if !ok {
		return v, "it is neither a date nor a time"
	}
	if _, err := time.Parse(time.RFC3339, moment); err != nil {
		moment += "Z"
	}
	return expr.Str(moment), ""
}

// fromGo returns what encoding/json wrote as a dialogue has it.
func fromGo(t reflect.Type, as program.Type, v expr.Value) expr.Value {
	if t == durationType {
		n, ok := v.Num()
		if !ok {
			return v
		}
		return expr.Num(n / float64(time.Second))
	}
	text, _ := v.Str()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return v
	}
	switch as {
	case program.Date:
		return expr.Str(at.Format(time.DateOnly))
	case program.Time:
		return expr.Str(at.Format(time.TimeOnly))
	}
	return v
}

const maxName = 64 // as in programs

// checkName says why a program can't name something so.
func checkName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("the name has %d characters, %d are allowed", len(name), maxName)
	}
	if fit := identifier(name); fit != name {
		return fmt.Errorf("a program can't name it; call it %q", fit)
	}
	return nil
}

// identifier returns a name as a program can write it.
func identifier(name string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
	if id != "" && '0' <= id[0] && id[0] <= '9' {
		id = "_" + id
	}
	return id
}
