package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/superstep-dev/superstep/chat"
)

// RetryPolicy says when a failed call of a model is made again. The zero value
// of a field means its default.
//
// The wait before attempt n+1 is a random time up to Initial × Factor^(n-1),
// which is at most Max. A provider that asks for a longer wait
// ([Error.RetryAfter]) gets it, up to MaxRetryAfter.
type RetryPolicy struct {
	MaxAttempts int           // including the first; 0 means 4
	Initial     time.Duration // 0 means 500 ms
	Factor      float64       // 0 means 2
	Max         time.Duration // 0 means 30 s, or Initial if that is longer
	NoJitter    bool          // wait the whole time, not a random part of it

	// MaxRetryAfter is how long a provider may have us wait: when it asks for
	// more, its error is returned at once. 0 means a minute.
	MaxRetryAfter time.Duration

	// If says which errors are retried. Nil means [Temporary]. Nothing is
	// retried once the context has ended.
	If func(error) bool

	// OnRetry is called before each wait with the number of the attempt that
	// failed, from 1, its error and the time until the next.
	OnRetry func(ctx context.Context, attempt int, err error, wait time.Duration)
}

// Retry returns a model that calls m again after failures that may pass.
//
// A stream is begun again only as long as nothing of the answer was yielded;
// later failures are passed through. When it gives up, the error wraps the
// last attempt's. It doesn't begin a wait that the context's deadline would
// end: it returns the failure then.
func Retry(m Model, p RetryPolicy) Model { return &retrier{m, p.filled()} }

// RetryEmbedder is [Retry] for an embedder. It asks for all the texts of a call again.
func RetryEmbedder(e Embedder, p RetryPolicy) Embedder {
	r := retrier{p: p.filled()}
	return EmbedFunc(e.Dimensions(), func(ctx context.Context, texts []string) ([][]float32, error) {
		for attempt := 1; ; attempt++ {
			vectors, err := e.Embed(ctx, texts)
			if err == nil {
				return vectors, nil
			}
			if err := r.pause(ctx, attempt, err); err != nil {
				return nil, err
			}
		}
	})
}

// filled returns the policy with its defaults.
func (p RetryPolicy) filled() RetryPolicy {
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = 4
	}
	if p.Initial <= 0 {
		p.Initial = 500 * time.Millisecond
	}
	if p.Factor <= 0 {
		p.Factor = 2
	}
	if p.Max <= 0 {
		p.Max = max(30*time.Second, p.Initial)
	}
	if p.MaxRetryAfter <= 0 {
		p.MaxRetryAfter = time.Minute
	}
	if p.If == nil {
		p.If = Temporary
	}
	return p
}

type retrier struct {
	m Model
	p RetryPolicy
}

func (r *retrier) Generate(ctx context.Context, req *Request) (*Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := Answered(r.m.Generate(ctx, req))
		if err == nil {
			return resp, nil
		}
		if err := r.pause(ctx, attempt, err); err != nil {
			return nil, err
		}
	}
}

func (r *retrier) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		for attempt := 1; ; attempt++ {
			begun, more, err := relay(r.m.Stream(ctx, req), yield)
			if err == nil || !more {
				return
			}
			if !begun {
				if err = r.pause(ctx, attempt, err); err == nil {
					continue
				}
			}
			yield(chat.Chunk{}, err)
			return
		}
	}
}

// pause waits until the next attempt, or returns the error to give up with.
func (r *retrier) pause(ctx context.Context, attempt int, err error) error {
	failed := err
	if attempt > 1 {
		failed = fmt.Errorf("after %d attempts: %w", attempt, err)
	}
	if ctx.Err() != nil || !r.p.If(err) || attempt >= r.p.MaxAttempts {
		return failed
	}
	wait := r.p.delay(attempt)
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		if e.RetryAfter > r.p.MaxRetryAfter {
			return fmt.Errorf("the provider asks to wait %v, longer than the %v allowed: %w", e.RetryAfter, r.p.MaxRetryAfter, failed)
		}
		wait = max(wait, e.RetryAfter)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return fmt.Errorf("no time left to wait %v and try again: %w", wait, failed)
	}
	if r.p.OnRetry != nil {
		r.p.OnRetry(ctx, attempt, err, wait)
	}
	if ended := sleep(ctx, wait); ended != nil {
		return fmt.Errorf("%w while waiting to try again: %w", ended, failed)
	}
	return nil
}

func (p *RetryPolicy) delay(attempt int) time.Duration {
	f, limit := float64(p.Initial), float64(p.Max)
	for range attempt - 1 {
		if f *= p.Factor; f >= limit {
			break
		}
	}
	d := p.Max
	if f < limit {
		d = time.Duration(f)
	}
	if !p.NoJitter {
		d = rand.N(d + 1)
	}
	return d
}
