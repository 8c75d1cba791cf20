package eval

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/superstep-dev/superstep/internal/console"
)

// WriteText writes the report for people: a line for each case, what is wrong with those
// that failed, and the summary.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	for i := range r.Cases {
		c := &r.Cases[i]
		switch {
		case len(c.Runs) == 0:
			fmt.Fprintf(&b, "-     %s: not run\n", c.Case.Name)
		case c.Passed():
			fmt.Fprintf(&b, "ok    %s\n", c.Case.Name)
		case len(c.Runs) == 1:
			fmt.Fprintf(&b, "FAIL  %s\n", c.Case.Name)
		default:
			fmt.Fprintf(&b, "FAIL  %s: %d of %d runs passed\n", c.Case.Name, c.passes(), len(c.Runs))
		}
		for j := range c.Runs {
			for _, f := range c.Runs[j].Failures() {
				if len(c.Runs) > 1 {
					f = fmt.Sprintf("run %d: %s", j+1, f)
				}
				indented(&b, f)
			}
		}
	}
	s := &r.Summary
	if s.Passed < s.Cases {
		fmt.Fprintf(&b, "FAIL  %d of %s\n\n", s.Cases-s.Passed, plural(s.Cases, "case"))
	} else {
		fmt.Fprintf(&b, "ok    %s\n\n", plural(s.Cases, "case"))
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if r.Stopped != "" {
		fmt.Fprintf(t, "stopped\tafter %d of %s: %s\n", s.Runs, plural(s.Cases*r.Repeat, "run"), r.Stopped)
	}
	for _, row := range s.rows() {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, console.Clean(b.String()))
	return err
}

// rows are the sums, for people: what, and how much.
func (s *Summary) rows() (out [][2]string) {
	add := func(what, format string, args ...any) {
		out = append(out, [2]string{what, fmt.Sprintf(format, args...)})
	}
	for i := range s.PassHat {
		switch k := i + 1; {
		case len(s.PassHat) == 1:
		case k == 1 || k == len(s.PassHat) || k&(k-1) == 0: // not all of hundred
			add(fmt.Sprintf("pass^%d", k), "%s (pass@%d %s)", percent(s.PassHat[i]), k, percent(s.PassAt[i]))
		}
	}
	for _, g := range s.Evaluators {
		text := fmt.Sprintf("%d of %s, mean %.2f", g.Passed, plural(g.Of, "run"), g.Mean)
		if g.Errors > 0 {
			text += fmt.Sprintf(", couldn't judge %d", g.Errors)
		}
		add(g.Name, "%s", text)
	}
	for _, g := range s.Tags {
		add("tag "+g.Name, "%d of %s", g.Passed, plural(g.Of, "case"))
	}
	add("latency", "%s", s.Latency)
	if s.Usage.Total() > 0 {
		add("tokens", "%d in, %d out", s.Usage.Input, s.Usage.Output)
	}
	add("cost", "%s", s.Cost)
	if s.JudgeCost.Known > 0 || s.JudgeCost.Unknown != nil {
		add("cost of judges", "%s", s.JudgeCost)
	}
	return out
}

func (d Distribution) String() string {
	return fmt.Sprintf("p50 %s, p95 %s, max %s", shortTime(d.P50), shortTime(d.P95), shortTime(d.Max))
}

// shortTime leaves out the digits that nobody reads.
func shortTime(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for unit < d/1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// percent rounds down what isn't all, and up what isn't nothing.
func percent(part float64) string {
	n := int(part*100 + 0.5)
	if part < 1 {
		n = min(n, 99)
	}
	if part > 0 {
		n = max(n, 1)
	}
	return fmt.Sprintf("%d %%", n)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// indented writes a text below a case, so that none of its lines passes for one.
func indented(b *bytes.Buffer, text string) {
	fmt.Fprintf(b, "      %s\n", strings.ReplaceAll(text, "\n", "\n      "))
}

// title is what a report is of.
func (r *Report) title() string {
	t := cmp.Or(r.Name, "Evaluation")
	if r.Target != "" {
		t += " on " + r.Target
	}
	return t
}
