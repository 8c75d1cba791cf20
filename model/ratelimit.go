package model

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/superstep-dev/superstep/chat"
)

// Limiter keeps calls of models below limits of requests and tokens per time. It
// works as the providers' own limits do: with a bucket that holds one period's
// worth, is full at first and fills up evenly. The zero value has no limits.
//
// Several models that share an account's limits share one Limiter. It is safe
// for concurrent use; its fields may not be altered, nor the Limiter be copied,
// after the first call.
type Limiter struct {
	Requests int           // per period; 0 means any number
	Tokens   int           // per period, of requests and answers; 0 means any number
	Per      time.Duration // the period; 0 means a minute

	// Burst is how many requests may be made at once; 0 means Requests.
	Burst int

	// Estimate says how many tokens a request has, which is how many it waits
	// for. Nil means [EstimateTokens]. What a call turns out to have used above
	// that is taken from the bucket afterwards: later calls wait for it. What
	// was estimated too much is not given back.
	Estimate func(*Request) int

	once    sync.Once
	buckets []bucket
	tokens  *rate.Limiter
}

type bucket struct {
	name   string
	limit  *rate.Limiter
	tokens bool // it counts tokens, not calls
}

// LimitError says that a call can't be made within the limits of a [Limiter].
type LimitError struct {
	Limit string // "requests" or "tokens"

	// Wait is how long the call would have to wait, which is beyond the
	// context's deadline.
	Wait time.Duration

	// Need is set instead when the call needs more tokens than the limit has in
	// a whole period: it can never be made.
	Need, Max int
}

func (e *LimitError) Error() string {
	if e.Need > 0 {
		return fmt.Sprintf("limit of %s: the request needs about %d, more than the %d of a whole period", e.Limit, e.Need, e.Max)
	}
	return fmt.Sprintf("limit of %s: the call would have to wait %v, beyond its deadline", e.Limit, e.Wait)
}

// Unwrap returns [context.DeadlineExceeded] when it is time that is missing.
func (e *LimitError) Unwrap() error {
	if e.Need > 0 {
		return nil
	}
	return context.DeadlineExceeded
}

// RateLimit returns a model whose calls wait until l lets them through. A call
// that can't be let through before its context's deadline fails at once with a
// [*LimitError].
func RateLimit(m Model, l *Limiter) Model { return &limited{m, l} }

type limited struct {
	m Model
	l *Limiter
}

func (r *limited) Generate(ctx context.Context, req *Request) (*Response, error) {
	waited, err := r.l.wait(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, err := r.m.Generate(ctx, req)
	if err == nil && resp.Message.Usage != nil {
		r.l.charge(resp.Message.Usage.Total() - waited)
	}
	return resp, err
}

func (r *limited) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		waited, err := r.l.wait(ctx, req)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		var used chat.Usage
		defer func() { r.l.charge(used.Total() - waited) }()
		for chunk, err := range r.m.Stream(ctx, req) {
			if chunk.Usage != nil {
				used = *chunk.Usage
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

func (l *Limiter) init() {
	per := l.Per
	if per <= 0 {
		per = time.Minute
	}
	every := func(n int) rate.Limit { return rate.Limit(float64(n) / per.Seconds()) }
	if l.Requests > 0 {
		burst := l.Burst
		if burst <= 0 {
			burst = l.Requests
		}
		l.buckets = append(l.buckets, bucket{name: "requests", limit: rate.NewLimiter(every(l.Requests), burst)})
	}
	if l.Tokens > 0 {
		l.tokens = rate.NewLimiter(every(l.Tokens), l.Tokens)
		l.buckets = append(l.buckets, bucket{name: "tokens", limit: l.tokens, tokens: true})
	}
}

// wait returns when the call may be made, with the tokens it was let through for.
func (l *Limiter) wait(ctx context.Context, req *Request) (tokens int, err error) {
	l.once.Do(l.init)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if l.tokens != nil {
		estimate := l.Estimate
		if estimate == nil {
			estimate = EstimateTokens
		}
		tokens = max(estimate(req), 0)
	}
	now := time.Now()
	taken := make([]int, len(l.buckets))
	// Not by the reservations' own Cancel, which gives nothing back of a bucket
	// that had enough.
	giveBack := func(t time.Time) {
		for i, n := range taken {
			l.buckets[i].limit.ReserveN(t, -n)
		}
	}
	var delay time.Duration
	var by string
	for i, b := range l.buckets {
		n := 1
		if b.tokens {
			n = tokens
		}
		r := b.limit.ReserveN(now, n)
		if !r.OK() {
			giveBack(now)
			return 0, &LimitError{Limit: b.name, Need: n, Max: b.limit.Burst()}
		}
		taken[i] = n
		if d := r.DelayFrom(now); d > delay {
			delay, by = d, b.name
		}
	}
	if deadline, ok := ctx.Deadline(); ok && now.Add(delay).After(deadline) {
		giveBack(now)
		return 0, &LimitError{Limit: by, Wait: delay}
	}
	if delay == 0 {
		return tokens, nil
	}
	if err := sleep(ctx, delay); err != nil {
		giveBack(time.Now())
		return 0, fmt.Errorf("waiting for the limit of %s: %w", by, err)
	}
	return tokens, nil
}

// charge takes tokens that a call used beyond those it waited for.
func (l *Limiter) charge(n int) {
	if l.tokens == nil {
		return
	}
	now, burst := time.Now(), l.tokens.Burst()
	for n > 0 { // a reservation is of at most a bucket
		l.tokens.ReserveN(now, min(n, burst))
		n -= burst
	}
}
