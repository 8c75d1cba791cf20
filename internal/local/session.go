package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Session is one run of a program, or one look at a thread. It is not safe for
// concurrent use.
type Session struct {
	prog *Program
	o    Options
	id   runID
	m    *core.Machine
	tip  *core.Tip // as loaded; nil for a new thread

	saver   *saver             // nil without a store
	anew    checkpoint.ID      // the log's head, if the run begins as in an empty log
	release func(stopped bool) // of the thread's lock
	evicted bool               // another run has the thread, and the caller is told so
	halt    halt
	own     bool // nobody but stop cancels the run's context
	written int  // bytes of changes, for weigh
	weighAt int  // bytes written at which the state is weighed
	timed   bool // task times are wanted, by a record or an event
	encode  bool // changes are wanted encoded though nothing is stored

	findings findings // of the run's root alone
	effects  effects  // likewise
	claims   claims

	beside atomic.Bool // a task stored a result itself

	// Owned by the goroutine that drives.
	flight    *flight
	last      *checkpoint.Record // written last
	collected [][]any            // what was committed by this session, by superstep, if wanted
	some      bool               // it runs some tasks of a superstep, and others close it
	fresh     bool               // an input's values are to be shown
	began     bool               // tasks were started
	confirmed bool               // the thread is known to be as it was read
	flushing  bool               // nothing is to be started
	ended     bool               // the run has come to an end of its own
	limit     error              // by which its context ends when it runs out of time; nil: never
	awaited   awaited
	traced    traced
}

// runID is the ID of a run, made when it is needed: a run that stores nothing mostly
// has none.
type runID struct {
	once sync.Once
	id   checkpoint.ID
}

func (r *runID) get() checkpoint.ID {
	r.once.Do(func() { r.id = checkpoint.NewRunID() })
	return r.id
}

// Beginning names the moment before a thread's first record: what begins there begins
// as in an empty log, beside what the log holds.
const Beginning checkpoint.ID = plan.Start

// Open loads a thread for a run, or for a look at it if lock is not set. At
// names a record, or is [Beginning]; empty means the newest.
func Open(ctx context.Context, prog *Program, o *Options, at checkpoint.ID, lock bool) (_ *Session, err error) {
	s := &Session{prog: prog, o: *o}
	s.flight, s.traced.s = prog.flight(s), s
	if o.Store != nil {
		if o.Log.Thread == "" {
			return nil, ErrThreadRequired
		}
		if o.parent != nil && o.Tape == nil {
			s.saver = o.parent.s.saver
		} else {
			s.saver = newSaver(o)
		}
	}
	if o.Run != "" {
		s.id.once.Do(func() { s.id.id = o.Run })
	}
	if lock && s.saver != nil && o.parent == nil {
		if at, err = s.hold(ctx, at); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.timed = o.Store != nil || o.Bus.wants(TaskEnded|TaskFailed)
	s.encode = o.collect || o.Bus.wants(Updates|TaskEnded)
	if s.shared() {
		if s.o.Hold.Claim { // which ends what others have made the thread due by: not if we can't go on with it
			err = s.load(ctx, at)
		}
		if err == nil {
			err = s.join(ctx)
		}
	}
	if err == nil { // what was read before may have changed until the claim
		err = s.load(ctx, at)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Run opens a thread for a run and calls f with it. If the thread was rewritten
// before the run claimed it, what f built on what was read is void: then it is
// opened, and f called, again. The session is to be closed by the caller; without
// one the thread could not be opened.
func Run(ctx context.Context, prog *Program, o *Options, at checkpoint.ID, f func(*Session) error) (s *Session, err error) {
	over := false
	defer func() {
		if !over && s != nil { // a listener or what the caller gave has panicked
			s.Close()
		}
	}()
	for n := 0; ; n++ {
		if s, err = Open(ctx, prog, o, at, true); err != nil {
			return nil, err
		}
		if err = f(s); n == rereads || !s.stale(ctx, err) {
			over = true
			return s, err
		}
		s.Close()
		s = nil
	}
}

// stale reports whether the session has failed for nothing but that its thread was
// rewritten, or claimed without anything being committed, between its being read
// and claimed.
func (s *Session) stale(ctx context.Context, err error) bool {
	if !errors.Is(err, checkpoint.ErrFenced) || s.saver == nil || s.saver.isClaimed() || s.began {
		return false
	}
	head, _, err := s.o.Store.Head(ctx, s.o.Log)
	if err != nil {
		return errors.Is(err, checkpoint.ErrNotFound)
	}
	return head.ID == s.anew || s.tip != nil && head.ID == s.tip.LogHead
}

// Close gives the thread up. While a sub-step is under way that somebody who goes on
// would run a second time, the thread stays the run's: until its result is recorded.
func (s *Session) Close() { s.close() }

func (s *Session) close() (over bool) {
	switch {
	case s.saver == nil:
	case s.mayRepeat() && s.effects.held(s.giveUp):
		return false
	default:
		s.giveUp()
	}
	return true
}

// Done is Close for a session that nobody uses any more, nor its machine. What tasks
// have left behind never does: their contexts know their place, not the machine.
func (s *Session) Done() {
	if s.close() && s.ended && !s.flight.left && s.prog.Flights != nil {
		s.prog.Flights.Put(s.flight.clear())
		s.flight, s.m = nil, nil
	}
}

func (s *Session) giveUp() {
	switch {
	case s.shared():
		s.saver.abandon()
	case s.o.parent == nil:
		_ = s.letGo(context.Background())
	}
	if s.release != nil {
		s.release(s.evicted)
		s.release = nil
	}
}

// repeats reports whether a sub-step is under way that the thread would run again
// when it goes on.
func (s *Session) repeats() bool { return s.mayRepeat() && s.effects.held(nil) }

// mayRepeat reports whether the thread would run a sub-step again that is under way.
func (s *Session) mayRepeat() bool {
	return s.saver != nil && s.o.parent == nil && s.m != nil && s.m.Pending()
}

func (s *Session) config() core.Config {
	var run checkpoint.ID
	if s.o.Store != nil {
		run = s.id.get()
	}
	used := s.flight.machine
	s.flight.machine = nil
	var first func(int, core.State) *checkpoint.Question
	if s.prog.First && s.o.Store != nil && s.o.parent == nil && s.o.Log.Namespace == "" {
		first = s.first
	}
	return core.Config{
		First: first, Shared: s.root().o.Hold != nil,

		Plan: s.prog.Plan, Values: s.prog.Values, Persist: s.o.Store != nil, Log: s.o.Log, Run: run, Version: s.prog.Version,
		Metadata: s.o.Metadata, Caller: s.o.Caller, Limits: s.o.Limits, Before: s.o.Before, After: s.o.After, NoSnapshots: s.o.NoSnapshots, Reuse: used,
	}
}

// first returns the question with which a node begins, nil if it begins with none. What
// goes wrong is told when the node runs, which then asks by itself.
func (s *Session) first(node int, state core.State) (q *checkpoint.Question) {
	n := &s.prog.Nodes[node]
	if n.First == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			q = nil
		}
	}()
	a := n.First(s.flight.forks.Look(state))
	if a == nil || a.Key == "" || !utf8.ValidString(a.Key) {
		return nil
	}
	return &checkpoint.Question{Key: a.Key, Node: n.Name, When: "inside", Value: a.Value, Schema: a.Schema, Due: a.due()}
}

func (s *Session) keeper() Keeper { return Keeper{Kept: s.o.Kept, Max: s.o.KeepMax, Plan: s.prog.Plan} }

func (s *Session) load(ctx context.Context, at checkpoint.ID) error {
	if s.o.Store == nil {
		s.m = core.New(s.config())
		return nil
	}
	if at == Beginning {
		head, fence, err := HeadOf(ctx, s.o.Store, s.o.Log)
		if err != nil {
			return err
		}
		if s.o.parent == nil {
			s.saver.seen(fence)
		}
		s.m = core.New(s.config())
		if head != nil {
			s.anew = head.ID
			s.m.Orphan(s.anew)
		}
		return nil
	}
	tip, fence, err := Tip(ctx, s.o.Store, s.prog.Values, s.o.Log, at, s.keeper())
	if err != nil {
		return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	if s.o.parent == nil {
		s.saver.seen(fence)
	}
	if s.shared() && !s.o.Hold.Claim && s.o.Hold.Fence != 0 && fence != s.o.Hold.Fence { // before a task is run for nothing
		return &busyError{s.o.Log.Thread, &checkpoint.FencedError{Thread: s.o.Log.Thread, At: fence, Writer: s.o.Hold.Fence}}
	}
	if tip == nil {
		s.m = core.New(s.config())
		return nil
	}
	s.tip = tip
	if s.m, err = core.Load(s.config(), *tip); err != nil {
		return err
	}
	if s.o.parent == nil {
		s.effects.load(s)
	}
	return nil
}

// Record returns the newest record of the thread's line that was written or
// read; nil if there is none.
func (s *Session) Record() *checkpoint.Record {
	if s.last == nil && s.tip != nil {
		return s.tip.Record
	}
	return s.last
}

// Machine returns the machine that the session drives.
func (s *Session) Machine() *core.Machine { return s.m }

// Tip returns the thread as it was loaded, nil if it had no records.
func (s *Session) Tip() *core.Tip { return s.tip }

// View returns a copy of the state, with what finished tasks of the open
// superstep wrote.
func (s *Session) View() any { return s.m.Merged() }

// Begin starts a turn with an input: changes made by a function on a fork of
// the state, and what is left of a superstep that is open. The command says where to
// start; zero means the graph's entry.
func (s *Session) Begin(ctx context.Context, source checkpoint.Source, left *core.Left, input func(state any) error, command Command) error {
	base, err := s.given(left)
	if err != nil {
		return err
	}
	changes, err := s.prog.edit(base, input)
	if err != nil {
		return err
	}
	return s.begin(ctx, source, left, base, changes, command)
}

// given returns the state that an input is given to, which leaves that of what is open.
func (s *Session) given(left *core.Left) (any, error) {
	switch {
	case left != nil:
		return left.Seen(s.m)
	case s.m.Pending():
		return s.prog.Values.Ahead(s.m.State()), nil // as it will be when that is given up
	}
	return s.m.State(), nil
}

// begin is Begin with changes that are known.
func (s *Session) begin(ctx context.Context, source checkpoint.Source, left *core.Left, base, changes any, command Command) error {
	r, err := s.edgesOf(ctx, &s.prog.Start, command, base, changes)
	if err != nil {
		return err
	}
	s.fresh = true
	return s.m.Input(source, left, changes, *r)
}

// Safely calls fn and turns a panic into an error.
func Safely(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// Edit calls a function on a copy of the state, with what finished tasks of the open
// superstep wrote, and returns what it wrote.
func (s *Session) Edit(fn func(state any) error) (changes any, err error) {
	return s.prog.edit(s.m.Shown(), fn)
}

// Apply folds an input into a pending thread without starting a turn.
func (s *Session) Apply(changes any) error {
	if changes == nil {
		return nil
	}
	s.fresh = true
	return s.m.Update(checkpoint.SourceInput, changes, -1, -1, core.Routing{})
}

// UpdateAs folds an edit as the output of a node, of its task with that index or, if it
// is negative, of the first that is not done, and routes from it. An empty node folds
// it as an edit of nobody.
func (s *Session) UpdateAs(ctx context.Context, input func(state any) error, node string, task int, command Command) error {
	base := s.m.Shown()
	changes, err := s.prog.edit(base, input)
	if err != nil {
		return err
	}
	if node == "" {
		return s.m.Update(checkpoint.SourceUpdate, changes, -1, -1, core.Routing{})
	}
	i, ok := s.prog.Plan.Node(node)
	if !ok {
		return &InvalidEdgeError{Source: "update", Target: node, Near: plan.Nearest(node, s.prog.Plan.Names())}
	}
	r, err := s.edgesOf(ctx, &s.prog.Nodes[i], command, base, changes)
	if err != nil {
		return err
	}
	return s.m.Update(checkpoint.SourceUpdate, changes, i, task, *r)
}

// Answer gives answers by question ID, with an edit of the state.
func (s *Session) Answer(answers map[string]json.RawMessage, input func(state any) error) error {
	changes, err := s.prog.edit(s.m.Shown(), input)
	if err != nil {
		return err
	}
	return s.m.Answer(answers, changes)
}

// KeepMetadata makes records written from now on carry the metadata of the
// record that was loaded: an edit belongs where the thread stood.
func (s *Session) KeepMetadata() {
	if s.tip == nil || len(s.tip.Record.Metadata) == 0 {
		return
	}
	merged := maps.Clone(s.tip.Record.Metadata)
	maps.Copy(merged, s.o.Metadata)
	s.o.Metadata = merged
	s.m.SetMetadata(merged)
}

// Flush stores what the machine has to say without starting a task.
func (s *Session) Flush(ctx context.Context) error {
	s.m.Flush()
	s.flushing = true
	if err := s.Drive(ctx); !errors.Is(err, ErrDrained) {
		return err
	}
	return nil
}

// Drive runs the machine until the run is over. The error is that of the run:
// of the tasks that failed, in plan order, of the machine, of the store or of
// the context.
func (s *Session) Drive(ctx context.Context) (err error) {
	if s.o.RunTimeout > 0 {
		s.limit = &TimeoutError{Kind: "run", Limit: s.o.RunTimeout}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.o.RunTimeout, s.limit)
		defer cancel()
	}
	root := s.saver != nil && s.o.parent == nil
	if root && (s.release != nil || s.saver.lease.ttl > 0) && !s.flushing { // which is over at once
		s.own = ctx.Done() == nil
		var cancel context.CancelCauseFunc
		ctx, cancel = s.halt.stoppable(ctx)
		defer cancel(nil)
	}
	defer func() {
		if s.traced.end != nil {
			s.traced.leaveStep(false, err)
		}
		if !root {
			return
		}
		if nerr := s.saveNotes(ctx); nerr != nil && !Busy(err) {
			err, s.ended = errors.Join(err, nerr), false
		}
		if s.saver.mode == Exit && s.m.Caller() != "" {
			s.saver.lease.ttl = DefaultLease // so that whoever waits for the end is told
		}
		if ferr := s.saver.flush(ctx); ferr != nil && err == nil {
			err, s.ended = ferr, false
		}
		if n := s.effects.noting(false); n != nil {
			n.parts.keep(s)
		}
		s.awaited.ended(ctx, s, err)
		if s.shared() && (s.handsOn() || ctx.Err() != nil || cutShort(err)) { // another session goes on
			s.saver.abandon()
		} else if !s.flushing && !s.repeats() { // before the caller is told how the run went
			if rerr := s.letGo(ctx); rerr != nil {
				err, s.ended = errors.Join(err, rerr), false
			}
		}
		err = stoppedBy(ctx, err)
		s.evicted = errors.Is(err, ErrThreadBusy)
	}()
	if !s.flushing {
		s.flight.tell.superstep()
	}
	for {
		if s.beside.Load() { // first, since it costs less than Swap
			s.beside.Store(false)
			s.m.Beside()
		}
		rd := s.m.Ready()
		if rd.Cancel && s.flight.cancel != nil {
			s.flight.cancel(errSibling)
			s.flight.inbox.release()
		}
		if rd.Write != nil {
			s.recordOnce(rd.Write.Record)
			s.addNotes(rd.Write, rd.Write.Record != nil && rd.Write.Record.Epoch == rd.Write.Record.ID)
			rd.Write.Release = root && rd.Done && s.saver.lease.ttl > 0 && !timed(s.m) && s.concludes(ctx) && !s.repeats() && !calledFor(s)
			rd.Write.Wake = s.o.Caller != "" || s.o.Wake // whoever runs threads begins it
			if s.o.parent != nil && rd.Write.Record != nil && HasNotes(rd.Write.Record) {
				err = s.root().saveNotes(ctx)
			}
			if err == nil {
				err = s.saver.save(ctx, rd.Write)
			}
			if err != nil {
				s.flight.stopTasks(err)
				s.o.parent.unsaved(err)
				return err
			}
			if rd.Write.Record != nil {
				s.last = rd.Write.Record
			}
			s.flight.tell.tell(rd.Commit != nil || rd.Done)
			if err := s.flight.tell.folded(rd.Write.Record); err != nil {
				return err
			}
			s.flight.tell.record(rd.Write)
			if rd.Write.Record != nil {
				if err := s.weigh(rd.Write.Record); err != nil {
					s.flight.stopTasks(err)
					return err
				}
			}
		} else if s.saver != nil && len(rd.Start) > 0 && s.o.parent == nil && s.saver.mode != Exit && !s.saver.isClaimed() {
			if err := s.saver.write(ctx, &checkpoint.Write{Log: s.o.Log}); err != nil {
				return err
			}
		}
		if rd.Write == nil {
			s.flight.tell.tell(rd.Commit != nil || rd.Done)
		}
		if s.flight.inbox != nil {
			s.flight.inbox.settle()
		}
		if len(rd.Start) > 0 && !s.confirmed {
			s.confirmed = true
			if again, err := s.confirm(ctx); err != nil {
				return err
			} else if again {
				continue
			}
		}
		if s.fresh {
			s.fresh = false
			s.flight.tell.values(s.m.Step())
			s.flight.tell.held()
		}
		if rd.Commit != nil {
			if s.o.parent == nil {
				s.effects.forget()
			}
			s.collectChanges(rd.Commit)
			s.flight.tell.committed(rd.Commit)
			if s.traced.end != nil {
				s.traced.leaveStep(true, nil)
			}
		}
		s.m.Advance()
		if rd.Done {
			if again, err := s.settle(ctx); err != nil {
				return err
			} else if again {
				continue
			}
			err = s.over(ctx)
			// Under Exit the claim is yet to come.
			s.ended = s.concludes(ctx) && (s.saver == nil || s.saver.mode != Exit || !timed(s.m))
			return err
		}
		if len(rd.Start) > 0 {
			if err := s.proceed(ctx); err != nil {
				s.m.Abandon(rd.Start)
				continue
			}
			s.flight.start(ctx, rd.Start)
		}
		if s.flight.inbox == nil {
			continue
		}
		s.flight.wait(ctx)
	}
}

// confirm looks whether another run has written to the thread between our
// reading it and our claiming it. If it has committed something, the thread is
// busy. If it has recorded results of tasks, the thread is read again, so that
// what is recorded isn't done again.
func (s *Session) confirm(ctx context.Context) (again bool, err error) {
	if s.tip == nil || s.saver == nil || s.o.parent != nil || s.saver.mode == Exit || s.o.Hold != nil {
		return false, nil
	}
	log, rec := s.o.Log, s.tip.Record
	if s.m.Epoch() != rec.Epoch || s.m.Branch() != rec.Branch {
		return false, nil // what is to run was planned by this run
	}
	failed := func(err error) error { return &CheckpointError{Thread: log.Thread, Op: "load", Err: err} }
	if s.last == nil { // else the record that was written was checked against the head
		head, _, err := s.o.Store.Head(ctx, log)
		if err != nil {
			return false, failed(err)
		}
		if head.ID != s.tip.LogHead {
			return false, &busyError{log.Thread, fmt.Errorf("%w: checkpoint %s was written", checkpoint.ErrConflict, head.ID)}
		}
	}
	results, err := s.o.Store.Results(ctx, log, rec.Branch, rec.Epoch)
	if err != nil {
		return false, failed(err)
	}
	if len(results) <= len(s.tip.Results) {
		return false, nil
	}
	s.flight.tell.of = 0
	s.id = runID{} // this run may have written records that the new machine doesn't count
	return true, s.load(ctx, "")
}

// recordOnce names the sub-steps of the superstep that a record closes, or gives
// up, in the record.
func (s *Session) recordOnce(rec *checkpoint.Record) {
	if rec == nil || rec.Epoch != rec.ID {
		return
	}
	e := &s.root().effects
	if !e.used.Load() {
		return
	}
	step := rec.Step
	if rec.Source != checkpoint.SourceLoop { // the superstep is given up
		step++
	}
	rec.Once = e.results(s, step, rec.ID)
	slices.SortStableFunc(rec.Once, func(a, b checkpoint.OnceResult) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Name, b.Name))
	})
}

// collectChanges keeps what a superstep wrote, in a form of its own: the
// machine recycles what it was given.
func (s *Session) collectChanges(c *core.Commit) {
	if !s.o.collect {
		return
	}
	var wrote []any
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.Changes() == nil {
			continue
		}
		data := t.Data()
		if data == nil {
			var err error
			if data, err = s.prog.Values.Encode(t.Changes()); err != nil || data == nil {
				continue // checked when the task ended
			}
		}
		if changes, err := s.prog.Values.Decode(data, nil); err == nil {
			wrote = append(wrote, changes)
		}
	}
	s.collected = append(s.collected, wrote)
}

// errSibling cancels the contexts of tasks when one of their siblings failed.
var errSibling = errors.New("another task of the superstep failed")

// proceed says whether another superstep may start.
func (s *Session) proceed(ctx context.Context) error {
	if ctx.Err() != nil {
		s.m.Abort()
		return ctx.Err()
	}
	if s.draining() {
		s.m.Drain()
		return ErrDrained
	}
	if s.saver != nil && s.saver.mode == Async {
		if err := s.saver.failure(); err != nil {
			s.m.Abort()
			return err
		}
	}
	if s.shared() { // others run the tasks
		s.m.Drain()
		return ErrDrained
	}
	return nil
}

// over returns the run's error.
func (s *Session) over(ctx context.Context) error {
	out := s.m.Outcome()
	slices.SortStableFunc(s.flight.failure, func(a, b taskFailure) int { return a.task - b.task })
	var errs []error
	for _, f := range s.flight.failure {
		errs = append(errs, f.err)
	}
	if out.Err != nil {
		errs = append(errs, out.Err)
	}
	errs = append(errs, s.findings.refusals(OpenQuestions(s.m))...)
	errs = append(errs, s.findings.lateWrites()...)
	if len(errs) == 0 && ctx.Err() != nil && s.unfinished() {
		errs = append(errs, stopError(ctx))
	}
	if len(errs) == 0 && s.drained() {
		return ErrDrained
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return errors.Join(errs...)
}

// stopError says why a context has ended that a run was under.
func stopError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("run stopped: %w", cause)
}

// stoppedBy returns the error of a run that may have been stopped: whatever has
// failed since its context ended, a load or a save, failed for that cause.
func stoppedBy(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if _, several := err.(interface{ Unwrap() []error }); several {
		return errors.Join(err, stopError(ctx))
	}
	return stopError(ctx)
}

// concludes reports whether a run comes to an end of its own, after a Ready with
// Done, be it by its own limit of time. One that was stopped or cut short might have
// gone on; see wakes.
func (s *Session) concludes(ctx context.Context) bool {
	if ctx.Err() != nil && context.Cause(ctx) != s.limit || s.flushing || cutShort(s.m.Outcome().Err) || s.drained() || s.handsOn() {
		return false
	}
	return !slices.ContainsFunc(s.flight.failure, func(f taskFailure) bool { return cutShort(f.err) })
}

// draining reports whether the run was asked to end before its time.
func (s *Session) draining() bool {
	select {
	case <-s.o.Drain:
		return true
	default:
		return false
	}
}

// drained reports whether the run was asked so, and does. To some tasks of a superstep it
// doesn't matter what else is to run.
func (s *Session) drained() bool { return s.draining() && !s.some && s.unfinished() }

// unfinished reports whether tasks could go on without answers.
func (s *Session) unfinished() bool {
	from, _ := s.startable()
	return from >= 0 && len(s.m.Paused()) == 0
}
