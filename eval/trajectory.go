package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	spelling "github.com/superstep-dev/superstep/internal/plan"
)

// Mode says how the calls that were made have to match those that are expected.
type Mode string

// The modes of [Trajectory].
const (
	Strict    Mode = "strict"    // the same calls in the same order: the default
	InOrder   Mode = "in_order"  // the expected calls in their order, with others between
	Unordered Mode = "unordered" // the same calls in any order
	Superset  Mode = "superset"  // at least the expected calls, in any order
	Subset    Mode = "subset"    // no calls but expected ones, in any order
)

var modes = []string{string(Strict), string(InOrder), string(Unordered), string(Superset), string(Subset)}

// Args says how the arguments of a call have to match those that are expected. An
// expected call without arguments takes any.
type Args string

// The ways to compare arguments.
const (
	ArgsExact    Args = "exact"    // the same: the default
	ArgsIgnore   Args = "ignore"   // any
	ArgsSuperset Args = "superset" // at least the expected ones, at any depth
	ArgsSubset   Args = "subset"   // none but expected ones
)

var argsModes = []string{string(ArgsExact), string(ArgsIgnore), string(ArgsSuperset), string(ArgsSubset)}

// oneOf returns an error for a name that is none of these, nor empty.
func oneOf(what, name string, valid []string) error {
	if name == "" || slices.Contains(valid, name) {
		return nil
	}
	return &UnknownError{What: what, Name: name, Near: spelling.Nearest(name, valid), Valid: valid}
}

// match reports whether the arguments of a call are as expected.
func (a Args) match(want, got json.RawMessage) bool {
	if want == nil || a == ArgsIgnore {
		return true
	}
	w, errW := value(want)
	g, errG := value(got)
	if errW != nil || errG != nil {
		return false
	}
	switch a {
	case ArgsSuperset:
		return differ("", w, g, true) == ""
	case ArgsSubset:
		return differ("", g, w, true) == ""
	}
	return differ("", w, g, false) == ""
}

// Trajectory wants the calls of tools that the case expects.
type Trajectory struct {
	Mode  Mode            `json:"mode"`
	Args  Args            `json:"args"`
	Tools map[string]Args `json:"tools"` // for single tools, in the stead of Args
}

// Valid implements [Validator].
func (e Trajectory) Valid(c Case) error {
	errs := []error{oneOf("mode", string(e.Mode), modes), oneOf("comparison of arguments", string(e.Args), argsModes)}
	for _, tool := range slices.Sorted(maps.Keys(e.Tools)) {
		errs = append(errs, oneOf("comparison of arguments", string(e.Tools[tool]), argsModes))
	}
	if c.Trajectory == nil {
		errs = append(errs, errors.New(`the case has no "trajectory" to compare with; [] says that no tool is to be called`))
	}
	return errors.Join(errs...)
}

func (e Trajectory) match(want, got Call) bool {
	args, ok := e.Tools[want.Tool]
	if !ok {
		args = e.Args
	}
	return want.Tool == got.Tool && args.match(want.Args, got.Args)
}

// Evaluate implements [Evaluator]. The value is the part of the calls, expected ones and
// others, that matches.
func (e Trajectory) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	want, got := c.Trajectory, r.Calls()
	var pairs []int // by the expected call, the one that was made; -1: none
	if e.Mode == InOrder || e.Mode == Strict || e.Mode == "" {
		pairs = e.inOrder(want, got)
	} else {
		pairs = e.anyOrder(want, got)
	}
	used := make([]bool, len(got))
	var missing, extra []string
	for i, j := range pairs {
		if j < 0 {
			missing = append(missing, cut(want[i].String()))
		} else {
			used[j] = true
		}
	}
	for j, c := range got {
		if !used[j] {
			extra = append(extra, cut(c.String()))
		}
	}
	if e.Mode == Subset {
		missing = nil
	}
	if e.Mode == Superset || e.Mode == InOrder {
		extra = nil
	}
	var wrong []string
	if missing != nil {
		wrong = append(wrong, "missing: "+strings.Join(missing, ", "))
	}
	if extra != nil {
		wrong = append(wrong, "not expected: "+strings.Join(extra, ", "))
	}
	if missing != nil && !slices.Contains(e.anyOrder(want, got), -1) {
		wrong = []string{fmt.Sprintf("the order is another one: %s", cut(fmt.Sprint(got)))}
	}
	s, err := verdict(strings.Join(wrong, "; "))
	if !s.Pass {
		matched := len(want) - len(missing)
		s.Value = float64(matched) / float64(matched+len(missing)+len(extra))
	}
	return s, err
}

// inOrder finds a longest common subsequence of both.
func (e Trajectory) inOrder(want, got []Call) []int {
	best := make([][]int, len(want)+1) // by the first calls that are left
	for i := range best {
		best[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if e.match(want[i], got[j]) {
				best[i][j] = max(best[i][j], best[i+1][j+1]+1)
			}
		}
	}
	pairs := make([]int, len(want))
	i, j := 0, 0
	for i < len(want) {
		switch {
		case j < len(got) && e.match(want[i], got[j]) && best[i][j] == best[i+1][j+1]+1:
			pairs[i] = j
			i, j = i+1, j+1
		case j < len(got) && best[i][j] == best[i][j+1]:
			j++
		default:
			pairs[i] = -1
			i++
		}
	}
	return pairs
}

// anyOrder pairs as many calls as can be: with arguments that may match several, the
// first that fits can be the wrong one.
func (e Trajectory) anyOrder(want, got []Call) []int {
	by := make([]int, len(got)) // the expected call of each that was made
	for j := range by {
		by[j] = -1
	}
	var find func(i int, tried []bool) bool
	find = func(i int, tried []bool) bool {
		for j := range got {
			if !tried[j] && e.match(want[i], got[j]) {
				tried[j] = true
				if by[j] < 0 || find(by[j], tried) {
					by[j] = i
					return true
				}
			}
		}
		return false
	}
	pairs := make([]int, len(want))
	for i := range want {
		pairs[i] = -1
		find(i, make([]bool, len(got)))
	}
	for j, i := range by {
		if i >= 0 {
			pairs[i] = j
		}
	}
	return pairs
}

// ToolArgs wants calls of one tool with arguments that fit: one at least, or with Every
// all of them, and one at least.
type ToolArgs struct {
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`   // expected; nil: any
	Match  Args            `json:"match"`  // how they are compared
	Schema json.RawMessage `json:"schema"` // that they follow; nil: any
	Every  bool            `json:"every"`
}

// Valid implements [Validator].
func (e ToolArgs) Valid(Case) error {
	errs := []error{oneOf("comparison of arguments", string(e.Match), argsModes)}
	if e.Tool == "" {
		errs = append(errs, errors.New(`"tool" is missing`))
	}
	if e.Schema != nil {
		_, _, err := resolve(e.Schema)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Evaluate implements [Evaluator]. The value is the part of the tool's calls that fit.
func (e ToolArgs) Evaluate(_ context.Context, c Case, r Result) (Score, error) {
	if err := e.Valid(c); err != nil {
		return Score{}, err
	}
	fit, n := 0, 0
	var wrong []string
	for _, call := range r.Calls() {
		if call.Tool != e.Tool {
			continue
		}
		n++
		why := ""
		if !e.Match.match(e.Args, call.Args) {
			why = "not " + cut(compact(e.Args))
		} else if e.Schema != nil {
			s, _, err := resolve(e.Schema)
			if err != nil {
				return Score{}, err
			}
			v, err := value(call.Args)
			if err != nil {
				return Score{}, err
			}
			f, err := follows(s, v)
			if err != nil {
				return Score{}, err
			}
			why = f.Reason
		}
		if why == "" {
			fit++
		} else {
			wrong = append(wrong, fmt.Sprintf("%s: %s", cut(call.String()), why))
		}
	}
	if n == 0 {
		return Failed("the tool %q isn't called", e.Tool), nil
	}
	s := Score{Value: float64(fit) / float64(n), Pass: fit == n || fit > 0 && !e.Every}
	if !s.Pass {
		s.Reason = strings.Join(wrong, "; ")
	}
	return s, nil
}
