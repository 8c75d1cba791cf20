package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/tool"
)

// ErrClosed is the error of a client that was closed.
var ErrClosed = errors.New("mcp: the client is closed")

// ConnectionError says that a server can't be reached, or that the connection to
// it ended. It isn't a [*tool.Error]: the model can do nothing about it. The next
// call connects again.
type ConnectionError struct {
	Server string // the command's or the URL's name, without arguments
	Tool   string // whose call was under way; the server may have done it. Or empty
	Stderr string // the end of what a process wrote to standard error, if it did
	Err    error
}

func (e *ConnectionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mcp: server %s", e.Server)
	if e.Tool != "" {
		fmt.Fprintf(&b, ": lost while tool %q ran", e.Tool)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if s := strings.TrimSpace(e.Stderr); s != "" {
		fmt.Fprintf(&b, "; it wrote %q", s)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// ListError says that what a server lists can't be taken: it doesn't end, or it is
// none. Other requests may work.
type ListError struct {
	Server string // name
	Err    error
}

func (e *ListError) Error() string {
	return fmt.Sprintf("mcp: server %s lists what can't be taken: %v; report it to who made it", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *ListError) Unwrap() error { return e.Err }

// codeRejected is the SDK's code for what HTTP refused with a status that may
// pass, such as 503.
const codeRejected = -32005

// answered returns the error that the server itself gave as its answer.
func answered(err error) (*jsonrpc.Error, bool) {
	var e *jsonrpc.Error
	if errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing) || !errors.As(err, &e) || e.Code == codeRejected {
		return nil, false
	}
	return e, true
}

// failed says why a request of this session failed: the caller's context, the
// client's end, the server's answer, or the connection.
func (c *Client) failed(ctx context.Context, s *session, toolName string, err error) error {
	if h, ok := errors.AsType[*halt](err); ok {
		return h.err
	}
	switch e, ok := answered(err); {
	case ctx.Err() != nil:
		if toolName != "" {
			return fmt.Errorf("mcp: tool %q: %w", toolName, ctx.Err())
		}
		return fmt.Errorf("mcp: server %s: %w", c.server, ctx.Err())
	case c.ctx.Err() != nil:
		return ErrClosed
	case ok && toolName != "":
		return &tool.Error{Tool: toolName, Err: e}
	case errors.Is(err, errEndless), errors.Is(err, errNull):
		return &ListError{Server: c.server, Err: c.hide.Error(err)}
	case ok:
		return fmt.Errorf("mcp: server %s: %w", c.server, c.hide.Error(err))
	}
	ce := &ConnectionError{Server: c.server, Tool: toolName, Err: c.hide.Error(err)}
	if s != nil {
		ce.Stderr = s.link.stderr()
	}
	return ce
}
