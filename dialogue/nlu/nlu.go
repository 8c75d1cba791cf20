package nlu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/model"
)

// Options are the settings of an [Understander].
type Options struct {
	// Budget is how many tokens a prompt may have, the schema of the answer included; 0
	// means 1,500 where ten flows or fewer may start, and 2,000 otherwise. The message, the
	// open question, the slots of the running flow and three flows are in it even if that
	// takes more.
	Budget int
	// Tokens counts the tokens of a text; nil is [EstimateTokens].
	Tokens func(text string) int
	// Embedder has a say, beside the words, in which flows are put into the prompt if not
	// all have room; nil leaves it to the words. Descriptions of flows are embedded once.
	Embedder model.Embedder
	// Config are the settings of the calls. A temperature of 0 suits models that have one.
	Config model.Config
}

// Understander understands messages by a language model. It is safe for concurrent use.
type Understander struct {
	model   model.Model
	options Options

	mu       sync.Mutex // guards what is known of flows, by their descriptions
	searched map[string]doc
	vectors  map[string][]float32
}

// New returns an understanding by a model.
func New(m model.Model, o Options) *Understander {
	if o.Tokens == nil {
		o.Tokens = EstimateTokens
	}
	return &Understander{model: m, options: o, searched: map[string]doc{}, vectors: map[string][]float32{}}
}

// ErrorKind says how understanding failed.
type ErrorKind string

// The kinds of errors.
const (
	ErrorModel     ErrorKind = "the model failed"
	ErrorRetrieval ErrorKind = "the embedder failed"
	ErrorRefused   ErrorKind = "the model refused to answer"
	ErrorTruncated ErrorKind = "the model's answer was cut off"
	ErrorEmpty     ErrorKind = "the model's answer is empty"
	ErrorInvalid   ErrorKind = "the model's answer can't be used"
)

// Error is a failure to understand a message by a model.
type Error struct {
	Kind ErrorKind
	Err  error
}

// Error says what failed. It doesn't hold the answer or the message.
func (e *Error) Error() string {
	if e.Err == nil || e.Kind == ErrorRefused || e.Kind == ErrorTruncated || e.Kind == ErrorEmpty {
		return string(e.Kind)
	}
	return string(e.Kind) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Understand returns the commands that a message means, none if it means none. It calls the
// model once, and a second time only if the first answer names something that isn't there
// or has another form than asked for. An error is an [*Error].
func (u *Understander) Understand(ctx context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	if strings.TrimSpace(in.Message.Text) == "" {
		return nil, nil
	}
	req, now, err := u.request(ctx, in)
	if err != nil {
		return nil, err
	}
	ctx = calls.Recording(ctx)
	for last := false; ; last = true {
		resp, err := model.Ask(ctx, u.model, req)
		if err != nil {
			return nil, failed(err)
		}
		cmds, err := now.read(resp.Message)
		if err == nil {
			return cmds, nil
		}
		if e := failed(err); last || e.Kind != ErrorInvalid || errors.Is(err, model.ErrToolCalls) {
			return nil, e
		}
		req.Messages = append(req.Messages, resp.Message, chat.User(fmt.Sprintf("This answer can't be used: %v. Answer again, with JSON of the form asked for and nothing else.", err)))
	}
}

// failed returns an error with its kind.
func failed(err error) *Error {
	var e *Error
	var m *model.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &m) && m.Kind == model.ErrorFilter:
		return &Error{ErrorRefused, err}
	}
	return &Error{ErrorModel, err}
}

// Request returns what the model is asked about a message: for tools that show it or count
// its tokens.
func (u *Understander) Request(ctx context.Context, in dialogue.Understand) (*model.Request, error) {
	req, _, err := u.request(ctx, in)
	return req, err
}

func (u *Understander) request(ctx context.Context, in dialogue.Understand) (*model.Request, *scope, error) {
	now := scopeOf(in)
	budget := u.options.Budget
	if budget == 0 {
		if budget = 2000; len(in.Flows) <= 10 {
			budget = 1500
		}
	}
	// build has the first n flows in the prompt, the best of them with their slots.
	build := func(n, best int, examples bool) (*model.Request, bool, error) {
		now.flows, now.detailed, now.examples = in.Flows[:n], best, examples
		req, err := now.request(u.options.Config)
		return req, err == nil && CountTokens(req, u.options.Tokens) <= budget, err
	}
	all, most := len(in.Flows), budget/8 // no flow takes fewer than eight tokens
	if all <= most {
		for _, examples := range []bool{true, false} {
			req, fits, err := build(all, all, examples)
			if fits || err != nil {
				return req, now, err
			}
		}
	}
	var err error
	if in.Flows, err = u.rank(ctx, in); err != nil {
		return nil, nil, err
	}
	// If all have room with the slots of some, those come with them that fit the message best.
	const best, least = 8, 3
	for detailed := best; all <= most && detailed > 1; detailed /= 2 {
		req, fits, err := build(all, detailed, false)
		if fits || err != nil {
			return req, now, err
		}
	}
	low, high := min(least, all), min(max(least, most), all)
	for low < high { // the largest number that fits
		mid := (low + high + 1) / 2
		_, fits, err := build(mid, best, false)
		if err != nil {
			return nil, nil, err
		}
		if fits {
			low = mid
		} else {
			high = mid - 1
		}
	}
	req, _, err := build(low, best, false)
	return req, now, err
}
