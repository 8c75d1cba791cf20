package graph

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/seam"
)

func init() { seam.Graph = pieces{} }

// pieces is what package fleet, whose runs are done in pieces, needs of this one.
type pieces struct{}

// Do calls f with what a session of a thread's run is made of, but for which run it is.
// What happens is told by bus, which may be nil.
func (pieces) Do(ctx context.Context, g Runnable, store checkpoint.Store, thread string, opts []RunOption, bus *local.Bus, f func(context.Context, *local.Program, *local.Options) error) (err error) {
	if ctx == nil {
		return errNilContext
	}
	e, err := g.engine()
	if err != nil {
		return err
	}
	set, err := with(&e.settings, opts)
	if err != nil {
		return err
	}
	if set.CycleStrict || set.CycleWindow > 0 && set.CycleWindow != defaultCycleWindow {
		return fmt.Errorf("%w: graph %q asks for a CycleGuard, and what it has seen is not known between two pieces of a run: bound runs by MaxSteps", errors.ErrUnsupported, g.Name())
	}
	set.store, set.thread, set.busy = store, checkpoint.ThreadID(thread), BusyReject
	if set.tracer != nil {
		var end func(*local.Session, error)
		ctx, set, end = e.enter(ctx, set)
		defer func() { end(nil, err) }()
	}
	var lo local.Options
	if err := e.runOptions(ctx, &lo, set, bus); err != nil {
		return err
	}
	return f(ctx, e.program(set, e.emitter(lo.Bus, set.thread)), &lo)
}

// Submit does to a thread what a request says and makes it due, but runs nothing. It fails
// where [Thread.Invoke] would before it runs something.
func (pieces) Submit(ctx context.Context, thread, request any, opts []RunOption) error {
	return thread.(interface {
		submit(ctx context.Context, req any, opts []RunOption) error
	}).submit(ctx, request, opts)
}

func (t *Thread[S]) submit(ctx context.Context, req any, opts []RunOption) error {
	if err := t.stored(ctx); err != nil {
		return err
	}
	set, err := with(t.set, opts)
	if err != nil {
		return err
	}
	return t.park(ctx, set, t.erase(req.(Request[S])), nil)
}

// Stream is [Thread.Stream] for somebody else who runs the thread, by run.
func (pieces) Stream(ctx context.Context, thread any, opts []StreamOption, run func(context.Context, local.Followed) error) iter.Seq2[Event, error] {
	return thread.(interface {
		follow(ctx context.Context, opts []StreamOption, run func(context.Context, local.Followed) error) iter.Seq2[Event, error]
	}).follow(ctx, opts, run)
}

func (t *Thread[S]) follow(ctx context.Context, opts []StreamOption, run func(context.Context, local.Followed) error) iter.Seq2[Event, error] {
	return t.stream(ctx, opts, func(ctx context.Context, set *settings, bus *local.Bus) error {
		if err := t.stored(ctx); err != nil {
			return err
		}
		f := &followed{h: &t.handle, set: set, bus: bus, submit: func(ctx context.Context, req any, bus *local.Bus) error {
			return t.park(ctx, set, t.erase(req.(Request[S])), bus)
		}}
		return run(ctx, f)
	})
}

// followed is the thread of a stream whose run is elsewhere.
type followed struct {
	h      *handle
	set    *settings
	bus    *local.Bus
	submit func(ctx context.Context, req any, bus *local.Bus) error

	mu    sync.Mutex
	told  checkpoint.ID // of what was recorded, the last that was told
	epoch checkpoint.ID // of the superstep
	wrote map[int]bool  // by whose tasks is told what they wrote
}

// Submit is [pieces.Submit], which tells of it.
func (f *followed) Submit(ctx context.Context, req any) error { return f.submit(ctx, req, f.Bus()) }

// Begin tells what was recorded since the checkpoint of [Since], if one is given. What
// comes after that is told from now on.
func (f *followed) Begin(ctx context.Context) error {
	if f.set.since != nil {
		f.toldTo(*f.set.since)
		return f.CatchUp(ctx, nil)
	}
	head, err := f.head(ctx)
	if err == nil {
		f.toldTo(head)
	}
	return err
}

// Wants is what the stream wants.
func (f *followed) Wants() local.Kind { return f.bus.Wants }

// Bus is what tells of the run, whose operations tell what a task wrote when it is recorded
// and when its superstep is committed.
func (f *followed) Bus() *local.Bus {
	bus := *f.bus
	bus.Wants |= local.Checkpointed
	bus.Send = func(ev *local.Event) {
		if len(ev.Path) == 0 && f.again(ev) || f.bus.Wants&ev.Kind == 0 {
			return
		}
		f.bus.Send(ev)
	}
	return &bus
}

// again reports whether an event of the graph itself was told.
func (f *followed) again(ev *local.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch ev.Kind {
	case local.Checkpointed:
		f.told = ev.ID
	case local.Updates:
		if ev.Epoch != f.epoch {
			f.epoch, f.wrote = ev.Epoch, map[int]bool{}
		}
		if f.wrote[ev.Task] {
			return true
		}
		f.wrote[ev.Task] = true
	}
	return false
}

// since returns the last of what was recorded that was told.
func (f *followed) since() checkpoint.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// toldTo notes that all is told up to a checkpoint.
func (f *followed) toldTo(id checkpoint.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = id
}

// CatchUp tells what was recorded and not told.
func (f *followed) CatchUp(ctx context.Context, before func(epoch checkpoint.ID)) error {
	head, err := f.head(ctx)
	since := f.since()
	if err != nil || head == since {
		return err
	}
	e := f.h.e
	var lo local.Options
	if err := e.options(&lo, f.set, f.bus); err != nil {
		return err
	}
	s, err := local.Open(ctx, e.program(f.set, nil), &lo, "", false)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.ShowSince(ctx, lo.Bus, since, before); err != nil || s.Tip() == nil {
		return err
	}
	f.toldTo(s.Tip().Record.ID)
	return nil
}

// head returns the thread's newest checkpoint; empty if there is none.
func (f *followed) head(ctx context.Context) (checkpoint.ID, error) {
	head, _, err := local.HeadOf(ctx, f.set.store, checkpoint.Log{Thread: f.set.thread})
	if head == nil {
		return "", err
	}
	return head.ID, nil
}

// Drain is closed when the stream is to end at the next superstep.
func (f *followed) Drain() <-chan struct{} { return f.set.drain }

// Watch is [Runner.Run] for somebody else who runs the threads: hand gives them to him,
// and returns before they have ended. It is given a thread again as long as nobody runs
// it, at growing intervals up to a minute. What it returns, if it isn't nil, waits for the end
// of the run, and says why it could not go on.
func (pieces) Watch(ctx context.Context, store checkpoint.Store, o RunnerOptions, hand func(ctx context.Context, thread string) (over func(context.Context) error, err error)) error {
	r, err := newRunner(store, o)
	if err != nil {
		return err
	}
	r.hand = hand
	return r.Run(ctx)
}

func (h *handle) park(ctx context.Context, set *settings, req request, bus *local.Bus) error {
	if len(h.around) > 0 || set.namespace != "" {
		return fmt.Errorf("thread %q: %w, this one has %q", set.thread, local.ErrNamespace, set.namespace)
	}
	if err := req.check(); err != nil {
		return err
	}
	e := h.e
	var lo local.Options
	if err := e.runOptions(ctx, &lo, set, bus); err != nil {
		return err
	}
	lo.Durability, lo.Wake = local.Sync, true
	s, err := local.Run(ctx, e.program(set, nil), &lo, set.from, func(s *local.Session) error {
		run, err := e.prepare(ctx, s, set, req)
		if err != nil || !run {
			return err
		}
		return s.Submit(ctx)
	})
	if s != nil {
		defer s.Close()
	}
	return err
}
