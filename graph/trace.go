package graph

import (
	"context"
	"maps"
	"time"

	"github.com/superstep-dev/superstep/internal/local"
)

// Tracer follows the parts of runs from beginning to end, and puts something
// into their contexts: package otel makes spans of them. See [Trace].
type Tracer interface {
	// Begin is called when a part begins. The part runs with the context that is
	// returned, which must be made from ctx; parts within it begin with a context
	// made from that. The function is called once, when the part has ended; it
	// must not be nil.
	//
	// Parallel nodes call Begin, and what it returned, from several goroutines at
	// once. A run waits for both.
	Begin(ctx context.Context, p Part) (context.Context, func(Outcome))
}

// Trace sets what follows a graph's runs, its subgraphs' included. Given to a
// call it replaces the graph's; nil means nothing. [Graph.Replay] isn't followed.
func Trace(t Tracer) RunOption { return runSetting(func(s *settings) { s.tracer = t }) }

// PartKind is the kind of a [Part].
type PartKind string

// The kinds. A run has supersteps, a superstep has attempts and handlers, and
// each of these may have the runs of subgraphs, and attempts of functions of [Do].
const (
	PartRun     PartKind = "run"     // a call of Invoke or Stream, or of a subgraph
	PartStep    PartKind = "step"    // a superstep, from its first task's start until it is committed or the run ends
	PartAttempt PartKind = "attempt" // a node's attempt at a task; its routers come after it. Or one of Do, whose Path ends with its node
	PartHandler PartKind = "handler" // the call of a node's [OnError]
)

// Part is a part of a run, as it begins.
type Part struct {
	Kind      PartKind
	Graph     string
	Path      []string // nodes from the root graph down to this graph
	Tags      []string // of the nodes in Path and, of attempts and handlers, of the node; see [Tags]
	Thread    string
	Namespace string
	Run       string // of a part of the root graph's run or a subgraph's; a run itself has none yet
	Step      int    // the superstep; 0 of a run
	Tasks     int    // of a superstep: how many start

	// Of attempts and handlers:
	Node    string
	Task    string // ID, the same when it runs again
	Attempt int    // from 1; 0: the node's cache had the result and nothing runs
	From    string // node that led here; empty at the start

	// Metadata is that of the checkpoints that a run of the root graph will
	// write. Begin may add to it, and must not keep it.
	Metadata map[string]string
}

// Outcome is how a [Part] ended.
type Outcome struct {
	// Err is nil after success, and for what stopped to wait for an answer, a
	// time or an event.
	Err error

	// Cancelled says that Err is no failure of this part: its context ended, a
	// sibling of the task failed, or the run was drained.
	Cancelled bool

	// Retry says that another attempt follows, after Delay.
	Retry bool
	Delay time.Duration

	Cached bool // the node's cache had the result

	// Interrupts and Waits are those that are open. Of an attempt's, those with a
	// Path are a subgraph's.
	Interrupts []Interrupted
	Waits      []Wait

	// Run is the ID of a run that has ended.
	Run string

	// Checkpoint is the newest of a run or a superstep.
	Checkpoint string

	// Before is the checkpoint that a run went on from, and BeforeMetadata its
	// metadata, which must not be changed; empty if it began its thread.
	Before         string
	BeforeMetadata map[string]string
}

var partKinds = [...]PartKind{local.PartRun: PartRun, local.PartStep: PartStep, local.PartAttempt: PartAttempt, local.PartHandler: PartHandler}

// tracerOf returns t as the shell calls it.
func tracerOf(t Tracer) local.Tracer {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, p local.Part) (context.Context, func(local.Outcome)) {
		part := Part{
			Kind: partKinds[p.Kind], Graph: p.Graph, Path: p.Path, Tags: p.Tags, Thread: string(p.Log.Thread), Namespace: p.Log.Namespace,
			Run: string(p.Run), Step: p.Step, Tasks: p.Tasks, Node: p.Node, Attempt: p.Attempt, From: p.From, Metadata: p.Metadata,
		}
		if p.Node != "" {
			part.Task = local.SubID(local.TaskID(p.Epoch, p.Step, p.Task), p.Do)
		}
		ctx, end := t.Begin(ctx, part)
		return ctx, func(o local.Outcome) { end(outcomeOf(o)) }
	}
}

func outcomeOf(o local.Outcome) Outcome {
	out := Outcome{Err: o.Err, Cancelled: o.Cancelled, Retry: o.Again, Delay: o.Delay, Cached: o.Cached, Run: string(o.Run)}
	for i := range o.Questions {
		if q := &o.Questions[i]; q.Wait {
			out.Waits = append(out.Waits, waitOf(q))
		} else {
			out.Interrupts = append(out.Interrupts, interruptOf(q))
		}
	}
	if o.Last != nil {
		out.Checkpoint = string(o.Last.ID)
	}
	if o.Before != nil {
		out.Before, out.BeforeMetadata = string(o.Before.ID), o.Before.Metadata
	}
	return out
}

// enter tells the tracer of a run, which adds to the metadata of a copy of the settings. The
// function tells it of the end; s is nil if the run could not begin.
func (e *engine) enter(ctx context.Context, of *settings) (_ context.Context, set *settings, end func(s *local.Session, err error)) {
	own := *of
	set = &own
	if set.metadata = maps.Clone(set.metadata); set.metadata == nil {
		set.metadata = map[string]string{}
	}
	ctx, ended := set.tracer.Begin(ctx, Part{
		Kind: PartRun, Graph: e.prog.Plan.Name, Thread: string(set.thread), Namespace: set.namespace, Metadata: set.metadata,
	})
	if len(set.metadata) == 0 {
		set.metadata = nil
	}
	return ctx, set, func(s *local.Session, err error) { ended(outcomeOf(s.Outcome(ctx, err))) }
}
