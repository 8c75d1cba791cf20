package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Problem is a mistake in a graph.
type Problem struct {
	Kind string // such as "unknown node" or "field type"
	Name string // the node or field concerned; may be empty
	Text string // what is wrong
	Fix  string // what to do about it
}

// The kinds of problems of a declaration.
const (
	BadName       = "bad name"
	Duplicate     = "duplicate node"
	Reserved      = "reserved name"
	NoFunction    = "nil function"
	BadNode       = "bad node"
	UnknownNode   = "unknown node"
	NoEntry       = "no entry"
	TwoEntries    = "two entries"
	Unreachable   = "unreachable node"
	BadJoin       = "join cannot complete"
	BadEdge       = "bad edge"
	BadBreakpoint = "unknown breakpoint"
)

func (p Problem) String() string {
	if p.Fix == "" {
		return p.Text
	}
	return p.Text + "; " + p.Fix
}

// Compile checks a declaration, which nobody may alter any more, and indexes it. All problems are reported at
// once; the graph is nil if there are any. Advice is about a graph that may run.
func Compile(spec Spec) (g *Graph, problems, advice []Problem) {
	c := compiler{spec: spec, g: &Graph{Name: spec.Name, Former: spec.Former, index: map[string]int{}}, chosen: map[int][]int{}, free: map[int]bool{}}
	c.nodes()
	c.entry()
	c.edges()
	c.joins()
	c.conditionals()
	c.destinations()
	c.breakpoints()
	c.reach()
	if len(c.problems) > 0 {
		return nil, c.problems, nil
	}
	c.g.spec = c.spec
	if !c.endReachable() {
		advice = []Problem{{Kind: BadEdge, Text: "every node leads to another: the run ends only at the step limit or by an interrupt or command"}}
	}
	return c.g, nil, advice
}

type compiler struct {
	spec     Spec
	g        *Graph
	problems []Problem

	// Where nodes, and Start, may go that choose: what is declared, or anywhere.
	chosen map[int][]int
	free   map[int]bool

	// What an edge that is wrong may have been meant to lead to: reach takes it
	// for reachable, so as not to report what follows from another mistake.
	meant    []int
	anywhere bool
}

func (c *compiler) problem(kind, node, fix, format string, args ...any) {
	c.problems = append(c.problems, Problem{Kind: kind, Name: node, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (c *compiler) nodes() {
	for _, n := range c.spec.Nodes {
		switch {
		case n.Name == "":
			c.problem(BadName, "", "give it a name", "a node has an empty name")
			continue
		case !utf8.ValidString(n.Name):
			c.problem(BadName, n.Name, "choose another name: records bear it", "the node name %q is not valid UTF-8", n.Name)
			continue
		case n.Name == Start || n.Name == End:
			c.problem(Reserved, n.Name, "choose another name; the entry and the end need not be added", "%q is reserved and can't be added as a node", n.Name)
			continue
		case n.Name == "*":
			c.problem(Reserved, n.Name, "choose another name", "%q means every node in a list of breakpoints and can't be a node's name", n.Name)
			continue
		}
		if _, ok := c.g.index[n.Name]; ok {
			c.problem(Duplicate, n.Name, "rename or remove one of them", "node %q is added twice", n.Name)
			continue
		}
		if n.Nil {
			c.problem(NoFunction, n.Name, "pass the node's function", "node %q has a nil function", n.Name)
		}
		i := len(c.g.Nodes)
		c.g.index[n.Name] = i
		c.g.Nodes = append(c.g.Nodes, Node{Name: n.Name, Defer: n.Defer, Task: n.Task, Command: n.Command})
	}
	for _, n := range c.spec.Nodes {
		i, ok := c.g.index[n.Name]
		for _, former := range n.Former {
			_, is := c.g.index[former]
			other, taken := c.g.former[former]
			switch {
			case !ok:
			case is:
				c.problem(Duplicate, former, "drop the former name, or rename the node that has it", "node %q was formerly %q, but there is a node of that name", n.Name, former)
			case taken && other != i:
				c.problem(Duplicate, former, "leave it with one of them", "both %q and %q were formerly %q", c.g.Nodes[other].Name, n.Name, former)
			default:
				if c.g.former == nil {
					c.g.former = map[string]int{}
				}
				c.g.former[former] = i
			}
		}
	}
	if len(c.spec.Nodes) == 0 {
		c.problem(NoEntry, "", "add a node with AddNode", "the graph has no nodes")
	}
}

// target resolves the end of an edge. what describes the edge.
func (c *compiler) target(name, what string) (int, bool) {
	if name == End {
		return ToEnd, true
	}
	if name == Start {
		c.problem(BadEdge, name, "lead it to the first node instead", "%s leads to %q, which nothing can lead to", what, Start)
		return 0, false
	}
	i, ok := c.g.index[name]
	if !ok {
		c.problem(UnknownNode, name, c.suggest(name), "%s leads to %q, which is not a node", what, name)
		if near, is := c.g.index[Nearest(name, c.g.Names())]; is {
			c.meant = append(c.meant, near)
		} else {
			c.anywhere = true
		}
	}
	return i, ok
}

// step is target for what leads to a node without a payload.
func (c *compiler) step(name, what string) (int, bool) {
	i, ok := c.target(name, what)
	if ok && i != ToEnd && c.g.Nodes[i].Task {
		c.problem(BadEdge, name, "send to it with the Send method of its task", "%s leads to %q, a task that needs a payload", what, name)
		return 0, false
	}
	return i, ok
}

func (c *compiler) source(name, what string) (int, bool) {
	if name == Start {
		return FromStart, true
	}
	if name == End {
		c.problem(BadEdge, name, "remove it", "%s begins at %q, after which nothing runs", what, End)
		return 0, false
	}
	i, ok := c.g.index[name]
	if !ok {
		c.problem(UnknownNode, name, c.suggest(name), "%s begins at %q, which is not a node", what, name)
	}
	return i, ok
}

func (c *compiler) suggest(name string) string {
	if near := Nearest(name, c.g.Names()); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	switch {
	case name == "":
		return "give the name of a node"
	case !utf8.ValidString(name):
		return "give the name of a node, which is valid UTF-8"
	case name == "*":
		return `give the names of the nodes: "*" means every node in a list of breakpoints alone`
	}
	return fmt.Sprintf("add it with AddNode(%q, ...)", name)
}

func (c *compiler) entry() {
	distinct := slices.Compact(slices.Sorted(slices.Values(c.spec.Entries)))
	if len(distinct) > 1 {
		c.problem(TwoEntries, "", "keep one, or use AddEdge(Start, ...) for several first nodes", "the entry point is set to %s", quoteAll(distinct))
	}
	declared := c.spec.Edges
	for _, e := range distinct {
		for _, edge := range declared {
			if edge.From == Start && edge.To != e {
				c.problem(TwoEntries, e, "use one of the two forms", "the entry point is set to %q and there is also an edge from Start to %q", e, edge.To)
			}
		}
		if !slices.Contains(c.spec.Edges, EdgeSpec{Start, e}) {
			c.spec.Edges = append([]EdgeSpec{{Start, e}}, c.spec.Edges...)
		}
	}
	hasEntry := slices.ContainsFunc(c.spec.Edges, func(e EdgeSpec) bool { return e.From == Start }) ||
		slices.ContainsFunc(c.spec.Conditionals, func(e ConditionalSpec) bool { return e.From == Start })
	if !hasEntry && len(c.spec.Nodes) > 0 {
		first := ""
		if len(c.g.Nodes) > 0 {
			first = c.g.Nodes[0].Name
		}
		c.problem(NoEntry, "", fmt.Sprintf("add AddEdge(graph.Start, %q)", first), "the graph has no entry")
	}
}

func (c *compiler) edges() {
	for _, e := range c.spec.Edges {
		what := fmt.Sprintf("edge %q to %q", e.From, e.To)
		from, ok1 := c.source(e.From, what)
		to, ok2 := c.step(e.To, what)
		if !ok1 && ok2 {
			c.meant = append(c.meant, to)
		}
		if !ok1 || !ok2 {
			continue
		}
		if from == FromStart {
			if to == ToEnd {
				c.problem(BadEdge, "", "lead it to the first node", "edge from Start leads straight to End")
				continue
			}
			if !slices.Contains(c.g.Entry, to) {
				c.g.Entry = append(c.g.Entry, to)
			}
			continue
		}
		n := &c.g.Nodes[from]
		if !slices.Contains(n.Edges, to) {
			n.Edges = append(n.Edges, to)
		}
	}
}

func (c *compiler) joins() {
	for _, j := range c.spec.Joins {
		what := fmt.Sprintf("join of %s into %q", quoteAll(j.Sources), j.Target)
		if len(j.Sources) == 0 {
			c.problem(BadJoin, j.Target, "name the nodes to wait for", "join into %q waits for nothing", j.Target)
			if to, ok := c.g.index[j.Target]; ok {
				c.meant = append(c.meant, to)
			}
			continue
		}
		join := Join{ID: joinID(j)}
		good := true
		for k, s := range j.Sources {
			if slices.Contains(j.Sources[:k], s) {
				c.problem(BadJoin, s, "name it once", "%s names %q twice", what, s)
				good = false
				continue
			}
			i, ok := c.source(s, what)
			if ok && i == FromStart {
				c.problem(BadJoin, s, "a node that follows Start needs no join", "%s waits for Start", what)
				ok = false
			}
			if ok && slices.ContainsFunc(c.spec.Conditionals, func(r ConditionalSpec) bool { return r.From == s && r.Chooses }) {
				c.problem(BadJoin, s, "join the nodes that it leads to, or let its router go on to the join: that of AddConditionalEdges does with the zero Command",
					"%s waits for %q, which never goes there: its router always chooses another way", what, s)
				ok = false
			}
			good = good && ok
			join.Sources = append(join.Sources, i)
		}
		to, ok := c.step(j.Target, what)
		if ok && to == ToEnd {
			c.problem(BadJoin, j.Target, "join into a node", "%s leads to End", what)
			ok = false
		}
		if !good && ok {
			c.meant = append(c.meant, to)
		}
		if !good || !ok {
			continue
		}
		if c.g.JoinByID(join.ID) >= 0 {
			continue // declared twice, as edges may be
		}
		join.Target = to
		k := len(c.g.Joins)
		c.g.Joins = append(c.g.Joins, join)
		for _, s := range join.Sources {
			c.g.Nodes[s].Joins = append(c.g.Nodes[s].Joins, k)
		}
	}
}

// joinID names a join in records: "a+b->c", with what could be mistaken for
// the signs escaped.
func joinID(j JoinSpec) string {
	names := make([]string, len(j.Sources))
	for i, s := range j.Sources {
		names[i] = escapeName(s)
	}
	return strings.Join(names, "+") + "->" + escapeName(j.Target)
}

func escapeName(name string) string {
	return strings.NewReplacer(`\`, `\\`, "+", `\+`, "->", `\->`).Replace(name)
}

func (c *compiler) conditionals() {
	for _, r := range c.spec.Conditionals {
		what := fmt.Sprintf("conditional edge of %q", r.From)
		from, ok := c.source(r.From, what)
		if r.Nil {
			c.problem(NoFunction, r.From, "pass the router", "%s has a nil router", what)
		}
		var leads []int
		for _, l := range r.Labels {
			if i, ok := c.step(l.To, fmt.Sprintf("%s, label %q,", what, l.Name)); ok {
				leads = append(leads, i)
			}
		}
		for _, d := range r.Destinations {
			if i, ok := c.target(d, what); ok {
				leads = append(leads, i)
			}
		}
		free := r.Labels == nil && r.Destinations == nil
		if !ok {
			c.meant = append(c.meant, leads...)
			c.anywhere = c.anywhere || free
			continue
		}
		c.chosen[from], c.free[from] = append(c.chosen[from], leads...), c.free[from] || free
		if from != FromStart {
			c.g.Nodes[from].Routers++
		}
	}
}

func (c *compiler) destinations() {
	for _, n := range c.spec.Nodes {
		var leads []int
		lead := func(names []string, what string) {
			for _, d := range names {
				if to, ok := c.target(d, fmt.Sprintf(what, n.Name)); ok {
					leads = append(leads, to)
				}
			}
		}
		lead(n.Destinations, "declared destination of %q")
		lead(n.ParentDestinations, "destination of a node inside subgraph %q")
		if i, ok := c.g.index[n.Name]; ok {
			c.chosen[i], c.free[i] = append(c.chosen[i], leads...), c.free[i] || n.Command && n.Destinations == nil
		}
	}
}

func (c *compiler) breakpoints() {
	c.g.Before = c.breakpointSet(c.spec.Before, "interrupt before")
	c.g.After = c.breakpointSet(c.spec.After, "interrupt after")
}

func (c *compiler) breakpointSet(names []string, what string) []bool {
	set, unknown := c.g.Breakpoints(names)
	for _, name := range unknown {
		c.problem(BadBreakpoint, name, c.suggest(name), "%s names %q, which is not a node", what, name)
	}
	return set
}

// Breakpoints returns the set of the named nodes, nil when there is none, and
// the names that are no nodes. "*" names every node.
func (g *Graph) Breakpoints(names []string) (set []bool, unknown []string) {
	for _, name := range names {
		if set == nil {
			set = make([]bool, len(g.Nodes))
		}
		if name == "*" {
			for i := range set {
				set[i] = true
			}
			continue
		}
		i, ok := g.index[name]
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		set[i] = true
	}
	return set, unknown
}

// reach reports nodes that nothing leads to, and joins with a source that
// cannot run. A router or command node without declared destinations may lead
// anywhere. A task node is run by sends, which nothing declares. What follows
// from another mistake is not reported.
func (c *compiler) reach() {
	g := c.g
	seen := make([]bool, len(g.Nodes))
	var queue []int
	visit := func(i int) {
		if i >= 0 && !seen[i] {
			seen[i] = true
			queue = append(queue, i)
		}
	}
	anywhere := func() {
		for i := range g.Nodes {
			visit(i)
		}
	}
	arrived := make([]int, len(g.Joins))
	follow := func(i int) {
		if c.free[i] {
			anywhere()
		}
		for _, to := range c.chosen[i] {
			visit(to)
		}
	}
	for i, n := range g.Nodes {
		if n.Task {
			visit(i)
		}
	}
	for _, i := range g.Entry {
		visit(i)
	}
	follow(FromStart)
	for _, i := range c.meant {
		visit(i)
	}
	if c.anywhere {
		anywhere()
	}
	if _, routed := c.chosen[FromStart]; len(g.Entry) == 0 && !routed { // any node with a way on may be the first
		for i, n := range g.Nodes {
			if i == 0 || n.Command || len(n.Edges)+len(n.Joins)+n.Routers > 0 {
				visit(i)
			}
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		n := g.Nodes[i]
		for _, t := range n.Edges {
			visit(t)
		}
		for _, j := range n.Joins {
			if arrived[j]++; arrived[j] == len(g.Joins[j].Sources) {
				visit(g.Joins[j].Target)
			}
		}
		follow(i)
	}
	for _, join := range g.Joins {
		var sources, missing []string
		for _, s := range join.Sources {
			sources = append(sources, g.Nodes[s].Name)
			if !seen[s] {
				missing = append(missing, g.Nodes[s].Name)
			}
		}
		if missing != nil {
			c.problem(BadJoin, g.Nodes[join.Target].Name, "lead an edge to them or remove them from the join",
				"join of %s into %q can't complete: nothing leads to %s", quoteAll(sources), g.Nodes[join.Target].Name, quoteAll(missing))
		}
	}
	for i, n := range g.Nodes {
		if seen[i] {
			continue
		}
		if slices.ContainsFunc(g.Joins, func(j Join) bool { return j.Target == i }) {
			continue // already reported as a join that can't complete
		}
		c.problem(Unreachable, n.Name, "lead an edge to it, or declare it as a destination of the node that goes to it", "nothing leads to node %q", n.Name)
	}
}

// endReachable reports whether some node can end its branch.
func (c *compiler) endReachable() bool {
	for _, n := range c.g.Nodes {
		if n.Command || n.Routers > 0 || len(n.Edges)+len(n.Joins) == 0 || slices.Contains(n.Edges, ToEnd) {
			return true
		}
	}
	return false
}

func quoteAll(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}

// Nearest returns the name closest to the given one, or "" if none is close.
func Nearest(name string, names []string) string {
	size := utf8.RuneCountInString(name)
	best, bestDist := "", size/2+1
	for _, n := range names {
		if size-utf8.RuneCountInString(n) >= bestDist {
			continue // a name from outside may be very long
		}
		if d := Distance(strings.ToLower(name), strings.ToLower(n)); d < bestDist {
			best, bestDist = n, d
		}
	}
	return best
}

// Distance is the number of runes that are dropped, added, changed or swapped between a and b.
func Distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	before, last, row := []int(nil), []int(nil), make([]int, len(rb)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range ra {
		before, last, row = last, row, make([]int, len(rb)+1)
		row[0] = i + 1
		for j, y := range rb {
			cost := 1
			if x == y {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x == rb[j-1] && ra[i-1] == y {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(rb)]
}
