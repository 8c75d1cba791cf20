package evaluation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agenttest"
	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

// adviser returns the agent that is evaluated.
func adviser(m model.Model) (*graph.Graph[agent.State], error) {
	type place struct {
		City string `json:"city"`
	}
	return agent.New(agent.ReAct[agent.State]{Name: "adviser", Model: m, Tools: []tool.Tool{
		tool.New("forecast", "Tells the weather.", func(_ context.Context, p place) (string, error) { return "snow in " + p.City, nil }),
	}})
}

// script stands for a model.
func script() model.Model {
	return scripted.New(
		scripted.Text("Yes, a warm one.").When(scripted.Returned("forecast")),
		scripted.Call("forecast", `{"city":"Bern"}`).When(scripted.Says("Do I need a coat in Bern?")),
		scripted.Text("You are welcome.").When(scripted.Says("Thank you!")),
	)
}

//snippet:test
func TestAdviserDoesWhatTheDataSetExpects(t *testing.T) {
	a, err := adviser(script())
	if err != nil {
		t.Fatal(err)
	}
	report := agenttest.Evaluate(t, "testdata/adviser.jsonl", nil, eval.Graph(a), eval.Options{})
	if used := report.Summary.Usage.Total(); used > 5_000 {
		t.Errorf("%d tokens are too many for these questions", used)
	}
}

//snippet:end

// Words is an evaluator of the program's own.
type Words struct {
	Most int `json:"most"`
}

// Evaluate implements eval.Evaluator.
func (w Words) Evaluate(_ context.Context, _ eval.Case, r eval.Result) (eval.Score, error) {
	if n := len(strings.Fields(r.Text())); n > w.Most {
		return eval.Failed("%d words, more than %d", n, w.Most), nil
	}
	return eval.Passed(), nil
}

func TestAServerHasTheGraderBesideItsGraphs(t *testing.T) {
	a, err := adviser(script())
	if err != nil {
		t.Fatal(err)
	}
	judge, ctx := script(), t.Context()
	//snippet:serve
	grader, err := eval.Grader(eval.Builtin(eval.Judge{Model: judge}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(ctx, server.Graph(a), server.Graph(grader))
	//snippet:end
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func Example_evaluation() {
	judge := scripted.New(scripted.Text(`{"reason": "It says no more than it has to.", "score": 0.9}`))
	a, err := adviser(script())
	if err != nil {
		panic(err)
	}

	//snippet:run
	kinds := eval.Builtin(eval.Judge{Model: judge})
	kinds["words"] = eval.KindOf(Words{})
	cases, err := eval.Load(strings.NewReader(`
{"name": "thanks", "input": "Thank you!", "evaluators": [{"type": "words", "most": 5}, {"type": "judge", "rubric": "It is polite and short."}]}
{"name": "coat", "input": "Do I need a coat in Bern?", "evaluators": [{"type": "words", "most": 3}]}
`), kinds)
	if err != nil {
		panic(err)
	}
	report, err := eval.Run(context.Background(), cases, eval.Graph(a), eval.Options{Name: "adviser"})
	if err != nil {
		panic(err)
	}
	for _, c := range report.Cases {
		fmt.Println(c.Case.Name, c.Passed(), c.Runs[0].Failures())
	}
	fmt.Println("cost:", report.Summary.Cost)
	//snippet:end
	// Output:
	// thanks true []
	// coat false [words: 4 words, more than 3]
	// cost: unknown (no usage from an unnamed model)
}
