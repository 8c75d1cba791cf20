package graph

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/draw"
)

// Subgraph is a graph inside another one. Its states are JSON, since whoever asks
// need not know its type.
type Subgraph interface {
	Name() string

	// JSONSchema is [Graph.JSONSchema].
	JSONSchema(input bool) (json.RawMessage, error)

	// StateJSON is [Graph.State]; see there. Namespace must name the log of one of
	// the subgraph's runs, as [TaskState.Subgraphs] gives it. The log of a subgraph
	// that shares its parent's state holds what it changed alone.
	StateJSON(ctx context.Context, opts ...Option) (*Snapshot[json.RawMessage], error)

	// CheckJSON is [Graph.CheckJSON].
	CheckJSON(update []byte) error

	// UpdateStateJSON is [Graph.UpdateState] with an update in JSON.
	UpdateStateJSON(ctx context.Context, update json.RawMessage, opts ...Option) (*Snapshot[json.RawMessage], error)

	nested
}

// nested is what graphs know of those inside them.
type nested interface {
	Drawing(opts ...DrawOption) *draw.Graph
	inside(name string) Subgraph
	insideNames() []string
}

func (g *Graph[S]) inside(name string) Subgraph {
	for i, n := range g.prog.Plan.Nodes {
		if n.Name == name {
			return g.nodes[i].child
		}
	}
	return nil
}

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
	if len(path) == 0 {
		return nil, false
	}
	var at nested = g
	var sub Subgraph
	for _, name := range path {
		if sub = at.inside(name); sub == nil {
			return nil, false
		}
		at = sub
	}
	return sub, true
}

// SubgraphIn returns the graph whose run has the log of a namespace, as
// [TaskState.Subgraphs] gives it.
func (g *Graph[S]) SubgraphIn(namespace string) (Subgraph, bool) {
	var at nested = g
	var sub Subgraph
	for rest := namespace; rest != ""; {
		sub = nil
		for _, name := range at.insideNames() {
			after, ok := strings.CutPrefix(rest, "/"+name)
			if !ok || after != "" && after[0] != ':' && after[0] != '/' {
				continue
			}
			// What follows the name tells runs of the node apart.
			if i := strings.IndexByte(after, '/'); i >= 0 {
				after = after[i:]
			} else {
				after = ""
			}
			sub, rest = at.inside(name), after
			break
		}
		if sub == nil {
			return nil, false
		}
		at = sub
	}
	return sub, sub != nil
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
	}, nil
}

func inJSON[S any](s *Snapshot[S], err error) (*Snapshot[json.RawMessage], error) {
	if err != nil {
		return nil, err
	}
	return s.JSON()
}
