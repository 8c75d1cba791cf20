package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/internal/local"
)

// Subgraph is a graph inside another one, from [Graph.Subgraph], or one of its runs,
// from [Graph.SubgraphIn]. Its states are JSON, since whoever asks need not know its
// type.
type Subgraph interface {
	Name() string

	// JSONSchema is [Graph.JSONSchema].
	JSONSchema(input bool) (json.RawMessage, error)

	// StateJSON is [Graph.State]; see there. Namespace must name the log of one of
	// the subgraph's runs, as [TaskState.Subgraphs] gives it.
	StateJSON(ctx context.Context, opts ...Option) (*Snapshot[json.RawMessage], error)

	// CheckJSON is [Graph.CheckJSON].
	CheckJSON(update []byte) error

	// UpdateStateJSON is [Graph.UpdateState] with an update in JSON, of the run that
	// Namespace names. The thread around it is told: an edit as a node that asks takes
	// the question from it, and the next run of a subgraph that keeps its state begins
	// with the edit. The run of any other subgraph is over when it has ended, and
	// nothing reads an edit of it.
	UpdateStateJSON(ctx context.Context, update json.RawMessage, opts ...Option) (*Snapshot[json.RawMessage], error)

	nested
}

// nested is what graphs know of those inside them.
type nested interface {
	Drawing(opts ...DrawOption) *draw.Graph
	inside(name string) (child Subgraph, part func(parent any) any)
	insideNames() []string
	keepsState() bool

	// stateIn returns the state from which the tasks of a superstep began, of a
	// run with its log in a namespace.
	stateIn(ctx context.Context, namespace string, epoch checkpoint.ID, opts []Option) (any, error)

	// from returns the graph for a run that began with a state.
	from(seed any) Subgraph

	// settle tells the log of a namespace of an edit inside, and the edit of what that
	// is for the log around it.
	settle(ctx context.Context, namespace string, e *insideEdit, opts []Option) error
}

// insideEdit is an edit of the run of a subgraph.
type insideEdit struct {
	namespace string            // of its log
	from      []checkpoint.ID   // where it was made, and the log's head before
	to        checkpoint.ID     // the log's head
	metadata  map[string]string // of it
	gone      map[string]bool   // questions, by ID, that nobody asks any more
}

func (g *Graph[S]) inside(name string) (Subgraph, func(parent any) any) {
	for i, n := range g.prog.Plan.Nodes {
		if n.Name == name {
			return g.nodes[i].child, g.nodes[i].part
		}
	}
	return nil, nil
}

func (g *Graph[S]) stateIn(ctx context.Context, namespace string, epoch checkpoint.ID, opts []Option) (any, error) {
	set, err := g.with(ctx, opts)
	if err != nil {
		return nil, err
	}
	if set.store == nil {
		return nil, fmt.Errorf("a thread %w", ErrNoCheckpointer)
	}
	log := checkpoint.Log{Thread: set.thread, Namespace: namespace}
	var st any
	err = local.Settled(ctx, set.store, log, func() error {
		rec, _, err := set.store.Head(ctx, log)
		if err == nil && rec.Epoch != epoch { // else there may be edits since
			rec, err = set.store.Get(ctx, log, epoch)
		}
		if err == nil {
			st, err = local.StateAt(ctx, set.store, g.prog.Values, rec, local.Growing{})
		}
		return err
	})
	if err != nil {
		return nil, &CheckpointError{Thread: set.thread, Op: "load", Err: err}
	}
	return st, nil
}

func (g *Graph[S]) from(seed any) Subgraph {
	c := *g
	c.prog, c.kept = g.prog.From(seed), local.NewKept()
	return &c
}

func (g *Graph[S]) settle(ctx context.Context, namespace string, e *insideEdit, opts []Option) error {
	set, err := g.with(ctx, append(slices.Clip(opts), Namespace(namespace), From("")))
	if err != nil {
		return err
	}
	var head checkpoint.ID
	var metadata map[string]string
	snap, err := g.change(ctx, &set, func(s *local.Session) error {
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
	e.namespace, e.from, e.to, e.metadata = namespace, []checkpoint.ID{head}, checkpoint.ID(snap.Checkpoint), metadata
	return nil
}

// mounted is a run of a subgraph with what is around it.
type mounted struct {
	Subgraph
	namespace string
	around    []level // from the root on
}

// level is a graph and the namespace of its log.
type level struct {
	nested
	namespace string
}

// UpdateStateJSON also tells the logs around it: of questions that are asked no more,
// and of where a state that is kept stands now.
func (m *mounted) UpdateStateJSON(ctx context.Context, update json.RawMessage, opts ...Option) (*Snapshot[json.RawMessage], error) {
	head, err := m.StateJSON(ctx, append(slices.Clip(opts), From(""))...)
	if err != nil {
		return nil, err
	}
	at, err := m.StateJSON(ctx, opts...)
	if err != nil {
		return nil, err
	}
	after, err := m.Subgraph.UpdateStateJSON(ctx, update, opts...)
	if err != nil {
		return after, err
	}
	e := &insideEdit{
		namespace: m.namespace, to: checkpoint.ID(after.Checkpoint), metadata: after.Metadata, gone: asked(head),
		from: []checkpoint.ID{checkpoint.ID(head.Checkpoint), checkpoint.ID(at.Checkpoint)},
	}
	maps.Copy(e.gone, asked(at))
	for id := range asked(after) {
		delete(e.gone, id)
	}
	for _, l := range slices.Backward(m.around) {
		if slices.Contains(e.from, e.to) {
			break // no news
		}
		if err := l.settle(ctx, l.namespace, e, opts); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// asked returns the IDs of what is waited for.
func asked[S any](s *Snapshot[S]) map[string]bool {
	ids := map[string]bool{}
	for _, q := range s.Interrupts {
		ids[q.ID] = true
	}
	for _, w := range s.Waits {
		ids[w.ID] = true
	}
	return ids
}

// sharing is a run of a subgraph that shares its parent's state.
type sharing struct {
	Subgraph
	parent nested
	outer  string // namespace of the parent's log
	epoch  checkpoint.ID
	part   func(parent any) any
}

// begun returns the subgraph with the state from which it began.
func (s *sharing) begun(ctx context.Context, opts []Option) (Subgraph, error) {
	st, err := s.parent.stateIn(ctx, s.outer, s.epoch, opts)
	if err != nil {
		return nil, err
	}
	return s.Subgraph.from(s.part(st)), nil
}

func (s *sharing) StateJSON(ctx context.Context, opts ...Option) (*Snapshot[json.RawMessage], error) {
	g, err := s.begun(ctx, opts)
	if err != nil {
		return nil, err
	}
	return g.StateJSON(ctx, opts...)
}

func (s *sharing) UpdateStateJSON(ctx context.Context, update json.RawMessage, opts ...Option) (*Snapshot[json.RawMessage], error) {
	g, err := s.begun(ctx, opts)
	if err != nil {
		return nil, err
	}
	return g.UpdateStateJSON(ctx, update, opts...)
}

func (s *sharing) stateIn(ctx context.Context, namespace string, epoch checkpoint.ID, opts []Option) (any, error) {
	g, err := s.begun(ctx, opts)
	if err != nil {
		return nil, err
	}
	return g.stateIn(ctx, namespace, epoch, opts)
}

func (s *sharing) settle(ctx context.Context, namespace string, e *insideEdit, opts []Option) error {
	g, err := s.begun(ctx, opts)
	if err != nil {
		return err
	}
	return g.settle(ctx, namespace, e, opts)
}

func (g *Graph[S]) keepsState() bool { return g.settings.keep }

func (g *Graph[S]) insideNames() []string {
	var out []string
	for i, n := range g.prog.Plan.Nodes {
		if g.nodes[i].child != nil {
			out = append(out, n.Name)
		}
	}
	return out
}

// Subgraph returns the graph inside the node that a path of nodes leads to, the
// nodes of subgraphs after those that hold them.
func (g *Graph[S]) Subgraph(path ...string) (Subgraph, bool) {
	var at nested = g.made()
	if len(path) == 0 {
		return nil, false
	}
	var sub Subgraph
	for _, name := range path {
		if sub, _ = at.inside(name); sub == nil {
			return nil, false
		}
		at = sub
	}
	return &placed{sub, g.SubgraphIn, func(opts []Option) (string, error) {
		set, err := g.settings.with(opts)
		return set.namespace, err
	}}, true
}

// placed is a subgraph of which a run is asked for by its namespace.
type placed struct {
	Subgraph
	run       func(namespace string) (Subgraph, bool)
	namespace func(opts []Option) (string, error)
}

// in returns the run that options name.
func (p *placed) in(opts []Option) (Subgraph, error) {
	ns, err := p.namespace(opts)
	if err != nil {
		return nil, err
	}
	if run, ok := p.run(ns); ok && run.Name() == p.Name() {
		return run, nil
	}
	return p.Subgraph, nil
}

func (p *placed) StateJSON(ctx context.Context, opts ...Option) (*Snapshot[json.RawMessage], error) {
	run, err := p.in(opts)
	if err != nil {
		return nil, err
	}
	return run.StateJSON(ctx, opts...)
}

func (p *placed) UpdateStateJSON(ctx context.Context, update json.RawMessage, opts ...Option) (*Snapshot[json.RawMessage], error) {
	run, err := p.in(opts)
	if err != nil {
		return nil, err
	}
	return run.UpdateStateJSON(ctx, update, opts...)
}

// SubgraphIn returns the graph whose run has the log of a namespace, as
// [TaskState.Subgraphs] gives it.
func (g *Graph[S]) SubgraphIn(namespace string) (Subgraph, bool) {
	var at nested = g.made()
	var sub Subgraph
	var around []level
	for rest := namespace; rest != ""; {
		sub = nil
		outer := namespace[:len(namespace)-len(rest)]
		for _, name := range at.insideNames() {
			after, ok := strings.CutPrefix(rest, "/"+name)
			if !ok || after != "" && after[0] != ':' && after[0] != '/' {
				continue
			}
			// What follows the name tells runs of the node apart: the superstep, and more.
			run := after
			if i := strings.IndexByte(after, '/'); i >= 0 {
				run, after = after[:i], after[i:]
			} else {
				after = ""
			}
			var part func(any) any
			if sub, part = at.inside(name); part != nil {
				epoch, _, _ := strings.Cut(strings.TrimPrefix(run, ":"), ".")
				sub = &sharing{Subgraph: sub, parent: at, outer: outer, epoch: checkpoint.ID(epoch), part: part}
			}
			rest = after
			break
		}
		if sub == nil {
			return nil, false
		}
		around = append(around, level{at, outer})
		at = sub
	}
	if sub == nil {
		return nil, false
	}
	return &mounted{sub, namespace, around}, true
}

// StateJSON is [Graph.State] with the state in JSON.
func (g *Graph[S]) StateJSON(ctx context.Context, opts ...Option) (*Snapshot[json.RawMessage], error) {
	return inJSON(g.State(ctx, opts...))
}

// CheckJSON reports what is wrong with an update in JSON, as [Graph.UpdateJSON]
// would for a state without content.
func (g *Graph[S]) CheckJSON(update []byte) error { return g.UpdateJSON(new(S), update) }

// UpdateStateJSON is [Graph.UpdateState] with an update in JSON, as
// [Graph.UpdateJSON] takes it, and the state in JSON. A nil update is none.
func (g *Graph[S]) UpdateStateJSON(ctx context.Context, update json.RawMessage, opts ...Option) (*Snapshot[json.RawMessage], error) {
	if update == nil {
		return inJSON(g.UpdateState(ctx, nil, opts...))
	}
	if err := g.CheckJSON(update); err != nil {
		return nil, err
	}
	var failed error
	snap, err := g.UpdateState(ctx, func(s *S) {
		if failed = g.UpdateJSON(s, update); failed != nil {
			panic(failed) // which makes the call fail
		}
	}, opts...)
	return inJSON(snap, err)
}

// JSON returns the snapshot with its state in JSON.
func (s *Snapshot[S]) JSON() (*Snapshot[json.RawMessage], error) {
	state, err := json.Marshal(&s.State)
	if err != nil {
		return nil, err
	}
	return &Snapshot[json.RawMessage]{
		State: state, Next: s.Next, Interrupts: s.Interrupts, Waits: s.Waits, Tasks: s.Tasks, Thread: s.Thread, Namespace: s.Namespace,
		Checkpoint: s.Checkpoint, Parent: s.Parent, Step: s.Step, Source: s.Source, CreatedAt: s.CreatedAt, Metadata: s.Metadata, Recent: s.Recent,
		incomplete: s.incomplete,
	}, nil
}

func inJSON[S any](s *Snapshot[S], err error) (*Snapshot[json.RawMessage], error) {
	if err != nil {
		return nil, err
	}
	return s.JSON()
}
