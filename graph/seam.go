package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/seam"
)

func init() { seam.Graph = pieces{} }

// pieces is what package fleet, whose runs are done in pieces, needs of this one.
type pieces struct{}

// Do calls f with what a session of a thread's run is made of, but for which run it is.
func (pieces) Do(ctx context.Context, g Runnable, store checkpoint.Store, thread string, opts []RunOption, f func(context.Context, *local.Program, *local.Options) error) (err error) {
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
		own := *set // the tracer adds to its metadata
		set = &own
		ctx, end = e.enter(ctx, set)
		defer func() { end(nil, err) }()
	}
	var lo local.Options
	if err := e.options(&lo, set, nil); err != nil {
		return err
	}
	if lo.Deps, err = provide(ctx, set); err != nil {
		return err
	}
	lo.Lease = cmp.Or(set.lease, local.DefaultLease)
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
	return t.park(ctx, req.(Request[S]).erase(t.form), opts)
}

// Watch is [Runner.Run] for somebody else who runs the threads: hand gives them to him,
// and returns before they have ended. It may be given a thread again as long as nobody
// runs it.
func (pieces) Watch(ctx context.Context, store checkpoint.Store, o RunnerOptions, hand func(ctx context.Context, thread string) error) error {
	r, err := newRunner(store, o)
	if err != nil {
		return err
	}
	r.hand = hand
	return r.Run(ctx)
}

func (h *handle) park(ctx context.Context, req request, opts []RunOption) error {
	set, err := with(h.set, opts)
	switch {
	case err != nil:
		return err
	case len(h.around) > 0 || set.namespace != "":
		return fmt.Errorf("thread %q: %w, this one has %q", set.thread, local.ErrNamespace, set.namespace)
	case req.start != nil && req.start.IsZero():
		return errors.New("graph: Restart at a command without destinations")
	}
	if set.durability == Exit {
		set.durability = Sync
	}
	e := h.e
	var lo local.Options
	if err := e.options(&lo, set, nil); err != nil {
		return err
	}
	if lo.Deps, err = provide(ctx, set); err != nil {
		return err
	}
	lo.Lease, lo.Wake = cmp.Or(set.lease, local.DefaultLease), true
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
