package program

import (
	"path/filepath"
	"regexp"
	"testing"
)

// The documentation has these commands.
func TestTheExampleDataSetPassesOnTheDemonstration(t *testing.T) {
	t.Parallel()
	data, err := filepath.Abs("../../../examples/evaluation/assistant.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, err := superstep(t, dir, "eval", "run", "assistant", data, "--repeat", "3", "--html", "report.html").CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^ok    5 cases$`).Match(out) || !regexp.MustCompile(`(?m)^pass\^3 +100 %`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 || filepath.Base(left[0]) != "report.html" {
		t.Errorf("it leaves %q", left)
	}
}
