package local

import (
	"context"
	"encoding/json"
	"math/bits"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Kind is the kind of an event, a bit each so that listeners can say what they
// want.
type Kind uint32

// The kinds of events. Their numbers stand in references of package fleet: new ones come
// last.
const (
	TaskStarted Kind = 1 << iota
	TaskEnded
	TaskFailed
	TaskRetried
	Updates
	Values
	Checkpointed
	InterruptRaised
	Custom
	Message
	ToolCalled
	ToolReturned
)

// names are those of the kinds, in their order: what streams and the buses of package fleet
// call an event.
var names = [...]string{
	"task", "task_result", "task_error", "task_retry", "updates", "values", "checkpoints", "interrupt", "custom", "messages", "tool_call", "tool_result",
}

// Name returns the name of a kind; empty if it has none.
func (k Kind) Name() string {
	if i := bits.TrailingZeros32(uint32(k)); i < len(names) {
		return names[i]
	}
	return ""
}

// KindNamed returns the kind of a name; 0 if there is none.
func KindNamed(name string) Kind {
	if i := slices.Index(names[:], name); i >= 0 {
		return 1 << i
	}
	return 0
}

// Event is something that happened in a run.
type Event struct {
	Kind    Kind
	Path    []string // nodes from the root graph down to the subgraph it happened in
	Within  []string // segments of namespaces of those graphs, with their tasks where they keep their states, too
	Graph   string
	Thread  checkpoint.ThreadID
	Step    int // the superstep it belongs to
	Node    string
	Task    int
	Do      string // tells a call of Do from others of its task; Node is its name, Path ends with its node
	Epoch   checkpoint.ID
	Attempt int
	Tags    []string // of the node, the nodes in the path and, of what a task sends, its context
	Time    time.Time

	State    any             // Values: a copy of the state
	Update   json.RawMessage // Updates, TaskEnded: what the task wrote
	Payload  json.RawMessage // TaskStarted: of a send
	From     string          // TaskStarted
	Value    any             // Custom, Message, ToolCalled, ToolReturned
	Question *checkpoint.Question
	ID       checkpoint.ID // Checkpointed
	Parent   checkpoint.ID // Checkpointed
	Source   checkpoint.Source
	Next     []string // Checkpointed, Values
	Err      error
	Cached   bool
	Duration time.Duration // TaskEnded, TaskFailed
	Delay    time.Duration // TaskRetried

	Output func(state any) (json.RawMessage, error) // Values: of the program
}

// Bus carries the events of a run to its listeners. A nil Bus has none.
type Bus struct {
	Wants Kind // union of what the listeners want

	// Live says that events of parallel tasks are passed on as they happen;
	// otherwise those of a task's life wait until those of the tasks before
	// it in the plan were passed on.
	Live bool

	// Send passes an event on. It is called by the run's own goroutine, and
	// for TaskRetried, what tasks emit and calls of Do by the task's.
	Send func(ev *Event)
}

// Followed is the thread of a stream whose run is elsewhere.
type Followed interface {
	// Submit does to the thread what a request says and makes it due.
	Submit(ctx context.Context, req any) error

	// Begin tells what was recorded since the checkpoint that the stream is to begin with,
	// if there is one, and has CatchUp tell what is recorded from now on.
	Begin(ctx context.Context) error

	// CatchUp tells what was recorded and neither it nor the bus has told. When it is known
	// what that is, and before it is told of a record, it calls before, if that isn't nil,
	// with the superstep that the record closes or is inside of.
	CatchUp(ctx context.Context, before func(epoch checkpoint.ID)) error

	Wants() Kind            // what the stream's listener wants
	Bus() *Bus              // for whoever runs the thread
	Drain() <-chan struct{} // closed when the run is to end at the next superstep
}

func (b *Bus) wants(k Kind) bool { return b != nil && b.Wants&k != 0 }
