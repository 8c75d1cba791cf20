// Package tracecontext carries the trace of whoever asked for a run to what traces
// the run, which may be in another process and much later. It knows the headers of
// the W3C's Trace Context, and nothing of those who read them.
package tracecontext

import (
	"context"
	"net/http"
	"strings"

	"github.com/superstep-dev/superstep/internal/lazyregexp"
)

// The headers.
const (
	ParentHeader = "Traceparent"
	StateHeader  = "Tracestate"
)

// Caller is a place in the trace of whoever asked for a run.
type Caller struct {
	Parent string `json:"traceparent"`
	State  string `json:"tracestate,omitempty"`

	// Detached says that the caller doesn't wait for the run: the run is a trace of
	// its own, which leads back to the caller's.
	Detached bool `json:"detached,omitempty"`
}

// parent is a traceparent, also one of a later version, which may be longer.
var parent = lazyregexp.New(`^([0-9a-e][0-9a-f]|f[0-9a-e])-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[0-9a-zA-Z-]{0,200})?$`)

const lenFirst = 55 // of a traceparent of the version 00

const maxState = 512 // as much as everybody has to pass on

// Valid reports whether there is such a place. A state that can't be passed on is
// left out.
func (c *Caller) Valid() bool {
	if !parent().MatchString(c.Parent) || strings.HasPrefix(c.Parent, "00") && len(c.Parent) != lenFirst {
		return false
	}
	if strings.Contains(c.Parent, "-"+strings.Repeat("0", 32)+"-") || strings.Contains(c.Parent, "-"+strings.Repeat("0", 16)+"-") {
		return false
	}
	if len(c.State) > maxState || strings.ContainsFunc(c.State, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.State = ""
	}
	return true
}

// Of returns what the headers of a request say; nil if they say nothing that is
// valid.
func Of(h http.Header) *Caller {
	c := &Caller{Parent: h.Get(ParentHeader), State: strings.Join(h.Values(StateHeader), ",")}
	if len(h.Values(ParentHeader)) != 1 || !c.Valid() {
		return nil
	}
	return c
}

// Set sets the headers of a request.
func (c *Caller) Set(h http.Header) {
	h.Set(ParentHeader, c.Parent)
	if c.State != "" {
		h.Set(StateHeader, c.State)
	}
}

type key struct{}

// With returns a context that says who asked for the run that works with it.
func With(ctx context.Context, c *Caller) context.Context {
	if c == nil || !c.Valid() {
		return ctx
	}
	return context.WithValue(ctx, key{}, *c)
}

// From returns what [With] was given.
func From(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(key{}).(Caller)
	return c, ok
}
