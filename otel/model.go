package otel

import (
	"context"
	"iter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// ModelInfo says what a model is, which it doesn't tell itself.
type ModelInfo struct {
	// Provider is who runs the model, by the conventions' name: "openai",
	// "anthropic", "gcp.gemini", "aws.bedrock", "mistral_ai", ...
	Provider string

	// Name is the model that is asked unless a request names another.
	Name string
}

// Model returns a model whose calls are reported. Put it around [model.Retry] and
// the like to have a call and its retries as one span, inside to have one for
// each try. Tokens of answers that [model.Cached] gave to Generate are not
// counted.
func (t *Telemetry) Model(m model.Model, info ModelInfo) model.Model {
	return &observedModel{t: t, m: m, info: info}
}

type observedModel struct {
	t    *Telemetry
	m    model.Model
	info ModelInfo
}

// Unwrap returns the model inside.
func (o *observedModel) Unwrap() model.Model { return o.m }

func (o *observedModel) Generate(ctx context.Context, req *model.Request) (resp *model.Response, err error) {
	ctx, c := o.begin(ctx, req, false)
	err = errPanicked // unless it returns
	defer func() {
		if resp == nil {
			c.end(chat.Message{}, outcomeOf(ctx, err), err)
			return
		}
		c.cached = resp.Cached
		c.end(resp.Message, outcomeOf(ctx, err), err)
	}()
	return o.m.Generate(ctx, req)
}

func (o *observedModel) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		ctx, c := o.begin(ctx, req, true)
		var sum chat.Collector
		outcome, failure := OutcomeFailed, errPanicked // unless it comes to an end
		defer func() { c.end(sum.Message(), outcome, failure) }()
		for chunk, err := range o.m.Stream(ctx, req) {
			if err != nil {
				outcome, failure = outcomeOf(ctx, err), err
				yield(chunk, err)
				return
			}
			c.chunk(chunk)
			sum.Add(chunk)
			if !yield(chunk, nil) {
				outcome, failure = OutcomeAbandoned, nil
				return
			}
		}
		outcome, failure = OutcomeSuccess, nil
	}
}

// call is a call of a model that is under way.
type call struct {
	t      *Telemetry
	ctx    context.Context
	span   trace.Span
	start  time.Time
	first  time.Duration // until the first chunk that says something; 0: there was none
	chunks int
	stream bool
	cached bool
	attrs  []attribute.KeyValue // of metrics
}

func (o *observedModel) begin(ctx context.Context, req *model.Request, stream bool) (context.Context, *call) {
	name := o.info.Name
	if req.Model != "" {
		name = req.Model
	}
	attrs := []attribute.KeyValue{operationKey.String("chat")}
	if o.info.Provider != "" {
		attrs = append(attrs, providerKey.String(o.info.Provider))
	}
	title := "chat"
	if name != "" {
		attrs = append(attrs, requestModelKey.String(name))
		title += " " + name
	}
	c := &call{t: o.t, start: time.Now(), stream: stream, attrs: attrs}
	c.ctx, c.span = o.t.tracer.Start(ctx, title, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	if c.span.IsRecording() {
		c.span.SetAttributes(requestAttributes(ctx, req, stream)...)
		if o.t.content {
			c.span.SetAttributes(inputKey.String(messages(req.Messages)))
			if len(req.Tools) > 0 {
				c.span.SetAttributes(toolsKey.String(definitions(req.Tools)))
			}
		}
	}
	return c.ctx, c
}

func requestAttributes(ctx context.Context, req *model.Request, stream bool) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	number := func(k attribute.Key, v *float64) {
		if v != nil {
			attrs = append(attrs, k.Float64(*v))
		}
	}
	if thread := graph.Info(ctx).Thread; thread != "" {
		attrs = append(attrs, conversationKey.String(thread))
	}
	if stream {
		attrs = append(attrs, requestStreamKey.Bool(true))
	}
	number(temperatureKey, req.Temperature)
	number(topPKey, req.TopP)
	if req.TopK != nil {
		attrs = append(attrs, topKKey.Int(*req.TopK))
	}
	number(frequencyPenaltyKey, req.FrequencyPenalty)
	number(presencePenaltyKey, req.PresencePenalty)
	if req.MaxTokens > 0 {
		attrs = append(attrs, maxTokensKey.Int(req.MaxTokens))
	}
	if len(req.Stop) > 0 {
		attrs = append(attrs, stopKey.StringSlice(req.Stop))
	}
	if req.Seed != nil {
		attrs = append(attrs, seedKey.Int64(*req.Seed))
	}
	if req.Output != nil {
		attrs = append(attrs, outputTypeKey.String("json"))
	}
	return attrs
}

func (c *call) chunk(k chat.Chunk) {
	c.chunks++
	// Some providers send an ID and a role at once.
	if c.first == 0 && (k.Text != "" || k.Reasoning != "" || len(k.ToolCalls) > 0 || len(k.Parts) > 0) {
		c.first = max(time.Since(c.start), 1)
		c.t.firsts.Record(c.ctx, c.first.Seconds(), with(c.attrs))
	}
}

// end reports what came of the call. The message may be a part of an answer.
func (c *call) end(m chat.Message, outcome string, err error) {
	if m.Model != "" {
		c.attrs = append(c.attrs, responseModelKey.String(m.Model))
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(c.responseAttributes(m)...)
		if c.t.content && len(m.Parts) > 0 {
			c.span.SetAttributes(outputKey.String(messages([]chat.Message{m})))
		}
	}
	shared := settle(c.span, outcome, err)
	c.span.End()
	if u := m.Usage; u != nil && !c.cached {
		tokens := func(kind string, n int) {
			c.t.tokens.Record(c.ctx, int64(n), with(append(c.attrs[:len(c.attrs):len(c.attrs)], tokenTypeKey.String(kind))))
		}
		tokens("input", u.Input)
		tokens("output", u.Output)
	}
	c.t.operations.Record(c.ctx, since(c.start), with(append(c.attrs, shared...)))
}

func (c *call) responseAttributes(m chat.Message) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if m.Model != "" {
		attrs = append(attrs, responseModelKey.String(m.Model))
	}
	if m.ID != "" {
		attrs = append(attrs, responseIDKey.String(m.ID))
	}
	if m.Finish != "" {
		attrs = append(attrs, finishKey.StringSlice([]string{string(m.Finish)}))
	}
	if c.first > 0 {
		attrs = append(attrs, firstChunkKey.Float64(c.first.Seconds()))
	}
	if c.stream {
		attrs = append(attrs, chunksKey.Int(c.chunks))
	}
	if c.cached {
		attrs = append(attrs, cachedKey.Bool(true))
	}
	if u := m.Usage; u != nil {
		attrs = append(attrs, inputTokensKey.Int(u.Input), outputTokensKey.Int(u.Output))
		for _, part := range []struct {
			key attribute.Key
			n   int
		}{{cacheReadKey, u.CacheRead}, {cacheWriteKey, u.CacheWrite}, {reasoningKey, u.Reasoning}} {
			if part.n > 0 {
				attrs = append(attrs, part.key.Int(part.n))
			}
		}
	}
	return attrs
}
