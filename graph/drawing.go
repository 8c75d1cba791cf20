package graph

import (
	"context"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/internal/plan"
)

// drawn is what a run that is drawn over a graph says of a node.
type drawn struct {
	status draw.Status
	visits int
}

// inside draws what a node contains: its graph or, of several, each as a node of one that
// stands for their choice.
func (n *nodeConfig) inside(depth int) *draw.Graph {
	if len(n.inner) == 1 {
		return n.inner[0].drawing(depth-1, nil)
	}
	d := &draw.Graph{Name: n.name, Nodes: []draw.Node{{ID: Start, Kind: draw.KindStart}, {ID: End, Kind: draw.KindEnd}}}
	for _, e := range n.inner {
		name := e.prog.Plan.Name
		d.Nodes = append(d.Nodes, draw.Node{ID: name, Kind: draw.KindSubgraph, Sub: e.drawing(depth-1, nil)})
		d.Edges = append(d.Edges, draw.Edge{From: Start, To: name, Kind: draw.EdgeDynamic}, draw.Edge{From: name, To: End, Kind: draw.EdgeStatic})
	}
	return d
}

// Drawing returns the graph's structure for the package draw, which turns it
// into Mermaid, DOT, text, SVG or PNG: draw.Mermaid(g.Drawing(0), nil). It shows what is
// inside subgraphs, depth levels deep; -1 means all.
func (g *Graph[S]) Drawing(depth int) *draw.Graph { return g.made().drawing(depth, nil) }

func (e *engine) drawing(depth int, run map[string]drawn) *draw.Graph {
	p := e.prog.Plan
	spec := p.Spec()
	d := &draw.Graph{Name: p.Name}
	d.Nodes = append(d.Nodes, draw.Node{ID: Start, Kind: draw.KindStart})
	for i, n := range p.Nodes {
		cfg := &e.nodes[i]
		node := draw.Node{
			ID: n.Name, Label: cfg.label, Description: cfg.description, Tags: cfg.local.Tags, Deferred: n.Defer,
			PauseBefore: p.Before != nil && p.Before[i], PauseAfter: p.After != nil && p.After[i],
			Status: run[n.Name].status, Visits: run[n.Name].visits,
		}
		if cfg.inner != nil {
			node.Kind = draw.KindSubgraph
			if depth != 0 {
				node.Sub = cfg.inside(depth)
			}
		}
		d.Nodes = append(d.Nodes, node)
	}
	edge := func(from, to string, kind draw.EdgeKind, label string) {
		e := draw.Edge{From: from, To: to, Kind: kind, Label: label}
		if !slices.Contains(d.Edges, e) {
			d.Edges = append(d.Edges, e)
		}
	}
	for _, e := range spec.Edges {
		edge(e.From, e.To, draw.EdgeStatic, "")
	}
	into := map[string]int{} // joins, by target
	for _, j := range spec.Joins {
		into[j.Target]++
	}
	for k, j := range spec.Joins {
		label := ""
		if into[j.Target] > 1 { // each waits for its own
			label = fmt.Sprint("join ", k+1)
		}
		for _, s := range j.Sources {
			edge(s, j.Target, draw.EdgeJoin, label)
		}
	}
	for _, r := range spec.Conditionals {
		switch {
		case r.Labels != nil:
			for _, l := range r.Labels {
				edge(r.From, l.To, draw.EdgeConditional, l.Name)
			}
		case r.Destinations != nil:
			for _, to := range r.Destinations {
				edge(r.From, to, draw.EdgeConditional, "")
			}
		default:
			for k := range d.Nodes {
				if d.Nodes[k].ID == r.From {
					d.Nodes[k].OpenRouter = true
				}
			}
		}
	}
	for _, n := range spec.Nodes {
		for _, to := range append(slices.Clone(n.Destinations), n.ParentDestinations...) {
			edge(n.Name, to, draw.EdgeDynamic, "")
		}
	}
	if slices.ContainsFunc(d.Edges, func(e draw.Edge) bool { return e.To == End }) || hasImplicitEnd(p) {
		d.Nodes = append(d.Nodes, draw.Node{ID: End, Kind: draw.KindEnd})
	}
	return d
}

// hasImplicitEnd reports whether a node has no way on.
func hasImplicitEnd(p *plan.Graph) bool {
	return slices.ContainsFunc(p.Nodes, func(n plan.Node) bool {
		return len(n.Edges)+len(n.Joins)+n.Routers == 0 && !n.Command
	})
}

// Drawing returns the graph's structure with the thread drawn over it: the nodes that
// were visited, those that are next, those that wait for answers and those that failed;
// see [Graph.Drawing].
func (h *handle) Drawing(ctx context.Context, depth int) (*draw.Graph, error) {
	snap, err := h.state(ctx)
	if err != nil {
		return nil, err
	}
	run := map[string]drawn{}
	mark := func(node string, status draw.Status) { // whatever was said of it before
		node = h.e.prog.Plan.Present(node) // what is recorded may be by an older program
		d := run[node]
		if d.status = status; status == draw.StatusVisited {
			d.visits++
		}
		run[node] = d
	}
	for e, err := range h.history(ctx, HistoryQuery{}) {
		if err != nil {
			return nil, err
		}
		for _, n := range e.Nodes {
			mark(n, draw.StatusVisited)
		}
	}
	for _, n := range snap.Next {
		mark(n, draw.StatusCurrent)
	}
	for _, i := range snap.Interrupts {
		switch {
		case i.When == "after":
		case len(i.Path) > 0:
			mark(i.Path[0], draw.StatusInterrupted)
		default:
			mark(i.Node, draw.StatusInterrupted)
		}
	}
	for _, t := range snap.Tasks {
		if t.Status == "failed" || t.Error != "" && t.Status != "done" {
			mark(t.Node, draw.StatusFailed)
		}
	}
	return h.e.drawing(depth, run), nil
}

// String returns a summary of the graph in plain text.
func (g *Graph[S]) String() string { return draw.ASCII(g.Drawing(0)) }
