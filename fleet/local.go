package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/local"
)

// LocalOptions are the settings of a [Local]. The zero value is fine.
type LocalOptions struct {
	Workers int // how many ranges of tasks run at a time, of all threads; 0 means 8
	Batch   int // how many tasks a range has; 0 means 32
}

// Local is a dispatcher in this process: it runs ranges of tasks side by side, and keeps
// timers for the threads that sleep. What it was at when its process died goes on where a
// [Client.Watch] finds it.
type Local struct {
	w     *Worker
	o     LocalOptions
	slots chan struct{}

	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
	runs   map[string]*localRun
}

// NewLocal returns a dispatcher for the programs of a worker. It is to be closed.
func NewLocal(w *Worker, o LocalOptions) (*Local, error) {
	if w == nil {
		return nil, errors.New("fleet: NewLocal needs a worker")
	}
	if o.Workers < 0 || o.Batch < 0 {
		return nil, errors.New("fleet: LocalOptions.Workers and Batch must not be negative")
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Batch == 0 {
		o.Batch = 32
	}
	return &Local{w: w, o: o, slots: make(chan struct{}, o.Workers), runs: map[string]*localRun{}}, nil
}

// localRun is a run that is at work or asleep.
type localRun struct {
	thread string
	cancel context.CancelCauseFunc // of one at work
	timer  *time.Timer             // of one asleep
	next   *localRun               // begins after it
	ref    Ref

	done chan struct{} // closed when it is over, after what follows is set
	p    Progress
	err  error
}

// Wait returns how the run came to its end.
func (r *localRun) Wait(ctx context.Context) (Progress, error) {
	select {
	case <-r.done:
		if r.next != nil && r.p.Status == RunSleeps {
			return r.next.Wait(ctx)
		}
		return r.p, r.err
	case <-ctx.Done():
		return Progress{}, fmt.Errorf("waiting for the run of thread %q: %w", r.thread, ctx.Err())
	}
}

var errClosed = errors.New("fleet: the dispatcher is closed")

// Dispatch begins a run: see [Dispatcher].
func (l *Local) Dispatch(ctx context.Context, ref Ref) (Run, error) {
	if _, err := l.w.program(ref); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	switch r := l.runs[ref.Thread]; {
	case r == nil:
		r = &localRun{thread: ref.Thread, ref: ref, done: make(chan struct{})}
		l.begin(r)
		return r, nil
	case r.timer != nil: // whoever waits for it waits for what it does now
		r.timer.Stop()
		r.ref = ref
		l.begin(r)
		return r, nil
	case r.next == nil:
		r.next = &localRun{thread: ref.Thread, ref: ref, done: make(chan struct{})}
		return r.next, nil
	default:
		r.next.ref = ref
		return r.next, nil
	}
}

// begin lets a run go to work. It is called with l.mu held.
func (l *Local) begin(r *localRun) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel, r.timer = cancel, nil
	l.runs[r.ref.Thread] = r
	l.wg.Go(func() {
		defer cancel(nil)
		p, err := l.drive(ctx, r.ref)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rest(r, p, err)
	})
}

// rest notes that a run is not at work any more. It is called with l.mu held.
func (l *Local) rest(r *localRun, p Progress, err error) {
	if err == nil && p.Status == RunSleeps && r.next == nil && !l.closed {
		r.ref = p.Ref
		r.timer = time.AfterFunc(time.Until(p.Wake), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.runs[r.ref.Thread] == r && r.timer != nil {
				l.begin(r)
			}
		})
		return
	}
	if r.next == nil {
		delete(l.runs, r.ref.Thread)
	} else {
		l.begin(r.next)
	}
	r.p, r.err = p, err
	close(r.done)
}

// Cancel ends the run of a thread.
func (l *Local) Cancel(_ context.Context, thread string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[thread]; r != nil {
		l.stop(r, ErrCancelled)
	}
	return nil
}

// stop ends a run for a reason. It is called with l.mu held.
func (l *Local) stop(r *localRun, why error) {
	if next := r.next; next != nil {
		r.next, next.err = nil, ErrCancelled
		close(next.done)
	}
	if r.timer == nil {
		r.cancel(why)
		return
	}
	r.timer.Stop()
	r.timer = nil
	l.rest(r, Progress{}, ErrCancelled)
}

// Close ends all runs where they stand, with the contexts of their nodes, and waits until
// they are over: for those who wait for them they are cancelled. Their threads are due, so
// that a [Client.Watch] has them go on, here or in another process. Close it when this
// process's own watches have ended, and before its store is closed.
func (l *Local) Close() error {
	l.mu.Lock()
	l.closed = true
	for _, r := range l.runs {
		l.stop(r, errClosed)
	}
	l.mu.Unlock()
	l.wg.Wait()
	return nil
}

// drive does a run until it is over.
func (l *Local) drive(ctx context.Context, ref Ref) (p Progress, err error) {
	var failed error // of tasks, as their nodes had it
	advance := func() error {
		return Try(ctx, func() error {
			next, err := l.w.Advance(ctx, ref)
			if err == nil {
				p, ref = next, next.Ref
			}
			return err
		})
	}
	for err = advance(); err == nil && !p.Status.Over(); {
		if failed, err = l.runTasks(ctx, p); err == nil {
			err = advance()
		}
	}
	if err != nil {
		// What has not begun stays due, for another process, unless it is not to begin. If it
		// can't be given up the lease runs out.
		switch cause := context.Cause(ctx); {
		case errors.Is(err, graph.ErrThreadBusy), errors.Is(err, local.ErrUnderWay) && cause == errClosed:
		case cause == errClosed:
			_ = l.w.giveUp(context.WithoutCancel(ctx), ref, true)
		case ref.Superstep != "" || cause == ErrCancelled:
			_ = l.w.GiveUp(context.WithoutCancel(ctx), ref)
		}
		return p, cancelled(ctx, err)
	}
	if failed != nil && p.Status != RunEnded {
		p.Err, p.Error = failed, failed.Error()
	}
	return p, nil
}

func cancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ErrCancelled
	}
	return err
}

// runTasks runs the tasks of a superstep. When one fails, the others are cancelled.
func (l *Local) runTasks(ctx context.Context, p Progress) (failed, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, (p.To-p.From+l.o.Batch-1)/l.o.Batch)
	var wg sync.WaitGroup
	for i := range errs {
		from := p.From + i*l.o.Batch
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		wg.Go(func() {
			defer func() { <-l.slots }()
			errs[i] = Try(ctx, func() error { return l.w.RunTasks(ctx, p.Ref, from, min(from+l.o.Batch, p.To)) })
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	var fails []error
	for _, e := range errs {
		if t, ok := errors.AsType[*TaskError](e); ok {
			fails = append(fails, t.Err)
		} else if e != nil && (err == nil || errors.Is(err, context.Canceled) && !errors.Is(err, local.ErrUnderWay)) {
			err = e
		}
	}
	if len(fails) > 0 { // the others were cancelled for it
		return errors.Join(fails...), nil
	}
	return nil, err
}
