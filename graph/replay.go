package graph

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Difference says where a program and a recording of it part; see [Graph.Replay].
//
//	type Difference struct {
//		Kind       DiffKind      `json:"kind"`
//		Step       int           `json:"step"`                // the superstep, counted over the thread's life; 0: the input before it
//		Checkpoint checkpoint.ID `json:"checkpoint"`          // the thread's recorded one that differs
//		Branch     string        `json:"branch,omitempty"`    // of the thread; empty for its first line
//		Namespace  string        `json:"namespace,omitempty"` // of the log it is in
//		Path       []string      `json:"path,omitempty"`      // nodes from the root graph down to the subgraph it is in
//		Node       string        `json:"node,omitempty"`      // empty: the graph's start, or several
//		Field      string        `json:"field,omitempty"`     // of the state, if it is about one
//		SubStep    int           `json:"substep,omitempty"`   // the superstep of the subgraph; 0: its input
//		Want       string        `json:"want"`                // recorded
//		Got        string        `json:"got"`                 // of today's code
//	}
//
//	func (d *Difference) String() string
type Difference = local.Difference

// DiffKind says in what a program differs from a recording.
//
//	type DiffKind string
type DiffKind = local.DiffKind

// The kinds of differences.
const (
	DiffState    = local.DiffState    // what a task wrote
	DiffRouting  = local.DiffRouting  // what is planned next
	DiffQuestion = local.DiffQuestion // what is asked
	DiffOnce     = local.DiffOnce     // a call of Once or Do that was not recorded
	DiffError    = local.DiffError    // a task fails, or can't run
)

// Replay runs today's program against a recorded thread and yields where they
// part: in what nodes write, where they lead, what they ask. So a recorded
// conversation is a regression test.
//
// Each superstep is run from the state that was recorded before it, with the
// answers that were given, so that a difference doesn't lead to others further
// on; all branches of the thread are replayed, in the order in which they were
// recorded. The log of a subgraph is replayed likewise, by itself: the node that calls it
// is given what was recorded of it. Nothing is stored. [Once] and [Do] call nothing: they return the recorded
// result, or the recorded error's text, and where there is none a
// error that is [ErrNotRecorded]. For this the thread must have run with [RecordOnce]. What
// nodes do outside of Once they do again; the recorded changes of nodes that call
// out without it can stand for them, see [ReplayOptions]. Dependencies are
// provided as for a run: use [UseDeps] for stand-ins.
//
// Waits are over, retries follow at once, caches, observers and tracers are not used.
// Migrations, aliases and former names apply: a thread recorded by an older
// version of the program replays on this one.
//
// What is not compared: the values of Untracked fields, breakpoints, what tasks
// wrote whose superstep was never committed or which an edit from outside has
// completed, and times of sleeps and deadlines.
//
// An error ends the replay; it is yielded once, as the last pair.
func (g *Graph[S]) Replay(ctx context.Context, rec *recording.Recording, o ReplayOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		e, err := g.engine()
		if err == nil && ctx == nil {
			err = errNilContext
		}
		var lo local.Options
		if err == nil {
			lo, err = e.replayOptions(ctx, rec, o)
		}
		if err != nil {
			yield(Difference{}, err)
			return
		}
		local.Replay(ctx, e.prog, lo, rec, local.ReplayOptions{Take: o.TakeRecorded, Ignore: o.IgnoreFields, Entry: o.IgnoreEntry})(yield)
	}
}

// ReplayOptions are the settings of a replay. The zero value is fine.
type ReplayOptions struct {
	// Namespace is the log that is replayed.
	Namespace string

	// TakeRecorded makes a replay take the recorded changes of nodes in their stead:
	// of those that call a service outside of [Once]. Their routers run; where a node
	// chose itself to go is taken as it was recorded. Nodes of a subgraph are named
	// with its path, as in "research/search".
	TakeRecorded []string

	// IgnoreFields makes a replay not compare what was written to fields of the
	// state, such as the time of day. Those of a subgraph are named with its path, as
	// in "research/FoundAt".
	IgnoreFields []string

	// IgnoreEntry makes a replay not compare where inputs lead: a thread that was
	// started by [Requests.Restart] with a command doesn't say so.
	IgnoreEntry bool
}

func (e *engine) replayOptions(ctx context.Context, rec *recording.Recording, o ReplayOptions) (lo local.Options, err error) {
	if rec == nil || len(rec.Logs) == 0 {
		return lo, fmt.Errorf("%w: the recording is empty", checkpoint.ErrNotFound)
	}
	set := e.settings
	set.store, set.observers, set.tracer, set.from, set.thread = checkpoint.NewMemory(), nil, nil, "", rec.Header.Thread
	set.durability, set.before, set.after, set.replay = Sync, nil, nil, true
	if o.Namespace != "" {
		set.namespace = o.Namespace
	}
	nodes := e.prog.Plan.Names()
	for _, name := range o.TakeRecorded {
		if first, _, _ := strings.Cut(name, "/"); !slices.Contains(nodes, first) && !slices.Contains(nodes, name) {
			return lo, &InvalidEdgeError{Source: "TakeRecorded", Target: name, Near: plan.Nearest(first, nodes)}
		}
	}
	for _, f := range o.IgnoreFields {
		if node, _, sub := strings.Cut(f, "/"); !slices.Contains(e.state.FieldNames(), f) && !(sub && slices.Contains(nodes, node)) {
			return lo, &UnknownFieldError{Field: f, Near: plan.Nearest(f, e.state.FieldNames()), Valid: e.state.FieldNames()}
		}
	}
	err = e.depsOptions(ctx, &lo, &set, nil)
	return lo, err
}
