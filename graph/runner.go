package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Runnable is a graph whose threads a [Runner] can continue: any [*Graph].
type Runnable interface {
	Name() string
	engine() (*engine, error)
}

// Runner continues the threads of a store that nobody runs: those whose time
// has come ([Sleep], [Deadline]), those that were sent an event, those that were
// spawned or whose spawned thread has ended ([Spawn]), and those whose run died with
// its process. Several runners may work on one store, in one
// process or many: each thread is run by one of them, since a run holds its
// thread.
//
// A run that failed with an error is not taken up again, nor is a thread that
// waits for an answer. What a runner was running when it was stopped or the store
// failed is due again. Breakpoints are not passed. Threads of graphs that the
// runner doesn't know are left alone and reported.
type Runner struct {
	store  checkpoint.Store
	sched  checkpoint.Scheduler
	graphs map[string]Runnable
	o      RunnerOptions
	slots  chan struct{}
	drain  <-chan struct{} // see [Drain]

	// Of a runner that hands threads over: nil if they are run here.
	hand  func(ctx context.Context, thread string) (over func(context.Context) error, err error)
	asked chan struct{} // how many of their runs are asked at a time whether they can go on

	mu   sync.Mutex
	busy map[checkpoint.ThreadID]bool // being run
	rest map[checkpoint.ThreadID]rest // failed, or handed over, and not to be tried again at once
}

type rest struct {
	of    checkpoint.Waiting
	until time.Time
	wait  time.Duration
}

// maxRest is how long a thread rests at most.
const maxRest = time.Minute

// RunnerOptions are the settings of a [Runner]. The zero value is fine.
type RunnerOptions struct {
	// Poll is how often the store is asked; 0 means every second. A thread that
	// becomes due in between is woken on time if it was known before.
	Poll time.Duration

	// Concurrency is how many threads run at a time; 0 means 64.
	Concurrency int

	// Options are given to each run. Once a [Drain] among them is closed, the runner takes
	// up no more threads.
	Options []RunOption

	// Report is told of each thread that was run or could not be; it must be
	// safe for concurrent use. Nil logs failures with slog.
	Report func(RunnerReport)
}

// RunnerReport says what became of a thread.
type RunnerReport struct {
	Thread string
	Graph  string // empty if it could not be found out
	Died   bool   // its run had died; otherwise it was due
	Err    error  // of the run, or why there was none
}

// NewRunner returns a runner for the threads of the graphs in store, which must
// implement checkpoint.Scheduler.
func NewRunner(store checkpoint.Store, o RunnerOptions, graphs ...Runnable) (*Runner, error) {
	r, err := newRunner(store, o, graphs...)
	if err == nil && len(graphs) == 0 {
		return nil, errors.New("graph: NewRunner needs a graph")
	}
	return r, err
}

func newRunner(store checkpoint.Store, o RunnerOptions, graphs ...Runnable) (*Runner, error) {
	if store == nil {
		return nil, fmt.Errorf("a runner %w", ErrNoCheckpointer)
	}
	sched, ok := store.(checkpoint.Scheduler)
	if !ok {
		return nil, fmt.Errorf("graph: NewRunner: %T can't tell which threads wait: it is no checkpoint.Scheduler", store)
	}
	if o.Poll < 0 || o.Concurrency < 0 {
		return nil, errors.New("graph: NewRunner: RunnerOptions.Poll and Concurrency must not be negative")
	}
	set, err := with(new(settings), o.Options)
	if err != nil {
		return nil, err
	}
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Concurrency = cmp.Or(o.Concurrency, 64)
	if o.Report == nil {
		o.Report = func(r RunnerReport) {
			if r.Err != nil {
				slog.Error("superstep: runner", "thread", r.Thread, "graph", r.Graph, "died", r.Died, "error", r.Err)
			}
		}
	}
	r := &Runner{
		store: store, sched: sched, graphs: map[string]Runnable{}, o: o, slots: make(chan struct{}, o.Concurrency), asked: make(chan struct{}, o.Concurrency), drain: set.drain,
		busy: map[checkpoint.ThreadID]bool{}, rest: map[checkpoint.ThreadID]rest{},
	}
	for _, g := range graphs {
		if g == nil {
			return nil, errors.New("graph: NewRunner: nil graph")
		}
		if _, err := g.engine(); err != nil {
			return nil, err
		}
		if r.graphs[g.Name()] != nil {
			return nil, fmt.Errorf("graph: NewRunner: two graphs are named %q", g.Name())
		}
		r.graphs[g.Name()] = g
	}
	for _, g := range graphs {
		e, _ := g.engine() // as above
		for _, former := range e.settings.former {
			if r.graphs[former] == nil {
				r.graphs[former] = g
			}
		}
	}
	return r, nil
}

// Sweep looks once: it runs the threads that are due or whose run died, and
// returns when they have ended or wait again. The error is that of the store, or
// why it was stopped; those of runs are reported.
func (r *Runner) Sweep(ctx context.Context) error {
	var wg sync.WaitGroup
	err := r.abandoned(ctx, &wg)
	if err == nil {
		_, err = r.due(ctx, &wg)
	}
	wg.Wait()
	return err
}

// Run wakes threads until the context ends; then it stops those that run, waits
// for them, and returns the context's error. When a [Drain] among its options is
// closed it waits until those that run have come to the end of their superstep, and
// returns [ErrDrained]. When the store fails it goes on: each failure is reported,
// with an empty thread.
func (r *Runner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		next := time.Now().Add(r.o.Poll)
		r.forget()
		err := r.abandoned(ctx, &wg)
		if err == nil {
			var soon time.Time
			if soon, err = r.due(ctx, &wg); err == nil && !soon.IsZero() && soon.Before(next) {
				next = soon
			}
		}
		if err := r.stopped(ctx); err != nil {
			return err
		}
		if err != nil {
			r.o.Report(RunnerReport{Err: err})
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-r.drain:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// stopped says why no more threads are to be taken up, if so.
func (r *Runner) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-r.drain:
		return ErrDrained
	default:
		return nil
	}
}

// forget drops what is known of threads that don't wait any more.
func (r *Runner) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.rest, func(_ checkpoint.ThreadID, f rest) bool { return time.Since(f.until) > maxRest })
}

// abandoned starts the threads whose run died.
func (r *Runner) abandoned(ctx context.Context, wg *sync.WaitGroup) error {
	for w, err := range r.sched.Abandoned(ctx, 0) {
		if err != nil {
			return fmt.Errorf("looking for threads whose run died: %w", err)
		}
		if !r.start(ctx, wg, w, true) {
			return r.stopped(ctx)
		}
	}
	return nil
}

// due starts the threads that are due, and returns when the next one is if that
// is before the next look.
func (r *Runner) due(ctx context.Context, wg *sync.WaitGroup) (next time.Time, err error) {
	for w, err := range r.sched.Due(ctx, time.Now().Add(r.o.Poll), 0) {
		if err != nil {
			return next, fmt.Errorf("looking for threads that are due: %w", err)
		}
		if w.Due.After(time.Now()) {
			return w.Due, nil
		}
		if !r.start(ctx, wg, w, false) {
			return next, r.stopped(ctx)
		}
	}
	return next, nil
}

// start runs a thread when there is a place. It reports false when the runner is
// stopped.
func (r *Runner) start(ctx context.Context, wg *sync.WaitGroup, w checkpoint.Waiting, died bool) bool {
	if r.stopped(ctx) != nil {
		return false
	}
	thread := w.Thread
	r.mu.Lock()
	before := r.rest[thread]
	if r.hand != nil && before.of != w { // it was run since, and waits for something else
		before = rest{}
	}
	skip := r.busy[thread] || time.Now().Before(before.until)
	if !skip {
		r.busy[thread] = true
	}
	r.mu.Unlock()
	if skip {
		return true
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		r.mu.Lock()
		delete(r.busy, thread)
		r.mu.Unlock()
		return false
	}
	wg.Go(func() {
		name, over, err := r.wake(ctx, thread)
		<-r.slots
		if over != nil {
			select {
			case r.asked <- struct{}{}:
				err = r.refused(ctx, over)
				<-r.asked
			default: // of so many at once not all are asked
			}
		}
		r.mu.Lock()
		delete(r.busy, thread)
		if err == nil && r.hand == nil || errors.Is(err, ErrThreadBusy) {
			delete(r.rest, thread)
		} else {
			// It is due until somebody runs it: at once, if it can't even be loaded.
			wait := min(max(2*before.wait, r.o.Poll), maxRest)
			r.rest[thread] = rest{w, time.Now().Add(wait), wait}
		}
		r.mu.Unlock()
		if !errors.Is(err, ErrThreadBusy) { // then another runner was first
			r.o.Report(RunnerReport{Thread: string(thread), Graph: name, Died: died, Err: err})
		}
	})
	return true
}

// refused returns why a run that was handed out could not go on with its thread, if that shows
// before the next look.
func (r *Runner) refused(ctx context.Context, over func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Poll)
	defer cancel()
	if err := over(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// wake has a thread go on. Over is there if somebody else runs it: see [pieces.Watch].
func (r *Runner) wake(ctx context.Context, thread checkpoint.ThreadID) (graph string, over func(context.Context) error, err error) {
	head, _, err := local.HeadOf(ctx, r.store, checkpoint.Log{Thread: thread})
	if err != nil {
		return "", nil, err
	}
	if head == nil { // its run died before it wrote anything
		_, err = r.store.Write(ctx, &checkpoint.Write{Log: checkpoint.Log{Thread: thread}, Claim: true})
		if errors.Is(err, checkpoint.ErrBusy) { // a run has begun it meanwhile
			err = fmt.Errorf("%w: %w", ErrThreadBusy, err)
		}
		return "", nil, err
	}
	if r.hand != nil {
		over, err = r.hand(ctx, string(thread))
		return head.Graph, over, err
	}
	g := r.graphs[head.Graph]
	if g == nil {
		near := plan.Nearest(head.Graph, slices.Sorted(maps.Keys(r.graphs)))
		if near != "" {
			near = fmt.Sprintf("; did you mean %q?", near)
		}
		return head.Graph, nil, fmt.Errorf("%w of thread %q: %q%s", ErrUnknownGraph, thread, head.Graph, near)
	}
	e, err := g.engine()
	if err != nil {
		return head.Graph, nil, err
	}
	return head.Graph, nil, e.wake(ctx, r.store, thread, r.o.Options)
}

// wake lets a thread go on with what needs nobody's answer.
func (e *engine) wake(ctx context.Context, store checkpoint.Store, thread checkpoint.ThreadID, opts []RunOption) error {
	set, err := with(&e.settings, opts)
	if err != nil {
		return err
	}
	set.store, set.thread, set.busy = store, thread, BusyReject
	if set.durability == Exit { // which holds nothing
		set.durability = Sync
	}
	s, err := e.run(ctx, set, nil, true, func(ctx context.Context, s *local.Session) error {
		if s.Tip() == nil {
			return nil
		}
		return s.Drive(ctx)
	})
	if s != nil {
		s.Close()
	}
	return err
}
