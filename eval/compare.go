package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/superstep-dev/superstep/internal/console"
)

// Comparison is how one report differs from an earlier one.
type Comparison struct {
	Old   Summary  `json:"old"`
	New   Summary  `json:"new"`
	Cases []Change `json:"cases"` // those of the new report in its order, then those that are gone
}

// Verdict says what became of a case.
type Verdict string

// The verdicts. They are about the part of the runs that passed.
const (
	Same     Verdict = "same"
	Better   Verdict = "better"
	Worse    Verdict = "worse"
	Added    Verdict = "added"
	Removed  Verdict = "removed"
	NotRun   Verdict = "not run" // in one of the reports, which was stopped before
	Reworded Verdict = "changed" // its input or what it expects: it is another case
)

// Change is what became of a case.
type Change struct {
	Name     string   `json:"name"`
	Verdict  Verdict  `json:"verdict"`
	Old      *Rate    `json:"old,omitempty"`      // nil: the case wasn't there
	New      *Rate    `json:"new,omitempty"`      // nil: the case isn't there
	Failures []string `json:"failures,omitempty"` // of the new runs, each once, if it is worse
}

// Rate is how a case did in a report.
type Rate struct {
	Passed  int           `json:"passed"`
	Of      int           `json:"of"`
	Latency time.Duration `json:"latency_ns"` // of a run, on average
	Cost    Cost          `json:"cost"`       // of all runs
}

func rateOf(c *CaseReport) *Rate {
	r := &Rate{Passed: c.passes(), Of: len(c.Runs)}
	for _, run := range c.Runs {
		r.Latency += run.Result.Latency
		r.Cost = r.Cost.Add(run.Result.Cost)
	}
	if r.Of > 0 {
		r.Latency /= time.Duration(r.Of)
	}
	return r
}

// Compare tells how a report differs from an earlier one. Cases are the same that have the
// same name; one whose input, expectations or evaluators were changed is [Reworded], and
// counts as neither better nor worse.
func Compare(before, after *Report) *Comparison {
	out := &Comparison{Old: before.Summary, New: after.Summary, Cases: []Change{}}
	old := map[string]*CaseReport{}
	for i := range before.Cases {
		old[before.Cases[i].Case.Name] = &before.Cases[i]
	}
	for i := range after.Cases {
		c := &after.Cases[i]
		change := Change{Name: c.Case.Name, New: rateOf(c), Verdict: Added}
		if was := old[c.Case.Name]; was != nil {
			change.Old, change.Verdict = rateOf(was), Same
			delete(old, c.Case.Name)
			then, now := ratio(change.Old.Passed, change.Old.Of), ratio(change.New.Passed, change.New.Of)
			switch {
			case !sameCase(&was.Case, &c.Case):
				change.Verdict = Reworded
			case change.Old.Of == 0 || change.New.Of == 0:
				change.Verdict = NotRun
			case now > then:
				change.Verdict = Better
			case now < then:
				change.Verdict = Worse
			}
		}
		if change.Verdict == Worse {
			for j := range c.Runs {
				for _, f := range c.Runs[j].Failures() {
					if !slices.Contains(change.Failures, f) {
						change.Failures = append(change.Failures, f)
					}
				}
			}
		}
		out.Cases = append(out.Cases, change)
	}
	for i := range before.Cases {
		if c := old[before.Cases[i].Case.Name]; c != nil {
			out.Cases = append(out.Cases, Change{Name: c.Case.Name, Verdict: Removed, Old: rateOf(c)})
		}
	}
	return out
}

// sameCase reports whether two cases ask and expect the same.
func sameCase(a, b *Case) bool {
	plain := func(c Case) []byte {
		c.Tags, c.Metadata = nil, nil
		data, _ := json.Marshal(c)
		v, err := value(data)
		if err != nil {
			return data
		}
		data, _ = json.Marshal(v) // in one order
		return data
	}
	return bytes.Equal(plain(*a), plain(*b))
}

// Worse returns the names of the cases that became worse.
func (c *Comparison) Worse() (names []string) {
	for _, x := range c.Cases {
		if x.Verdict == Worse {
			names = append(names, x.Name)
		}
	}
	return names
}

// WriteText writes the comparison for people: what became of the cases that are not the
// same, and the sums side by side.
func (c *Comparison) WriteText(w io.Writer) error {
	var b bytes.Buffer
	same := 0
	for _, x := range c.Cases {
		if x.Verdict == Same {
			same++
			continue
		}
		fmt.Fprintf(&b, "%-7s  %s", x.Verdict, x.Name)
		switch {
		case x.Old != nil && x.New != nil:
			fmt.Fprintf(&b, "  %s -> %s", x.Old, x.New)
		case x.New != nil:
			fmt.Fprintf(&b, "  %s", x.New)
		}
		b.WriteByte('\n')
		for _, f := range x.Failures {
			indented(&b, f)
		}
	}
	if same > 0 {
		fmt.Fprintf(&b, "same     %d of %s\n", same, plural(len(c.Cases), "case"))
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(what string, show func(*Summary) string) {
		fmt.Fprintf(t, "%s\t%s\t-> %s\n", what, show(&c.Old), show(&c.New))
	}
	row("cases", func(s *Summary) string {
		return fmt.Sprintf("%d of %d passed (%s)", s.Passed, s.Cases, percent(s.Rate()))
	})
	row("runs", func(s *Summary) string { return fmt.Sprintf("%d of %d passed", s.RunsPassed, s.Runs) })
	row("latency", func(s *Summary) string { return s.Latency.String() })
	row("cost", func(s *Summary) string { return s.Cost.String() })
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, console.Clean(b.String()))
	return err
}

func (r *Rate) String() string { return fmt.Sprintf("%d of %d", r.Passed, r.Of) }
