package graph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/field"
	"github.com/superstep-dev/superstep/graph/internal/state"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Errors that calls return, to be tested with errors.Is.
var (
	// ErrThreadBusy: another run is working on the thread.
	ErrThreadBusy = local.ErrThreadBusy

	// ErrThreadRequired: the graph has a checkpointer and no thread was named.
	ErrThreadRequired = local.ErrThreadRequired

	// ErrNoCheckpointer: an interrupt, or a call about threads, without a
	// checkpointer.
	ErrNoCheckpointer = local.ErrNoCheckpointer

	// ErrNothingToResume: the thread does not exist, or nothing is pending.
	ErrNothingToResume = local.ErrNothing

	// ErrDrained: the run stopped since [Drain] asked for it.
	ErrDrained = local.ErrDrained

	// ErrFieldReplaced: a field of the state was replaced by assignment.
	ErrFieldReplaced = field.ErrReplaced

	// ErrNotInNode: the context does not come from a node.
	ErrNotInNode = local.ErrOutside

	// ErrInterrupted: the node has to wait, as [Interrupt], [WaitFor], [Sleep] or a later
	// [Once] says. Code between them and the node must return such an error and not treat
	// it as a failure.
	ErrInterrupted = local.ErrInterrupted

	// ErrNoAsking: an interrupt where none can be raised, such as in Once.
	ErrNoAsking = local.ErrNoAsking

	// ErrNotCompiled: the *Graph is nil or empty. Methods that return no error panic
	// with its text.
	ErrNotCompiled = errors.New("graph: the *Graph is nil or empty: Builder.Compile makes one")

	// ErrUnknownGraph: a thread belongs to a graph that a [Runner] was not given.
	ErrUnknownGraph = errors.New("the runner doesn't know the graph")

	// ErrNotRecorded: in a replay, the recording doesn't have the result of a [Once] or [Do].
	ErrNotRecorded = local.ErrNotRecorded

	// ErrLate: the attempt of the node that calls has ended.
	ErrLate = local.ErrLate
)

// Errors that calls return, to be found with errors.As.
type (
	// NodeError says which node failed, and wraps its error.
	//
	//	type NodeError struct {
	//		Node    string
	//		Path    []string // subgraph nodes above it
	//		Step    int
	//		Attempt int
	//		Payload json.RawMessage // what was sent to the task, if something was
	//		Err     error
	//	}
	//
	//	func (e *NodeError) Error() string
	//	func (e *NodeError) Unwrap() error
	NodeError = local.NodeError

	// PanicError is the cause of a NodeError when the node panicked.
	//
	//	type PanicError struct {
	//		Value any
	//		Stack []byte
	//	}
	//
	//	func (e *PanicError) Error() string
	//	func (e *PanicError) Unwrap() error
	PanicError = local.PanicError

	// RecordedError is the cause of a NodeError that an earlier run has recorded:
	// its text is what is left of it, and what errors.Is needs to find errors that
	// it wrapped.
	//
	//	type RecordedError struct {
	//		Text string
	//		// contains filtered or unexported fields
	//	}
	//
	//	func (e *RecordedError) Error() string
	//	func (e *RecordedError) Is(target error) bool
	RecordedError = local.RecordedError

	// MissingDepsError names dependencies that a run lacks. It ends the run: nothing
	// retries the node, handles the error or tells it to a model.
	//
	//	type MissingDepsError struct{ Types []string }
	//
	//	func (e *MissingDepsError) Error() string
	MissingDepsError = local.MissingDepsError

	// ConfigError says that a run is configured with what its graph doesn't take, or that a
	// node reads a configuration that no graph around it declares. It ends the run, as
	// MissingDepsError does.
	//
	//	type ConfigError struct {
	//		Type   string // in Go; empty: of JSON for a graph that declares none
	//		Reason string // empty: it is Err
	//		Err    error  // of decoding; may be nil
	//	}
	//
	//	func (e *ConfigError) Error() string
	//	func (e *ConfigError) Unwrap() error
	ConfigError = local.ConfigError

	// TimeoutError says which limit of time was reached, and by which node.
	//
	//	type TimeoutError struct {
	//		Node  string // empty for a run
	//		Kind  string // "node", "idle", "step" or "run"
	//		Limit time.Duration
	//	}
	//
	//	func (e *TimeoutError) Error() string
	//	func (e *TimeoutError) Timeout() bool
	TimeoutError = local.TimeoutError

	// InvalidEdgeError says that a node leads to something that isn't a node
	// or isn't allowed.
	//
	//	type InvalidEdgeError struct {
	//		Source  string
	//		Target  string
	//		Allowed []string
	//		Near    string
	//		Reason  string // empty: it is not a node
	//	}
	//
	//	func (e *InvalidEdgeError) Error() string
	InvalidEdgeError = local.InvalidEdgeError

	// CheckpointError says that a checkpoint could not be stored or read.
	//
	//	type CheckpointError struct {
	//		Thread checkpoint.ThreadID
	//		Op     string // "save" or "load"
	//		Err    error
	//	}
	//
	//	func (e *CheckpointError) Error() string
	//	func (e *CheckpointError) Unwrap() error
	CheckpointError = local.CheckpointError

	// MutationError says that a router wrote to the state. With [CheckMutations] it also
	// says that a node changed in place what a field holds, or wrote to its state when
	// that has no effect: after it had returned, or in a function of [Once] or [Do].
	//
	//	type MutationError struct {
	//		Node, Field string // of several, the field to which most was written
	//		Kind        string // "in place", "late", "Once", "Do" or "router"
	//		Name        string // of the Once or Do
	//	}
	//
	//	func (e *MutationError) Error() string
	MutationError = local.MutationError

	// StateSizeError says that a state has grown beyond [MaxStateSize].
	//
	//	type StateSizeError struct {
	//		Thread    string
	//		Size      int // bytes of its recorded form
	//		Limit     int
	//		Field     string // the largest one
	//		FieldSize int
	//	}
	//
	//	func (e *StateSizeError) Error() string
	StateSizeError = local.StateSizeError

	// DeadlineError says that an answer, an event or the end of a thread did not come in time.
	//
	//	type DeadlineError struct {
	//		Node   string
	//		Key    string
	//		Event  string // empty for a question
	//		Thread string // whose end was waited for; else empty
	//		Due    time.Time
	//	}
	//
	//	func (e *DeadlineError) Error() string
	DeadlineError = local.DeadlineError

	// CallError says that a node called [Once], [Do], [Interrupt], [WaitFor], [Sleep],
	// [Spawn] or [Call] with what can't be: a key that can't be recorded or was used before, a
	// schema for the answer that is none, or Once without a function.
	//
	//	type CallError struct {
	//		Call   string // such as "Once" or "Interrupt"
	//		Node   string
	//		Key    string // or name
	//		Reason string
	//		Err    error // may be nil
	//	}
	//
	//	func (e *CallError) Error() string
	//	func (e *CallError) Unwrap() error
	CallError = local.CallError

	// LimitError says that a run took as many supersteps, or ran as many tasks, as it may.
	//
	//	type LimitError struct {
	//		Of           string // "supersteps" or "tasks"
	//		Max, Reached int
	//		Coming       int      // tasks of the next superstep
	//		Recent       []string // nodes run last since the newest input, newest last
	//		Next         []string // nodes that would have run
	//	}
	//
	//	func (e *LimitError) Error() string
	LimitError = core.LimitError

	// CycleError says that a run goes round without making progress.
	//
	//	type CycleError struct {
	//		Node   string
	//		Recent []string // nodes run last since the newest input, newest last
	//		Strict bool     // coming round is an error whatever has changed
	//	}
	//
	//	func (e *CycleError) Error() string
	CycleError = core.CycleError

	// ConflictError says that two nodes wrote a field at once in ways that
	// can't be merged.
	//
	//	type ConflictError struct {
	//		Field string
	//		Node  string // whose changes could not be applied
	//		With  string // whose changes they conflict with; empty: none
	//		Step  int
	//		Err   error
	//	}
	//
	//	func (e *ConflictError) Error() string
	//	func (e *ConflictError) Unwrap() error
	ConflictError = core.ConflictError

	// JoinError says that a run ended while a join waited.
	//
	//	type JoinError struct {
	//		Target    string
	//		Arrived   []string
	//		Elsewhere []string // ran, but a command or a router led elsewhere
	//		Missing   []string // did not run
	//	}
	//
	//	func (e *JoinError) Error() string
	JoinError = core.JoinError

	// UnknownNodeError says that a thread waits at a node that the graph
	// doesn't have, or in another graph.
	//
	//	type UnknownNodeError struct {
	//		Thread string
	//		Graph  string // the other one; empty: it is this
	//		Node   string // empty: of the other graph
	//		Near   string
	//	}
	//
	//	func (e *UnknownNodeError) Error() string
	UnknownNodeError = core.UnknownNodeError

	// UnknownFieldError says that an update names a field that the state
	// doesn't have.
	//
	//	type UnknownFieldError struct {
	//		Field string
	//		Near  string // the name closest to it; may be empty
	//		Valid []string
	//	}
	//
	//	func (e *UnknownFieldError) Error() string
	UnknownFieldError = state.UnknownFieldError

	// InputError says that a part of an update or an input in JSON is not as the
	// schema has it that [Graph.JSONSchema] gives.
	//
	//	type InputError struct {
	//		Path   string // such as order.items[2].price; empty: the whole
	//		Reason string
	//		Fix    string // what to do about it
	//		// contains filtered or unexported fields
	//	}
	//
	//	func (e *InputError) Error() string
	InputError = goschema.InputError
)

// ParentError says that a graph which a node runs with [Call] ended by
// [GotoParent] or [DispatchParent]. Only a graph that is a node leads to the nodes
// of the graph that contains it.
type ParentError struct {
	Graph string  // the called one
	Key   string  // of the call
	To    Command // where it leads to
}

func (e *ParentError) Error() string {
	var to []string
	for _, n := range e.To.Nodes() {
		to = append(to, strconv.Quote(n))
	}
	return fmt.Sprintf("graph.Call %q: graph %q leads to %s of the graph that contains it, where only a graph can that is a node: add it with graph.AddSubgraph or graph.AddShared, or let it return the destination in its state", e.Key, e.Graph, strings.Join(to, ", "))
}

// CompileError lists everything that is wrong with a graph.
type CompileError struct {
	Graph    string
	Problems []Problem
}

// Problem is a mistake in a graph and what to do about it.
//
//	type Problem struct {
//		Kind string // such as "unknown node" or "field type"
//		Name string // the node or field concerned; may be empty
//		Text string // what is wrong
//		Fix  string // what to do about it
//	}
//
//	func (p Problem) String() string
type Problem = plan.Problem

func (e *CompileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %q has %d problem", e.Graph, len(e.Problems))
	if len(e.Problems) > 1 {
		b.WriteByte('s')
	}
	for _, p := range e.Problems {
		b.WriteString("\n  - ")
		b.WriteString(p.String())
	}
	return b.String()
}

// InterruptError is an interrupted run as an error; see [Snapshot.Err].
type InterruptError struct {
	Thread     string
	Checkpoint string
	Interrupts []Interrupted
}

func (e *InterruptError) Error() string {
	if len(e.Interrupts) == 0 {
		return "interrupted"
	}
	s := e.Interrupts[0].String()
	if n := len(e.Interrupts) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// AnswerError says that an answer was refused: its question waits as before.
type AnswerError struct {
	Key    string // of the question, or what was given as a key
	Reason string
	Open   []string // keys that wait for an answer
	Err    error    // of the check against the schema, or of decoding; may be nil
}

func (e *AnswerError) Error() string {
	s := "answer refused: " + e.Reason
	if e.Key != "" {
		s = fmt.Sprintf("answer to %q refused: %s", e.Key, e.Reason)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if len(e.Open) > 0 {
		s += fmt.Sprintf(" (waiting: %s)", strings.Join(e.Open, ", "))
	}
	return s
}

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }
