package eval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/eval"
)

// shout is a target that is no graph.
func shout(_ context.Context, c eval.Case) (eval.Result, error) {
	text, _ := c.Text()
	output, err := json.Marshal(strings.ToUpper(text))
	return eval.Result{Output: output, Latency: time.Millisecond}, err
}

func Example() {
	cases, err := eval.Load(strings.NewReader(`
{"name": "word", "input": "snow", "output": "SNOW"}
{"name": "number", "input": "seven", "evaluators": [{"type": "matches", "pattern": "^[0-9]+$"}]}
`), nil)
	if err != nil {
		panic(err)
	}
	report, err := eval.Run(context.Background(), cases, shout, eval.Options{Repeat: 2})
	if err != nil {
		panic(err)
	}
	if err := report.WriteText(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// ok    word
	// FAIL  number: 0 of 2 runs passed
	//       run 1: matches: "SEVEN" doesn't match ^[0-9]+$
	//       run 2: matches: "SEVEN" doesn't match ^[0-9]+$
	// FAIL  1 of 2 cases
	//
	// pass^1   50 % (pass@1 50 %)
	// pass^2   50 % (pass@2 50 %)
	// exact    2 of 2 runs, mean 1.00
	// matches  0 of 2 runs, mean 0.00
	// latency  p50 1ms, p95 1ms, max 1ms
	// cost     0
}

func ExampleCompare() {
	run := func(target eval.Target) *eval.Report {
		cases, err := eval.Load(strings.NewReader(`{"name": "word", "input": "snow", "output": "SNOW"}`), nil)
		if err != nil {
			panic(err)
		}
		report, err := eval.Run(context.Background(), cases, target, eval.Options{})
		if err != nil {
			panic(err)
		}
		return report
	}
	before := run(shout)
	after := run(func(_ context.Context, c eval.Case) (eval.Result, error) { return eval.Result{Output: c.Input}, nil })
	fmt.Println(eval.Compare(before, after).Worse())
	// Output: [word]
}
