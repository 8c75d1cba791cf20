package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/superstep-dev/superstep/internal/local"
	"github.com/superstep-dev/superstep/internal/plan"
)

// NewSchemaGraph returns a builder for a graph with that name, whose state is a map with
// the fields that a schema declares: a [SchemaState]. Nodes that take and return maps
// are added by [AddMapNode]; all else is as with any graph. Any node may go to any other
// by a command. When some node can't be reached otherwise, it is taken to be reached so,
// unless all nodes declare their [Destinations].
func NewSchemaGraph(name string, schema *Schema) *Builder[SchemaState] {
	b := New[SchemaState](name)
	b.draft.schema = func() (*schemaType, []Problem) {
		if schema == nil {
			return nil, []Problem{{Kind: "field", Text: "the graph has no schema", Fix: "pass graph.NewSchema()"}}
		}
		return schema.make()
	}
	return b
}

func near(name string, names []string) string {
	if n := plan.Nearest(name, names); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return "declare it with AddField"
}

// Reads names the fields that a node of a schema graph reads. Compile reports those that
// the schema doesn't declare, and a node that is added by [AddMapNode] is given no others.
func Reads(fields ...string) NodeOption {
	return nodeSetting(func(_ *plan.NodeSpec, n *nodeConfig) {
		n.stateType = reflect.TypeFor[SchemaState]()
		n.reads = append(slices.Clone(n.reads), fields...)
	})
}

// AddMapNode adds a node to a schema graph that is given its own copy of the state:
// what it does to the map, nested values included, has no effect. It returns what it
// wants changed: a [MapState] with the fields to update, a *[MapCommand] to choose where
// to go as well, a list of those to run a task for each, a [Command], or nil.
//
// A node costs time in proportion to what it sees: [Reads] limits that, and a node added
// by [Builder.AddNode] reads only what it asks for.
func AddMapNode(b *Builder[SchemaState], name string, fn func(ctx context.Context, state MapState) (any, error), opts ...NodeOption) *Builder[SchemaState] {
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
	b.made().add(plan.NodeSpec{Name: name, Chooses: true, Nil: fn == nil}, run, nil, opts)
	reads = b.draft.nodes[len(b.draft.nodes)-1].reads
	return b
}

// AddMapTask adds a node to a schema graph that runs on payloads sent to it by
// [Schema.Send], once for each, all in parallel. It sees its payload and not the state;
// its result is that of [AddMapNode]. No edge leads to it.
func AddMapTask(b *Builder[SchemaState], name string, fn func(ctx context.Context, payload MapState) (any, error), opts ...NodeOption) *Builder[SchemaState] {
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
	b.made().add(plan.NodeSpec{Name: name, Task: true, Chooses: true, Nil: fn == nil}, run, decode, opts)
	return b
}

// took writes a node's result to its state and returns where it leads.
func took(ctx context.Context, s *SchemaState, node string, out any) (local.Command, error) {
	switch out := out.(type) {
	case nil:
		return local.Command{}, nil
	case MapState:
		return local.Command{}, out.Into(s)
	case map[string]any:
		return local.Command{}, MapState(out).Into(s)
	case *MapCommand:
		if out == nil {
			return local.Command{}, nil
		}
		return out.Goto.local(), out.Update.Into(s)
	case []*MapCommand:
		return spread(ctx, s.t, node, out)
	case Command:
		return out.local(), nil
	}
	return local.Command{}, &FieldError{Node: node, Reason: fmt.Sprintf("a %T; it may return a graph.MapState, a *graph.MapCommand, a []*graph.MapCommand, a graph.Command or nil", out)}
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
		if to.Parent == nil || to.Goto.Len()+len(to.Sends) > 0 {
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
		parent.Goto = local.NamesOf(End)
	}
	if sum.Zero() {
		sum.Goto = local.NamesOf(End)
	}
	return sum, nil
}

// sends adds a task for each destination of a command, which sees an overlay.
func sends(list []local.Send, c local.Command, overlay json.RawMessage) ([]local.Send, error) {
	for _, name := range c.Goto.List() {
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
		return nil, &FieldError{Node: node, Reason: fmt.Sprintf("an update for tasks of graph %q, whose state is not a map: send them a payload with DispatchParent", name)}
	}
	return s.t.overlay(node, update)
}

// compileSchema is compile for states with a schema. Nodes that can't be reached otherwise
// are taken to be reached by commands.
func (d *draft) compileSchema(opts []Option) (*engine, error) {
	t, problems := d.schema()
	var v values
	if t != nil {
		v = schemaValues{Type: t.values, t: t}
		problems = append(slices.Clip(problems), d.misread(t)...)
	}
	c := *d
	var warnings []Problem
	if _, ps, _ := plan.Compile(c.spec); slices.ContainsFunc(ps, func(p Problem) bool { return p.Kind == plan.Unreachable || p.Kind == plan.BadJoin }) {
		c.spec.Nodes = slices.Clone(c.spec.Nodes)
		for i := range c.spec.Nodes {
			if n := &c.spec.Nodes[i]; n.Destinations == nil {
				n.Command = true
			}
		}
		for _, p := range ps {
			if p.Kind == plan.Unreachable {
				warnings = append(warnings, Problem{Kind: p.Kind, Name: p.Name, Text: fmt.Sprintf("node %q runs only if a command leads to it", p.Name),
					Fix: "declare it as a destination of the node that goes to it"})
			}
		}
	}
	e, err := c.compile(v, problems, opts)
	if err == nil {
		e.warnings = append(e.warnings, warnings...)
	}
	return e, err
}

// misread reports fields that nodes read and the schema doesn't declare.
func (d *draft) misread(t *schemaType) (problems []Problem) {
	for i := range d.nodes {
		for _, f := range d.nodes[i].reads {
			if _, ok := t.index[f]; !ok {
				problems = append(problems, Problem{Kind: "field", Name: f, Text: fmt.Sprintf("node %q reads field %q, which the schema doesn't declare", d.nodes[i].name, f),
					Fix: near(f, t.values.FieldNames())})
			}
		}
	}
	return problems
}
