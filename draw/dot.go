package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// DOT writes a graph as Graphviz text, black on white:
//
//	digraph G {
//	    rankdir=TD;
//	    "__start__" [shape=oval];
//	    "a" [shape=box];
//	    "__end__" [shape=oval];
//	    "__start__" -> "a" [style=solid];
//	    "a" -> "__end__" [style=dashed, label="done"];
//	}
//
// The order is that of [Mermaid]. Joins are bold, dynamic destinations dotted;
// a router without declared destinations has no edge to show. Deferred nodes
// are dashed. A subgraph is a cluster; edges of the outer graph end at its
// border. The text has no newline at its end. [StyledDOT] writes a
// coloured text with options.
func DOT(g *Graph) string { return StyledDOT(g, &DOTOptions{Plain: true}) }

// DOTOptions change what [StyledDOT] writes. The zero value and nil are the
// defaults.
type DOTOptions struct {
	// Direction is LeftToRight unless set.
	Direction Direction
	// Label is a title above the drawing.
	Label string
	// HideStartEnd leaves the start and the end out and gives the entry
	// nodes a double border instead.
	HideStartEnd bool
	// HideDynamic leaves the declared destinations of commands out.
	HideDynamic bool
	// Plain gives the text of DOT instead; the other options don't apply.
	Plain bool
}

// StyledDOT writes a graph as Graphviz text with colours by kind of node,
// statuses of a run, labels and descriptions.
func StyledDOT(g *Graph, opts *DOTOptions) string {
	var d dotWriter
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Plain {
		d.opts = DOTOptions{Plain: true, Direction: "TD"} // for which Graphviz takes TB
	}
	root := resolve(g, nil, true)
	d.line(0, "digraph G {")
	d.line(1, "rankdir="+string(cmp.Or(d.opts.Direction, LeftToRight))+";")
	if slices.ContainsFunc(root.nodes, func(n Node) bool { return n.Sub != nil }) {
		d.line(1, "compound=true;")
	}
	if d.opts.Label != "" {
		d.line(1, "label="+dotQuote(d.opts.Label)+";")
		d.line(1, "labelloc=t;")
	}
	if !d.opts.Plain {
		d.line(1, `fontname="Helvetica";`)
		d.line(1, `node [fontname="Helvetica", style="rounded,filled"];`)
		d.line(1, `edge [fontname="Helvetica", fontsize=11, color="#64748b"];`)
	}
	d.level(root, 1, nil)
	d.line(0, "}")
	return strings.TrimSuffix(d.b.String(), "\n")
}

type dotWriter struct {
	b     strings.Builder
	opts  DOTOptions
	ids   map[string]string // path and name -> quoted identifier
	taken map[string]bool
}

func (d *dotWriter) line(depth int, s string) {
	d.b.WriteString(strings.Repeat("    ", depth))
	d.b.WriteString(s)
	d.b.WriteByte('\n')
}

func (d *dotWriter) hidden(id string) bool {
	return d.opts.HideStartEnd && (id == StartID || id == EndID)
}

// id names a node by the names on the path to it, with a length before every
// part, which keeps two paths apart whatever the names hold. Names that differ
// only in characters that Graphviz can't show get a number.
func (d *dotWriter) id(path []string, id string) string {
	var b strings.Builder
	for _, p := range path {
		fmt.Fprintf(&b, "%d:%s/", len(p), p)
	}
	b.WriteString(id)
	key := b.String()
	if q, ok := d.ids[key]; ok {
		return q
	}
	q := dotQuote(key)
	for k := 2; d.taken[q]; k++ {
		q = dotQuote(fmt.Sprintf("%s (%d)", key, k))
	}
	if d.ids == nil {
		d.ids, d.taken = make(map[string]string), make(map[string]bool)
	}
	d.ids[key], d.taken[q] = q, true
	return q
}

func (d *dotWriter) level(l *level, depth int, path []string) {
	order := append(append([]int{0}, l.byName()...), len(l.nodes)-1)
	for _, i := range order {
		n := &l.nodes[i]
		if d.hidden(n.ID) && len(path) == 0 {
			continue
		}
		if in := l.inner(n, true); in != nil {
			d.line(depth, "subgraph "+d.cluster(path, n.ID)+" {")
			d.line(depth+1, "label="+dotQuote(n.text())+";")
			d.clusterStyle(n, depth+1)
			d.level(in, depth+1, append(slices.Clip(path), n.ID))
			d.line(depth, "}")
			continue
		}
		d.line(depth, d.id(path, n.ID)+" ["+d.nodeAttrs(n, path)+"];")
	}
	if d.opts.HideStartEnd && len(path) == 0 {
		for _, e := range l.sorted(EdgeStatic) {
			if e.From == StartID && l.nodes[e.to].Sub == nil && !d.hidden(e.To) {
				d.line(depth, d.id(path, e.To)+" [peripheries=2];")
			}
		}
	}
	for _, kind := range []EdgeKind{EdgeStatic, EdgeConditional, EdgeJoin, EdgeDynamic} {
		if kind == EdgeDynamic && d.opts.HideDynamic {
			continue
		}
		for _, e := range l.sorted(kind) {
			if len(path) == 0 && (d.hidden(e.From) || d.hidden(e.To)) {
				continue
			}
			d.edge(l, e, depth, path)
		}
	}
}

// dotCluster names the cluster of a subgraph; Graphviz asks for the prefix.
func (d *dotWriter) cluster(path []string, id string) string {
	q := d.id(path, id)
	return `"cluster_` + q[1:]
}

func (d *dotWriter) nodeAttrs(n *Node, path []string) string {
	var a []string
	shape := "box"
	switch n.Kind {
	case KindStart, KindEnd:
		shape = "oval"
	case KindJoin, KindRouter:
		if !d.opts.Plain {
			shape = "diamond"
		}
	}
	if d.opts.Plain {
		a = append(a, "shape="+shape)
		if d.id(path, n.ID) != `"`+n.ID+`"` || n.Label != "" || len(n.notes()) > 0 {
			a = append(a, "label="+dotQuote(strings.Join(append([]string{n.text()}, n.notes()...), "\n")))
		}
		if n.Deferred {
			a = append(a, "style=dashed")
		}
		if n.Kind == KindSubgraph {
			a = append(a, "peripheries=2")
		}
		return strings.Join(a, ", ")
	}

	text := n.shown()
	if n.Visits > 1 {
		text += fmt.Sprintf(" ×%d", n.Visits)
	}
	a = append(a, "label="+dotQuote(strings.Join(append([]string{text}, n.notes()...), "\n")), "shape="+shape)
	if n.Deferred {
		a = append(a, `style="rounded,filled,dashed"`)
	} else if shape != "box" {
		a = append(a, "style=filled")
	}
	fill, line := ThemeLight.Colors(n.role())
	a = append(a, `fillcolor="`+cssColour(fill)+`"`, `color="`+cssColour(line)+`"`)
	if r := n.role().ink(); r != RoleText {
		ink, _ := ThemeLight.Colors(r)
		a = append(a, `fontcolor="`+cssColour(ink)+`"`)
	}
	if n.Status == StatusCurrent || n.Status == StatusFailed || n.Status == StatusInterrupted {
		a = append(a, "penwidth=2")
	}
	if n.Kind == KindSubgraph {
		a = append(a, "peripheries=2")
	}
	if n.Description != "" {
		a = append(a, "tooltip="+dotQuote(n.Description))
	}
	return strings.Join(a, ", ")
}

func (d *dotWriter) clusterStyle(n *Node, depth int) {
	if d.opts.Plain {
		return
	}
	_, line := ThemeLight.Colors(n.role())
	d.line(depth, `style="rounded";`)
	d.line(depth, `color="`+cssColour(line)+`";`)
}

func (d *dotWriter) edge(l *level, e levelEdge, depth int, path []string) {
	// Graphviz draws no edge to a cluster: it draws one to a node inside and
	// cuts it at the border that lhead or ltail names.
	end := func(i int, inside string) (id, border string) {
		p := path
		n := &l.nodes[i]
		if n.Sub == nil {
			return d.id(p, n.ID), ""
		}
		border = d.cluster(p, n.ID)
		for in := l; n.Sub != nil; n = &in.nodes[indexOf(in, inside)] {
			p = append(slices.Clip(p), n.ID)
			in = in.inner(n, true)
		}
		return d.id(p, n.ID), border
	}
	from, tail := end(e.from, EndID)
	to, head := end(e.to, StartID)

	var a []string
	switch e.Kind {
	case EdgeConditional:
		a = append(a, "style=dashed", "label="+dotQuote(e.text()))
	case EdgeDynamic:
		a = append(a, "style=dotted")
	case EdgeJoin:
		a = append(a, "style=bold")
	default:
		a = append(a, "style=solid")
	}
	if e.Kind != EdgeConditional && e.Label != "" {
		a = append(a, "label="+dotQuote(e.Label))
	}
	if tail != "" {
		a = append(a, "ltail="+tail)
	}
	if head != "" {
		a = append(a, "lhead="+head)
	}
	if !d.opts.Plain {
		if e.Kind == EdgeDynamic {
			a = append(a, "constraint=false")
		}
		if e.Visits > 0 {
			_, line := ThemeLight.Colors(RoleTaken)
			a = append(a, `color="`+cssColour(line)+`"`, "penwidth=2")
		}
	}
	d.line(depth, from+" -> "+to+" ["+strings.Join(a, ", ")+"];")
}

func indexOf(l *level, id string) int {
	return slices.IndexFunc(l.nodes, func(n Node) bool { return n.ID == id })
}

// dotQuote makes a double-quoted DOT string. In labels a backslash starts an
// escape, in names it doesn't, so that a name may be one node under two
// spellings; doubling it gives one spelling and the right label.
func dotQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range printable(s) {
		switch {
		case r == '"':
			b.WriteString(`\"`)
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '&':
			b.WriteString("&amp;") // Graphviz reads HTML entities everywhere
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
