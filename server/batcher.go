package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// storeTries is how often a batch is tried to be stored before it is given up, with
// all that comes after it.
const storeTries = 5

// gather is how long events wait, after others were stored, for those that come
// next: every transaction has its price. Those that nobody reads wait for unread: by then
// many a run has ended, and what is left is stored with its end.
const (
	gather = 10 * time.Millisecond
	unread = time.Second
)

// A batcher stores events in the order in which they are put. It has a goroutine of
// its own: while that stores, what comes next is gathered, and stored together.
type batcher[E any] struct {
	store  func(context.Context, []E) error
	read   func() bool // reports whether somebody reads what is stored, as far as is known
	gaveUp func(context.Context, error)
	most   int // events may wait to be stored until put waits for them; 0: any number

	mu      sync.Mutex
	pending []E
	stored  *sync.Cond // a batch was stored, or given up or left
	puts    int        // events that were put
	settled int        // of these are stored
	over    bool
	left    bool  // what is pending is not stored any more
	rest    bool  // what is pending is left to whoever ended it
	err     error // why nothing is stored any more

	kick    chan struct{} // something is pending
	hurry   chan struct{} // somebody waits
	closing chan struct{} // closed when it is over
	done    chan struct{}
}

// newBatcher returns a batcher that stores batches by calling store, until it is
// ended. It asks read, not while it stores, how long they may wait, and calls gaveUp
// when a batch could not be stored, once: nothing is stored from then on.
func newBatcher[E any](ctx context.Context, most int, store func(context.Context, []E) error, read func() bool, gaveUp func(context.Context, error)) *batcher[E] {
	b := &batcher[E]{
		store: store, read: read, gaveUp: gaveUp, most: most,
		kick: make(chan struct{}, 1), hurry: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	b.stored = sync.NewCond(&b.mu)
	go b.work(context.WithoutCancel(ctx))
	return b
}

// put adds events.
func (b *batcher[E]) put(events ...E) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.most > 0 && len(b.pending) >= b.most && b.err == nil {
		b.stored.Wait()
	}
	b.pending = append(b.pending, events...)
	b.puts += len(events)
	signal(b.kick)
}

// urge has what is pending stored at once.
func (b *batcher[E]) urge() { signal(b.hurry) }

// flush has what is pending stored at once, and waits for it unless it is left, or until the
// context ends.
func (b *batcher[E]) flush(ctx context.Context) error {
	b.urge()
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stored.Broadcast()
	})()
	b.mu.Lock()
	defer b.mu.Unlock()
	for until := b.puts; b.settled < until && b.err == nil && !b.left; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.stored.Wait()
	}
	return b.err
}

// close ends the batcher when all is stored.
func (b *batcher[E]) close() error {
	_, err := b.end(false)
	return err
}

// leave ends the batcher, and returns what isn't stored yet.
func (b *batcher[E]) leave() ([]E, error) { return b.end(true) }

// end does what it was told first if it is called again.
func (b *batcher[E]) end(rest bool) ([]E, error) {
	b.mu.Lock()
	if !b.over {
		b.over, b.rest = true, rest
		close(b.closing)
	}
	b.mu.Unlock()
	<-b.done
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending, b.err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (b *batcher[E]) work(ctx context.Context) {
	defer close(b.done)
	var last time.Time
	for {
		select {
		case <-b.kick:
		case <-b.closing:
		}
		wait := unread
		if b.read() {
			wait = gather - time.Since(last)
		}
		select {
		case <-time.After(wait):
		case <-b.hurry:
		case <-b.closing:
		}
		b.mu.Lock()
		if b.over && b.rest {
			b.left = true
			b.stored.Broadcast()
			b.mu.Unlock()
			return
		}
		some, over, err := b.pending, b.over, b.err
		b.pending = nil
		b.mu.Unlock()
		if len(some) > 0 && err == nil {
			err = b.try(ctx, some)
			last = time.Now()
		}
		b.mu.Lock()
		b.settled, b.err = b.settled+len(some), err
		b.stored.Broadcast()
		b.mu.Unlock()
		if over {
			return
		}
	}
}

// try stores a batch, again and again unless another instance has the run by now, or
// it was removed.
func (b *batcher[E]) try(ctx context.Context, some []E) error {
	for try := 1; ; try++ {
		err := b.store(ctx, some)
		if err == nil {
			return nil
		}
		if try == storeTries || errors.Is(err, db.ErrTaken) || errors.Is(err, db.ErrNotFound) {
			b.gaveUp(ctx, err)
			return err
		}
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
	}
}
