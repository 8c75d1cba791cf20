package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/redact"
	"github.com/superstep-dev/superstep/tool"
)

// Server serves tools. It may serve any number of clients in several ways at
// once, and is safe for concurrent use.
//
// A tool that returns a [*tool.Error] gives a result that is an error, whose text
// is for the model; so do arguments that are wrong and panics, without the stack.
// Any other error is one of the protocol. The context of a call ends when the
// client cancels the call or goes away, and when the server is closed.
type Server struct {
	name, version string
	options       sdk.ServerOptions
	sdk           *sdk.Server
	ctx           context.Context // ends with Close
	cancel        context.CancelFunc

	change        sync.Mutex // for what follows
	tools, graphs []entry

	mu    sync.Mutex
	calls map[*running]struct{}
}

// running is a request that is under way in a session.
type running struct {
	session string
	cancel  context.CancelFunc
}

// NewServer returns a server of some tools. Mistakes in their definition are a
// [*tool.DefinitionError].
func NewServer(name, version string, tools ...tool.Tool) (*Server, error) {
	return NewServerWith(name, version, sdk.ServerOptions{}, tools...)
}

// NewServerWith is [NewServer] with options of the protocol's official SDK, such as
// instructions for models, and handlers for what is added to [Server.SDK]. Without
// Capabilities it has tools that may change.
func NewServerWith(name, version string, o sdk.ServerOptions, tools ...tool.Tool) (*Server, error) {
	if name == "" {
		return nil, errors.New("mcp: a server needs a name")
	}
	if o.Capabilities == nil {
		o.Capabilities = &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}
	}
	s := &Server{name: name, version: version, options: o, calls: map[*running]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sdk = s.empty()
	if err := s.SetTools(tools...); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

func (s *Server) empty() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: s.name, Version: s.version}, &s.options)
	server.AddReceivingMiddleware(s.bound)
	return server
}

// SetTools replaces the tools, and tells the clients. On an error nothing changes.
func (s *Server) SetTools(tools ...tool.Tool) error {
	set, err := tool.NewSet(tools...)
	if err != nil {
		return err
	}
	var entries []entry
	for _, t := range set.Tools() {
		spec := t.Spec()
		schema := spec.Schema
		if schema == nil {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		entries = append(entries, entry{&sdk.Tool{Name: spec.Name, Description: spec.Description, InputSchema: schema}, s.handler(t, spec.Name)})
	}
	return s.replace(&s.tools, entries)
}

// entry is a tool as the SDK knows it.
type entry struct {
	tool   *sdk.Tool
	handle sdk.ToolHandler
}

// replace puts tools in the place of others.
func (s *Server) replace(these *[]entry, by []entry) error {
	rehearsal := s.empty()
	s.change.Lock()
	defer s.change.Unlock()
	taken := map[string]bool{}
	for _, others := range []*[]entry{&s.tools, &s.graphs} {
		if others != these {
			for _, e := range *others {
				taken[e.tool.Name] = true
			}
		}
	}
	for _, e := range by {
		name := e.tool.Name
		err := add(rehearsal, e.tool, e.handle)
		if taken[name] {
			err = errors.New("another tool or graph of the server has this name: give it one of its own")
		}
		if err != nil {
			return &tool.DefinitionError{Mistakes: []tool.Mistake{{Tool: name, Err: err}}}
		}
		taken[name] = true
	}
	var gone []string
	for _, e := range *these {
		if !slices.ContainsFunc(by, func(n entry) bool { return n.tool.Name == e.tool.Name }) {
			gone = append(gone, e.tool.Name)
		}
	}
	s.sdk.RemoveTools(gone...)
	for _, e := range by {
		s.sdk.AddTool(e.tool, e.handle)
	}
	*these = by
	return nil
}

// SDK returns the server of the protocol's official SDK that this one stands on, for what
// isn't a tool: resources, prompts, completions. Tools that are added to it are served
// beside those of [Server.SetTools], as long as no two have one name.
func (s *Server) SDK() *sdk.Server { return s.sdk }

// add returns what the SDK panics with.
func add(s *sdk.Server, t *sdk.Tool, h sdk.ToolHandler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	s.AddTool(t, h)
	return nil
}

// serving is the key of the context of Serve in the contexts of its requests.
type serving struct{}

func (s *Server) handler(t tool.Tool, name string) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		args := req.Params.Arguments
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		r, err := call1(ctx, t, name, args)
		if err == nil {
			var out *sdk.CallToolResult
			if out, err = resultOf(r, req.ProtocolVersion()); err == nil {
				return out, nil
			}
			err = &tool.Error{Tool: name, Err: err}
		}
		var e *tool.Error
		if ctx.Err() == nil && errors.As(err, &e) {
			text := e.Error()
			if e.Err != nil {
				text = e.Err.Error()
			}
			if e.Kind != tool.ErrorFailed {
				text = string(e.Kind) + ": " + text
			}
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
}

// bound ends the context of every request with the server, with Serve and with the
// request's session: a session is closed when the last of its requests has ended, and
// one that listens for changes of the tools ends by nothing else.
func (s *Server) bound(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		if serve, ok := ctx.Value(serving{}).(context.Context); ok {
			defer context.AfterFunc(serve, cancel)()
		}
		defer s.run(req.GetSession().ID(), cancel)()
		return next(ctx, method, req)
	}
}

// run notes a request, and returns what to call at its end.
func (s *Server) run(session string, cancel context.CancelFunc) (end func()) {
	r := &running{session, cancel}
	s.mu.Lock()
	s.calls[r] = struct{}{}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.calls, r)
		s.mu.Unlock()
	}
}

// stop cancels the requests of a session.
func (s *Server) stop(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.calls {
		if r.session == session {
			r.cancel()
		}
	}
}

// call1 calls a tool once and catches its panic: the server serves others too.
func call1(ctx context.Context, t tool.Tool, name string, args json.RawMessage) (r tool.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &tool.Error{Tool: name, Kind: tool.ErrorPanic, Err: &tool.PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	return t.Call(ctx, args)
}

// ServeStdio serves one client over standard input and output, until the input
// ends, which returns nil, or the context does, which returns its error. Nothing
// else in the program may write to standard output.
func (s *Server) ServeStdio(ctx context.Context) error {
	return s.serve(ctx, &sdk.StdioTransport{})
}

// Serve is [Server.ServeStdio] over other streams. It closes them.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return s.serve(ctx, &sdk.IOTransport{Reader: in, Writer: out})
}

func (s *Server) serve(ctx context.Context, t sdk.Transport) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errServerClosed) })()
	if err := s.sdk.Run(context.WithValue(ctx, serving{}, ctx), t); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("mcp: serving: %w", err)
	}
	return nil
}

var errServerClosed = errors.New("the server is closed")

// idle is how long a session of the older protocol lives without a request.
const idle = time.Hour

// Handler serves clients over streamable HTTP, at whatever path it is mounted.
// Clients that speak the protocol of 2026-07-28 or newer have no sessions; a
// session of an older client ends after an hour without a request. Who may call
// is for a handler around this one to say.
func (s *Server) Handler() http.Handler {
	stateless := s.Stateless()
	stateful := sdk.NewStreamableHTTPHandler(s.serves, &sdk.StreamableHTTPOptions{SessionTimeout: idle})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= modern {
			stateless.ServeHTTP(w, r)
			return
		}
		// A client that ends its session waits for no answers, while the SDK would
		// wait for the calls.
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && r.Method == http.MethodDelete {
			s.stop(id)
		}
		stateful.ServeHTTP(w, r)
	})
}

// Stateless is [Server.Handler] for requests that each stand for themselves: clients of
// older protocols have no sessions either, so that nothing can be asked of their users
// during a call, and they aren't told of changes. A server may so be made for a single
// request.
func (s *Server) Stateless() http.Handler {
	return sdk.NewStreamableHTTPHandler(s.serves, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
}

func (s *Server) serves(*http.Request) *sdk.Server {
	if s.ctx.Err() != nil {
		return nil
	}
	return s.sdk
}

// Local is the transport of clients in the same program.
func (s *Server) Local() Transport { return local{s} }

type local struct{ s *Server }

func (l local) secrets() redact.Secrets { return nil }

func (l local) name() string { return strconv.Quote(l.s.name) }

func (l local) open() (link, error) {
	client, server := sdk.NewInMemoryTransports()
	return link{Transport: pair{l.s, client, server}}, nil
}

// pair connects both ends of a transport within the program.
type pair struct {
	s              *Server
	client, server sdk.Transport
}

// Connect connects the server's end, then the client's.
func (p pair) Connect(ctx context.Context) (sdk.Connection, error) {
	if p.s.ctx.Err() != nil {
		return nil, errServerClosed
	}
	if _, err := p.s.sdk.Connect(context.WithoutCancel(ctx), p.server, nil); err != nil {
		return nil, err
	}
	return p.client.Connect(ctx)
}

// Close ends all calls and connections. It is for programs that go on; others may
// just end.
func (s *Server) Close() error {
	s.cancel()
	var errs []error
	for session := range s.sdk.Sessions() {
		if err := session.Close(); err != nil && !errors.Is(err, io.EOF) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("mcp: closing: %w", err)
	}
	return nil
}
