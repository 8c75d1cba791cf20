// Package bus carries what nodes send while they run (tokens, custom events, calls of
// tools) from the workers of a fleet to whoever follows their threads. It is beside the
// store and the engine: what is lost on a bus is missing from a stream, and nowhere else.
//
// Packages postgres and redis have buses for many machines, [NewMemory] one for a process.
// Package bustest has the suite that each passes.
package bus

import (
	"context"
	"errors"
)

// Bus carries batches of events, whose form is package fleet's. It is safe for concurrent
// use.
type Bus interface {
	// Publish gives a batch to all that have subscribed to the thread. If nobody has, it is
	// dropped. The caller may alter the batch afterwards.
	Publish(ctx context.Context, thread string, batch []byte) error

	// Subscribe begins a subscription to what is published of a thread from now on.
	Subscribe(ctx context.Context, thread string) (Subscription, error)
}

// Subscription is to one thread. Its methods are called one at a time.
type Subscription interface {
	// News has something whenever there may be something to read.
	News() <-chan struct{}

	// Read returns what was published before the call, was not read and is still kept, in
	// the order in which it was published, the same for all subscriptions. It does not wait
	// for more. After an error it may be called again.
	Read(ctx context.Context) ([][]byte, error)

	// Close ends the subscription.
	Close()
}

// ErrClosed: the bus was closed before the call.
var ErrClosed = errors.New("bus: it is closed")
