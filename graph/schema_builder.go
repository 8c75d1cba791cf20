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

// MapNode is a node of a schema graph. It is given its own copy of the state:
// what it does to the map, nested values included, has no effect. It returns
// what it wants changed: a [MapState] with the fields to update, a *[MapCommand]
// to choose where to go as well, a list of those to run a task for each, a
// [Command], or nil.
type MapNode func(ctx context.Context, state MapState) (any, error)

// SchemaBuilder collects the nodes and edges of a graph whose state is a map
// with the fields that a [Schema] declares. It is a front end of [Builder]: the
// graph that it compiles to has the same calls as any other, over the state
// [SchemaState].
//
// A node costs time in proportion to what it sees: [Reads] limits that, and a
// node added to [SchemaBuilder.Builder] reads only what it asks for.
type SchemaBuilder struct {
	b      *Builder[SchemaState]
	schema *Schema
}

// NewSchemaGraph returns a builder for a graph with that name and schema.
func NewSchemaGraph(name string, schema *Schema) *SchemaBuilder {
	b := New[SchemaState](name)
	b.source = func() (values[SchemaState], []Problem) {
		if schema == nil {
			return nil, []Problem{{Kind: "field", Text: "the graph has no schema", Fix: "pass graph.NewSchema()"}}
		}
		t, ps := schema.make()
		schema.mu.Lock()
		warn := schema.warn
		schema.mu.Unlock()
		if warn == nil {
			warn = logWarnings(name)
		}
		if t == nil {
			return nil, ps
		}
		ps = slices.Clip(ps)
		for i := range b.nodes {
			for _, f := range b.nodes[i].reads {
				if _, ok := t.index[f]; !ok {
					ps = append(ps, Problem{Kind: "field", Name: f, Text: fmt.Sprintf("node %q reads field %q, which the schema doesn't declare", b.nodes[i].name, f),
						Fix: near(f, t.values.FieldNames())})
				}
			}
		}
		return schemaValues{t.values, t, warn}, ps
	}
	return &SchemaBuilder{b: b, schema: schema}
}

func near(name string, names []string) string {
	if n := plan.Nearest(name, names); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return "declare it with AddField"
}

// Reads limits what a node of a schema graph is given to the named fields.
func Reads(fields ...string) NodeOption {
	return func(_ *plan.NodeSpec, n *nodeConfig) {
		n.stateType = reflect.TypeFor[SchemaState]()
		n.reads = append(slices.Clone(n.reads), fields...)
	}
}

// Builder returns the builder below, for what goes beyond nodes that take a
// map: nodes that take a *[SchemaState], [AddTask], [AddSubgraph] and
// callbacks. What is added to it is part of the same graph.
func (b *SchemaBuilder) Builder() *Builder[SchemaState] { return b.b }

// AddNode adds a node.
func (b *SchemaBuilder) AddNode(name string, fn MapNode, opts ...NodeOption) *SchemaBuilder {
	var run func(context.Context, any, any) (local.Command, error)
	var reads []string
	if fn != nil {
		run = func(ctx context.Context, state, _ any) (local.Command, error) {
			s := state.(*SchemaState)
			if err := s.missing(name); err != nil {
				return local.Command{}, err
			}
			s.node = name
			out, err := fn(ctx, s.only(reads))
			if err != nil {
				return local.Command{}, err
			}
			return took(ctx, s, name, out)
		}
	}
	b.b.add(plan.NodeSpec{Name: name, Chooses: true, Nil: fn == nil}, run, nil, opts)
	reads = b.b.nodes[len(b.b.nodes)-1].reads
	return b
}

// AddTask adds a node that runs on payloads sent to it by [Schema.Send], once
// for each, all in parallel. It sees its payload and not the state; its result
// is that of any node. No edge leads to it.
func (b *SchemaBuilder) AddTask(name string, fn func(ctx context.Context, payload MapState) (any, error), opts ...NodeOption) *SchemaBuilder {
	var run func(context.Context, any, any) (local.Command, error)
	if fn != nil {
		run = func(ctx context.Context, state, payload any) (local.Command, error) {
			s := state.(*SchemaState)
			s.node = name
			raw, _ := payload.(json.RawMessage)
			in, err := s.t.readPayload(raw)
			if err != nil {
				return local.Command{}, fmt.Errorf("payload: %w", err)
			}
			out, err := fn(ctx, in)
			if err != nil {
				return local.Command{}, err
			}
			return took(ctx, s, name, out)
		}
	}
	decode := func(raw json.RawMessage) (any, error) { return raw, nil }
	b.b.add(plan.NodeSpec{Name: name, Task: true, Chooses: true, Nil: fn == nil}, run, decode, opts)
	return b
}

// took writes a node's result to its state and returns where it leads.
func took(ctx context.Context, s *SchemaState, node string, out any) (local.Command, error) {
	switch out := out.(type) {
	case nil:
		return local.Command{}, nil
	case MapState:
		return local.Command{}, s.Update(out)
	case map[string]any:
		return local.Command{}, s.Update(out)
	case *MapCommand:
		if out == nil {
			return local.Command{}, nil
		}
		return out.Goto.local(), s.Update(out.Update)
	case []*MapCommand:
		return spread(ctx, s.t, node, out)
	case Command:
		return out.local(), nil
	}
	return local.Command{}, &ResultTypeError{Node: node, Type: reflect.TypeOf(out).String()}
}

// spread returns the tasks that a list of commands stands for.
func spread(ctx context.Context, t *schemaType, node string, list []*MapCommand) (local.Command, error) {
	var sum, parent local.Command
	for i, c := range list {
		fail := func(err error) (local.Command, error) {
			return local.Command{}, fmt.Errorf("command %d of the list that node %q returned: %w", i, node, err)
		}
		if c == nil || c.Goto.IsZero() {
			return local.Command{}, fmt.Errorf("command %d of the list that node %q returned has no destination", i, node)
		}
		to := c.Goto.local()
		sum.Stop = sum.Stop || to.Stop
		if to.Parent == nil || len(to.Goto)+len(to.Sends) > 0 {
			overlay, err := t.overlay(node, c.Update)
			if err == nil {
				sum.Sends, err = sends(sum.Sends, to, overlay)
			}
			if err != nil {
				return fail(err)
			}
		}
		if to.Parent == nil {
			continue
		}
		sum.Parent = &parent
		overlay, err := parentOverlay(ctx, node, c.Update)
		if err == nil {
			parent.Sends, err = sends(parent.Sends, *to.Parent, overlay)
		}
		if err != nil {
			return fail(err)
		}
	}
	if sum.Parent != nil && parent.Zero() {
		parent.Goto = []string{End}
	}
	if sum.Zero() {
		sum.Goto = []string{End}
	}
	return sum, nil
}

// sends adds a task for each destination of a command, which sees an overlay.
func sends(list []local.Send, c local.Command, overlay json.RawMessage) ([]local.Send, error) {
	for _, name := range c.Goto {
		if name != End {
			list = append(list, local.Send{Node: name, Overlay: overlay})
		}
	}
	for _, send := range c.Sends {
		if send.Overlay != nil && overlay != nil {
			return nil, fmt.Errorf("it has an update, and a send to %q with an overlay of its own", send.Node)
		}
		if overlay != nil {
			send.Overlay = overlay
		}
		list = append(list, send)
	}
	return list, nil
}

// parentOverlay returns the update of a command for tasks of the containing graph,
// in the form of that graph's state: the two need not have a schema in common.
func parentOverlay(ctx context.Context, node string, update MapState) (json.RawMessage, error) {
	if len(update) == 0 {
		return nil, nil
	}
	t, err := task(ctx, "MapCommand")
	if err != nil {
		return nil, err
	}
	name, state, ok := t.Containing()
	if !ok {
		return nil, nil // that there is none is reported where the command leads
	}
	s, ok := state.(*SchemaState)
	if !ok {
		return nil, &ParentUpdateError{Node: node, Graph: name}
	}
	return s.t.overlay(node, update)
}

// AddEdge makes to follow from; see [Builder.AddEdge].
func (b *SchemaBuilder) AddEdge(from, to string) *SchemaBuilder {
	b.b.AddEdge(from, to)
	return b
}

// AddJoin makes to run once all sources have run; see [Builder.AddJoin].
func (b *SchemaBuilder) AddJoin(sources []string, to string) *SchemaBuilder {
	b.b.AddJoin(sources, to)
	return b
}

// AddSequence adds edges from each node to the next.
func (b *SchemaBuilder) AddSequence(names ...string) *SchemaBuilder {
	b.b.AddSequence(names...)
	return b
}

// AddConditionalEdges lets a router decide what follows a node by a label.
// Routes maps labels to nodes; they are checked by Compile and drawn. A label
// that it doesn't have may be the name of a node, or [End]; anything else is an
// [InvalidEdgeError]. Without routes the router names nodes. The node's static edges
// are never followed.
//
// The router sees the state as the node left it, without what other nodes of
// the superstep wrote. What it does to the map has no effect.
func (b *SchemaBuilder) AddConditionalEdges(from string, router func(ctx context.Context, state MapState) (string, error), routes map[string]string) *SchemaBuilder {
	var many func(context.Context, MapState) ([]string, error)
	if router != nil {
		many = func(ctx context.Context, state MapState) ([]string, error) {
			label, err := router(ctx, state)
			return []string{label}, err
		}
	}
	b.AddMultiConditionalEdges(from, many, routes)
	b.b.spec.Conditionals[len(b.b.spec.Conditionals)-1].Chooses = true
	return b
}

// AddMultiConditionalEdges is AddConditionalEdges for a router that decides on
// several branches, which run in parallel. No label at all follows the static
// edges of the node.
func (b *SchemaBuilder) AddMultiConditionalEdges(from string, router func(ctx context.Context, state MapState) ([]string, error), routes map[string]string) *SchemaBuilder {
	spec := plan.ConditionalSpec{From: from, Nil: router == nil}
	labels := slices.Sorted(maps.Keys(routes))
	for _, l := range labels {
		spec.Labels = append(spec.Labels, plan.Label{Name: l, To: routes[l]})
	}
	b.b.spec.Conditionals = append(b.b.spec.Conditionals, spec)
	if router == nil {
		return b
	}
	routes = maps.Clone(routes)
	b.b.routers = append(b.b.routers, routerConfig{from: from, labelled: func(isNode func(string) bool) local.Router {
		return func(ctx context.Context, state any) (local.Command, error) {
			chosen, err := router(ctx, state.(*SchemaState).Map())
			if err != nil {
				return local.Command{}, err
			}
			var c local.Command
			for _, label := range chosen {
				to, ok := routes[label]
				switch {
				case ok:
				case isNode(label):
					to = label
				case len(labels) == 0:
					return local.Command{}, &InvalidEdgeError{Source: from, Target: label}
				default:
					return local.Command{}, &InvalidEdgeError{Source: from, Target: label, Allowed: labels, Near: plan.Nearest(label, labels), Reason: "which is neither a label of its routes nor a node"}
				}
				c.Goto = append(c.Goto, to)
			}
			return c, nil
		}
	}})
	return b
}

// SetEntryPoint makes a node the first one: the same as an edge from [Start].
func (b *SchemaBuilder) SetEntryPoint(name string) *SchemaBuilder {
	b.b.SetEntryPoint(name)
	return b
}

// SetFinishPoint makes a node end its branch: the same as an edge to [End].
func (b *SchemaBuilder) SetFinishPoint(name string) *SchemaBuilder {
	b.b.SetFinishPoint(name)
	return b
}

// Compile checks the graph and its schema; see [Builder.Compile]. Any node may
// go to any other by a command. When some node can't be reached otherwise, it
// is taken to be reached so, unless all nodes declare their [Destinations].
func (b *SchemaBuilder) Compile(opts ...Option) (*Graph[SchemaState], error) {
	return b.b.Compile(opts...)
}

// MustCompile is Compile for graphs written down in code: it panics where
// Compile returns an error.
func (b *SchemaBuilder) MustCompile(opts ...Option) *Graph[SchemaState] {
	return b.b.MustCompile(opts...)
}

// compileFrom is Compile for a builder whose states come from a source.
func (b *Builder[S]) compileFrom(opts []Option) (*Graph[S], error) {
	v, problems := b.source()
	c := *b
	var warnings []Problem
	if _, ps := plan.Compile(c.spec); slices.ContainsFunc(ps, func(p plan.Problem) bool { return p.Kind == plan.Unreachable || p.Kind == plan.BadJoin }) {
		c.spec.Nodes = slices.Clone(c.spec.Nodes)
		for i := range c.spec.Nodes {
			if n := &c.spec.Nodes[i]; n.Destinations == nil {
				n.Command = true
			}
		}
		for _, p := range ps {
			if p.Kind == plan.Unreachable {
				warnings = append(warnings, Problem{Kind: string(p.Kind), Name: p.Node, Text: fmt.Sprintf("node %q runs only if a command leads to it", p.Node),
					Fix: "declare it as a destination of the node that goes to it"})
			}
		}
	}
	g, err := c.compile(v, problems, opts)
	if err != nil {
		return nil, err
	}
	g.e.warnings = append(g.e.warnings, warnings...)
	return g, nil
}
