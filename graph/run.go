package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Invoke runs the graph until it ends, asks something or fails, and returns the
// thread as it then is. Input writes to the state before the first node runs.
//
// Without a checkpointer a run starts from the zero state. With one, a thread
// must be named, and what happens depends on it:
//
//   - The thread is new: input starts it. Without input there is
//     [ErrNothingToResume].
//   - The thread has ended: input starts a new turn at the entry, on the state
//     as it is. Without input nothing runs, and its state is returned.
//   - Something is pending (the last run was interrupted, failed or was
//     killed): without input it goes on; breakpoints are passed, questions
//     still wait. Input is folded into the state first, and then it goes on.
//     [Restart] and [StartAt] start a new turn instead. A graph with [OnInput],
//     as one with nodes of package agent, decides that itself.
//
// With [From] all this holds for the thread as it was at that checkpoint, on a
// new branch: what was planned there runs (again), and questions are asked
// again.
//
// An interrupt is a result, not an error; see [Snapshot.Err]. When the run
// fails, the error is returned together with the thread as it is: finished
// tasks are recorded and don't run again when it goes on. Several failed tasks
// are joined, in plan order. The snapshot is never nil.
func (g *Graph[S]) Invoke(ctx context.Context, input func(s *S), opts ...Option) (*Snapshot[S], error) {
	return g.call(ctx, request[S]{input: input}, opts, nil)
}

// Continue lets a pending thread go on: the same as Invoke without input.
func (g *Graph[S]) Continue(ctx context.Context, opts ...Option) (*Snapshot[S], error) {
	return g.call(ctx, request[S]{}, opts, nil)
}

// Answers answers several questions at once, by ID or key.
type Answers map[string]any

// Resume answers what the thread waits for and lets it go on. The answer may be
// a single value when exactly one question is open, or [Answers]. It is checked
// against the type that the node asked for, and an answer that is unknown,
// stale or of the wrong type is an [AnswerError] that changes nothing.
//
// A node that asked runs again from its beginning, and its call of [Interrupt]
// returns the answer. A task with several open questions runs when all are
// answered. Breakpoints are passed by a nil answer; others wait for all answers.
//
// [Update] edits the state in the same step. With [From] the thread is taken up
// at that checkpoint, on a new branch.
func (g *Graph[S]) Resume(ctx context.Context, answer any, opts ...Option) (*Snapshot[S], error) {
	return g.call(ctx, request[S]{resume: true, answer: answer}, opts, nil)
}

// request is what a call wants.
type request[S any] struct {
	input  func(s *S)
	resume bool
	answer any
}

// call opens the thread, decides what to do, and drives it.
func (g *Graph[S]) call(ctx context.Context, req request[S], opts []Option, bus *local.Bus) (_ *Snapshot[S], err error) {
	set, err := g.with(ctx, opts)
	empty := &Snapshot[S]{Thread: string(set.thread), Namespace: set.namespace}
	if err == nil && !req.resume && set.update != nil {
		err = errors.New("graph.Update is for Resume: give Invoke or Stream the edit as input")
	}
	if err != nil {
		return empty, err
	}
	if err := ctx.Err(); err != nil {
		return empty, fmt.Errorf("run not started: %w", err)
	}
	var s *local.Session
	if set.tracer != nil {
		var end func(*local.Session, error)
		ctx, end = g.enter(ctx, &set)
		defer func() { end(s, err) }()
	}
	s, err = g.run(ctx, &set, bus, false, func(s *local.Session) error {
		if set.since != nil && bus != nil {
			if err := g.showSince(ctx, s, &set, bus); err != nil {
				return err
			}
		}
		run, err := g.prepare(ctx, s, &set, req)
		if err != nil || !run {
			return err
		}
		return s.Drive(ctx)
	})
	if s == nil {
		return empty, err
	}
	defer s.Close()
	return g.snapshot(s, &set), err
}

// showSince tells what was recorded since the caller looked last, once.
func (g *Graph[S]) showSince(ctx context.Context, s *local.Session, set *settings, bus *local.Bus) error {
	if set.store == nil {
		return fmt.Errorf("graph.Since %w", ErrNoCheckpointer)
	}
	if err := s.ShowSince(ctx, bus, *set.since); err != nil || s.Tip() == nil {
		return err
	}
	set.since = &s.Tip().Record.ID
	return nil
}

// run opens a thread for a run and calls f with it, see [local.Run]. With
// claimFirst the run holds the thread before it is read.
func (g *Graph[S]) run(ctx context.Context, set *settings, bus *local.Bus, claimFirst bool, f func(*local.Session) error) (*local.Session, error) {
	lo, err := g.options(set, bus)
	if err != nil {
		return nil, err
	}
	if lo.Deps, err = provide(ctx, set); err != nil {
		return nil, err
	}
	lo.Lease, lo.ClaimFirst = cmp.Or(set.lease, local.DefaultLease), claimFirst
	return local.Run(ctx, g.program(g.emitter(lo)), *lo, set.from, f)
}

// prepare tells the machine what to do. It reports whether there is something
// to run.
func (g *Graph[S]) prepare(ctx context.Context, s *local.Session, set *settings, req request[S]) (run bool, err error) {
	m := s.Machine()
	known := s.Tip() != nil
	if req.resume {
		switch {
		case set.store == nil:
			return false, fmt.Errorf("resume %w", ErrNoCheckpointer)
		case !known:
			return false, fmt.Errorf("%w: thread %q has no checkpoint", ErrNothingToResume, set.thread)
		case m.Incomplete() != nil:
			return false, m.Incomplete()
		case !m.Pending():
			return false, fmt.Errorf("%w: thread %q has ended and waits for no answer", ErrNothingToResume, set.thread)
		}
		return true, g.answer(ctx, s, set, req.answer)
	}
	var input func(any) error
	if req.input != nil {
		input = func(st any) error { return caught(req.input, st) }
	}
	if set.from != "" && known {
		if err := s.Machine().Fork(false); err != nil {
			return false, err
		}
		if err := s.TakeAlong(ctx); err != nil {
			return false, err
		}
	}
	if set.redo && known {
		if err := m.Restart(); err != nil {
			return false, err
		}
	}
	newTurn := set.start != nil || set.restart || !m.Pending()
	var changes any // of the input, where no turn starts
	switch {
	case !m.Pending() || input == nil && !newTurn:
	case set.onInput != nil:
		if newTurn, changes, err = g.takeInput(s, set, input, newTurn); err != nil {
			return false, err
		}
	case !newTurn:
		if changes, err = s.Edit(input); err != nil {
			return false, err
		}
	}
	switch {
	case set.start != nil:
		return true, s.Begin(ctx, checkpoint.SourceInput, input, set.start.local())
	case !known && set.store != nil && input == nil:
		return false, fmt.Errorf("%w: thread %q has no checkpoint and there is no input", ErrNothingToResume, set.thread)
	case !known, set.restart, newTurn && input != nil:
		return true, s.Begin(ctx, checkpoint.SourceInput, input, local.Command{})
	case newTurn: // nothing is left to do, but perhaps to say why
		return set.from != "", m.Incomplete()
	}
	if err := s.Apply(changes); err != nil {
		return false, err
	}
	return true, m.Continue()
}

// options turns settings into those of the local shell.
func (g *Graph[S]) options(set *settings, bus *local.Bus) (*local.Options, error) {
	p := g.prog.Plan
	lo := &local.Options{
		Store: set.store, Log: checkpoint.Log{Thread: set.thread, Namespace: set.namespace}, Durability: local.Durability(set.durability),
		SaveTimeout: set.saveTimeout, Metadata: set.metadata, MaxSteps: set.maxSteps, MaxTasks: set.maxTasks,
		CycleWindow: set.cycleWindow, CycleStrict: set.cycleStrict, Concurrency: set.concurrency,
		StepTimeout: set.stepTimeout, NodeTimeout: set.nodeTimeout, RunTimeout: set.runTimeout,
		Bus: g.bus(set, bus), Trace: tracerOf(set.tracer), Drain: set.drain, Check: set.check, RecordOnce: set.recordOnce,
	}
	if lo.Busy = local.BusyPolicy(set.busy); lo.Busy != local.Reject {
		lo.Lease = cmp.Or(set.lease, local.DefaultLease)
	}
	if set.store != nil {
		lo.Sizes = g.sizes(set, lo)
		lo.Kept, lo.KeepMax = g.kept, set.readCacheSize()
	}
	if set.maxConcurrency > 0 {
		lo.Limit = local.NewLimiter(set.maxConcurrency)
	}
	var unknown []string
	if lo.Before, unknown = p.Breakpoints(set.before); unknown != nil {
		return nil, g.misnamed("InterruptBefore", "interrupt", unknown[0])
	}
	if lo.After, unknown = p.Breakpoints(set.after); unknown != nil {
		return nil, g.misnamed("InterruptAfter", "interrupt", unknown[0])
	}
	if set.store == nil {
		if lo.Before != nil || lo.After != nil || p.Before != nil || p.After != nil {
			return nil, fmt.Errorf("a breakpoint %w", ErrNoCheckpointer)
		}
		if set.from != "" {
			return nil, fmt.Errorf("graph.From %w", ErrNoCheckpointer)
		}
	}
	return lo, nil
}

// misnamedError says that an option names what isn't a node. It is an
// [InvalidEdgeError] in words that fit an option.
type misnamedError struct {
	option string
	err    *InvalidEdgeError
}

func (g *Graph[S]) misnamed(option, source, name string) error {
	return &misnamedError{option, &InvalidEdgeError{Source: source, Target: name, Near: plan.Nearest(name, g.prog.Plan.Names())}}
}

func (e *misnamedError) Error() string {
	text := fmt.Sprintf("%s names %q, which is not a node", e.option, e.err.Target)
	if e.err.Near != "" {
		text += fmt.Sprintf("; did you mean %q?", e.err.Near)
	}
	return text
}

func (e *misnamedError) Unwrap() error { return e.err }

// caught calls what a caller gave to edit the state.
func caught[S any](edit func(*S), state any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	edit(state.(*S))
	return nil
}

// sizes returns what looks at how large changes and the state are.
func (g *Graph[S]) sizes(set *settings, lo *local.Options) *local.Sizes {
	show := g.emitter(lo)
	return &local.Sizes{
		Warn: max(cmp.Or(set.warnSize, DefaultWarnSize), 0), Max: set.maxSize,
		Tell: func(l *local.Large) {
			w := Warning{Kind: LargeChange, Node: l.Node, Field: l.Field, Size: l.Size, Of: l.FieldSize}
			if l.State {
				w.Kind = LargeState
			}
			if set.onWarning != nil {
				set.onWarning(w)
			}
			if show != nil {
				show(w)
			}
		},
	}
}

// deps are the dependencies of one run.
type deps struct {
	byType map[reflect.Type]any
	config map[string]any
}

// provide calls the factories of the run's dependencies.
func provide(ctx context.Context, set *settings) (*deps, error) {
	var missing []string
	for _, t := range set.need {
		if set.deps[t] == nil {
			missing = append(missing, t.String())
		}
	}
	if missing != nil {
		return nil, &MissingDepsError{Types: missing}
	}
	d := &deps{config: set.config}
	for t, factory := range set.deps {
		v, err := factory(ctx)
		if err != nil {
			return nil, fmt.Errorf("dependency %v: %w", t, err)
		}
		if d.byType == nil {
			d.byType = map[reflect.Type]any{}
		}
		d.byType[t] = v
	}
	return d, nil
}

// answer matches answers with open questions, checks them, and gives them to
// the machine.
func (g *Graph[S]) answer(ctx context.Context, s *local.Session, set *settings, answer any) error {
	m := s.Machine()
	if set.from != "" {
		if err := fork(ctx, s); err != nil {
			return err
		}
	}
	all := local.OpenQuestions(m)
	var open []checkpoint.Question // those that somebody is asked
	var keys []string
	for _, q := range all {
		if keys = append(keys, q.Key); !q.Wait {
			open = append(open, q)
		}
	}
	byKey, several := answer.(Answers)
	single := !several
	update := func(state any) error { return nil }
	if set.update != nil {
		fn, ok := set.update.(func(*S))
		if !ok {
			return fmt.Errorf("graph.Update is for another state type: %T", set.update)
		}
		update = func(state any) error { return caught(fn, state) }
	}
	answers := map[string]json.RawMessage{}
	give := func(q *checkpoint.Question, v any) error {
		if _, twice := answers[q.ID]; twice {
			return &AnswerError{Key: q.Key, Reason: "it is given twice"}
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return &AnswerError{Key: q.Key, Reason: "it can't be encoded", Err: err}
		}
		schema := q.Schema
		if q.When != "inside" {
			schema = nil
			if len(q.Path) == 0 {
				schema = set.schemas[q.Node]
			}
			if schema == nil && v != nil {
				return &AnswerError{Key: q.Key, Reason: "it is a breakpoint and takes no answer: resume with nil, and edit the state with graph.Update"}
			}
		}
		if schema != nil && !(q.When != "inside" && v == nil) {
			if err := validate(schema, raw); err != nil {
				return &AnswerError{Key: q.Key, Reason: "it has the wrong shape", Err: err}
			}
		}
		if q.When != "inside" && v != nil {
			before := update
			update = func(state any) error {
				if err := before(state); err != nil {
					return err
				}
				return g.values.Update(state.(*S), raw)
			}
		}
		answers[q.ID] = raw
		return nil
	}
	switch {
	case single && len(open) == 0:
		if answer != nil && len(all) > 0 {
			return &AnswerError{Reason: "nobody is asked; the thread waits for a time or an event: use graph.SendEvent, or graph.Answers to cut a wait short", Open: keys}
		}
		if answer != nil {
			return &AnswerError{Reason: "no question is open; continue the thread with a nil answer"}
		}
		if set.update == nil {
			return m.Continue()
		}
	case single && len(open) == 1:
		if err := give(&open[0], answer); err != nil {
			return err
		}
	case single && answer == nil && allBreakpoints(open):
		for i := range open {
			if err := give(&open[i], nil); err != nil {
				return err
			}
		}
	case single:
		return &AnswerError{Reason: fmt.Sprintf("%d questions are open: use graph.Answers to say which", len(open)), Open: keys}
	default:
		for key, v := range byKey {
			q, err := find(all, m, key, keys)
			if err != nil {
				return err
			}
			if err := give(q, v); err != nil {
				return err
			}
		}
	}
	return s.Answer(answers, update)
}

func allBreakpoints(open []checkpoint.Question) bool {
	for _, q := range open {
		if q.When == "inside" {
			return false
		}
	}
	return true
}
