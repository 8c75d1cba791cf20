package agenttest

import (
	"os"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/eval"
)

// Evaluate runs the cases of a data set, a file of JSON lines, and fails the test for each
// case that doesn't pass, with what is wrong with its runs. A data set that can't be read
// or run ends the test. Nil kinds are those of [eval.Load]. The report is returned for
// what else the test demands, such as a bound of the cost. A scripted model whose replies
// come in order needs a Concurrency of 1.
//
// Models that err now and then don't belong in a test of all cases: run those with the
// command "superstep eval run", which has a bound of the share that passes.
func Evaluate(tb testing.TB, file string, kinds eval.Kinds, target eval.Target, o eval.Options) *eval.Report {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	cases, err := eval.Load(f, kinds)
	_ = f.Close() // it was read only
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	report, err := eval.Run(tb.Context(), cases, target, o)
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	for i := range report.Cases {
		c := &report.Cases[i]
		for k := range c.Runs {
			if failures := c.Runs[k].Failures(); failures != nil {
				tb.Errorf("%s: case %q, run %d of %d:\n%s", file, c.Case.Name, k+1, len(c.Runs), strings.Join(failures, "\n"))
			}
		}
	}
	return report
}
