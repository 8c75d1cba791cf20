package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
)

// MetaTask is the metadata key that says which task of the containing graph a
// subgraph's record belongs to.
const MetaTask = "superstep.task"

// Call describes a call of a subgraph from a node.
type Call struct {
	Program *Program
	Key     string // tells several calls of one task apart
	Keep    bool   // the subgraph's state lives as long as the thread
	Options Options
	Input   func(state any) error

	// Seed, if not nil, is the state that the subgraph begins with. It isn't
	// recorded: the log holds what the subgraph wrote.
	Seed any
}

// Called is a finished call.
type Called struct {
	State  any
	Parent *Command  // where the subgraph wants the containing graph to go
	Wrote  []Written // what it wrote, in order, when it was seeded
}

// seeded are values that begin with a given state.
type seeded struct {
	core.Values
	seed any
}

// From returns the program with states that begin with seed.
func (p *Program) From(seed any) *Program {
	c := *p
	c.Values = seeded{p.Values, p.Values.Fork(seed)}
	return &c
}

func (v seeded) New() any { return v.Fork(v.seed) }

// Subgraph runs a graph inside the task. Its log stands under the task's own,
// so that a run that was interrupted or killed goes on where it was. While the
// subgraph waits for answers, so does the task.
func (t *Task) Subgraph(ctx context.Context, call Call) (_ *Called, err error) {
	s := t.s
	if !utf8.ValidString(call.Key) {
		return nil, &CallError{Call: "Call", Node: t.node.Name, Key: call.Key, Reason: notUTF8}
	}
	if s.o.Tape != nil {
		call.Program = quiet(call.Program)
	}
	if scope := scopeOf(ctx); scope != "" {
		call.Key = keyOfScope(scope) + call.Key
	}
	ns, err := t.callNamespace(ctx, &call)
	if err != nil {
		return nil, err
	}
	if call.Seed != nil {
		call.Program = call.Program.From(call.Seed)
		call.Options.NoSnapshots = true
		call.Options.collect = true
	}
	if err := t.over(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	again := t.talking().nth("called", ns) > 1
	t.mu.Unlock()
	if again {
		return nil, fmt.Errorf("node %q calls subgraph %q twice in one execution: give each call its own key", t.node.Name, call.Program.Plan.Name)
	}
	if call.Keep {
		if other, ok := s.claims.claim(s.m, ns, t.index()); !ok {
			return nil, fmt.Errorf("subgraph %q keeps its state for the thread and was called twice in one superstep (tasks %d and %d of node %q): its memory can't follow both", call.Program.Plan.Name, other, t.index(), t.node.Name)
		}
	}
	o := call.Options
	o.Store, o.Bus, o.Trace, o.Deps, o.Drain, o.Limit = s.o.Store, s.o.Bus, s.o.Trace, s.o.Deps, s.o.Drain, s.o.Limit
	if call.Options.Deps != nil {
		o.Deps = call.Options.Deps
	}
	if call.Seed == nil { // else its log alone doesn't say what its state is
		o.Kept, o.KeepMax = s.o.Kept, s.o.KeepMax
	}
	o.SaveTimeout, o.Durability, o.RecordOnce = s.o.SaveTimeout, s.o.Durability, s.o.RecordOnce
	o.Log = checkpoint.Log{Thread: s.o.Log.Thread, Namespace: ns}
	o.parent, o.address = t, t.s.o.address
	if t.s.o.parent != nil {
		o.address = t.address()
	}
	o.address += "/" + url.QueryEscape(call.Key)
	o.Check = o.Check || t.s.o.Check // what a run is checked for holds for all of it
	o.path, o.tags = s.o.childPath(t.node), tagsOf(s.o.tags, t.node)
	o.within = append(slices.Clip(s.o.within), checkpoint.Segment(t.node.Name, t.taskID(), call.Key))
	o.Metadata = map[string]string{MetaTask: t.id()}
	if s.o.Tape != nil {
		if err := s.o.Tape.subgraph(ctx, t, &call, &o); err != nil {
			return nil, err
		}
	}
	var child *Session
	if o.Trace != nil {
		p := Part{Kind: PartRun, Graph: call.Program.Plan.Name, Path: o.path, Tags: o.tags, Log: o.Log}
		var end func(Outcome)
		ctx, end = o.Trace(ctx, p)
		defer func() { end(child.Outcome(ctx, err)) }()
	}
	child, mine, err := t.openChild(ctx, &call, o)
	if err != nil {
		return nil, err
	}
	defer child.Close()
	defer func() { t.called(child, mine) }()
	switch {
	case !mine:
		err = child.Begin(ctx, checkpoint.SourceInput, nil, call.Input, Command{})
	case o.Tape != nil && len(OpenQuestions(child.m)) > 0: // it waits, as was recorded
		return nil, t.interruptedBy(child)
	case child.m.Pending():
		if answers := t.answersFor(child.m); len(answers) > 0 {
			err = child.Answer(answers, nil)
		}
	case child.m.Incomplete() != nil:
		return nil, child.m.Incomplete()
	default: // it finished, and the process died before the task did
		return t.calledBack(ctx, child, &call)
	}
	if err != nil {
		return nil, err
	}
	err = s.o.Limit.without(ctx, func() error { return child.Drive(ctx) })
	if ierr := t.interruptedBy(child); ierr != nil {
		if err != nil {
			t.mu.Lock()
			if !t.ended {
				t.talk.cut = errors.Join(t.talk.cut, err)
			}
			t.mu.Unlock()
			return nil, err
		}
		return nil, ierr
	}
	if err != nil {
		return nil, err
	}
	return t.calledBack(ctx, child, &call)
}

// Containing returns the name of the graph that contains the task's, and an empty
// state of it. Without one, ok is false.
func (t *Task) Containing() (graph string, state any, ok bool) {
	if t.s.o.parent == nil {
		return "", nil, false
	}
	p := t.s.o.parent.s.prog
	return p.Plan.Name, p.Values.New(), true
}

// keyOfScope is what the key of a call begins with that is made in a scope.
func keyOfScope(scope string) string {
	sum := sha256.Sum256([]byte(scope))
	return hex.EncodeToString(sum[:6]) + "."
}

// childPath returns the path of a graph that a node runs.
func (o *Options) childPath(node *Node) []string { return append(slices.Clip(o.path), node.Name) }

// TaskID names a task: by the record that planned its superstep or, without a
// store, by the superstep's number.
func TaskID(epoch checkpoint.ID, step, task int) string {
	if epoch == "" {
		return fmt.Sprintf("step-%d.%d", step, task)
	}
	return fmt.Sprintf("%s.%d", epoch, task)
}

// SubID names a sub-step of a task that is seen as one; do is that of its event.
func SubID(task, do string) string {
	if do == "" {
		return task
	}
	return task + "." + do
}

// id names the task within its thread, for the metadata of subgraph records.
func (t *Task) id() string { return metaTask(t.at.branch, t.at.epoch, t.index(), int(t.gen)) }

func metaTask(branch checkpoint.Branch, epoch checkpoint.ID, task, gen int) string {
	return string(branch) + "|" + string(epoch) + "." + strconv.Itoa(task) + "." + strconv.Itoa(gen)
}

// GoesOn reports whether a task of the open superstep goes on at a record of the log
// of its subgraph that is the log's newest and has some metadata.
func GoesOn(m *core.Machine, t *core.Task, namespace string, at checkpoint.ID, metadata map[string]string) bool {
	return t.Children[namespace] == at || metadata[MetaTask] == metaTask(m.Branch(), m.Epoch(), t.Index, t.Gen)
}

// Place is where a subgraph stands: at a record, the newest of its log or an earlier one.
type Place struct {
	At     checkpoint.ID
	Newest bool
}

// Stands returns where the subgraphs stand that a task has called, by the namespace of
// their log: as the task's record says or, where that is the newest, as they are now.
// Inside is the namespace of the subgraph that the task's node is.
func (s *Session) Stands(ctx context.Context, t *core.Task, newest bool, inside string) (map[string]Place, error) {
	if t.Ran() || s.o.Store == nil {
		return nil, nil
	}
	at := map[string]Place{}
	for ns, id := range t.Children {
		at[ns] = Place{At: id}
	}
	if !newest {
		return at, nil
	}
	if _, ok := at[inside]; !ok && inside != "" {
		at[inside] = Place{} // it may run
	}
	for ns, place := range at {
		head, _, err := HeadOf(ctx, s.o.Store, checkpoint.Log{Thread: s.o.Log.Thread, Namespace: ns})
		switch {
		case err != nil:
			return nil, err
		case head != nil && GoesOn(s.m, t, ns, head.ID, head.Metadata):
			at[ns] = Place{At: head.ID, Newest: true}
		case head == nil || place.At == "":
			delete(at, ns)
		}
	}
	return at, nil
}

// callNamespace returns the namespace of a call. If the node has been renamed
// and the call was begun under a former name, it is that name's.
func (t *Task) callNamespace(ctx context.Context, call *Call) (string, error) {
	ns := t.namespace(call, t.node.Name)
	if len(t.node.Former) == 0 || t.s.o.Store == nil {
		return ns, nil
	}
	for _, name := range t.node.Former {
		former := t.namespace(call, name)
		if head, _, err := HeadOf(ctx, t.s.o.Store, checkpoint.Log{Thread: t.s.o.Log.Thread, Namespace: former}); head != nil || err != nil {
			return former, err
		}
	}
	return ns, nil
}

func (t *Task) namespace(call *Call, node string) string {
	return ChildNamespace(t.s.o.Log.Namespace, node, t.taskID(), call.Keep, call.Key)
}

// taskID names the task among those that run graphs: when what it had come to was given up,
// it runs others.
func (t *Task) taskID() string { return CallerID(t.at.epoch, t.at.step(), t.index(), int(t.gen)) }

// CallerID is [TaskID] for the graphs that a task runs; gen says how often what it had come
// to was given up.
func CallerID(epoch checkpoint.ID, step, task, gen int) string {
	id := TaskID(epoch, step, task)
	if gen > 0 {
		id += "." + strconv.Itoa(gen)
	}
	return id
}

// ChildNamespace names the log of a subgraph that a node runs: of a task's call alone,
// unless the subgraph keeps its state for the thread.
func ChildNamespace(parent, node, task string, keep bool, key string) string {
	if keep {
		task = ""
	}
	return checkpoint.InNamespace(parent, checkpoint.Segment(node, task, key))
}

// openChild opens the subgraph's log where this task left it (mine), where the
// thread's line left it, or empty.
func (t *Task) openChild(ctx context.Context, call *Call, o Options) (s *Session, mine bool, err error) {
	if o.Store == nil || o.Tape != nil {
		s, err = Open(ctx, call.Program, &o, "", false)
		return s, o.Tape != nil && o.Tape.begun, err
	}
	if err = t.s.saver.readable(ctx, o.Log.Namespace, call.Keep); err != nil {
		return nil, false, err
	}
	head, _, err := HeadOf(ctx, o.Store, o.Log)
	if err != nil {
		return nil, false, err
	}
	at := checkpoint.ID("")
	t.mu.Lock()
	pointer := t.talking().Children[o.Log.Namespace]
	t.mu.Unlock()
	switch {
	case head != nil && head.Metadata[MetaTask] == t.id():
		mine = true
	case pointer != "":
		at, mine = pointer, true
	case t.at.children[o.Log.Namespace] != "":
		at = t.at.children[o.Log.Namespace]
	case head != nil:
		at = Beginning // what is there is another task's
	}
	s, err = Open(ctx, call.Program, &o, at, false)
	return s, mine, err
}

// answersFor collects the answers that the task was given to questions of its
// subgraph.
func (t *Task) answersFor(m *core.Machine) map[string]json.RawMessage {
	open := map[string]bool{}
	for _, q := range OpenQuestions(m) {
		open[q.ID] = true
	}
	answers := map[string]json.RawMessage{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.talking().Questions {
		if q.Answered && open[q.ID] {
			answers[q.ID] = q.Answer
		}
	}
	return answers
}

// interruptedBy takes over the open questions of a subgraph, if there are any.
func (t *Task) interruptedBy(child *Session) error {
	questions := OpenQuestions(child.m)
	if len(questions) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended { // what it has asked is reported
		return ErrLate
	}
	k := t.talking()
	for _, q := range questions {
		q.Path = append([]string{t.node.Name}, q.Path...)
		if i := slices.IndexFunc(k.Questions, func(other checkpoint.Question) bool { return other.ID == q.ID }); i >= 0 {
			k.Questions[i] = q
		} else {
			k.Questions = append(k.Questions, q)
		}
		t.wait(&q)
	}
	return t.waiting()
}

// called notes where a subgraph stands when its call ends, however that is: with what
// is recorded of it, a task that runs again goes on there, on a branch too.
func (t *Task) called(child *Session, mine bool) {
	rec := child.Record()
	if rec == nil || !mine && child.last == nil { // else it is of another task
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended { // what is reported says where it stood
		return
	}
	k := t.talking()
	if k.Children == nil {
		k.Children = map[string]checkpoint.ID{}
	}
	k.Children[child.o.Log.Namespace] = rec.ID
}

// OpenQuestions lists the questions and breakpoints that a thread waits at.
func OpenQuestions(m *core.Machine) []checkpoint.Question {
	var qs []checkpoint.Question
	for _, p := range m.Paused() {
		qs = append(qs, checkpoint.Question{ID: p.ID, Key: p.Node, Node: p.Node, When: "after"})
	}
	for i := range m.Tasks() {
		qs = append(qs, m.Task(i).Unanswered()...)
	}
	return qs
}

// timed reports whether the thread waits for something that is not an answer: a
// time, an event or the end of another thread's turn.
func timed(m *core.Machine) bool {
	return slices.ContainsFunc(OpenQuestions(m), func(q checkpoint.Question) bool { return q.Event != "" || q.Turn != nil || !q.Due.IsZero() })
}

// calledBack returns what a finished subgraph gives to the task.
func (t *Task) calledBack(ctx context.Context, child *Session, call *Call) (*Called, error) {
	if call.Keep && t.s.o.Store != nil {
		t.mu.Lock()
		if k := t.talking(); !t.ended {
			if k.Kept == nil {
				k.Kept = map[string]checkpoint.ID{}
			}
			k.Kept[child.o.Log.Namespace] = child.m.Head()
		}
		t.mu.Unlock()
	}
	c := &Called{State: child.View(), Parent: toParent(child.m.Outcome().Parent)}
	if call.Seed == nil {
		return c, nil
	}
	// What an earlier process recorded comes first, then what this one did.
	var all collected
	if child.tip != nil {
		for r, err := range Line(ctx, child.o.Store, child.tip.Record, checkpoint.Query{}) {
			if err != nil {
				return nil, &CheckpointError{Thread: child.o.Log.Thread, Op: "load", Err: err}
			}
			for _, part := range r.Changes {
				changes, err := core.Recorded(child.prog.Values, r.Version, part.Data)
				if err != nil {
					return nil, err
				}
				if changes != nil {
					all.add(changes, part.Node == "")
				}
			}
			if r.Source == checkpoint.SourceLoop {
				all.step()
			}
		}
	}
	for _, step := range child.collected {
		for _, changes := range step {
			all.add(changes, false)
		}
		all.step()
	}
	c.Wrote = all.list
	return c, nil
}

// Written is what a task of a subgraph wrote. Over says that its values that live for
// one superstep are over.
type Written struct {
	Changes any
	Over    bool
}

// collected is what is written to a log.
type collected struct {
	list      []Written
	now, next []int // of those not over: for the superstep that is open, for the next one
}

// add adds changes, which are given to the open superstep, or else written by its tasks.
func (c *collected) add(changes any, given bool) {
	if given {
		c.now = append(c.now, len(c.list))
	} else {
		c.next = append(c.next, len(c.list))
	}
	c.list = append(c.list, Written{Changes: changes})
}

// step ends a superstep.
func (c *collected) step() {
	for _, i := range c.now {
		c.list[i].Over = true
	}
	c.now, c.next = c.next, nil
}
