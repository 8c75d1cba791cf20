package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// runFlags are the flags of the commands that run a graph.
type runFlags struct {
	thread, at            string
	input                 string
	answers               []string
	update                string
	stream                []string
	interactive           bool
	verbose, quiet, full  bool
	restart               bool
	maxSteps, concurrency int
	timeout               time.Duration
	durability            string
	config                []string
	metadata              []string
	before, after         []string
}

func (f *runFlags) add(a *app, cmd *cobra.Command) {
	a.threadFlag(cmd, &f.thread)
	fs := cmd.Flags()
	fs.StringVar(&f.at, "at", "", "start at this checkpoint of the thread, on a new branch")
	fs.BoolVarP(&f.interactive, "interactive", "i", false, "ask the questions of the graph right here, until it is done")
	fs.StringSliceVar(&f.stream, "stream", nil, "print events as JSON lines while the graph runs: "+strings.Join(modeNames(), ", "))
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show progress even where the standard error is no terminal")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	fs.BoolVar(&f.full, "full", false, "show the whole state")
	fs.IntVar(&f.maxSteps, "max-steps", 0, "how many supersteps the run may take")
	fs.IntVar(&f.concurrency, "concurrency", 0, "how many tasks run at a time")
	fs.DurationVar(&f.timeout, "timeout", 0, "end the run after this time; the thread can go on")
	fs.StringVar(&f.durability, "durability", "", "when checkpoints are stored: sync, async or exit")
	fs.StringArrayVarP(&f.config, "config", "c", nil, configHelp)
	fs.StringArrayVarP(&f.metadata, "metadata", "m", nil, "KEY=VALUE to store with the checkpoints")
	fs.StringSliceVar(&f.before, "interrupt-before", nil, "nodes to stop before")
	fs.StringSliceVar(&f.after, "interrupt-after", nil, "nodes to stop after")
	a.indexFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(modeNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"sync", "async", "exit"}, cobra.ShellCompDirectiveNoFileComp))
}

// threadFlag adds the flag --thread.
func (a *app) threadFlag(cmd *cobra.Command, thread *string) {
	cmd.Flags().StringVarP(thread, "thread", "t", "", "the thread's ID")
	_ = cmd.RegisterFlagCompletionFunc("thread", a.completeThreads)
}

// threadToo makes a command whose first argument is a thread take --thread in its
// place, as the other commands do.
func (a *app) threadToo(cmd *cobra.Command) *cobra.Command {
	var thread string
	a.threadFlag(cmd, &thread)
	with := func(args []string) []string {
		if thread == "" {
			return args
		}
		return append([]string{thread}, args...)
	}
	check, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error { return check(cmd, with(args)) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, with(args)) }
	return cmd
}

// completionTime is how long a shell waits for a completion.
const completionTime = 3 * time.Second

// completeThreads completes the ID of a thread.
func (a *app) completeThreads(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, end := context.WithTimeout(cmd.Context(), completionTime)
	defer end()
	defer a.close() // a completion is no command
	p, err := a.opened(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	list, _, _ := p.threads(ctx, threadQuery{prefix: prefix, limit: 100}) // what there is of it
	for _, t := range list {
		out = append(out, t.Thread)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeThread completes the ID of a thread as the first argument.
func (a *app) completeThread(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeThreads(cmd, args, prefix)
}

// modes are the modes of events, in the order in which they are shown.
var modes = []struct {
	name  string
	mode  graph.Mode
	wire  client.Mode       // empty: others stand for it
	types []graph.EventType // of its events; those of debug are of others too
}{
	{"updates", graph.ModeUpdates, client.ModeUpdates, []graph.EventType{graph.EventUpdate, graph.EventInterrupt}},
	{"values", graph.ModeValues, client.ModeValues, []graph.EventType{graph.EventValues, graph.EventInterrupt}},
	{"messages", graph.ModeMessages, client.ModeMessages, []graph.EventType{graph.EventMessage}},
	{"custom", graph.ModeCustom, client.ModeCustom, []graph.EventType{graph.EventCustom}},
	{"tools", graph.ModeTools, client.ModeTools, []graph.EventType{graph.EventToolCall, graph.EventToolResult}},
	{"tasks", graph.ModeTasks, client.ModeTasks, []graph.EventType{graph.EventTaskStart, graph.EventTaskEnd, graph.EventTaskError, graph.EventTaskRetry}},
	{"checkpoints", graph.ModeCheckpoints, client.ModeCheckpoints, []graph.EventType{graph.EventCheckpoint}},
	{"debug", graph.ModeDebug, "", []graph.EventType{graph.EventInterrupt}},
}

func modeNames() (names []string) {
	for _, m := range modes {
		names = append(names, m.name)
	}
	return names
}

// call turns flags into a call.
func (f *runFlags) call() (call, error) {
	c := call{
		thread: f.thread, at: f.at, restart: f.restart, maxSteps: f.maxSteps, concurrency: f.concurrency, timeout: f.timeout,
		durability: f.durability, before: f.before, after: f.after,
	}
	if f.timeout < 0 {
		return c, Usage("--timeout %v is negative", f.timeout)
	}
	switch f.durability {
	case "", "sync", "async", "exit":
	default:
		return c, Usage("--durability %q: use sync, async or exit", f.durability)
	}
	var err error
	c.metadata, err = pairs(f.metadata)
	return c, err
}

// pairs reads the flag --metadata.
func pairs(list []string) (out [][2]string, err error) {
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, Usage("--metadata %q: use KEY=VALUE", kv)
		}
		out = append(out, [2]string{k, v})
	}
	return out, nil
}

func (f *runFlags) modes() (graph.Mode, error) {
	var m graph.Mode
	for _, name := range f.stream {
		i := slices.Index(modeNames(), name)
		if i < 0 {
			return 0, unknown(fmt.Errorf("unknown stream mode %q", name), name, modeNames(), "modes: "+strings.Join(modeNames(), ", "))
		}
		m |= modes[i].mode
	}
	return m, nil
}

// jsonArg reads the value of a flag that is JSON, or @FILE, or - for the standard
// input. Without one it is nil.
func jsonArg(cmd *cobra.Command, flag, arg string) (json.RawMessage, error) {
	if arg == "" {
		return nil, nil
	}
	return jsonValue(cmd, "--"+flag, arg)
}

// configHelp is what the help says of --config.
const configHelp = "what nodes are configured with, where the graph declares it: KEY=VALUE, several times, or JSON, @FILE or - for the standard input"

// configArg reads the values of --config: an object as JSON, @FILE or -, and KEY=VALUE for
// members of it, and reports what does not fit the graph. A VALUE that is no JSON is a string.
func configArg(cmd *cobra.Command, t target, values []string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	whole := false
	for _, v := range values {
		if v != "-" && !strings.HasPrefix(v, "@") && !strings.HasPrefix(strings.TrimSpace(v), "{") && !json.Valid([]byte(v)) {
			key, value, ok := strings.Cut(v, "=")
			if !ok || key == "" {
				return nil, &usageError{fmt.Errorf("--config %q: use KEY=VALUE or JSON", v), `for example: --config title=Dr. or --config '{"title": "Dr."}'`}
			}
			if _, twice := members[key]; twice {
				return nil, Usage("--config says twice what %q is", key)
			}
			if members[key] = json.RawMessage(value); !json.Valid(members[key]) {
				text, err := json.Marshal(value)
				if err != nil {
					return nil, err
				}
				members[key] = text
			}
			continue
		}
		data, err := jsonValue(cmd, "--config", v)
		if err != nil {
			return nil, err
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err != nil || object == nil {
			return nil, Usage("--config is no object, but %s", shapeOf(data))
		}
		if whole {
			return nil, Usage("--config is given twice as JSON")
		}
		whole = true
		for key, value := range object {
			if _, twice := members[key]; twice {
				return nil, Usage("--config says twice what %q is", key)
			}
			members[key] = value
		}
	}
	if len(values) == 0 {
		return nil, nil
	}
	config, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	if err := t.check(graph.JSONConfig, config); err != nil {
		return nil, &usageError{fmt.Errorf("--config does not fit graph %q: %w", t.info().name, err), ""}
	}
	return config, nil
}

// jsonValue reads JSON, @FILE, or - for the standard input. Name says what it is
// in errors.
func jsonValue(cmd *cobra.Command, name, arg string) (json.RawMessage, error) {
	var data []byte
	var err error
	where := name
	switch {
	case arg == "-":
		where += " from the standard input"
		data, err = io.ReadAll(cmd.InOrStdin())
	case strings.HasPrefix(arg, "@"):
		where += " from " + arg[1:]
		data, err = os.ReadFile(arg[1:])
	default:
		data = []byte(arg)
	}
	if err != nil {
		return nil, Hint(fmt.Errorf("%s: %w", name, err), "give JSON, @FILE or - for the standard input")
	}
	if err := json.Unmarshal(data, new(any)); err != nil {
		return nil, &usageError{fmt.Errorf("%s is not JSON: %w", where, jsonPlace(data, err)), "for example: " + name + ` '{"topic": "cats"}'`}
	}
	return data, nil
}

// jsonPlace adds line and column to a syntax error.
func jsonPlace(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	before := string(data[:min(int(syntax.Offset), len(data))])
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:]))
	return fmt.Errorf("line %d, column %d: %w", line, max(column, 1), err)
}

// updateArg is jsonArg for an update of the graph's state, or for an input.
func updateArg(cmd *cobra.Command, t target, kind graph.JSONKind, flag, arg string) (json.RawMessage, error) {
	data, err := jsonArg(cmd, flag, arg)
	if err != nil || data == nil {
		return nil, err
	}
	if shape := shapeOf(data); shape != "object" && shape != "null" && (kind == graph.JSONUpdate || t.check(kind, data) != nil) {
		return nil, &usageError{fmt.Errorf("--%s is JSON of type %s: give an object with the fields of the state that it sets", flag, shape), "for example: --" + flag + ` '{"topic": "cats"}'`}
	}
	if err := t.check(kind, data); err != nil {
		return nil, &usageError{fmt.Errorf("--%s does not fit graph %q: %w", flag, t.info().name, err), ""}
	}
	return data, nil
}

// shapeOf returns the JSON type of valid JSON.
func shapeOf(data json.RawMessage) string {
	switch text := bytes.TrimSpace(data); text[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run GRAPH", GroupID: "run", Short: "Start a run of a graph",
		Long: `Start a run of a graph on a new thread, or on the thread given by --thread: an
ended thread starts a new turn on the state that it has, a pending one goes on
with the input added.

The input is an update of the state in JSON: fields are set, lists added to, maps
merged; {"$overwrite": value} replaces. A graph may have an input type of its own
instead.

Ctrl-C stops the run at the end of its superstep, a second Ctrl-C at once. Either
way the thread can go on with "continue".`,
		Args: args(1, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			p, err := a.place()
			if err != nil {
				return err
			}
			t, err := p.graph(ctx, args[0])
			if err != nil {
				return err
			}
			input, err := updateArg(cmd, t, graph.JSONInput, "input", f.input)
			if err != nil {
				return err
			}
			if input == nil {
				input = json.RawMessage(`{}`)
			}
			if err := p.open(ctx, true); err != nil {
				return err
			}
			if f.thread != "" {
				_, err = owned(ctx, p, f.thread, t)
			} else if _, err = f.call(); err == nil {
				f.thread, err = p.newThread(ctx, t)
			}
			if err != nil {
				return err
			}
			return a.drive(cmd, t, f, func(ctx context.Context, c call) iter.Seq2[event, error] { return t.start(ctx, c, input) })
		},
	}
	f.add(a, cmd)
	cmd.Flags().StringVar(&f.input, "input", "", "the input: JSON, @FILE or - for the standard input")
	cmd.Flags().BoolVar(&f.restart, "restart", false, "give up what is pending on the thread and start a new turn")
	return cmd
}

func (a *app) continueCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "continue [GRAPH]", GroupID: "run", Short: "Let a thread go on that was stopped, failed or killed",
		Long: `Let a thread go on where it was: finished tasks are not run again, breakpoints are
passed, questions still wait. With --at it goes on from an earlier checkpoint, on
a new branch.`,
		Args: args(0, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withThread(cmd, args, f, func(_ place, t target) error {
				return a.drive(cmd, t, f, func(ctx context.Context, c call) iter.Seq2[event, error] { return t.start(ctx, c, nil) })
			})
		},
	}
	f.add(a, cmd)
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "resume [GRAPH]", GroupID: "run", Short: "Answer what a thread waits for, and let it go on",
		Long: `Answer what a thread waits for, and let it go on.

Without --answer the questions are asked here, if there is a terminal. An answer
is JSON: true, 3, "text", {"approved": true}. Where the question wants a boolean
or a text, yes and no, or the bare text, will do. If several questions are open,
--answer KEY=JSON says which one is meant.`,
		Example: fmt.Sprintf("  %[1]s resume approval --thread t-1 --answer yes\n  %[1]s resume --thread t-1 --answer price=12.5 --answer 'note=\"ok\"'", a.name),
		Args:    args(0, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withState(cmd, args, f, func(t target, s *snapshot) error {
				update, err := updateArg(cmd, t, graph.JSONUpdate, "update", f.update)
				if err != nil {
					return err
				}
				var answer any
				switch {
				case f.answers != nil && s.Status != "done" && len(s.Interrupts) == 0 && len(s.Waits) == 0:
					return Hint(fmt.Errorf("thread %q asks nothing: it takes no answer", s.Thread), "it goes on with:\n  %s continue %s%s --thread %s", a.name, quote(s.Graph), a.placeArg(), quote(s.Thread))
				case f.answers != nil:
					if answer, err = answers(f.answers, s.Interrupts); err != nil {
						return err
					}
				case !slices.ContainsFunc(s.Interrupts, func(q question) bool { return q.When == "inside" }):
					// Breakpoints, or nothing: the engine says what that means.
				case a.console.CanAsk():
					f.interactive = true
					return a.drive(cmd, t, f, nil)
				default:
					if a.json {
						if err := a.show(s, f.full); err != nil {
							return err
						}
					} else {
						a.questions(s)
					}
					return ExitCode(ExitInterrupted)
				}
				return a.drive(cmd, t, f, func(ctx context.Context, c call) iter.Seq2[event, error] {
					return t.resume(ctx, c, answer, update)
				})
			})
		},
	}
	f.add(a, cmd)
	cmd.Flags().StringArrayVarP(&f.answers, "answer", "a", nil, "the answer: JSON, or KEY=JSON where several questions are open")
	cmd.Flags().StringVar(&f.update, "update", "", "an update of the state to make first: JSON, @FILE or -")
	return cmd
}

// opened returns the place that the command line names, opened for threads that exist.
func (a *app) opened(ctx context.Context) (place, error) {
	p, err := a.place()
	if err != nil {
		return nil, err
	}
	return p, p.open(ctx, false)
}

// withThread opens the place and finds a thread that exists.
func (a *app) withThread(cmd *cobra.Command, args []string, f *runFlags, do func(p place, t target) error) error {
	ctx := cmd.Context()
	p, err := a.opened(ctx)
	if err != nil {
		return err
	}
	t, thread, err := a.choose(ctx, p, args, f.thread)
	if err != nil {
		return err
	}
	f.thread = thread
	return do(p, t)
}

// withState is withThread that also loads the thread.
func (a *app) withState(cmd *cobra.Command, args []string, f *runFlags, do func(t target, s *snapshot) error) error {
	return a.withThread(cmd, args, f, func(_ place, t target) error {
		if _, err := f.call(); err != nil {
			return err
		}
		s, err := t.state(cmd.Context(), f.thread, f.at)
		if err != nil {
			return a.explain(err, f)
		}
		return do(t, s)
	})
}

// explain adds advice to errors about checkpoints.
func (a *app) explain(err error, f *runFlags) error {
	if f.at != "" && missing(err) {
		return Hint(&worded{fmt.Sprintf("thread %q has no checkpoint %q", f.thread, f.at), err}, "%s history%s --thread %s --all-branches lists them", a.name, a.placeArg(), quote(f.thread))
	}
	return err
}

// drive runs a graph, shows what happens, and prints the thread as it then is.
// In an interactive run it asks and goes on until the thread waits for nothing;
// begin may then be nil.
func (a *app) drive(cmd *cobra.Command, t target, f *runFlags, begin func(context.Context, call) iter.Seq2[event, error]) error {
	if f.interactive && !a.console.CanAsk() {
		return &usageError{errors.New("there is no terminal to ask at"), "leave --interactive out, and answer with resume --answer"}
	}
	mode, err := f.modes()
	if err != nil {
		return err
	}
	run, err := f.call()
	if err != nil {
		return err
	}
	if run.config, err = configArg(cmd, t, f.config); err != nil {
		return err
	}
	c := a.console
	show := !f.quiet && (f.verbose || c.ErrTerminal()) && (len(f.stream) == 0 || !c.OutTerminal())
	ctx, drain, end := console.Stops(cmd.Context(), func(second bool) {
		if second {
			c.Notef("Stopping now.")
		} else {
			c.Notef("Stopping at the end of this step. Press Ctrl-C again to stop at once.")
		}
	})
	defer end()
	run.drain, run.modes, run.lost = drain, mode|progressModes, a.noteLost

	for {
		var runErr error
		if begin != nil {
			runErr = a.consume(begin(ctx, run), mode, len(f.stream) > 0, show)
		}
		run.at = "" // the branch is there now
		s, err := cameOf(ctx, t, f.thread)
		if err != nil {
			if runErr != nil {
				return a.explain(runErr, f)
			}
			return err
		}
		refused := wasRefused(runErr)
		if f.interactive && (runErr == nil || refused) && len(s.Interrupts) > 0 {
			if refused {
				c.Notef("%s", foreign(runErr.Error()))
			}
			asking, cancel := console.Until(ctx, drain)
			given, err := a.prompt(asking, s)
			cancel()
			if err == nil {
				begin = func(ctx context.Context, c call) iter.Seq2[event, error] { return t.resume(ctx, c, given, nil) }
				continue
			}
			if !errors.Is(err, console.ErrStopped) && !errors.Is(err, console.ErrNoAnswer) {
				return err
			}
		}
		return a.finish(s, f, runErr)
	}
}

// lookTime is how long it may take to see what a run led to.
const lookTime = time.Minute

// cameOf returns a thread as a run has left it: what is stored is what counts, whatever has
// become of the context.
func cameOf(ctx context.Context, t target, thread string) (*snapshot, error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer done()
	return t.state(ctx, thread, "")
}

// wasRefused reports whether a run failed because an answer didn't fit: the
// question still waits.
func wasRefused(err error) bool {
	var refused *graph.AnswerError
	var there *client.RunError
	return errors.As(err, &refused) || errors.As(err, &there) && there.Name == "AnswerError"
}

// noteLost says that a connection was lost and is tried again.
func (a *app) noteLost(err error, wait time.Duration) {
	var gone *client.UnreachableError
	if errors.As(err, &gone) { // whose advice comes too early
		err = gone.Err
	}
	if !a.json {
		a.console.Notef("%s", foreign(fmt.Sprintf("The connection was lost: %v. Trying again in %v.", err, wait.Round(100*time.Millisecond))))
	}
}

// progressModes are the events that the progress display needs.
const progressModes = graph.ModeDebug

// consume shows the events of a run and returns its error.
func (a *app) consume(events iter.Seq2[event, error], mode graph.Mode, stream, show bool) (err error) {
	var p *progress
	if show {
		p = newProgress(a.console)
		defer p.end()
	}
	for ev, e := range events {
		if e != nil {
			return e
		}
		if p != nil {
			p.event(ev.Event)
		}
		if stream && wanted(ev.Type, mode) {
			e := eventJSON(&ev.Event)
			if ev.values != nil {
				if e.State, err = ev.values(); err != nil {
					return err
				}
			}
			if err := writeJSON(a.console.Out, e, false); err != nil {
				return fmt.Errorf("write event: %w", err)
			}
		}
	}
	return nil
}

// wanted reports whether a mode includes events of that type.
func wanted(t graph.EventType, mode graph.Mode) bool {
	for _, m := range modes {
		if mode&m.mode == m.mode && slices.Contains(m.types, t) {
			return true
		}
	}
	return false
}

// jsonEvent is an event as --stream prints it.
type jsonEvent struct {
	Type       graph.EventType `json:"type"`
	Path       []string        `json:"path,omitempty"`
	Step       int             `json:"step"`
	Time       time.Time       `json:"time"`
	Node       string          `json:"node,omitempty"`
	Task       string          `json:"task,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Update     json.RawMessage `json:"update,omitempty"`
	Value      any             `json:"value,omitempty"`
	State      json.RawMessage `json:"state,omitempty"`
	Interrupt  *question       `json:"interrupt,omitempty"`
	Checkpoint string          `json:"checkpoint,omitempty"`
	Parent     string          `json:"parent,omitempty"`
	Source     string          `json:"source,omitempty"`
	Next       []string        `json:"next,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Error      string          `json:"error,omitempty"`
	Duration   string          `json:"duration,omitempty"`
	Cached     bool            `json:"cached,omitempty"`
}

func eventJSON(ev *graph.Event) *jsonEvent {
	e := &jsonEvent{
		Type: ev.Type, Path: ev.Path, Step: ev.Step, Time: ev.Time, Node: ev.Node, Task: ev.Task, Attempt: ev.Attempt, Update: ev.Update,
		Value: ev.Value, Checkpoint: ev.Checkpoint, Parent: ev.Parent, Source: ev.Source, Next: ev.Next, Input: ev.Input, Cached: ev.Cached,
	}
	if ev.Err != nil {
		e.Error = ev.Err.Error()
	}
	if ev.Duration > 0 {
		e.Duration = ev.Duration.String()
	}
	if i := ev.Interrupt; i != nil {
		e.Interrupt = &question{ID: i.ID, Key: i.Key, Node: i.Node, Path: i.Path, When: i.When, Value: i.Raw, Schema: i.Schema}
	}
	return e
}

// finish prints the thread as it is after a run, and says how to go on.
func (a *app) finish(s *snapshot, f *runFlags, runErr error) error {
	if runErr != nil {
		s.Error = runErr.Error()
	}
	on := fmt.Sprintf("%s continue %s%s --thread %s", a.name, quote(s.Graph), a.placeArg(), quote(s.Thread))
	stopped := Code(runErr) == ExitStopped
	if runErr != nil && !stopped {
		// The state was not the aim; the error is.
		if a.json {
			if err := a.print(s, f); err != nil {
				return err
			}
		}
		var node *graph.NodeError
		var usage *usageError
		if s.Status != "done" && s.Status != "interrupted" && s.Status != "waiting" && Code(runErr) != ExitBusy && !errors.As(runErr, &usage) {
			what := "when the cause is mended"
			if !errors.As(runErr, &node) {
				what = "to let the thread go on"
			}
			return Hint(runErr, "thread %s keeps what was done; %s:\n  %s", s.Thread, what, on)
		}
		return runErr
	}
	shown := *s
	if s.Output != nil && !a.json { // what a caller gets; the command state shows the rest
		shown.State = s.Output
	}
	if err := a.print(&shown, f); err != nil {
		return err
	}
	switch {
	case stopped && s.Status != "done" && s.Status != "interrupted" && s.Status != "waiting":
		if !a.json {
			a.console.Notef("Stopped. Go on with:\n  %s", on)
		}
		return ExitCode(ExitStopped)
	case s.Status == "interrupted":
		if len(s.Interrupts) == 0 && !a.json { // a server doesn't say what for
			a.console.Notef("It stands at a breakpoint, or waits for a time or an event. Go on with:\n  %s", on)
		}
		return ExitCode(ExitInterrupted)
	case s.Status == "waiting":
		if !a.json {
			a.console.Notef("It goes on when its time has come, or the event, by\n  %s runner%s", a.name, a.placeArg())
		}
		return ExitCode(ExitInterrupted)
	case s.Status == "done":
		return nil
	}
	if !a.json {
		a.console.Notef("Go on with:\n  %s", on)
	}
	return ExitCode(ExitError)
}

// print is show; after a stream it is one line of JSON, as the events were.
func (a *app) print(s *snapshot, f *runFlags) error {
	if len(f.stream) > 0 {
		return writeJSON(a.console.Out, struct {
			Type string `json:"type"`
			*snapshot
		}{"result", s}, false)
	}
	return a.show(s, f.full)
}
