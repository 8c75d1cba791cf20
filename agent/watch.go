package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// ModelEvents makes the nodes of this package tell those who stream a run with
// [graph.ModeCustom] when they ask a model, with a [ModelStarted] before the call
// and a [ModelEnded] after it as the event's value. The event has the node, its
// path and the attempt. It is an option of Compile and of a run, and holds for the
// agents inside as well. An answer that was recorded by an earlier attempt is no
// call and has no events.
func ModelEvents() graph.RunOption {
	return graph.ProvideDeps(func(context.Context) (modelEvents, error) { return modelEvents{}, nil })
}

type modelEvents struct{}

// ModelStarted says that a node asks a model.
type ModelStarted struct {
	Message string         // ID under which the answer is streamed and stored
	Request *model.Request // what is sent; it may not be altered
}

type startedJSON struct {
	Type     string          `json:"type"`
	Message  string          `json:"message_id,omitempty"`
	Model    string          `json:"model,omitempty"`
	Messages []chat.Message  `json:"messages"`
	Tools    []string        `json:"tools,omitempty"`
	Output   json.RawMessage `json:"output_schema,omitempty"`
}

// MarshalJSON writes {"type": "model_started", "message_id", "model", "messages",
// "tools", "output_schema"}, of the tools their names.
func (s ModelStarted) MarshalJSON() ([]byte, error) {
	j := startedJSON{Type: "model_started", Message: s.Message}
	if r := s.Request; r != nil {
		j.Model, j.Messages = r.Model, r.Messages
		for _, t := range r.Tools {
			j.Tools = append(j.Tools, t.Name)
		}
		if r.Output != nil {
			j.Output = r.Output.Schema
		}
	}
	return json.Marshal(j)
}

// ModelEnded says that a call of a model has ended.
type ModelEnded struct {
	Message  string // ID of the answer
	Model    string // that answered, as its provider names it; may be empty
	Finish   chat.FinishReason
	Usage    *chat.Usage // nil: the provider doesn't say
	Cached   bool        // the answer comes from a cache
	Duration time.Duration
	Err      error // nil: it has answered
}

type endedJSON struct {
	Type       string            `json:"type"`
	Message    string            `json:"message_id,omitempty"`
	Model      string            `json:"model,omitempty"`
	Finish     chat.FinishReason `json:"finish,omitempty"`
	Usage      *Used             `json:"usage,omitempty"`
	Cached     bool              `json:"cached,omitempty"`
	DurationMS float64           `json:"duration_ms"`
	Error      string            `json:"error,omitempty"`
}

// MarshalJSON writes {"type": "model_ended", "message_id", "model", "finish",
// "usage", "cached", "duration_ms", "error"}.
func (e ModelEnded) MarshalJSON() ([]byte, error) {
	j := endedJSON{
		Type: "model_ended", Message: e.Message, Model: e.Model, Finish: e.Finish, Cached: e.Cached,
		DurationMS: float64(e.Duration) / float64(time.Millisecond),
	}
	if e.Usage != nil {
		j.Usage = &Used{Model: e.Model, Calls: 1, Usage: *e.Usage}
	}
	if e.Err != nil {
		j.Error = e.Err.Error()
	}
	return json.Marshal(j)
}

// watched calls a model in the context in which calls are recorded, and tells of it those
// who want to know.
func watched(ctx context.Context, req *model.Request, id string, ask func(ctx context.Context) (*model.Response, error)) (*model.Response, error) {
	call := func() (*model.Response, error) { return ask(calls.Recording(ctx)) }
	if _, err := graph.Deps[modelEvents](ctx); err != nil {
		return call()
	}
	if err := graph.Emit(ctx, ModelStarted{Message: id, Request: req}); err != nil {
		return nil, err
	}
	start := time.Now()
	resp, err := call()
	ended := ModelEnded{Message: id, Duration: time.Since(start), Err: err}
	if resp != nil {
		m := resp.Message
		ended.Model, ended.Finish, ended.Usage, ended.Cached = m.Model, m.Finish, m.Usage, resp.Cached
	}
	if told := graph.Emit(ctx, ended); err == nil && told != nil {
		return nil, told
	}
	return resp, err
}
