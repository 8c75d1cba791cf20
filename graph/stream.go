package graph

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// Mode selects events of a run. Several are combined with |.
type Mode uint32

// The modes.
const (
	// ModeUpdates: what each task wrote, in plan order, when its result is stored
	// (without a checkpointer when it has ended); and interrupts. When the superstep
	// ends is told by its checkpoint and its values. What a task wrote is told again
	// when it runs again, since its superstep failed, and when another run commits
	// the superstep. It is the default.
	ModeUpdates = Mode(local.Updates | local.InterruptRaised)

	// ModeValues: the whole state after the input and after each superstep;
	// and interrupts.
	ModeValues = Mode(local.Values | local.InterruptRaised)

	// ModeMessages: parts of messages (tokens) as nodes send them, but for those
	// that are tagged with [NoStream].
	ModeMessages = Mode(local.Message)

	// ModeCustom: what nodes send with Emit.
	ModeCustom = Mode(local.Custom)

	// ModeTools: calls of tools and what they returned, as nodes send them.
	ModeTools = Mode(local.ToolCalled | local.ToolReturned)

	// ModeTasks: start, end, failure and retry of each task, and of each call of [Do]
	// whose result was not recorded.
	ModeTasks = Mode(local.TaskStarted | local.TaskEnded | local.TaskFailed | local.TaskRetried)

	// ModeCheckpoints: each checkpoint that was stored. With [Async] and
	// [Exit] it may still wait to be.
	ModeCheckpoints = Mode(local.Checkpointed)

	// ModeWarnings: what a [Schema] lets pass, and data that is larger than
	// [WarnSize], as a [Warning] in Value. For a
	// run of a subgraph the event is that of the node it is mounted as.
	ModeWarnings = Mode(kindWarning)

	// ModeDebug: tasks, checkpoints and interrupts.
	ModeDebug = ModeTasks | ModeCheckpoints | Mode(local.InterruptRaised)
)

// EventType names the kind of an [Event].
type EventType string

// The types of events.
const (
	EventUpdate     EventType = "updates"
	EventValues     EventType = "values"
	EventMessage    EventType = "messages"
	EventCustom     EventType = "custom"
	EventToolCall   EventType = "tool_call"
	EventToolResult EventType = "tool_result"
	EventTaskStart  EventType = "task"
	EventTaskEnd    EventType = "task_result"
	EventTaskError  EventType = "task_error"
	EventTaskRetry  EventType = "task_retry"
	EventCheckpoint EventType = "checkpoints"
	EventInterrupt  EventType = "interrupt"
	EventWarning    EventType = "warning"
)

// kindWarning is the kind of a schema's warnings: the shell doesn't know of
// them.
const kindWarning local.Kind = 1 << 31

func typeOf(k local.Kind) EventType {
	if k == kindWarning {
		return EventWarning
	}
	return EventType(k.Name())
}

// Event is something that happened in a run. Which fields are set depends on
// its type.
type Event struct {
	Type   EventType
	Path   []string // nodes from the root graph down to the subgraph it happened in
	Within []string // for each of them the segment of a namespace (see checkpoint.Segment), with its task
	Graph  string
	Thread string
	Step   int // superstep, counted over the thread's life; 0 or the last one for an input
	Time   time.Time

	Node    string // of the task; empty for values and checkpoints
	Task    string // ID of the task
	Attempt int

	// Tags are those of the node, of the nodes in Path and, of what a node sends, of
	// its context: see [Tags] and [WithTags].
	Tags []string

	// Update is what the task wrote, as JSON: field name to what was added,
	// put or set. It is nil when it wrote nothing. Of a [Do] it is the result. (updates,
	// task_result)
	Update json.RawMessage

	// Value is what the node sent (custom, messages, tool_call, tool_result),
	// or a [Warning].
	Value any

	Interrupt *Interrupted // (interrupt)

	Checkpoint string   // (checkpoints)
	Parent     string   // (checkpoints)
	Source     string   // (checkpoints)
	Next       []string // nodes planned next (checkpoints, values)

	Input    json.RawMessage // payload of a send, or what Do was given (task)
	From     string          // node that led here (task)
	Err      error           // (task_error, task_retry)
	Delay    time.Duration   // before the next attempt (task_retry)
	Duration time.Duration   // (task_result, task_error)
	Cached   bool            // the result came from the node's cache

	shown *shown
}

// shown is what an event of type values shows.
type shown struct {
	state        any
	json, output func() (json.RawMessage, error)
}

// StateOf returns the state that an event of type values carries. It is the
// caller's own copy. It returns false for other events, and for those of a
// subgraph with another state type.
func StateOf[S any](ev Event) (*S, bool) {
	if ev.shown == nil {
		return nil, false
	}
	s, ok := ev.shown.state.(*S)
	return s, ok
}

// StateJSON returns the state that an event of type values carries, whatever its
// type, as JSON. It returns nil for other events.
func (ev Event) StateJSON() (json.RawMessage, error) {
	if ev.shown == nil {
		return nil, nil
	}
	return ev.shown.json()
}

// OutputJSON returns what a run that ended with an event of type values would give to
// its caller, as JSON: see [SetOutput]. Without an output type it is the state. It
// returns nil for other events.
func (ev Event) OutputJSON() (json.RawMessage, error) {
	if ev.shown == nil {
		return nil, nil
	}
	return ev.shown.output()
}

func eventOf(ev *local.Event) Event {
	e := Event{
		Type: typeOf(ev.Kind), Path: ev.Path, Within: ev.Within, Graph: ev.Graph, Thread: string(ev.Thread), Step: ev.Step, Time: ev.Time,
		Node: ev.Node, Attempt: ev.Attempt, Update: ev.Update, Value: ev.Value, Checkpoint: string(ev.ID), Parent: string(ev.Parent),
		Source: string(ev.Source), Next: ev.Next, Input: ev.Payload, From: ev.From, Err: ev.Err, Delay: ev.Delay, Duration: ev.Duration,
		Cached: ev.Cached, Tags: ev.Tags,
	}
	if ev.State != nil {
		e.shown = showing(ev)
	}
	if ev.Task >= 0 && ev.Node != "" {
		e.Task = local.SubID(local.TaskID(ev.Epoch, ev.Step, ev.Task), ev.Do)
	}
	if ev.Question != nil {
		i := interruptOf(ev.Question)
		e.Interrupt = &i
	}
	return e
}

func showing(ev *local.Event) *shown {
	state, output := ev.State, ev.Output
	v := &shown{state: state, json: sync.OnceValues(func() (json.RawMessage, error) { return json.Marshal(state) })}
	if v.output = v.json; output != nil {
		v.output = sync.OnceValues(func() (json.RawMessage, error) { return output(state) })
	}
	return v
}

// Modes selects the events that Stream yields. The default is [ModeUpdates].
func Modes(modes ...Mode) StreamOption {
	return streamSetting(func(s *settings) {
		s.modes = 0
		for _, m := range modes {
			s.modes |= m
		}
	})
}

// Buffer sets how many events may wait for a slow consumer of Stream before the
// run waits for it. The default is 0: the run waits at each event.
func Buffer(n int) StreamOption {
	return streamSetting(func(s *settings) {
		if n < 0 {
			s.fail("graph: Buffer(%d): use 0 for none", n)
		}
		s.buffer = n
	})
}

// Detach lets the run go on in the background when the consumer of Stream
// breaks out of its loop. By default that cancels the run. A detached run keeps
// the context given to Stream.
func Detach() StreamOption { return streamSetting(func(s *settings) { s.detach = true }) }

// LiveOrder passes the ends of parallel tasks, and what they wrote, on as they happen.
// By default they are passed on in plan order, so that a deterministic graph gives the
// same events in every run. (Events that nodes send with [Emit] and
// [EmitMessage], and those of [Do], always come as they happen.)
func LiveOrder() StreamOption { return streamSetting(func(s *settings) { s.live = true }) }

// Since makes Stream tell first what the thread has come to after
// a checkpoint, and then what the call does: of each input and each superstep that
// was recorded since, the updates, the checkpoint and the values, as far as the
// modes want them and in the order of the run that recorded them, and the updates
// that an edit has folded or made as a node. So a consumer that has seen a checkpoint,
// and whose process or connection then died, misses nothing that was recorded since; it
// may be told again what tasks of the superstep wrote that was open. The values of a
// checkpoint follow its event: who wants them has seen it when they have come. What is
// not recorded (what nodes emitted, messages, the course of tasks) is not told again,
// and neither is what happened inside subgraphs. An empty checkpoint is the beginning
// of the thread.
//
// If the thread doesn't come from that checkpoint, or what follows it was pruned,
// the error wraps checkpoint.ErrNotFound and nothing runs.
func Since(checkpointID string) StreamOption {
	return streamSetting(func(s *settings) { id := checkpoint.ID(checkpointID); s.since = &id })
}

// Stream is [Thread.Invoke] that yields what happens as it happens. The last pair has
// the run's error, if it has one, and a zero Event. Breaking out of the loop
// cancels the run and waits for it to end, unless [Detach] is given.
//
// A consumer that is slow makes the run wait; see [Buffer].
func (t *Thread[S]) Stream(ctx context.Context, req Request[S], opts ...StreamOption) iter.Seq2[Event, error] {
	return t.stream(ctx, opts, func(ctx context.Context, set *settings, bus *local.Bus) error {
		_, err := t.call(ctx, set, t.erase(req), bus)
		return err
	})
}

// stream yields what run tells by a bus.
func (h *handle) stream(ctx context.Context, opts []StreamOption, run func(context.Context, *settings, *local.Bus) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		set, err := with(h.set, opts)
		if h.err != nil {
			err = h.err
		}
		if err == nil && ctx == nil {
			err = errNilContext
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		runCtx, cancel := context.WithCancel(ctx)
		events := make(chan Event, set.buffer)
		gone := make(chan struct{}) // closed when nobody reads any more
		var runErr error
		modes := set.modes
		if modes == 0 {
			modes = ModeUpdates
		}
		bus := &local.Bus{Wants: local.Kind(modes), Live: set.live, Send: func(ev *local.Event) {
			select {
			case events <- eventOf(ev):
			case <-gone:
			case <-runCtx.Done():
				// Prefer to deliver what happened before the end.
				select {
				case events <- eventOf(ev):
				case <-gone:
				case <-time.After(endGrace):
				}
			}
		}}
		go func() {
			defer close(events)
			runErr = run(runCtx, set, bus)
		}()
		leave := sync.OnceFunc(func() {
			close(gone)
			if set.detach {
				go func() {
					for range events {
					}
					cancel()
				}()
				return
			}
			cancel()
			for range events {
			}
		})
		defer leave() // also if the loop panics
		for ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		cancel()
		if leave(); runErr != nil {
			yield(Event{}, runErr)
		}
	}
}

// endGrace is how long a cancelled run offers an event to its consumer.
const endGrace = 100 * time.Millisecond

// bus combines what observers and the caller's stream want.
func (e *engine) bus(set *settings, stream *local.Bus) *local.Bus {
	if len(set.observers) == 0 {
		return stream
	}
	watch, one := observerKinds, new(sync.Mutex)
	observe := func(ev *local.Event) { // Do and tools are called in goroutines of their nodes
		one.Lock()
		defer one.Unlock()
		for _, o := range set.observers {
			observe(o, ev)
		}
	}
	if slices.ContainsFunc(set.observers, watchesTools) {
		watch |= local.ToolCalled | local.ToolReturned
	}
	if stream == nil {
		return &local.Bus{Wants: watch, Send: observe}
	}
	return &local.Bus{Wants: watch | stream.Wants, Live: stream.Live, Send: func(ev *local.Event) {
		if ev.Kind&watch != 0 {
			observe(ev)
		}
		if ev.Kind&stream.Wants != 0 {
			stream.Send(ev)
		}
	}}
}
