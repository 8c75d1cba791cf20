// Package local is the shell that runs a graph in this process: it drives the
// step machine of internal/core, runs tasks on goroutines, applies timeouts,
// retries and caches, keeps checkpoints and tells listeners what happens.
package local

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/cache"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Program is a compiled graph with the functions that its nodes run. It is
// immutable.
type Program struct {
	Plan    *plan.Graph
	Values  core.Values
	Nodes   []Node         // by plan index
	Start   Node           // stands for the entry: its routers are called as those of a node
	Version int            // of the state's schema
	Alone   []core.Routing // see [Alone]

	Flights *sync.Pool // of runs that are over, for those to come; nil: they are not kept

	First bool // there are nodes with First

	// Config is what the graph declares to be configured with.
	Config any

	// Output returns what a run that ends with a state gives to its caller; nil: that.
	Output func(state any) (json.RawMessage, error)

	// Check, if not nil, is called around each node to find changes that were
	// made to shared memory: it returns a hash of each field.
	Check func(state any) (map[string]uint64, error)
}

// Node is what the shell knows of a node.
type Node struct {
	Name    string
	Former  []string // names that it had
	Tags    []string // what events and parts say of it
	Run     func(ctx context.Context, state, payload any) (Command, error)
	Routers []Router

	Several bool // it contains several graphs

	// Decode reads the payload of a send; nil when the node takes none.
	Decode func(json.RawMessage) (any, error)

	// Retry says whether to try again after an attempt failed, and when;
	// nil: never. Attempts count from 1.
	Retry func(attempt int, err error) (delay time.Duration, again bool)

	// First returns the question with which the node begins that is given a state, nil if
	// it begins with none. Nil is for nodes that don't.
	First func(state any) *Asking

	Timeout time.Duration // of an attempt; 0: none
	Idle    time.Duration // without a sign of life; 0: none

	// Recover, if not nil, runs when all attempts failed, in the node's stead.
	Recover func(ctx context.Context, state any, err *NodeError) (Command, error)

	Cache *Cache

	// Before and After are called around each attempt by the goroutine that
	// runs it. Before may skip the node.
	Before []func(ctx context.Context, state any) (skip bool, err error)
	After  []func(ctx context.Context, state any, err error) error
}

// Router decides where a node leads.
type Router func(ctx context.Context, state any) (Command, error)

// Cache keeps results of a node.
type Cache struct {
	Store cache.Store
	TTL   time.Duration // 0: for ever
	Key   func(state, payload any) (string, error)
}

// Durability says when records are stored.
type Durability uint8

// The durabilities.
const (
	Sync  Durability = iota // before the next superstep starts
	Async                   // in the background, in order
	Exit                    // when the run ends
)

// Options are the settings of one run.
type Options struct {
	Store       checkpoint.Store // nil: nothing is stored
	Log         checkpoint.Log
	Durability  Durability
	SaveTimeout time.Duration // of one write; 0: 10 seconds
	Lease       time.Duration // for which a run holds its thread; 0: it doesn't
	Busy        BusyPolicy    // when another run holds it
	ClaimFirst  bool          // before the thread is read
	Sizes       Sizes
	Metadata    map[string]string
	Run         checkpoint.ID       // of the run; empty: a new one
	Caller      checkpoint.ThreadID // waits for the end of the turn that the run begins

	Hold *Hold // of the thread, by a run of several sessions; nil: each run is one
	Wake bool  // what is written makes the thread due: somebody else runs it

	// Recording is called before results of tasks are recorded by RunTasks: what they
	// emitted comes first. Nil: nobody wants to know.
	Recording func()

	Bounds
	Before, After []bool   // breakpoints by node
	Limit         *Limiter // across the run and its subgraphs; nil: none

	Bus   *Bus
	Trace Tracer // nil: nobody is told
	Deps  any
	Drain <-chan struct{} // closed to end the run at the next superstep

	Kept    *Kept // states read lately; nil: nothing is kept
	KeepMax int   // bytes of them, in their recorded form

	NoSnapshots bool  // records hold changes only
	RecordOnce  bool  // records that close a superstep keep the results of its sub-steps
	Tape        *Tape // of a replay: what the log's run came to; else nil

	parent  *Task  // of a subgraph's run
	address string // of the subgraph within the task of the run's root: what was called in which task, from there down
	path    []string
	within  []string // segments of namespaces of the graphs in path
	tags    []string // of those nodes
	collect bool     // keep what was committed
}

// Bounds are the settings of a run that one of a subgraph has for itself.
type Bounds struct {
	core.Limits
	Concurrency int           // tasks of one superstep at a time; 0: DefaultConcurrency
	StepTimeout time.Duration // 0: none
	NodeTimeout time.Duration // for nodes without a timeout of their own
	RunTimeout  time.Duration
	Check       bool // use Program.Check
}

// DefaultConcurrency is how many tasks of a superstep run at a time.
const DefaultConcurrency = 1024

// differing returns which fields of a state have changed since it had these hashes, in the
// order of their names.
func (p *Program) differing(state any, was map[string]uint64) (fields []string, err error) {
	is, err := p.Check(state)
	for _, field := range slices.Sorted(maps.Keys(is)) {
		if is[field] != was[field] {
			fields = append(fields, field)
		}
	}
	return fields, err
}

// edit calls a function on a fork of base and returns what it wrote.
func (p *Program) edit(base any, fn func(state any) error) (any, error) {
	if fn == nil {
		return nil, nil
	}
	fork := p.Values.Fork(base)
	if err := safely(func() error { return fn(fork) }); err != nil {
		return nil, err
	}
	return p.Values.Changes(base, fork, nil)
}

// with returns a copy of a state with changes.
func (p *Program) with(base, changes any) (any, error) {
	v := p.Values.Fork(base)
	if changes == nil {
		return v, nil
	}
	v, _, err := p.Values.Fold(v, []any{changes}, core.Given)
	return v, err
}

// overlaid returns the state that a task begins with, to read: the base with the
// task's own overlay.
func (p *Program) overlaid(base any, task *core.Task) (any, error) {
	if task.Overlay == nil {
		return base, nil
	}
	over, err := p.Values.Decode(task.Overlay, nil)
	if err != nil {
		return nil, err
	}
	return p.with(base, over)
}
