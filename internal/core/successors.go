package core

import (
	"slices"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/plan"
)

// successors are what follows the tasks of a superstep: where they lead is planned when
// it closes, and what more must come before something is planned is known in between.
type successors struct {
	g     *plan.Graph
	tasks []Task // planned so far

	next   []triggered // nodes
	round  int
	marked []int // by node: the round in which it was triggered

	joins    []join // see arrive; nil: nothing is known of any
	deferred []int  // in the order triggered
	parent   *checkpoint.Routing
}

type triggered struct{ node, from int }

// newSuccessors returns what follows tasks of a graph before any has run. Marked may be
// what there is of an earlier one.
func newSuccessors(g *plan.Graph, marked []int) successors {
	if marked == nil {
		marked = make([]int, len(g.Nodes))
	}
	return successors{g: g, round: 1, marked: marked}
}

// forget drops what is waited for.
func (p *successors) forget() { p.joins, p.deferred, p.parent = nil, nil, nil }

// begin plans what an input leads to.
func (p *successors) begin(r *Routing, room []Task) []Task {
	p.forget()
	p.tasks = room
	if r.Stop {
		p.takeParent(r)
	} else {
		p.route(plan.FromStart, r)
	}
	return p.planned()
}

// follow plans what the tasks of a superstep lead to that closes, nothing if one of them
// stops the run. Sent reports whether what they have sent is among it.
func (p *successors) follow(done []Task, stop bool, room []Task) (next []Task, sent bool) {
	if p.tasks = room; stop {
		p.joins, p.deferred = nil, nil
		for i := range done {
			p.takeParent(done[i].Routing())
		}
		return p.planned(), false
	}
	p.forgetFired()
	for i := range done {
		t := &done[i]
		if p.route(t.Node, t.Routing()); !t.added && !t.Routing().Static { // else standIn has noted it
			p.noteElsewhere(t.Node)
		}
	}
	p.fireFilled(done)
	return p.planned(), p.parent == nil
}

// planned completes the plan when all that leads to it was routed.
func (p *successors) planned() []Task {
	p.addNodes()
	if len(p.tasks) == 0 {
		p.addDeferred()
	}
	if p.parent != nil { // the run ends here, the containing graph goes on
		p.tasks, p.joins, p.deferred = p.tasks[:0], nil, nil
	}
	tasks := p.tasks
	p.tasks = nil
	return tasks
}

// standIn takes from the routing of an edit that stands in for a node what is left to
// tasks of the open superstep, by whether a node waits there: those that wait run with
// what the edit wrote, and not once more after it. That is decided here, since they end
// before the superstep does; so is at which joins the edit arrives.
func (p *successors) standIn(node int, r Routing, waits func(node int) bool) Routing {
	to := r.Goto
	if r.Static {
		to = p.g.Nodes[node].Edges
		for _, k := range p.g.Nodes[node].Joins {
			target := p.g.Joins[k].Target
			there := waits(target)
			if p.join(k).fired && (there || slices.Contains(p.deferred, target)) {
				continue
			}
			if p.noteArrival(k, node); there && p.full(k) {
				p.empty(k)
			}
		}
	} else {
		p.noteElsewhere(node)
	}
	rest := slices.DeleteFunc(slices.Clone(to), waits)
	if len(rest) < len(to) || r.Static && len(p.g.Nodes[node].Joins) > 0 {
		r.Static, r.Goto = false, rest
	}
	return r
}

// plan adds a task to the next superstep.
func (p *successors) plan(node, from int) *Task {
	i := len(p.tasks)
	if i < cap(p.tasks) { // cheaper than to append a Task, which is large
		p.tasks = p.tasks[:i+1]
		p.tasks[i] = Task{}
	} else {
		p.tasks = append(p.tasks, Task{})
	}
	t := &p.tasks[i]
	t.Index, t.Node, t.From = i, node, from
	return t
}

// route adds what a task's routing leads to: sends become tasks at once, nodes
// are collected in p.next.
func (p *successors) route(node int, r *Routing) {
	p.takeParent(r)
	p.tasks = slices.Grow(p.tasks, len(r.Sends))
	for k := range r.Sends {
		s := &r.Sends[k]
		t := p.plan(s.Node, node)
		t.Sent, t.Raw, t.Overlay = true, s.Raw, s.Overlay
	}
	if r.Static {
		if node == plan.FromStart {
			for _, t := range p.g.Entry {
				p.trigger(t, node)
			}
			return
		}
		n := &p.g.Nodes[node]
		for _, t := range n.Edges {
			p.trigger(t, node)
		}
		for _, j := range n.Joins {
			p.arrive(j, node)
		}
		return
	}
	for _, t := range r.Goto {
		p.trigger(t, node)
	}
}

func (p *successors) takeParent(r *Routing) {
	if r.Parent == nil {
		return
	}
	if p.parent == nil {
		p.parent = &checkpoint.Routing{}
	}
	for _, n := range r.Parent.Goto {
		if !slices.Contains(p.parent.Goto, n) {
			p.parent.Goto = append(p.parent.Goto, n)
		}
	}
	p.parent.Sends = append(p.parent.Sends, r.Parent.Sends...)
}

// trigger notes that a node is to run in the next superstep.
func (p *successors) trigger(node, from int) {
	if node < 0 {
		return
	}
	if p.g.Nodes[node].Defer {
		if !slices.Contains(p.deferred, node) {
			p.deferred = append(p.deferred, node)
		}
		return
	}
	p.mark(node, from)
}

// arrive notes that a source of a join has finished. When all have, the join fires:
// that it has is known until the superstep closes for which the target is planned, and
// records hold it. So an edit in that superstep knows what its target waits for. A join
// that was filled by an edit fires when all have arrived that the superstep leads there.
func (p *successors) arrive(join, node int) {
	if p.full(join) {
		return
	}
	if p.noteArrival(join, node); p.full(join) {
		p.fire(join, node)
	}
}

func (p *successors) noteArrival(join, node int) {
	j := p.join(join)
	j.sources[slices.Index(p.g.Joins[join].Sources, node)], j.fired = arrived, false
}

// noteElsewhere notes that a node ran and is led elsewhere than to its joins.
func (p *successors) noteElsewhere(node int) {
	for _, k := range p.g.Nodes[node].Joins {
		if a := &p.join(k).sources[slices.Index(p.g.Joins[k].Sources, node)]; *a == absent {
			*a = elsewhere
		}
	}
}

// join returns what is known of a join, made if nothing is.
func (p *successors) join(k int) *join {
	if p.joins == nil {
		p.joins = make([]join, len(p.g.Joins))
	}
	j := &p.joins[k]
	if j.sources == nil {
		j.sources = make([]arrival, len(p.g.Joins[k].Sources))
	}
	return j
}

// empty notes that a join has fired.
func (p *successors) empty(join int) {
	clear(p.joins[join].sources)
	p.joins[join].fired = true
}

func (p *successors) fire(join, from int) {
	p.empty(join)
	p.trigger(p.g.Joins[join].Target, from)
}

// fireFilled lets the joins fire that edits have filled in a superstep that closes.
func (p *successors) fireFilled(done []Task) {
	for k := range p.joins {
		if !p.full(k) {
			continue
		}
		from := plan.FromStart
		for i := range done {
			if slices.Contains(p.g.Joins[k].Sources, done[i].Node) {
				from = done[i].Node
			}
		}
		p.fire(k, from)
	}
}

// full reports whether all sources of a join have arrived.
func (p *successors) full(join int) bool {
	return p.joins != nil && p.joins[join].has(arrived) && !p.joins[join].has(absent) && !p.joins[join].has(elsewhere)
}

// forgetFired drops that joins have fired for a superstep that closes.
func (p *successors) forgetFired() {
	for k := range p.joins {
		if j := &p.joins[k]; j.fired && !slices.Contains(p.deferred, p.g.Joins[k].Target) {
			j.fired = false
		}
	}
}

// addNodes plans the nodes that were triggered, in declared order.
func (p *successors) addNodes() {
	for _, tr := range p.triggered() {
		p.plan(tr.node, tr.from)
	}
}

// addDeferred plans the deferred nodes, in declared order, when the run would
// otherwise end.
func (p *successors) addDeferred() {
	slices.Sort(p.deferred)
	for _, n := range p.deferred {
		p.plan(n, plan.FromStart)
	}
	p.deferred = nil
}

// sources names those sources of a join of which a is known.
func (p *successors) sources(join int, a arrival) (names []string) {
	for i, s := range p.g.Joins[join].Sources {
		if p.joins[join].sources[i] == a {
			names = append(names, p.g.Nodes[s].Name)
		}
	}
	return names
}

// mark notes that a node was triggered.
func (p *successors) mark(node, from int) {
	if p.marked[node] == p.round {
		return
	}
	p.marked[node] = p.round
	p.next = append(p.next, triggered{node, from})
}

// triggered returns the nodes triggered since the last call, in declared order.
func (p *successors) triggered() []triggered {
	next := p.next
	p.next = p.next[:0]
	p.round++
	if len(next) > 1 {
		slices.SortFunc(next, func(a, b triggered) int { return a.node - b.node })
	}
	return next
}

// incomplete returns a *JoinError if a join is partly filled.
func (p *successors) incomplete() error {
	for k := range p.joins {
		if p.joins[k].has(arrived) {
			return &JoinError{
				Target:  p.g.Nodes[p.g.Joins[k].Target].Name,
				Arrived: p.sources(k, arrived), Elsewhere: p.sources(k, elsewhere), Missing: p.sources(k, absent),
			}
		}
	}
	return nil
}

// join is what is known of a join since it fired last.
type join struct {
	sources []arrival // in the order declared; nil: nothing is known
	fired   bool      // for a node that is planned or deferred, and nothing has arrived since
}

// arrival says what a source of a join has done since the join fired last.
type arrival uint8

const (
	absent    arrival = iota // it did not run
	elsewhere                // it ran, and a command or its router led elsewhere
	arrived
)

func (j *join) has(a arrival) bool { return slices.Contains(j.sources, a) }

// record says in a record what is waited for, restore takes it from there.
func (p *successors) record(rec *checkpoint.Record) {
	for _, d := range p.deferred {
		rec.Deferred = append(rec.Deferred, p.g.Nodes[d].Name)
	}
	for k := range p.joins {
		if j := &p.joins[k]; j.fired || j.has(arrived) || j.has(elsewhere) {
			rec.Joins = append(rec.Joins, checkpoint.Arrival{Join: p.g.Joins[k].ID, Sources: p.sources(k, arrived), Elsewhere: p.sources(k, elsewhere), Fired: j.fired})
		}
	}
}

func (p *successors) restore(rec *checkpoint.Record, c *codec) error {
	for _, name := range rec.Deferred {
		n, err := c.node(name)
		if err != nil {
			return err
		}
		p.deferred = append(p.deferred, n)
	}
	for _, a := range rec.Joins {
		if err := p.restoreJoin(a, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *successors) restoreJoin(a checkpoint.Arrival, c *codec) error {
	k := p.g.JoinByID(a.Join)
	switch {
	case k >= 0:
	case len(a.Sources) == 0: // nothing waits there
		return nil
	default:
		return &UnknownNodeError{Thread: string(c.Log.Thread), Node: "join " + a.Join}
	}
	j := p.join(k)
	j.fired = a.Fired
	for i, s := range slices.Concat(a.Sources, a.Elsewhere) {
		n, err := c.node(s)
		if err != nil {
			return err
		}
		known := arrived
		if i >= len(a.Sources) {
			known = elsewhere
		}
		if i := slices.Index(p.g.Joins[k].Sources, n); i >= 0 {
			j.sources[i] = known
		}
	}
	return nil
}
