package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/local"
)

// Thread is a handle to a thread of a graph: its ID, the options that hold for what is
// done by the handle, and the moment that it is at. It is made by [Graph.Thread], reads
// nothing until it is used, and is safe for concurrent use.
type Thread[S any] struct {
	Requests[S]
	handle
	form form[S]
}

// handle is a thread of an engine. It has the methods of a [Thread] that its state's type
// has no part in.
type handle struct {
	e      *engine
	set    *settings // nobody alters them
	err    error     // of how it was made
	around []level   // what is around the engine's graph, if it is a subgraph
	ways   [][]level // of a subgraph: down to it, or to each of those that it may be, of which e is the first
}

// Thread returns a handle to the thread with that ID, whether there is one or not.
// Options hold for all that is done by the handle; a mistake in one is the error of
// each of its calls.
func (g *Graph[S]) Thread(id string, opts ...ThreadOption) *Thread[S] {
	t := g.once()
	t.named(id, opts)
	return t
}

func (h *handle) named(id string, opts []ThreadOption) {
	if h.err != nil {
		return
	}
	if len(opts)+len(id) == 0 {
		return
	}
	set, err := with(h.set, opts)
	set.thread = checkpoint.ThreadID(id)
	h.set, h.err = set, err
}

// Err returns what is wrong with how the handle was made: its options, or the namespace
// of [Thread.Inside]. It is the error of each of its calls.
func (h *handle) Err() error { return h.err }

// CheckJSON is [Graph.CheckJSON] of the thread's graph.
func (h *handle) CheckJSON(kind JSONKind, data []byte) error {
	if h.err != nil {
		return h.err
	}
	return h.e.check(kind, data)
}

// ID returns the thread's ID.
func (h *handle) ID() string { return string(h.set.thread) }

// At returns the same thread at an earlier moment, that of a checkpoint: State is what
// it was there, and an Invoke, an Edit or a Fork from there starts a branch, while the
// old one stays as it is. The empty checkpoint is the thread's newest. [Start] is the
// moment before its first: State is that of a thread that nothing went into, and an Invoke
// or an Edit from there begins as in a new thread, beside what the thread holds.
func (t *Thread[S]) At(checkpointID string) *Thread[S] {
	c, set := *t, *t.set
	set.from, c.set = checkpoint.ID(checkpointID), &set
	return &c
}

// State returns the thread as it is, or as it was at the checkpoint of [Thread.At].
// Finished tasks of an open superstep are part of the newest state. For
// a thread without checkpoints it returns an error that wraps
// checkpoint.ErrNotFound.
func (t *Thread[S]) State(ctx context.Context) (*Snapshot[S], error) { return t.present(t.state(ctx)) }

func (h *handle) state(ctx context.Context) (Snapshot[any], error) {
	e, err := h.open(ctx)
	if err != nil {
		return Snapshot[any]{}, err
	}
	return e.view(ctx, h.set, h.set.from)
}

// Nested is [Thread.State] with the snapshots of the subgraphs that are open, however
// deep, in [TaskState.States]. At a checkpoint they are as they were there.
func (t *Thread[S]) Nested(ctx context.Context) (*Snapshot[S], error) {
	return t.present(t.nested(ctx, t.set.from == ""))
}

// nested returns the handle's thread with what is inside of it: as it is now, if the
// thread is looked at where it stands.
func (h *handle) nested(ctx context.Context, newest bool) (Snapshot[any], error) {
	e, err := h.open(ctx)
	if err != nil {
		return Snapshot[any]{}, err
	}
	var inside []map[string]local.Place
	snap, err := e.look(ctx, h.set, h.set.from, func(s *local.Session, snap *Snapshot[any]) (err error) {
		inside = make([]map[string]local.Place, len(snap.Tasks))
		for i := range snap.Tasks {
			if inside[i], err = s.Stands(ctx, s.Machine().Task(i), newest, snap.Tasks[i].Inside); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range inside {
		for ns, place := range inside[i] {
			in := h.root().Inside(ns)
			in = in.At(string(place.At))
			inner, err := in.present(in.nested(ctx, place.Newest))
			if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned meanwhile
				continue
			}
			if err != nil {
				return snap, err
			}
			if t := &snap.Tasks[i]; t.States == nil {
				t.States = map[string]*Snapshot[json.RawMessage]{ns: inner}
			} else {
				t.States[ns] = inner
			}
		}
	}
	return snap, err
}

// view returns a stored thread as it is, or as it was at a checkpoint.
func (e *engine) view(ctx context.Context, set *settings, from checkpoint.ID) (Snapshot[any], error) {
	return e.look(ctx, set, from, nil)
}

// look is view; then, if there is one, sees what the snapshot is of.
func (e *engine) look(ctx context.Context, set *settings, from checkpoint.ID, then func(*local.Session, *Snapshot[any]) error) (Snapshot[any], error) {
	var lo local.Options
	err := e.options(&lo, set, nil)
	if err != nil {
		return Snapshot[any]{}, err
	}
	s, err := local.Open(ctx, e.prog, &lo, from, false)
	if err != nil {
		return Snapshot[any]{}, err
	}
	defer s.Close()
	if from != local.Beginning {
		if err := exists(s, set); err != nil {
			return Snapshot[any]{}, err
		}
	}
	snap := e.snapshot(s, set)
	if then != nil {
		err = then(s, &snap)
	}
	return snap, err
}

// present is [present], for calls that return nil with an error.
func (t *Thread[S]) present(snap Snapshot[any], err error) (*Snapshot[S], error) {
	out, err := present(t.form, &snap, err)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// stored reports what is wrong with a handle that is used for a stored thread.
func (h *handle) stored(ctx context.Context) error {
	switch {
	case h.err != nil:
		return h.err
	case ctx == nil:
		return errNilContext
	case h.set.store == nil:
		return fmt.Errorf("a thread %w", ErrNoCheckpointer)
	case h.set.thread == "":
		return ErrThreadRequired
	}
	return nil
}

// open returns the engine that reads the thread.
func (h *handle) open(ctx context.Context) (*engine, error) {
	if err := h.stored(ctx); err != nil {
		return nil, err
	}
	inside, err := h.levels(ctx)
	if err != nil {
		return nil, err
	}
	return inside[len(inside)-1].e, nil
}

func exists(s *local.Session, set *settings) error {
	switch {
	case s.Tip() != nil:
		return nil
	case set.from == local.Beginning:
		return &CheckpointError{Thread: set.thread, Op: "load", Err: fmt.Errorf("%w: there is nothing before the thread's first checkpoint", checkpoint.ErrNotFound)}
	}
	return &CheckpointError{Thread: set.thread, Op: "load", Err: fmt.Errorf("%w: the thread has no checkpoint", checkpoint.ErrNotFound)}
}

// change opens a thread that must exist, lets f change it, and stores what f did,
// without running anything.
func (e *engine) change(ctx context.Context, set *settings, f func(s *local.Session) error) (Snapshot[any], error) {
	return e.edited(ctx, set, func(s *local.Session) error {
		if err := exists(s, set); err != nil {
			return err
		}
		s.KeepMetadata()
		if err := f(s); err != nil {
			return err
		}
		return s.Flush(ctx)
	})
}

// edited opens a thread, lets f change it, and returns it as it then is.
func (e *engine) edited(ctx context.Context, set *settings, f func(s *local.Session) error) (Snapshot[any], error) {
	var lo local.Options
	if err := e.depsOptions(ctx, &lo, set, nil); err != nil {
		return Snapshot[any]{}, err
	}
	s, err := local.Run(ctx, e.program(set, nil), &lo, set.from, f)
	if s != nil {
		defer s.Close()
	}
	if err != nil {
		return Snapshot[any]{}, err
	}
	return e.snapshot(s, set), nil
}

// HistoryQuery selects entries of a thread's history. The zero value is all of the
// thread's line, newest first.
type HistoryQuery struct {
	Limit       int               // at most that many entries; 0: all
	OldestFirst bool              // the oldest entry first
	AllBranches bool              // of all branches, in the order written
	Source      string            // only checkpoints written for that reason, such as "loop" or "update"; empty: all
	Metadata    map[string]string // only checkpoints whose metadata have these entries
	WhereNext   string            // only checkpoints after which that node is pending, under this or a former name; empty: all
}

// Entry is a checkpoint in a thread's history. It is light: the state is folded
// when asked for.
type Entry[S any] struct {
	Checkpoint string
	Parent     string
	Branch     string // empty for the thread's first line
	Step       int
	Source     string
	Nodes      []string // that ran in the superstep which the checkpoint committed

	// Did names for each of Nodes what it recorded by [Do], [Go] and [Once], as often
	// as it did and sorted; in a [Scope] with that. Nil if none did.
	Did [][]string

	// Began and Took say for each of Nodes when its task ran and for how long, as measured:
	// its last execution, with all attempts and their delays. They are zero where that isn't
	// known, as of an edit's and of what an earlier run left.
	Began []time.Time
	Took  []time.Duration

	Next      []string // nodes planned, when the checkpoint planned any; of a fork or an edit, those pending after it; of an interrupt, those that wait
	CreatedAt time.Time
	Metadata  map[string]string

	form     any // of S
	state    func(context.Context) (any, error)
	recorded func(context.Context) ([]Recorded, error)
}

// State returns the state at the checkpoint.
func (e *Entry[S]) State(ctx context.Context) (S, error) {
	state, err := e.state(ctx)
	if err != nil {
		return *new(S), err
	}
	return e.form.(form[S]).read(state)
}

// Recorded is what a node did by [Do], [Go] or [Once], and what came of it.
type Recorded struct {
	Node  string
	Name  string          // in a [Scope] with that
	Data  json.RawMessage // the result, as JSON
	Error string          // why it never succeeded
}

// Recorded returns the results of what [Entry.Did] names, by node and name, and those
// that failed. There are none where the thread ran without [RecordOnce].
func (e *Entry[S]) Recorded(ctx context.Context) ([]Recorded, error) { return e.recorded(ctx) }

// History yields the checkpoints of the thread's line, newest first: those that
// led to its newest state, or to the checkpoint of [Thread.At]. An unknown
// thread yields nothing. An error is yielded once, as the last pair.
func (t *Thread[S]) History(ctx context.Context, q HistoryQuery) iter.Seq2[Entry[S], error] {
	return func(yield func(Entry[S], error) bool) {
		for e, err := range t.history(ctx, q) {
			e.form = t.form
			if !yield(Entry[S](e), err) {
				return
			}
		}
	}
}

// history is [Thread.History] over any state.
func (h *handle) history(ctx context.Context, q HistoryQuery) iter.Seq2[Entry[any], error] {
	return func(yield func(Entry[any], error) bool) {
		e, err := h.open(ctx)
		switch {
		case err != nil:
		case q.Limit < 0:
			err = fmt.Errorf("graph: HistoryQuery.Limit of %d: use 0 for all", q.Limit)
		case q.WhereNext != "" && !slices.Contains(e.prog.Plan.Names(), q.WhereNext):
			err = e.misnamed("HistoryQuery.WhereNext", "history", q.WhereNext)
		}
		if err != nil {
			yield(Entry[any]{}, err)
			return
		}
		n := 0
		isWanted := func(name string) bool {
			return e.prog.Plan.Present(name) == q.WhereNext
		}
		for rec, err := range h.records(ctx, q) {
			if err != nil {
				yield(Entry[any]{}, &CheckpointError{Thread: h.set.thread, Op: "load", Err: err})
				return
			}
			if !q.matches(rec) {
				continue
			}
			entry := h.entry(e, rec)
			pending, err := h.pending(ctx, rec)
			if err != nil {
				yield(Entry[any]{}, err)
				return
			}
			entry.Next = append(entry.Next, pending...)
			if q.WhereNext != "" && !slices.ContainsFunc(entry.Next, isWanted) {
				continue
			}
			if !yield(entry, nil) {
				return
			}
			if n++; n == q.Limit {
				return
			}
		}
	}
}

func (q *HistoryQuery) matches(rec *checkpoint.Record) bool {
	if q.Source != "" && string(rec.Source) != q.Source {
		return false
	}
	for k, v := range q.Metadata {
		if rec.Metadata[k] != v {
			return false
		}
	}
	return true
}

func (h *handle) entry(e *engine, rec *checkpoint.Record) Entry[any] {
	entry := Entry[any]{
		Checkpoint: string(rec.ID), Parent: string(rec.Parent), Branch: string(rec.Branch), Step: rec.Step, Source: string(rec.Source),
		CreatedAt: rec.CreatedAt, Metadata: rec.Metadata,
		state: func(ctx context.Context) (any, error) {
			st, err := local.StateOf(ctx, h.set.store, e.prog.Values, rec.Log, rec.ID, local.Keeper{Kept: e.kept, Max: h.set.readCacheSize(), Plan: e.prog.Plan})
			if err != nil {
				return nil, &CheckpointError{Thread: rec.Log.Thread, Op: "load", Err: err}
			}
			return st, nil
		},
		recorded: func(ctx context.Context) (all []Recorded, err error) {
			if len(rec.Once) == 0 {
				return nil, nil
			}
			full, err := h.set.store.Get(ctx, rec.Log, rec.ID)
			if err != nil {
				return nil, &CheckpointError{Thread: rec.Log.Thread, Op: "load", Err: err}
			}
			for _, c := range full.Changes {
				for _, o := range local.KeptOf(full, c.Task) {
					if c.Node != "" {
						all = append(all, Recorded{Node: c.Node, Name: o.Name, Data: o.Data, Error: o.Error})
					}
				}
			}
			return all, nil
		},
	}
	for _, c := range rec.Changes {
		if c.Node == "" {
			continue
		}
		did := local.DidOf(rec, c.Task)
		if did != nil && entry.Did == nil {
			entry.Did = make([][]string, len(entry.Nodes))
		}
		if entry.Nodes = append(entry.Nodes, c.Node); entry.Did != nil {
			entry.Did = append(entry.Did, did)
		}
		var began time.Time
		if c.Began != 0 {
			began = time.UnixMicro(c.Began).UTC()
		}
		entry.Began, entry.Took = append(entry.Began, began), append(entry.Took, time.Duration(c.Took)*time.Microsecond)
	}
	for _, task := range rec.Tasks {
		entry.Next = append(entry.Next, task.Node)
	}
	return entry
}

// pending returns the nodes that are pending after the record of a fork, of an edit or
// of an interrupt, and that another checkpoint planned.
func (h *handle) pending(ctx context.Context, rec *checkpoint.Record) (next []string, err error) {
	if rec.Epoch == rec.ID {
		return nil, nil
	}
	switch rec.Source {
	case checkpoint.SourceFork, checkpoint.SourceUpdate, checkpoint.SourceInput, checkpoint.SourceInterrupt, checkpoint.SourceInside:
	default:
		return nil, nil
	}
	epoch, err := h.set.store.Get(ctx, rec.Log, rec.Epoch)
	if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned
		return nil, nil
	}
	if err == nil {
		next, err = local.PendingNodes(epoch, rec)
	}
	if err != nil {
		return nil, &CheckpointError{Thread: rec.Log.Thread, Op: "load", Err: err}
	}
	return next, nil
}

// records yields the records that a history is about, without their data.
func (h *handle) records(ctx context.Context, q HistoryQuery) iter.Seq2[*checkpoint.Record, error] {
	set := h.set
	log := checkpoint.Log{Thread: set.thread, Namespace: set.namespace}
	if q.AllBranches {
		return set.store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true, Desc: !q.OldestFirst, Meta: true})
	}
	return func(yield func(*checkpoint.Record, error) bool) {
		var tip *checkpoint.Record
		var err error
		if set.from == local.Beginning {
			return
		}
		if set.from != "" {
			tip, err = set.store.Get(ctx, log, set.from)
		} else if tip, _, err = set.store.Head(ctx, log); errors.Is(err, checkpoint.ErrNotFound) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		local.Line(ctx, set.store, tip, checkpoint.Query{Desc: !q.OldestFirst, Meta: true})(yield)
	}
}

// Edit edits the state of the thread and returns the thread as it then is.
// What finished tasks of an open superstep wrote is kept and folded first.
// Pending tasks stay pending. Of a thread [Thread.At] a checkpoint it is made there, on
// a new branch. A thread that has no checkpoint is started by it; nothing runs. When a
// run holds the thread it does as [WhenBusy] says.
//
// An error of f refuses the edit: nothing is stored.
func (t *Thread[S]) Edit(ctx context.Context, f func(s *S) error) (*Snapshot[S], error) {
	return t.BulkEdit(ctx, []Edit[S]{{Apply: f}})
}

// EditAs is [Thread.Edit] that counts as a node's output: its pending task, if any, is
// done, and its edges decide what follows. A command replaces them. As [Start], what
// follows is a turn at the entry; as [End], nothing is pending any more.
func (t *Thread[S]) EditAs(ctx context.Context, node string, f func(s *S) error, commands ...Command) (*Snapshot[S], error) {
	edit := Edit[S]{Apply: f, AsNode: node}
	if len(commands) > 0 {
		edit.Command = commands[0].And(commands[1:]...)
	}
	if node == "" {
		return nil, errors.New("graph: EditAs needs the name of a node; Edit is an edit of nobody")
	}
	return t.BulkEdit(ctx, []Edit[S]{edit})
}

// Edit is one edit of [Thread.BulkEdit].
type Edit[S any] struct {
	Apply   func(s *S) error // nil: it changes nothing
	AsNode  string           // empty: of nobody; see [Thread.EditAs]
	Task    string           // which task of the node that is not done it completes, by TaskState.ID; empty: the first
	Command Command          // replaces the node's edges
}

// BulkEdit makes edits one after the other; see [Thread.Edit].
func (t *Thread[S]) BulkEdit(ctx context.Context, edits []Edit[S]) (*Snapshot[S], error) {
	erased := make([]edit, len(edits))
	for i, e := range edits {
		erased[i] = edit{node: e.AsNode, task: e.Task, command: e.Command}
		if e.Apply != nil {
			erased[i].apply = func(to *engine) func(any) error { return t.form.edit(to, e.Apply) }
		}
	}
	return t.present(t.bulkEdit(ctx, erased))
}

func (h *handle) bulkEdit(ctx context.Context, edits []edit) (Snapshot[any], error) {
	var none Snapshot[any]
	if err := h.stored(ctx); err != nil {
		return none, err
	}
	inside, err := h.levels(ctx)
	if err != nil {
		return none, err
	}
	if len(edits) == 0 {
		return none, errors.New("graph: BulkEdit without an edit")
	}
	for _, e := range edits {
		switch {
		case e.command.IsZero():
		case e.node == "":
			return none, errors.New("graph: an edit of nobody leads nowhere: name the node that its Command is of in AsNode")
		case e.node == End:
			return none, errors.New("graph: an edit as graph.End leaves nothing pending and takes no Command: make it as graph.Start, or as a node")
		}
	}
	return h.edit(ctx, inside, edits)
}

// edit is an [Edit] of any state.
type edit struct {
	apply   func(*engine) func(state any) error // nil: it changes nothing
	node    string
	task    string
	command Command
}

// apply applies edits to a thread and stores them.
func (e *engine) apply(ctx context.Context, s *local.Session, set *settings, edits []edit) error {
	if s.Tip() == nil && !slices.ContainsFunc(edits, func(e edit) bool { return e.apply != nil || e.node != "" }) {
		return &CheckpointError{Thread: set.thread, Op: "load", Err: fmt.Errorf("%w: the thread has no checkpoint, and there is no edit to start it with", checkpoint.ErrNotFound)}
	}
	s.KeepMetadata()
	if set.from != "" && s.Tip() != nil {
		if err := s.Machine().Fork(); err != nil {
			return err
		}
	}
	for _, edit := range edits {
		if err := e.applyOne(ctx, s, edit); err != nil {
			return err
		}
		if err := s.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) applyOne(ctx context.Context, s *local.Session, edit edit) error {
	command, task := edit.command.local(), -1
	var apply func(state any) error
	if edit.apply != nil {
		apply = edit.apply(e)
	}
	if edit.task != "" {
		m := s.Machine()
		if task = slices.IndexFunc(m.Tasks(), func(t core.Task) bool {
			return t.Status() != core.Done && e.prog.Plan.NameOf(t.Node) == edit.node && local.TaskID(m.Epoch(), m.Step()+1, t.Index) == edit.task
		}); task < 0 {
			return &misnamedError{option: "Edit.Task", what: fmt.Sprintf("task of node %q that an edit could complete: see Snapshot.Tasks", edit.node), err: &InvalidEdgeError{Source: "update", Target: edit.task}}
		}
	}
	switch edit.node {
	case End:
		command = EndRun().local()
		fallthrough
	case Start: // what is pending is given up, and what finished tasks wrote is kept
		var left *core.Left
		if s.Machine().Pending() {
			left = new(core.Left)
		}
		return s.Begin(ctx, checkpoint.SourceUpdate, left, apply, command)
	case "":
	default:
		if _, ok := e.prog.Plan.Node(edit.node); !ok {
			return e.misnamed("AsNode", "update", edit.node)
		}
	}
	return s.UpdateAs(ctx, apply, edit.node, task, command)
}

// Fork starts a branch of the thread at the checkpoint of [Thread.At], without running
// anything, and makes it the thread's line. What was pending there is pending again,
// with the answers that had been given. Results of finished tasks, and of [Once], come
// along while the superstep is open; once it has been committed they are a part of it,
// and a fork before that runs its tasks again, Once with the keys that it had. The other
// branch stays. When a run holds the thread it does as [WhenBusy] says.
func (t *Thread[S]) Fork(ctx context.Context) (*Snapshot[S], error) { return t.present(t.fork(ctx)) }

func (h *handle) fork(ctx context.Context) (Snapshot[any], error) {
	e, err := h.open(ctx)
	if err == nil && h.set.from == "" {
		err = errors.New("graph: Fork needs a checkpoint: use Thread.At")
	}
	if err != nil {
		return Snapshot[any]{}, err
	}
	return e.change(ctx, h.set, func(s *local.Session) error { return s.Machine().Fork() })
}

// Copy makes a new thread, with that ID, that is a copy of the thread with its whole
// history. What the thread waits for wakes the copy too, but for the end of a spawned
// thread ([Spawned.Wait]): that is told to the thread that spawned it alone, and the copy
// sees it when it is continued.
func (h *handle) Copy(ctx context.Context, to string) error {
	if err := h.stored(ctx); err != nil {
		return err
	}
	c, ok := h.set.store.(checkpoint.Copier)
	if !ok {
		return fmt.Errorf("copying a thread: %w by this checkpointer", errors.ErrUnsupported)
	}
	return c.Copy(ctx, h.set.thread, checkpoint.ThreadID(to))
}

// Delete removes the thread with its history. An unknown one is no error. When
// a run holds the thread, it returns [ErrThreadBusy] and removes nothing; with
// [WhenBusy] it waits for the run's end ([BusyQueue]) or stops the run and removes
// the thread all the same ([BusyInterrupt], [BusyRollback]).
func (h *handle) Delete(ctx context.Context) error {
	if err := h.stored(ctx); err != nil {
		return err
	}
	return local.Delete(ctx, h.set.store, h.set.thread, local.BusyPolicy(h.set.busy))
}
