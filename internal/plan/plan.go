// Package plan turns what a builder collected into the indexed, immutable form
// that the step machine runs. It is pure: no state type, no functions of the
// user, no I/O.
package plan

import (
	"slices"
	"strings"
)

// Names of the entry and the end of every graph.
const (
	Start = "__start__"
	End   = "__end__"
)

// ToEnd is the index that stands for [End] among targets.
const ToEnd = -1

// FromStart is the index that stands for [Start] among sources.
const FromStart = -1

// Spec is a graph as declared.
type Spec struct {
	Name         string
	Former       []string // names under which records may know it
	Nodes        []NodeSpec
	Edges        []EdgeSpec
	Joins        []JoinSpec
	Conditionals []ConditionalSpec

	Entries []string // entry points that were set by name; more than one is a problem

	Before, After []string // static breakpoints; "*" means every node
}

// NodeSpec declares a node.
type NodeSpec struct {
	Name         string
	Defer        bool
	Task         bool     // runs on a payload that is sent to it
	Command      bool     // chooses where to go
	Chooses      bool     // may do so without having said so: a node of a schema graph
	Destinations []string // of a command node; nil: not declared
	Nil          bool     // declared without a function
	Former       []string // names under which records may know it
	// ParentDestinations are the nodes of the containing graph that this one
	// (a mounted subgraph) may go to.
	ParentDestinations []string
}

// EdgeSpec declares a static edge.
type EdgeSpec struct{ From, To string }

// JoinSpec declares an edge that waits for all sources.
type JoinSpec struct {
	Sources []string
	Target  string
}

// ConditionalSpec declares a router.
type ConditionalSpec struct {
	From         string
	Labels       []Label  // in declared order; nil when the router names nodes
	Destinations []string // nodes the router may name; nil: not declared
	Chooses      bool     // it never goes along the static edges
	Nil          bool     // declared without a function
}

// Label maps what a router returns to a node.
type Label struct{ Name, To string }

// Graph is a compiled graph. It is immutable and safe for concurrent use.
type Graph struct {
	Name   string
	Former []string // names that it had
	Nodes  []Node
	Joins  []Join

	Entry []int // targets of the static edges out of Start

	Before, After []bool // static breakpoints by node; nil: none

	spec   Spec
	index  map[string]int
	former map[string]int // by names that nodes had
}

// Node is a compiled node.
type Node struct {
	Name    string
	Defer   bool
	Task    bool
	Command bool
	Routers int   // number of routers
	Edges   []int // targets of static edges in declared order, ToEnd included
	Joins   []int // joins this node arrives at
}

// Join is a compiled join.
type Join struct {
	ID      string // sources and target, stable across builds
	Sources []int
	Target  int
}

// Node returns the index of a node, or ok false.
func (g *Graph) Node(name string) (i int, ok bool) {
	i, ok = g.index[name]
	return i, ok
}

// Recorded returns the index of the node that a record names, by its present
// name or a former one.
func (g *Graph) Recorded(name string) (i int, ok bool) {
	if i, ok = g.index[name]; !ok {
		i, ok = g.former[name]
	}
	return i, ok
}

// Present returns the name that the node has now which a record names; the same name if
// there is none.
func (g *Graph) Present(name string) string {
	if i, ok := g.Recorded(name); ok {
		return g.Nodes[i].Name
	}
	return name
}

// NameOf returns the name of a target or source index.
func (g *Graph) NameOf(i int) string {
	if i < 0 {
		return End
	}
	return g.Nodes[i].Name
}

// Names returns the names of all nodes in declared order.
func (g *Graph) Names() []string {
	names := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		names[i] = n.Name
	}
	return names
}

// Spec returns the declaration that g was compiled from.
func (g *Graph) Spec() *Spec { return &g.spec }

// JoinByID returns the index of the join with that ID, or of the one that had it
// when its nodes had their former names, or -1.
func (g *Graph) JoinByID(id string) int {
	k := slices.IndexFunc(g.Joins, func(j Join) bool { return j.ID == id })
	if k < 0 && len(g.former) > 0 {
		k = slices.IndexFunc(g.Joins, func(j Join) bool { return g.formerID(&j, id) })
	}
	return k
}

// formerID reports whether a join had that ID.
func (g *Graph) formerID(j *Join, id string) bool {
	names := func(i int) []string { return append([]string{g.Nodes[i].Name}, g.spec.Nodes[i].Former...) }
	// One name of each node after the other, as long as the ID begins so.
	rests := []string{id}
	take := func(i int, sign string) {
		var next []string
		for _, rest := range rests {
			for _, name := range names(i) {
				if r, ok := strings.CutPrefix(rest, sign+escapeName(name)); ok {
					next = append(next, r)
				}
			}
		}
		rests = next
	}
	for k, s := range j.Sources {
		sign := "+"
		if k == 0 {
			sign = ""
		}
		take(s, sign)
	}
	take(j.Target, "->")
	return slices.Contains(rests, "")
}
