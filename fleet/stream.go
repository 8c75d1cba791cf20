package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/local"
)

// Stream is graph.Thread.Stream by the workers. It ends when the run is over, and breaking
// out of the loop cancels the run, unless graph.Detach is given. Options of runs hold for
// what this process does to the thread before it is dispatched: see [Options] for the
// workers'.
//
// By [Local] all is told that graph.Thread.Stream tells. By other dispatchers what is
// recorded is told: inputs, updates, checkpoints and values of the graph itself, soon after
// they are. The rest is told if the client and the workers have the same Bus, some 50 ms
// late: what nodes send (messages, custom events and calls of tools), the course of tasks,
// interrupts, and all of that and updates, checkpoints and values inside of subgraphs. It
// is missing, and nothing else is, where the bus failed. What happened to a task comes
// before what it wrote, tasks that run at once as it happened, as with graph.LiveOrder.
// Warnings stay on the workers.
//
// What nodes sent arrives as it was if it is a chat.Chunk, a tool.Started or a tool.Ended,
// else as JSON (json.RawMessage); states of subgraphs are JSON, too, and errors texts. If a
// task begins anew on another worker, since the first is lost, an event of type task_retry
// says so, for those who want graph.ModeTasks, and what the first has still sent is dropped.
//
// With graph.Drain the stream of a run by Local ends with the superstep. One of another
// dispatcher ends at once, with graph.ErrDrained, and the run goes on: see [Follow].
func Stream[S any](ctx context.Context, c *Client, t *graph.Thread[S], req graph.Request[S], opts ...graph.StreamOption) iter.Seq2[graph.Event, error] {
	return engine.Stream(ctx, t, opts, func(ctx context.Context, f local.Followed) error {
		if err := f.Begin(ctx); err != nil {
			return err
		}
		return c.follow(ctx, t.ID(), f, func() (Run, error) {
			if err := f.Submit(ctx, req); err != nil {
				return nil, err
			}
			return c.wake(ctx, t.ID(), f.Wants())
		})
	})
}

// Follow is [Stream] of a run that was started before, maybe by another process, which is
// gone: the thread is woken, see [Client.Wake], and goes on where it stands. It waits for
// another run that has the thread. Of one that goes on at workers what they tell is as
// whoever began it wanted, and what nodes send.
func Follow[S any](ctx context.Context, c *Client, t *graph.Thread[S], opts ...graph.StreamOption) iter.Seq2[graph.Event, error] {
	return engine.Stream(ctx, t, opts, func(ctx context.Context, f local.Followed) error {
		if err := f.Begin(ctx); err != nil {
			return err
		}
		for {
			err := c.follow(ctx, t.ID(), f, func() (Run, error) { return c.wake(ctx, t.ID(), f.Wants()) })
			if !errors.Is(err, graph.ErrThreadBusy) || ctx.Err() != nil {
				return err
			}
			select {
			case <-time.After(lookEvery):
			case <-f.Drain():
				return graph.ErrDrained
			case <-ctx.Done():
				return stopped(ctx)
			}
		}
	})
}

// lookEvery is how often is looked whether something was recorded.
const lookEvery = 50 * time.Millisecond

// follow starts a run and tells of it until it is over.
func (c *Client) follow(ctx context.Context, thread string, f local.Followed, start func() (Run, error)) error {
	here, isHere := c.Dispatcher.(*Local)
	var look <-chan time.Time
	var drain <-chan struct{}
	var l *listener
	tell := func(ctx context.Context) error { return f.CatchUp(ctx, nil) }
	if isHere {
		defer here.w.listen(thread, f)()
	} else {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		l = c.listen(ctx, thread, f)
		defer l.close()
		look, drain, tell = tick.C, f.Drain(), l.tell
	}
	run, err := start()
	if err != nil {
		return err
	}
	keep := context.WithoutCancel(ctx)
	waits, leave := context.WithCancel(keep)
	defer leave()
	var p Progress
	over := make(chan error, 1)
	go func() {
		var err error
		p, err = run.Wait(waits)
		over <- err
	}()
	done := ctx.Done()
	for {
		select {
		case err := <-over:
			switch cerr := tell(keep); {
			case errors.Is(err, ErrCancelled) && ctx.Err() != nil:
				return stopped(ctx)
			case err != nil:
				return err
			case p.Status == RunFailed:
				return p.failure()
			default:
				return cerr
			}
		case <-look:
			_ = tell(ctx) // what fails is tried again
		case <-l.news():
			_ = tell(ctx)
		case <-drain:
			return graph.ErrDrained
		case <-done:
			done = nil
			if !isHere && errors.Is(context.Cause(ctx), graph.ErrDrained) {
				return stopped(ctx)
			}
			if err := c.Dispatcher.Cancel(keep, thread); err != nil {
				return errors.Join(stopped(ctx), err)
			}
		}
	}
}

// stopped says why a context has ended that a run was under.
func stopped(ctx context.Context) error {
	return fmt.Errorf("run stopped: %w: %w", ctx.Err(), context.Cause(ctx))
}

// failure returns the error of a run that has failed.
func (p *Progress) failure() error {
	switch {
	case p.Err != nil:
		return p.Err
	case p.Limit != nil:
		return &failure{p.Error, p.Limit}
	case p.Timeout != nil:
		return &failure{p.Error, p.Timeout}
	}
	return errors.New(p.Error)
}

// failure is an error of another process.
type failure struct {
	text  string
	limit error
}

func (e *failure) Error() string { return e.text }
func (e *failure) Unwrap() error { return e.limit }

// listen has a stream told what is done for a thread.
func (w *Worker) listen(thread string, f local.Followed) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[thread] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams[thread] == f {
			delete(w.streams, thread)
		}
	}
}

// tells returns the bus of a stream, and what drains its run; nil if nobody streams.
func (w *Worker) tells(thread string) (*local.Bus, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.streams[thread]; f != nil {
		return f.Bus(), f.Drain()
	}
	return nil, nil
}
