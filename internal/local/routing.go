package local

import (
	"context"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/core"
	"github.com/superstep-dev/superstep/internal/plan"
)

// routerGrace is how long a router may take before the changes of its node are
// recorded on their own.
const routerGrace = time.Millisecond

// route decides where the task leads, and says so.
func (e *execution) route() (err error) {
	s, node, at := e.s, e.node, e.at
	if len(node.Routers) == 0 || !e.command.Zero() {
		e.Routing, err = s.leads(e.ctx, node, e.command, nil)
		return err
	}
	if s.saver != nil {
		if e.slow == nil {
			e.slow = new(slowRouter)
			e.slow.limit, e.slow.of = routerGrace, e.slow
		}
		e.slow.begin(e)
		defer e.slow.end()
	}
	if at == nil {
		at = s.place()
	}
	base, err := s.prog.overlaid(s.m.State(), e.task)
	if err == nil {
		e.Routing, err = s.leads(e.ctx, node, Command{}, &leaving{at: at, index: e.task.Index, base: base, changes: e.Changes, beside: !e.lone})
	}
	return err
}

// slowRouter sees to it that the changes of a task are recorded on their own whose
// routers take long.
type slowRouter struct {
	watch
	e *execution // nil: none routes
}

func (r *slowRouter) begin(e *execution) {
	r.e = e
	r.watch.begin(time.Time{})
}

// end returns when the changes are recorded, if they are to be: or that would be done after
// the superstep's end has dropped what stands beside the log.
func (r *slowRouter) end() {
	r.watch.end()
	r.e = nil
}

func (r *slowRouter) overdue() {
	e, s := r.e, r.e.s
	s.beside.Store(true)
	// If this fails, so does saving the task's result.
	_ = s.saver.saveNow(e.ctx, &checkpoint.Write{Log: s.o.Log, Results: s.m.RanResults(e.task, e.Data, e.kept())})
}

// alongEdges is shared by all that follow their static edges; nobody alters it.
var alongEdges = core.Routing{Static: true}

// leaving is what the routers of a task are called with.
type leaving struct {
	at            *place
	index         int
	base, changes any  // the state that the task began with, and what it wrote
	beside        bool // other tasks may run
}

// leads returns where a node leads: where its command says, else its routers, else its
// static edges. It may be shared: nobody alters it.
func (s *Session) leads(ctx context.Context, node *Node, c Command, l *leaving) (r *core.Routing, err error) {
	if c.Zero() && len(node.Routers) > 0 {
		if c, err = s.callRouters(ctx, node, l); err != nil {
			return nil, err
		}
	}
	if c.Zero() {
		return &alongEdges, nil
	}
	if r := s.prog.aloneTo(&c); r != nil {
		return r, nil
	}
	led, err := s.prog.resolve(node.Name, &c, s.o.parent != nil)
	return &led, err
}

// edgesOf is leads for what is no task: an input, or an edit as a node.
func (s *Session) edgesOf(ctx context.Context, node *Node, c Command, base, changes any) (*core.Routing, error) {
	l := leaving{base: base, changes: changes}
	if c.Zero() && len(node.Routers) > 0 {
		l.at = s.place()
	}
	return s.leads(ctx, node, c, &l)
}

// callRouters calls the routers of a node in turn and adds up where they lead.
func (s *Session) callRouters(ctx context.Context, node *Node, l *leaving) (sum Command, err error) {
	seen := l.base
	if l.changes != nil {
		if l.beside {
			seen, err = s.prog.with(l.base, l.changes)
		} else { // there is no other task that would use what is kept for it
			f := s.flight
			f.one[0] = l.changes
			seen, _, err = s.prog.Values.Fold(f.forks.Look(l.base), f.one[:], core.Given)
			f.one[0] = nil
		}
		if err != nil {
			return sum, err
		}
	}
	for _, router := range node.Routers {
		var mine any
		var t *Task
		if l.beside {
			mine, t = s.prog.Values.Fork(seen), new(Task)
		} else {
			mine, t = s.flight.forks.Fork(seen), s.flight.routers.Next()
		}
		t.Context, t.s, t.at, t.nth, t.from, t.node, t.attempt, t.router = ctx, s, l.at, int32(l.index), plan.FromStart, node, 1, true
		var c Command
		err := t.guarded(func(ctx context.Context) (err error) {
			c, err = router(ctx, mine)
			return err
		})
		t.end()
		if err != nil {
			return sum, err
		}
		wrote, err := s.prog.Values.Changes(seen, mine, nil)
		if err != nil {
			return sum, fmt.Errorf("the state that the router of node %q was given: %w", node.Name, err)
		}
		if wrote != nil {
			data, _ := s.prog.Values.Encode(wrote)
			field, _ := largest(data)
			return sum, &MutationError{Node: node.Name, Field: field, Kind: "router"}
		}
		sum = sum.And(c)
	}
	return sum, nil
}

// Alone returns the routings to each node of a graph alone, for [Program.Alone].
func Alone(g *plan.Graph) []core.Routing {
	to := make([]core.Routing, len(g.Nodes))
	for i := range to {
		to[i].Goto = []int{i}
	}
	return to
}

// toEnd is shared by all that lead to the end alone; nobody alters it.
var toEnd = core.Routing{Goto: []int{plan.ToEnd}}

// aloneTo returns where a command leads that is a Goto of one node, as most are; nil
// if it isn't one, or not a good one. It is shared: nobody alters it.
func (p *Program) aloneTo(c *Command) *core.Routing {
	name, alone := c.Goto.Alone()
	if !alone || len(c.Sends) > 0 || c.Parent != nil || c.Stop {
		return nil
	}
	if name == plan.End {
		return &toEnd
	}
	if i, ok := p.Plan.Node(name); ok && !p.Plan.Nodes[i].Task && i < len(p.Alone) {
		return &p.Alone[i]
	}
	return nil
}

// resolve checks a command's destinations and turns names into indexes. In a subgraph,
// it is nested, they may be in the containing graph.
func (p *Program) resolve(source string, c *Command, nested bool) (core.Routing, error) {
	r := core.Routing{Stop: c.Stop}
	g := p.Plan
	var i int
	var ok bool
	for _, name := range c.Goto.List() {
		if name == plan.End {
			r.Goto = append(r.Goto, plan.ToEnd)
			continue
		}
		i, ok := g.Node(name)
		if !ok {
			return r, &InvalidEdgeError{Source: source, Target: name, Near: plan.Nearest(name, g.Names())}
		}
		if g.Nodes[i].Task {
			return r, &InvalidEdgeError{Source: source, Target: name, Reason: "a task that needs a payload: use its Send method"}
		}
		r.Goto = append(r.Goto, i)
	}
	if len(c.Sends) > 0 {
		r.Sends = make([]core.Send, 0, len(c.Sends))
	}
	for k := range c.Sends {
		send := &c.Sends[k]
		if k == 0 || send.Node != c.Sends[k-1].Node { // sends to one node mostly stand together
			i, ok = g.Node(send.Node)
		}
		if !ok {
			return r, &InvalidEdgeError{Source: source, Target: send.Node, Near: plan.Nearest(send.Node, g.Names())}
		}
		if send.Err != nil {
			return r, fmt.Errorf("payload for node %q: %w", send.Node, send.Err)
		}
		if p.Nodes[i].Decode == nil && send.Raw != nil {
			return r, &InvalidEdgeError{Source: source, Target: send.Node, Reason: "which takes no payload"}
		}
		r.Sends = append(r.Sends, core.Send{Node: i, Raw: send.Raw, Overlay: send.Overlay})
	}
	if c.Parent != nil {
		if !nested {
			return r, &InvalidEdgeError{Source: source, Target: "parent", Reason: "but this graph is not running as a subgraph"}
		}
		r.Parent = &checkpoint.Routing{Goto: c.Parent.Goto.List()}
		for _, send := range c.Parent.Sends {
			if send.Err != nil {
				return r, fmt.Errorf("payload for node %q: %w", send.Node, send.Err)
			}
			r.Parent.Sends = append(r.Parent.Sends, checkpoint.Task{Node: send.Node, Payload: send.Raw, Overlay: send.Overlay})
		}
	}
	return r, nil
}
