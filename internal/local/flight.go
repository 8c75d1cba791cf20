package local

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/core"
)

// flight is the tasks of a superstep that run. It is owned by the goroutine that
// drives the session. When nobody knows a run's tasks any more, another run of the
// program goes on with what its flight has allocated.
type flight struct {
	s        *Session
	cancel   context.CancelCauseFunc
	stepCtx  context.Context
	inbox    *inbox
	reported []bool // by task of the open superstep
	tell     teller
	lone     execution
	pieces   core.Pieces[piece]    // for lone tasks
	standing core.Pieces[standing] // and their places
	routers  core.Pieces[Task]     // for theirs
	failure  []taskFailure         // of all supersteps
	left     bool                  // tasks were left behind

	prog    *Program      // whose values these are of
	forks   core.Forks    // for what runs on the goroutine that drives
	reuse   any           // changes of an earlier lone task, to be recycled
	one     [1]any        // the changes of a lone task, while they are folded for its routers
	machine *core.Machine // of the run before; nil once it is in use
}

// flight returns one for a run.
func (p *Program) flight(s *Session) *flight {
	var f *flight
	if p.Flights != nil {
		f, _ = p.Flights.Get().(*flight)
	}
	if f == nil {
		f = new(flight)
	}
	if f.prog != p { // the same graph, with values of its own
		f.prog, f.forks, f.reuse = p, p.Values.Forks(), nil
	}
	f.s, f.tell.s = s, s
	return f
}

// clear returns the flight of a run that is over as one for another run.
func (f *flight) clear() *flight {
	if f.lone.slow != nil {
		f.lone.slow.stop()
	}
	*f = flight{
		reported: f.reported, pieces: f.pieces, standing: f.standing, routers: f.routers, prog: f.prog, forks: f.forks, reuse: f.reuse, machine: f.s.m.Clear(),
		lone: execution{slow: f.lone.slow},
	}
	f.pieces.Begin()
	f.standing.Begin()
	f.routers.Begin()
	return f
}

type taskFailure struct {
	task int
	err  error
}

// inbox receives the reports of a superstep's tasks.
type inbox struct {
	mu     sync.Mutex
	got    [][]report // in pieces, so that none is ever moved
	taken  [][]report // what was taken last
	spare  [][]report // empty pieces
	signal chan struct{}
	closed bool // tasks that have not begun are not to begin
	tasks  int  // that are to report
	alive  int  // tasks not reported yet; owned by the driver

	// Under Sync a worker takes its next task when its last report is
	// stored: what is finished is recorded at once.
	cond     sync.Cond
	reported int  // reports put
	seen     int  // of them, taken by the driver
	stored   int  // of them, stored
	open     bool // nobody waits any more
}

// begin copies a task for its worker: the driver may give the task up, and then
// goes on writing to its own. It reports false when it has given up already.
func (b *inbox) begin(m *core.Machine, i int, task *core.Task) (ok bool) {
	b.mu.Lock()
	if ok = !b.closed; ok {
		*task = *m.Task(i)
	}
	b.mu.Unlock()
	return ok
}

// close ends that tasks begin.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}

// put hands a report to the driver and returns its number.
func (b *inbox) put(r *report) int {
	b.mu.Lock()
	last := len(b.got) - 1
	if last < 0 || len(b.got[last]) == cap(b.got[last]) {
		b.got = append(b.got, b.piece())
		last++
	}
	b.got[last] = append(b.got[last], *r)
	b.reported++
	n := b.reported
	waiting := n - b.seen
	b.mu.Unlock()
	if waiting == 1 { // else the driver was signalled and has not looked yet
		select {
		case b.signal <- struct{}{}:
		default:
		}
	}
	if waiting%inboxTurn == 0 {
		runtime.Gosched()
	}
	return n
}

// piece returns room for reports.
func (b *inbox) piece() []report {
	if n := len(b.spare); n > 0 {
		p := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return p
	}
	return make([]report, 0, min(b.tasks, inboxPiece))
}

// inboxPiece is how many reports are kept in one piece.
const inboxPiece = 64

// inboxTurn is after how many reports a worker lets the driver have a turn, so
// that few of them wait at a time.
const inboxTurn = 256

// await waits until the report with that number was stored, or nothing is
// stored any more.
func (b *inbox) await(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.stored < n && !b.open {
		b.cond.Wait()
	}
}

// settle notes that what was taken is stored.
func (b *inbox) settle() {
	b.mu.Lock()
	b.stored = b.seen
	b.mu.Unlock()
	b.cond.Broadcast()
}

// release lets all workers go on without waiting.
func (b *inbox) release() {
	b.mu.Lock()
	b.open = true
	b.mu.Unlock()
	b.cond.Broadcast()
}

// take returns what was put since the last call, valid until the next one.
func (b *inbox) take() [][]report {
	b.mu.Lock()
	for _, p := range b.taken {
		b.spare = append(b.spare, p[:0])
	}
	b.got, b.taken = b.taken[:0], b.got
	b.seen = b.reported
	b.mu.Unlock()
	return b.taken
}

// start starts tasks. A lone task runs on the caller's goroutine if nothing can
// cancel it.
func (f *flight) start(ctx context.Context, tasks []int) {
	s := f.s
	s.began = true
	n := len(f.s.m.Tasks())
	f.reported = emptied(f.reported, n)
	f.tell.started(tasks)
	if f.s.o.Trace != nil {
		ctx = f.s.traced.enterStep(ctx, len(tasks))
	}
	if len(tasks) == 1 && (f.s.own || ctx.Done() == nil) && f.s.o.StepTimeout == 0 && f.s.o.Limit == nil {
		f.lone.init(s, ctx, f.s.m.Task(tasks[0]), nil, f.reuse)
		f.lone.run()
		f.reuse = f.lone.Changes
		f.deliver(&f.lone.report)
		return
	}
	f.reuse = nil
	stepCtx, cancel := context.WithCancelCause(ctx)
	if f.s.o.StepTimeout > 0 {
		var stop context.CancelFunc
		stepCtx, stop = context.WithTimeoutCause(stepCtx, f.s.o.StepTimeout, &TimeoutError{Kind: "step", Limit: f.s.o.StepTimeout})
		inner := cancel
		cancel = func(err error) { inner(err); stop() }
	}
	f.cancel, f.stepCtx = cancel, stepCtx
	box := &inbox{signal: make(chan struct{}, 1), tasks: len(tasks), alive: len(tasks)}
	box.cond.L = &box.mu
	f.inbox = box
	limit := f.s.o.Concurrency
	if limit <= 0 {
		limit = DefaultConcurrency
	}
	c := &crew{at: f.s.place(), tasks: slices.Clone(tasks), limit: int64(min(limit, len(tasks)))}
	c.hire(func() { s.work(stepCtx, box, c) })
}

// piece is what the first attempt of a lone task needs.
type piece struct {
	task  Task
	place place
}

// emptied returns a slice of n zero values, in list's memory if it is enough.
func emptied[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// crew is what the workers of a superstep share. A worker that begins a task
// hires the next one, which so gets to run when the ones before it wait for
// something or take long: tasks that only compute need no more workers than
// there are processors, and tasks that wait have as many as the limit allows.
type crew struct {
	at     *place
	tasks  []int
	next   atomic.Int64 // of tasks, to be begun
	limit  int64
	hired  atomic.Int64
	coming atomic.Bool // a worker was hired that has not begun
}

// left reports whether there are tasks that nobody has begun.
func (c *crew) left() bool { return int(c.next.Load()) < len(c.tasks) }

// hire starts a worker if one is of use.
func (c *crew) hire(work func()) {
	if c.coming.Load() || !c.left() || !c.coming.CompareAndSwap(false, true) {
		return
	}
	if c.hired.Add(1) <= c.limit { // else coming stays set, and nobody is hired any more
		go work()
	}
}

// work runs tasks of a superstep until there is none left. When the last has been
// reported the run may end, and with it the flight.
func (s *Session) work(ctx context.Context, box *inbox, c *crew) {
	c.coming.Store(false)
	another := func() { s.work(ctx, box, c) }
	var task core.Task
	var e execution
	var current *core.Task
	defer func() {
		// Only runtime.Goexit in a node gets here with a task in hand.
		if current != nil {
			node := &s.prog.Nodes[current.Node]
			r := report{task: current.Index}
			r.failed(s.nodeError(node, current.Raw, 1, errExited))
			box.put(&r)
			s.o.Limit.release()
			s.work(ctx, box, c)
		}
	}()
	for {
		k := int(c.next.Add(1)) - 1
		if k >= len(c.tasks) {
			return
		}
		i := c.tasks[k]
		err := context.Cause(ctx)
		if err == nil {
			err = s.o.Limit.acquire(ctx)
		}
		if !box.begin(s.m, i, &task) {
			if err == nil {
				s.o.Limit.release()
			}
			return
		}
		if err != nil {
			r := s.givenUp(ctx, &task)
			box.put(&r)
			continue
		}
		c.hire(another)
		current = &task
		e.init(s, ctx, &task, c.at, nil)
		e.run()
		current = nil
		s.o.Limit.release()
		if n := box.put(&e.report); s.saver != nil && s.saver.mode == Sync && c.left() {
			box.await(n)
		}
	}
}

// wait takes the reports that have come in, at least one, and passes them to
// the machine. When the step's context ends, tasks get cancelGrace to report.
func (f *flight) wait(ctx context.Context) {
	box := f.inbox
	for {
		got := box.take()
		f.deliverAll(box, got)
		if box.alive == 0 {
			f.endStep()
			return
		}
		if len(got) > 0 {
			return
		}
		select {
		case <-box.signal:
		case <-f.stepCtx.Done():
			f.lastOrders(box)
		}
	}
}

// lastOrders waits for the reports of cancelled tasks, then gives up on them.
func (f *flight) lastOrders(box *inbox) {
	box.release()
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	for {
		f.deliverAll(box, box.take())
		if box.alive == 0 {
			return
		}
		select {
		case <-box.signal:
			continue
		case <-grace.C:
		}
		box.close()
		f.left = true
		for i := range f.s.m.Tasks() {
			t := f.s.m.Task(i)
			if !t.Runs() || f.reported[i] {
				continue
			}
			r := f.s.givenUp(f.stepCtx, t)
			box.alive--
			f.deliver(&r)
		}
		return
	}
}

// givenUp is the report of a task that is not begun, or not waited for any more, because
// its superstep's context has ended.
func (s *Session) givenUp(ctx context.Context, t *core.Task) report {
	r := report{task: t.Index}
	s.cutOff(ctx, &r, &s.prog.Nodes[t.Node], t.Raw, 1)
	return r
}

func (f *flight) endStep() {
	if f.cancel != nil {
		f.inbox.release()
		f.cancel(nil)
		f.cancel, f.stepCtx, f.inbox = nil, nil, nil
	}
}

// stopTasks cancels running tasks and waits for them: the run can't go on.
func (f *flight) stopTasks(cause error) {
	if f.inbox == nil {
		return
	}
	f.cancel(cause)
	f.lastOrders(f.inbox)
	f.endStep()
}

// deliverAll passes reports to the machine, but for those of tasks that it gave
// up on.
func (f *flight) deliverAll(box *inbox, got [][]report) {
	for _, piece := range got {
		for k := range piece {
			if r := &piece[k]; !f.reported[r.task] {
				box.alive--
				f.deliver(r)
			}
		}
	}
}

// deliver passes a report to the machine.
func (f *flight) deliver(r *report) {
	f.reported[r.task] = true
	f.s.o.parent.Beat()
	if r.Err != nil && !r.Cancelled {
		f.failure = append(f.failure, taskFailure{r.task, r.Err})
	}
	f.s.m.Ended(r.task, &r.End)
	f.tell.ended(r)
}
