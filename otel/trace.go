package otel

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/tracecontext"
)

// Observe returns the option that has a graph's runs reported. It is given to
// Compile or to a call; see [graph.Trace].
func (t *Telemetry) Observe() graph.RunOption { return graph.Trace(t) }

var _ graph.Tracer = (*Telemetry)(nil)

// Begin implements [graph.Tracer].
func (t *Telemetry) Begin(ctx context.Context, p graph.Part) (context.Context, func(graph.Outcome)) {
	start := time.Now()
	root := p.Kind == graph.PartRun && len(p.Path) == 0
	if root {
		t.active.Add(ctx, 1, with(metricAttributes(p)))
	}
	opts := []trace.SpanStartOption{trace.WithAttributes(attributesOf(p)...)}
	if root {
		var link []trace.Link
		if ctx, link = asked(ctx); link != nil {
			opts = append(opts, trace.WithLinks(link...))
		}
	}
	ctx, span := t.tracer.Start(ctx, nameOf(p), opts...)
	if _, known := p.Metadata["traceparent"]; root && p.Metadata != nil && !known {
		// For the link of the run that goes on after this one.
		propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(p.Metadata))
	}
	return ctx, func(o graph.Outcome) {
		if span.IsRecording() {
			report(span, p, o)
		}
		shared := settle(span, partOutcome(o), o.Err)
		span.End()
		attrs := append(metricAttributes(p), shared...)
		switch {
		case root:
			t.active.Add(ctx, -1, with(metricAttributes(p)))
			t.runs.Record(ctx, since(start), with(attrs))
		case p.Kind == graph.PartAttempt && !o.Cached:
			t.nodes.Record(ctx, since(start), with(attrs))
		}
	}
}

// asked puts a run into the trace of whoever asked a server for it, if it stands in
// no span of this process. A caller who doesn't wait for the run is linked to: the run
// may begin, and end, long after what the caller does.
func asked(ctx context.Context) (context.Context, []trace.Link) {
	caller, ok := tracecontext.From(ctx)
	if !ok || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil
	}
	headers := propagation.MapCarrier{"traceparent": caller.Parent, "tracestate": caller.State}
	if !caller.Detached {
		return propagation.TraceContext{}.Extract(ctx, headers), nil
	}
	from := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
	if !from.IsValid() {
		return ctx, nil
	}
	return ctx, []trace.Link{{SpanContext: from}}
}

func nameOf(p graph.Part) string {
	switch p.Kind {
	case graph.PartRun:
		return "invoke_workflow " + p.Graph
	case graph.PartStep:
		return "superstep"
	case graph.PartHandler:
		return "handle " + p.Node
	}
	return "node " + p.Node
}

// metricAttributes are few, and the same for all threads.
func metricAttributes(p graph.Part) []attribute.KeyValue {
	attrs := []attribute.KeyValue{graphKey.String(p.Graph)}
	if p.Node != "" {
		attrs = append(attrs, nodeKey.String(p.Node))
	}
	return attrs
}

func attributesOf(p graph.Part) []attribute.KeyValue {
	attrs := []attribute.KeyValue{graphKey.String(p.Graph)}
	text := func(k attribute.Key, v string) {
		if v != "" {
			attrs = append(attrs, k.String(v))
		}
	}
	text(threadKey, p.Thread)
	text(namespaceKey, p.Namespace)
	text(pathKey, strings.Join(p.Path, "/"))
	text(runKey, p.Run)
	switch p.Kind {
	case graph.PartRun:
		attrs = append(attrs, operationKey.String("invoke_workflow"), workflowKey.String(p.Graph))
		text(conversationKey, p.Thread)
	case graph.PartStep:
		attrs = append(attrs, stepKey.Int(p.Step), tasksKey.Int(p.Tasks))
	default:
		attrs = append(attrs, stepKey.Int(p.Step), nodeKey.String(p.Node), taskKey.String(p.Task), attemptKey.Int(p.Attempt))
		text(fromKey, p.From)
		if len(p.Tags) > 0 {
			attrs = append(attrs, tagsKey.StringSlice(p.Tags))
		}
	}
	return attrs
}

// partOutcome names how a part ended.
func partOutcome(o graph.Outcome) string {
	switch {
	case o.Cancelled:
		return OutcomeCancelled
	case o.Err != nil:
		return OutcomeFailed
	case len(o.Interrupts) > 0:
		return OutcomeInterrupted
	case len(o.Waits) > 0:
		return OutcomeWaiting
	case o.Cached:
		return OutcomeCached
	}
	return OutcomeSuccess
}

// report adds to the span what is known at the end.
func report(span trace.Span, p graph.Part, o graph.Outcome) {
	if o.Run != "" {
		span.SetAttributes(runKey.String(o.Run))
	}
	if o.Checkpoint != "" {
		span.SetAttributes(checkpointKey.String(o.Checkpoint))
	}
	if o.Retry {
		span.AddEvent("retry", trace.WithAttributes(attemptKey.Int(p.Attempt+1), attribute.Float64("superstep.retry.delay", o.Delay.Seconds())))
	}
	for _, i := range o.Interrupts {
		if toldBy(p, i.Path, i.When) {
			span.AddEvent("interrupt", trace.WithAttributes(
				attribute.String("superstep.interrupt.id", i.ID), attribute.String("superstep.interrupt.key", i.Key),
				attribute.String("superstep.interrupt.when", i.When), nodeKey.String(i.Node)))
		}
	}
	for _, w := range o.Waits {
		if !toldBy(p, w.Path, "inside") {
			continue
		}
		attrs := []attribute.KeyValue{attribute.String("superstep.wait.key", w.Key), nodeKey.String(w.Node)}
		if w.Event != "" {
			attrs = append(attrs, attribute.String("superstep.wait.event", w.Event))
		}
		if !w.Until.IsZero() {
			attrs = append(attrs, attribute.String("superstep.wait.until", w.Until.Format(time.RFC3339)))
		}
		span.AddEvent("wait", trace.WithAttributes(attrs...))
	}
	if o.Before == "" {
		return
	}
	before := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(o.BeforeMetadata)))
	if before.IsValid() {
		span.AddLink(trace.Link{SpanContext: before, Attributes: []attribute.KeyValue{checkpointKey.String(o.Before)}})
	}
}

// toldBy reports whether a question is an event of this part: each is of one.
func toldBy(p graph.Part, path []string, when string) bool {
	if len(path) > 0 { // it is the subgraph's
		return false
	}
	if when != "inside" {
		return p.Kind == graph.PartRun
	}
	return p.Kind == graph.PartAttempt || p.Kind == graph.PartHandler
}
