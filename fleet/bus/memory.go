package bus

import (
	"bytes"
	"context"
	"sync"
)

// unread is how many bytes wait for a subscription in memory; the oldest batches go first.
const unread = 16 << 20

// Memory is a bus for the workers and the streams of one process. Use [NewMemory].
type Memory struct {
	mu   sync.Mutex
	subs map[string]map[*memorySub]bool // by thread
}

var _ Bus = (*Memory)(nil)

// NewMemory returns a bus in memory.
func NewMemory() *Memory { return &Memory{subs: map[string]map[*memorySub]bool{}} }

type memorySub struct {
	of     *Memory
	thread string
	news   chan struct{}

	batches [][]byte // guarded by Memory.mu, as size
	size    int
}

// Publish implements [Bus].
func (m *Memory) Publish(ctx context.Context, thread string, batch []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.subs[thread]) == 0 {
		return nil
	}
	batch = bytes.Clone(batch)
	for s := range m.subs[thread] {
		s.batches = append(s.batches, batch)
		for s.size += len(batch); s.size > unread && len(s.batches) > 1; s.batches = s.batches[1:] {
			s.size -= len(s.batches[0])
		}
		select {
		case s.news <- struct{}{}:
		default:
		}
	}
	return nil
}

// Subscribe implements [Bus].
func (m *Memory) Subscribe(ctx context.Context, thread string) (Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &memorySub{of: m, thread: thread, news: make(chan struct{}, 1)}
	if m.subs[thread] == nil {
		m.subs[thread] = map[*memorySub]bool{}
	}
	m.subs[thread][s] = true
	return s, nil
}

func (s *memorySub) News() <-chan struct{} { return s.news }

func (s *memorySub) Read(context.Context) ([][]byte, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	out := s.batches
	s.batches, s.size = nil, 0
	return out, nil
}

func (s *memorySub) Close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.subs[s.thread], s)
	if len(s.of.subs[s.thread]) == 0 {
		delete(s.of.subs, s.thread)
	}
}
