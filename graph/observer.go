package graph

import (
	"slices"

	"github.com/superstep-dev/superstep/internal/local"
)

// Observer is told what happens in a run. Its methods are called one at a time and in
// order: a slow observer slows the run. For a node that two attempts or several tasks run,
// each is told. What is told of a node is told of each call of [Do], too.
type Observer interface {
	OnNodeEnter(ev Event)
	OnNodeExit(ev Event)        // the node succeeded
	OnError(ev Event)           // the node failed; see Event.Err
	OnCheckpointSaved(ev Event) // with Async and Exit it may still wait to be stored
}

// InterruptObserver is implemented by observers that want to know of
// interrupts.
type InterruptObserver interface {
	OnInterrupt(ev Event)
}

// ToolObserver is implemented by observers that want to know of the tools that
// nodes call; see [EmitToolCall]. As all methods of an observer these are called
// one at a time.
type ToolObserver interface {
	OnToolCall(ev Event)
	OnToolResult(ev Event)
}

// watchesTools reports whether an observer is a [ToolObserver], or has one
// among others.
func watchesTools(o Observer) bool {
	if m, ok := o.(multiObserver); ok {
		return slices.ContainsFunc(m, watchesTools)
	}
	_, ok := o.(ToolObserver)
	return ok
}

// Observe attaches an observer. Given to a call it replaces the graph's; use
// [MultiObserver] to have both.
func Observe(o Observer) RunOption { return runSetting(func(s *settings) { s.observer = o }) }

const observerKinds = local.TaskStarted | local.TaskEnded | local.TaskFailed | local.Checkpointed | local.InterruptRaised

func observe(o Observer, ev *local.Event) {
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
		if i, ok := o.(InterruptObserver); ok {
			i.OnInterrupt(e)
		}
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

// MultiObserver tells several observers, in order.
func MultiObserver(observers ...Observer) Observer { return multiObserver(observers) }

type multiObserver []Observer

func (m multiObserver) each(f func(Observer)) {
	for _, o := range m {
		if o != nil {
			f(o)
		}
	}
}

func (m multiObserver) OnNodeEnter(ev Event) { m.each(func(o Observer) { o.OnNodeEnter(ev) }) }
func (m multiObserver) OnNodeExit(ev Event)  { m.each(func(o Observer) { o.OnNodeExit(ev) }) }
func (m multiObserver) OnError(ev Event)     { m.each(func(o Observer) { o.OnError(ev) }) }
func (m multiObserver) OnCheckpointSaved(ev Event) {
	m.each(func(o Observer) { o.OnCheckpointSaved(ev) })
}

func (m multiObserver) OnInterrupt(ev Event) {
	m.each(func(o Observer) {
		if i, ok := o.(InterruptObserver); ok {
			i.OnInterrupt(ev)
		}
	})
}

func (m multiObserver) OnToolCall(ev Event) {
	m.each(func(o Observer) {
		if t, ok := o.(ToolObserver); ok {
			t.OnToolCall(ev)
		}
	})
}

func (m multiObserver) OnToolResult(ev Event) {
	m.each(func(o Observer) {
		if t, ok := o.(ToolObserver); ok {
			t.OnToolResult(ev)
		}
	})
}
