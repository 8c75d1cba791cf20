package otel

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/tool"
)

// Tool returns a tool whose calls are reported. One whose definition is wrong is
// returned as it is, so that what is wrong is said as ever.
func (t *Telemetry) Tool(tl tool.Tool) tool.Tool {
	if tool.Check(tl) != nil {
		return tl
	}
	return &observedTool{tl, t}
}

// Tools is [Telemetry.Tool] for several.
func (t *Telemetry) Tools(tools ...tool.Tool) []tool.Tool {
	out := make([]tool.Tool, len(tools))
	for i, tl := range tools {
		out[i] = t.Tool(tl)
	}
	return out
}

type observedTool struct {
	tool.Tool
	t *Telemetry
}

// Unwrap returns the tool inside.
func (o *observedTool) Unwrap() tool.Tool { return o.Tool }

func (o *observedTool) Check() error { return tool.Check(o.Tool) }

func (o *observedTool) Call(ctx context.Context, args json.RawMessage) (res tool.Result, err error) {
	start := time.Now()
	spec := o.Spec()
	attrs := []attribute.KeyValue{operationKey.String("execute_tool"), toolNameKey.String(spec.Name)}
	ctx, span := o.t.tracer.Start(ctx, "execute_tool "+spec.Name, trace.WithAttributes(attrs...))
	if span.IsRecording() {
		o.describe(ctx, span, args)
	}
	err = errPanicked // unless it returns
	defer func() {
		if err == nil && o.t.content && span.IsRecording() {
			span.SetAttributes(toolResultKey.String(strings.ToValidUTF8(res.Text(), "\uFFFD")))
		}
		shared := settle(span, outcomeOf(ctx, err), err)
		span.End()
		o.t.operations.Record(ctx, since(start), with(append(attrs, shared...)))
	}()
	return o.Tool.Call(ctx, args)
}

func (o *observedTool) describe(ctx context.Context, span trace.Span, args json.RawMessage) {
	spec := o.Spec()
	attrs := []attribute.KeyValue{toolTypeKey.String("function")}
	for k, v := range map[attribute.Key]string{
		toolDescriptionKey: spec.Description, toolCallKey: tool.InfoOf(ctx).CallID, conversationKey: graph.Info(ctx).Thread,
	} {
		if v != "" {
			attrs = append(attrs, k.String(v))
		}
	}
	if o.t.content {
		attrs = append(attrs, toolArgsKey.String(strings.ToValidUTF8(string(args), "\uFFFD")))
	}
	span.SetAttributes(attrs...)
}
