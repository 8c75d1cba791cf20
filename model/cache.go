package model

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
)

// Cache keeps answers of models for [Cached]. It is safe for concurrent use.
//
// An error fails the call. A cache whose failures should not stop anybody
// reports them in its own way and has nothing found.
type Cache interface {
	// Get returns the value of a key. The value is not altered by the caller.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)

	// Set stores a value, in place of an older one. The value is not altered
	// by the caller afterwards. A cache may forget values at any time.
	Set(ctx context.Context, key string, value []byte) error
}

// cacheFormat is a part of the keys: answers that were stored in another format
// are not found.
const cacheFormat = "v1"

// Cached returns a model that asks c first and stores in it what m answers.
//
// Requests are the same when [Canonical] and the namespace are. The namespace
// tells apart what must not share answers though the requests are equal: models
// whose name is not in the request, versions of a program, users.
//
// An answer from the cache has Cached set, no ID, and a usage of no tokens,
// since it cost none. Its stream is one chunk. Failures, and streams that the
// caller left, are not stored. While a call of Generate is under way, others
// with the same request wait for its answer; those of Stream do not.
//
// Wrap it around a budget, a limiter or a retry, not the other way round.
func Cached(m Model, namespace string, c Cache) Model {
	return &cached{m: m, namespace: namespace, c: c, flights: map[string]*flight{}}
}

type cached struct {
	m         Model
	namespace string
	c         Cache

	mu      sync.Mutex
	flights map[string]*flight
}

// flight is a call of Generate that others wait for.
type flight struct {
	done chan struct{} // closed when the rest is set
	resp *Response     // nil if it failed
	err  error         // for all who wait; nil with a nil resp: try yourselves
}

func (c *cached) Generate(ctx context.Context, req *Request) (*Response, error) {
	key, err := c.key(req)
	if err != nil {
		return nil, err
	}
	for {
		if m, ok, err := c.get(ctx, key); err != nil {
			return nil, err
		} else if ok {
			return &Response{Message: m, Cached: true}, nil
		}
		c.mu.Lock()
		f := c.flights[key]
		if f == nil {
			f = &flight{done: make(chan struct{})}
			c.flights[key] = f
			c.mu.Unlock()
			return c.fly(ctx, req, key, f)
		}
		c.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case f.err != nil:
			return nil, f.err
		case f.resp != nil:
			return &Response{Message: hit(f.resp.Message), Cached: true}, nil
		}
	}
}

// fly makes the call that others wait for.
func (c *cached) fly(ctx context.Context, req *Request, key string, f *flight) (*Response, error) {
	defer func() { // also after a panic, which is nobody else's
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		close(f.done)
	}()
	resp, err := c.m.Generate(ctx, req)
	if err != nil {
		if ctx.Err() == nil { // the end of one caller's context isn't the others' failure
			f.err = err
		}
		return nil, err
	}
	if !resp.Cached {
		if err := c.set(ctx, key, resp.Message); err != nil {
			return nil, err
		}
	}
	kept := *resp // the caller may alter its own while others read this one
	f.resp = &kept
	return resp, nil
}

func (c *cached) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		key, err := c.key(req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		m, ok, err := c.get(ctx, key)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		if ok {
			yield(chat.ChunkOf(m), nil)
			return
		}
		var sum chat.Collector
		for chunk, err := range c.m.Stream(ctx, req) {
			if err == nil {
				sum.Add(chunk)
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		if err := c.set(ctx, key, sum.Message()); err != nil {
			yield(chat.Chunk{}, err)
		}
	}
}

func (c *cached) key(req *Request) (string, error) {
	data, err := Canonical(req)
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(c.namespace), c.namespace)
	h.Write(data)
	return cacheFormat + "-" + hex.EncodeToString(h.Sum(nil)), nil
}

func (c *cached) get(ctx context.Context, key string) (chat.Message, bool, error) {
	data, ok, err := c.c.Get(ctx, key)
	if err != nil {
		return chat.Message{}, false, fmt.Errorf("cache: read %s: %w", key, err)
	}
	if !ok {
		return chat.Message{}, false, nil
	}
	var m chat.Message
	if err := json.Unmarshal(data, &m); err != nil {
		return chat.Message{}, false, fmt.Errorf("cache: decode %s: %w", key, err)
	}
	return hit(m), true, nil
}

func (c *cached) set(ctx context.Context, key string, m chat.Message) error {
	if m.Role == "" {
		m.Role = chat.RoleAssistant
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("cache: encode the answer: %w", err)
	}
	if err := c.c.Set(ctx, key, data); err != nil {
		return fmt.Errorf("cache: write %s: %w", key, err)
	}
	return nil
}

// hit makes a stored answer one of the cache: with its own ID a conversation
// would take it for the message that has it already.
func hit(m chat.Message) chat.Message {
	m.ID = ""
	m.Usage = &chat.Usage{}
	return m
}

// LRU is a [Cache] in memory that forgets what was not used for longest. The
// zero value is ready to use. Its fields may not be altered, nor the LRU be
// copied, after the first call.
type LRU struct {
	MaxEntries int           // 0 means 1,000
	MaxBytes   int           // of all keys and values; 0 means 64 MiB
	TTL        time.Duration // how long an entry is good; 0 means as long as there is room

	mu      sync.Mutex
	entries map[string]*list.Element // of *lruEntry
	order   list.List                // newest first
	bytes   int
}

type lruEntry struct {
	key   string
	value []byte
	until time.Time // zero: for ever
}

func (e *lruEntry) size() int { return len(e.key) + len(e.value) }

// Get returns the value of a key and makes it the newest.
func (l *LRU) Get(_ context.Context, key string) ([]byte, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	el, ok := l.entries[key]
	if !ok {
		return nil, false, nil
	}
	e := el.Value.(*lruEntry)
	if !e.until.IsZero() && !time.Now().Before(e.until) {
		l.remove(el)
		return nil, false, nil
	}
	l.order.MoveToFront(el)
	return e.value, true, nil
}

// Set stores a value. One that is larger than MaxBytes is not kept.
func (l *LRU) Set(_ context.Context, key string, value []byte) error {
	maxEntries, maxBytes := l.MaxEntries, l.MaxBytes
	if maxEntries <= 0 {
		maxEntries = 1000
	}
	if maxBytes <= 0 {
		maxBytes = 64 << 20
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if el, ok := l.entries[key]; ok {
		l.remove(el)
	}
	e := &lruEntry{key: key, value: value}
	if e.size() > maxBytes {
		return nil
	}
	if l.TTL > 0 {
		e.until = time.Now().Add(l.TTL)
	}
	if l.entries == nil {
		l.entries = map[string]*list.Element{}
	}
	l.entries[key] = l.order.PushFront(e)
	l.bytes += e.size()
	for l.order.Len() > maxEntries || l.bytes > maxBytes {
		l.remove(l.order.Back())
	}
	return nil
}

// Len returns the number of entries, those whose time is over included.
func (l *LRU) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len()
}

func (l *LRU) remove(el *list.Element) {
	e := l.order.Remove(el).(*lruEntry)
	delete(l.entries, e.key)
	l.bytes -= e.size()
}

// Canonical returns a request as JSON in which requests that ask the same of a
// model are equal, byte by byte. What models aren't told is left out: the IDs of
// messages, their metadata, models, usages and reasons to stop, and the artifacts
// of tool results, and so are the points of the provider's cache. The keys of objects
// are sorted.
//
// It returns an error when something in the request has no JSON, which only
// schemas, Extra and numbers that are infinite or none can cause.
func Canonical(req *Request) (json.RawMessage, error) {
	c := canonicalRequest{
		ToolChoice: req.ToolChoice,
		Config:     req.Config.canonical(),
	}
	c.Messages = make([]canonicalMessage, len(req.Messages))
	for i, m := range req.Messages {
		parts, err := canonicalParts(m.Parts)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		c.Messages[i] = canonicalMessage{m.Role, m.Name, parts}
	}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, canonicalTool{t.Name, t.Description, t.Schema, t.Strict})
	}
	if o := req.Output; o != nil {
		c.Output = &canonicalTool{Name: o.Name, Description: o.Description, Schema: o.Schema}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("a request without JSON: %w", err)
	}
	// Once more through maps, which sorts the keys of schemas and Extra.
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return plainjson.Marshal(v)
}

type canonicalRequest struct {
	Messages   []canonicalMessage `json:"messages"`
	Tools      []canonicalTool    `json:"tools,omitempty"`
	ToolChoice ToolChoice         `json:"tool_choice,omitempty"`
	Output     *canonicalTool     `json:"output,omitempty"`
	Config     canonicalConfig    `json:"config,omitzero"`
}

type canonicalMessage struct {
	Role  chat.Role       `json:"role"`
	Name  string          `json:"name,omitempty"`
	Parts []canonicalPart `json:"parts"`
}

type canonicalTool struct {
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

type canonicalConfig struct {
	Model            string         `json:"model,omitempty"`
	Temperature      *float64       `json:"temperature,omitempty"`
	TopP             *float64       `json:"top_p,omitempty"`
	TopK             *int           `json:"top_k,omitempty"`
	FrequencyPenalty *float64       `json:"frequency_penalty,omitempty"`
	PresencePenalty  *float64       `json:"presence_penalty,omitempty"`
	MaxTokens        int            `json:"max_tokens,omitempty"`
	Stop             []string       `json:"stop,omitempty"`
	Seed             *int64         `json:"seed,omitempty"`
	Reasoning        string         `json:"reasoning,omitempty"`
	ReasoningTokens  int            `json:"reasoning_tokens,omitempty"`
	ParallelTools    *bool          `json:"parallel_tools,omitempty"`
	Extra            map[string]any `json:"extra,omitempty"`
}

func (c *Config) canonical() canonicalConfig {
	return canonicalConfig{
		Model: c.Model, Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK,
		FrequencyPenalty: c.FrequencyPenalty, PresencePenalty: c.PresencePenalty,
		MaxTokens: c.MaxTokens, Stop: c.Stop, Seed: c.Seed,
		Reasoning: c.Reasoning, ReasoningTokens: c.ReasoningTokens,
		ParallelTools: c.ParallelTools, Extra: c.Extra,
	}
}

// IsZero reports whether nothing is set, for encoding/json.
func (c canonicalConfig) IsZero() bool {
	return c.Model == "" && c.Temperature == nil && c.TopP == nil && c.TopK == nil &&
		c.FrequencyPenalty == nil && c.PresencePenalty == nil && c.MaxTokens == 0 && len(c.Stop) == 0 &&
		c.Seed == nil && c.Reasoning == "" && c.ReasoningTokens == 0 && c.ParallelTools == nil && len(c.Extra) == 0
}

// canonicalPart is any part. A field that a kind of part doesn't have is empty.
type canonicalPart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Args      string          `json:"args,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Redacted  bool            `json:"redacted,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Data      []byte          `json:"data,omitempty"`
	URL       string          `json:"url,omitempty"`
	FileID    string          `json:"file_id,omitempty"`
	MIME      string          `json:"mime,omitempty"`
	Detail    string          `json:"detail,omitempty"`
	Content   []canonicalPart `json:"content,omitempty"`
}

// canonicalArgs returns the arguments without the white space between tokens,
// which messages lose when they are stored.
func canonicalArgs(c chat.ToolCall) string {
	args, err := c.Arguments()
	if err != nil {
		return c.Args
	}
	var b bytes.Buffer
	if err := json.Compact(&b, args); err != nil {
		return c.Args
	}
	return b.String()
}

func canonicalParts(parts []chat.Part) ([]canonicalPart, error) {
	to := make([]canonicalPart, 0, len(parts))
	source := func(kind string, s chat.Source) canonicalPart {
		return canonicalPart{Type: kind, Data: s.Data, URL: s.URL, FileID: s.FileID, MIME: s.MIME}
	}
	for _, p := range parts {
		var c canonicalPart
		switch p := p.(type) {
		case chat.Text:
			c = canonicalPart{Type: "text", Text: p.Text, Signature: p.Signature}
		case chat.Reasoning:
			c = canonicalPart{Type: "reasoning", Text: p.Text, ID: p.ID, Signature: p.Signature, Redacted: p.Redacted}
		case chat.ToolCall:
			c = canonicalPart{Type: "tool_call", ID: p.ID, Name: p.Name, Args: canonicalArgs(p), Signature: p.Signature}
		case chat.ToolResult:
			content, err := canonicalParts(p.Content)
			if err != nil {
				return nil, err
			}
			c = canonicalPart{Type: "tool_result", ID: p.CallID, Name: p.Name, IsError: p.IsError, Content: content}
		case chat.Citation:
			c = canonicalPart{Type: "citation", Text: p.Text, Name: p.Title, URL: p.URL, ID: p.Provider, Args: p.Data}
		case chat.Native:
			c = canonicalPart{Type: "native", Name: p.Type, ID: p.Provider, Args: p.Data}
		case chat.Image:
			c = source("image", p.Source)
			c.Detail = p.Detail
		case chat.Audio:
			c = source("audio", p.Source)
			c.Text = p.Transcript
		case chat.File:
			c = source("file", p.Source)
			c.Name = p.Name
		default:
			return nil, errors.New("a nil part")
		}
		to = append(to, c)
	}
	return to, nil
}
