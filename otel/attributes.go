package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// The names of the semantic conventions. They are written down here since the
// packages of OpenTelemetry drop those that are in development.
const (
	errorTypeKey = attribute.Key("error.type")

	operationKey    = attribute.Key("gen_ai.operation.name")
	providerKey     = attribute.Key("gen_ai.provider.name")
	workflowKey     = attribute.Key("gen_ai.workflow.name")
	conversationKey = attribute.Key("gen_ai.conversation.id")

	requestModelKey     = attribute.Key("gen_ai.request.model")
	requestStreamKey    = attribute.Key("gen_ai.request.stream")
	temperatureKey      = attribute.Key("gen_ai.request.temperature")
	topPKey             = attribute.Key("gen_ai.request.top_p")
	topKKey             = attribute.Key("gen_ai.request.top_k")
	maxTokensKey        = attribute.Key("gen_ai.request.max_tokens")
	frequencyPenaltyKey = attribute.Key("gen_ai.request.frequency_penalty")
	presencePenaltyKey  = attribute.Key("gen_ai.request.presence_penalty")
	stopKey             = attribute.Key("gen_ai.request.stop_sequences")
	seedKey             = attribute.Key("gen_ai.request.seed")
	outputTypeKey       = attribute.Key("gen_ai.output.type")

	responseModelKey = attribute.Key("gen_ai.response.model")
	responseIDKey    = attribute.Key("gen_ai.response.id")
	finishKey        = attribute.Key("gen_ai.response.finish_reasons")
	firstChunkKey    = attribute.Key("gen_ai.response.time_to_first_chunk")
	inputTokensKey   = attribute.Key("gen_ai.usage.input_tokens")
	outputTokensKey  = attribute.Key("gen_ai.usage.output_tokens")
	cacheReadKey     = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	cacheWriteKey    = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	reasoningKey     = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	tokenTypeKey     = attribute.Key("gen_ai.token.type")

	toolNameKey        = attribute.Key("gen_ai.tool.name")
	toolCallKey        = attribute.Key("gen_ai.tool.call.id")
	toolTypeKey        = attribute.Key("gen_ai.tool.type")
	toolDescriptionKey = attribute.Key("gen_ai.tool.description")

	inputKey      = attribute.Key("gen_ai.input.messages")
	outputKey     = attribute.Key("gen_ai.output.messages")
	toolsKey      = attribute.Key("gen_ai.tool.definitions")
	toolArgsKey   = attribute.Key("gen_ai.tool.call.arguments")
	toolResultKey = attribute.Key("gen_ai.tool.call.result")
)

// Superstep's own names.
const (
	graphKey      = attribute.Key("superstep.graph")
	pathKey       = attribute.Key("superstep.path")
	threadKey     = attribute.Key("superstep.thread")
	namespaceKey  = attribute.Key("superstep.namespace")
	runKey        = attribute.Key("superstep.run")
	stepKey       = attribute.Key("superstep.step")
	tasksKey      = attribute.Key("superstep.tasks")
	nodeKey       = attribute.Key("superstep.node")
	taskKey       = attribute.Key("superstep.task")
	attemptKey    = attribute.Key("superstep.attempt")
	tagsKey       = attribute.Key("superstep.tags")
	fromKey       = attribute.Key("superstep.from")
	checkpointKey = attribute.Key("superstep.checkpoint")
	outcomeKey    = attribute.Key("superstep.outcome")
	cachedKey     = attribute.Key("superstep.cached")
	chunksKey     = attribute.Key("superstep.chunks")
)

// The values of superstep.outcome.
const (
	OutcomeSuccess     = "success"
	OutcomeFailed      = "failed"
	OutcomeCancelled   = "cancelled"
	OutcomeInterrupted = "interrupted" // an answer is waited for
	OutcomeWaiting     = "waiting"     // a time or an event is waited for
	OutcomeCached      = "cached"      // the result of a node came from its cache
	OutcomeAbandoned   = "abandoned"   // the reader of a stream had enough
)

// settle sets what came of a span's work, and returns the attributes that metrics
// of it share.
func settle(span trace.Span, outcome string, err error) []attribute.KeyValue {
	attrs := []attribute.KeyValue{outcomeKey.String(outcome)}
	if outcome == OutcomeFailed {
		attrs = append(attrs, errorTypeKey.String(errorType(err)))
		span.SetStatus(codes.Error, strings.ToValidUTF8(err.Error(), "\uFFFD"))
	}
	span.SetAttributes(attrs...)
	return attrs
}

// outcomeOf says what came of a call with that error.
func outcomeOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return OutcomeSuccess
	case errors.Is(err, graph.ErrInterrupted):
		return OutcomeInterrupted
	case cancelled(ctx, err):
		return OutcomeCancelled
	}
	return OutcomeFailed
}

// errorType names the kind of an error: one of few names.
func errorType(err error) string {
	var ofModel *model.Error
	var late *graph.TimeoutError
	var panicked *graph.PanicError
	var toolPanicked *tool.PanicError
	switch {
	case errors.As(err, &ofModel) && ofModel.Kind != "":
		return snake(string(ofModel.Kind))
	case errors.As(err, &panicked), errors.As(err, &toolPanicked), errors.Is(err, errPanicked):
		return "panic"
	case errors.As(err, &late):
		return snake(late.Kind + " timeout")
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	if name := typeOf(err); name != "" {
		return name
	}
	return "_OTHER" // the conventions' word
}

func snake(s string) string { return strings.ReplaceAll(s, " ", "_") }

// typeOf returns the type of the first error in err's tree that says more than
// where the error comes from; empty if none does.
func typeOf(err error) string {
	switch e := err.(type) {
	case nil:
		return ""
	case *graph.NodeError:
		return typeOf(e.Err)
	case *tool.Error:
		if e.Kind != tool.ErrorFailed {
			return snake(string(e.Kind))
		}
		return typeOf(e.Err)
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			if name := typeOf(e); name != "" {
				return name
			}
		}
		return ""
	}
	name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	switch pkg, typ, _ := strings.Cut(name, "."); pkg {
	case "errors", "fmt":
		return typeOf(errors.Unwrap(err))
	case "local", "core", "state": // internal packages whose errors graph has
		return "graph." + typ
	}
	return name
}

var errPanicked = errors.New("panic")
