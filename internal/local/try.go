package local

import (
	"context"
	"time"
)

// verdict is what an attempt came to.
type verdict uint8

const (
	succeeded verdict = iota
	failed            // another attempt may follow
	ended             // by what no attempt can change, or without an end
)

// trial is what is tried until it succeeds or has failed for good: the node of a task, the
// error handler that stands in for it, or a sub-step of one.
type trial interface {
	// enter tells the tracer of an attempt, which is made with the context returned.
	enter(attempt int) (context.Context, func(Outcome))

	// try makes an attempt, and returns the error it failed with.
	try(ctx context.Context, attempt int) (verdict, error)

	// outcome is what the tracer is told of an attempt that has ended with err.
	outcome(err error) Outcome

	// again notes that another attempt follows one that failed. If it can't be noted
	// none does.
	again(attempt int, err error, delay time.Duration) bool

	// cancelled notes that the context has ended before another attempt.
	cancelled(cause error)
}

// try makes attempts, counted from first, until one succeeds or none follows. It
// returns what the last one came to.
func (s *Session) try(ctx context.Context, w trial, retry func(attempt int, err error) (time.Duration, bool), first int) (verdict, int, error) {
	own := ctx
	var exit func(Outcome)
	if s.o.Trace != nil {
		defer func() { leave(&exit, Outcome{Err: errExited}) }()
	}
	for attempt := first; ; attempt++ {
		if s.o.Trace != nil {
			own, exit = w.enter(attempt)
		}
		v, err := w.try(own, attempt)
		var delay time.Duration
		again := false
		if v == failed && retry != nil && ctx.Err() == nil {
			delay, again = retry(attempt, err)
		}
		if exit != nil {
			out := Outcome{Err: err}
			if v == ended {
				out = w.outcome(err)
			}
			if again {
				out.Again, out.Delay = true, delay
			}
			leave(&exit, out)
		}
		if !again {
			return v, attempt, err
		}
		if !w.again(attempt, err, delay) {
			return ended, attempt, err
		}
		if !sleep(ctx, delay) {
			w.cancelled(context.Cause(ctx))
			return ended, attempt, context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// abandonable calls fn on a goroutine of its own. When its time is over fn gets
// cancelGrace to return, and is left behind if it doesn't: it has then failed with late.
func abandonable[T any](over <-chan struct{}, fn func() (T, error), late func() error) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errExited}
		defer func() { done <- r }()
		r.v, r.err = fn()
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-over:
	}
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-grace.C:
		return *new(T), late()
	}
}
