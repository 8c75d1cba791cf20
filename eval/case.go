package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	spelling "github.com/superstep-dev/superstep/internal/plan"
)

// Case is one line of a data set: an input, and what is expected of what comes of it.
type Case struct {
	// Name tells the case from the others of its data set. Comparisons find it by that.
	Name string `json:"name"`

	// Input is what the target is given. For a graph it is an update of the state, or a
	// string, which is what a user says to a graph that has messages.
	Input json.RawMessage `json:"input"`

	// Answers are for what the run asks, in that order: a question gets the first, the
	// next one the second. A run that asks more fails.
	Answers []json.RawMessage `json:"answers,omitempty"`

	// Output is the expected one; nil: none is.
	Output json.RawMessage `json:"output,omitempty"`

	// Trajectory has the expected calls of tools; nil: none are known, while an empty one
	// expects that there are none.
	Trajectory []Call `json:"trajectory,omitzero"`

	// Evaluators judge the results. Nil are Exact and Trajectory, for what of Output and
	// Trajectory there is; with none, all that is wanted is that the run ends.
	Evaluators []Check `json:"evaluators,omitzero"`

	Tags     []string          `json:"tags,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"` // the user's own
}

// Text returns the input if it is a string.
func (c *Case) Text() (text string, ok bool) {
	return text, len(c.Input) > 0 && c.Input[0] == '"' && json.Unmarshal(c.Input, &text) == nil
}

// checks returns the evaluators of the case, or those that follow from what it expects.
func (c *Case) checks() []Check {
	if c.Evaluators != nil {
		return c.Evaluators
	}
	var list []Check
	if c.Output != nil {
		list = append(list, Check{Name: "exact", Evaluator: Exact{}})
	}
	if c.Trajectory != nil {
		list = append(list, Check{Name: "trajectory", Evaluator: Trajectory{}})
	}
	return list
}

// Call is a call of a tool.
type Call struct {
	Tool string `json:"tool"`

	// Args are the arguments. Of an expected call, nil means that any will do; of one that
	// was made, they are a string if the model didn't write JSON.
	Args json.RawMessage `json:"args,omitempty"`
}

// UnmarshalJSON reads {"tool", "args"}, or a string: the tool alone.
func (c *Call) UnmarshalJSON(data []byte) error {
	*c = Call{}
	if data[0] == '"' {
		return json.Unmarshal(data, &c.Tool)
	}
	type plain Call
	if err := strict(data, (*plain)(c)); err != nil {
		return err
	}
	if string(c.Args) == "null" {
		c.Args = nil
	}
	if c.Tool == "" {
		return errors.New(`a call has no "tool"`)
	}
	return nil
}

func (c Call) String() string {
	if c.Args == nil {
		return c.Tool
	}
	return c.Tool + " " + compact(c.Args)
}

// Check is an evaluator with the name that reports show. In JSON it is
// {"type", "name", …}: the kind of the evaluator, the name, which is the kind's unless
// it is given, and the parameters; or a string, the kind alone.
type Check struct {
	Name      string
	Evaluator Evaluator // nil in a case that was read from a report

	spec json.RawMessage // as it was read
}

type spec struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// UnmarshalJSON reads the name and keeps the rest for [Load], which makes the evaluator.
func (c *Check) UnmarshalJSON(data []byte) error {
	var s spec
	if data[0] == '"' {
		if err := json.Unmarshal(data, &s.Type); err != nil {
			return err
		}
	} else if err := json.Unmarshal(data, &s); err != nil {
		return plainly(err)
	}
	if s.Type == "" && s.Name == "" {
		return errors.New(`an evaluator has no "type"`)
	}
	*c = Check{Name: s.Name, spec: slices.Clone(json.RawMessage(data))}
	if c.Name == "" {
		c.Name = s.Type
	}
	return nil
}

// MarshalJSON writes what was read, or the name alone of an evaluator that was made in
// Go.
func (c Check) MarshalJSON() ([]byte, error) {
	if c.spec != nil {
		return c.spec, nil
	}
	return json.Marshal(struct {
		Name string `json:"name"`
	}{c.Name})
}

// Kind makes evaluators of their parameters, an object in JSON.
type Kind func(params json.RawMessage) (Evaluator, error)

// Kinds are the kinds of evaluators that cases may name.
type Kinds map[string]Kind

// KindOf returns the kind whose evaluators are copies of zero with the parameters as
// fields, by their json tags. A parameter that there isn't is an error. E is a struct, or
// a [Func], which has no parameters.
func KindOf[E Evaluator](zero E) Kind {
	return func(params json.RawMessage) (Evaluator, error) {
		e := zero
		switch reflect.TypeFor[E]().Kind() {
		case reflect.Struct:
			if err := strict(params, &e); err != nil {
				return nil, err
			}
		case reflect.Func:
			if err := strict(params, &struct{}{}); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("eval.KindOf takes a struct or a function, not %T", zero)
		}
		return e, nil
	}
}

// Builtin returns the kinds of this package. The kind "judge" is that of the judge, which
// needs a model. The map is the caller's, to be added to:
//
//	kinds := eval.Builtin(eval.Judge{Model: m})
//	kinds["brief"] = eval.KindOf(Brief{})
func Builtin(judge Judge) Kinds {
	return Kinds{
		"exact": KindOf(Exact{}), "state": KindOf(State{}), "contains": KindOf(Contains{}), "matches": KindOf(Matches{}), "schema": KindOf(Schema{}),
		"trajectory": KindOf(Trajectory{}), "tool_args": KindOf(ToolArgs{}), "limits": KindOf(Limits{}), "judge": KindOf(judge),
	}
}

// prepare makes the evaluator.
func (c *Check) prepare(kinds Kinds) error {
	s, params := spec{}, map[string]json.RawMessage{}
	if c.spec[0] == '"' {
		s.Type = c.Name
	} else if err := errors.Join(json.Unmarshal(c.spec, &s), json.Unmarshal(c.spec, &params)); err != nil {
		return err
	}
	kind := kinds[s.Type]
	if kind == nil {
		names := slices.Sorted(maps.Keys(kinds))
		return &UnknownError{What: "evaluator", Name: s.Type, Near: spelling.Nearest(s.Type, names), Valid: names}
	}
	delete(params, "type")
	delete(params, "name")
	data, err := json.Marshal(params)
	if err == nil {
		c.Evaluator, err = kind(data)
	}
	if err != nil {
		return fmt.Errorf("evaluator %q: %w", c.Name, err)
	}
	return nil
}

// UnknownError says that a data set has a field, or names an evaluator, that there isn't.
type UnknownError struct {
	What  string // "field" or "evaluator"
	Name  string
	Near  string // the nearest that there is; may be empty
	Valid []string
}

func (e *UnknownError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", e.What, e.Name, e.Near)
	}
	return fmt.Sprintf("unknown %s %q; there are: %s", e.What, e.Name, strings.Join(e.Valid, ", "))
}

// LineError says what is wrong with a line of a data set.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %s", e.Line, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
}

func (e *LineError) Unwrap() error { return e.Err }

// DataError says all that is wrong with a data set.
type DataError struct{ Lines []*LineError }

func (e *DataError) Error() string {
	texts := make([]string, len(e.Lines))
	for i, l := range e.Lines {
		texts[i] = l.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors of the lines.
func (e *DataError) Unwrap() []error {
	errs := make([]error, len(e.Lines))
	for i, l := range e.Lines {
		errs[i] = l
	}
	return errs
}

// ErrEmpty says that there are no cases.
var ErrEmpty = errors.New("the data set is empty: write a case in JSON on each line")

// Load reads a data set, a [Case] in JSON on each line, and makes its evaluators. Empty
// lines are skipped. Nil kinds are those of [Builtin], with a judge that has no model.
//
// What is wrong with the lines is a [*DataError] with all of them: JSON that is none,
// unknown fields and evaluators, wrong parameters, names that are missing or given twice,
// evaluators that expect what the case doesn't have. Without any case the error is
// [ErrEmpty].
func Load(r io.Reader, kinds Kinds) ([]Case, error) {
	if kinds == nil {
		kinds = Builtin(Judge{})
	}
	var cases []Case
	var wrong []*LineError
	first := map[string]int{}
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var c Case
			problem := c.read(line, kinds)
			if was := first[c.Name]; was > 0 {
				problem = errors.Join(problem, fmt.Errorf("the name %q is that of line %d, too", c.Name, was))
			} else if c.Name != "" {
				first[c.Name] = n
			}
			if problem != nil {
				wrong = append(wrong, &LineError{n, problem})
			}
			cases = append(cases, c)
		}
		if err == io.EOF {
			break
		}
	}
	if len(wrong) > 0 {
		return nil, &DataError{wrong}
	}
	if len(cases) == 0 {
		return nil, ErrEmpty
	}
	return cases, nil
}

// read reads a line.
func (c *Case) read(line []byte, kinds Kinds) error {
	if !utf8.Valid(line) {
		return errors.New("the text is not UTF-8")
	}
	if err := strict(line, c); err != nil {
		return err
	}
	return c.Prepare(kinds)
}

// Prepare makes the evaluators of a case that was read from JSON, as [Load] does, and
// returns all that is wrong with the case.
func (c *Case) Prepare(kinds Kinds) error {
	var errs []error
	for i := range c.Evaluators {
		if k := &c.Evaluators[i]; k.spec != nil {
			errs = append(errs, k.prepare(kinds))
		}
	}
	return errors.Join(append(errs, c.check(nil))...)
}

// check returns what is wrong with a case that is evaluated by these, too.
func (c *Case) check(more []Check) error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New(`the case has no "name"`))
	}
	if len(c.Input) == 0 {
		errs = append(errs, errors.New(`the case has no "input"`))
	}
	checks := slices.Concat(c.checks(), more)
	if len(checks) == 0 && c.Evaluators == nil {
		errs = append(errs, errors.New(`the case expects nothing: give it an "output", a "trajectory" or "evaluators", which are [] where people judge`))
	}
	seen := map[string]bool{}
	for _, k := range checks {
		if seen[k.Name] {
			errs = append(errs, fmt.Errorf(`two evaluators are called %q: give one of them another "name"`, k.Name))
		}
		seen[k.Name] = true
		if v, ok := k.Evaluator.(Validator); ok {
			if err := v.Valid(*c); err != nil {
				errs = append(errs, fmt.Errorf("evaluator %q: %w", k.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// strict reads an object into a struct and refuses members that it doesn't have.
func strict(data []byte, target any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return plainly(err)
	}
	var valid []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(target).Elem()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			valid = append(valid, name)
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(valid, name) {
			errs = append(errs, &UnknownError{What: "field", Name: name, Near: spelling.Nearest(name, valid), Valid: valid})
		}
	}
	return errors.Join(append(errs, plainly(json.Unmarshal(data, target)))...)
}

// plainly returns an error of encoding/json in words for who wrote the JSON.
func plainly(err error) error {
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &typed) && typed.Field != "":
		return fmt.Errorf("field %q is of the wrong type: %s", typed.Field, typed.Value)
	case errors.As(err, &typed):
		return fmt.Errorf("want an object, not JSON of type %s", typed.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON, at byte %d: %w", syntax.Offset, err)
	}
	return err
}

// compact returns JSON in one line.
func compact(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}
