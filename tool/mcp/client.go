//lint:file-ignore SA1019 servers log, and ask for samples and roots, for years to come

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/redact"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Config says which server a [Client] uses, and how. Only Transport is needed.
type Config struct {
	Transport Transport

	// Prefix is put before the names of the tools, to tell those of several
	// servers apart.
	Prefix string

	// Allow are the server's own names of the tools to use; nil means all. A name
	// that the server doesn't have is an error of [Client.Tools].
	Allow []string

	// Protocol is the newest version of the protocol to use, such as
	// "2025-06-18". Empty means the newest that both sides know.
	Protocol string

	// Logger gets what the protocol's SDK has to say about connections; nil
	// drops it.
	Logger *slog.Logger

	// Elicit answers what the server asks a person while a request is under way, with
	// the request's own context; an error of it ends the request. [Ask] asks by an
	// interrupt of the graph. Nil: the server is told that nobody can be asked.
	//
	// A server of a protocol before 2026-07-28 that may ask gets one request at a time,
	// since it doesn't say which one it asks about.
	Elicit func(ctx context.Context, e Elicitation) (ElicitationAnswer, error)

	// Sampling is the model that the server may ask while a request is under way, at
	// the cost of this program; in a node of a graph its answers are recorded. Nil: none. ApproveSampling, if set, decides about each
	// time; [ApproveSampling] asks by an interrupt of the graph.
	Sampling        model.Model
	ApproveSampling func(ctx context.Context, r SamplingRequest) (bool, error)

	// Roots are the folders and files that the server is told to work with.
	Roots []Root

	// The functions below may be nil. They are called one after the other, while
	// the connection waits: they must return soon.

	// OnProgress gets the progress of a call, with the call's own context. It
	// isn't called any more once the call has returned: a report that comes
	// together with the answer may be lost.
	OnProgress func(ctx context.Context, p Progress)

	// OnLog gets messages that the server logs at LogLevel or above. The level
	// is "debug", "info" (the default), "notice", "warning", "error", "critical",
	// "alert" or "emergency".
	OnLog    func(Log)
	LogLevel string

	// OnToolsChanged is told that the server's tools may have changed: the
	// server says so, or the connection was made again.
	OnToolsChanged func()

	// OnContextChanged is told the same of its resources and prompts.
	OnContextChanged func()
}

// Root is a folder or file that a server may work with. It is advice: what the server can
// reach is for the system to bound.
type Root struct {
	URI  string // of the scheme file
	Name string // may be empty
}

// Progress tells how far a call is.
type Progress struct {
	Tool    string // name, with the prefix
	Done    float64
	Total   float64 // 0 if unknown
	Message string
}

// Log is a message that a server logs.
type Log struct {
	Level  string
	Logger string // the server's name for where it comes from; may be empty
	Data   json.RawMessage
}

// Client is a connection to a server. It is safe for concurrent use.
type Client struct {
	cfg    Config
	server string // name for errors
	hide   redact.Secrets
	sdk    *sdk.Client

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	dial   chan struct{} // holds a token: who takes it may connect
	wg     sync.WaitGroup

	mu       sync.Mutex
	session  *session              // to use; nil until the first
	sessions map[*session]struct{} // that haven't ended
	tokens   int
	calls    map[string]*call // by progress token
}

// session is one connection.
type session struct {
	*sdk.ClientSession
	link   link
	turn   chan struct{} // is held by the request under way, where there may be one only
	asking atomic.Pointer[inquiry]
	once   sync.Once
	gone   chan struct{} // closed when the connection isn't to be used any more
	closed error         // of closing it, once it has ended
}

// retire lets nobody use the connection any more. It ends when the calls that
// it still carries have.
func (s *session) retire() { s.once.Do(func() { close(s.gone) }) }

func (s *session) alive() bool {
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

// modern is the version of the protocol that has no sessions any more.
const modern = "2026-07-28"

// logs reports whether the server can be asked for logs.
func (s *session) logs() bool {
	caps := s.InitializeResult().Capabilities
	return caps != nil && caps.Logging != nil
}

func (s *session) modern() bool { return s.InitializeResult().ProtocolVersion >= modern }

// Connect connects to a server. The context bounds the connecting, not the
// connection, and its values stay with it. A server that can't be reached is a
// [*ConnectionError].
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Transport == nil {
		return nil, errors.New("mcp: the configuration has no transport")
	}
	if cfg.LogLevel == "" {
		cfg.LogLevel = "info"
	}
	levels := []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	if !slices.Contains(levels, cfg.LogLevel) {
		return nil, fmt.Errorf("mcp: unknown log level %q; the levels are %s", cfg.LogLevel, strings.Join(levels, ", "))
	}
	if versions := sdk.SupportedProtocolVersions(); cfg.Protocol != "" && !slices.Contains(versions, cfg.Protocol) {
		return nil, fmt.Errorf("mcp: unknown protocol version %q; the versions are %s", cfg.Protocol, strings.Join(versions, ", "))
	}
	c := &Client{cfg: cfg, server: cfg.Transport.name(), hide: cfg.Transport.secrets(), dial: make(chan struct{}, 1), sessions: map[*session]struct{}{}, calls: map[string]*call{}}
	c.dial <- struct{}{}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	o := &sdk.ClientOptions{
		Logger:         cfg.Logger,
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, // see converse
		// The SDK forgets the lists that it keeps for as long as the server allows.
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { told(cfg.OnToolsChanged) },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { told(cfg.OnContextChanged) },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { told(cfg.OnContextChanged) },
	}
	if cfg.OnProgress != nil {
		o.ProgressNotificationHandler = func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { c.progress(r.Params) }
	}
	if cfg.OnLog != nil {
		o.LoggingMessageHandler = func(_ context.Context, r *sdk.LoggingMessageRequest) {
			data, err := json.Marshal(r.Params.Data)
			if err != nil { // it comes from JSON
				data, _ = json.Marshal(err.Error())
			}
			cfg.OnLog(Log{Level: string(r.Params.Level), Logger: r.Params.Logger, Data: data})
		}
	}
	if cfg.Elicit != nil {
		o.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}
		o.ElicitationHandler = func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return asked(ctx, c, r.Session, func(k *inquiry) (*sdk.ElicitResult, error) { return k.elicit(r.Params) })
		}
	}
	if cfg.Sampling != nil {
		o.CreateMessageWithToolsHandler = func(ctx context.Context, r *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
			return asked(ctx, c, r.Session, func(k *inquiry) (*sdk.CreateMessageWithToolsResult, error) { return k.sample(r.Params) })
		}
	} else if cfg.ApproveSampling != nil {
		return nil, errors.New("mcp: the configuration has ApproveSampling without Sampling, the model to approve of")
	}
	if len(cfg.Roots) > 0 {
		o.Capabilities.RootsV2 = &sdk.RootCapabilities{}
	}
	for _, r := range cfg.Roots {
		if u, err := url.Parse(r.URI); err != nil || u.Scheme != "file" {
			return nil, fmt.Errorf("mcp: root %q isn't a URI such as file:///home/me/project", r.URI)
		}
	}
	c.sdk = sdk.NewClient(&sdk.Implementation{Name: "superstep", Version: "1"}, o)
	c.sdk.AddRoots(c.roots().Roots...)
	if _, err := c.connected(ctx); err != nil {
		c.cancel()
		return nil, err
	}
	return c, nil
}

// plainName is the server's name without the quotes that errors have.
func (c *Client) plainName() string {
	if name, err := strconv.Unquote(c.server); err == nil {
		return name
	}
	return c.server
}

// roots is what the server is told when it asks for roots.
func (c *Client) roots() *sdk.ListRootsResult {
	res := &sdk.ListRootsResult{Roots: []*sdk.Root{}}
	for _, r := range c.cfg.Roots {
		res.Roots = append(res.Roots, &sdk.Root{URI: r.URI, Name: r.Name})
	}
	return res
}

func told(changed func()) {
	if changed != nil {
		changed()
	}
}

// connected returns the connection, which it makes if there is none.
func (c *Client) connected(ctx context.Context) (*session, error) {
	select {
	case <-c.dial:
		defer func() { c.dial <- struct{}{} }()
	case <-ctx.Done():
		return nil, c.failed(ctx, nil, "", ctx.Err())
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	c.mu.Lock()
	old := c.session
	c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		return nil, ErrClosed
	case old != nil && old.alive():
		return old, nil
	}
	s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if old != nil {
		told(c.cfg.OnToolsChanged)
		told(c.cfg.OnContextChanged)
	}
	return s, nil
}

// open makes a connection. The caller holds the token of c.dial.
func (c *Client) open(ctx context.Context) (*session, error) {
	l, err := c.cfg.Transport.open()
	if err != nil {
		return nil, &ConnectionError{Server: c.server, Err: err}
	}
	s := &session{link: l.orNothing(), turn: make(chan struct{}, 1), gone: make(chan struct{})}
	// The values of a later call's context are no business of the connection.
	dial, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	// A process that doesn't answer wouldn't end by itself either.
	defer context.AfterFunc(dial, s.link.kill)()
	s.ClientSession, err = c.sdk.Connect(dial, s.link, &sdk.ClientSessionOptions{ProtocolVersion: c.cfg.Protocol})
	if err == nil && c.cfg.OnLog != nil && !s.modern() && s.logs() {
		if err = s.SetLoggingLevel(dial, &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(c.cfg.LogLevel)}); err != nil {
			_ = s.ClientSession.Close() // err says more
		}
	}
	if err != nil {
		return nil, c.failed(ctx, s, "", fmt.Errorf("connecting: %w", err))
	}
	c.mu.Lock()
	c.session = s
	c.sessions[s] = struct{}{}
	c.mu.Unlock()
	c.wg.Go(func() {
		_ = s.Wait() // whose call was lost has the error
		s.retire()
	})
	c.wg.Go(func() {
		<-s.gone
		s.closed = s.ClientSession.Close() // also ends what the SDK runs beside the connection
		c.mu.Lock()
		delete(c.sessions, s)
		c.mu.Unlock()
	})
	return s, nil
}

// request sends a request, with a connection that is alive as far as is known.
// When that turns out to be dead before anything was sent, or the server has
// forgotten the session since it was started again, then nobody has looked at
// the request: it is sent once more.
func request[R any](ctx context.Context, c *Client, tool string, send func(context.Context, *session) (R, error)) (R, error) {
	var none R
	for first := true; ; first = false {
		s, err := c.connected(ctx)
		if err != nil {
			return none, err
		}
		rctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(c.ctx, cancel)
		r, err := send(rctx, s)
		stop()
		cancel()
		if err == nil {
			return r, nil
		}
		if errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed) {
			s.retire()
			if first && ctx.Err() == nil && c.ctx.Err() == nil {
				continue
			}
		}
		return none, c.failed(ctx, s, tool, err)
	}
}

// These bound what a server can make the client collect.
const (
	maxItems = 10_000 // of a list
	maxPages = 1_000
	maxList  = 64 << 20 // bytes of a list
)

var (
	errEndless = errors.New("doesn't end")
	errNull    = errors.New("it has a null")
)

// Tools returns the server's tools as they are now, in the server's order: it asks
// the server, unless that has said for how long its list is good. Characters of a
// name that models don't take, such as points, become underscores.
//
// A tool's errors are [*tool.Error]s where the server itself says what is wrong:
// [tool.ErrorUnknown] when it doesn't have the tool any more, [tool.ErrorArguments]
// when it doesn't take the arguments, and [tool.ErrorFailed] with the text of a
// result that is an error. A lost connection is a [*ConnectionError]. When the
// context of a call ends, the server is told to stop.
//
// A tool's method OutputSchema returns the JSON Schema of its results' artifacts as a
// [json.RawMessage], nil if the server gives none.
func (c *Client) Tools(ctx context.Context) ([]tool.Tool, error) {
	listed, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*sdk.Tool, len(listed))
	names := make([]string, len(listed))
	for i, t := range listed {
		byName[t.Name], names[i] = t, t.Name
	}
	for _, name := range c.cfg.Allow {
		if byName[name] == nil {
			return nil, fmt.Errorf("mcp: server %s: allowed %w", c.server, tool.Unknown(name, names))
		}
	}
	var tools []tool.Tool
	taken := map[string]string{}
	for _, t := range listed {
		if c.cfg.Allow != nil && !slices.Contains(c.cfg.Allow, t.Name) {
			continue
		}
		r, err := c.remote(t)
		if err != nil {
			return nil, fmt.Errorf("mcp: server %s: tool %q: %w", c.server, t.Name, err)
		}
		if other, ok := taken[r.spec.Name]; ok {
			return nil, fmt.Errorf("mcp: server %s: tools %q and %q would both be called %q; allow one of them", c.server, other, t.Name, r.spec.Name)
		}
		taken[r.spec.Name] = t.Name
		tools = append(tools, r)
	}
	return tools, nil
}

// list asks for the list of tools.
func (c *Client) list(ctx context.Context) ([]*sdk.Tool, error) {
	return pages(ctx, c, "tools", func(ctx context.Context, s *session, cursor string) ([]*sdk.Tool, string, error) {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return page.Tools, page.NextCursor, noNull(page.Tools)
	})
}

// noNull returns an error if a list has a null, which decodes as nil.
func noNull[T any](list []*T) error {
	if i := slices.Index(list, nil); i >= 0 {
		return fmt.Errorf("%w at %d", errNull, i)
	}
	return nil
}

// pages asks for all pages of a list; a server that doesn't have such things has none
// of them.
func pages[T any](ctx context.Context, c *Client, what string, next func(ctx context.Context, s *session, cursor string) ([]T, string, error)) ([]T, error) {
	return request(ctx, c, "", func(ctx context.Context, s *session) ([]T, error) {
		var all []T
		cursors, size := map[string]bool{}, 0
		for cursor := ""; ; {
			page, more, err := next(ctx, s, cursor)
			if e, ok := answered(err); ok && e.Code == jsonrpc.CodeMethodNotFound {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			all = append(all, page...)
			for _, t := range page {
				data, err := json.Marshal(t)
				if err != nil {
					return nil, err
				}
				size += len(data)
			}
			switch cursor = more; {
			case cursor == "":
				return all, nil
			case cursors[cursor], len(all) > maxItems, len(cursors)+1 >= maxPages, size > maxList:
				return nil, fmt.Errorf("its list of %s %w: %d so far, on %d pages", what, errEndless, len(all), len(cursors)+1)
			}
			cursors[cursor] = true
		}
	})
}

// remote describes a tool of the server.
func (c *Client) remote(t *sdk.Tool) (*remote, error) {
	schema := t.InputSchema
	if m, ok := schema.(map[string]any); ok && m["type"] == nil {
		m = mapWith(m, "type", "object") // the protocol wants it, not all servers give it
		schema = m
	}
	if schema == nil {
		schema = map[string]any{"type": "object"}
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var output json.RawMessage
	if t.OutputSchema != nil {
		if output, err = json.Marshal(t.OutputSchema); err != nil {
			return nil, err
		}
	}
	description := t.Description
	if description == "" {
		description = t.Title
	}
	return &remote{c: c, name: t.Name, output: output, spec: chat.ToolSpec{Name: c.cfg.Prefix + ToolName(t.Name), Description: description, Schema: raw}}, nil
}

// ToolName makes a name one that all models take for a tool's: other characters than letters
// and digits of ASCII, _ and - become _. Different names may become the same.
func ToolName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

func mapWith(m map[string]any, key string, value any) map[string]any {
	out := map[string]any{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// Close ends the connection: calls that are under way return [ErrClosed], and a
// process that was started is ended. It returns when that is done.
func (c *Client) Close() error {
	c.cancel()
	<-c.dial // nobody connects any more
	defer func() { c.dial <- struct{}{} }()
	c.mu.Lock()
	s := c.session
	c.session = nil
	var open []*session
	for s := range c.sessions {
		open = append(open, s)
	}
	c.mu.Unlock()
	alive := s != nil && s.alive()
	for _, s := range open {
		// The SDK waits for what it still has to write. A process that doesn't read
		// could make it wait for ever.
		if p, ok := s.link.Transport.(*process); ok {
			defer time.AfterFunc(4*p.grace, p.kill).Stop()
		}
		s.retire()
	}
	c.wg.Wait()
	var exit *exec.ExitError
	if !alive || s.closed == nil || errors.As(s.closed, &exit) || errors.Is(s.closed, exec.ErrWaitDelay) {
		return nil // how the process ended is its own affair
	}
	return fmt.Errorf("mcp: server %s: closing: %w", c.server, s.closed)
}

// call is a call that is under way and wants to hear of its progress.
type call struct {
	ctx  context.Context
	tool string

	mu    sync.Mutex
	ended bool
}

// follow returns a token for the progress of a call, and what to call at its end.
func (c *Client) follow(ctx context.Context, toolName string) (token string, end func()) {
	k := &call{ctx: ctx, tool: toolName}
	c.mu.Lock()
	c.tokens++
	token = strconv.Itoa(c.tokens)
	c.calls[token] = k
	c.mu.Unlock()
	return token, func() {
		c.mu.Lock()
		delete(c.calls, token)
		c.mu.Unlock()
		k.mu.Lock() // waits for the callback
		k.ended = true
		k.mu.Unlock()
	}
}

func (c *Client) progress(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	c.mu.Lock()
	k := c.calls[token]
	c.mu.Unlock()
	if k == nil { // its call has returned
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ended {
		c.cfg.OnProgress(k.ctx, Progress{Tool: k.tool, Done: p.Progress, Total: p.Total, Message: p.Message})
	}
}
