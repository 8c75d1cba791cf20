// Package local is the shell that runs a graph in this process: it drives the
// step machine of internal/core, runs tasks on goroutines, applies timeouts,
// retries and caches, keeps checkpoints and tells listeners what happens.
package local

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Program is a compiled graph with the functions that its nodes run. It is
// immutable.
type Program struct {
	Plan    *plan.Graph
	Values  core.Values
	Nodes   []Node // by plan index
	Entry   []Router
	Version int            // of the state's schema
	Alone   []core.Routing // see [Alone]

	// Check, if not nil, is called around each node to find changes that were
	// made to shared memory: it returns a hash of each field.
	Check func(state any) (map[string]uint64, error)
}

// Node is what the shell knows of a node.
type Node struct {
	Name    string
	Former  []string // names that it had
	Run     func(ctx context.Context, state, payload any) (Command, error)
	Routers []Router

	// Decode reads the payload of a send; nil when the node takes none.
	Decode func(json.RawMessage) (any, error)

	// Retry says whether to try again after an attempt failed, and when;
	// nil: never. Attempts count from 1.
	Retry func(attempt int, err error) (delay time.Duration, again bool)

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

// Command is where to go, by node names. The zero Command follows the static
// edges.
type Command struct {
	Goto   []string
	Sends  []Send
	Parent *Command
	Stop   bool
}

// Zero reports whether c chooses nothing.
func (c *Command) Zero() bool {
	return len(c.Goto) == 0 && len(c.Sends) == 0 && c.Parent == nil && !c.Stop
}

// Send is a task for a node.
type Send struct {
	Node    string
	Raw     json.RawMessage // payload
	Overlay json.RawMessage
	Err     error // of encoding the payload
}

// Cache keeps results of a node.
type Cache struct {
	Store CacheStore
	TTL   time.Duration // 0: for ever
	Key   func(state, payload any) (string, error)
}

// CacheStore keeps bytes by key. It is safe for concurrent use.
type CacheStore interface {
	Get(ctx context.Context, key string) (data []byte, ok bool, err error)
	Set(ctx context.Context, key string, data []byte, ttl time.Duration) error
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
	Sizes       *Sizes        // nil: nobody looks
	Metadata    map[string]string

	MaxSteps, MaxTasks int
	CycleWindow        int
	CycleStrict        bool
	Before, After      []bool // breakpoints by node

	Concurrency int           // tasks of one superstep at a time; 0: DefaultConcurrency
	Limit       *Limiter      // across the run and its subgraphs; nil: none
	StepTimeout time.Duration // 0: none
	NodeTimeout time.Duration // for nodes without a timeout of their own
	RunTimeout  time.Duration

	Bus   *Bus
	Trace Tracer // nil: nobody is told
	Deps  any
	Drain <-chan struct{} // closed to end the run at the next superstep
	Check bool            // use Program.Check

	Kept    *Kept // growing fields read lately; nil: nothing is kept
	KeepMax int   // bytes of them, in their recorded form

	NoSnapshots bool  // records hold changes only
	RecordOnce  bool  // records that close a superstep keep its results of Once
	Tape        *Tape // of a replay: what the log's run came to; else nil

	parent  *Task  // of a subgraph's run
	address string // of the subgraph within the task of the run's root: what was called in which task, from there down
	path    []string
	tasks   []string // IDs of the tasks of the nodes in path
	collect bool     // keep what was committed
}

// DefaultConcurrency is how many tasks of a superstep run at a time.
const DefaultConcurrency = 1024

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

// fork returns the task's private copy of the state, with the task's own
// overlay.
func (p *Program) fork(base any, task *core.Task) (any, error) {
	state, err := p.overlaid(base, task)
	if err != nil {
		return nil, err
	}
	return p.Values.Fork(state), nil
}

// startNode stands for the entry, whose routers are called as those of a node.
var startNode = Node{Name: plan.Start}

// Alone returns the routings to each node of a graph alone, for [Program.Alone].
func Alone(g *plan.Graph) []core.Routing {
	to := make([]core.Routing, len(g.Nodes))
	for i := range to {
		to[i].Goto = []int{i}
	}
	return to
}

// toEnd is shared by all that lead to the end alone; nobody alters it.
var toEnd = core.Routing{Goto: []int{plan.ToEnd}}

// aloneTo returns where a command leads that is a Goto of one node, as most are; nil
// if it isn't one, or not a good one. It is shared: nobody alters it.
func (p *Program) aloneTo(c *Command) *core.Routing {
	if len(c.Goto) != 1 || len(c.Sends) > 0 || c.Parent != nil || c.Stop {
		return nil
	}
	if c.Goto[0] == plan.End {
		return &toEnd
	}
	if i, ok := p.Plan.Node(c.Goto[0]); ok && !p.Plan.Nodes[i].Task && i < len(p.Alone) {
		return &p.Alone[i]
	}
	return nil
}

// resolve checks a command's destinations and turns names into indexes. In a subgraph,
// it is nested, they may be in the containing graph.
func (p *Program) resolve(source string, c *Command, nested bool) (core.Routing, error) {
	r := core.Routing{Stop: c.Stop}
	g := p.Plan
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
		if p.Nodes[i].Decode == nil && send.Raw != nil {
			return r, &InvalidEdgeError{Source: source, Target: send.Node, Reason: "which takes no payload"}
		}
		r.Sends = append(r.Sends, core.Send{Node: i, Raw: send.Raw, Overlay: send.Overlay})
	}
	if c.Parent != nil {
		if !nested {
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
