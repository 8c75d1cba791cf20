package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
)

// Kind says what an [Event] tells of.
type Kind string

// The kinds. Those marked with * are kept in the session; a run yields all.
const (
	KindInput Kind = "user.input" // * what the user said, or answered: Message

	KindDelta    Kind = "model.delta"    // a piece of an answer: Partial and Delta
	KindModel    Kind = "model.response" // * an answer of a model that was committed: Message
	KindModelEnd Kind = "model.end"      // a model has answered or failed: StateDelta, see [Watch]
	KindToolCall Kind = "tool.call"      // a tool is called: Call
	KindToolEnd  Kind = "tool.end"       // a tool has returned or failed: Call, StateDelta
	KindTool     Kind = "tool.response"  // * a tool's result that was committed: Message
	KindMessage  Kind = "message"        // * another message that a node committed: Message

	KindNodeStart Kind = "node.start"
	KindNodeEnd   Kind = "node.end"    // a node is done: StateDelta has what it wrote
	KindNodeError Kind = "node.error"  // a node failed: Err
	KindNodeRetry Kind = "node.retry"  // an attempt failed, another follows: Err
	KindCustom    Kind = "node.custom" // what a node sent with graph.Emit: Custom

	KindPlanning   Kind = "graph.planning"   // a superstep was planned: Next
	KindExecution  Kind = "graph.execution"  // a superstep begins to run
	KindStep       Kind = "graph.update"     // a superstep was committed
	KindInterrupt  Kind = "graph.interrupt"  // * the graph asks something: Question
	KindUpdate     Kind = "state.update"     // a node's writes were committed: StateDelta
	KindCheckpoint Kind = "graph.checkpoint" // Checkpoint, Source, Next

	KindState Kind = "session.state"  // * a node wrote to the session's state: StateDelta
	KindAgent Kind = "agent.response" // * an answer of a callback, or of no model: Message

	// KindCompletion is the last event of a run. Its Message is the answer, its
	// Open what the thread waits for. It is kept nowhere.
	KindCompletion Kind = "runner.completion"
)

// The authors of events that are not nodes. Events of nodes, their models and
// tools have the node's name; an answer that callbacks give has the graph's.
const (
	AuthorUser     = "user"           // what the runner wrote for the user
	AuthorNode     = "graph-node"     // a node whose name isn't known
	AuthorPregel   = "graph-pregel"   // planning, execution and update of supersteps, and errors
	AuthorExecutor = "graph-executor" // state updates, checkpoints, and the end of a run
)

// The keys of an event's StateDelta that hold metadata.
const (
	KeyModelMetadata = "_model_metadata" // a [ModelExecutionMetadata]
	KeyToolMetadata  = "_tool_metadata"  // a [ToolExecutionMetadata]
)

// Event is something that happened in a session. It is a value, and its
// StateDelta is the receiver's own; a Message may not be altered, and Custom is
// what the node has sent.
type Event struct {
	ID     string    `json:"id"`
	Seq    int64     `json:"seq,omitempty"` // place in the session, from 1; 0 if it isn't kept
	Run    string    `json:"run,omitempty"` // ID of the call of Run
	Time   time.Time `json:"time"`
	Kind   Kind      `json:"kind"`
	Author string    `json:"author"`

	// Partial says that this is a piece of something that comes whole later.
	// Such events are never kept.
	Partial bool `json:"partial,omitempty"`

	Node    string   `json:"node,omitempty"`
	Path    []string `json:"path,omitempty"` // nodes from the root graph down to the subgraph it happened in
	Task    string   `json:"task,omitempty"`
	Step    int      `json:"step,omitempty"` // superstep, over the thread's life
	Attempt int      `json:"attempt,omitempty"`

	Message *chat.Message `json:"message,omitempty"`
	Delta   *Piece        `json:"delta,omitempty"`
	Call    *ToolCall     `json:"tool_call,omitempty"`

	Question *Question  `json:"question,omitempty"`
	Open     []Question `json:"open,omitempty"`

	// StateDelta is a snapshot, as JSON. For an update of the graph or a node
	// that ended it has what was written to the graph's state, by field. Where
	// models and tools are concerned it has metadata under keys that begin with
	// "_". For all that is kept, the rest is a change of the session's state,
	// keys with their scope, which [Service.AppendEvent] applies; null removes.
	StateDelta map[string]json.RawMessage `json:"state_delta,omitempty"`

	Checkpoint string        `json:"checkpoint,omitempty"`
	Source     string        `json:"source,omitempty"` // why the checkpoint was written
	Next       []string      `json:"next,omitempty"`   // nodes planned
	Duration   time.Duration `json:"duration,omitempty"`

	Custom any `json:"custom,omitempty"`

	// Error is the text of Err, which is not stored.
	Error string `json:"error,omitempty"`
	Err   error  `json:"-"`

	// InThread says that the graph's thread knows of the message. Synced says
	// that it knows of all events up to this Seq. See the text of the package.
	InThread bool  `json:"in_thread,omitempty"`
	Synced   int64 `json:"synced,omitempty"`
}

// Piece is a piece of an answer that is being streamed.
type Piece struct {
	Content   string `json:"content,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Message   string `json:"message,omitempty"` // ID of the message it is a piece of

	Chunk chat.Chunk `json:"-"` // all of it
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Question is what a thread waits for an answer to.
type Question struct {
	ID     string          `json:"id"`
	Key    string          `json:"key"`
	Node   string          `json:"node"`
	Path   []string        `json:"path,omitempty"`
	When   string          `json:"when"` // "inside" a node, or a breakpoint "before" or "after" it
	Value  json.RawMessage `json:"value,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"` // of the answer
}

func questionOf(i *graph.Interrupted) Question {
	return Question{ID: i.ID, Key: i.Key, Node: i.Node, Path: i.Path, When: i.When, Value: i.Raw, Schema: i.Schema}
}

// ModelExecutionMetadata tells of a call of a model.
type ModelExecutionMetadata struct {
	Node      string         `json:"node"`
	Model     string         `json:"model,omitempty"`
	Input     []chat.Message `json:"input,omitempty"` // all that was sent
	Output    *chat.Message  `json:"output,omitempty"`
	StartTime time.Time      `json:"start_time,omitzero"`
	Duration  time.Duration  `json:"duration,omitempty"`
	Error     string         `json:"error,omitempty"`
}

// ToolExecutionMetadata tells of a call of a tool.
type ToolExecutionMetadata struct {
	Node     string          `json:"node"`
	CallID   string          `json:"call_id"`
	Tool     string          `json:"tool"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   string          `json:"output,omitempty"`   // text
	Artifact json.RawMessage `json:"artifact,omitempty"` // for programs
	Duration time.Duration   `json:"duration,omitempty"`
	Recorded bool            `json:"recorded,omitempty"` // by an earlier attempt; the tool was not called
	Error    string          `json:"error,omitempty"`
}

// Metadata reads the metadata that an event has under a key; false if there are
// none.
func Metadata[T ModelExecutionMetadata | ToolExecutionMetadata](e Event) (T, bool) {
	var m T
	key := KeyModelMetadata
	if _, ok := any(m).(ToolExecutionMetadata); ok {
		key = KeyToolMetadata
	}
	data, ok := e.StateDelta[key]
	return m, ok && json.Unmarshal(data, &m) == nil
}

// Record is an event as it is kept. It is for those who implement a [Service].
type Record struct {
	ID     string
	Time   time.Time
	Synced int64
	Data   []byte // JSON, without Seq
	Delta  Delta
}

// Record sets what the event lacks of ID and Time and returns how it is kept. The
// error is an [ErrInvalid].
func (e *Event) Record() (Record, error) {
	if e == nil {
		return Record{}, fmt.Errorf("%w: the event is nil", ErrInvalid)
	}
	if e.Partial {
		return Record{}, fmt.Errorf("%w: a partial event is not kept", ErrInvalid)
	}
	if e.Kind == "" || e.Author == "" {
		return Record{}, fmt.Errorf("%w: an event needs a Kind and an Author", ErrInvalid)
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	if err := checkName("event ID", e.ID); err != nil {
		return Record{}, err
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if m := e.Message; m != nil && m.ID == "" {
		c := *m
		c.ID = "msg_" + e.ID // so that it is one message, wherever it is put
		e.Message = &c
	}
	d, err := DeltaOf(e.StateDelta)
	if err != nil {
		return Record{}, err
	}
	kept := *e
	kept.Seq = 0
	kept.StateDelta = maps.Clone(e.StateDelta)
	maps.DeleteFunc(kept.StateDelta, func(k string, _ json.RawMessage) bool { return strings.HasPrefix(k, ScopeTemp) })
	for k, v := range kept.StateDelta {
		if len(trim(v)) == 0 {
			kept.StateDelta[k] = nil // which JSON has a form for
		}
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return Record{}, fmt.Errorf("%w: event: %w", ErrInvalid, err)
	}
	if !json.Valid(data) { // what was almost too deep is now
		return Record{}, fmt.Errorf("%w: event: its JSON is too deep to be read again", ErrInvalid)
	}
	return Record{ID: e.ID, Time: e.Time, Synced: e.Synced, Data: data, Delta: d}, nil
}

// EventOf reads an event that was kept: the reverse of [Event.Record].
func EventOf(seq int64, data []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("event %d of a session: %w", seq, err)
	}
	e.Seq = seq
	return e, nil
}
