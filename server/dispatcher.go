package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// dispatcher runs what is pending, in this process: the runs of a thread one
// after the other, those of different threads at once. The database says what is
// pending; the dispatcher is told where to look.
//
// A job queue such as River would not make it simpler. The runs of a thread have an
// order, that in which they were added, also where some of them begin later, are
// cancelled or rolled back, and such a queue keeps none among jobs that are tried
// again or that several clients work on. Whose turn it is needs a look at the thread's
// other runs and at the lease of its checkpoints in any case. And taking over the runs
// of an instance that is gone is one UPDATE of who holds them.
type dispatcher struct {
	*base
	executor *executor
	states   *states

	ctx      context.Context
	slots    chan struct{}
	draining chan struct{}
	wg       sync.WaitGroup

	mu     sync.Mutex
	lanes  map[string]*lane      // by thread
	active map[string]*activeRun // by run
	over   bool
}

// lane is what runs the runs of one thread, one after the other: a goroutine, or, while
// none may run yet, a timer.
type lane struct {
	timer *time.Timer // nil: it works
	again bool        // it must look once more before it ends
}

// activeRun is a run that works.
type activeRun struct {
	ctx    context.Context // of its work
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu  sync.Mutex
	why stop
}

// stop says how a run is stopped.
type stop int

const (
	stopNone      stop = iota
	stopInterrupt      // its checkpoints stay
	stopRollback       // its checkpoints and the run itself go
	stopRemoved        // its thread goes
)

var errStopped = errors.New("the run was cancelled")

func newDispatcher(ctx context.Context, b *base, parallel int) *dispatcher {
	return &dispatcher{
		base: b, ctx: ctx, slots: make(chan struct{}, parallel), draining: make(chan struct{}),
		lanes: map[string]*lane{}, active: map[string]*activeRun{},
	}
}

// wake has a thread's pending runs run.
func (d *dispatcher) wake(thread string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return // the next server finds it
	}
	l := d.lanes[thread]
	if l != nil && l.timer == nil {
		l.again = true
		return
	}
	if l != nil {
		l.timer.Stop()
	}
	l = &lane{}
	d.lanes[thread] = l
	d.wg.Go(func() { d.work(thread, l) })
}

// work runs the runs of a thread until none is left, or may run yet.
func (d *dispatcher) work(thread string, l *lane) {
	for {
		d.mu.Lock()
		l.again = false
		d.mu.Unlock()
		run, wait, err := d.next(thread)
		if err != nil && d.ctx.Err() == nil {
			d.log.LogAttrs(d.ctx, slog.LevelError, "server: looking for runs failed", slog.String("thread", thread), slog.Any("error", err))
			wait = time.Second
		}
		if run != nil && !d.stopping() {
			if wait = d.run(run); wait == 0 {
				continue
			}
		}
		if d.ends(thread, l, wait) {
			return
		}
	}
}

// ends ends the work on a thread unless there is more. It is looked at again after a time,
// if that isn't 0.
func (d *dispatcher) ends(thread string, l *lane, wait time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over, wait == 0 && !l.again:
		delete(d.lanes, thread)
	case l.again:
		return false
	default:
		l.timer = time.AfterFunc(wait, func() { d.wake(thread) })
	}
	return true
}

func (d *dispatcher) stopping() bool {
	select {
	case <-d.draining:
		return true
	default:
		return false
	}
}

// busy reports whether a run works here: it may wake other threads.
func (d *dispatcher) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.active) > 0
}

// elsewhere is how often is looked whether a run of another instance has ended
// for which one of this instance waits.
const elsewhere = 100 * time.Millisecond

// next returns the run of a thread whose turn it is, or how long until there may
// be one; 0 means that this instance has none.
func (d *dispatcher) next(thread string) (*db.Run, time.Duration, error) {
	const most = 100 // of which one is this instance's, or else it is asked again
	turns, err := d.db.Turns(d.ctx, thread, most)
	if err != nil {
		return nil, 0, err
	}
	var wait time.Duration
	blocked := false // by an older run of another instance, or one that works
	for _, t := range turns {
		mine := t.Holder == d.instance
		left := time.Until(t.Starts)
		switch due := t.Running || left <= 0; {
		case due && mine && blocked:
			return nil, elsewhere, nil
		case due && mine:
			run, err := d.db.Run(d.ctx, t.ID)
			if errors.Is(err, db.ErrNotFound) {
				return nil, elsewhere, nil
			}
			return run, 0, err
		case due:
			blocked = true
		case mine && (wait == 0 || left < wait):
			wait = left
		}
	}
	if len(turns) == most && blocked {
		wait = elsewhere
	}
	return nil, wait, nil
}

// run runs one run. It returns how long to wait until looking again: 0 is at once.
func (d *dispatcher) run(run *db.Run) time.Duration {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-d.draining:
		return 0
	}
	a := d.activate(run)
	defer d.deactivate(run, a)
	of, err := d.executor.claim(a, run)
	if err == nil {
		err = d.executor.execute(a, of)
	}
	return d.after(run, err)
}

// activate notes that a run works.
func (d *dispatcher) activate(run *db.Run) *activeRun {
	a := &activeRun{done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(d.ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active[run.ID] = a
	return a
}

// deactivate notes that a run doesn't work any more.
func (d *dispatcher) deactivate(run *db.Run, a *activeRun) {
	d.mu.Lock()
	delete(d.active, run.ID)
	d.mu.Unlock()
	close(a.done)
	a.cancel(nil)
	d.soon.Store(true) // its thread may sleep
}

// after returns how long to wait until looking again after a run that came to an error, or
// none.
func (d *dispatcher) after(run *db.Run, err error) time.Duration {
	switch {
	case errors.Is(err, db.ErrNotFound):
		return 0 // it was removed
	case err == nil, errors.Is(err, db.ErrTaken), errors.Is(err, db.ErrEnded):
		return 0 // it is over, or somebody else's now
	case errors.Is(err, db.ErrBusy): // another instance was faster
		return elsewhere
	case d.ctx.Err() != nil:
		return 0
	}
	d.log.LogAttrs(d.ctx, slog.LevelError, "server: a run could not be noted", slog.String("run", run.ID), slog.Any("error", err))
	return time.Second // what failed is tried again
}

// add has a new run stored by a function, which is [db.DB.AddRun] or does more: if it need
// not wait, as a run that works. It returns what has it run, to be called once.
func (d *dispatcher) add(ctx context.Context, store func(context.Context, db.NewRun) error, r db.NewRun) (start func(), err error) {
	p := d.reserve(ctx, r.Run)
	if p == nil {
		return func() { d.wake(r.ThreadID) }, store(ctx, r)
	}
	r.Begin = p.begin
	if err := store(ctx, r); err != nil {
		p.leave()
		return nil, err
	}
	return p.start, nil
}

// reservation is a new run's of its thread's lane and of a slot, made before the run is
// stored: nobody works there. So it can be stored as a run that works.
type reservation struct {
	of     *dispatcher
	lane   *lane
	begun  begun
	active *activeRun // nil until it begins
}

// reserve makes a reservation for a new run; nil if the run has to wait.
func (d *dispatcher) reserve(ctx context.Context, run *db.Run) *reservation {
	d.mu.Lock()
	if d.over || d.lanes[run.ThreadID] != nil || run.StartsAt.After(run.CreatedAt) {
		d.mu.Unlock()
		return nil
	}
	select {
	case d.slots <- struct{}{}:
	default:
		d.mu.Unlock()
		return nil
	}
	p := &reservation{of: d, lane: &lane{}, begun: begun{run: run}}
	d.lanes[run.ThreadID] = p.lane
	d.wg.Add(1)
	d.mu.Unlock()
	if p.begun.head, p.begun.failed = d.head(ctx, run.ThreadID); p.begun.failed != nil {
		p.leave() // a run that waits finds out what that means
		return nil
	}
	return p
}

// begin is called while the run is being stored as one that works: whoever finds it there
// finds it here.
func (p *reservation) begin(run *db.Run, t *db.Thread) {
	begins(run, p.begun.head)
	p.begun.thread, p.active = t, p.of.activate(run)
}

// start has the run run, if it began, and then whatever else the thread has.
func (p *reservation) start() {
	d, thread, began := p.of, p.begun.run.ThreadID, p.active != nil
	go func() {
		defer d.wg.Done()
		// It began as the only one: who came after it has woken the lane.
		if wait := p.run(); began && d.ends(thread, p.lane, wait) {
			return
		}
		d.work(thread, p.lane)
	}()
}

// run runs the run, if it began when it was stored. It returns how long to wait until
// looking again.
func (p *reservation) run() time.Duration {
	d := p.of
	defer func() { <-d.slots }()
	if p.active == nil {
		return 0
	}
	defer d.deactivate(p.begun.run, p.active)
	if d.stopping() {
		return 0
	}
	err := d.executor.rebase(context.WithoutCancel(p.active.ctx), &p.begun)
	if err == nil {
		err = d.executor.execute(p.active, &p.begun)
	}
	return d.after(p.begun.run, err)
}

// leave gives up the reservation: the run was not stored, or it isn't known whether it was.
func (p *reservation) leave() {
	if p.active != nil {
		p.of.deactivate(p.begun.run, p.active)
		p.active = nil
	}
	p.start()
}

// stopAs has the run stopped.
func (a *activeRun) stopAs(why stop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = max(a.why, why)
	if a.why != stopNone {
		a.cancel(errStopped)
	}
}

// stopped returns how the run is to be stopped.
func (a *activeRun) stopped() stop {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// cancel stops a run, whether it works or is pending. One that has ended stays as
// it is, unless it is to be rolled back.
func (d *dispatcher) cancel(ctx context.Context, run *db.Run, why stop, wait bool) error {
	d.mu.Lock()
	a := d.active[run.ID]
	d.mu.Unlock()
	if a != nil {
		// Whoever goes on with the run, if this process dies, has to know.
		err := d.db.Stop(ctx, run.ID, int(why))
		a.stopAs(why)
		if wait && err == nil {
			select {
			case <-a.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return err
	}
	changed, works := false, false
	_, err := d.db.UpdateRun(ctx, run.ID, "", func(r *db.Run) error {
		works = r.Status == db.Running
		if r.Status == db.Pending {
			changed = true
			r.Status, r.UpdatedAt, r.EndedAt = db.Interrupted, now(), now()
		}
		return nil
	})
	if err == nil && works {
		return d.cancelElsewhere(ctx, run, why, wait)
	}
	if err != nil || !changed {
		return unlessGone(err)
	}
	d.metrics.ended(run, db.Interrupted)
	// It never ran, so that there is nothing to roll back but itself.
	if why != stopRemoved { // that readers are told with the thread
		if err := d.feeds.tell(ctx, run.ThreadID, true, endOf(run.ID, nil)); err != nil {
			return err
		}
	}
	if why == stopRollback {
		if err := unlessGone(d.db.DeleteRun(ctx, run.ID)); err != nil {
			return err
		}
	}
	return d.states.release(ctx, run.ThreadID)
}

// cancelElsewhere has a run stopped that works in another instance, or did until
// just now.
func (d *dispatcher) cancelElsewhere(ctx context.Context, run *db.Run, why stop, wait bool) error {
	if err := d.db.Stop(ctx, run.ID, int(why)); err != nil {
		return err
	}
	if run.Holder != d.instance { // else whoever begins it here reads that
		d.lookAll()
	}
	d.wake(run.ThreadID) // it may be this instance's by now
	for wait {
		run, err := d.db.Run(ctx, run.ID)
		if errors.Is(err, db.ErrNotFound) || err == nil && run.Ended() {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(elsewhere):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// stopAsked stops the runs of this instance that others were asked to stop.
func (d *dispatcher) stopAsked(ctx context.Context, asked map[string]int) error {
	for id, why := range asked {
		run, err := d.db.Run(ctx, id)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := d.cancel(ctx, run, stop(why), false); err != nil {
			return err
		}
	}
	return nil
}

// cancelAll stops all runs of a thread and waits for them.
func (d *dispatcher) cancelAll(ctx context.Context, thread string, why stop) error {
	open, err := d.db.OpenRuns(ctx, thread)
	if err != nil {
		return err
	}
	for _, run := range open {
		if err := d.cancel(ctx, run, why, true); err != nil {
			return err
		}
	}
	return nil
}

// remove stops a run and removes it.
func (d *dispatcher) remove(ctx context.Context, run *db.Run) error {
	if !run.Ended() {
		if err := d.cancel(ctx, run, stopInterrupt, true); err != nil {
			return err
		}
	}
	return unlessGone(d.db.DeleteRun(ctx, run.ID))
}

// drain lets runs finish their superstep and waits for them. When the context
// ends they are stopped where they are; the next server goes on with them.
func (d *dispatcher) drain(ctx context.Context) {
	d.mu.Lock()
	if !d.over {
		d.over = true
		close(d.draining)
		for _, l := range d.lanes {
			if l.timer != nil {
				l.timer.Stop()
			}
		}
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	d.mu.Lock()
	for _, a := range d.active {
		a.cancel(graph.ErrDrained)
	}
	d.mu.Unlock()
	<-done
}

// release makes a thread idle, or whatever its state says, if it has no runs left.
func (s *states) release(ctx context.Context, thread string) error {
	open, err := s.db.AnyOpen(ctx, thread)
	if err != nil || open {
		return err
	}
	snap, _, err := s.newest(ctx, thread)
	var failure *db.RunError
	if _, unfit := misfit(err); unfit {
		failure, err = errorOf(err), nil
	}
	if err != nil {
		return err
	}
	return unlessGone(s.settle(ctx, thread, snap, failure))
}
