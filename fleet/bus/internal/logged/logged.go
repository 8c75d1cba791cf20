// Package logged makes a bus of a log that is kept by a server: processes tell one another of
// what is new, and ask for it now and then as well, with one question for all threads that a
// process follows; often where a pooler doesn't let notes through.
package logged

import (
	"context"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/internal/follow"
)

// Log keeps batches by thread for some time. Places in it are texts of its own.
type Log interface {
	// Publish appends a batch, if somebody wants those of the thread.
	Publish(ctx context.Context, thread string, batch []byte) (wanted bool, err error)

	// Want notes for [Wanted] that threads are followed, and sweeps.
	Want(ctx context.Context, threads []string) error

	// Newest returns where the logs of threads end that are wanted.
	Newest(ctx context.Context, threads []string) (map[string]string, error)

	// Read returns what comes after a place, and the place of the last.
	Read(ctx context.Context, thread, after string) (batches [][]byte, last string, err error)
}

const (
	Wanted = time.Minute // how long a thread is wanted after that was noted last
	Kept   = time.Minute // how long a batch is kept

	poll  = 25 * time.Millisecond // how often is asked for what is new if nobody tells
	renew = 10 * time.Second      // how often is noted what is wanted
)

// Bus is a bus that keeps its batches in a log.
type Bus struct {
	log     Log
	others  *follow.Follower // notes are threads
	renewed time.Time        // only for whoever looks

	mu     sync.Mutex
	subs   map[string]map[*sub]bool // by thread
	stop   context.CancelFunc       // of following, nil: nobody has subscribed yet
	looks  sync.WaitGroup
	closed bool
}

// New returns a bus whose processes tell one another of news over a wire.
func New(l Log, w follow.Wire) *Bus {
	b := &Bus{log: l, subs: map[string]map[*sub]bool{}, renewed: time.Now()}
	b.others = follow.New(w, poll, b.look, b.heard)
	return b
}

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
	wanted, err := b.log.Publish(ctx, thread, batch)
	if wanted && err == nil {
		b.heard(thread)
		b.others.Tell(thread)
	}
	return err
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
		b.looks.Go(func() { b.others.Run(ctx) })
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
}

// Close ends all subscriptions, and waits until nothing is asked or told any more.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed = true
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
	b.mu.Unlock()
	b.looks.Wait()
	b.others.Close()
}

// look tells subscriptions of what is new. Of an error they are told as of news, and get it
// when they read.
func (b *Bus) look(ctx context.Context) error {
	threads := b.threads()
	if len(threads) == 0 {
		return nil
	}
	newest, err := b.log.Newest(ctx, threads)
	if err == nil && (len(newest) < len(threads) || time.Since(b.renewed) >= renew) {
		err = b.log.Want(ctx, threads) // those that the log has forgotten, too
		b.renewed = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for thread, subs := range b.subs {
		at := newest[thread]
		for s := range subs {
			if err == nil && (at == "" || at == s.heard) {
				continue
			}
			if at != "" {
				s.heard = at
			}
			s.signal()
		}
	}
	return err
}

func (b *Bus) threads() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for thread := range b.subs {
		all = append(all, thread)
	}
	return all
}

// heard tells subscriptions of news of a thread.
func (b *Bus) heard(thread string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs[thread] {
		s.signal()
	}
}

func (s *sub) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}
