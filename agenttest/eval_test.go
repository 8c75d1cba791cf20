package agenttest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestADataSetFailsTheTestForEachRunThatDoesNotPass(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cases.jsonl")
	if err := os.WriteFile(file, []byte(`{"name":"right","input":"a","output":"A"}
{"name":"wrong","input":"b","output":"C"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.ReAct[agent.State]{Model: scripted.New(
		scripted.Text("A").When(scripted.Says("a")), scripted.Text("A").When(scripted.Says("a")),
		scripted.Text("B").When(scripted.Says("b")), scripted.Text("C").When(scripted.Says("b")),
	)})
	if err != nil {
		t.Fatal(err)
	}
	var report *eval.Report
	s := spied(t, func(tb testing.TB) {
		report = agenttest.Evaluate(tb, file, nil, eval.Graph(a), eval.Options{Repeat: 2, Concurrency: 1})
	})
	if len(s.failures) != 1 || !strings.HasSuffix(s.failures[0], "case \"wrong\", run 1 of 2:\nexact: it is \"B\", not \"C\"") {
		t.Errorf("%q", s.failures)
	}
	if report.Summary.RunsPassed != 3 {
		t.Errorf("%+v", report.Summary)
	}
}

func TestADataSetThatCannotBeReadEndsTheTest(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, "nowhere.jsonl"} {
		s := spied(t, func(tb testing.TB) {
			agenttest.Evaluate(tb, file, nil, nil, eval.Options{})
			t.Errorf("it goes on with %s", file)
		})
		if len(s.failures) != 1 || !strings.Contains(s.failures[0], filepath.Base(file)) {
			t.Errorf("%q", s.failures)
		}
	}
}
