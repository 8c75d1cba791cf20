package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/graph"
)

// GraderName is the name of the graph that [Grader] returns. Clients of a server, such as
// the studio, know it by that.
const GraderName = "grader"

// Grading is the state of the graph that [Grader] returns.
type Grading struct {
	Runs    graph.Value[[]Graded]    `json:"runs"`    // to be judged
	Reports graph.Value[[]RunReport] `json:"reports"` // what came of each
}

// Graded is a run of a case that a [Grader] judges: its end, as a server shows it.
type Graded struct {
	Case   json.RawMessage `json:"case"`            // a line of a data set
	State  json.RawMessage `json:"state,omitempty"` // the values of the thread; none: the case alone is checked
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"` // by which the run ended; nothing is judged then

	// What the run took, in nanoseconds, and cost; see [Result].
	Latency time.Duration `json:"latency_ns,omitempty"`
	Cost    *Cost         `json:"cost,omitempty"`
	Thread  string        `json:"thread,omitempty"`
}

// Grader returns a graph that judges runs which others have done. A server that serves it
// has the evaluators for its clients: the page Tests of the studio evaluates with it. Nil
// kinds are those of [Builtin], with a judge that has no model.
//
// A case that is wrong, and a state that can't be read, are the error of their report.
func Grader(kinds Kinds) (*graph.Graph[Grading], error) {
	b := graph.New[Grading](GraderName)
	b.AddNode("grade", func(ctx context.Context, s *Grading) error {
		runs := s.Runs.Get()
		reports := make([]RunReport, len(runs))
		var all errgroup.Group
		all.SetLimit(4)
		for i, r := range runs {
			all.Go(func() error {
				reports[i] = r.grade(ctx, kinds)
				return nil
			})
		}
		_ = all.Wait() // none returns an error
		s.Reports.Set(reports)
		return ctx.Err()
	})
	b.AddEdge(graph.Start, "grade").AddEdge("grade", graph.End)
	return b.Compile()
}

// grade judges a run.
func (g *Graded) grade(ctx context.Context, kinds Kinds) RunReport {
	c, err := g.read(kinds)
	if err != nil {
		return RunReport{Error: fmt.Sprintf("the case: %v", err)}
	}
	if g.State == nil && g.Error == "" {
		return RunReport{}
	}
	report, err := Run(ctx, []Case{c}, func(context.Context, Case) (Result, error) {
		var r Result
		var err error
		if g.State != nil {
			r, err = StateResult(c, g.State, g.Output)
		}
		r.Latency, r.Thread = g.Latency, g.Thread
		if g.Cost != nil {
			r.Cost = *g.Cost
		}
		if g.Error != "" { // the state beside a failure is as far as it came
			err = errors.New(g.Error)
		}
		return r, err
	}, Options{})
	if err != nil {
		return RunReport{Error: err.Error()}
	}
	return report.Cases[0].Runs[0]
}

// read reads the case as [Load] does.
func (g *Graded) read(kinds Kinds) (Case, error) {
	var line bytes.Buffer
	if err := json.Compact(&line, g.Case); err != nil {
		return Case{}, err
	}
	cases, err := Load(&line, kinds)
	if wrong, ok := errors.AsType[*DataError](err); ok {
		err = wrong.Lines[0].Err
	}
	if err != nil {
		return Case{}, err
	}
	return cases[0], nil
}
