package graph

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
)

// Snapshot is a thread at one moment: what Invoke, State and edits return.
type Snapshot[S any] struct {
	// State is a copy of the state: what was committed and, where the newest
	// moment of a thread is shown, what finished tasks of the open superstep
	// wrote.
	State S

	// Next names the nodes that run when the thread goes on, in plan order.
	// It is empty when the thread has ended.
	Next []string

	// Interrupts are the questions and breakpoints that wait for an answer.
	Interrupts []Interrupted

	// Waits are the sleeps and events that the thread waits for.
	Waits []Wait

	Tasks []TaskState // of the open superstep, in plan order

	Thread     string
	Namespace  string
	Checkpoint string // empty without a checkpointer
	Parent     string // the checkpoint before it
	Step       int    // supersteps committed on the thread
	Source     string // why the checkpoint was written: "input", "loop", ...
	CreatedAt  time.Time
	Metadata   map[string]string
	Recent     []string // nodes run last since the newest input, newest last

	incomplete error // see Err
	unread     bool  // the call failed before the thread was read
	engine     *engine
	whole      any // the state, whatever its form; the engine's
}

// OutputJSON returns what a run that came to this gives to its caller, as JSON: see
// [SetOutput]. Without an output type it is the state.
func (s *Snapshot[S]) OutputJSON() (json.RawMessage, error) {
	if s.engine == nil || s.whole == nil {
		return nil, nil
	}
	if data, ok := any(s.State).(json.RawMessage); ok && s.engine.output == nil {
		return data, nil
	}
	return s.engine.outputJSON(s.whole)
}

// TaskState is a planned task.
type TaskState struct {
	ID     string
	Node   string
	Status string // "waiting", "held", "running", "routing", "done", "failed", "interrupted"
	Error  string // of its last attempt
	Sent   bool
	Input  json.RawMessage // payload of a send

	Interrupts []Interrupted
	Waits      []Wait // sleeps, and events and threads that it waits for

	// Did names what the task has recorded by [Do], [Go] and [Once] and will not do
	// again, as often as it has and sorted; in a [Scope] with that. Only a Snapshot has it.
	Did []string

	// Subgraphs tells where the logs of subgraphs stand that the task has
	// called: a namespace for [Namespace], and a checkpoint.
	Subgraphs map[string]string

	// States are the snapshots of those that are open, by namespace, with their own inside
	// of them. Only a Snapshot of [Thread.Nested] has them.
	States map[string]*Snapshot[json.RawMessage]

	// Inside is the namespace of the log of the graph that the node is (see
	// [AddSubgraph]), or that one has which it [Contains] and calls without a key,
	// whether the task has called it yet or not; empty for other nodes, and without a
	// checkpointer. See checkpoint.Segment.
	Inside string

	recorded map[string]json.RawMessage // with Once; of an Open superstep
}

// Interrupted is a question that waits, or a breakpoint.
type Interrupted struct {
	ID   string   // unique; answers may be given by it
	Key  string   // given by the node; for a breakpoint the node's name
	Node string   // that asked
	Path []string // nodes from the root graph down to the subgraph it is in
	When string   // "inside", "before" or "after"

	// Value is what the node asked, decoded from JSON: a string, float64,
	// bool, nil, []any or map[string]any. Decode Raw for other types.
	Value any
	Raw   json.RawMessage

	Schema json.RawMessage // JSON Schema of the answer; may be nil

	Deadline time.Time // see [Deadline]; zero if there is none
}

// Wait is a sleep, or a wait for an event or for the end of what was spawned.
type Wait struct {
	ID     string
	Key    string
	Node   string
	Path   []string  // nodes from the root graph down to the subgraph it is in
	Event  string    // that is waited for; else empty
	Thread string    // whose end is waited for (see [Spawned.Wait]); else empty
	Until  time.Time // the end of the sleep, or the deadline of the wait; may be zero
}

func (w Wait) String() string {
	node := strings.Join(append(w.Path[:len(w.Path):len(w.Path)], w.Node), "/")
	until := ""
	if !w.Until.IsZero() {
		until = " until " + w.Until.Format(time.RFC3339)
	}
	switch {
	case w.Thread != "":
		return fmt.Sprintf("node '%s' waits for the end of thread %q%s", node, w.Thread, until)
	case w.Event != "":
		return fmt.Sprintf("node '%s' waits for event %q%s", node, w.Event, until)
	}
	return fmt.Sprintf("node '%s' sleeps%s", node, until)
}

func (i Interrupted) String() string {
	node := strings.Join(append(i.Path[:len(i.Path):len(i.Path)], i.Node), "/")
	if i.When != "inside" {
		return fmt.Sprintf("interrupted %s node '%s'", i.When, node)
	}
	return fmt.Sprintf("interrupted in node '%s': %q waits for an answer", node, i.Key)
}

// askedBy describes a question, of a breakpoint with the schema declared, without its Value.
func askedBy(q *checkpoint.Question, set *settings) Interrupted {
	i := Interrupted{ID: q.ID, Key: q.Key, Node: q.Node, Path: q.Path, When: q.When, Raw: q.Value, Schema: q.Schema, Deadline: q.Due}
	if i.When != "inside" && i.Schema == nil && len(i.Path) == 0 {
		i.Schema = set.schemas[i.Node]
	}
	return i
}

func interruptOf(q *checkpoint.Question) Interrupted {
	i := askedBy(q, &settings{})
	i.decode()
	return i
}

func (i *Interrupted) decode() {
	if i.Raw != nil {
		_ = json.Unmarshal(i.Raw, &i.Value) // it was encoded by us
	}
}

func waitOf(q *checkpoint.Question) Wait {
	w := Wait{ID: q.ID, Key: q.Key, Node: q.Node, Path: q.Path, Event: q.Event, Until: q.Due}
	if q.Turn != nil {
		w.Thread = string(q.Turn.Thread)
	}
	return w
}

// Err returns an [InterruptError] when the thread waits for answers, a [JoinError] when
// it ended with a join partly filled, else nil.
func (s *Snapshot[S]) Err() error {
	if len(s.Interrupts) == 0 {
		return s.incomplete
	}
	return &InterruptError{Thread: s.Thread, Checkpoint: s.Checkpoint, Interrupts: s.Interrupts}
}

// Done reports whether the thread has ended: nothing is pending. While tasks have finished
// whose superstep is still to be committed nothing is next, and yet it has not; and neither
// has it as far as is known of a call that was refused before the thread was read.
func (s *Snapshot[S]) Done() bool {
	return !s.unread && len(s.Next) == 0 && len(s.Interrupts) == 0 && len(s.Waits) == 0 && len(s.Tasks) == 0
}

// snapshot describes the thread as the session's machine has it. The record is
// the newest one written or read; nil without a checkpointer.
func (e *engine) snapshot(s *local.Session, set *settings) Snapshot[any] {
	m := s.Machine()
	snap := Snapshot[any]{
		State: s.View(), Thread: string(set.thread), Namespace: set.namespace,
		Checkpoint: string(m.Head()), Step: m.Step(), Recent: append([]string(nil), lastOf(m.Recent(), core.RecentNodes)...),
	}
	snap.engine, snap.whole = e, snap.State
	snap.Next = local.Next(e.prog.Plan, m.Tasks())
	for _, p := range m.Paused() {
		snap.Interrupts = append(snap.Interrupts, askedBy(&checkpoint.Question{ID: p.ID, Key: p.Node, Node: p.Node, When: "after"}, set))
	}
	if tasks := m.Tasks(); len(tasks) > 0 {
		did := s.Did()
		for i := range tasks {
			ts := e.taskState(m, i, set)
			for k := range ts.Interrupts {
				ts.Interrupts[k].decode()
			}
			ts.Did = local.NamesOfDone(did[i])
			snap.Tasks = append(snap.Tasks, ts)
			snap.Interrupts, snap.Waits = append(snap.Interrupts, ts.Interrupts...), append(snap.Waits, ts.Waits...)
		}
	}
	snap.incomplete = m.Incomplete()
	if rec := s.Record(); rec != nil {
		snap.Checkpoint, snap.Parent, snap.Source, snap.CreatedAt, snap.Metadata = string(rec.ID), string(rec.Parent), string(rec.Source), rec.CreatedAt, rec.Metadata
	}
	return snap
}

// taskState describes a task of the open superstep, its questions without their Value.
func (e *engine) taskState(m *core.Machine, i int, set *settings) TaskState {
	t := m.Task(i)
	ts := TaskState{
		ID: local.TaskID(m.Epoch(), m.Step()+1, i), Node: e.prog.Plan.Nodes[t.Node].Name, Status: t.Status().String(), Error: t.ErrText, Sent: t.Sent, Input: t.Raw,
	}
	for _, q := range t.Unanswered() {
		if q.Wait {
			ts.Waits = append(ts.Waits, waitOf(&q))
		} else {
			ts.Interrupts = append(ts.Interrupts, askedBy(&q, set))
		}
	}
	if n := &e.nodes[t.Node]; n.inner != nil && set.store != nil {
		ts.Inside = local.ChildNamespace(set.namespace, ts.Node, local.CallerID(m.Epoch(), m.Step()+1, i, t.Gen), n.keeps(n.inner[0]), "")
	}
	for ns, id := range t.Children {
		if ts.Subgraphs == nil {
			ts.Subgraphs = map[string]string{}
		}
		ts.Subgraphs[ns] = string(id)
	}
	return ts
}

func lastOf[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }
