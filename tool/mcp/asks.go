//lint:file-ignore SA1019 servers ask for samples and roots for years to come

package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/graph"
)

// maxInputs bounds what a server may ask during one request, and how often it may
// answer that it needs more.
const maxInputs = 100

// maxBusy is how often in a row a server may answer that it needs something, and not
// what, by which it sheds load.
const maxBusy = 3

// InputError says that a server asked for something during a request that it can't
// be given, such as a form that isn't one, or too much of it. The request has ended.
type InputError struct {
	Server string // name
	During string // the request, such as `tool "book"`
	Err    error  // what it asked, and what to do about it
}

func (e *InputError) Error() string {
	return fmt.Sprintf("mcp: server %s, during %s: %v", e.Server, e.During, e.Err)
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// halt is an error that ends a request from within, and that its caller is to get as
// it is.
type halt struct{ err error }

func (h *halt) Error() string { return h.err.Error() }

func (h *halt) Unwrap() error { return h.err }

// inquiry is a request during which the server may ask.
type inquiry struct {
	c      *Client
	during string
	tool   string // whose call it is, with the prefix; may be empty
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	open  bool
	asked map[string]int // how often a question was asked
	total int
	wg    sync.WaitGroup // functions of the user's
	done  chan struct{}
}

type inquiryKey struct{}

// asks reports whether the client can answer what takes a person or a model.
func (c *Client) asks() bool { return c.cfg.Elicit != nil || c.cfg.Sampling != nil }

// answer is a result that may say that the server needs something first.
type answer interface{ NeedsInput() bool }

// needs is what a server needs before it goes on, and what it wants to be told again
// then. It is recorded, so that what led to it isn't done again.
type needs struct {
	State    string              `json:"state,omitempty"`
	Requests sdk.InputRequestMap `json:"requests"`
}

func needsOf(a answer) needs {
	switch a := a.(type) {
	case *sdk.CallToolResult:
		return needs{a.RequestState, a.InputRequests}
	case *sdk.ReadResourceResult:
		return needs{a.RequestState, a.InputRequests}
	case *sdk.GetPromptResult:
		return needs{a.RequestState, a.InputRequests}
	}
	return needs{}
}

// converse makes a request and answers what the server asks during it. Args tell the
// request from others of the same name.
func converse[R answer](ctx context.Context, c *Client, s *session, during, tool string, args any, send func(context.Context, sdk.InputResponseMap, string) (R, error)) (R, error) {
	var none R
	k, end, err := c.inquire(ctx, s, during, tool)
	if err != nil {
		return none, err
	}
	r, err := k.rounds(ctx, s, args, func(in sdk.InputResponseMap, state string) (answer, error) {
		return send(k.ctx, in, state)
	})
	end()
	if h, ok := context.Cause(k.ctx).(*halt); ok {
		return none, h
	}
	if err != nil {
		return none, err
	}
	return r.(R), nil
}

// inquire begins a request. A server of an older protocol doesn't say of which request
// a question is a part, so that it gets one at a time when it may ask.
func (c *Client) inquire(ctx context.Context, s *session, during, tool string) (*inquiry, func(), error) {
	k := &inquiry{c: c, during: during, tool: tool, open: true, asked: map[string]int{}, done: make(chan struct{})}
	alone := c.asks() && !s.modern()
	if alone {
		if outer, ok := ctx.Value(inquiryKey{}).(*inquiry); ok && outer.c == c {
			return nil, nil, &halt{k.refuse(fmt.Errorf("it is a part of answering what the same server asked during %s: make it before or after", outer.during))}
		}
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	k.ctx, k.cancel = context.WithCancelCause(context.WithValue(ctx, inquiryKey{}, k))
	if alone {
		s.asking.Store(k)
	}
	return k, func() {
		k.mu.Lock()
		k.open = false
		k.mu.Unlock()
		k.cancel(nil)
		k.wg.Wait()
		close(k.done)
		if alone {
			s.asking.Store(nil)
			<-s.turn
		}
	}, nil
}

func (k *inquiry) refuse(err error) error {
	return &InputError{Server: k.c.server, During: k.during, Err: err}
}

// errComplete ends what would record an answer that needs nothing more.
var errComplete = errors.New("complete")

// rounds makes the request again and again until the server needs nothing more.
func (k *inquiry) rounds(ctx context.Context, s *session, args any, send func(sdk.InputResponseMap, string) (answer, error)) (answer, error) {
	name := ""
	if s.modern() && k.c.asks() && graph.Info(ctx).Task != "" {
		data, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		name = "mcp " + digest(k.c.server, k.during, string(data))
	}
	var in sdk.InputResponseMap
	var state string
	for n, busy := 1, 0; ; n++ {
		var a answer
		var lost error // of the request, and not of its record
		ask := func(context.Context, string) (needs, error) {
			if a, lost = send(in, state); lost != nil {
				return needs{}, lost
			}
			if !a.NeedsInput() {
				return needs{}, errComplete
			}
			return needsOf(a), nil
		}
		var need needs
		var err error
		if name == "" {
			need, err = ask(ctx, "")
		} else if need, err = graph.Once(ctx, fmt.Sprint(name, " ", n), ask); errors.Is(err, errComplete) && a == nil {
			need, err = ask(ctx, "") // that was the same request beside this one
		}
		if errors.Is(err, errComplete) {
			return a, nil
		}
		if pages, ok := pagesOf(err); ok { // it has to be opened before anything else
			if err := k.visit(pages); err != nil {
				return nil, &halt{err}
			}
			in, state = nil, ""
			continue
		}
		if err != nil && lost == nil {
			return nil, &halt{fmt.Errorf("mcp: server %s, %s: %w", k.c.server, k.during, err)}
		}
		if err != nil {
			return nil, lost
		}
		if busy++; len(need.Requests) > 0 {
			busy = 0
		}
		if busy >= maxBusy || n >= maxInputs {
			return nil, &halt{k.refuse(fmt.Errorf("it has answered %d times that it needs more, and isn't done: call it later", n))}
		}
		if in, err = k.fulfil(need.Requests); err != nil {
			return nil, &halt{err}
		}
		state = need.State
	}
}

// fulfil answers what the server needs, all of it, so that a person gets all
// questions at once.
func (k *inquiry) fulfil(requests sdk.InputRequestMap) (sdk.InputResponseMap, error) {
	in := sdk.InputResponseMap{}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		var err error
		switch p := requests[id].(type) {
		case *sdk.ElicitParams:
			in[id], err = k.elicit(p)
		case *sdk.CreateMessageParams:
			in[id], err = k.sample(withTools(p))
		case *sdk.CreateMessageWithToolsParams:
			in[id], err = k.sample(p)
		case *sdk.ListRootsParams:
			in[id] = k.c.roots()
		default:
			err = k.refuse(fmt.Errorf("it asks for a %T, which this client doesn't know: use a newer version of it, or an older Config.Protocol", p))
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, err := range errs { // what isn't a question stands in the way of an answer
		if !errors.Is(err, graph.ErrInterrupted) {
			return nil, err
		}
	}
	return in, errors.Join(errs...)
}

// scoped returns a context for a question of the server's, in which it is told from
// others by what it says: when the request is made again it gets the same answer.
func (k *inquiry) scoped(kind string, says ...string) (context.Context, error) {
	name := digest(append(says, kind)...)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.total++; k.total > maxInputs {
		return nil, k.refuse(fmt.Errorf("it has asked %d times, and isn't done: report it to who made it", maxInputs))
	}
	k.asked[name]++
	return graph.Scope(k.ctx, fmt.Sprint("mcp ", name, " ", k.asked[name])), nil
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%q ", p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// asked lets fn answer what a server of an older protocol asks. When it can't, the
// request under way is ended before the server is told: it is to be cancelled, and not
// to go on without an answer.
func asked[R any](ctx context.Context, c *Client, cs *sdk.ClientSession, fn func(*inquiry) (R, error)) (r R, err error) {
	k := c.inquiryOf(ctx, cs)
	if k == nil {
		return r, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "no request is under way that this could be a part of"}
	}
	err = func() (err error) {
		defer k.wg.Done()
		defer func() {
			if v := recover(); v != nil {
				err = k.refuse(fmt.Errorf("answering it panicked: %v", v))
			}
		}()
		r, err = fn(k)
		return err
	}()
	if err == nil {
		return r, nil
	}
	k.cancel(&halt{err})
	select {
	case <-k.done:
	case <-ctx.Done():
	}
	return r, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was cancelled, since this has no answer now"}
}

// inquiryOf returns the request during which a session asks, nil if there is none.
func (c *Client) inquiryOf(ctx context.Context, cs *sdk.ClientSession) *inquiry {
	k, ok := ctx.Value(inquiryKey{}).(*inquiry)
	if !ok {
		c.mu.Lock()
		for s := range c.sessions {
			if s.ClientSession == cs {
				k = s.asking.Load()
			}
		}
		c.mu.Unlock()
	}
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open {
		return nil
	}
	k.wg.Add(1)
	return k
}
