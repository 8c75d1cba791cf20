package draw

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// LayoutOptions change what [NewLayout] computes. The zero value and nil are
// the defaults.
type LayoutOptions struct {
	// Direction is TopDown unless set.
	Direction Direction
	// HideStartEnd leaves the start and the end of the outer graph out.
	HideStartEnd bool
}

// Text sizes of the pictures, in the units of the layout (CSS pixels).
const (
	FontSize      = 14.0 // names of nodes
	SmallFontSize = 11.5 // edge labels, remarks and counts
)

const (
	lineHeight      = 18.0
	smallLineHeight = 15.0
	padX, padY      = 16.0, 11.0
	clusterPad      = 20.0
	clusterTitle    = 30.0
	margin          = 20.0
	componentGap    = 40.0
	nameWrap        = 200.0
	labelWrap       = 160.0
	loopReach       = 24.0
	arrowRoom       = 9.0
)

func name(s string) float64  { return textWidth(s, FontSize) }
func small(s string) float64 { return textWidth(s, SmallFontSize) }

// A Layout says where everything is: boxes for nodes, routes for edges. The
// origin is at the top left, units are CSS pixels, and X, Y, W, H of a box are
// its left, top, width and height.
type Layout struct {
	Name      string      `json:"name,omitempty"`
	Direction Direction   `json:"direction"`
	Width     float64     `json:"width"`
	Height    float64     `json:"height"`
	Nodes     []NodeBox   `json:"nodes"` // a subgraph before what it holds
	Edges     []EdgeRoute `json:"edges"`
}

// A Point is a place in a layout.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// A Rect is an upright rectangle.
type Rect struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"w"`
	H float64 `json:"h"`
}

// A NodeBox is a node with its place. Its Sub is always nil: what an expanded
// subgraph holds are boxes of their own, whose Parent it is.
type NodeBox struct {
	Node
	Rect
	// Path names the subgraph nodes around the node, outermost first.
	Path []string `json:"path,omitempty"`
	// Parent is the index in Layout.Nodes of the innermost of them, or -1.
	Parent int `json:"parent"`
	// Expanded says that the box is a frame around a subgraph.
	Expanded bool `json:"expanded,omitempty"`
	// Lines is the text wrapped to the box, Notes are remarks under it.
	Lines []string `json:"lines"`
	Notes []string `json:"notes,omitempty"`
}

// An EdgeRoute is an edge with its way.
type EdgeRoute struct {
	Edge
	// FromNode and ToNode are indexes in Layout.Nodes.
	FromNode int `json:"from_node"`
	ToNode   int `json:"to_node"`
	// Points is the way as a polyline from border to border.
	Points []Point `json:"points"`
	// Path is the smooth way as SVG path data, what Curve returns.
	Path string `json:"path"`
	// LabelLines is the label as drawn, LabelRect its place.
	LabelLines []string `json:"label_lines,omitempty"`
	LabelRect  *Rect    `json:"label_rect,omitempty"`
	// Horizontal says that the layout flows from left to right, which bends
	// the curve the other way.
	Horizontal bool `json:"horizontal,omitempty"`
}

// NewLayout lays out a graph in layers: every node stands below those that
// lead to it, edges that lead back run upwards, and a subgraph is laid out
// inside its own frame. No boxes overlap (other than frames and what they
// hold), no edge crosses a box that it doesn't belong to, and equal graphs
// have equal layouts.
func NewLayout(g *Graph, opts *LayoutOptions) *Layout {
	if opts == nil {
		opts = &LayoutOptions{}
	}
	lo := layouter{horizontal: opts.Direction == LeftToRight}
	root := resolve(g, nil, false)
	if opts.HideStartEnd {
		root = root.withoutStartEnd()
	}
	p := lo.level(root)
	p.move(margin, margin)
	l := &Layout{
		Direction: TopDown,
		Width:     math.Ceil(p.w + 2*margin),
		Height:    math.Ceil(p.h + 2*margin),
		Nodes:     p.nodes,
		Edges:     p.edges,
	}
	if g != nil {
		l.Name = g.Name
	}
	if lo.horizontal {
		l.Direction = LeftToRight
	}
	for i := range l.Nodes {
		l.Nodes[i].Rect = l.Nodes[i].Rect.rounded()
	}
	for i := range l.Edges {
		e := &l.Edges[i]
		for k, q := range e.Points {
			e.Points[k] = Point{round(q.X), round(q.Y)}
		}
		if e.LabelRect != nil {
			r := e.LabelRect.rounded()
			e.LabelRect = &r
		}
		e.Path = pathData(e.Curve(), false)
	}
	return l
}

// withoutStartEnd is the level without its first and last node.
func (l *level) withoutStartEnd() *level {
	out := &level{above: l.above}
	index := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		index[i] = -1
		if n.ID != StartID && n.ID != EndID {
			index[i] = len(out.nodes)
			out.nodes = append(out.nodes, n)
		}
	}
	for _, e := range l.edges {
		if e.from, e.to = index[e.from], index[e.to]; e.from >= 0 && e.to >= 0 {
			out.edges = append(out.edges, e)
		}
	}
	return out
}

func round(f float64) float64 { return math.Round(f*100) / 100 }

func (r Rect) rounded() Rect {
	x, y := round(r.X), round(r.Y)
	return Rect{x, y, round(r.X+r.W) - x, round(r.Y+r.H) - y}
}

// A piece is a part of a layout with its own origin.
type piece struct {
	nodes []NodeBox
	edges []EdgeRoute
	w, h  float64
}

func (p *piece) move(dx, dy float64) {
	for i := range p.nodes {
		p.nodes[i].X += dx
		p.nodes[i].Y += dy
	}
	for i := range p.edges {
		p.edges[i].move(dx, dy)
	}
}

func (e *EdgeRoute) move(dx, dy float64) {
	for k := range e.Points {
		e.Points[k].X += dx
		e.Points[k].Y += dy
	}
	if e.LabelRect != nil {
		e.LabelRect.X += dx
		e.LabelRect.Y += dy
	}
}

type layouter struct {
	horizontal bool
}

// flip turns a size from the page to the layered layout, which flows down.
func (lo *layouter) flip(w, h float64) (float64, float64) {
	if lo.horizontal {
		return h, w
	}
	return w, h
}

// level lays out one graph with what its subgraphs hold.
func (lo *layouter) level(l *level) piece {
	own := make([]NodeBox, len(l.nodes))
	inside := make([]*piece, len(l.nodes))
	for i := range l.nodes {
		own[i], inside[i] = lo.nodeBox(l, i)
	}
	routes := make([]EdgeRoute, len(l.edges))
	for i, e := range l.edges {
		routes[i] = EdgeRoute{Edge: e.Edge, FromNode: e.from, ToNode: e.to, Horizontal: lo.horizontal}
		if text := e.text(); text != "" && text != EndID { // the end needs no label
			lines := wrap(text, labelWrap, 3, small)
			r := Rect{H: float64(len(lines))*smallLineHeight + 4}
			for _, s := range lines {
				r.W = max(r.W, small(s)+10)
			}
			routes[i].LabelLines, routes[i].LabelRect = lines, &r
		}
	}
	w, h := lo.pack(own, routes)

	// The boxes of this level first, so that the indexes of the edges hold,
	// then what the subgraphs hold.
	all := piece{nodes: own, edges: routes, w: w, h: h}
	for i, in := range inside {
		if in == nil {
			continue
		}
		frame := own[i].Rect
		in.move(frame.X+(frame.W-in.w)/2, frame.Y+clusterTitle+(frame.H-clusterTitle-clusterPad-in.h)/2)
		base := len(all.nodes)
		for _, n := range in.nodes {
			n.Path = append([]string{own[i].ID}, n.Path...)
			if n.Parent < 0 {
				n.Parent = i
			} else {
				n.Parent += base
			}
			all.nodes = append(all.nodes, n)
		}
		for _, e := range in.edges {
			e.FromNode += base
			e.ToNode += base
			all.edges = append(all.edges, e)
		}
	}
	return all
}

// nodeBox measures a node and lays out what it holds.
func (lo *layouter) nodeBox(l *level, i int) (NodeBox, *piece) {
	n := l.nodes[i]
	in := l.inner(&n, false)
	n.Sub = nil
	b := NodeBox{Node: n, Parent: -1, Notes: n.remarks()}
	if in != nil {
		p := lo.level(in)
		b.Expanded = true
		b.Lines = wrap(n.text(), max(nameWrap, p.w), 1, name)
		wide := name(b.Lines[0])
		if len(b.Notes) > 0 {
			b.Notes = []string{strings.Join(b.Notes, " · ")}
			wide += 10 + small(b.Notes[0])
		}
		b.W = max(p.w, wide+8, 80) + 2*clusterPad
		b.H = p.h + clusterTitle + clusterPad
		return b, &p
	}
	if n.Label == "" && (n.Kind == KindStart || n.Kind == KindEnd) {
		b.Lines, b.W, b.H = []string{n.shown()}, 66, 30
		if len(l.above) > 1 { // the ends of a subgraph are mere points
			b.Lines, b.W, b.H = []string{}, 16, 16
		}
		return b, nil
	}
	b.Lines = wrap(n.text(), nameWrap, 3, name)
	for _, s := range b.Lines {
		b.W = max(b.W, name(s))
	}
	for _, s := range b.Notes {
		b.W = max(b.W, small(s))
	}
	b.W = max(b.W+2*padX, 76)
	b.H = max(float64(len(b.Lines))*lineHeight+float64(len(b.Notes))*smallLineHeight+2*padY, 40)
	return b, nil
}

// remarks are the notes of a node together with what its look alone would leave
// to guess.
func (n *Node) remarks() []string {
	notes := n.notes()
	if n.Deferred {
		notes = append([]string{"deferred"}, notes...)
	}
	if n.OpenRouter {
		notes = append(notes, "routes at run time")
	}
	return notes
}

// pack lays out every connected component and sets them side by side, in rows
// that make the whole about as wide as a page.
func (lo *layouter) pack(nodes []NodeBox, routes []EdgeRoute) (width, height float64) {
	parts := components(len(nodes), routes)
	sizes := make([]Rect, len(parts))
	area, widest := 0.0, 0.0
	for i, p := range parts {
		w, h := lo.component(nodes, routes, p)
		sizes[i] = Rect{W: w, H: h}
		area += (w + componentGap) * (h + componentGap)
		widest = max(widest, w)
	}
	width, height = shelve(sizes, max(widest, math.Sqrt(area)*1.4), componentGap, componentGap)
	for i, p := range parts {
		for _, v := range p.nodes {
			nodes[v].X += sizes[i].X
			nodes[v].Y += sizes[i].Y
		}
		for _, e := range p.edges {
			routes[e].move(sizes[i].X, sizes[i].Y)
		}
	}
	return width, height
}

// shelve sets boxes side by side, in rows of at most a width, and returns the size of all.
func shelve(boxes []Rect, row, gapX, gapY float64) (width, height float64) {
	x, y, rowH := 0.0, 0.0, 0.0
	for i := range boxes {
		b := &boxes[i]
		if x > 0 && x+b.W > row {
			x, y, rowH = 0, y+rowH+gapY, 0
		}
		b.X, b.Y = x, y
		width, height = max(width, x+b.W), max(height, y+b.H)
		x, rowH = x+b.W+gapX, max(rowH, b.H)
	}
	return width, height
}

// A part is a connected component: indexes of nodes and edges.
type part struct {
	nodes, edges []int
}

// components finds the connected components, in the order of their first nodes.
func components(n int, routes []EdgeRoute) []part {
	root := make([]int, n)
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for _, e := range routes {
		a, b := find(e.FromNode), find(e.ToNode)
		root[max(a, b)] = min(a, b)
	}
	index := make(map[int]int)
	var parts []part
	for i := range n {
		r := find(i)
		k, ok := index[r]
		if !ok {
			k = len(parts)
			index[r] = k
			parts = append(parts, part{})
		}
		parts[k].nodes = append(parts[k].nodes, i)
	}
	for i, e := range routes {
		k := index[find(e.FromNode)]
		parts[k].edges = append(parts[k].edges, i)
	}
	return parts
}

// component places the nodes and routes the edges of one component, with the
// top left corner at the origin, and returns its size.
func (lo *layouter) component(nodes []NodeBox, routes []EdgeRoute, p part) (float64, float64) {
	local := make(map[int]int, len(p.nodes))
	for i, v := range p.nodes {
		local[v] = i
	}
	boxes := make([]box, len(p.nodes))
	links := make([]link, len(p.edges))
	for i, e := range p.edges {
		links[i] = link{from: local[routes[e].FromNode], to: local[routes[e].ToNode]}
	}
	for i, n := range portCounts(len(p.nodes), links) {
		b := &nodes[p.nodes[i]]
		boxes[i].w, boxes[i].h = lo.flip(b.W, b.H)
		if n > 2 { // room for the arrows
			boxes[i].w = max(boxes[i].w, 14*float64(min(n, 24)-1)+28)
			b.W, b.H = lo.flip(boxes[i].w, boxes[i].h)
		}
	}
	for i, e := range p.edges {
		r := &routes[e]
		if r.LabelRect != nil {
			links[i].labelW, links[i].labelH = lo.flip(r.LabelRect.W, r.LabelRect.H)
		}
		if l := links[i]; l.from == l.to {
			boxes[l.from].loop += loopReach + l.labelW
			boxes[l.from].h = max(boxes[l.from].h, l.labelH)
		}
	}
	a := arrange(boxes, links, gaps{node: 36, edge: 22})
	top, bottom := a.levels(26, 48)

	width, height := 0.0, bottom[len(bottom)-1]
	at := make([]Rect, len(p.nodes)) // flowing down
	for i := range a.vertices {
		v := &a.vertices[i]
		width = max(width, v.x+v.w/2+v.loop)
		if v.node >= 0 {
			n := &nodes[p.nodes[v.node]]
			w, h := lo.flip(n.W, n.H)
			at[v.node] = Rect{X: v.x - w/2, Y: (top[v.rank]+bottom[v.rank])/2 - h/2, W: w, H: h}
		}
	}

	outPort, inPort := a.ports(func(v int) float64 { return a.vertices[v].x }, func(v, n int) (low, high, sep float64) {
		p := &a.vertices[v]
		room := max(p.w/2-14, p.w*0.2)
		return p.x - room, p.x + room, min(18, 2*room/float64(n-1))
	})
	arrowBelow, arrowAbove := make([]bool, len(at)), make([]bool, len(at))
	for i, chain := range a.chains {
		switch {
		case chain == nil:
		case a.reversed[i]:
			arrowBelow[a.vertices[chain[0]].node] = true
		default:
			arrowAbove[a.vertices[chain[len(chain)-1]].node] = true
		}
	}
	reach := make([]float64, len(p.nodes)) // how far loops reach at each node
	turns := make([]int, len(p.nodes))
	for i, e := range p.edges {
		r := &routes[e]
		var label Rect
		if chain := a.chains[i]; chain == nil {
			v := links[i].from
			b := at[v]
			out := b.X + b.W + reach[v] + loopReach - 8
			dy := min(b.H/2-5, 9+4*float64(turns[v]))
			mid := b.Y + b.H/2
			r.Points = []Point{{b.X + b.W, mid - dy}, {out, mid - dy}, {out, mid + dy}, {b.X + b.W, mid + dy}}
			label = Rect{X: out + 4, Y: mid - links[i].labelH/2, W: links[i].labelW, H: links[i].labelH}
			reach[v] += loopReach + links[i].labelW
			turns[v]++
		} else {
			first, last := &a.vertices[chain[0]], &a.vertices[chain[len(chain)-1]]
			// The last bit before an arrow is straight, and so is the first of an
			// edge that leaves beside one: they bend alike and don't cross.
			leave, arrive := bottom[first.rank], top[last.rank]
			if arrowBelow[first.node] {
				leave += arrowRoom
			}
			if arrowAbove[last.node] {
				arrive -= arrowRoom
			}
			pts := []Point{{outPort[i], at[first.node].Y + at[first.node].H}, {outPort[i], leave}}
			for _, c := range chain[1 : len(chain)-1] {
				v := &a.vertices[c]
				pts = append(pts, Point{v.x, top[v.rank]}, Point{v.x, bottom[v.rank]})
				if v.label {
					label = Rect{X: v.x - v.w/2, Y: (top[v.rank]+bottom[v.rank])/2 - v.h/2, W: v.w, H: v.h}
				}
			}
			pts = append(pts, Point{inPort[i], arrive}, Point{inPort[i], at[last.node].Y})
			r.Points = straighten(pts)
			if a.reversed[i] {
				slices.Reverse(r.Points)
			}
		}
		if r.LabelRect != nil {
			*r.LabelRect = label
		}
	}

	for i, v := range p.nodes {
		nodes[v].Rect = at[i]
	}
	if lo.horizontal {
		for _, v := range p.nodes {
			nodes[v].Rect = nodes[v].Rect.transposed()
		}
		for _, e := range p.edges {
			for k, q := range routes[e].Points {
				routes[e].Points[k] = Point{q.Y, q.X}
			}
			if r := routes[e].LabelRect; r != nil {
				*r = r.transposed()
			}
		}
	}
	w, h := lo.flip(width, height)
	return w, h
}

// portCounts is how many edges meet at the busier side of every node.
func portCounts(n int, links []link) []int {
	lower, upper := make([]int, n), make([]int, n)
	for i, reversed := range breakCycles(n, links) {
		l := links[i]
		switch {
		case l.from == l.to:
		case reversed:
			lower[l.to]++
			upper[l.from]++
		default:
			lower[l.from]++
			upper[l.to]++
		}
	}
	for i := range lower {
		lower[i] = max(lower[i], upper[i])
	}
	return lower
}

func (r Rect) transposed() Rect { return Rect{X: r.Y, Y: r.X, W: r.H, H: r.W} }

// levels gives every rank its top and bottom. The gap between two ranks is
// least, or wide when only nodes meet there, and more when edges have far to go
// sideways.
func (a *arrangement) levels(least, wide float64) (top, bottom []float64) {
	y := 0.0
	for r, layer := range a.layers {
		h, nodes := 0.0, false
		for _, v := range layer {
			h = max(h, a.vertices[v].h)
			nodes = nodes || a.vertices[v].node >= 0
		}
		top, bottom = append(top, y), append(bottom, y+h)
		if r+1 == len(a.layers) {
			break
		}
		gap := least
		if nodes && slices.ContainsFunc(a.layers[r+1], func(v int) bool { return a.vertices[v].node >= 0 }) {
			gap = wide
		}
		far := 0.0
		for _, v := range layer {
			for _, w := range a.vertices[v].down {
				far = max(far, math.Abs(a.vertices[v].x-a.vertices[w].x))
			}
		}
		y += h + gap + min(max(far-100, 0)*0.08, 64)
	}
	return top, bottom
}

// ports spreads the ends of the edges over the lower and the upper sides of
// their nodes, each as close as it can to where the edge comes from. x is the middle
// of a vertex; side is where on a node n ends may be, and how far apart.
func (a *arrangement) ports(x func(v int) float64, side func(v, n int) (low, high, sep float64)) (out, in []float64) {
	out, in = make([]float64, len(a.chains)), make([]float64, len(a.chains))
	lower, upper := make([][]int, len(a.vertices)), make([][]int, len(a.vertices))
	for i, c := range a.chains {
		if c != nil {
			lower[c[0]] = append(lower[c[0]], i)
			upper[c[len(c)-1]] = append(upper[c[len(c)-1]], i)
		}
	}
	spread := func(v int, ends []int, next func(link int) int, set []float64) {
		if len(ends) < 2 {
			for _, i := range ends {
				set[i] = x(v)
			}
			return
		}
		slices.SortStableFunc(ends, func(i, j int) int {
			return cmp.Or(cmp.Compare(a.vertices[next(i)].pos, a.vertices[next(j)].pos), cmp.Compare(i, j))
		})
		low, high, sep := side(v, len(ends))
		want := make([]float64, len(ends))
		for k, i := range ends {
			want[k] = min(max(x(next(i)), low), high)
		}
		for k, at := range apart(want, sep, low, high) {
			set[ends[k]] = at
		}
	}
	for v := range a.vertices {
		spread(v, lower[v], func(i int) int { return a.chains[i][1] }, out)
		spread(v, upper[v], func(i int) int { return a.chains[i][len(a.chains[i])-2] }, in)
	}
	return out, in
}

// apart moves values, given in order, at least sep from one another and as
// little as possible in sum of squares: pool adjacent violators. They stay
// within low and high, which must have the room.
func apart(want []float64, sep, low, high float64) []float64 {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for i, x := range want {
		pools = append(pools, pool{x - float64(i)*sep, 1})
		for k := len(pools) - 1; k > 0 && pools[k-1].sum/float64(pools[k-1].n) > pools[k].sum/float64(pools[k].n); k-- {
			pools[k-1].sum += pools[k].sum
			pools[k-1].n += pools[k].n
			pools = pools[:k]
		}
	}
	var xs []float64
	for _, p := range pools {
		for range p.n {
			i := float64(len(xs))
			// Bounds on the value without its offset keep order and distance.
			x := min(max(p.sum/float64(p.n), low), high-float64(len(want)-1)*sep)
			xs = append(xs, x+i*sep)
		}
	}
	return xs
}

// straighten drops points that repeat or lie inside a straight run down.
func straighten(pts []Point) []Point {
	out := pts[:1]
	for _, p := range pts[1:] {
		last := out[len(out)-1]
		if p == last {
			continue
		}
		if len(out) > 1 && p.X == last.X && out[len(out)-2].X == last.X {
			out[len(out)-1] = p
			continue
		}
		out = append(out, p)
	}
	return out
}

// Curve is the smooth way of the edge as a chain of cubic Bézier curves: a
// start, then three points for each curve.
func (e *EdgeRoute) Curve() []Point {
	if len(e.Points) == 0 {
		return nil
	}
	if e.FromNode == e.ToNode {
		return roundedLine(e.Points, 8)
	}
	curve := []Point{e.Points[0]}
	for i := 1; i < len(e.Points); i++ {
		p, q := e.Points[i-1], e.Points[i]
		if e.Horizontal {
			mid := (p.X + q.X) / 2
			curve = append(curve, Point{mid, p.Y}, Point{mid, q.Y}, q)
		} else {
			mid := (p.Y + q.Y) / 2
			curve = append(curve, Point{p.X, mid}, Point{q.X, mid}, q)
		}
	}
	return curve
}

// roundedLine turns a polyline into a curve with corners of at most radius r.
func roundedLine(pts []Point, r float64) []Point {
	curve := []Point{pts[0]}
	line := func(q Point) {
		p := curve[len(curve)-1]
		curve = append(curve, lerp(p, q, 1./3), lerp(p, q, 2./3), q)
	}
	for i := 1; i < len(pts)-1; i++ {
		a, b, c := pts[i-1], pts[i], pts[i+1]
		ab, bc := math.Hypot(b.X-a.X, b.Y-a.Y), math.Hypot(c.X-b.X, c.Y-b.Y)
		d := min(r, ab/2, bc/2)
		if d == 0 {
			continue
		}
		p, q := lerp(b, a, d/ab), lerp(b, c, d/bc)
		line(p)
		curve = append(curve, lerp(p, b, 0.55), lerp(q, b, 0.55), q)
	}
	line(pts[len(pts)-1])
	return curve
}

func lerp(a, b Point, t float64) Point {
	return Point{a.X + (b.X-a.X)*t, a.Y + (b.Y-a.Y)*t}
}

// pathData writes a chain of cubic curves as SVG path data, its straight
// pieces as lines.
func pathData(curve []Point, closed bool) string {
	if len(curve) == 0 {
		return ""
	}
	var b []byte
	point := func(p Point) {
		b = appendNumber(b, p.X)
		b = append(b, ' ')
		b = appendNumber(b, p.Y)
	}
	b = append(b, 'M')
	point(curve[0])
	for i := 1; i+2 < len(curve); i += 3 {
		p, c1, c2, q := curve[i-1], curve[i], curve[i+1], curve[i+2]
		if straight(p, c1, c2, q) {
			b = append(b, 'L')
			point(q)
			continue
		}
		b = append(b, 'C')
		point(c1)
		b = append(b, ' ')
		point(c2)
		b = append(b, ' ')
		point(q)
	}
	if closed {
		b = append(b, 'Z')
	}
	return string(b)
}

// straight says whether both control points lie on the line from p to q.
func straight(p, c1, c2, q Point) bool {
	off := func(c Point) bool {
		return math.Abs((q.X-p.X)*(c.Y-p.Y)-(q.Y-p.Y)*(c.X-p.X)) > 0.01*(1+math.Hypot(q.X-p.X, q.Y-p.Y))
	}
	return !off(c1) && !off(c2)
}

// appendNumber writes a coordinate with at most two decimals.
func appendNumber(b []byte, f float64) []byte {
	f = round(f)
	if f == 0 {
		f = 0 // no negative zero
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}
