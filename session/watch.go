package session

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// Watch wraps a model so that the events of a [Runner] tell how it was called: a
// [KindModelEnd] with its whole input and output follows each call, and the
// [KindModel] that is kept says how long it took. Outside of a graph it does
// nothing.
func Watch(m model.Model) model.Model { return watched{m} }

type watched struct{ model model.Model }

// execution is what a watched model sends to the runner.
type execution struct{ ModelExecutionMetadata }

func (w watched) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	e := began(ctx, req)
	resp, err := w.model.Generate(ctx, req)
	if resp != nil {
		e.answered(resp.Message)
	}
	if told := e.tell(ctx, err); err == nil && told != nil {
		return nil, told
	}
	return resp, err
}

func (w watched) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		e := began(ctx, req)
		var sum chat.Collector
		for chunk, err := range w.model.Stream(ctx, req) {
			if err != nil {
				e.answered(sum.Message())
				_ = e.tell(ctx, err) // the error itself ends the run of the node
				yield(chunk, err)
				return
			}
			sum.Add(chunk)
			if !yield(chunk, nil) {
				return // nobody is left to tell
			}
		}
		e.answered(sum.Message())
		if err := e.tell(ctx, nil); err != nil {
			yield(chat.Chunk{}, err)
		}
	}
}

// Capabilities implements [model.Capable].
func (w watched) Capabilities(name string) (model.Capabilities, bool) {
	return model.CapabilitiesOf(w.model, name)
}

func began(ctx context.Context, req *model.Request) *execution {
	return &execution{ModelExecutionMetadata{
		Node: graph.Info(ctx).Node, Model: req.Model, Input: append([]chat.Message(nil), req.Messages...), StartTime: time.Now(),
	}}
}

func (e *execution) answered(m chat.Message) {
	if e.Output = &m; m.Model != "" {
		e.Model = m.Model
	}
}

func (e *execution) tell(ctx context.Context, err error) error {
	e.Duration = time.Since(e.StartTime)
	if err != nil {
		e.Error = err.Error()
	}
	if err := graph.Emit(ctx, *e); err != nil && !errors.Is(err, graph.ErrNotInNode) {
		return err
	}
	return nil
}
