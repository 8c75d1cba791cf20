package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Subgraph returns the graph inside the node that a path of nodes leads to, the
// nodes of subgraphs after those that hold them. Its states are JSON, since whoever
// asks need not know its type; see [JSON]. Its runs are reached by [Thread.Inside].
func (g *Graph[S]) Subgraph(path ...string) (*Graph[json.RawMessage], bool) {
	return g.made().subgraph(path)
}

func (e *engine) subgraph(path []string) (*Graph[json.RawMessage], bool) {
	for _, name := range path {
		if e, _ = e.inside(name); e == nil {
			return nil, false
		}
	}
	return inJSON(e), len(path) > 0
}

// Inside returns a handle to the run of a subgraph whose log has a namespace, as
// [TaskState.Subgraphs] and [TaskState.Inside] give it: to its State, its History and,
// by [Thread.Edit], its edits. Of an edit the thread around it is told: an edit as a
// node that asks takes the question from it, and the next run of a subgraph that keeps
// its state begins with the edit. The run of any other subgraph is over when it has
// ended, and nothing reads an edit of it. A subgraph's run goes on with its thread: it
// can't be invoked by itself.
//
// A namespace that no subgraph of the graph has is an error of each of the handle's
// calls.
func (h *handle) Inside(namespace string) *Thread[json.RawMessage] {
	in, set := &Thread[json.RawMessage]{handle: *h}, *h.set
	in.set = &set
	set.from, set.before, set.after, set.inside = "", nil, nil, nil // those name nodes of the thread's graph
	if in.err != nil {
		return in
	}
	if len(in.around) > 0 {
		in.err = errors.New("graph: Inside a subgraph's run: give the thread's handle the whole namespace")
		return in
	}
	in.e, in.around, namespace, in.err = h.e.placed(namespace)
	if in.err != nil {
		return in
	}
	in.form = inJSON(in.e).form
	// What the subgraph itself says of its states holds; all else is the handle's.
	set.namespace, set.schemas, set.onInput = namespace, in.e.settings.schemas, nil
	return in
}

// root returns the handle of the thread whose run the handle's is in.
func (h *handle) root() *handle {
	if len(h.around) == 0 {
		return h
	}
	r := *h
	r.e, r.around = h.around[0].e, nil
	return &r
}

// level is a graph around another and the namespace of its log.
type level struct {
	e         *engine
	namespace string

	// Of the next level, if it shares this one's state: its part of the state, and the
	// superstep in which it ran.
	part  func(parent any) any
	epoch checkpoint.ID
}

// placed returns the graph whose run has the log of a namespace, what is around it, and
// the namespace as the log has it: without tasks where a subgraph keeps its state.
func (e *engine) placed(namespace string) (*engine, []level, string, error) {
	var around []level
	log := ""
	for rest := namespace; rest != ""; {
		next := level{e: e, namespace: log}
		name, task, key, after := checkpoint.CutSegment(rest)
		var child *engine
		if rest[0] == '|' {
			child, next.part = e.inside(name)
		}
		if child == nil {
			edge := &InvalidEdgeError{Source: "Inside", Target: namespace, Near: plan.Nearest(name, e.insideNames())}
			return nil, nil, "", &misnamedError{option: fmt.Sprintf("Inside graph %q", e.prog.Plan.Name), what: "namespace of a subgraph's log", err: edge}
		}
		if next.part != nil { // the superstep tells its runs apart
			epoch, _, _ := strings.Cut(task, ".")
			next.epoch = checkpoint.ID(epoch)
		}
		log = local.ChildNamespace(log, name, task, next.part == nil && child.settings.keep, key)
		rest = after
		around = append(around, next)
		e = child
	}
	if len(around) == 0 {
		return nil, nil, "", errors.New("graph: Inside needs a namespace, as TaskState.Subgraphs gives it; the thread itself has none")
	}
	return e, around, log, nil
}

// inside returns the graph inside a node, and its part of the state if it shares that.
func (e *engine) inside(name string) (*engine, func(parent any) any) {
	for i, n := range e.prog.Plan.Nodes {
		if n.Name == name {
			return e.nodes[i].child, e.nodes[i].part
		}
	}
	return nil, nil
}

func (e *engine) insideNames() []string {
	var out []string
	for i, n := range e.prog.Plan.Nodes {
		if e.nodes[i].child != nil {
			out = append(out, n.Name)
		}
	}
	return out
}

// levels returns the graphs around the handle's and that itself, each with the state
// from which it began if it shares that.
func (h *handle) levels(ctx context.Context) ([]level, error) {
	levels := append(slices.Clip(h.around), level{e: h.e, namespace: h.set.namespace})
	for i := range levels[1:] {
		outer, inner := &levels[i], &levels[i+1]
		if outer.part == nil {
			continue
		}
		st, err := outer.e.stateIn(ctx, h.set, outer.namespace, outer.epoch)
		if err != nil {
			return nil, err
		}
		inner.e = inner.e.from(outer.part(st))
	}
	return levels, nil
}

// stateIn returns the state from which the tasks of a superstep began, of a run with
// its log in a namespace.
func (e *engine) stateIn(ctx context.Context, set *settings, namespace string, epoch checkpoint.ID) (any, error) {
	log := checkpoint.Log{Thread: set.thread, Namespace: namespace}
	var st any
	err := local.Settled(ctx, set.store, log, func() error {
		rec, _, err := set.store.Head(ctx, log)
		if err == nil && rec.Epoch != epoch { // else there may be edits since
			rec, err = set.store.Get(ctx, log, epoch)
		}
		if err == nil {
			st, err = local.StateAt(ctx, set.store, e.prog.Values, rec, local.Keeper{})
		}
		return err
	})
	if err != nil {
		return nil, &CheckpointError{Thread: set.thread, Op: "load", Err: err}
	}
	return st, nil
}

// from returns the engine for a run that began with a state.
func (e *engine) from(seed any) *engine {
	c := *e
	c.prog, c.kept = e.prog.From(seed), local.NewKept()
	return &c
}

// edit makes edits of the innermost of levels, and tells the logs around it: of
// questions that are asked no more, and of where a state that is kept stands now.
func (h *handle) edit(ctx context.Context, levels []level, edits []edit) (Snapshot[any], error) {
	around, e := levels[:len(levels)-1], levels[len(levels)-1].e
	make := func() (Snapshot[any], error) {
		return e.edited(ctx, h.set, func(s *local.Session) error { return e.apply(ctx, s, h.set, edits) })
	}
	if len(around) == 0 {
		return make()
	}
	head, err := e.view(ctx, h.set, "")
	if err != nil {
		return head, err
	}
	at, err := e.view(ctx, h.set, h.set.from)
	if err != nil {
		return at, err
	}
	after, err := make()
	if err != nil {
		return after, err
	}
	told := &insideEdit{
		namespace: h.set.namespace, to: checkpoint.ID(after.Checkpoint), metadata: after.Metadata, gone: asked(&head),
		from: []checkpoint.ID{checkpoint.ID(head.Checkpoint), checkpoint.ID(at.Checkpoint)},
	}
	maps.Copy(told.gone, asked(&at))
	for id := range asked(&after) {
		delete(told.gone, id)
	}
	for _, l := range slices.Backward(around) {
		if slices.Contains(told.from, told.to) {
			break // no news
		}
		if err := l.settle(ctx, *h.set, told); err != nil {
			return Snapshot[any]{}, err
		}
	}
	return after, nil
}

// insideEdit is an edit of the run of a subgraph.
type insideEdit struct {
	namespace string            // of its log
	from      []checkpoint.ID   // where it was made, and the log's head before
	to        checkpoint.ID     // the log's head
	metadata  map[string]string // of it
	gone      map[string]bool   // questions, by ID, that nobody asks any more
}

// settle tells the level's log of an edit inside, and the edit of what that is for the
// log around it.
func (l *level) settle(ctx context.Context, set settings, e *insideEdit) error {
	set.namespace, set.from = l.namespace, ""
	var head checkpoint.ID
	var metadata map[string]string
	snap, err := l.e.change(ctx, &set, func(s *local.Session) error {
		m := s.Machine()
		head, metadata = m.Head(), s.Tip().Record.Metadata
		if err := m.MoveChild(e.namespace, e.from, e.to); err != nil {
			return err
		}
		answers := map[string]json.RawMessage{}
		for i := range m.Tasks() {
			t := m.Task(i)
			if !local.GoesOn(m, t, e.namespace, e.to, e.metadata) {
				continue // it stands on another branch, where they are asked
			}
			for _, q := range t.Unanswered() {
				if e.gone[q.ID] {
					answers[q.ID] = json.RawMessage("null")
				}
			}
		}
		if len(answers) == 0 {
			return nil
		}
		return s.Answer(answers, nil)
	})
	if err != nil {
		return err
	}
	e.namespace, e.from, e.to, e.metadata = l.namespace, []checkpoint.ID{head}, checkpoint.ID(snap.Checkpoint), metadata
	return nil
}

// asked returns the IDs of what is waited for.
func asked(s *Snapshot[any]) map[string]bool {
	ids := map[string]bool{}
	for _, q := range s.Interrupts {
		ids[q.ID] = true
	}
	for _, w := range s.Waits {
		ids[w.ID] = true
	}
	return ids
}
