package model

import (
	"context"
	"time"

	"github.com/superstep-dev/superstep/chat"
)

// Call is a call of a model as it was made.
type Call struct {
	Model    Model
	Request  *Request
	Response *Response // with an error, what came before it; may be nil
	Err      error

	Began      time.Time
	Took       time.Duration
	FirstToken time.Duration // until the first chunk of a stream; 0: there was none
}

type recordingKey struct{}

// Recording returns a context for which calls of models are recorded: record is given each
// one that [Ask] and [AskStream] make there, when it has ended, and maybe by several goroutines at
// once. An error that it returns is the call's. Of two such contexts the inner one has the calls.
// Nothing that a call refers to may be altered.
func Recording(ctx context.Context, record func(ctx context.Context, c Call) error) context.Context {
	return context.WithValue(ctx, recordingKey{}, record)
}

// Ask is m.Generate by who asks on behalf of a run: a call that is recorded where calls are.
// [Generate] asks so, and so do the nodes of package agent.
func Ask(ctx context.Context, m Model, req *Request) (*Response, error) {
	done := recorded(ctx, m, req)
	resp, err := Answered(m.Generate(ctx, req))
	return done(resp, err, 0)
}

// AskStream is [Ask] by m.Stream: chunk is given what comes, which it may alter, and its error ends the call. An
// error comes with the part of the answer that came before it.
func AskStream(ctx context.Context, m Model, req *Request, chunk func(*chat.Chunk) error) (*Response, error) {
	done := recorded(ctx, m, req)
	start := time.Now()
	var first time.Duration
	said := false
	resp, err := Collect(func(yield func(chat.Chunk, error) bool) {
		for c, err := range m.Stream(ctx, req) {
			if said = true; err == nil {
				if first == 0 && !silent(c) {
					first = max(time.Since(start), 1)
				}
				err = chunk(&c)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	})
	if err == nil && !said {
		resp, err = Answered(nil, nil)
	}
	return done(resp, err, first)
}

// recorded begins a call, and returns what is to be told of its end.
func recorded(ctx context.Context, m Model, req *Request) func(resp *Response, err error, first time.Duration) (*Response, error) {
	record, _ := ctx.Value(recordingKey{}).(func(context.Context, Call) error)
	if record == nil {
		return func(resp *Response, err error, _ time.Duration) (*Response, error) { return resp, err }
	}
	start := time.Now()
	return func(resp *Response, err error, first time.Duration) (*Response, error) {
		failed := record(ctx, Call{Model: m, Request: req, Response: resp, Err: err, Began: start, Took: time.Since(start), FirstToken: first})
		if failed != nil && err == nil {
			return nil, failed
		}
		return resp, err
	}
}
