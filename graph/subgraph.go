package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Mapping connects the state P of a graph with the state C of a subgraph.
type Mapping[P, C any] struct {
	// In writes the subgraph's input, given the containing graph's state,
	// which it must not change. Nil: no input.
	In func(parent *P, child *C)

	// Out writes what the subgraph came to into the containing graph's state.
	// Nil: nothing.
	Out func(child *C, parent *P)
}

// AddSubgraph adds a graph as a node of another. When the node runs, the
// subgraph runs from its entry to its end as one task. Its checkpoints stand
// below the task's, so that it goes on where it was after an interrupt or a
// crash; its questions are the thread's questions; its events carry the node in
// their Path. Options given to child's Compile hold for its limits and
// breakpoints, and [For] sets others; its own checkpointer, thread and observer are not
// used.
//
// The subgraph's state begins at zero each time; see [KeepState].
func AddSubgraph[P, C any](b *Builder[P], name string, child *Graph[C], m Mapping[P, C], opts ...NodeOption) *Builder[P] {
	run := running(child, func(parent *P, c *C, _ any) error {
		if m.In != nil {
			m.In(parent, c)
		}
		return nil
	}, func(c *C, parent *P, _ any) error {
		if m.Out != nil {
			m.Out(c, parent)
		}
		return nil
	})
	addSubgraph(b, plan.NodeSpec{Name: name}, child, run, nil, opts)
	return b
}

// AddSubgraphTask adds a graph as a task of another: as [AddSubgraph] does, for a node
// that runs on payloads sent to it, once for each, all in parallel. Enter writes the
// subgraph's input, leave what it came to into the containing graph's state; an error of
// either is the task's.
func AddSubgraphTask[In, P, C any](b *Builder[P], name string, child *Graph[C], enter func(parent *P, child *C, in In) error, leave func(child *C, parent *P, in In) error, opts ...NodeOption) Task[In] {
	var run func(context.Context, any, any) (local.Command, error)
	if enter != nil && leave != nil {
		run = running(child, func(parent *P, c *C, payload any) error {
			in, err := payloadAs[In](payload)
			if err != nil {
				return err
			}
			return enter(parent, c, in)
		}, func(c *C, parent *P, payload any) error {
			in, err := payloadAs[In](payload)
			if err != nil {
				return err
			}
			return leave(c, parent, in)
		})
	}
	addSubgraph(b, plan.NodeSpec{Name: name, Task: !pointer[In](), Nil: run == nil}, child, run, decodePayload[In], opts)
	return Task[In]{name: name}
}

// running returns the function of a node that runs a graph.
func running[P, C any](child *Graph[C], in func(parent *P, child *C, payload any) error, out func(child *C, parent *P, payload any) error) func(context.Context, any, any) (local.Command, error) {
	return func(ctx context.Context, state, payload any) (local.Command, error) {
		parent := state.(*P)
		called, err := child.e.call(ctx, "AddSubgraph", local.Call{
			Keep:  child.e.settings.keep,
			Input: func(st any) error { return in(parent, st.(*C), payload) },
		})
		if err != nil {
			return local.Command{}, err
		}
		return parentCommand(called), out(called.State.(*C), parent, payload)
	}
}

// AddShared adds a graph whose state C is a part of the containing graph's
// state P: usually a struct that P embeds. The subgraph starts from that part
// as it is, and what it writes becomes the node's writes: items added to a list
// are added once. Its checkpoints hold changes only.
func AddShared[P, C any](b *Builder[P], name string, child *Graph[C], part func(parent *P) *C, opts ...NodeOption) *Builder[P] {
	run := func(ctx context.Context, state, _ any) (local.Command, error) {
		shared := part(state.(*P))
		called, err := child.e.call(ctx, "AddShared", local.Call{Seed: shared})
		if err != nil {
			return local.Command{}, err
		}
		for _, w := range called.Wrote {
			if err := child.e.state.Write(shared, w.Changes, w.Over); err != nil {
				return local.Command{}, err
			}
		}
		return parentCommand(called), nil
	}
	share := nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		n.part = func(parent any) any { return part(parent.(*P)) }
	})
	addSubgraph(b, plan.NodeSpec{Name: name}, child, run, nil, append([]NodeOption{share}, opts...))
	return b
}

// KeepState makes a subgraph keep its state for the life of the thread: each
// run begins where the last one on the thread's line ended. Calling it twice in
// one superstep is an error. It is an option of the subgraph's Compile.
func KeepState() Option { return graphSetting(func(s *settings) { s.keep = true }) }

// ParentDestinations declares the nodes of the containing graph that a mounted
// subgraph may go to with [GotoParent]. They are checked by the containing
// graph's Compile, which refuses them for nodes that are not subgraphs.
func ParentDestinations(nodes ...string) NodeOption {
	return nodeSetting(func(spec *plan.NodeSpec, _ *nodeConfig) {
		spec.ParentDestinations = append(slices.Clone(spec.ParentDestinations), nodes...)
	})
}

// Call runs a graph inside a node and returns its final state. It is for calls
// that depend on the node's data; a subgraph that is a node is declared with
// [AddSubgraph], which drawings show. The key tells several calls of one task
// apart.
//
// To the node, a called graph is a function: it does not decide where the run goes
// on. If it ends by [GotoParent] or [DispatchParent], Call returns its state with a
// [ParentError].
func Call[C any](ctx context.Context, key string, child *Graph[C], input func(s *C) error) (*C, error) {
	if child == nil || child.e == nil {
		return nil, fmt.Errorf("graph: Call %q: the subgraph is nil or was never compiled", key)
	}
	call := local.Call{Key: key, Keep: child.e.settings.keep}
	if input != nil {
		call.Input = func(st any) error { return input(st.(*C)) }
	}
	called, err := child.e.call(ctx, "Call", call)
	if err != nil {
		return nil, err
	}
	if to := (Command{parentCommand(called)}); !to.IsZero() {
		err = &ParentError{Graph: child.Name(), Key: key, To: to}
	}
	return called.State.(*C), err
}

// Contains declares a graph that a node runs with [Call]: drawings show it inside of the
// node, [Graph.Subgraph] and [For] find it by the node's name, and [Thread.Inside] its runs.
// A node may contain several, which have different names: they are found by the node's
// name, a slash (in a path of Subgraph, an element) and their own.
func Contains[C any](child *Graph[C]) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		if child == nil || child.e == nil {
			n.mistake("pass the graph that its builder's Compile returned", "the subgraph is nil or was never compiled")
			return
		}
		for _, e := range n.inner {
			if e.prog.Plan.Name == child.Name() {
				n.mistake("give each graph a name of its own", "it contains graph %q already", child.Name())
				return
			}
		}
		n.inner = append(n.inner, child.e)
		n.local.Several = len(n.inner) > 1
	})
}

func parentCommand(c *local.Called) local.Command {
	if c.Parent == nil {
		return local.Command{}
	}
	return *c.Parent
}

// mount marks the node as a subgraph.
var mount = nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) { n.mounted = true })

func addSubgraph[P, C any](b *Builder[P], spec plan.NodeSpec, child *Graph[C], run func(context.Context, any, any) (local.Command, error), decode func(json.RawMessage) (any, error), opts []NodeOption) {
	b.made().add(spec, run, decode, append([]NodeOption{Contains(child), mount}, opts...))
}
