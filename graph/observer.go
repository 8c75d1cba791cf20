package graph

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/superstep-dev/superstep/internal/local"
)

// Observer is told what happens in a run. Its methods are called one at a time and in
// order: a slow observer slows the run. For a node that two attempts or several tasks run,
// each is told. What is told of a node is told of each call of [Do], too. One that panics
// is logged with slog.Default, and the run goes on.
type Observer interface {
	OnNodeEnter(ev Event)
	OnNodeExit(ev Event)        // the node succeeded
	OnError(ev Event)           // the node failed; see Event.Err
	OnCheckpointSaved(ev Event) // with Async and Exit it may still wait to be stored
	OnInterrupt(ev Event)       // the node asks; see Event.Interrupt
}

// ToolObserver is implemented by observers that want to know of the tools that
// nodes call; see [EmitToolCall]. As all methods of an observer these are called
// one at a time.
type ToolObserver interface {
	OnToolCall(ev Event)
	OnToolResult(ev Event)
}

func watchesTools(o Observer) bool {
	_, ok := o.(ToolObserver)
	return ok
}

// Observe adds an observer to those of the graph, the thread and the run: each is told,
// in the order in which they were added.
func Observe(o Observer) RunOption {
	return runSetting(func(s *settings) {
		if o == nil {
			s.fail("graph: Observe(nil): leave the option out")
			return
		}
		s.observers = append(slices.Clip(s.observers), o)
	})
}

const observerKinds = local.TaskStarted | local.TaskEnded | local.TaskFailed | local.Checkpointed | local.InterruptRaised

// observe tells an observer, of whom no run depends: one that panics is logged.
func observe(o Observer, ev *local.Event) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("superstep: an observer panicked", "observer", fmt.Sprintf("%T", o), "event", ev.Kind.Name(), "node", ev.Node, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	e := eventOf(ev)
	switch ev.Kind {
	case local.TaskStarted:
		o.OnNodeEnter(e)
	case local.TaskEnded:
		o.OnNodeExit(e)
	case local.TaskFailed:
		o.OnError(e)
	case local.Checkpointed:
		o.OnCheckpointSaved(e)
	case local.InterruptRaised:
		o.OnInterrupt(e)
	case local.ToolCalled:
		if t, ok := o.(ToolObserver); ok {
			t.OnToolCall(e)
		}
	case local.ToolReturned:
		if t, ok := o.(ToolObserver); ok {
			t.OnToolResult(e)
		}
	}
}
