package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server"
)

// Evaluations are what the command eval gets from the program.
type Evaluations struct {
	// Judge opens the model of a name, for the flag --judge: that of package
	// model/models, or one of the program's own. Without it no case can be judged by a
	// model.
	Judge func(name string) (model.Model, error)

	// Kinds are kinds of evaluators that data sets may name, beside those of package eval.
	Kinds eval.Kinds

	// Prices are those of models; nil means model.KnownModels.
	Prices model.Table
}

// Evaluation says what the command eval gets from the program. The command serve has an
// [eval.Grader] then beside the graphs, with Kinds: the page Tests of the studio evaluates
// with it. A graph of the program's own of that name takes its place.
//
//	cli.Main(cli.Graph(g), cli.Evaluation(cli.Evaluations{Judge: models.Open}))
func Evaluation(e Evaluations) Option {
	return func(a *app) { a.evaluations, a.grades = e, true }
}

// grader returns the graph that judges what a server ran, if the program has evaluations and
// no such graph of its own.
func (a *app) grader() ([]server.Option, error) {
	own := func(g *compiled) bool { return g.name == eval.GraderName }
	if !a.grades || slices.ContainsFunc(a.graphs, own) || slices.ContainsFunc(a.demo, own) {
		return nil, nil
	}
	kinds := eval.Builtin(eval.Judge{})
	maps.Copy(kinds, a.evaluations.Kinds)
	g, err := eval.Grader(kinds)
	if err != nil {
		return nil, err
	}
	return []server.Option{server.Graph(g, server.Describe("Judges runs for the page Tests of the studio, with the evaluators of package eval."))}, nil
}

// evalCommand holds the commands for data sets.
func (a *app) evalCommand() *cobra.Command {
	c := Group("eval", "Measure a graph with a data set", OverServer(a.evalRunCommand()), a.evalCompareCommand(), OverServer(a.evalSaveCommand()))
	c.GroupID = "run"
	return c
}

// evalFlags are those of "eval run".
type evalFlags struct {
	repeat, concurrency int
	timeout             time.Duration
	only                string
	tags                []string
	judge               string
	prices              []string
	min                 float64
	out, html, baseline string
	config              []string
	maxSteps            int
	keep                bool
}

func (a *app) evalRunCommand() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use: "run GRAPH FILE...", Short: "Run the cases of a data set and report how they did",
		Long: `Run the cases of data sets, JSON lines, with a graph of this program or of a server, have
their evaluators judge the results, and report what passed, what it cost and how long it
took. Each run is one of a new thread, in memory unless --keep is given; the threads of a
server are deleted afterwards unless it is.

The exit code is 1 if fewer cases pass than --min asks for, or if one became worse than in
the report of --baseline. A case passes if all of its runs do.`,
		Example: fmt.Sprintf("  %[1]s eval run assistant cases.jsonl\n  %[1]s eval run assistant cases.jsonl --repeat 5 --judge openai:gpt-5 --html report.html\n  %[1]s eval run assistant cases.jsonl --output new.json --baseline old.json", a.name),
		Args:    args(2, 1<<20, "GRAPH or FILE"), ValidArgsFunction: a.completeGraphThenFile,
		RunE: func(cmd *cobra.Command, args []string) error { return a.evaluate(cmd, f, args[0], args[1:]) },
	}
	fs := cmd.Flags()
	fs.IntVarP(&f.repeat, "repeat", "k", 1, "how often to run each case; the report then has pass^k and pass@k")
	fs.IntVar(&f.concurrency, "concurrency", 4, "how many runs at a time")
	fs.DurationVar(&f.timeout, "timeout", 0, "how long a run may take, and an evaluator")
	fs.StringVar(&f.only, "run", "", "only the cases whose name matches this regular expression")
	fs.StringSliceVar(&f.tags, "tag", nil, "only the cases with one of these tags")
	fs.StringVar(&f.judge, "judge", "", "the model that judges, for the evaluator \"judge\"")
	fs.StringArrayVar(&f.prices, "price", nil, "MODEL=INPUT,OUTPUT: what a million tokens cost; may be repeated")
	fs.Float64Var(&f.min, "min", 100, "fail if less of the cases pass, in percent")
	fs.StringVarP(&f.out, "output", "o", "", "write the report in JSON to this file, for --baseline and \"eval compare\"")
	fs.StringVar(&f.html, "html", "", "write the report as a page to this file")
	fs.StringVar(&f.baseline, "baseline", "", "an earlier report to compare with; fail if a case became worse")
	fs.StringArrayVar(&f.config, "config", nil, configHelp)
	fs.IntVar(&f.maxSteps, "max-steps", 0, "how many supersteps a run may take")
	fs.BoolVar(&f.keep, "keep", false, "keep the threads in the store, or on the server, to look at them")
	return cmd
}

// completeGraphThenFile completes the name of a graph, and files after it.
func (a *app) completeGraphThenFile(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeGraph(cmd, args, prefix)
}

// evaluate is "eval run".
func (a *app) evaluate(cmd *cobra.Command, f *evalFlags, name string, files []string) error {
	switch {
	case f.repeat < 1:
		return Usage("--repeat %d: a case is run once at least", f.repeat)
	case f.concurrency < 1:
		return Usage("--concurrency %d: one run at a time is the least", f.concurrency)
	case f.timeout < 0:
		return Usage("--timeout %v is negative", f.timeout)
	case !(f.min >= 0 && f.min <= 100):
		return Usage("--min %g: give percent, from 0 to 100", f.min)
	case f.out != "" && f.out == f.html:
		return Usage("--output and --html name the same file")
	case a.storeGiven && !f.keep:
		return &usageError{errors.New("the threads are kept nowhere: --store has no effect"), "add --keep to keep them there"}
	}
	o := eval.Options{Name: strings.Join(files, ", "), Target: name, Repeat: f.repeat, Concurrency: f.concurrency, Timeout: f.timeout}
	var err error
	if o.Prices, err = a.prices(f.prices); err != nil {
		return err
	}
	var before *eval.Report
	if f.baseline != "" {
		if before, err = readReport(f.baseline); err != nil {
			return err
		}
	}
	kinds, err := a.kinds(f.judge)
	if err != nil {
		return err
	}
	cases, err := f.cases(files, kinds)
	if err != nil {
		return err
	}
	// What can't be written shows before anything is spent.
	for _, path := range []string{f.out, f.html} {
		if path != "" {
			if err := appendable(path); err != nil {
				return err
			}
		}
	}

	ctx, drain, end := console.Stops(cmd.Context(), func(bool) { a.console.Notef("Stopping.") })
	defer end()
	ctx, cancel := console.Until(ctx, drain)
	defer cancel()

	p, err := a.place()
	if err != nil {
		return err
	}
	if _, ok := p.(*local); ok && !f.keep {
		items, err := memory.NewInMemory()
		if err != nil {
			return err
		}
		p = &local{a: a, store: checkpoint.NewMemory(), items: memory.Use(items)}
	}
	t, err := p.graph(ctx, name)
	if err != nil {
		return err
	}
	run := call{maxSteps: f.maxSteps}
	if run.config, err = configArg(cmd, t, f.config); err != nil {
		return err
	}
	var misfits []error
	for _, c := range cases {
		if err := t.check(graph.JSONInput, eval.StateInput(c)); err != nil {
			misfits = append(misfits, fmt.Errorf("the input of case %q does not fit graph %q: %w", c.Name, name, err))
		}
	}
	if misfits != nil {
		return errors.Join(misfits...)
	}
	if err := p.open(ctx, true); err != nil {
		return err
	}
	n := 0
	o.Done = func(eval.Case, eval.RunReport) {
		n++
		a.console.Status(fmt.Sprintf("%d of %d runs", n, len(cases)*f.repeat))
	}
	report, runErr := eval.Run(ctx, cases, a.target(p, t, run, f.keep), o)
	a.console.Status("")
	if report == nil {
		return runErr
	}
	return a.told(report, before, f, runErr)
}

// told prints and writes a report, and returns what becomes the exit code.
func (a *app) told(report, before *eval.Report, f *evalFlags, runErr error) error {
	var compared *eval.Comparison
	if before != nil && runErr == nil {
		compared = eval.Compare(before, report)
	}
	var b bytes.Buffer
	err := report.WriteText(&b)
	if a.json {
		b.Reset()
		err = writeJSON(&b, struct {
			*eval.Report
			Comparison *eval.Comparison `json:"comparison,omitempty"`
		}{report, compared}, true)
	} else if compared != nil && err == nil {
		fmt.Fprintf(&b, "\nCompared with %s:\n\n", console.Clean(f.baseline))
		err = compared.WriteText(&b)
	}
	if err == nil {
		_, err = a.console.Out.Write(b.Bytes())
	}
	for path, write := range map[string]func(io.Writer) error{f.out: report.Write, f.html: report.WriteHTML} {
		if path != "" {
			var b bytes.Buffer
			err = errors.Join(err, write(&b), os.WriteFile(path, b.Bytes(), 0o666))
		}
	}
	if err = errors.Join(err, runErr); err != nil {
		return err
	}
	if rate := report.Summary.Rate() * 100; rate < f.min || compared != nil && len(compared.Worse()) > 0 {
		return ExitCode(ExitError)
	}
	return nil
}

// appendable reports whether a file can be written, without a change of it.
func appendable(path string) error {
	_, err := os.Stat(path)
	file, openErr := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if openErr != nil {
		return openErr
	}
	openErr = file.Close()
	if errors.Is(err, os.ErrNotExist) {
		return errors.Join(openErr, os.Remove(path))
	}
	return openErr
}

// cases reads the data sets and chooses from them.
func (f *evalFlags) cases(files []string, kinds eval.Kinds) ([]eval.Case, error) {
	only, err := regexp.Compile(f.only)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--run %s: %w", f.only, err), "it is a regular expression of Go"}
	}
	var out []eval.Case
	var errs []error
	for _, path := range files {
		cases, err := readCases(path, kinds)
		if err != nil {
			errs = append(errs, err)
		}
		for _, c := range cases {
			if !only.MatchString(c.Name) || f.tags != nil && !slices.ContainsFunc(c.Tags, func(tag string) bool { return slices.Contains(f.tags, tag) }) {
				continue
			}
			out = append(out, c)
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	if len(out) == 0 {
		return nil, &usageError{errors.New("no case is left by --run and --tag"), ""}
	}
	return out, nil
}

// readCases reads a data set.
func readCases(path string, kinds eval.Kinds) ([]eval.Case, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cases, err := eval.Load(file, kinds)
	var data *eval.DataError
	if errors.As(err, &data) {
		return nil, fmt.Errorf("%s:\n%w", path, err)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cases, nil
}

// kinds are the kinds of evaluators, with the judge of a name if one is given.
func (a *app) kinds(judge string) (eval.Kinds, error) {
	j := eval.Judge{}
	if judge != "" {
		if a.evaluations.Judge == nil {
			return nil, &usageError{errors.New("--judge: this program opens no models"), "give it cli.Evaluation with a Judge, such as models.Open"}
		}
		m, err := a.evaluations.Judge(judge)
		if err != nil {
			return nil, fmt.Errorf("--judge: %w", err)
		}
		j.Model = m
	}
	kinds := eval.Builtin(j)
	if judge == "" {
		of := kinds["judge"]
		kinds["judge"] = func(params json.RawMessage) (eval.Evaluator, error) {
			if _, err := of(params); err != nil {
				return nil, err
			}
			return nil, errors.New("there is no model to judge: name one with --judge")
		}
	}
	maps.Copy(kinds, a.evaluations.Kinds)
	return kinds, nil
}

// prices are those of the program with those of --price.
func (a *app) prices(given []string) (model.Table, error) {
	prices := maps.Clone(a.evaluations.Prices)
	if prices == nil {
		prices = model.KnownModels()
	}
	for _, text := range given {
		i := strings.LastIndexByte(text, '=')
		in, out, ok := strings.Cut(text[i+1:], ",")
		input, errIn := strconv.ParseFloat(in, 64)
		output, errOut := strconv.ParseFloat(out, 64)
		if i < 1 || !ok || errIn != nil || errOut != nil || !(input > 0 && output >= 0 || input == 0 && output == 0) {
			return nil, &usageError{fmt.Errorf("--price %s is not MODEL=INPUT,OUTPUT", text), "for example: --price our-model=0.25,2, for a million tokens"}
		}
		p := model.Prices{Input: input, Output: output, Free: input == 0 && output == 0}
		prices[strings.ToLower(text[strings.LastIndexByte(text[:i], '/')+1:i])] = model.Capabilities{Prices: p}
	}
	return prices, nil
}

// target makes a graph at a place what is evaluated.
func (a *app) target(p place, t target, run call, keep bool) eval.Target {
	_, remote := p.(*remote)
	return func(ctx context.Context, c eval.Case) (_ eval.Result, err error) {
		thread, err := p.newThread(ctx, t)
		if err != nil {
			return eval.Result{}, err
		}
		if remote && !keep {
			defer func() {
				ctx, done := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
				defer done()
				if gone := p.deleteThread(ctx, thread, true); gone != nil && err == nil {
					err = fmt.Errorf("thread %s was not deleted: %w", thread, gone)
				}
			}()
		}
		run, answers := run, c.Answers
		run.thread = thread
		for events := t.start(ctx, run, eval.StateInput(c)); ; {
			var failed error
			for _, failed = range events {
			}
			s, err := cameOf(ctx, t, thread)
			if err != nil {
				return eval.Result{}, cmp.Or(failed, err)
			}
			if failed == nil && s.Status != "done" {
				given := graph.Answers{}
				var asked []string
				for _, q := range s.Interrupts {
					asked = append(asked, fmt.Sprintf("%s asks %s", q.Node, q.Value))
					if len(answers) > 0 && q.When == "inside" {
						given[q.ID], answers = answers[0], answers[1:]
					}
				}
				if len(given) > 0 {
					events = t.resume(ctx, run, given, nil)
					continue
				}
				failed = fmt.Errorf("the run didn't end: its thread is %s", s.Status)
				if asked != nil {
					failed = &eval.WaitingError{Err: errors.New(strings.Join(asked, ", "))}
				}
			}
			r, err := eval.StateResult(c, s.State, s.Output)
			if keep {
				r.Thread = thread
			}
			return r, cmp.Or(failed, err) // the state beside a failure is as far as it came
		}
	}
}

func readReport(path string) (*eval.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := eval.ReadReport(file)
	if err != nil {
		return nil, Hint(fmt.Errorf("%s: %w", path, err), "\"eval run --output FILE\" writes one")
	}
	return r, nil
}

func (a *app) evalCompareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare OLD NEW", Short: "Show how one report differs from an earlier one",
		Long: `Show how one report of "eval run --output" differs from an earlier one: which cases
became better and worse, in the part of their runs that passed. The exit code is 1 if one
became worse.`,
		Args: args(2, 2, "OLD or NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.storeGiven {
				return &usageError{fmt.Errorf("%q works on files, and not on a store", cmd.CommandPath()), "leave --store out"}
			}
			before, err := readReport(args[0])
			if err != nil {
				return err
			}
			after, err := readReport(args[1])
			if err != nil {
				return err
			}
			c := eval.Compare(before, after)
			if a.json {
				err = writeJSON(a.console.Out, c, true)
			} else {
				err = c.WriteText(a.console.Out)
			}
			if err == nil && len(c.Worse()) > 0 {
				err = ExitCode(ExitError)
			}
			return err
		},
	}
}

func (a *app) evalSaveCommand() *cobra.Command {
	var at, name, input, evaluators string
	var tags []string
	cmd := &cobra.Command{
		Use: "save THREAD FILE", Short: "Make the last turn of a thread a case of a data set",
		Long: `Add the last turn of a thread to a data set, which is made if it isn't there: the state
with which it began is the input, what came of it is expected, as are the calls of tools
if the state has messages. The case is then checked by "exact" and "trajectory", unless
--evaluators says otherwise: few models say the same twice.`,
		Example: fmt.Sprintf("  %[1]s eval save t-1 cases.jsonl --name refund --evaluators '[{\"type\": \"trajectory\", \"mode\": \"superset\"}]'", a.name),
		Args:    args(2, 2, "THREAD or FILE"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, file := cmd.Context(), args[1]
			p, err := a.opened(ctx)
			if err != nil {
				return err
			}
			t, thread, err := a.choose(ctx, p, nil, args[0])
			if err != nil {
				return err
			}
			s, err := t.state(ctx, thread, at)
			if err != nil {
				return a.explain(err, &runFlags{thread: thread, at: at})
			}
			if s.Status != "done" {
				return Hint(fmt.Errorf("thread %q is %s: a case is made of a turn that has ended", thread, s.Status), "--at names an earlier checkpoint")
			}
			c := eval.Case{Name: name, Tags: tags, Metadata: map[string]string{"graph": t.info().name, "thread": thread}}
			if name == "" {
				c.Name = thread
			}
			if c.Input, err = jsonArg(cmd, "input", input); err != nil {
				return err
			}
			answered := false
			if c.Input == nil {
				if c.Input, answered, err = turnInput(ctx, t, thread, at); err != nil {
					return err
				}
			}
			if err := t.check(graph.JSONInput, eval.StateInput(c)); err != nil {
				return Hint(fmt.Errorf("the input does not fit graph %q: %w", t.info().name, err), "give the input of the turn with --input")
			}
			r, err := eval.StateResult(c, s.State, s.Output)
			if err != nil {
				return err
			}
			if c.Output = r.Output; r.Messages != nil {
				c.Trajectory = append([]eval.Call{}, r.Calls()...)
			}
			if evaluators != "" {
				if err := json.Unmarshal([]byte(evaluators), &c.Evaluators); err != nil {
					return &usageError{fmt.Errorf("--evaluators: %w", jsonPlace([]byte(evaluators), err)), `for example: --evaluators '["exact", {"type": "trajectory", "mode": "superset"}]'`}
				}
			}
			// Which model judges is said when the case is run.
			kinds := eval.Builtin(eval.Judge{Model: struct{ model.Model }{}})
			maps.Copy(kinds, a.evaluations.Kinds)
			if err := c.Prepare(kinds); err != nil {
				return &usageError{fmt.Errorf("the case: %w", err), ""}
			}
			if err := eval.Append(file, c); err != nil {
				return err
			}
			if answered {
				a.console.Notef("Questions were answered in this turn: add the \"answers\" to the case, in their order.")
			}
			return a.say(c, "Added the case %s to %s.", c.Name, file)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&at, "at", "", "the checkpoint at which the turn ended; default: the newest")
	fs.StringVar(&name, "name", "", "the name of the case; default: that of the thread")
	fs.StringVar(&input, "input", "", "the input, in the stead of the state with which the turn began: JSON, @FILE or -")
	fs.StringVar(&evaluators, "evaluators", "", "the evaluators of the case: a list in JSON")
	fs.StringSliceVar(&tags, "tag", nil, "tags of the case")
	return cmd
}

// turnInput returns the state with which the turn of a thread began that is the last at a
// checkpoint, and whether an answer was given in it. What models had used by then is left
// out: a new run counts its own.
func turnInput(ctx context.Context, t target, thread, at string) (_ json.RawMessage, answered bool, _ error) {
	for limit := 50; ; limit *= 4 {
		list, err := t.history(ctx, historyQuery{thread: thread, at: at, limit: limit})
		if err != nil {
			return nil, false, err
		}
		i := slices.IndexFunc(list, func(e *entry) bool { return e.Source == string(checkpoint.SourceInput) })
		if i < 0 && len(list) == limit {
			continue
		}
		if i > 0 && slices.Equal(list[i].Next, []string{"__start__"}) {
			i-- // other servers take the input in with the step after it
		}
		if i < 0 {
			return nil, false, Hint(fmt.Errorf("the history of thread %q doesn't say with what its turn began", thread), "give the input with --input")
		}
		answered = slices.ContainsFunc(list[:i], func(e *entry) bool { return e.Source == string(checkpoint.SourceResume) })
		state, err := list[i].fold(ctx)
		if err != nil {
			return nil, false, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(state, &members); err != nil {
			return nil, false, fmt.Errorf("the state of thread %q: %w", thread, err)
		}
		delete(members, "model_usage")
		input, err := json.Marshal(members)
		return input, answered, err
	}
}
