package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/agent"
)

// Evaluator judges the result of a run. It must be safe for concurrent use. An error says
// that it couldn't judge, which fails the run, as a panic does.
type Evaluator interface {
	Evaluate(ctx context.Context, c Case, r Result) (Score, error)
}

// Validator is an [Evaluator] that can say before any run that it doesn't fit a case.
type Validator interface{ Valid(c Case) error }

// Func is an [Evaluator].
type Func func(ctx context.Context, c Case, r Result) (Score, error)

// Evaluate calls the function.
func (f Func) Evaluate(ctx context.Context, c Case, r Result) (Score, error) { return f(ctx, c, r) }

// Score is what an evaluator says of a run.
type Score struct {
	Value  float64 `json:"value"` // from 0 to 1
	Pass   bool    `json:"pass"`
	Reason string  `json:"reason,omitempty"` // for people

	// Usage is what the evaluator used of models. It is not that of the run.
	Usage agent.Usage `json:"usage,omitempty"`
}

// Passed is the score of a run that is right.
func Passed() Score { return Score{Value: 1, Pass: true} }

// Failed is the score of a run that is wrong, and why.
func Failed(format string, args ...any) Score { return Score{Reason: fmt.Sprintf(format, args...)} }

// verdict is Passed if there is nothing to object to.
func verdict(objection string) (Score, error) {
	if objection != "" {
		return Failed("%s", objection), nil
	}
	return Passed(), nil
}

var errNoOutput = errors.New(`the case has no "output" to compare with`)

// Exact wants the output of the case. JSON is compared by its values. Where the case
// expects JSON that is no string, a text that is JSON is taken for that.
type Exact struct {
	// Subset lets objects have more members than the expected ones.
	Subset bool `json:"subset"`
}

// Valid implements [Validator].
func (Exact) Valid(c Case) error {
	if c.Output == nil {
		return errNoOutput
	}
	return nil
}

// Evaluate implements [Evaluator].
func (e Exact) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	want, err := value(c.Output)
	if err != nil {
		return Score{}, fmt.Errorf("the expected output: %w", err)
	}
	_, text := want.(string)
	got, err := outputLike(r.Output, text)
	if err != nil {
		return Failed("there is no output"), nil
	}
	return verdict(differ("", want, got, e.Subset))
}

// State wants members of the final state of a graph, which may have more: what an agent
// did, where the output is what it said.
type State struct {
	Want json.RawMessage `json:"want"`
}

// Valid implements [Validator].
func (e State) Valid(Case) error {
	if len(e.Want) == 0 {
		return errors.New(`"want" is missing`)
	}
	return nil
}

// Evaluate implements [Evaluator].
func (e State) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	if r.State == nil {
		return Score{}, errors.New("the target gives no state: it is no graph")
	}
	want, err := value(e.Want)
	if err != nil {
		return Score{}, err
	}
	got, err := value(r.State)
	if err != nil {
		return Score{}, fmt.Errorf("the state: %w", err)
	}
	return verdict(differ("", want, got, true))
}

// Texts are one text or several; in JSON a string or a list.
type Texts []string

// UnmarshalJSON reads a string or a list of them.
func (t *Texts) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		*t = Texts{""}
		return json.Unmarshal(data, &(*t)[0])
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// Contains wants texts in the output: all of Text, and none of Not. Without either it
// wants the output of the case.
type Contains struct {
	Text    Texts `json:"text"`
	Not     Texts `json:"not"`
	AnyCase bool  `json:"any_case"` // upper or lower
}

// Valid implements [Validator].
func (e Contains) Valid(c Case) error {
	if len(e.Text)+len(e.Not) == 0 && c.Output == nil {
		return errors.New(`it has neither "text" nor "not", nor the case an "output"`)
	}
	return nil
}

// Evaluate implements [Evaluator]. The value is the part of the texts that is as wanted.
func (e Contains) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	if len(e.Text)+len(e.Not) == 0 {
		want := Result{Output: c.Output}
		e.Text = Texts{want.Text()}
	}
	fold := func(s string) string { return s }
	if e.AnyCase {
		fold = strings.ToLower
	}
	text := fold(r.Text())
	var wrong []string
	for _, want := range e.Text {
		if !strings.Contains(text, fold(want)) {
			wrong = append(wrong, fmt.Sprintf("there is no %q", want))
		}
	}
	for _, not := range e.Not {
		if strings.Contains(text, fold(not)) {
			wrong = append(wrong, fmt.Sprintf("there is %q", not))
		}
	}
	if wrong == nil {
		return Passed(), nil
	}
	s := Failed("%s in %s", strings.Join(wrong, ", "), short(r.Text()))
	s.Value = 1 - float64(len(wrong))/float64(len(e.Text)+len(e.Not))
	return s, nil
}

// Matches wants a match of a regular expression, in Go's syntax, in the output.
type Matches struct {
	Pattern string `json:"pattern"`
}

// Valid implements [Validator].
func (e Matches) Valid(Case) error {
	if e.Pattern == "" {
		return errors.New(`"pattern" is missing`)
	}
	_, err := regexp.Compile(e.Pattern)
	return err
}

// Evaluate implements [Evaluator].
func (e Matches) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	if regexp.MustCompile(e.Pattern).MatchString(r.Text()) {
		return Passed(), nil
	}
	return Failed("%s doesn't match %s", short(r.Text()), e.Pattern), nil
}

// Schema wants an output that follows a JSON Schema. A text that is JSON is taken for
// that, unless the schema wants a string. References within the schema are followed, and
// others refused.
type Schema struct {
	Schema json.RawMessage `json:"schema"`
}

// Valid implements [Validator].
func (e Schema) Valid(Case) error {
	_, _, err := resolve(e.Schema)
	return err
}

// Evaluate implements [Evaluator].
func (e Schema) Evaluate(_ context.Context, _ Case, r Result) (Score, error) {
	s, text, err := resolve(e.Schema)
	if err != nil {
		return Score{}, err
	}
	got, err := outputLike(r.Output, text)
	if err != nil {
		return Failed("there is no output"), nil
	}
	return follows(s, got)
}

// Limits bound what a run may take. 0 means no limit.
type Limits struct {
	Seconds   float64 `json:"seconds"`
	Cost      float64 `json:"cost"` // as in [Cost]; a cost that isn't known is an error
	Tokens    int     `json:"tokens"`
	ToolCalls int     `json:"tool_calls"`
}

// Valid implements [Validator].
func (e Limits) Valid(Case) error {
	if e == (Limits{}) {
		return errors.New(`it has no limit: give "seconds", "cost", "tokens" or "tool_calls"`)
	}
	if e.Seconds < 0 || e.Cost < 0 || e.Tokens < 0 || e.ToolCalls < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// Evaluate implements [Evaluator].
func (e Limits) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	var over []string
	note := func(what string, got, most float64) {
		if most > 0 && got > most {
			over = append(over, fmt.Sprintf("%g %s, more than %g", got, what, most))
		}
	}
	note("seconds", r.Latency.Seconds(), e.Seconds)
	note("of cost", r.Cost.Known, e.Cost)
	note("tokens", float64(r.Usage.Total().Total()), float64(e.Tokens))
	note("calls of tools", float64(len(r.Calls())), float64(e.ToolCalls))
	if why := r.Cost.Unknown; over == nil && len(why) > 0 && (e.Cost > 0 || e.Tokens > 0 && strings.Contains(strings.Join(why, ","), noUsage)) {
		return Score{}, fmt.Errorf("what the run used is unknown: %s", strings.Join(why, ", "))
	}
	return verdict(strings.Join(over, ", "))
}
