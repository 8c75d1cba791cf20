package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/tool"
)

// Option is a setting of the commands.
type Option func(*app)

// app is what the commands of one program share.
type app struct {
	name, short, version string
	graphs               []*compiled
	demo                 []*compiled // see Demo
	serverOptions        []server.Option
	serveFlags           []serviceFlags
	everywhere           *pflag.FlagSet    // the flags of all commands
	each                 []graph.RunOption // see EachRun
	embedder             openEmbedder      // nil: there are no flags for an index
	index                indexing
	items                memory.Store // nil: that beside the threads
	commands             []*cobra.Command
	tools                []tool.Tool // see Tools
	dialogues            Dialogues
	evaluations          Evaluations
	grades               bool                          // it has evaluations
	ends                 []func(context.Context) error // see AtEnd
	closes               []func() error                // see atClose
	store                checkpoint.Store
	url                  string
	openers              map[string]func(ctx context.Context, url string) (checkpoint.Store, error)
	problems             []error

	storeFlag  string
	storeGiven bool   // on the command line
	urlFlag    string // of a server
	json       bool
	console    *console.Console
}

// Graph makes a compiled graph known to the commands, by its name. Whatever
// checkpointer it was compiled with, the commands use the store that they are
// told; see [UseStore].
func Graph[S any](g *graph.Graph[S], opts ...GraphOption) Option {
	return func(a *app) {
		if g == nil {
			a.problems = append(a.problems, errors.New("cli.Graph was given no graph"))
			return
		}
		t := &compiled{Graph: graph.JSON(g), about: about{name: g.Name(), own: g.Name()}}
		for _, o := range opts {
			o(&t.about)
		}
		t.served = server.Graph(g, server.Named(t.name), server.Describe(t.description))
		if err := memory.CheckGraph(g); err != nil {
			a.problems = append(a.problems, err)
		}
		if a.lookup(t.name) != nil {
			a.problems = append(a.problems, fmt.Errorf("two graphs are named %q: rename one with cli.Named", t.name))
			return
		}
		a.graphs = append(a.graphs, t)
	}
}

// GraphOption is a setting of one graph.
type GraphOption func(*about)

// about is what is known of a graph beside itself.
type about struct {
	name        string
	own         string // name that the graph was built with: what records hold
	description string
	example     string
	unserved    bool
}

// Named makes a graph known by another name than its own.
func Named(name string) GraphOption { return func(a *about) { a.name = name } }

// Describe says in a sentence what a graph does.
func Describe(description string) GraphOption { return func(a *about) { a.description = description } }

// Unserved keeps a graph from the command serve, such as one that other commands of
// the program start and that reads files of the machine.
func Unserved() GraphOption { return func(a *about) { a.unserved = true } }

// ExampleInput is an input in JSON that the help shows.
func ExampleInput(json string) GraphOption { return func(a *about) { a.example = json } }

// Program sets the name of the program in help and messages, and says in a
// sentence what it does. The default is the name of its file.
func Program(name, short string) Option {
	return func(a *app) { a.name, a.short = name, short }
}

// Version sets what --version shows. The default is the version of the main
// module, if the program was built with one.
func Version(v string) Option { return func(a *app) { a.version = v } }

// Command adds commands of the program's own. One named chat takes the place of
// that of this package.
func Command(cmds ...*cobra.Command) Option {
	return func(a *app) { a.commands = append(a.commands, cmds...) }
}

// UseStore makes the commands use a store of the program's own unless --store
// says otherwise. It is the program's to close.
func UseStore(s checkpoint.Store) Option { return func(a *app) { a.store = s } }

// DefaultStore changes where threads are kept unless --store says otherwise.
func DefaultStore(url string) Option { return func(a *app) { a.url = url } }

// OpenStore adds a kind of store: open is called for values of --store that
// begin with the scheme and a colon.
func OpenStore(scheme string, open func(ctx context.Context, url string) (checkpoint.Store, error)) Option {
	return func(a *app) { a.openers[scheme] = open }
}

// storeEnv is the environment variable that says where threads are kept unless
// --store does.
const storeEnv = "SUPERSTEP_STORE"

// The exit codes.
const (
	ExitDone        = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitInterrupted = 3 // the thread waits for answers, a time or an event
	ExitStopped     = 4 // by a signal; the thread can go on
	ExitBusy        = 5 // another run has the thread
)

// ExitCode is an error that ends a command with that code. Nothing is printed
// for it: the command has said what there is to say.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Usage returns an error that says that the command line is wrong.
func Usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...), ""} }

// Hint adds to an error what to do about it. It is printed below the error.
func Hint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// Main runs the commands with the arguments of the process, and ends it: what was
// deferred is not called. A program that has to clean up, such as to send its last
// spans, uses [Run] and ends itself with the code.
func Main(opts ...Option) {
	os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, opts...))
}

// Run runs the commands with these arguments and streams, and returns the exit
// code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, opts ...Option) int {
	a := newApp(opts...)
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	code := report(cmd, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	for _, end := range slices.Backward(a.ends) {
		if err := end(ctx); err != nil {
			fmt.Fprintf(stderr, "%s: at the end: %v\n", root.Name(), err)
			code = max(code, ExitError)
		}
	}
	return code
}

// endWithin is how long all functions of [AtEnd] may take.
const endWithin = 10 * time.Second

// EachRun gives options to each run that the commands begin or go on with, here or as a
// server, such as the one by which it is traced: [graph.Trace] or that of package otel.
// Several of them add up.
func EachRun(opts ...graph.RunOption) Option {
	return func(a *app) { a.each = append(a.each, opts...) }
}

// AtEnd has a function called when [Main] or [Run] is over, whatever came of the command:
// to send what an exporter of traces still holds, say (its Shutdown). Those that were given
// last come first, and all have ten seconds. An error is told, and makes the exit code of a
// command that worked 1. It is of no use with [New], whose caller knows the end.
func AtEnd(f func(context.Context) error) Option {
	return func(a *app) { a.ends = append(a.ends, f) }
}

// New returns the commands as a cobra command. Whoever executes it decides what
// to do with its errors; [Code] tells the exit code that belongs to one.
func New(opts ...Option) *cobra.Command { return newApp(opts...).root() }

func newApp(opts ...Option) *app {
	a := &app{
		name: "superstep", short: "Run workflow graphs and look at their threads.",
		url: "sqlite:superstep.db", openers: map[string]func(context.Context, string) (checkpoint.Store, error){},
	}
	if len(os.Args) > 0 && os.Args[0] != "" {
		a.name = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		a.version = info.Main.Version
	}
	if url := os.Getenv(storeEnv); url != "" {
		a.storeFlag = url
	}
	for _, o := range opts {
		o(a)
	}
	return a
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: a.name, Short: a.short, Version: a.version,
		Long:          a.long(),
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: noSuchCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.console = console.New(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err := errors.Join(a.problems...); err != nil {
				return err
			}
			if f := cmd.Flags().Lookup("thread"); f != nil && f.Changed && f.Value.String() == "" {
				return &usageError{errors.New("--thread is empty"), "is a variable unset? Name a thread, or leave the flag out"}
			}
			cmd.SetContext(context.WithValue(cmd.Context(), appKey{}, a))
			return a.checkURL(cmd)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err, fmt.Sprintf("%s --help shows the flags", cmd.CommandPath())}
	})
	root.PersistentFlags().StringVarP(&a.storeFlag, "store", "s", a.storeFlag, "where threads are kept: sqlite:PATH, file:DIR, postgres://…, redis://…, s3://… or memory (default "+a.storeName()+")")
	root.PersistentFlags().Lookup("store").DefValue = ""
	root.PersistentFlags().StringVarP(&a.urlFlag, "url", "u", "", "a server in the place of a store: http://… (default $"+urlEnv+"); its API key is in $"+keyEnv)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, for other programs")
	_ = root.RegisterFlagCompletionFunc("store", cobra.FixedCompletions([]string{"sqlite:", "file:", "postgres://", "redis://", "s3://", "memory"}, cobra.ShellCompDirectiveNoSpace))
	a.everywhere = root.PersistentFlags()
	root.AddGroup(&cobra.Group{ID: "run", Title: "Running:"}, &cobra.Group{ID: "look", Title: "Looking:"}, &cobra.Group{ID: "edit", Title: "Changing:"})
	root.AddCommand(
		a.runCommand(), a.resumeCommand(), a.continueCommand(), a.serveCommand(), a.mcpCommand(), a.runnerCommand(), a.eventsCommand(),
		a.graphsCommand(), a.threadsCommand(), a.stateCommand(), a.historyCommand(), a.diffCommand(), a.statsCommand(), a.drawCommand(),
		a.forkCommand(), a.updateCommand(), a.copyCommand(), a.pruneCommand(), a.repairCommand(), a.deleteCommand(),
	)
	root.AddCommand(a.doctorCommand(), a.exportCommand(), a.importCommand(), a.replayCommand(), a.dialogueCommand(), a.evalCommand())
	for _, cmd := range root.Commands() {
		if slices.Contains(overServer, cmd.Name()) {
			OverServer(cmd)
		}
	}
	if !slices.ContainsFunc(a.commands, func(c *cobra.Command) bool { return c.Name() == "chat" }) {
		root.AddCommand(a.chatCommand())
	}
	addExamples(root, root)
	a.closing(root)
	root.AddCommand(a.commands...)
	return root
}

// closing has what a command, or one below it, has opened closed when it is over.
func (a *app) closing(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			defer a.close()
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		a.closing(sub)
	}
}

// atClose has f called when the command is over, before what was opened earlier is closed.
// Its error comes too late to matter: what was written is stored.
func (a *app) atClose(f func() error) { a.closes = append(a.closes, f) }

func (a *app) close() {
	for _, f := range slices.Backward(a.closes) {
		_ = f()
	}
	a.closes = nil
}

// overServer are the commands that work over a server as well as on a store.
var overServer = []string{"run", "resume", "continue", "graphs", "threads", "state", "history", "diff", "draw", "fork", "update", "copy", "delete"}

// appKey is where contexts of commands have the app.
type appKey struct{}

// noSuchCommand runs a command that has only subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return unknown(fmt.Errorf("unknown command %q", args[0]), args[0], names, cmd.CommandPath()+" --help lists the commands")
}

// Group returns a command that holds others.
func Group(use, short string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: noSuchCommand}
	c.AddCommand(cmds...)
	return c
}

func (a *app) long() string {
	var b strings.Builder
	b.WriteString(a.short)
	b.WriteString("\n\nThreads are kept in a store, so that a run that was stopped, killed or that waits\nfor an answer can go on later.")
	if len(a.graphs) > 0 {
		b.WriteString("\n\nGraphs: ")
		b.WriteString(strings.Join(a.graphNames(), ", "))
	}
	b.WriteString("\n\nExit codes: 0 done, 1 error, 2 wrong command line, 3 the thread waits for answers,\na time or an event, 4 stopped by Ctrl-C and able to go on, 5 the thread is in use by\nanother run.")
	return b.String()
}

func (a *app) graphNames() []string {
	var names []string
	for _, g := range a.graphs {
		names = append(names, g.name)
	}
	return names
}

func (a *app) lookup(name string) *compiled {
	return a.which(func(t *compiled) bool { return t.name == name })
}

// owner returns the graph that a record was written by.
func (a *app) owner(own string) *compiled {
	return a.which(func(t *compiled) bool { return t.own == own })
}

// which returns the first graph of which something is true; those for --demo come
// last.
func (a *app) which(is func(*compiled) bool) *compiled {
	for _, list := range [][]*compiled{a.graphs, a.demo} {
		if i := slices.IndexFunc(list, is); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// graphName returns the name that this program knows a record's graph by.
func (a *app) graphName(own string) string {
	if t := a.owner(own); t != nil {
		return t.name
	}
	return own
}

// find returns the graph of that name, or an error that names the nearest.
func (a *app) find(name string) (*compiled, error) {
	if t := a.lookup(name); t != nil {
		return t, nil
	}
	if len(a.graphs) == 0 {
		return nil, &usageError{errors.New("this program has no graphs"), "register one: cli.Main(cli.Graph(g))"}
	}
	names := a.graphNames()
	return nil, unknown(fmt.Errorf("unknown graph %q", name), name, names, "graphs: "+strings.Join(names, ", "))
}

// completeGraph completes the name of a graph as the first argument.
func (a *app) completeGraph(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, g := range a.graphs {
		out = append(out, cobra.CompletionWithDesc(g.name, g.description))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
