package engine

import (
	"context"
	"testing"
	"testing/synctest"
)

// gated is a driver whose commits take until they are let go.
type gated struct {
	Driver
	began chan chan struct{}
}

func (g *gated) Commit(context.Context, []*Commit) error {
	let := make(chan struct{})
	g.began <- let
	<-let
	return nil
}

// Who waits for a commit that somebody else makes does nothing meanwhile, though the driver
// takes another.
func TestWhoWaitsForAnothersCommitIsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		g := &gated{began: make(chan chan struct{}, 4)}
		q.init(g, 2)
		over := make(chan error, 4)
		submit := func() { go func() { over <- q.submit(t.Context(), &Commit{}) }() }
		submit()
		first := <-g.began
		submit()
		second := <-g.began
		submit()
		submit()
		synctest.Wait()
		close(first)
		both := <-g.began // of the two that waited
		close(second)
		synctest.Wait() // or else for ever: one of the two is not at rest
		close(both)
		for range 4 {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		q.close()
	})
}
