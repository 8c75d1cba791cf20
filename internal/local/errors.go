package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Errors of a run.
var (
	ErrThreadBusy     = errors.New("thread is busy: another run is working on it")
	ErrNoCheckpointer = errors.New("needs a checkpointer: pass one with graph.WithCheckpointer")
	ErrThreadRequired = errors.New("thread_id is required: name the thread with Graph.Thread")
	ErrNothing        = errors.New("nothing to resume")
	ErrDrained        = errors.New("run was drained: it stopped at a superstep's end and can be continued")
	ErrOutside        = errors.New("called with a context that does not come from a node")
	ErrNoAsking       = errors.New("an interrupt is not possible here: ask in the node itself")
	ErrLate           = errors.New("the node's attempt has ended")
	ErrUnderWay       = errors.New("a sub-step is under way that another run would do again")
)

// NodeError says that a node failed.
type NodeError struct {
	Node    string
	Path    []string // subgraph nodes above it
	Step    int
	Attempt int
	Payload json.RawMessage // what was sent to the task, if something was
	Err     error
}

func (e *NodeError) Error() string {
	s := fmt.Sprintf("node %q failed in step %d", strings.Join(append(e.Path, e.Node), "/"), e.Step)
	if e.Attempt > 1 {
		s += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the node's own error.
func (e *NodeError) Unwrap() error { return e.Err }

// MissingDepsError names dependencies that a run lacks. It ends the run: no attempt,
// error handler or model can make up for it.
type MissingDepsError struct{ Types []string }

func (e *MissingDepsError) Error() string {
	return fmt.Sprintf("missing dependencies: %s; provide them with graph.ProvideDeps or graph.UseDeps", strings.Join(e.Types, ", "))
}

// ConfigError says that a run is configured with what its graph doesn't take, or that a
// node reads a configuration that no graph around it declares. It ends the run, as
// MissingDepsError does.
type ConfigError struct {
	Type   string // in Go; empty: of JSON for a graph that declares none
	Reason string // empty: it is Err
	Err    error  // of decoding; may be nil
}

func (e *ConfigError) Error() string {
	text := "configuration"
	if e.Type != "" {
		text += " of type " + e.Type
	}
	if e.Reason != "" {
		return text + ": " + e.Reason
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// RecordedError is an error that an earlier run has recorded: of a sub-step, for a
// replay, or of a node for its error handler. Its text is what is left of it; of a node's,
// errors.Is finds in it what the error itself was or wrapped, by type and text.
type RecordedError struct {
	Text   string
	causes []string
}

func (e *RecordedError) Error() string { return e.Text }

// Is reports whether the error was, or wrapped, one of the target's type and text.
func (e *RecordedError) Is(target error) bool { return slices.Contains(e.causes, cause(target)) }

func cause(err error) string { return fmt.Sprintf("%T %v", err, err) }

// maxCauses bounds what is recorded of an error.
const maxCauses = 32

// causes lists what an error is and wraps.
func causes(err error) (all []string) {
	rest := []error{err}
	for len(rest) > 0 && len(all) < maxCauses {
		err, rest = rest[0], rest[1:]
		if err == nil {
			continue
		}
		all = append(all, cause(err))
		switch w := err.(type) {
		case interface{ Unwrap() error }:
			rest = append(rest, w.Unwrap())
		case interface{ Unwrap() []error }:
			rest = append(rest, w.Unwrap()...)
		}
	}
	return all
}

// PanicError says that a node panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError says that a limit of time was reached.
type TimeoutError struct {
	Node  string // empty for a run
	Kind  string // "node", "idle", "step" or "run"
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	switch e.Kind {
	case "idle":
		return fmt.Sprintf("node %q gave no sign of life for %v; raise the idle timeout or call graph.Heartbeat", e.Node, e.Limit)
	case "node":
		return fmt.Sprintf("node %q exceeded its timeout of %v", e.Node, e.Limit)
	case "step":
		return fmt.Sprintf("node %q was running when the step timeout of %v expired", e.Node, e.Limit)
	}
	return fmt.Sprintf("run exceeded its timeout of %v", e.Limit)
}

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// InvalidEdgeError says that a router or a command named a destination that
// does not exist or is not allowed.
type InvalidEdgeError struct {
	Source  string
	Target  string
	Allowed []string
	Near    string
	Reason  string // empty: it is not a node
}

func (e *InvalidEdgeError) Error() string {
	reason := e.Reason
	if reason == "" {
		reason = "which is not a node"
	}
	s := fmt.Sprintf("node %q leads to %q, %s", e.Source, e.Target, reason)
	if e.Near != "" {
		s += fmt.Sprintf("; did you mean %q?", e.Near)
	}
	if len(e.Allowed) > 0 {
		s += fmt.Sprintf(" (allowed: %s)", strings.Join(e.Allowed, ", "))
	}
	return s
}

// CheckpointError says that a checkpoint could not be stored or read.
type CheckpointError struct {
	Thread checkpoint.ThreadID
	Op     string // "save" or "load"
	Err    error
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("checkpoint %s failed for thread %q: %v", e.Op, e.Thread, e.Err)
}

// Unwrap returns the cause.
func (e *CheckpointError) Unwrap() error { return e.Err }

// MutationError says that a node wrote what it must not, or when it must not.
type MutationError struct {
	Node, Field string // of several, the field to which most was written
	Kind        string // "in place", "late", "Once", "Do" or "router"
	Name        string // of the Once or Do
}

func (e *MutationError) Error() string {
	switch e.Kind {
	case "in place":
		return fmt.Sprintf("node %q changed field %q in place: what a field holds is shared and must not be altered; use the field's methods", e.Node, e.Field)
	case "router":
		return fmt.Sprintf("the router of node %q wrote to the state (field %q): a router may only read; write in the node", e.Node, e.Field)
	case "late":
		return fmt.Sprintf("field %q of the state of node %q was written to after the node had returned, so that the write is lost: wait for goroutines before returning", e.Field, e.Node)
	}
	return fmt.Sprintf("node %q wrote to field %q of its state inside %s %q, which is not done again when the recorded result is returned: return what is to be written, and write what %[3]s returned", e.Node, e.Field, e.Kind, e.Name)
}

// CallError says that a node called something with what can't be recorded.
type CallError struct {
	Call   string // such as "Once" or "Interrupt"
	Node   string
	Key    string // or name
	Reason string
	Err    error // may be nil
}

func (e *CallError) Error() string {
	text := fmt.Sprintf("graph.%s %q in node %q: %s", e.Call, e.Key, e.Node, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *CallError) Unwrap() error { return e.Err }

// notUTF8 is the reason that keys with other bytes are refused: JSON has no words
// for them, and another process would not find them again.
const notUTF8 = "it is not valid UTF-8"

// ErrInterrupted: a question is open.
var ErrInterrupted = errors.New("interrupted")

// Interrupted is returned by Ask while a question is open.
type Interrupted struct {
	Question checkpoint.Question
}

func (e *Interrupted) Error() string {
	return fmt.Sprintf("interrupted in node %q: question %q waits for an answer", e.Question.Node, e.Question.Key)
}

func (e *Interrupted) Is(target error) bool { return target == ErrInterrupted }
