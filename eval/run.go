package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// Target is what is evaluated: it does one run of a case. It must be safe for concurrent
// use and end when its context does. See [Graph] for graphs.
type Target func(ctx context.Context, c Case) (Result, error)

// Options are those of [Run].
type Options struct {
	Name   string // of the data set, for the report
	Target string // name of the target, for the report

	Repeat      int           // runs of each case; 0 means 1
	Concurrency int           // runs at a time; 0 means 4
	Timeout     time.Duration // of a run, and of each evaluator; 0 means none

	// Evaluators judge all cases, beside those that the cases name; by the name that
	// reports show.
	Evaluators map[string]Evaluator

	// Prices are those of models; nil means [model.KnownModels].
	Prices model.Table

	// Done, if set, is called after each run, one call at a time.
	Done func(c Case, r RunReport)
}

// check returns what is wrong with the options and cases.
func (o *Options) check(cases []Case, more []Check) error {
	var errs []error
	if o.Repeat < 0 || o.Concurrency < 0 || o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("eval: Repeat is %d, Concurrency %d, Timeout %v: none may be negative", o.Repeat, o.Concurrency, o.Timeout))
	}
	if len(cases) == 0 {
		errs = append(errs, ErrEmpty)
	}
	seen := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		err := c.check(more)
		if seen[c.Name] {
			err = errors.Join(err, errors.New("two cases have this name"))
		}
		seen[c.Name] = true
		for _, k := range c.Evaluators {
			if k.Evaluator == nil {
				err = errors.Join(err, fmt.Errorf("evaluator %q was not made: read data sets with eval.Load", k.Name))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("case %q: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Run runs each case as often as the options say and has its evaluators judge. The error
// says what is wrong with the options or the cases, before anything runs; or that the
// context has ended: the report then has the runs that were done, and says so. A target
// or an evaluator that fails or panics is no error of Run: the report tells it.
func Run(ctx context.Context, cases []Case, target Target, o Options) (*Report, error) {
	var more []Check
	for _, name := range slices.Sorted(maps.Keys(o.Evaluators)) {
		more = append(more, Check{Name: name, Evaluator: o.Evaluators[name]})
	}
	if err := o.check(cases, more); err != nil {
		return nil, err
	}
	o.Repeat = max(o.Repeat, 1)
	if o.Concurrency == 0 {
		o.Concurrency = 4
	}
	if o.Prices == nil {
		o.Prices = model.KnownModels()
	}
	started := time.Now()
	runs := make([][]*RunReport, len(cases))
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(o.Concurrency)
	for i, c := range cases {
		runs[i] = make([]*RunReport, o.Repeat)
		for k := range o.Repeat {
			if ctx.Err() != nil {
				break
			}
			all.Go(func() error {
				r := o.once(ctx, c, more, target)
				if ctx.Err() != nil { // it was stopped, and tells nothing of the target
					return nil
				}
				runs[i][k] = &r
				if o.Done != nil {
					mu.Lock()
					defer mu.Unlock()
					o.Done(c, r)
				}
				return nil
			})
		}
	}
	_ = all.Wait() // none returns an error
	report := &Report{Format: Format, Name: o.Name, Target: o.Target, StartedAt: started.UTC(), Repeat: o.Repeat}
	for i, c := range cases {
		one := CaseReport{Case: c, Runs: []RunReport{}}
		for _, r := range runs[i] {
			if r != nil {
				one.Runs = append(one.Runs, *r)
			}
		}
		report.Cases = append(report.Cases, one)
	}
	err := context.Cause(ctx)
	if err != nil {
		report.Stopped = err.Error()
	}
	report.Summary = summarize(report)
	return report, err
}

// once does one run of a case.
func (o *Options) once(ctx context.Context, c Case, more []Check, target Target) (out RunReport) {
	began := time.Now()
	r, err := guarded(ctx, o.Timeout, func(ctx context.Context) (Result, error) { return target(ctx, c) })
	if r.Latency == 0 {
		r.Latency = time.Since(began)
	}
	if r.Cost.Known == 0 && r.Cost.Unknown == nil {
		r.Cost = costOf(r.Usage, r.Messages, o.Prices)
		if err != nil {
			r.Cost = r.Cost.Add(Cost{Unknown: []string{"what failed runs used"}})
		}
	}
	if _, bad := json.Marshal(r); bad != nil { // which would be the end of the whole report
		err = errors.Join(err, fmt.Errorf("the result can't be written as JSON: %w", bad))
		r = Result{Latency: r.Latency, Cost: r.Cost, Thread: r.Thread}
	}
	out.Result = r
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for _, k := range slices.Concat(c.checks(), more) {
		s, err := guarded(ctx, o.Timeout, func(ctx context.Context) (Score, error) { return k.Evaluator.Evaluate(ctx, c, r) })
		one := ScoreReport{Name: k.Name, Score: s, Cost: costOf(s.Usage, nil, o.Prices)}
		if err == nil && !(s.Value >= 0 && s.Value <= 1) {
			err = fmt.Errorf("the score %g is not between 0 and 1", s.Value)
		}
		if err != nil {
			one.Value, one.Pass, one.Error = 0, false, err.Error()
		}
		out.Scores = append(out.Scores, one)
	}
	return out
}

// guarded calls a function for a time and makes its panic an error.
func guarded[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (out T, err error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v: %w", limit, context.DeadlineExceeded))
		defer cancel()
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w, in %s", &graph.PanicError{Value: v, Stack: debug.Stack()}, where())
		}
	}()
	out, err = f(ctx)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return out, err
}

// where returns the place that panicked, in a deferred function's function.
func where() string {
	frames := make([]uintptr, 16)
	for f := runtime.CallersFrames(frames[:runtime.Callers(3, frames)]); ; {
		frame, more := f.Next()
		if !more || !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
	}
}

// Graph returns the target that a compiled graph is. Each run is one of a thread of its
// own, in memory. The result of one that fails is as far as it came. See [StateInput] and [StateResult] for what a graph is given and what
// its output is.
func Graph[S any](g *graph.Graph[S], opts ...graph.RunOption) Target {
	raw := graph.JSON(g)
	return func(ctx context.Context, c Case) (Result, error) {
		t := raw.Thread(string(checkpoint.NewRunID()), graph.WithCheckpointer(checkpoint.NewMemory()))
		req, answers := t.Input(graph.UpdateWith(StateInput(c))), c.Answers
		for {
			snap, err := t.Invoke(ctx, req, opts...)
			if err == nil && !snap.Done() {
				err = &WaitingError{Err: cmp.Or(snap.Err(), fmt.Errorf("for a time or an event: %v", snap.Waits))}
				given := graph.Answers{}
				for _, q := range snap.Interrupts {
					if len(answers) > 0 && q.When == "inside" {
						given[q.ID], answers = answers[0], answers[1:]
					}
				}
				if len(given) > 0 {
					req = t.Answer(given)
					continue
				}
			}
			output, outErr := snap.OutputJSON()
			if bytes.Equal(output, snap.State) {
				output = nil
			}
			r, stateErr := StateResult(c, snap.State, output)
			if err == nil { // else what there is of a state is shown beside it
				err = errors.Join(outErr, stateErr)
			}
			return r, err
		}
	}
}

// WaitingError says that a run waits for something that its case has no answer for.
type WaitingError struct{ Err error }

func (e *WaitingError) Error() string {
	return fmt.Sprintf("the run waits: %v; give the case \"answers\" for what is asked", e.Err)
}

func (e *WaitingError) Unwrap() error { return e.Err }
