// Package model is the contract between Superstep and language models.
//
// A [Model] takes a [Request] and answers with a message, whole or in chunks as
// they come. The packages openai, anthropic and gemini below it implement it on
// the vendors' own SDKs, scripted implements it for tests; a function is one with
// [Func]. [Retry], [Fallback], [RateLimit], [Cached], [Budgeted] and [Logged] wrap
// any model. [Generate] asks for an answer in the form of a Go type.
package model

import (
	"context"
	"encoding/json"
	"iter"
	"maps"

	"github.com/superstep-dev/superstep/chat"
)

// The vocabulary of package chat that requests and answers are made of.
type (
	Message  = chat.Message
	Role     = chat.Role
	ToolSpec = chat.ToolSpec
	ToolCall = chat.ToolCall
	Usage    = chat.Usage
)

// Model is a language model. It is safe for concurrent use.
//
// Both methods return promptly when the context ends, with an error that wraps
// the context's. Failures of the provider are an [*Error]. They don't alter the
// request or keep it.
type Model interface {
	// Generate returns the whole answer.
	Generate(ctx context.Context, req *Request) (*Response, error)

	// Stream yields the answer in chunks as they come: they add up to what
	// Generate returns. An error is the last thing it yields. A caller that
	// breaks out ends the request.
	Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error]
}

// Request is what a model is asked.
type Request struct {
	// Messages is the conversation. Messages of the system may stand anywhere;
	// a provider that has one place for them joins them there.
	Messages []chat.Message

	// Tools are those that the model may have called.
	Tools      []chat.ToolSpec
	ToolChoice ToolChoice

	// Output asks for an answer in JSON that follows a schema.
	Output *Schema

	Config
}

// ToolChoice says whether a model calls tools: [ToolAuto], [ToolNone],
// [ToolRequired] or the name of the one tool it must call.
type ToolChoice string

// The choices that aren't a tool's name.
const (
	ToolAuto     ToolChoice = ""          // as it likes
	ToolNone     ToolChoice = "@none"     // never
	ToolRequired ToolChoice = "@required" // at least one
)

// Schema is the form of an answer.
type Schema struct {
	Name        string // letters, digits, - and _; "answer" if empty
	Description string
	Schema      json.RawMessage // JSON Schema of an object
}

// Config are the settings of a request. What is not set is the provider's
// default. A setting that a provider doesn't know is an error of its
// package, not ignored.
type Config struct {
	// Model is the name of the model, if it isn't the one that the Model was
	// made for.
	Model string

	Temperature      *float64
	TopP             *float64
	TopK             *int
	FrequencyPenalty *float64
	PresencePenalty  *float64
	MaxTokens        int // of the answer
	Stop             []string
	Seed             *int64

	// Reasoning is how much the model thinks: "none", "low", "medium", "high"
	// or what else the provider knows. ReasoningTokens bounds it instead, for
	// providers that count.
	Reasoning       string
	ReasoningTokens int

	// ParallelTools set to false lets the model call one tool at a time.
	ParallelTools *bool

	// Extra are fields of the provider's own, which are added to the body of
	// the request as they are.
	Extra map[string]any
}

// With returns c with the settings that over has in the place of its own. Fields
// of Extra are taken one by one; neither map is altered.
func (c Config) With(over Config) Config {
	set(&c.Model, over.Model)
	set(&c.Temperature, over.Temperature)
	set(&c.TopP, over.TopP)
	set(&c.TopK, over.TopK)
	set(&c.FrequencyPenalty, over.FrequencyPenalty)
	set(&c.PresencePenalty, over.PresencePenalty)
	set(&c.MaxTokens, over.MaxTokens)
	set(&c.Seed, over.Seed)
	set(&c.Reasoning, over.Reasoning)
	set(&c.ReasoningTokens, over.ReasoningTokens)
	set(&c.ParallelTools, over.ParallelTools)
	if over.Stop != nil {
		c.Stop = over.Stop
	}
	if len(over.Extra) > 0 {
		extra := maps.Clone(c.Extra)
		if extra == nil {
			extra = map[string]any{}
		}
		maps.Copy(extra, over.Extra)
		c.Extra = extra
	}
	return c
}

func set[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

// Response is a model's answer.
type Response struct {
	// Message is the assistant's. It carries the model's name, the usage and
	// the reason to stop as far as the provider reports them.
	Message chat.Message

	// Cached says that the answer comes from a cache of [Cached].
	Cached bool
}

// Func is a model that is a function. Its Stream yields the answer in one chunk.
type Func func(ctx context.Context, req *Request) (*Response, error)

// Generate calls the function.
func (f Func) Generate(ctx context.Context, req *Request) (*Response, error) { return f(ctx, req) }

// Stream calls the function and yields its answer.
func (f Func) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		resp, err := f(ctx, req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		yield(chat.ChunkOf(resp.Message), nil)
	}
}

// Collect adds the chunks of a stream up to an answer. An error comes with the
// part of the answer that came before it.
func Collect(stream iter.Seq2[chat.Chunk, error]) (*Response, error) {
	var c chat.Collector
	for chunk, err := range stream {
		if err != nil {
			return &Response{Message: c.Message()}, err
		}
		c.Add(chunk)
	}
	return &Response{Message: c.Message()}, nil
}
