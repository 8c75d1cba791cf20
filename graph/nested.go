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
	if len(path) == 0 {
		return nil, false
	}
	for len(path) > 0 {
		n := e.nodeNamed(path[0])
		if n == nil || len(n.inner) == 0 {
			return nil, false
		}
		path = path[1:]
		if e = n.inner[0]; len(n.inner) > 1 {
			i := slices.IndexFunc(n.inner, func(e *engine) bool { return len(path) > 0 && e.prog.Plan.Name == path[0] })
			if i < 0 {
				return nil, false
			}
			e, path = n.inner[i], path[1:]
		}
	}
	return &Graph[json.RawMessage]{e: e, form: inJSON}, true
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
	in, set := &Thread[json.RawMessage]{handle: *h, form: inJSON}, *h.set
	in.set = &set
	set.from, set.before, set.after, set.inside = "", nil, nil, nil // those name nodes of the thread's graph
	if in.err != nil {
		return in
	}
	if len(in.around) > 0 {
		in.err = errors.New("graph: Inside a subgraph's run: give the thread's handle the whole namespace")
		return in
	}
	if in.ways, in.err = h.e.waysTo(namespace); in.err != nil {
		return in
	}
	way := in.ways[0]
	last := way[len(way)-1]
	in.e, in.around = last.e, way[:len(way)-1]
	// What the subgraph itself says of its states holds; all else is the handle's.
	set.namespace, set.schemas, set.onInput = last.namespace, in.e.settings.schemas, nil
	return in
}

// root returns the handle of the thread whose run the handle's is in.
func (h *handle) root() *handle {
	if len(h.around) == 0 {
		return h
	}
	r := *h
	r.e, r.around, r.ways = h.around[0].e, nil, nil
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

// waysTo returns the ways down to the run of a subgraph that has the log of a namespace.
func (e *engine) waysTo(namespace string) ([][]level, error) {
	if namespace == "" {
		return nil, errors.New("graph: Inside needs a namespace, as TaskState.Subgraphs gives it; the thread itself has none")
	}
	ways := e.ways("", namespace)
	if ways == nil {
		name, _, _, _ := checkpoint.CutSegment(namespace)
		edge := &InvalidEdgeError{Source: "Inside", Target: namespace, Near: plan.Nearest(name, e.insideNames())}
		return nil, &misnamedError{option: fmt.Sprintf("Inside graph %q", e.prog.Plan.Name), what: "namespace of a subgraph's log", err: edge}
	}
	return ways, nil
}

// ways returns the ways from e, whose log it is given, down to the run of a subgraph: of
// several graphs that a node contains each may be the one that has run. All ways have the
// same logs, which are named as the program names them: without tasks where a subgraph
// keeps its state.
func (e *engine) ways(log, rest string) (ways [][]level) {
	at := level{e: e, namespace: log}
	if rest == "" {
		return [][]level{{at}}
	}
	name, task, key, after := checkpoint.CutSegment(rest)
	n := e.nodeNamed(name)
	if rest[0] != '|' || n == nil {
		return nil
	}
	if at.part = n.part; at.part != nil { // the superstep tells its runs apart
		epoch, _, _ := strings.Cut(task, ".")
		at.epoch = checkpoint.ID(epoch)
	}
	for _, in := range n.inner {
		if len(n.inner) > 1 && n.keeps(in) != (task == "") {
			continue
		}
		for _, way := range in.ways(local.ChildNamespace(log, name, task, n.keeps(in), key), after) {
			ways = append(ways, append([]level{at}, way...))
		}
	}
	return ways
}

// way returns which of the ways is that of the run: that of the graphs which have written
// the logs on it or, as long as there are none, the first.
func (h *handle) way(ctx context.Context) ([]level, error) {
	ways := h.ways
	for i := range ways[0] {
		at := ways[0][i]
		if !slices.ContainsFunc(ways, func(way []level) bool { return way[i].e != at.e }) {
			continue
		}
		rec, _, err := local.HeadOf(ctx, h.set.store, checkpoint.Log{Thread: h.set.thread, Namespace: at.namespace})
		if err != nil {
			return nil, err
		}
		if rec == nil {
			continue
		}
		others := func(way []level) bool { return way[i].e.prog.Plan.Name != rec.Graph }
		if its := slices.DeleteFunc(slices.Clone(ways), others); len(its) > 0 {
			ways = its
		}
	}
	return ways[0], nil
}

// nodeNamed returns the node of a name, nil if there is none.
func (e *engine) nodeNamed(name string) *nodeConfig {
	if i, ok := e.prog.Plan.Node(name); ok && e.prog.Plan.Nodes[i].Name == name {
		return &e.nodes[i]
	}
	return nil
}

// keeps reports whether runs of a graph that the node contains begin where the last one
// ended.
func (n *nodeConfig) keeps(e *engine) bool { return n.part == nil && e.settings.keep }

// inside returns the graphs inside, each with the name by which [For] finds it.
func (e *engine) inside() (names []string, graphs []*engine) {
	for i := range e.nodes {
		for _, in := range e.nodes[i].inner {
			name := e.nodes[i].name
			if len(e.nodes[i].inner) > 1 {
				name += "/" + in.prog.Plan.Name
			}
			names, graphs = append(names, name), append(graphs, in)
		}
	}
	return names, graphs
}

func (e *engine) insideNames() []string {
	var out []string
	for i := range e.nodes {
		if e.nodes[i].inner != nil {
			out = append(out, e.nodes[i].name)
		}
	}
	return out
}

// levels returns the graphs around the handle's and that itself, each with the state
// from which it began if it shares that.
func (h *handle) levels(ctx context.Context) ([]level, error) {
	levels := []level{{e: h.e, namespace: h.set.namespace}}
	if h.ways != nil {
		way, err := h.way(ctx)
		if err != nil {
			return nil, err
		}
		levels = slices.Clone(way)
	}
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
