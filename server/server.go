package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	memorypostgres "github.com/superstep-dev/superstep/memory/postgres"
	memorysqlite "github.com/superstep-dev/superstep/memory/sqlite"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/studio"
)

// Server serves graphs. It is an http.Handler, safe for concurrent use.
type Server struct {
	*base
	instances  *instances
	sleepers   *sleepers
	crons      *crons
	threads    *threads
	items      *items
	hooks      *hooks
	assistants *assistants
	dispatcher *dispatcher

	routes  []route
	handler http.Handler
	closers []io.Closer
	stop    context.CancelFunc // of what runs beside requests
	closed  atomic.Bool
}

// base is what the parts of a server share: what it serves, and where that is kept.
type base struct {
	graphs   map[string]*served
	names    []string   // of the graphs, in the order registered
	dialogue *spokenFor // nil: none is served
	store    checkpoint.Store
	joint    *postgres.Store // the store, where it shares a database with db; nil: it doesn't
	memory   memory.Store
	db       *db.DB
	log      *slog.Logger
	limits   Limits
	keep     time.Duration // of threads; 0: for ever
	each     []graph.RunOption
	metrics  *metrics
	version  string
	began    time.Time
	instance string // names the server among those that share its database

	feeds *feeds

	look chan struct{} // for other instances, and what they ask of this one
	soon atomic.Bool   // something may be due that wasn't when it was last looked

	beside    sync.WaitGroup // what runs beside requests
	besideCtx context.Context
}

// served is a graph that is registered.
type served struct {
	*graph.Graph[json.RawMessage]
	name        string // by which clients know it
	description string
	title       string // where its threads have theirs; empty: the first message

	input, config func() (*shape, error) // what it takes: found once

	// compile returns what a run is of, if each has its own.
	compile func(context.Context, RunRequest) (*graph.Graph[json.RawMessage], error)
}

type (
	snapshot = graph.Snapshot[json.RawMessage]
	entry    = graph.Entry[json.RawMessage]
)

// Option is a setting of a server.
type Option func(*config)

type config struct {
	graphs    []*served
	dialogue  *spokenFor
	data      string
	store     checkpoint.Store
	memory    memory.Store
	items     *memory.Config
	keep      time.Duration
	log       *slog.Logger
	maxBody   int64
	limits    Limits
	version   string
	parallel  int
	dispatch  func(*fleet.Worker) (fleet.Dispatcher, error) // nil: runs are done here
	openModel func(context.Context, *calls.Call) (model.Model, error)

	authenticators []func(context.Context) (authenticator, error)
	authorize      Authorizer
	reads          bool     // a function of the program's does, and maybe cookies
	issuers        []string // of tokens
	subjects       bool     // of an issuer are users
	origins        []string // nil: the default
	hosts          []string
	audit          *slog.Logger

	private    bool
	local      http.Handler
	silence    time.Duration
	lease      time.Duration
	replayTime time.Duration
	each       []graph.RunOption
	noStudio   bool
	pages      []publicPages
	metrics    bool
	problems   []error
}

// with returns the settings with options.
func (c config) with(opts []Option) config {
	for _, o := range opts {
		o(&c)
	}
	return c
}

// GraphOption is a setting of one graph.
type GraphOption func(*served)

// Graph serves a compiled graph by its name. Whatever checkpointer it was compiled
// with, the server's store is used.
func Graph[S any](g *graph.Graph[S], opts ...GraphOption) Option {
	return func(c *config) {
		if g == nil {
			c.problems = append(c.problems, errors.New("server.Graph was given no graph"))
			return
		}
		if err := memory.CheckGraph(g); err != nil {
			c.problems = append(c.problems, err)
		}
		s := &served{Graph: graph.JSON(g), name: g.Name()}
		s.input = sync.OnceValues(func() (*shape, error) { return shapeOf(s, graph.JSONInput) })
		s.config = sync.OnceValues(func() (*shape, error) { return shapeOf(s, graph.JSONConfig) })
		for _, o := range opts {
			o(s)
		}
		if err := s.checkTitle(); err != nil {
			c.problems = append(c.problems, err)
		}
		if slices.ContainsFunc(c.graphs, func(other *served) bool { return other.name == s.name }) {
			c.problems = append(c.problems, fmt.Errorf("two graphs are named %q: rename one with server.Named", s.name))
			return
		}
		c.graphs = append(c.graphs, s)
	}
}

// Named makes a graph known by another name than its own.
func Named(name string) GraphOption { return func(s *served) { s.name = name } }

// Describe says in a sentence what a graph does.
func Describe(description string) GraphOption {
	return func(s *served) { s.description = description }
}

// EachRun gives options to each run of every graph, such as the one by which it is traced:
// [graph.Trace] or that of package otel. Several of them add up; what a client asks for goes
// over them.
func EachRun(opts ...graph.RunOption) Option {
	return func(c *config) { c.each = append(c.each, opts...) }
}

// Data names the place for everything that the server keeps: "memory" (the
// default), "sqlite:PATH" or "postgres://…", with options as package
// checkpoint/stores describes them. Of PATH.db the server's own tables stand in
// PATH.server.db and the long-term memory in PATH.memory.db; in PostgreSQL all
// stand in one schema, and a run's end is stored in one transaction with its last checkpoint.
func Data(url string) Option { return func(c *config) { c.data = url } }

// UseStore keeps threads in a store of the caller's, who closes it, rather than
// where [Data] says.
func UseStore(s checkpoint.Store) Option { return func(c *config) { c.store = s } }

// UseMemory takes a long-term memory of the caller's, who closes it, rather than one
// where [Data] says: one with an index can be searched by meaning. It is what clients see
// at /store/items and what runs get from [memory.From]; a graph that was compiled with a
// memory of its own is refused.
func UseMemory(m memory.Store) Option { return func(c *config) { c.memory = m } }

// HasMemory reports whether options say which long-term memory a server has: [UseMemory] or
// [MemoryConfig] is one of them.
func HasMemory(opts ...Option) bool {
	c := config{}.with(opts)
	return c.memory != nil || c.items != nil
}

// MemoryConfig says what the long-term memory is like that the server opens where [Data]
// says. With an Index it can be searched by meaning: clients with a query, nodes with the
// Text of a [memory.Query]; items that were there before are found when they are put again.
// Its TTL is how long items live that are put without one.
func MemoryConfig(m memory.Config) Option { return func(c *config) { c.items = &m } }

// KeepThreads removes threads, with all that belongs to them, that nothing has changed for
// this long, unless their clients say how long to keep them. A run changes its thread when
// it ends: one that works for longer is stopped, and goes too. The default, 0, keeps threads
// for ever. Threads that were there before are kept as they were.
func KeepThreads(d time.Duration) Option { return func(c *config) { c.keep = d } }

// Logger sets where the server logs. The default is slog's default logger.
func Logger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// MaxBody limits the bytes of a request's body. The default is 16 MB.
func MaxBody(bytes int64) Option { return func(c *config) { c.maxBody = bytes } }

// MaxRuns limits how many runs work at a time in this process; more wait. The
// default is 1024.
func MaxRuns(n int) Option { return func(c *config) { c.parallel = n } }

// WithoutStudio leaves out the studio, the page at /studio/ on which people see and
// drive the graphs.
func WithoutStudio() Option { return func(c *config) { c.noStudio = true } }

// publicPages are what the program has beside the API for everybody to read.
type publicPages struct {
	prefix  string
	handler http.Handler
}

// studioPages is where the studio is.
const studioPages = "/studio/"

// Pages serves pages of the program's own below a path such as "/docs/", as package
// docs/site has them: h gets requests with their whole path. Everybody may read them, with
// credentials or without, and pages of other sites may link to them, as with the studio. They
// are of the server's origin, so that what runs in them may use it: they must be as
// trustworthy as the program. What the server itself answers below the path comes first.
func Pages(prefix string, h http.Handler) Option {
	return func(c *config) {
		first, _, _ := strings.Cut(strings.TrimPrefix(prefix, "/"), "/")
		switch {
		case h == nil:
			c.problems = append(c.problems, fmt.Errorf("server.Pages(%q) was given no handler", prefix))
		case !strings.HasPrefix(prefix, "/") || path.Clean(prefix)+"/" != prefix || first == "" || strings.ContainsAny(prefix, "{} "):
			c.problems = append(c.problems, fmt.Errorf("server.Pages(%q): give a path with / at both ends, such as /docs/", prefix))
		case slices.ContainsFunc(c.pages, func(p publicPages) bool { return p.prefix == prefix }):
			c.problems = append(c.problems, fmt.Errorf("server.Pages(%q) was given twice", prefix))
		default:
			c.pages = append(c.pages, publicPages{prefix, h})
		}
	}
}

// AllowPrivateWebhooks lets webhooks of runs go to addresses that are not of the
// public internet, such as the machine itself: for servers whose clients may
// reach all that the server can.
func AllowPrivateWebhooks() Option { return func(c *config) { c.private = true } }

// New returns a server. It takes up the runs that another one left.
func New(ctx context.Context, opts ...Option) (*Server, error) {
	c := config{data: stores.Memory, maxBody: 16 << 20, parallel: 1024, log: slog.Default(), silence: silence, lease: webhookLease, replayTime: replayTime, version: moduleVersion(), metrics: true}.with(opts)
	if !c.noStudio {
		Pages(studioPages, studio.Handler(studioPages))(&c) // which ask for a key themselves
	}
	if c.maxBody <= 0 || c.parallel <= 0 {
		c.problems = append(c.problems, errors.New("server.MaxBody and server.MaxRuns must be positive"))
	}
	if c.items == nil {
		c.items = &memory.Config{}
	} else if c.memory != nil {
		c.problems = append(c.problems, errors.New("server.MemoryConfig is for a memory that the server opens: server.UseMemory takes one that was made with a memory.Config"))
	}
	if c.keep < 0 || c.keep > 1e8*time.Minute {
		c.problems = append(c.problems, fmt.Errorf("server.KeepThreads(%s): give a positive time, at most 190 years", c.keep))
	}
	if err := errors.Join(c.problems...); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	b := &base{
		graphs: map[string]*served{}, dialogue: c.dialogue, store: c.store, memory: c.memory, log: c.log, each: c.each,
		version: c.version, limits: c.limits.withDefaults(c.maxBody), keep: c.keep, instance: newInstance(), began: now(), look: make(chan struct{}, 1),
	}
	for _, g := range c.graphs {
		b.graphs[g.name] = g
		b.names = append(b.names, g.name)
	}
	access, err := newAccess(ctx, b, &c)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{base: b}
	if err := s.open(ctx, c.data, *c.items); err != nil {
		return nil, fmt.Errorf("server: %w", errors.Join(err, s.closeStores()))
	}
	b.besideCtx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.feeds = newFeeds(b.limits)
	b.feeds.keptIn(b)
	s.assemble(access, &c)
	if c.dispatch != nil {
		err = s.dispatch(ctx, c.dispatch)
	}
	if err == nil {
		err = s.begin(ctx, b.besideCtx)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("server: %w", errors.Join(err, s.closeStores()))
	}
	return s, nil
}

// assemble makes the parts of the server and has each answer its routes.
func (s *Server) assemble(access *access, c *config) {
	b := s.base
	s.hooks = newHooks(b, c)
	s.dispatcher = newDispatcher(b.besideCtx, b, c.parallel)
	if c.metrics {
		b.metrics = newMetrics(b, s.dispatcher)
	}
	threads := &threads{base: b, access: access, dispatcher: s.dispatcher}
	states := &states{base: b, access: access, threads: threads, openModel: c.openModel}
	threads.states = states
	s.dispatcher.states = states
	s.dispatcher.executor = &executor{base: b, states: states, threads: threads, hooks: s.hooks, draining: s.dispatcher.draining}
	assistants := &assistants{base: b, access: access, dispatcher: s.dispatcher, threads: threads}
	runs := &runs{base: b, access: access, assistants: assistants, dispatcher: s.dispatcher, hooks: s.hooks, states: states, threads: threads, replays: newGauge("threads are being replayed", mostReplays, replaysPerClient), replayTime: c.replayTime}
	commands := &commands{base: b, access: access, runs: runs, states: states}
	followers := &followers{base: b, access: access, commands: commands, states: states}
	s.threads = threads
	s.items = &items{base: b, access: access}
	s.crons = &crons{base: b, access: access, assistants: assistants, dispatcher: s.dispatcher, runs: runs}
	s.sleepers = &sleepers{base: b, access: access, dispatcher: s.dispatcher}
	s.instances = newInstances(b, s.dispatcher, c.silence)
	s.assistants = assistants
	s.routes = slices.Concat(
		assistants.routes(), threads.routes(), states.routes(), s.sleepers.routes(), commands.routes(), followers.routes(), runs.routes(), s.crons.routes(), s.items.routes(),
		protocols(turns{assistants, runs}),
	)
	if b.dialogue != nil {
		s.routes = append(s.routes, (&conversations{base: b, access: access, dispatcher: s.dispatcher, runs: runs, threads: threads}).routes()...)
	}
	meta := &meta{base: b, dispatcher: s.dispatcher, asksAgain: c.openModel != nil}
	s.routes = append(s.routes, meta.routes()...)
	meta.description = sync.OnceValues(func() ([]byte, error) { return describe(c.version, len(access.authenticators) > 0, s.routes) })
	s.handler = newGate(access, c).handler(s.routes, !c.noStudio)
}

// open opens what the caller didn't give.
func (s *Server) open(ctx context.Context, url string, items memory.Config) error {
	at, err := stores.Parse(url)
	if err != nil {
		return err
	}
	switch at.Backend { // before anything is dialled
	case stores.Memory, stores.SQLite, stores.Postgres:
	default:
		return fmt.Errorf("a server keeps its own tables too, and cannot in %s: use sqlite:PATH or postgres://…, or memory together with UseStore", at.Backend)
	}
	if s.store == nil {
		if s.store, err = stores.Open(ctx, url); err != nil {
			return err
		}
		s.closers = append(s.closers, s.store)
		s.joint, _ = s.store.(*postgres.Store)
	}
	switch at.Backend {
	case stores.Memory:
		s.db, err = db.OpenSQLite(ctx, "")
	case stores.SQLite:
		s.db, err = db.OpenSQLite(ctx, beside(at.Path, "server"))
	case stores.Postgres:
		s.db, err = db.OpenPostgres(ctx, at.URL, at.Postgres.Schema)
	}
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.db)
	if s.memory != nil {
		return nil
	}
	if s.memory, err = OpenMemory(ctx, url, items); err != nil {
		return err
	}
	s.closers = append(s.closers, s.memory)
	return nil
}

// OpenMemory opens the long-term memory that a server has whose [Data] is at url, for
// programs that run graphs without the server. It is the caller's to close.
func OpenMemory(ctx context.Context, url string, c memory.Config) (memory.Store, error) {
	at, err := stores.Parse(url)
	if err != nil {
		return nil, err
	}
	switch at.Backend {
	case stores.Memory:
		return memory.NewInMemory(c)
	case stores.SQLite:
		return memorysqlite.Open(beside(at.Path, "memory"), memorysqlite.Options{Config: c})
	case stores.Postgres:
		return memorypostgres.Open(ctx, at.URL, memorypostgres.Options{Config: c, Schema: at.Postgres.Schema})
	}
	return nil, fmt.Errorf("there is no memory in %s: keep it in sqlite:PATH or postgres://…, or take one of your own with UseMemory", at.Backend)
}

// beside names a file beside a database: threads.db, threads.server.db.
func beside(path, what string) string {
	if path == ":memory:" {
		return path
	}
	for _, ext := range []string{".db", ".sqlite", ".sqlite3"} {
		if rest, ok := strings.CutSuffix(path, ext); ok {
			return rest + "." + what + ext
		}
	}
	return path + "." + what
}

// begin makes the assistants of the graphs, takes up what another server left and
// starts what runs beside requests.
func (s *Server) begin(ctx, beside context.Context) error {
	if err := s.assistants.systemAssistants(ctx); err != nil {
		return err
	}
	if err := s.db.Beat(ctx, s.instance); err != nil {
		return err
	}
	if err := s.instances.look(ctx); err != nil {
		return err
	}
	s.lookAll()
	s.beside.Go(func() { s.tick(beside) })
	s.beside.Go(func() { s.instances.live(beside) })
	s.beside.Go(func() { s.hooks.work(beside) })
	if s.db.Shared() {
		s.beside.Go(func() { s.feeds.watch(beside) })
	}
	return nil
}

// tick does what is due, to the second. It asks when the next is due, and again when something
// was done here by which it may be earlier, such as a run; what other programs put into the store
// it finds when it asks anyway.
func (s *Server) tick(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	var swept, next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s.feeds.sweep(time.Now())
		var errs []error
		if s.soon.Swap(false) || s.dispatcher.busy() || !s.feeds.others.Hears() || !time.Now().Before(next) {
			var err error
			if next, err = s.due(ctx); err != nil {
				next = time.Time{}
				errs = append(errs, err)
			}
		}
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			errs = append(errs, s.items.sweepStore(ctx), s.db.SweepFeeds(ctx, keepFeed, oldEvents))
		}
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelError, "server: what is due could not be done", slog.Any("error", err))
		}
	}
}

const (
	// sweepEvery is how often what has expired in the long-term memory, and of feeds, is
	// removed, and what the database doesn't need any more given back.
	sweepEvery = time.Minute

	// dueEvery is how often is asked what is due, at least.
	dueEvery = 5 * time.Second
)

// due does what is due, and returns when to ask again.
func (s *Server) due(ctx context.Context) (next time.Time, err error) {
	at := now()
	next = at.Add(dueEvery)
	is := func(due time.Time) bool {
		if !due.IsZero() && due.Before(next) {
			next = due
		}
		return !due.IsZero() && !due.After(at)
	}
	cron, expiry, webhook, err := s.db.NextDue(ctx)
	if err != nil {
		return next, err
	}
	if is(webhook) {
		s.hooks.wake()
	}
	if s.dispatcher.stopping() {
		return next, nil // the rest is for those who can run what comes of it
	}
	var errs []error
	if is(cron) {
		errs = append(errs, s.crons.startCrons(ctx))
	}
	if is(expiry) {
		errs = append(errs, s.threads.removeExpired(ctx))
	}
	slept, err := s.sleepers.startDue(ctx, next)
	is(slept)
	return next, errors.Join(append(errs, err)...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain lets runs finish the superstep that they are in, as long as the context
// lasts, and leaves them to other servers on its database, at once, or to the next
// one; none begins any more. Streams, and requests that wait for runs, are then cut
// off, so that their clients come back to where the runs go on. Other requests are
// still answered.
func (s *Server) Drain(ctx context.Context) {
	s.dispatcher.drain(ctx)
	_ = s.instances.leave(ctx) // or else Close tells
	s.feeds.end(ctx)
}

// Close ends the server, after [Server.Drain]. Requests should have ended before,
// by http.Server's Shutdown.
func (s *Server) Close(ctx context.Context) error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.Drain(ctx)
	s.lastCalls(ctx)
	s.stop()
	s.beside.Wait()
	return errors.Join(s.instances.leave(ctx), s.closeStores())
}

// lastCalls has webhooks called that are due, for a moment: the next server makes
// the rest, if there is one that has the same database.
func (s *Server) lastCalls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.hooks.close(ctx)
}

func (s *Server) closeStores() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
