package remember

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// ErrNotEnded says that a thread's turn has not ended: it waits for an answer, an event or
// its next nodes.
var ErrNotEnded = errors.New("remember: the turn has not ended")

// TurnOf returns the turn that a thread has ended. The error is [ErrNotEnded] if it hasn't.
func TurnOf[S any, P agent.Stateful[S]](snap *graph.Snapshot[S]) (Turn, error) {
	if !snap.Done() {
		return Turn{}, ErrNotEnded
	}
	state := snap.State
	return Turn{Thread: snap.Thread, ID: snap.Checkpoint, Messages: slices.Collect(P(&state).AgentState().Messages.All())}, nil
}

// AddNode adds a node that extracts the memories of a turn: it stands after the agent.
// They are kept in the run's memory (memory.From); the extractor has no Store. The namespace is mostly that of the run's user. The node fails when the model or the store
// does, which graph.OnError or a policy of retries may mend.
func AddNode[S any, P agent.Stateful[S]](b *graph.Builder[S], name string, e *Extractor, namespace func(ctx context.Context, s *S) ([]string, error), opts ...graph.NodeOption) {
	b.AddNode(name, agent.Counted[S, P](func(ctx context.Context, s *S) error {
		if e.Store != nil {
			return &OptionError{"Extractor.Store", "a node keeps memories in the memory of its run, which may be another; leave it out, and give runs the store with memory.Use"}
		}
		ns, err := namespace(ctx, s)
		if err != nil {
			return err
		}
		info := graph.Info(ctx)
		_, err = e.Extract(ctx, ns, Turn{Thread: cmp.Or(info.Thread, info.Run), ID: info.Task, Messages: slices.Collect(P(s).AgentState().Messages.All())})
		return err
	}), opts...)
}

// Extracted is what came of a thread.
type Extracted struct {
	Result
	Thread string
	Head   *checkpoint.Record // its newest, as a listing shows it
}

// Threads extracts the memories of the newest turns of a graph's threads, those that were
// changed last first, and yields what came of each. Threads whose turn has not ended are left
// out; where other graphs have threads in the store, f leaves out theirs. The namespace is that of
// a thread's user; nothing means that the thread is left out. An
// error is about the thread that stands beside it, and doesn't end the sequence unless it is
// one of the listing or the context's.
func Threads[S any, P agent.Stateful[S]](ctx context.Context, g *graph.Graph[S], l checkpoint.Lister, f checkpoint.ThreadFilter, e *Extractor, namespace func(ctx context.Context, snap *graph.Snapshot[S]) ([]string, error)) iter.Seq2[Extracted, error] {
	return func(yield func(Extracted, error) bool) {
		for info, err := range l.Threads(ctx, f) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Extracted{}, err)
				return
			}
			out := Extracted{Thread: string(info.Thread), Head: info.Head}
			var left bool
			out.Result, left, err = extract[S, P](ctx, g.Thread(out.Thread), e, namespace)
			if !left && !yield(out, err) {
				return
			}
		}
	}
}

func extract[S any, P agent.Stateful[S]](ctx context.Context, t *graph.Thread[S], e *Extractor, namespace func(ctx context.Context, snap *graph.Snapshot[S]) ([]string, error)) (r Result, left bool, err error) {
	snap, err := t.State(ctx)
	if err != nil {
		return r, false, err
	}
	turn, err := TurnOf[S, P](snap)
	if errors.Is(err, ErrNotEnded) {
		return r, true, nil
	}
	ns, err := namespace(ctx, snap)
	if err != nil || len(ns) == 0 {
		return r, err == nil, err
	}
	r, err = e.Extract(ctx, ns, turn)
	return r, false, err
}
