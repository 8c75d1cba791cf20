package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// Keep says which checkpoints [Thread.Prune] leaves: those that any of its fields
// asks for. The zero value leaves the newest checkpoint of each line.
type Keep struct {
	// Last is how many of the newest checkpoints of the thread's line, and of
	// the line of each fork, are left; 0 means 1.
	Last int

	// Newer leaves all checkpoints that are younger.
	Newer time.Duration

	// Interrupts leaves the checkpoints at which questions were open, so that
	// a decision can be taken anew.
	Interrupts bool

	// Where leaves the checkpoints for which it returns true. Their records are
	// without data, and must not be altered. It is not asked for those of forks
	// that DropForks drops.
	Where func(r *checkpoint.Record) bool

	// DropForks drops the forks that the thread has left behind.
	DropForks bool
}

// Pruned says what [Thread.Prune] did.
type Pruned struct {
	Kept    int   // checkpoints that are left
	Removed int   // checkpoints that went
	Logs    int   // logs of subgraph calls that went with them
	Freed   int64 // bytes, as far as the store knows
}

// Prune shortens the history of a thread. What is left is as it was: the newest
// state is exact to the byte, the thread goes on as it would have, and
// checkpoints that were left can be travelled to and forked from. The oldest of
// them holds its whole state. Beside what [Keep] asks for, a few checkpoints
// stay that others need: the first and the newest one of a fork, and the one
// that planned the superstep in which a checkpoint lies.
//
// It is one transaction on the store, and one more for each subgraph call that
// nothing refers to any more. When a run holds the thread it
// does as [WhenBusy] says. The store must implement checkpoint.Rewriter; all of ours do.
// Memories of subgraphs that live as long as the thread are not shortened.
func (h *handle) Prune(ctx context.Context, keep Keep) (Pruned, error) {
	e, err := h.open(ctx)
	switch {
	case err != nil:
		return Pruned{}, err
	case len(h.around) > 0:
		return Pruned{}, fmt.Errorf("%w: the log of a subgraph's run is pruned with its thread", errors.ErrUnsupported)
	case keep.Last < 0 || keep.Newer < 0:
		return Pruned{}, errors.New("graph: Keep.Last and Keep.Newer must not be negative")
	}
	set := h.set
	p, err := local.Prune(ctx, set.store, e.prog, checkpoint.Log{Thread: set.thread, Namespace: set.namespace}, local.Keep(keep), local.BusyPolicy(set.busy))
	switch {
	case local.Busy(err):
		return Pruned(p), fmt.Errorf("pruning thread %q: %w: %w", set.thread, ErrThreadBusy, err)
	case err != nil:
		return Pruned(p), &CheckpointError{Thread: set.thread, Op: "prune", Err: err}
	}
	return Pruned(p), nil
}
