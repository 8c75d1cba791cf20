package cli

import (
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

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/internal/plan"
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
	metadata              []string
	before, after         []string
}

func (f *runFlags) add(a *app, cmd *cobra.Command) {
	a.threadFlag(cmd, &f.thread)
	fs := cmd.Flags()
	fs.StringVar(&f.at, "at", "", "start at this checkpoint of the thread, on a new branch")
	fs.BoolVarP(&f.interactive, "interactive", "i", false, "ask the questions of the graph right here, until it is done")
	fs.StringSliceVar(&f.stream, "stream", nil, "print events as JSON lines while the graph runs: "+strings.Join(modeNames, ", "))
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show progress even where the standard error is no terminal")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	fs.BoolVar(&f.full, "full", false, "show the whole state")
	fs.IntVar(&f.maxSteps, "max-steps", 0, "how many supersteps the run may take")
	fs.IntVar(&f.concurrency, "concurrency", 0, "how many tasks run at a time")
	fs.DurationVar(&f.timeout, "timeout", 0, "end the run after this time; the thread can go on")
	fs.StringVar(&f.durability, "durability", "", "when checkpoints are stored: sync, async or exit")
	fs.StringArrayVarP(&f.metadata, "metadata", "m", nil, "KEY=VALUE to store with the checkpoints")
	fs.StringSliceVar(&f.before, "interrupt-before", nil, "nodes to stop before")
	fs.StringSliceVar(&f.after, "interrupt-after", nil, "nodes to stop after")
	_ = cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(modeNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"sync", "async", "exit"}, cobra.ShellCompDirectiveNoFileComp))
}

// threadFlag adds the flag --thread.
func (a *app) threadFlag(cmd *cobra.Command, thread *string) {
	cmd.Flags().StringVarP(thread, "thread", "t", "", "the thread's ID")
	_ = cmd.RegisterFlagCompletionFunc("thread", a.completeThreads)
}

// completeThreads completes the ID of a thread.
func (a *app) completeThreads(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	store, end, err := a.open(cmd.Context(), false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer end()
	var out []string
	if l, ok := store.(checkpoint.Lister); ok {
		for info, err := range l.Threads(cmd.Context(), checkpoint.ThreadFilter{Prefix: prefix, Limit: 100}) {
			if err != nil {
				break
			}
			out = append(out, string(info.Thread))
		}
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

var modeNames = []string{"updates", "values", "messages", "custom", "tools", "tasks", "checkpoints", "debug"}

var modes = map[string]graph.Mode{
	"updates": graph.ModeUpdates, "values": graph.ModeValues, "messages": graph.ModeMessages, "custom": graph.ModeCustom, "tools": graph.ModeTools,
	"tasks": graph.ModeTasks, "checkpoints": graph.ModeCheckpoints, "debug": graph.ModeDebug,
}

// options turns flags into options of a call.
func (f *runFlags) options(store checkpoint.Store) ([]graph.Option, error) {
	opts := []graph.Option{graph.WithCheckpointer(store), graph.Thread(f.thread)}
	if f.at != "" {
		opts = append(opts, graph.From(f.at))
	}
	if f.maxSteps != 0 {
		opts = append(opts, graph.MaxSteps(f.maxSteps))
	}
	if f.concurrency != 0 {
		opts = append(opts, graph.Concurrency(f.concurrency))
	}
	if f.timeout < 0 {
		return nil, Usage("--timeout %v is negative", f.timeout)
	}
	if f.timeout > 0 {
		opts = append(opts, graph.RunTimeout(f.timeout))
	}
	if f.restart {
		opts = append(opts, graph.Restart())
	}
	switch f.durability {
	case "", "sync":
	case "async":
		opts = append(opts, graph.WithDurability(graph.Async))
	case "exit":
		opts = append(opts, graph.WithDurability(graph.Exit))
	default:
		return nil, Usage("--durability %q: use sync, async or exit", f.durability)
	}
	for _, kv := range f.metadata {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, Usage("--metadata %q: use KEY=VALUE", kv)
		}
		opts = append(opts, graph.Metadata(k, v))
	}
	if f.before != nil {
		opts = append(opts, graph.InterruptBefore(f.before...))
	}
	if f.after != nil {
		opts = append(opts, graph.InterruptAfter(f.after...))
	}
	return opts, nil
}

func (f *runFlags) modes() (graph.Mode, error) {
	var m graph.Mode
	for _, name := range f.stream {
		one, ok := modes[name]
		if !ok {
			e := &usageError{fmt.Errorf("unknown stream mode %q", name), "modes: " + strings.Join(modeNames, ", ")}
			if near := plan.Nearest(name, modeNames); near != "" {
				e.hint = fmt.Sprintf("did you mean %q? %s", near, e.hint)
			}
			return 0, e
		}
		m |= one
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

// updateArg is jsonArg for an update of the graph's state.
func updateArg(cmd *cobra.Command, t target, flag, arg string) (json.RawMessage, error) {
	data, err := jsonArg(cmd, flag, arg)
	if err != nil || data == nil {
		return nil, err
	}
	if err := t.check(data); err != nil {
		return nil, &usageError{fmt.Errorf("--%s does not fit the state of graph %q: %w", flag, t.info().name, err), ""}
	}
	return data, nil
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run GRAPH", GroupID: "run", Short: "Start a run of a graph",
		Long: `Start a run of a graph on a new thread, or on the thread given by --thread: an
ended thread starts a new turn on the state that it has, a pending one goes on
with the input added.

The input is an update of the state in JSON: fields are set, lists added to, maps
merged; {"$overwrite": value} replaces.

Ctrl-C stops the run at the end of its superstep, a second Ctrl-C at once. Either
way the thread can go on with "continue".`,
		Args: args(1, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.find(args[0])
			if err != nil {
				return err
			}
			input, err := updateArg(cmd, t, "input", f.input)
			if err != nil {
				return err
			}
			if input == nil {
				input = json.RawMessage(`{}`)
			}
			store, end, err := a.open(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer end()
			if f.thread == "" {
				f.thread = graph.NewThreadID()
			} else if rec, err := store.Head(cmd.Context(), checkpoint.Log{Thread: checkpoint.ThreadID(f.thread)}); err == nil {
				if other := a.owner(rec.Graph); other != nil && rec.Graph != t.info().own {
					return &usageError{fmt.Errorf("thread %q belongs to graph %q, not %q", f.thread, other.info().name, args[0]), "choose another ID for the new thread, or none"}
				}
			}
			return a.drive(cmd, store, t, f, func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
				return t.start(ctx, input, opts)
			})
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
			return a.withThread(cmd, args, f, func(store checkpoint.Store, t target) error {
				return a.drive(cmd, store, t, f, func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
					return t.start(ctx, nil, opts)
				})
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
			return a.withState(cmd, args, f, func(store checkpoint.Store, t target, s *snapshot) error {
				update, err := updateArg(cmd, t, "update", f.update)
				if err != nil {
					return err
				}
				var answer any
				switch {
				case f.answers != nil:
					if answer, err = answers(f.answers, s.Interrupts); err != nil {
						return err
					}
				case !slices.ContainsFunc(s.Interrupts, func(q question) bool { return q.When == "inside" }):
					// Breakpoints, or nothing: the engine says what that means.
				case a.console.CanAsk():
					f.interactive = true
					return a.drive(cmd, store, t, f, nil)
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
				return a.drive(cmd, store, t, f, func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
					return t.resume(ctx, answer, update, opts)
				})
			})
		},
	}
	f.add(a, cmd)
	cmd.Flags().StringArrayVarP(&f.answers, "answer", "a", nil, "the answer: JSON, or KEY=JSON where several questions are open")
	cmd.Flags().StringVar(&f.update, "update", "", "an update of the state to make first: JSON, @FILE or -")
	return cmd
}

// withThread opens the store and finds a thread that exists.
func (a *app) withThread(cmd *cobra.Command, args []string, f *runFlags, do func(store checkpoint.Store, t target) error) error {
	ctx := cmd.Context()
	store, end, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer end()
	t, thread, err := a.choose(ctx, store, args, f.thread)
	if err != nil {
		return err
	}
	f.thread = thread
	return do(store, t)
}

// withState is withThread that also loads the thread.
func (a *app) withState(cmd *cobra.Command, args []string, f *runFlags, do func(store checkpoint.Store, t target, s *snapshot) error) error {
	return a.withThread(cmd, args, f, func(store checkpoint.Store, t target) error {
		opts, err := f.options(store)
		if err != nil {
			return err
		}
		s, err := t.state(cmd.Context(), opts)
		if err != nil {
			return a.explain(err, f)
		}
		return do(store, t, s)
	})
}

// explain adds advice to errors about checkpoints.
func (a *app) explain(err error, f *runFlags) error {
	if f.at != "" && errors.Is(err, checkpoint.ErrNotFound) {
		return Hint(fmt.Errorf("thread %q has no checkpoint %q: %w", f.thread, f.at, err), "%s history%s --thread %s --all-branches lists them", a.name, a.storeArg(), quote(f.thread))
	}
	return err
}

// drive runs a graph, shows what happens, and prints the thread as it then is.
// In an interactive run it asks and goes on until the thread waits for nothing;
// begin may then be nil.
func (a *app) drive(cmd *cobra.Command, store checkpoint.Store, t target, f *runFlags, begin func(context.Context, []graph.Option) iter.Seq2[graph.Event, error]) error {
	if f.interactive && !a.console.CanAsk() {
		return &usageError{errors.New("there is no terminal to ask at"), "leave --interactive out, and answer with resume --answer"}
	}
	mode, err := f.modes()
	if err != nil {
		return err
	}
	opts, err := f.options(store)
	if err != nil {
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

	for {
		var runErr error
		if begin != nil {
			all := append(opts[:len(opts):len(opts)], graph.Drain(drain), graph.LiveOrder(), graph.Modes(mode, progressModes))
			runErr = a.consume(t, begin(ctx, all), mode, len(f.stream) > 0, show)
		}
		if f.at != "" { // the branch is there now
			f.at = ""
			if opts, err = f.options(store); err != nil {
				return err
			}
		}
		// What is stored is what counts, whatever has become of the context.
		look := context.WithoutCancel(ctx)
		s, err := t.state(look, []graph.Option{graph.WithCheckpointer(store), graph.Thread(f.thread)})
		if err != nil {
			if runErr != nil {
				return a.explain(runErr, f)
			}
			return err
		}
		var refused *graph.AnswerError
		if f.interactive && (runErr == nil || errors.As(runErr, &refused)) && len(s.Interrupts) > 0 {
			if refused != nil {
				c.Notef("%s", console.Clean(runErr.Error()))
			}
			asking, cancel := context.WithCancelCause(ctx)
			go func() {
				select {
				case <-drain:
					cancel(console.ErrStopped)
				case <-asking.Done():
				}
			}()
			given, err := a.prompt(asking, s)
			cancel(nil)
			if err == nil {
				begin = func(ctx context.Context, opts []graph.Option) iter.Seq2[graph.Event, error] {
					return t.resume(ctx, given, nil, opts)
				}
				continue
			}
			if !errors.Is(err, console.ErrStopped) && !errors.Is(err, console.ErrNoAnswer) {
				return err
			}
		}
		return a.finish(s, f, runErr)
	}
}

// progressModes are the events that the progress display needs.
const progressModes = graph.ModeDebug

// consume shows the events of a run and returns its error.
func (a *app) consume(t target, events iter.Seq2[graph.Event, error], mode graph.Mode, stream, show bool) (err error) {
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
			p.event(ev)
		}
		if stream && wanted(ev.Type, mode) {
			e := eventJSON(&ev)
			if e.State, err = t.eventState(ev); err != nil {
				return err
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
	for m, types := range map[graph.Mode][]graph.EventType{
		graph.ModeUpdates &^ graph.ModeValues: {graph.EventUpdate},
		graph.ModeValues &^ graph.ModeUpdates: {graph.EventValues},
		graph.ModeUpdates & graph.ModeValues:  {graph.EventInterrupt},
		graph.ModeMessages:                    {graph.EventMessage},
		graph.ModeCustom:                      {graph.EventCustom},
		graph.ModeTools:                       {graph.EventToolCall, graph.EventToolResult},
		graph.ModeTasks:                       {graph.EventTaskStart, graph.EventTaskEnd, graph.EventTaskError, graph.EventTaskRetry},
		graph.ModeCheckpoints:                 {graph.EventCheckpoint},
	} {
		if slices.Contains(types, t) {
			return mode&m == m
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
	on := fmt.Sprintf("%s continue %s%s --thread %s", a.name, quote(s.Graph), a.storeArg(), quote(s.Thread))
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
	if err := a.print(s, f); err != nil {
		return err
	}
	switch {
	case stopped && s.Status != "done" && s.Status != "interrupted" && s.Status != "waiting":
		if !a.json {
			a.console.Notef("Stopped. Go on with:\n  %s", on)
		}
		return ExitCode(ExitStopped)
	case s.Status == "interrupted":
		return ExitCode(ExitInterrupted)
	case s.Status == "waiting":
		if !a.json {
			a.console.Notef("It goes on when its time has come, or the event, by\n  %s runner%s", a.name, a.storeArg())
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
