package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Session is one run of a program, or one look at a thread. It is not safe for
// concurrent use.
type Session struct {
	prog *Program
	o    Options
	run  checkpoint.ID
	m    *core.Machine
	tip  *core.Tip // as loaded; nil for a new thread

	saver   *saver             // nil without a store
	anew    checkpoint.ID      // the log's head, if the run is to begin as in an empty log
	release func(stopped bool) // of the thread's lock
	evicted bool               // another run has the thread, and the caller is told so
	halt    halt
	own     bool // nobody but stop cancels the run's context
	written int  // bytes of changes, for weigh
	weighAt int  // bytes written at which the state is weighed
	timed   bool // task times are wanted
	encode  bool // changes are wanted encoded though nothing is stored

	// Of the run's root alone, but for claims.
	mu      sync.Mutex
	refused []refusal      // of answers, by the nodes that asked
	after   []writtenState // states of tasks that have ended, if they are checked
	claims  map[childClaim]int
	effects effects

	beside atomic.Bool // a task stored a result itself

	// Owned by the goroutine that drives.
	reuse     any // changes of an earlier lone task, to be recycled
	cancel    context.CancelCauseFunc
	stepCtx   context.Context
	inbox     *inbox
	shown     int       // tasks of the open superstep whose end was shown
	reported  []bool    // by task of the open superstep
	reports   []*report // the same, if somebody wants to be told of them
	lone      report
	failure   []taskFailure
	last      *checkpoint.Record // written last
	collected collected          // what was committed by this session, if wanted
	fresh     bool               // an input's values are to be shown
	began     bool               // tasks were started
	confirmed bool               // the thread is known to be as it was read
	flushing  bool               // nothing is to be started
	ended     bool               // the run has come to an end of its own
	traced    traced
}

type taskFailure struct {
	task int
	err  error
}

// refusal is an answer that a node could not decode.
type refusal struct {
	question string // its ID
	err      error
}

// writtenState is the state of a task as it was when its node returned.
type writtenState struct {
	prog  *Program
	node  string // with those above it
	state any
	was   map[string]uint64 // hashes of its fields
}

// keepWritten notes what a node has written, in this graph or one that contains it.
func (s *Session) keepWritten(node string, state any) error {
	was, err := s.prog.Check(state)
	if err != nil {
		return err
	}
	r := s.root()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = append(r.after, writtenState{s.prog, strings.Join(append(slices.Clip(s.o.path), node), "/"), state, was})
	return nil
}

// lateWrites returns which nodes wrote to their state after they had returned.
func (s *Session) lateWrites() (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.after {
		is, err := w.prog.Check(w.state)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(is)) {
			if is[field] != w.was[field] {
				errs = append(errs, &LateWriteError{Node: w.node, Field: field})
			}
		}
	}
	s.after = nil
	return errs
}

// refuse notes that a node could not decode the answer to a question, in this
// graph or one that contains it.
func (s *Session) refuse(question string, err error) {
	r := s.root()
	r.mu.Lock()
	r.refused = append(r.refused, refusal{question, err})
	r.mu.Unlock()
}

// refusals returns why answers were refused to questions that are still open.
func (s *Session) refusals() (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range OpenQuestions(s.m) {
		for i := len(s.refused) - 1; i >= 0; i-- {
			if s.refused[i].question == q.ID {
				errs = append(errs, s.refused[i].err)
				break
			}
		}
	}
	return errs
}

// Open loads a thread for a run, or for a look at it if lock is not set. At
// names a record; empty means the newest.
func Open(ctx context.Context, prog *Program, o Options, at checkpoint.ID, lock bool) (_ *Session, err error) {
	s := &Session{prog: prog, o: o}
	if o.Store != nil {
		if o.Log.Thread == "" {
			return nil, ErrThreadRequired
		}
		if o.parent != nil {
			s.saver = o.parent.s.saver
		} else {
			s.saver = newSaver(&o)
		}
	}
	s.run = checkpoint.NewRunID()
	if lock && s.saver != nil && o.parent == nil {
		if at, err = s.hold(ctx, at); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.timed = o.Bus.wants(TaskEnded | TaskFailed)
	s.encode = o.collect || o.Bus.wants(Updates|TaskEnded)
	if err := s.load(ctx, at); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Run opens a thread for a run and calls f with it. If the thread was rewritten
// before the run claimed it, what f built on what was read is void: then it is
// opened, and f called, again. The session is to be closed by the caller; without
// one the thread could not be opened.
func Run(ctx context.Context, prog *Program, o Options, at checkpoint.ID, f func(*Session) error) (s *Session, err error) {
	for n := 0; ; n++ {
		if s, err = Open(ctx, prog, o, at, true); err != nil {
			return nil, err
		}
		if err = f(s); n == rereads || !s.stale(ctx, err) {
			return s, err
		}
		s.Close()
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
	return s.tip != nil && head.ID == s.tip.LogHead
}

// Close gives the thread up. While a sub-step is under way that somebody who goes on
// would run a second time, the thread stays the run's: until its result is recorded.
func (s *Session) Close() {
	if !s.repeats(s.giveUp) {
		s.giveUp()
	}
}

func (s *Session) giveUp() {
	if s.saver != nil && s.o.parent == nil {
		_ = s.saver.release(context.Background(), s.wakes)
	}
	if s.release != nil {
		s.release(s.evicted)
		s.release = nil
	}
}

// repeats reports whether a sub-step is under way that the thread would run again
// when it goes on; if so, then is called when there is none.
func (s *Session) repeats(then func()) bool {
	return s.saver != nil && s.o.parent == nil && s.m != nil && s.m.Pending() && s.effects.held(then)
}

func (s *Session) config() core.Config {
	return core.Config{
		Plan: s.prog.Plan, Values: s.prog.Values, Persist: s.o.Store != nil, Log: s.o.Log, Run: s.run, Version: s.prog.Version,
		Metadata: s.o.Metadata, MaxSteps: s.o.MaxSteps, MaxTasks: s.o.MaxTasks, CycleWindow: s.o.CycleWindow, CycleStrict: s.o.CycleStrict,
		Before: s.o.Before, After: s.o.After, NoSnapshots: s.o.NoSnapshots,
	}
}

func (s *Session) growing() Growing { return Growing{s.o.Kept, s.o.KeepMax, s.prog.Plan} }

func (s *Session) load(ctx context.Context, at checkpoint.ID) error {
	if s.o.Store == nil {
		s.m = core.New(s.config())
		return nil
	}
	if s.anew != "" {
		s.m = core.New(s.config())
		s.m.Orphan(s.anew)
		return nil
	}
	tip, fence, err := Tip(ctx, s.o.Store, s.prog.Values, s.o.Log, at, s.growing())
	if err != nil {
		return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	if s.o.parent == nil {
		s.saver.seen(fence)
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
// the state. The command says where to start; zero means the graph's entry.
func (s *Session) Begin(ctx context.Context, source checkpoint.Source, input func(state any) error, command Command) error {
	changes, err := s.edit(s.m.State(), input)
	if err != nil {
		return err
	}
	return s.begin(ctx, source, changes, command)
}

// begin is Begin with changes that are known.
func (s *Session) begin(ctx context.Context, source checkpoint.Source, changes any, command Command) (err error) {
	routing := core.Routing{Static: true}
	switch {
	case !command.Zero():
		routing, err = s.resolve(plan.Start, &command)
	case len(s.prog.Entry) > 0:
		var c Command
		c, err = s.callRouters(ctx, plan.Start, s.prog.Entry, s.place(), 0, func() (any, error) { return s.view(changes) })
		if err == nil && !c.Zero() {
			routing, err = s.resolve(plan.Start, &c)
		}
	}
	if err != nil {
		return err
	}
	s.fresh = true
	return s.m.Input(source, changes, routing)
}

// edit calls a function on a fork of base and returns what it wrote.
func (s *Session) edit(base any, fn func(state any) error) (any, error) {
	if fn == nil {
		return nil, nil
	}
	fork := s.prog.Values.Fork(base)
	if err := safely(func() error { return fn(fork) }); err != nil {
		return nil, err
	}
	return s.prog.Values.Changes(base, fork, nil)
}

func safely(fn func() error) (err error) {
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
	return s.edit(s.m.Merged(), fn)
}

// Apply folds an input into a pending thread without starting a turn.
func (s *Session) Apply(changes any) error {
	if changes == nil {
		return nil
	}
	s.fresh = true
	return s.m.Update(checkpoint.SourceInput, changes, -1, core.Routing{})
}

// Settle folds what finished tasks of the open superstep wrote, and an edit, so that
// it stays when the superstep is given up.
func (s *Session) Settle(changes any) error {
	if changes == nil && !slices.ContainsFunc(s.m.Tasks(), func(t core.Task) bool { return t.Ran() && !t.Folded() }) {
		return nil
	}
	return s.m.Update(checkpoint.SourceUpdate, changes, -1, core.Routing{})
}

// UpdateAs folds an edit as the output of a node and routes from it. An empty
// node folds it as an edit of nobody.
func (s *Session) UpdateAs(ctx context.Context, input func(state any) error, node string, command Command) error {
	base := s.m.Merged()
	changes, err := s.edit(base, input)
	if err != nil {
		return err
	}
	if node == "" {
		return s.m.Update(checkpoint.SourceUpdate, changes, -1, core.Routing{})
	}
	i, ok := s.prog.Plan.Node(node)
	if !ok {
		return &InvalidEdgeError{Source: "update", Target: node, Near: plan.Nearest(node, s.prog.Plan.Names())}
	}
	n := &s.prog.Nodes[i]
	routing := core.Routing{Static: true}
	if !command.Zero() {
		routing, err = s.resolve(node, &command)
	} else if len(n.Routers) > 0 {
		var c Command
		c, err = s.callRouters(ctx, node, n.Routers, s.place(), 0, func() (any, error) { return s.with(base, changes) })
		if err == nil && !c.Zero() {
			routing, err = s.resolve(node, &c)
		}
	}
	if err != nil {
		return err
	}
	return s.m.Update(checkpoint.SourceUpdate, changes, i, routing)
}

// Answer gives answers by question ID, with an edit of the state.
func (s *Session) Answer(answers map[string]json.RawMessage, input func(state any) error) error {
	changes, err := s.edit(s.m.Merged(), input)
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

// TakeAlong copies the results that tasks of the open superstep left on the
// branch that was forked from.
func (s *Session) TakeAlong(ctx context.Context) error {
	rec := s.tip.Record
	results, err := s.o.Store.Results(ctx, s.o.Log, rec.Branch, rec.Epoch)
	if err != nil {
		return &CheckpointError{Thread: s.o.Log.Thread, Op: "load", Err: err}
	}
	s.m.TakeAlong(results)
	return nil
}

// Flush stores what the machine has to say without starting a task.
func (s *Session) Flush(ctx context.Context) error {
	s.m.Flush()
	s.flushing = true
	return s.Drive(ctx)
}

// resolve checks a command's destinations and turns names into indexes.
func (s *Session) resolve(source string, c *Command) (core.Routing, error) {
	r := core.Routing{Stop: c.Stop}
	g := s.prog.Plan
	var i int
	var ok bool
	for _, name := range c.Goto {
		if name == plan.End {
			r.Goto = append(r.Goto, plan.ToEnd)
			continue
		}
		i, ok := g.Node(name)
		if !ok {
			return r, &InvalidEdgeError{Source: source, Target: name, Near: plan.Nearest(name, g.Names())}
		}
		if g.Nodes[i].Task {
			return r, &InvalidEdgeError{Source: source, Target: name, Reason: "a task that needs a payload: use its Send method"}
		}
		r.Goto = append(r.Goto, i)
	}
	if len(c.Sends) > 0 {
		r.Sends = make([]core.Send, 0, len(c.Sends))
	}
	for k := range c.Sends {
		send := &c.Sends[k]
		if k == 0 || send.Node != c.Sends[k-1].Node { // sends to one node mostly stand together
			i, ok = g.Node(send.Node)
		}
		if !ok {
			return r, &InvalidEdgeError{Source: source, Target: send.Node, Near: plan.Nearest(send.Node, g.Names())}
		}
		if send.Err != nil {
			return r, fmt.Errorf("payload for node %q: %w", send.Node, send.Err)
		}
		if s.prog.Nodes[i].Decode == nil && send.Raw != nil {
			return r, &InvalidEdgeError{Source: source, Target: send.Node, Reason: "which takes no payload"}
		}
		r.Sends = append(r.Sends, core.Send{Node: i, Raw: send.Raw, Overlay: send.Overlay})
	}
	if c.Parent != nil {
		if s.o.parent == nil {
			return r, &InvalidEdgeError{Source: source, Target: "parent", Reason: "but this graph is not running as a subgraph"}
		}
		r.Parent = &core.ParentRouting{Goto: c.Parent.Goto}
		for _, send := range c.Parent.Sends {
			if send.Err != nil {
				return r, fmt.Errorf("payload for node %q: %w", send.Node, send.Err)
			}
			r.Parent.Sends = append(r.Parent.Sends, core.ParentSend{Node: send.Node, Raw: send.Raw, Overlay: send.Overlay})
		}
	}
	return r, nil
}

// Drive runs the machine until the run is over. The error is that of the run:
// of the tasks that failed, in plan order, of the machine, of the store or of
// the context.
func (s *Session) Drive(ctx context.Context) (err error) {
	if s.o.RunTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.o.RunTimeout, &TimeoutError{Kind: "run", Limit: s.o.RunTimeout})
		defer cancel()
	}
	root := s.saver != nil && s.o.parent == nil
	if root && (s.release != nil || s.saver.lease.ttl > 0) && !s.flushing { // which is over at once
		s.own = ctx.Done() == nil
		var cancel context.CancelCauseFunc
		ctx, cancel = s.stoppable(ctx)
		defer cancel(nil)
	}
	defer func() {
		if s.traced.end != nil {
			s.leaveStep(false, err)
		}
		if !root {
			return
		}
		if ferr := s.saver.flush(ctx); ferr != nil && err == nil {
			err, s.ended = ferr, false
		}
		if !s.flushing && !s.repeats(nil) { // before the caller is told how the run went
			if rerr := s.saver.release(ctx, s.wakes); rerr != nil {
				err, s.ended = errors.Join(err, rerr), false
			}
		}
		err = stoppedBy(ctx, err)
		s.evicted = errors.Is(err, ErrThreadBusy)
	}()
	for {
		if s.beside.Load() { // first, since it costs less than Swap
			s.beside.Store(false)
			s.m.Beside()
		}
		rd := s.m.Ready()
		if rd.Cancel && s.cancel != nil {
			s.cancel(errSibling)
			s.inbox.release()
		}
		if s.o.RecordOnce && rd.Write != nil {
			s.recordOnce(rd.Write.Record)
		}
		if rd.Write != nil {
			rd.Write.Release = root && rd.Done && s.saver.lease.ttl > 0 && !timed(s.m) && s.concludes(ctx) && !s.repeats(nil)
			if err := s.saver.save(ctx, rd.Write); err != nil {
				s.stopTasks(err)
				s.o.parent.unsaved(err)
				return err
			}
			if rd.Write.Record != nil {
				s.last = rd.Write.Record
			}
			s.showRecord(rd.Write)
			if err := s.showFolded(rd.Write.Record); err != nil {
				return err
			}
			if rd.Write.Record != nil {
				if err := s.weigh(rd.Write.Record); err != nil {
					s.stopTasks(err)
					return err
				}
			}
		} else if s.saver != nil && len(rd.Start) > 0 && s.o.parent == nil && s.saver.mode != Exit && !s.saver.isClaimed() {
			if err := s.saver.write(ctx, &checkpoint.Write{Log: s.o.Log}); err != nil {
				return err
			}
		}
		if s.inbox != nil {
			s.inbox.settle()
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
			s.showValues(s.m.Step())
			s.showHeld()
		}
		if rd.Commit != nil {
			if s.o.parent == nil {
				s.effects.forget()
			}
			s.collectChanges(rd.Commit)
			s.showCommit(rd.Commit)
			if s.traced.end != nil {
				s.leaveStep(true, nil)
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
			s.start(ctx, rd.Start)
		}
		if s.inbox == nil {
			continue
		}
		s.wait(ctx)
	}
}

// confirm looks whether another run has written to the thread between our
// reading it and our claiming it. If it has committed something, the thread is
// busy. If it has recorded results of tasks, the thread is read again, so that
// what is recorded isn't done again.
func (s *Session) confirm(ctx context.Context) (again bool, err error) {
	if s.tip == nil || s.saver == nil || s.o.parent != nil || s.saver.mode == Exit {
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
	s.run = checkpoint.NewRunID() // this run may have written records that the new machine doesn't count
	return true, s.load(ctx, "")
}

// recordOnce puts the sub-steps of the superstep that a record closes, or gives
// up, into the record.
func (s *Session) recordOnce(rec *checkpoint.Record) {
	if rec == nil || rec.Epoch != rec.ID {
		return
	}
	step := rec.Step
	if rec.Source != checkpoint.SourceLoop { // the superstep is given up
		step++
	}
	rec.Once = s.root().effects.results(s, step, rec.ID)
	slices.SortFunc(rec.Once, func(a, b checkpoint.OnceResult) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Name, b.Name))
	})
}

// collected are the changes that supersteps have written.
type collected struct {
	changes []any
	last    int  // the first of those since the last superstep began
	began   bool // one has
}

// superstep begins another one: what lives for one step and was written in the last
// is not for who comes after this one.
func (w *collected) superstep(values core.Values) {
	kept := w.changes[:w.last]
	for _, changes := range w.changes[w.last:] {
		if now, _, split := core.Split(values, changes, nil); split {
			changes = now
		}
		if changes != nil {
			kept = append(kept, changes)
		}
	}
	w.changes, w.last, w.began = kept, len(kept), true
}

// collectChanges keeps what a superstep wrote, in a form of its own: the
// machine recycles what it was given.
func (s *Session) collectChanges(c *core.Commit) {
	if !s.o.collect {
		return
	}
	s.collected.superstep(s.prog.Values)
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.Changes() == nil {
			continue
		}
		data := t.Data()
		if data == nil {
			var err error
			if data, _, err = s.prog.Values.Encode(t.Changes()); err != nil || data == nil {
				continue // checked when the task ended
			}
		}
		if changes, err := s.prog.Values.Decode(data, nil); err == nil {
			s.collected.changes = append(s.collected.changes, changes)
		}
	}
}

// errSibling cancels the contexts of tasks when one of their siblings failed.
var errSibling = errors.New("another task of the superstep failed")

// proceed says whether another superstep may start.
func (s *Session) proceed(ctx context.Context) error {
	if ctx.Err() != nil {
		s.m.Abort()
		return ctx.Err()
	}
	if s.o.Drain != nil {
		select {
		case <-s.o.Drain:
			s.m.Drain()
			return ErrDrained
		default:
		}
	}
	if s.saver != nil && s.saver.mode == Async {
		if err := s.saver.failure(); err != nil {
			s.m.Abort()
			return err
		}
	}
	return nil
}

// over returns the run's error.
func (s *Session) over(ctx context.Context) error {
	out := s.m.Outcome()
	slices.SortStableFunc(s.failure, func(a, b taskFailure) int { return a.task - b.task })
	var errs []error
	for _, f := range s.failure {
		errs = append(errs, f.err)
	}
	if out.Err != nil {
		errs = append(errs, out.Err)
	}
	errs = append(errs, s.refusals()...)
	errs = append(errs, s.lateWrites()...)
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
// Done. One that was stopped or cut short might have gone on; see wakes.
func (s *Session) concludes(ctx context.Context) bool {
	if ctx.Err() != nil || s.flushing || cutShort(s.m.Outcome().Err) || s.drained() {
		return false
	}
	for i := range s.failure {
		if cutShort(s.failure[i].err) {
			return false
		}
	}
	return true
}

// drained reports whether the run was asked to end before its time, and does.
func (s *Session) drained() bool {
	select {
	case <-s.o.Drain:
		return s.unfinished()
	default:
		return false
	}
}

// unfinished reports whether tasks could go on without answers.
func (s *Session) unfinished() bool {
	for i := range s.m.Tasks() {
		if s.m.Task(i).Startable() {
			return len(s.m.Paused()) == 0
		}
	}
	return false
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
func (s *Session) start(ctx context.Context, tasks []int) {
	s.shown, s.began = 0, true
	n := len(s.m.Tasks())
	s.reported = emptied(s.reported, n)
	if s.o.Bus.wants(taskEnds) {
		s.reports = emptied(s.reports, n)
	}
	s.showStarts(tasks)
	if s.o.Trace != nil {
		ctx = s.enterStep(ctx, len(tasks))
	}
	if len(tasks) == 1 && (ctx.Done() == nil || s.own) && s.o.StepTimeout == 0 && s.o.Limit == nil {
		s.lone = report{}
		s.exec(ctx, s.m.Task(tasks[0]), nil, s.reuse, &s.lone)
		s.reuse = s.lone.Changes
		s.deliver(&s.lone)
		return
	}
	s.reuse = nil
	stepCtx, cancel := context.WithCancelCause(ctx)
	if s.o.StepTimeout > 0 {
		var stop context.CancelFunc
		stepCtx, stop = context.WithTimeoutCause(stepCtx, s.o.StepTimeout, &TimeoutError{Kind: "step", Limit: s.o.StepTimeout})
		inner := cancel
		cancel = func(err error) { inner(err); stop() }
	}
	s.cancel, s.stepCtx = cancel, stepCtx
	box := &inbox{signal: make(chan struct{}, 1), tasks: len(tasks), alive: len(tasks)}
	box.cond.L = &box.mu
	s.inbox = box
	limit := s.o.Concurrency
	if limit <= 0 {
		limit = DefaultConcurrency
	}
	c := &crew{at: s.place(), tasks: slices.Clone(tasks), limit: int64(min(limit, len(tasks)))}
	c.hire(func() { s.work(stepCtx, box, c) })
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

// work runs tasks of a superstep until there is none left.
func (s *Session) work(ctx context.Context, box *inbox, c *crew) {
	c.coming.Store(false)
	another := func() { s.work(ctx, box, c) }
	var task core.Task
	var r report
	var current *core.Task
	defer func() {
		// Only runtime.Goexit in a node gets here with a task in hand.
		if current != nil {
			node := &s.prog.Nodes[current.Node]
			r = report{task: current.Index}
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
		if ctx.Err() != nil {
			box.put(&report{task: i, End: core.End{Err: context.Cause(ctx), Cancelled: true}})
			continue
		}
		if err := s.o.Limit.acquire(ctx); err != nil {
			box.put(&report{task: i, End: core.End{Err: err, Cancelled: true}})
			continue
		}
		if !box.begin(s.m, i, &task) {
			s.o.Limit.release()
			return
		}
		c.hire(another)
		current = &task
		r = report{}
		s.exec(ctx, &task, c.at, nil, &r)
		current = nil
		s.o.Limit.release()
		if n := box.put(&r); s.saver != nil && s.saver.mode == Sync && c.left() {
			box.await(n)
		}
	}
}

// wait takes the reports that have come in, at least one, and passes them to
// the machine. When the step's context ends, tasks get cancelGrace to report.
func (s *Session) wait(ctx context.Context) {
	box := s.inbox
	for {
		got := box.take()
		s.deliverAll(box, got)
		if box.alive == 0 {
			s.endStep()
			return
		}
		if len(got) > 0 {
			return
		}
		select {
		case <-box.signal:
		case <-s.stepCtx.Done():
			s.lastOrders(box)
		}
	}
}

// lastOrders waits for the reports of cancelled tasks, then gives up on them.
func (s *Session) lastOrders(box *inbox) {
	box.release()
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	for {
		s.deliverAll(box, box.take())
		if box.alive == 0 {
			return
		}
		select {
		case <-box.signal:
			continue
		case <-grace.C:
		}
		box.close()
		cause := context.Cause(s.stepCtx)
		step := stepExpired(s.stepCtx)
		for i := range s.m.Tasks() {
			t := s.m.Task(i)
			if t.Status != core.Running && t.Status != core.Changed || s.reported[i] {
				continue
			}
			r := report{task: i}
			r.cancelled(cause)
			if node := &s.prog.Nodes[t.Node]; step != nil {
				r.failed(s.nodeError(node, t.Raw, 1, &TimeoutError{Node: node.Name, Kind: "step", Limit: step.Limit}))
			}
			box.alive--
			s.deliver(&r)
		}
		return
	}
}

func (s *Session) endStep() {
	if s.cancel != nil {
		s.inbox.release()
		s.cancel(nil)
		s.cancel, s.stepCtx, s.inbox = nil, nil, nil
	}
}

// stopTasks cancels running tasks and waits for them: the run can't go on.
func (s *Session) stopTasks(cause error) {
	if s.inbox == nil {
		return
	}
	s.cancel(cause)
	s.lastOrders(s.inbox)
	s.endStep()
}

// deliverAll passes reports to the machine, but for those of tasks that it gave
// up on.
func (s *Session) deliverAll(box *inbox, got [][]report) {
	for _, piece := range got {
		for k := range piece {
			if r := &piece[k]; !s.reported[r.task] {
				box.alive--
				s.deliver(r)
			}
		}
	}
}

// deliver passes a report to the machine.
func (s *Session) deliver(r *report) {
	s.reported[r.task] = true
	s.o.parent.Beat()
	if r.Err != nil && !r.Cancelled {
		s.failure = append(s.failure, taskFailure{r.task, r.Err})
	}
	s.m.Ended(r.task, &r.End)
	s.showEnds(r)
}
