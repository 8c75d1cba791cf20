package graph

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
)

// State returns the thread as it is, or as it was at the checkpoint given by
// [From]. Finished tasks of an open superstep are part of the newest state. For
// a thread without checkpoints it returns an error that wraps
// checkpoint.ErrNotFound.
func (g *Graph[S]) State(ctx context.Context, opts ...Option) (*Snapshot[S], error) {
	set, err := g.with(ctx, opts)
	if err != nil {
		return nil, err
	}
	lo, err := g.threadOptions(&set)
	if err != nil {
		return nil, err
	}
	s, err := local.Open(ctx, g.prog, *lo, set.from, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := exists(s, &set); err != nil {
		return nil, err
	}
	return g.snapshot(s, &set), nil
}

func (g *Graph[S]) threadOptions(set *settings) (*local.Options, error) {
	if set.store == nil {
		return nil, fmt.Errorf("a thread %w", ErrNoCheckpointer)
	}
	return g.options(set, nil)
}

func exists(s *local.Session, set *settings) error {
	if s.Tip() == nil {
		return &CheckpointError{Thread: set.thread, Op: "load", Err: fmt.Errorf("%w: the thread has no checkpoint", checkpoint.ErrNotFound)}
	}
	return nil
}

// change opens a thread that must exist, lets f change it, and stores what f did,
// without running anything.
func (g *Graph[S]) change(ctx context.Context, set *settings, f func(s *local.Session) error) (*Snapshot[S], error) {
	lo, err := g.threadOptions(set)
	if err != nil {
		return nil, err
	}
	s, err := local.Run(ctx, g.prog, *lo, set.from, func(s *local.Session) error {
		if err := exists(s, set); err != nil {
			return err
		}
		s.KeepMetadata()
		if err := f(s); err != nil {
			return err
		}
		return flush(ctx, s)
	})
	if s != nil {
		defer s.Close()
	}
	if err != nil {
		return nil, err
	}
	return g.snapshot(s, set), nil
}

// flush stores what was done to a thread.
func flush(ctx context.Context, s *local.Session) error {
	if err := s.Flush(ctx); !errors.Is(err, ErrDrained) {
		return err
	}
	return nil
}

// fork goes on from where a thread was opened on a new branch, on which is pending
// what was there.
func fork(ctx context.Context, s *local.Session) error {
	if err := s.Machine().Fork(true); err != nil {
		return err
	}
	return s.TakeAlong(ctx)
}

// historyOptions select entries of a history.
type historyOptions struct {
	oldest      bool
	allBranches bool
	limit       int
	source      string
	metadata    map[string]string
}

// OldestFirst makes History yield the oldest entry first.
func OldestFirst() Option { return func(s *settings) { s.history.oldest = true } }

// AllBranches makes History yield the checkpoints of all branches of the
// thread, in the order written (newest first unless [OldestFirst] is given).
func AllBranches() Option { return func(s *settings) { s.history.allBranches = true } }

// Limit bounds how many entries History yields.
func Limit(n int) Option {
	return func(s *settings) {
		if n <= 0 {
			s.fail("graph: Limit(%d): use a positive number", n)
		}
		s.history.limit = n
	}
}

// WithSource makes History yield only checkpoints written for that reason, such
// as "loop" or "update".
func WithSource(source string) Option { return func(s *settings) { s.history.source = source } }

// WhereMetadata makes History yield only checkpoints whose metadata have that
// entry.
func WhereMetadata(key, value string) Option {
	return func(s *settings) {
		m := map[string]string{key: value}
		for k, v := range s.history.metadata {
			m[k] = v
		}
		s.history.metadata = m
	}
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
	Next       []string // nodes planned, when the checkpoint planned any; of a fork or an edit, those pending after it; of an interrupt, those that wait
	CreatedAt  time.Time
	Metadata   map[string]string

	g     *Graph[S]
	store checkpoint.Store
	rec   *checkpoint.Record
	keep  int // bytes for the graph's read cache
}

// State returns the state at the checkpoint.
func (e *Entry[S]) State(ctx context.Context) (S, error) {
	st, err := local.StateOf(ctx, e.store, e.g.prog.Values, e.rec.Log, e.rec.ID, local.Growing{Kept: e.g.kept, Max: e.keep, Plan: e.g.prog.Plan})
	if err != nil {
		var zero S
		return zero, &CheckpointError{Thread: e.rec.Log.Thread, Op: "load", Err: err}
	}
	return *st.(*S), nil
}

// History yields the checkpoints of the thread's line, newest first: those that
// led to its newest state, or to the checkpoint given by [From]. An unknown
// thread yields nothing. An error is yielded once, as the last pair.
func (g *Graph[S]) History(ctx context.Context, opts ...Option) iter.Seq2[Entry[S], error] {
	return func(yield func(Entry[S], error) bool) {
		set, err := g.with(ctx, opts)
		switch {
		case err != nil:
		case set.store == nil:
			err = fmt.Errorf("history %w", ErrNoCheckpointer)
		case set.thread == "":
			err = ErrThreadRequired
		}
		if err != nil {
			yield(Entry[S]{}, err)
			return
		}
		n := 0
		for rec, err := range g.records(ctx, &set) {
			if err != nil {
				yield(Entry[S]{}, &CheckpointError{Thread: set.thread, Op: "load", Err: err})
				return
			}
			if !set.history.matches(rec) {
				continue
			}
			e := g.entry(&set, rec)
			if err := e.planned(ctx); err != nil {
				yield(Entry[S]{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
			if n++; n == set.history.limit {
				return
			}
		}
	}
}

func (h *historyOptions) matches(rec *checkpoint.Record) bool {
	if h.source != "" && string(rec.Source) != h.source {
		return false
	}
	for k, v := range h.metadata {
		if rec.Metadata[k] != v {
			return false
		}
	}
	return true
}

func (g *Graph[S]) entry(set *settings, rec *checkpoint.Record) Entry[S] {
	e := Entry[S]{
		Checkpoint: string(rec.ID), Parent: string(rec.Parent), Branch: string(rec.Branch), Step: rec.Step, Source: string(rec.Source),
		CreatedAt: rec.CreatedAt, Metadata: rec.Metadata, g: g, store: set.store, rec: rec, keep: set.readCacheSize(),
	}
	for _, c := range rec.Changes {
		if c.Node != "" {
			e.Nodes = append(e.Nodes, c.Node)
		}
	}
	for _, t := range rec.Tasks {
		e.Next = append(e.Next, t.Node)
	}
	return e
}

// planned adds to the entry of a fork, of an edit or of an interrupt what is pending
// after it, which another checkpoint planned.
func (e *Entry[S]) planned(ctx context.Context) error {
	if e.rec.Epoch == e.rec.ID {
		return nil
	}
	switch e.rec.Source {
	case checkpoint.SourceFork, checkpoint.SourceUpdate, checkpoint.SourceInput, checkpoint.SourceInterrupt:
	default:
		return nil
	}
	epoch, err := e.store.Get(ctx, e.rec.Log, e.rec.Epoch)
	if errors.Is(err, checkpoint.ErrNotFound) { // it was pruned
		return nil
	}
	if err != nil {
		return &CheckpointError{Thread: e.rec.Log.Thread, Op: "load", Err: err}
	}
	tasks, err := checkpoint.TaskStates(epoch, e.rec, nil)
	if err != nil {
		return &CheckpointError{Thread: e.rec.Log.Thread, Op: "load", Err: err}
	}
	for i := range tasks {
		t := &tasks[i]
		pending := t.Status != checkpoint.StatusDone
		if e.rec.Source == checkpoint.SourceInterrupt { // the others have ended, or failed
			pending = t.Asks()
		}
		if pending {
			e.Next = append(e.Next, t.Node)
		}
	}
	return nil
}

// records yields the records that a history is about, without their data.
func (g *Graph[S]) records(ctx context.Context, set *settings) iter.Seq2[*checkpoint.Record, error] {
	log := checkpoint.Log{Thread: set.thread, Namespace: set.namespace}
	if set.history.allBranches {
		return set.store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true, Desc: !set.history.oldest, Meta: true})
	}
	return func(yield func(*checkpoint.Record, error) bool) {
		var tip *checkpoint.Record
		var err error
		if set.from != "" {
			tip, err = set.store.Get(ctx, log, set.from)
		} else if tip, _, err = set.store.Head(ctx, log); errors.Is(err, checkpoint.ErrNotFound) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		line := local.Line
		if set.history.oldest {
			line = local.LineAsc
		}
		line(ctx, set.store, tip, true)(yield)
	}
}

// UpdateState edits the state of a thread and returns the thread as it then is.
// What finished tasks of an open superstep wrote is kept and folded first.
// Pending tasks stay pending. With [AsNode] the edit counts as that node's
// output. With [From] it is made there, on a new branch. A thread that has no
// checkpoint is started by it; nothing runs. When a run holds the thread it does as
// [WhenBusy] says.
func (g *Graph[S]) UpdateState(ctx context.Context, edit func(s *S), opts ...Option) (*Snapshot[S], error) {
	return g.BulkUpdate(ctx, []Edit[S]{{Apply: edit}}, opts...)
}

// Edit is one edit of a bulk update.
type Edit[S any] struct {
	Apply   func(s *S)
	AsNode  string  // empty: of nobody, or what the option AsNode says
	Command Command // replaces the node's edges
}

// BulkUpdate applies edits one after the other; see [Graph.UpdateState].
func (g *Graph[S]) BulkUpdate(ctx context.Context, edits []Edit[S], opts ...Option) (*Snapshot[S], error) {
	set, err := g.with(ctx, opts)
	if err != nil {
		return nil, err
	}
	lo, err := g.threadOptions(&set)
	if err != nil {
		return nil, err
	}
	if lo.Deps, err = provide(ctx, &set); err != nil {
		return nil, err
	}
	s, err := local.Run(ctx, g.prog, *lo, set.from, func(s *local.Session) error { return g.apply(ctx, s, &set, edits) })
	if s != nil {
		defer s.Close()
	}
	if err != nil {
		return nil, err
	}
	return g.snapshot(s, &set), nil
}

// apply applies edits to a thread and stores them.
func (g *Graph[S]) apply(ctx context.Context, s *local.Session, set *settings, edits []Edit[S]) error {
	if s.Tip() == nil && set.asNode == "" && !slices.ContainsFunc(edits, func(e Edit[S]) bool { return e.Apply != nil || e.AsNode != "" }) {
		return &CheckpointError{Thread: set.thread, Op: "load", Err: fmt.Errorf("%w: the thread has no checkpoint, and there is no edit to start it with", checkpoint.ErrNotFound)}
	}
	s.KeepMetadata()
	if set.from != "" && s.Tip() != nil {
		if err := fork(ctx, s); err != nil {
			return err
		}
	}
	for _, e := range edits {
		node, command := e.AsNode, e.Command
		if node == "" {
			node = set.asNode
			if set.as != nil {
				command = *set.as
			}
		}
		if _, ok := g.prog.Plan.Node(node); node != "" && !ok {
			return g.misnamed("AsNode", "update", node)
		}
		var apply func(any) error
		if e.Apply != nil {
			apply = func(st any) error { return caught(e.Apply, st) }
		}
		if err := s.UpdateAs(ctx, apply, node, command.local()); err != nil {
			return err
		}
		if err := flush(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Fork starts a branch of the thread at a checkpoint, without running anything,
// and makes it the thread's line. What was pending there is pending again, with the
// answers that had been given. Results of finished tasks, and of [Once], come along
// while the superstep is open; once it has been committed they are a part of it, and
// a fork before that runs its tasks again, Once with the keys that it had. The other
// branch stays. When a run holds the thread it does as [WhenBusy] says.
func (g *Graph[S]) Fork(ctx context.Context, from string, opts ...Option) (*Snapshot[S], error) {
	set, err := g.with(ctx, append(opts[:len(opts):len(opts)], From(from)))
	if err != nil {
		return nil, err
	}
	return g.change(ctx, &set, func(s *local.Session) error { return fork(ctx, s) })
}

// CopyThread makes a new thread that is a copy of another, with its whole
// history.
func (g *Graph[S]) CopyThread(ctx context.Context, from, to string, opts ...Option) error {
	set, err := g.with(ctx, opts)
	if err != nil {
		return err
	}
	if set.store == nil {
		return fmt.Errorf("a thread %w", ErrNoCheckpointer)
	}
	c, ok := set.store.(checkpoint.Copier)
	if !ok {
		return fmt.Errorf("copying a thread: %w by this checkpointer", errors.ErrUnsupported)
	}
	return c.Copy(ctx, checkpoint.ThreadID(from), checkpoint.ThreadID(to))
}

// DeleteThread removes a thread with its history. An unknown one is no error. When
// a run holds the thread, it returns [ErrThreadBusy] and removes nothing; with
// [WhenBusy] it waits for the run's end ([BusyQueue]) or stops the run and removes
// the thread all the same ([BusyInterrupt], [BusyRollback]).
func (g *Graph[S]) DeleteThread(ctx context.Context, thread string, opts ...Option) error {
	set, err := g.with(ctx, opts)
	if err != nil {
		return err
	}
	if set.store == nil {
		return fmt.Errorf("a thread %w", ErrNoCheckpointer)
	}
	return local.Delete(ctx, set.store, checkpoint.ThreadID(thread), local.BusyPolicy(set.busy))
}

// UpdateJSON applies an update in JSON to a state: input from outside. An
// object names fields; plain fields are set, lists are added to, maps and sets
// merged, numbers of a Sum added, and {"$overwrite": v} replaces a value.
// What the schema of updates refuses ([Graph.JSONSchema]) is refused, with an
// [InputError] for each part that is wrong, or an [UnknownFieldError]; so are text
// that isn't UTF-8 and names that an object has twice. Nothing is applied if
// anything is wrong, and the errors name the fields.
func (g *Graph[S]) UpdateJSON(s *S, data []byte) error {
	if err := g.compiled(); err != nil {
		return err
	}
	if s == nil {
		return errors.New("graph: UpdateJSON: the state is nil")
	}
	return g.values.Update(s, data)
}
