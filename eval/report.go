package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/chat"
)

// Format is the number of the form in which reports are written.
const Format = 1

// Report is what came of a data set.
type Report struct {
	Format    int          `json:"format"`
	Name      string       `json:"name,omitempty"`
	Target    string       `json:"target,omitempty"`
	StartedAt time.Time    `json:"started_at"`
	Repeat    int          `json:"repeat"`            // runs of each case that were asked for
	Stopped   string       `json:"stopped,omitempty"` // why some of them were not done
	Summary   Summary      `json:"summary"`
	Cases     []CaseReport `json:"cases"` // in the order of the data set
}

// CaseReport has the runs of a case that were done.
type CaseReport struct {
	Case Case        `json:"case"`
	Runs []RunReport `json:"runs"`
}

// Passed reports whether the case passed: all of its runs did, and there is one.
func (c *CaseReport) Passed() bool { return len(c.Runs) > 0 && c.passes() == len(c.Runs) }

func (c *CaseReport) passes() (n int) {
	for i := range c.Runs {
		if c.Runs[i].Passed() {
			n++
		}
	}
	return n
}

// RunReport is one run of a case.
type RunReport struct {
	Result Result        `json:"result"`
	Error  string        `json:"error,omitempty"`  // of the target; nothing was evaluated then
	Scores []ScoreReport `json:"scores,omitempty"` // in the order of the case's evaluators
}

// Passed reports whether the run passed: all evaluators let it.
func (r *RunReport) Passed() bool {
	return r.Error == "" && !slices.ContainsFunc(r.Scores, func(s ScoreReport) bool { return !s.Pass })
}

// Failures says what is wrong with the run, a sentence for each evaluator.
func (r *RunReport) Failures() []string {
	if r.Error != "" {
		return []string{"the run failed: " + r.Error}
	}
	var out []string
	for _, s := range r.Scores {
		switch {
		case s.Error != "":
			out = append(out, fmt.Sprintf("%s couldn't judge: %s", s.Name, s.Error))
		case !s.Pass:
			out = append(out, fmt.Sprintf("%s: %s", s.Name, cmp.Or(s.Reason, "it doesn't pass")))
		}
	}
	return out
}

// ScoreReport is what an evaluator said of a run.
type ScoreReport struct {
	Name string `json:"name"`
	Score
	Cost  Cost   `json:"cost,omitzero"`   // of the models that it asked
	Error string `json:"error,omitempty"` // why it couldn't judge
}

// Summary is a report in numbers.
type Summary struct {
	Cases      int `json:"cases"`
	Passed     int `json:"passed"` // cases of which all runs passed
	Runs       int `json:"runs"`
	RunsPassed int `json:"runs_passed"`

	// PassHat is pass^k for k from 1 to Repeat: the probability that k runs of a case all
	// pass, estimated from those that were done and averaged over the cases with as many.
	// PassAt is pass@k: that one of k passes at least.
	PassHat []float64 `json:"pass_hat"`
	PassAt  []float64 `json:"pass_at"`

	Evaluators []Group `json:"evaluators"` // by name; a count is one of runs
	Tags       []Group `json:"tags"`       // by name; a count is one of cases

	Usage     chat.Usage   `json:"usage"` // of the runs
	Cost      Cost         `json:"cost"`  // of the runs
	JudgeCost Cost         `json:"judge_cost"`
	Latency   Distribution `json:"latency"`
}

// Rate is the part of the cases that passed, from 0 to 1.
func (s *Summary) Rate() float64 { return ratio(s.Passed, s.Cases) }

// Group is a part of the results.
type Group struct {
	Name   string  `json:"name"`
	Passed int     `json:"passed"`
	Of     int     `json:"of"`
	Mean   float64 `json:"mean"`             // of the values of an evaluator; of a tag, the part that passed
	Errors int     `json:"errors,omitempty"` // times the evaluator couldn't judge
}

// Distribution tells how long runs took, in JSON in nanoseconds.
type Distribution struct {
	P50 time.Duration `json:"p50_ns"`
	P95 time.Duration `json:"p95_ns"`
	Max time.Duration `json:"max_ns"`
}

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// summarize counts.
func summarize(r *Report) Summary {
	s := Summary{Cases: len(r.Cases), PassHat: []float64{}, PassAt: []float64{}}
	evaluators, tags := map[string]*Group{}, map[string]*Group{}
	group := func(m map[string]*Group, name string) *Group {
		if m[name] == nil {
			m[name] = &Group{Name: name}
		}
		m[name].Of++
		return m[name]
	}
	var latencies []time.Duration
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Passed() {
			s.Passed++
		}
		for _, tag := range c.Case.Tags {
			if g := group(tags, tag); c.Passed() {
				g.Passed++
			}
		}
		s.Runs += len(c.Runs)
		s.RunsPassed += c.passes()
		for j := range c.Runs {
			run := &c.Runs[j]
			latencies = append(latencies, run.Result.Latency)
			s.Cost = s.Cost.Add(run.Result.Cost)
			s.Usage = s.Usage.Add(run.Result.Usage.Total())
			for _, sc := range run.Scores {
				g := group(evaluators, sc.Name)
				g.Mean += sc.Value
				if sc.Pass {
					g.Passed++
				}
				if sc.Error != "" {
					g.Errors++
				}
				s.JudgeCost = s.JudgeCost.Add(sc.Cost)
			}
		}
	}
	s.Evaluators, s.Tags = groups(evaluators), groups(tags)
	for i := range s.Evaluators {
		s.Evaluators[i].Mean /= float64(s.Evaluators[i].Of)
	}
	for i, g := range s.Tags {
		s.Tags[i].Mean = ratio(g.Passed, g.Of)
	}
	for k := 1; k <= r.Repeat; k++ {
		hat, at, n := 0.0, 0.0, 0
		for i := range r.Cases {
			if c := &r.Cases[i]; len(c.Runs) >= k {
				hat += chosen(c.passes(), len(c.Runs), k)
				at += 1 - chosen(len(c.Runs)-c.passes(), len(c.Runs), k)
				n++
			}
		}
		if n == 0 {
			break
		}
		s.PassHat, s.PassAt = append(s.PassHat, hat/float64(n)), append(s.PassAt, at/float64(n))
	}
	if slices.Sort(latencies); len(latencies) > 0 {
		rank := func(percent int) time.Duration { return latencies[(len(latencies)*percent+99)/100-1] }
		s.Latency = Distribution{rank(50), rank(95), latencies[len(latencies)-1]}
	}
	return s
}

func groups(m map[string]*Group) []Group {
	out := []Group{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, *m[name])
	}
	return out
}

// chosen is the probability that k of n, of which c are marked, are all marked.
func chosen(c, n, k int) float64 {
	p := 1.0
	for i := range k {
		p *= float64(c-i) / float64(n-i)
	}
	return max(p, 0)
}

// Write writes the report in JSON, for [ReadReport] and other programs.
func (r *Report) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// ReportError says that something is no report that this version can read.
type ReportError struct{ Err error }

func (e *ReportError) Error() string { return fmt.Sprintf("no report of an evaluation: %v", e.Err) }

func (e *ReportError) Unwrap() error { return e.Err }

// ReadReport reads what [Report.Write] wrote. The evaluators of its cases have names
// alone. What can't be read is a [*ReportError].
func ReadReport(in io.Reader) (*Report, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, &ReportError{plainly(err)}
	}
	if r.Format != Format {
		return nil, &ReportError{fmt.Errorf("its format is %d, not %d", r.Format, Format)}
	}
	r.Summary = summarize(&r)
	return &r, nil
}
