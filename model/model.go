// Package model is the contract between Superstep and language models.
//
// A [Model] takes a [Request] and answers with a message, whole or in chunks as
// they come. The packages openai, anthropic and gemini below it implement it over the
// vendors' APIs, azure, vertex and bedrock where clouds run their models, scripted implements it for tests; a function is one with
// [Func]. [Retry], [Fallback], [RateLimit], [Cached], [Budgeted] and [Logged] wrap
// any model. [Generate] asks for an answer in the form of a Go type.
package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
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

	// Cache are the places up to which the provider is asked to keep what it has
	// read, for requests that begin in the same way. The answer is the same without.
	// Anthropic's models take up to [MaxCachePoints], wherever they run; OpenAI's and
	// Gemini's find out by themselves what to keep, and for them Cache has no effect.
	// What was kept and found again is in [chat.Usage].
	Cache []CachePoint

	Config
}

type requestJSON struct {
	Messages   []chat.Message  `json:"messages,omitempty"`
	Tools      []canonicalTool `json:"tools,omitempty"`
	ToolChoice ToolChoice      `json:"tool_choice,omitempty"`
	Output     *canonicalTool  `json:"output,omitempty"`
	Cache      []cachePoint    `json:"cache,omitempty"`
	Config     canonicalConfig `json:"config,omitzero"`
}

type cachePoint struct {
	Tools   bool    `json:"tools,omitempty"`
	Message int     `json:"message,omitempty"`
	Parts   int     `json:"parts,omitempty"`
	TTL     float64 `json:"ttl,omitempty"` // seconds
}

// MarshalJSON writes {"messages", "tools", "tool_choice", "output", "cache", "config"},
// without what isn't set and without Headers, which may be secret.
func (r Request) MarshalJSON() ([]byte, error) {
	j := requestJSON{Messages: r.Messages, ToolChoice: r.ToolChoice, Config: r.Config.canonical()}
	for _, t := range r.Tools {
		j.Tools = append(j.Tools, canonicalTool{t.Name, t.Description, t.Schema, t.Strict})
	}
	if o := r.Output; o != nil {
		j.Output = &canonicalTool{Name: o.Name, Description: o.Description, Schema: o.Schema}
	}
	for _, c := range r.Cache {
		j.Cache = append(j.Cache, cachePoint{c.Tools, c.Message, c.Parts, c.TTL.Seconds()})
	}
	return plainjson.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Request) UnmarshalJSON(data []byte) error {
	var j requestJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return fmt.Errorf("a request to a model: %w", err)
	}
	c := j.Config
	*r = Request{Messages: j.Messages, ToolChoice: j.ToolChoice, Config: Config{
		Model: c.Model, Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK,
		FrequencyPenalty: c.FrequencyPenalty, PresencePenalty: c.PresencePenalty,
		MaxTokens: c.MaxTokens, Stop: c.Stop, Seed: c.Seed,
		Reasoning: c.Reasoning, ReasoningTokens: c.ReasoningTokens,
		ParallelTools: c.ParallelTools, Extra: c.Extra,
	}}
	for _, t := range j.Tools {
		r.Tools = append(r.Tools, chat.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema, Strict: t.Strict})
	}
	if o := j.Output; o != nil {
		r.Output = &Schema{Name: o.Name, Description: o.Description, Schema: o.Schema}
	}
	for _, p := range j.Cache {
		r.Cache = append(r.Cache, CachePoint{p.Tools, p.Message, p.Parts, time.Duration(p.TTL * float64(time.Second))})
	}
	return nil
}

// MaxCachePoints is how many [Request.Cache] may have.
const MaxCachePoints = 4

// CachePoint is a place in a request: after a message, after some of its parts, or
// after the tools. Providers read the tools first, then all messages of the system,
// then the rest, and a point stands for all that is before it in that order.
type CachePoint struct {
	Tools   bool // after the tools; Message and Parts are 0 then
	Message int  // after this one of Request.Messages
	Parts   int  // after so many of its parts; 0 means all

	// TTL is how long the provider keeps it since it was used last: 0 means five minutes;
	// Anthropic knows an hour as well. A longer one may not follow a shorter one.
	TTL time.Duration
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
	// the request. They don't replace what the request says already: objects in
	// both become one, and tools, such as those that the provider runs itself, are
	// added to [Request.Tools]. Any other difference is an error.
	Extra map[string]any

	// Headers are added to those of the request over HTTP, such as the key of an
	// end user's. They are no part of what [Cached] tells requests apart by.
	Headers map[string]string
}

// With returns c with the settings that over has in the place of its own. Fields
// of Extra, and headers, are taken one by one; no map is altered.
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
	c.Extra = joined(c.Extra, over.Extra)
	headers := joined(c.Headers, over.Headers)
	for name := range c.Headers {
		// In whatever case it is written, it is one header.
		if _, ok := over.Headers[name]; !ok && hasHeader(over.Headers, name) {
			delete(headers, name)
		}
	}
	c.Headers = headers
	return c
}

func hasHeader(headers map[string]string, name string) bool {
	for other := range headers {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

func joined[V any](m, over map[string]V) map[string]V {
	if len(over) == 0 {
		return m
	}
	all := make(map[string]V, len(m)+len(over))
	maps.Copy(all, m)
	maps.Copy(all, over)
	return all
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
func (f Func) Generate(ctx context.Context, req *Request) (*Response, error) {
	return Answered(f(ctx, req))
}

// ErrNoAnswer is the cause of an [*Error] that says that a model returned neither an
// answer nor an error.
var ErrNoAnswer = errors.New("the model returned neither an answer nor an error")

// Answered returns what a model's Generate has returned, and [ErrNoAnswer] in an
// [*Error] if that is nothing.
func Answered(resp *Response, err error) (*Response, error) {
	if resp == nil && err == nil {
		return nil, &Error{Provider: "model", Kind: ErrorResponse, Err: ErrNoAnswer}
	}
	return resp, err
}

// Stream calls the function and yields its answer.
func (f Func) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		resp, err := Answered(f(ctx, req))
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
