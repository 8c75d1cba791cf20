package draw

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The names of the first and the last node of every graph.
const (
	StartID = "__start__"
	EndID   = "__end__"
)

// A Graph is the structure of a workflow as data.
type Graph struct {
	Name  string `json:"name,omitempty"`
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// A Node is one step of a workflow.
type Node struct {
	// ID is the name of the node, unique within its graph.
	ID string `json:"id"`
	// Label is shown instead of the ID when it is set.
	Label string `json:"label,omitempty"`
	// Description is a longer text: a tooltip in SVG.
	Description string   `json:"description,omitempty"`
	Kind        NodeKind `json:"kind,omitempty"`
	// Tags are those of the node, for other programs: they are not drawn.
	Tags []string `json:"tags,omitempty"`

	// Deferred nodes run when the run would otherwise end.
	Deferred bool `json:"deferred,omitempty"`
	// PauseBefore and PauseAfter are breakpoints around the node.
	PauseBefore bool `json:"pause_before,omitempty"`
	PauseAfter  bool `json:"pause_after,omitempty"`
	// OpenRouter says that a router without declared destinations chooses
	// where to go from here.
	OpenRouter bool `json:"open_router,omitempty"`

	// Sub is the graph inside a subgraph node; nil draws the node closed.
	Sub *Graph `json:"sub,omitempty"`

	// Status and Visits are what a run did here.
	Status Status `json:"status,omitempty"`
	Visits int    `json:"visits,omitempty"`
}

// A NodeKind says what a node is, for its shape and colour. The zero value is
// a plain node, and so is any kind that a drawing doesn't know.
type NodeKind string

// The kinds that have a look of their own. KindStart and KindEnd are implied
// by [StartID] and [EndID].
const (
	KindPlain    NodeKind = ""
	KindStart    NodeKind = "start"
	KindEnd      NodeKind = "end"
	KindSubgraph NodeKind = "subgraph"
	KindLLM      NodeKind = "llm"
	KindTool     NodeKind = "tool"
	KindAgent    NodeKind = "agent"
	KindJoin     NodeKind = "join"
	KindRouter   NodeKind = "router"
)

// A Status says how far a run came with a node.
type Status string

// The statuses of a node.
const (
	StatusNone        Status = ""
	StatusVisited     Status = "visited"
	StatusCurrent     Status = "current"
	StatusFailed      Status = "failed"
	StatusInterrupted Status = "interrupted"
)

// statuses lists what a drawing can show, in the order of its legend.
var statuses = []Status{StatusVisited, StatusCurrent, StatusFailed, StatusInterrupted}

// An Edge leads from one node to another.
type Edge struct {
	From string   `json:"from"`
	To   string   `json:"to"`
	Kind EdgeKind `json:"kind,omitempty"`
	// Label is the router's label of a conditional edge, which defaults to
	// the destination's name. On other edges it is optional; on join edges
	// it also tells two joins into the same node apart.
	Label string `json:"label,omitempty"`
	// Visits is how often a run took the edge.
	Visits int `json:"visits,omitempty"`
}

// An EdgeKind says when an edge is taken. The zero value is a static edge.
type EdgeKind string

// The kinds of edges.
const (
	// EdgeStatic is always taken.
	EdgeStatic EdgeKind = ""
	// EdgeConditional is taken when a router answers with its label.
	EdgeConditional EdgeKind = "conditional"
	// EdgeDynamic is a destination that a node declared for its commands.
	EdgeDynamic EdgeKind = "dynamic"
	// EdgeJoin is one of the edges into a node that waits for all of them.
	EdgeJoin EdgeKind = "join"
)

// A Direction is the way in which a drawing flows. The zero value is TopDown.
type Direction string

// The directions.
const (
	TopDown     Direction = "TB"
	LeftToRight Direction = "LR"
)

// Validate reports what a drawing would have to guess at: nodes without a
// name, names that occur twice and edges that name no node. All problems are
// reported at once, joined; those inside a subgraph name the path to it.
func (g *Graph) Validate() error {
	return errors.Join(g.validate("", nil)...)
}

func (g *Graph) validate(where string, above []*Graph) []error {
	if g == nil {
		return nil
	}
	if slices.Contains(above, g) {
		return []error{fmt.Errorf("draw: %sgraph %q contains itself", where, g.Name)}
	}
	above = append(slices.Clip(above), g)
	var errs []error
	known := map[string]bool{StartID: true, EndID: true}
	seen := make(map[string]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		switch {
		case n.ID == "":
			errs = append(errs, fmt.Errorf("draw: %snode %d has no name", where, i))
		case seen[n.ID]:
			errs = append(errs, fmt.Errorf("draw: %snode %q is declared twice", where, n.ID))
		}
		seen[n.ID], known[n.ID] = true, true
		if n.Sub != nil {
			errs = append(errs, n.Sub.validate(fmt.Sprintf("%sin %q: ", where, n.ID), above)...)
		}
	}
	for _, e := range g.Edges {
		for _, id := range []string{e.From, e.To} {
			if !known[id] {
				errs = append(errs, fmt.Errorf("draw: %sedge %q -> %q names no node %q", where, e.From, e.To, id))
			}
		}
	}
	return errs
}

// text is what a drawing calls the node.
func (n *Node) text() string {
	if n.Label != "" {
		return n.Label
	}
	return n.ID
}

// shown is text, but for the start and the end by what they are.
func (n *Node) shown() string {
	if n.Label == "" && (n.Kind == KindStart || n.Kind == KindEnd) {
		return string(n.Kind)
	}
	return n.text()
}

// text is the label that a drawing puts on the edge.
func (e *Edge) text() string {
	if e.Label == "" && e.Kind == EdgeConditional {
		return e.To
	}
	return e.Label
}

// level is one graph made fit for drawing: the start first and the end last,
// every name once, every edge with both of its nodes.
type level struct {
	nodes []Node
	edges []levelEdge
	above []*Graph // the graphs around this one and itself
}

type levelEdge struct {
	Edge
	from, to int // indexes of nodes
}

// resolve makes the level of g inside the graphs above it. With all set, the
// start and the end are there even when nothing touches them.
func resolve(g *Graph, above []*Graph, all bool) *level {
	l := &level{}
	if g == nil {
		g = &Graph{}
	}
	l.above = append(slices.Clip(above), g)

	start, end := Node{ID: StartID}, Node{ID: EndID}
	hasStart, hasEnd := all, all
	for _, n := range g.Nodes {
		used := n.Status != StatusNone || n.Visits > 0
		switch n.ID {
		case StartID:
			start, hasStart = n, hasStart || used
		case EndID:
			end, hasEnd = n, hasEnd || used
		}
	}
	start.Kind, end.Kind = KindStart, KindEnd
	for _, e := range g.Edges {
		hasStart = hasStart || e.From == StartID || e.To == StartID
		hasEnd = hasEnd || e.From == EndID || e.To == EndID
	}

	index := make(map[string]int, len(g.Nodes)+2)
	add := func(n Node) {
		if _, ok := index[n.ID]; ok {
			return
		}
		switch {
		case n.Sub != nil && slices.Contains(l.above, n.Sub):
			n.Sub, n.Kind = nil, KindSubgraph // a graph in itself stays closed
		case n.Sub != nil:
			n.Kind = KindSubgraph
		}
		if n.ID != StartID && n.ID != EndID && (n.Kind == KindStart || n.Kind == KindEnd) {
			n.Kind = KindPlain
		}
		index[n.ID] = len(l.nodes)
		l.nodes = append(l.nodes, n)
	}
	if hasStart {
		start.Sub = nil
		add(start)
	}
	for _, n := range g.Nodes {
		if n.ID != StartID && n.ID != EndID {
			add(n)
		}
	}
	for _, e := range g.Edges {
		for _, id := range []string{e.From, e.To} {
			if id != StartID && id != EndID {
				add(Node{ID: id})
			}
		}
	}
	if hasEnd {
		end.Sub = nil
		add(end)
	}
	for _, e := range g.Edges {
		l.edges = append(l.edges, levelEdge{Edge: e, from: index[e.From], to: index[e.To]})
	}
	return l
}

// inner is the level of the subgraph of n, nil when n is drawn closed.
func (l *level) inner(n *Node, all bool) *level {
	if n.Sub == nil {
		return nil
	}
	return resolve(n.Sub, l.above, all)
}

// byName returns the indexes of the nodes between start and end, by name.
func (l *level) byName() []int {
	var order []int
	for i := range l.nodes {
		if id := l.nodes[i].ID; id != StartID && id != EndID {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(l.nodes[a].ID, l.nodes[b].ID) })
	return order
}

// startFirst compares the names of two sources: the start before all others.
func startFirst(a, b string) int {
	if a == b {
		return 0
	}
	if a == StartID {
		return -1
	}
	if b == StartID {
		return 1
	}
	return strings.Compare(a, b)
}

// endLast is 1 for the end and 0 for other names, to sort the end last.
func endLast(id string) int {
	if id == EndID {
		return 1
	}
	return 0
}
