package eval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/graph"
)

// A server shows states with messages in LangChain's form.
func TestTheGraderJudgesRunsOfOthersAsRunWould(t *testing.T) {
	g, err := eval.Grader(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := graph.JSON(g)
	input := `{"runs": [
		{"case": {"name": "form", "input": {"city": "Bonn"}, "evaluators": [{"type": "state", "want": {"cost": 3}}, {"type": "limits", "seconds": 1}]}, "state": {"city": "Bonn", "cost": 3}, "latency_ns": 2000000000, "thread": "t-1"},
		{"case": {"name": "talk", "input": "what is 6*7", "output": "42", "trajectory": ["calculator"]}, "cost": {"known": 0.5},
		 "state": {"messages": [{"type": "human", "content": "what is 6*7"}, {"type": "ai", "content": "", "tool_calls": [{"id": "c-1", "name": "calculator", "args": {}}]}, {"type": "tool", "tool_call_id": "c-1", "content": "42"}, {"type": "ai", "content": "42"}]}},
		{"case": {"name": "failed", "input": {}, "output": 1}, "state": {"x": 2}, "error": "no money"},
		{"case": {"name": "wrong", "input": {}, "evaluators": ["exakt"]}, "state": {}},
		{"case": {"name": "checked", "input": {}, "output": 1}},
		{"case": {"name": "people judge", "input": {}, "evaluators": []}, "state": {}},
		{"case": {"name": "judged", "input": {}, "evaluators": [{"type": "judge", "rubric": "It is short."}]}}
	]}`
	snap, err := raw.Thread("t-1").Invoke(t.Context(), raw.Thread("t-1").Input(graph.UpdateWith(json.RawMessage(input))))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Reports []eval.RunReport }
	if err := json.Unmarshal(snap.State, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Reports) != 7 {
		t.Fatalf("%d reports: %s", len(s.Reports), snap.State)
	}
	form, talk, failed, wrong, checked, people, judged := s.Reports[0], s.Reports[1], s.Reports[2], s.Reports[3], s.Reports[4], s.Reports[5], s.Reports[6]
	if len(form.Scores) != 2 || !form.Scores[0].Pass || form.Scores[1].Pass || form.Result.Thread != "t-1" {
		t.Errorf("a state: %+v", form)
	}
	if !talk.Passed() || len(talk.Scores) != 2 || string(talk.Result.Output) != `"42"` || talk.Result.Cost.Known != 0.5 {
		t.Errorf("a conversation: %+v", talk)
	}
	if failed.Error != "no money" || failed.Scores != nil || string(failed.Result.Output) != `{"x":2}` {
		t.Errorf("a failed run: %+v", failed)
	}
	if !strings.Contains(wrong.Error, `evaluator "exakt"`) || !strings.Contains(wrong.Error, "exact") {
		t.Errorf("a wrong case: %+v", wrong)
	}
	if checked.Error != "" || checked.Scores != nil {
		t.Errorf("a case alone: %+v", checked)
	}
	if people.Error != "" || people.Scores != nil || string(people.Result.Output) != "{}" {
		t.Errorf("a case that people judge: %+v", people)
	}
	if !strings.Contains(judged.Error, "no model to judge") {
		t.Errorf("a judge without a model: %+v", judged)
	}
}
