// Package eval measures agents and other graphs: it runs the cases of a data set, has
// evaluators judge what came of each, and reports how often it was right, what it cost
// and how long it took.
//
//	cases, err := eval.Load(file, nil)
//	report, err := eval.Run(ctx, cases, eval.Graph(g), eval.Options{Repeat: 3})
//	err = report.WriteText(os.Stdout)
//
// # Data sets
//
// A data set is text with a [Case] in JSON on each line:
//
//	{"name": "sum", "input": "what is 6*7", "output": "6*7 = 42", "trajectory": [{"tool": "calculator", "args": {"expression": "6*7"}}]}
//	{"name": "polite", "input": "hello", "evaluators": [{"type": "judge", "rubric": "The answer greets back."}], "tags": ["tone"]}
//
// A case that names no evaluators is checked by [Exact] for its output and by
// [Trajectory] for its trajectory. [Load] tells all that is wrong with a data set at
// once, line by line.
//
// # Evaluators
//
// Cases name evaluators by their kind: "exact", "state", "contains", "matches", "schema",
// "trajectory", "tool_args", "limits", and "judge" if a model is given for it. The
// parameters are the fields of the types of the same names, and in Go the types are used as
// they are. An [Evaluator] of one's own is a [Func] or a struct; [Kinds] gives it a name
// for data sets.
//
// # Repeated runs
//
// Agents don't do the same each time. With [Options.Repeat] each case is run several
// times, and a [Summary] has, for each k up to that, pass^k: how likely k runs of a case
// all pass, and pass@k: how likely one of them does. A case passes if all of its runs
// pass, and a run if all evaluators do.
//
// # Servers
//
// A server that has the graph of [Grader] beside its own evaluates for its clients: the
// page Tests of the studio, whose data sets and reports are of these forms.
//
// # Failures
//
// A target or an evaluator that fails or panics fails the run, which says so, and the
// rest goes on. What a model without a price costs is unknown, and no sum hides it: see
// [Cost].
package eval
