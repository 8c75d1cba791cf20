package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Made says where and when a node called a model or a tool.
type Made struct {
	ID           string    `json:"call_id"`
	Node         string    `json:"node"`
	Namespace    string    `json:"checkpoint_ns"` // of the graph that the node is in
	CheckpointID string    `json:"checkpoint_id"` // empty while the superstep is open
	RunID        string    `json:"run_id"`        // empty if the checkpoint doesn't say, as those of subgraphs
	Step         int       `json:"step"`
	Task         int       `json:"task"`
	Attempt      int       `json:"attempt"` // of the node, from 1
	BeganAt      time.Time `json:"began_at"`
	Seconds      float64   `json:"took"`
}

// ModelCall is a call of a model. It is Superstep's own.
type ModelCall struct {
	Made
	Provider   string   `json:"provider"`
	Model      string   `json:"model"`
	FirstToken *float64 `json:"first_token"` // seconds until it came; nil: it wasn't streamed
	Finish     string   `json:"finish"`
	Usage      *Usage   `json:"usage"` // nil if the provider doesn't say
	Cost       *float64 `json:"cost"`  // dollars; nil if the price isn't known
	Cached     bool     `json:"cached"`
	Error      string   `json:"error"`
	ErrorKind  string   `json:"error_kind"`

	Request json.RawMessage `json:"request"` // of [Client.ModelCall] alone, as what follows
	Answer  json.RawMessage `json:"answer"`
}

// Usage is how many tokens models used.
type Usage struct {
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	CacheRead  int `json:"cache_read_tokens"`
	CacheWrite int `json:"cache_write_tokens"`
	Reasoning  int `json:"reasoning_tokens"`
}

// ToolCall says when a tool ran that a model had called. It is Superstep's own.
type ToolCall struct {
	Made
	Tool   string `json:"tool"`
	Call   string `json:"tool_call_id"` // that the model gave it
	Failed bool   `json:"failed"`
}

// ModelCalls yields the calls of models that nodes of a thread have made, the newest first, at
// most limit of them if that is positive, without what was sent and answered. They are asked
// for in pages while the loop goes on.
func (c *Client) ModelCalls(ctx context.Context, thread string, limit int) iter.Seq2[*ModelCall, error] {
	return backwards(ctx, c, path("/threads/%s/model_calls", thread), limit, func(m *ModelCall) string { return m.ID })
}

// ModelCall returns a call of a model with what was sent and answered.
func (c *Client) ModelCall(ctx context.Context, thread, id string) (*ModelCall, error) {
	return one[ModelCall](ctx, c, call{method: http.MethodGet, path: path("/threads/%s/model_calls/%s", thread, id)})
}

// ToolCalls is [Client.ModelCalls] for tools.
func (c *Client) ToolCalls(ctx context.Context, thread string, limit int) iter.Seq2[*ToolCall, error] {
	return backwards(ctx, c, path("/threads/%s/tool_calls", thread), limit, func(t *ToolCall) string { return t.ID })
}

// backwards yields a list of which the server gives what is before an entry.
func backwards[T any](ctx context.Context, c *Client, path string, limit int, id func(*T) string) iter.Seq2[*T, error] {
	return linked(c, "", limit, page, func(from string, n int) (some []*T, to string, err error) {
		q := url.Values{"limit": {number(n)}}
		if from != "" {
			q.Set("before", from)
		}
		some, err = list[T](ctx, c, call{method: http.MethodGet, path: path, query: q})
		if err == nil && len(some) >= n {
			to = id(some[len(some)-1])
		}
		return some, to, err
	})
}
