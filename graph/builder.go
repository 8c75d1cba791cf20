package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Names of the entry and the end of every graph. They can't be added as nodes.
const (
	Start = plan.Start
	End   = plan.End
)

// Builder collects the nodes and edges of a graph over the state S. Mistakes
// are reported by [Builder.Compile], all at once. A Builder is not safe for
// concurrent use.
type Builder[S any] struct{ draft draft }

// draft is what a builder has collected. It knows the type of the states, but its code
// is that of all of them: what depends on S is compiled again for each S.
type draft struct {
	state    reflect.Type
	schema   func() (*schemaType, []Problem) // of a schema graph
	spec     plan.Spec
	nodes    []nodeConfig
	defaults nodeConfig // of the nodes
	routers  []routerConfig
	problems []Problem
	settings settings
	input    *inputType
	output   *outputType
}

// nodeConfig is a node as declared.
type nodeConfig struct {
	policy
	local       local.Node
	description string
	idled       bool                 // there is an idle timeout, perhaps 0
	stateType   reflect.Type         // of typed options; nil: none
	inner       []*engine            // the graphs that it contains
	mounted     bool                 // it is the one that it contains, and doesn't only call it
	part        func(parent any) any // of the containing graph's state, which the graph inside shares; nil: none
	reads       []string             // fields that the node is given; nil: all
	name        string
	label       string
}

type routerConfig struct {
	from   string
	router local.Router

	// labelled, if set, makes the router, given the compiled graph's nodes: a
	// label that its routes don't have may be the name of a node.
	labelled func(isNode func(name string) bool) local.Router
}

// New returns a builder for a graph with that name. The name appears in
// checkpoints, events and drawings.
func New[S any](name string) *Builder[S] {
	return &Builder[S]{draft: draft{state: reflect.TypeFor[S](), spec: plan.Spec{Name: name}}}
}

// AddNode adds a node: a function that reads and writes the state it is given.
// If it returns nil, its changes are committed with the superstep; if it
// returns an error, they are discarded.
//
// The state is the node's own copy, and valid until the node returns.
func (b *Builder[S]) AddNode(name string, fn func(ctx context.Context, s *S) error, opts ...NodeOption) *Builder[S] {
	var run func(context.Context, any, any) (local.Command, error)
	if fn != nil {
		run = func(ctx context.Context, state, _ any) (local.Command, error) {
			return local.Command{}, fn(ctx, state.(*S))
		}
	}
	b.made().add(plan.NodeSpec{Name: name, Nil: fn == nil}, run, nil, opts)
	return b
}

// AddCommandNode adds a node that chooses where to go. The zero [Command]
// follows the node's edges; any other replaces them. [Destinations] declares
// where it may go, for drawings and checks.
func (b *Builder[S]) AddCommandNode(name string, fn func(ctx context.Context, s *S) (Command, error), opts ...NodeOption) *Builder[S] {
	var run func(context.Context, any, any) (local.Command, error)
	if fn != nil {
		run = func(ctx context.Context, state, _ any) (local.Command, error) {
			c, err := fn(ctx, state.(*S))
			return c.local(), err
		}
	}
	b.made().add(plan.NodeSpec{Name: name, Command: true, Nil: fn == nil}, run, nil, opts)
	return b
}

// Task is a node that runs on a payload. It is made by [AddTask].
type Task[In any] struct{ name string }

// Send returns a command part that runs the task on in, in the next superstep.
// The payload is encoded as JSON at once: what the caller changes afterwards
// isn't seen. It is an error of the sender if that fails.
func (t Task[In]) Send(in In) Send {
	data, err := encodePayload(in)
	return Send{send: local.Send{Node: t.name, Raw: data, Err: err}}
}

// AddTask adds a node that runs on payloads sent to it: once for each Send, all
// in parallel. Edges out of it work as for other nodes. No edge leads to it, unless
// In is a pointer: then it runs on nil, as a node of its own.
//
// (A function, since methods have no type parameters.)
func AddTask[In, S any](b *Builder[S], name string, fn func(ctx context.Context, s *S, in In) error, opts ...NodeOption) Task[In] {
	var run func(context.Context, any, any) (local.Command, error)
	if fn != nil {
		run = func(ctx context.Context, state, payload any) (local.Command, error) {
			in, err := payloadAs[In](payload)
			if err != nil {
				return local.Command{}, err
			}
			return local.Command{}, fn(ctx, state.(*S), in)
		}
	}
	b.made().add(plan.NodeSpec{Name: name, Task: !pointer[In](), Nil: fn == nil}, run, decodePayload[In], opts)
	return Task[In]{name: name}
}

// AddCommandTask adds a task that chooses where to go; see [AddTask] and
// [Builder.AddCommandNode].
func AddCommandTask[In, S any](b *Builder[S], name string, fn func(ctx context.Context, s *S, in In) (Command, error), opts ...NodeOption) Task[In] {
	var run func(context.Context, any, any) (local.Command, error)
	if fn != nil {
		run = func(ctx context.Context, state, payload any) (local.Command, error) {
			in, err := payloadAs[In](payload)
			if err != nil {
				return local.Command{}, err
			}
			c, err := fn(ctx, state.(*S), in)
			return c.local(), err
		}
	}
	b.made().add(plan.NodeSpec{Name: name, Task: !pointer[In](), Command: true, Nil: fn == nil}, run, decodePayload[In], opts)
	return Task[In]{name: name}
}

// pointer reports whether a payload may be missing.
func pointer[In any]() bool { return reflect.TypeFor[In]().Kind() == reflect.Pointer }

// payloadAs gives back what decodePayload made. A Go value doesn't survive in
// payload while the task waits: it is decoded for each attempt, so that an
// attempt can't spoil the next one's input.
func payloadAs[In any](payload any) (In, error) {
	in, ok := payload.(*In)
	if !ok {
		return *new(In), fmt.Errorf("payload is a %T, want %T", payload, *new(In))
	}
	return *in, nil
}

func (d *draft) add(spec plan.NodeSpec, run func(context.Context, any, any) (local.Command, error), decode func(json.RawMessage) (any, error), opts []NodeOption) {
	n := nodeConfig{local: local.Node{Name: spec.Name, Run: run, Decode: decode}, name: spec.Name}
	for _, o := range opts {
		if o == nil {
			d.problem(plan.NoFunction, spec.Name, "remove it", "node %q has a nil option", spec.Name)
			continue
		}
		o.node(&spec, &n)
	}
	if len(spec.ParentDestinations) > 0 && !n.mounted {
		n.mistake("add the graph with AddSubgraph or AddShared, or use Destinations for a node's own", "it has ParentDestinations and is not a subgraph")
	}
	if n.mounted && len(n.inner) > 1 {
		n.mistake("run it in a node of its own", "it is graph %q, and contains %q", n.inner[0].prog.Plan.Name, n.inner[1].prog.Plan.Name)
	}
	if spec.Task && spec.Defer {
		n.mistake("lead the tasks to a node that has it", "it has Defer and runs when something is sent to it")
	}
	for _, m := range n.mistakes {
		d.problem(plan.BadNode, spec.Name, m.fix, "node %q: %s", spec.Name, m.text)
	}
	if n.stateType != nil && n.stateType != d.state {
		d.problem(plan.BadEdge, spec.Name, fmt.Sprintf("make it for %v", d.state), "an option of node %q is for the state %v", spec.Name, n.stateType)
	}
	d.spec.Nodes = append(d.spec.Nodes, spec)
	d.nodes = append(d.nodes, n)
}

// Mistake adds to the mistakes that [Builder.Compile] reports. It is for packages
// that build parts of graphs: node names where it was made, err says what is
// wrong. A nil err is none.
func (b *Builder[S]) Mistake(node string, err error) *Builder[S] {
	if err != nil {
		b.made().problem(plan.BadNode, node, "", "%v", err)
	}
	return b
}

// Defaults sets options of the graph that hold unless [Builder.Compile] or a call is
// given others. It is for packages that build parts of graphs.
func (b *Builder[S]) Defaults(opts ...Option) *Builder[S] {
	b.made().setDefaults(opts)
	return b
}

func (d *draft) setDefaults(opts []Option) {
	set, err := with(&d.settings, opts)
	if err != nil {
		d.problem("option", "", "", "%v", err)
	}
	d.settings = *set
}

// made returns what the builder has collected. It panics on one that there is not.
func (b *Builder[S]) made() *draft {
	if b == nil {
		panic("graph: the *Builder is nil: graph.New makes one")
	}
	return &b.draft
}

func (d *draft) problem(kind, node, fix, format string, args ...any) {
	d.problems = append(d.problems, Problem{Kind: kind, Name: node, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// AddEdge makes to follow from. Several edges out of one node run their targets
// in parallel; a node that several edges lead to runs once in every superstep
// that follows one in which at least one of their sources ran (use
// [Builder.AddJoin] to wait for all). An edge to [End] ends that branch, as a
// node without any edge does.
func (b *Builder[S]) AddEdge(from, to string) *Builder[S] {
	d := b.made()
	d.spec.Edges = append(d.spec.Edges, plan.EdgeSpec{From: from, To: to})
	return b
}

// AddJoin makes to run once all sources have run, in whatever supersteps. When
// it has fired, it waits for all of them again. A source arrives as it follows a
// static edge: not when a command or a router leads it elsewhere, and never when it
// has routes ([Builder.AddRoutes]), which Compile refuses. A run that would end while
// a join is partly filled fails with a [JoinError].
func (b *Builder[S]) AddJoin(sources []string, to string) *Builder[S] {
	d := b.made()
	d.spec.Joins = append(d.spec.Joins, plan.JoinSpec{Sources: slices.Clone(sources), Target: to})
	return b
}

// AddConditionalEdges lets a router decide what follows a node. It is called
// once after each run of the node and sees the state as the node left it,
// without what other nodes of the superstep wrote; it must not write. The zero
// Command follows the static edges of the node, any other replaces them.
//
// Destinations, if given, are the nodes that the router may name: naming
// another is an error. Without them it may name any node, and drawings show
// that its destinations aren't known.
func (b *Builder[S]) AddConditionalEdges(from string, router func(ctx context.Context, s *S) (Command, error), destinations ...string) *Builder[S] {
	var route func(ctx context.Context, state any) (Command, error)
	if router != nil {
		route = func(ctx context.Context, state any) (Command, error) { return router(ctx, state.(*S)) }
	}
	b.made().conditional(from, route, destinations)
	return b
}

func (d *draft) conditional(from string, router func(ctx context.Context, state any) (Command, error), destinations []string) {
	allowed := slices.Clone(destinations)
	d.spec.Conditionals = append(d.spec.Conditionals, plan.ConditionalSpec{From: from, Destinations: allowed, Nil: router == nil})
	if router == nil {
		return
	}
	d.routers = append(d.routers, routerConfig{from: from, router: func(ctx context.Context, state any) (local.Command, error) {
		c, err := router(ctx, state)
		if err != nil {
			return local.Command{}, err
		}
		lc := c.local()
		return lc, checkDestinations(from, allowed, &lc)
	}})
}

// checkDestinations checks that a router leads to what it may name; nil is everything.
func checkDestinations(from string, allowed []string, c *local.Command) error {
	if allowed == nil {
		return nil
	}
	other := func(name string) error {
		if slices.Contains(allowed, name) {
			return nil
		}
		return &InvalidEdgeError{Source: from, Target: name, Allowed: allowed, Near: plan.Nearest(name, allowed), Reason: "which is not among its declared destinations"}
	}
	for _, name := range c.Goto.List() {
		if err := other(name); err != nil {
			return err
		}
	}
	for _, s := range c.Sends {
		if err := other(s.Node); err != nil {
			return err
		}
	}
	return nil
}

// AddRoutes lets a router decide what follows a node by a label: routes maps
// labels to nodes. A label that the map does not have may be the name of a
// node, or [End]; anything else is an [InvalidEdgeError]. Without routes the router
// names nodes. The node's static edges are never followed. See
// [Builder.AddConditionalEdges] for what the router sees, and for several labels at once.
func (b *Builder[S]) AddRoutes(from string, router func(ctx context.Context, s *S) (label string, err error), routes map[string]string) *Builder[S] {
	var choose func(ctx context.Context, state any) (label string, err error)
	if router != nil {
		choose = func(ctx context.Context, state any) (string, error) { return router(ctx, state.(*S)) }
	}
	b.made().routes(from, choose, routes)
	return b
}

func (d *draft) routes(from string, router func(ctx context.Context, state any) (label string, err error), routes map[string]string) {
	spec := plan.ConditionalSpec{From: from, Nil: router == nil, Chooses: true}
	labels := slices.Sorted(maps.Keys(routes))
	for _, l := range labels {
		spec.Labels = append(spec.Labels, plan.Label{Name: l, To: routes[l]})
	}
	d.spec.Conditionals = append(d.spec.Conditionals, spec)
	if router == nil {
		return
	}
	routes = maps.Clone(routes)
	d.routers = append(d.routers, routerConfig{from: from, labelled: func(isNode func(string) bool) local.Router {
		return func(ctx context.Context, state any) (local.Command, error) {
			label, err := router(ctx, state)
			if err != nil {
				return local.Command{}, err
			}
			if to, ok := routes[label]; ok {
				return local.Command{Goto: local.NamesOf(to)}, nil
			}
			switch {
			case isNode(label):
			case len(labels) == 0:
				return local.Command{}, &InvalidEdgeError{Source: from, Target: label}
			default:
				return local.Command{}, &InvalidEdgeError{Source: from, Target: label, Allowed: labels, Near: plan.Nearest(label, labels), Reason: "which is neither a label of its routes nor a node"}
			}
			return local.Command{Goto: local.NamesOf(label)}, nil
		}
	}})
}

// SetEntryPoint makes a node the first one: the same as an edge from [Start].
func (b *Builder[S]) SetEntryPoint(name string) *Builder[S] {
	d := b.made()
	d.spec.Entries = append(d.spec.Entries, name)
	return b
}

// SetFinishPoint makes a node end its branch: the same as an edge to [End].
// There may be several.
func (b *Builder[S]) SetFinishPoint(name string) *Builder[S] { return b.AddEdge(name, End) }

// AddSequence adds edges from each node to the next.
func (b *Builder[S]) AddSequence(names ...string) *Builder[S] {
	for i := 1; i < len(names); i++ {
		b.AddEdge(names[i-1], names[i])
	}
	return b
}
