package core

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// codec writes and reads what records say of tasks, in which nodes go by their names.
type codec struct {
	*Config
	to []*checkpoint.Routing // by node, from [plan.ToEnd] on: to it alone, or nil
}

// alone returns what a record says of a routing to one node, shared by all that do:
// nobody alters it.
func (c *codec) alone(node int) *checkpoint.Routing {
	if c.to == nil {
		c.to = make([]*checkpoint.Routing, len(c.Plan.Nodes)-plan.ToEnd)
	}
	r := &c.to[node-plan.ToEnd]
	if *r == nil {
		*r = &checkpoint.Routing{Goto: []string{c.Plan.NameOf(node)}}
	}
	return *r
}

func (c *codec) node(name string) (int, error) {
	i, ok := c.Plan.Recorded(name)
	if !ok {
		return 0, &UnknownNodeError{Thread: string(c.Log.Thread), Node: name, Near: plan.Nearest(name, c.Plan.Names())}
	}
	return i, nil
}

// restore makes a task of what is recorded of it. Planned is the version of the state's
// schema in which its superstep was planned.
func (c *codec) restore(t *Task, s *checkpoint.TaskState, planned int) (err error) {
	t.Index, t.From, t.added = s.Task, plan.FromStart, s.Planned == nil
	if t.Node, err = c.node(s.Node); err != nil {
		return err
	}
	if p := s.Planned; p != nil {
		t.Sent, t.Raw = p.Sent, p.Payload
		if t.Overlay, err = Upgrade(c.Values, planned, p.Overlay); err != nil {
			return err
		}
		if from, ok := c.Plan.Recorded(p.From); ok {
			t.From = from
		}
	}
	t.Gen, t.folded, t.passed, t.ran, t.cut = s.Gen, s.Folded, s.Passed, s.Ran, s.Cut
	t.ErrText, t.Failure, t.Questions, t.Children, t.kept = s.Error, s.Failure, s.Questions, s.Children, s.Kept
	t.saved = saved{changes: s.Ran && !s.Folded, routing: s.Routing != nil, open: s.Known, asked: s.Asked > 0 && s.Asked == len(s.Questions)}
	if err := c.restoreChanges(t, s.ChangesVersion, s.Changes); err != nil || s.Routing == nil {
		return err
	}
	r, err := c.decode(s.Routing, s.RoutingVersion)
	if t.routing = &r; r.isAlong() {
		t.routing = &along
	}
	return err
}

// restoreChanges takes in what a task wrote.
func (c *codec) restoreChanges(t *Task, version int, data json.RawMessage) (err error) {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	if t.changes, err = Recorded(c.Values, version, data); err != nil {
		return err
	}
	t.data, err = c.Values.Encode(t.changes)
	return err
}

func (c *codec) marshal(r *Routing) json.RawMessage {
	if r.isAlong() {
		return alongEdges
	}
	return must(json.Marshal(c.encode(r)))
}

func (c *codec) encode(r *Routing) *checkpoint.Routing {
	out := &checkpoint.Routing{Static: r.Static, Stop: r.Stop, Parent: r.Parent}
	for _, t := range r.Goto {
		out.Goto = append(out.Goto, c.Plan.NameOf(t))
	}
	for _, s := range r.Sends {
		out.Sends = append(out.Sends, checkpoint.Task{Node: c.Plan.Nodes[s.Node].Name, Payload: s.Raw, Overlay: s.Overlay})
	}
	return out
}

// decode reads a routing that a version of the state's schema recorded. What
// is sent to the containing graph stays as it is.
func (c *codec) decode(r *checkpoint.Routing, version int) (Routing, error) {
	out := Routing{Static: r.Static, Stop: r.Stop, Parent: r.Parent}
	for _, name := range r.Goto {
		if name == plan.End {
			out.Goto = append(out.Goto, plan.ToEnd)
			continue
		}
		i, err := c.node(name)
		if err != nil {
			return out, err
		}
		out.Goto = append(out.Goto, i)
	}
	for _, s := range r.Sends {
		i, err := c.node(s.Node)
		if err != nil {
			return out, err
		}
		overlay, err := Upgrade(c.Values, version, s.Overlay)
		if err != nil {
			return out, err
		}
		out.Sends = append(out.Sends, Send{Node: i, Raw: s.Payload, Overlay: overlay})
	}
	return out, nil
}

// alongEdges is the recorded form of a Routing along the static edges, which is
// what most tasks have. It is written into records and never altered.
var alongEdges = must(json.Marshal(&checkpoint.Routing{Static: true}))
