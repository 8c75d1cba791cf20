package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// AskAgain lets those who may start runs on a thread ask the model of a recorded call once
// more, in other words: the thread stays as it is, and nothing of it is recorded. Open opens the
// model that a call was made of, by its node, say, or by its Provider and Model. Its error is told to
// clients.
func AskAgain(open func(ctx context.Context, c *calls.Call) (model.Model, error)) Option {
	return func(c *config) { c.openModel = open }
}

// shownPlace is where and when something was called, as clients see it.
type shownPlace struct {
	ID         string  `json:"call_id"`
	Node       string  `json:"node"`
	NS         string  `json:"checkpoint_ns"`
	Checkpoint *string `json:"checkpoint_id"` // null while its superstep is open
	RunID      *string `json:"run_id"`        // null if its checkpoint doesn't say, as those of subgraphs
	Step       int     `json:"step"`
	Task       int     `json:"task"`
	Attempt    int     `json:"attempt"`
	BeganAt    instant `json:"began_at"`
	Took       float64 `json:"took"` // seconds
}

func placeShown(p *calls.Place, attempt int, began time.Time, took time.Duration) shownPlace {
	out := shownPlace{ID: p.ID, Node: p.Node, NS: shownNamespace(p.Namespace), Step: p.Step, Task: p.Task, Attempt: attempt, BeganAt: instant(began), Took: took.Seconds()}
	if p.Checkpoint != "" {
		out.Checkpoint = &p.Checkpoint
	}
	if run := p.Metadata["run_id"]; run != "" {
		out.RunID = &run
	}
	return out
}

// shownTool is a call of a tool, as clients see it. It is Superstep's own.
type shownTool struct {
	shownPlace
	Tool   string `json:"tool"`
	Call   string `json:"tool_call_id"` // that the model gave it
	Failed bool   `json:"failed"`
}

// shownCall is a call of a model, as clients see it. It is Superstep's own.
type shownCall struct {
	shownPlace
	Provider   string            `json:"provider"`
	Model      string            `json:"model"`
	FirstToken *float64          `json:"first_token"` // seconds
	Finish     chat.FinishReason `json:"finish"`
	Usage      *db.Usage         `json:"usage"`
	Cost       *float64          `json:"cost"` // null: the price isn't known
	Cached     bool              `json:"cached"`
	Error      *string           `json:"error"`
	ErrorKind  model.ErrorKind   `json:"error_kind"`

	Request *model.Request `json:"request,omitempty"`
	Answer  *chat.Message  `json:"answer,omitempty"`
}

func callShown(c *calls.Call, prices map[string]model.Prices) shownCall {
	out := shownCall{
		shownPlace: placeShown(&c.Place, c.Attempt, c.Began, c.Took),
		Provider:   c.Provider, Model: c.Model, Finish: c.Finish, Cached: c.Cached, ErrorKind: c.ErrorKind, Request: c.Request, Answer: c.Answer,
	}
	if c.FirstToken > 0 {
		out.FirstToken = new(c.FirstToken.Seconds())
	}
	if c.Error != "" {
		out.Error = &c.Error
	}
	if u := c.Usage; u != nil {
		out.Usage = new(db.Usage(*u))
		if p, ok := prices[c.Model]; ok {
			out.Cost = new(p.Cost(*u))
		}
	}
	return out
}

// mostCalls bounds a page of calls.
const mostCalls = 1000

func (s *states) listCalls(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	known := model.KnownModels()
	return pageOfCalls(s, r, t, calls.List, func(c *calls.Call) shownCall { return callShown(c, known.Prices(c.Model)) })
}

func (s *states) listToolCalls(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	return pageOfCalls(s, r, t, calls.ListTools, func(c *calls.ToolCall) shownTool {
		return shownTool{placeShown(&c.Place, c.Attempt, c.Began, c.Took), c.Tool, c.Call, c.Failed}
	})
}

// pageOfCalls returns a page of calls of a thread.
func pageOfCalls[C, Shown any](s *states, r *http.Request, t *db.Thread, list func(context.Context, checkpoint.Store, string, calls.Query) iter.Seq2[*C, error], show func(*C) Shown) (any, error) {
	limit, err := number(r, "limit", 10, 1, mostCalls)
	if err != nil {
		return nil, err
	}
	before, err := optionalID("call", r.URL.Query().Get("before"))
	if err != nil {
		return nil, err
	}
	out := []Shown{}
	for c, err := range list(r.Context(), s.store, t.ID, calls.Query{Limit: limit, Before: before}) {
		if err != nil {
			return nil, err
		}
		out = append(out, show(c))
	}
	return out, nil
}

func (s *states) getCall(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	id, err := pathID(r, "call")
	if err != nil {
		return nil, err
	}
	c, err := calls.Get(r.Context(), s.store, t.ID, id)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, notFound("Thread %s has no call of a model with ID %s", t.ID, id)
	}
	return callShown(c, model.KnownModels().Prices(c.Model)), nil
}

// askAgain asks the model of a call something. The answer is shown as a call in the place of
// that one.
func (s *states) askAgain(w http.ResponseWriter, r *http.Request, t *db.Thread) (any, error) {
	id, err := pathID(r, "call")
	if err != nil {
		return nil, err
	}
	var body struct {
		Request *model.Request `json:"request"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if body.Request == nil || len(body.Request.Messages) == 0 {
		return nil, invalid("request.messages is missing: what the model is to be asked, as the request of a call")
	}
	if s.openModel == nil {
		return nil, &fault{http.StatusNotImplemented, "This server opens no models: give it server.AskAgain"}
	}
	var of *calls.Call
	for c, err := range calls.List(r.Context(), s.store, t.ID, calls.Query{ID: id, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		of = c
	}
	if of == nil {
		return nil, notFound("Thread %s has no call of a model with ID %s", t.ID, id)
	}
	m, err := s.openModel(r.Context(), of)
	if err != nil {
		return nil, conflict("The model of the call can't be opened: %v", err)
	}
	var made *calls.Call
	ctx := model.Recording(r.Context(), func(ctx context.Context, c model.Call) error {
		made = calls.Of(ctx, c)
		return nil
	})
	if _, err = model.Ask(ctx, m, body.Request); r.Context().Err() != nil || made == nil {
		return nil, errors.Join(r.Context().Err(), err)
	}
	made.Place, made.Attempt, made.Request = of.Place, 1, nil
	return callShown(made, model.KnownModels().Prices(made.Model)), nil
}
