package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/superstep-dev/superstep/chat"
)

// Fallback returns a model that asks first and, when that fails in a way that
// another provider may not, the others in their order.
//
// That is every failure but the end of the context and a request that is invalid
// ([ErrorInvalid]); [FallbackIf] decides otherwise. A stream goes to the next
// model only as long as nothing of the answer was yielded. When more than one
// model failed, the error is a [*FallbackError].
//
// A request that names its model ([Config.Model]) is passed on as it is; give
// each provider's name when making the models instead.
func Fallback(first Model, others ...Model) Model { return FallbackIf(nil, first, others...) }

// FallbackIf is [Fallback] with a function that says after which errors the next
// model is asked. Nil means Fallback's rule. It isn't asked when the context has
// ended.
func FallbackIf(next func(error) bool, first Model, others ...Model) Model {
	if next == nil {
		next = elsewhere
	}
	return &fallback{append([]Model{first}, others...), next}
}

// elsewhere reports whether another provider may do what failed with err.
func elsewhere(err error) bool {
	var e *Error
	return !errors.As(err, &e) || e.Kind != ErrorInvalid
}

type fallback struct {
	models []Model
	next   func(error) bool
}

func (f *fallback) Generate(ctx context.Context, req *Request) (*Response, error) {
	var failed FallbackError
	for _, m := range f.models {
		resp, err := Answered(m.Generate(ctx, req))
		if err == nil {
			return resp, nil
		}
		if !f.add(ctx, &failed, err) {
			break
		}
	}
	return nil, failed.err()
}

func (f *fallback) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		var failed FallbackError
		for _, m := range f.models {
			begun, more, err := relay(m.Stream(ctx, req), yield)
			if err == nil || !more {
				return
			}
			if begun { // a part of the answer is out, nobody else can go on with it
				yield(chat.Chunk{}, err)
				return
			}
			if !f.add(ctx, &failed, err) {
				break
			}
		}
		yield(chat.Chunk{}, failed.err())
	}
}

// add notes a failure and reports whether to ask the next model.
func (f *fallback) add(ctx context.Context, failed *FallbackError, err error) bool {
	failed.Of = len(f.models)
	failed.Errs = append(failed.Errs, err)
	return ctx.Err() == nil && f.next(err)
}

// FallbackError says how the models of a [Fallback] failed. It wraps all their
// errors. As an [*Error] it is the failure that passes first, if one may pass.
type FallbackError struct {
	Errs []error // in the order of the models that were asked
	Of   int     // how many models there are
}

func (e *FallbackError) err() error {
	if len(e.Errs) == 1 {
		return e.Errs[0]
	}
	return e
}

func (e *FallbackError) Error() string {
	var b strings.Builder
	if len(e.Errs) == e.Of {
		fmt.Fprintf(&b, "all %d models failed", e.Of)
	} else {
		fmt.Fprintf(&b, "%d of %d models failed", len(e.Errs), e.Of)
	}
	for i, err := range e.Errs {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s[%d] %v", sep, i+1, err)
	}
	return b.String()
}

// Unwrap returns the errors of all models that were asked.
func (e *FallbackError) Unwrap() []error { return e.Errs }

// As finds the failure that passes first, so that [Temporary] and [Retry] see a
// chance where any of the models has one.
func (e *FallbackError) As(target any) bool {
	to, ok := target.(**Error)
	if !ok {
		return false
	}
	var best *Error
	for _, err := range e.Errs {
		var one *Error
		if errors.As(err, &one) && one.Temporary() && (best == nil || one.RetryAfter < best.RetryAfter) {
			best = one
		}
	}
	if best == nil {
		return false
	}
	*to = best
	return true
}
