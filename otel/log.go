package otel

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/graph"
)

// LogHandler returns a handler that adds to each record what its context tells:
// trace_id and span_id of the span, and in a node graph, node, run and, with a
// checkpointer, thread. They stand at the top whatever groups the logger has.
// Records are logged with a context by [slog.InfoContext] and the like.
func LogHandler(h slog.Handler) slog.Handler { return &logHandler{top: h, inner: h} }

type logHandler struct {
	top   slog.Handler // before the first group
	inner slog.Handler
	after []func(slog.Handler) slog.Handler // from top to inner
}

func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	attrs := correlation(ctx)
	switch {
	case len(attrs) == 0:
		return h.inner.Handle(ctx, r)
	case len(h.after) == 0:
		r = r.Clone()
		r.AddAttrs(attrs...)
		return h.inner.Handle(ctx, r)
	}
	inner := h.top.WithAttrs(attrs)
	for _, f := range h.after {
		inner = f(inner)
	}
	return inner.Handle(ctx, r)
}

func correlation(ctx context.Context) []slog.Attr {
	var attrs []slog.Attr
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		text("trace_id", sc.TraceID().String())
		text("span_id", sc.SpanID().String())
	}
	in := graph.Info(ctx)
	text("thread", in.Thread)
	text("run", in.Run)
	text("graph", in.Graph)
	text("node", in.Node)
	return attrs
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.after) == 0 {
		return LogHandler(h.inner.WithAttrs(attrs))
	}
	return h.then(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.then(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *logHandler) then(f func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{top: h.top, inner: f(h.inner), after: append(h.after[:len(h.after):len(h.after)], f)}
}
