package local

import (
	"context"
	"errors"
)

// Limiter bounds how many tasks run at a time across a run and its subgraphs.
// A task that waits for a subgraph gives its place up for that time, so limits
// can't deadlock.
type Limiter struct{ slots chan struct{} }

// NewLimiter returns a limiter with n places.
func NewLimiter(n int) *Limiter { return &Limiter{slots: make(chan struct{}, n)} }

func (l *Limiter) acquire(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Limiter) release() {
	if l != nil {
		<-l.slots
	}
}

// without gives a place up for as long as fn runs.
func (l *Limiter) without(ctx context.Context, fn func() error) error {
	l.release()
	err := fn()
	if aerr := l.acquire(ctx); aerr != nil {
		l.slots <- struct{}{} // the worker gives back a place; take one without regard to the context
		err = errors.Join(err, aerr)
	}
	return err
}
