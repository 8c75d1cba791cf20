package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/superstep-dev/superstep/internal/console"
)

// stops makes Ctrl-C stop a turn. Where there is none, or where it was stopped
// already, Ctrl-C ends the chat, and so does SIGTERM at any time. A signal after
// that ends the process as usual.
type stops struct {
	ctx context.Context // of the chat

	cancel  context.CancelCauseFunc
	signals chan os.Signal
	done    chan struct{}
	over    sync.WaitGroup

	mu   sync.Mutex
	turn context.CancelCauseFunc // nil: nothing to stop
}

func watchSignals(ctx context.Context) *stops {
	s := &stops{signals: make(chan os.Signal, 2), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	signal.Notify(s.signals, os.Interrupt, syscall.SIGTERM)
	s.over.Go(func() {
		for {
			select {
			case sig := <-s.signals:
				s.signal(sig)
			case <-s.done:
				return
			}
		}
	})
	return s
}

func (s *stops) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sig == os.Interrupt && s.turn != nil {
		s.turn(console.ErrStopped)
		s.turn = nil
		return
	}
	signal.Stop(s.signals)
	s.cancel(console.ErrStopped)
}

// begin returns the context of a turn.
func (s *stops) begin() (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = cancel
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.turn = nil
		cancel(nil)
	}
}

// end gives the signals back.
func (s *stops) end() {
	signal.Stop(s.signals)
	close(s.done)
	s.over.Wait()
	s.cancel(nil)
}
