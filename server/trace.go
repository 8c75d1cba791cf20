package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/superstep-dev/superstep/internal/tracecontext"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// A request that starts a run may say where in a trace it stands. That is kept with
// the run, since another process may come to do it, and given to the graph's tracer.

// askerOf returns the place in a trace from which a run is asked for; nil if there
// is none. The answers of some requests wait for the run, which then is a part of
// what the caller does.
func askerOf(r *http.Request) *tracecontext.Caller {
	c := tracecontext.Of(r.Header)
	if c != nil {
		c.Detached = !strings.HasSuffix(r.Pattern, "/runs/wait") && !strings.HasSuffix(r.Pattern, "/runs/stream")
	}
	return c
}

// traceKey is where the data of a webhook keep the headers that are sent with it.
const traceKey = "__trace__"

// traceOf returns the place in a trace from which a run calls its webhook: its own,
// if the graph is observed, or its caller's.
func traceOf(run *db.Run, b *runBody, snap *snapshot) *tracecontext.Caller {
	if snap != nil && snap.Metadata["run_id"] == run.ID {
		if own := (&tracecontext.Caller{Parent: snap.Metadata["traceparent"], State: snap.Metadata["tracestate"]}); own.Valid() {
			return own
		}
	}
	return b.Trace
}

// TraceParent returns the headers traceparent and tracestate of the request that
// started the run which works with a context, and whether the caller waits for it.
// It is for tracers of one's own; package otel reads them by itself. Parent is empty
// if the request had none.
func TraceParent(ctx context.Context) (parent, state string, waits bool) {
	c, ok := tracecontext.From(ctx)
	return c.Parent, c.State, ok && !c.Detached
}
