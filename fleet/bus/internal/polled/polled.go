// Package polled makes a bus of a log that is kept by a server and asked again and again:
// one question for all threads that a process follows. To be told by the server would cost
// a connection for each process, which poolers don't pass through, and of PostgreSQL a lock
// that all commits of the database wait for.
package polled

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/fleet/bus"
)

// Log keeps batches by thread for some time. Places in it are texts of its own.
type Log interface {
	// Publish appends a batch, if somebody wants those of the thread.
	Publish(ctx context.Context, thread string, batch []byte) error

	// Want notes for [Wanted] that threads are followed, and sweeps.
	Want(ctx context.Context, threads []string) error

	// Newest returns where the logs of threads end that are wanted.
	Newest(ctx context.Context, threads []string) (map[string]string, error)

	// Read returns what comes after a place, and the place of the last.
	Read(ctx context.Context, thread, after string) (batches [][]byte, last string, err error)
}

const (
	Poll   = 25 * time.Millisecond // how often is asked for what is new
	Wanted = time.Minute           // how long a thread is wanted after that was noted last
	Kept   = time.Minute           // how long a batch is kept

	renew = 10 * time.Second // how often is noted what is wanted
	rest  = time.Second      // after an error
)

// Bus is a bus that keeps its batches in a log.
type Bus struct {
	log Log

	mu     sync.Mutex
	subs   map[string]map[*sub]bool // by thread
	stop   context.CancelFunc       // of looking, nil: nobody looks
	looks  sync.WaitGroup
	closed bool
}

// New returns a bus.
func New(l Log) *Bus { return &Bus{log: l, subs: map[string]map[*sub]bool{}} }

type sub struct {
	of     *Bus
	thread string
	news   chan struct{}
	read   string // place up to which is read
	heard  string // place of which there was news; only for whoever looks
}

// Publish implements [bus.Bus].
func (b *Bus) Publish(ctx context.Context, thread string, batch []byte) error {
	if b.over() {
		return bus.ErrClosed
	}
	return b.log.Publish(ctx, thread, batch)
}

func (b *Bus) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Subscribe implements [bus.Bus].
func (b *Bus) Subscribe(ctx context.Context, thread string) (bus.Subscription, error) {
	if b.over() {
		return nil, bus.ErrClosed
	}
	s := &sub{of: b, thread: thread, news: make(chan struct{}, 1)}
	if err := b.log.Want(ctx, []string{thread}); err != nil {
		return nil, err
	}
	newest, err := b.log.Newest(ctx, []string{thread})
	if err != nil {
		return nil, err
	}
	s.read = newest[thread]
	s.heard = s.read
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, bus.ErrClosed
	}
	if b.subs[thread] == nil {
		b.subs[thread] = map[*sub]bool{}
	}
	b.subs[thread][s] = true
	if b.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		b.stop = stop
		b.looks.Go(func() { b.look(ctx) })
	}
	return s, nil
}

func (s *sub) News() <-chan struct{} { return s.news }

func (s *sub) Read(ctx context.Context) ([][]byte, error) {
	if s.of.over() {
		return nil, bus.ErrClosed
	}
	batches, last, err := s.of.log.Read(ctx, s.thread, s.read)
	if err == nil && len(batches) > 0 {
		s.read = last
	}
	return batches, err
}

func (s *sub) Close() {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs[s.thread], s)
	if len(b.subs[s.thread]) == 0 {
		delete(b.subs, s.thread)
	}
	if len(b.subs) == 0 && b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// Close ends all subscriptions, and waits until nothing is asked any more.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed = true
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
	b.mu.Unlock()
	b.looks.Wait()
}

// look tells subscriptions of what is new until the context ends. Of an error they are
// told as of news, and get it when they read.
func (b *Bus) look(ctx context.Context) {
	tick := time.NewTicker(Poll)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		threads := b.threads()
		newest, err := b.log.Newest(ctx, threads)
		if err == nil && (len(newest) < len(threads) || time.Since(renewed) >= renew) {
			err = b.log.Want(ctx, threads) // those that the log has forgotten, too
			renewed = time.Now()
		}
		b.tell(newest, err)
		if err == nil || errors.Is(err, context.Canceled) {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

func (b *Bus) threads() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for thread := range b.subs {
		all = append(all, thread)
	}
	return all
}

func (b *Bus) tell(newest map[string]string, failed error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for thread, subs := range b.subs {
		at := newest[thread]
		for s := range subs {
			if failed == nil && (at == "" || at == s.heard) {
				continue
			}
			if at != "" {
				s.heard = at
			}
			select {
			case s.news <- struct{}{}:
			default:
			}
		}
	}
}
