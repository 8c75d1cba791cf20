package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Invoke runs the graph once from the zero state, until it ends or fails, and
// returns what it came to. Input, which may be nil, writes to the state before the
// first node runs. Nothing is stored: a graph with a checkpointer is run through
// [Graph.Thread].
func (g *Graph[S]) Invoke(ctx context.Context, input func(s *S) error, opts ...RunOption) (*Snapshot[S], error) {
	return g.once().Invoke(ctx, Requests[S]{}.Input(input), opts...)
}

// Stream is [Graph.Invoke] that yields what happens, as [Thread.Stream] does.
func (g *Graph[S]) Stream(ctx context.Context, input func(s *S) error, opts ...StreamOption) iter.Seq2[Event, error] {
	return g.once().Stream(ctx, Requests[S]{}.Input(input), opts...)
}

// once returns a thread without an ID.
func (g *Graph[S]) once() *Thread[S] {
	e, err := g.engine()
	if err != nil {
		return &Thread[S]{handle: handle{set: new(settings), err: err}}
	}
	return &Thread[S]{handle: handle{e: e, set: &e.settings}, form: g.form}
}

// Invoke does to the thread what the request says, runs it until it ends, asks
// something or fails, and returns it as it then is.
//
// An interrupt is a result, not an error; see [Snapshot.Err]. When the run fails, the
// error is returned together with the thread as it is: finished tasks are recorded
// and don't run again when it goes on. Several failed tasks are joined, in plan
// order. The snapshot is never nil: of a call that is refused before the thread is read it is
// empty, and not Done.
//
// Of a thread [Thread.At] a checkpoint, all this holds for the thread as it was there,
// on a new branch: what was planned there runs (again), and questions are asked again.
func (t *Thread[S]) Invoke(ctx context.Context, req Request[S], opts ...RunOption) (*Snapshot[S], error) {
	snap, err := t.invoke(ctx, t.erase(req), opts)
	return present(t.form, &snap, err)
}

func (h *handle) invoke(ctx context.Context, req request, opts []RunOption) (Snapshot[any], error) {
	set, err := h.set, h.err
	if len(opts) > 0 && err == nil {
		set, err = with(h.set, opts)
	}
	if err != nil {
		return Snapshot[any]{Thread: h.ID(), Namespace: h.set.namespace, unread: true}, err
	}
	return h.call(ctx, set, req, nil)
}

// present returns a snapshot in a form. An error of it comes after err.
func present[S any](f form[S], snap *Snapshot[any], err error) (*Snapshot[S], error) {
	out := &Snapshot[S]{
		Next: snap.Next, Interrupts: snap.Interrupts, Waits: snap.Waits, Tasks: snap.Tasks, Thread: snap.Thread, Namespace: snap.Namespace,
		Checkpoint: snap.Checkpoint, Parent: snap.Parent, Step: snap.Step, Source: snap.Source, CreatedAt: snap.CreatedAt, Metadata: snap.Metadata,
		Recent: snap.Recent, incomplete: snap.incomplete, engine: snap.engine, whole: snap.whole, unread: snap.unread,
	}
	if snap.State != nil {
		var failed error
		if out.State, failed = f.read(snap.State); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return out, err
}

// call opens the thread, decides what to do, and drives it.
func (h *handle) call(ctx context.Context, set *settings, req request, bus *local.Bus) (Snapshot[any], error) {
	empty := Snapshot[any]{Thread: string(set.thread), Namespace: set.namespace, unread: true}
	if ctx == nil {
		return empty, errNilContext
	}
	if len(h.around) > 0 {
		return empty, fmt.Errorf("%w: namespace %q is the log of a subgraph's run, which goes on with the thread", errors.ErrUnsupported, set.namespace)
	}
	if err := ctx.Err(); err != nil {
		return empty, fmt.Errorf("run not started: %w", err)
	}
	if err := req.check(); err != nil {
		return empty, err
	}
	e := h.e
	s, err := e.run(ctx, set, bus, false, func(ctx context.Context, s *local.Session) error {
		if set.since != nil && bus != nil {
			if err := e.showSince(ctx, s, set, bus); err != nil {
				return err
			}
		}
		run, err := e.prepare(ctx, s, set, req)
		if err != nil || !run {
			return err
		}
		return s.Drive(ctx)
	})
	if s == nil {
		return empty, err
	}
	defer s.Done()
	return e.snapshot(s, set), err
}

var errNilContext = errors.New("graph: nil Context")

// showSince tells what was recorded since the caller looked last, once.
func (e *engine) showSince(ctx context.Context, s *local.Session, set *settings, bus *local.Bus) error {
	if set.store == nil {
		return fmt.Errorf("graph.Since %w", ErrNoCheckpointer)
	}
	if err := s.ShowSince(ctx, bus, *set.since, nil); err != nil || s.Tip() == nil {
		return err
	}
	set.since = &s.Tip().Record.ID
	return nil
}

// run opens a thread for a run and calls f with it, see [local.Run], and tells the
// tracer. With claimFirst the run holds the thread before it is read.
func (e *engine) run(ctx context.Context, set *settings, bus *local.Bus, claimFirst bool, f func(context.Context, *local.Session) error) (s *local.Session, err error) {
	if set.tracer != nil {
		var end func(*local.Session, error)
		ctx, set, end = e.enter(ctx, set)
		defer func() { end(s, err) }()
	}
	var lo local.Options
	if err = e.runOptions(ctx, &lo, set, bus); err != nil {
		return nil, err
	}
	lo.ClaimFirst = claimFirst
	return local.Run(ctx, e.program(set, e.emitter(lo.Bus, set.thread)), &lo, set.from, func(s *local.Session) error { return f(ctx, s) })
}

// prepare tells the machine what to do. It reports whether there is something
// to run.
func (e *engine) prepare(ctx context.Context, s *local.Session, set *settings, req request) (run bool, err error) {
	m := s.Machine()
	known := s.Tip() != nil
	if req.kind == giveAnswer {
		switch {
		case set.store == nil:
			return false, fmt.Errorf("an answer %w", ErrNoCheckpointer)
		case !known:
			return false, fmt.Errorf("%w: thread %q has no checkpoint", ErrNothingToResume, set.thread)
		case m.Incomplete() != nil:
			return false, m.Incomplete()
		case !m.Pending():
			return false, fmt.Errorf("%w: thread %q has ended and waits for no answer", ErrNothingToResume, set.thread)
		}
		return true, e.answer(ctx, s, set, req)
	}
	input := req.input
	fork := func() error { return nil } // an input that begins a turn begins the branch as well
	if set.from != "" && known {
		m.StartBranch(false)
		fork = m.Fork
	}
	if req.kind == runAnew && known {
		if err := fork(); err != nil {
			return false, err
		}
		if err := m.Restart(); err != nil {
			return false, err
		}
	}
	newTurn := req.kind == startAnew || !m.Pending()
	var changes any     // of the input, where no turn starts
	var left *core.Left // of what is pending, where one does
	switch {
	case !m.Pending() || input == nil && !newTurn:
	case set.onInput != nil:
		if left, changes, err = e.takeInput(s, set, input, newTurn); err != nil {
			return false, err
		}
		newTurn = left != nil
	case !newTurn:
		if changes, err = s.Edit(input); err != nil {
			return false, err
		}
	}
	switch {
	case req.start != nil:
		return true, s.Begin(ctx, checkpoint.SourceInput, left, input, req.start.local())
	case !known && set.store != nil && input == nil:
		return false, fmt.Errorf("%w: thread %q has no checkpoint and there is no input", ErrNothingToResume, set.thread)
	case !known, req.kind == startAnew, newTurn && input != nil:
		return true, s.Begin(ctx, checkpoint.SourceInput, left, input, local.Command{})
	case newTurn: // nothing is left to do, but perhaps to say why
		if err := fork(); err != nil {
			return false, err
		}
		return set.from != "", m.Incomplete()
	}
	if err := fork(); err != nil {
		return false, err
	}
	if err := s.Apply(changes); err != nil {
		return false, err
	}
	return true, m.Continue(input == nil) // what holds it is no question of an input's
}

// options turns settings into those of the local shell, in lo: it is large.
func (e *engine) options(lo *local.Options, set *settings, bus *local.Bus) error {
	p := e.prog.Plan
	*lo = local.Options{
		Store: set.store, Log: checkpoint.Log{Thread: set.thread, Namespace: set.namespace}, Durability: local.Durability(set.durability),
		SaveTimeout: set.saveTimeout, Metadata: set.metadata, Bounds: set.Bounds,
		Bus: e.bus(set, bus), Trace: tracerOf(set.tracer), Drain: set.drain, RecordOnce: set.recordOnce,
	}
	if lo.Busy = local.BusyPolicy(set.busy); lo.Busy != local.Reject {
		lo.Lease = cmp.Or(set.lease, local.DefaultLease)
	}
	if set.store != nil {
		lo.Sizes = e.sizes(set, lo.Bus)
		lo.Kept, lo.KeepMax = e.kept, set.readCacheSize()
	}
	if set.maxConcurrency > 0 {
		lo.Limit = local.NewLimiter(set.maxConcurrency)
	}
	var unknown []string
	if lo.Before, unknown = p.Breakpoints(set.before); unknown != nil {
		return e.misnamed("InterruptBefore", "interrupt", unknown[0])
	}
	if lo.After, unknown = p.Breakpoints(set.after); unknown != nil {
		return e.misnamed("InterruptAfter", "interrupt", unknown[0])
	}
	if set.inside != nil {
		if err := e.checkAimed(set); err != nil {
			return err
		}
	}
	if set.store == nil {
		if lo.Before != nil || lo.After != nil || p.Before != nil || p.After != nil {
			return fmt.Errorf("a breakpoint %w", ErrNoCheckpointer)
		}
		if set.from != "" {
			return fmt.Errorf("Thread.At %w", ErrNoCheckpointer)
		}
	}
	return nil
}

// depsOptions is options with the dependencies.
func (e *engine) depsOptions(ctx context.Context, lo *local.Options, set *settings, bus *local.Bus) (err error) {
	if err = e.options(lo, set, bus); err == nil {
		lo.Deps, err = provide(ctx, set)
	}
	return err
}

// runOptions is options for a run.
func (e *engine) runOptions(ctx context.Context, lo *local.Options, set *settings, bus *local.Bus) error {
	err := e.depsOptions(ctx, lo, set, bus)
	lo.Lease = cmp.Or(set.lease, local.DefaultLease)
	return err
}

// misnamedError says that an option names what isn't a node. It is an
// [InvalidEdgeError] in words that fit an option.
type misnamedError struct {
	option string
	what   string // that the name isn't; empty: a node
	err    *InvalidEdgeError
}

func (e *engine) misnamed(option, source, name string) error {
	return &misnamedError{option: option, err: &InvalidEdgeError{Source: source, Target: name, Near: plan.Nearest(name, e.prog.Plan.Names())}}
}

func (e *misnamedError) Error() string {
	text := fmt.Sprintf("%s names %q, which is not a %s", e.option, e.err.Target, cmp.Or(e.what, "node"))
	if e.err.Near != "" {
		text += fmt.Sprintf("; did you mean %q?", e.err.Near)
	}
	return text
}

func (e *misnamedError) Unwrap() error { return e.err }

// sizes returns what looks at how large changes and the state are.
func (e *engine) sizes(set *settings, bus *local.Bus) local.Sizes {
	show := e.emitter(bus, set.thread)
	return local.Sizes{
		Warn: max(cmp.Or(set.warnSize, DefaultWarnSize), 0), Max: set.maxSize,
		Tell: func(l *local.Large) {
			w := Warning{Kind: LargeChange, Node: l.Node, Field: l.Field, Size: l.Size, Of: l.FieldSize}
			if l.State {
				w.Kind = LargeState
			}
			(*set.onWarning)(w)
			if show != nil {
				show(w)
			}
		},
	}
}

// deps are the dependencies and the configuration of one run, or what a run of a
// subgraph has beside them.
type deps struct {
	byType map[reflect.Type]any

	config     *configType // nil: none is declared, or that around holds
	configured json.RawMessage

	around *deps   // of the run around; nil: there is none
	inside []aimed // for the graphs inside
	replay bool    // breakpoints of calls aren't set
}

var noDeps deps

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
	if len(set.deps)+len(set.configure)+len(set.inside) == 0 && set.config == nil && !set.replay {
		return &noDeps, nil
	}
	d := &deps{inside: set.inside, replay: set.replay}
	if err := d.provide(ctx, set); err != nil {
		return nil, err
	}
	return d, nil
}

// answer matches answers with open questions, checks them, and gives them to
// the machine.
func (e *engine) answer(ctx context.Context, s *local.Session, set *settings, req request) error {
	m, answer := s.Machine(), req.answer
	if set.from != "" {
		if err := m.Fork(); err != nil {
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
	update := req.input
	if update == nil {
		update = func(any) error { return nil }
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
				return &AnswerError{Key: q.Key, Reason: "it is a breakpoint and takes no answer: answer with nil, and an edit of the state"}
			}
		}
		if schema != nil && !(q.When != "inside" && v == nil) {
			if err := goschema.Check(schema, raw); err != nil {
				return &AnswerError{Key: q.Key, Reason: "it has the wrong shape", Err: err}
			}
		}
		if q.When != "inside" && v != nil {
			before := update
			update = func(state any) error {
				if err := before(state); err != nil {
					return err
				}
				return e.state.Update(state, raw)
			}
		}
		answers[q.ID] = raw
		return nil
	}
	switch {
	case single && len(open) == 0:
		if answer != nil && len(all) > 0 {
			return &AnswerError{Reason: "nobody is asked; the thread waits for a time or an event: use Thread.SendEvent, or graph.Answers to cut a wait short", Open: keys}
		}
		if answer != nil {
			return &AnswerError{Reason: "no question is open; continue the thread with a nil answer"}
		}
		if req.input == nil {
			return m.Continue(true)
		}
	case single && len(open) == 1:
		if err := give(&open[0], answer); err != nil {
			return err
		}
	case single && answer == nil && !slices.ContainsFunc(open, func(q checkpoint.Question) bool { return q.When == "inside" }):
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
