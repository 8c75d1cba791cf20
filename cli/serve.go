package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/a2a"
	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
)

// Demo adds graphs for the flag --demo of the command serve, which show what the
// server can do. The assistant of [Dialogues.Demo] is served beside them.
func Demo(graphs ...Option) Option {
	return func(a *app) {
		for _, g := range graphs {
			demo := &app{}
			g(demo)
			a.demo = append(a.demo, demo.graphs...)
			a.problems = append(a.problems, demo.problems...)
		}
	}
}

// Server sets how the command serve serves: who is let in, what they may do, where
// changes are logged, limits.
//
//	cli.Main(
//		cli.Graph(g),
//		cli.Server(server.Authorize(server.OwnedByUser()), server.MaxRuns(64)),
//	)
//
// With [server.JWT] or [server.Authenticate] the API keys of the environment are
// one way more to be let in, and the command may listen for other machines without
// them. Where it keeps everything is what --store says, not [server.Data], unless
// the program has a store of its own, see [UseStore]; the long-term memory is that of
// [UseMemory]; the graphs are those of [Graph]. Several of these options add up.
func Server(opts ...server.Option) Option {
	return func(a *app) { a.serverOptions = append(a.serverOptions, opts...) }
}

// ServeFlags adds flags to serve and dialogue serve which say, in options of a server, what
// [Server] says in the program: who does the runs, say. add defines them, once for each of
// the two commands, and returns a function that is called when the server is about to begin,
// after the flags were read; errors that it makes by [Usage] and [Hint] are as those of the
// command's own flags.
//
// What the command tells by such options goes over what the program tells by [Server]. A
// flag that the command has already is an error. Several of these options add up.
func ServeFlags(add func(*pflag.FlagSet) func(context.Context, Service) ([]server.Option, error)) Option {
	return func(a *app) {
		if add == nil {
			a.problems = append(a.problems, errors.New("cli.ServeFlags was given no function"))
			return
		}
		a.serveFlags = append(a.serveFlags, add)
	}
}

type (
	serviceFlags   = func(*pflag.FlagSet) serviceOptions
	serviceOptions = func(context.Context, Service) ([]server.Option, error)
)

// Service is what the functions of [ServeFlags] are told of the server that is about to begin.
type Service struct {
	// Data is where the server keeps everything, as [server.Data] takes it, maybe with a
	// password. It is empty where the program has a store of its own: see [UseStore].
	Data string

	Dispatched bool // there is a server.Dispatch already: of the program, or by another's flags

	Log *slog.Logger // the server's
}

// serving is what the command serve was told.
type serving struct {
	host     string
	port     int
	chosen   bool // the port was
	log      slog.Handler
	anyone   bool
	keysEnv  string // the environment's variable with the API keys
	mustKeys bool   // it was named
	origins  []string
	demo     bool
	webhooks bool
	a2a      bool
	patience time.Duration
	threads  time.Duration // how long they are kept
	items    time.Duration
	program  []serviceOptions
}

// keysVariable has API keys, unless another variable is named.
const keysVariable = "SUPERSTEP_API_KEYS"

// apiKeys reads API keys, which are separated by commas.
func (o *serving) apiKeys() ([]string, error) {
	var keys []string
	for key := range strings.SplitSeq(os.Getenv(o.keysEnv), ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	for i, key := range keys {
		if len(key) < shortKey {
			return nil, Hint(Usage("API key %d of %s has fewer than %d characters and could be guessed", i+1, o.keysEnv, shortKey), "make one: openssl rand -hex 32")
		}
	}
	if len(keys) == 0 && o.mustKeys {
		return nil, Hint(Usage("the variable %s, which --api-keys-env names, has no API keys", o.keysEnv), "set it to one or more keys, separated by commas")
	}
	return keys, nil
}

// shortKey is of fewer characters than a key should have.
const shortKey = 16

// defaultPort is that of LangGraph's server, which its clients try.
const defaultPort = 8123

// portsTried is how many ports are tried when none was chosen.
const portsTried = 20

func (a *app) serveCommand() *cobra.Command {
	var o serving
	cmd := &cobra.Command{
		Use: "serve", GroupID: "run", Short: "Serve the graphs over HTTP, in the protocol of LangGraph's clients",
		Long: `Serve the graphs over HTTP, in the protocol of LangGraph's server: its JavaScript and
Python clients, its React hooks, RemoteGraph and Agent Chat UI work with it.

Threads are kept in the store that --store names, SQLite or PostgreSQL; assistants,
runs and crons beside them. Runs go on when their client leaves, and after the server
was killed and started again.

With API keys in SUPERSTEP_API_KEYS, separated by commas, clients must send one of them,
as the header x-api-key or Authorization: Bearer; all but /ok, /ready and /info needs it.
Several keys are for changing them without a break. Without keys the server listens on
this machine only, unless --allow-anyone says otherwise. Keys are not encrypted on their
way: put a proxy with TLS in front of a server that others reach.

Without keys the pages that may use the server are its own and those of this machine,
such as http://localhost:3000, and requests must be for a name of this machine, as
localhost or 127.0.0.1. --allow-origin https://agents.example.com allows a page and a name
more, such as that of a proxy.

Ctrl-C and SIGTERM let runs finish the superstep that they are in.`,
		Args: args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.chosen, o.mustKeys = cmd.Flags().Changed("port"), cmd.Flags().Changed("api-keys-env")
			o.log = slog.NewTextHandler(cmd.ErrOrStderr(), nil)
			graphs, err := a.toServe(o.demo)
			if err != nil {
				return err
			}
			return a.listen(cmd.Context(), o, graphs...)
		},
	}
	if len(a.demo) > 0 {
		cmd.Flags().BoolVar(&o.demo, "demo", false, "serve example graphs as well")
	}
	o.add(a, cmd)
	return cmd
}

// add adds the flags of commands that serve.
func (o *serving) add(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.host, "host", "127.0.0.1", "the address to listen on")
	f.IntVarP(&o.port, "port", "p", defaultPort, "the port; 0 takes a free one")
	f.BoolVar(&o.anyone, "allow-anyone", false, "listen for other machines although there is no authentication")
	f.StringVar(&o.keysEnv, "api-keys-env", keysVariable, "the variable of the environment that has the API keys")
	f.StringSliceVar(&o.origins, "allow-origin", nil, "an origin whose pages may use the server, such as https://chat.example.com, or * for all; may be repeated (default: with keys all, without them those of this machine)")
	f.BoolVar(&o.a2a, "a2a", false, "serve the assistants to agents that speak A2A as well, at /a2a/ASSISTANT")
	f.BoolVar(&o.webhooks, "private-webhooks", false, "let webhooks of runs go to this machine and its network")
	f.DurationVar(&o.patience, "drain", 30*time.Second, "how long runs may take to finish their superstep at the end")
	f.DurationVar(&o.threads, "keep-threads", 0, "remove threads that nothing has changed for this long, such as 720h; 0 keeps them")
	f.DurationVar(&o.items, "keep-items", 0, "how long items of the long-term memory live that are put without a time of their own; 0 is for ever")
	a.indexFlags(cmd)
	for _, add := range a.serveFlags {
		o.addOf(a, cmd, add)
	}
}

// addOf adds flags of the program's.
func (o *serving) addOf(a *app, cmd *cobra.Command, add serviceFlags) {
	cmd.InitDefaultHelpFlag()
	taken := func(f *pflag.Flag, by *pflag.FlagSet) bool {
		return by.Lookup(f.Name) != nil || f.Shorthand != "" && by.ShorthandLookup(f.Shorthand) != nil
	}
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	if options := add(own); options != nil {
		o.program = append(o.program, options)
	}
	own.VisitAll(func(f *pflag.Flag) {
		if taken(f, cmd.Flags()) || taken(f, a.everywhere) {
			a.problems = append(a.problems, fmt.Errorf("cli.ServeFlags defines --%s, and %q has that flag or its letter already: was the option given twice?", f.Name, cmd.Use))
			return
		}
		cmd.Flags().AddFlag(f)
	})
}

// options are those of a server that the program and its flags say.
func (o *serving) options(ctx context.Context, a *app) ([]server.Option, error) {
	opts := slices.Clone(a.serverOptions)
	s := Service{Log: slog.New(o.log)}
	if !a.ownStore() {
		s.Data = a.storeURL()
	}
	for _, of := range o.program {
		s.Dispatched = server.Dispatches(opts...)
		more, err := of(ctx, s)
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	return opts, nil
}

// forOthers returns the graphs that serve and mcp serve, with those for --demo if they are
// wanted.
func (a *app) forOthers(demo bool) (list []*compiled) {
	list = slices.Clone(a.graphs)
	if demo {
		list = append(list, a.demo...)
	}
	return slices.DeleteFunc(list, func(g *compiled) bool { return g.unserved })
}

// toServe returns the graphs of the command serve.
func (a *app) toServe(demo bool) ([]server.Option, error) {
	var graphs []server.Option
	for _, g := range a.forOthers(demo) {
		graphs = append(graphs, g.served)
	}
	if demo && a.dialogues.Demo != nil {
		c, err := a.dialogues.Demo()
		if err != nil {
			return nil, err
		}
		speaks, err := assistants.New(c)
		if err != nil {
			return nil, err
		}
		graphs = append(graphs, spoken(speaks))
	}
	if len(graphs) == 0 {
		return nil, a.nothingToServe("serve")
	}
	return graphs, nil
}

// listen serves graphs.
func (a *app) listen(ctx context.Context, o serving, graphs ...server.Option) error {
	if o.port < 0 || o.port > 65535 {
		return Usage("--port must be between 0 and 65535")
	}
	keys, err := o.apiKeys()
	if err != nil {
		return err
	}
	program, err := o.options(ctx, a)
	if err != nil {
		return err
	}
	if server.HasMemory(program...) {
		return errors.New("cli.Server was given server.UseMemory or server.MemoryConfig, which the other commands would not have: give the memory to cli.UseMemory, with an index if it is to have one")
	}
	open := len(keys) == 0 && !server.Authenticates(program...)
	if !o.anyone && open && !thisMachine(o.host) {
		host := "--host " + o.host
		if o.host == "" {
			host = "an empty --host, which is every address of this machine,"
		}
		return Hint(Usage("%s would let other machines in, and there is no authentication", host),
			"set %s to the API keys that clients must have, put a proxy that authenticates in front of --host 127.0.0.1, or pass --allow-anyone", o.keysEnv)
	}
	index, err := a.indexed()
	if err != nil {
		return err
	}
	l, err := bind(o.host, o.port, o.chosen)
	if err != nil {
		return err
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr)
	if !o.chosen && at.Port != o.port {
		a.console.Notef("Port %d is taken: using %d.", o.port, at.Port)
	}
	opts := []server.Option{server.Logger(slog.New(o.log)), server.EachRun(a.each...)}
	if a.ownStore() {
		opts = append(append(opts, server.Data("memory"), server.UseStore(a.store)), program...)
	} else {
		opts = append(append(opts, program...), server.Data(a.storeURL()))
	}
	if open && at.IP.IsLoopback() {
		opts = append(opts, server.LocalHosts(o.host))
	}
	if len(keys) > 0 {
		opts = append(opts, server.APIKeys(keys...))
		a.console.Notef("Clients need an API key.")
	}
	if len(o.origins) > 0 {
		opts = append(opts, server.AllowOrigins(o.origins...))
	}
	if o.items < 0 || o.items > 0 && a.items != nil {
		return Usage("--keep-items must be a positive time, and is for the memory that this command opens: the program's own has a TTL of its own")
	}
	if index != nil || o.items > 0 {
		opts = append(opts, server.MemoryConfig(memory.Config{Index: index, TTL: o.items}))
	}
	if o.threads != 0 {
		opts = append(opts, server.KeepThreads(o.threads))
	}
	if a.items != nil {
		opts = append(opts, server.UseMemory(a.items))
	}
	if o.webhooks {
		opts = append(opts, server.AllowPrivateWebhooks())
	}
	grader, err := a.grader()
	if err != nil {
		return err
	}
	s, err := server.New(ctx, slices.Concat(opts, graphs, grader)...)
	if err != nil {
		return err
	}
	return a.serveOn(ctx, s, l, o)
}

// nothingToServe says what to do where there are no graphs to serve.
func (a *app) nothingToServe(command string) error {
	switch {
	case len(a.demo) > 0:
		return &usageError{errors.New("there is nothing to serve: the graphs of this program are examples and those of its other commands"),
			a.name + " " + command + " --demo serves examples; graphs of yours are served by a program of yours, with cli.Main(cli.Graph(g))"}
	case len(a.graphs) > 0:
		return &usageError{errors.New("there is nothing to serve: all graphs of this program are cli.Unserved"), "register another: cli.Main(cli.Graph(g))"}
	}
	return &usageError{errors.New("this program has no graphs"), "register one: cli.Main(cli.Graph(g))"}
}

// thisMachine reports whether only this machine reaches what listens there.
func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bind listens on a port, or on one of the next if that is taken and nobody has
// chosen it.
func bind(host string, port int, chosen bool) (net.Listener, error) {
	for try := port; ; try++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(try)))
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
		if chosen || try == port+portsTried {
			return nil, Hint(fmt.Errorf("port %d is taken", try), "choose another with --port, or let the system choose with --port 0")
		}
	}
}

// serveOn serves until it is told to stop.
func (a *app) serveOn(ctx context.Context, s *server.Server, l net.Listener, o serving) error {
	ctx, drain, end := console.Stops(ctx, func(bool) {})
	defer end()
	var handler http.Handler = s
	if o.a2a {
		handler = a2a.Handler(s, a2a.Options{})
	}
	h := server.HTTPServer(handler)
	h.ErrorLog = slog.NewLogLogger(o.log, slog.LevelWarn)
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	url := "http://" + l.Addr().String()
	if a.json {
		if err := writeJSON(a.console.Out, map[string]string{"url": url}, false); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.console.Out, "Serving at %s\nStudio:    %s/studio/\n", url, url)
		a.console.Notef("Threads are kept in %s. Ctrl-C stops.", a.storeName())
	}
	var err error
	select {
	case err = <-failed:
	case <-drain:
		if !a.json {
			a.console.Notef("Stopping: runs finish their superstep.")
		}
	case <-ctx.Done():
	}
	// Streams end when their runs have stopped, and then the server can.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.patience)
	defer cancel()
	go func() {
		<-ctx.Done() // a second Ctrl-C
		cancel()
	}()
	s.Drain(wait)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if shut := h.Shutdown(closing); shut != nil {
		h.Close()
	}
	return errors.Join(err, s.Close(closing))
}
