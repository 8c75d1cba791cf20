package core

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// RecentNodes is how many node names a record remembers.
const RecentNodes = 20

// recentRoom is how many names are put into one piece of memory, so that the
// names that go over into the next piece are copied rarely. Whoever holds some
// of them keeps the whole piece alive.
const recentRoom = 128

// Config is what a machine needs to know of the run.
type Config struct {
	Plan   *plan.Graph
	Values Values

	// Persist says that records are wanted; without it Ready.Write is nil
	// and no change is encoded.
	Persist  bool
	Log      checkpoint.Log
	Run      checkpoint.ID // of the run: a UUID whose last four bytes are zero
	Version  int           // of the state's schema
	Metadata map[string]string
	Caller   checkpoint.ThreadID // waits for the end of turns that an input begins

	// Shared says that the run is driven by one machine after another, on a thread
	// whose records may be of it already: they are numbered on.
	Shared bool

	Limits

	NoSnapshots bool // records hold changes only

	// First returns the question with which a node begins that is given a state, without
	// an ID; nil: it begins with none. Nil is for graphs whose nodes don't.
	First func(node int, state State) *checkpoint.Question

	Before, After []bool // breakpoints of this run by node, beside the plan's

	Reuse *Machine // what Machine.Clear has returned; nil: there is none
}

// Limits bound a run.
type Limits struct {
	MaxSteps    int  // supersteps since the last input; 0: no limit
	MaxTasks    int  // tasks since the last input; 0: no limit
	CycleWindow int  // tasks in which a node may not recur without progress; 0: off
	CycleStrict bool // a node may not recur at all
}

// Status is where a task stands: it follows from what is known of it.
type Status = checkpoint.Status

// The states of a task.
const (
	Waiting     = checkpoint.StatusWaiting
	Held        = checkpoint.StatusHeld
	Running     = checkpoint.StatusRunning
	Changed     = checkpoint.StatusRouting
	Done        = checkpoint.StatusDone
	Failed      = checkpoint.StatusFailed
	Interrupted = checkpoint.StatusInterrupted
)

// Task is a planned execution of a node in the open superstep.
type Task struct {
	Index   int // in the plan
	Node    int
	From    int             // node that caused it, or plan.FromStart
	Gen     int             // how often its results were voided
	Raw     json.RawMessage // payload of a send
	Overlay json.RawMessage // update seen by this task alone

	Err       error               // of this run
	ErrText   string              // of the last attempt that came to an end
	Failure   *checkpoint.Failure // of attempts of the node; never altered
	Questions []checkpoint.Question
	Children  map[string]checkpoint.ID // records at which subgraphs stand, until the node has finished

	// The small ones stand together: a fan-out has a hundred thousand tasks.
	Sent    bool
	Cached  bool // its changes came from a cache
	running bool // it was started and has not ended
	passed  bool // the breakpoint before it
	ran     bool // its node has succeeded, whether it wrote something or not
	cut     bool // it has ended before it had asked all that it would
	folded  bool // its changes are in the state already
	added   bool // not planned: an edit stood in for the node
	saved   saved

	changes Changes
	data    json.RawMessage
	routing *Routing                 // where it leads that is Done, else nil; never altered
	kept    map[string]checkpoint.ID // records at which subgraphs stand that keep their state
	began   int64                    // as End has it
	took    int64
	first   bool // it began with a question, in this run
}

// saved says what of a task a Write has held: its changes and its routing, how else it
// stands (a result or a record), and its questions in a record.
type saved struct{ changes, routing, open, asked bool }

// Changes returns what the task wrote, nil if nothing or not known.
func (t *Task) Changes() Changes { return t.changes }

// Data returns the encoded form of what the task wrote.
func (t *Task) Data() json.RawMessage { return t.data }

// Ran reports whether the task's node has succeeded, also if it isn't known yet where
// it leads.
func (t *Task) Ran() bool { return t.ran || t.routing != nil }

// Saved reports whether a Write has held what a task has come to that has finished.
func (t *Task) Saved() bool { return t.folded || t.saved.changes && t.saved.routing }

// First reports whether the task began with a question, without being run, in this run.
func (t *Task) First() bool { return t.first }

// Runs reports whether the task was started and has not ended.
func (t *Task) Runs() bool { return t.running }

// Startable reports whether the task can be run: it waits to be, or to be routed, or an
// earlier run has left it failed.
func (t *Task) Startable() bool {
	return !t.running && t.routing == nil && t.Err == nil && (t.cut || !t.asks())
}

// Status returns where the task stands.
func (t *Task) Status() Status {
	switch {
	case !t.running:
		return checkpoint.StatusOf(t.Questions, t.cut, t.ran, t.routing != nil, t.failed())
	case t.ran:
		return Changed
	}
	return Running
}

func (t *Task) failed() bool { return t.Err != nil || t.ErrText != "" }

// Pass lets the task run that is Held.
func (t *Task) Pass() { t.passed, t.Questions = true, nil }

// Folded reports whether an edit has folded what the task wrote: Changes and Data are
// nil then.
func (t *Task) Folded() bool { return t.folded }

// Routing returns where a task leads that is Done.
func (t *Task) Routing() *Routing { return t.routing }

// Most tasks share it. Nobody alters it.
var along = Routing{Static: true}

// isAlong reports whether r is along.
func (r *Routing) isAlong() bool {
	return r.Static && !r.Stop && len(r.Goto) == 0 && len(r.Sends) == 0 && r.Parent == nil
}

// Unanswered returns the questions that wait for an answer.
func (t *Task) Unanswered() []checkpoint.Question {
	answered := func(q checkpoint.Question) bool { return q.Answered }
	if !slices.ContainsFunc(t.Questions, answered) {
		return slices.Clip(t.Questions)
	}
	return slices.DeleteFunc(slices.Clone(t.Questions), answered)
}

// Most tasks have no questions, and this is asked of all of them.
func (t *Task) asks() bool { return len(t.Questions) > 0 && checkpoint.Asks(t.Questions) }

// Routing is where a task leads when it has ended.
type Routing struct {
	Static bool // along the static edges of its node
	Stop   bool // the run ends with this superstep
	Goto   []int
	Sends  []Send
	Parent *checkpoint.Routing // in the containing graph, by name
}

// Send is a task planned by another.
type Send struct {
	Node    int
	Raw     json.RawMessage // payload
	Overlay json.RawMessage
}

// Ready holds the effects that the machine wants. The fields say in which order
// they must happen.
type Ready struct {
	// Cancel asks to cancel the contexts of all running tasks, first of all.
	Cancel bool

	// Write must be stored BEFORE anything below is done. It is valid until the next
	// Ready, unlike what it refers to.
	Write *checkpoint.Write

	// Commit describes the superstep that Write commits; shown AFTER Write.
	Commit *Commit

	// Start lists the tasks to start AFTER Write and Advance.
	Start []int

	// Done says that the run is over; see Machine.Outcome.
	Done bool
}

// Commit describes a superstep that was committed.
type Commit struct {
	Step  int
	Tasks []Task // what was committed, valid until Advance
}

// Machine is the step machine of one run. It is not safe for concurrent use.
type Machine struct {
	cfg  Config
	base State

	course
	superstep
	failed bool // a task failed; the others are being cancelled
	cancel bool // which is to be asked for

	children map[string]checkpoint.ID
	caller   checkpoint.ThreadID // see Record.Caller
	loaded   []checkpoint.Result // of the superstep that was open, for a fork

	to    successors
	codec codec
	tail  tail

	commit  Commit
	foldBuf []Changes
	outcome Outcome
	drain   bool
	flush   bool

	// Where the slices begin: in most supersteps one task runs.
	first struct {
		tasks      [2]Task
		start, end [1]int
		fold       [1]Changes
		next       [2]triggered
	}
}

// Outcome says how a run ended.
type Outcome struct {
	Err    error               // of the machine: a limit, a conflict, an incomplete join
	Parent *checkpoint.Routing // where the containing graph goes on
}

// New returns a machine for a thread that has no records, with a zero state.
func New(cfg Config) *Machine {
	m := cfg.Reuse
	if m == nil {
		m = new(Machine)
	}
	cfg.Reuse = nil
	m.cfg = cfg
	m.base = cfg.Values.New()
	m.guard.init(len(cfg.Plan.Nodes))
	m.to = newSuccessors(cfg.Plan, m.to.marked)
	m.tasks, m.spare = m.first.tasks[:0:1], m.first.tasks[1:1:2]
	m.start, m.ended, m.foldBuf, m.to.next = m.first.start[:0], m.first.end[:0], m.first.fold[:0], m.first.next[:0]
	m.tail.codec, m.codec.Config = &m.codec, &m.cfg
	return m
}

// Clear returns the machine as room for another one of its graph. Nobody may use it
// any more, nor a Ready or a task of it.
func (m *Machine) Clear() *Machine {
	seen, marked, to := m.guard.seen, m.to.marked, m.codec.to
	clear(seen)
	clear(marked)
	*m = Machine{}
	m.guard.seen, m.to.marked, m.codec.to = seen, marked, to
	return m
}

// State returns the committed state. It must not be written to, and it is
// valid until the next call of a method that folds changes.
func (m *Machine) State() State { return m.base }

// Step returns the number of supersteps committed on the thread's line.
func (m *Machine) Step() int { return m.step }

// Ran returns the number of supersteps run since the last input.
func (m *Machine) Ran() int { return m.step - m.begun }

// Tasks returns the tasks of the open superstep in plan order.
func (m *Machine) Tasks() []Task { return m.tasks }

// Task returns a task of the open superstep.
func (m *Machine) Task(i int) *Task { return &m.tasks[i] }

// Paused returns the breakpoints after nodes that hold the planned tasks.
func (m *Machine) Paused() []checkpoint.Pause { return m.paused }

// Recent returns the names of the nodes run last in the turn, newest last.
func (m *Machine) Recent() []string { return m.recent }

// Children returns the record of each subgraph that keeps its state.
func (m *Machine) Children() map[string]checkpoint.ID { return m.children }

// Caller returns the thread that waits for the end of the turn, if one does.
func (m *Machine) Caller() checkpoint.ThreadID { return m.caller }

// Outcome says how the run ended, after a Ready with Done.
func (m *Machine) Outcome() Outcome { return m.outcome }

// Epoch returns the record that planned the open superstep.
func (m *Machine) Epoch() checkpoint.ID { return m.tail.epoch }

// Branch returns the branch that the next record belongs to.
func (m *Machine) Branch() checkpoint.Branch { return m.tail.branch }

// Head returns the newest record of this line.
func (m *Machine) Head() checkpoint.ID { return m.tail.head }

// Pending reports whether a superstep is open: tasks are planned or a
// breakpoint waits to be passed.
func (m *Machine) Pending() bool { return len(m.tasks) > 0 || len(m.paused) > 0 }

// Left is what stays of an open superstep that an input gives up: what its finished
// tasks wrote, and then an edit. One record holds that and the input.
type Left struct{ Edit Changes }

// Seen returns the state on which the input is made, to be read only.
func (l *Left) Seen(m *Machine) (v State, err error) {
	if v = m.Shown(); l.Edit != nil {
		v, _, err = m.cfg.Values.Fold(m.cfg.Values.Fork(v), []Changes{l.Edit}, Given)
	}
	return v, err
}

// fold folds it and returns the parts of the record.
func (l *Left) fold(m *Machine) (parts []checkpoint.Change, err error) {
	if parts, err = m.foldFinished(); err == nil {
		parts, err = m.give(parts, "", 0, l.Edit)
	}
	return parts, err
}

// Input starts a turn: it folds an input and goes where routing says, Static
// meaning the graph's entry. Tasks that are pending are abandoned, but for what is left
// of them, if that isn't nil.
func (m *Machine) Input(source checkpoint.Source, left *Left, changes Changes, r Routing) error {
	if !m.Pending() { // else the turn that is waited for begins anew
		m.caller = m.cfg.Caller
	}
	var parts []checkpoint.Change
	if left != nil {
		var err error
		if parts, err = left.fold(m); err != nil {
			return err
		}
	}
	if len(m.tasks) > 0 {
		m.base = m.cfg.Values.Ahead(m.base)
	}
	before := len(parts)
	parts, err := m.give(parts, "", 0, changes)
	if err != nil {
		return err
	}
	m.begin()
	m.recent = nil // those of the turn before are of no use to this one
	drop := m.tail.dropOpen()
	m.paused = nil
	m.tasks = m.to.begin(&r, m.tasks[:0])
	if !m.cfg.Persist {
		return nil
	}
	led := m.tail.led(&r, !r.Stop && m.to.parent == nil)
	if len(parts) == before && (before > 0 || led != nil) {
		parts = append(parts, checkpoint.Change{})
	}
	if led != nil {
		parts[before].Routing = led
	}
	if err := m.newEpoch(source, parts); err != nil {
		return err
	}
	m.tail.writes.Drop = drop
	return nil
}

// begin notes that something was given from outside: limits are counted anew,
// and what an earlier run of this machine ended with is over.
func (m *Machine) begin() {
	m.course.begin()
	m.failed, m.outcome = false, Outcome{}
}

// Update folds an edit from outside into the open superstep, or into a thread
// that has ended. With node (not negative) it counts as that node's output: it
// completes a task of the node that is not done, that one or, if it is negative, the
// first there is, and routing says where it leads.
func (m *Machine) Update(source checkpoint.Source, changes Changes, node, task int, r Routing) error {
	// Finished siblings come first: nothing they did is lost.
	i := task
	if i < 0 {
		i = m.pendingOf(node)
	}
	parts, err := m.foldFinished()
	if err != nil {
		return err
	}
	name, done := "", max(i, 0)
	if node >= 0 {
		if name = m.cfg.Plan.NameOf(node); i < 0 {
			done = len(m.tasks)
		}
	}
	if parts, err = m.give(parts, name, done, changes); err != nil {
		return err
	}
	m.begin()
	if node >= 0 {
		if i < 0 {
			r = m.to.standIn(node, r, m.waits)
		}
		m.standIn(done, node, r)
	}
	return m.record(source, parts)
}

// foldFinished folds, before an edit is, what tasks of the open superstep wrote whose
// nodes have finished, also if it isn't known yet where they lead. A task whose
// changes conflict with those of an earlier one is voided, as it would have been at
// the superstep's end.
func (m *Machine) foldFinished() ([]checkpoint.Change, error) {
	_, late := m.merge()
	for i, why := range late {
		m.tasks[i].void(why.Error())
	}
	var parts []checkpoint.Change
	var cs []Changes
	for i := range m.tasks {
		t := &m.tasks[i]
		if t.folded || !t.Ran() {
			continue
		}
		if t.changes != nil {
			cs = append(cs, t.changes)
		}
		// One that wrote nothing is there too: it says that the node ran.
		parts = append(parts, checkpoint.Change{Node: m.cfg.Plan.NameOf(t.Node), Task: i, Data: t.data})
		m.grew(t.changes)
		t.folded, t.changes, t.data = true, nil, nil
	}
	return parts, m.fold(Written, cs...)
}

// written lists the tasks whose changes wait to be folded, and these.
func (m *Machine) written() (tasks []int, cs []Changes) {
	for i := range m.tasks {
		if t := &m.tasks[i]; t.changes != nil && t.Ran() {
			tasks, cs = append(tasks, i), append(cs, t.changes)
		}
	}
	return tasks, cs
}

// Merged returns a copy of the state with what tasks of the open superstep have
// written so far. What can't be merged is left out.
func (m *Machine) Merged() State {
	v, _ := m.merge()
	if v == m.base {
		v = m.cfg.Values.Fork(v)
	}
	return v
}

// Shown is Merged to be read only, until the machine is given something: an edit is made
// on it.
func (m *Machine) Shown() State {
	v, _ := m.merge()
	return v
}

// merge is Shown; late are the tasks whose changes can't be merged, and why.
func (m *Machine) merge() (v State, late map[int]error) {
	v = m.cfg.Values.Ahead(m.base)
	tasks, cs := m.written()
	if len(tasks) > 0 {
		v = m.cfg.Values.Fork(v)
	}
	for len(tasks) > 0 {
		next, _, err := m.cfg.Values.Fold(v, cs, Given)
		if err == nil {
			return next, late
		}
		k := blame(err, tasks)
		if k < 0 {
			break
		}
		if late == nil {
			late = map[int]error{}
		}
		late[tasks[k]] = m.conflict(err, tasks)
		tasks, cs = slices.Delete(tasks, k, k+1), slices.Delete(cs, k, k+1)
		v = m.cfg.Values.Fork(m.cfg.Values.Ahead(m.base)) // a failed reducer may have spoiled it
	}
	return v, late
}

// fold applies changes to the state while the superstep is open.
func (m *Machine) fold(when When, cs ...Changes) error {
	if len(cs) == 0 || len(cs) == 1 && cs[0] == nil {
		return nil
	}
	next, d, err := m.cfg.Values.Fold(m.base, cs, when)
	if err != nil {
		return err
	}
	m.base = next
	m.guard.digest += d
	return nil
}

// Continue lets pending tasks run again: failed ones are retried and, if pass says so,
// breakpoints before tasks and after nodes are passed. It writes a record only if there is
// something to say.
func (m *Machine) Continue(pass bool) error {
	passed := pass && len(m.paused) > 0
	if pass {
		m.paused = nil
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		switch t.Status() {
		case Held:
			if pass {
				t.Pass()
				passed = true
			}
			continue
		case Failed:
			t.retry()
		}
		if !pass || !t.asks() {
			continue
		}
		t.Questions = slices.Clone(t.Questions)
		for k := range t.Questions { // breakpoints inside a subgraph
			if q := &t.Questions[k]; q.When != "inside" && !q.Answered {
				q.Answered = true
				passed = true
			}
		}
	}
	m.failed, m.outcome = false, Outcome{}
	if !passed {
		return nil
	}
	m.begin()
	return m.record(checkpoint.SourceResume, nil)
}

// retry makes a failed task one that is run (or routed) again.
func (t *Task) retry() { t.Err, t.saved.open = nil, false }

// Answer answers questions, by ID, folds an update, and passes breakpoints if
// it answers them. It panics on unknown IDs: the shell checks them.
func (m *Machine) Answer(answers map[string]json.RawMessage, changes Changes) error {
	var parts []checkpoint.Change
	if changes != nil { // as in Update
		var err error
		if parts, err = m.foldFinished(); err != nil {
			return err
		}
		if parts, err = m.give(parts, "", 0, changes); err != nil {
			return err
		}
	}
	m.begin()
	m.paused = slices.DeleteFunc(m.paused, func(p checkpoint.Pause) bool { _, ok := answers[p.ID]; return ok })
	for i := range m.tasks {
		t := &m.tasks[i]
		was := t.Status()
		t.Questions = slices.Clone(t.Questions)
		for k := range t.Questions {
			q := &t.Questions[k]
			if a, ok := answers[q.ID]; ok {
				q.Answer, q.Answered = a, true
				q.Expired = a == nil && (q.Wait || !q.Due.IsZero())
			}
		}
		switch {
		case was == Held && !t.asks():
			t.Pass()
		case was == Failed:
			t.retry()
		}
	}
	return m.record(checkpoint.SourceResume, parts)
}

// Consume removes results with the record that is written next.
func (m *Machine) Consume(keys []checkpoint.ResultKey) {
	m.tail.writes.Remove = append(m.tail.writes.Remove, keys...)
}

// Restart gives up all results of the open superstep, so that all its tasks
// run again.
func (m *Machine) Restart() error {
	for i := range m.tasks {
		if t := &m.tasks[i]; !t.folded {
			t.void("")
		}
	}
	m.paused = nil
	m.failed, m.outcome = false, Outcome{}
	return m.record(checkpoint.SourceVoid, nil)
}

// void gives up what the task has come to.
func (t *Task) void(text string) {
	t.Gen++
	t.Err, t.ErrText = nil, text
	t.changes, t.data, t.Questions, t.Children, t.kept = nil, nil, nil, nil, nil
	t.running, t.ran, t.cut, t.routing, t.saved, t.Failure, t.first = false, false, false, nil, saved{}, nil, false
}

// Calls is what a task's node has asked and called, in this execution and those before.
type Calls struct {
	Questions []checkpoint.Question
	Children  map[string]checkpoint.ID // records at which the subgraphs stand that it has called, by namespace
	Kept      map[string]checkpoint.ID // the same for finished ones that keep their state
}

// End is how an execution of a task ended. The machine keeps what it refers to.
type End struct {
	// Ran says that the task's node has succeeded, now or before. Data is what
	// Values.Encode returned for its changes, not needed without persistence.
	Ran     bool
	Changes Changes
	Data    json.RawMessage

	// Routing is where the task leads when it has finished: Err is nil. It may be
	// shared with other tasks: nobody may alter it any more.
	Routing *Routing

	// Err is why the task has failed: its node or, if that ran, its router. If it was
	// Cancelled it has neither failed nor finished, and runs again when the run is
	// continued. A task that Asks waits for answers; with Err a subgraph of it has
	// failed or was cancelled, and it runs again whether they are given or not.
	Err             error
	Cancelled, Asks bool

	Calls   *Calls              // nil: the node was not called, or has called nothing
	Failure *checkpoint.Failure // if attempts have failed
	Cached  bool                // the changes came from a cache

	Began int64 // when the task's execution began, in microseconds since 1970; 0: not measured
	Took  int64 // how long it took, in nanoseconds
}

// Ended reports how a task ended that was started.
func (m *Machine) Ended(i int, e *End) {
	t := &m.tasks[i]
	m.ended = append(m.ended, i)
	m.alive--
	t.running = false
	if e.Began != 0 {
		t.began, t.took = e.Began, e.Took
	}
	if e.Failure != nil {
		t.Failure = e.Failure
	}
	t.Cached = t.Cached || e.Cached
	switch {
	case e.Ran && !t.ran:
		t.changes, t.data, t.Children = e.Changes, e.Data, nil
		if t.ran = true; e.Calls != nil && len(e.Calls.Kept) > 0 {
			t.kept, t.saved.open = e.Calls.Kept, false
		}
	case !e.Ran && e.Calls != nil:
		t.Children, t.saved.open = e.Calls.Children, false
	}
	if e.Asks {
		t.Err, t.ErrText, t.Questions, t.cut = nil, "", e.Calls.Questions, e.Err != nil
		t.saved.open, t.saved.asked = false, false
	}
	switch {
	case e.Err == nil && !e.Asks:
		t.routing, t.Err, t.ErrText = e.Routing, nil, ""
	case e.Err == nil:
	case e.Cancelled:
		m.failed = true // nothing more is started
	default:
		t.Err, t.ErrText, t.saved.open = e.Err, e.Err.Error(), false
		m.cancel = m.cancel || !m.failed
		m.failed = true
	}
}

// MoveChild says that a subgraph was edited where it stood, at one of some records: a
// task that waits for it goes on there, and the next run of one that keeps its state
// begins there.
func (m *Machine) MoveChild(namespace string, from []checkpoint.ID, to checkpoint.ID) error {
	stood := func(at map[string]checkpoint.ID) bool { return slices.Contains(from, at[namespace]) }
	move := func(at map[string]checkpoint.ID) map[string]checkpoint.ID {
		at = maps.Clone(at) // a record may hold the old one
		at[namespace] = to
		return at
	}
	moved := stood(m.children)
	if moved {
		m.children = move(m.children)
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		if stood(t.Children) {
			moved, t.Children = true, move(t.Children)
		}
		if stood(t.kept) {
			moved, t.kept = true, move(t.kept)
		}
	}
	if !moved {
		return nil
	}
	return m.record(checkpoint.SourceInside, nil)
}

// Abort says that nothing more is to be started: the run ends when the running
// tasks have ended, with their results kept.
func (m *Machine) Abort() {
	m.failed, m.cancel = true, true
}

// Run marks tasks as started, for a shell that runs some tasks of a superstep
// and doesn't drive it.
func (m *Machine) Run(tasks []int) {
	for _, i := range tasks {
		m.tasks[i].running = true
	}
	m.alive += len(tasks)
}

// Results returns what ended tasks left that no Write held yet, for such a
// shell; nil if there is nothing.
func (m *Machine) Results() *checkpoint.Write {
	m.saveEnded()
	return m.tail.takeWrite()
}

// CountTasks counts the tasks of the open superstep as run, for such a shell: others
// than this machine have started them.
func (m *Machine) CountTasks() {
	for i := range m.tasks {
		if s := m.tasks[i].Status(); !m.tasks[i].added && s != Waiting && s != Held {
			m.ran++
		}
	}
}

// SetMetadata replaces the metadata of the records to come.
func (m *Machine) SetMetadata(md map[string]string) { m.cfg.Metadata = md }

// Orphan makes the first record of a new machine start a line of its own in a
// log that has records already.
func (m *Machine) Orphan(logHead checkpoint.ID) {
	m.tail.logHead, m.tail.fork = logHead, true
}

// Abandon takes back that tasks were to be started.
func (m *Machine) Abandon(tasks []int) {
	for _, i := range tasks {
		m.tasks[i].running = false
	}
	m.alive = 0
	m.ran -= len(tasks)
}

// Drain says that the run ends at the next superstep's beginning.
func (m *Machine) Drain() { m.drain = true }

// Flush is Drain for a machine that starts nothing: what has finished is committed
// and recorded, and it is no run that would end.
func (m *Machine) Flush() { m.drain, m.flush = true, true }

// Advance says that the effects of the last Ready have happened.
func (m *Machine) Advance() { m.commit = Commit{} }

// Ready returns what has to happen next. Done is set when the run is over.
func (m *Machine) Ready() (rd Ready) {
	rd.Cancel, m.cancel = m.cancel, false
	switch {
	case m.tail.writes.Record != nil || len(m.tail.backlog) > 0:
		// An input, answers or an edit: stored before anything is decided.
	case m.alive > 0:
		m.saveEnded()
	default:
		m.ended = m.ended[:0]
		m.turn(&rd)
	}
	rd.Write = m.tail.takeWrite()
	return rd
}

// turn decides what follows when no task is running.
func (m *Machine) turn(rd *Ready) {
	if m.complete() {
		if err := m.close(); err != nil {
			m.outcome.Err = err
			rd.Done = true
			return
		}
		rd.Commit = &m.commit
	}
	switch start := m.startable(); {
	case len(m.tasks) == 0 && len(m.paused) == 0:
		rd.Done = true
		m.outcome.Parent = m.to.parent
		if !m.flush {
			m.outcome.Err = m.Incomplete()
		}
	case m.failed || m.drain || len(m.paused) > 0 || len(start) == 0:
		rd.Done = true
		m.saveSettled()
	default:
		if m.tail.fork && m.cfg.Persist { // results belong to the new branch
			if m.outcome.Err = m.record(checkpoint.SourceFork, nil); m.outcome.Err != nil {
				rd.Done = true
			}
			return
		}
		if m.outcome.Err = m.allowed(&m.cfg, m.tasks, start); m.outcome.Err != nil {
			rd.Done = true
			m.saveSettled()
			return
		}
		m.Run(start)
		m.ran += len(start)
		rd.Start = start
	}
}

// close folds the superstep's changes, plans the next and records both.
func (m *Machine) close() error {
	m.loaded = nil // no fork comes any more
	cs := slices.Grow(m.foldBuf[:0], len(m.tasks))
	for i := range m.tasks {
		if t := &m.tasks[i]; t.changes != nil {
			cs = append(cs, t.changes)
		}
	}
	m.foldBuf = cs
	next, d, err := m.cfg.Values.Fold(m.base, cs, Committed)
	if err != nil {
		clear(cs)
		tasks, _ := m.written()
		return m.voidConflict(err, tasks)
	}
	clear(cs)
	m.base = next
	m.guard.digest += d
	m.step++

	done := m.tasks
	stop := false
	for i := range done {
		t := &done[i]
		if len(done)-i <= RecentNodes {
			m.remember(m.cfg.Plan.Nodes[t.Node].Name)
		}
		stop = stop || t.Routing().Stop
		m.setChildren(t.kept)
	}
	after := m.pauses(done)
	m.tasks, m.spare = m.spare[:0], nil
	var sent bool
	m.tasks, sent = m.to.follow(done, stop, m.tasks)
	m.paused = after
	m.commit = Commit{Step: m.step, Tasks: done}
	if m.cfg.Persist {
		if err := m.recordStep(done, sent); err != nil {
			return err
		}
	}
	m.spare = done
	return nil
}

// voidConflict commits the failure of a fold: the later task's results are
// void and the task has failed. Tasks are those whose changes were folded.
func (m *Machine) voidConflict(err error, tasks []int) error {
	late := blame(err, tasks)
	if late < 0 {
		return err
	}
	conflict := m.conflict(err, tasks)
	t := &m.tasks[tasks[late]]
	t.void(conflict.Error())
	t.Err = conflict
	if err := m.record(checkpoint.SourceVoid, nil); err != nil {
		return err
	}
	m.saveFinished() // what the others did is recorded together with the failure
	return conflict
}

// blame returns the position in tasks of the one whose changes made a fold fail,
// -1 if it was none of them.
func blame(err error, tasks []int) int {
	var fe *FoldError
	if !errors.As(err, &fe) || fe.Index < 0 || fe.Index >= len(tasks) {
		return -1
	}
	return fe.Index
}

func (m *Machine) conflict(err error, tasks []int) *ConflictError {
	var fe *FoldError
	errors.As(err, &fe)
	name := func(k int) string { return m.cfg.Plan.NameOf(m.tasks[tasks[k]].Node) }
	c := &ConflictError{Field: fe.Field, Node: name(fe.Index), Err: fe.Err, Step: m.step + 1}
	if fe.With >= 0 {
		c.With = name(fe.With)
	}
	return c
}

// Incomplete returns a *JoinError if nothing is pending and a join is partly filled:
// what the thread ended with, until an input or an edit says otherwise.
func (m *Machine) Incomplete() error {
	if m.Pending() {
		return nil
	}
	return m.to.incomplete()
}

// setChildren notes where subgraphs that keep their state stand.
func (m *Machine) setChildren(kept map[string]checkpoint.ID) {
	if len(kept) == 0 {
		return
	}
	m.children = maps.Clone(m.children) // records hold the old one
	if m.children == nil {
		m.children = map[string]checkpoint.ID{}
	}
	maps.Copy(m.children, kept)
}
