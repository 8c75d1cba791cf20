package checkpoint

import (
	"encoding/json"
	"fmt"
	"time"
)

// ThreadID names a thread: one conversation, one workflow instance. Any
// non-empty string is valid; back ends store it as it is.
type ThreadID string

// ID identifies one checkpoint of a thread. It is a UUID in its usual text
// form; its last four bytes count the checkpoints that one run wrote, and the
// same UUID with these bytes zero is the run's ID.
type ID string

// Log names one append-only log: a thread's own (Namespace empty or the user's
// choice) or that of a subgraph inside it.
type Log struct {
	Thread    ThreadID
	Namespace string
}

// String returns it as errors name it.
func (l Log) String() string {
	if l.Namespace == "" {
		return fmt.Sprintf("thread %q", string(l.Thread))
	}
	return fmt.Sprintf("thread %q, namespace %q,", string(l.Thread), l.Namespace)
}

// Branch names a line of records within a log: empty for the first one, else
// the ID of the branch's first record. A fork starts a branch; the records
// before the fork are shared, not copied.
type Branch string

// Span says where earlier records of a line stand: the records of Branch up to
// and including sequence number To, after those of the spans before it.
type Span struct {
	Branch Branch `json:"branch,omitempty"`
	To     int64  `json:"to"`
}

// Source says why a record was written.
type Source string

// The sources.
const (
	SourceInput     Source = "input"     // a run was given input
	SourceLoop      Source = "loop"      // a superstep was committed
	SourceInterrupt Source = "interrupt" // tasks of the open superstep wait for answers
	SourceResume    Source = "resume"    // answers were given, or breakpoints passed
	SourceUpdate    Source = "update"    // the state was edited from outside
	SourceFork      Source = "fork"      // a branch was started
	SourceVoid      Source = "void"      // results that cannot be folded were given up
	SourceInside    Source = "inside"    // a subgraph was edited where it stood
)

// Record is one checkpoint: an entry of a thread's log. Records are immutable;
// nobody changes one after it was passed to or returned by a [Store].
//
// The state at a record is the fold of the changes of all records of its line
// up to it, in order. A record that holds a snapshot lets a reader start there.
type Record struct {
	ID     ID     `json:"id"`
	Parent ID     `json:"parent,omitempty"` // the record before it; empty for the first of a log
	Log    Log    `json:"-"`
	Branch Branch `json:"branch,omitempty"`
	Seq    int64  `json:"seq"` // 1 for the first record of a log, else the parent's plus 1

	// Lineage locates the records before the first of this branch, oldest
	// span first. It is nil on the log's first branch and the same in all
	// records of one branch.
	Lineage []Span `json:"lineage,omitempty"`

	// Epoch is the record that planned the superstep that is open after this
	// record. It is the record's own ID when the record planned it: then Tasks
	// holds what was planned.
	Epoch ID `json:"epoch"`

	Step      int       `json:"step"` // supersteps committed on this line, including this record
	Source    Source    `json:"source"`
	CreatedAt time.Time `json:"created_at"` // UTC, stamped by the shell

	// Due is when the clock answers the first of the open questions: the end
	// of a sleep, the deadline of a wait. Zero means never.
	Due time.Time `json:"due,omitzero"`

	Graph   string `json:"graph,omitempty"`   // name of the graph that wrote it
	Version int    `json:"version,omitempty"` // version of the state's schema

	Metadata map[string]string `json:"metadata,omitempty"`

	// Changes are what this record folds into the state, in order.
	Changes  []Change  `json:"changes,omitempty"`
	Snapshot *Snapshot `json:"snapshot,omitempty"`

	// Once are the named sub-steps of the superstep that this record closed, ordered
	// by task and name, with their results if the run was asked to keep them. They
	// are no part of the state: a history tells of them, and a replay reads the results.
	Once []OnceResult `json:"once,omitempty"`

	// Tasks are the tasks that this record planned, in plan order. Only a
	// record that is its own epoch has them; none means that the run is over.
	Tasks []Task `json:"tasks,omitempty"`

	// Open says what is known of tasks of the open superstep beyond their
	// results, in the order of the plan: questions, answers, passed breakpoints,
	// voided or folded results. It is cumulative since the epoch: an empty list in
	// a record that is not its own epoch means that nothing is known. See
	// [TaskStates].
	Open []OpenTask `json:"open,omitempty"`

	// Joins is what is known of joins. Deferred are the deferred nodes that wait for the
	// end of the run.
	Joins    []Arrival `json:"joins,omitempty"`
	Deferred []string  `json:"deferred,omitempty"`

	// Children points to the newest record of each subgraph that keeps its
	// state for the life of the thread, by namespace.
	Children map[string]ID `json:"children,omitempty"`

	// Recent are the nodes run last since the turn's input, newest last (at most 20).
	Recent []string `json:"recent,omitempty"`

	// Paused are the static breakpoints after nodes of the last superstep;
	// while there are any, no planned task starts.
	Paused []Pause `json:"paused,omitempty"`

	// Begun is the step at which the thread was last given something from
	// outside (input, answers, an edit) and Ran the tasks run since: what
	// limits are counted from.
	Begun int `json:"begun,omitempty"`
	Ran   int `json:"ran,omitempty"`

	// Caller is the thread that waits for the end of the turn, if one does: it is to be
	// made due when nothing is pending any more. All records of the turn have it.
	Caller ThreadID `json:"caller,omitempty"`

	// Sealed holds the rest of a record that was encrypted, compressed or put
	// into another form on its way to the store. Such a record has nothing else
	// but where it stands (ID, Parent, Log, Branch, Seq, Lineage, Epoch), Source,
	// CreatedAt and Due.
	Sealed *Sealed `json:"sealed,omitempty"`
}

// Sealed is what a store keeps and need not understand: any bytes, in two parts,
// as [MarshalBody] divides a record. With [Query.Meta] Data is left out.
type Sealed struct {
	Meta []byte `json:"meta,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// Change is the part of a record that one task, an input or an update wrote. Data
// is empty when the task wrote nothing.
//
// A record that commits a superstep says of each of its tasks where it led. Nil is
// along the static edges, also of a task that has no change: an earlier record holds
// what it wrote. Where an input led is said if it is not the graph's entry.
type Change struct {
	Node string          `json:"node,omitempty"` // the node; empty for an input, and where an earlier record holds what it wrote
	Task int             `json:"task,omitempty"` // plan index in the superstep that the record closed
	Data json.RawMessage `json:"data,omitempty"` // field name to update form

	Routing *Routing `json:"routing,omitempty"` // see Record.Led

	// Began and Took are when the task ran that the change is of, in microseconds, the
	// first since 1970. They are measured: of its last execution, with all attempts and
	// their delays; of a task that was alone Began is counted back from the record, which
	// takes fewer bytes. It is zero where it isn't known: of an input, of a task that an
	// edit stood in for, and of one that ended in an earlier run. Failed is how many
	// attempts failed before.
	Began  int64 `json:"began,omitempty"`
	Took   int64 `json:"took,omitempty"`
	Failed int   `json:"failed,omitempty"`
}

// timed reports whether anything is known of when the task ran.
func (c *Change) timed() bool { return c.Began != 0 || c.Took != 0 || c.Failed != 0 }

// Begins reports whether the record starts a turn, and so gives up what was open.
func (r *Record) Begins() bool { return r.Epoch == r.ID && r.Source != SourceLoop }

// Left returns, of a record that starts a turn, the changes that stay of the superstep
// that it gave up: those before its last.
func (r *Record) Left() []Change {
	if len(r.Changes) == 0 || !r.Begins() {
		return nil
	}
	return r.Changes[:len(r.Changes)-1]
}

// Led returns where a task led whose superstep the record committed.
func (r *Record) Led(task int) *Routing {
	sent := 0 // by the tasks before it
	for i := range r.Changes {
		c := &r.Changes[i]
		switch {
		case c.Task == task && c.Routing == nil:
			return &Routing{Static: true}
		case c.Task == task && c.Routing.Sent == 0:
			return c.Routing
		case c.Task == task:
			led := *c.Routing
			led.Sent, led.Sends = 0, r.Tasks[min(sent, len(r.Tasks)):min(sent+c.Routing.Sent, len(r.Tasks))]
			return &led
		case c.Routing != nil:
			sent += c.Routing.Sent
		}
	}
	return &Routing{Static: true}
}

// OnceResult is what a named sub-step of a task came to: Data, or an error if it
// never succeeded. With neither it succeeded, and its result was not kept. One without
// a name is a note of the task: what it said of its work.
type OnceResult struct {
	Task  int             `json:"task"` // plan index in the superstep that the record closed
	Name  string          `json:"name"`
	Data  json.RawMessage `json:"data,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Kept reports whether what the sub-step came to is there.
func (o *OnceResult) Kept() bool { return o.Name != "" && (o.Data != nil || o.Error != "") }

// Snapshot is the whole state as of its record. Growing fields are not
// repeated: for each, Ranges lists the records (first and last sequence number,
// both included) whose changes to that field, folded onto the field's value in
// Values or onto its zero value, give it.
type Snapshot struct {
	Values json.RawMessage       `json:"values"`
	Ranges map[string][][2]int64 `json:"ranges,omitempty"`

	// Full says that the records before are gone: Values hold the growing
	// fields too, and so must the snapshots after it.
	Full bool `json:"full,omitempty"`
}

// Task is one planned execution of a node. Its ID is the epoch together with
// its index in the plan.
type Task struct {
	Node    string          `json:"node"`
	Payload json.RawMessage `json:"payload,omitempty"` // of a send
	Sent    bool            `json:"sent,omitempty"`    // planned by a send
	From    string          `json:"from,omitempty"`    // node that caused it; empty at the start
	Overlay json.RawMessage `json:"overlay,omitempty"` // update seen by this task alone (schema graphs)
}

// OpenTask is what is known of a task of an open superstep: by a record inside the
// superstep, or by what the task has left since, beside the log (see KindOpen). The
// newer of them holds.
type OpenTask struct {
	Task int `json:"task"`

	// After is the number of the line's newest record when a result was written: it
	// is newer than what that record says, and older than what later ones do.
	After int64 `json:"after,omitempty"`

	// Node is set for a task that the epoch did not plan: an edit from
	// outside stood in for the node.
	Node string `json:"node,omitempty"`

	// Gen counts how often the task's results were voided; results of an
	// earlier generation don't count.
	Gen int `json:"gen,omitempty"`

	// Error is that of the task's last attempt, or why its results were voided: the
	// task has failed. Failure is what is known of its attempts that have failed.
	Error   string   `json:"error,omitempty"`
	Failure *Failure `json:"failure,omitempty"`

	// Folded is set when the task's changes are already in the state (an
	// update from outside folded them). Routing is where the task leads; nil if
	// that isn't known yet.
	Folded  bool     `json:"folded,omitempty"`
	Routing *Routing `json:"routing,omitempty"`

	// Passed is set when the breakpoint before the task was passed.
	Passed bool `json:"passed,omitempty"`

	// Questions are all questions the task has raised, answered or not, in
	// the order raised. Cut is set when a task that asks runs again whether they are
	// answered or not: a subgraph of it has failed, or was cancelled.
	Questions []Question `json:"questions,omitempty"`
	Cut       bool       `json:"cut,omitempty"`

	// Children points to the records at which the subgraphs stand that the task has
	// called, by namespace; Kept, once the node has finished, to those of subgraphs
	// that keep their state.
	Children map[string]ID `json:"children,omitempty"`
	Kept     map[string]ID `json:"kept,omitempty"`
}

// Failure is what is known of failed attempts of a task's node.
type Failure struct {
	Attempts int `json:"attempts,omitempty"` // how many

	// Handled is the node's error if its error handler stands in for it: the node
	// itself doesn't run any more. Causes are the types and texts of the errors that
	// it wraps.
	Handled string   `json:"handled,omitempty"`
	Causes  []string `json:"causes,omitempty"`
}

// Question is an interrupt: a question that a task asked.
type Question struct {
	ID       string          `json:"id"`
	Key      string          `json:"key"`
	Scope    string          `json:"scope,omitempty"` // what in the node asked, if that tells several apart
	Node     string          `json:"node"`            // the node that asked
	Path     []string        `json:"path,omitempty"`  // nodes from the root graph down to it, in subgraphs
	When     string          `json:"when"`            // "inside", "before" or "after"
	Value    json.RawMessage `json:"value,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"` // JSON Schema of the answer
	Answer   json.RawMessage `json:"answer,omitempty"` // set when answered
	Answered bool            `json:"answered,omitempty"`

	// Due is when the clock answers if nobody did: then Expired is set and
	// Answer is null. Zero means never.
	Due     time.Time `json:"due,omitzero"`
	Expired bool      `json:"expired,omitempty"`

	// Wait says that nobody is asked: the end of a sleep or an event is waited
	// for. Event names the event.
	Wait  bool   `json:"wait,omitempty"`
	Event string `json:"event,omitempty"`

	// Turn, if not nil, is what is waited for: its end.
	Turn *Turn `json:"turn,omitempty"`
}

// Turn is a turn of a thread, from an input to where nothing is pending any more, by
// the record of its input.
type Turn struct {
	Thread ThreadID `json:"thread"`
	Record ID       `json:"record"`
	Branch Branch   `json:"branch,omitempty"`
	Seq    int64    `json:"seq"`
}

// Arrival is what is known of a join since it fired last.
type Arrival struct {
	Join      string   `json:"join"`                // its sources and target
	Sources   []string `json:"sources,omitempty"`   // that have arrived
	Elsewhere []string `json:"elsewhere,omitempty"` // that have run and were led elsewhere
	Fired     bool     `json:"fired,omitempty"`     // for a node that is planned or deferred
}

// Pause is a static breakpoint after a node that holds the planned tasks.
type Pause struct {
	ID   string `json:"id"`
	Node string `json:"node"`
}

// Routing is where a finished task leads.
type Routing struct {
	Goto  []string `json:"goto,omitempty"` // node names; "__end__" ends
	Sends []Task   `json:"sends,omitempty"`
	// Sent stands for Sends in a record that planned them: it is how many of the
	// record's first tasks are the task's, after those of the tasks before it.
	Sent int `json:"sent,omitempty"`
	// Static is set when the task follows its static edges, Stop when it
	// ends the run.
	Static bool `json:"static,omitempty"`
	Stop   bool `json:"stop,omitempty"`
	// Parent are destinations in the graph that contains this one.
	Parent *Routing `json:"parent,omitempty"`
}

// ResultKind says what a [Result] holds.
type ResultKind string

// The kinds of results of a task. Changes and routing complete it.
const (
	KindChanges ResultKind = "changes" // what the task wrote, encoded
	KindRouting ResultKind = "routing" // where it leads: a Routing
	KindOnce    ResultKind = "once"    // result of a named sub-step
	KindOpen    ResultKind = "open"    // how it stands: an OpenTask
	KindEvent   ResultKind = "event"   // an event that nobody has waited for yet
	KindFailed  ResultKind = "failed"  // why a run failed, for the thread that waits for its end: a Failure
	KindNote    ResultKind = "note"    // something that it says of its work, until a record has it
	KindPart    ResultKind = "part"    // a part of what notes say, that others may share
)

// EventsEpoch is the epoch of results that belong to no superstep: the events
// (KindEvent) of a thread that nobody has waited for yet.
const EventsEpoch ID = "events"

// PartsEpoch is that of a thread's parts (KindPart), which belong to no superstep either.
const PartsEpoch ID = "parts"

// Result is something a task of the open superstep left beside the log. It is
// keyed by branch, epoch, task, generation, kind and name within its log.
type Result struct {
	Branch Branch          `json:"branch,omitempty"`
	Epoch  ID              `json:"epoch"`
	Task   int             `json:"task"`
	Gen    int             `json:"gen,omitempty"`
	Kind   ResultKind      `json:"kind"`
	Name   string          `json:"name,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`

	// Replace makes the newest write win. Without it the first write wins and
	// later ones are ignored.
	Replace bool `json:"replace,omitempty"`
}
