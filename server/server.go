package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	memorypostgres "github.com/superstep-dev/superstep/memory/postgres"
	memorysqlite "github.com/superstep-dev/superstep/memory/sqlite"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// Server serves graphs. It is an http.Handler, safe for concurrent use.
type Server struct {
	graphs   map[string]*served
	dialogue *conversations // nil: none is served
	names    []string       // of the graphs, in the order registered
	store    checkpoint.Store
	memory   memory.Store
	db       *db.DB
	closers  []io.Closer
	handler  http.Handler
	metrics  *metrics
	log      *slog.Logger
	limits   Limits
	version  string

	description func() ([]byte, error) // in OpenAPI

	authenticators []authenticator // none: everybody may do everything
	authorize      Authorizer      // nil: every user may do everything
	origins        []string        // of pages that may use the server
	hosts          []string        // that it answers to beside its own machine; nil: to all
	guesses        *guesses        // what of refused credentials is logged
	audit          *slog.Logger    // nil: changes are not logged
	gauge          *gauge          // of streams
	bounds         *bounds         // of requests

	noStudio bool
	webhooks *http.Client
	private  bool         // webhooks may go to any address
	local    http.Handler // of webhooks that are paths; nil if there are none
	hooks    *hooks
	instance string
	began    time.Time
	silence  time.Duration // after which an instance counts as dead

	runs      *dispatcher
	streams   *streams
	feeds     *feeds             // what those see who follow a thread
	joins     *feeds             // what those see who have joined the streams of a thread
	stop      context.CancelFunc // of what runs beside requests
	beside    sync.WaitGroup
	besideCtx context.Context
	closed    atomic.Bool

	pulse    context.Context    // of giving signs of life
	stopBeat context.CancelFunc // ends it
	beating  sync.Mutex
}

// served is a graph that is registered.
type served struct {
	*graph.Graph[json.RawMessage]
	name        string // by which clients know it
	description string

	input, config func() (*shape, error) // what it takes: found once
}

type (
	snapshot = graph.Snapshot[json.RawMessage]
	entry    = graph.Entry[json.RawMessage]
)

// Option is a setting of a server.
type Option func(*config)

type config struct {
	graphs   []*served
	dialogue *conversations
	data     string
	store    checkpoint.Store
	memory   memory.Store
	index    *memory.Index
	log      *slog.Logger
	maxBody  int64
	limits   Limits
	version  string
	parallel int

	authenticators []func(context.Context) (authenticator, error)
	authorize      Authorizer
	reads          bool     // a function of the program's does, and maybe cookies
	issuers        []string // of tokens
	subjects       bool     // of an issuer are users
	origins        []string // nil: the default
	hosts          []string
	audit          *slog.Logger

	private  bool
	local    http.Handler
	silence  time.Duration
	lease    time.Duration
	noStudio bool
	metrics  bool
	problems []error
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

// Data names the place for everything that the server keeps: "memory" (the
// default), "sqlite:PATH" or "postgres://…", with options as package
// checkpoint/stores describes them. Of PATH.db the server's own tables stand in
// PATH.server.db and the long-term memory in PATH.memory.db; in PostgreSQL all
// stand in one schema.
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
// [StoreIndex] is one of them.
func HasMemory(opts ...Option) bool {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c.memory != nil || c.index != nil
}

// StoreIndex makes the long-term memory that the server opens where [Data] says one
// that can be searched by meaning: clients with a query, nodes with the Text of a
// [memory.Query]. Items that were there before are found when they are put again.
func StoreIndex(x memory.Index) Option { return func(c *config) { c.index = &x } }

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

// AllowPrivateWebhooks lets webhooks of runs go to addresses that are not of the
// public internet, such as the machine itself: for servers whose clients may
// reach all that the server can.
func AllowPrivateWebhooks() Option { return func(c *config) { c.private = true } }

// New returns a server. It takes up the runs that another one left.
func New(ctx context.Context, opts ...Option) (*Server, error) {
	c := config{data: stores.Memory, maxBody: 16 << 20, parallel: 1024, log: slog.Default(), silence: silence, lease: webhookLease, version: moduleVersion(), metrics: true}
	for _, o := range opts {
		o(&c)
	}
	if c.maxBody <= 0 || c.parallel <= 0 {
		c.problems = append(c.problems, errors.New("server.MaxBody and server.MaxRuns must be positive"))
	}
	if c.index != nil && c.memory != nil {
		c.problems = append(c.problems, errors.New("server.StoreIndex is for a memory that the server opens: server.UseMemory takes one that has an index, memory.Config.Index"))
	}
	if err := errors.Join(c.problems...); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{graphs: map[string]*served{}, store: c.store, memory: c.memory, log: c.log, version: c.version, webhooks: webhookClient(c.private), private: c.private, instance: newInstance(), began: now(), dialogue: c.dialogue, noStudio: c.noStudio, local: c.local, silence: c.silence}
	if err := s.secure(ctx, &c); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	for _, g := range c.graphs {
		s.graphs[g.name] = g
		s.names = append(s.names, g.name)
	}
	if err := s.open(ctx, c.data, memory.Config{Index: c.index}); err != nil {
		s.closeStores()
		return nil, fmt.Errorf("server: %w", err)
	}
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.besideCtx, s.stop = beside, stop
	s.pulse, s.stopBeat = context.WithCancel(beside)
	s.streams = newStreams(s.limits)
	s.feeds, s.joins = newFeeds(kindEvents, s.limits.Logs), newFeeds(kindJoins, s.limits.Logs)
	if s.db.Shared() {
		s.feeds.shared(beside, s.db, s.log, &s.beside)
		s.joins.shared(beside, s.db, s.log, &s.beside)
	}
	s.hooks = newHooks(s, c.lease)
	s.runs = newDispatcher(beside, s, c.parallel)
	if c.metrics {
		s.metrics = newMetrics(s)
	}
	s.description = sync.OnceValues(s.describe)
	s.handler = s.routes()
	if err := s.begin(ctx, beside); err != nil {
		stop()
		s.closeStores()
		return nil, fmt.Errorf("server: %w", err)
	}
	return s, nil
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
	if err := s.systemAssistants(ctx); err != nil {
		return err
	}
	if err := s.db.Beat(ctx, s.instance); err != nil {
		return err
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	s.beside.Go(func() { s.tick(beside) })
	s.beside.Go(func() { s.live(beside) })
	s.beside.Go(func() { s.hooks.work(beside) })
	if s.db.Shared() {
		s.beside.Go(func() { s.feeds.watch(beside) })
		s.beside.Go(func() { s.joins.watch(beside) })
	}
	return nil
}

// tick does what is due, every second.
func (s *Server) tick(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	var swept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s.streams.sweep(time.Now())
		s.feeds.sweep(time.Now())
		s.joins.sweep(time.Now())
		due := []func(context.Context) error{s.startCrons, s.startDue, s.removeExpired}
		if s.runs.stopping() {
			due = nil // it is for those who can run what comes of it
		}
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			due = append(due, s.sweepStore)
		}
		for _, do := range due {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				s.log.LogAttrs(ctx, slog.LevelError, "server: what is due could not be done", slog.Any("error", err))
			}
		}
	}
}

// sweepEvery is how often what has expired in the long-term memory is removed, and
// what the database doesn't need any more given back.
const sweepEvery = time.Minute

func (s *Server) sweepStore(ctx context.Context) error {
	_, err := s.memory.Sweep(ctx)
	return errors.Join(err, s.db.GiveBack(ctx))
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain lets runs finish the superstep that they are in, as long as the context
// lasts, and leaves them to other servers on its database, at once, or to the next
// one; none begins any more. Streams, and requests that wait for runs, are then cut
// off, so that their clients come back to where the runs go on. Other requests are
// still answered.
func (s *Server) Drain(ctx context.Context) {
	s.runs.drain(ctx)
	_ = s.leave(ctx) // or else Close tells
	s.streams.end()
	s.feeds.end()
	s.joins.end()
}

// leave gives the runs of this server to others, however little time is left for
// the rest.
func (s *Server) leave(ctx context.Context) error {
	s.stopBeat()
	s.beating.Lock()
	defer s.beating.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := s.db.Leave(ctx, s.instance)
	return err
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
	return errors.Join(s.leave(ctx), s.closeStores())
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
