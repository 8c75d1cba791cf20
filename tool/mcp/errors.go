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
		return &ListError{Server: c.server, Err: c.redacted(err)}
	case ok:
		return fmt.Errorf("mcp: server %s: %w", c.server, c.redacted(err))
	}
	ce := &ConnectionError{Server: c.server, Tool: toolName, Err: c.redacted(err)}
	if s != nil {
		ce.Stderr = s.link.stderr()
	}
	return ce
}

// redacted returns err, or what stands for it when its text has a secret.
func (c *Client) redacted(err error) error {
	text := err.Error()
	clean := text
	for _, s := range c.hide {
		clean = strings.ReplaceAll(clean, s, "[redacted]")
	}
	if clean == text {
		return err
	}
	return &redactedError{clean, err}
}

// redactedError is an error whose text has a secret. What it stands for can be
// asked for with errors.Is, but not got at.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

// Is reports whether the error is, or wraps, another.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
